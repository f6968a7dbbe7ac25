"""The training loop: epochs of steps, with callbacks, checkpoints and Ctrl-C; it ends early if the loss is not finite.

Short steps run many at a time as one native loop (``wf.scan`` of the step), with the same bits as single steps. The first
Ctrl-C ends the run after the current step, the second one immediately.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from weft.errors import DataError, warn
from weft.nn.module import Module
from weft.optim import Optimizer
from weft.process.interrupts import Interrupt, catch_interrupt
from weft.train import checkpoint
from weft.train.batches import Arrays, Feed
from weft.train.callbacks import AverageWeights, BestWeights
from weft.train.diagnose import find_origin
from weft.train.doubts import explain_loss
from weft.train.history import Epoch, Hooks, State, sort_callbacks
from weft.train.metrics import Validation
from weft.train.progress import progress
from weft.train.ranks import Ranks
from weft.train.snapshot import Log, Snapshot, restore_snapshot, take_snapshot
from weft.train.step import Stepper
from weft.transforms.settings import flush_denormals


class Run:
    """One run of ``fit``; :meth:`train` executes it."""

    def __init__(
        self, model: Module, optimizer: Optimizer, stepper: Stepper, feed: Feed, hooks: Hooks, state: State,
        validation: Validation | None, show: Any, path: str | os.PathLike | None, every: checkpoint.Every, run: dict[str, Any],
        ranks: Ranks,
    ) -> None:
        self.model, self.optimizer, self.stepper, self.feed = model, optimizer, stepper, feed
        if not any(isinstance(c, BestWeights) for c in hooks.all):
            hooks = sort_callbacks([BestWeights(restore=False), *hooks.all])
        self.keeper = next(c for c in hooks.all if isinstance(c, BestWeights))
        self.hooks, self.state, self.validation, self.show = hooks, state, validation, show
        self.path, self.every, self.run, self.ranks = path, every, run, ranks
        # whether a callback may stop one rank within an epoch
        self.may_stop = ranks.size > 1 and any(not isinstance(c, AverageWeights) and hasattr(c, "on_batch") for c in hooks.all)
        self.keeping = [c for c in hooks.all if hasattr(c, "state_dict")]
        self.totals = [0.0] * (1 + len(stepper.metrics))
        self.rows = 0  # trained in this epoch so far
        self.seconds = 0.0  # spent in this epoch before the run was resumed
        self.began: dict[str, Any] | None = None  # the feed's state at the start of the current epoch; None between epochs
        self.lr = optimizer.lr  # the initial rate
        self.runner = UpdateRunner(stepper, feed, bool(hooks.batch))
        self.first_loss = math.nan  # of the first step of this call
        self.has_warned = False  # whether the user has been warned of gradients that overflow in float16
        self.callback_states: list[dict[str, Any]] | None = None  # states of the callbacks in the checkpoint
        self.before: Snapshot | None = None  # state before the checkpoint was loaded, until the callbacks have loaded theirs

    def save(self) -> None:
        """Write the checkpoint, if the run has one. Rank 0 writes it."""
        if self.path is None:
            return
        optimizer = self.stepper.gather_optimizer()
        if not self.ranks.is_first:
            return
        state = self.state
        seconds = self.seconds + (time.perf_counter() - self.start if self.began is not None else 0.0)
        place = {
            "batch": state.batch, "step": state.step, "loss": state.loss, "stopped": state.stopped, "best": state.history.best,
            "totals": self.totals, "rows": self.rows, "seconds": seconds,
            "lr": float(self.optimizer.lr), "given_lr": float(self.lr),
            "feed": self.began if self.began is not None else self.feed.state(),
        }
        callbacks = [(type(c).__name__, c.state_dict()) for c in self.keeping]
        snapshot = take_snapshot(self.model, self.optimizer, self.stepper)
        if optimizer is not None:
            snapshot.arrays["optimizer"] = optimizer
        checkpoint.save(self.path, checkpoint.Checkpoint(self.run, snapshot, callbacks, state.history.epochs, place))

    def resume(self, saved: checkpoint.Checkpoint) -> None:
        """Load a checkpoint. Raise DataError, without changing anything, if it belongs to another run."""
        parts = {"model": self.model.arrays(), "optimizer": self.stepper.describe_optimizer(), "step": self.stepper.arrays}
        current = {**self.run, "callbacks": [type(c).__name__ for c in self.keeping]}
        stored = {**saved.run, "callbacks": [kind for kind, _ in saved.callbacks]}
        pairs = [(c, s) for c, (_, s) in zip(self.keeping, saved.callbacks, strict=False) if isinstance(c, BestWeights)]
        watched = [c.describe_figure(self.validation is not None) for c, _ in pairs]
        current["what BestWeights watches"] = ", ".join(watched)
        was = [str(state.get("watched", now)) for (_, state), now in zip(pairs, watched, strict=True)]
        stored["what BestWeights watches"] = ", ".join(was)
        described = checkpoint.Checkpoint(stored, saved.snapshot, saved.callbacks, saved.epochs, saved.place)
        checkpoint.check(self.path, described, current, parts, self.model)
        if not self.feed.fits(saved.place["feed"]) or len(saved.place["totals"]) != len(self.totals):
            raise DataError(f"fit: {self.path} is damaged: it does not say where in its data the run stands")
        self.before = take_snapshot(self.model, self.optimizer, self.stepper)
        saved.snapshot.arrays["optimizer"] = self.stepper.divide_optimizer(saved.snapshot.arrays["optimizer"])
        restore_snapshot(saved.snapshot, self.model, self.optimizer, self.stepper)
        state, place = self.state, saved.place
        state.history.epochs[:] = saved.epochs
        state.history.best, state.stopped = place["best"], place["stopped"]
        state.batch, state.step, state.loss = place["batch"], place["step"], place["loss"]
        state.epoch = len(saved.epochs)
        self.totals, self.rows, self.seconds = place["totals"], place["rows"], place["seconds"]
        self.began = place["feed"]
        if self.lr == place["given_lr"]:
            self.optimizer.lr = place["lr"]  # callbacks may have changed it
        self.callback_states = [described for _, described in saved.callbacks]

    def train(self) -> None:
        """Train to the end of the run."""
        state, history = self.state, self.state.history
        self._begin()
        if self.callback_states is None:
            self.save()
        finished, per = False, self.feed.steps
        total, done = None if per is None else state.epochs * per, (per or 0) * state.epoch + state.batch
        display = progress(total, self.show and self.ranks.is_first, history, state.epochs, done, self._running_means)
        self.model.train()
        try:
            with flush_denormals(), catch_interrupt() as interrupt, display as bar:
                self.log = Log(self.model, self.optimizer, self.stepper, self.feed)
                self.ranks.read_flags = lambda: (interrupt.to_stop, self.log.is_due())
                while len(history.epochs) < state.epochs and not state.stopped and not self._is_interrupted(interrupt):
                    if not self._epoch(bar, interrupt):
                        break
                finished = True
                if history.non_finite is None:
                    history.interrupted = self._is_interrupted(interrupt)
                    if history.interrupted and self.path is not None:
                        self.save()
        except KeyboardInterrupt:
            if self.ranks.size > 1:
                raise  # the others wait for this rank, so the job ends
            history.interrupted = True
        finally:
            self.model.eval()
        history.stopped = "Ctrl-C" if history.interrupted else state.stopped
        if (history.interrupted or history.non_finite is not None) and self.keeper.best is not None:
            self.keeper.restore(self.model)
        if self.ranks.is_first:
            self._warn_of_loss()
        if finished:
            for end in self.hooks.end:
                end(state)

    def _warn_of_loss(self) -> None:
        """Warn if the loss is not finite, or has grown, or has not fallen for inputs that are not scaled."""
        history, found = self.state.history, self.state.history.non_finite
        last = self._running_means().get("loss", history.loss[-1] if history.epochs else self.first_loss)
        cause = explain_loss(self.first_loss, last, found is None, float(self.optimizer.lr), self.feed)
        if found is not None:
            warn(f"fit: {found}; {cause}" if cause and found.where != "data" else f"fit: {found}")
        elif cause and not history.interrupted:
            warn(f"fit: {cause}")

    def _begin(self) -> None:
        """Call ``on_begin`` of the callbacks and load their states. If that fails, restore the state before ``resume``."""
        try:
            for begin in self.hooks.begin:
                begin(self.state)
            self.state.stopped = self.ranks.share_text(self.state.stopped, "the reason to stop fit before its first step")
            for c, state in zip(self.keeping, self.callback_states or (), strict=False):
                checkpoint.load_callback(self.path, c, state, self.model)
        except BaseException:
            if self.before is not None:
                restore_snapshot(self.before, self.model, self.optimizer, self.stepper)
                self.optimizer.lr = self.lr
            raise
        self.before = None

    def _is_interrupted(self, interrupt: Interrupt) -> bool:
        """Return whether Ctrl-C ends the run; of several ranks, whether one of them said so in the last update."""
        return interrupt.to_stop if self.ranks.size == 1 else self.ranks.interrupted

    def _running_means(self) -> dict[str, float]:
        """Return the means so far of the current epoch, of loss and metrics."""
        names = ("loss", *self.stepper.metrics)
        return {name: total / self.rows for name, total in zip(names, self.totals, strict=True)} if self.rows else {}

    def _epoch(self, bar: Any, interrupt: Interrupt) -> bool:
        """Train one epoch, or the rest of it. Return False if the run ends before the end of the epoch."""
        state, feed, totals = self.state, self.feed, self.totals
        state.epoch = number = len(state.history.epochs) + 1
        self.start = time.perf_counter()
        if self.began is None:
            self.began, state.batch, self.rows, self.seconds = feed.state(), 0, 0, 0.0
            totals[:] = [0.0] * len(totals)
            keys = feed.epoch(number, 0, None)
        else:
            keys = feed.epoch(number, state.batch, self.began)
        with closing(keys):  # a Loader's threads end with the epoch, however it ends
            return self._steps(keys, number, bar, interrupt) and self._close(bar)

    def _steps(self, keys: Any, number: int, bar: Any, interrupt: Interrupt) -> bool:
        """Do the updates of an epoch. Return False if the run ends before the end of the epoch."""
        state, optimizer, totals, log = self.state, self.optimizer, self.totals, self.log
        on_batch, every = self.hooks.batch, self.every.steps if self.path is not None else None
        advance, look, is_alone = self.runner.advance, log.every, self.ranks.size == 1
        for block in self._blocks(keys, every):
            lr = float(optimizer.lr)
            look -= len(block)
            if look <= 0:
                look = log.every
                if not log.update_snapshot(log.is_due() if is_alone else self.ranks.snapshot_due):
                    return self._end_non_finite("weights")
            log.blocks.append((block, lr, number, state.batch + 1))
            results = advance(block, lr)
            state.step += len(block)
            for rows, values in results:
                state.loss = values[0]
                if math.isnan(self.first_loss):
                    self.first_loss = values[0]
                if not math.isfinite(values[0]):
                    return self._end_non_finite("loss")
                for k, value in enumerate(values):
                    totals[k] += value * rows
                self.rows += rows
            batches = sum(map(len, block))
            state.batch += batches
            bar.step(batches)
            for call in on_batch:
                call(state)
            if self.may_stop:
                state.stopped = self.ranks.share_text(state.stopped, "the reason to stop fit")
            due = every is not None and state.step % every == 0
            to_stop = interrupt.to_stop if is_alone else self.ranks.interrupted
            if due or to_stop or state.stopped:
                if not log.is_sound():
                    return self._end_non_finite("weights")
                if due or state.stopped:
                    self.save()
                if to_stop or state.stopped:
                    return False
        return log.is_sound() or self._end_non_finite("weights")

    def _blocks(self, keys: Any, every: int | None) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """Yield the updates of an epoch, in tuples that one native call executes."""
        size, state = self.stepper.accumulate, self.state
        remaining = 0 if self.feed.steps is None else (state.epochs - state.epoch + 1) * self.feed.steps - state.batch
        updates = ((key,) for key in keys) if size == 1 else iter(lambda: tuple(islice(keys, size)), ())
        return self.runner.blocks(updates, remaining, lambda: UPDATES_PER_LOOP if every is None else every - state.step % every)

    def _close(self, bar: Any) -> bool:
        """End an epoch: validate, append its row, call the callbacks, write the checkpoint if due. Return True."""
        state, history = self.state, self.state.history
        means = [t / self.rows for t in self.totals]
        value, figures = self.validation() if self.validation is not None else (None, {})
        seconds = self.seconds + time.perf_counter() - self.start
        metrics = dict(zip(self.stepper.metrics, means[1:], strict=True))
        rate = float(self.optimizer.lr)
        row = Epoch(state.epoch, means[0], seconds, value, figures.get("accuracy"), metrics, figures, rate)
        history.epochs.append(row)
        for call in self.hooks.epoch:
            call(state)
        state.stopped = self.ranks.share_text(state.stopped, f"the reason to stop fit after epoch {row.number}")
        self.ranks.compare(self.model.arrays(), f"the end of epoch {row.number}")
        history.best = self.keeper.number
        bar.epoch(row)
        self.began, state.batch, self.rows = None, 0, 0
        self.totals[:] = [0.0] * len(self.totals)
        if self.stepper.stuck and not self.has_warned and self.ranks.is_first:
            self.has_warned = True
            warn(
                f"fit: at the end of epoch {row.number} the gradients are not finite in "
                f"{self.stepper.dtype or 'the formats of products'}, even with the loss unscaled, so updates are left out; "
                "bfloat16 has float32's range, and float32 finds where they come from"
            )
        ended = state.stopped or len(history.epochs) == state.epochs
        if ended or (self.every.epochs is not None and len(history.epochs) % self.every.epochs == 0):
            self.save()
        return True

    def _end_non_finite(self, seen: str) -> bool:
        """End the run because loss or weights are not finite: find the origin and restore the state before its step. Return
        False."""
        state = self.state
        diagnosis = find_origin(self.log, state.step)
        best = self.keeper.number if self.keeper.best is not None else 0
        weights = f"the weights of epoch {best}, the best" if best else f"its weights from before step {diagnosis.step}"
        state.history.non_finite = diagnosis = replace(diagnosis, weights=weights, seen=seen)
        state.stopped = diagnosis.end
        return False


UPDATES_PER_LOOP = 32  # updates in a native loop
SHORT_STEP_S = 2e-3  # seconds: for longer steps Python's time is negligible, and Ctrl-C would have to wait
MIN_REMAINING = 4000  # remaining updates below which the second program is not worth its compilation
TIMED_UPDATES = 32  # updates that are timed, after the same number of untimed ones
MAX_BATCH_BYTES = 64 << 20  # bytes: the batches of a loop are in memory together

Keys = tuple[Any, ...]  # the keys of the batches of one update
Figures = tuple[int, tuple[float, ...]]  # rows, and (loss, *metrics)


class UpdateRunner:
    """Executes updates from the keys of their batches, singly or many in one native call.

    ``alone``: whether a callback must be called after each update
    """

    def __init__(self, stepper: Stepper, feed: Feed, alone: bool) -> None:
        self.stepper, self.feed, self.read = stepper, feed, stepper.open_feed(feed)
        is_small = isinstance(feed, Arrays) and UPDATES_PER_LOOP * feed.batch_bytes <= MAX_BATCH_BYTES
        self.can_loop = stepper.run_many is not None and is_small and not alone  # whether a native call may execute many updates
        self.count = 1  # updates per native call
        self.updates_seen = 0  # updates of this epoch
        self.has_looped = False  # whether a native loop has run

    def blocks(self, updates: Iterator[Keys], remaining: int, room: Callable[[], int]) -> Iterator[tuple[Keys, ...]]:
        """Yield the updates of an epoch in tuples, each for one native call.

        remaining : updates of the rest of the run
        room : function that returns the number of updates before the next checkpoint
        """
        self.updates_seen = 0
        for update in updates:
            if self.can_loop and self.count == 1:
                self._time_update(remaining)
            if self.count == 1 or room() < self.count:
                yield (update,)
                continue
            block = (update, *islice(updates, self.count - 1))
            if len(block) == self.count and len(block[-1][0]) == len(update[0]):
                yield block
            else:
                yield from ((update,) for update in block)

    def advance(self, block: tuple[Keys, ...], lr: float) -> list[Figures]:
        """Execute the updates of a block."""
        if len(block) > 1 and (results := self._run_block(block, lr)) is not None:
            return results
        read, count, advance = self.read, self.feed.count, self.stepper.advance
        return [(sum(map(count, keys)), advance([read(key) for key in keys], lr)) for keys in block]

    def _run_block(self, block: tuple[Keys, ...], lr: float) -> list[Figures] | None:
        """Execute a block in one native call. Return None if tracing shows that the step cannot be part of a native loop."""
        assert self.stepper.run_many is not None
        xs, ys = self.feed.batch(np.stack([key for (key,) in block]))
        try:
            out = self.stepper.run_many(xs, ys, lr)
        except (TypeError, ValueError):
            if self.has_looped:
                raise
            self.can_loop, self.count = False, 1
            return None
        self.has_looped = True
        rows = len(block[0][0])
        return [(rows, values) for values in zip(*(a.numpy().tolist() for a in out), strict=True)]

    def _time_update(self, remaining: int) -> None:
        """Time single updates, called before each, and switch to native loops if they are short enough."""
        self.updates_seen += 1
        if self.updates_seen == TIMED_UPDATES:
            self.since = time.thread_time()  # CPU time: waiting for other programs does not count
        elif self.updates_seen == 2 * TIMED_UPDATES and remaining >= MIN_REMAINING:
            if time.thread_time() - self.since < TIMED_UPDATES * SHORT_STEP_S:
                self.count = UPDATES_PER_LOOP
