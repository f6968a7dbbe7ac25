"""The kernel IR: frozen, hashable, printable dataclasses that every code generator reads.

A Kernel is one native call. It runs its phases in order, with a barrier between them. A phase runs its stages in order inside
loops over the phase's shared axes. Later stages of the same shared iteration read a reduced value as ``acc``; a *carried*
reduction, one over shared axes, is complete after its phase and is read by later phases.

No other order is guaranteed except that an element is loaded before it is stored, if the stored value depends on it, and that a
stage's stores to one element happen in program order. Carried reductions read after all iterations of their phase. This order
decides whether an output may overwrite an input: see ``hazards.py``.

    softmax over rows of x[R, C]                   x / x.sum()
    phase r<R                                      phase
      stage c<C: acc0 = max x[r, c]                  stage i, j: acc0 = sum x[i, j]
      stage c<C: acc1 = sum exp(x[r, c] - acc0)    phase i, j
      stage c<C: y[r, c] = exp(x - acc0) / acc1      stage: y[i, j] = x[i, j] / acc0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from weft.dtypes.formats import Format
from weft.dtypes.rounding import DIRECTED, Accumulator
from weft.kernel.target import Order


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop. ``id`` is unique in its kernel."""

    id: int
    extent: int


@dataclass(frozen=True, slots=True)
class Affine:
    """const + sum(axis * coef) + sum(value * coef): the only form of an index.

    terms: ((axis id, coefficient), ...), sorted by axis id, without zero coefficients.
    gather: ((integer Value, coefficient), ...): indices that are read from memory.
    """

    const: int = 0
    terms: tuple[tuple[int, int], ...] = ()
    gather: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Affine, coef: int = 1) -> Affine:
        """Return ``self + coef * other``."""
        terms = dict(self.terms)
        for axis, c in other.terms:
            terms[axis] = terms.get(axis, 0) + c * coef
        nonzero = tuple(sorted((a, c) for a, c in terms.items() if c))
        return Affine(self.const + other.const * coef, nonzero, self.gather + tuple((v, c * coef) for v, c in other.gather))

    def times(self, coef: int) -> Affine:
        return Affine().plus(self, coef)

    def axis(self) -> int | None:
        """Return the axis id if this index is exactly one axis, else None."""
        plain = self.const == 0 and len(self.terms) == 1 and not self.gather and self.terms[0][1] == 1
        return self.terms[0][0] if plain else None


def axis_index(axis: Axis | int, coef: int = 1) -> Affine:
    """Return the index ``coef * axis``."""
    return Affine(0, ((axis if isinstance(axis, int) else axis.id, coef),) if coef else ())


def size_of(axes: tuple[Axis, ...]) -> int:
    return prod([a.extent for a in axes])


