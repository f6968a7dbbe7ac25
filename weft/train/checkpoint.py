"""Checkpoints: the state of a run on disk, from which it continues with the same bits.

A checkpoint is a safetensors file with checksums. Everything that is not an array is JSON in a tensor of bytes, ``state.json``,
and every field of it is validated before it is used. ``weft/process/files.py`` replaces files atomically; a lock file beside the
checkpoint allows one writer at a time.

The file has the arrays of model, optimizer and step, the random key, the state of the data's generator before the epoch's
permutation with the position in the epoch, running totals, history, and the ``state_dict`` of callbacks. Callbacks that decide
read the history and keep nothing.
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
from weft.nn.weight_names import short_repr
from weft.nn.weights import pack, recurrent_state_names, short_int, unpack
from weft.optim import Optimizer
from weft.optim.optimizer import state_dtype
from weft.optim.schedules import Schedule
from weft.process import files
from weft.process.files import read, write_atomically
from weft.process.run_lock import hold_run_lock
from weft.train.callbacks import AverageWeights, BestWeights
from weft.train.history import Epoch
from weft.train.snapshot import Snapshot, may_be_created

STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Every:
    """The intervals between checkpoints, in steps and in epochs; None for no checkpoints of that kind."""

    steps: int | None
    epochs: int | None


def parse_every(value: int | str) -> Every:
    """Parse the argument ``checkpoint_every`` of ``fit``."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value > 0:
        return Every(int(value), 1)
    match = re.fullmatch(r"(?:([1-9]\d*) +)?(epoch|step)s?", value) if isinstance(value, str) else None
    if not match:
        forms = "a number of steps (each epoch's end is kept too), 'epoch', 'N epochs' or 'N steps'"
        raise ValueError(f"fit: checkpoint_every must be {forms}, not {value!r}")
    count = int(match[1] or 1)
    return Every(None, count) if match[2] == "epoch" else Every(count, None)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a run at one moment.

    Attributes
    ----------
    run : description of data, options and optimizer; must be equal in the run that resumes it
    snapshot : arrays and random state
    callbacks : (class, state) of the callbacks with a state
    epochs : rows of the finished epochs
    place : everything else: position in the epoch, running totals, the state of the data's order, ...
    """

    run: dict[str, Any]
    snapshot: Snapshot
    callbacks: list[tuple[str, dict[str, Any]]]
    epochs: list[Epoch]
    place: dict[str, Any]


def save(path: str | os.PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint. The file is replaced atomically."""
    arrays = {f"{part}/{name}": a for part, part_arrays in checkpoint.snapshot.arrays.items() for name, a in part_arrays.items()}
    callback_states = []
    for k, (kind, state) in enumerate(checkpoint.callbacks):
        arrays.update({f"callback{k}/{n}": v for n, v in state.items() if isinstance(v, np.ndarray)})
        callback_states.append([kind, {n: v for n, v in state.items() if not isinstance(v, np.ndarray)}])
    text = json.dumps({
        "version": VERSION, "run": checkpoint.run, "random": checkpoint.snapshot.random, "callbacks": callback_states,
        "epochs": [asdict(e) for e in checkpoint.epochs], "place": checkpoint.place,
    })
    arrays[STATE] = np.frombuffer(text.encode(), np.uint8)
    write_atomically(path, pack(arrays), "fit: checkpoint")


def load(path: str | os.PathLike) -> Checkpoint:
    """Read a checkpoint. Raise DataError if the file is damaged, or not a checkpoint."""
    return parse(read(path, "checkpoint"), path)


def parse(content: bytes, path: str | os.PathLike) -> Checkpoint:
    """Return the checkpoint in the content of a file. Raise DataError if it is damaged, or not a checkpoint."""
    arrays = unpack(content, os.fspath(path))
    if STATE not in arrays:
        raise DataError(f"{path} is no checkpoint of fit: it has no {STATE!r}; it may hold weights, for wf.io.load")
    tables = parse_state(arrays.pop(STATE).tobytes(), os.fspath(path))
    parts: dict[str, dict[str, np.ndarray]] = {"model": {}, "optimizer": {}, "step": {}}
    parts |= {f"callback{k}": {} for k in range(len(tables["callbacks"]))}
    for name, a in arrays.items():
        part, _, rest = name.partition("/")
        if part not in parts:
            raise DataError(f"{path} is damaged or no checkpoint: its array {short_repr(name)} belongs to nothing")
        parts[part][rest] = a
    states = [(kind, {**state, **parts.pop(f"callback{k}")}) for k, (kind, state) in enumerate(tables["callbacks"])]
    first, second = tables["random"]
    return Checkpoint(tables["run"], Snapshot(parts, (first, second)), states, tables["epochs"], tables["place"])


