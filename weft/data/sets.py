"""The data sets: digits (included in the package) and MNIST (read from a folder, or downloaded once), and their idx files.

An idx file, optionally compressed by gzip, is two zero bytes, dtype, rank, big-endian extents and the elements. Unpacking stops
at the size that the extents state, and a size that the file cannot hold is refused before unpacking.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import zlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import DataError
from weft.process import files
from weft.process.distribution import install_command
from weft.process.files import user_cache_folder

GZIP_MAGIC = b"\x1f\x8b"
MAX_EXPANSION = 1032  # bytes that one byte of deflate data can become
MAX_DIMENSIONS = 64


def read_idx(path: str | os.PathLike, md5: str = "") -> np.ndarray:
    """Read the byte array of an idx file; raise DataError if it is missing, damaged, or no idx file.

    ``md5`` : the expected checksum of the unpacked bytes; "" skips the check
    """
    content = files.read(path, "idx file")
    packed = content.startswith(GZIP_MAGIC)
    try:
        reader: Any = gzip.GzipFile(fileobj=io.BytesIO(content)) if packed else io.BytesIO(content)
        head = reader.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08":
            raise _idx_error(path, "it does not begin with the bytes of an idx file")
        rank = head[3]
        extents = reader.read(4 * rank)
        if rank > MAX_DIMENSIONS:
            raise _idx_error(path, f"its head says {rank} dimensions")
        if len(extents) < 4 * rank:
            raise _idx_error(path, f"its head says {rank} dimensions and is cut off")
        shape = tuple(int.from_bytes(extents[4 * i : 4 * i + 4], "big") for i in range(rank))
        size, most = math.prod(shape), len(content) * (MAX_EXPANSION if packed else 1)
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


def _idx_error(path: str | os.PathLike, why: str) -> DataError:
    return DataError(f"{os.fspath(path)} is damaged or no idx file of bytes: {why}")


MNIST_FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"


@dataclass(frozen=True, slots=True)
class Split:
    """Images and labels for training and for testing.

    Attributes
    ----------
    x_train, x_test : (N, 1, H, W) float32 in [0, 1]
    y_train, y_test : (N,) int32
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_digits() -> Split:
    """Return 1,437 training and 360 test images of 8x8 handwritten digits (UCI; licence in ``data/digits``).

    Returns
    -------
    Split
        Pixels scaled by 1/16.

    Examples
    --------
    >>> import weft as wf
    >>> wf.data.load_digits().x_train.shape
    (1437, 1, 8, 8)
    """
    folder = resources.files("weft.data") / "digits"
    columns = np.frombuffer(gzip.decompress((folder / "digits.bytes.gz").read_bytes()), np.uint8).reshape(65, -1)
    table = np.ascontiguousarray(columns.T, np.float32)
    test = np.zeros(len(table), bool)
    test[[int(row) for row in (folder / "test_rows.txt").read_text().split()]] = True
    x, y = table[:, :64].reshape(-1, 1, 8, 8) / np.float32(16), table[:, 64].astype(np.int32)
    return Split(x[~test], y[~test], x[test], y[test])


def load_mnist() -> Split:
    """Return 60,000 training and 10,000 test images of 28x28, with pixels scaled by 1/255.

    The files are read from ``$WEFT_DATA/mnist`` or the user's cache folder, or else downloaded there, which needs pooch (``pip
    install 'weft-array[data]'``). The unpacked bytes are checked; damaged files in the cache folder are downloaded again.

    Returns
    -------
    Split

    Raises
    ------
    DataError
        The files are damaged, or missing and cannot be downloaded.
    """
    arrays = [_mnist_array(name, md5) for name, md5 in MNIST_FILES.items()]
    images = [(a.reshape(-1, 1, 28, 28) * np.float32(1 / 255)) for a in (arrays[0], arrays[2])]
    labels = [a.astype(np.int32) for a in (arrays[1], arrays[3])]
    return Split(images[0], labels[0], images[1], labels[1])


def _mnist_array(name: str, md5: str) -> np.ndarray:
    path = _mnist_file(name)
    try:
        return read_idx(path, md5)
    except DataError as error:
        if path.parent != user_cache_folder() / "mnist":  # the user's own file
            raise
        path.unlink(missing_ok=True)
        try:
            return read_idx(_mnist_file(name), md5)
        except DataError as again:
            raise again from error


def _mnist_file(name: str) -> Path:
    """Return the path of a file of MNIST, downloaded if it is missing."""
    folders = [Path(root) / "mnist" for root in [os.environ.get("WEFT_DATA")] if root]
    folders.append(user_cache_folder() / "mnist")
    for folder in folders:
        for path in (folder / f"{name}.gz", folder / name):
            if path.is_file():
                return path
    return _download(name)


def _download(name: str) -> Path:
    fix = f"set WEFT_DATA to a folder that holds mnist/{name}.gz"
    try:
        import pooch
    except ImportError:
        raise DataError(f"MNIST is not on this machine: {fix}, or {install_command('data')} to download it") from None
    try:
        folder, file = user_cache_folder() / "mnist", f"{name}.gz"
        return Path(pooch.retrieve(MNIST_URL + file, known_hash=None, fname=file, path=folder))
    except Exception as error:
        raise DataError(f"MNIST could not be downloaded ({type(error).__name__}): {fix}") from None
