"""The kernel IR: plain, frozen, hashable, printable. Every device's code generator reads this level.

A Kernel is one native call. It runs its phases in order with a barrier between them; a phase runs its
stages in order inside loops over the phase's shared axes. A value that one stage reduces is read by later
stages of the same shared iteration as ``acc``; a *carried* reduction, one over shared axes, is complete
after its phase and read by later phases.

Nothing else is ordered but this: an element is loaded, where the value stored to it needs it, before it is stored, and
the stores of a stage to one element are made in their order. Carried reductions may read when all iterations of their
phase are done. Where an output lies on an input's memory, this order is what makes it right: see ``hazards.py``.

    softmax over rows of x[R, C]                   x / x.sum()
    phase r<R                                      phase
      stage c<C: acc0 = max x[r, c]                  stage i, j: acc0 = sum x[i, j]
      stage c<C: acc1 = sum exp(x[r, c] - acc0)    phase i, j
      stage c<C: y[r, c] = exp(x - acc0) / acc1      stage: y[i, j] = x[i, j] / acc0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.dtypes.formats import Format
from weft.kernel.target import Order


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop. ``id`` is unique in its kernel."""

    id: int
    extent: int


@dataclass(frozen=True, slots=True)
class Affine:
    """const + sum(axis * coef) + sum(value * coef): the only form of an index.

    terms: ((axis id, coefficient), ...) sorted by axis id, no zero coefficients.
    gather: ((integer Value, coefficient), ...): indices that are read from memory.
    """

    const: int = 0
    terms: tuple[tuple[int, int], ...] = ()
    gather: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Affine, coef: int = 1) -> Affine:
        terms = dict(self.terms)
        for axis, c in other.terms:
            terms[axis] = terms.get(axis, 0) + c * coef
        kept = tuple(sorted((a, c) for a, c in terms.items() if c))
        return Affine(self.const + other.const * coef, kept, self.gather + tuple((v, c * coef) for v, c in other.gather))

    def times(self, coef: int) -> Affine:
        return Affine().plus(self, coef)

    def axis(self) -> int | None:
        """The axis this index is exactly, if it is one."""
        plain = self.const == 0 and len(self.terms) == 1 and not self.gather and self.terms[0][1] == 1
        return self.terms[0][0] if plain else None


def along(axis: Axis | int, coef: int = 1) -> Affine:
    return Affine(0, ((axis if isinstance(axis, int) else axis.id, coef),) if coef else ())


def size_of(axes: tuple[Axis, ...]) -> int:
    n = 1
    for a in axes:
        n *= a.extent
    return n


@dataclass(frozen=True, slots=True)
class Buffer:
    """Dense memory. scope: ``arg`` (given by the Program: inputs and outputs) or ``kernel`` (scratch).

    ``id`` of an arg buffer is its position in the kernel's argument list, inputs first. order: how it lies, its dimensions from
    the slowest to the fastest; () is row-major. Shapes and indices are the user's in any case.
    """

    id: int
    dtype: Format
    shape: tuple[int, ...]
    scope: str = "arg"
    order: tuple[int, ...] = ()

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        out, step = [], 1
        for extent in reversed(self.lying):
            out.append(step)
            step *= extent
        out.reverse()
        return tuple([out[self.order.index(d)] for d in range(len(out))]) if self.order else tuple(out)

    @property
    def lying(self) -> tuple[int, ...]:
        """The extents from the slowest dimension to the fastest."""
        return tuple([self.shape[d] for d in self.order]) if self.order else self.shape


@dataclass(frozen=True, slots=True)
class Access:
    """One element of a buffer: an Affine a dimension.

    guard: ((index, lo, hi), ...): only where lo <= index < hi for all of them is memory touched; elsewhere
    a load gives ``fill`` and a store does nothing. Guards serve padding, concatenation and tails.
    """

    buffer: Buffer
    index: tuple[Affine, ...]
    guard: tuple[tuple[Affine, int, int], ...] = ()
    fill: Any = 0

    _flat: Affine | None = field(default=None, init=False, repr=False, compare=False)  # asked for at every unrolled copy

    def flat(self) -> Affine:
        """The element offset as one Affine."""
        flat = self._flat
        if flat is None:
            flat = self._flattened()
            object.__setattr__(self, "_flat", flat)
        return flat

    def _flattened(self) -> Affine:
        const = 0
        terms: dict[int, int] = {}
        gather: list[tuple[Value, int]] = []
        for index, stride in zip(self.index, self.buffer.strides, strict=True):
            const += index.const * stride
            for a, c in index.terms:
                terms[a] = terms.get(a, 0) + c * stride
            gather += [(v, c * stride) for v, c in index.gather]
        return Affine(const, tuple(sorted((a, c) for a, c in terms.items() if c)), tuple(gather))


@dataclass(frozen=True, slots=True)
class Value:
    """An expression over one iteration.

    op is a machine operation (:data:`MACHINE`) on args of equal dtype, or one of
      load    attr: Access
      const   attr: Python or NumPy number
      scalar  attr: number of the kernel's run-time scalar
      index   attr: Affine; the integer itself (int64 before a cast)
      acc     attr: id of a Reduction (or of the Contraction, or of a sum in a Chain) whose result is read
      check   args: (index int64, whether it matters), attr: Check. The index if it lies in the range, else 0; and where it
              matters, the fault is recorded: no later phase of the kernel runs, and no later kernel.
    """

    op: str
    args: tuple[Value, ...]
    dtype: Format
    attr: Any = None


