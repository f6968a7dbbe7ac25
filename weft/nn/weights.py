"""Weights on disk: safetensors, with a sha256 of every tensor and of the header in the metadata.

A file written here is rejected if any bit has changed; of files without checksums the structure is checked. Reading takes time
and memory in proportion to the size of the file, whatever its content: numbers are short, nothing is hashed twice, and the form
of a long header is checked before it is parsed into objects. Files are written, and models loaded, completely or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import operator
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from weft.array import Array
from weft.array.convert import refuse_subclass
from weft.dtypes.api import as_dtype, is_float
from weft.dtypes.formats import FORMATS, FROM_NUMPY
from weft.dtypes.formats import named as format_named
from weft.dtypes.rounding import convert_array
from weft.eager.materialise import read_array
from weft.errors import DataError, DTypeError, warn
from weft.functions.creation.fill import asarray
from weft.nn.module_tree import ModuleTree, find_aliases
from weft.nn.weight_names import (
    Rename,
    advise_on_difference,
    describe_difference,
    hint_at_width,
    is_counter,
    list_names,
    rename_arrays,
    short_repr,
)
from weft.process.docstrings import complete_module
from weft.process.files import read, target, write_atomically

DTYPES = {form.code: form.numpy for form in FORMATS.values() if form.code}
MAX_HEADER = 100_000_000  # the limit of the safetensors library
MAX_DIMENSIONS, MAX_DIGITS, MAX_BYTES = 64, 20, (1 << 63) - 1  # NumPy's limit; digits and bytes of 64-bit numbers
LONG_HEADER = 1 << 20  # bytes above which the form of a header is checked before it is parsed
# a header without blanks and with each string shortened to a quote: tables of strings and lists of ints, in one table
HEADER_FORM = re.compile(rb'\{(?:(?:,|(?<=\{))":\{(?:(?:,|(?<=\{))":(?:"|\[(?:\d++,?+)*+\]))*+\})*+\}')
STRING, BLANKS = re.compile(rb'"(?:[^"\\]|\\.)*+"'), re.compile(rb"[ \t\r\n]++")
META, HEADER, TENSOR, FORMAT, STORED, DICTS, TEXT = (
    "__metadata__", "weft.sha256", "sha256:", "weft.dtype:", "weft.quantized:", "weft.dicts", "weft.text:",
)
BLANK = "0" * 64
_OTHER_FORMATS = {  # suffix: whose format it promises, and how to write or read such files
    **dict.fromkeys((".pt", ".pth"), ("PyTorch", ", which safetensors.torch.load_file reads")),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), ("Keras", "")),
    **dict.fromkeys((".pkl", ".pickle"), ("pickle", "")),
    ".npy": ("NumPy", "; wf.save(path, array) writes .npy"),
    ".onnx": ("ONNX", "; wf.io.save_onnx(model, sample, path) writes ONNX files"),
}
_REPAIR = ". Copy, download or save it again"
_FROM_TORCH = "in PyTorch, safetensors.torch.save_file(model.state_dict(), path) writes a file that weft reads"
_AS_NPZ = "numpy.savez(path, **arrays) writes a .npz that weft reads"
OTHER_FORMATS = {  # first bytes of files that users mistake for weight files
    b"PK\3\4": "it is a zip archive, as torch.save and numpy.savez write",
    b"\x93NUMPY": f"it is NumPy's .npy, which has no names: {_AS_NPZ}",
    b"\x89HDF\r\n": f"it is HDF5, as Keras writes: {_AS_NPZ}",
    b"GGUF": f"it is a GGUF file: {_AS_NPZ}",
    b"\x80\2\x8a\nl\xfc": f"it was written by an older version of torch.save: {_FROM_TORCH}",
    **dict.fromkeys(
        (b"\x80\4\x95", b"\x80\5\x95", b"\x80\2}", b"\x80\3}"), f"it is a Python pickle, which may run any program: {_AS_NPZ}",
    ),
    b"version https://git-lfs": "it is a pointer of Git LFS, not the file itself: `git lfs pull` downloads that",
    **dict.fromkeys(
        (b"<!DOCTYPE", b"<!doctype", b"<html", b"<?xml"), "it is a web page, as a failed download leaves: download the file",
    ),
    b'{"': "it is JSON",
}


def pack(
    arrays: dict[str, np.ndarray], stored_forms: Mapping[str, str] = {}, dicts: Sequence[str] = (), texts: Mapping[str, str] = {},
) -> bytes:
    """Return the content of a weight file; raise DataError if the format does not support a name or dtype.

    stored_forms, texts : by the names of modules, see :class:`ModuleTree`
    dicts : names of nested dicts
    """
    for name in arrays:
        if not isinstance(name, str):
            raise DataError(f"a tensor's name must be a str, not {name!r}")
        if not name.isascii() and name.encode("utf-8", "replace").decode() != name:
            raise DataError(f"a tensor cannot be called {name!r}: the name cannot be encoded as UTF-8")
    ordered = sorted(arrays.items(), key=lambda kv: (-kv[1].dtype.itemsize, kv[0]))  # large elements first, to align all
    metadata, entries, parts, at = {"format": "weft", HEADER: BLANK}, {}, [], 0
    metadata.update((STORED + name, form) for name, form in stored_forms.items())
    metadata.update((TEXT + name, text) for name, text in texts.items())
    if dicts:
        metadata[DICTS] = json.dumps(dicts)
    for name, array in ordered:
        if name == META:
            raise DataError(f"a tensor cannot be called {META!r}")
        native = array.dtype.newbyteorder("=")
        form = FROM_NUMPY.get(native)
        if form is None or form.kind == "complex":
            fix = ": save its .real and .imag, or write a .npz" if array.dtype.kind == "c" else ""
            raise DataError(f"save: {name!r} has dtype {array.dtype}, which a weight file cannot hold{fix}")
        raw = np.ascontiguousarray(array, dtype=native).tobytes()
        metadata[TENSOR + name] = hashlib.sha256(raw).hexdigest()
        if not form.code:  # stored as unsigned integers
            metadata[FORMAT + name] = form.name
        code = form.code or f"U{8 * form.bytes}"
        entries[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    header = json.dumps({META: metadata, **entries}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise DataError(f"{len(arrays)} tensors need a header of {len(header)} bytes, a weight file's has {MAX_HEADER} at most")
    header = header.replace(BLANK.encode(), hashlib.sha256(header).hexdigest().encode(), 1)
    return b"".join([len(header).to_bytes(8, "little"), header, *parts])


def unpack(content: bytes, source: Any) -> dict[str, np.ndarray]:
    """Return the arrays of :func:`unpack_all`."""
    return unpack_all(content, source)[0]


def unpack_all(content: bytes, source: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Check a weight file's content and return its arrays and metadata; ``source`` is the name of the file in errors.

    Raise DataError if the content is damaged or not a weight file, and no other error, whatever the content.
    """
    entries, metadata, raw = _read_header(content, source)
    start = 8 + len(raw)
    data = memoryview(content)[start:]
    is_from_weft = "weft" in metadata.values() or any(k == HEADER or k.startswith(TENSOR) for k in metadata)
    if is_from_weft:
        checksum = metadata.get(HEADER, "")
        blank = raw.replace(checksum.encode(), BLANK.encode(), 1) if len(checksum) == 64 else raw
        if hashlib.sha256(blank).hexdigest() != checksum:
            raise DataError(f"{source} is damaged: its header (bytes 8 to {start}) does not match its checksum{_REPAIR}")
    tensors = {name: _check_entry(name, entry, len(data), source) for name, entry in entries.items()}
    _check_spans(((begin, end, name) for name, (_, _, begin, end) in tensors.items()), len(data), source)
    arrays = {}
    for name, (dtype, shape, begin, end) in tensors.items():
        part, problem = data[begin:end], ""
        if is_from_weft and metadata.get(TENSOR + name) != hashlib.sha256(part).hexdigest():
            problem = "does not match its checksum"
        elif dtype == np.bool_ and end > begin and np.frombuffer(part, np.uint8).max() > 1:
            problem = "holds bytes other than 0 and 1, but is of bools"
        if problem:
            where = f"tensor {short_repr(name)} (bytes {start + begin} to {start + end})"
            raise DataError(f"{source} is damaged: {where} {problem}{_REPAIR}")
        if (form_name := metadata.get(FORMAT + name)) is not None:
            dtype = _dtype_of(form_name, dtype, f"{source}: tensor {short_repr(name)}")
        arrays[name] = np.frombuffer(part, dtype).reshape(shape)
    return arrays, metadata


