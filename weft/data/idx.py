"""Idx files, optionally compressed by gzip: Y. LeCun's format of two zero bytes, dtype, rank, big-endian extents, elements.

Unpacking stops at the size that the extents state, and a size that the file cannot hold is refused before unpacking.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import zlib
from typing import Any

import numpy as np

from weft.errors import DataError
from weft.process import files

PACKED = b"\x1f\x8b"
MAX_RATIO = 1032  # largest expansion of a byte by deflate
MAX_DIMENSIONS = 64


def read_idx(path: str | os.PathLike, md5: str = "") -> np.ndarray:
    """Read the byte array of an idx file.

    Parameters
    ----------
    path : str or path
    md5 : str
        The expected checksum of the unpacked bytes; "" skips the check.

    Returns
    -------
    array of uint8

    Raises
    ------
    DataError
        The file is missing, damaged, or no idx file.

    Examples
    --------
    >>> import os, tempfile
    >>> from weft.data.idx import read_idx
    >>> path = os.path.join(tempfile.mkdtemp(), "labels")
    >>> _ = open(path, "wb").write(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]))
    >>> read_idx(path)
    array([5, 0, 4], dtype=uint8)
    """
    content = files.read(path, "idx file")
    packed = content.startswith(PACKED)
    try:
        reader: Any = gzip.GzipFile(fileobj=io.BytesIO(content)) if packed else io.BytesIO(content)
        head = reader.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08":
            raise _idx_error(path, "it does not begin as one")
        rank = head[3]
        extents = reader.read(4 * rank)
        if rank > MAX_DIMENSIONS:
            raise _idx_error(path, f"its head says {rank} dimensions")
        if len(extents) < 4 * rank:
            raise _idx_error(path, f"its head says {rank} dimensions and is cut off")
        shape = tuple(int.from_bytes(extents[4 * i : 4 * i + 4], "big") for i in range(rank))
        size, most = math.prod(shape), len(content) * (MAX_RATIO if packed else 1)
        if size > most or math.prod(n for n in shape if n) > np.iinfo(np.intp).max:
            raise _idx_error(path, f"it promises {size} bytes, shape {shape}, which a file of {len(content)} bytes cannot hold")
        data = reader.read(size)
        more = reader.read(1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _idx_error(path, f"it cannot be unpacked: {error}") from None
    if more:
        raise _idx_error(path, f"it goes on after the {size} bytes of shape {shape}")
    if len(data) < size:
        raise _idx_error(path, f"it is cut off: {len(data)} of {size} bytes, shape {shape}")
    if md5:
        digest = hashlib.md5(head + extents, usedforsecurity=False)
        digest.update(data)
        if digest.hexdigest() != md5:
            raise DataError(f"{os.fspath(path)} is damaged: md5 of the unpacked bytes is {digest.hexdigest()}, expected {md5}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _idx_error(path: Any, why: str) -> DataError:
    return DataError(f"{os.fspath(path)} is damaged or no idx file of bytes: {why}")
