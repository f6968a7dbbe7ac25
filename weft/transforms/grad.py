"""grad, value_and_grad, vjp: derivatives of functions of trees.

The nodes of the arguments are replaced by fresh ones, the function is called, and its graph is walked backwards. A module is
passed as the same object: its parameters hold the fresh nodes during the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.array import Array, standing_for, wrap
from weft.array.convert import as_node, cast
from weft.array.numpy_methods import lies
from weft.dtypes.api import is_inexact
from weft.dtypes.formats import COMPLEX, DEFAULT, FLOATS, INEXACT
from weft.errors import DTypeError, ShapeError, TraceError, short
from weft.graph.batching import batch
from weft.graph.gradient import backward
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE, bind, constant, input_leaf
from weft.graph.source_lines import user_frame, user_line
from weft.process.docstrings import complete_docs, complete_each
from weft.runtime.cell import read, write
from weft.runtime.context import CONTEXT
from weft.transforms.aliases import touch
from weft.transforms.tree import arrays_in, flatten, is_container, is_module, unflatten
from weft.transforms.write_log import call_atomically

_IDENTITY = TABLE["identity"]


class _Argument:
    """One differentiated argument: the value passed to the function, and the nodes to differentiate by."""

    def __init__(self, value: Any, what: str, fresh_nodes: dict[int, Node]) -> None:
        """``fresh_nodes``: those of the parameters of earlier arguments, by id; a shared parameter is one variable"""
        self.leaves: list[Any]
        if not is_container(value):
            self.leaves, self.structure = [value], None
        else:
            self.leaves, self.structure = flatten(value)
        in_modules = {id(x) for x in _module_arrays(value, self.structure, self.leaves)}
        self.nodes: list[Node | None] = []
        self.swapped: list[tuple[Array, Node, Node]] = []  # parameter of a module, its node, the fresh one
        self.copies: list[tuple[Array, Array, Node]] = []  # the caller's array, the array passed, its fresh node
        passed: list[Any] = []
        for leaf in self.leaves:
            if not isinstance(leaf, Array | float | complex | np.ndarray | np.generic) or not is_inexact(_dtype(leaf)):
                if self.structure is None:
                    raise DTypeError(f"{what} is {_describe(leaf)}, but must be float: cast it with .astype('float32')")
                self.nodes.append(None)
                passed.append(leaf)
                continue
            fresh = fresh_nodes.get(id(leaf)) if id(leaf) in in_modules else None
            if fresh is None:
                node = as_node(leaf)
                fresh = bind(_IDENTITY, node)
                if id(leaf) in in_modules:
                    assert isinstance(leaf, Array)
                    fresh_nodes[id(leaf)] = fresh
                    self.swapped.append((leaf, node, fresh))
                else:
                    handle = standing_for(leaf, fresh, lies(leaf))
                    if isinstance(leaf, Array):
                        self.copies.append((leaf, handle, fresh))
                    leaf = handle
            self.nodes.append(fresh)
            passed.append(leaf)
        self.wrt = [n for n in self.nodes if n is not None]
        if not self.wrt:
            raise DTypeError(f"{what} holds no float array, so there is nothing to differentiate by")
        whole = self.structure is None or is_module(value)
        self.value = (value if is_module(value) else passed[0]) if whole else _replace_leaves(value, passed)

    def enter(self) -> None:
        for array, _, fresh in self.swapped:
            array._set(fresh)

    def leave(self, land: bool) -> None:
        """Restore the nodes of parameters that the function did not write. ``land``: write the other arguments it wrote"""
        for array, node, fresh in self.swapped:
            if array.node is fresh:
                array._set(node)
        for array, handle, fresh in self.copies:
            if land and handle._node is not fresh:
                array._set(handle._node)

    def own(self, result: Any) -> Any:
        """Replace, in a result of the function, passed arrays and views of them by the caller's arrays."""
        if isinstance(result, Array):
            cell = result.cell
            for array, handle, _ in self.copies:
                if cell is handle:
                    return array if result is handle else array._view(result._path)
        elif self.copies and is_container(result) and not is_module(result):
            leaves, structure = flatten(result, modules=False)
            return unflatten(structure, [self.own(leaf) for leaf in leaves])
        return result

    def result(self, gradients: Iterator[Node]) -> Any:
        """Return the gradients of the argument in its structure. ``gradients``: of the nodes in ``wrt``, and further ones"""
        arrays: dict[Node, Array] = {}  # a shared parameter has one gradient
        for n, gradient in zip(self.wrt, gradients, strict=False):
            if n not in arrays:
                arrays[n] = wrap(gradient)
        out = [_zero(leaf) if n is None else arrays[n] for n, leaf in zip(self.nodes, self.leaves, strict=True)]
        return out[0] if self.structure is None else unflatten(self.structure, out)


def _module_arrays(value: Any, structure: Any, leaves: list[Any]) -> list[Array]:
    """Return the parameters of modules anywhere in ``value``, which has these leaves."""
    if structure is None:
        return []
    if not is_module(value):
        leaves = [x for m in flatten(value, modules=False)[0] if is_module(m) for x in flatten(m)[0]]
    return [x for x in leaves if isinstance(x, Array)]