def read_layout(path: str | os.PathLike) -> dict[str, tuple[np.dtype, tuple[int, ...], int, int]]:
    """Return dtype, shape, and first and last byte in the file of each tensor of a safetensors file, of which the header is read.

    Raise DataError if the header is damaged, or does not fit the size of the file. Checksums of tensors are not verified.
    """
    source = os.fspath(path)
    with open(path, "rb") as file:
        start, size = file.read(8), os.fstat(file.fileno()).st_size
        length = int.from_bytes(start, "little")
        content = start + file.read(length if length <= MAX_HEADER else 64)
    entries, metadata, raw = _read_header(content, source)
    offset = 8 + len(raw)
    out = {}
    for name, entry in entries.items():
        dtype, shape, begin, end = _check_entry(name, entry, size - offset, source)
        if (form_name := metadata.get(FORMAT + name)) is not None:
            dtype = _dtype_of(form_name, dtype, f"{source}: tensor {short_repr(name)}")
        out[name] = dtype, shape, offset + begin, offset + end
    return out


def _dtype_of(name: str, cell: np.dtype, where: str) -> np.dtype:
    """Return the dtype of a name in the metadata. cell : the unsigned integers that hold its bits"""
    try:
        form = format_named(name)
    except (KeyError, ValueError):
        form = None
    if form is None or form.bytes != cell.itemsize:
        raise DataError(f"{where} has the dtype {name!r}, which this version does not have")
    return form.numpy


