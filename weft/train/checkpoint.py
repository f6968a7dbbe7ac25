"""Checkpoints: a run on disk, whole at every moment, from which it goes on to the same bits.

A checkpoint is a safetensors file with checksums, as weights are; what is no array stands in it as JSON, in a tensor of
bytes. How it is written: ``weft/process/files.py``; who may write it: ``writer.py``.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weft.errors import DataError
from weft.nn.module import Module
from weft.nn.weight_file import pack, shown, unpack
from weft.nn.weights import passing
from weft.optim import Optimizer
from weft.optim.optimizer import state_dtype
from weft.optim.schedules import Schedule
from weft.process.files import read, write_whole
from weft.train.averaging import AverageWeights
from weft.train.callbacks import BestWeights
from weft.train.checkpoint_state import VERSION, understood
from weft.train.history import Epoch
from weft.train.snapshot import Snapshot, may_come

STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Every:
    """When checkpoints are due: after so many steps, after so many epochs."""

    steps: int | None
    epochs: int | None


def every(value: int | str) -> Every:
    """What ``checkpoint_every`` says.

    Examples
    --------
    >>> from weft.train.checkpoint import every
    >>> every("epoch"), every("5 epochs"), every(200)
    (Every(steps=None, epochs=1), Every(steps=None, epochs=5), Every(steps=200, epochs=1))
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return Every(value, 1)
    found = re.fullmatch(r"(?:([1-9]\d*) +)?(epoch|step)s?", value) if isinstance(value, str) else None
    if not found:
        raise ValueError(
            "fit: checkpoint_every must be a number of steps (each epoch's end is kept too), 'epoch', 'N epochs' or 'N steps', "
            f"not {value!r}"
        )
    count = int(found[1] or 1)
    return Every(None, count) if found[2] == "epoch" else Every(count, None)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run at one moment.

    Attributes
    ----------
    run : what makes it this run and no other; compared when it is resumed
    snapshot : arrays and random state
    callbacks : (class, state) of the callbacks that keep something
    epochs : rows of the finished epochs
    place : everything else: where in the epoch, running totals, the state of the data's order, ...
    """

    run: dict[str, Any]
    snapshot: Snapshot
    callbacks: list[tuple[str, dict[str, Any]]]
    epochs: list[Epoch]
    place: dict[str, Any]


def save(path: str | os.PathLike, found: Checkpoint) -> None:
    """Write a checkpoint; at every moment there is the old file or the new one, whole."""
    arrays = {f"{part}/{name}": a for part, held in found.snapshot.arrays.items() for name, a in held.items()}
    kept = []
    for k, (kind, state) in enumerate(found.callbacks):
        arrays.update({f"callback{k}/{n}": v for n, v in state.items() if isinstance(v, np.ndarray)})
        kept.append([kind, {n: v for n, v in state.items() if not isinstance(v, np.ndarray)}])
    text = json.dumps({
        "version": VERSION, "run": found.run, "random": found.snapshot.random, "callbacks": kept,
        "epochs": [asdict(e) for e in found.epochs], "place": found.place,
    })
    arrays[STATE] = np.frombuffer(text.encode(), np.uint8)
    write_whole(path, pack(arrays), "fit: checkpoint")


def load(path: str | os.PathLike) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    DataError
        when it is damaged, or no checkpoint.
    """
    arrays = unpack(read(path, "checkpoint"), os.fspath(path))
    if STATE not in arrays:
        raise DataError(f"{path} is no checkpoint of fit: it has no {STATE!r}; it may hold weights, for wf.io.load")
    held = understood(arrays.pop(STATE).tobytes(), os.fspath(path))
    parts: dict[str, dict[str, np.ndarray]] = {"model": {}, "optimizer": {}, "step": {}}
    parts |= {f"callback{k}": {} for k in range(len(held["callbacks"]))}
    for name, a in arrays.items():
        part, _, rest = name.partition("/")
        if part not in parts:
            raise DataError(f"{path} is damaged or no checkpoint: its array {shown(name)} belongs to nothing")
        parts[part][rest] = a
    states = [(kind, {**state, **parts.pop(f"callback{k}")}) for k, (kind, state) in enumerate(held["callbacks"])]
    first, second = held["random"]
    return Checkpoint(held["run"], Snapshot(parts, (first, second)), states, held["epochs"], held["place"])


