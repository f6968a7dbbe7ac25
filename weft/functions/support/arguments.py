"""What the functions share: nodes from arguments, dtypes of results, axes, sizes, ``out=``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.assignment import assigned
from weft.array.convert import as_node, cast, numpy_node, refuse_subclass
from weft.dtypes.formats import (
    BOOL,
    COMPLEX,
    DEFAULT,
    FROM_NUMPY,
    INEXACT,
    INT64,
    INTEGERS,
    Format,
    complexed,
    converted,
    holds,
    promote,
    same_kind,
)
from weft.dtypes.parse import read_integers, to_tuple
from weft.eager.apply import bind
from weft.errors import AxisError, DeviceError, DTypeError, ShapeError, TraceError, as_called, place_of, short, warn
from weft.graph.node import Node, Shape
from weft.graph.primitives.rules import broadcast as two_shapes
from weft.graph.primitives.table import TABLE, constant
from weft.runtime import execute
from weft.runtime.context import LOCAL

__all__ = ["Node", "Shape", "cast"]

Axis = int | Sequence[int] | None
NUMBERS = (bool, int, float)


def named(function: Any, name: str) -> None:
    """Names a function that a maker made, in its code too: errors and tracebacks read the name there."""
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)


def alias(function: Any, name: str) -> Any:
    """The same function under another name, by which its errors call it."""
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    copy.__doc__, copy.__module__ = function.__doc__, function.__module__
    named(copy, name)
    return copy


def op(name: str, *nodes: Node, **params: Any) -> Node:
    """Bind one primitive by name."""
    return bind(TABLE[name], *nodes, **params)


def floating(node: Node) -> Node:
    """``node`` as a float or complex: integers and bools become the default."""
    return node if node.dtype in INEXACT else cast(node, DEFAULT.real)


def magnitude(node: Node) -> Node:
    """The size of complex numbers; real ones as they are."""
    return op("abs", node) if node.dtype in COMPLEX else node


def parts_of(node: Node) -> tuple[Node, Node]:
    """The real and the imaginary parts of complex numbers."""
    return op("real", node), op("imag", node)


def conjugated(node: Node) -> Node:
    """Complex numbers conjugated; real ones as they are."""
    return op("conj", node) if node.dtype in COMPLEX else node


def number(value: Any, dtype: Format) -> Node:
    """A number that belongs to the formula, such as the 2 in a variance's square."""
    return constant(value, dtype)


def named_device(function: str, device: Any) -> str:
    """The name of the device that ``function`` was asked for, which can be used here."""
    try:
        return execute.get_device(device).name
    except (TypeError, ValueError, DeviceError) as error:
        raise type(error)(as_called(f"{function}: {error}")) from None


def made_on(function: str, device: Any, make: Callable[..., Any], *args: Any) -> Any:
    """``make(*args)``, an array or a pair that begins with one, on the device that ``function`` was asked for. Inside of traces
    and gradients what an array rests on runs where the whole does, so there the device has to exist and nothing is moved."""
    there = named_device(function, device)
    if LOCAL.trace is not None or LOCAL.keep:
        return make(*args)
    with execute.on(there):
        found = make(*args)
        return (found[0].to_device(there), *found[1:]) if isinstance(found, tuple) else found.to_device(there)


def several(given: Any, function: str, argument: str) -> list[Any]:
    """An argument that must be a sequence."""
    try:
        return list(given)
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be a sequence, not {type(given).__name__}") from None


def whole(value: Any, function: str, argument: str) -> int:
    """An argument that must be an integer."""
    try:
        return operator.index(value)
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be an integer, not {value!r}") from None


def is_number(x: Any) -> bool:
    """Whether this is an int or a float of Python's, and not an array that stands for one."""
    return isinstance(x, int | float) and not isinstance(x, Array)


