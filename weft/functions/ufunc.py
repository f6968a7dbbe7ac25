"""What NumPy's ufuncs can do beside being called: ``wf.add.reduce``, ``.accumulate``, ``.outer``, ``.at``, ``.reduceat``.

The functions of ``elementwise.py`` carry these as attributes. Sums, products and extremes are primitives. Where it does not
matter how operands are grouped, other folds are done by halves and running ones by doubling: lazy, with derivatives. The rest
(``subtract``, ``divide``, ``power``) go from the left, and compute at once, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from weft.array import Array, Scalar, wrap
from weft.array.convert import exact_operands, in_dtype
from weft.array.operations import Operation
from weft.dtypes.formats import BOOL, COMPLEX, FLOAT32, FLOAT64, INEXACT, summed, weak
from weft.dtypes.parse import spelled
from weft.errors import DTypeError, ShapeError
from weft.functions.common import (
    CASTINGS,
    NUMBERS,
    Node,
    axis_index,
    axis_tuple,
    broadcast,
    cast,
    finish,
    held,
    integer_node,
    into,
    looked,
    may_cast,
    node,
    number,
    of_numpy,
    op,
    refuse_promotion,
    reshaped,
    sliced,
    widened,
)
from weft.functions.unbound import as_method

_GROUPED = frozenset((
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "hypot",
))
_MONOIDS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "min", "logical_or": "max",
}
_PYTHON = (bool, int, float, complex)
_FOREIGN = frozenset("gGOMmqQ")  # letters of dtypes that weft has not, or that it has under another letter, as int64 is "l"
_FLOATING = ("logaddexp", "logaddexp2", "hypot")
_IDENTITY: dict[str, Any] = {
    "add": 0, "multiply": 1, "logical_and": True, "logical_or": False, "logical_xor": False, "bitwise_and": -1, "bitwise_or": 0,
    "bitwise_xor": 0, "logaddexp": -np.inf, "logaddexp2": -np.inf, "hypot": 0, "gcd": 0,
}


class Ufunc(Protocol):
    """What type checkers know of an element-wise function."""

    nin: int
    nout: int
    nargs: int
    ntypes: int
    types: list[str]
    identity: Any
    signature: str | None
    reduce: Callable[..., Array]
    accumulate: Callable[..., Array]
    reduceat: Callable[..., Array]
    outer: Callable[..., Array]
    at: Callable[..., None]

    def __call__(
        self, *operands: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind",
        order: str = "K", subok: bool = True,
    ) -> Array: ...


def describe(function: Any, name: str, arity: int = 0) -> None:
    """Give a function the attributes of NumPy's ufunc ``name`` that say what it takes; of its types those that weft has."""
    numpys: Any = getattr(np, name, None)
    numpys = numpys if isinstance(numpys, np.ufunc) else None
    function.nin, function.nout = (arity, 1) if numpys is None else (numpys.nin, numpys.nout)
    function.nargs = function.nin + function.nout
    function.types = [] if numpys is None else [types for types in numpys.types if _FOREIGN.isdisjoint(types)]
    function.ntypes = len(function.types)
    function.signature = None if numpys is None else numpys.signature
    function.identity = None if numpys is None else numpys.identity


def equip(function: Any, operation: Operation) -> None:
    """Give a function of elements what ufuncs have."""
    describe(function, operation.ufunc, operation.arity)
    function.at = partial(at, operation)
    if operation.arity == 2:
        function.outer = partial(outer, as_method(function))
        function.reduce, function.accumulate = partial(reduce, operation), partial(accumulate, operation)
        function.reduceat = partial(reduceat, operation)


def asked(ask: Callable[..., Array], xs: tuple[Any, ...], out: Any) -> Array:
    """What a function gives for an ``out``: floats made of integers are float64 where that is, which NumPy makes of them."""
    found = ask(*xs)
    if found.node.dtype is not FLOAT32 or widened(FLOAT32, out) is not FLOAT64:
        return found
    nodes = [x if type(x) in NUMBERS else node(x, "out") for x in xs]
    if any(isinstance(n, Node) and n.dtype in INEXACT for n in nodes):
        return found
    return ask(*(wrap(cast(n, FLOAT64) if isinstance(n, Node) else held(n, FLOAT64, "out", "x")) for n in nodes))


