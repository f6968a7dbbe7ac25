"""Names of weights in files of other programs and of other models: renaming, counters that are ignored, hints in messages."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.dtypes.api import is_integer
from weft.errors import DataError
from weft.nn.module_tree import ModuleTree

Rename = Callable[[str], str | None]
COUNTER = "num_batches_tracked"  # a batch norm's counter in files of PyTorch, which weft uses only with momentum=None

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 8


def short_repr(x: Any) -> str:
    """Return the repr of a value from a file, shortened for a message."""
    return _REPR.repr(x)


def rename_arrays(loaded: dict[str, np.ndarray], rename: Any, path: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a file by their names in the model."""
    if rename is None:
        return dict(loaded)
    if isinstance(rename, Mapping):
        used: set[str] = set()
        keys = sorted(rename, key=len, reverse=True)

        def change(name: str) -> str | None:
            for key in keys:
                if name == key or name.startswith(key if not key or key.endswith(".") else key + "."):
                    used.add(key)
                    new = rename[key]
                    return None if new is None else new + name[len(key) :]
            return name
    elif callable(rename):
        used, keys, change = set(), [], rename
    else:
        raise TypeError(f"load: rename must be a dict or a function of a name, not {short_repr(rename)}")
    out: dict[str, np.ndarray] = {}
    for name, value in loaded.items():
        new = change(name)
        if new is None:
            continue
        if not isinstance(new, str) or new in out:
            raise DataError(f"{path}: rename gives {name!r} the name {new!r}" + (", as another" if new in out else ""))
        out[new] = value
    if unused := sorted(set(keys) - used):
        names = f"{list_names(unused)}, which no name begins with; there are {list_names(list(loaded))}"
        raise DataError(f"{path}: rename has {names}")
    return out


def hint_at_prefix(missing: list[str], unexpected: list[str]) -> str:
    """Return a hint if the names differ by a prefix."""
    for name in unexpected[:20]:
        for own in missing:
            if name.endswith("." + own):
                return f". rename={{{name[: -len(own)]!r}: ''}} removes the prefix"
            if own.endswith("." + name):
                return f". rename={{'': {own[: -len(name)]!r}}} adds the prefix"
    return ""


def is_counter(name: str, array: np.ndarray) -> bool:
    return name.rpartition(".")[2] == COUNTER and is_integer(array.dtype) and array.size == 1


def list_names(names: list[str]) -> str:
    """Return names for a sentence: all of a few, the first of many."""
    if len(names) > 6:
        return f"{names[:5]} and {len(names) - 5} more"
    return str(names) if names else "nothing"


def hint_at_width(model: Any, unexpected: list[str]) -> str:
    """Return a hint if a layer has no weights yet because its width was left out."""
    modules = dict(model.modules()) if isinstance(model, ModuleTree) else {}
    for name in unexpected:
        prefix, _, last = name.rpartition(".")
        if prefix in modules and modules[prefix].__dict__.get(last, 0) is None:
            return f". The model has no {name!r} yet: if a width was left out, call it once on a batch first, model(x[:1])"
    return ""
