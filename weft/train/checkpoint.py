"""Checkpoints: a run on disk, complete at every moment, from which it continues to the same bits.

A checkpoint is a safetensors file with checksums; whatever is no array is JSON in a tensor of bytes, and every value of it is
validated before it is used. Files are written by ``weft/process/files.py``; a lock beside the file allows one writer at a time.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from weft.process import files
from weft.process.files import read, write_whole
from weft.process.run_lock import only_one
from weft.train.averaging import AverageWeights
from weft.train.callbacks import BestWeights
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
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value > 0:
        return Every(int(value), 1)
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

VERSION = 1
MOST_DIGITS = 40  # a generator's state has numbers of 128 bits


def _is_int(x: Any) -> bool:
    return type(x) is int


def _is_count(x: Any) -> bool:
    return type(x) is int and 0 <= x < 1 << 63


def _is_number(x: Any) -> bool:
    return type(x) is float or (type(x) is int and abs(x) < 1 << 63)


def _is_text(x: Any) -> bool:
    return isinstance(x, str)


def _is_table(x: Any) -> bool:
    return isinstance(x, dict)


def _is_list(x: Any) -> bool:
    return isinstance(x, list)


def _is_figure(x: Any) -> bool:
    return x is None or _is_number(x)


def _are_figures(x: Any) -> bool:
    return isinstance(x, dict) and all(map(_is_number, x.values()))


def _is_random(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(type(n) is int and 0 <= n < 1 << 64 for n in x)


def _are_callbacks(x: Any) -> bool:
    return isinstance(x, list) and all(
        isinstance(c, list) and len(c) == 2 and isinstance(c[0], str) and isinstance(c[1], dict) for c in x
    )


def _is_rate(x: Any) -> bool:
    return _is_number(x) and x >= 0


def _are_numbers(x: Any) -> bool:
    return isinstance(x, list) and all(map(_is_number, x))


Form = dict[str, Callable[[Any], bool]]
WHOLE: Form = {
    "version": _is_int, "run": _is_table, "random": _is_random, "callbacks": _are_callbacks, "epochs": _is_list,
    "place": _is_table,
}
PLACE: Form = {
    "batch": _is_count, "step": _is_count, "loss": _is_number, "stopped": _is_text, "best": _is_count, "totals": _are_numbers,
    "rows": _is_count, "seconds": _is_number, "lr": _is_rate, "given_lr": _is_rate, "feed": _is_table,
}
EPOCH: Form = {
    "number": _is_count, "loss": _is_number, "seconds": _is_number, "validation_loss": _is_figure,
    "validation_accuracy": _is_figure, "metrics": _are_figures, "validation_metrics": _are_figures, "lr": _is_figure,
}


def understood(content: bytes, path: Any) -> dict[str, Any]:
    """The tables in ``state.json``, with the rows of epochs as :class:`Epoch`.

    Raises
    ------
    DataError
        when anything is missing or is something else than it should be.
    """
    try:
        held = json.loads(content.decode(), parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"cannot be read: {error}") from None
    if isinstance(held, dict) and type(held.get("version")) is int and held["version"] != VERSION:
        raise DataError(f"{path} is a checkpoint of version {shown(held['version'])}; this weft reads version {VERSION}")
    _check(held, WHOLE, "it", path)
    place = held["place"]
    _check(place, PLACE, "place", path)
    if (place["batch"] == 0) != (place["rows"] == 0):
        raise _damaged(path, f"says that {place['batch']} batches had {place['rows']} rows")
    for k, row in enumerate(held["epochs"]):
        _check(row, EPOCH, f"epochs[{k}]", path)
        if row["number"] != k + 1:
            raise _damaged(path, f"has epoch {row['number']} in the place of {k + 1}")
    return {**held, "epochs": [Epoch(**row) for row in held["epochs"]]}


def _check(table: Any, form: Form, name: str, path: Any) -> None:
    if not isinstance(table, dict) or table.keys() != form.keys():
        found = shown(list(table) if isinstance(table, dict) else table)
        raise _damaged(path, f"needs {', '.join(form)} in {name}, and has {found}")
    for key, fits in form.items():
        if not fits(table[key]):
            raise _damaged(path, f"has {shown(table[key])} for {key!r} of {name}")


def _int(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _damaged(path: Any, why: str) -> DataError:
    return DataError(f"{path} is damaged or no checkpoint: its state.json {why}")


@contextmanager
def only_writer(path: str | os.PathLike | None) -> Iterator[None]:
    """While it lasts no other run gets the checkpoint at ``path``; None is no checkpoint.

    Raises
    ------
    DataError
        when another run has it, or the lock's name is taken by something else.
    OSError
        when no file can be written there.
    """
    if path is None:
        yield
        return
    place = files.target(path, "fit: checkpoint")
    lock = place.with_name(place.name + ".lock")
    with only_one(lock, "fit", f"the checkpoint {os.fspath(path)!r}", "give this run a file of its own"):
        yield