def special(ask: Callable[..., Array], name: str, xs: tuple[Any, ...], out: Any, where: Any, dtype: Any, casting: str) -> Array:
    """A call with ``where=`` or ``dtype=``."""
    refuse_promotion(name, casting, *xs)
    if where is not True and name == "pow" and isinstance(xs[1], Array | np.ndarray):  # negative powers that are left out pass
        power = node(xs[1], name)
        mask = cast(node(where, name, "where"), BOOL)
        xs = (xs[0], wrap(op("where", mask, power, number(1, power.dtype))))
    if dtype is not None or casting not in CASTINGS:
        wanted = spelled(dtype)
        given = [  # Python's numbers have no dtype of their own
            in_dtype(x, wanted) if type(x) in _PYTHON and weak(type(x), wanted) is wanted else node(x, name) for x in xs
        ]
        lost = [n for n in given if not may_cast(n.dtype, wanted, casting, name)]
        sizes = wanted not in COMPLEX and all(n.dtype in COMPLEX for n in lost)  # of complex numbers
        have = " and ".join(n.dtype.name for n in given)
        if lost and not sizes and wanted is not BOOL:
            raise DTypeError(f"{name}: dtype={wanted} cannot hold operands of {have}; cast them, or use casting='unsafe'")
        found = ask(*xs) if lost or wanted is BOOL else ask(*(wrap(cast(n, wanted)) for n in given))  # BOOL: comparisons
        if found.node.dtype is not wanted:
            raise DTypeError(f"{name}: dtype={wanted} is not what it makes of {have}: {found.node.dtype}; cast the result")
    else:
        found = asked(ask, xs, out)
    if where is True:
        return finish(found.node, out, name, casting)
    mask = cast(node(where, name, "where"), BOOL)
    old = number(0, found.node.dtype) if out is None else node(out, name, "out")
    chosen = op("where", mask, into(found.node, old.dtype, name, casting) if out is not None else found.node, old)
    return finish(chosen, out, name)


def _plain(method: str, operation: Operation) -> Any:
    """NumPy's own, of those that go from the left."""
    return getattr(getattr(np, operation.ufunc or operation.name), method)


def _line(operation: Operation, x: Any, dtype: Any, out: Any = None) -> Node:
    """The operand in the dtype that a fold is computed in."""
    value = node(x, operation.name)
    if dtype is not None:
        wanted = spelled(dtype)
        within = BOOL if operation.name.startswith("logical") else operation.rule(operation.name, wanted)[1]
        if within is not wanted:
            raise DTypeError(f"{operation.name}: dtype={wanted} is not what it gives: of {wanted} it makes {within}")
        return cast(value, wanted)
    if out is not None:
        value = cast(value, widened(value.dtype, out))
    elif operation.name in ("add", "multiply"):
        value = cast(value, summed(value.dtype))
    if operation.name.startswith("logical"):
        return cast(value, BOOL)
    within = operation.rule(operation.name, value.dtype)[1]  # what the operation refuses it refuses of one element, too
    return cast(value, within) if operation.name in _FLOATING else value


def _from_left(method: str, operation: Operation, value: Node, **known: Any) -> Node:
    """What goes from the left, computed at once; floats that NumPy makes of integers are float32."""
    within = operation.rule(operation.name, value.dtype)[1]
    like = FLOAT32 if value.dtype not in INEXACT and within is FLOAT32 else None
    if like is not None:
        value = cast(value, FLOAT64)
    return of_numpy(_plain(method, operation)(wrap(value).numpy(), **known), like).node


def _joined(operation: Operation, x: Node, y: Node) -> Node:
    return operation.node(wrap(x), wrap(y))


def _with_axes(value: Node, name: str) -> Node:
    if not value.shape:
        raise DTypeError(f"{name}: the array has no dimensions, so there is nothing to go along")
    return value


def _monoid(operation: Operation, value: Node) -> str | None:
    """What primitives call an operation that they fold numbers by; sums and products of bools are bools."""
    return None if value.dtype is BOOL and operation.name in ("add", "multiply") else _MONOIDS.get(operation.name)


def _folded(operation: Operation, value: Node, axes: Sequence[int]) -> Node:
    """The fold of axes, which have an element; by halves where no primitive does it."""
    if all(value.shape[axis] == 1 for axis in axes):
        return value
    monoid = _monoid(operation, value)
    if monoid is not None:
        return op(f"reduce_{monoid}", value, axes=tuple(axes), keepdims=True)
    for axis in axes:
        while value.shape[axis] > 1:
            extent = value.shape[axis]
            half = extent // 2
            both = _joined(operation, sliced(value, axis, 0, half), sliced(value, axis, half, 2 * half))
            value = op("concat", both, cast(sliced(value, axis, 2 * half, extent), both.dtype), axis=axis) if extent % 2 else both
    return value


