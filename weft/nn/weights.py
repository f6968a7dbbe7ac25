"""Weights on disk: safetensors with checksums, never half-written and never half-loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from weft.array import Array
from weft.array.convert import refuse_subclass
from weft.dtypes.api import as_dtype, is_float
from weft.errors import DataError, DTypeError, warn
from weft.functions.creation.fill import asarray
from weft.nn.module_tree import ModuleTree
from weft.nn.weight_file import pack, unpack
from weft.process.files import read, target, write_whole

Model = TypeVar("Model", bound=ModuleTree)
COUNTER = "num_batches_tracked"  # PyTorch's batch norm counts its batches; nothing here depends on that number


def save(path: str | os.PathLike, arrays: ModuleTree | dict[str, Any], dtype: Any = None) -> None:
    """Write a Module's arrays, or a dict of Arrays, to a safetensors file with a checksum of each.

    The file is written beside ``path`` and renamed: there is always the old file or the new one, whole. An old file's mode
    stays. What a stateful layer keeps between batches is no weight, and is left out.

    Parameters
    ----------
    path : where to; its folder must exist
    arrays : Module or dict of name -> array
    dtype : float dtype, optional
        What arrays of floats are stored as, "float16" say; others stay as they are. Numbers that become infinite are
        warned of, with the tensor's name.

    Raises
    ------
    DTypeError
        when ``dtype`` is no float dtype; when ``arrays`` is neither Module nor dict.
    DataError
        when there is something at ``path`` that is no regular file, a device say.
    FileNotFoundError, PermissionError
        when the folder does not exist; when file or folder are read-only.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> wf.io.save(path, {"w": wf.ones(3)}, dtype="float16")
    >>> wf.io.load(path)["w"].dtype
    dtype('float16')
    """
    stored = None if dtype is None else as_dtype(dtype)
    if stored is not None and not is_float(stored):
        raise DTypeError(f"save: dtype must be a float dtype such as 'float16', not {dtype!r}")
    target(path, "save")  # before the work
    if not isinstance(arrays, ModuleTree | Mapping):
        raise DTypeError(f"save: arrays must be a Module or a dict of name -> array, not a {type(arrays).__name__}")
    named = _lasting(arrays) if isinstance(arrays, ModuleTree) else arrays
    content = {}
    for name, array in named.items():
        refuse_subclass(array)
        held = array.numpy() if isinstance(array, Array) else np.asarray(array)
        fits = stored is not None and is_float(held.dtype)
        content[name] = _cast(held, stored, f"save: {name!r}") if fits else held
    write_whole(path, pack(content))


def load(path: str | os.PathLike) -> dict[str, Array]:
    """Read a safetensors file. Checksums that :func:`save` wrote are checked; other programs' files have none.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict from names to Arrays

    Raises
    ------
    DataError
        when the file is missing, cut off, altered (even by one bit) or no safetensors file; it says what is wrong and
        where.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> wf.io.save(path, {"w": wf.ones((2, 3))})
    >>> wf.io.load(path)["w"].shape
    (2, 3)
    """
    return {name: asarray(value) for name, value in _read(path).items()}


def load_into(model: Model, path: str | os.PathLike) -> Model:
    """Read weights into a model; nothing is written unless every name, shape and dtype fits. Floats take the model's dtype.

    Files of PyTorch models have PyTorch's names, which are those of weft's layers; their counters ``num_batches_tracked``
    are left out.

    Parameters
    ----------
    model : Module
    path : str or path

    Returns
    -------
    ``model``

    Raises
    ------
    DataError
        when the file is unreadable (see :func:`load`), or its names, shapes or dtypes are not the model's.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> net, other = wf.nn.Linear(3, 2), wf.nn.Linear(3, 2)
    >>> wf.io.save(path, net)
    >>> bool((wf.io.load_into(other, path).weight == net.weight).all())
    True
    """
    fresh, own = _read(path), _lasting(model)
    missing = sorted(own.keys() - fresh.keys())
    short_lived = passing(model)
    foreign = sorted(n for n in fresh.keys() - own.keys() if n not in short_lived and not _is_counter(n, fresh[n]))
    if missing or foreign:
        raise DataError(
            f"{path} does not fit the model: missing {_few(missing)}, not in the model {_few(foreign)}" + _unmade(model, foreign)
        )
    for name, array in own.items():
        value = fresh[name]
        if value.shape != array.shape:
            raise DataError(f"{path}: {name!r} has shape {value.shape}, the model's has {array.shape}")
        if value.dtype != array.dtype and not (is_float(value.dtype) and is_float(array.dtype)):
            raise DataError(f"{path}: {name!r} has dtype {value.dtype}, the model's has {array.dtype}")
    ready = {name: asarray(_cast(fresh[name], array.dtype, f"load: {name!r}")) for name, array in own.items()}
    for name, array in own.items():
        array[...] = ready[name]
    return model


def _read(path: str | os.PathLike) -> dict[str, np.ndarray]:
    return unpack(read(path, "weight file"), os.fspath(path))


def _cast(array: np.ndarray, dtype: Any, what: str) -> np.ndarray:
    """``array`` as ``dtype``, with a warning where numbers become infinite."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        out = array.astype(dtype)
    lost = np.isinf(out) & np.isfinite(array)
    if lost.any():
        largest = float(np.abs(array[lost].astype(np.float64)).max())
        warn(
            f"{what}: {int(lost.sum())} of {array.size} numbers are too large for {np.dtype(dtype).name} and become infinite "
            f"(the largest is {largest:.6g})"
        )
    return out


def _lasting(model: ModuleTree) -> dict[str, Array]:
    """A model's arrays without what stateful layers keep between batches."""
    short_lived = passing(model)
    return {name: array for name, array in model.arrays().items() if name not in short_lived}


def passing(model: ModuleTree) -> set[str]:
    """Names of what stateful layers keep between batches, whether it is there or not."""
    layers = [(prefix, m) for prefix, m in model.modules() if hasattr(m, "reset_state")]
    return {f"{prefix}.{name}" if prefix else name for prefix, m in layers for name in m.buffers}


def _is_counter(name: str, array: np.ndarray) -> bool:
    return name.rpartition(".")[2] == COUNTER and array.dtype.kind in "iu" and array.size == 1


def _few(names: list[str]) -> str:
    """Names for a sentence: all of a few, the first of many."""
    if len(names) > 6:
        return f"{names[:5]} and {len(names) - 5} more"
    return str(names) if names else "nothing"


def _unmade(model: ModuleTree, foreign: list[str]) -> str:
    """A hint where a layer has no weights yet since its width was left out."""
    modules = dict(model.modules())
    for name in foreign:
        prefix, _, last = name.rpartition(".")
        if prefix in modules and modules[prefix].__dict__.get(last, 0) is None:
            return f". The model has no {name!r} yet: if a width was left out, call it once on a batch first, model(x[:1])"
    return ""
