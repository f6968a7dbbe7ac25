"""Vectors along a shared axis: maps, column reductions, windows. Each lane is one iteration."""

from __future__ import annotations

from weft.devices.cpu.emit import pairwise, reduce
from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.types import cell_type, llvm_type, wide
from weft.devices.cpu.nest.nest import Nest, instructions
from weft.dtypes.formats import FLOATS
from weft.kernel.ir import Reduction, Stage, size_of

UNROLL = 16  # reductions of at most so many elements are unrolled
States = dict[int, list[list[str]]]  # reduction id -> its state in each vector


def emit_stages(n: Nest, envs: list[Env]) -> None:
    """Emit all stages of the part at one tile, with one Env per vector."""
    for stage in n.part.stages:
        emit_stage(n, stage, envs)


def emit_stage(n: Nest, stage: Stage, envs: list[Env]) -> None:
    total = size_of(stage.axes)
    if n.tally is not None:  # before the stores, which may overwrite operands
        for number, env in enumerate(envs):
            n.tally(number, env)
        stage = Stage(stage.axes, (), stage.stores)
    if any(r.running for r in stage.reductions):
        if total:
            n.m.took("tile running")
            _emit_running(n, stage, envs)
        return
    results = _reduce(n, stage, envs, total) if stage.reductions else {}
    level = len(n.levels) - 1
    for r in stage.reductions:
        n.base.acc_level[r.id] = level
        for env, state in zip(envs, results[r.id], strict=True):
            env.accs[r.id] = reduce.finish(Ops(n.f, n.m, n.isa, env.width), r, state)
            n.export(r, env)
    if stage.stores and total:
        with n.loops(stage.axes):
            for env in envs:
                n.store_all(stage, env)


def element(n: Nest, r: Reduction, env: Env, position: str | int) -> list[str]:
    """Return the state of the current element."""
    o = Ops(n.f, n.m, n.isa, env.width)
    state = [reduce.lift(o, r, n.value(r.value, env))]
    if reduce.is_position(r):
        state.append(o.splat(str(position), "i64"))
    return state


def update(n: Nest, r: Reduction, env: Env, old: list[str], position: str | int) -> list[str]:
    """Merge ``old`` with the current element."""
    o = Ops(n.f, n.m, n.isa, env.width)
    if r.monoid == "dot":
        a, b = (n.value(x, env) for x in r.value.args)
        t = llvm_type(r.accum)
        if r.accum in FLOATS:
            total = o.intrinsic("fma", t, a, b, old[0])
            if r.accumulator is not None and r.accumulator.every == 1:
                total = reduce.round_sum(o, total, r.accumulator)
            return [total]
        return reduce.merge(o, r, old, [o.op("mul" if t != "i1" else "and", t, a, b)])
    return reduce.merge(o, r, old, element(n, r, env, position))


def _emit_running(n: Nest, stage: Stage, envs: list[Env]) -> None:
    """Emit running folds: the stores of the stage read the accumulators after each element."""
    acc = Accumulators(n, stage.reductions, [env.width for env in envs])
    acc.reset()
    with n.loops(stage.axes):
        acc.update(envs, 0)
        for r in stage.reductions:
            n.base.acc_level[r.id] = len(n.levels) - 1
            for u, env in enumerate(envs):
                env.accs[r.id] = reduce.finish(Ops(n.f, n.m, n.isa, env.width), r, acc.get(r, u))
        for env in envs:
            for s in stage.stores:
                n.store(s, env)


class Accumulators:
    """States in local variables: one for each reduction and each of some vectors, whose lanes ``widths`` gives."""

    def __init__(self, n: Nest, reductions: tuple[Reduction, ...], widths: list[int | None]) -> None:
        self.n, self.reductions, self.widths = n, reductions, widths
        self.cells = {
            (r.id, u): [n.f.local(wide(t, width)) for t in reduce.state_types(r)]
            for r in reductions for u, width in enumerate(widths)
        }

    def get(self, r: Reduction, u: int) -> list[str]:
        types = zip(reduce.state_types(r), self.cells[r.id, u], strict=True)
        return [self.n.f.load(wide(t, self.widths[u]), c) for t, c in types]

    def put(self, r: Reduction, u: int, state: list[str]) -> None:
        for t, c, s in zip(reduce.state_types(r), self.cells[r.id, u], state, strict=True):
            self.n.f.store(wide(t, self.widths[u]), s, c)

    def reset(self, used: int | None = None) -> None:
        """Set the first ``used`` states of each reduction to its identity."""
        for r in self.reductions:
            for u, width in enumerate(self.widths[:used]):
                self.put(r, u, reduce.identity(r, width))

    def update(self, envs: list[Env], position: str | int) -> None:
        """Merge the states with the current elements."""
        for u, env in enumerate(envs):
            for r in self.reductions:
                self.put(r, u, update(self.n, r, env, self.get(r, u), position))

    def all(self) -> States:
        return {r.id: [self.get(r, u) for u in range(len(self.widths))] for r in self.reductions}


