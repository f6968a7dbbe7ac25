"""Iterate over elements (``nditer``, ``flatiter``) and apply Python functions (``vectorize``, ``apply_along_axis``).

All of it runs in Python, one element or slice at a time.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.habits import Flat as flatiter
from weft.dtypes.api import result_type
from weft.dtypes.parse import spelled, to_tuple
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import zeros
from weft.functions.shape.broadcasting import broadcast_to
from weft.functions.shape.join_split import stack
from weft.functions.support.arguments import arrays, axis_index, broadcast_shapes, looked, node, of_numpy, op, shape_tuple
from weft.functions.support.unbound import unbound


class broadcast:  # noqa: N801  NumPy's name
    """Arrays side by side in the shape that they broadcast to: to ask for that shape, or to walk over their elements together.

    Parameters
    ----------
    args : array_like

    Raises
    ------
    ShapeError
        Shapes that do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> both = wf.broadcast(wf.arange(2), [[10], [20]])
    >>> both.shape, [int(a + b) for a, b in both]
    ((2, 2), [10, 11, 20, 21])
    """

    def __init__(self, *args: Any) -> None:
        given = arrays("broadcast", **{f"args[{k}]": x for k, x in enumerate(args)})
        self.shape = broadcast_shapes("broadcast", *(x.shape for x in given))
        self.nd = self.ndim = len(self.shape)
        self.size, self.numiter, self.index = math.prod(self.shape), len(given), 0
        self._lines = [broadcast_to(x, self.shape).reshape(-1) for x in given]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self.index >= self.size:
            raise StopIteration
        self.index += 1
        return tuple(line[self.index - 1] for line in self._lines)

    @property
    def iters(self) -> tuple[flatiter, ...]:
        """The elements of each, one after the other."""
        return tuple(flatiter(line) for line in self._lines)

    def reset(self) -> None:
        """Begin anew."""
        self.index = 0


class _Ufuncs(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return not isinstance(x, Array) and callable(x) and hasattr(x, "nin") and hasattr(x, "at")


class ufunc(metaclass=_Ufuncs):  # noqa: N801  NumPy's name
    """What functions of elements are to ``isinstance``: those with ``.nin``, ``.reduce``, ``.at`` and the like; NumPy's own too.

    Examples
    --------
    >>> import weft as wf
    >>> isinstance(wf.add, wf.ufunc), isinstance(wf.sum, wf.ufunc)
    (True, False)
    """


__all__ = ["broadcast", "flatiter", "ufunc"]

_FLAGS = ("multi_index", "c_index", "refs_ok", "zerosize_ok", "external_loop", "buffered", "copy_if_overlap", "common_dtype")


class nditer:  # noqa: N801  NumPy's name
    """The elements of one array, or of several that broadcast, one after the other, as arrays without dimensions.

    Those of an Array that is "readwrite" are views: writing ``x[...] = v`` writes to it. Whole arrays are faster by far.

    Parameters
    ----------
    op : array, or sequence of arrays
        For each None an array of the common shape and dtype is made; ``operands`` has it.
    flags : sequence of str
        "multi_index" and "c_index" keep the place; "external_loop" is not offered, the others change nothing.
    op_flags : any
        Does nothing: arrays of weft may be written to.
    op_dtypes : dtype, or sequence of dtypes and None, optional
        Of the arrays that are made. Arrays that are given have their own: nothing is cast.
    order : "C" or "K"
        Row by row.

    Raises
    ------
    ValueError, ShapeError, DTypeError
        Another flag or order; only None; shapes that do not broadcast; another dtype for an array that is given.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4).reshape(2, 2)
    >>> for v in wf.nditer(x, op_flags=["readwrite"]):
    ...     v[...] = 2 * v
    >>> x.tolist()
    [[0, 2], [4, 6]]
    """

    def __init__(self, op: Any, flags: Any = (), op_flags: Any = None, op_dtypes: Any = None, order: str = "K") -> None:
        unknown = [f for f in flags or () if f not in _FLAGS or f == "external_loop"]
        if unknown:
            raise ValueError(f"nditer: the flag {unknown[0]!r} is not offered; known are {', '.join(map(repr, _FLAGS))}")
        if order not in ("C", "K"):
            raise ValueError(f"nditer: order={order!r} must be 'C' or 'K': arrays of weft lie row by row")
        given = list(op) if isinstance(op, tuple | list) else [op]
        found = _operands(given, op_dtypes)
        self.shape = broadcast_shapes("nditer", *(x.shape for x in found))
        self.operands = tuple(found)
        self._lines = [x if x.shape == self.shape else broadcast_to(x, self.shape) for x in found]
        self.nop, self.ndim, self.itersize = len(found), len(self.shape), math.prod(self.shape)
        self.iterindex, self._fresh = 0, True

    @property
    def finished(self) -> bool:
        """Whether all elements have been."""
        return self.iterindex >= self.itersize

    @property
    def multi_index(self) -> tuple[int, ...]:
        """The place as one index for each dimension."""
        if self.finished:
            raise ValueError("nditer: all elements have been, there is no index")
        return tuple(int(i) for i in np.unravel_index(self.iterindex, self.shape)) if self.shape else ()

    @property
    def index(self) -> int:
        """The place in the flattened array."""
        return self.iterindex

    @property
    def value(self) -> Any:
        """The element at the place; a tuple of several arrays'."""
        place = self.multi_index
        if not place:
            return self._lines[0] if self.nop == 1 else tuple(self._lines)
        parts = tuple(_element(x, place) for x in self._lines)
        return parts[0] if self.nop == 1 else parts

    def __getitem__(self, k: int) -> Array:
        return self.value if self.nop == 1 and k == 0 else self.value[k]

    def __setitem__(self, k: int, value: Any) -> None:
        self[k][...] = value

    def iternext(self) -> bool:
        """Go on to the next element; whether there is one."""
        self.iterindex += 1
        return not self.finished

    def reset(self) -> None:
        """Begin anew."""
        self.iterindex, self._fresh = 0, True

    def close(self) -> None:
        """Nothing is held back, so nothing is left to do."""

    def __len__(self) -> int:
        return self.itersize

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._fresh:
            self.iterindex += 1
        self._fresh = False
        if self.finished:
            raise StopIteration
        return self.value

    def __enter__(self) -> nditer:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _operands(given: list[Any], op_dtypes: Any) -> list[Array]:
    """The arrays to walk over; those for None are made."""
    there = {k: arrays("nditer", op=x)[0] for k, x in enumerate(given) if x is not None}
    if not there:
        raise DTypeError("nditer: op[0] is None; an array beside it is needed, whose shape the new one gets")
    wanted = list(op_dtypes) if isinstance(op_dtypes, tuple | list) else [op_dtypes] * len(given)
    if len(wanted) != len(given):
        raise ValueError(f"nditer: op_dtypes has {len(wanted)} dtypes for {len(given)} arrays")
    for k, x in there.items():
        if wanted[k] is not None and spelled(wanted[k]) is not x.node.dtype:
            raise DTypeError(f"nditer: op_dtypes[{k}] is {wanted[k]}, op[{k}] has dtype {x.dtype}: cast it with .astype first")
    if len(there) == len(given):
        return [*there.values()]
    shape = broadcast_shapes("nditer", *(x.shape for x in there.values()))
    common = result_type(*there.values())
    return [there[k] if k in there else zeros(shape, wanted[k] or common) for k in range(len(given))]


