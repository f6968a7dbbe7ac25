"""grad, value_and_grad, vjp: reverse derivatives of functions of trees. The function is called with variables as arguments, see
``variables.py``, and its graph is walked backwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import as_node, cast
from weft.dtypes.formats import COMPLEX, FLOATS, INEXACT
from weft.errors import DTypeError, ShapeError
from weft.graph.batching import batch
from weft.graph.gradient import backward
from weft.graph.node import Node
from weft.graph.primitives.table import constant, input_leaf
from weft.process.docstrings import complete_docs, complete_each
from weft.transforms.tree import flatten, is_container
from weft.transforms.variables import Argument, argument_numbers, call_with_variables, name_of
from weft.transforms.write_log import call_atomically


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
        name = name_of(f)
        numbers = argument_numbers(argnums, len(args), name)
        fresh_nodes: dict[int, Node] = {}
        chosen = {n: Argument(args[n], f"grad of {name}: argument {n}", fresh_nodes) for n in numbers}
        called = [chosen[k].value if k in chosen else a for k, a in enumerate(args)]
        out = call_with_variables(f, called, kwargs, list(chosen.values()), f"grad of {name}")
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
        wrt = [n for k in numbers for n in chosen[k].nodes if n is not None]
        all_gradients = backward([node], [constant(1, node.dtype)], wrt)
        gradients, at = [], 0
        for k in numbers:
            count = sum(n is not None for n in chosen[k].nodes)
            gradients.append(chosen[k].result(all_gradients[at : at + count]))
            at += count
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
    name = name_of(f)
    fresh_nodes: dict[int, Node] = {}
    chosen = [Argument(p, f"vjp of {name}: argument {k}", fresh_nodes) for k, p in enumerate(primals)]
    out = call_with_variables(f, [c.value for c in chosen], {}, chosen, f"vjp of {name}")
    leaves, structure = flatten(out) if is_container(out) else ([out], None)
    nodes = [as_node(leaf) for leaf in leaves]
    slots = [input_leaf(n.shape, n.dtype) if n.dtype in INEXACT else None for n in nodes]
    pairs = [(n, s) for n, s in zip(nodes, slots, strict=True) if s is not None]
    wrt = [n for c in chosen for n in c.nodes if n is not None]
    for c in chosen:
        out = c.own(out)
    # the derivative is built now, because materialising the result may drop the graph later
    pulled = backward([n for n, _ in pairs], [s for _, s in pairs], wrt)

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
        return tuple(c.result([next(remaining) for n in c.nodes if n is not None]) for c in chosen)

    return out, pullback


complete_docs(value_and_grad, grad)
complete_each(vjp)
