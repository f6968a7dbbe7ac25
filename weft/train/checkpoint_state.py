"""What of a checkpoint is no array: ``state.json``, whose every value is what it should be before anything believes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from weft.errors import DataError
from weft.nn.weight_file import shown
from weft.train.history import Epoch

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
