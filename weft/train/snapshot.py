"""Snapshots: copies of everything that the next step depends on, and the log of the steps since the last snapshot."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_float
from weft.functions.creation.fill import asarray
from weft.functions.random.state import get_state, set_state
from weft.nn.module import Module
from weft.optim import Optimizer
from weft.train.batches import Feed
from weft.train.step import Stepper

MAX_LOG_BYTES = 32 << 20  # bytes of batches in the log after which a snapshot is taken
MIN_SECONDS, MIN_COSTS = 1.0, 50  # minimum time between snapshots, in seconds and in multiples of a snapshot's duration
CHECK_EVERY = 32  # steps between two readings of the clock


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Arrays of model, optimizer and step, and the global random state."""

    arrays: dict[str, dict[str, np.ndarray]]
    random: tuple[int, int]


def take_snapshot(model: Module, optimizer: Optimizer, stepper: Stepper) -> Snapshot:
    """Return a snapshot of the present state."""
    parts = {"model": model.arrays(), "optimizer": optimizer.arrays(), "step": stepper.arrays}
    return Snapshot({part: {n: a.numpy().copy() for n, a in arrays.items()} for part, arrays in parts.items()}, get_state())


def restore_snapshot(snapshot: Snapshot, model: Module, optimizer: Optimizer, stepper: Stepper) -> None:
    """Restore the state of a snapshot."""
    write_model(model, snapshot.arrays["model"])
    for part, arrays in (("optimizer", optimizer.arrays()), ("step", stepper.arrays)):
        write(arrays, snapshot.arrays[part])
    set_state(snapshot.random)


def write(arrays: dict[str, Array], content: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        array[...] = asarray(content[name])


def write_model(model: Module, content: dict[str, np.ndarray]) -> None:
    """Write a model's arrays. Create or remove the state that stateful recurrent layers create in their first step."""
    arrays = model.arrays()
    for name in arrays.keys() - content.keys():
        _assign(model, name, None)
    for name in content.keys() - arrays.keys():
        _assign(model, name, asarray(content[name]))
    write({n: a for n, a in arrays.items() if n in content}, content)


def _assign(model: Module, name: str, value: Array | None) -> None:
    """Set the attribute of this dotted name."""
    prefix, _, last = name.rpartition(".")
    setattr(dict(model.modules())[prefix], last, value)


def may_be_created(model: Module, name: str) -> bool:
    """Return whether a later step may create an array of this name: the layer has the attribute, and it is None."""
    prefix, _, last = name.rpartition(".")
    module = dict(model.modules()).get(prefix)
    return module is not None and last in vars(module) and vars(module)[last] is None


@dataclass(frozen=True, slots=True)
class SavedStep:
    """One update in the log: the keys of its batches, the rate, and its position in the run."""

    keys: tuple[Any, ...]
    lr: float
    epoch: int
    batch: int


class Log:
    """The last snapshot and the steps since, to replay how a loss became non-finite. Logging a step runs no kernel.

    A snapshot holds no parameters that are not finite, except those that were not finite at the start.
    """

    def __init__(self, model: Module, optimizer: Optimizer, stepper: Stepper, feed: Feed) -> None:
        self.of = (model, optimizer, stepper)  # the arguments of ``take_snapshot``
        self.feed = feed
        # (updates, rate, epoch, first batch), appended before the updates run; an update is the keys of its batches
        self.blocks: list[tuple[tuple[tuple[Any, ...], ...], float, int, int]] = []
        self.every = 1 if feed.heavy else CHECK_EVERY
        self._begin(time.perf_counter(), take_snapshot(*self.of))
        self.sound = [name for name in model.parameters() if is_finite(self.snapshot.arrays["model"][name])]

    def is_sound(self) -> bool:
        """Return whether the parameters that were finite at the start still are."""
        parameters = self.of[0].parameters()
        return all(is_finite(parameters[name].numpy()) for name in self.sound)

    def is_due(self) -> bool:
        """Return whether a snapshot is due by the clock."""
        return time.perf_counter() >= self._next_snapshot

    def update_snapshot(self, is_due: bool) -> bool:
        """Take a snapshot if one is due. Called between updates. Return False if the parameters are not finite.

        is_due : the result of :meth:`is_due`, on which the ranks of a run agree
        """
        start = time.perf_counter()
        if (self.feed.heavy and self._count_bytes()) or is_due:
            fresh = take_snapshot(*self.of)
            if not all(is_finite(fresh.arrays["model"][name]) for name in self.sound):
                return False
            self._begin(start, fresh)
        return True

    def steps(self) -> list[SavedStep]:
        """Return every update since the snapshot."""
        out = []
        for block, lr, epoch, batch in self.blocks:
            for keys in block:
                out.append(SavedStep(keys, lr, epoch, batch))
                batch += len(keys)
        return out

    def _count_bytes(self) -> bool:
        self._kept_bytes += sum(self.feed.kept_bytes(key) for keys in self.blocks[-1][0] for key in keys) if self.blocks else 0
        return self._kept_bytes > MAX_LOG_BYTES

    def _begin(self, start: float, snapshot: Snapshot) -> None:
        """Clear the log and start it at a snapshot, whose copying began at ``start``."""
        self.snapshot = snapshot
        now = time.perf_counter()
        self._next_snapshot = now + max(MIN_SECONDS, MIN_COSTS * (now - start))
        self._kept_bytes = 0
        self.blocks.clear()


def is_finite(a: np.ndarray) -> bool:
    """Return whether an array holds no NaN and no infinity."""
    return not is_float(a.dtype) or bool(np.isfinite(a).all())