def check(path: Any, checkpoint: Checkpoint, run: dict[str, Any], parts: dict[str, dict[str, Any]], model: Module) -> None:
    """Raise DataError, which names the first difference, if a checkpoint belongs to another run.

    ``parts``: the present arrays of model, optimizer and step
    """
    for field, current in json.loads(json.dumps(run)).items():
        stored = checkpoint.run.get(field, 1 if field == "shards" else None)  # files without it were written before shards
        if stored != current:
            field = field.replace("_", " ")
            if isinstance(stored, dict) and isinstance(current, dict) and stored.get("class") == current.get("class"):
                option = next(n for n in {**stored, **current} if n not in stored or n not in current or stored[n] != current[n])
                field, stored, current = f"{field} {current['class']}: {option}", stored.get(option), current.get(option)
            elif isinstance(stored, dict) and isinstance(current, dict):
                stored, current = stored.get("class"), current.get("class")
            text = str(stored) if len(str(stored)) < 300 else short_repr(stored)
            raise _mismatch(path, f"{field} is {text} there, and {current} here")
    for part, arrays in parts.items():
        _check_arrays(path, part, checkpoint.snapshot.arrays[part], _specs(arrays), model if part == "model" else None)


def load_callback(path: Any, callback: Any, state: dict[str, Any], model: Module) -> None:
    """Load the state of a callback. Raise DataError if the callback raises, or the state does not fit the model."""
    name = type(callback).__name__
    try:
        callback.load_state_dict(state)
    except Exception as error:  # any exception is the fault of the file
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"fit: {path} is damaged: {name} cannot take back what it kept: {why}") from error
    if isinstance(callback, BestWeights) and callback.best is not None:
        comes_and_goes = recurrent_state_names(model) - callback.best.keys()
        specs = {n: s for n, s in _specs(model.arrays()).items() if n not in comes_and_goes}
        _check_arrays(path, name, callback.best, specs, model)
    if isinstance(callback, AverageWeights) and callback.average:
        specs = {n: (p.shape, state_dtype(p.dtype)) for n, p in model.parameters().items()}
        _check_arrays(path, name, callback.average, specs, None)


def _specs(arrays: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (a.shape, a.dtype) for name, a in arrays.items()}


def _check_arrays(
    path: Any, part: str, stored: dict[str, Any], expected: dict[str, tuple[Any, Any]], model: Module | None,
) -> None:
    """Check that arrays agree in names, shapes and dtypes, except arrays of ``model`` that are created in a step."""
    missing = sorted(expected.keys() - stored.keys())
    extra = [n for n in sorted(stored.keys() - expected.keys()) if model is None or not may_be_created(model, n)]
    if missing or extra:
        raise _mismatch(
            path, f"the {part}'s arrays are others: {_first_names(extra)} only there, {_first_names(missing)} only here"
        )
    for name, (shape, dtype) in expected.items():
        a = stored[name]
        if (a.shape, a.dtype) != (shape, dtype):
            raise _mismatch(path, f"{part} array {name!r} is {a.dtype}{list(a.shape)} there, and {dtype}{list(shape)} here")