def _check_spans(spans: Iterable[tuple[int, int, str]], size: int, source: Any) -> None:
    """Raise if tensors leave a gap or overlap."""
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise _file_error(
                source, f"tensor {short_repr(name)} begins at byte {begin} of the data, the one before it ends at {at}"
            )
        at = end
    if at != size:
        raise _file_error(source, f"its tensors take {at} bytes, but {size} follow the header")


def _read_header(content: bytes, source: Any) -> tuple[dict[str, Any], dict[str, str], bytes]:
    """Return the entries of the tensors, the metadata and the bytes of the header."""
    if len(content) < 8:
        raise _file_error(source, f"it has {len(content)} bytes, a header needs more than 8")
    length = int.from_bytes(content[:8], "little")
    if length > min(len(content) - 8, MAX_HEADER):
        if cause := next((text for start, text in OTHER_FORMATS.items() if content.startswith(start)), ""):
            raise DataError(f"{source} is no weight file: {cause}")
        promise = f"its first 8 bytes promise a header of {length} bytes, {len(content) - 8} follow"
        raise _file_error(source, f"{promise}: cut off or altered")
    raw = content[8 : 8 + length]
    if length > LONG_HEADER and not HEADER_FORM.fullmatch(BLANKS.sub(b"", STRING.sub(b'"', raw))):
        raise _file_error(source, f"its header (bytes 8 to {8 + length}) is no table of tensors")
    try:
        entries = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique_names, parse_int=short_int)
    except (ValueError, RecursionError) as error:
        raise _file_error(source, f"its header (bytes 8 to {8 + length}) cannot be read: {error}") from None
    if not isinstance(entries, dict):
        raise _file_error(source, "its header is no table of tensors")
    metadata = entries.pop(META, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _file_error(source, "its metadata is no table of texts")
    return entries, metadata, raw


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a table; raise if a name occurs twice or a text cannot be encoded."""
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"{short_repr(name)} is there twice")
        name.encode()  # raises for lone surrogates
        if isinstance(value, str):
            value.encode()
        table[name] = value
    return table


def short_int(digits: str, most: int = MAX_DIGITS) -> int:
    """Return an int; raise if it has more digits than ``most``, since long ones take quadratic time."""
    if len(digits) > most:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _check_entry(name: str, entry: Any, size: int, source: Any) -> tuple[np.dtype, tuple[int, ...], int, int]:
    """Return dtype, shape, begin and end of a tensor after checking its entry in the header."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _file_error(source, f"tensor {short_repr(name)} is not described by dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise _file_error(source, f"tensor {short_repr(name)} has dtype {short_repr(code)}; weft reads {', '.join(DTYPES)}")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise _file_error(
            source, f"tensor {short_repr(name)} has shape {short_repr(shape)} and data_offsets {short_repr(offsets)}"
        )
    if len(shape) > MAX_DIMENSIONS:
        raise _file_error(source, f"tensor {short_repr(name)} has {len(shape)} dimensions, an array has {MAX_DIMENSIONS} at most")
    begin, end = offsets
    itemsize = DTYPES[code].itemsize
    size_needed = math.prod(shape) * itemsize
    if end - begin != size_needed or math.prod(n for n in shape if n) * itemsize > MAX_BYTES:  # also if empty
        tensor = f"tensor {short_repr(name)} of {code} and shape {short_repr(tuple(shape))}"
        raise _file_error(source, f"{tensor} needs {size_needed} bytes, it is given {end - begin}")
    if end > size:
        raise _file_error(source, f"cut off: tensor {short_repr(name)} ends at byte {end} of the data, which has {size}")
    return DTYPES[code], tuple(shape), begin, end


def _are_counts(x: Any) -> bool:
    """Return whether ``x`` is a list of ints from 0 to ``MAX_BYTES``."""
    return isinstance(x, list) and all(type(i) is int and 0 <= i <= MAX_BYTES for i in x)


def _file_error(source: Any, why: str) -> DataError:
    return DataError(f"{source} is damaged or no safetensors file: {why}{_REPAIR}")


Model = TypeVar("Model")


def save(path: str | os.PathLike, arrays: Any, dtype: Any = None) -> None:
    """Write arrays, Modules and optimizers to a safetensors file with a checksum of each array, or to NumPy's ``.npz``.

    The file is written beside ``path`` and renamed, so that ``path`` always contains the complete old or new file. The mode of
    an old file is kept. The state that a stateful layer keeps between batches is not saved.

    Parameters
    ----------
    path : str or path; its folder must exist. One that ends in ``.npz`` gets NumPy's format, without checksums
    arrays : Module, optimizer, or dict of name -> array, number, Module, optimizer or dict of these
        Nested names are joined with dots. Of an optimizer its state and its rate are saved, not its other options.
    dtype : float dtype, optional
        The dtype in which arrays of floats are stored, such as "float16"; others are stored as they are. If numbers become
        infinite, a warning names the tensor.

    Raises
    ------
    DTypeError
        ``dtype`` is not a float dtype; a value is no array of numbers.
    DataError
        ``path`` exists and is not a regular file; two values have one name; the format does not support a dtype.
    FileNotFoundError, PermissionError
        The folder does not exist; file or folder are read-only.

    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> wf.io.save(path, {"w": wf.ones(3)}, dtype="float16")
    >>> wf.io.load(path)["w"].dtype
    dtype('float16')
    """
    if is_optimizer(dtype) or isinstance(dtype, ModuleTree):
        fix = "wf.io.save(path, {'model': model, 'optimizer': optimizer})"
        raise DTypeError(f"save: dtype is of the class {type(dtype).__name__}; several things are saved as a dict, {fix}")
    stored = None if dtype is None else as_dtype(dtype)
    if stored is not None and not is_float(stored):
        raise DTypeError(f"save: dtype must be a float dtype such as 'float16', not {dtype!r}")
    _check_path("save", path, "wf.io.save(path, arrays)")
    place = target(path, "save")  # raises before the arrays are computed
    _warn_of_suffix(place)
    if not isinstance(arrays, ModuleTree | Mapping) and not is_optimizer(arrays):
        raise DTypeError(
            f"save: arrays must be a Module, an optimizer or a dict of name -> array, not a {type(arrays).__name__}"
            + (": write {\"name\": array}" if isinstance(arrays, Array | np.ndarray | list | tuple) else "")
        )
    tree = _Tree("save", arrays)
    content = {}
    for name, array in tree.leaves.items():
        refuse_subclass(array)
        values = read_array(array.node) if isinstance(array, Array) else _as_values(name, array)
        is_cast = stored is not None and is_float(values.dtype)
        content[name] = _cast(values, stored, f"save: {name!r}") if is_cast else values
    texts = {name: module.stored_text for name, module in tree.texts.items()}
    if texts and place.suffix == ".npz":
        kind = type(next(iter(tree.texts.values()))).__name__
        raise DataError(f"save: {os.fspath(path)}: .npz holds arrays only, and not the texts of {kind}: write .safetensors")
    write_atomically(path, _pack_npz(content) if place.suffix == ".npz" else pack(content, tree.forms, tree.dicts, texts))


def _warn_of_suffix(place: Path) -> None:
    """Warn if a file's name promises another format than the one that is written."""
    owner, fix = _OTHER_FORMATS.get(place.suffix.lower(), ("", ""))
    if owner:
        name = f"{place.stem}.safetensors"
        warn(f"save: {place.name!r} gets the safetensors format, not that of {owner}: name it {name!r}{fix}")


def _check_path(function: str, path: Any, order: str) -> None:
    """Raise TypeError if ``path`` is no path. order : how the function is called"""
    if not isinstance(path, str | bytes | os.PathLike):
        fix = "give the path, not the open file" if hasattr(path, "read") else f"the arguments are {order}"
        raise TypeError(f"{function}: path must be a str or a path, not a {type(path).__name__}: {fix}")


def _as_values(name: str, value: Any) -> np.ndarray:
    """Return a value that is to be saved as a NumPy array; raise if it is none of numbers."""
    if isinstance(value, list | tuple) and any(isinstance(item, Array | np.ndarray | ModuleTree) for item in value):
        fix = f"give each a name, {{'{name}.0': ..., '{name}.1': ...}}"
        raise DTypeError(f"save: {name!r} is a {type(value).__name__} of {len(value)} arrays or models: {fix}")
    try:
        values = np.asarray(value)
    except ValueError:  # lists of several lengths
        kind = type(value).__name__
        raise DTypeError(f"save: {name!r} is a {kind} whose items have several lengths: give each a name") from None
    if values.dtype.kind in "OUSmM":
        what = f"{name!r} is a {type(value).__name__}, and a weight file holds arrays of numbers"
        raise DTypeError(f"save: {what}: leave it out, or write it as JSON")
    return values


def load(path: str | os.PathLike) -> dict[str, Any]:
    """Read a safetensors or ``.npz`` file. The checksums that :func:`save` writes are verified; other programs' have none.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict from names to Arrays, nested as the dicts were that :func:`save` wrote

    Raises
    ------
    DataError
        The file is missing, cut off, altered (even by one bit) or not a weight file; the message says what is wrong and where.

    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> wf.io.save(path, {"w": wf.ones((2, 3)), "more": {"steps": 7}})
    >>> wf.io.load(path)["more"]
    {'steps': array(7, dtype=int64)}
    """
    _check_path("load", path, "wf.io.load(path), or model.load(path)")
    arrays, metadata = _read(path)
    return _nest({name: asarray(value) for name, value in arrays.items()}, metadata.get(DICTS, "[]"), os.fspath(path))


def load_into(
    model: Model, path: str | os.PathLike, *, strict: bool = True, rename: Mapping[str, str | None] | Rename | None = None,
) -> Model:
    """Read weights into a model; nothing is written unless every shape and dtype fits. Floats take the model's dtype.

    Files of PyTorch models have PyTorch's names, which are those of weft's layers; their counters ``num_batches_tracked``
    are ignored if the model has none. A weight that several layers share may have any of its names.

    Parameters
    ----------
    model : Module, optimizer, or a dict of these, of Arrays and of numbers, as :func:`save` takes
        Numbers of a dict are replaced in it. An optimizer without state gets it from the one Module beside it.
    path : str or path
    strict : bool
        False reads the names that are both in the file and in the model; a warning lists the others.
    rename : dict or function, optional
        From the file's names to the model's. A key of a dict is a name or its beginning (``{"encoder.": "0."}``); None, or a
        function's None, leaves a name out.

    Returns
    -------
    ``model``

    Raises
    ------
    DataError
        The file cannot be read (see :func:`load`), or its names, shapes, dtypes or formats of quantized weights do not fit the
        model.

    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> net, other = wf.nn.Linear(3, 2), wf.nn.Sequential(wf.nn.Linear(3, 2))
    >>> wf.io.save(path, net)
    >>> bool((wf.io.load_into(other, path, rename={"": "0."})[0].weight == net.weight).all())
    True
    """
    _check_path("load", path, "model.load(path), or wf.io.load_into(model, path)")
    loaded, metadata = _read(path)
    if isinstance(model, Mapping):
        _start_optimizers(model)
    elif is_optimizer(model) and model.step_count is None:  # type: ignore[attr-defined]
        raise DataError("load: the optimizer has no state yet: call optimizer.init(model) first")
    tree = _Tree("load", model)
    for name, form in tree.forms.items():
        if (of_file := metadata.get(STORED + name, form)) != form:
            raise DataError(f"{path}: {name!r} is {short_repr(of_file)[1:-1]}, the model's is {form}: quantize the model alike")
    texts = {}
    for name, module in tree.texts.items():
        if (text := metadata.get(TEXT + name)) is not None:
            try:
                texts[name] = module.parse_text(text)
            except DataError as error:
                raise DataError(f"{path} is damaged: {name or type(module).__name__!r}: {error}{_REPAIR}") from None
        elif strict and rename is None:
            owner = f"{name!r} ({type(module).__name__})"
            raise DataError(f"{path} has no texts for {owner}; strict=False leaves it as it is")
    own = tree.leaves
    loaded = rename_arrays(loaded, rename, path, own.keys())
    for other, first in tree.aliases.items():
        if other in loaded and other not in own:
            array = loaded.pop(other)
            if loaded.setdefault(first, array).tobytes() != array.tobytes():
                raise DataError(
                    f"{path}: {first!r} and {other!r} are one parameter of the model, but two arrays in the file, whose numbers "
                    f"differ; rename={{{other!r}: None}} leaves one out"
                )
    missing = {name: np.shape(value) for name, value in own.items() if name not in loaded}
    unexpected = {
        name: value.shape for name, value in loaded.items()
        if name not in own and name not in tree.state_names and not is_counter(name, value)
    }
    partial_load = ""
    if missing or unexpected:
        owner = "optimizer" if is_optimizer(model) else "model"
        difference = describe_difference(missing, unexpected, owner)
        if strict or len(missing) == len(own):
            advice = hint_at_width(model, unexpected) or _hint_at_kind(owner, missing, unexpected)
            advice = advice or advise_on_difference(missing, unexpected, owner, strict)
            raise DataError(f"{path} does not fit the {owner}: {difference}{advice}")
        partial_load = f"load: {len(own) - len(missing)} of the {owner}'s {len(own)} arrays were read from {path}: {difference}"
        own = {name: value for name, value in own.items() if name in loaded}
    _check_shapes({name: (loaded[name].shape, np.shape(array)) for name, array in own.items()}, path, strict)
    ready: dict[str, Any] = {}
    for name, array in own.items():
        value, dtype = loaded[name], np.asarray(array).dtype if not isinstance(array, Array) else array.dtype
        if not isinstance(array, Array):
            ready[name] = value.item()
        elif value.dtype != as_dtype(dtype) and not (is_float(value.dtype) and is_float(dtype)):
            given = FROM_NUMPY[value.dtype].name
            raise DataError(
                f"{path}: {name!r} has dtype {given}, the model's has {as_dtype(dtype).name}: read it by wf.io.load, cast it by "
                f".astype({as_dtype(dtype).name!r}), and save it again"
            )
        else:
            ready[name] = asarray(_cast(value, as_dtype(dtype), f"load: {name!r}"))
    for name, array in own.items():
        if isinstance(array, Array):
            array[...] = ready[name]
        else:
            tree.setters[name](ready[name])
    for name, content in texts.items():
        tree.texts[name].take_text(content)
    if partial_load:
        warn(partial_load)
    return model


def _hint_at_kind(owner: str, missing: Iterable[str], unexpected: Iterable[str]) -> str:
    """Return a hint if an optimizer's file was given for a model, or the reverse, or for another optimizer."""
    if owner == "optimizer" and "step_count" not in missing:
        return ". The file is of another optimizer, or of other options that need state"
    if owner == "optimizer":
        return ". The file holds no state of an optimizer, as optimizer.save(path) writes"
    return ". The file holds an optimizer's state: optimizer.load(path) reads it" if "step_count" in unexpected else ""


def _check_shapes(shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]], path: Any, strict: bool) -> None:
    """Raise if shapes differ. shapes : of the file and of the model, by name"""
    wrong = {name: pair for name, pair in shapes.items() if pair[0] != pair[1]}
    if not wrong:
        return
    name, (there, here) = next(iter(wrong.items()))
    more = list_names([f"{n}" for n in [*wrong][1:]])
    fix = f"rename={{{name!r}: None}}{' and strict=False leave' if strict else ' leaves'} it out"
    if len(there) > 1 and sorted(there) == sorted(here):
        order = ".T" if len(there) == 2 else f".transpose({', '.join(map(str, reversed(range(len(there)))))})"
        fix = f"its axes have another order, as in Keras and JAX: read it by wf.io.load, write array{order}, and save it again"
    raise DataError(
        f"{path}: {name!r} has shape {there}, the model's has {here}" + (f", and so for {more}" if more else "") + f"; {fix}"
    )


