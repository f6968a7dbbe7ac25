"""Where a Value is evaluated: what its axes, accumulators, buffers and scalars are called, and where code may go.

Levels. A nest of loops is written from inside out: each open loop has a Level with its own list of lines, and
the loop's text is appended to the outer level's list when it closes. So whatever is appended to an outer
level's list stands in front of the loop: a value that does not depend on the loop is emitted there, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.kernel.ir import Buffer


@dataclass(slots=True)
class Level:
    """One open loop (or block): its lines and what was computed in it."""

    lines: list[str]
    memo: dict = field(default_factory=dict)


@dataclass(slots=True)
class Env:
    """One iteration (or ``lanes`` neighbouring ones along the axis ``vector``).

    axes: axis id -> i64 SSA name or integer text; for the vector axis the index of lane 0.
    offsets: a constant added to an axis (unrolled copies share addresses through it).
    mask: SSA <lanes x i1>, or None for all lanes.
    accs: accumulator id -> SSA value; a vector, or a scalar where the id is in ``uniform``.
    pointers: buffer key (see :func:`key_of`) -> SSA pointer. scalars: number -> SSA value.
    memo: what was emitted here already (when ``levels`` is None).
    levels: open loops, outermost first; level_of: axis id -> its level; acc_level: the same of accumulators.
    tag: names the unrolled copy: copies share what does not depend on the vector axis.
    minor, span: an axis of extent ``span`` that runs inside the lanes: lane l is iteration l // span of the vector
    axis and l % span of this one (its entry in axes is "0").
    turn: an axis whose next ``lanes`` iterations are Envs of their own (its offset says which): a load along it is a
    square of memory, read in rows and transposed in registers.
    whole: vectors begin at multiples of their lanes (the counter does; offsets and constants are seen); fours: of four.
    streamed: None, or where a store past the caches leaves a mark (the function then ends with a fence).
    pairs: (buffer, terms, constant) -> constant of the first of two loads at stride 2 that are neighbours.
    record: where faults are told, "" where nothing is checked.
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
    """The key of a buffer in Env.pointers: its id, complemented for kernel scratch."""
    return buffer.id if buffer.scope == "arg" else ~buffer.id