@dataclass(frozen=True, slots=True)
class Buffer:
    """Dense memory. scope: ``arg`` (an input or output of the program) or ``kernel`` (scratch).

    ``id`` of an ``arg`` buffer is its position in the kernel's argument list, inputs first. order: the dimensions from the
    slowest to the fastest in memory; () is row-major. Shapes and indices are independent of ``order``.
    """

    id: int
    dtype: Format
    shape: tuple[int, ...]
    scope: str = "arg"
    order: tuple[int, ...] = ()

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the strides in elements, by dimension."""
        out, step = [], 1
        for extent in reversed(self.memory_extents):
            out.append(step)
            step *= extent
        out.reverse()
        return tuple([out[self.order.index(d)] for d in range(len(out))]) if self.order else tuple(out)

    @property
    def memory_extents(self) -> tuple[int, ...]:
        """Return the extents from the slowest dimension in memory to the fastest."""
        return tuple([self.shape[d] for d in self.order]) if self.order else self.shape


@dataclass(frozen=True, slots=True)
class Access:
    """One element of a buffer: one Affine for each dimension.

    guard: ((index, lo, hi), ...): memory is touched only if lo <= index < hi holds for all of them. Otherwise a load returns
    ``fill`` and a store does nothing. Guards implement padding, concatenation and tails.
    """

    buffer: Buffer
    index: tuple[Affine, ...]
    guard: tuple[tuple[Affine, int, int], ...] = ()
    fill: Any = 0

    # code generators call flat() for every unrolled copy
    _flat: Affine | None = field(default=None, init=False, repr=False, compare=False)

    def flat(self) -> Affine:
        """Return the element offset as one Affine."""
        flat = self._flat
        if flat is None:
            flat = Affine()
            for index, stride in zip(self.index, self.buffer.strides, strict=True):
                flat = flat.plus(index, stride)
            object.__setattr__(self, "_flat", flat)
        return flat


@dataclass(frozen=True, slots=True)
class Value:
    """An expression over one iteration.

    op is a machine operation (:data:`MACHINE_OPERATIONS`) on args of equal dtype, or one of
      load    attr: Access
      const   attr: Python or NumPy number
      scalar  attr: number of the kernel's run-time scalar
      index   attr: Affine; the integer itself (int64 before a cast)
      acc     attr: id of a Reduction (or of the Contraction, or of a sum in a Chain) whose result is read
      check   args: (index int64, whether it matters), attr: Check. The index if it is in range, else 0. An index that is
              out of range and matters is recorded as a fault: no later phase and no later kernel runs.
    """

    op: str
    args: tuple[Value, ...]
    dtype: Format
    attr: Any = None


class Check(NamedTuple):
    """0 <= index < extent. site: number of the check in the kernel, reported with a fault; None if the check cannot fail."""

    extent: int
    site: int | None


class MachineOperation(NamedTuple):
    """Arity of an operation and its cost in nanoseconds per element.

    The cost is that of one core of 70 GFLOP/s (float32), vectorised if vector instructions exist. It is fitted to measured
    kernels (tests/placement/measured.json).
    """

    arity: int
    ns: float = 0.05

    @property
    def costly(self) -> bool:
        """Return whether the operation is a function of many instructions."""
        return self.ns >= 0.5


LIBRARY_NS = 8.0  # one call of the C library


def _all(arity: int, ns: float, *names: str) -> dict[str, MachineOperation]:
    return dict.fromkeys(names, MachineOperation(arity, ns))


# the only operations that code generators emit
MACHINE_OPERATIONS: dict[str, MachineOperation] = {
    **_all(2, 0.05, "add", "sub", "mul", "min", "max", "copysign"),
    **_all(2, 0.05, "eq", "ne", "lt", "le", "gt", "ge"),  # -> bool
    **_all(2, 0.05, "and", "or", "xor", "shl", "shr"),  # bool and integers
    **_all(2, 0.3, "div"),
    **_all(2, 3.0, "floordiv", "rem"),
    **_all(2, LIBRARY_NS, "pow", "atan2"),
    **_all(1, 0.05, "neg", "abs", "not", "floor", "ceil", "trunc", "rint"),
    **_all(1, 0.4, "sqrt"),
    **_all(1, 0.6, "exp"),
    **_all(1, 0.8, "expm1", "log1p", "tanh", "log", "sin", "cos"),
    **_all(1, 1.0, "erf"),
    **_all(1, LIBRARY_NS, "tan", "asin", "acos", "atan", "sinh", "cosh"),
    **_all(1, 2 * LIBRARY_NS, "asinh", "acosh", "atanh"),
    **_all(1, 0.05, "cast"),  # to Value.dtype, NumPy's meaning; float to a narrower float rounds to nearest even
    **_all(1, 0.05, "bitcast"),  # same width
    **_all(1, 0.3, *(f"round_{mode}" for mode in DIRECTED)),  # a float to Value.dtype, a smaller float, see dtypes/rounding
    **_all(2, 0.4, "round_stochastic"),  # the same with 32 random bits, uint32
    **_all(3, 0.05, "select"),  # bool, then, else
    **_all(3, 0.05, "fma"),  # a * b + c, one rounding; only if a primitive requests it
    # (key uint64, base uint64, element index uint64) -> uint32: word i & 3 of Philox4x32-10(key, base + (i >> 2))
    **_all(3, 2.0, "philox"),
    **_all(3, 1.0, "philox_half"),  # 16 of these bits, above 16 zeros: see graph/primitives/philox.py
}


def is_exact(op: str, form: Format) -> bool:
    """Return whether the results of an operation on numbers of a storage-only float are numbers of it, without rounding."""
    if op in ("neg", "copysign"):
        return form.special not in ("fnuz", "scale")
    if op in ("floor", "ceil", "trunc", "rint"):
        return form.largest % 1 == 0 and form.special != "scale"
    return op in ("abs", "min", "max", "select")


@dataclass(frozen=True, slots=True)
class Reduction:
    """acc[id] = finish(merge of lift(args) over axes).

    monoid: sum, prod, max, min (NaN wins), argmax, argmin (first of equals, NaN wins; the result is the int64 position in the
        flattened reduced index). any and all are max and min of bool.
    value: the reduced expression. ``accum`` is the dtype of the accumulator; the result is read as ``dtype``.
    axes: in order of the reduced dimensions, the last runs fastest.
    carried: axes include the phase's shared axes; the result is complete only after the phase.
    running: a fold over one axis whose partial results, each including its own element, are read by the stores of the same stage.
        The axis runs in ascending order in one accumulator (order.lanes is 1, one block).
    precision, accumulator: of a product (see Contraction).
    """

    id: int
    axes: tuple[Axis, ...]
    monoid: str
    value: Value
    accum: Format
    dtype: Format
    order: Order
    is_carried: bool = False
    running: bool = False
    precision: str = "float32"
    accumulator: Accumulator | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """Write a value.

    mode ``set``: if an index is gathered, the stage's loops run in order and the last write stays.
    mode ``own``: no two iterations write the same element, whatever the index is.
    mode ``add``: accumulate into the buffer, in order (scatter-add).
    mode ``add_unordered``: accumulate in any order, on devices whose Target sets ``unordered``.
    """

    access: Access
    value: Value
    mode: str = "set"

    @property
    def adds(self) -> bool:
        return self.mode in ("add", "add_unordered")


@dataclass(frozen=True, slots=True)
class Stage:
    """One loop body over ``axes`` (besides the shared ones). Its reductions share the loop."""

    axes: tuple[Axis, ...]
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True, slots=True)
class Contraction:
    """acc[id] = sum over k of a * b, for every (batch, m, n); the stores are the epilogue and read it as ``acc``.

    a depends on batch, m, k; b on batch, n, k. Axis groups are ordered as the output's dimensions are. Within a store, ``acc`` is
    the element at the store's own (batch, m, n); a Stage over the same axes may read it, too (``tallies.py``). A convolution has
    the same form: m = (image, oh, ow), n = (out channel), k = (in channel, kh, kw), and a's index is oh*stride + kh - pad with a
    guard.

    order: the order of the sum over k. None: the generator chooses it from the kernel and the CPU (the weight gradient of a
        convolution, which sums pixels in memory order).
    precision: the format to which float32 operands may be shortened: "float32" (none), "tf32", "tf32x3" or "bfloat16". Only
        devices that list it in ``Target.precisions`` receive another one than "float32".
    accumulator: how the sum is rounded on the way, if it is; its blocks are those of ``order``. No device may ignore it.
    algorithm: of a convolution: "direct", or "winograd" if the device may use transforms, whose sums have no order.
    """

    id: int
    batch: tuple[Axis, ...]
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    k: tuple[Axis, ...]
    a: Value
    b: Value
    accum: Format
    order: Order | None
    stores: tuple[Store, ...]
    precision: str = "float32"
    accumulator: Accumulator | None = None
    algorithm: str = "direct"


class Inner(NamedTuple):
    """acc[id] = sum over k of a * b, for every (batch, row, column). a depends on batch, rows, k; b on batch, columns, k."""

    id: int
    k: tuple[Axis, ...]
    a: Value
    b: Value


class Softmax(NamedTuple):
    """Softmax along the columns of a Chain.

    acc[top] is a row's greatest score, 0 if every score is -inf. acc[weight] = exp(score - top) for every column. acc[total] is
    the sum of a row's weights, so a row whose scores are all -inf has a total of 0.
    """

    score: Value
    weight: int
    top: int
    total: int


@dataclass(frozen=True, slots=True)
class Outer:
    """acc[id] = sum over the columns of value * b, for every (batch, row, n); b depends on batch, columns, n.

    value: an expression of (batch, row, column). across: rows and columns are exchanged.
    """

    id: int
    sums_rows: bool
    n: tuple[Axis, ...]
    value: Value
    b: Value
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Products of products whose intermediate matrix (one number for every row and column) is never stored.

        for every batch, row, column:  inner products -> score -> softmax along the columns -> values
        for every batch, row, n:       outer products: sum of value * b along the columns (or rows) -> stores

    Attention and its derivatives have this form.
    guards: outside of them the score is -inf and an outer product's value is 0, so whole tiles of the intermediate matrix can be
        skipped.
    softmax: None if the values depend on the inner products alone.
    stores: run for every (batch, row); they read top and total.
    Sums are accumulated in ``accum``, in an order that the generator chooses from the kernel and the CPU.
    """

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Inner, ...]
    guards: tuple[tuple[Affine, int, int], ...]
    softmax: Softmax | None
    outer: tuple[Outer, ...]
    accum: Format
    stores: tuple[Store, ...] = ()

    @property
    def middle(self) -> tuple[Value, ...]:
        """Return the expressions that are computed for every (batch, row, column)."""
        return ((self.softmax.score,) if self.softmax else ()) + tuple([o.value for o in self.outer])


@dataclass(frozen=True, slots=True)
class Phase:
    axes: tuple[Axis, ...]
    stages: tuple[Stage | Contraction | Chain, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One native call. Buffers: inputs, then outputs (both scope ``arg``), then kernel scratch."""

    name: str
    phases: tuple[Phase, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    scalars: tuple[Format, ...] = ()
    scratch: tuple[Buffer, ...] = ()
