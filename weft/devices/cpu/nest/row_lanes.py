"""Vectors along an axis, and the accumulators of the lanes of an ``Order``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.devices.cpu.emit import pairwise, reduce
from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.masks import first_mask
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.types import wide
from weft.devices.cpu.nest.nest import Nest
from weft.devices.cpu.nest.tiles import update
from weft.kernel.ir import Axis, Stage

Hook = Callable[[list[Env], bool], None]


def vectors(
    n: Nest, axis: Axis, lanes: int, unroll: int, start: int, end: int, minor: Axis | None = None, again: bool = False,
) -> Iterator[list[Env]]:
    """Yield groups of Envs that cover [start, end) of an axis: full groups (in a loop), then the rest with a masked last vector.

    minor: an axis inside the lanes (see Env). again: the last vector may repeat elements instead of being masked.
    """
    if minor is not None:
        n.base.axes[minor.id] = "0"
    span = 1 if minor is None else minor.extent
    lanes //= span  # iterations of the axis per vector
    step = lanes * unroll

    def env(mask: str | None, shift: int) -> Env:
        if minor is not None:
            n.base.level_of[minor.id] = len(n.levels) - 1
        return n.env(axis.id, lanes * span, mask, shift, minor=minor)

    main = start + (end - start) // step * step
    if again and unroll == 1 and start + step < main < end and minor is None:  # one body: the last vector starts earlier
        with n.loop(start, end, step) as k:
            n.base.axes[axis.id] = n.f.minimum(k, end - lanes)
            n.base.level_of[axis.id] = len(n.levels) - 1
            last = env(None, 0)
            last.whole, last.fours = False, end % 4 == lanes % 4
            yield [last]
        return
    if main > start:
        if main - start == step:
            with n.block(axis.id):
                n.base.axes[axis.id] = str(start)
                yield [env(None, u * lanes) for u in range(unroll)]
        else:
            with n.loop(start, main, step, axis.id):
                yield [env(None, u * lanes) for u in range(unroll)]
    left = end - main
    if left:
        with n.block(axis.id):
            n.base.axes[axis.id] = str(main)
            envs = [env(None, u * lanes) for u in range(left // lanes)]
            if left % lanes and again and end - start >= lanes:
                envs.append(env(None, left - lanes))
            elif left % lanes:
                envs.append(env(first_mask(lanes * span, left % lanes * span), left // lanes * lanes))
            yield envs


class LaneAccumulators:
    """The order.lanes accumulators of each reduction, in groups of vectors."""

    def __init__(self, n: Nest, stage: Stage, lanes: int, hook: Hook | None = None) -> None:
        self.hook = hook
        order = stage.reductions[0].order
        self.n, self.stage, self.lanes = n, stage, lanes
        self.groups = order.lanes // lanes
        self.cells = {
            (r.id, u): [n.f.local(wide(t, lanes)) for t in reduce.state_types(r)]
            for r in stage.reductions for u in range(self.groups)
        }

    def reset(self, used: int) -> None:
        for r in self.stage.reductions:
            for u in range(used):
                for t, c, s in zip(reduce.state_types(r), self.cells[r.id, u], reduce.identity(r, self.lanes), strict=True):
                    self.n.f.store(wide(t, self.lanes), s, c)

    def step(self, envs: list[Env], position: str | int) -> None:
        """Merge one group of vectors; ``position`` is the flat index of lane 0 of the first Env."""
        n, f = self.n, self.n.f
        if self.hook:
            self.hook(envs, True)
        for u, env in enumerate(envs):
            o = Ops(f, n.m, n.isa, self.lanes)
            for r in self.stage.reductions:
                types = reduce.state_types(r)
                cells = self.cells[r.id, u]
                old = [f.load(wide(t, self.lanes), c) for t, c in zip(types, cells, strict=True)]
                if reduce.is_position(r):
                    ramp = "<" + ", ".join(f"i64 {u * self.lanes + i}" for i in range(self.lanes)) + ">"
                    at = o.op("add", "i64", o.splat(str(position), "i64"), ramp)
                    state = reduce.merge(o, r, old, [reduce.lift(o, r, n.value(r.value, env)), at])
                else:
                    state = update(n, r, env, old, 0)
                for t, c, s, previous in zip(types, cells, state, old, strict=True):
                    if env.mask is not None:
                        s = o.select(env.mask, t, s, previous)
                    f.store(wide(t, self.lanes), s, c)
        if self.hook:
            self.hook(envs, False)

    def folded(self, used: int) -> dict[int, list[str]]:
        """Return the scalar state of each reduction. Vectors from ``used`` on have no elements."""
        out = {}
        for r in self.stage.reductions:
            states = []
            for u in range(self.groups):
                if u < used:
                    types = zip(reduce.state_types(r), self.cells[r.id, u], strict=True)
                    states.append([self.n.f.load(wide(t, self.lanes), c) for t, c in types])
            while len(states) & (len(states) - 1):
                states.append(reduce.identity(r, self.lanes))
            out[r.id] = reduce.fold_lanes(Ops(self.n.f, self.n.m, self.n.isa, None), r, states, self.lanes)
        return out


class BlockJoiner:
    """The scalar results of a stage's blocks, joined pairwise."""

    def __init__(self, n: Nest, stage: Stage, blocks: int) -> None:
        self.reductions = stage.reductions
        o = Ops(n.f, n.m, n.isa, None)
        types = [t for r in stage.reductions for t in reduce.state_types(r)]
        self.blocks = pairwise.Blocks(n.m, n.f, types, blocks, lambda a, b: reduce.merge_all(o, stage.reductions, a, b))

    def put(self, number: str | int, states: dict[int, list[str]]) -> None:
        self.blocks.put(number, [s for r in self.reductions for s in states[r.id]])

    def all(self) -> dict[int, list[str]]:
        rest = iter(self.blocks.get())
        return {r.id: [next(rest) for _ in reduce.state_types(r)] for r in self.reductions}
