"""jacfwd, jacrev, hessian: full derivatives of functions of trees.

The forward or reverse derivative is a linear graph, which is evaluated for all unit vectors in one batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft.dtypes.formats import COMPLEX, FLOATS, INT64
from weft.errors import DTypeError, need_function
from weft.graph.batching import BatchedNode, batch
from weft.graph.calls import use_up
from weft.graph.forward import forward
from weft.graph.gradient import backward
from weft.graph.node import Node
from weft.graph.primitives.call import broadcast_to, call, cast, full, reshape, slice_axis
from weft.graph.primitives.common import front
from weft.graph.primitives.table import constant, input_leaf
from weft.process.docstrings import complete_docs
from weft.transforms.tree import unflatten
from weft.transforms.variables import Evaluation, argument_numbers, evaluate, name_of
from weft.transforms.write_log import call_atomically

Argnums = int | Sequence[int]


def jacfwd(fun: Callable, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``fun`` column by column, in forward mode.

    It costs about one evaluation of the derivative for each element of the arguments, all of them in one program. Use it for
    functions with few arguments and many results; for others :func:`jacrev`.

    Parameters
    ----------
    fun : function of Arrays or trees that returns a float Array or a tree of them; with ``has_aux``, (such a result, anything)
    argnums : which positional arguments to differentiate by: float Arrays, floats, or trees of them
    has_aux : whether ``fun`` returns something beside the result
    holomorphic : whether ``fun`` is a holomorphic function of complex arguments

    Returns
    -------
    function of the same arguments: jacobian, or (jacobian, aux)
        The tree of the result, with the tree of the argument (a tuple of such for several ``argnums``) in place of each leaf.
        Its leaves have the shape of the result's leaf, followed by that of the argument's leaf.

    Raises
    ------
    DTypeError, TypeError, ValueError
        When called: an argument or a result is not float, or is complex without ``holomorphic``; ``argnums`` names no argument;
        with ``has_aux``, ``fun`` does not return a pair.
    TraceError
        As :func:`value_and_grad`.

    References
    ----------
    Griewank, Walther: Evaluating derivatives. 2008.

    Examples
    --------
    >>> wf.jacfwd(lambda x: x[:2] * x[2])(wf.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]], dtype=float32)
    """
    return _jacobian(fun, argnums, has_aux, holomorphic, "jacfwd", _forward_blocks)


def jacrev(fun: Callable, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``fun`` row by row, in reverse mode.

    It costs about one evaluation of the derivative for each element of the result, all of them in one program.

    Examples
    --------
    >>> wf.jacrev(lambda x: x[:2] * x[2])(wf.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]], dtype=float32)
    """
    return _jacobian(fun, argnums, has_aux, holomorphic, "jacrev", _reverse_blocks)


def hessian(fun: Callable, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of ``fun``: ``jacfwd(jacrev(fun))``.

    Returns
    -------
    function of the same arguments: hessian, or (hessian, aux)
        The tree of the result, with the tree of the argument in place of each leaf, twice.

    Examples
    --------
    >>> wf.hessian(lambda x: (x**3).sum())(wf.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _jacobian(
    fun: Callable, argnums: Argnums, has_aux: bool, holomorphic: bool, name: str,
    blocks_of: Callable[[Evaluation], list[list[Node]]],
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian.

    blocks_of : returns the block of each leaf of the result and each variable
    """
    need_function(f"{name}: fun", fun, f"give the function, wf.{name}(f)(x), not its result")

    def compute(*args: Any, **kwargs: Any) -> Any:
        what = f"{name} of {name_of(fun)}"
        e = evaluate(fun, args, kwargs, argument_numbers(argnums, len(args), what), has_aux, what)
        _check_dtypes(e, holomorphic, what)
        leaves = []
        for node, blocks in zip(e.nodes, blocks_of(e), strict=True):
            of = dict(zip(e.variables, blocks, strict=True))
            parts = [a.result(of, node.shape) for a in e.arguments]
            leaves.append(parts[0] if isinstance(argnums, int) else tuple(parts))
        jacobian = unflatten(e.structure, leaves)
        return (jacobian, e.aux) if has_aux else jacobian

    @functools.wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        return call_atomically(compute, args, kwargs)

    return jacobian


