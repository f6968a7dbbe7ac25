"""Names of weights in files of other programs and of other models: renaming, counters that are ignored, hints in messages."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from weft.dtypes.api import is_integer
from weft.errors import DataError
from weft.nn.module_tree import ModuleTree

Rename = Callable[[str], str | None]
Shape = tuple[int, ...]
COUNTER = "num_batches_tracked"  # a batch norm's counter in files of PyTorch, which weft uses only with momentum=None

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 8


def short_repr(x: Any) -> str:
    """Return the repr of a value from a file, shortened for a message."""
    return _REPR.repr(x)


def rename_arrays(loaded: dict[str, np.ndarray], rename: Any, path: Any, own: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return the arrays of a file by their names in the model. own : the model's names, for hints"""
    if rename is None:
        return dict(loaded)
    if isinstance(rename, Mapping):
        new_names, fix = _rename_by_prefix(loaded, rename, path, own), "rename={{..., {!r}: None}} leaves one out"
    elif callable(rename):
        new_names, fix = {name: rename(name) for name in loaded}, "return None for {!r} to leave it out"
    else:
        raise TypeError(f"load: rename must be a dict or a function of a name, not {short_repr(rename)}")
    out: dict[str, np.ndarray] = {}
    sources: dict[str, str] = {}
    for name, new in new_names.items():
        if new is None:
            continue
        if not isinstance(new, str):
            raise TypeError(f"load: rename returned {short_repr(new)} for {name!r}: return its new name, or None to leave it out")
        if new in out:
            arrays = list_names({n: loaded[n].shape for n in (sources[new], name)})
            advice = f"Give them two names; {fix.format(name)}"
            raise DataError(f"{path}: rename gives two arrays the name {new!r}: {arrays}. {advice}")
        out[new], sources[new] = loaded[name], name
    return out


def _rename_by_prefix(
    names: Collection[str], rename: Mapping[str, str | None], path: Any, own: Collection[str],
) -> dict[str, str | None]:
    """Return new names, each by the longest key that it begins with; raise if a key is the beginning of none."""
    for key, new in rename.items():
        if not isinstance(key, str) or not (new is None or isinstance(new, str)):
            entry = f"{short_repr(key)}: {short_repr(new)}"
            raise TypeError(f"load: rename has {entry}; a key is a name in the file or its beginning, a value the name in the "
                            "model, or None to leave it out")
    keys = sorted(rename, key=len, reverse=True)
    out: dict[str, str | None] = {}
    unused = set(keys)
    for name in names:
        longest = next((key for key in keys if name == key or name.startswith(_as_layer(key))), None)
        new = name if longest is None else rename[longest]
        if longest is not None:
            unused.discard(longest)
            new = None if new is None else new + name[len(longest) :]
        out[name] = new
    if unused:
        raise DataError(f"{path}: rename has {list_names(sorted(unused))}, with which no name in the file begins; "
                        f"the file has {list_names([*names])}{_hint_at_direction(unused, rename, own)}")
    return out


def _as_layer(key: str) -> str:
    """Return what the names inside a layer begin with."""
    return key if not key or key.endswith(".") else key + "."


def _hint_at_direction(unused: Iterable[str], rename: Mapping[str, str | None], own: Collection[str]) -> str:
    """Return a hint if the keys are names of the model, and the values those of the file."""
    for key in sorted(unused):
        if (new := rename[key]) and any(name == key or name.startswith(_as_layer(key)) for name in own):
            return f". Keys are the file's names, values the model's: rename={{{new!r}: {key!r}}}"
    return ""


def describe_difference(missing: Mapping[str, Shape], unexpected: Mapping[str, Shape], owner: str) -> str:
    """Return a message with the names that a file lacks and those that a model does not have. owner : "model" or "optimizer" """
    parts = [f"missing from the file: {list_names(missing)}"] if missing else []
    parts += [f"not in the {owner}: {list_names(unexpected)}"] if unexpected else []
    return "; ".join(parts)


def advise_on_difference(missing: Mapping[str, Shape], unexpected: Mapping[str, Shape], owner: str, strict: bool) -> str:
    """Return what to do about names that differ."""
    if missing and unexpected:
        advice = ". rename={'name in the file': 'name in the model'} changes names"
        advice += "; strict=False reads the names that both have" if strict else ": strict=False reads those that both have"
        return hint_at_prefix(missing, unexpected) or _hint_at_shapes(missing, unexpected) or advice
    return f". strict=False leaves these of the {owner} as they are" if missing else ". strict=False ignores these of the file"


def hint_at_prefix(missing: Mapping[str, Shape], unexpected: Mapping[str, Shape]) -> str:
    """Return a hint if the names of arrays of one shape differ by a prefix."""
    for name in islice(unexpected, 20):
        for own in missing:
            if missing[own] != unexpected[name]:
                continue
            if name.endswith("." + own):
                return f". rename={{{name[: -len(own)]!r}: ''}} removes the prefix"
            if own.endswith("." + name):
                return f". rename={{'': {own[: -len(name)]!r}}} adds the prefix"
    return ""


def _hint_at_shapes(missing: Mapping[str, Shape], unexpected: Mapping[str, Shape]) -> str:
    """Return a hint if the layers' names differ, and the shapes tell which layer of the file is which of the model."""
    of_model, of_file = _group_by_layer(missing), _group_by_layer(unexpected)
    pairs = {there: [here for here, arrays in of_model.items() if arrays == of_file[there]] for there in of_file}
    is_unique = all(len(found) == 1 for found in pairs.values()) and len({found[0] for found in pairs.values()}) == len(of_model)
    if not is_unique or len(of_file) != len(of_model) or len(pairs) > 6:
        return ""
    return f". By their shapes, rename={ {there: found[0] for there, found in pairs.items()} } fits"


def _group_by_layer(shapes: Mapping[str, Shape]) -> dict[str, dict[str, Shape]]:
    layers: dict[str, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        layer, _, last = name.rpartition(".")
        layers.setdefault(layer, {})[last] = shape
    return layers


def is_counter(name: str, array: np.ndarray) -> bool:
    return name.rpartition(".")[2] == COUNTER and is_integer(array.dtype) and array.size == 1


def list_names(names: Iterable[str] | Mapping[str, Shape]) -> str:
    """Return names for a sentence, with their shapes if these are given: all of a few, the first of many."""
    texts = [f"{name!r} {shape}" for name, shape in names.items()] if isinstance(names, Mapping) else [*map(repr, names)]
    return ", ".join(texts[:6] if len(texts) <= 6 else [*texts[:5], f"and {len(texts) - 5} more"])


def hint_at_width(model: Any, unexpected: Iterable[str]) -> str:
    """Return a hint if a layer has no weights yet because its width was left out."""
    modules = dict(model.modules()) if isinstance(model, ModuleTree) else {}
    for name in unexpected:
        prefix, _, last = name.rpartition(".")
        if prefix in modules and modules[prefix].__dict__.get(last, 0) is None:
            return f". The model has no {name!r} yet: if a width was left out, call it once on a batch first, model(x[:1])"
    return ""
