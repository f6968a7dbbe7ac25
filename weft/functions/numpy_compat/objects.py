"""NumPy's questions about arrays, and its classes that iterate, map functions and build arrays from indices."""

from __future__ import annotations

import builtins
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap, wrap_array
from weft.array.convert import exact_operands, number_node
from weft.array.numpy_methods import Flat as flatiter
from weft.array.views import unused_memory, view_memory
from weft.dtypes.api import result_type
from weft.dtypes.formats import COMPLEX, DEFAULT, FLOATS
from weft.dtypes.parse import check_like, layout, parse_dtype, to_tuple
from weft.errors import DTypeError, ShapeError, name_numpy_errors, short
from weft.functions.creation.fill import arange, array, asarray, linspace, zeros
from weft.functions.elementwise.ufuncs import isfinite
from weft.functions.reductions.folds import all
from weft.functions.shape.axes import broadcast_to, concat, moveaxis, stack
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    arrays,
    axis_index,
    broadcast_shapes,
    check_int,
    node,
    op,
    read_now,
    shape_tuple,
    unbound,
)
from weft.process.docstrings import complete_module
from weft.runtime import execute


def isscalar(element: Any) -> bool:
    """Return whether ``element`` is a number of Python, NumPy or weft. An array without dimensions is not.

    Parameters
    ----------
    element : any

    >>> wf.isscalar(3.0), wf.isscalar(wf.ones(2).sum()), wf.isscalar(wf.ones(2))
    (True, True, False)
    """
    return isinstance(element, Scalar) or bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Return whether ``y`` can be iterated over.

    Parameters
    ----------
    y : any

    >>> wf.iterable(wf.ones(2)), wf.iterable(2)
    (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def shape(a: Any) -> tuple[int, ...]:
    """Return the shape of an array or array-like.

    Returns
    -------
    tuple of int

    >>> wf.shape([[1, 2]])
    (1, 2)
    """
    return node(a, "shape", "a").shape


def ndim(a: Any) -> int:
    """Return the number of dimensions of an array or array-like.

    >>> wf.ndim([[1, 2]])
    2
    """
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements, in total or along axes.

    Parameters
    ----------
    axis : int or tuple of int, optional

    Raises
    ------
    AxisError
        The axis does not exist.

    >>> wf.size(wf.ones((2, 3))), wf.size(wf.ones((2, 3)), 1)
    (6, 3)
    """
    extents, count = shape(a), 1
    for k in arguments.axis_tuple(axis, len(extents), "size"):
        count *= extents[k]
    return count


def isfortran(a: Any) -> bool:
    """Return whether an array is stored in column-major order only; always False for weft's arrays.

    >>> wf.isfortran(wf.ones((2, 3)))
    False
    """
    return isinstance(a, np.ndarray) and bool(np.isfortran(a))


def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Return whether two arrays have an element in common.

    Views of one array can, and so can an array and the result of ``numpy.asarray`` for it.

    Parameters
    ----------
    a, b : array
        Of weft or NumPy.
    max_work : int, optional
        The effort of the search, as in NumPy; unlimited by default.

    Raises
    ------
    DTypeError, ValueError, RuntimeError
        ``max_work`` is no integer; it is below -1; it does not suffice to find the answer.

    >>> x = wf.ones(4)
    >>> wf.shares_memory(x, x[1:]), wf.shares_memory(x[:2], x[2:]), wf.shares_memory(x, x.numpy())
    (True, False, True)
    """
    most: Any = -1 if max_work is None else check_int(max_work, "shares_memory", "max_work")
    with name_numpy_errors("shares_memory"):
        return bool(builtins.any([np.shares_memory(*pair, most) for pair in _overlap_candidates(a, b)]))


def may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Return whether the memory ranges of two arrays overlap.

    Parameters
    ----------
    max_work : int, optional
        As in :func:`shares_memory`; by default there is no search, only the bounds are compared.

    >>> x = wf.ones(4)
    >>> wf.may_share_memory(x[::2], x[1::2]), wf.may_share_memory(x[:2], x[2:])
    (True, False)
    """
    most: Any = 0 if max_work is None else check_int(max_work, "may_share_memory", "max_work")
    with name_numpy_errors("may_share_memory"):
        return bool(builtins.any([np.may_share_memory(*pair, most) for pair in _overlap_candidates(a, b)]))


def _overlap_candidates(a: Any, b: Any) -> list[tuple[Any, Any]]:
    """Return pairs of NumPy arrays, one of which overlaps if the given arrays do. Nothing is computed."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return []
    if isinstance(a, Array) and isinstance(b, Array):
        memory = unused_memory(a.cell.shape, a.cell.node.dtype)
        return [(_view_of_memory(memory, a), _view_of_memory(memory, b))] if a.cell is b.cell else []
    return [(x, y) for x in _numpy_memories(a) for y in _numpy_memories(b)]


def _view_of_memory(memory: np.ndarray, x: Array) -> np.ndarray:
    """Return the view of its cell's memory that an Array is; all of the memory if NumPy would have copied the view."""
    view = memory if x.cell is x else view_memory(memory, x._path)
    return memory if view is None else view


def _numpy_memories(x: Any) -> list[Any]:
    """Return the arrays that ``numpy.asarray`` may have returned for ``x``: its cell's memory, or the copy of a view."""
    if not isinstance(x, Array):
        return [x] if isinstance(x, np.ndarray) else []
    cpu_nodes = [n for n in {x.cell._node, x.node} if n.value is not None and execute.owner(n.value).name == "cpu"]
    memory = {n: execute.eager_device().memory(n.value, n.shape, n.dtype) for n in cpu_nodes}
    return [_view_of_memory(m, x) if n is x.cell._node else m for n, m in memory.items()]


@unbound
def asanyarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None,
) -> Array:
    """Return :func:`asarray` of ``a``: weft's arrays have no subclasses.

    >>> wf.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    check_like(like, "asanyarray")
    layout(order, "asanyarray")
    return asarray(a, dtype, order, device=device, copy=copy)


@unbound
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """Return ``a`` as a contiguous array of at least one dimension; a strided view is copied.

    Returns
    -------
    Array with one or more dimensions

    Raises
    ------
    DTypeError
        ``a`` cannot become an array, or ``dtype`` is unknown.

    >>> wf.ascontiguousarray(wf.ones((2, 3)).T).shape
    (3, 2)
    """
    check_like(like, "ascontiguousarray")
    result = asarray(a, dtype)
    if not result.ndim:
        return wrap_array(result.node).reshape(1)
    return result if result._is_contiguous() else wrap_array(result.node)


@unbound
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """Return ``a`` as an array, in row-major order all the same: the order of elements in memory affects speed only.

    >>> wf.asfortranarray([1, 2]).tolist()
    [1, 2]
    """
    check_like(like, "asfortranarray")
    return ascontiguousarray(a, dtype)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """Return :func:`asarray` of ``a`` after checking that it holds no NaN and no infinity. Computes at once.

    Raises
    ------
    ValueError, DTypeError, TraceError
        ``a`` holds a NaN or an infinity; it cannot become an array, or ``dtype`` is unknown; called inside a traced function.

    >>> wf.asarray_chkfinite([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    layout(order, "asarray_chkfinite")
    result = asarray(a, dtype)
    if result.node.dtype in (*FLOATS, *COMPLEX) and not read_now(all(isfinite(result)), "asarray_chkfinite"):
        raise ValueError("asarray_chkfinite: a holds NaN or infinities")
    return result


def asnumpy(a: Any) -> np.ndarray:
    """Return the content as a new NumPy array, from any device. The name is CuPy's, whose ``a.get()`` does the same.

    Returns
    -------
    numpy.ndarray
        Writable. ``a.numpy()`` makes no copy and is read-only.

    Raises
    ------
    TraceError
        Called inside a traced function.

    >>> wf.asnumpy(wf.arange(3) * 2)
    array([0, 2, 4])
    """
    return np.array(asarray(a).numpy())


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Array:
    """Return ``a`` as an array whose memory fulfils requirements; "C", "A", "W", "O" and "E" always hold.

    Parameters
    ----------
    requirements : str or sequence of str, optional
        As in NumPy; "F" is refused.

    Raises
    ------
    ValueError, DTypeError
        "F" or an unknown requirement; ``a`` cannot become an array, or ``dtype`` is unknown.

    >>> wf.require([1, 2], requirements=["C", "W"]).tolist()
    [1, 2]
    """
    check_like(like, "require")
    words = [requirements] if isinstance(requirements, str) else arguments.as_list(requirements or (), "require", "requirements")
    letters = [str(r).upper()[:1] for r in words]
    if "F" in letters:
        raise ValueError("require: weft's arrays are stored in row-major order; requirements must not contain 'F'")
    unknown = [r for r in letters if r not in "CAWOE"]
    if unknown:
        raise ValueError(f"require: requirements={requirements!r} must be of 'C', 'A', 'W', 'O' and 'E'")
    return ascontiguousarray(a, dtype) if "C" in letters else array(a, dtype, copy=None)


class broadcast:  # noqa: N801  NumPy's name
    """The shape that arrays broadcast to, and an iterator over their elements in parallel.

    Parameters
    ----------
    args : array_like

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    >>> both = wf.broadcast(wf.arange(2), [[10], [20]])
    >>> both.shape, [int(a + b) for a, b in both]
    ((2, 2), [10, 11, 20, 21])
    """

    def __init__(self, *args: Any) -> None:
        operands = arrays("broadcast", **{f"args[{k}]": x for k, x in enumerate(args)})
        self.shape = broadcast_shapes("broadcast", *(x.shape for x in operands))
        self.nd = self.ndim = len(self.shape)
        self.size, self.numiter, self.index = math.prod(self.shape), len(operands), 0
        self._lines = [broadcast_to(x, self.shape).reshape(-1) for x in operands]

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
        """An iterator over the elements of each array."""
        return tuple(flatiter(line) for line in self._lines)

    def reset(self) -> None:
        """Start again at the first element."""
        self.index = 0


class _UfuncType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return not isinstance(x, Array) and callable(x) and hasattr(x, "nin") and hasattr(x, "at")


class ufunc(metaclass=_UfuncType):  # noqa: N801  NumPy's name
    """The type of elementwise functions with ``.nin``, ``.reduce``, ``.at`` and so on, for ``isinstance``; NumPy's own included.

    Examples
    --------
    >>> import weft as wf
    >>> isinstance(wf.add, wf.ufunc), isinstance(wf.sum, wf.ufunc)
    (True, False)
    """


__all__ = ["broadcast", "flatiter", "ufunc"]

_FLAGS = ("multi_index", "c_index", "refs_ok", "zerosize_ok", "external_loop", "buffered", "copy_if_overlap", "common_dtype")


class nditer:  # noqa: N801  NumPy's name
    """Iterate over the elements of one array, or of several that broadcast, as arrays without dimensions.

    Elements of a "readwrite" Array are views: ``x[...] = v`` writes to it. Operations on whole arrays are much faster.

    Parameters
    ----------
    op : array, or sequence of arrays
        None stands for a new array of the common shape and dtype, see ``operands``.
    flags : sequence of str
        "multi_index" and "c_index" track the position; "external_loop" is refused; the others have no effect.
    op_flags : any
        Ignored: weft's arrays are writable.
    op_dtypes : dtype, or sequence of dtypes and None, optional
        The dtypes of new arrays. Existing arrays are not cast.
    order : "C" or "K"
        Row-major order.

    Raises
    ------
    ValueError, ShapeError, DTypeError
        Another flag or order; shapes do not broadcast; all arrays are None, or an existing array has another dtype.

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
            raise ValueError(f"nditer: order={order!r} must be 'C' or 'K': weft's arrays are stored in row-major order")
        operands = list(op) if isinstance(op, tuple | list) else [op]
        iterated = _operands(operands, op_dtypes)
        self.shape = broadcast_shapes("nditer", *(x.shape for x in iterated))
        self.operands = tuple(iterated)
        self._lines = [x if x.shape == self.shape else broadcast_to(x, self.shape) for x in iterated]
        self.nop, self.ndim, self.itersize = len(iterated), len(self.shape), math.prod(self.shape)
        self.iterindex, self._fresh = 0, True

    @property
    def finished(self) -> bool:
        """Whether the iteration is complete."""
        return self.iterindex >= self.itersize

    @property
    def multi_index(self) -> tuple[int, ...]:
        """The position as one index per dimension."""
        if self.finished:
            raise ValueError("nditer: the iteration is complete, so there is no index; call reset() to start again")
        return tuple(int(i) for i in np.unravel_index(self.iterindex, self.shape)) if self.shape else ()

    @property
    def index(self) -> int:
        """The position in the flattened array."""
        return self.iterindex

    @property
    def value(self) -> Any:
        """The element at the position; for several arrays a tuple."""
        place = self.multi_index
        if not place:
            return self._lines[0] if self.nop == 1 else tuple(self._lines)
        parts = tuple(x[tuple(slice(i, i + 1) for i in place)].reshape(()) for x in self._lines)  # views
        return parts[0] if self.nop == 1 else parts

    def __getitem__(self, k: int) -> Array:
        return self.value if self.nop == 1 and k == 0 else self.value[k]

    def __setitem__(self, k: int, value: Any) -> None:
        self[k][...] = value

    def iternext(self) -> bool:
        """Advance to the next element and return whether there is one."""
        self.iterindex += 1
        return not self.finished

    def reset(self) -> None:
        """Start again at the first element."""
        self.iterindex, self._fresh = 0, True

    def close(self) -> None:
        """Do nothing: elements are written at once."""

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


def _operands(operands: list[Any], op_dtypes: Any) -> list[Array]:
    """Return the arrays to iterate over, creating one for each None."""
    existing = {k: arrays("nditer", op=x)[0] for k, x in enumerate(operands) if x is not None}
    if not existing:
        raise DTypeError("nditer: op[0] is None; at least one operand must be an array, which determines the shape")
    dtypes = list(op_dtypes) if isinstance(op_dtypes, tuple | list) else [op_dtypes] * len(operands)
    if len(dtypes) != len(operands):
        raise ValueError(f"nditer: op_dtypes has {len(dtypes)} dtypes for {len(operands)} arrays")
    for k, x in existing.items():
        if dtypes[k] is not None and parse_dtype(dtypes[k]) is not x.node.dtype:
            raise DTypeError(f"nditer: op_dtypes[{k}] is {dtypes[k]}, op[{k}] has dtype {x.dtype}: cast it with .astype first")
    if len(existing) == len(operands):
        return [*existing.values()]
    shape = broadcast_shapes("nditer", *(x.shape for x in existing.values()))
    common = result_type(*existing.values())
    return [existing[k] if k in existing else zeros(shape, dtypes[k] or common) for k in range(len(operands))]


def _count(extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Return an iterator over the indices of an array, the last one fastest."""
    return ((k, *rest) for k in range(extents[0]) for rest in _count(extents[1:])) if extents else iter([()])


MAX_LISTED = 1 << 20


class ndindex:  # noqa: N801  NumPy's name
    """An iterator over the indices of an array, the last one fastest.

    Parameters
    ----------
    shape : int
        The extents as separate arguments, or as one tuple.

    Raises
    ------
    ShapeError, DTypeError
        An extent is negative; it is no integer.

    >>> list(wf.ndindex(2, 2))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """

    def __init__(self, *shape: Any) -> None:
        argument = shape[0] if len(shape) == 1 else shape
        extents = shape_tuple(argument, "ndindex")
        short = sum(extents) < MAX_LISTED  # itertools.product stores each range as a tuple first
        self._places = itertools.product(*map(range, extents)) if short else _count(extents)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self

    def __next__(self) -> tuple[int, ...]:
        return next(self._places)


class ndenumerate:  # noqa: N801  NumPy's name
    """An iterator over the indices and elements of an array. Computes at once.

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
        return place, arguments.from_numpy(element)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """Call a function with each vector along an axis.

    Parameters
    ----------
    func1d : callable
        Takes an Array with one dimension.
    axis : int
    args, kwargs
        Passed to the function.

    Returns
    -------
    Array
        The results replace the axis.

    Raises
    ------
    AxisError, DTypeError, ValueError
        The axis does not exist; ``func1d`` is not callable; there is no vector.

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
        raise ValueError("apply_along_axis: arr has no vector along this axis, so the shape of the result is unknown")
    results = stack([wrap(node(func1d(row, *args, **kwargs), "apply_along_axis")) for row in rows])
    shape = results.shape[1:]
    whole = results.reshape(*lead, *shape) if lead or shape else results.reshape(())
    order = (*range(axis), *range(len(lead), len(lead) + len(shape)), *range(axis, len(lead)))
    return whole.transpose(order) if whole.ndim else whole


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """Call a function of an array and an axis for one axis after the other.

    Parameters
    ----------
    func : callable
        Called as ``func(a, axis)``; an axis that it removes is restored with extent 1.
    axes : int or sequence of int

    Returns
    -------
    Array with as many dimensions as ``a``

    Raises
    ------
    AxisError, DTypeError, ShapeError
        The axis does not exist; ``func`` is not callable; a result has another number of dimensions.

    >>> wf.apply_over_axes(wf.sum, wf.ones((2, 3, 2)), [0, 2]).tolist()
    [[[4.0], [4.0], [4.0]]]
    """
    (value,) = arrays("apply_over_axes", a=a)
    if not callable(func):
        raise DTypeError(f"apply_over_axes: func must be a function of an array and an axis, not {short(func)}")
    for axis in to_tuple(axes):
        place = axis_index(axis, max(value.ndim, 1), "apply_over_axes")  # numbers count as vectors, as in NumPy's reductions
        result = wrap(node(func(value, place), "apply_over_axes"))
        if result.ndim == value.ndim - 1:
            result = result.reshape(*result.shape[:place], 1, *result.shape[place:])
        if result.ndim != value.ndim:
            raise ShapeError(f"apply_over_axes: the function gave shape {result.shape} for an array of shape {value.shape}")
        value = result
    return value


Names = tuple[str, ...]
_OPERANDS = r"\((?:[a-zA-Z_]\w*(?:,[a-zA-Z_]\w*)*)?\)"


def _dimensions(signature: str) -> tuple[list[Names], list[Names]]:
    """Return the dimension names of each argument and of each result."""
    text = re.sub(r"\s+", "", signature)
    if not re.fullmatch(rf"(?:{_OPERANDS}(?:,{_OPERANDS})*)?->{_OPERANDS}(?:,{_OPERANDS})*", text):
        raise ValueError(f"vectorize: signature={signature!r} must be like '(m,n),(n)->(m)'")
    sides = [[tuple(re.findall(r"\w+", operand)) for operand in re.findall(_OPERANDS, side)] for side in text.split("->")]
    return sides[0], sides[1]


class vectorize:  # noqa: N801  NumPy's name
    """Make a function of numbers a function of arrays. It is called in Python for each element; ``wf.vmap`` runs natively.

    Parameters
    ----------
    pyfunc : callable, optional
        Takes Python numbers and returns a number or a tuple of them. If it is left out, the object is a decorator.
    otypes : sequence of dtypes, optional
        The dtypes of the results; by default those of the first call.
    doc : str, optional
        The docstring.
    excluded : set of int and str, optional
        Arguments that are passed unchanged.
    cache : bool
        Whether the result of the first call, which determines the dtypes, is reused.
    signature : str, optional
        The dimensions of arguments and results of one call, such as "(m,n),(n)->(m)": the function then receives Arrays with
        these dimensions, once per element of the other dimensions.

    Raises
    ------
    ValueError, TypeError
        An invalid ``signature``, or a ``pyfunc`` that is not callable. When called: arrays that do not fit the signature, or
        another number of arguments or results.

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
        self.otypes = None if otypes is None else [parse_dtype(t) for t in otypes]
        self._doc = doc
        self.__doc__ = doc or (pyfunc or type(self)).__doc__ or type(self).__doc__
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is None:
            (pyfunc,) = (*args, *kwargs.values())
            return vectorize(pyfunc, self.otypes, self._doc, self.excluded, self.cache, self.signature)
        if self._dimensions is not None:
            return self._call_by_signature(*self._dimensions, args, kwargs)
        operands: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        contents = {k: read_now(v, "vectorize", str(k)) for k, v in operands.items() if k not in self.excluded}
        shape = broadcast_shapes("vectorize", *(v.shape for v in contents.values()))
        lines = {k: np.broadcast_to(v, shape).reshape(-1).tolist() for k, v in contents.items()}
        count = int(np.prod(shape))
        if not count and self.otypes is None:
            raise ValueError("vectorize: there is no element, so the dtypes of the results are unknown; give otypes")

        def called(i: int) -> Any:
            at = {k: lines[k][i] if k in lines else v for k, v in operands.items()}
            return self.pyfunc(*(at[k] for k in range(len(args))), **{k: at[k] for k in kwargs})

        results = [called(i) for i in range(count)]
        many = isinstance(results[0], tuple) if results else len(self.otypes or ()) > 1
        columns = list(zip(*results, strict=True)) if many and results else [results] * (len(self.otypes or [0]))
        out = [self._column(c, k, shape) for k, c in enumerate(columns)]
        return tuple(out) if many else out[0]

    def _call_by_signature(self, inputs: list[Names], outputs: list[Names], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function for each index in front of the dimensions of the signature."""
        places = [k for k in range(len(args)) if k not in self.excluded]
        if len(places) != len(inputs):
            raise TypeError(f"vectorize: {len(inputs)} arguments are needed for signature={self.signature!r}, not {len(places)}")
        own = dict(zip(places, arrays("vectorize", **{f"args[{k}]": args[k] for k in places}), strict=True))
        sizes: dict[str, int] = {}
        for k, names in zip(places, inputs, strict=True):
            self._match(f"args[{k}]", own[k].shape, names, sizes)
        fronts = {k: own[k].shape[:own[k].ndim - len(names)] for k, names in zip(places, inputs, strict=True)}
        front = broadcast_shapes("vectorize", *fronts.values())
        wide = {k: broadcast_to(own[k], front + own[k].shape[len(fronts[k]):]) for k in places}
        columns: list[list[Array]] = [[] for _ in outputs]
        for index in np.ndindex(*front):
            returned = self.pyfunc(*(wide[k][index] if k in wide else x for k, x in enumerate(args)), **kwargs)
            results = returned if isinstance(returned, tuple) else (returned,)
            if len(results) != len(outputs):
                raise ValueError(f"vectorize: {len(results)} results, but signature={self.signature!r} has {len(outputs)}")
            for column, result, names in zip(columns, results, outputs, strict=True):
                column.append(wrap(node(result, "vectorize", "a result")))
                self._match("a result", column[-1].shape, names, sizes, exact=True)
        if not columns[0] and (self.otypes is None or any(n not in sizes for names in outputs for n in names)):
            raise ValueError("vectorize: there is nothing to call the function with; give otypes, and no new dimensions")
        out = []
        for k, (column, names) in enumerate(zip(columns, outputs, strict=True)):
            shape = front + tuple(sizes[n] for n in names)
            whole = stack(column).reshape(shape) if column else zeros(shape)
            out.append(whole if self.otypes is None else whole.astype(self.otypes[k].numpy))
        return out[0] if len(out) == 1 else tuple(out)

    def _match(self, argument: str, shape: tuple[int, ...], names: Names, sizes: dict[str, int], exact: bool = False) -> None:
        """Record the extents of the named dimensions, and refuse shapes that do not fit."""
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
    """Make a function of Python numbers a function of arrays; it is called in Python for each element.

    Parameters
    ----------
    func : callable
    nin, nout : int
        The numbers of arguments and of results; several results are a tuple.
    identity : number, optional
        Stored as an attribute. Unlike NumPy's, the result has the dtype of its numbers, not object.

    Returns
    -------
    callable

    Raises
    ------
    TypeError
        When called with another number of arguments.

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


_NUMBERS = (Scalar, int, float, np.generic)


def _slice_numbers(part: slice) -> Array:
    """Return the numbers of a slice. A complex step such as ``5j`` is a number of samples."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


class _Grid:
    """Coordinates of a grid that slices describe: :func:`meshgrid` of :func:`arange`.

    ``wf.mgrid[0:2, 0:3]`` is one array, ``wf.ogrid[0:2, 0:3]`` are vectors that broadcast. A step of ``5j`` makes 5 samples
    from start to stop, both included.

    >>> import weft as wf
    >>> wf.mgrid[0:2, 0:2].tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    >>> [x.tolist() for x in wf.ogrid[0:2, 0:2]]
    [[[0], [1]], [[0, 1]]]
    >>> wf.mgrid[0:1:3j].tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return _slice_numbers(index)
        lines = [_slice_numbers(part) for part in index]
        if any(x.dtype.kind == "f" for x in lines):
            lines = [x.astype(DEFAULT.real.name) for x in lines]
        thin = [x.reshape(tuple(x.size if a == k else 1 for a in range(len(lines)))) for k, x in enumerate(lines)]
        if self._sparse:
            return tuple(thin)
        shape = tuple(x.size for x in lines)
        return stack([broadcast_to(x, shape) for x in thin])


class _Joiner:
    """Join arrays, numbers and slices: ``wf.r_[...]`` along the first axis, ``wf.c_[...]`` as columns.

    An initial string sets the axis, as in NumPy: ``"1,2"`` joins along axis 1 with at least two dimensions, and ``"1,2,0"``
    also sets the axis of a vector's elements. Strings for matrices (``"r"``, ``"c"``) are refused.

    >>> import weft as wf
    >>> wf.r_[1, 2:4, wf.array([7, 8])].tolist()
    [1, 2, 3, 7, 8]
    >>> wf.c_[wf.array([1, 2]), wf.array([3, 4])].tolist()
    [[1, 3], [2, 4]]
    """

    def __init__(self, axis: int, ndmin: int, begin: int) -> None:
        self._how = axis, ndmin, begin

    def __getitem__(self, index: Any) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        axis, ndmin, begin = self._how
        if isinstance(parts[0], str):
            try:
                numbers = [int(n) for n in parts[0].split(",")]
            except ValueError:
                raise DTypeError(f"r_: {parts[0]!r} must be up to three integers; matrices are not offered") from None
            axis, ndmin, begin = (numbers + [ndmin, begin][len(numbers) - 1 :])[:3]
            parts = parts[1:]
        lines = [_slice_numbers(part) if isinstance(part, slice) else part for part in parts]
        operands = iter(exact_operands(*(x for x in lines if not isinstance(x, _NUMBERS))))
        items: list[Any] = [x if isinstance(x, _NUMBERS) else self._expand(wrap(next(operands)), ndmin, begin) for x in lines]
        return concat([self._expand(self._as_vector(x, items), ndmin, begin) if not isinstance(x, Array) or not x.ndim else x
                       for x in items], axis)

    @staticmethod
    def _as_vector(x: Any, neighbours: list[Any]) -> Array:
        """Return a number as a vector, in the dtype of the arrays beside it unless it has its own."""
        arrays = [o for o in neighbours if isinstance(o, Array | np.generic)]
        if type(x) in (int, float, bool) and arrays:
            return wrap_array(number_node(x, parse_dtype(result_type(x, *(a.dtype for a in arrays))))).reshape(1)
        return wrap_array(node(x, "r_")).reshape(1)

    @staticmethod
    def _expand(x: Array, ndmin: int, begin: int) -> Array:
        """Return ``x`` with at least ``ndmin`` dimensions, its own ones from position ``begin``."""
        ndim = x.ndim
        if ndim >= ndmin:
            return x
        wide = x.reshape((1,) * (ndmin - ndim) + x.shape)
        if begin == -1 or not ndim:
            return wide
        first = begin if begin >= 0 else begin + ndmin - ndim + 1
        return moveaxis(wide, tuple(range(ndmin - ndim, ndmin)), tuple(range(first, first + ndim)))


class _IndexExpression:
    """Return the index itself: ``wf.s_[1:3, ...]`` is a tuple of a slice and an Ellipsis.

    >>> import weft as wf
    >>> wf.s_[1:3, ...]
    (slice(1, 3, None), Ellipsis)
    >>> wf.index_exp[2]
    (2,)
    """

    def __init__(self, always: bool) -> None:
        self._makes_tuple = always

    def __getitem__(self, index: Any) -> Any:
        return (index,) if self._makes_tuple and not isinstance(index, tuple) else index


mgrid, ogrid = _Grid(False), _Grid(True)
r_, c_ = _Joiner(0, 1, -1), _Joiner(-1, 2, 0)
s_, index_exp = _IndexExpression(False), _IndexExpression(True)


complete_module(
    globals(), (isscalar, iterable), (shares_memory, may_share_memory), (asarray, asanyarray,
    ascontiguousarray, asarray_chkfinite, require), (ascontiguousarray, asfortranarray), (isscalar, isfortran),
)