class BlockJoiner:
    """The results of blocks, ``count`` states of each reduction, joined pairwise."""

    def __init__(self, n: Nest, reductions: tuple[Reduction, ...], width: int | None, count: int, blocks: int) -> None:
        self.reductions, self.count = reductions, count
        types = [wide(t, width) for r in reductions * count for t in reduce.state_types(r)]
        o = Ops(n.f, n.m, n.isa, width)
        self.blocks = pairwise.Blocks(n.m, n.f, types, blocks, lambda a, b: reduce.merge_all(o, reductions * count, a, b))

    def put(self, number: str | int, states: States) -> None:
        self.blocks.put(number, [s for u in range(self.count) for r in self.reductions for s in states[r.id][u]])

    def all(self) -> States:
        rest = iter(self.blocks.get())
        out: States = {r.id: [] for r in self.reductions}
        for r in self.reductions * self.count:
            out[r.id].append([next(rest) for _ in reduce.state_types(r)])
        return out


def _reduce(n: Nest, stage: Stage, envs: list[Env], total: int) -> States:
    order = stage.reductions[0].order
    if any(r.order != order for r in stage.reductions):
        out: States = {}
        for r in stage.reductions:
            out |= _reduce(n, Stage(stage.axes, (r,)), envs, total)
        return out
    if total == 0:
        return {r.id: [reduce.identity(r, env.width) for env in envs] for r in stage.reductions}
    if any(r.accumulator is not None and r.accumulator.every > 1 for r in stage.reductions):
        n.m.took("tile rounded sums")
        return _reduce_rounded(n, stage, envs, total, order.block)
    work = instructions([r.value for r in stage.reductions], envs[0].vector) * len(envs) * total
    unrolled = total <= UNROLL and total <= order.block and work <= 250
    plain = "tile blocks" if total > order.block else "tile"
    n.m.took("tile unrolled" if unrolled else "tile laned" if order.lanes > 1 else plain)
    if unrolled:
        return _reduce_unrolled(n, stage, envs, total)
    if order.lanes == 1:
        return _reduce_blocks(n, stage, envs, total, order.block)
    return _reduce_laned(n, stage, envs, total)


def _set_axes(n: Nest, stage: Stage, k: int) -> None:
    """Set the stage's axes to the constants of flat index k."""
    for a in reversed(stage.axes):
        n.base.axes[a.id] = str(k % a.extent)
        k //= a.extent


def _reduce_unrolled(n: Nest, stage: Stage, envs: list[Env], total: int) -> States:
    lanes = stage.reductions[0].order.lanes
    leaves: dict[tuple[int, int], list[list[str] | None]] = {
        (r.id, u): [None] * min(lanes, 1 << (max(total, 1) - 1).bit_length() if lanes > 1 else 1)
        for r in stage.reductions for u in range(len(envs))
    }
    # lanes from the power of two above `total` on have no elements
    ids = [a.id for a in stage.axes]
    for k in range(total):
        # each k has a memo of its own; its lines are not nested, so later ones can use the states
        with n.block(*ids):
            _set_axes(n, stage, k)
            for u, env in enumerate(envs):
                for r in stage.reductions:
                    row = leaves[r.id, u]
                    at = k % len(row)
                    state = row[at]
                    if state is not None:
                        row[at] = update(n, r, env, state, k)
                    elif r.monoid in ("sum", "prod", "dot"):
                        row[at] = update(n, r, env, reduce.identity(r, env.width), k)
                    else:
                        row[at] = element(n, r, env, k)
    return {
        r.id: [reduce.fold_list(Ops(n.f, n.m, n.isa, env.width), r, leaves[r.id, u]) for u, env in enumerate(envs)]
        for r in stage.reductions
    }


