"""The data sets: digits (included in the package) and MNIST (read from a folder, or downloaded once)."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from weft.data.idx import read_idx
from weft.errors import DataError
from weft.process.files import user_cache_folder

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
    text = gzip.decompress((folder / "digits.csv.gz").read_bytes()).decode()
    table = np.loadtxt(text.splitlines(), delimiter=",", dtype=np.float32)
    test = np.zeros(len(table), bool)
    test[[int(row) for row in (folder / "test_rows.txt").read_text().split()]] = True
    x, y = table[:, :64].reshape(-1, 1, 8, 8) / np.float32(16), table[:, 64].astype(np.int32)
    return Split(x[~test], y[~test], x[test], y[test])


def load_mnist() -> Split:
    """Return 60,000 training and 10,000 test images of 28x28, with pixels scaled by 1/255.

    The files are read from ``$WEFT_DATA/mnist`` or the user's cache folder, or else downloaded there, which needs pooch (``pip
    install weft[data]``). The unpacked bytes are checked; damaged files in the cache folder are downloaded again.

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
        raise DataError(f"MNIST is not on this machine: {fix}, or pip install weft[data] to download it") from None
    try:
        folder, file = user_cache_folder() / "mnist", f"{name}.gz"
        return Path(pooch.retrieve(MNIST_URL + file, known_hash=None, fname=file, path=folder))
    except Exception as error:
        raise DataError(f"MNIST could not be downloaded ({type(error).__name__}): {fix}") from None
