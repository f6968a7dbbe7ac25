"""Given: a number that a traced function is given or finds in an object, whose value each call tells anew.

It behaves as the number it stands for, to the last digit: what is computed of it beside Python's other numbers is noted on the
trace's tape and computed by Python again at each call, without bounds and with Python's own errors; where it meets an array,
that result becomes a run-time number of the Program. Whoever needs the value itself (a shape, an index, ``range``, a format)
gets it: then the argument is static, as it was before there was a tape. A condition only has to come out as it did.
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
RUN_TIME = frozenset((int, float)) | SCALARS - {np.bool_}  # types of numbers that may change from call to call
MOST = 4096  # steps: what computes more than so many numbers in Python is static
_ANY = object()
Step = tuple[Callable[..., Any], tuple[int, ...], type, Any]  # what computes it, of which slots, its type, what it must be


class Tape:
    """What a trace computes of the numbers it is given. Slots hold numbers: the leaves of the arguments, numbers of objects, then
    one for each step.

    nodes: slot and the ``scalar`` leaf that it is given to. static: leaves of which the value was asked for, each with the user's
    line that asked first. conditions: those behind steps that must come out as they did, with such lines. over: the trace is,
    so what is left of it are plain numbers; they are so outside of the trace, in other threads for example, all the time.
    """

    __slots__ = ("_made", "_nodes", "_roots", "_steps", "conditions", "nodes", "over", "static", "steps")

    def __init__(self, leaves: int) -> None:
        self._made: list[weakref.ref] = []
        self._nodes: dict[tuple[int, Format], Node] = {}
        self._steps: dict[Any, int] = {}  # what was computed before: by function and operands, its slot
        self._roots: list[frozenset[int]] = [frozenset((k,)) for k in range(leaves)]  # of each slot: the leaves behind it
        self.nodes: list[tuple[int, Node]] = []
        self.static: dict[int, str] = {}
        self.steps: list[Step] = []
        self.conditions: dict[int, str] = {}
        self.over = False

    @property
    def open(self) -> bool:
        """Whether this thread is in the trace."""
        return not self.over and any([trace.tape is self for trace in traces()])

    def number(self, value: Any, slot: int) -> Given:
        out = object.__new__(GivenScalar if type(value) in SCALARS else Given)
        out.value, out.slot, out.tape = value, slot, self
        self._made.append(weakref.ref(out))
        return out

    def apply(self, function: Callable[..., Any], operands: Sequence[Any], result: Any, wanted: Any = _ANY) -> int:
        """Note a step; the slot of its result."""
        mine = [k for k, x in enumerate(operands) if type(x) in GIVEN and x.tape is self]
        slots = tuple([operands[k].slot for k in mine])
        key = (function, slots, wanted is _ANY, *[None if k in mine else _described(x) for k, x in enumerate(operands)])
        known = self._steps.get(key)
        if known is not None:
            return known
        if len(mine) < len(operands):  # a number of a trace around this one stays what it is
            fixed = [None if k in mine else x if _is_open(x) else _plain(x) for k, x in enumerate(operands)]
            function = _with(function, fixed, mine)
        self.steps.append((function, slots, type(result), wanted))
        self._roots.append(frozenset().union(*[self._roots[s] for s in slots]))
        self._steps[key] = slot = len(self._roots) - 1
        return slot

    def roots(self, slot: int) -> frozenset[int]:
        """Return the first slots that a slot is computed of."""
        return self._roots[slot]

    def guard(self, number: Given) -> None:
        """The program is right only where this number is what it is now."""
        self.conditions |= dict.fromkeys(self._roots[number.slot] - self.conditions.keys(), user_line(user_frame()))
        self.apply(_itself, (number,), number.value, number.value)

    def pin(self, number: Given) -> None:
        """The leaves behind a number are static."""
        self.guard(number)
        self.static |= dict.fromkeys(self._roots[number.slot] - self.static.keys(), user_line(user_frame()))

    def node(self, number: Given, dtype: Format) -> Node:
        """The run-time number in ``dtype``, which holds it."""
        key = number.slot, dtype
        if key not in self._nodes:
            held = _HELD[_python_kind(dtype)] if type(number) is GivenScalar else _held(dtype)
            node = self._nodes[key] = scalar_leaf(None, dtype)
            self.nodes.append((self.apply(held, (number,), held(number.value)), node))
        return self._nodes[key]

    def close(self) -> None:
        """The trace is over."""
        for number in self.left():  # in an attribute or a list, where without jit it would be another at each call
            number.told()
        self.over = True
        self._made.clear()
        self._nodes.clear()

    def left(self) -> list[Given]:
        """The numbers that somebody still holds."""
        return [x for x in (ref() for ref in self._made) if x is not None]

    @staticmethod
    def agrees(found: Any, kind: type, wanted: Any) -> bool:
        """Whether a step gives what it must give, in the type that it gave."""
        found = _plain(found)
        return type(found) is kind and (wanted is _ANY or _same(found, wanted))

    def played(self, leaves: Sequence[Any], numbers: Sequence[Any] = ()) -> list[Any] | None:
        """The numbers in all slots for other leaves and numbers of objects; None where they are of another type, or not what they
        must be.

        What Python refuses is such a case too: the function is traced again then, and it is told to the user where it stands.
        """
        values = [*leaves, *numbers]
        try:
            for function, slots, kind, wanted in self.steps:
                found = function(*[values[s] for s in slots])
                if type(found) is not kind or (wanted is not _ANY and not _same(found, wanted)):
                    return None
                values.append(found)
        except Exception:
            return None
        return values


def _with(function: Callable[..., Any], operands: list[Any], places: list[int]) -> Callable[..., Any]:
    """A function of the operands at ``places`` only; the others stay."""
    if len(operands) == 2 and len(places) == 1:
        x, y = operands
        return (lambda x: function(x, y)) if places == [0] else (lambda y: function(x, y))

    def of_some(*some: Any) -> Any:
        full = operands.copy()
        for k, x in zip(places, some, strict=True):
            full[k] = x
        return function(*full)

    return of_some


def _is_open(x: Any) -> bool:
    return type(x) in GIVEN and x.tape.open


def _described(x: Any) -> Any:
    """A number or a setting, so that equal ones give equal results."""
    if _is_open(x):
        return id(x.tape), x.slot
    x = _plain(x)
    return type(x), repr(x) if type(x) is float or type(x) in SCALARS else x


def _itself(x: Any) -> Any:
    return x


def _same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b) if type(a) is float or type(a) in SCALARS else a == b  # there are NaN and two zeros


def fits(value: Any, dtype: Format) -> bool:
    """Whether a number becomes one of ``dtype`` without a word: within its range, and of its kind."""
    if type(value) is bool:
        return True
    if dtype in FLOATS:
        return abs(value) <= dtype.largest or (type(value) is float and not math.isfinite(value))
    return type(value) is int and dtype.kind != "bool" and dtype.least <= value <= dtype.greatest


def is_int(x: Any) -> bool:
    """Whether something is a Python int, of which the value may be told later."""
    return type(x) is int or (type(x) is Given and type(x.value) is int)


def _held(dtype: Format) -> Callable[[Any], Any]:
    kind = _python_kind(dtype)
    small = 127 if kind is int else dtype.reach

    def held(value: Any) -> Any:
        if not 0 <= value <= small and not fits(value, dtype):
            raise OverflowError
        return kind(value)

    return held


def _python_kind(dtype: Format) -> type:
    return float if dtype in FLOATS else bool if dtype.kind == "bool" else int


def _int(value: Any) -> int:
    return int(value)


def _float(value: Any) -> float:
    return float(value)


def _bool(value: Any) -> bool:
    return bool(value)


_HELD: dict[type, Callable[[Any], Any]] = {int: _int, float: _float, bool: _bool}  # functions, for a tape tells them apart


def _plain(x: Any) -> Any:
    return x.value if type(x) in GIVEN else x


def computed(function: Callable[..., Any], *operands: Any) -> Any:
    """Return ``function(*operands)``, as a number that each call computes again where an operand is one."""
    result = function(*map(_plain, operands))
    tapes = [x.tape for x in operands if type(x) in GIVEN and x.tape.open]
    tape = tapes[0] if tapes else None
    if len(tapes) > 1 and any([other is not tape for other in tapes]):
        tape = next(trace.tape for trace in traces() if trace.tape in tapes)  # the innermost
    if tape is None:
        return result
    if type(result) in _RESULTS and len(tape.steps) < MOST:
        return tape.number(result, tape.apply(function, operands, result))
    return function(*[x.told() if type(x) in GIVEN else x for x in operands])


class Given:
    """An int argument of a traced function, a number of an object, or what Python computes of some."""

    __slots__ = ("__weakref__", "slot", "tape", "value")

    value: Any
    slot: int
    tape: Tape

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # so isinstance(i, int) is what it is without jit
        return type(self.value)

    def node(self, dtype: Format) -> Node:
        """The number as a node, which ``dtype`` can hold; outside of its trace a constant."""
        return self.tape.node(self, dtype) if self.tape.open else constant(self.value, dtype)

    def told(self) -> Any:
        """The value itself; the argument becomes static."""
        if self.tape.open:
            self.tape.pin(self)
        return self.value

    def here(self) -> Any:
        """The value itself, for a program that is right for no other."""
        if self.tape.open:
            self.tape.guard(self)
        return self.value

    def __bool__(self) -> bool:
        truth: Any = self if type(self.value) is bool else computed(operator.truth, self)
        return truth.here() if type(truth) in GIVEN else truth

    def __getattr__(self, name: str) -> Any:
        getattr(self.value, name)  # raises as a number does
        return getattr(self.told(), name)

    def __hash__(self) -> int:
        return hash(self.told())

    def __repr__(self) -> str:
        return repr(self.told())

    def __str__(self) -> str:
        return str(self.told())

    def __format__(self, spec: str) -> str:
        return format(self.told(), spec)

    def __index__(self) -> int:
        return operator.index(self.told())

    def __int__(self) -> int:
        return int(self.told())

    def __float__(self) -> float:
        return float(self.told())

    def __complex__(self) -> complex:
        return complex(self.told())

    def __copy__(self) -> Given:
        return self

    def __deepcopy__(self, memo: Any) -> Given:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.value), (self.told(),)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return _joined(operator.pow, self, other, self, other)
        return pow(self.told(), asked(other), asked(modulus))

    def __rpow__(self, other: Any) -> Any:
        return _joined(operator.pow, other, self, self, other)

    def __divmod__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Cell) else (self // other, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: Any = None) -> Any:
        return computed(round, self) if digits is None else computed(round, self, asked(digits))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.told(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(x, Cell) for x in (*inputs, *options.get("out", ()))):
            return NotImplemented  # weft's arrays answer
        if method == "__call__" and not options and ufunc.nout == 1 and all([type(x) in _NUMBERS for x in inputs]):
            return computed(ufunc, *inputs)
        return getattr(ufunc, method)(*map(asked, inputs), **{k: asked(v) for k, v in options.items()})


class GivenScalar(Given):
    """The same of a NumPy scalar: beside arrays it keeps its own dtype."""

    __slots__ = ()

    @property
    def own(self) -> Node:
        """The number as a node of its own dtype."""
        return self.node(FROM_NUMPY[self.value.dtype])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name) if name in _OF_THE_DTYPE else super().__getattr__(name)


_OF_THE_DTYPE = frozenset(("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"))
GIVEN = frozenset((Given, GivenScalar))


class Slot(NamedTuple):
    """A number that a tape gives, in what outlives its trace."""

    slot: int


def asked(x: Any) -> Any:
    """``x``, or a list or tuple, with numbers themselves where it is one of which only the call tells the value."""
    if type(x) is list or type(x) is tuple:
        return type(x)(map(asked, x))
    return x.told() if type(x) in GIVEN else x


_RESULTS = frozenset((int, float, bool)) | SCALARS
_NUMBERS = _RESULTS | GIVEN


def _joined(function: Callable[..., Any], x: Any, y: Any, own: Given, other: Any) -> Any:
    if type(other) in _NUMBERS:
        return computed(function, x, y)
    if isinstance(other, Cell):
        return NotImplemented  # it knows what a number beside it means
    return function(asked(x), asked(y))


def _install() -> None:
    def unary(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: computed(function, self)

    def forward(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: _joined(function, self, other, self, other)

    def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: _joined(function, other, self, self, other)

    for name in ("neg", "pos", "abs", "invert"):
        setattr(Given, f"__{name}__", unary(getattr(operator, name)))
    for name in ("trunc", "floor", "ceil"):
        setattr(Given, f"__{name}__", unary(getattr(math, name)))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Given, f"__{name}__", forward(getattr(operator, name)))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor"):
        setattr(Given, f"__{name.strip('_')}__", forward(getattr(operator, name)))
        setattr(Given, f"__r{name.strip('_')}__", reflected(getattr(operator, name)))


_install()
