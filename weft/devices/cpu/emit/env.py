"""The context of one emitted Value: names of axes, accumulators, buffers and scalars, and the open loops.

Levels. A nest of loops is written from inside out: each open loop has a Level with its own list of lines, and the loop's text is
appended to the outer level's list when the loop closes. Lines appended to an outer level's list therefore precede the loop: a
value that does not depend on the loop is emitted there, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.kernel.ir import Buffer


@dataclass(slots=True)
class Level:
    """One open loop or block: its lines and the values emitted in it."""

    lines: list[str]
    memo: dict = field(default_factory=dict)


@dataclass(slots=True)
class Env:
    """One iteration (or ``lanes`` neighbouring ones along the axis ``vector``).

    axes: axis id -> i64 SSA name or integer text; for the vector axis the index of lane 0.
    offsets: constants added to axes; unrolled copies that differ only here share addresses.
    mask: SSA <lanes x i1>, or None for all lanes.
    accs: accumulator id -> SSA value; a vector, or a scalar if the id is in ``uniform``.
    pointers: buffer key (see :func:`key_of`) -> SSA pointer. scalars: number -> SSA value.
    memo: the values emitted so far (if ``levels`` is None).
    levels: open loops, outermost first; level_of: axis id -> its level; acc_level: the same for accumulators.
    tag: identifies the unrolled copy; copies share values that do not depend on the vector axis.
    minor, span: an axis of extent ``span`` inside the lanes: lane l is iteration l // span of the vector axis and l % span of
    this axis (whose entry in axes is "0").
    turn: an axis whose next ``lanes`` iterations are Envs of their own, distinguished by its offset: a load along it is a
    square of memory, read in rows and transposed in registers.
    whole: the vector axis starts at multiples of the lanes, offsets and constants aside; fours: at multiples of four.
    streamed: None, or a set that a store past the caches adds to (the function then ends with a fence).
    pairs: (buffer, terms, constant) -> constant of the first of two neighbouring loads at stride 2.
    record: pointer of the fault record, "" if nothing is checked.
    """

    axes: dict[int, str] = field(default_factory=dict)
    vector: int | None = None
    lanes: int = 1
    mask: str | None = None
    accs: dict[int, str] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    scalars: dict[int, str] = field(default_factory=dict)
    memo: dict = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    uniform: frozenset[int] | set[int] = frozenset()
    levels: list[Level] | None = None
    level_of: dict[int, int] = field(default_factory=dict)
    acc_level: dict[int, int] = field(default_factory=dict)
    deps: dict[int, frozenset] = field(default_factory=dict)
    tag: int = 0
    minor: int | None = None
    span: int = 1
    pairs: dict[tuple, int] = field(default_factory=dict)
    streamed: set | None = None
    turn: int | None = None
    whole: bool = True
    fours: bool = True
    record: str = ""

    @property
    def width(self) -> int | None:
        return self.lanes if self.vector is not None else None


def key_of(buffer: Buffer) -> int:
    """Return the key of a buffer in Env.pointers: its id, complemented for kernel scratch."""
    return buffer.id if buffer.scope == "arg" else ~buffer.id
