"""Given: a number argument of a traced function, or a number found in an object, whose value each call supplies.

It behaves exactly as the number it stands for. Python operations on it are recorded on the trace's tape and repeated by Python at
each call, with Python's unbounded integers and errors. Combined with an array it becomes a run-time number of the Program. Code
that needs the value itself (a shape, an index, ``range``, a format) gets it, and the argument becomes static. A condition only
has to have the same outcome at each call.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.dtypes.formats import FLOATS, FROM_NUMPY, Format
from weft.graph.node import Node
from weft.graph.primitives.table import constant, scalar_leaf
from weft.graph.source_lines import user_frame, user_line
from weft.runtime.cell import Cell, traces

SCALARS = frozenset([form.numpy.type for form in FROM_NUMPY.values() if form.kind in ("bool", "signed", "unsigned", "float")])
RUN_TIME_TYPES = frozenset((int, float)) | SCALARS - {np.bool_}  # types of numbers that may change from call to call
MAX_STEPS = 4096  # steps: a tape with more makes its numbers static
_ANY_VALUE = object()
Step = tuple[Callable[..., Any], tuple[int, ...], type, Any]  # function, slots of operands, type of result, required result


class Tape:
    """The computations that a trace does on run-time numbers. Slots hold numbers: the leaves of the arguments, numbers of
    objects, then one result per step.

    nodes: pairs of a slot and the ``scalar`` leaf that receives its number. static: leaves whose value was read, each with the
    line of the user's first read. conditions: leaves behind steps that must have the same outcome, with such lines. over: True
    once the trace has ended; the numbers left are then plain, as they always are outside of the trace, for example in other
    threads.
    """

    __slots__ = ("_number_refs", "_nodes", "_roots", "_steps", "conditions", "nodes", "is_closed", "static", "steps")

    def __init__(self, leaves: int) -> None:
        self._number_refs: list[weakref.ref] = []
        self._nodes: dict[tuple[int, Format], Node] = {}
        self._steps: dict[Any, int] = {}  # function and operands -> slot of the result
        self._roots: list[frozenset[int]] = [frozenset((k,)) for k in range(leaves)]  # slot -> the leaves behind it
        self.nodes: list[tuple[int, Node]] = []
        self.static: dict[int, str] = {}
        self.steps: list[Step] = []
        self.conditions: dict[int, str] = {}
        self.is_closed = False

    @property
    def open(self) -> bool:
        """Whether this thread is in the trace."""
        return not self.is_closed and any([trace.tape is self for trace in traces()])

    def number(self, value: Any, slot: int) -> TracedInt:
        out = object.__new__(TracedScalar if type(value) in SCALARS else TracedInt)
        out.value, out.slot, out.tape = value, slot, self
        self._number_refs.append(weakref.ref(out))
        return out

    def apply(self, function: Callable[..., Any], operands: Sequence[Any], result: Any, required: Any = _ANY_VALUE) -> int:
        """Record a step and return the slot of its result."""
        own = [k for k, x in enumerate(operands) if type(x) in TRACED_TYPES and x.tape is self]
        slots = tuple([operands[k].slot for k in own])
        key = (function, slots, required is _ANY_VALUE, *[None if k in own else _describe(x) for k, x in enumerate(operands)])
        recorded = self._steps.get(key)
        if recorded is not None:
            return recorded
        if len(own) < len(operands):  # a number of an outer trace is kept as it is
            fixed = [None if k in own else x if _is_open(x) else _value_of(x) for k, x in enumerate(operands)]
            function = _fix_operands(function, fixed, own)
        self.steps.append((function, slots, type(result), required))
        self._roots.append(frozenset().union(*[self._roots[s] for s in slots]))
        self._steps[key] = slot = len(self._roots) - 1
        return slot

    def roots(self, slot: int) -> frozenset[int]:
        """Return the first slots that a slot is computed of."""
        return self._roots[slot]

    def guard(self, number: TracedInt) -> None:
        """Record that the program is valid only for the present value of this number."""
        self.conditions |= dict.fromkeys(self._roots[number.slot] - self.conditions.keys(), user_line(user_frame()))
        self.apply(_identity, (number,), number.value, number.value)

    def pin(self, number: TracedInt) -> None:
        """Make the leaves behind a number static."""
        self.guard(number)
        self.static |= dict.fromkeys(self._roots[number.slot] - self.static.keys(), user_line(user_frame()))

    def node(self, number: TracedInt, dtype: Format) -> Node:
        """Return the node of a run-time number in ``dtype``, which must be able to hold the number."""
        key = number.slot, dtype
        if key not in self._nodes:
            convert = _python_kind(dtype) if type(number) is TracedScalar else _converter(dtype)
            node = self._nodes[key] = scalar_leaf(None, dtype)
            self.nodes.append((self.apply(convert, (number,), convert(number.value)), node))
        return self._nodes[key]

    def close(self) -> None:
        """End the trace."""
        for number in self.live_numbers():  # stored in an attribute or a list, where without jit it would change at each call
            number.make_static()
        self.is_closed = True
        self._number_refs.clear()
        self._nodes.clear()

    def live_numbers(self) -> list[TracedInt]:
        """Return the numbers that are still referenced."""
        return [x for x in (ref() for ref in self._number_refs) if x is not None]

    @staticmethod
    def agrees(result: Any, kind: type, required: Any) -> bool:
        """Return whether a step's result has the recorded type and, if one is required, the required value."""
        result = _value_of(result)
        return type(result) is kind and (required is _ANY_VALUE or _same(result, required))

    def replay(self, leaves: Sequence[Any], numbers: Sequence[Any] = ()) -> list[Any] | None:
        """Recompute all slots for other leaves and numbers of objects. Return None if a type or a required value differs.

        None is also returned if Python raises: the function is then traced again, and the error appears at the user's line.
        """
        values = [*leaves, *numbers]
        try:
            for function, slots, kind, required in self.steps:
                result = function(*[values[s] for s in slots])
                if type(result) is not kind or (required is not _ANY_VALUE and not _same(result, required)):
                    return None
                values.append(result)
        except Exception:
            return None
        return values


