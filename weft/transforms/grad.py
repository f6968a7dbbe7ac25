"""grad, value_and_grad, vjp: reverse derivatives of functions of trees. The function is called with variables as arguments, see
``variables.py``, and its graph is walked backwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dtypes.formats import COMPLEX, FLOATS, INEXACT
from weft.errors import DTypeError, ShapeError, need_function
from weft.graph.batching import BatchedNode, batch
from weft.graph.calls import use_up
from weft.graph.gradient import backward
from weft.graph.node import Node
from weft.graph.primitives.table import constant, input_leaf
from weft.process.docstrings import complete_docs, complete_each
from weft.transforms.effect_order import ordered_effects
from weft.transforms.taps import Taps
from weft.transforms.variables import argument_numbers, evaluate, flatten_like, matching, name_of
from weft.transforms.write_log import call_atomically


def _one_number(out: Any, what: str) -> Any:
    """Return the result of a function, which must be one real number."""
    if not isinstance(out, Array | float | int):
        raise TypeError(f"{what}: it must return one number, not {type(out).__name__}; has_aux=True allows more")
    out = float(out) if isinstance(out, int) else out
    node = as_node(out)
    if node.shape not in ((), (1,)) and node.size != 1:
        raise ShapeError(f"{what}: the result has shape {node.shape}, but must be one number: take .sum() or .mean()")
    if node.dtype in COMPLEX:
        raise DTypeError(
            f"{what}: the result is {node.dtype.name}, but must be real: take wf.real(y) or wf.abs(y), or use wf.vjp"
        )
    if node.dtype not in FLOATS:
        raise DTypeError(f"{what}: the result is {node.dtype.name}, but must be float")
    return out


def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """Return a function that computes the value of ``fun`` and its gradient.

    Parameters
    ----------
    fun : function whose result is one float number; with ``has_aux``, (number, anything else)
    argnums : which positional arguments to differentiate by: Arrays, floats, or trees (dict, list, tuple, dataclass,
        module) of them. Leaves of a tree that are not float arrays are constants.
    has_aux : whether ``fun`` returns something beside the number

    Returns
    -------
    function of the same arguments: (value, gradient), or ((value, aux), gradient). The gradient has the tree of the
    argument (a tuple of such for several ``argnums``).

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        When called: the result is not one number, or not float; an argument is not float; ``argnums`` names no argument.
    TraceError
        When called: ``fun`` reads a value that depends on a differentiated argument (``float(x)``, ``x.numpy()``, functions that
        run in NumPy), whose derivative would be lost. ``wf.stop_gradient(x)``, integers and bools (so ``if x > 0``) may be
        read, and any value may be printed. Or ``fun`` writes a differentiated array that shares memory with another argument.

    Examples
    --------
    >>> value, slope = wf.value_and_grad(lambda x: (x**2).sum())(wf.array([1.0, 2.0, 3.0]))
    >>> float(value), slope
    (14.0, array([2., 4., 6.], dtype=float32))
    """
    need_function("value_and_grad: fun", fun, "give the loss, wf.value_and_grad(loss)(model, x), not its value")

    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        name = name_of(fun)
        numbers = argument_numbers(argnums, len(args), name)
        with Taps() as taps:
            e = evaluate(fun, args, kwargs, numbers, has_aux, f"grad of {name}", _one_number)
        (node,) = e.nodes
        variables = [*e.variables, *taps.nodes]
        with ordered_effects() as effects:
            gradients = backward([node], [constant(1, node.dtype)], variables)
        node, *gradients = effects.keep(use_up([node, *gradients, *effects.last], variables))
        of = dict(zip(variables, gradients, strict=True))
        taps.deliver(of)
        value = e.rebuild([node])
        if not isinstance(value, Array):
            value = wrap(node)
        gradient = [a.result(of) for a in e.arguments]
        return ((value, e.aux) if has_aux else value), gradient[0] if isinstance(argnums, int) else tuple(gradient)

    @functools.wraps(fun)
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return call_atomically(both, args, kwargs)

    return differentiated


def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``fun``. It can be differentiated again.

    Returns
    -------
    function of the same arguments: gradient, or (gradient, aux)

    Examples
    --------
    >>> cube = lambda x: x**3
    >>> float(wf.grad(wf.grad(cube))(wf.array(2.0)))
    12.0
    """
    need_function("grad: fun", fun, "give the loss, wf.grad(loss)(model, x), not its value")
    both = value_and_grad(fun, argnums, has_aux)

    @functools.wraps(fun)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def vjp(fun: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """Return ``fun(*primals)``, and the function that maps cotangents of the result to gradients of ``primals``.

    Parameters
    ----------
    fun : function of Arrays or trees that returns an Array or a tree of them; with ``has_aux``, (such a result, anything else)
    primals : its arguments, float
    has_aux : whether ``fun`` returns something beside the result

    Returns
    -------
    (result, pullback), or (result, pullback, aux)
        ``pullback(cotangent)`` takes a tree like the result and returns a tuple with one gradient per argument.

    Raises
    ------
    DTypeError
        An argument is not float.
    TypeError
        With ``has_aux``, ``fun`` does not return a pair.
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
    return call_atomically(_vjp, (fun, primals, has_aux), {})


def _vjp(fun: Callable, primals: Sequence[Any], has_aux: bool) -> Any:
    what = f"vjp of {name_of(fun)}"
    e = evaluate(fun, primals, {}, range(len(primals)), has_aux, what)
    slots = [input_leaf(n.shape, n.dtype) if n.dtype in INEXACT else None for n in e.nodes]
    pairs = [(n, s) for n, s in zip(e.nodes, slots, strict=True) if s is not None]
    # the derivative is built now, because materialising the result may drop the graph later
    with ordered_effects() as effects:
        pulled = backward([n for n, _ in pairs], [s for _, s in pairs], e.variables)
    ends = use_up([*e.nodes, *pulled, *effects.last], e.variables)
    out, pulled = e.rebuild(ends[: len(e.nodes)]), ends[len(e.nodes) :]

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        leaves = flatten_like(cotangent, e.structure, f"{what}: the cotangent")
        given = [(s, g) for s, g in zip(slots, leaves, strict=True) if s is not None]
        mapping: dict[Node, BatchedNode] = {s: (matching(g, s, f"{what}: a cotangent", "result"), None) for s, g in given}
        gradients = dict(zip(e.variables, effects.run([node for node, _ in batch(pulled, mapping)]), strict=True))
        return tuple([a.result(gradients) for a in e.arguments])

    return (out, pullback, e.aux) if has_aux else (out, pullback)


complete_docs(value_and_grad, grad)
complete_each(vjp)
