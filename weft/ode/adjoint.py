"""Backsolve: gradients by the adjoint equation, solved from the last time back to the first.

The states at the returned times carry the rule of their derivative in a node that computes nothing. The walk of a gradient calls
the rule, and the simplification of graphs removes the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dtypes.api import is_inexact
from weft.eager.materialise import depends_on_variables
from weft.errors import TraceError
from weft.functions.creation.fill import full, zeros_like
from weft.functions.elementwise.ufuncs import stop_gradient
from weft.functions.shape.axes import concat, stack
from weft.graph.node import Node, Primitive
from weft.graph.primitives.common import front
from weft.graph.primitives.table import bind
from weft.ode.drive import Problem, Result, run
from weft.ode.states import lay_out
from weft.ode.steps import Slope
from weft.runtime.context import CONTEXT
from weft.transforms.control import scan
from weft.transforms.grad import vjp
from weft.transforms.tree import flatten_value, unflatten
from weft.transforms.vmap import vmap

UNWEIGHTED = 1e30  # the tolerance of integrals, whose errors do not grow


@dataclass(frozen=True)
class Backsolve:
    """Gradients by the adjoint equation, solved backwards in time with the same solver and tolerances.

    The memory does not grow with the number of steps. The gradients are those of the equation, not of the steps that were taken,
    so their errors have the size of the tolerances. Each interval between returned times starts from the returned state. The
    gradients flow to ``y0``, ``ts`` and the float arrays in ``args``; other arrays that are differentiated by are refused.

    References
    ----------
    Chen, Rubanova, Bettencourt and Duvenaud: Neural Ordinary Differential Equations. 2018.
    Kidger, Chen and Lyons: "Hey, that's not an ODE": Faster ODE Adjoints via Seminorms. 2021.

    Examples
    --------
    >>> import weft as wf
    >>> last = lambda rate: wf.ode.solve(
    ...     lambda t, y, rate: -rate * y, 1.0, [0.0, 2.0], args=rate, rtol=1e-5, adjoint=wf.ode.Backsolve()).ys[-1]
    >>> round(float(wf.grad(last)(1.0)), 4)
    -0.2707
    """


class _Rule:
    """The derivative rule of a node. All rules compare equal: the value of the node does not depend on its rule."""

    def __init__(self, pull: Callable[..., Sequence[Array]]) -> None:
        self.pull = pull

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rule)

    def __hash__(self) -> int:
        return hash(_Rule)


def _vjp(cotangent: Node, out: Node, ys: Node, *operands: Node, rule: _Rule) -> tuple[Node | None, ...]:
    CONTEXT.retain_graph += 1  # the walk that calls this rule needs the inputs of its nodes
    CONTEXT.transform_depth += 1
    try:
        return None, *[x.node for x in rule.pull(wrap(cotangent), wrap(out), *map(wrap, operands))]
    finally:
        CONTEXT.retain_graph -= 1
        CONTEXT.transform_depth -= 1


def _batch(inputs: Sequence[Node], dims: Sequence[int | None], rule: _Rule) -> tuple[Node, int | None]:
    """Return the node for all examples, whose rule is mapped over them. An operand that all share gets the sum of its parts."""
    if dims[0] is None:
        return inputs[0], None
    moved = [x if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)]
    axes = [None if d is None else 0 for d in dims]

    def pull(cotangent: Array, ys: Array, *operands: Array) -> Sequence[Array]:
        parts = vmap(lambda *given: tuple(rule.pull(*given)), in_axes=(0, 0, *axes[1:]))(cotangent, ys, *operands)
        return [part.sum(axis=0) if axis is None else part for part, axis in zip(parts, axes[1:], strict=True)]

    return bind(ADJOINT, *moved, rule=_Rule(pull)), 0


def _refuse_jvp(*_: Any, **params: Any) -> None:
    raise TypeError("jvp: Backsolve() has derivatives in reverse only (grad, vjp, jacrev): use adjoint=None")


ADJOINT = Primitive(
    "adjoint", "host", lambda ys, *operands, rule: (ys.shape, ys.dtype), lambda ys, *operands, rule: ys, None, _vjp, _batch,
    jvp=_refuse_jvp,
)


def run_with_adjoint(
    problem: Problem, slope_with: Callable[[Any], Slope], y: Array, times: Array, args: Any,
) -> Result:
    """Return the states at ``times``, with the gradient of the adjoint equation. slope_with : the slope for other arguments"""
    if not CONTEXT.variables:
        return run(problem, y, times)
    leaves, structure = flatten_value(args)
    floats = [k for k, x in enumerate(leaves) if _is_float(x)]
    given = [wrap(as_node(leaves[k])) for k in floats]

    def slope_of(values: Sequence[Array]) -> Slope:
        merged = [*leaves]
        for k, value in zip(floats, values, strict=True):
            merged[k] = value
        return slope_with(unflatten(structure, merged))

    fixed = [stop_gradient(x) for x in given]
    inner, start, grid = slope_of(fixed), stop_gradient(y), stop_gradient(times)
    if depends_on_variables(inner(grid[0], start).node):
        raise TraceError(
            "solve: f reads an array from outside that is differentiated by, but Backsolve() has derivatives by y0, ts and args "
            "only: pass the array in args, or use adjoint=None"
        )
    out = run(problem._replace(slope=inner), start, grid)

    def pull(cotangent: Array, ys: Array, y: Array, times: Array, *values: Array) -> Sequence[Array]:
        return _pull(problem, slope_of, cotangent, ys, times, values)

    rows = bind(ADJOINT, out.ys.node, y.node, times.node, *[x.node for x in given], rule=_Rule(pull))
    return out._replace(ys=wrap(rows))


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, Array | np.ndarray | np.generic) and is_inexact(x.dtype))


def _pull(
    problem: Problem, slope_of: Callable[[Sequence[Array]], Slope], cotangent: Array, ys: Array, times: Array,
    values: Sequence[Array],
) -> list[Array]:
    """Return the gradients by the first state, the times and the arguments."""
    integrals = [zeros_like(x) for x in values]
    layout, packed = lay_out((ys[0], ys[0], *integrals))
    counted = 2 * ys[0].size
    weight = concat([full(counted, (counted / packed.size) ** 0.5), full(packed.size - counted, UNWEIGHTED)]).astype(ys.dtype)

    def slope(t: Array, z: Array) -> Array:
        y, a, *_ = layout.unpack(z)
        rate, back = vjp(lambda y, *values: slope_of(values)(t, y), y, *values)
        return layout.pack([rate, *[-x for x in back(a)]])

    rtol, atol = [(x * weight if not isinstance(x, Array) or not x.shape else concat([x.reshape(-1)] * 2 + [
        full(packed.size - counted, UNWEIGHTED)])) for x in (problem.rtol, problem.atol)]
    backward = problem._replace(slope=slope, rtol=rtol, atol=atol)

    def interval(carry: tuple[Array, Any], row: tuple[Array, ...]) -> tuple[tuple[Array, Any], Array]:
        a, sums = carry
        start, end, y, jump = row
        a = a + jump
        result = run(backward, layout.pack([y, a, *sums]), stack([start, end]))
        _, a, *sums = layout.unpack(result.ys[-1])
        return (a, sums), (jump * slope_of(values)(start, y)).sum()

    rows = (times[1:], times[:-1], ys[1:], cotangent[1:])
    if times.shape[0] == 1:
        return [cotangent[0], zeros_like(times), *integrals]
    (a, sums), by_times = scan(interval, (zeros_like(ys[0]), integrals), rows, reverse=True)
    first = -(a * slope_of(values)(times[0], ys[0])).sum()
    return [a + cotangent[0], concat([first.reshape(1), by_times]).astype(times.dtype), *sums]
