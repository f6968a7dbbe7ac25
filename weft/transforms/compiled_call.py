"""CompiledCall: a traced and compiled call, and the fast paths through it.

The second call with plain arrays, or lists, tuples and dicts of them, makes a table that describes arguments, results, captured
cells and written arrays to the device; later calls run without Python until a guard fails. Calls in Python compare the current
state with lists prepared by the call before, one C-level comparison for all captured cells: their nodes are those of the last
call, the nodes to be written have no other references, the Program wrote in place. Each node has a buffer of its own, so every
reference to a content is a reference to its node, and a node's reference count shows whether its buffer may be donated.

Results that share memory share it as without jit. Results that overlap no other result and whose common array is gone become
arrays of their own. NumPy arguments are copied in, and get what was written to them after the call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

import numpy as np

from weft.array import Array, Scalar, ndarray, wrap, wrap_array, wrap_buffer
from weft.array.convert import as_node
from weft.array.numpy_methods import element_strides
from weft.devices.base import DEVICE_OF_BUFFER_TYPE, Run, WarmCalls
from weft.devices.native_protocols import Place, WarmCall, WarmCallContext, WarmTable, WatchRow
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, INPUT, SCALAR
from weft.runtime import execute
from weft.runtime.auto_device import PlacedProgram
from weft.runtime.cell import VIEW_READS, WRITE_LOGS
from weft.runtime.context import CONTEXT
from weft.transforms.call import Call, settings
from weft.transforms.content import StaticKey
from weft.transforms.object_state import Content, ObjectState
from weft.transforms.records import Record, read_argument
from weft.transforms.tracing import TracedCall, is_static, make_view, materialise_argument, needs_numbers, result_row
from weft.transforms.tree import Structure, dataclasses_in, structure_changed, unflatten
from weft.transforms.warm_rows import argument_rows, result_rows

MISS = object()
_NUMBER, _SAME = "number", "same"  # kinds of arguments that are not Arrays
_NONE: Mapping[int, Array] = {}
_NO_KEYWORDS: dict[str, Any] = {}
_CONSTANTS = (type(None), bool, int, float, str)
_native_types: set[type] = set()
_node_of = attrgetter("_node")
_WRAPPERS: dict[type, Callable[[Node], Any]] = {ndarray: wrap_array, Scalar: wrap, float: lambda node: wrap(node).item()}


def _free_count() -> int:
    """Return the reference count, as ``map(getrefcount, ...)`` reports it, of a node held only by its cell and two lists of a
    CompiledCall."""
    lists = [[node] * 3 for node in [Node(INPUT, (), {}, (), None)]]  # type: ignore[arg-type]
    return next(map(getrefcount, lists[0]))


_FREE = _free_count()
_HOLDERS = 3  # references to a captured cell's node, and to its buffer: its owner, and two lists of a CompiledCall
_MIN_TABLE_USES, _TABLES, _MAX_WAIT = 8, 4, 255  # see CompiledCall.make_native_table


class CompiledCall:
    """One Program with the guard of its arguments and the targets of its results.

    tree : the structure of the arguments, None if all are positional and none is a tree
    quick : whether :meth:`fast` may be called, which is valid while :meth:`is_valid` returns True
    is_plain : whether :meth:`make_native_table` may have a table
    place : ``CONTEXT.placement`` when the call was compiled
    settings : see ``call.py``
    lands : numbers of the arguments that the function writes
    writes_arrays : whether the function writes arguments or captured cells
    count : ``Structure.count`` when the modules were last compared
    state : the content of function and arguments
    """

    __slots__ = (  # noqa: RUF023  in the order of use
        # the guard of a call: its tree and leaves, and the content of function and arguments
        "tree", "_specs", "quick", "is_plain", "place", "settings", "count", "state", "_ints", "_tape", "_needs_numbers",
        "_tape_results",
        # the Program's inputs: arrays and numbers among the leaves, then captured cells (their last contents), then fixed nodes
        "_arrays", "_bases", "_scalars", "_scalar_dtypes", "_start", "_cells", "_nodes", "_values", "_fixed_nodes",
        "_fixed_buffers",
        # the run; the cells that it changes, and whether their buffers may be donated
        "_run", "_native_table", "_table_sources", "_uses", "_unused_tables", "_calls_without_table",
        "_state", "_states", "_keep", "_state_nodes", "_expected_counts", "_view_reads",
        "_state_buffers", "_state_start",
        # the results for the caller
        "_result_rows", "_views_and_repeats", "_returned_inputs", "_result_count", "_structure", "_single",
        # the writes after the run
        "_writes", "_same_layout", "lands", "_survivors", "writes_arrays", "_sets", "_argument_sets", "_snapshots",
    )

    def __init__(
        self, traced: TracedCall, leaves: Sequence[Any], run: Run | PlacedProgram, structure: Any, moving: Collection[int],
        content: StaticKey,
    ) -> None:
        """moving : numbers of the run-time numbers among the leaves and, after the leaves, among the values in ``content``"""
        graph = traced.graph
        self._nodes: list[Node] = []
        self._values: list[Any] = []
        self.place = CONTEXT.placement
        self.settings = settings()
        self.count = -1
        self._tape = traced.tape
        self._sets, self._argument_sets, self._snapshots = traced.sets, traced.argument_sets, traced.snapshots
        floats = self._tape is None  # without a tape nothing is computed from floats
        self._ints = any([k < len(leaves) and not (floats and type(leaves[k]) is float) for k in moving])
        self._needs_numbers = self._tape is not None or needs_numbers(traced.results, len(leaves))
        self._tape_results: tuple[Any, Any] = (None, None)  # numbers of objects, and the tape's results for them
        self.state = ObjectState(content, traced.moving, {k - len(leaves) for k in moving})
        self._run = run
        self._arrays = traced.arrays
        self._bases = traced.bases
        self._scalars = traced.scalars
        self._scalar_dtypes = [n.dtype for n in graph.inputs[len(traced.arrays) :][: len(traced.scalars)]]
        self._cells = list(traced.captured_cells)
        self._fixed_nodes = traced.fixed_nodes
        self._fixed_buffers = [n.value for n in traced.fixed_nodes]
        self._start = len(traced.arrays) + len(traced.scalars)
        self._structure = traced.structure
        self.tree: Any = None if isinstance(structure, int) else structure[0]
        static = self.tree is not None and structure[1]
        specs: dict[int, Any] = {
            k: (n.shape, n.dtype, Scalar if isinstance(leaves[k], Scalar) else ndarray)
            for k, n in zip(self._arrays, graph.inputs, strict=False)
        }
        for k, leaf in enumerate(leaves):
            if type(leaf) is float or is_static(leaf):
                specs[k] = (_NUMBER, type(leaf), None) if k in moving else (_SAME, leaf, None)
        self._specs: tuple[Any, ...] = tuple([specs.get(k) for k in range(len(leaves))])
        # ``fast`` does not compare static arguments, Arrays passed twice and memory layouts
        turned = any(isinstance(x, Array) and element_strides(x) is not None for x in leaves)
        self.quick = not static and None not in self._specs and not self._bases and not turned and not traced.argument_sets
        rows = [result_row(s, graph.inputs, graph.outputs) for s in traced.results]
        self._result_rows = [(*row, _WRAPPERS[kind]) for row, kind in zip(rows, traced.kinds, strict=True)]
        self._result_count = len(traced.shows)
        self._single: Any = None  # (output, shape, dtype, class) if the result is one array that the Program computes
        if len(rows) == 1 and self._structure is None and rows[0][0] == "out" and traced.kinds[0] is not float:
            self._single = (*rows[0][1:], traced.kinds[0])
        late = [(kind == "same", j, end) for j, (kind, end) in enumerate(traced.results) if kind in ("view", "same")]
        self._views_and_repeats = sorted(late, key=lambda row: row[:2])  # views, then repetitions of another result
        at = {id(cell): i for i, cell in enumerate(self._cells)}
        self._writes = [
            (target, *result_row(s, graph.inputs, graph.outputs), at.get(id(target), -1)) for _, target, s in traced.writes
        ]
        numbers = {leaf: k for k, leaf in enumerate(self._arrays)}

        def keeps_layout(target: Any, shape: tuple[int, ...], dtype: Any, i: int) -> bool:
            k = self._start + i if i >= 0 else numbers.get(target) if isinstance(target, int) else None
            return k is not None and graph.inputs[k].shape == shape and graph.inputs[k].dtype is dtype

        # whether a written array keeps its shape and dtype; a module's astype changes the dtype
        self._same_layout = [keeps_layout(target, shape, dtype, i) for target, _, _, shape, dtype, i in self._writes]
        self.lands = frozenset([target for target, *_ in self._writes if isinstance(target, int)])
        self._survivors = [(cell, result_row(s, graph.inputs, graph.outputs), j) for cell, s, j in traced.survivors]
        self.writes_arrays = bool(self._writes or self._survivors)
        self._states = frozenset(map(id, self._cells)) if self._writes else frozenset()
        self._prepare_state(traced)
        self._native_table: Any = None
        # records, numbers and names from which ``_native_table`` was made
        self._table_sources: tuple[Any, Any, Any] = ((), (), None)
        self._uses = np.zeros(1, np.int64)  # native calls by the last table
        # tables in a row with few native calls; calls in Python since the last table
        self._unused_tables = self._calls_without_table = 0
        simple = self.quick and not (
            self._ints or self._survivors or self._returned_inputs or traced.sets or self._views_and_repeats
        )
        self.is_plain = simple and self._overwrites_all(len(graph.outputs))

    def _overwrites_all(self, outputs: int) -> bool:
        """Return whether each output of the Program is one new array of the result or takes the memory of one written input."""
        made = [row[1] for row in self._result_rows if row[0] == "out" and row[-1] in (wrap_array, wrap)]
        others = [
            kind for kind, k, *_ in self._result_rows
            if (kind == "leaf" and k < len(self._specs)) or (kind == "static" and type(k) in _CONSTANTS)
        ]
        written = [k for target, kind, k, _, _, i in self._writes if kind == "out" and (i >= 0 or isinstance(target, int))]
        complete = len(made) + len(others) == len(self._result_rows) and len(written) == len(self._writes)
        return complete and all(self._same_layout) and sorted([*made, *written]) == list(range(outputs))

    def rebind_to(self, leaves: Sequence[Any], content: StaticKey) -> CompiledCall:
        """Return an entry for the objects and arrays in ``content``: itself if they are the same, else a rebound copy."""
        held = self.state
        if held.content is content and held.values is content.values:
            return self
        if held.belongs_to(content):
            held.take(content)
            return self
        out = copy.copy(self)
        out.state = held.of(content)
        specs = zip(self._specs, leaves, strict=True)
        out._specs = tuple([(_SAME, x, None) if spec is not None and spec[0] is _SAME else spec for spec, x in specs])
        out._bind(held.values, held.content.records)
        return out

    def _bind(self, values: Sequence[Any], records: Sequence[Record]) -> None:
        """Replace cells, and results that exist before the call, by those in ``state``. values, records : those before"""
        now = self.state.replacements(values, records)
        self._cells = [_cell_of(now.get(id(cell), cell)) for cell in self._cells]
        self._writes = [(_cell_of(now.get(id(target), target)), *row) for target, *row in self._writes]
        self._nodes, self._values = list(self._nodes), list(self._values)
        self._states = frozenset(map(id, self._cells)) if self._writes else frozenset()
        self._view_reads, self._native_table = -1, None
        self._result_rows = [(kind, now.get(id(k), k), *row) for kind, k, *row in self._result_rows]
        self._views_and_repeats = [
            (
                same, j, end if same else ((end[0][0], now.get(id(end[0][1]), end[0][1])), end[1])
            ) for same, j, end in self._views_and_repeats
        ]

    def _prepare_state(self, traced: TracedCall) -> None:
        """Prepare the lists of captured cells that the Program writes, in the order of their outputs."""
        self._nodes = [cell._node for cell in self._cells]
        self._values = [n.value for n in self._nodes]
        sources = [s for s in (*traced.results, *(w[2] for w in traced.writes), *(s for _, s, _ in traced.survivors))]
        self._returned_inputs = kept = frozenset(k for kind, k in sources if kind == "in")  # inputs that are results too
        self._state = [
            (i, k) for same, (_, kind, k, _, _, i) in zip(self._same_layout, self._writes, strict=True)
            if same and kind == "out" and i >= 0 and i + self._start not in kept
        ]
        numbers = [k for _, k in self._state]
        first = len(traced.graph.outputs) - len(numbers)
        counts = [s for s in sources if s[0] == "out"]
        # index of the first state output if the state comes last, each cell once, and nothing else is written, else -1
        self._state_start = -1
        if len(self._state) == len(self._writes) and numbers == list(range(first, first + len(numbers))):
            if len(set(counts)) == len(counts) and not self._survivors:
                self._state_start = first
        self._keep = None
        if self._state:
            own = {self._start + i for i, _ in self._state}
            self._keep = [i not in own for i in range(len(traced.graph.inputs))]
        self._expected_counts, self._view_reads = [_FREE] * len(self._state), -1
        self._gather()

    def _gather(self) -> None:
        """Collect the nodes and buffers of the written cells."""
        self._state_nodes = [self._nodes[i] for i, _ in self._state]
        self._state_buffers = [self._values[i] for i, _ in self._state]
        if any([node.op is CONSTANT for node in self._state_nodes]):
            self._view_reads = -1

    def is_valid(self, count: int) -> bool:
        """Return whether this entry is valid for the current contents of function and arguments, after reading changed values.

        count : the current ``Structure.count``
        """
        held = self.state
        if count == self.count and held.function_content.values is held.function_values:
            for unchanged in held.checks:
                if not unchanged():
                    break
            else:
                if not held.checks_final:
                    held.settle()
                return True
        before = held.values
        if self.settings != settings() or not held.refresh():
            return False
        if held.values is before and count == self.count:  # the checks compare the sizes of dicts that have grown elsewhere
            held.take(held.content)
            self._native_table = None
        if held.values is not before and held.holds_other_arrays(before):
            self._bind(before, held.content.records)
        self.count = count
        return True

    def make_native_table(self, structures: int, args: Sequence[Any], names: tuple[str, ...] | None) -> Any:
        """Return the table for native warm calls (see ``weft.devices.native_protocols``), None if a call needs Python.

        args, names : arguments of a call that :meth:`fast` has run, and the names of the last ones; None: all are positional

        A table costs as much as many calls. After some tables with few native calls, more and more calls go by before the next.
        """
        watch = [record.watch_rows() for record in self.state.content.checked_records]
        if None in watch:
            return None
        run = self._run.staying() if isinstance(self._run, PlacedProgram) else self._run
        program = 0 if run is None else run.direct()
        if run is None or not program:
            return None
        cached, seen = self._native_table, (self.state.content.records, self.state.numbers, names)
        if cached is not None and cached.serves(program, structures, self._nodes):
            if seen[0] is self._table_sources[0] and seen[1] is self._table_sources[1] and names == self._table_sources[2]:
                return cached
        self._native_table = None
        if self._calls_without_table < min((1 << max(0, self._unused_tables - _TABLES)) - 1, _MAX_WAIT):
            self._calls_without_table += 1
            return None
        self._unused_tables = 0 if self._uses[0] >= _MIN_TABLE_USES else self._unused_tables + 1
        self._calls_without_table = self._uses[0] = 0
        self._table_sources = seen
        self._native_table = self._table(run, structures, [row for rows in watch for row in rows or ()], args, names)
        return self._native_table

    def _table(
        self, run: Run, structures: int, watch: Sequence[WatchRow], args: Sequence[Any], names: tuple[str, ...] | None,
    ) -> WarmTable | None:
        """Return the table, None if the device makes no warm calls. watch : comparisons that detect changed contents"""
        device = execute.device()
        if not isinstance(device, WarmCalls) or any([node.op is CONSTANT for node in self._state_nodes]):
            return None
        if not all(self._same_layout):
            return None
        places, leaves = argument_rows(args, [_leaf_row(spec) for spec in self._specs], self.tree is not None)
        numbers = self._all_numbers([None] * len(leaves))
        if places is None or numbers is None:
            return None
        result = result_rows(self._structure, [_result_row(row, leaves) for row in self._result_rows])
        if result is None:
            return None
        inputs = [
            *[("array", leaves[k], None) for k in self._arrays],
            *[("number", leaves[k], None) if k < len(leaves) else ("fixed", numbers[k], None) for k in self._scalars],
            *[("cell", cell, node) for cell, node in zip(self._cells, self._nodes, strict=True)],
            *[("fixed", value, None) for value in self._fixed_buffers],
        ]
        written = [
            (self._arrays.index(target), k, 1, 1) if i < 0 else (self._start + i, k, _HOLDERS, _HOLDERS)
            for target, _, k, _, _, i in self._writes
        ]
        return device.warm_table(WarmCall(run, structures, self._uses, len(args), names, places, watch, inputs, written, result))

    def fast(self, args: Sequence[Any]) -> Any:
        """Run with these Arrays and numbers, or return MISS if anything differs from the compiled call."""
        specs = self._specs
        if len(args) != len(specs):
            return MISS
        run: Any = self._run
        if DEVICE_OF_BUFFER_TYPE:
            run = self._bring([arg for arg in args if isinstance(arg, Array)])
        inputs = []
        for arg, spec in zip(args, specs):  # noqa: B905  lengths were compared
            if type(arg) is not spec[2]:
                kind = spec[0]
                if type(arg) is spec[1] if kind is _NUMBER else kind is _SAME and arg is spec[1]:
                    continue
                if type(arg) is np.ndarray and arg.shape == kind and not self.lands:
                    return self.fast([materialise_argument(x) if type(x) is np.ndarray else x for x in args])
                return MISS
            if arg._base is None:
                node = arg._node
            elif self.lands or id(arg._base) in self._states or element_strides(arg) is not None:
                return MISS
            else:
                node = arg.node
            value = node.value
            if value is None or node.dtype is not spec[1] or node.shape != spec[0] or node.op is SCALAR:
                return MISS
            inputs.append(value)
        if self.lands and len(set(map(id, inputs))) < len(inputs):
            return MISS  # a write through one argument must show in the other
        if self._states and not self._states.isdisjoint(map(id, args)):
            return MISS  # or in the captured cell
        if self._needs_numbers:
            numbers = self._all_numbers(args)
            if numbers is None:
                return MISS
            args = numbers
        for k in self._scalars:
            inputs.append(args[k])
        if self._cells:
            if list(map(_node_of, self._cells)) != self._nodes and not self._read_cells():
                return MISS
            inputs += self._values
        if self._fixed_buffers:
            inputs += self._fixed_buffers
        if self.writes_arrays:
            return self._stateful(run, inputs, args, args)
        return self._results_of(run(inputs), inputs, args, args)

    def _all_numbers(self, leaves: Sequence[Any]) -> Sequence[Any] | None:
        """Return the leaves, the run-time numbers of objects and the values that the tape computes from them; None if a condition
        on them has another outcome than in the trace."""
        current = self.state.numbers
        if self._tape is None:
            return [*leaves, *current]
        if self._ints:
            return self._tape.replay(leaves, current)
        before, numbers = self._tape_results
        if before is not current:
            played = self._tape.replay(leaves, current)
            if played is None:
                return None
            numbers = played[len(leaves):]
            self._tape_results = current, numbers
        return [*leaves, *numbers]

    def run_with(self, leaves: Sequence[Any]) -> Any:
        """Run with materialised leaves, or return MISS if a captured cell has another shape or dtype now."""
        if list(map(_node_of, self._cells)) != self._nodes and not self._read_cells():
            return MISS
        if self._needs_numbers:
            numbers = self._all_numbers(leaves)
            if numbers is None:
                return MISS
            leaves = numbers
        cells = leaves if not self._bases else [
            materialise_argument(leaf.cell) if k in self._bases else leaf for k, leaf in enumerate(leaves)
        ]
        run: Any = self._run
        if DEVICE_OF_BUFFER_TYPE:
            run = self._bring([cells[k] for k in self._arrays])
        inputs: list[Any] = [cells[k].node.value for k in self._arrays]
        inputs += [leaves[k] for k in self._scalars]
        inputs += self._values
        inputs += self._fixed_buffers
        if self.writes_arrays:
            return self._stateful(run, inputs, leaves, cells)
        return self._results_of(run(inputs), inputs, leaves, cells)

    def run_call(self, call: Call) -> Any:
        """Run a call as :meth:`run_with` does, and set values in its dataclass arguments, of which the trace had copies."""
        out = self.run_with(call.leaves)
        if not self._argument_sets or out is MISS:
            return out
        arguments = dataclasses_in((call.args, call.kwargs))
        records = {n: read_argument(arguments[n]) for n, _ in self._argument_sets}
        for (n, place), value in zip(self._argument_sets, out[1:], strict=True):
            _set_value(records[n], place, value)
        return out[0]

    def _results_of(self, outputs: list[Any], inputs: list[Any], leaves: Sequence[Any], cells: Sequence[Any]) -> Any:
        """Return the results of a Program that writes nothing."""
        if self._single:
            k, shape, dtype, kind = self._single
            return wrap_buffer(outputs[k], shape, dtype, kind)
        return self._pack(outputs, leaves, self._shared_inputs(inputs, cells) if self._returned_inputs else {}, {})

    def _bring(self, arrays: Sequence[Array]) -> Run:
        """Move the Program's inputs to its device and return the callable that runs it there."""
        nodes = [*[array.node for array in arrays], *self._nodes, *self._fixed_nodes]
        run: Run
        if isinstance(self._run, PlacedProgram):
            run = self._run.choose_and_move(nodes)
        else:
            run = self._run
            execute.move_leaves(nodes)
        self._values, self._fixed_buffers = [n.value for n in self._nodes], [n.value for n in self._fixed_nodes]
        self._gather()
        return run

    def _read_cells(self) -> bool:
        """Read the captured cells again. Return False if one has another shape or dtype now."""
        changed = False
        for i, cell in enumerate(self._cells):
            node = materialise_argument(cell)._node
            before = self._nodes[i]
            if node is not before:
                if node.shape != before.shape or node.dtype != before.dtype:
                    return False
                self._nodes[i], self._values[i] = node, node.value
                changed = True
        if changed:
            self._gather()
        return True

    def _stateful(self, run: Run, inputs: list[Any], leaves: Sequence[Any], cells: Sequence[Any]) -> Any:
        """Run a Program that writes cells. A written cell's buffer is donated if no other reference to it exists.

        ``cells``: the leaves, those in ``_bases`` replaced by the cells that they view
        """
        self._native_table = None  # its references to nodes of captured cells
        keep = self._keep
        if keep is not None and (
            self._view_reads != VIEW_READS[0] or list(map(getrefcount, self._state_nodes)) != self._expected_counts
        ):
            self._view_reads, keep = VIEW_READS[0], keep.copy()
            views = list(map(getweakrefcount, self._state_nodes))  # a view has a weak reference to the node that it last read
            for count, n_views, (i, _) in zip(map(getrefcount, self._state_nodes), views, self._state, strict=True):
                keep[self._start + i] = count != _FREE or n_views > 0 or self._nodes[i].op is CONSTANT  # read from its params
        unchanged = self._shared_inputs(inputs, cells) if self._returned_inputs else {}
        outputs = run(inputs, keep)
        if self._state_start >= 0 and outputs[self._state_start :] == self._state_buffers:
            if self._single:
                k, shape, dtype, kind = self._single
                return wrap_buffer(outputs[k], shape, dtype, kind)
            return self._pack(outputs, leaves, unchanged, {})
        nodes: dict[int, Node] = {}
        for same, (target, kind, k, shape, dtype, i) in zip(self._same_layout, self._writes, strict=True):
            if kind == "in":
                node = unchanged[k]
            elif kind == "out" and i >= 0 and keep is not None and not keep[self._start + i] and k not in nodes:
                node = nodes[k] = self._nodes[i]  # no other reference to this node exists
                node.value = outputs[k]
            else:
                node = _output_node(nodes, k, shape, dtype, outputs)
            if isinstance(target, int):
                cells[target]._set(node)
                continue
            target._node = node
            if i >= 0 and same:  # otherwise the next call compares with the node before the write, and misses
                self._nodes[i], self._values[i] = node, node.value
        alive: dict[int, Array] = {}
        for cell, (kind, k, shape, dtype), j in self._survivors:
            cell._node = unchanged[k] if kind == "in" else _output_node(nodes, k, shape, dtype, outputs)
            cell._trace = None
            alive[j] = cell
        self._gather()
        return self._pack(outputs, leaves, unchanged, nodes, alive)

    def _shared_inputs(self, inputs: list[Any], cells: Sequence[Any]) -> dict[int, Node]:
        """Return the nodes of the inputs that are also results, which share them."""
        first, state = len(self._arrays), (*self._nodes, *self._fixed_nodes)
        return {
            k: cells[self._arrays[k]].node if k < first
            else as_node(inputs[k], self._scalar_dtypes[k - first]) if k < self._start
            else state[k - self._start]
            for k in self._returned_inputs
        }

    def _pack(
        self, outputs: list[Any], leaves: Sequence[Any], unchanged: dict[int, Node], nodes: dict[int, Node],
        alive: Mapping[int, Array] = _NONE,
    ) -> Any:
        """Assemble the results. ``alive``: the results that exist as Arrays, because the function stored them while traced."""
        out: list[Any] = []
        for j, (kind, k, shape, dtype, make) in enumerate(self._result_rows):
            if j in alive:
                out.append(alive[j])
            elif kind == "out":
                out.append(make(_output_node(nodes, k, shape, dtype, outputs)))
            elif kind == "in":
                out.append(make(unchanged[k]))
            else:
                out.append(leaves[k] if kind == "leaf" else k)
        for same, j, end in self._views_and_repeats:
            out[j] = out[end] if same else make_view(end, leaves, out)
        del out[self._result_count :]
        whole = unflatten(self._structure, out)
        return self._set(whole) if self._sets or self._argument_sets else whole

    def _set(self, whole: Sequence[Any]) -> Any:
        """Set the values that the function sets in objects. Return its result, followed by values that it sets in arguments."""
        records = (*self.state.content.records, *self._snapshots)
        for (n, place), value in zip(self._sets, whole[1:], strict=False):
            _set_value(records[n], place, value)
            if records[n].raises_count:
                structure_changed()
        return whole[0] if not self._argument_sets else (whole[0], *whole[1 + len(self._sets) :])