def _replace_leaves(value: Any, new_leaves: list[Any]) -> Any:
    """Return ``value`` with other leaves. Modules in it stay the same objects."""
    leaves, structure = flatten(value, modules=False)
    remaining = iter(new_leaves)
    out = []
    for leaf in leaves:
        if is_module(leaf):
            for _ in flatten(leaf)[0]:
                next(remaining)
            out.append(leaf)
        else:
            out.append(next(remaining))
    return unflatten(structure, out)


def _dtype(leaf: Any) -> np.dtype:
    return DEFAULT.real.numpy if isinstance(leaf, float | complex) else leaf.dtype


def _describe(leaf: Any) -> str:
    return f"{leaf.dtype.name}{list(leaf.shape)}" if isinstance(leaf, Array | np.ndarray) else f"{leaf!r} ({type(leaf).__name__})"


def _zero(leaf: Any) -> Any:
    """Return the gradient of a leaf that is not float: zeros for an array, the leaf itself otherwise."""
    if isinstance(leaf, Array | np.ndarray):
        zero = constant(0, DEFAULT.real)
        return wrap(bind(TABLE["broadcast_to"], zero, shape=tuple(leaf.shape)) if leaf.shape else zero)
    return leaf


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _call(f: Callable, args: list[Any], kwargs: dict[str, Any], arguments: Sequence[_Argument], what: str) -> Any:
    """Call ``f`` with the fresh nodes of ``arguments`` in place. ``what`` names the function in messages."""
    CONTEXT.retain_graph += 1
    CONTEXT.transform_depth += 1
    outer, land = CONTEXT.variables, True
    CONTEXT.variables = outer.union(*[a.nodes for a in arguments])
    copies = [copy for a in arguments for copy in a.copies]
    try:
        for a in arguments:
            a.enter()
        before = [read(array.cell) for array, _, _ in copies]
        try:
            out = f(*args, **kwargs)
            written = [
                array for (array, handle, fresh), node in zip(copies, before, strict=True)
                if handle._node is not fresh or read(array.cell) is not node
            ]
            if written and (shared := _find_alias(written, args, kwargs, arguments)) is not None:
                land = False
                for (array, _, _), node in zip(copies, before, strict=True):
                    write(array.cell, node)
                raise TraceError(
                    f"{user_line(user_frame())}: {what}: an array that is differentiated by (shape {shared.shape}) shares memory "
                    "with another argument, and one of them is written in place, so the derivative is ambiguous; give a copy "
                    "(.copy()) of one of them"
                )
            return out
        finally:
            for a in arguments:
                a.leave(land)
    finally:
        CONTEXT.variables = outer
        CONTEXT.retain_graph -= 1
        CONTEXT.transform_depth -= 1


def _find_alias(
    written: list[Array], args: Sequence[Any], kwargs: dict[str, Any], arguments: Sequence[_Argument],
) -> Array | None:
    """Return an array of ``written`` that shares memory with another argument, or None.

    A differentiated array is a variable of its own: its alias would not see the write.
    """
    copies = [copy for a in arguments for copy in a.copies]
    handles = {id(handle) for _, handle, _ in copies}
    candidates = [array for array, _, _ in copies] + [parameter for a in arguments for parameter, _, _ in a.swapped]
    candidates += [x for x in arrays_in([*args, kwargs]) if id(x) not in handles]
    for array in written:
        if sum([touch(array, other) for other in candidates]) > 1:  # itself, and another
            return array
    return None


def _numbers(argnums: int | Sequence[int], count: int, name: str) -> tuple[int, ...]:
    numbers = tuple(argnums) if hasattr(argnums, "__iter__") else (argnums,)
    if not all([type(n) is not bool and hasattr(type(n), "__index__") for n in numbers]):
        raise TypeError(f"grad of {name}: argnums must be an int or a sequence of ints, not {short(argnums)}")
    for n in numbers:
        if not -count <= n < count:
            raise ValueError(f"grad of {name}: argnums {argnums}, but the function was called with {count} positional arguments")
    return tuple(n % count for n in numbers)


