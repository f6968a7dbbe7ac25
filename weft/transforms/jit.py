"""jit: compile a function to one Program for each combination of shapes, dtypes and static values it is called with.

The first call traces the function and compiles its graph; later calls with the same key run the Program. Arrays that the
function reads or writes without receiving them as arguments (parameters, optimizer state, random state) are captured cells:
they become inputs and outputs of the Program.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array
from weft.devices.base import Run
from weft.eager.materialise import materialise
from weft.errors import is_own_file, short, warn
from weft.graph.primitives.table import SCALAR
from weft.process.bounded_cache import BoundedCache
from weft.process.notices import announce
from weft.runtime import execute
from weft.runtime.auto_device import PlacedProgram
from weft.runtime.context import CONTEXT
from weft.transforms.aliases import alias_key, check_writes, shared, write_back
from weft.transforms.call import Call, Numbers, numbers_of
from weft.transforms.causes import WARN_AFTER_TRACES, RetraceCauses, leak_warning
from weft.transforms.compiled_call import MISS, CompiledCall, install
from weft.transforms.content import StaticKey
from weft.transforms.records import read_whole
from weft.transforms.trace import leave_traces
from weft.transforms.tracing import TracedCall, is_static, materialise_argument, number_slots, trace, trace_with_numbers
from weft.transforms.tree import Structure, flatten, is_container, is_module, unflatten
from weft.transforms.write_log import call_atomically

MAX_KEYS_BY_CONTENT = 64  # programs kept that differ only in the contents of objects, which may keep earlier arrays alive
MAX_VARIANTS = 8  # programs kept that differ only in conditions on numbers; with more, these numbers become part of the key
KINDS = 1024  # keys per function that are certainly cached; the cache holds at most twice as many


class JittedFunction:
    """A function compiled by :func:`jit`. ``traces`` counts how often the function was traced."""

    __slots__ = ("__dict__", "__weakref__", "_native_table")

    _native_table: Any  # the table of the native call (see ``compiled_call.py``), or None

    def __init__(self, f: Callable, static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = ()) -> None:
        functools.update_wrapper(self, f, updated=())
        self._native_table = None
        self.f = f
        self.static_argnums = tuple(static_argnums)
        self.static_argnames = frozenset(static_argnames)
        self.traces = 0
        self._entries = BoundedCache(KINDS)  # lists of CompiledCall
        self._recent: tuple[CompiledCall, ...] = ()  # at most two entries, tried before the key of a call is made
        self._captured_content: StaticKey | None = None  # content of the closure and global variables of the function
        self.words: set[str] = {"training"}  # attribute names that the code mentions, see ``code_names.py``
        self.objects: Any = None  # of the last call with objects as arguments: static leaves, their keys, the content
        self._leaky = BoundedCache(KINDS)  # by ``Call.make_partial_key``: how many calls gave traces that are not stored
        self._has_warned = False
        self._causes = RetraceCauses()
        self._similar_keys = BoundedCache(KINDS)  # by ``Call.make_partial_key``: keys that differ only in the contents of objects
        self._states: set[int] = set()  # ids of the captured cells of entries that write something
        self._alive: list[Any] = []  # these cells, kept alive so that their ids stay unique
        self._writing = BoundedCache(KINDS)  # by key: numbers of the argument leaves that the function writes
        self._numbers = BoundedCache(KINDS)  # by ``Call.kind`` and leaf types: Numbers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. ``install`` puts a native method here, which calls this one if its table does not fit."""
        if CONTEXT.transform_depth:
            return call_atomically(self.f, args, kwargs)
        try:
            return self._call(args, kwargs)
        except Exception:
            raise
        except BaseException:  # Ctrl-C may have come between changes that belong together
            self._forget()
            raise

    def _forget(self) -> None:
        """Leave all traces, and drop everything that is known of earlier calls."""
        leave_traces()
        self._recent, self._captured_content, self._native_table, self.objects = (), None, None, None
        self._entries, self._similar_keys = BoundedCache(KINDS), BoundedCache(KINDS)

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the function outside of traces: by one of the last two entries, or by the key of the call."""
        count, recent = Structure.count, self._recent
        if recent and recent[0].writes_arrays:
            self._native_table = None  # it refers to nodes whose references are counted
        for entry in recent:
            if entry.place == CONTEXT.placement and entry.is_valid(count):
                if entry.tree is None:
                    out = MISS if kwargs else entry.fast(args)
                else:
                    leaves, structure = flatten((args, kwargs), modules=False, ordered=True)
                    out = entry.fast(leaves) if structure == entry.tree else MISS
                if out is not MISS:
                    if entry is not recent[0]:
                        self._recent = recent[::-1]
                    elif entry.is_plain:
                        named = (*args, *kwargs.values()) if kwargs else args
                        self._native_table = entry.make_native_table(count, named, tuple(kwargs) if kwargs else None)
                    else:
                        self._native_table = None
                    return out
        return self._call_by_key(args, kwargs)

    def _remember(self, entry: CompiledCall) -> None:
        """Try ``entry`` first at the next call, and the entry that was first until now second."""
        if entry.quick:
            self._recent = (entry, *[other for other in self._recent if other is not entry][:1])

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to the instance, which becomes an argument and so part of the key."""
        if instance is None:
            return self
        return functools.partial(self, instance)

    def _call_by_key(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if CONTEXT.profiler is not None:
            self = CONTEXT.profiler.twin(self)
        call = Call(self, args, kwargs)
        numbers = numbers_of(self._numbers, call, self.f)
        key = call.key(self._states, numbers.moving)
        full = key
        written = self._writing.get(key) if self._writing.weight else None
        if written is not None:
            full = (*key, *alias_key(call.leaves, shared(call.leaves, written, self._states | call.cells.keys())))
        entries = self._entries.get(full) or []
        for k, cached in enumerate(entries):
            check_writes(call.passed_leaves, cached.lands, self.f)
            entry = cached.rebind_to(call.leaves, call.content)
            out = entry.run_call(call)
            if out is not MISS:
                if entry is not cached and k < len(entries):
                    entries[k] = entry  # the cached entry would keep arrays of other objects alive
                entry.count = call.count
                self._remember(entry)
                write_back(call.passed_leaves, call.leaves, entry.lands)
                return out
        return self._trace_and_run(call, key, numbers)

    def _trace_and_run(self, call: Call, key: Any, numbers: Numbers) -> Any:
        self.traces += 1
        leaves, moving = call.leaves, numbers.moving
        states, written = self._states | call.cells.keys(), self._writing.get(key) or frozenset()
        groups = shared(leaves, written, states)
        like = call.make_partial_key(self._states)
        leaks = self._leaky.get(like) or 0
        collect = leaks < 3  # a garbage collection at each trace is slow
        records = call.content.records
        rows: tuple[Any, ...] = (records, [read_whole(x) for x in call.content.unrecorded_values])
        traced, dynamic, retraced = trace_with_numbers(moving, self.f, leaves, call.rebuild, states, groups, collect, *rows)
        self.traces += retraced
        captured = {*map(id, traced.captured_cells)} - call.cells.keys() if traced.writes else set()
        if not groups:
            written = frozenset([target for kind, target, _ in traced.writes if kind == "leaf"])
            groups = shared(leaves, written, states | captured)
        # a cell that is reached twice (two arguments, or an argument and a captured cell) and written shows the write in both:
        # trace again with the arguments as views of one placeholder
        if groups and not traced.bases or any(isinstance(x, Array) and id(x.cell) in captured - states for x in leaves):
            states = states | captured
            groups = shared(leaves, written, states)
            numbers.pin(traced.needed_values)
            traced, dynamic, _ = trace_with_numbers(dynamic, self.f, leaves, call.rebuild, states, groups, collect, *rows)
        numbers.pin(traced.needed_values)
        traced.one_call_only = traced.one_call_only or call.content.iterators
        key = call.key(states - call.cells.keys(), dynamic)
        if written:
            self._writing.put(key, written)
            key = (*key, *alias_key(leaves, groups))
        for cell in traced.captured_cells:
            materialise_argument(cell)
        materialise([cell._node for cell in traced.captured_cells])
        with announce(lambda: f"compiling {_describe(self.f)}, {len(traced.graph.order):,} operations, once for these shapes"):
            run = _run_of(traced)
        entry = CompiledCall(traced, leaves, run, call.structure, dynamic, call.content)
        install(JittedFunction, _slow)
        check_writes(call.passed_leaves, entry.lands, self.f)
        out = entry.run_call(call)
        assert out is not MISS
        write_back(call.passed_leaves, leaves, entry.lands)
        if traced.survivors or traced.one_call_only:  # arrays left behind, or a trace for this call only: the entry is not stored
            self._leaky.put(like, leaks + 1)
            if leaks >= (2 if traced.survivors else WARN_AFTER_TRACES) and not self._has_warned:
                self._has_warned = True
                warn(leak_warning(self.f, call, traced))
            return out
        self._alive += [cell for cell in traced.captured_cells if id(cell) in captured - self._states]
        self._states |= captured
        if self._store(like, key, entry) > MAX_VARIANTS and traced.tape:
            numbers.pin(number_slots(traced.tape.conditions, len(leaves), traced.moving))
        entry.count = call.count
        self._remember(entry)
        message = self._causes.note(self.f, call, key, numbers.needed_values, traced)
        if message is not None:
            warn(message)
        return out

    def _store(self, like: Any, key: Any, entry: CompiledCall) -> int:
        """Store ``entry`` and return the number of entries that have its key."""
        same = self._entries.get(key)
        if same:
            same.append(entry)
            return len(same)
        self._entries.put(key, [entry])
        if entry.state.content.records:
            alike = self._similar_keys.get(like) or []
            alike.append(key)
            self._similar_keys.put(like, alike)
            if len(alike) > MAX_KEYS_BY_CONTENT:
                self._entries.put(alike.pop(0), [])
        return 1

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Return the traced call without compiling or running it. ``wf.explain`` uses it."""
        leaves, rebuild, _, _ = self.flat(args, kwargs)
        floats = [k for k, x in enumerate(leaves) if type(x) is float]
        arguments = [x if is_static(x) or type(x) is float or isinstance(x, Array) else materialise_argument(x) for x in leaves]
        return trace(self.f, arguments, rebuild, moving=floats)

    def flat(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], Callable, Any, list[Any]]:
        """Flatten the arguments.

        Return the leaves, a function that rebuilds (args, kwargs) from leaves, a hashable structure (the number of arguments if
        none is a tree), and the values named by ``static_argnums`` and ``static_argnames``.
        """
        has_static = self.static_argnums or (kwargs and self.static_argnames)
        if not kwargs and not has_static and not any(is_container(a) and not is_module(a) for a in args):
            return list(args), lambda leaves: (tuple(leaves), {}), len(args), []
        static: dict[Any, Any] = {}
        if has_static:
            numbers = {n % len(args) for n in self.static_argnums if -len(args) <= n < len(args)}
            static = {n: args[n] for n in numbers} | {k: v for k, v in kwargs.items() if k in self.static_argnames}
        positions = tuple(_StaticPlaceholder if k in static else a for k, a in enumerate(args))
        dynamic = (positions, {k: v for k, v in kwargs.items() if k not in static})
        leaves, structure = flatten(dynamic, modules=False, ordered=True)

        def rebuild(new: list[Any]) -> tuple[tuple, dict]:
            positional, named = unflatten(structure, new)
            full = tuple(static.get(k, a) for k, a in enumerate(positional))
            return full, {**named, **{k: v for k, v in static.items() if isinstance(k, str)}}

        return leaves, rebuild, (structure, tuple(static)), list(static.values())

    def read_captured(self, again: bool = False) -> StaticKey:
        """Return the content of the modules, objects and variables that the function reaches through closures and globals.

        again : read all of them again
        """
        reached = self._captured_content
        if again or reached is None or not reached.refresh():
            reached = StaticKey(self.words, getattr(self.f, "__module__", ""))
            self._captured_content = reached.close(reached.of(self.f))
        return reached


_slow = JittedFunction.__call__


def _run_of(traced: TracedCall) -> Run | PlacedProgram:
    """Return a callable that runs the graph: on this thread's device, or a ``PlacedProgram``, which chooses one at each call."""
    graph = traced.graph
    if CONTEXT.placement is CONTEXT.device or CONTEXT.profiler is not None:
        return execute.with_source_lines(execute.executable(graph), graph, traced.overwritten_inputs)
    first = len(traced.arrays) + len(traced.scalars)
    arrays = [*graph.inputs[: len(traced.arrays)], *graph.inputs[first:]]
    return PlacedProgram(
        graph, [0 if n.op is SCALAR else n.nbytes for n in arrays], len(traced.arrays), traced.overwritten_inputs
    )


def _describe(f: Callable[..., Any]) -> str:
    """Return what is compiled, for users."""
    if is_own_file(getattr(getattr(f, "__code__", None), "co_filename", "")):
        return "the training step" if f.__module__ == "weft.train.step" else "a function of weft"
    return f"{getattr(f, '__qualname__', type(f).__name__)}()"


class _StaticPlaceholder:
    """Placeholder for a static argument in the flattened arguments."""


def jit(
    f: Callable | None = None, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
) -> Any:
    """Compile a function, so that a call runs one program instead of one operation after the other.

    Parameters
    ----------
    f : function of Arrays, numbers and trees of them (dicts, lists, tuples, dataclasses, modules). Bools, strings and
        None are static: a new value traces again. Floats are run-time numbers. Integers become run-time numbers when a second
        value is passed, unless ``f`` needs the value itself (a shape, an index, ``range``): then they are static.
    static_argnums, static_argnames : positions and names of further arguments (hashable) that are static

    Returns
    -------
    JittedFunction : called like ``f``, with the results of ``f``. An array or module that is an argument and is returned is that
        same object; dicts, lists and dataclasses are new. A returned view shares memory with its base, and writes are
        visible through every array that shares the memory. Usable as a decorator, with or without arguments

    Raises
    ------
    TypeError
        ``f`` is not a function, or ``static_argnums`` are no integers.
    ValueError
        ``f`` has no argument of a number in ``static_argnums`` or of a name in ``static_argnames``.
        When called: the function writes a NumPy array that is read-only, or that shares memory with another argument.
    TraceError
        When called: the function reads the content of an array (``float(x)``, ``if x > 0``). During a trace only shapes and
        dtypes are known.

    Examples
    --------
    >>> import weft as wf
    >>> @wf.jit
    ... def norm(x):
    ...     return (x * x).sum() ** 0.5
    >>> norm(wf.array([3.0, 4.0]))
    float32(5.0)
    """
    numbers = tuple(static_argnums) if hasattr(static_argnums, "__iter__") else (static_argnums,)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if not all([type(n) is not bool and hasattr(type(n), "__index__") for n in numbers]):
        raise TypeError(f"jit: static_argnums must be an int or a sequence of ints, not {short(static_argnums)}")
    if f is None:
        return lambda g: _make_jitted(g, numbers, names)
    return _make_jitted(f, numbers, names)


def _make_jitted(f: Callable, numbers: Sequence[int], names: Sequence[str]) -> JittedFunction:
    if not callable(f):
        raise TypeError(f"jit: {short(f)} is not a function: give the function, wf.jit(f)(x), not its result")
    if numbers or names:
        _check_static(f, numbers, names)
    return JittedFunction(f, numbers, names)


def _check_static(f: Callable, numbers: Sequence[int], names: Sequence[str]) -> None:
    """Raise ValueError if the signature of ``f`` has no argument of such a position or name."""
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):  # a built-in function without a signature
        return
    kinds = [p.kind for p in parameters.values()]
    positions = kinds.count(inspect.Parameter.POSITIONAL_ONLY) + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = f"{getattr(f, '__name__', type(f).__name__)}({', '.join(map(str, parameters.values()))})"
    if inspect.Parameter.VAR_POSITIONAL not in kinds and (unfit := [n for n in numbers if not -positions <= n < positions]):
        raise ValueError(
            f"jit: static_argnums has {unfit[0]}, but {signature} has {positions} positional arguments, whose numbers are 0 to "
            f"{positions - 1}, or -1 to {-positions} from the end" if positions else
            f"jit: static_argnums has {unfit[0]}, but {signature} has no positional arguments"
        )
    unnamed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [k for k, p in parameters.items() if p.kind not in unnamed]
    if inspect.Parameter.VAR_KEYWORD not in kinds and (unknown := [k for k in names if k not in named]):
        raise ValueError(
            f"jit: static_argnames has {unknown[0]!r}, but {signature} "
            + (f"takes only {', '.join(named)} by name" if named else "takes no argument by name")
        )
