"""Snapshots: everything that the next step depends on, copied; and the log of steps that leads from one to now."""

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

MOST_HELD = 32 << 20  # bytes of batches that the log may hold before the next snapshot
LEAST_SECONDS, LEAST_COSTS = 1.0, 50  # between snapshots: this long, and so many times what one takes
LOOK_EVERY = 32  # steps between two looks at the clock


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Arrays of model, optimizer and step, and the hidden random state."""

    arrays: dict[str, dict[str, np.ndarray]]
    random: tuple[int, int]


def take(model: Module, optimizer: Optimizer, stepper: Stepper) -> Snapshot:
    """Copies of everything."""
    parts = {"model": model.arrays(), "optimizer": optimizer.arrays(), "step": stepper.arrays}
    return Snapshot({part: {n: a.numpy().copy() for n, a in held.items()} for part, held in parts.items()}, get_state())


def put(snapshot: Snapshot, model: Module, optimizer: Optimizer, stepper: Stepper) -> None:
    """Make everything what it was when the snapshot was taken."""
    write_model(model, snapshot.arrays["model"])
    for part, held in (("optimizer", optimizer.arrays()), ("step", stepper.arrays)):
        write(held, snapshot.arrays[part])
    set_state(snapshot.random)


def write(arrays: dict[str, Array], content: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        array[...] = asarray(content[name])


def write_model(model: Module, content: dict[str, np.ndarray]) -> None:
    """Write a model's arrays; state that a layer makes in its first step (of stateful recurrent layers) comes and goes."""
    here = model.arrays()
    for name in here.keys() - content.keys():
        _owner(model, name)(None)
    for name in content.keys() - here.keys():
        _owner(model, name)(asarray(content[name]))
    write({n: a for n, a in here.items() if n in content}, content)


def _owner(model: Module, name: str) -> Any:
    """A function that assigns to the attribute of this dotted name."""
    prefix, _, last = name.rpartition(".")
    module = dict(model.modules())[prefix]
    return lambda value: setattr(module, last, value)


def may_come(model: Module, name: str) -> bool:
    """Whether an array of this name may be made by a later step: the layer has the attribute, and it is None."""
    prefix, _, last = name.rpartition(".")
    module = dict(model.modules()).get(prefix)
    return module is not None and last in vars(module) and vars(module)[last] is None


@dataclass(frozen=True, slots=True)
class SavedStep:
    """One update in the log: the keys of its batches, the rate, and where in the run it was."""

    keys: tuple[Any, ...]
    lr: float
    epoch: int
    batch: int


@dataclass(frozen=True, slots=True)
class Span:
    """From step ``first`` of the log on: the rate, the epoch, and the batch that ``first`` begins with."""

    first: int
    lr: float
    epoch: int
    batch: int


class Log:
    """The last snapshot and the steps since: what is needed to see again how a loss went bad. No kernel runs for it.

    No snapshot holds parameters that are not finite, except those that were so from the beginning.
    """

    def __init__(self, model: Module, optimizer: Optimizer, stepper: Stepper, feed: Feed) -> None:
        self.of = (model, optimizer, stepper)  # whose state a snapshot holds
        self.feed = feed
        self.keys: list[tuple[Any, ...]] = []  # of the batches of each update; the loop appends to it before each
        self.spans: list[Span] = []
        self.every = 1 if feed.heavy else LOOK_EVERY
        self._begin(time.perf_counter(), take(*self.of))
        self.sound = [name for name in model.parameters() if finite(self.snapshot.arrays["model"][name])]

    def is_sound(self) -> bool:
        """Whether the parameters that were finite are so now."""
        parameters = self.of[0].parameters()
        return all(finite(parameters[name].numpy()) for name in self.sound)

    def span(self, lr: float, epoch: int, batch: int) -> None:
        """The next update begins with this batch and has this rate; those after it follow."""
        self.spans.append(Span(len(self.keys), lr, epoch, batch))

    def look(self, lr: float, epoch: int, batch: int) -> bool:
        """Called between updates: a new snapshot where it is time for one; False where the parameters are not finite."""
        start = time.perf_counter()
        if start >= self._next or (self.feed.heavy and self._heavy()):
            fresh = take(*self.of)
            if not all(finite(fresh.arrays["model"][name]) for name in self.sound):
                return False
            self._begin(start, fresh)
            self.span(lr, epoch, batch)
        return True

    def steps(self) -> list[SavedStep]:
        """Every update since the snapshot."""
        out = []
        for span, after in zip(self.spans, [*(s.first for s in self.spans[1:]), len(self.keys)], strict=True):
            batch = span.batch
            for keys in self.keys[span.first : after]:
                out.append(SavedStep(keys, span.lr, span.epoch, batch))
                batch += len(keys)
        return out

    def _heavy(self) -> bool:
        self._held += sum(map(self.feed.held, self.keys[-1])) if self.keys else 0
        return self._held > MOST_HELD

    def _begin(self, start: float, snapshot: Snapshot) -> None:
        """The log begins anew, with a snapshot that was begun at ``start``."""
        self.snapshot = snapshot
        now = time.perf_counter()
        self._next = now + max(LEAST_SECONDS, LEAST_COSTS * (now - start))
        self._held = 0
        self.keys.clear()
        self.spans.clear()


def finite(a: np.ndarray) -> bool:
    """Whether an array holds numbers only."""
    return not is_float(a.dtype) or bool(np.isfinite(a).all())