class _Tree:
    """The arrays and numbers in a Module, an optimizer or nested dicts, by dotted name.

    dicts : names of the dicts inside. forms, aliases, state_names : see :class:`ModuleTree`, :func:`find_aliases` and
    :func:`recurrent_state_names`. texts : the modules that have a ``stored_text``. setters : of the numbers
    """

    def __init__(self, function: str, tree: Any) -> None:
        self.function = function
        self.leaves: dict[str, Any] = {}
        self.dicts: list[str] = []
        self.forms: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.state_names: set[str] = set()
        self.texts: dict[str, Any] = {}
        self.setters: dict[str, Callable[[Any], None]] = {}
        self._add("", tree)

    def _add(self, name: str, value: Any) -> None:
        prefix = f"{name}." if name else ""
        if isinstance(value, ModuleTree):
            for inner, array in _weights_of(value).items():
                self._put(prefix + inner, array)
            self.forms |= {prefix + inner: form for inner, form in _stored_forms(value).items()}
            self.texts |= {(prefix + inner).rstrip("."): m for inner, m in value.modules() if m.stored_text is not None}
            self.aliases |= {prefix + other: prefix + first for other, first in find_aliases(value).items()}
            self.state_names |= {prefix + inner for inner in recurrent_state_names(value)}
        elif is_optimizer(value):
            for inner, array in value.arrays().items():
                self._put(prefix + inner, array)
            self._put(f"{prefix}lr", float(value.lr), lambda rate: setattr(value, "lr", rate))
        elif isinstance(value, Mapping):
            self.dicts += [name] if name else []
            for key, item in value.items():
                if not isinstance(key, str):
                    raise DataError(f"{self.function}: a name must be a str, not {key!r}")
                if isinstance(item, ModuleTree | Mapping) or is_optimizer(item):
                    self.dicts += [] if isinstance(item, Mapping) else [prefix + key]
                    self._add(prefix + key, item)
                else:
                    self._put(prefix + key, item, partial(operator.setitem, value, key))  # type: ignore[arg-type]
        else:
            self._put(name, value)

    def _put(self, name: str, value: Any, setter: Callable[[Any], None] | None = None) -> None:
        if name in self.leaves:
            raise DataError(f"{self.function}: two values would be called {name!r}")
        self.leaves[name] = value
        if setter is not None:
            self.setters[name] = setter