def _fix_operands(function: Callable[..., Any], operands: list[Any], places: list[int]) -> Callable[..., Any]:
    """Return a function of the operands at ``places`` only; the other operands are fixed."""
    def of_some(*some: Any) -> Any:
        full = operands.copy()
        for k, x in zip(places, some, strict=True):
            full[k] = x
        return function(*full)

    return of_some


def _is_open(x: Any) -> bool:
    return type(x) in TRACED_TYPES and x.tape.open


def _describe(x: Any) -> Any:
    """Return a hashable description of a number or setting; equal descriptions give equal results."""
    if _is_open(x):
        return id(x.tape), x.slot
    x = _value_of(x)
    return type(x), repr(x) if type(x) is float or type(x) in SCALARS else x


def _identity(x: Any) -> Any:
    return x


def _same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b) if type(a) is float or type(a) in SCALARS else a == b  # repr compares NaN and the sign of zero


def fits(value: Any, dtype: Format) -> bool:
    """Return whether ``dtype`` holds a number without a warning: the number is within range and of the same kind."""
    if type(value) is bool:
        return True
    if dtype in FLOATS:
        return abs(value) <= dtype.largest or (type(value) is float and not math.isfinite(value))
    return type(value) is int and dtype.kind != "bool" and dtype.least <= value <= dtype.greatest


def is_int(x: Any) -> bool:
    """Return whether ``x`` is a Python int, possibly one whose value each call supplies."""
    return type(x) is int or (type(x) is TracedInt and type(x.value) is int)


def _converter(dtype: Format) -> Callable[[Any], Any]:
    kind = _python_kind(dtype)
    safe = 127 if kind is int else dtype.reach

    def convert(value: Any) -> Any:
        if not 0 <= value <= safe and not fits(value, dtype):
            raise OverflowError
        return kind(value)

    return convert


def _python_kind(dtype: Format) -> type:
    return float if dtype in FLOATS else bool if dtype.kind == "bool" else int


def _value_of(x: Any) -> Any:
    return x.value if type(x) in TRACED_TYPES else x


def compute_traced(function: Callable[..., Any], *operands: Any) -> Any:
    """Return ``function(*operands)``. If an operand is a run-time number, so is the result: each call computes it again."""
    result = function(*map(_value_of, operands))
    tapes = [x.tape for x in operands if type(x) in TRACED_TYPES and x.tape.open]
    tape = tapes[0] if tapes else None
    if len(tapes) > 1 and any([t is not tape for t in tapes]):
        tape = next(trace.tape for trace in traces() if trace.tape in tapes)  # the innermost
    if tape is None:
        return result
    if type(result) in _RESULTS and len(tape.steps) < MAX_STEPS:
        return tape.number(result, tape.apply(function, operands, result))
    return function(*[x.make_static() if type(x) in TRACED_TYPES else x for x in operands])


