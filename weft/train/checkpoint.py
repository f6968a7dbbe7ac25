"""Checkpoints: a run on disk, whole at every moment, from which it goes on to the same bits.

A checkpoint is a safetensors file with checksums, as weights are; what is no array stands in it as JSON, in a tensor of
bytes. How it is written: ``weft/files.py``; who may write it: ``writer.py``.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weft.errors import DataError
from weft.files import read, write_whole
from weft.nn.module import Module
from weft.nn.weight_file import pack, unpack
from weft.optim import Optimizer
from weft.optim.schedules import Schedule
from weft.train.history import Epoch
from weft.train.snapshot import Snapshot, may_come

VERSION = 1
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
    held = json.loads(bytes(arrays.pop(STATE)))
    if held["version"] != VERSION:
        raise DataError(f"{path} is a checkpoint of version {held['version']}; this weft reads version {VERSION}")
    parts: dict[str, dict[str, np.ndarray]] = {"model": {}, "optimizer": {}, "step": {}}
    for name, a in arrays.items():
        part, _, rest = name.partition("/")
        parts.setdefault(part, {})[rest] = a
    states = [(kind, {**state, **parts.pop(f"callback{k}", {})}) for k, (kind, state) in enumerate(held["callbacks"])]
    random = held["random"]
    return Checkpoint(
        held["run"], Snapshot(parts, (random[0], random[1])), states, [Epoch(**e) for e in held["epochs"]], held["place"],
    )


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
                option = next(n for n in {**there, **here} if there.get(n) != here.get(n))
                what, there, here = f"{what} {here['class']}: {option}", there.get(option), here.get(option)
            elif isinstance(there, dict) and isinstance(here, dict):
                there, here = there.get("class"), here.get("class")
            raise _other(path, f"{what} is {there} there, and {here} here")
    for part, arrays in parts.items():
        there = found.snapshot.arrays[part]
        missing = sorted(arrays.keys() - there.keys())
        more = [n for n in sorted(there.keys() - arrays.keys()) if part != "model" or not may_come(model, n)]
        if missing or more:
            raise _other(path, f"the {part}'s arrays are others: {_few(more)} only there, {_few(missing)} only here")
        for name, a in arrays.items():
            if name in there and (there[name].shape, there[name].dtype) != (a.shape, a.dtype):
                b = there[name]
                raise _other(path, f"{part} array {name!r} is {b.dtype}{list(b.shape)} there, and {a.dtype}{list(a.shape)} here")


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
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "none"


def _other(path: Any, why: str) -> DataError:
    return DataError(f"fit: {path} is the checkpoint of another run: {why}. resume=False begins anew and writes over it")