def value_and_grad(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """Return a function that computes the value of ``f`` and its gradient.

    Parameters
    ----------
    f : function whose result is one float number; with ``has_aux``, (number, anything else)
    argnums : which positional arguments to differentiate by: Arrays, floats, or trees (dict, list, tuple, dataclass,
        module) of them. Leaves of a tree that are not float arrays are constants.
    has_aux : whether ``f`` returns something beside the number

    Returns
    -------
    function of the same arguments: (value, gradient), or ((value, aux), gradient). The gradient has the tree of the
    argument (a tuple of such for several ``argnums``).

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        When called: the result is not one number, or not float; an argument is not float; ``argnums`` names no argument.
    TraceError
        When called: ``f`` reads a value that depends on a differentiated argument (``float(x)``, ``x.numpy()``, functions that
        run in NumPy), whose derivative would be lost. ``wf.stop_gradient(x)``, integers and bools (so ``if x > 0``) may be
        read, and any value may be printed. Or ``f`` writes a differentiated array that shares memory with another argument.

    Examples
    --------
    >>> value, slope = wf.value_and_grad(lambda x: (x**2).sum())(wf.array([1.0, 2.0, 3.0]))
    >>> float(value), slope
    (14.0, array([2., 4., 6.], dtype=float32))
    """

    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        name = _name(f)
        numbers = _numbers(argnums, len(args), name)
        fresh_nodes: dict[int, Node] = {}
        chosen = {n: _Argument(args[n], f"grad of {name}: argument {n}", fresh_nodes) for n in numbers}
        called = [chosen[k].value if k in chosen else a for k, a in enumerate(args)]
        out = _call(f, called, kwargs, list(chosen.values()), f"grad of {name}")
        aux = None
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise TypeError(f"grad of {name}: with has_aux=True it must return (value, aux), not {type(out).__name__}")
            out, aux = out
        if not isinstance(out, Array | float | int):
            raise TypeError(f"grad of {name}: it must return one number, not {type(out).__name__}; has_aux=True allows more")
        node = as_node(float(out) if isinstance(out, int) else out)
        if node.shape not in ((), (1,)) and node.size != 1:
            raise ShapeError(f"grad of {name}: the result has shape {node.shape}, but must be one number: take .sum() or .mean()")
        if node.dtype in COMPLEX:
            raise DTypeError(
                f"grad of {name}: the result is {node.dtype.name}, but must be real: take wf.real(y) or wf.abs(y), or use wf.vjp"
            )
        if node.dtype not in FLOATS:
            raise DTypeError(f"grad of {name}: the result is {node.dtype.name}, but must be float")
        remaining = iter(backward([node], [constant(1, node.dtype)], [n for k in numbers for n in chosen[k].wrt]))
        gradients = [chosen[k].result(remaining) for k in numbers]
        value = out if isinstance(out, Array) else wrap(node)
        for a in chosen.values():
            value, aux = a.own(value), a.own(aux)
        gradient = gradients[0] if isinstance(argnums, int) else tuple(gradients)
        return ((value, aux) if has_aux else value), gradient

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return call_atomically(both, args, kwargs)

    return differentiated


def grad(f: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``f``. It can be differentiated again.

    Returns
    -------
    function of the same arguments: gradient, or (gradient, aux)

    Examples
    --------
    >>> cube = lambda x: x**3
    >>> float(wf.grad(wf.grad(cube))(wf.array(2.0)))
    12.0
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def vjp(f: Callable, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return ``f(*primals)``, and the function that maps cotangents of the result to gradients of ``primals``.

    Parameters
    ----------
    f : function of Arrays or trees that returns an Array or a tree of them
    primals : its arguments, float

    Returns
    -------
    (result, pullback) : ``pullback(cotangent)`` takes a tree like the result and returns a tuple with one gradient per argument

    Raises
    ------
    DTypeError
        An argument is not float.
    TraceError
        As :func:`value_and_grad`.
    ShapeError, ValueError
        From the pullback: a cotangent of another shape or structure than the result.

    Examples
    --------
    >>> y, pull = wf.vjp(lambda x: x * x, wf.array([1.0, 2.0]))
    >>> pull(wf.array([1.0, 10.0]))
    (array([ 2., 40.], dtype=float32),)
    """
    return call_atomically(_vjp, (f, primals), {})


def _vjp(f: Callable, primals: Sequence[Any]) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    name = _name(f)
    fresh_nodes: dict[int, Node] = {}
    chosen = [_Argument(p, f"vjp of {name}: argument {k}", fresh_nodes) for k, p in enumerate(primals)]
    out = _call(f, [c.value for c in chosen], {}, chosen, f"vjp of {name}")
    leaves, structure = flatten(out) if is_container(out) else ([out], None)
    nodes = [as_node(leaf) for leaf in leaves]
    slots = [input_leaf(n.shape, n.dtype) if n.dtype in INEXACT else None for n in nodes]
    pairs = [(n, s) for n, s in zip(nodes, slots, strict=True) if s is not None]
    for c in chosen:
        out = c.own(out)
    # the derivative is built now, because materialising the result may drop the graph later
    pulled = backward([n for n, _ in pairs], [s for _, s in pairs], [n for c in chosen for n in c.wrt])

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        leaves_given, shape = ([cotangent], None) if structure is None else flatten(cotangent)
        if structure is not None and shape != structure:
            raise ValueError(f"vjp of {name}: the cotangent has structure {shape}, the result has {structure}")
        mapping: dict[Node, tuple[Node, int | None]] = {}
        for slot, g in zip(slots, leaves_given, strict=True):
            if slot is None:
                continue
            g = cast(as_node(g, slot.dtype), slot.dtype)
            if g.shape != slot.shape:
                raise ShapeError(f"vjp of {name}: a cotangent has shape {g.shape}, its result {slot.shape}")
            mapping[slot] = (g, None)
        remaining = iter([node for node, _ in batch(pulled, mapping)])
        return tuple([c.result(remaining) for c in chosen])

    return out, pullback


complete_docs(value_and_grad, grad)
complete_each(vjp)