def check(path: Any, found: Checkpoint, run: dict[str, Any], parts: dict[str, dict[str, Any]], model: Module) -> None:
    """Refuse a checkpoint of another run. ``parts`` are the arrays of model, optimizer and step as they are now.

    Raises
    ------
    DataError
        naming the first thing that differs.
    """
    for what, here in json.loads(json.dumps(run)).items():
        there = found.run.get(what)
        if there != here:
            what = what.replace("_", " ")
            if isinstance(there, dict) and isinstance(here, dict) and there.get("class") == here.get("class"):
                option = next(n for n in {**there, **here} if n not in there or n not in here or there[n] != here[n])
                what, there, here = f"{what} {here['class']}: {option}", there.get(option), here.get(option)
            elif isinstance(there, dict) and isinstance(here, dict):
                there, here = there.get("class"), here.get("class")
            raise _other(path, f"{what} is {_brief(there)} there, and {here} here")
    for part, arrays in parts.items():
        _alike(path, part, found.snapshot.arrays[part], _specs(arrays), model if part == "model" else None)


def taken_back(path: Any, callback: Any, state: dict[str, Any], model: Module) -> None:
    """Give a callback what it kept.

    Raises
    ------
    DataError
        when it cannot take it.
    """
    name = type(callback).__name__
    try:
        callback.load_state_dict(state)
    except Exception as error:  # whatever a forged file makes of it, the file is to blame
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"fit: {path} is damaged: {name} cannot take back what it kept: {why}") from error
    if isinstance(callback, BestWeights) and callback.best is not None:
        comes_and_goes = passing(model) - callback.best.keys()
        specs = {n: s for n, s in _specs(model.arrays()).items() if n not in comes_and_goes}
        _alike(path, name, callback.best, specs, model)
    if isinstance(callback, AverageWeights) and callback.average:
        specs = {n: (p.shape, state_dtype(p.dtype)) for n, p in model.parameters().items()}
        _alike(path, name, callback.average, specs, None)


def _specs(arrays: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (a.shape, a.dtype) for name, a in arrays.items()}


def _alike(path: Any, part: str, there: dict[str, Any], here: dict[str, tuple[Any, Any]], model: Module | None) -> None:
    """Refuse arrays that differ in names, shapes or dtypes; some of a ``model`` may come later, or go."""
    missing = sorted(here.keys() - there.keys())
    more = [n for n in sorted(there.keys() - here.keys()) if model is None or not may_come(model, n)]
    if missing or more:
        raise _other(path, f"the {part}'s arrays are others: {_few(more)} only there, {_few(missing)} only here")
    for name, (shape, dtype) in here.items():
        a = there[name]
        if (a.shape, a.dtype) != (shape, dtype):
            raise _other(path, f"{part} array {name!r} is {a.dtype}{list(a.shape)} there, and {dtype}{list(shape)} here")


def describe(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's class and options, without its rate and a schedule's options: they may change from start to start."""
    inner = getattr(optimizer, "optimizer", None)
    options = {}
    for name, value in vars(optimizer).items():
        if name.startswith("_") or name in ("lr", "state", "shared", "step_count", "slots", "optimizer"):
            continue
        options[name] = value if isinstance(value, bool | int | float | str | None) else _plain(value)
    found = {"class": type(optimizer).__name__, **options}
    return {**found, "optimizer": describe(inner)} if isinstance(inner, Optimizer) else found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Schedule):
        return value.name
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _few(names: list[str]) -> str:
    some = ", ".join(map(shown, names[:3]))
    return f"{some} and {len(names) - 3} more" if len(names) > 3 else some or "none"


def _brief(value: Any) -> str:
    return str(value) if len(str(value)) < 300 else shown(value)


def _other(path: Any, why: str) -> DataError:
    return DataError(f"fit: {path} is the checkpoint of another run: {why}. resume=False begins anew and writes over it")
