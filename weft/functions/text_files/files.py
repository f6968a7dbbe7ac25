"""Arrays in NumPy's files and from bytes, text and iterators. Weight files are another room's: ``wf.io``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from weft.array import Array, own
from weft.dtypes.formats import DEFAULT
from weft.dtypes.parse import liked, of_any_order, stored
from weft.errors import DTypeError, said_by
from weft.functions.support.arguments import looked, node, of_numpy
from weft.functions.support.unbound import unbound


def _plain(function: str, x: Any, argument: str) -> np.ndarray:
    """What a file is to hold; bfloat16 and 8-bit floats have no name in NumPy's files."""
    found = looked(x, function, argument)
    if found.dtype.isbuiltin != 1:
        raise DTypeError(f"{function}: NumPy's files have no {found.dtype}; cast with .astype('float32'), or use wf.io.save")
    return found


def _place(
    file: Any, function: str, argument: str = "file", error: type[Exception] = DTypeError, lines: bool = False,
) -> None:
    """Refuse what is no path and no open file; ``lines``: nor a sequence of lines."""
    known = isinstance(file, str | bytes | os.PathLike) or hasattr(file, "read") or hasattr(file, "write")
    if not known and not (lines and hasattr(file, "__iter__")):
        raise error(f"{function}: {argument} must be a path or an open file, not {type(file).__name__}")


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a ``.npy`` file; computes at once.

    Parameters
    ----------
    file : path or file
        ``.npy`` is put behind a path that lacks it.
    arr : array
    allow_pickle : bool
        Does nothing: arrays of weft hold numbers.

    Raises
    ------
    DTypeError, OSError, TraceError
        bfloat16 and 8-bit floats; what the file system says; inside a traced function.

    Examples
    --------
    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.save(file, wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> wf.load(file).tolist()
    [1, 2]
    """
    _place(file, "save")
    np.save(file, _plain("save", arr, "arr"), allow_pickle=False)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to a ``.npz`` file; computes at once.

    Parameters
    ----------
    file : path or file
    args : arrays
        Called "arr_0", "arr_1", ...
    allow_pickle : bool
        Does nothing: arrays of weft hold no objects.
    kwds : arrays
        Under their names.

    Raises
    ------
    DTypeError, ValueError, OSError, TraceError
        bfloat16 and 8-bit floats; a name given twice; what the file system says; inside a traced function.

    Examples
    --------
    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.savez(file, x=wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> wf.load(file)["x"].tolist()
    [1, 2]
    """
    given: dict[str, Any] = {k: _plain("savez", a, k) for k, a in kwds.items()}
    _place(file, "savez")
    np.savez(file, *(_plain("savez", a, "args") for a in args), **given)


def savez_compressed(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """:func:`savez`, compressed.

    Parameters
    ----------
    file, args, allow_pickle, kwds : as in :func:`savez`

    Raises
    ------
    DTypeError, ValueError, OSError, TraceError
        As :func:`savez`.

    Examples
    --------
    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.savez_compressed(file, wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> wf.load(file).files
    ['arr_0']
    """
    given: dict[str, Any] = {k: _plain("savez_compressed", a, k) for k, a in kwds.items()}
    _place(file, "savez_compressed")
    np.savez_compressed(file, *(_plain("savez_compressed", a, "args") for a in args), **given)


class Archive(Mapping[str, Array]):
    """The arrays of a ``.npz`` file by name, each read when it is asked for: what :func:`load` gives.

    Parameters
    ----------
    archive : numpy.lib.npyio.NpzFile

    Examples
    --------
    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.savez(file, x=wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> with wf.load(file) as archive:
    ...     print(archive["x"])
    [1 2]
    """

    def __init__(self, archive: Any) -> None:
        self._archive = archive
        self.files: list[str] = list(archive.files)

    def __getitem__(self, name: str) -> Array:
        with _without_pickles():
            return own(node(self._archive[name], "load"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()


def load(
    file: Any, mmap_mode: Any = None, allow_pickle: bool = False, fix_imports: bool = True, encoding: str = "ASCII", *,
    max_header_size: int = 10000,
) -> Any:
    """Read a ``.npy`` or ``.npz`` file.

    Parameters
    ----------
    file : path or file
    mmap_mode : any
        Does nothing: the content is read.
    allow_pickle : bool
        Does nothing: numbers are read without, and Python objects not at all, for a pickle may run anything.
    fix_imports, encoding
        Do nothing: they are about pickles.
    max_header_size : int
        How many letters may say dtype and shape; more are refused.

    Returns
    -------
    Array, or Archive : a mapping from names to Arrays, of a ``.npz`` file

    Raises
    ------
    ValueError, DTypeError, OSError
        Pickles; a dtype that weft does not have; what the file system says.

    Examples
    --------
    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.save(file, wf.array([1.5]))
    >>> start = file.seek(0)
    >>> wf.load(file)
    array([1.5], dtype=float32)
    """
    _place(file, "load")
    with _without_pickles():
        found = np.load(file, allow_pickle=False, max_header_size=max_header_size)
    return own(node(found, "load")) if isinstance(found, np.ndarray) else Archive(found)


@contextmanager
def _without_pickles() -> Iterator[None]:
    """Say of Python objects, which NumPy refuses to read, what weft offers."""
    try:
        yield
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(
            "load: the file holds Python objects, which weft does not read whatever allow_pickle is: a pickle may run anything; "
            "numpy.load(file, allow_pickle=True) reads it, if you trust it"
        ) from None


def savetxt(fname: Any, X: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N803  NumPy's name
    """Write a vector or a matrix as text, a row a line; computes at once.

    Parameters
    ----------
    fname : path or file
    X : (N,) or (M, N) array
    args, kwargs
        As in NumPy: ``fmt=``, ``delimiter=``, ``newline=``, ``header=``, ``footer=``, ``comments=``, ``encoding=``.

    Raises
    ------
    ValueError, OSError, TraceError
        More dimensions; what the file system says; inside a traced function.

    Examples
    --------
    >>> import weft as wf, io
    >>> file = io.StringIO()
    >>> wf.savetxt(file, wf.array([[1, 2], [3, 4]]), fmt="%d", delimiter=",")
    >>> file.getvalue()
    '1,2\\n3,4\\n'
    """
    _place(fname, "savetxt", "fname", ValueError)
    np.savetxt(fname, looked(X, "savetxt", "X"), *args, **kwargs)


def _numbers(found: Any, unpacked: bool) -> Any:
    if unpacked and isinstance(found, list | tuple):
        return tuple(own(node(x, "loadtxt")) for x in found)
    return own(node(found, "loadtxt"))


def loadtxt(fname: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Read numbers from text, a row a line.

    Parameters
    ----------
    fname : path, file, or list of lines
    dtype : dtype, optional
        float32 by default.
    args, kwargs
        As in NumPy: ``comments=``, ``delimiter=``, ``converters=``, ``skiprows=``, ``usecols=``, ``unpack=``, ``ndmin=``,
        ``encoding=``, ``max_rows=``, ``quotechar=``.

    Returns
    -------
    Array

    Raises
    ------
    ValueError, DTypeError, OSError
        Lines that are no rows of numbers; an unknown dtype; what the file system says.

    Examples
    --------
    >>> import weft as wf
    >>> wf.loadtxt(["1,2", "3,4"], delimiter=",").tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    wanted = (DEFAULT.real if dtype is None else of_any_order(dtype)).numpy
    _place(fname, "loadtxt", "fname", ValueError, lines=True)
    liked(kwargs.pop("like", None), "loadtxt")
    return _numbers(np.loadtxt(fname, wanted, *args, **kwargs), bool(kwargs.get("unpack")))


def genfromtxt(fname: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Read numbers from text in which some are missing.

    Parameters
    ----------
    fname : path, file, or list of lines
    dtype : dtype, optional
        float32 by default; structured dtypes are not offered.
    args, kwargs
        As in NumPy: ``comments=``, ``delimiter=``, ``skip_header=``, ``missing_values=``, ``filling_values=``, ``usecols=``, ...

    Returns
    -------
    Array, NaN where nothing stands

    Raises
    ------
    ValueError, DTypeError, OSError
        Lines of different lengths; an unknown dtype; what the file system says.

    Examples
    --------
    >>> import weft as wf
    >>> wf.genfromtxt(["1,2", "3,"], delimiter=",").tolist()
    [[1.0, 2.0], [3.0, nan]]
    """
    wanted = (DEFAULT.real if dtype is None else of_any_order(dtype)).numpy
    _place(fname, "genfromtxt", "fname", lines=True)
    liked(kwargs.pop("like", None), "genfromtxt")
    return _numbers(np.genfromtxt(fname, wanted, *args, **kwargs), bool(kwargs.get("unpack")))


@unbound
def frombuffer(buffer: Any, dtype: Any = "float64", count: int = -1, offset: int = 0, *, like: Any = None) -> Array:
    """Bytes in memory as an array: a copy.

    Parameters
    ----------
    buffer : bytes, or any object with a buffer
    dtype : dtype
        What the bytes hold, also in the other byte order (">u4"); float64 by default, as in NumPy.
    count : int
        How many elements; -1: all there are.
    offset : int
        Where to begin, in bytes.
    like : as in :func:`zeros`

    Returns
    -------
    (N,) Array, its numbers in this machine's order

    Raises
    ------
    ValueError, DTypeError
        Sizes that do not fit; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.frombuffer(bytes([1, 2, 255]), dtype="uint8").tolist()
    [1, 2, 255]
    """
    liked(like, "frombuffer")
    try:
        memoryview(buffer)
    except TypeError:
        raise DTypeError(f"frombuffer: buffer must be an object with bytes in it, not {type(buffer).__name__}") from None
    wanted = stored(dtype)
    with said_by("frombuffer"):
        found = np.frombuffer(buffer, wanted, count, offset)
    return own(node(found, "frombuffer"))


@unbound
def fromfile(file: Any, dtype: Any = "float64", count: int = -1, sep: str = "", offset: int = 0, *, like: Any = None) -> Array:
    """Bytes, or text, of a file as an array.

    Parameters
    ----------
    file : path or file
    dtype, count, offset : as in :func:`frombuffer`
    sep : str
        What stands between numbers in a text; "": the file holds bytes.
    like : as in :func:`zeros`

    Returns
    -------
    (N,) Array

    Raises
    ------
    DTypeError, OSError
        An unknown dtype; what the file system says.

    Examples
    --------
    >>> import weft as wf, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     wf.array([1, 2], dtype="int16").tofile(file.name)
    ...     wf.fromfile(file.name, dtype="int16").tolist()
    [1, 2]
    """
    liked(like, "fromfile")
    _place(file, "fromfile")
    with said_by("fromfile"):
        return own(node(np.fromfile(file, stored(dtype), _limit_to_file(file, count), sep, offset), "fromfile"))


def _limit_to_file(file: Any, count: int) -> int:
    """Return ``count``, but no more than a file on disk has bytes: NumPy takes the memory of all elements before it reads."""
    found = os.stat(file) if isinstance(file, str | bytes | os.PathLike) else os.fstat(file.fileno())
    return min(count, found.st_size) if stat.S_ISREG(found.st_mode) else count


@unbound
def fromstring(string: str, dtype: Any = None, count: int = -1, *, sep: str, like: Any = None) -> Array:
    """The numbers of a text as an array.

    Parameters
    ----------
    string : str
    dtype : dtype, optional
        float32 by default.
    count : int
        How many; -1: all there are.
    sep : str
        What stands between them.
    like : as in :func:`zeros`

    Returns
    -------
    (N,) Array

    Raises
    ------
    ValueError, DTypeError
        No separator: bytes are :func:`frombuffer`'s; the text has fewer numbers; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fromstring("1, 2", dtype=int, sep=",").tolist()
    [1, 2]
    """
    liked(like, "fromstring")
    if not sep:
        raise ValueError("fromstring: sep must not be empty; wf.frombuffer reads bytes")
    wanted = (DEFAULT.real if dtype is None else of_any_order(dtype)).numpy
    with said_by("fromstring"):
        found = np.fromstring(string, wanted, min(count, len(string)), sep=sep)
        if count > 0 and (have := _count_numbers(string, wanted, sep)) < count:  # NumPy then shows memory that nobody has written
            raise ValueError(f"string has {have} numbers, fewer than count={count}")
    return own(node(found, "fromstring"))


def _count_numbers(string: str, dtype: np.dtype, sep: str) -> float:
    """Return how many numbers a text has; infinity if something else stands behind those that were read without an error."""
    try:
        return len(np.fromstring(string, dtype, sep=sep))
    except ValueError:
        return float("inf")


@unbound
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Array:
    """What an iterator gives, as an array with one dimension.

    Parameters
    ----------
    iter : iterable of numbers
    dtype : dtype
    count : int
        How many; -1: all it gives.
    like : as in :func:`zeros`

    Returns
    -------
    (N,) Array

    Raises
    ------
    ValueError, DTypeError
        It gives fewer; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fromiter((x * x for x in range(3)), int).tolist()
    [0, 1, 4]
    """
    liked(like, "fromiter")
    wanted = of_any_order(dtype).numpy
    try:
        if count == -1:
            return of_numpy(np.fromiter(iter, wanted))
        if count < 0 or not hasattr(type(iter), "__iter__"):
            return of_numpy(np.fromiter(iter, wanted, count))  # which refuses it
        found = np.fromiter(islice(iter, count), wanted)  # NumPy takes the memory of all ``count`` elements before the first one
        if len(found) < count:
            raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(found)} items")
        return of_numpy(found)
    except (TypeError, ValueError) as error:
        raise type(error)(f"fromiter: {error}") from None
