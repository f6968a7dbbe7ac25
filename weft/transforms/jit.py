"""jit: a function becomes one Program for each kind of arguments it is called with.

The first call traces the function and compiles; later calls check that the arguments are of the same kind (shapes,
dtypes, static values) and run. Arrays that the function reads or writes without being given them (parameters,
optimizer state, random state) are Cells: they become inputs and outputs of the Program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from weft import execute
from weft.array import Array
from weft.array.shapes import lies
from weft.cell import LOCAL
from weft.devices.base import Run
from weft.errors import DTypeError, short, warn
from weft.formats import DEFAULT
from weft.graph.primitives.meeting import DETERMINISM
from weft.graph.primitives.precision import MATMUL
from weft.graph.primitives.table import SCALAR
from weft.look import materialise
from weft.placed import Placed
from weft.recent import Recent
from weft.transforms import warm
from weft.transforms.aliases import check_writes, path_key, shared, shared_key, write_back
from weft.transforms.content import Content, has_content, unchanged
from weft.transforms.entry import MISS, Entry
from weft.transforms.ints import Ints, ints_of, traced_with
from weft.transforms.landing import landed
from weft.transforms.reach import modules_of
from weft.transforms.traced import Traced, concrete, is_static, trace
from weft.transforms.tree import Structure, flatten, has_structure, is_container, is_module, unflatten

_PLAIN = (int, bool, str, bytes, type(None))
ALIKE = 64  # programs kept that differ only in what objects hold: each may keep arrays alive that these held before
VARIANTS = 8  # programs kept that differ only in conditions on ints: one more, and those are part of the key
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
        self._structures = -1
        self._modules: tuple[Any, ...] | None = None
        self._module_key: Any = ()
        self._module_content = Content()
        self._leaky = Recent(KINDS)  # by kind of arguments: how many calls have left arrays behind
        self._warned = False
        self._alike = Recent(KINDS)  # by kind of arguments: keys that differ in what objects hold
        self._states: set[int] = set()  # cells that entries read or write beside their arguments, where something is written
        self._alive: list[Any] = []  # these cells: no other object may get their numbers
        self._writing = Recent(KINDS)  # by key: the arguments that are written
        self._ints = Recent(KINDS)  # by types of arguments: Ints

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call with Python in it; once something is compiled, ``warm.py`` puts a native one in front of it."""
        entry = self._last
        if (
            entry is not None and not LOCAL.inside and Structure.count == self._structures and entry.place == LOCAL.place
            and (not entry.watched or unchanged(entry.watched))
        ):
            if entry.tree is None:
                out = MISS if kwargs else entry.fast(args)
                if out is not MISS:
                    self._warm = entry.warm(self._structures)
                    return out
            else:
                leaves, structure = flatten((args, kwargs), modules=False, ordered=True)
                if structure == entry.tree:
                    out = entry.fast(leaves)
                    if out is not MISS:
                        return out
        return self._call(args, kwargs)

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
        content = Content()
        given, rebuild, structure = self._flat(args, kwargs, content)
        leaves = [leaf if is_static(leaf) or type(leaf) is float else concrete(leaf) for leaf in given]
        ints = ints_of(self._ints, structure, leaves)
        moving = ints.moving
        where = (LOCAL.place, LOCAL.flush, DEFAULT.wide, MATMUL.value, DETERMINISM.value)
        key = (structure, self._key_of_modules(), where, *_keys(leaves, self._states, content, moving))
        full = key
        written = self._writing.get(key)
        if written is not None:
            full = (*key, *shared_key(leaves, shared(leaves, written, self._states)))
        for entry in self._entries.get(full) or ():
            check_writes(given, entry.lands, self.f)
            out = entry.run_with(leaves)
            if out is not MISS:
                if entry.quick:
                    entry.watched = (*self._module_content.watched, *content.watched)
                    self._last = entry
                write_back(given, leaves, entry.lands)
                return out
        return self._first(key, given, leaves, rebuild, structure, content, ints, moving)

    def _first(
        self, key: Any, given: list[Any], leaves: list[Any], rebuild: Callable, structure: Any, content: Content, ints: Ints,
        moving: frozenset[int],
    ) -> Any:
        self.traces += 1
        count, modules = Structure.count, self._module_content
        states, written = self._states, self._writing.get(key) or frozenset()
        together = shared(leaves, written, states)
        kind = _kind(key, leaves)
        leaks = self._leaky.get(kind) or 0
        collect = leaks < 3  # not for ever: it takes its time
        traced, still, more = traced_with(moving, self.f, leaves, rebuild, states, together, collect)
        self.traces += more
        captured = {*map(id, traced.captured)} if traced.writes else set()
        if not together:
            written = frozenset([target for kind, target, _ in traced.writes if kind == "leaf"])
            together = shared(leaves, written, states | captured)
        # one content by two ways, an argument and a captured cell or two arguments: what is written shows in both
        if together and not traced.bases or any(isinstance(x, Array) and id(x.cell) in captured - states for x in leaves):
            states = states | captured
            key = (*key[:3], *_keys(leaves, states, content, moving, key[3:]))
            together = shared(leaves, written, states)
            traced, still, _ = traced_with(still, self.f, leaves, rebuild, states, together, collect)
        if still != moving:
            ints.pin(moving - still)
            key = (*key[:3], *_keys(leaves, states, content, still, key[3:]))
        if written:
            self._writing.put(key, written)
            key = (*key, *shared_key(leaves, together))
        _materialise_cells(traced.captured)
        run = _run_of(traced)
        entry = Entry(traced, leaves, run, structure, still)
        warm.install(Jitted, _slow)
        check_writes(given, entry.lands, self.f)
        out = entry.run_with(leaves)
        assert out is not MISS
        write_back(given, leaves, entry.lands)
        if traced.survivors or traced.once:  # only the next tracing knows what will hold the arrays then
            self._leaky.put(kind, leaks + 1)
            if leaks >= 2 and not self._warned:
                self._warned = True
                warn(_LEFT.format(getattr(self.f, "__name__", type(self.f).__name__)))
            return out
        self._alive += [cell for cell in traced.captured if id(cell) in captured - self._states]
        self._states |= captured
        entry.held = (modules.held, content.held)
        entry.watched = (*modules.watched, *content.watched)
        if self._keep(kind, key, entry) > VARIANTS and traced.tape:
            ints.pin(traced.tape.conditions)
        same_still = Structure.count == count and unchanged(entry.watched)  # else the next call looks what it is now
        self._last = entry if entry.quick and same_still else None
        return out

    def _keep(self, kind: Any, key: Any, entry: Entry) -> int:
        """How many there are of this key now."""
        same = self._entries.get(key)
        if same:
            same.append(entry)
            return len(same)
        self._entries.put(key, [entry])
        if entry.watched:
            alike = self._alike.get(kind) or []
            alike.append(key)
            self._alike.put(kind, alike)
            if len(alike) > ALIKE:
                self._entries.put(alike.pop(0), [])
        return 1

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The traced call (graph and where its ends lie) without compiling or running it; ``wf.explain`` uses it."""
        leaves, rebuild, _ = self._flat(args, kwargs, Content())
        return trace(self.f, [x if is_static(x) or type(x) is float else _as_array(x) for x in leaves], rebuild)

    def leaves(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What the traced call numbers as its leaves: the arguments, and what is in their trees."""
        return self._flat(args, kwargs, Content())[0]

    def _flat(self, args: tuple, kwargs: dict[str, Any], content: Content) -> tuple[list[Any], Callable, Any]:
        """Leaves, how to make arguments of them again, and a hashable structure (the count for plain arguments)."""
        fixed = self.static_argnums or (kwargs and self.static_argnames)
        if not kwargs and not fixed and not any(is_container(a) and not is_module(a) for a in args):
            return list(args), lambda leaves: (tuple(leaves), {}), len(args)
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

        return leaves, rebuild, (structure, tuple((k, _static_key(v, content)) for k, v in held.items()))

    def _key_of_modules(self) -> Any:
        """What the modules and plain objects hold that the function reaches without being given them."""
        if self._modules is None:
            self._modules = modules_of(self.f)
        if self._structures != Structure.count or not unchanged(self._module_content.watched):
            self._structures, content = Structure.count, Content()
            self._module_key = tuple(map(content.key, self._modules))
            self._module_content = content
        return self._module_key


