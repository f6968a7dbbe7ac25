"""Variables: the arguments by which a transform differentiates, and the call of the user's function with them.

The nodes of the arguments are replaced by fresh ones, and the function is called. A module is passed as the same object: its
parameters hold the fresh nodes during the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array, make_placeholder, wrap
from weft.array.convert import as_node, cast
from weft.array.numpy_methods import element_strides
from weft.dtypes.api import is_inexact
from weft.dtypes.formats import COMPLEX, DEFAULT, INEXACT
from weft.errors import DTypeError, ShapeError, TraceError, short
from weft.graph.node import Node, Shape
from weft.graph.primitives.call import full
from weft.graph.primitives.table import TABLE, bind
from weft.graph.source_lines import user_frame, user_line
from weft.process.completion import complete_message
from weft.runtime.cell import read, write
from weft.runtime.context import CONTEXT
from weft.transforms.aliases import touch
from weft.transforms.trace import leave_traces_on_interrupt
from weft.transforms.tree import arrays_in, flatten, flatten_value, is_container, is_module, unflatten

_IDENTITY = TABLE["identity"]


class Argument:
    """One differentiated argument: the value passed to the function, and the nodes to differentiate by."""

    def __init__(self, value: Any, what: str, fresh_nodes: dict[int, Node], needs_floats: bool = True) -> None:
        """``fresh_nodes``: those of the parameters of earlier arguments, by id; a shared parameter is one variable.

        needs_floats : whether an argument without a float array is an error
        """
        self.label = what
        self.leaves: list[Any]
        if not is_container(value):
            self.leaves, self.structure = [value], None
        else:
            self.leaves, self.structure = flatten(value)
        in_modules = {id(x) for x in _module_arrays(value, self.structure, self.leaves)}
        self.nodes: list[Node | None] = []
        self.swapped_parameters: list[tuple[Array, Node, Node]] = []  # parameter of a module, its node, the fresh one
        self.copies: list[tuple[Array, Array, Node]] = []  # the caller's array, the array passed, its fresh node
        passed: list[Any] = []
        for leaf in self.leaves:
            if not isinstance(leaf, Array | float | complex | np.ndarray | np.generic) or not is_inexact(_dtype(leaf)):
                if self.structure is None and needs_floats:
                    fix = f"write {float(leaf)}" if type(leaf) is int else "cast it with .astype('float32')"
                    raise DTypeError(f"{what} is {_describe(leaf)}, but must be float: {fix}")
                self.nodes.append(None)
                passed.append(leaf)
                continue
            if id(leaf) in in_modules and id(leaf) in fresh_nodes:
                self.nodes.append(fresh_nodes[id(leaf)])
                passed.append(leaf)
                continue
            node = as_node(leaf)
            fresh = bind(_IDENTITY, node)
            self.nodes.append(fresh)
            if id(leaf) in in_modules:
                fresh_nodes[id(leaf)] = fresh
                assert isinstance(leaf, Array)
                self.swapped_parameters.append((leaf, node, fresh))
                passed.append(leaf)
            else:
                handle = make_placeholder(leaf, fresh, element_strides(leaf))
                if isinstance(leaf, Array):
                    self.copies.append((leaf, handle, fresh))
                passed.append(handle)
        if needs_floats and not any(n is not None for n in self.nodes):
            raise DTypeError(f"{what} holds no float array, so there is nothing to differentiate by{_hint_at_numpy(value)}")
        whole = self.structure is None or is_module(value)
        self.value = (value if is_module(value) else passed[0]) if whole else _replace_leaves(value, passed)

    def enter(self) -> None:
        for array, _, fresh in self.swapped_parameters:
            array._set(fresh)

    def leave(self, land: bool) -> None:
        """Restore the nodes of parameters that the function did not write. ``land``: write the other arguments it wrote"""
        for array, node, fresh in self.swapped_parameters:
            if array.node is fresh:
                array._set(node)
        for array, handle, fresh in self.copies:
            if land and handle._node is not fresh:
                array._set(handle._node)

    def replace_copies(self, result: Any) -> Any:
        """Replace, in a result of the function, passed arrays and views of them by the caller's arrays."""
        if isinstance(result, Array):
            cell = result.cell
            for array, handle, _ in self.copies:
                if cell is handle:
                    return array if result is handle else array._view(result._path)
        elif self.copies and is_container(result) and not is_module(result):
            leaves, structure = flatten(result, modules=False)
            return unflatten(structure, [self.replace_copies(leaf) for leaf in leaves])
        return result

    def result(self, gradients: Mapping[Node, Node], lead: Shape = ()) -> Any:
        """Return the gradients by the argument, in its structure. lead : further dimensions of each gradient, in front"""
        arrays = {n: wrap(gradients[n]) for n in dict.fromkeys(self.nodes) if n is not None}  # a shared parameter has one
        out = [zero(leaf, lead) if n is None else arrays[n] for n, leaf in zip(self.nodes, self.leaves, strict=True)]
        return unflatten(self.structure, out)

    def directions(self, tangent: Any, what: str) -> dict[Node, Node]:
        """Return the tangent of each float leaf, from a tree like the argument. Tangents of other leaves are ignored."""
        leaves = flatten_like(tangent, self.structure, what)
        pairs = zip(self.nodes, leaves, strict=True)
        return {n: matching(t, n, what, "argument") for n, t in pairs if n is not None}


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