def is_optimizer(value: Any) -> bool:
    """Return whether a value has the state of an optimizer; this file's room is below theirs."""
    return all(hasattr(value, name) for name in ("step_count", "arrays", "init", "lr"))


def _start_optimizers(tree: Mapping[str, Any]) -> None:
    """Create the state of optimizers in a dict that have none yet."""
    models = [value for value in tree.values() if isinstance(value, ModuleTree)]
    for name, value in tree.items():
        if is_optimizer(value) and value.step_count is None:
            if len(models) != 1:
                raise DataError(f"load: {name!r} has no state yet, and there are {len(models)} Modules: call init(model) first")
            value.init(models[0])


def _nest(flat: dict[str, Any], stored_dicts: str, source: str) -> dict[str, Any]:
    """Return arrays by dotted name as nested dicts. stored_dicts : a list of the dicts' names, from the file"""
    try:
        dicts = json.loads(stored_dicts)
    except (ValueError, RecursionError):
        dicts = None
    if not isinstance(dicts, list) or not all(isinstance(name, str) and name for name in dicts) or len(dicts) > 100_000:
        raise _file_error(source, "its list of dicts is none")
    out: dict[str, Any] = {}
    made: dict[str, dict[str, Any]] = {"": out}
    for name in sorted(dicts, key=len):
        outer = _outer_dict(name, made)
        made[name] = made[outer].setdefault(name[len(outer) + bool(outer) :], {})
    for name, value in flat.items():
        outer = _outer_dict(name, made)
        made[outer][name[len(outer) + bool(outer) :]] = value
    return out


