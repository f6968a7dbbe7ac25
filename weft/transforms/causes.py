"""Explain to the user, in one sentence, why a jitted function is traced again: what has changed since the trace before.

A cause is reported when it occurs for the third time with a new value. Until then it may be the smaller last batch, or a switch
to evaluation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weft.array import Array
from weft.errors import short
from weft.graph.source_lines import file_name, user_line
from weft.transforms.records import EXACT, CellsRecord, ClassRecord, DictRecord, ListRecord, Record, VariablesRecord
from weft.transforms.tracing import TracedCall, number_slots

WARN_AFTER_TRACES = 3  # traces for one cause before the user is warned
MAX_PREVIOUS_VALUES = 100  # previous values kept per cause


class Cause(NamedTuple):
    """What has changed: its name, the old and new value as text, and advice."""

    name: str
    old: str
    new: str
    advice: str


class Outline(NamedTuple):
    """The parts of a trace's key, and of each record the owner's class and the names, to compare with the next trace."""

    kind: Any
    settings: Any
    leaves: tuple[Any, ...]
    values: tuple[Any, ...]
    records: tuple[tuple[type, Any], ...]


class RetraceCauses:
    """Counter of the causes for which one function was traced again."""

    __slots__ = ("_before", "_counts", "_previous_values")

    def __init__(self) -> None:
        self._before: Outline | None = None
        self._counts: dict[str, int] = {}
        self._previous_values: dict[str, set[str]] = {}  # by name of the cause: its previous values

    def note(self, f: Callable, call: Any, key: Sequence[Any], pinned: Mapping[int, str], traced: TracedCall) -> str | None:
        """Compare a trace with the one before. Return a warning if a cause has occurred ``WARN_AFTER_TRACES`` times, else None.

        call, key : the ``Call`` of this trace, and its key
        pinned : numbers whose value the function needs, each with the line that needs it
        """
        before, outline = self._before, _outline(call, key)
        self._before = outline
        if before is None or before.settings != outline.settings:  # the user has changed a setting
            return None
        cause = next(filter(self._is_fresh, _causes(f, before, outline, call, pinned, traced)), None)
        if cause is None:
            return None
        self._counts[cause.name] = count = self._counts.get(cause.name, 0) + 1
        if count != WARN_AFTER_TRACES:
            return None
        change = f" (from {cause.old} to {cause.new})" if cause.old else ""
        return f"{describe_function(f)} is traced again each time {cause.name} changes{change}. {cause.advice}"

    def _is_fresh(self, cause: Cause) -> bool:
        """Return whether the new value of a cause has not occurred before, and record it."""
        seen = self._previous_values.setdefault(cause.name, {cause.old})
        if cause.new and cause.new in seen:
            return False
        if len(seen) < MAX_PREVIOUS_VALUES:
            seen.add(cause.new)
        return True


def describe_function(f: Callable) -> str:
    """Return the name of a function with its file and line."""
    code = getattr(inspect.unwrap(f) if hasattr(f, "__wrapped__") else f, "__code__", None)
    name = getattr(f, "__name__", type(f).__name__)
    return f"{name}() ({file_name(code.co_filename)}:{code.co_firstlineno})" if code is not None else f"{name}()"


def _causes(
    f: Callable, before: Outline, now: Outline, call: Any, pinned: Mapping[int, str], traced: TracedCall,
) -> list[Cause]:
    """Return what has changed since the trace before."""
    if before.kind[1] != now.kind[1]:
        return [_structure_cause(argument_names(f, before.kind[1]), argument_names(f, now.kind[1]))]
    records, arguments = call.content.records, argument_names(f, call.structure)
    owners = name_owners(f, records, zip(call.leaves, arguments, strict=True))
    names = arguments + [f"{_kind_of(r)} `{_value_name(r, k, owners, indices)}`" for r, k, indices in call.content.places()]
    count, last = len(arguments), None
    if len(before.records) == len(now.records):
        rows = zip(before.records, now.records, records, strict=True)
        last = next((_owner_cause(record, owners, old, new) for old, new, record in rows if old != new), None)
        if last is None and len(before.values) == len(now.values):
            count = len(names)
    leaves = [*call.leaves, *call.content.values]
    pairs = list(zip(before.leaves + before.values, now.leaves + now.values, strict=False))[:count]
    changed = [
        _leaf_cause(names[k], old, new, leaves[k], pinned.get(k)) for k, (old, new) in enumerate(pairs) if old != new
    ]
    causes = [cause for cause in (*changed, last) if cause is not None]
    if causes:
        return causes
    if before != now:
        advice = "Create these once, and change their contents."
        return [Cause("what it reaches (functions, objects, lists or dicts)", "", "", advice)]
    conditions = number_slots(traced.tape.conditions, len(arguments), traced.moving) if traced.tape else {}
    for k, line in conditions.items():
        advice = "A program is made for each outcome; wf.where needs one for all."
        return [Cause(f"the outcome of a condition on {names[k]} (in line {_line(line)})", "", "", advice)]
    if not traced.captured_cells:
        return []  # the program was dropped from the cache
    advice = "Write into one array with `a[...] = value`."
    return [Cause("the shape or dtype of an array that it reads without being given it", "", "", advice)]


def _structure_cause(before: list[str], now: list[str]) -> Cause:
    fresh, gone = [n for n in now if n not in before], [n for n in before if n not in now]
    name = "the structure of its arguments"
    advice = "Give it the same arguments, with the same keys and lengths in the same order, at each call."
    if fresh or gone:
        return Cause(name, ", ".join(gone[:3]) or "without it", ", ".join(fresh[:3]) or "without it", advice)
    return Cause(name, "", "", advice)


def _leaf_cause(name: str, old: Any, new: Any, leaf: Any, line: str | None) -> Cause | None:
    """Return the cause for a changed argument or value, None for an object, whose contents are compared instead."""
    if isinstance(leaf, Array):
        was, is_ = _array_text(old), _array_text(new)
        if not was or not is_:
            return Cause(f"what shares memory with {name}", "", "", "Let it share memory with the same arrays at each call.")
        if was == is_:
            return Cause(f"the memory layout of {name}", "", "", "Give it arrays of one layout, by `copy()` where they differ.")
        property_ = "shape" if was.partition("[")[2] != is_.partition("[")[2] else "dtype"
        advice = "A program is made for each: keep to a few, by padding or by batches of one size."
        return Cause(f"the {property_} of {name}", was, is_, advice)
    was, is_ = _constant_text(old), _constant_text(new)
    if not was or not is_:
        return None
    if line is None:
        advice = "It is a constant of the program: numbers may change from call to call, strings, bools and others may not."
    else:
        where = f"Line {_line(line)}" if line else "The function"
        advice = (
            f"{where} needs its value, as shapes, range(), formats, Python's math, lists and dicts do. Arithmetic, indices of "
            "arrays and the functions of wf and NumPy (wf.exp for math.exp) take a number that changes. If it has few values, "
            "name it in static_argnums."
        )
    return Cause(name, was, is_, advice)


def _line(line: str) -> str:
    file, _, number = line.rpartition(":")
    return f"{file_name(file)}:{number}"


def _constant_text(key: Any) -> str:
    """Return the text of the key of a constant, empty for another key."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], type):
        return str(key[1]) if key[0] in EXACT else short(key[1])
    return key.__name__ if isinstance(key, type) else ""


