"""Weights on disk: safetensors with checksums; files are written, and models loaded, completely or not at all."""

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
from weft.process.files import read, target, write_atomically

Model = TypeVar("Model", bound=ModuleTree)
COUNTER = "num_batches_tracked"  # a batch norm's counter in files of PyTorch, which weft uses only with momentum=None


def save(path: str | os.PathLike, arrays: ModuleTree | dict[str, Any], dtype: Any = None) -> None:
    """Write a Module's arrays, or a dict of Arrays, to a safetensors file with a checksum of each.

    The file is written beside ``path`` and renamed, so that ``path`` always contains the complete old or new file. The mode of
    an old file is kept. The state that a stateful layer keeps between batches is not saved.

    Parameters
    ----------
    path : str or path; its folder must exist
    arrays : Module or dict of name -> array
    dtype : float dtype, optional
        The dtype in which arrays of floats are stored, such as "float16"; others are stored as they are. If numbers become
        infinite, a warning names the tensor.

    Raises
    ------
    DTypeError
        ``dtype`` is not a float dtype; ``arrays`` is neither Module nor dict.
    DataError
        ``path`` exists and is not a regular file.
    FileNotFoundError, PermissionError
        The folder does not exist; file or folder are read-only.

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
    target(path, "save")  # raises before the arrays are computed
    if not isinstance(arrays, ModuleTree | Mapping):
        raise DTypeError(f"save: arrays must be a Module or a dict of name -> array, not a {type(arrays).__name__}")
    named = _weights_of(arrays) if isinstance(arrays, ModuleTree) else arrays
    content = {}
    for name, array in named.items():
        refuse_subclass(array)
        values = array.numpy() if isinstance(array, Array) else np.asarray(array)
        is_cast = stored is not None and is_float(values.dtype)
        content[name] = _cast(values, stored, f"save: {name!r}") if is_cast else values
    write_atomically(path, pack(content))


def load(path: str | os.PathLike) -> dict[str, Array]:
    """Read a safetensors file. The checksums that :func:`save` writes are verified; other programs' files have none.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict from names to Arrays

    Raises
    ------
    DataError
        The file is missing, cut off, altered (even by one bit) or not a safetensors file; the message says what is wrong and
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
    are ignored if the model has none.

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
        The file cannot be read (see :func:`load`), or its names, shapes or dtypes do not fit the model.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> net, other = wf.nn.Linear(3, 2), wf.nn.Linear(3, 2)
    >>> wf.io.save(path, net)
    >>> bool((wf.io.load_into(other, path).weight == net.weight).all())
    True
    """
    loaded, own = _read(path), _weights_of(model)
    missing = sorted(own.keys() - loaded.keys())
    state_names = recurrent_state_names(model)
    unexpected = sorted(n for n in loaded.keys() - own.keys() if n not in state_names and not _is_counter(n, loaded[n]))
    if missing or unexpected:
        difference = f"missing {_list_names(missing)}, not in the model {_list_names(unexpected)}"
        raise DataError(f"{path} does not fit the model: {difference}{_width_hint(model, unexpected)}")
    for name, array in own.items():
        value = loaded[name]
        if value.shape != array.shape:
            raise DataError(f"{path}: {name!r} has shape {value.shape}, the model's has {array.shape}")
        if value.dtype != array.dtype and not (is_float(value.dtype) and is_float(array.dtype)):
            raise DataError(f"{path}: {name!r} has dtype {value.dtype}, the model's has {array.dtype}")
    ready = {name: asarray(_cast(loaded[name], array.dtype, f"load: {name!r}")) for name, array in own.items()}
    for name, array in own.items():
        array[...] = ready[name]
    return model


def _read(path: str | os.PathLike) -> dict[str, np.ndarray]:
    return unpack(read(path, "weight file"), os.fspath(path))


def _cast(array: np.ndarray, dtype: Any, context: str) -> np.ndarray:
    """Convert ``array`` to ``dtype``; warn if numbers become infinite."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        out = array.astype(dtype)
    lost = np.isinf(out) & np.isfinite(array)
    if lost.any():
        largest = float(np.abs(array[lost].astype(np.float64)).max())
        warn(
            f"{context}: {int(lost.sum())} of {array.size} numbers are too large for {np.dtype(dtype).name} and become infinite "
            f"(the largest is {largest:.6g})"
        )
    return out


def _weights_of(model: ModuleTree) -> dict[str, Array]:
    """Return a model's arrays without the state that stateful layers keep between batches."""
    state_names = recurrent_state_names(model)
    return {name: array for name, array in model.arrays().items() if name not in state_names}


def recurrent_state_names(model: ModuleTree) -> set[str]:
    """Return the names under which stateful layers keep state between batches, whether it exists or not."""
    layers = [(prefix, m) for prefix, m in model.modules() if hasattr(m, "reset_state")]
    return {f"{prefix}.{name}" if prefix else name for prefix, m in layers for name in m.buffers}


def _is_counter(name: str, array: np.ndarray) -> bool:
    return name.rpartition(".")[2] == COUNTER and array.dtype.kind in "iu" and array.size == 1


def _list_names(names: list[str]) -> str:
    """Return names for a sentence: all of a few, the first of many."""
    if len(names) > 6:
        return f"{names[:5]} and {len(names) - 5} more"
    return str(names) if names else "nothing"


def _width_hint(model: ModuleTree, unexpected: list[str]) -> str:
    """Return a hint if a layer has no weights yet because its width was left out."""
    modules = dict(model.modules())
    for name in unexpected:
        prefix, _, last = name.rpartition(".")
        if prefix in modules and modules[prefix].__dict__.get(last, 0) is None:
            return f". The model has no {name!r} yet: if a width was left out, call it once on a batch first, model(x[:1])"
    return ""