def _outer_dict(name: str, made: Mapping[str, Any]) -> str:
    """Return the longest name of a dict that ``name`` is inside of."""
    while "." in name:
        name = name.rpartition(".")[0]
        if name in made:
            return name
    return ""


def _pack_npz(arrays: dict[str, np.ndarray]) -> bytes:
    for name, array in arrays.items():
        if array.dtype.kind == "V" or array.dtype.isbuiltin != 1:
            fix = "give dtype='float32', or write safetensors"
            raise DataError(f"save: {name!r} is {array.dtype}, which .npz cannot hold: {fix}")
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _unpack_npz(content: bytes, source: str) -> dict[str, np.ndarray]:
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
        if any(not name.endswith(".npy") for name in names):
            is_torch = any(name.endswith("data.pkl") for name in names)
            cause = f"torch.save writes: {_FROM_TORCH}" if is_torch else f"Keras and others write: {_AS_NPZ}"
            raise DataError(f"{source} is no weight file: it is a zip archive, as {cause}")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            for name in file.files:
                arrays[name] = _read_entry(file, name, source)
    except DataError:
        raise
    except Exception as error:  # a damaged archive raises errors of zipfile, zlib, struct and NumPy
        cause = "its end is missing" if isinstance(error, zipfile.BadZipFile) and not arrays else str(error)
        raise DataError(f"{source} is a damaged .npz file: {cause}{_REPAIR}") from error
    for name, array in arrays.items():
        if array.dtype.newbyteorder("=") not in FROM_NUMPY:
            raise DataError(f"{source}: {name!r} is of dtype {array.dtype}, which weft does not have")
    return arrays