def real_number(value: Any, function: str, argument: str) -> Any:
    """An argument that must be a real number, or an array of them."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, NUMBERS) or (kind and kind not in "cOSU"):
        return value
    raise DTypeError(f"{function}: {argument} must be a real number, not {short(value)}")


def one_number(value: Any, function: str, argument: str) -> Any:
    """Return an argument that must be a real number, or an array without dimensions."""
    if getattr(value, "shape", ()) != ():
        raise DTypeError(f"{function}: {argument} has shape {value.shape}; one number is needed")
    return real_number(value, function, argument)


def freedom_lost(function: str, ddof: Any, correction: Any) -> Any:
    """How many degrees of freedom a variance takes away: the one, or by the array API's word the other."""
    if correction is None:
        return one_number(ddof, function, "ddof")
    if ddof != 0:
        raise ValueError(f"{function}: ddof={ddof} and correction={correction} say the same; give one of them")
    return one_number(correction, function, "correction")


def flag(value: Any, function: str, argument: str = "keepdims") -> bool:
    """An argument that must be true or false: a bool, or an integer."""
    if value is True or value is False:
        return bool(value)
    try:
        return bool(value if isinstance(value, np.bool_) else operator.index(value))
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be True or False, not {value!r}") from None


def axis_index(axis: Any, ndim: int, function: str = "axis", argument: str = "axis") -> int:
    """One axis as a number from 0 to ``ndim - 1``."""
    try:
        number = operator.index(axis)
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be an integer, not {axis!r}") from None
    if not -ndim <= number < ndim:
        has = f"axes {-ndim} to {ndim - 1}" if ndim else "no axes"
        raise AxisError(f"{function}: {argument}={number}, but the array has {has}")
    return number % ndim


def axis_tuple(axis: Axis, ndim: int, function: str = "axis", argument: str = "axis") -> tuple[int, ...]:
    """Axes as a sorted tuple; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    given = to_tuple(axis)
    axes = tuple(axis_index(a, ndim, function, argument) for a in given)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{function}: {argument}={axis!r} names an axis twice")
    return tuple(sorted(axes))


CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def may_cast(source: Format, target: Format, casting: str, function: str) -> bool:
    """Whether ``source`` may become ``target`` by NumPy's rule of this name."""
    if casting not in CASTINGS:
        text = f"{function}: casting={casting!r} must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'"
        raise ValueError(as_called(text))
    if casting == "unsafe" or source is target:
        return True
    if casting == "safe":
        return holds(target, source) or bool(np.can_cast(source.numpy, target.numpy))  # NumPy calls int64 to float64 safe
    return casting == "same_kind" and same_kind(source, target)


def refuse_promotion(function: str, casting: str, *operands: Any) -> None:
    """Refuse arrays of several dtypes under the rules by which none of them may be cast."""
    have = {x.dtype: None for x in operands if isinstance(x, Array | np.ndarray)}
    if casting in ("no", "equiv") and len(have) > 1:
        names = " and ".join(map(str, have))
        raise DTypeError(f"{function}: operands of {names} need a cast, which casting={casting!r} forbids; cast with .astype")


def axes_of(axis: Axis, shape: Shape, function: str) -> tuple[int, ...]:
    """The axes to go over; a number has none, and NumPy lets 0 and -1 pass for them."""
    if not shape and (axis is None or (type(axis) is int and axis in (0, -1))):
        return ()
    return axis_tuple(axis, len(shape), function)


def shape_tuple(shape: Any, function: str, argument: str = "shape") -> Shape:
    """``shape`` as a tuple of extents that are not negative."""
    if type(shape) is tuple:  # most often
        for n in shape:
            if type(n) is not int or n < 0:
                break
        else:
            return shape
    extents = read_integers(shape, f"{function}: {argument}")
    if any(n < 0 for n in extents):
        raise ShapeError(f"{function}: {argument}={extents} has a negative extent")
    return extents


def shape_of(x: Any, function: str) -> Shape:
    """The shape of an argument that may be a number."""
    return () if isinstance(x, NUMBERS) else node(x, function).shape


