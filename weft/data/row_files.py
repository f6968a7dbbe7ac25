"""Arrays in files that are read row by row: NumPy's ``.npy``, idx, safetensors, and folders of them."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weft.errors import DataError, DTypeError, ShapeError, amount, seconds, short

_IDX_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_IDX_HEAD = 4 + 4 * 255  # bytes of the longest head
_MAX_OPEN = 64  # files that one RowFiles keeps open


class _File(NamedTuple):
    """A file of rows. offset : of the first row, in bytes. shape, dtype : of all rows"""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype


class RowFiles:
    """An array in one or several files. Rows are read when they are asked for. Make one with :func:`open_rows`.

    ``rows[k]``, ``rows[first:last]`` and ``rows[numbers]`` return NumPy arrays; ``np.asarray(rows)`` reads everything.
    :func:`weft.train.fit`, :class:`weft.data.Loader` and validation take it in place of an array. It may be used by several
    threads.

    Parameters
    ----------
    files : (path, offset of the rows in bytes, shape, dtype) of each file, in the order of the rows; a dtype may be big-endian

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes : as those of an array
    rows_read, bytes_read : of all reads by this process
    seconds : the time of these reads

    Raises
    ------
    DataError
        As :func:`open_rows`; or a file has become shorter since.

    Examples
    --------
    >>> import os, tempfile, numpy as np, weft as wf
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(12.0).reshape(4, 3))
    >>> x = wf.data.open_rows(path)
    >>> x[[3, 0]].tolist(), x.rows_read
    ([[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]], 2)
    """

    def __init__(self, files: Sequence[tuple[str, int, tuple[int, ...], Any]]) -> None:
        self._files = [_File(path, offset, tuple(shape), np.dtype(dtype)) for path, offset, shape, dtype in files]
        first = self._files[0]
        self._starts = np.cumsum([0, *(file.shape[0] for file in self._files)])
        self._stored = first.dtype
        self.dtype = first.dtype.newbyteorder("=")
        self.shape = (int(self._starts[-1]), *first.shape[1:])
        self._row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        self.rows_read = self.bytes_read = 0
        self.seconds = 0.0
        self._handles: dict[int, int] = {}  # number of a file -> descriptor, for the first files that are read
        self._lock = threading.Lock()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all rows."""
        return self.shape[0] * self._row_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        """Return shape, dtype and files, and how fast rows were read so far."""
        count = len(self._files)
        where = self._files[0].path if count == 1 else f"{count} files in {os.path.dirname(self._files[0].path)}"
        read = ""
        if self.bytes_read:
            speed = amount(self.bytes_read / self.seconds) if self.seconds else "many "
            read = f", read {self.rows_read:,} rows in {seconds(self.seconds)}: {speed}B/s"
        return f"RowFiles({self.shape}, {self.dtype}, {where}{read})"

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return one row, or several as a new array."""
        if isinstance(rows, slice):
            return self._read(np.arange(*rows.indices(len(self))))
        numbers = np.asarray(rows)
        if numbers.dtype == bool and numbers.shape == (len(self),):
            return self._read(np.flatnonzero(numbers))
        if isinstance(rows, tuple) or numbers.dtype.kind not in "iu" and numbers.size:
            raise TypeError(f"RowFiles: the index is {short(rows)}, but must be rows: an int, a slice or integers")
        numbers = numbers.astype(np.int64)
        wrong = (numbers < -len(self)) | (numbers >= len(self))
        if wrong.any():
            raise IndexError(f"RowFiles: row {int(numbers[wrong].flat[0])} is asked for, but there are {len(self)}")
        out = self._read(np.where(numbers < 0, numbers + len(self), numbers).reshape(-1))
        return out.reshape((*numbers.shape, *self.shape[1:]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("RowFiles: the array is in files, so copy=False is not possible")
        out = self[:]
        return out if dtype is None else out.astype(dtype, copy=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"files": [tuple(file) for file in self._files]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["files"])  # type: ignore[misc]

    def __del__(self) -> None:
        for handle in getattr(self, "_handles", {}).values():
            os.close(handle)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        """Return valid rows. Neighbours in ``rows`` that are neighbours in a file are read together."""
        start = time.perf_counter()
        out = np.empty((len(rows), *self.shape[1:]), self._stored)
        if out.size:
            memory = memoryview(out.reshape(-1).view(np.uint8).data)
            numbers = np.searchsorted(self._starts, rows, "right") - 1
            cuts = np.flatnonzero((np.diff(rows) != 1) | (np.diff(numbers) != 0)) + 1
            width = self._row_bytes
            for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
                number = int(numbers[first])
                self._read_run(number, int(rows[first] - self._starts[number]), memory[first * width : last * width])
        with self._lock:
            self.rows_read += len(rows)
            self.bytes_read += out.nbytes
            self.seconds += time.perf_counter() - start
        return out if out.dtype.isnative else out.byteswap().view(self.dtype)

    def _read_run(self, number: int, row: int, memory: memoryview) -> None:
        """Fill the memory with rows of a file from ``row`` on."""
        file = self._files[number]
        position, done = file.offset + row * self._row_bytes, 0
        with self._open(number) as handle:
            while done < len(memory):
                count = os.preadv(handle, [memory[done:]], position + done)
                if not count:
                    needed = file.offset + file.shape[0] * self._row_bytes
                    raise DataError(f"{file.path} is cut off: its rows need {needed} bytes, it has {os.fstat(handle).st_size}")
                done += count

    @contextmanager
    def _open(self, number: int) -> Iterator[int]:
        """Give the descriptor of a file. Those of some files stay open."""
        with self._lock:
            handle = self._handles.get(number)
            if handle is None:
                try:
                    handle = os.open(self._files[number].path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError as error:
                    raise DataError(f"{self._files[number].path} cannot be read: {error.strerror}") from None
                if len(self._handles) < _MAX_OPEN:
                    self._handles[number] = handle
        try:
            yield handle
        finally:
            if self._handles.get(number) != handle:
                os.close(handle)


ON_DISK = (np.memmap, RowFiles)  # arrays that are not copied or read as a whole


def open_rows(path: str | os.PathLike, name: str | None = None) -> RowFiles:
    """Return the array of a file, or of a folder of files, whose rows are read when they are asked for.

    With several ranks (``weft launch``) each rank reads the rows of its shards only.

    Parameters
    ----------
    path : a ``.npy`` file, an idx file (unpacked, as of MNIST), or a safetensors file; or a folder of such files of one kind,
        whose rows are joined in the order of their names, numbers in names by value (``x2`` before ``x10``)
    name : the array in safetensors files that have several

    Returns
    -------
    RowFiles

    Raises
    ------
    DataError
        There is no such file, it is damaged, packed by gzip, or of another kind; the folder has no file.
    DTypeError
        The array does not hold numbers, or files of a folder differ in dtype.
    ShapeError
        The array has no dimensions, or files of a folder have rows of different shapes.
    ValueError
        ``name`` is missing, unknown, or given for a file without names.

    Examples
    --------
    A folder of files is one array, from which ``fit`` reads a batch at a time:

    >>> import os, tempfile, numpy as np, weft as wf
    >>> folder = tempfile.mkdtemp()
    >>> for k in range(3):
    ...     np.save(os.path.join(folder, f"x{k}.npy"), np.full((10, 4), k, "float32"))
    >>> x = wf.data.open_rows(folder)
    >>> x.shape, x[8:12][:, 0].tolist()
    ((30, 4), [0.0, 0.0, 1.0, 1.0])
    >>> history = wf.train.fit(wf.nn.Linear(4, 2), x, np.arange(30) % 2, epochs=1, show=False)
    """
    source = os.fspath(path)
    if os.path.isdir(source):
        paths = [os.path.join(source, f) for f in sorted(os.listdir(source), key=_sort_key) if not f.startswith(".")]
        paths = [p for p in paths if os.path.isfile(p)]
        if not paths:
            raise DataError(f"open_rows: the folder {source} has no file")
    else:
        paths = [source]
    files = [_describe(p, name) for p in paths]
    first = files[0]
    for file in files:
        if file.dtype != first.dtype:
            raise DTypeError(f"open_rows: {file.path} has dtype {file.dtype}, but {first.path} has {first.dtype}")
        if file.shape[1:] != first.shape[1:]:
            raise ShapeError(f"open_rows: {file.path} has rows {file.shape[1:]}, but {first.path} has {first.shape[1:]}")
    return RowFiles(files)


def _sort_key(name: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"([0-9]+)", name)]


def _describe(path: str, name: str | None) -> _File:
    """Return where the rows of a file are, after a check of its head and its size."""
    try:
        with open(path, "rb") as source:
            head, size = source.read(_IDX_HEAD), os.fstat(source.fileno()).st_size
    except OSError as error:
        raise DataError(f"open_rows: {path} cannot be read: {error.strerror}") from None
    is_npy = head.startswith(b"\x93NUMPY")
    is_idx = len(head) > 3 and head[:2] == b"\0\0" and head[2] in _IDX_DTYPES and head[3] > 0 and head[8:9] != b"{"
    if (is_npy or is_idx) and name is not None:
        raise ValueError(f"open_rows: {path} is no safetensors file, so name={name!r} names nothing in it")
    if head.startswith(b"\x1f\x8b"):
        raise DataError(f"open_rows: {path} is packed by gzip, of which no single row can be read: unpack it (gunzip) first")
    read = _read_npy_head if is_npy else _read_idx_head if is_idx else partial(_find_tensor, name)
    offset, shape, dtype = read(path, head)
    if not shape:
        raise ShapeError(f"open_rows: {path} holds one number, not rows")
    if dtype.kind not in "biuf" and dtype.type.__module__ != "ml_dtypes":
        raise DTypeError(f"open_rows: {path} holds {dtype}, but must hold real numbers")
    needed = offset + math.prod(shape) * dtype.itemsize
    if size < needed:
        raise DataError(f"open_rows: {path} is cut off: {dtype}{list(shape)} needs {needed} bytes, the file has {size}")
    return _File(path, offset, shape, dtype)


def _read_npy_head(path: str, head: bytes) -> tuple[int, tuple[int, ...], np.dtype]:
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(file)
        except Exception as error:  # NumPy parses the head as a line of Python
            raise DataError(f"open_rows: {path} is a damaged .npy file: {error}") from None
        if is_fortran and len(shape) > 1:
            raise DataError(f"open_rows: {path} stores columns together, not rows: save np.ascontiguousarray(array)")
        return file.tell(), shape, dtype


def _read_idx_head(path: str, head: bytes) -> tuple[int, tuple[int, ...], np.dtype]:
    rank = head[3]
    if len(head) < 4 + 4 * rank:
        raise DataError(f"open_rows: {path} is a damaged idx file: its head says {rank} dimensions and is cut off")
    shape = tuple(int.from_bytes(head[4 + 4 * k : 8 + 4 * k], "big") for k in range(rank))
    return 4 + 4 * rank, shape, np.dtype(_IDX_DTYPES[head[2]])


def _find_tensor(name: str | None, path: str, head: bytes) -> tuple[int, tuple[int, ...], np.dtype]:
    """Return offset, shape and dtype of an array in a safetensors file."""
    from weft.nn.weights import read_layout

    layout = read_layout(path)
    if name is None and len(layout) == 1:
        (name,) = layout
    if name not in layout:
        names = ", ".join(list(layout)[:8]) + (", ..." if len(layout) > 8 else "")
        given = "name= is missing" if name is None else f"there is no {name!r}"
        raise ValueError(f"open_rows: {path} has {len(layout)} arrays, and {given}: {names}")
    dtype, shape, begin, _ = layout[name]
    return begin, shape, dtype