def describe_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Return an optimizer's class and options, except its rate and a schedule's options, which may change when a run resumes."""
    inner = getattr(optimizer, "optimizer", None)
    options = {}
    for name, value in vars(optimizer).items():
        if name.startswith("_") or name in ("lr", "state", "shared", "step_count", "slots", "optimizer"):
            continue
        options[name] = value if isinstance(value, bool | int | float | str | None) else _to_plain(value)
    description = {"class": type(optimizer).__name__, **options}
    return {**description, "optimizer": describe_optimizer(inner)} if isinstance(inner, Optimizer) else description


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(v) for v in value]
    if isinstance(value, Schedule):
        return value.name
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _first_names(names: list[str]) -> str:
    some = ", ".join(map(short_repr, names[:3]))
    return f"{some} and {len(names) - 3} more" if len(names) > 3 else some or "none"


def _mismatch(path: Any, why: str) -> DataError:
    return DataError(f"fit: {path} is the checkpoint of another run: {why}. resume=False begins anew and writes over it")


VERSION = 1
MOST_DIGITS = 40  # of an integer; a generator's state has numbers of 128 bits


def _is_count(x: Any) -> bool:
    return type(x) is int and 0 <= x < 1 << 63


def _is_number(x: Any) -> bool:
    return type(x) is float or (type(x) is int and abs(x) < 1 << 63)


def _is_figure(x: Any) -> bool:
    return x is None or _is_number(x)


def _is_rate(x: Any) -> bool:
    return _is_number(x) and x >= 0


def _are_figures(x: Any) -> bool:
    return isinstance(x, dict) and all(map(_is_number, x.values()))


Form = dict[str, type | Callable[[Any], bool]]  # of each field: its class, or a function that returns whether a value is valid
STATE_FORM: Form = {
    "version": int, "run": dict,
    "random": lambda x: isinstance(x, list) and len(x) == 2 and all(type(n) is int and 0 <= n < 1 << 64 for n in x),
    "callbacks": lambda x: isinstance(x, list) and all(
        isinstance(c, list) and len(c) == 2 and isinstance(c[0], str) and isinstance(c[1], dict) for c in x
    ),
    "epochs": list, "place": dict,
}
PLACE_FORM: Form = {
    "batch": _is_count, "step": _is_count, "loss": _is_number, "stopped": str, "best": _is_count, "rows": _is_count,
    "totals": lambda x: isinstance(x, list) and all(map(_is_number, x)), "seconds": _is_number, "lr": _is_rate,
    "given_lr": _is_rate, "feed": dict,
}
EPOCH_FORM: Form = {
    "number": _is_count, "loss": _is_number, "seconds": _is_number, "validation_loss": _is_figure,
    "validation_accuracy": _is_figure, "metrics": _are_figures, "validation_metrics": _are_figures, "lr": _is_figure,
}


def parse_state(content: bytes, path: Any) -> dict[str, Any]:
    """Parse ``state.json`` and return its tables, with the rows of epochs as :class:`Epoch`.

    Raise DataError if a field is missing or invalid.
    """
    try:
        tables = json.loads(content.decode(), parse_int=lambda digits: short_int(digits, MOST_DIGITS))
    except (ValueError, RecursionError) as error:
        raise _damaged_error(path, f"cannot be read: {error}") from None
    if isinstance(tables, dict) and type(tables.get("version")) is int and tables["version"] != VERSION:
        raise DataError(f"{path} is a checkpoint of version {short_repr(tables['version'])}; this weft reads version {VERSION}")
    _check(tables, STATE_FORM, "it", path)
    place = tables["place"]
    _check(place, PLACE_FORM, "place", path)
    if (place["batch"] == 0) != (place["rows"] == 0):
        raise _damaged_error(path, f"says that {place['batch']} batches had {place['rows']} rows")
    for k, row in enumerate(tables["epochs"]):
        _check(row, EPOCH_FORM, f"epochs[{k}]", path)
        if row["number"] != k + 1:
            raise _damaged_error(path, f"has epoch {row['number']} in the place of {k + 1}")
    return {**tables, "epochs": [Epoch(**row) for row in tables["epochs"]]}


def _check(table: Any, form: Form, name: str, path: Any) -> None:
    if not isinstance(table, dict) or table.keys() != form.keys():
        contents = short_repr(list(table) if isinstance(table, dict) else table)
        raise _damaged_error(path, f"needs {', '.join(form)} in {name}, and has {contents}")
    for key, fits in form.items():
        if not (type(table[key]) is fits if isinstance(fits, type) else fits(table[key])):
            raise _damaged_error(path, f"has {short_repr(table[key])} for {key!r} of {name}")


def _damaged_error(path: Any, why: str) -> DataError:
    return DataError(f"{path} is damaged or no checkpoint: its state.json {why}")


@contextmanager
def lock_checkpoint(path: str | os.PathLike | None) -> Iterator[None]:
    """Context manager: lock the checkpoint at ``path`` against other runs. None: do nothing

    Raise DataError if another run holds the lock, or the lock's name exists but is not a lock file.
    """
    if path is None:
        yield
        return
    place = files.target(path, "fit: checkpoint")
    lock = place.with_name(place.name + ".lock")
    with hold_run_lock(lock, "fit", f"the checkpoint {os.fspath(path)!r}", "give this run a file of its own"):
        yield