def zero(leaf: Any, lead: Shape = ()) -> Any:
    """Return the derivative by a leaf that is not float: zeros for an array, the leaf itself otherwise."""
    return wrap(full(0, (*lead, *leaf.shape), DEFAULT.real)) if isinstance(leaf, Array | np.ndarray) else leaf


def flatten_like(tree: Any, structure: Any, what: str) -> list[Any]:
    """Return the leaves of a tree that must have a structure (None: one array)."""
    if structure is None:
        return [tree]
    leaves, found = flatten(tree) if is_container(tree) else ([tree], "one array")
    if found != structure:
        raise ValueError(f"{what} has structure {found}, but must have {structure}")
    return leaves


def matching(value: Any, like: Node, what: str, role: str) -> Node:
    """Return a tangent or cotangent as a node of the shape and dtype of ``like``, to which other floats are cast.

    role : of ``like``, in messages
    """
    node = as_node(value, like.dtype)
    if node.shape != like.shape:
        raise ShapeError(f"{what} has shape {node.shape}, but its {role} has {like.shape}: they must be equal")
    if node.dtype in COMPLEX and like.dtype not in COMPLEX:
        raise DTypeError(f"{what} is {node.dtype.name}, but its {role} is {like.dtype.name}: take wf.real(t)")
    return cast(node, like.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """A function's result for variables as arguments.

    variables : their nodes, each once. out, leaves, structure, nodes : the result, and its leaves; with ``aux`` beside it
    """

    arguments: list[Argument]
    variables: list[Node]
    out: Any
    leaves: list[Any]
    structure: Any
    nodes: list[Node]
    aux: Any

    def rebuild(self, nodes: Sequence[Node]) -> Any:
        """Return the result with those nodes for the leaves; leaves whose node is the same stay the same objects."""
        if all(a is b for a, b in zip(nodes, self.nodes, strict=True)):
            return self.out
        leaves = [x if a is b else wrap(a) for x, a, b in zip(self.leaves, nodes, self.nodes, strict=True)]
        return unflatten(self.structure, leaves)

    def unflatten_derivatives(self, nodes: Sequence[Node | None]) -> Any:
        """Return derivatives in the structure of the result; None is zero."""
        leaves = [
            wrap(full(0, n.shape, n.dtype if n.dtype in INEXACT else DEFAULT.real) if d is None else d)
            for n, d in zip(self.nodes, nodes, strict=True)
        ]
        return unflatten(self.structure, leaves)


def evaluate(
    fun: Callable, args: Sequence[Any], kwargs: dict[str, Any], numbers: Sequence[int], has_aux: bool, what: str,
    check: Callable[[Any, str], Any] | None = None,
) -> Evaluation:
    """Call ``fun`` with the arguments ``numbers`` as variables.

    what : "jvp of f", for messages. check : returns the function's result in an allowed form, or raises
    """
    fresh_nodes: dict[int, Node] = {}
    chosen = {n: Argument(args[n], f"{what}: argument {n}", fresh_nodes) for n in numbers}
    called = [chosen[k].value if k in chosen else a for k, a in enumerate(args)]
    arguments = list(chosen.values())
    out, aux = call_with_variables(fun, called, kwargs, arguments, what), None
    if has_aux:
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(f"{what}: with has_aux=True it must return (value, aux), not {type(out).__name__}")
        out, aux = out
    out = check(out, what) if check is not None else out
    leaves, structure = flatten_value(out)
    nodes = [as_node(x) for x in leaves]
    for a in arguments:
        out, aux, leaves = a.replace_copies(out), a.replace_copies(aux), [a.replace_copies(x) for x in leaves]
    variables = list(dict.fromkeys(n for a in arguments for n in a.nodes if n is not None))
    return Evaluation([chosen[n] for n in numbers], variables, out, leaves, structure, nodes, aux)


def name_of(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


@leave_traces_on_interrupt
def call_with_variables(f: Callable, args: list[Any], kwargs: dict[str, Any], arguments: Sequence[Argument], what: str) -> Any:
    """Call ``f`` with the fresh nodes of ``arguments`` in place. ``what`` names the function in messages."""
    CONTEXT.retain_graph += 1
    CONTEXT.transform_depth += 1
    CONTEXT.custom_rules += 1
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
        except TypeError as error:
            complete_message(error)
            raise
        finally:
            for a in arguments:
                a.leave(land)
    finally:
        CONTEXT.variables = outer
        CONTEXT.retain_graph -= 1
        CONTEXT.transform_depth -= 1
        CONTEXT.custom_rules -= 1


def _find_alias(
    written: list[Array], args: Sequence[Any], kwargs: dict[str, Any], arguments: Sequence[Argument],
) -> Array | None:
    """Return an array of ``written`` that shares memory with another argument, or None.

    A differentiated array is a variable of its own: its alias would not see the write.
    """
    copies = [copy for a in arguments for copy in a.copies]
    handles = {id(handle) for _, handle, _ in copies}
    candidates = [array for array, _, _ in copies] + [parameter for a in arguments for parameter, _, _ in a.swapped_parameters]
    candidates += [x for x in arrays_in([*args, kwargs]) if id(x) not in handles]
    for array in written:
        if sum([touch(array, other) for other in candidates]) > 1:  # itself, and another
            return array
    return None


def _hint_at_numpy(value: Any) -> str:
    """Return a hint if a module has NumPy arrays, which are constants."""
    names = [name for name, x in vars(value).items() if isinstance(x, np.ndarray)] if is_module(value) else []
    return f": {names[0]} is a NumPy array, a constant; self.{names[0]} = wf.array(...) is a parameter" if names else ""


def argument_numbers(argnums: int | Sequence[int], count: int, name: str) -> tuple[int, ...]:
    numbers = tuple(argnums) if hasattr(argnums, "__iter__") else (argnums,)
    if not all([type(n) is not bool and hasattr(type(n), "__index__") for n in numbers]):
        raise TypeError(f"grad of {name}: argnums must be an int or a sequence of ints, not {short(argnums)}")
    for n in numbers:
        if not -count <= n < count:
            fix = "" if count else ": give what it is differentiated by as an argument, such as wf.grad(loss)(model)"
            raise ValueError(
                f"grad of {name}: argnums {argnums}, but the function was called with {count} positional arguments{fix}"
            )
    return tuple(n % count for n in numbers)