def _element(x: Array, place: tuple[int, ...]) -> Array:
    """One element as a view without dimensions."""
    return x[tuple(slice(i, i + 1) for i in place)].reshape(())


def _count(extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of an array, the last one fastest."""
    if not extents:
        yield ()
        return
    for first in range(extents[0]):
        for rest in _count(extents[1:]):
            yield (first, *rest)


MAX_LISTED = 1 << 20


class ndindex:  # noqa: N801  NumPy's name
    """Counts through the indices of an array, the last one fastest.

    Parameters
    ----------
    shape : int
        The extents, one an argument, or a tuple of them.

    Raises
    ------
    ShapeError, DTypeError
        A negative extent; no integers.

    Examples
    --------
    >>> import weft as wf
    >>> list(wf.ndindex(2, 2))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """

    def __init__(self, *shape: Any) -> None:
        given = shape[0] if len(shape) == 1 else shape
        extents = shape_tuple(given, "ndindex")
        short = sum(extents) < MAX_LISTED  # product lists each range before it begins
        self._places = itertools.product(*map(range, extents)) if short else _count(extents)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self

    def __next__(self) -> tuple[int, ...]:
        return next(self._places)


class ndenumerate:  # noqa: N801  NumPy's name
    """Indices and elements of an array, in order; computes at once.

    Parameters
    ----------
    arr : array

    Examples
    --------
    >>> import weft as wf
    >>> [(place, int(x)) for place, x in wf.ndenumerate(wf.array([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """

    def __init__(self, arr: Any) -> None:
        (self._array,) = arrays("ndenumerate", arr=arr)
        self._elements = np.ndenumerate(self._array.numpy())

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Array]]:
        return self

    def __next__(self) -> tuple[tuple[int, ...], Array]:
        place, element = next(self._elements)
        return place, of_numpy(element)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """A function of vectors, called with each vector along an axis.

    Parameters
    ----------
    func1d : callable
        Takes an Array with one dimension.
    axis : int
    arr : array
    args, kwargs
        Handed to the function.

    Returns
    -------
    Array : what the function gives stands in place of the axis

    Raises
    ------
    AxisError, DTypeError, ValueError
        No such axis; no function; there is no vector.

    Examples
    --------
    >>> import weft as wf
    >>> wf.apply_along_axis(lambda row: row.max() - row, 1, wf.array([[1, 3], [5, 2]])).tolist()
    [[2, 0], [0, 3]]
    """
    (value,) = arrays("apply_along_axis", arr=arr)
    if not callable(func1d):
        raise DTypeError(f"apply_along_axis: func1d must be a function of a vector, not {short(func1d)}")
    axis = axis_index(axis, value.ndim, "apply_along_axis")
    lead = [n for a, n in enumerate(value.shape) if a != axis]
    order = (*(a for a in range(value.ndim) if a != axis), axis)
    rows = wrap(op("permute", value.node, axes=order)).reshape(math.prod(lead), value.shape[axis])
    if not rows.shape[0]:
        raise ValueError("apply_along_axis: there is no vector to call the function with")
    found = stack([wrap(node(func1d(row, *args, **kwargs), "apply_along_axis")) for row in rows])
    shape = found.shape[1:]
    whole = found.reshape(*lead, *shape) if lead or shape else found.reshape(())
    order = (*range(axis), *range(len(lead), len(lead) + len(shape)), *range(axis, len(lead)))
    return whole.transpose(order) if whole.ndim else whole


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """A function of an array and an axis, called for one axis after the other.

    Parameters
    ----------
    func : callable
        Called as ``func(a, axis)``; a result with one dimension less gets it back.
    a : array
    axes : int or sequence of int

    Returns
    -------
    Array with as many dimensions as ``a``

    Raises
    ------
    AxisError, DTypeError, ShapeError
        No such axis; no function; a result of another number of dimensions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.apply_over_axes(wf.sum, wf.ones((2, 3, 2)), [0, 2]).tolist()
    [[[4.0], [4.0], [4.0]]]
    """
    (value,) = arrays("apply_over_axes", a=a)
    if not callable(func):
        raise DTypeError(f"apply_over_axes: func must be a function of an array and an axis, not {short(func)}")
    for axis in to_tuple(axes):
        place = axis_index(axis, max(value.ndim, 1), "apply_over_axes")  # numbers count as vectors, as in NumPy's folds
        found = wrap(node(func(value, place), "apply_over_axes"))
        if found.ndim == value.ndim - 1:
            found = found.reshape(*found.shape[:place], 1, *found.shape[place:])
        if found.ndim != value.ndim:
            raise ShapeError(f"apply_over_axes: the function gave shape {found.shape} for an array of shape {value.shape}")
        value = found
    return value


Names = tuple[str, ...]
_OPERANDS = r"\((?:[a-zA-Z_]\w*(?:,[a-zA-Z_]\w*)*)?\)"


def _dimensions(signature: str) -> tuple[list[Names], list[Names]]:
    """The names of the dimensions of each argument and of each result."""
    text = re.sub(r"\s+", "", signature)
    if not re.fullmatch(rf"(?:{_OPERANDS}(?:,{_OPERANDS})*)?->{_OPERANDS}(?:,{_OPERANDS})*", text):
        raise ValueError(f"vectorize: signature={signature!r} must be like '(m,n),(n)->(m)'")
    sides = [[tuple(re.findall(r"\w+", operand)) for operand in re.findall(_OPERANDS, side)] for side in text.split("->")]
    return sides[0], sides[1]


class vectorize:  # noqa: N801  NumPy's name
    """A function of numbers as one of arrays: called in Python, once for each element. ``wf.vmap`` runs natively.

    Parameters
    ----------
    pyfunc : callable, optional
        Of Python numbers; what it gives may be a number, or a tuple of them. Without it the object decorates a function.
    otypes : sequence of dtypes, optional
        Of the results; by default what the first call gives.
    doc : str, optional
    excluded : set of int and str, optional
        Arguments that are handed over as they are.
    cache : bool
        Whether the first call, made for the dtypes, is not made again.
    signature : str, optional
        Which dimensions a call takes and gives, such as "(m,n),(n)->(m)": it is called with Arrays that have them, once for each
        place of the other ones.

    Raises
    ------
    ValueError, TypeError
        A ``signature`` that is none; when it is called: arrays that do not fit it, or another number of arguments or results.

    Examples
    --------
    >>> import weft as wf
    >>> larger = wf.vectorize(lambda a, b: a if a > b else b)
    >>> larger(wf.array([1, 5, 2]), 3).tolist()
    [3, 5, 3]
    >>> @wf.vectorize(otypes=[float])
    ... def half(a):
    ...     return a / 2
    >>> half(wf.array([1, 4])).tolist()
    [0.5, 2.0]
    """

    def __init__(
        self, pyfunc: Callable[..., Any] | None = None, otypes: Any = None, doc: str | None = None, excluded: Any = None,
        cache: bool = False, signature: str | None = None,
    ) -> None:
        if pyfunc is not None and not callable(pyfunc):
            raise DTypeError(f"vectorize: pyfunc must be a function, not {short(pyfunc)}; as a decorator, name the arguments")
        self.signature = signature
        self._dimensions = None if signature is None else _dimensions(signature)
        self.pyfunc: Any = pyfunc
        self.cache, self.excluded = cache, frozenset(excluded or ())
        self.otypes = None if otypes is None else [spelled(t) for t in otypes]
        self._doc = doc
        self.__doc__ = doc or (pyfunc or type(self)).__doc__ or type(self).__doc__
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is None:
            return self._decorated(*args, **kwargs)
        if self._dimensions is not None:
            return self._by_signature(*self._dimensions, args, kwargs)
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        known = {k: looked(v, "vectorize", str(k)) for k, v in given.items() if k not in self.excluded}
        shape = broadcast_shapes("vectorize", *(v.shape for v in known.values()))
        lines = {k: np.broadcast_to(v, shape).reshape(-1).tolist() for k, v in known.items()}
        count = int(np.prod(shape))
        if not count and self.otypes is None:
            raise ValueError("vectorize: there is no element to call the function with; give otypes")

        def called(i: int) -> Any:
            at = {k: lines[k][i] if k in lines else v for k, v in given.items()}
            return self.pyfunc(*(at[k] for k in range(len(args))), **{k: at[k] for k in kwargs})

        results = [called(i) for i in range(count)]
        many = isinstance(results[0], tuple) if results else len(self.otypes or ()) > 1
        columns = list(zip(*results, strict=True)) if many and results else [results] * (len(self.otypes or [0]))
        out = [self._column(c, k, shape) for k, c in enumerate(columns)]
        return tuple(out) if many else out[0]

    def _decorated(self, pyfunc: Callable[..., Any]) -> vectorize:
        return vectorize(pyfunc, self.otypes, self._doc, self.excluded, self.cache, self.signature)

    def _by_signature(self, taken: list[Names], given: list[Names], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call for each place in front of the dimensions that the signature names; what is excluded is handed over as it is."""
        places = [k for k in range(len(args)) if k not in self.excluded]
        if len(places) != len(taken):
            raise TypeError(f"vectorize: {len(taken)} arguments are needed for signature={self.signature!r}, not {len(places)}")
        own = dict(zip(places, arrays("vectorize", **{f"args[{k}]": args[k] for k in places}), strict=True))
        sizes: dict[str, int] = {}
        for k, names in zip(places, taken, strict=True):
            self._fits(f"args[{k}]", own[k].shape, names, sizes)
        fronts = {k: own[k].shape[:own[k].ndim - len(names)] for k, names in zip(places, taken, strict=True)}
        front = broadcast_shapes("vectorize", *fronts.values())
        wide = {k: broadcast_to(own[k], front + own[k].shape[len(fronts[k]):]) for k in places}
        columns: list[list[Array]] = [[] for _ in given]
        for index in np.ndindex(*front):
            found = self.pyfunc(*(wide[k][index] if k in wide else x for k, x in enumerate(args)), **kwargs)
            results = found if isinstance(found, tuple) else (found,)
            if len(results) != len(given):
                raise ValueError(f"vectorize: {len(results)} results, but signature={self.signature!r} has {len(given)}")
            for column, result, names in zip(columns, results, given, strict=True):
                column.append(wrap(node(result, "vectorize", "a result")))
                self._fits("a result", column[-1].shape, names, sizes, exact=True)
        if not columns[0] and (self.otypes is None or any(n not in sizes for names in given for n in names)):
            raise ValueError("vectorize: there is nothing to call the function with; give otypes, and no new dimensions")
        out = []
        for k, (column, names) in enumerate(zip(columns, given, strict=True)):
            shape = front + tuple(sizes[n] for n in names)
            whole = stack(column).reshape(shape) if column else zeros(shape)
            out.append(whole if self.otypes is None else whole.astype(self.otypes[k].numpy))
        return out[0] if len(out) == 1 else tuple(out)

    def _fits(self, argument: str, shape: tuple[int, ...], names: Names, sizes: dict[str, int], exact: bool = False) -> None:
        """Learn how long the named dimensions are, and refuse what does not fit."""
        if len(shape) < len(names) or (exact and len(shape) != len(names)):
            raise ShapeError(f"vectorize: {argument} has shape {shape}, {len(names)} dimensions are in {self.signature!r}")
        for name, n in zip(names, shape[len(shape) - len(names):], strict=True):
            if sizes.setdefault(name, n) != n:
                raise ShapeError(f"vectorize: {argument} has shape {shape}, but {name!r} of {self.signature!r} is {sizes[name]}")

    def _column(self, results: Any, k: int, shape: tuple[int, ...]) -> Array:
        values = [x.item() if isinstance(x, Array | np.generic) else x for x in results]
        if self.otypes is not None:
            return wrap(node(np.array(values, self.otypes[k].numpy).reshape(shape), "vectorize"))
        return wrap(node(values, "vectorize")).reshape(shape)


@unbound
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> Callable[..., Any]:
    """A function of Python numbers as one of arrays, called in Python for each element.

    Parameters
    ----------
    func : callable
    nin, nout : int
        How many arguments, and how many results; the latter a tuple where there are several.
    identity : number, optional
        Kept for NumPy's sake; arrays of objects, which NumPy's own gives, are not there.

    Returns
    -------
    callable

    Raises
    ------
    TypeError
        When it is called: another number of arguments.

    Examples
    --------
    >>> import weft as wf
    >>> wf.frompyfunc(lambda a, b: a + 2 * b, 2, 1)(wf.array([1, 2]), 10).tolist()
    [21, 22]
    """
    mapped = vectorize(func)

    def function(*args: Any) -> Any:
        if len(args) != nin:
            raise TypeError(f"{mapped.__name__}: {nin} arguments are needed, not {len(args)}")
        return mapped(*args)

    function.nin, function.nout, function.identity = nin, nout, identity  # type: ignore[attr-defined]
    function.__name__, function.__doc__ = mapped.__name__, func.__doc__
    return function
