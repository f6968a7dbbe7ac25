"""The bytes of a weight file: safetensors, with a sha256 of every tensor and of the header in the metadata.

A file made here is refused when any bit of it has changed. Files made by others have no checksums: of them the
structure is checked. Whatever stands in a file, reading it takes time and memory in proportion to its size: numbers are short,
nothing is hashed twice, and a long header is looked at before it becomes objects.
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
MOST_HEADER = 100_000_000  # as the format's own library has it
MOST_DIMENSIONS, MOST_DIGITS, MOST_BYTES = 64, 20, (1 << 63) - 1  # NumPy's dimensions; digits and bytes of 64 bits
LONG = 1 << 20  # bytes of a header that is looked at first
# a header with its strings shortened to a quote and without blanks: two levels of tables, in the inner ones strings and numbers
FORM = re.compile(rb'\{(?:(?:,|(?<=\{))":\{(?:(?:,|(?<=\{))":(?:"|\[(?:\d++,?+)*+\]))*+\})*+\}')
STRING, BLANKS = re.compile(rb'"(?:[^"\\]|\\.)*+"'), re.compile(rb"[ \t\r\n]++")
META, HEADER, TENSOR = "__metadata__", "weft.sha256", "sha256:"
BLANK = "0" * 64
OTHERS = {  # how files begin that people take for weight files
    b"PK\3\4": "it is a zip archive, as torch.save and numpy.savez write",
    b"\x93NUMPY": "it is NumPy's .npy, for numpy.load",
    b"\x89HDF\r\n": "it is HDF5, as Keras writes",
    b"GGUF": "it is a GGUF file",
    b"\x80\2\x8a\nl\xfc": "it is what older versions of torch.save wrote",
    b"\x80\4\x95": "it is a Python pickle",
}


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a weight file that holds ``arrays``.

    Raises
    ------
    DataError
        for names and dtypes that the format does not have, and for more names than a header holds.
    """
    for name in arrays:
        if not isinstance(name, str):
            raise DataError(f"a tensor's name must be a str, not {name!r}")
        if not name.isascii() and name.encode("utf-8", "replace").decode() != name:
            raise DataError(f"a tensor cannot be called {name!r}: that is no text that can be written")
    ordered = sorted(arrays.items(), key=lambda kv: (-kv[1].dtype.itemsize, kv[0]))  # large elements first: all are aligned
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
    if len(header) > MOST_HEADER:
        raise DataError(f"{len(arrays)} tensors need a header of {len(header)} bytes, a weight file's has {MOST_HEADER} at most")
    header = header.replace(BLANK.encode(), hashlib.sha256(header).hexdigest().encode(), 1)
    return b"".join([len(header).to_bytes(8, "little"), header, *parts])


def unpack(content: bytes, source: Any) -> dict[str, np.ndarray]:
    """The arrays in a weight file's content, all of it checked; ``source`` is what errors call the file.

    Raises
    ------
    DataError
        when it is damaged or no weight file; nothing else is raised, whatever the content.
    """
    entries, metadata, raw = _header(content, source)
    start = 8 + len(raw)
    data = memoryview(content)[start:]
    ours = "weft" in metadata.values() or any(k == HEADER or k.startswith(TENSOR) for k in metadata)
    if ours:
        said = metadata.get(HEADER, "")
        blank = raw.replace(said.encode(), BLANK.encode(), 1) if len(said) == 64 else raw
        if hashlib.sha256(blank).hexdigest() != said:
            raise DataError(f"{source} is damaged: its header (bytes 8 to {start}) does not match its checksum")
    found = {name: _entry(name, entry, len(data), source) for name, entry in entries.items()}
    _fit(((begin, end, name) for name, (_, _, begin, end) in found.items()), len(data), source)
    arrays = {}
    for name, (dtype, shape, begin, end) in found.items():
        part, wrong = data[begin:end], ""
        if ours and metadata.get(TENSOR + name) != hashlib.sha256(part).hexdigest():
            wrong = "does not match its checksum"
        elif dtype == np.bool_ and end > begin and np.frombuffer(part, np.uint8).max() > 1:
            wrong = "holds bytes other than 0 and 1, but is of bools"
        if wrong:
            raise DataError(f"{source} is damaged: tensor {shown(name)} (bytes {start + begin} to {start + end}) {wrong}")
        arrays[name] = np.frombuffer(part, dtype).reshape(shape)
    return arrays


