"""Weights on disk, as safetensors; written to a temporary file and renamed, so that no file is ever half-written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import DataError
from weft.functions.creation import asarray
from weft.nn.module import Module


def save(path: str | os.PathLike, arrays: Module | dict[str, Any]) -> None:
    """Write a Module's arrays, or a dict of Arrays, to a safetensors file.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> wf.io.save(path, {"w": wf.ones(3)})
    >>> wf.io.load(path)["w"].tolist()
    [1.0, 1.0, 1.0]
    """
    from safetensors.numpy import save as pack

    named = arrays.arrays() if isinstance(arrays, Module) else arrays
    content = pack({k: np.ascontiguousarray(v.numpy() if isinstance(v, Array) else v) for k, v in named.items()})
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name + ".")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike) -> dict[str, Array]:
    """Read a safetensors file.

    Raises
    ------
    DataError
        when the file is missing, damaged or no safetensors file.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> wf.io.save(path, {"w": wf.ones((2, 3))})
    >>> wf.io.load(path)["w"].shape
    (2, 3)
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack

    source = Path(path)
    if not source.is_file():
        raise DataError(f"no weight file at {source}")
    try:
        arrays = unpack(source.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise DataError(f"{source} is damaged or no safetensors file: {error}") from None
    return {name: asarray(value) for name, value in arrays.items()}


def load_into(model: Module, path: str | os.PathLike) -> Module:
    """Read weights into a model; nothing is written unless every name and shape fits.

    Raises
    ------
    DataError
        when the file is unreadable, or its names or shapes are not the model's.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> net, other = wf.nn.Linear(3, 2), wf.nn.Linear(3, 2)
    >>> wf.io.save(path, net)
    >>> bool((wf.io.load_into(other, path).weight == net.weight).all())
    True
    """
    fresh, own = load(path), model.arrays()
    missing, foreign = sorted(own.keys() - fresh.keys()), sorted(fresh.keys() - own.keys())
    if missing or foreign:
        raise DataError(f"{path} does not fit the model: missing {missing or 'nothing'}, not in the model {foreign or 'nothing'}")
    for name, array in own.items():
        if fresh[name].shape != array.shape:
            raise DataError(f"{path}: {name!r} has shape {fresh[name].shape}, the model's has {array.shape}")
    for name, array in own.items():
        array[...] = fresh[name]
    return model