def broadcast_shapes(function: str, *shapes: Shape) -> Shape:
    """The shape that NumPy's rules give; ShapeError names all of them where they do not fit."""
    out: Shape = ()
    for shape in shapes:
        both = two_shapes(out, shape)
        if both is None:
            raise ShapeError(
                f"{function}: shapes {', '.join(map(str, shapes))} do not broadcast: from the right, extents must be equal or 1"
            )
        out = both
    return out


def broadcast(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else op("broadcast_to", node, shape=shape)


def reshaped(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else op("reshape", node, shape=shape)


def permuted(node: Node, axes: Sequence[int]) -> Node:
    return node if tuple(axes) == tuple(range(len(node.shape))) else op("permute", node, axes=tuple(axes))


def sliced(node: Node, axis: int, start: int, stop: int) -> Node:
    """``node[..., start:stop, ...]`` along one axis, step 1."""
    if start == 0 and stop == node.shape[axis]:
        return node
    ndim = len(node.shape)
    shape = tuple(stop - start if a == axis else n for a, n in enumerate(node.shape))
    return op("slice", node, start=tuple(start if a == axis else 0 for a in range(ndim)), step=(1,) * ndim, shape=shape)


def reduced(name: str, node: Node, axes: tuple[int, ...], keepdims: bool = False) -> Node:
    """A reduction; over no axes it is the array itself."""
    keepdims = flag(keepdims, name.removeprefix("reduce_"))
    return bind(TABLE[name], node, axes=axes, keepdims=keepdims) if axes else node


def norm_root(total: Node, degree: float = 2) -> Node:
    """Return ``total ** (1 / degree)`` of a sum of powers. Its derivative is 0 where the sum is 0, as in PyTorch."""
    if degree == 2:
        return op("root_of_squares", total)
    return _flat_at_zero(total, 1 / degree)


def powers(value: Node, degree: float) -> Node:
    """Return ``abs(value) ** degree``, the terms of a norm, with derivatives of 0 at 0."""
    if degree == 2:
        return op("square", magnitude(value))
    size = op("abs", value)
    return op("pow", size, number(degree, size.dtype)) if degree > 2 else _flat_at_zero(size, degree)


def _flat_at_zero(value: Node, exponent: float) -> Node:
    """Return ``value ** exponent`` of numbers that are not negative, with a derivative of 0 where the value is 0."""
    zero = op("equal", value, number(0, value.dtype))
    power = op("pow", op("where", zero, number(1, value.dtype), value), number(exponent, value.dtype))
    return op("where", zero, number(0.0 if exponent > 0 else math.inf, value.dtype), power)


def extent_of(shape: Shape, axes: Sequence[int]) -> int:
    return math.prod(shape[a] for a in axes)


def warn_of_empty_mean(function: str, shape: Shape, count: int) -> None:
    """Warn of a mean of no elements, in the words that NumPy's users filter by. Only shapes are looked at, never values."""
    if not count:
        warn(f"Mean of empty slice: {function} of no elements of an array of shape {shape} is NaN")


def warn_of_freedom(function: str, count: int, ddof: float) -> None:
    """Warn of a variance of no more elements than degrees of freedom are taken away, in NumPy's words."""
    if count <= ddof:
        warn(f"Degrees of freedom <= 0 for slice: {function} of {count} elements with ddof={ddof} is NaN or infinite")


def finish(node: Node, out: Any = None, function: str = "out", casting: str = "same_kind") -> Array:
    """The result as an Array; with ``out``, written there: of the same shape, and of a dtype that ``casting`` allows."""
    if out is None:
        return wrap(node)
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError(as_called(f"{function}: out has {len(out)} arrays; it must be one, or a tuple of one"))
        (out,) = out
    if isinstance(out, np.ndarray):
        return _into_numpy(node, out, function, casting)
    if not isinstance(out, Array):
        raise DTypeError(f"{function}: out must be a weft Array, not {type(out).__name__}")
    if out.shape != node.shape:
        raise ShapeError(f"{function}: out has shape {out.shape}, but the result has shape {node.shape}")
    out[...] = wrap(into(node, out.node.dtype, function, casting))
    return out


def into(node: Node, have: Format, function: str, casting: str = "same_kind") -> Node:
    """A result in the dtype of ``out``, where ``casting`` allows that."""
    if not may_cast(node.dtype, have, casting, function):
        rule = "" if casting == "same_kind" else f" by casting={casting!r}"
        raise DTypeError(
            f"{function}: out has dtype {have}, which cannot hold a result of {node.dtype}{rule}; cast with .astype first"
        )
    return cast(node, have)


def widened(form: Format, out: Any) -> Format:
    """What a fold of ``form`` is computed in: with ``out=``, as in NumPy, in the dtype that holds both."""
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    there = out.node.dtype if isinstance(out, Array) else FROM_NUMPY.get(out.dtype) if isinstance(out, np.ndarray) else None
    if there is None or (there.alone and form in INEXACT):
        return form
    return there if form.alone and there in INEXACT else promote(form, there)


def _into_numpy(node: Node, out: np.ndarray, function: str, casting: str) -> Any:
    """The result computed, and written into an array of NumPy's."""
    refuse_subclass(out)
    found = wrap(node).numpy()
    if out.shape != found.shape:
        raise ShapeError(f"{function}: out has shape {out.shape}, but the result has shape {found.shape}")
    try:
        np.copyto(out, found, casting=casting)  # type: ignore[arg-type]
    except TypeError:
        raise DTypeError(f"{function}: out has dtype {out.dtype}, which cannot hold a result of {found.dtype}") from None
    return out


def node(x: Any, function: str, argument: str = "x") -> Node:
    """An argument as a Node; None is refused by name."""
    if isinstance(x, Array):
        return x.node
    if x is None:
        called, name = place_of(x)
        raise DTypeError(f"{called if name else function}: {name or argument} is None; an array or a number is needed")
    return x if isinstance(x, Node) else as_node(x)


def arrays(function: str, **given: Any) -> tuple[Array, ...]:
    """Arguments, by their names, as Arrays."""
    return tuple([x if isinstance(x, Array) else wrap(node(x, function, name)) for name, x in given.items()])


def looked(x: Any, function: str, argument: str = "x") -> Any:
    """What an argument holds as a NumPy array, computed now; TraceError where that is not known."""
    return wrap(node(x, function, argument)).numpy()


def seen(x: Any, function: str, argument: str = "x") -> Any:
    """As :func:`looked`; None where the content is not known, inside of a trace."""
    try:
        return looked(x, function, argument)
    except TraceError:
        return None


def of_numpy(x: Any, like: Format | None = None) -> Array:
    """NumPy's answer as an Array; ``like``: the float whose numbers its float64 becomes, where operands were none."""
    found = np.asarray(x)
    if like is not None and found.dtype in (np.float64, np.complex128):
        found = converted(found, like.part.numpy if found.dtype == np.float64 else complexed(like).numpy)
    return wrap(numpy_node(found))


def held(x: Any, dtype: Format, function: str, argument: str) -> Node:
    """An argument that is written into an array of ``dtype``."""
    return assigned(node(x, function, argument) if x is None else x, dtype)


def integer_node(x: Any, function: str, argument: str = "indices", bools: bool = False) -> Node:
    """An argument that must hold integers; ``bools``: these count as 0 and 1."""
    found = node(x, function, argument)
    if bools and found.dtype is BOOL:
        return cast(found, INT64)
    if found.dtype not in INTEGERS:
        if 0 in found.shape and not isinstance(x, Array):  # an empty list is float by default, and holds no index at all
            return cast(found, INT64)
        raise DTypeError(f"{function}: {argument} must hold integers, but has dtype {found.dtype}; cast with .astype('int64')")
    return found