_slow = Jitted.__call__


def _run_of(traced: Traced) -> Run | Placed:
    """What runs a traced call: where this thread says, or where it is placed."""
    graph = traced.graph
    if LOCAL.place is LOCAL.device or LOCAL.watch is not None:
        return execute.located(execute.executable(graph), graph)
    first = len(traced.arrays) + len(traced.scalars)
    arrays = [*graph.inputs[: len(traced.arrays)], *graph.inputs[first:]]
    return Placed(graph, [0 if n.op is SCALAR else n.nbytes for n in arrays], len(traced.arrays))


_LEFT = (
    "{} leaves arrays behind at each call (in an attribute, a global, a list or a dict): it is traced again each time, which is "
    "slow. Return them, or write into an array that exists, with `a[...] = value`; attributes of a Module are written so"
)


def _kind(key: Any, leaves: Sequence[Any]) -> Any:
    """The kind of arguments, for which it does not matter what objects hold."""
    keys = zip(leaves, key[3:], strict=False)
    return (key[0], *[type(x) if is_static(x) and not isinstance(x, _PLAIN) else k for x, k in keys])


class _State:
    """Marks an argument that the function also knows as a captured cell."""


class _Nothing:
    """Stands where a static argument was taken out."""


def _materialise_cells(cells: Sequence[Array]) -> None:
    for cell in cells:
        concrete(cell)
    materialise([cell._node for cell in cells])


def _as_array(x: Any) -> Array:
    return x if isinstance(x, Array) else concrete(x)


def _keys(
    leaves: list[Any], states: set[int], content: Content, moving: Collection[int], static: Sequence[Any] = (),
) -> list[Any]:
    """The key of each leaf. ``moving``: ints that each call tells. ``static``: where those of static leaves are known."""
    seen: dict[int, int] = {}
    keys: list[Any] = []
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Array) and id(leaf.cell) in states:
            keys.append((_State, id(leaf.cell), path_key(leaf)))
        elif isinstance(leaf, Array):
            first = seen.setdefault(id(leaf), k)
            node = leaf.node
            keys.append((node.shape, node.dtype, type(leaf), lies(leaf)) if first == k else first)
        elif type(leaf) is float or k in moving:
            keys.append(type(leaf))
        else:
            keys.append(static[k] if static and static[k] is not int else _static_key(leaf, content))
    return keys


def _static_key(x: Any, content: Content) -> Any:
    if type(x) in _PLAIN:
        return (type(x), x)
    if isinstance(x, Array | np.ndarray):
        raise DTypeError(f"jit: a static argument cannot be an array (shape {x.shape}): leave it out of static_argnums")
    if not has_structure(x) and not has_content(x):
        try:
            hash(x)
        except TypeError:
            raise DTypeError(
                f"jit: an argument holds {short(x)} of type {type(x).__name__}: arguments are arrays, numbers, str, None, "
                "modules, and dicts, lists, tuples and dataclasses of these; other objects must be hashable"
            ) from None
    return content.key(x)


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
