"""jit: a function becomes one Program for each kind of arguments it is called with.

The first call traces the function and compiles; later calls check that the arguments are of the same kind (shapes,
dtypes, static values) and run. Arrays that the function reads or writes without being given them (parameters,
optimizer state, random state) are Cells: they become inputs and outputs of the Program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array
from weft.devices.base import Run
from weft.eager.materialise import materialise
from weft.errors import warn
from weft.graph.primitives.table import SCALAR
from weft.process.bounded_cache import Recent
from weft.runtime import execute
from weft.runtime.auto_device import Placed
from weft.runtime.context import LOCAL
from weft.transforms import fast_call
from weft.transforms.aliases import check_writes, shared, shared_key, write_back
from weft.transforms.call import Call
from weft.transforms.causes import Causes, left_behind
from weft.transforms.compiled_call import MISS, Entry
from weft.transforms.content import Content
from weft.transforms.ints import Numbers, numbers_of
from weft.transforms.records import DictRecord, ListRecord
from weft.transforms.traced import Traced, concrete, is_static, numbered, trace, traced_with
from weft.transforms.tree import Structure, flatten, is_container, is_module, unflatten
from weft.transforms.write_log import landed

ALIKE = 64  # programs kept that differ only in what objects hold: each may keep arrays alive that these held before
VARIANTS = 8  # programs kept that differ only in conditions on numbers: one more, and those are part of the key
KINDS = 1024  # of arguments: so many programs of a function are found again, and at most twice as many kept


class Jitted:
    """A jitted function. ``traces`` counts how often the function was traced."""

    __slots__ = ("__dict__", "__weakref__", "_warm")

    _warm: Any  # a table for the native call, see ``warm.py``, or None

    def __init__(self, f: Callable, static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = ()) -> None:
        functools.update_wrapper(self, f, updated=())
        self._warm = None
        self.f = f
        self.static_argnums = tuple(static_argnums)
        self.static_argnames = frozenset(static_argnames)
        self.traces = 0
        self._entries = Recent(KINDS)  # lists of Entry
        self._last: Entry | None = None
        self._other: Entry | None = None
        self._reached: Content | None = None  # what the function reaches without being given it
        self.words: set[str] = {"training"}  # names of attributes, see ``reach.py``
        self.objects: Any = None  # what objects among the arguments held when they were looked at
        self.skipped: dict[int, Any] = {}  # by id: lists and dicts that are variables and grow while the function is traced
        self._leaky = Recent(KINDS)  # by kind of arguments: how many calls have left arrays behind
        self._warned = False
        self._causes = Causes()
        self._alike = Recent(KINDS)  # by kind of arguments: keys that differ in what objects hold
        self._states: set[int] = set()  # cells that entries read or write beside their arguments, where something is written
        self._alive: list[Any] = []  # these cells: no other object may get their numbers
        self._writing = Recent(KINDS)  # by key: the arguments that are written
        self._numbers = Recent(KINDS)  # by kind of arguments: Numbers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call with Python in it; once something is compiled, ``warm.py`` puts a native one in front of it."""
        entry, count = self._last, Structure.count
        if entry is not None and not LOCAL.inside:
            if entry.place == LOCAL.place and entry.holds(count):
                if entry.tree is None:
                    out = MISS if kwargs else entry.fast(args)
                    if out is not MISS:
                        self._warm = entry.warm(count)
                        return out
                else:
                    leaves, structure = flatten((args, kwargs), modules=False, ordered=True)
                    if structure == entry.tree:
                        out = entry.fast(leaves)
                        if out is not MISS:
                            return out
            other = self._other
            if other is not None and other.tree is None and not kwargs and other.place == LOCAL.place and other.holds(count):
                out = other.fast(args)
                if out is not MISS:
                    self._last, self._other = other, entry
                    return out
        return self._call(args, kwargs)

    def _next(self, entry: Entry | None) -> None:
        """Ask this entry first from now on, and the one that was asked first before it second."""
        if entry is None or self._last is not None:
            self._other = self._last
        self._last = entry

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: bound to the instance, which is then part of the key."""
        if instance is None:
            return self
        return functools.partial(self, instance)

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if LOCAL.inside:
            return landed(self.f, args, kwargs)
        if LOCAL.watch is not None:
            self = LOCAL.watch.twin(self)
        call = Call(self, args, kwargs)
        numbers = numbers_of(self._numbers, call)
        key = call.key(self._states, numbers.moving)
        full = key
        written = self._writing.get(key) if self._writing.weight else None
        if written is not None:
            full = (*key, *shared_key(call.leaves, shared(call.leaves, written, self._states | call.cells.keys())))
        entries = self._entries.get(full) or []
        for k, known in enumerate(entries):
            check_writes(call.given, known.lands, self.f)
            entry = known.bound(call.leaves, call.contents)
            out = entry.run_with(call.leaves)
            if out is not MISS:
                if entry is not known and k < len(entries):
                    entries[k] = entry  # it keeps no arrays alive that other objects have held before
                if entry.quick:
                    entry.count = call.count
                    self._next(entry)
                write_back(call.given, call.leaves, entry.lands)
                return out
        return self._first(call, key, numbers)

    def _first(self, call: Call, key: Any, numbers: Numbers) -> Any:
        self.traces += 1
        leaves, moving = call.leaves, numbers.moving
        states, written = self._states | call.cells.keys(), self._writing.get(key) or frozenset()
        together = shared(leaves, written, states)
        like = call.like(self._states)
        leaks = self._leaky.get(like) or 0
        collect = leaks < 3  # not for ever: it takes its time
        traced, still, more = traced_with(moving, self.f, leaves, call.rebuild, states, together, collect, call.contents)
        self.traces += more
        captured = {*map(id, traced.captured)} - call.cells.keys() if traced.writes else set()
        if not together:
            written = frozenset([target for kind, target, _ in traced.writes if kind == "leaf"])
            together = shared(leaves, written, states | captured)
        # one content by two ways, an argument and a captured cell or two arguments: what is written shows in both
        if together and not traced.bases or any(isinstance(x, Array) and id(x.cell) in captured - states for x in leaves):
            states = states | captured
            together = shared(leaves, written, states)
            numbers.pin(traced.needed)
            traced, still, _ = traced_with(still, self.f, leaves, call.rebuild, states, together, collect, call.contents)
        numbers.pin(traced.needed)
        grown = self._grown(call)
        if grown:
            call, numbers, still = self._without(grown, call, traced, numbers, still)
        key = call.key(states - call.cells.keys(), still)
        if written:
            self._writing.put(key, written)
            key = (*key, *shared_key(leaves, together))
        _materialise_cells(traced.captured)
        run = _run_of(traced)
        entry = Entry(traced, leaves, run, call.structure, still, call.contents)
        fast_call.install(Jitted, _slow)
        check_writes(call.given, entry.lands, self.f)
        out = entry.run_with(leaves)
        assert out is not MISS
        write_back(call.given, leaves, entry.lands)
        if traced.survivors or traced.once:  # only the next tracing knows what will hold the arrays then
            self._leaky.put(like, leaks + 1)
            if leaks >= 2 and not self._warned:
                self._warned = True
                warn(left_behind(self.f, call, traced, self.skipped))
            return out
        self._alive += [cell for cell in traced.captured if id(cell) in captured - self._states]
        self._states |= captured
        if self._keep(like, key, entry) > VARIANTS and traced.tape:
            numbers.pin(numbered(traced.tape.conditions, len(leaves), traced.moving))
        entry.count = call.count
        self._next(entry if entry.quick else None)
        told = self._causes.note(self.f, call, key, numbers.pinned, traced)
        if told is not None:
            warn(told)
        return out

    def _keep(self, like: Any, key: Any, entry: Entry) -> int:
        """How many there are of this key now."""
        same = self._entries.get(key)
        if same:
            same.append(entry)
            return len(same)
        self._entries.put(key, [entry])
        if any([content.records for content in entry.held.contents]):
            alike = self._alike.get(like) or []
            alike.append(key)
            self._alike.put(like, alike)
            if len(alike) > ALIKE:
                self._entries.put(alike.pop(0), [])
        return 1

    def _grown(self, call: Call) -> list[Any]:
        """Lists and dicts that are variables, and to which the function has added something, or from which it took something,
        while it was traced."""
        records = [record for content in call.contents for record in content.records if not record.deep]
        return [r.owner for r in records if isinstance(r, DictRecord | ListRecord) and not r.unchanged() and r.renewed() is None]

    def _without(
        self, grown: list[Any], call: Call, traced: Traced, numbers: Numbers, still: frozenset[int],
    ) -> tuple[Call, Numbers, frozenset[int]]:
        """What such lists and dicts hold does not count: it is read while the function is traced, and then only."""
        self.skipped |= {id(x): x for x in grown}
        self._reached = None
        less = Call(self, call.args, call.kwargs, call)
        first, before = len(call.leaves), call.named()
        values = {name: k for k, name in enumerate(less.named())}
        records, places = call.records(), less.places()
        sets = [records[n].place(k) for n, k in traced.sets]
        owners = {id(record.owner): n for n, record in enumerate(less.records())}
        places |= {(owner, name): (owners[owner], name) for owner, name in sets if isinstance(name, str) and owner in owners
                   and (owner, name) not in places}
        if not all([before[k] in values for k in traced.moving]) or not all([name in places for name in sets]):
            return call, numbers, still  # it is traced again without them
        traced.moving = tuple([values[before[k]] for k in traced.moving])
        still = frozenset([first + values[before[k - first]] if k >= first else k for k in still])
        traced.sets = tuple([places[name] for name in sets])
        numbers = numbers_of(self._numbers, less)
        numbers.moving |= still
        return less, numbers, still

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The traced call (graph and where its ends lie) without compiling or running it; ``wf.explain`` uses it."""
        leaves, rebuild, _, _ = self.flat(args, kwargs)
        floats = [k for k, x in enumerate(leaves) if type(x) is float]
        given = [x if is_static(x) or type(x) is float else _as_array(x) for x in leaves]
        return trace(self.f, given, rebuild, moving=floats)

    def leaves(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What the traced call numbers as its leaves: the arguments, and what is in their trees."""
        return self.flat(args, kwargs)[0]

    def flat(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], Callable, Any, list[Any]]:
        """Leaves, how to make arguments of them again, a hashable structure (the count for plain arguments), and static
        arguments."""
        fixed = self.static_argnums or (kwargs and self.static_argnames)
        if not kwargs and not fixed and not any(is_container(a) and not is_module(a) for a in args):
            return list(args), lambda leaves: (tuple(leaves), {}), len(args), []
        held: dict[Any, Any] = {}
        if fixed:
            numbers = {n % len(args) for n in self.static_argnums if -len(args) <= n < len(args)}
            held = {n: args[n] for n in numbers} | {k: v for k, v in kwargs.items() if k in self.static_argnames}
        positions = tuple(_Nothing if k in held else a for k, a in enumerate(args))
        moving = (positions, {k: v for k, v in kwargs.items() if k not in held})
        leaves, structure = flatten(moving, modules=False, ordered=True)

        def rebuild(new: list[Any]) -> tuple[tuple, dict]:
            positional, named = unflatten(structure, new)
            full = tuple(held.get(k, a) for k, a in enumerate(positional))
            return full, {**named, **{k: v for k, v in held.items() if isinstance(k, str)}}

        return leaves, rebuild, (structure, tuple(held)), list(held.values())

    def forget(self) -> None:
        """Look at all objects again, from the beginning."""
        self._reached = self.objects = None

    def reach(self) -> Content:
        """What modules, objects and variables hold that the function reaches without being given them."""
        reached = self._reached
        if reached is None or not reached.refresh():
            reached = Content(self.words, self.skipped, getattr(self.f, "__module__", ""))
            self._reached = reached.close(reached.of(self.f))
        return reached


_slow = Jitted.__call__


def _run_of(traced: Traced) -> Run | Placed:
    """What runs a traced call: where this thread says, or where it is placed."""
    graph = traced.graph
    if LOCAL.place is LOCAL.device or LOCAL.watch is not None:
        return execute.located(execute.executable(graph), graph, traced.written)
    first = len(traced.arrays) + len(traced.scalars)
    arrays = [*graph.inputs[: len(traced.arrays)], *graph.inputs[first:]]
    return Placed(graph, [0 if n.op is SCALAR else n.nbytes for n in arrays], len(traced.arrays), traced.written)


class _Nothing:
    """Stands where a static argument was taken out."""


def _materialise_cells(cells: Sequence[Array]) -> None:
    for cell in cells:
        concrete(cell)
    materialise([cell._node for cell in cells])


def _as_array(x: Any) -> Array:
    return x if isinstance(x, Array) else concrete(x)


def jit(
    f: Callable | None = None, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
) -> Any:
    """Compile a function: one native call instead of one operation after the other.

    Parameters
    ----------
    f : function of Arrays, numbers and trees of them (dicts, lists, tuples, dataclasses, modules). Bools, strings and
        None are static: a new value traces again. Floats are run-time numbers, and integers are from their second value on,
        but where ``f`` needs the value itself (a shape, an index, ``range``): then they are static.
    static_argnums, static_argnames : further arguments (hashable) that are static

    Returns
    -------
    Jitted : called like ``f``, and gives what ``f`` gives: an argument that is returned is that argument, a view shares
        memory with what it is a view of; what is written shows wherever that memory is. Usable as a decorator, with
        arguments too

    Raises
    ------
    TypeError
        ``f`` is no function.
    ValueError
        When called: the function writes a NumPy array that is read-only, or shares memory with another argument.
    TraceError
        When called: the function looks at the content of an array (``float(x)``, ``if x > 0``); while it is traced only shapes
        and dtypes are known.

    Examples
    --------
    >>> import weft as wf
    >>> @wf.jit
    ... def norm(x):
    ...     return (x * x).sum() ** 0.5
    >>> norm(wf.array([3.0, 4.0]))
    float32(5.0)
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if f is None:
        return lambda g: Jitted(g, numbers, names)
    if not callable(f):
        raise TypeError(f"jit: {f!r} is not a function")
    return Jitted(f, numbers, names)