def _leaf_row(spec: Any) -> Place:
    """Return the row of an argument for a warm call. spec : an item of ``CompiledCall._specs``"""
    if spec[0] is _NUMBER:
        return "float", None, None, 0, 0
    if spec[0] is _SAME:
        return "same", spec[1], None, 0, 0
    return "array" if spec[2] is ndarray else "value", *spec[:2], 0, 0


def _result_row(row: Sequence[Any], leaves: Sequence[int]) -> Place:
    """Return the row of a result for a warm call. row : an item of ``CompiledCall._result_rows``; leaves : places of arguments"""
    kind, k, shape, dtype, make = row
    if kind == "out":
        return "output", Scalar if make is wrap else ndarray, (shape, dtype), k, 0
    return ("argument", None, None, leaves[k], 0) if kind == "leaf" else ("same", k, None, 0, 0)


def _cell_of(x: Any) -> Any:
    """Return the cell whose content an array shows; anything else is returned as it is."""
    return x.cell if isinstance(x, Array) else x


def _set_value(record: Record, place: Any, value: Any) -> None:
    """Set a value at a place of ``Swap.changes``."""
    if isinstance(place, Content):
        record.replace(place.names, value)
    else:
        record.put(place, value)


def _output_node(nodes: dict[int, Node], k: int, shape: Any, dtype: Any, outputs: list[Any]) -> Node:
    """Return the node of output ``k``, made once for all results and cells that share it."""
    node = nodes.get(k)
    if node is None:
        node = nodes[k] = Node(INPUT, (), {}, shape, dtype, None, outputs[k])
    return node


def install(cls: type, slow: Callable[..., Any]) -> None:
    """Replace ``cls.__call__`` by the device's native call, which calls ``slow`` if the table in ``_native_table`` does not
    fit."""
    device = execute.device()
    if cls not in _native_types and isinstance(device, WarmCalls):
        _native_types.add(cls)
        node_slots = {"op": INPUT, "inputs": (), "params": _NO_KEYWORDS, "source_line": None, "holder": None}
        world = WarmCallContext(
            CONTEXT, "transform_depth", Structure, "count", ndarray, Scalar, Node, SCALAR, CONSTANT, WRITE_LOGS, node_slots,
            {"_base": None, "_trace": None}, slow,
        )
        device.install_warm_calls(cls, "_native_table", world)