def _reduce_blocks(n: Nest, stage: Stage, envs: list[Env], total: int, block: int) -> States:
    acc = Accumulators(n, stage.reductions, [env.width for env in envs])
    if total <= block:
        acc.reset()
        with n.loops(stage.axes):
            acc.update(envs, _flat_position(n, stage))
        return acc.all()
    sums = BlockJoiner(n, stage.reductions, envs[0].width, len(envs), -(-total // block))
    with n.loop(0, total, block) as start:
        acc.reset()
        end = n.f.minimum(n.f.let(f"add i64 {start}, {block}"), total)
        with n.loop(start, end) as k:
            n.split_index(k, stage.axes)
            acc.update(envs, k)
        sums.put(n.f.let(f"udiv i64 {start}, {block}"), acc.all())
    return sums.all()


def _reduce_rounded(n: Nest, stage: Stage, envs: list[Env], total: int, block: int) -> States:
    """Reduce in blocks, each of which is merged with the total, and so rounded, when it ends."""
    widths = [env.width for env in envs]
    acc, sums = (Accumulators(n, stage.reductions, widths) for _ in range(2))
    sums.reset()
    with n.loop(0, total, block) as start:
        acc.reset()
        with n.loop(start, n.f.minimum(n.f.add(start, block), total)) as k:
            n.split_index(k, stage.axes)
            acc.update(envs, k)
        for u, env in enumerate(envs):
            for r in stage.reductions:
                sums.put(r, u, reduce.merge(Ops(n.f, n.m, n.isa, env.width), r, sums.get(r, u), acc.get(r, u)))
    return sums.all()


def _flat_position(n: Nest, stage: Stage) -> str | int:
    if not any(reduce.is_position(r) for r in stage.reductions):
        return 0
    place: str | int = 0
    for a in stage.axes:
        place = n.f.add(n.f.mul(place, a.extent), n.base.axes[a.id])
    return place


def _reduce_laned(n: Nest, stage: Stage, envs: list[Env], total: int) -> States:
    """Reduce with accumulator k % order.lanes of each vector lane in a local array; blocks follow the order."""
    order = stage.reductions[0].order
    cells = {
        (r.id, u): [n.f.local(f"[{order.lanes} x {wide(cell_type(t), env.width)}]") for t in reduce.state_types(r)]
        for r in stage.reductions for u, env in enumerate(envs)
    }

    def places(r: Reduction, u: int, lane: str) -> list[tuple[str, str]]:
        """Return the type and the pointer of each part of a lane's state."""
        types = reduce.state_types(r)
        return [
            (t, n.f.element(cell, wide(cell_type(t), envs[u].width), lane)) for t, cell in zip(types, cells[r.id, u], strict=True)
        ]

    def get(r: Reduction, u: int, lane: str) -> list[str]:
        return [load_cell(n.f, wide(t, envs[u].width), p) for t, p in places(r, u, lane)]

    def put(r: Reduction, u: int, at: list[tuple[str, str]], state: list[str]) -> None:
        for (t, p), s in zip(at, state, strict=True):
            store_cell(n.f, wide(t, envs[u].width), s, p)

    sums = BlockJoiner(n, stage.reductions, envs[0].width, len(envs), -(-total // order.block))
    with n.loop(0, total, order.block) as start:
        with n.loop(0, order.lanes) as lane:
            for r in stage.reductions:
                for u, env in enumerate(envs):
                    put(r, u, places(r, u, lane), reduce.identity(r, env.width))
        end = n.f.minimum(n.f.let(f"add i64 {start}, {order.block}"), total)
        with n.loop(start, end) as k:
            n.split_index(k, stage.axes)
            lane = n.f.let(f"urem i64 {k}, {order.lanes}")
            for u, env in enumerate(envs):
                for r in stage.reductions:
                    at = places(r, u, lane)
                    old = [load_cell(n.f, wide(t, env.width), p) for t, p in at]
                    put(r, u, at, update(n, r, env, old, k))
        half = order.lanes // 2
        while half:
            with n.loop(0, half) as lane:
                other = n.f.let(f"add i64 {lane}, {half}")
                for u, env in enumerate(envs):
                    for r in stage.reductions:
                        o = Ops(n.f, n.m, n.isa, env.width)
                        low = places(r, u, lane)
                        a = [load_cell(n.f, wide(t, env.width), p) for t, p in low]
                        put(r, u, low, reduce.merge(o, r, a, get(r, u, other)))
            half //= 2
        states = {r.id: [get(r, u, "0") for u in range(len(envs))] for r in stage.reductions}
        sums.put(n.f.let(f"udiv i64 {start}, {order.block}"), states)
    return sums.all()