def _check_dtypes(e: Evaluation, holomorphic: bool, what: str) -> None:
    """Raise DTypeError unless all arguments and results are real floats or, if ``holomorphic``, complex."""
    allowed, word = (COMPLEX, "complex, since holomorphic=True") if holomorphic else (FLOATS, "a real float")
    for role, nodes in (("an argument", e.variables), ("a result", e.nodes)):
        for node in nodes:
            if node.dtype not in allowed:
                more = "; holomorphic=True allows it" if node.dtype in COMPLEX else ""
                raise DTypeError(f"{what}: {role} is {node.dtype.name}{list(node.shape)}, but must be {word}{more}")


def _unit_vectors(slots: Sequence[Node]) -> dict[Node, BatchedNode]:
    """Return a batch for each slot: its parts of the unit vectors of all slots, of which there are as many as elements."""
    total, start = sum(s.size for s in slots), 0
    out: dict[Node, BatchedNode] = {}
    for s in slots:
        row, column = (call.iota(shape=(total, s.size), dtype=INT64, axis=axis) for axis in (0, 1))
        ones = call.equal(row, call.add(column, constant(start, INT64)))
        out[s] = reshape(cast(ones, s.dtype), (total, *s.shape)), 0
        start += s.size
    return out


def _evaluate_at_unit_vectors(nodes: Sequence[Node | None], slots: Sequence[Node], like: Sequence[Node]) -> list[Node]:
    """Return linear nodes, evaluated for all unit vectors of ``slots``, as matrices with a row for each vector.

    like : nodes of the same shapes, for nodes that are None, which stands for zero
    """
    total = sum(s.size for s in slots)
    found = iter(batch([n for n in nodes if n is not None], _unit_vectors(slots)))
    out = []
    for node, shown in zip(nodes, like, strict=True):
        x, dim = (full(0, shown.shape, shown.dtype), None) if node is None else next(found)
        x = broadcast_to(x, (total, *x.shape)) if dim is None else front(x, dim)
        out.append(reshape(x, (total, prod(shown.shape))))
    return out


def _forward_blocks(e: Evaluation) -> list[list[Node]]:
    """Return the blocks of the Jacobian, computed in forward mode: the columns are changes of the results."""
    slots = [input_leaf(v.shape, v.dtype) for v in e.variables]
    _, changes = forward(e.nodes, dict(zip(e.variables, slots, strict=True)))
    whole = [call.permute(x, axes=(1, 0)) for x in _evaluate_at_unit_vectors(changes, slots, e.nodes)]
    return [_split(x, 1, [(*n.shape, *v.shape) for v in e.variables], e.variables) for x, n in zip(whole, e.nodes, strict=True)]


def _reverse_blocks(e: Evaluation) -> list[list[Node]]:
    """Return the blocks of the Jacobian, computed in reverse mode: the rows are gradients of the results."""
    slots = [input_leaf(n.shape, n.dtype) for n in e.nodes]
    pulled = use_up(backward(e.nodes, slots, e.variables), e.variables)
    parts = [
        _split(x, 0, [(*n.shape, *v.shape) for n in e.nodes], e.nodes)
        for x, v in zip(_evaluate_at_unit_vectors(pulled, slots, e.variables), e.variables, strict=True)
    ]
    return [[p[k] for p in parts] for k in range(len(e.nodes))]


def _split(x: Node, axis: int, shapes: Sequence[tuple[int, ...]], of: Sequence[Node]) -> list[Node]:
    """Divide a matrix along an axis into a part for each node of ``of``, reshaped to ``shapes``."""
    start, out = 0, []
    for shape, n in zip(shapes, of, strict=True):
        part = x if len(of) == 1 else slice_axis(x, axis, start, start + n.size)
        out.append(reshape(part, shape))
        start += n.size
    return out


complete_docs(jacfwd, jacrev, hessian)