class TracedInt:
    """An int argument of a traced function, a number of an object, or a result that Python computes of such numbers."""

    __slots__ = ("__weakref__", "slot", "tape", "value")

    value: Any
    slot: int
    tape: Tape

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(i, int) is the same as without jit
        return type(self.value)

    def node(self, dtype: Format) -> Node:
        """Return the number as a node of ``dtype``, which must be able to hold it; outside of its trace, a constant."""
        return self.tape.node(self, dtype) if self.tape.open else constant(self.value, dtype)

    def make_static(self) -> Any:
        """Return the plain value; the argument becomes static."""
        if self.tape.open:
            self.tape.pin(self)
        return self.value

    def fix_value(self) -> Any:
        """Return the plain value; the program is valid for this value only."""
        if self.tape.open:
            self.tape.guard(self)
        return self.value

    def __bool__(self) -> bool:
        truth: Any = self if type(self.value) is bool else compute_traced(operator.truth, self)
        return truth.fix_value() if type(truth) in TRACED_TYPES else truth

    def __getattr__(self, name: str) -> Any:
        getattr(self.value, name)  # raises the AttributeError of the number
        return getattr(self.make_static(), name)

    def __copy__(self) -> TracedInt:
        return self

    def __deepcopy__(self, memo: Any) -> TracedInt:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.value), (self.make_static(),)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return _combine(operator.pow, self, other, other)
        return pow(self.make_static(), make_static(other), make_static(modulus))

    def __rpow__(self, other: Any) -> Any:
        return _combine(operator.pow, other, self, other)

    def __divmod__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Cell) else (self // other, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: Any = None) -> Any:
        return compute_traced(round, self) if digits is None else compute_traced(round, self, make_static(digits))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.make_static(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(x, Cell) for x in (*inputs, *options.get("out", ()))):
            return NotImplemented  # __array_ufunc__ of weft's arrays handles it
        if method == "__call__" and not options and ufunc.nout == 1 and all([type(x) in _NUMBERS for x in inputs]):
            return compute_traced(ufunc, *inputs)
        return getattr(ufunc, method)(*map(make_static, inputs), **{k: make_static(v) for k, v in options.items()})


class TracedScalar(TracedInt):
    """A run-time number that is a NumPy scalar: beside arrays it keeps its own dtype."""

    __slots__ = ()

    @property
    def own_node(self) -> Node:
        """The number as a node of its own dtype."""
        return self.node(FROM_NUMPY[self.value.dtype])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name) if name in _DTYPE_ATTRIBUTES else super().__getattr__(name)


_DTYPE_ATTRIBUTES = frozenset(("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"))
TRACED_TYPES = frozenset((TracedInt, TracedScalar))


class Slot(NamedTuple):
    """A number of a tape, referred to in an object that outlives the trace."""

    slot: int


def make_static(x: Any) -> Any:
    """Replace run-time numbers by their plain values, in ``x`` itself or, if it is a list or tuple, within it."""
    if type(x) is list or type(x) is tuple:
        return type(x)(map(make_static, x))
    return x.make_static() if type(x) in TRACED_TYPES else x


_RESULTS = frozenset((int, float, bool)) | SCALARS
_NUMBERS = _RESULTS | TRACED_TYPES


def _combine(function: Callable[..., Any], x: Any, y: Any, other: Any) -> Any:
    if type(other) in _NUMBERS:
        return compute_traced(function, x, y)
    if isinstance(other, Cell):
        return NotImplemented  # the array's operator handles the number
    return function(make_static(x), make_static(y))


def _install() -> None:
    def unary(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: compute_traced(function, self)

    def forward(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: _combine(function, self, other, other)

    def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: _combine(function, other, self, other)

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *more: function(self.make_static(), *more)

    for function in (hash, repr, str, format, operator.index, int, float, complex):
        setattr(TracedInt, f"__{function.__name__}__", plain(function))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(TracedInt, f"__{name}__", unary(getattr(operator, name)))
    for name in ("trunc", "floor", "ceil"):
        setattr(TracedInt, f"__{name}__", unary(getattr(math, name)))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(TracedInt, f"__{name}__", forward(getattr(operator, name)))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor"):
        setattr(TracedInt, f"__{name.strip('_')}__", forward(getattr(operator, name)))
        setattr(TracedInt, f"__r{name.strip('_')}__", reflected(getattr(operator, name)))


_install()
