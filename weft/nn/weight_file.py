"""The bytes of a weight file: safetensors, with a sha256 of every tensor and of the header in the metadata.

A file written here is rejected if any bit has changed; of files without checksums the structure is checked. Reading takes time
and memory in proportion to the size of the file, whatever its content: numbers are short, nothing is hashed twice, and the form
of a long header is checked before it is parsed into objects.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.dtypes.formats import FORMATS
from weft.errors import DataError

NAMES = {form.numpy: form.code for form in FORMATS.values()}
DTYPES = {code: dtype for dtype, code in NAMES.items()}
MAX_HEADER = 100_000_000  # the limit of the safetensors library
MAX_DIMENSIONS, MAX_DIGITS, MAX_BYTES = 64, 20, (1 << 63) - 1  # NumPy's limit; digits and bytes of 64-bit numbers
LONG_HEADER = 1 << 20  # bytes above which the form of a header is checked before it is parsed
# a header without blanks and with each string shortened to a quote: tables of strings and lists of ints, in one table
HEADER_FORM = re.compile(rb'\{(?:(?:,|(?<=\{))":\{(?:(?:,|(?<=\{))":(?:"|\[(?:\d++,?+)*+\]))*+\})*+\}')
STRING, BLANKS = re.compile(rb'"(?:[^"\\]|\\.)*+"'), re.compile(rb"[ \t\r\n]++")
META, HEADER, TENSOR = "__metadata__", "weft.sha256", "sha256:"
BLANK = "0" * 64
OTHER_FORMATS = {  # first bytes of files that users mistake for weight files
    b"PK\3\4": "it is a zip archive, as torch.save and numpy.savez write",
    b"\x93NUMPY": "it is NumPy's .npy, for numpy.load",
    b"\x89HDF\r\n": "it is HDF5, as Keras writes",
    b"GGUF": "it is a GGUF file",
    b"\x80\2\x8a\nl\xfc": "it was written by an older version of torch.save",
    b"\x80\4\x95": "it is a Python pickle",
}


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Return the content of a weight file with ``arrays``.

    Raises
    ------
    DataError
        A name or dtype is not supported by the format, or the names exceed the size of a header.
    """
    for name in arrays:
        if not isinstance(name, str):
            raise DataError(f"a tensor's name must be a str, not {name!r}")
        if not name.isascii() and name.encode("utf-8", "replace").decode() != name:
            raise DataError(f"a tensor cannot be called {name!r}: the name cannot be encoded as UTF-8")
    ordered = sorted(arrays.items(), key=lambda kv: (-kv[1].dtype.itemsize, kv[0]))  # large elements first, to align all
    metadata, entries, parts, at = {"format": "weft", HEADER: BLANK}, {}, [], 0
    for name, array in ordered:
        if name == META:
            raise DataError(f"a tensor cannot be called {META!r}")
        native = array.dtype.newbyteorder("=")
        if native not in NAMES:
            raise DataError(f"{name!r} has dtype {array.dtype}, which a weight file cannot hold")
        raw = np.ascontiguousarray(array, dtype=native).tobytes()
        metadata[TENSOR + name] = hashlib.sha256(raw).hexdigest()
        entries[name] = {"dtype": NAMES[native], "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    header = json.dumps({META: metadata, **entries}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise DataError(f"{len(arrays)} tensors need a header of {len(header)} bytes, a weight file's has {MAX_HEADER} at most")
    header = header.replace(BLANK.encode(), hashlib.sha256(header).hexdigest().encode(), 1)
    return b"".join([len(header).to_bytes(8, "little"), header, *parts])


def unpack(content: bytes, source: Any) -> dict[str, np.ndarray]:
    """Check a weight file's content and return its arrays; ``source`` is the name of the file in errors.

    Raises
    ------
    DataError
        The content is damaged or not a weight file; no other error is raised, whatever the content.
    """
    entries, metadata, raw = _read_header(content, source)
    start = 8 + len(raw)
    data = memoryview(content)[start:]
    is_from_weft = "weft" in metadata.values() or any(k == HEADER or k.startswith(TENSOR) for k in metadata)
    if is_from_weft:
        checksum = metadata.get(HEADER, "")
        blank = raw.replace(checksum.encode(), BLANK.encode(), 1) if len(checksum) == 64 else raw
        if hashlib.sha256(blank).hexdigest() != checksum:
            raise DataError(f"{source} is damaged: its header (bytes 8 to {start}) does not match its checksum")
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
            raise DataError(f"{source} is damaged: tensor {shown(name)} (bytes {start + begin} to {start + end}) {problem}")
        arrays[name] = np.frombuffer(part, dtype).reshape(shape)
    return arrays


def _check_spans(spans: Iterable[tuple[int, int, str]], size: int, source: Any) -> None:
    """Raise if tensors leave a gap or overlap."""
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise _file_error(source, f"tensor {shown(name)} begins at byte {begin} of the data, the one before it ends at {at}")
        at = end
    if at != size:
        raise _file_error(source, f"its tensors take {at} bytes, but {size} follow the header")


def _read_header(content: bytes, source: Any) -> tuple[dict[str, Any], dict[str, str], bytes]:
    """Return the entries of the tensors, the metadata and the bytes of the header."""
    if len(content) < 8:
        raise _file_error(source, f"it has {len(content)} bytes, a header needs more than 8")
    length = int.from_bytes(content[:8], "little")
    if length > min(len(content) - 8, MAX_HEADER):
        cause = next((text for start, text in OTHER_FORMATS.items() if content.startswith(start)), "cut off or altered")
        promise = f"its first 8 bytes promise a header of {length} bytes, {len(content) - 8} follow"
        raise _file_error(source, f"{promise}: {cause}")
    raw = content[8 : 8 + length]
    if length > LONG_HEADER and not HEADER_FORM.fullmatch(BLANKS.sub(b"", STRING.sub(b'"', raw))):
        raise _file_error(source, f"its header (bytes 8 to {8 + length}) is no table of tensors")
    try:
        entries = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique_names, parse_int=_short_int)
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
            raise ValueError(f"{shown(name)} is there twice")
        name.encode()  # raises for lone surrogates
        if isinstance(value, str):
            value.encode()
        table[name] = value
    return table


