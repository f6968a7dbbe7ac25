"""jvp and linearize: forward derivatives of functions of trees. The function's graph is walked once, from the arguments on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.array import wrap
from weft.graph.batching import BatchedNode, batch
from weft.graph.calls import use_up
from weft.graph.forward import forward
from weft.graph.node import Node, topological_order
from weft.graph.primitives.table import CONSTANT, input_leaf, is_placeholder
from weft.process.docstrings import complete_docs
from weft.runtime.context import CONTEXT
from weft.transforms.effect_order import ordered_effects
from weft.transforms.variables import Argument, evaluate, name_of
from weft.transforms.write_log import call_atomically


def jvp(fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return ``fun(*primals)`` and its derivative along ``tangents``.

    The derivative is computed beside the result, without keeping intermediate results: one direction costs two to three times
    the function, whatever the number of its results. For the gradient of one number see :func:`grad`.

    Parameters
    ----------
    fun : function of Arrays or trees that returns an Array or a tree of them; with ``has_aux``, (such a result, anything else)
    primals : tuple or list of its arguments: float Arrays, floats, or trees (dict, list, tuple, dataclass, module) of them
    tangents : tuple or list of directions, with the structures and shapes of ``primals``. Those of leaves that are not float
        are ignored.
    has_aux : whether ``fun`` returns something beside the result

    Returns
    -------
    (result, tangent), or (result, tangent, aux)
        ``tangent`` has the structure of the result; it is zero where the result is not float.

    Raises
    ------
    TypeError
        ``primals`` or ``tangents`` is not a tuple or list; with ``has_aux``, ``fun`` does not return a pair.
    ValueError, ShapeError, DTypeError
        Tangents differ from the primals in number, structure or shape, or are complex for real ones; an argument is not float.
    TraceError
        As :func:`value_and_grad`.

    References
    ----------
    Griewank, Walther: Evaluating derivatives. 2008.

    Examples
    --------
    >>> wf.jvp(lambda x: x * x, (wf.array([1.0, 2.0]),), (wf.array([1.0, 10.0]),))
    (array([1., 4.], dtype=float32), array([ 2., 40.], dtype=float32))

    The product of the second derivative with a vector, forward over reverse:

    >>> slope = wf.grad(lambda x: (x**3).sum())
    >>> wf.jvp(slope, (wf.array([1.0, 2.0]),), (wf.array([1.0, 0.0]),))[1]
    array([6., 0.], dtype=float32)
    """
    what = f"jvp of {name_of(fun)}"
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise TypeError(f"{what}: {name} is {type(given).__name__}, but must be a tuple or list with one entry an argument")
    return call_atomically(_jvp, (fun, primals, tangents, has_aux, what), {})


def _jvp(fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool, what: str) -> Any:
    e = evaluate(fun, primals, {}, range(len(primals)), has_aux, what)
    with ordered_effects() as effects:
        values, changes = forward(e.nodes, _directions(e.arguments, tangents, what))
    effects.keep([*effects.last])
    out, tangent = e.rebuild(values), e.unflatten_derivatives(changes)
    return (out, tangent, e.aux) if has_aux else (out, tangent)


def _directions(arguments: Sequence[Argument], tangents: Sequence[Any], what: str) -> dict[Node, Node]:
    """Return the tangent of each variable."""
    if len(tangents) != len(arguments):
        raise ValueError(f"{what}: {len(tangents)} tangents for {len(arguments)} arguments")
    out: dict[Node, Node] = {}
    for k, (a, t) in enumerate(zip(arguments, tangents, strict=True)):
        out = a.directions(t, f"{what}: tangent {k}") | out  # a parameter that occurs twice has the first of its tangents
    return out


def linearize(fun: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """Return ``fun(*primals)``, and the linear function that maps tangents of ``primals`` to the tangent of the result.

    Values that all directions need are computed once, with the result, and kept; those inside loops are computed at each call.

    Parameters
    ----------
    primals : its arguments: float Arrays, floats, or trees (dict, list, tuple, dataclass, module) of them

    Returns
    -------
    (result, pushforward), or (result, pushforward, aux)
        ``pushforward(*tangents)`` takes one tree an argument and returns a tree like the result.

    Raises
    ------
    TypeError
        With ``has_aux``, ``fun`` does not return a pair.
    DTypeError
        An argument is not float.
    TraceError
        As :func:`value_and_grad`.
    ValueError, ShapeError
        From the pushforward: tangents differ from the arguments in number, structure or shape.

    Examples
    --------
    >>> y, push = wf.linearize(wf.sin, wf.array(0.0))
    >>> [float(push(t)) for t in (1.0, 2.0)]
    [1.0, 2.0]
    """
    return call_atomically(_linearize, (fun, primals, has_aux), {})


def _linearize(fun: Callable, primals: Sequence[Any], has_aux: bool) -> Any:
    what = f"linearize of {name_of(fun)}"
    e = evaluate(fun, primals, {}, range(len(primals)), has_aux, what)
    slots = {v: input_leaf(v.shape, v.dtype) for v in e.variables}
    with ordered_effects() as effects:
        _, changes = forward(e.nodes, slots)
    out = e.rebuild(use_up(e.nodes, e.variables))
    linear, last = [t for t in changes if t is not None], effects.last
    kept = [wrap(n) for n in _constants(linear, slots)] if CONTEXT.trace is None else []  # computed together with the result

    def pushforward(*tangents: Any) -> Any:
        assert kept is not None
        given = _directions(e.arguments, tangents, what)
        mapping: dict[Node, BatchedNode] = {slots[v]: (t, None) for v, t in given.items()}
        moved = iter(effects.run([node for node, _ in batch([*linear, *last], mapping)]))
        return e.unflatten_derivatives([None if t is None else next(moved) for t in changes])

    return (out, pushforward, e.aux) if has_aux else (out, pushforward)


def _constants(linear: Sequence[Node], slots: dict[Node, Node]) -> list[Node]:
    """Return the pending nodes that linear nodes read and that do not depend on the slots."""
    moving = set(slots.values())
    found: dict[Node, None] = {}
    for node in topological_order(linear, stop=frozenset(moving)):
        if any(i in moving for i in node.inputs):
            moving.add(node)
            for i in node.inputs:
                while i.op.view and i.value is None:
                    i = i.inputs[0]
                if i not in moving and i.value is None and i.op is not CONSTANT and not is_placeholder(i):
                    found[i] = None
    return list(found)


complete_docs(jvp, linearize)
