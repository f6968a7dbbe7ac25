"""Python functions called with slices, or with elements: in Python, as often as there are some."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.parse import spelled, to_tuple
from weft.errors import DTypeError, ShapeError, short
from weft.functions.broadcasting import broadcast_to
from weft.functions.common import arrays, axis_index, broadcast_shapes, looked, node, op
from weft.functions.creation import zeros
from weft.functions.joining import stack
from weft.functions.unbound import unbound


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