def _fit(spans: Iterable[tuple[int, int, str]], size: int, source: Any) -> None:
    """Refuse tensors that leave a gap or overlap."""
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise _foreign(source, f"tensor {shown(name)} begins at byte {begin} of the data, the one before it ends at {at}")
        at = end
    if at != size:
        raise _foreign(source, f"its tensors take {at} bytes, but {size} follow the header")


def _header(content: bytes, source: Any) -> tuple[dict[str, Any], dict[str, str], bytes]:
    if len(content) < 8:
        raise _foreign(source, f"it has {len(content)} bytes, a header needs more than 8")
    length = int.from_bytes(content[:8], "little")
    if length > min(len(content) - 8, MOST_HEADER):
        known = next((what for start, what in OTHERS.items() if content.startswith(start)), "cut off or altered")
        promise = f"its first 8 bytes promise a header of {length} bytes, {len(content) - 8} follow"
        raise _foreign(source, f"{promise}: {known}")
    raw = content[8 : 8 + length]
    if length > LONG and not FORM.fullmatch(BLANKS.sub(b"", STRING.sub(b'"', raw))):
        raise _foreign(source, f"its header (bytes 8 to {8 + length}) is no table of tensors")
    try:
        entries = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise _foreign(source, f"its header (bytes 8 to {8 + length}) cannot be read: {error}") from None
    if not isinstance(entries, dict):
        raise _foreign(source, "its header is no table of tensors")
    metadata = entries.pop(META, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _foreign(source, "its metadata is no table of texts")
    return entries, metadata, raw


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table whose names are there once, and whose texts can be written."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name)} is there twice")
        name.encode()
        if isinstance(value, str):
            value.encode()
        found[name] = value
    return found


def _int(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _entry(name: str, entry: Any, size: int, source: Any) -> tuple[np.dtype, tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _foreign(source, f"tensor {shown(name)} is not described by dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise _foreign(source, f"tensor {shown(name)} has dtype {shown(code)}; weft reads {', '.join(DTYPES)}")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise _foreign(source, f"tensor {shown(name)} has shape {shown(shape)} and data_offsets {shown(offsets)}")
    if len(shape) > MOST_DIMENSIONS:
        raise _foreign(source, f"tensor {shown(name)} has {len(shape)} dimensions, an array has {MOST_DIMENSIONS} at most")
    begin, end = offsets
    itemsize = DTYPES[code].itemsize
    needs = math.prod(shape) * itemsize
    if end - begin != needs or math.prod(n for n in shape if n) * itemsize > MOST_BYTES:  # of an empty array too
        what = f"tensor {shown(name)} of {code} and shape {shown(tuple(shape))}"
        raise _foreign(source, f"{what} needs {needs} bytes, it is given {end - begin}")
    if end > size:
        raise _foreign(source, f"cut off: tensor {shown(name)} ends at byte {end} of the data, which has {size}")
    return DTYPES[code], tuple(shape), begin, end


def _counts(x: Any) -> bool:
    return isinstance(x, list) and all(type(i) is int and 0 <= i <= MOST_BYTES for i in x)


class _Shown(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 120
        self.maxlist = self.maxtuple = self.maxdict = 8


def shown(x: Any) -> str:
    """Something from a file, for a message: what is long is shortened."""
    return _Shown().repr(x)


def _foreign(source: Any, why: str) -> DataError:
    return DataError(f"{source} is damaged or no safetensors file: {why}")