def _array_text(key: Any) -> str:
    """Return dtype and shape from the key of an array, empty if it shares memory with another argument."""
    key = key[0] if isinstance(key, tuple) and len(key) == 2 else key  # a value's
    return f"{key[1]}{list(key[0])}" if isinstance(key, tuple) and isinstance(key[0], tuple) else ""


def _owner_cause(record: Record, owners: Mapping[int, str], before: tuple[type, Any], now: tuple[type, Any]) -> Cause:
    name = "the variables that it names" if isinstance(record, _VARIABLES) else f"`{_owner_name(record, owners)}`"
    (kind, old), (other, new) = before, now
    if kind is not other:
        return Cause(f"the class of {name}", "", "", "Keep one object, and change its contents.")
    if isinstance(old, int) and isinstance(new, int):
        return Cause(f"the length of {name}", str(old), str(new), "Keep its length: write into its items, or into an array.")
    if isinstance(old, str) and isinstance(new, str):
        return Cause(f"the content of {name}", "", "", "It is a constant of the program: make it a wf.array.")
    fresh = [repr(n) for n in new if n not in old] or [repr(n) for n in old if n not in new]
    advice = f"Set them before the first call ({', '.join(fresh[:3])})." if fresh else "Keep their order."
    return Cause(f"the set of names in {name}", "", "", advice)


def _outline(call: Any, key: Sequence[Any]) -> Outline:
    settings, values, *keys = key[len(call.kind):]
    records = tuple([(type(r.owner), _record_outline(r)) for r in call.content.records])
    return Outline(call.kind, settings, tuple(keys[: len(call.leaves)]), values.key, records)


def _record_outline(record: Record) -> Any:
    """Return what is compared of a record: its names, a list's length, or the content of one whose values cannot be set."""
    if not record.writable:
        return repr(record.values)
    return len(record.values) if isinstance(record, ListRecord) else record.names


def argument_names(f: Callable, structure: Any) -> list[str]:
    """Return the name of each leaf of the arguments in messages: ``the argument `x['w']```."""
    try:
        parameters = [p for p in inspect.signature(f).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):
        parameters = []
    kinds = [p.kind for p in parameters]

    def positional(k: int) -> str:
        if k < len(parameters) and kinds[k] is not inspect.Parameter.VAR_POSITIONAL:
            return parameters[k].name
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            at = kinds.index(inspect.Parameter.VAR_POSITIONAL)
            return f"{parameters[at].name}[{k - at}]"
        return f"number {k}"

    if isinstance(structure, int):
        return [f"the argument `{positional(k)}`" for k in range(structure)]
    out = []
    for path in structure[0].paths():
        name = positional(path[1]) if path[0] == 0 else str(path[1])
        out.append(f"the argument `{name}{''.join([f'[{part!r}]' for part in path[2:]])}`")
    return out