class Check(NamedTuple):
    """0 <= index < extent. site: number of the place in the kernel, by which a fault is told; None: it is known to hold."""

    extent: int
    site: int | None


class MachineOperation(NamedTuple):
    """arity, and about how many nanoseconds an element takes on one core of 70 GFLOP/s in float32, in vectors where there are
    any: fitted to what kernels took (tests/placement/measured.json)."""

    arity: int
    ns: float = 0.05

    @property
    def costly(self) -> bool:
        """Whether it is a function, of many instructions."""
        return self.ns >= 0.5


LIBRARY_NS = 8.0  # a call of the C library for each element


def _all(arity: int, ns: float, *names: str) -> dict[str, MachineOperation]:
    return dict.fromkeys(names, MachineOperation(arity, ns))


# the only operations that code generators emit
MACHINE: dict[str, MachineOperation] = {
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
    **_all(3, 0.05, "select"),  # bool, then, else
    **_all(3, 0.05, "fma"),  # a * b + c, one rounding; only where a primitive asks for it
    # (key uint64, base uint64, element index uint64) -> uint32: word i & 3 of Philox4x32-10(key, base + (i >> 2))
    **_all(3, 2.0, "philox"),
}


@dataclass(frozen=True, slots=True)
class Reduction:
    """acc[id] = finish(merge of lift(args) over axes).

    monoid: sum, prod, max, min (NaN wins), argmax, argmin (first of equals, NaN wins; result int64: position
    in the flattened reduced index), any and all are max and min of bool.
    value: what is reduced; dtype of the accumulator is ``accum``; the result is read as ``dtype``.
    axes: in order of the reduced dimensions, the last runs fastest.
    carried: axes include the phase's shared axes; complete only after the phase.
    running: a fold over one axis of which what there is so far (this element included) is what the stores of the same
    stage read; the axis runs in ascending order in one accumulator (order.lanes is 1, one block).
    precision: of a product (see Contraction).
    """

    id: int
    axes: tuple[Axis, ...]
    monoid: str
    value: Value
    accum: Format
    dtype: Format
    order: Order
    carried: bool = False
    running: bool = False
    precision: str = "float32"


@dataclass(frozen=True, slots=True)
class Store:
    """Write a value.

    mode ``set``: where an index is gathered, the stage's loops run in order, and the last write stays; ``own``: no two
    iterations write the same element, whatever the index is; ``add``: accumulate into the buffer, in order (scatter-add);
    ``add_unordered``: in any order, on devices whose Target says that they gain by it.
    """

    access: Access
    value: Value
    mode: str = "set"

    @property
    def adds(self) -> bool:
        return self.mode in ("add", "add_unordered")


@dataclass(frozen=True, slots=True)
class Stage:
    """One loop body over ``axes`` (besides the shared ones). Reductions here share the loop."""

    axes: tuple[Axis, ...]
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True, slots=True)
class Contraction:
    """acc[id] = sum over k of a * b, for every (batch, m, n); stores are the epilogue and read it as ``acc``.

    a depends on batch, m, k; b on batch, n, k. Axis groups are ordered as the output's dimensions are;
    within a store, ``acc`` is the element at the store's own (batch, m, n). A convolution is the same
    thing: m = (image, oh, ow), n = (out channel), k = (in channel, kh, kw), a's index is
    oh*stride + kh - pad with a guard.

    order: how the sum over k is made. None: as the generator has it, a function of the kernel and the CPU (the weight
    gradient of a convolution, which is summed where pixels lie).
    precision: to what operands of float32 may be shortened: "float32" (not at all), "tf32", "tf32x3". Only devices whose Target
    has one are asked for it.
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


class Inner(NamedTuple):
    """acc[id] = sum over k of a * b, for every (batch, row, column). a depends on batch, rows, k; b on batch, columns, k."""

    id: int
    k: tuple[Axis, ...]
    a: Value
    b: Value


class Softmax(NamedTuple):
    """Along the columns: acc[top] is a row's greatest score, 0 where every score is -inf; acc[weight] = exp(score - top), for
    every column; acc[total] is the sum of a row's weights. So a row without a score above -inf has a total of 0."""

    score: Value
    weight: int
    top: int
    total: int


@dataclass(frozen=True, slots=True)
class Outer:
    """acc[id] = sum over the columns of value * b, for every (batch, row, n), stored there; b depends on batch, columns, n.

    value: of each (batch, row, column). across: with rows and columns exchanged.
    """

    id: int
    across: bool
    n: tuple[Axis, ...]
    value: Value
    b: Value
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Products of products, whose middle (a number for every row and column) is never stored: attention and its derivatives.

        for every batch, row, column:  inner products -> score -> softmax along the columns -> values
        for every batch, row, n:       outer products: the values times what lies along the columns (or rows) -> stores

    where: elsewhere the score is -inf and an outer product's value 0, so whole tiles of the middle need not be computed.
    softmax: None where the values rest on the inner products alone. stores: of every (batch, row); they read top and total.
    Sums are made in ``accum``, in an order that is the generator's, a function of the kernel and the CPU.
    """

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Inner, ...]
    where: tuple[tuple[Affine, int, int], ...]
    softmax: Softmax | None
    outer: tuple[Outer, ...]
    accum: Format
    stores: tuple[Store, ...] = ()

    @property
    def middle(self) -> tuple[Value, ...]:
        """What is computed for every (batch, row, column)."""
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