def _read_entry(file: Any, name: str, source: str) -> np.ndarray:
    """Return an array of a ``.npz`` file."""
    try:
        return file[name]
    except Exception as error:
        if "allow_pickle" in str(error):
            raise DataError(f"{source}: {name!r} holds Python objects, which are not read: save arrays of numbers") from None
        cause = "its bytes do not match their checksum" if "CRC" in str(error) else str(error)
        raise DataError(f"{source} is a damaged .npz file: array {short_repr(name)}: {cause}{_REPAIR}") from error


def _read(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    content, source = read(path, "weight file"), os.fspath(path)
    if content.startswith((b"PK\3\4", b"PK\5\6")):  # the second begins an archive of nothing
        return _unpack_npz(content, source), {}
    return unpack_all(content, source)


def stored_texts(model: ModuleTree) -> dict[str, str]:
    """Return the texts that a file keeps of a model's modules, by their names."""
    return {name: m.stored_text for name, m in model.modules() if m.stored_text is not None}


def _stored_forms(model: ModuleTree) -> dict[str, str]:
    return {name: module.stored_form for name, module in model.modules() if module.stored_form}


def _cast(array: np.ndarray, dtype: Any, context: str) -> np.ndarray:
    """Convert ``array`` to ``dtype``; warn if numbers become infinite or NaN."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        out = convert_array(array, dtype)
        array, numbers = convert_array(array, np.dtype(np.float64)), convert_array(out, np.dtype(np.float64))
    lost = ~np.isfinite(numbers) & np.isfinite(array)
    if lost.any():
        largest = float(np.abs(array[lost].astype(np.float64)).max())
        warn(
            f"{context}: {int(lost.sum())} of {array.size} numbers are too large for {FROM_NUMPY[dtype].name} and become "
            f"{'infinite' if np.isinf(numbers[lost]).all() else 'NaN'} (the largest is {largest:.6g})"
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


complete_module(globals())
