"""Files and text of arrays, in NumPy's formats."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap_array
from weft.array.convert import numpy_node
from weft.dtypes.formats import DEFAULT, FLOAT64, Format
from weft.dtypes.parse import check_like, parse_any_byte_order, stored
from weft.dtypes.rounding import in_dtype
from weft.errors import DTypeError, name_numpy_errors
from weft.functions.support.arguments import check_int, node, read_now, unbound
from weft.process.docstrings import complete_module


def _read_storable(function: str, x: Any, argument: str) -> np.ndarray:
    """Return the content of an argument. bfloat16, small floats and users' formats have no name in NumPy's files."""
    value = node(x, function, argument)
    if value.dtype.numpy.isbuiltin != 1:
        raise DTypeError(f"{function}: NumPy's files have no {value.dtype}; cast with .astype('float32'), or use wf.io.save")
    return read_now(value, function, argument)


def _check_file(
    file: Any, function: str, argument: str = "file", error: type[Exception] = DTypeError, lines: bool = False,
) -> None:
    """Refuse anything that is no path and no open file; with ``lines``, a sequence of lines is also accepted."""
    is_file = isinstance(file, str | bytes | os.PathLike) or hasattr(file, "read") or hasattr(file, "write")
    if not is_file and not (lines and hasattr(file, "__iter__")):
        fix = "; wf.io.save(path, model) writes models and dicts of arrays" if function == "save" else ""
        raise error(f"{function}: {argument} must be a path or an open file, not {type(file).__name__}{fix}")


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a ``.npy`` file. Computes at once.

    Parameters
    ----------
    file : path or file
        ``.npy`` is appended to a path without it.
    allow_pickle : bool
        Ignored: weft's arrays hold numbers only.

    Raises
    ------
    DTypeError, OSError, TraceError
        The dtype is bfloat16 or an 8-bit float; the file cannot be written; called inside a traced function.

    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.save(file, wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> wf.load(file).tolist()
    [1, 2]
    """
    _check_file(file, "save")
    if isinstance(arr, Mapping) or hasattr(arr, "parameters"):
        raise DTypeError(f"save: arr is a {type(arr).__name__}, not an array; wf.io.save(path, arrays) writes models and dicts")
    np.save(file, _read_storable("save", arr, "arr"), allow_pickle=False)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to a ``.npz`` file. Computes at once.

    Parameters
    ----------
    file : path or file
        ``.npz`` is appended to a path without it.
    args : arrays
        Named "arr_0", "arr_1", ...
    kwds : arrays
        Stored under their names.

    Raises
    ------
    DTypeError, ValueError, OSError, TraceError
        The dtype is bfloat16 or an 8-bit float; a name occurs twice; the file cannot be written; called inside a traced function.

    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.savez(file, x=wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> wf.load(file)["x"].tolist()
    [1, 2]
    """
    _save_archive("savez", np.savez, file, args, kwds)


def savez_compressed(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to a compressed ``.npz`` file. Computes at once.

    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.savez_compressed(file, wf.array([1, 2]))
    >>> start = file.seek(0)
    >>> wf.load(file).files
    ['arr_0']
    """
    _save_archive("savez_compressed", np.savez_compressed, file, args, kwds)


def _save_archive(function: str, save_archive: Any, file: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
    named_arrays = {k: _read_storable(function, a, k) for k, a in kwds.items()}
    _check_file(file, function)
    save_archive(file, *(_read_storable(function, a, "args") for a in args), **named_arrays)


class Archive(Mapping[str, Array]):
    """The arrays of a ``.npz`` file by name, read on access: the result of :func:`load`.

    Parameters
    ----------
    archive : numpy.lib.npyio.NpzFile

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
            return wrap_array(node(self._archive[name], "load"))

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
        Ignored: the content is read into memory.
    allow_pickle : bool
        Ignored: Python objects are never read, since a pickle can run any code.
    fix_imports, encoding
        Ignored: they concern pickles.
    max_header_size : int
        The largest size of the header, in characters.

    Returns
    -------
    Array, or Archive for a ``.npz`` file

    Raises
    ------
    ValueError, DTypeError, OSError
        The file holds pickles; weft does not have its dtype; it cannot be read.

    >>> import weft as wf, io
    >>> file = io.BytesIO()
    >>> wf.save(file, wf.array([1.5]))
    >>> start = file.seek(0)
    >>> wf.load(file)
    array([1.5], dtype=float32)
    """
    _check_file(file, "load")
    if isinstance(file, str | os.PathLike) and _is_weight_file(file):
        fix = "wf.io.load(path) reads its arrays, model.load(path) a model's"
        raise ValueError(f"load: {os.fspath(file)!r} is a weight file: {fix}")
    with _without_pickles():
        content = np.load(file, allow_pickle=False, max_header_size=max_header_size)
    return wrap_array(node(content, "load")) if isinstance(content, np.ndarray) else Archive(content)


def _is_weight_file(path: str | os.PathLike) -> bool:
    """Return whether a file begins like safetensors: with the length of a table, and the table."""
    try:
        with open(path, "rb") as file:
            start = file.read(10)
    except OSError:
        return False
    return start[8:10] == b'{"' and int.from_bytes(start[:8], "little") < 1 << 40


@contextmanager
def _without_pickles() -> Iterator[None]:
    """Replace NumPy's refusal of Python objects by a message that names the alternatives."""
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
    """Write a vector or a matrix as text, one row per line. Computes at once.

    Parameters
    ----------
    fname : path or file
    X : (N,) or (M, N) array
    args, kwargs
        Passed to NumPy: ``fmt=``, ``delimiter=``, ``newline=``, ``header=``, ``footer=``, ``comments=``, ``encoding=``.

    Raises
    ------
    ValueError, OSError, TraceError
        ``X`` has more dimensions; the file cannot be written; called inside a traced function.

    >>> import weft as wf, io
    >>> file = io.StringIO()
    >>> wf.savetxt(file, wf.array([[1, 2], [3, 4]]), fmt="%d", delimiter=",")
    >>> file.getvalue()
    '1,2\\n3,4\\n'
    """
    _check_file(fname, "savetxt", "fname", ValueError)
    np.savetxt(fname, read_now(X, "savetxt", "X"), *args, **kwargs)


def _read_text(
    function: str, read: Any, error: type[Exception], fname: Any, dtype: Any, *args: Any, like: Any = None, **kwargs: Any,
) -> Any:
    form = DEFAULT.real if dtype is None else parse_any_byte_order(dtype)
    _check_file(fname, function, "fname", error, lines=True)
    check_like(like, function)
    result = read(fname, _parsed_dtype(form), *args, **kwargs)
    is_unpacked = kwargs.get("unpack") and isinstance(result, list | tuple)
    return tuple(_wrap_parsed(x, form) for x in result) if is_unpacked else _wrap_parsed(result, form)


def _parsed_dtype(form: Format) -> np.dtype:
    """Return the dtype in which NumPy parses numbers of a format: float64 for those that it does not parse."""
    return form.numpy if form.numpy.isbuiltin == 1 else FLOAT64.numpy


def _wrap_parsed(numbers: np.ndarray, form: Format) -> Array:
    return wrap_array(numpy_node(in_dtype(np.asarray(numbers), form.numpy)))


def loadtxt(fname: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Read numbers from text, one row per line.

    Parameters
    ----------
    fname : path, file, or list of lines
    dtype : dtype, optional
        float32 by default.
    args, kwargs
        Passed to NumPy: ``comments=``, ``delimiter=``, ``converters=``, ``skiprows=``, ``usecols=``, ``unpack=``, ``ndmin=``,
        ``encoding=``, ``max_rows=``, ``quotechar=``.

    Returns
    -------
    Array

    Raises
    ------
    ValueError, DTypeError, OSError
        A line is no row of numbers; the dtype is unknown; the file cannot be read.

    >>> wf.loadtxt(["1,2", "3,4"], delimiter=",").tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _read_text("loadtxt", np.loadtxt, ValueError, fname, dtype, *args, **kwargs)


def genfromtxt(fname: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Read numbers from text in which some are missing.

    Parameters
    ----------
    dtype : dtype, optional
        float32 by default; structured dtypes are not supported.
    args, kwargs
        Passed to NumPy: ``comments=``, ``delimiter=``, ``skip_header=``, ``missing_values=``, ``filling_values=``, ``usecols=``,
        ...

    Returns
    -------
    Array
        NaN stands for missing numbers.

    >>> wf.genfromtxt(["1,2", "3,"], delimiter=",").tolist()
    [[1.0, 2.0], [3.0, nan]]
    """
    return _read_text("genfromtxt", np.genfromtxt, DTypeError, fname, dtype, *args, **kwargs)


@unbound
def frombuffer(buffer: Any, dtype: Any = "float64", count: int = -1, offset: int = 0, *, like: Any = None) -> Array:
    """Return a copy of bytes in memory as an array.

    Parameters
    ----------
    buffer : bytes, or any object with a buffer
    dtype : dtype
        The dtype of the bytes, in either byte order (">u4"); float64 by default, as in NumPy.
    count : int
        The number of elements; -1: all.
    offset : int
        The first byte to read.

    Returns
    -------
    (N,) Array, in native byte order

    Raises
    ------
    ValueError, DTypeError
        The sizes do not fit; the dtype is unknown, or ``buffer`` has no buffer.

    >>> wf.frombuffer(bytes([1, 2, 255]), dtype="uint8").tolist()
    [1, 2, 255]
    """
    check_like(like, "frombuffer")
    try:
        memoryview(buffer)
    except TypeError:
        raise DTypeError(f"frombuffer: buffer must be bytes or an object with a buffer, not {type(buffer).__name__}") from None
    numpy_dtype = stored(dtype)
    with name_numpy_errors("frombuffer"):
        elements = np.frombuffer(buffer, numpy_dtype, count, offset)
    return wrap_array(node(elements, "frombuffer"))


@unbound
def fromfile(file: Any, dtype: Any = "float64", count: int = -1, sep: str = "", offset: int = 0, *, like: Any = None) -> Array:
    """Read bytes or text from a file into an array.

    Parameters
    ----------
    file : path or file
    sep : str
        The separator of numbers in a text file; "" for a binary file.

    Raises
    ------
    DTypeError, OSError
        The dtype is unknown; the file cannot be read.

    >>> import weft as wf, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     wf.array([1, 2], dtype="int16").tofile(file.name)
    ...     wf.fromfile(file.name, dtype="int16").tolist()
    [1, 2]
    """
    check_like(like, "fromfile")
    _check_file(file, "fromfile")
    with name_numpy_errors("fromfile"):
        form = parse_any_byte_order(dtype)
        numpy_dtype = _parsed_dtype(form) if sep and form.numpy.isbuiltin != 1 else stored(dtype)
        elements = np.fromfile(file, numpy_dtype, _limit_to_file(file, count), sep, offset)
    return _wrap_parsed(elements, form) if sep else wrap_array(node(elements, "fromfile"))


def _limit_to_file(file: Any, count: int) -> int:
    """Return ``count``, limited to the size of a file on disk: NumPy allocates all elements before it reads."""
    info = os.stat(file) if isinstance(file, str | bytes | os.PathLike) else os.fstat(file.fileno())
    return min(count, info.st_size) if stat.S_ISREG(info.st_mode) else count


@unbound
def fromstring(string: str, dtype: Any = None, count: int = -1, *, sep: str, like: Any = None) -> Array:
    """Read numbers from a string into an array.

    Parameters
    ----------
    string : str
    dtype : dtype, optional
        float32 by default.
    sep : str
        The separator of the numbers.

    Raises
    ------
    ValueError, DTypeError
        ``sep`` is empty (see :func:`frombuffer`), or the string has fewer numbers; the dtype is unknown.

    >>> wf.fromstring("1, 2", dtype=int, sep=",").tolist()
    [1, 2]
    """
    check_like(like, "fromstring")
    if not sep:
        raise ValueError("fromstring: sep must not be empty; wf.frombuffer reads bytes")
    form = DEFAULT.real if dtype is None else parse_any_byte_order(dtype)
    numpy_dtype = _parsed_dtype(form)
    with name_numpy_errors("fromstring"):
        numbers = np.fromstring(string, numpy_dtype, min(count, len(string)), sep=sep)
        if count > 0 and (have := _count_numbers(string, numpy_dtype, sep)) < count:  # NumPy would return uninitialised memory
            raise ValueError(f"string has {have} numbers, fewer than count={count}")
    return _wrap_parsed(numbers, form)


def _count_numbers(string: str, dtype: np.dtype, sep: str) -> float:
    """Return the number of numbers in a string; infinity if other text follows them."""
    try:
        return len(np.fromstring(string, dtype, sep=sep))
    except ValueError:
        return float("inf")


@unbound
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Array:
    """Return the elements of an iterable as an array with one dimension.

    Parameters
    ----------
    iter : iterable of numbers
    dtype : dtype

    Raises
    ------
    ValueError, DTypeError
        The iterable has fewer elements; the dtype is unknown.

    >>> wf.fromiter((x * x for x in range(3)), int).tolist()
    [0, 1, 4]
    """
    check_like(like, "fromiter")
    form = parse_any_byte_order(dtype)
    numpy_dtype = _parsed_dtype(form)
    try:
        if count == -1:
            return _wrap_parsed(np.fromiter(iter, numpy_dtype), form)
        if count < 0 or not hasattr(type(iter), "__iter__"):
            return _wrap_parsed(np.fromiter(iter, numpy_dtype, count), form)  # raises the error
        elements = np.fromiter(islice(iter, count), numpy_dtype)  # with count, NumPy would allocate all elements first
        if len(elements) < count:
            raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(elements)} items")
        return _wrap_parsed(elements, form)
    except (TypeError, ValueError) as error:
        raise type(error)(f"fromiter: {error}") from None


def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """Return an array as text. Computes at once.

    Parameters
    ----------
    args, kwargs
        Passed to NumPy: ``precision=``, ``separator=``, ``formatter=``, ``max_line_width=``, ...

    Raises
    ------
    TraceError
        Called inside a traced function.

    >>> wf.array2string(wf.array([1, 2]), separator=",")
    '[1,2]'
    """
    return np.array2string(read_now(a, "array2string", "a"), *args, **kwargs)


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
) -> str:
    """Return the ``repr`` of an array. Computes at once.

    Parameters
    ----------
    max_line_width, precision : int, optional
    suppress_small : bool, optional

    >>> wf.array_repr(wf.array([1, 2]))
    'array([1, 2])'
    """
    content = read_now(arr, "array_repr", "arr")
    with name_numpy_errors("array_repr"):
        return np.array_repr(content[()] if isinstance(arr, Scalar) else content, max_line_width, precision, suppress_small)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
) -> str:
    """Return the ``str`` of an array. Computes at once.

    >>> wf.array_str(wf.array([1.25, 2.0]), precision=1)
    '[1.2 2. ]'
    """
    content = read_now(a, "array_str", "a")
    with name_numpy_errors("array_str"):
        return np.array_str(content, max_line_width, precision, suppress_small)


def format_float_positional(x: Any, *args: Any, **kwargs: Any) -> str:
    """Return a float as decimal digits without an exponent.

    Parameters
    ----------
    x : number
    args, kwargs
        Passed to NumPy: ``precision=``, ``trim=``, ``exp_digits=``, ...

    >>> wf.format_float_positional(wf.array(0.1)[()])
    '0.1'
    """
    content = read_now(x, "format_float_positional")[()]
    with name_numpy_errors("format_float_positional"):
        return np.format_float_positional(content, *args, **kwargs)


def format_float_scientific(x: Any, *args: Any, **kwargs: Any) -> str:
    """Return a float as decimal digits with an exponent.

    >>> wf.format_float_scientific(wf.array(1500.0)[()])
    '1.5e+03'
    """
    content = read_now(x, "format_float_scientific")[()]
    with name_numpy_errors("format_float_scientific"):
        return np.format_float_scientific(content, *args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """Return the print options.

    >>> wf.get_printoptions()["precision"]
    8
    """
    return np.get_printoptions()  # type: ignore[return-value]


def set_printoptions(**options: Any) -> None:
    """Set how arrays are printed, weft's and NumPy's.

    Parameters
    ----------
    options
        As in NumPy: ``precision=``, ``suppress=``, ``linewidth=``, ``threshold=``, ``formatter=``, ...

    Raises
    ------
    TypeError, ValueError
        An unknown option, or an invalid value.

    >>> wf.set_printoptions(precision=8)
    """
    np.set_printoptions(**options)


def printoptions(**options: Any) -> Any:
    """Return a context manager that sets print options and restores them at its end.

    Returns
    -------
    context manager

    Raises
    ------
    TypeError, ValueError
        An unknown option, or an invalid value; when the context is entered.

    >>> with wf.printoptions(precision=2):
    ...     print(wf.array([1 / 3]))
    [0.33]
    """
    return np.printoptions(**options)



def geterr() -> dict[str, Any]:
    """Return how NumPy reacts to division by zero, overflow and so on. weft's own functions never warn.

    >>> sorted(wf.geterr())
    ['divide', 'invalid', 'over', 'under']
    """
    return dict(np.geterr())


def seterr(**options: Any) -> dict[str, Any]:
    """Set how NumPy reacts to division by zero, overflow and so on. weft's own functions neither warn nor raise.

    ``divide="raise"`` is accepted but has no effect on weft's divisions: they run later, in a fused kernel.
    ``wf.isfinite(x).all()`` checks an array, and ``fit`` names the operation that produced the first NaN.

    Parameters
    ----------
    options
        As in NumPy: ``all=``, ``divide=``, ``over=``, ``under=``, ``invalid=``.

    Returns
    -------
    dict
        The previous settings.

    Raises
    ------
    TypeError, ValueError
        An unknown option, or an invalid value.

    >>> before = wf.seterr(all="ignore")
    >>> after = wf.seterr(**before)
    """
    return dict(np.seterr(**options))


def errstate(**options: Any) -> Any:
    """Return a context manager and decorator that calls :func:`seterr` and restores the settings at its end.

    Returns
    -------
    context manager

    >>> with wf.errstate(divide="ignore"):
    ...     print(wf.array([1.0]) / 0.0)
    [inf]
    """
    return np.errstate(**options)


def base_repr(number: int, base: int = 2, padding: int = 0) -> str:
    """Return the digits of an integer in a number system.

    Parameters
    ----------
    number : int
    base : int
        From 2 to 36.
    padding : int
        The number of leading zeros to add.

    Raises
    ------
    ValueError
        Another base.

    >>> wf.base_repr(10, 3)
    '101'
    """
    return np.base_repr(check_int(number, "base_repr", "number"), base, padding)


def binary_repr(num: int, width: int | None = None) -> str:
    """Return the bits of an integer; for a negative one with a width, those of the two's complement.

    Parameters
    ----------
    num : int
    width : int, optional

    Raises
    ------
    ValueError
        ``width`` is too small.

    >>> wf.binary_repr(-3, width=5)
    '11101'
    """
    return np.binary_repr(check_int(num, "binary_repr", "num"), width)


complete_module(
    globals(), (save, savez), (savez, savez_compressed), (loadtxt, genfromtxt), (frombuffer, fromfile, fromstring, fromiter),
    (array2string, array_repr, format_float_positional), (array_repr, array_str), (format_float_positional,
    format_float_scientific), (set_printoptions, printoptions), (seterr, errstate),
)