def _short_int(digits: str) -> int:
    """Return an int; raise if it has more digits than a 64-bit number, since long ones take quadratic time."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _check_entry(name: str, entry: Any, size: int, source: Any) -> tuple[np.dtype, tuple[int, ...], int, int]:
    """Return dtype, shape, begin and end of a tensor after checking its entry in the header."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _file_error(source, f"tensor {shown(name)} is not described by dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise _file_error(source, f"tensor {shown(name)} has dtype {shown(code)}; weft reads {', '.join(DTYPES)}")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise _file_error(source, f"tensor {shown(name)} has shape {shown(shape)} and data_offsets {shown(offsets)}")
    if len(shape) > MAX_DIMENSIONS:
        raise _file_error(source, f"tensor {shown(name)} has {len(shape)} dimensions, an array has {MAX_DIMENSIONS} at most")
    begin, end = offsets
    itemsize = DTYPES[code].itemsize
    size_needed = math.prod(shape) * itemsize
    if end - begin != size_needed or math.prod(n for n in shape if n) * itemsize > MAX_BYTES:  # also if empty
        tensor = f"tensor {shown(name)} of {code} and shape {shown(tuple(shape))}"
        raise _file_error(source, f"{tensor} needs {size_needed} bytes, it is given {end - begin}")
    if end > size:
        raise _file_error(source, f"cut off: tensor {shown(name)} ends at byte {end} of the data, which has {size}")
    return DTYPES[code], tuple(shape), begin, end


def _are_counts(x: Any) -> bool:
    """Return whether ``x`` is a list of ints from 0 to ``MAX_BYTES``."""
    return isinstance(x, list) and all(type(i) is int and 0 <= i <= MAX_BYTES for i in x)


class _Shown(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 120
        self.maxlist = self.maxtuple = self.maxdict = 8


def shown(x: Any) -> str:
    """Return the repr of a value from a file, shortened for a message."""
    return _Shown().repr(x)


def _file_error(source: Any, why: str) -> DataError:
    return DataError(f"{source} is damaged or no safetensors file: {why}")
