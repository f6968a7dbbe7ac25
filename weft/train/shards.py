"""The training step of a batch that is cut into shards: what each shard gives is added up in one tree, then one update is made.

What a shard computes depends on the weights, its rows, and the random state of its step and number, not on the rank. So any
number of ranks gives the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import as_dtype, bfloat16, float16, float32, float64, is_inexact
from weft.errors import short
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import isfinite
from weft.functions.random.state import draw_from, get_state, set_state, state_after_parts, state_of_part
from weft.functions.shape.axes import concat, stack
from weft.nn.module import Module
from weft.nn.normalization import SyncBatchNorm
from weft.nn.tensor_parallel import Divided
from weft.optim import SAM, Optimizer
from weft.optim.optimizer import state_dtype
from weft.optim.update_arguments import named_arrays
from weft.runtime.context import CONTEXT
from weft.train.batches import Feed
from weft.train.metrics import Metric
from weft.train.partition import Partition, Parts, split_vector
from weft.train.ranks import Ranks
from weft.train.step import Stepper
from weft.transforms.jit import jit

if TYPE_CHECKING:
    from weft.dist.shard_sum import ShardSum
    from weft.train.early_gradients import EarlyGradients

_FLAGS = 2  # of each rank, in every sum: Ctrl-C, and whether a snapshot is due


def find_shard_rows(rows: int, shards: int, shard: int) -> tuple[int, int]:
    """Return the first row of a shard and the row after its last one. The rows left over go to the first shards, one each."""
    size, more = divmod(rows, shards)
    first = shard * size + min(shard, more)
    return first, first + size + (shard < more)


class ShardedBatch:
    """A batch of which only some rows are read."""

    def __init__(self, feed: Feed, key: Any) -> None:
        self._feed, self._key = feed, key
        self.rows: int = feed.count(key)

    def part(self, first: int, last: int) -> Any:
        """Return the key of some rows."""
        return self._feed.part(self._key, first, last)

    def read(self, first: int, last: int) -> tuple[Array, Array]:
        """Return some rows."""
        return self._feed.batch(self.part(first, last))


class ShardStepper(Stepper):
    """A Stepper whose gradients are sums over shards. The same results on any number of ranks."""

    def __init__(
        self, model: Module, loss: Callable, optimizer: Optimizer, metrics: Mapping[str, Metric], accumulate: int, precision: Any,
        loss_scale: Any, ranks: Ranks, sharded: str | None = None, gradients_dtype: np.dtype | None = None,
    ) -> None:
        if isinstance(optimizer, SAM):
            raise ValueError("fit: SAM computes each gradient twice, which shards= cannot do; leave one of them out")
        for name, layer in model.modules():
            if getattr(layer, "stateful", False):
                raise ValueError(
                    f"fit: layer {name!r} ({type(layer).__name__}) is stateful: it keeps a state for each row of a whole batch, "
                    "which shards= cannot divide; leave one of them out"
                )
            if isinstance(layer, Divided):
                raise ValueError(
                    f"fit: layer {name!r} ({type(layer).__name__}) has a part of its weight on each rank, while shards= keeps "
                    "equal weights on all ranks: train it in a loop of your own"
                )
        super().__init__(model, loss, optimizer, metrics, 1, precision, loss_scale)
        self.accumulate, self.run_many, self.gradients_dtype = accumulate, None, gradients_dtype
        self._ranks = ranks
        layers = {name: layer for name, layer in model.modules() if isinstance(layer, SyncBatchNorm)}
        self._synchronised = {f"{name}.{b}" if name else b for name, layer in layers.items() for b in layer.buffers}
        # shards of a batch differ by one row: a function for each length, so that a short last batch is their second shape only
        self._differentiate = jit(self._differentiate_shard), jit(self._differentiate_shard)
        self._differentiate_meeting = jit(self._differentiate_meeting_shard), jit(self._differentiate_meeting_shard)
        self._compiled: set[tuple[Any, ...]] = set()
        self._statistics: dict[tuple[Any, ...], Any] = {}  # by shape and dtype: sums over the shards within a step
        self._sum: Any = None
        self._names: list[tuple[str, str]] = []  # kind and name of each array that a shard gives
        self._apply, self._write = jit(self._apply_sums), jit(self._write_parameters)
        self._parts = None if sharded is None else Parts(model, optimizer, gradients_dtype, ranks)
        self._partition = Partition(model, optimizer, gradients_dtype, 1, 0) if self._parts is None else self._parts.partition
        self._places: dict[str, tuple[int, int]] = {}  # of a gradient: its vector among the sums, and the vector's offset
        self._early = self._choose_early_gradients()

    def divide_state(self) -> None:
        """Let the optimizer keep the state of this rank's part only, if ``sharded`` says so."""
        if self._parts is not None:
            self._parts.divide_state()

    def describe_optimizer(self) -> dict[str, Any]:
        return super().describe_optimizer() if self._parts is None else self._parts.describe()

    def gather_optimizer(self) -> dict[str, np.ndarray] | None:
        return None if self._parts is None else self._parts.gather_state()

    def divide_optimizer(self, content: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return content if self._parts is None else self._parts.divide(content)

    def open_feed(self, feed: Feed) -> Callable[[Any], Any]:
        return partial(ShardedBatch, feed)

    def advance(self, batches: Sequence[Any], lr: float) -> tuple[float, ...]:
        ranks, state = self._ranks, get_state()
        total = sum(batch.rows for batch in batches)
        run = self._run_meeting_shards if self._synchronised else self._run_shards
        request = f"the sum of fit over {ranks.shards} shards of {total} rows, lr {lr!r}, random state {state[0]:x} {state[1]}"
        for shard, arrays in run(batches, total, state, request):
            if self._sum is None:  # a rank without rows learns the shapes from the first shard
                self._prepare(self._run_shard(batches, 0, total, state) if arrays is None else arrays)
            self._sum.add(shard, arrays)
        early = self._early.finish()
        vectors, flags = self._sum.total(request, ranks.read_flags())
        vectors = [*early, *vectors]
        ranks.interrupted, ranks.snapshot_due = (bool(flag > 0) for flag in flags)
        vector, first, _ = self._sum.places[0]
        figures = vectors[len(early) + vector][first : first + 2 + len(self.metrics)].tolist()
        norm_factor, is_finite = self._measure(vectors, figures[-1], request)
        update_state = state_of_part(state, ranks.shards)
        set_state(update_state)  # of stochastic rounding in the update
        parameters = self._apply([asarray(v) for v in vectors], lr, norm_factor, is_finite)
        if self._parts is not None:
            if get_state() != update_state:
                raise ValueError(
                    f"fit: {type(self.optimizer).__name__} draws random numbers for each parameter in its update, which sharded= "
                    "cannot divide among ranks; leave one of them out"
                )
            self._write([asarray(v) for v in self._parts.gather_parameters([v.numpy() for v in parameters])])
        set_state(state_after_parts(state))
        return tuple(figures[:-1])

    def pieces(self, keys: Sequence[Any], batches: Sequence[Any]) -> Iterator[tuple[Any, Array, Array]]:
        state = get_state()
        total = sum(batch.rows for batch in batches)
        for shard in range(self._ranks.shards):
            before = self._begin_shard(state, shard)
            for batch in batches:
                first, last = find_shard_rows(batch.rows, self._ranks.shards, shard)
                if first < last:
                    yield (batch.part(first, last), *batch.read(first, last))
                    if self.accumulate > 1:
                        self._differentiate[0](*batch.read(first, last), (last - first) / total, 1.0, 0.0)
            self._restore_buffers(before)

    def gradient(self, x: Array, y: Array) -> tuple[Array, dict[str, Array]]:
        with trace_sums(bool(self._synchronised)):  # over these rows alone, where one row has statistics, too
            return super().gradient(x, y)

    def first_rows(self, batches: Sequence[Any]) -> tuple[Array, Array]:
        return batches[0].read(0, batches[0].rows)

    # ---- the shards of this rank

    def _run_shards(
        self, batches: Sequence[ShardedBatch], total: int, state: tuple[int, int], request: str,
    ) -> Iterator[tuple[int, list[np.ndarray] | None]]:
        """Yield each shard of this rank with what it gives to the sum, None if it has no rows."""
        for shard in self._ranks.own_shards():
            with self._early.receive(shard, request):
                arrays = self._run_shard(batches, shard, total, state)
            if arrays is None:
                self._early.add_zeros(shard, request)
            yield shard, arrays

    def _run_meeting_shards(
        self, batches: Sequence[ShardedBatch], total: int, state: tuple[int, int], request: str,
    ) -> Iterator[tuple[int, list[np.ndarray] | None]]:
        """As :meth:`_run_shards`, with sums over all shards within the step. A rank without rows runs shard 0 to take part."""
        from weft.dist.lockstep import run_in_lockstep

        own, shards = self._ranks.own_shards(), self._ranks.shards
        counts = {s: sum(last - first for first, last in self._find_rows(batches, s)) for s in (*own, 0)}
        out: dict[int, list[np.ndarray]] = {}
        buffers: dict[int, dict[str, Array]] = {}
        for k, batch in enumerate(batches):
            spans = {s: find_shard_rows(batch.rows, shards, s) for s in counts}
            active = [s for s in own if spans[s][0] < spans[s][1]]
            runs = {}
            for s in active or [0]:
                first, last = spans[s]
                key = state_of_part(state, s)
                rest = (
                    (last - first) / total, counts[s] / total, float(s == 0),
                    asarray(np.uint64(key[0] if k == 0 else state_of_part(key, k)[0])),
                    buffers.get(s, self._own_buffers()) if self.accumulate > 1 else {},
                )
                is_long = last - first > batch.rows // shards
                runs[s] = partial(self._run_rows, is_long, *batch.read(first, last), *rest)
                if (form := (is_long, last - first)) not in self._compiled:  # alone: shards that meet would all be traced
                    self._compiled.add(form)
                    runs[s]()
            results = run_in_lockstep(runs, partial(self._add_statistics, bool(active)))
            for s, (names, arrays, after) in results.items():
                self._names, buffers[s] = names, after
                out[s] = arrays if s not in out else [a + b for a, b in zip(out[s], arrays, strict=True)]
        if self._sum is None:
            self._prepare(next(iter(out.values())))
        for s in own:
            yield s, out[s] if counts[s] else None

    def _run_rows(
        self, is_long: bool, *arguments: Any,
    ) -> tuple[list[tuple[str, str]], list[np.ndarray], dict[str, Array]]:
        """Return the names of what rows give to the sum, the arrays, and the buffers after them."""
        tables = self._differentiate_meeting[is_long](*arguments)
        buffers = tables.pop("buffers")
        names = [(kind, name) for kind, table in tables.items() for name in table]
        return names, [a.numpy() for table in tables.values() for a in table.values()], buffers

    def _add_statistics(self, have_rows: bool, operands: Mapping[int, np.ndarray]) -> np.ndarray:
        """Return the sum over all shards of the job. have_rows : whether the operands count"""
        ranks, example = self._ranks, next(iter(operands.values()))
        kind = example.shape, example.dtype
        if kind not in self._statistics:
            self._statistics[kind] = self._make_sum([example])
        total = self._statistics[kind]
        for s in self._ranks.own_shards():
            total.add(s, [operands[s]] if have_rows and s in operands else None)
        vectors, _ = total.total(f"statistics of SyncBatchNorm over {ranks.shards} shards, {example.dtype}{example.shape}", ())
        vector, _, shape = total.places[0]
        return vectors[vector][: example.size].reshape(shape).copy()

    def _find_rows(self, batches: Sequence[ShardedBatch], shard: int) -> list[tuple[int, int]]:
        """Return the first row of a shard in each batch and the row after its last one."""
        return [find_shard_rows(batch.rows, self._ranks.shards, shard) for batch in batches]

    def _own_buffers(self) -> dict[str, Array]:
        parameters = self.model.parameters()
        return {n: copy.copy(a) for n, a in self.model.arrays().items() if n not in parameters}

    def _run_shard(
        self, batches: Sequence[ShardedBatch], shard: int, total: int, state: tuple[int, int],
    ) -> list[np.ndarray] | None:
        """Return what a shard gives to the sum at its end, None if it has no rows."""
        parts = [(batch, *rows) for batch, rows in zip(batches, self._find_rows(batches, shard), strict=True)]
        rows = sum(last - first for _, first, last in parts)
        if not rows:
            return None
        before = self._begin_shard(state, shard)
        out: list[np.ndarray] | None = None
        for batch, first, last in parts:
            if first < last:
                count = last - first
                differentiate = self._differentiate[count > batch.rows // self._ranks.shards]
                tables = differentiate(*batch.read(first, last), count / total, rows / total, float(shard == 0))
                arrays = [a.numpy() for table in tables.values() for a in table.values()]
                out = arrays if out is None else [a + b for a, b in zip(out, arrays, strict=True)]
                self._names = self._names or [(kind, name) for kind, table in tables.items() for name in table]
        self._restore_buffers(before)
        return out

    def _begin_shard(self, state: tuple[int, int], shard: int) -> dict[str, Array]:
        """Set the random state of a shard. Return copies of the arrays that an accumulating shard changes."""
        set_state(state_of_part(state, shard))
        return {} if self.accumulate == 1 else self._own_buffers()

    def _restore_buffers(self, before: dict[str, Array]) -> None:
        if before:
            arrays = self.model.arrays()
            for name, old in before.items():
                if arrays[name].node is not old.node:
                    arrays[name][...] = old

    def _prepare(self, arrays: list[np.ndarray] | None) -> None:
        """Create what depends on the arrays that a shard gives."""
        assert arrays is not None, "the first shard has rows"
        partition, forms = self._partition, []
        for a, (kind, _) in zip(arrays, self._names, strict=True):
            is_gradient = kind == "gradients"
            forms.append((partition.sum_dtype(a.dtype) if is_gradient else a.dtype, is_gradient))
        self._sum = self._make_sum(arrays, _FLAGS, forms)
        places = {name: place for (kind, name), place in zip(self._names, self._sum.places, strict=True) if kind == "gradients"}
        self._place_gradients(self._sum, places, len(self._early.parts))

    def _place_gradients(self, total: ShardSum, places: Mapping[str, tuple[int, int, Any]], before: int) -> None:
        """Note where a sum has gradients, and divide them among the ranks. before : the number of vectors of other sums"""
        for dtype, spans in self._partition.spans.items():
            spans = [span for span in spans if span.name in places]
            if not spans:
                continue
            vector, offset = places[spans[0].name][0], spans[0].first
            assert all(places[span.name][:2] == (vector, span.first - offset) for span in spans)
            self._places |= {span.name: (before + vector, offset) for span in spans}
            if self._parts is not None:
                total.scatter(vector, self._partition.cuts[dtype])

    def _make_sum(self, arrays: Sequence[np.ndarray], *options: Any) -> ShardSum:
        from weft.dist.shard_sum import RoundSum, ShardSum

        return (RoundSum if self._ranks.takes_turns else ShardSum)(self._ranks.shards, self._ranks.size, arrays, *options)

    def _read_parts(self, vectors: Sequence[Any]) -> dict[str, Any]:
        """Return this rank's parts of the gradients."""
        spans, places = [span for spans in self._partition.spans.values() for span in spans], self._places
        return {s.name: self._partition.read_part(s, vectors[places[s.name][0]], places[s.name][1]) for s in spans}

    def _choose_early_gradients(self) -> EarlyGradients:
        """Return the gradients that are exchanged while others are computed, and note where their sums have them."""
        from weft.train.early_gradients import EarlyGradients

        is_possible = self._ranks.overlaps and self._parts is None and self.accumulate == 1 and not self._synchronised
        early = EarlyGradients(self.model, self._partition, self._ranks, is_possible and CONTEXT.placement is None)
        for number, (names, total) in enumerate(zip(early.parts, early.sums, strict=True)):
            self._place_gradients(total, dict(zip(names, total.places, strict=True)), number)
        return early

    def _measure(self, vectors: Sequence[np.ndarray], overflows: float, request: str) -> tuple[float | None, Array | None]:
        """Return the factor that limits the norm of the gradients, and whether all are finite; None for what is not needed."""
        limit, needs_check = self.optimizer.clip_norm, self._parts is not None and self.scaling == "dynamic"
        if limit is None and not needs_check:
            return None, None
        gradients = self._read_parts(vectors)
        ranks = Ranks() if self._parts is None else self._ranks
        is_finite, norm = self._partition.measure(gradients, self.optimizer, limit is not None, ranks, f"the norm in {request}")
        factor = None if limit is None else float(limit) / max(norm, float(limit))
        return factor, asarray(np.bool_(is_finite and overflows == 0)) if needs_check else None

    # ---- called inside jit

    def _apply_sums(self, vectors: list[Array], lr: float, factor: float | None, is_finite: Array | None) -> list[Array]:
        """Make the update from the sums over all shards. Return this rank's parts of the parameters, if it has only parts."""
        tables: dict[str, dict[str, Array]] = {"figures": {}, "statistics": {}, "counts": {}}
        for (kind, name), (vector, first, shape) in zip(self._names, self._sum.places, strict=True):
            if kind in tables:
                tables[kind][name] = vectors[len(self._early.parts) + vector][first : first + int(np.prod(shape))].reshape(shape)
        held = self.model.arrays()
        for name, change in {**tables["statistics"], **tables["counts"]}.items():
            a = held[name]
            a[...] = (a.astype(change.dtype) + change).astype(a.dtype)
        spans = {span.name: span for spans in self._partition.spans.values() for span in spans}
        slopes = {}
        for name, part in self._read_parts(vectors).items():
            wide = part.astype(state_dtype(spans[name].dtype))
            slopes[name] = wide.reshape(spans[name].shape) if self._parts is None else wide
        figures = tables["figures"]["figures"]
        value = figures[0].astype("float64" if any(g.dtype == float64 for g in slopes.values()) else "float32")
        targets = named_arrays(self.model)
        if self._parts is not None:
            for name, p in targets.items():
                self._parts.arrays[name][...] = self._partition.extract_part(name, p)
            targets = self._parts.arrays
        self._update_arrays(targets, slopes, lr, value, figures[1 + len(self.metrics)], factor, is_finite)
        groups = [] if self._parts is None else self._parts.groups
        return [concat([targets[name].reshape(-1) for name in names]) for names in groups]

    def _update_arrays(
        self, targets: dict[str, Array], slopes: dict[str, Array], lr: float, value: Array, overflows: Array,
        factor: float | None, is_finite: Array | None,
    ) -> None:
        optimizer = self.optimizer
        before = []
        if self.scaling == "dynamic":
            before = [(a, copy.copy(a)) for a in (*targets.values(), *optimizer.arrays().values())]
        optimizer._update_arrays(self.model, targets, slopes, lr, value, factor)
        if self.scaling == "dynamic":
            found: Any = overflows == 0 if is_finite is None else is_finite
            for g in slopes.values() if is_finite is None else ():
                found = found & isfinite(g).all()
            self._keep_if(found, before)

    def _write_parameters(self, vectors: list[Array]) -> None:
        assert self._parts is not None
        parameters = named_arrays(self.model)
        for vector, names in zip(vectors, self._parts.groups, strict=True):
            for name, content in zip(names, split_vector(vector, [parameters[n].shape for n in names]), strict=True):
                parameters[name][...] = content

    def _differentiate_shard(
        self, x: Array, y: Array, share: float, weight: float, is_counted: float,
    ) -> dict[str, dict[str, Array]]:
        """Return what is added up over the shards: loss, metrics and overflows; gradients; changes of buffers.

        share : of these rows in the update's. weight : of the shard's rows, for means of statistics. is_counted : 1.0 for the
        shard whose changes of integers count, which are the same in all shards
        """
        before = {n: (a, copy.copy(a)) for n, a in self.model.arrays().items()}
        results, slopes, overflows = self._results_and_gradient(x, y)
        for name, a in self.model.arrays().items():
            if name not in before or (name in slopes and a.node is not before[name][1].node):
                raise ValueError(
                    f"fit: the model writes {name!r} in its step, which shards= allows for buffers only: name it in the class's "
                    "`buffers`, and create it in __init__"
                )
        figures = stack([asarray(v).astype(float64).reshape(()) for v in (*results, overflows)]) * share
        gradients = {n: g.astype(state_dtype(g.dtype)) * share for n, g in slopes.items()}
        self._early.hand_over(gradients)
        statistics, counts = {}, {}
        for name, (a, old) in before.items():
            if a.node is old.node:
                continue
            if is_inexact(a.dtype) and name not in self._synchronised:
                wide = state_dtype(a.dtype)
                statistics[name] = (a.astype(wide) - old.astype(wide)) * weight
            else:
                counts[name] = (a.astype(float64) - old.astype(float64)) * is_counted
            if self.accumulate == 1:
                a[...] = old
        return {"figures": {"figures": figures}, "gradients": gradients, "statistics": statistics, "counts": counts}

    def _differentiate_meeting_shard(
        self, x: Array, y: Array, share: float, weight: float, is_counted: float, key: Array, buffers: dict[str, Array],
    ) -> dict[str, dict[str, Array]]:
        """As :meth:`_differentiate_shard`, for shards that meet within the step. Nothing is written: calls overlap.

        key : of the shard's random numbers. buffers : what the shard begins with, if it accumulates; the result has those after
        """
        from weft.dist.lockstep import trace_shard

        arrays = self.model.arrays()
        before = {n: copy.copy(arrays[n]) for n in buffers}
        for n, content in buffers.items():
            arrays[n][...] = content
        with draw_from(key), trace_shard(share):
            tables = self._differentiate_shard(x, y, share, weight, is_counted)
        after = {n: copy.copy(arrays[n]) for n in buffers}
        for n, old in before.items():
            arrays[n][...] = old
        return {**tables, "buffers": after}


def trace_sums(is_possible: bool) -> AbstractContextManager[None]:
    """Let layers ask for sums over the shards in what is traced inside a ``with`` block, if that is possible."""
    if not is_possible:
        return nullcontext()
    from weft.dist.lockstep import trace_shard

    return trace_shard(1.0)


def make_stepper(
    model: Module, loss: Callable, optimizer: Optimizer, metrics: Mapping[str, Metric], accumulate: int, precision: Any,
    loss_scale: Any, ranks: Ranks, sharded: Any = None, gradients_dtype: Any = None,
) -> Stepper:
    """Return the Stepper of a run, after a check of the arguments ``sharded`` and ``gradients_dtype`` of ``fit``."""
    if sharded not in (None, "optimizer", "gradients"):
        raise ValueError(f"fit: sharded must be None, 'optimizer' or 'gradients', not {short(sharded)}")
    dtype = None if gradients_dtype is None else as_dtype(gradients_dtype)
    if dtype == float32:
        dtype = None
    if dtype not in (None, float16, bfloat16):
        raise ValueError(f"fit: gradients_dtype must be 'float32', 'float16' or 'bfloat16', not {gradients_dtype!r}")
    for name, value in (("sharded", sharded), ("gradients_dtype", gradients_dtype)):
        if value is not None and ranks.shards == 1:
            raise ValueError(f"fit: {name}={value!r} needs shards= of 2 or more, parts of each batch that ranks share")
    if ranks.shards == 1:
        return Stepper(model, loss, optimizer, metrics, accumulate, precision, loss_scale)
    return ShardStepper(model, loss, optimizer, metrics, accumulate, precision, loss_scale, ranks, sharded, dtype)


def unite(ranks: Ranks, description: Mapping[str, Any], model: Module, optimizer: Optimizer) -> None:
    """Give all ranks the weights, optimizer state and random state of rank 0. Raise ValueError if their runs are not the same."""
    if ranks.size == 1:
        return
    parts = {"model": model.arrays(), "optimizer_state": optimizer.arrays() if optimizer._place is None else {}}
    shapes = {part: {n: f"{a.dtype.name}{list(a.shape)}" for n, a in arrays.items()} for part, arrays in parts.items()}
    ranks.check_same({**description, **shapes})
    for part, arrays in parts.items():
        ranks.share_arrays({f"{part} {n}": a for n, a in arrays.items()})
    set_state(tuple(ranks.gather(np.array(get_state(), np.uint64), "the random state of fit")[0].tolist()))