def reduce(
    operation: Operation, array: Any, /, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Array:
    """All elements along axes joined; the first axis where none is named."""
    name = f"{operation.name}.reduce"
    value = _line(operation, array, dtype, out)
    axes = axis_tuple(axis, len(value.shape), name) if value.shape or axis not in (0, -1) else ()
    identity = _IDENTITY.get(operation.name)
    if where is not True and identity is None and initial is None:
        raise ValueError(f"{name}: where= needs initial=, since {operation.name} has no identity")
    if operation.name not in _GROUPED:
        if len(axes) > 1 and operation.name != "gcd":
            raise ValueError(f"{name}: {operation.name} goes along one axis, for its order matters")
        known = {"initial": initial, "where": where}
        known = {k: looked(v, name, k) for k, v in known.items() if v is not (True if k == "where" else None)}
        return finish(_from_left("reduce", operation, value, axis=axes, keepdims=keepdims, **known), out, name)
    first = None if initial is None else held(initial, value.dtype, name, "initial")
    neutral = first if identity is None else cast(node(identity, name), value.dtype)  # joined to others it changes nothing
    if where is not True:
        mask = broadcast(cast(node(where, name, "where"), BOOL), value.shape)
        assert neutral is not None  # or it was refused
        value = op("where", mask, value, neutral)
    if operation.name == "hypot" and first is None:
        value = op("abs", value)  # begun with 0: one element alone is a distance, too
    for a in axes:
        if not value.shape[a]:
            if neutral is None:
                raise ShapeError(f"{name}: an array of shape {value.shape} has no element along axis={a}, and no identity")
            value = broadcast(neutral, tuple(1 if d == a else n for d, n in enumerate(value.shape)))
    value = _folded(operation, value, axes)
    if first is not None:
        value = _joined(operation, value, first)
    shape = tuple(1 if d in axes else n for d, n in enumerate(value.shape) if keepdims or d not in axes)
    return finish(reshaped(value, shape), out, name)


def accumulate(operation: Operation, array: Any, /, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
    """Each element joined with all before it along an axis."""
    name = f"{operation.name}.accumulate"
    value = _with_axes(_line(operation, array, dtype, out), name)
    axis = axis_index(axis, len(value.shape), name)
    if operation.name not in _GROUPED:
        return finish(_from_left("accumulate", operation, value, axis=axis), out, name)
    monoid = _monoid(operation, value)
    if monoid is not None:
        return finish(op(f"cumulative_{monoid}", value, axis=axis), out, name)
    by = 1
    while by < value.shape[axis]:
        extent = value.shape[axis]
        both = _joined(operation, sliced(value, axis, 0, extent - by), sliced(value, axis, by, extent))
        value = op("concat", cast(sliced(value, axis, 0, by), both.dtype), both, axis=axis)
        by *= 2
    return finish(value, out, name)


def reduceat(operation: Operation, array: Any, indices: Any, /, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
    """Folds of the slices between indices, which are looked at; where the next one is not larger, one element."""
    name = f"{operation.name}.reduceat"
    value = _with_axes(_line(operation, array, dtype, out), name)
    axis = axis_index(axis, len(value.shape), name)
    starts = wrap(integer_node(indices, name, "indices", bools=True)).numpy().reshape(-1).tolist()
    extent = value.shape[axis]
    for i in starts:
        if not 0 <= i < extent:
            raise IndexError(f"{name}: index {i} is out of bounds for axis {axis} with size {extent}")
    if operation.name not in _GROUPED:
        return finish(_from_left("reduceat", operation, value, indices=starts, axis=axis), out, name)
    parts = []
    for k, i in enumerate(starts):
        stop = starts[k + 1] if k + 1 < len(starts) else extent
        parts.append(_folded(operation, sliced(value, axis, i, stop if stop > i else i + 1), (axis,)))
    if not parts:
        return finish(sliced(value, axis, 0, 0), out, name)
    return finish(parts[0] if len(parts) == 1 else op("concat", *parts, axis=axis), out, name)


def outer(function: Callable[..., Array], x1: Any, x2: Any, /, **options: Any) -> Array:
    """The function of each element of one with each element of the other."""
    a, b = map(wrap, exact_operands(x1, x2))
    return function(a.reshape(a.shape + (1,) * b.ndim), b, **options)


def at(operation: Operation, array: Any, indices: Any, /, *values: Any) -> None:
    """Written in place at indices, once for each of equal ones."""
    if not isinstance(array, Array) or isinstance(array, Scalar):
        raise DTypeError(f"{operation.name}.at: the array must be a weft Array, not {type(array).__name__}: it is written to")
    _plain("at", operation)(array, indices, *values)


__all__ = ["Ufunc"]
