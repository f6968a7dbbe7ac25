"""The loop of a run: epochs of steps, with callbacks, checkpoints, Ctrl-C, and an end where the loss is not finite.

Short steps run many at a time as one native loop (``wf.scan`` of the step), with the bits of the same steps one by one. The first
Ctrl-C ends the run after the step, the second at once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np

from weft.errors import DataError, warn
from weft.nn.module import Module
from weft.optim import Optimizer
from weft.train import checkpoint
from weft.train.batches import Arrays, Feed
from weft.train.callbacks import BestWeights
from weft.train.diagnose import find
from weft.train.history import Epoch
from weft.train.progress import progress
from weft.train.snapshot import Log, Snapshot, put, take
from weft.train.state import Hooks, State
from weft.train.step import Stepper
from weft.train.validate import Validation
from weft.transforms.settings import flush_denormals


class Run:
    """All that a run is; :meth:`train` goes through it."""

    def __init__(
        self, model: Module, optimizer: Optimizer, stepper: Stepper, feed: Feed, hooks: Hooks, state: State,
        validation: Validation | None, show: Any, path: str | os.PathLike | None, every: checkpoint.Every, run: dict[str, Any],
    ) -> None:
        self.model, self.optimizer, self.stepper, self.feed = model, optimizer, stepper, feed
        self.hooks, self.state, self.validation, self.show = hooks, state, validation, show
        self.path, self.every, self.run = path, every, run
        given = next((c for c in hooks.all if isinstance(c, BestWeights)), None)
        self.keeper = BestWeights(restore=False) if given is None else given
        self.own_keeper = given is None
        self.keeping = [c for c in ([self.keeper] if self.own_keeper else []) + list(hooks.all) if hasattr(c, "state_dict")]
        self.totals = [0.0] * (1 + len(stepper.metrics))
        self.rows = 0  # of this epoch so far
        self.seconds = 0.0  # spent in this epoch before this process
        self.began: dict[str, Any] | None = None  # what the order of this epoch depends on, when it goes on in its middle
        self.lr = optimizer.lr  # as given
        self.pace = Pace(stepper, feed, bool(hooks.batch))
        self.told = False  # of gradients that float16 cannot hold
        self.kept: list[dict[str, Any]] | None = None  # what callbacks get back when the run goes on
        self.before: Snapshot | None = None  # what the checkpoint was written over, until callbacks have taken theirs back

    # ---- checkpoints

    def save(self) -> None:
        """Write the checkpoint, where there is one to write."""
        if self.path is None:
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
        snapshot = take(self.model, self.optimizer, self.stepper)
        checkpoint.save(self.path, checkpoint.Checkpoint(self.run, snapshot, callbacks, state.history.epochs, place))

    def resume(self, found: checkpoint.Checkpoint) -> None:
        """Take over what a checkpoint holds; nothing is changed where it is another run's."""
        parts = {"model": self.model.arrays(), "optimizer": self.optimizer.arrays(), "step": self.stepper.arrays}
        here = {**self.run, "callbacks": [type(c).__name__ for c in self.keeping]}
        there = {**found.run, "callbacks": [kind for kind, _ in found.callbacks]}
        pairs = [(c, s) for c, (_, s) in zip(self.keeping, found.callbacks, strict=False) if isinstance(c, BestWeights)]
        watched = [c.watched(self.validation is not None) for c, _ in pairs]
        here["what BestWeights watches"] = ", ".join(watched)
        was = [str(state.get("watched", now)) for (_, state), now in zip(pairs, watched, strict=True)]
        there["what BestWeights watches"] = ", ".join(was)
        held = checkpoint.Checkpoint(there, found.snapshot, found.callbacks, found.epochs, found.place)
        checkpoint.check(self.path, held, here, parts, self.model)
        if not self.feed.fits(found.place["feed"]) or len(found.place["totals"]) != len(self.totals):
            raise DataError(f"fit: {self.path} is damaged: it does not say where in its data the run stands")
        self.before = take(self.model, self.optimizer, self.stepper)
        put(found.snapshot, self.model, self.optimizer, self.stepper)
        state, place = self.state, found.place
        state.history.epochs[:] = found.epochs
        state.history.best, state.stopped = place["best"], place["stopped"]
        state.batch, state.step, state.loss = place["batch"], place["step"], place["loss"]
        state.epoch = len(found.epochs)
        self.totals, self.rows, self.seconds = place["totals"], place["rows"], place["seconds"]
        self.began = place["feed"]
        if self.lr == place["given_lr"]:
            self.optimizer.lr = place["lr"]  # callbacks may have changed it
        self.kept = [held for _, held in found.callbacks]

    # ---- the loop

    def train(self) -> None:
        """From where the run stands to its end."""
        state, history = self.state, self.state.history
        self._begin()
        if self.kept is None:
            self.save()
        done = False
        self.model.train()
        try:
            with flush_denormals(), noted() as asked, self._progress() as bar:
                self.log = Log(self.model, self.optimizer, self.stepper, self.feed)
                while len(history.epochs) < state.epochs and not state.stopped and not asked.to_stop:
                    if not self._epoch(bar, asked):
                        break
                done = True
                if history.non_finite is None:
                    history.interrupted = asked.to_stop
                    if asked.to_stop and self.path is not None:
                        self.save()
        except KeyboardInterrupt:
            history.interrupted = True
        finally:
            self.model.eval()
        history.stopped = "Ctrl-C" if history.interrupted else state.stopped
        if (history.interrupted or history.non_finite is not None) and self.keeper.best is not None:
            self.keeper.restore(self.model)
        if history.non_finite is not None:
            warn(f"fit: {history.non_finite}")
        if done:
            for end in self.hooks.end:
                end(state)

    def _begin(self) -> None:
        """Begin the callbacks, and give them what they kept. Where that fails, a resumed run leaves everything as it was."""
        try:
            if self.own_keeper:
                self.keeper.on_begin(self.state)
            for begin in self.hooks.begin:
                begin(self.state)
            for c, held in zip(self.keeping, self.kept or (), strict=False):
                checkpoint.taken_back(self.path, c, held, self.model)
        except BaseException:
            if self.before is not None:
                put(self.before, self.model, self.optimizer, self.stepper)
                self.optimizer.lr = self.lr
            raise
        self.before = None

    def _progress(self) -> Any:
        per = self.feed.steps
        total = None if per is None else self.state.epochs * per
        return progress(total, self.show, self.state.history, self.state.epochs, (per or 0) * self.state.epoch + self.state.batch)

    def _epoch(self, bar: Any, asked: Asked) -> bool:
        """One epoch, or what is left of it; False where the run ends in its middle."""
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
            return self._steps(keys, number, bar, asked) and self._close(bar)

    def _steps(self, keys: Any, number: int, bar: Any, asked: Asked) -> bool:
        """The updates of an epoch; False where the run ends in its middle."""
        state, optimizer, totals, log = self.state, self.optimizer, self.totals, self.log
        on_batch, every = self.hooks.batch, self.every.steps if self.path is not None else None
        advance, look, rate = self.pace.advance, log.every, None
        for block in self._blocks(keys, every):
            lr = float(optimizer.lr)
            if lr != rate:
                log.span(lr, number, state.batch + 1)
                rate = lr
            look -= len(block)
            if look <= 0:
                look = log.every
                if not log.look(lr, number, state.batch + 1):
                    return self._bad("weights")
            log.keys += block
            found = advance(block, lr)
            state.step += len(block)
            for rows, values in found:
                state.loss = values[0]
                if not isfinite(values[0]):
                    return self._bad("loss")
                for k, value in enumerate(values):
                    totals[k] += value * rows
                self.rows += rows
            batches = sum(map(len, block))
            state.batch += batches
            bar.step(batches)
            for call in on_batch:
                call(state)
            due = every is not None and state.step % every == 0
            if due or asked.to_stop or state.stopped:
                if not log.is_sound():
                    return self._bad("weights")
                if due or state.stopped:
                    self.save()
                if asked.to_stop or state.stopped:
                    return False
        return log.is_sound() or self._bad("weights")

    def _blocks(self, keys: Any, every: int | None) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """The updates of an epoch, in tuples of those that one native call makes."""
        size, state = self.stepper.accumulate, self.state
        left = 0 if self.feed.steps is None else (state.epochs - state.epoch + 1) * self.feed.steps - state.batch
        updates = ((key,) for key in keys) if size == 1 else _groups(keys, size)
        return self.pace.blocks(updates, left, lambda: MANY if every is None else every - state.step % every)

    def _close(self, bar: Any) -> bool:
        """The end of an epoch: its row, the callbacks, the checkpoint."""
        state, history = self.state, self.state.history
        means = [t / self.rows for t in self.totals]
        value, figures = self.validation() if self.validation is not None else (None, {})
        seconds = self.seconds + time.perf_counter() - self.start
        metrics = dict(zip(self.stepper.metrics, means[1:], strict=True))
        rate = float(self.optimizer.lr)
        row = Epoch(state.epoch, means[0], seconds, value, figures.get("accuracy"), metrics, figures, rate)
        history.epochs.append(row)
        if self.own_keeper:
            self.keeper.on_epoch(state)
        for call in self.hooks.epoch:
            call(state)
        history.best = self.keeper.number
        bar.epoch(row)
        self.began, state.batch, self.rows = None, 0, 0
        self.totals[:] = [0.0] * len(self.totals)
        if self.stepper.stuck and not self.told:
            self.told = True
            warn(
                f"fit: at the end of epoch {row.number} the gradients are not finite in float16, even with the loss unscaled, so "
                "updates are left out; precision='bfloat16' has float32's range, and float32 finds where they come from"
            )
        ended = state.stopped or len(history.epochs) == state.epochs
        if ended or (self.every.epochs is not None and len(history.epochs) % self.every.epochs == 0):
            self.save()
        return True

    def _bad(self, seen: str) -> bool:
        """Loss or weights are not finite: find where it comes from; the state is then that before the bad step. False."""
        state = self.state
        found = find(self.log, state.step)
        best = self.keeper.number if self.keeper.best is not None else 0
        weights = f"the weights of epoch {best}, the best" if best else f"its weights from before step {found.step}"
        state.history.non_finite = found = replace(found, weights=weights, seen=seen)
        state.stopped = found.end
        return False


