"""Attributes, items and variables outside that the body of a loop rebinds to other arrays and numbers.

The body is called once, with placeholders, although a Python loop would rebind its names in every step. Rebound arrays become
part of the loop's carry. Python numbers are computed by Python: a tape records the computation of one step, and is replayed for
each step before the loop runs.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import Any, NoReturn

import numpy as np

from weft.array import Array, Scalar, wrap, wrap_array
from weft.array.convert import as_node
from weft.array.views import ViewPath
from weft.dtypes.formats import Format
from weft.errors import TraceError
from weft.graph.node import Node
from weft.graph.primitives.call import full, reshape
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.graph.source_lines import file_name, user_frame, user_line
from weft.runtime.traced_int import TRACED_TYPES, Tape, TracedInt, fits, make_static
from weft.transforms.causes import name_of_place
from weft.transforms.code_names import closure_contents, is_library, is_only_appended, names_in
from weft.transforms.content import StaticKey
from weft.transforms.records import (
    CONSTANTS,
    DictRecord,
    ListRecord,
    Place,
    Record,
    at,
    form_of,
    leaf_indices,
    put_leaves,
    read_whole,
    same_constant,
)
from weft.transforms.trace import Trace
from weft.transforms.tree import structure_changed

MAX_STACKED = 64  # steps up to which run-time numbers of a jitted function stay inputs; in longer loops they become static
_NUMBERS = (int, float)


class StepTape(Tape):
    """The tape of a loop. A number used with arrays becomes an operand of the loop, with one value for each step."""

    __slots__ = ()

    def node(self, number: TracedInt, dtype: Format) -> Node:
        key = number.slot, dtype
        if key not in self._nodes:
            if not fits(number.value, dtype):
                raise OverflowError
            self._nodes[key] = input_leaf((), dtype)
            self.nodes.append((number.slot, self._nodes[key]))
        return self._nodes[key]


class Rebinding:
    """The places outside (attributes, items, variables) that the body of one loop rebinds.

    body : the user's function
    starts : for each place that holds an array after a step, its value before the loop, an Array or a number
    numbers : for each place that holds a number, its value before the loop
    after : for each place, its value after the step
    """

    def __init__(self, f: Callable, what: str) -> None:
        """what : the name of the loop in messages"""
        self.body, self._loop_name = f, what
        self._records: list[Record] = []
        self.starts: dict[Place, Any] = {}
        self.numbers: dict[Place, Any] = {}
        self.after: dict[Place, Any] = {}
        self._fresh: set[Place] = set()  # places that hold an array made by the body
        self._placeholders: dict[int, Place] = {}  # id of each placeholder of an ndarray -> its place
        self._placed_values: dict[tuple[int, int], Any] = {}
        self._kept_records: set[int] = set()  # records that are not restored: objects of weft with values set by weft
        self._appended_constants: dict[int, list[Any]] = {}  # by record: the constants that a step appends to a list
        self._tape: StepTape | None = None
        self._codes: list[types.CodeType] = []  # of the body and the functions that it may call
        if _may_rebind(f):
            content = StaticKey({"training"}, getattr(f, "__module__", ""))
            self._records = [*content.close(content.of(f)).records, *map(read_whole, content.unrecorded_values)]
            self._codes = [x.__code__ for x in content.kept_alive if isinstance(x, types.FunctionType)]

    def enter(self, trace: Any, nodes: Sequence[Node]) -> None:
        """Put placeholders in the places found by earlier calls. nodes : placeholders of the arrays"""
        if not self.starts and not self.numbers:
            return
        self._tape = trace.tape = StepTape(len(self.numbers)) if self.numbers else None
        self.after, self._fresh, self._placeholders = {}, set(), {}
        placeholders: dict[Place, Any] = {}
        for (key, start), node in zip(self.starts.items(), nodes, strict=True):
            writable = isinstance(start, Array) and not isinstance(start, Scalar)
            placeholders[key] = wrap_array(node) if writable else wrap(node)
            if writable:
                self._placeholders[id(placeholders[key])] = key
        for slot, (key, start) in enumerate(self.numbers.items()):
            assert self._tape is not None
            placeholders[key] = self._tape.number(_value_of(start), slot)
        self._placed_values = put_leaves(self._records, placeholders)

    def take(self, trace: Trace) -> bool:
        """Read the values that the body has bound. Return whether it rebinds further places.

        Raise TraceError for a value that a loop cannot carry.
        """
        before_counts = len(self.starts), len(self.numbers)
        with_placeholders = {n for n, _ in self._placed_values}
        for n, record in enumerate(self._records):
            if n not in with_placeholders and record.is_unchanged():
                continue
            names, values = record.read()
            appended = values[len(record.values):]
            if isinstance(record, ListRecord) and appended and all([type(x) in CONSTANTS for x in appended]):
                if self._loop_name != "wf.vmap" and not self._is_only_appended(record):
                    self._raise(f"adds to {self.name((n, None, ()))}, which it also reads")
                self._appended_constants[n] = list(appended)
                values = values[: len(record.values)]
            ours = type(record.owner).__module__.partition(".")[0] == "weft"
            if not record.writable or len(values) != len(record.values) or any(map(is_not, names, record.names)):
                if not ours:
                    self._refuse_structure(record, names, values)
                self._kept_records.add(n)
                continue
            for k, (old, new) in enumerate(zip(record.values, values, strict=True)):
                if new is old and (n, k) not in self._placed_values:
                    continue
                form = form_of(new)
                if form is None or form != form_of(old):
                    if not ours:
                        self._refuse((n, k, ()), f"from {_value_text(old)} to {_value_text(new)}")
                    self._kept_records.add(n)
                    continue
                for indices in leaf_indices(form):
                    before, after = at(old, indices), at(new, indices)
                    if ours and isinstance(after, Array) and not trace.owns(after.cell):
                        self._kept_records.add(n)
                    elif ours and before is None:
                        pass  # a layer's state is created in each step and is None again after the loop
                    elif before is not after or (n, k, indices) in self.starts or (n, k, indices) in self.numbers:
                        self._take_leaf((n, k, indices), before, after)
                        if isinstance(after, Array) and trace.owns(after.cell):
                            self._fresh.add((n, k, indices))
        return (len(self.starts), len(self.numbers)) != before_counts

    def _is_only_appended(self, record: Record) -> bool:
        """Return whether the code appends to a list without reading it: its steps could not see what earlier steps appended."""
        holders = [(r, k) for r in self._records for k, value in enumerate(r.values) if value is record.owner]
        names = {r.names[k] for r, k in holders if r.names}
        named = bool(names) and all([r.names and not isinstance(r, DictRecord) for r, _ in holders])
        return named and all([is_only_appended(code, names) for code in self._codes])

    def _take_leaf(self, key: Place, old: Any, new: Any) -> None:
        before, after = type(_value_of(old)), type(_value_of(new))
        if isinstance(new, Array) and (isinstance(old, Array) or before in _NUMBERS):
            self.numbers.pop(key, None)
            self.starts.setdefault(key, old)
            self.after[key] = new
        elif after in _NUMBERS and before in _NUMBERS and key not in self.starts:
            if key in self.numbers or not _is_same_number(old, new):
                self.numbers.setdefault(key, old)
                self.after[key] = new
        elif not same_constant(old, new):
            self._refuse(key, f"from {_value_text(old)} to {_value_text(new)}")

    def restore(self) -> None:
        """Restore the value of every place before the body was called."""
        for n, record in enumerate(self._records):
            if n not in self._kept_records and not record.is_unchanged():
                record.reset()

    def refuse_written(self, cells: Sequence[Any]) -> None:
        """Raise TraceError if the body also writes the array of a rebound place in place: other names would see some steps."""
        written = {id(cell) for cell in cells}
        for key, start in self.starts.items():
            if any([isinstance(x, Array) and id(x.cell) in written for x in (start, self.after.get(key))]):
                self._refuse(key, "and writes the array that it holds in place, too")

    @property
    def loop(self) -> str:
        """Return the name of the function that runs the loop, as errors about its arguments begin."""
        return self._loop_name.removeprefix("wf.")

    @property
    def binds(self) -> bool:
        """Return whether the loop rebinds anything outside."""
        return bool(self.starts or self.numbers or self._appended_constants)

    def refuse_all(self) -> None:
        """Raise TraceError if anything is rebound. Constants appended to lists stay."""
        self._kept_records |= self._appended_constants.keys()
        for key in (*self.starts, *self.numbers):
            old = at(self._records[key[0]].values[key[1]], key[2])
            self._refuse(key, f"from {_value_text(old)} to {_value_text(self.after[key])}")

    def name(self, key: tuple[int, int | None, tuple[int, ...]]) -> str:
        """Return the name of a place in messages."""
        return name_of_place(self.body, self._records, self._records[key[0]], *key[1:])

    def _refuse(self, key: Place, how: str) -> NoReturn:
        self._raise(f"rebinds {self.name(key)} {how}")

    def _raise(self, what: str) -> NoReturn:
        keep = "carry the value (return it, and give it to the next step)"
        advice = f"{keep}, or write into an array that exists, with `a[...] = value`"
        if self._loop_name == "wf.vmap":
            advice = "one call computes all examples: return the value instead"
        raise TraceError(f"{user_line(user_frame())}: the body of {self._loop_name} {what}; {advice}")

    def _refuse_structure(self, record: Record, names: Sequence[Any], values: Sequence[Any]) -> NoReturn:
        fresh = [name for name in names if name not in record.names]
        if fresh:
            record = record.copy_with(tuple(names), tuple(values))
        name = name_of_place(self.body, self._records, record, list(names).index(fresh[0]) if fresh else None, ())
        self._raise(f"adds {name}" if fresh else f"adds to or removes from {name}")

    def play(self, length: int, reverse: bool) -> tuple[list[Node], list[Node], dict[Place, Any]]:
        """Compute the numbers of every step.

        Return the placeholders of the body, their stacked values, and the value of each place after the loop.
        """
        tape, keys = self._tape, [*self.numbers]
        if tape is None:
            return [], [], {}
        ends = [self.after[key] for key in keys]
        values = [x if length <= MAX_STACKED else make_static(x) for x in self.numbers.values()]
        kinds = [type(_value_of(x)) for x in values]
        rows: list[list[Any]] = [[] for _ in tape.nodes]
        for step in range(length):
            for key, kind, value in zip(keys, kinds, values, strict=True):
                if type(_value_of(value)) is not kind:
                    self._refuse(key, f"from {kind.__name__} to {_value_text(value)}")
            slots = self._play_step(tape, values, step)
            for row, (slot, node) in zip(rows, tape.nodes, strict=True):
                if not fits(_value_of(slots[slot]), node.dtype):
                    raise OverflowError(f"step {step} of {self._loop_name}: {slots[slot]} does not fit {node.dtype.name}")
                row.append(slots[slot])
            values = [slots[x.slot] if type(x) in TRACED_TYPES and x.tape is tape else x for x in ends]
        places = [node for _, node in tape.nodes]
        stacked = [_stack(row[::-1] if reverse else row, node.dtype) for row, node in zip(rows, places, strict=True)]
        return places, stacked, dict(zip(keys, values, strict=True))

    def _play_step(self, tape: StepTape, values: list[Any], step: int) -> list[Any]:
        slots = [*values]
        for function, operands, kind, expected in tape.steps:
            result = function(*[slots[s] for s in operands])
            if not tape.agrees(result, kind, expected):
                roots = tape.roots(len(slots))
                line = next((line for k, line in tape.conditions.items() if k in roots), "")
                where = f" in line {file_name(line.rpartition(':')[0])}:{line.rpartition(':')[2]}" if line else ""
                self._refuse(
                    [*self.numbers][min(roots)], f"and a condition on it, or code that needs its value,{where} has another "
                    f"result in step {step} than in the first (all steps run one body)",
                )
            if type(result) in TRACED_TYPES:
                if kind is bool or expected is result.value:
                    result.fix_value()
            slots.append(result)
        return slots

    def finish(self, results: Mapping[Place, Node], numbers: Mapping[Place, Any], length: int) -> None:
        """Bind every place to its value after the last step."""
        for n, constants in self._appended_constants.items():
            self._records[n].owner.extend(constants * length)
        ends: dict[Place, Any] = dict(numbers)
        views: list[tuple[Place, tuple[int, int], ViewPath]] = []
        made: dict[tuple[int, int], Array] = {}  # by the id of the body's array and the step that made it
        for key, node in results.items():
            place, step, path = self._find_origin(key, length)
            array = self.after[place] if step else self.starts[place]
            if step == 0 or place not in self._fresh:
                ends[key] = array._view(path) if path else array  # an array that existed before the loop
            elif isinstance(array, Scalar):
                ends[key] = wrap(node)
            elif path := array._path_from_cell(path):
                views.append((key, (id(array.cell), step), path))
            else:
                ends[key] = made.setdefault((id(array), step), wrap_array(node))
        for cell, shown in Counter(cell for _, cell, _ in views).items():
            if shown > 1 and cell not in made:
                made[cell] = self._make_base(cell[0], {key: path for key, c, path in views if c == cell}, results)
        for key, cell, path in views:
            ends[key] = made[cell]._view(path) if cell in made else wrap_array(results[key])
        put_leaves(self._records, ends)
        if any(self._records[n].raises_count for n, _, _ in ends):
            structure_changed()

    def _make_base(self, cell: int, views: Mapping[Place, ViewPath], results: Mapping[Place, Node]) -> Array:
        """Return an array that no place holds, but several views of it. It has the elements that they show, and zeros."""
        content = next(x.cell.node for x in self.after.values() if isinstance(x, Array) and id(x.cell) == cell)
        base = wrap_array(full(0, content.shape, content.dtype))
        for key, path in views.items():
            base._view(path)[...] = wrap(results[key])
        return base

    def _find_origin(self, key: Place, length: int) -> tuple[Place, int, ViewPath]:
        """Return where the array that ``key`` holds after the loop comes from: the place and step that bound it, and a view path.

        A step that binds the array of one place to another place moves it, so the array may be older than the last step. Step 0
        is before the loop.
        """
        visited: dict[Place, int] = {}
        path: ViewPath = ()
        step = length
        while step and (before := self._placeholders.get(id(self.after[key].cell))) is not None:
            path = self.after[key]._path_from_cell(path)
            if key in visited and not path:  # the places exchange their arrays: leave out whole turns
                step %= visited[key] - step
                visited = {}
            else:
                visited[key] = step
                key, step = before, step - 1
        return key, step, path


def _value_of(x: Any) -> Any:
    return x.value if type(x) in TRACED_TYPES else x


def _is_same_number(a: Any, b: Any) -> bool:
    """Return whether two numbers are equal at every call of the traced function."""
    if type(b) in TRACED_TYPES:
        return type(a) in TRACED_TYPES and (a.tape, a.slot) == (b.tape, b.slot)
    return type(a) not in TRACED_TYPES and same_constant(a, b)


def _value_text(x: Any) -> str:
    """Return the text of a value in messages."""
    if isinstance(x, Array):
        return f"an array of shape {x.shape} ({x.dtype})"
    x = _value_of(x)
    return repr(x) if type(x) in CONSTANTS else f"another {type(x).__name__}"


def _stack(values: Sequence[Any], dtype: Format) -> Node:
    """Return one array of numbers, some of which may be run-time numbers."""
    if TRACED_TYPES.isdisjoint(map(type, values)):
        return as_node(np.array(values, dtype.numpy))
    rows = [reshape(as_node(x, dtype), (1,)) for x in values]
    return rows[0] if len(rows) == 1 else bind(TABLE["concat"], *rows, axis=0)


def _may_rebind(f: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether a function, or a function that it calls, may rebind more than its own variables."""
    if not isinstance(f, types.FunctionType) or id(f) in seen:
        return not isinstance(f, types.FunctionType)
    names = names_in(f.__code__)
    if not names.calls and not names.rebinds:
        return False
    seen |= {id(f)}
    if is_library(f.__globals__.get("__name__")):
        return any([not _is_plain(x, seen) for x in closure_contents(f)])
    if names.rebinds:
        return True
    global_values = [f.__globals__[n] for n in names.variables if n in f.__globals__]
    reachable = (*global_values, *closure_contents(f), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())
    return any([not _is_plain(x, seen) for x in reachable])


def _is_plain(x: Any, seen: frozenset[int]) -> bool:
    """Return whether calling ``x`` or a method of it certainly rebinds nothing outside."""
    if type(x) in CONSTANTS or isinstance(x, Array | np.ndarray | np.generic | np.ufunc | np.dtype) or type(x) in TRACED_TYPES:
        return True
    if isinstance(x, types.ModuleType):
        return is_library(x.__name__)
    if isinstance(x, types.FunctionType):
        return not _may_rebind(x, seen)
    if isinstance(x, tuple):
        return all([_is_plain(item, seen) for item in x])
    return isinstance(x, types.BuiltinFunctionType) and getattr(x, "__self__", None) is None