_VARIABLES = (CellsRecord, VariablesRecord)


def name_owners(f: Callable, records: Sequence[Record], arguments: Iterable[tuple[Any, str]] = ()) -> dict[int, str]:
    """Return a name for each recorded object and container, by id. arguments : leaves of the arguments, with their names"""
    owner = getattr(f, "__self__", None)
    names = {} if owner is None else {id(owner): "self"}
    for leaf, name in arguments:
        names.setdefault(id(leaf), name.removeprefix("the argument `").removesuffix("`"))
    for _ in range(3):  # the owner of an object may be recorded after the object
        for record in records:
            for k, value in enumerate(record.values):
                if id(record.owner) in names or isinstance(record, _VARIABLES):
                    names.setdefault(id(value), _value_name(record, k, names))
    return names


def name_of_place(f: Any, records: Sequence[Record], record: Record, k: int | None, indices: tuple[int, ...]) -> str:
    """Return the name of value ``k`` of a record that ``f`` reaches in messages. ``k=None``: the name of its owner."""
    owners = name_owners(f, records)
    return f"`{_owner_name(record, owners) if k is None else _value_name(record, k, owners, indices)}`"


def name_of_array(records: Sequence[Record], array: Array, owners: Mapping[int, str]) -> str:
    """Return the name of an array that the current contents of the records hold, "" if none does.

    owners : the names that :func:`name_owners` returned
    """
    for record in records:
        names, values = record.read()
        for k, value in enumerate(values):
            if isinstance(value, Array) and value.cell is array:
                return _value_name(record.copy_with(names, values), k, owners)
    return ""


def _owner_name(record: Record, owners: Mapping[int, str]) -> str:
    return owners.get(id(record.owner)) or type(record.owner).__name__


def _value_name(record: Record, k: int, owners: Mapping[int, str], indices: Sequence[int] = ()) -> str:
    name = record.names[k] if record.names else k
    if isinstance(record, ClassRecord):
        name = f"{record.owner.__name__}.{name}"
    elif not isinstance(record, _VARIABLES):
        item = isinstance(record, DictRecord) or not record.names
        name = f"{_owner_name(record, owners)}{f'[{name!r}]' if item else f'.{name}'}"
    return f"{name}{''.join([f'[{part}]' for part in indices])}"


def _kind_of(record: Record) -> str:
    if isinstance(record, CellsRecord | ClassRecord):
        return "the attribute" if isinstance(record, ClassRecord) else "the closure variable"
    if isinstance(record, VariablesRecord):
        return "the global variable"
    return "the item" if isinstance(record, DictRecord | ListRecord) else "the attribute"


def leak_warning(f: Callable, call: Any, traced: TracedCall) -> str:
    """Return the warning about containers whose items a function adds, removes or reorders at each call, or about arrays that
    it leaves behind."""
    owners = name_owners(f, call.content.records, zip(call.leaves, argument_names(f, call.structure), strict=True))
    if call.content.iterators and not traced.replaced_records and not traced.survivors:
        return (
            f"{describe_function(f)} is traced again each time since it reads an iterator, whose next value is a constant of "
            "the program. Give it the value as an argument"
        )
    changed = [(_owner_name(record, owners), record, record.read()[1]) for record in traced.replaced_records]
    with_arrays = {name: len(now) > len(r.values) for name, r, now in changed if _has_new_array(r.values, now)}
    if changed and not with_arrays:
        names = " and ".join([f"`{name}`" for name, *_ in changed[:3]])
        return (
            f"{describe_function(f)} is traced again each time since it adds items to {names}, or removes or reorders them. "
            "Return the value, or keep the length and the keys, and write into items or into an array, with `a[...] = value`"
        )
    places = [f"in `{name}`{', which grows' if grows else ''}" for name, grows in with_arrays.items()]
    arrays = {id(cell) for cell, _, _ in traced.survivors}
    for record in [record for record in call.content.records if record.writable]:
        names, values = record.read()
        found = [k for k, value in enumerate(values) if id(value) in arrays]
        places += [f"in `{_value_name(record.copy_with(names, values), k, owners)}`" for k in found]
    ends = [end for _, end, _ in traced.survivors] or [*reversed(traced.results)]  # values set outside come last
    lines = [traced.graph.outputs[k].source_line for kind, k in ends if kind == "out"]
    line = next((user_line(line) for line in lines if line is not None), "")
    origin = f" The array was made in line {_line(line)}." if line else ""
    where = next(iter(places), "in an attribute, a global, a list or a dict")
    return (
        f"{describe_function(f)} leaves arrays behind at each call ({where}): it is traced again each time, which is slow."
        f"{origin} Return the array, or write into an array that exists, with `a[...] = value`"
    )


def _has_new_array(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Return whether a container holds an array that it did not hold before."""
    old = set(map(id, before))
    return any([isinstance(x, Array) and id(x) not in old for x in now])