def _groups(keys: Iterator[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """Tuples of ``size`` keys; the last may have fewer."""
    group: list[Any] = []
    for key in keys:
        group.append(key)
        if len(group) == size:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)

MANY = 32  # updates in a loop
SHORT = 2e-3  # seconds of a step; beside longer ones Python does not count, and Ctrl-C would wait
LEFT = 4000  # updates still to come, for fewer a second program is not worth its compilation
WATCHED = 32  # updates that are timed, after as many that are not
MOST = 64 << 20  # bytes of the batches of a loop, which lie in memory together

Keys = tuple[Any, ...]  # of the batches of one update
Figures = tuple[int, tuple[float, ...]]  # rows, and (loss, *metrics)


class Pace:
    """Makes updates from the keys of their batches.

    ``alone`` says that somebody wants to be called after each update.
    """

    def __init__(self, stepper: Stepper, feed: Feed, alone: bool) -> None:
        self.stepper, self.feed = stepper, feed
        # whether a native call may make many updates
        self.able = stepper.many is not None and isinstance(feed, Arrays) and MANY * feed.batch_bytes <= MOST and not alone
        self.count = 1  # updates that a native call makes
        self.seen = 0  # updates of this epoch
        self.proven = False  # whether a loop has run

    def blocks(self, updates: Iterator[Keys], left: int, room: Callable[[], int]) -> Iterator[tuple[Keys, ...]]:
        """The updates of an epoch in tuples: each is one native call.

        left : updates still to come in the whole run
        room : how many updates may be made before the loop is to look after something else
        """
        self.seen = 0
        for update in updates:
            if self.able and self.count == 1:
                self._watch(left)
            if self.count == 1 or room() < self.count:
                yield (update,)
                continue
            block = (update, *islice(updates, self.count - 1))
            if len(block) == self.count and len(block[-1][0]) == len(update[0]):
                yield block
            else:
                yield from ((update,) for update in block)

    def advance(self, block: tuple[Keys, ...], lr: float) -> list[Figures]:
        """Make the updates of a block."""
        found = self._many(block, lr) if len(block) > 1 else None
        return [self._one(keys, lr) for keys in block] if found is None else found

    def _one(self, keys: Keys, lr: float) -> Figures:
        batch, count, plain = self.feed.batch, self.feed.count, self.stepper.plain
        if plain is None:
            return sum(map(count, keys)), self.stepper.advance([batch(key) for key in keys], lr)
        key = keys[0]
        x, y = batch(key)
        return count(key), (float(plain(x, y, lr)),)

    def _many(self, block: tuple[Keys, ...], lr: float) -> list[Figures] | None:
        """One native call, or None where the step has what no native loop can hold, which its trace tells."""
        assert self.stepper.many is not None
        xs, ys = self.feed.batch(np.stack([key for (key,) in block]))
        try:
            out = self.stepper.many(xs, ys, lr)
        except (TypeError, ValueError):
            if self.proven:
                raise
            self.able, self.count = False, 1
            return None
        self.proven = True
        rows = len(block[0][0])
        return [(rows, values) for values in zip(*(a.numpy().tolist() for a in out), strict=True)]

    def _watch(self, left: int) -> None:
        """Called before each update: whether steps are short enough for many at once."""
        self.seen += 1
        if self.seen == WATCHED:
            self.since = time.thread_time()  # not the clock's time: other programs may keep this one waiting
        elif self.seen == 2 * WATCHED and left >= LEFT and time.thread_time() - self.since < WATCHED * SHORT:
            self.count = MANY


class Asked:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.to_stop = False


@contextmanager
def noted() -> Iterator[Asked]:
    """While it lasts Ctrl-C sets ``to_stop``; a second one raises KeyboardInterrupt.

    Only in the main thread, and only where Python's own handler is in place: programs with a handler of theirs keep it.
    """
    asked = Asked()
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield asked
        return

    def note(number: int, frame: Any) -> None:
        if asked.to_stop:
            raise KeyboardInterrupt
        asked.to_stop = True

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
