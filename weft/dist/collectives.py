"""The functions of ``wf.dist`` on arrays: collectives, which all ranks of a group call in the same order, and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dist.groups import Group, check_rank, everybody
from weft.dist.primitives import (
    ALL_GATHER,
    ALL_SUM,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    RECV,
    REDUCE_SCATTER,
    SEND,
    SPREAD,
)
from weft.dist.world import user_place, world
from weft.eager.apply import bind
from weft.errors import short
from weft.graph.node import Node, Primitive
from weft.graph.primitives.call import reshape
from weft.transforms.effect_order import run_effect


def _group(name: str, group: Group | None) -> Group:
    if group is None:
        return everybody()
    if not isinstance(group, Group):
        raise TypeError(f"{name}: group is {short(group)}, but must be a result of wf.dist.group")
    if group.rank is None:
        ranks = list(group.ranks)
        raise ValueError(f"{name}: rank {world().rank} is not in the group of ranks {ranks}: only members may call it")
    return group


def _run(
    op: Primitive, name: str, x: Any, group: Group | None, alone: Callable[[Node], Node] = lambda node: node, **params: Any,
) -> Array:
    """Return the result of a collective. ``alone`` computes it from ``x`` on the only rank of a group, where nothing is sent."""
    node, members = as_node(x), _group(name, group)
    if members.size == 1:
        op.rule(node, None, what=name, group=members, **params)  # raises errors of shape and dtype
        return wrap(alone(node))
    return wrap(run_effect(op, node, what=name, place=user_place(), group=members, **params))


def all_sum(x: Any, group: Group | None = None) -> Array:
    """Return the sum of ``x`` over the ranks, on all of them.

    The order of the sum depends on the number of ranks only, so every run gives the same bits, on all ranks, with any MPI.
    float16 and bfloat16 are added up in float32 and rounded once.

    Parameters
    ----------
    x : array or number, of one shape and dtype on all ranks; integers, floats or complex
    group : result of :func:`group`; all ranks if None

    Returns
    -------
    Array : of the shape and dtype of ``x``. The sum is one number of the job, and so is a loss made of it. All ranks must compute
        the same loss; it is counted once, so the gradient by ``x`` is the derivative of that loss by this rank's ``x``. Its
        second derivatives count what all ranks change: if each moves its ``x`` by 1, the sum moves by the number of ranks

    Raises
    ------
    DTypeError
        ``x`` is bool, or a format without sums.
    TypeError, ValueError
        ``group`` is no group, or this rank is not in it.
    CollectiveError
        Another rank asks for something else, or does not come within ``patience`` seconds.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.dist.all_sum(wf.array(2.0))) == 2 * wf.dist.size()
    True
    """
    return _run(ALL_SUM, "all_sum", x, group)


def copy_to_ranks(x: Any, group: Group | None = None) -> Array:
    """Return ``x``, one number of the job, as each rank's own: the derivative by ``x`` is the sum over what all ranks make of it.

    It is what the derivative of :func:`all_sum` does to its cotangent, and the beginning of a layer that is divided among ranks.
    """
    node, members = as_node(x), _group("copy_to_ranks", group)
    return wrap(node if members.size == 1 else bind(SPREAD, node, what="copy_to_ranks", place=user_place(), group=members))


def all_gather(x: Any, group: Group | None = None) -> Array:
    """Return the arrays of all ranks, stacked along a new first axis.

    Parameters
    ----------
    x : array or number, of one shape and dtype on all ranks
    group : as for :func:`all_sum`

    Returns
    -------
    Array : row r is that of rank r. The derivative is the sum, over the ranks, of the cotangents of this rank's row

    Raises
    ------
    TypeError, ValueError, CollectiveError
        As :func:`all_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.dist.all_gather(wf.array([1.0, 2.0])).shape == (wf.dist.size(), 2)
    True
    """
    return _run(ALL_GATHER, "all_gather", x, group, lambda node: reshape(node, (1, *node.shape)))


def reduce_scatter(x: Any, group: Group | None = None) -> Array:
    """Return this rank's row of the sum of ``x`` over the ranks. The order of the sum is that of :func:`all_sum`.

    Parameters
    ----------
    x : array with one row a rank, of one shape and dtype on all ranks
    group : as for :func:`all_sum`

    Returns
    -------
    Array : of the shape of a row. Its derivative is :func:`all_gather`

    Raises
    ------
    ShapeError
        ``x`` has another number of rows than there are ranks.
    DTypeError, TypeError, ValueError, CollectiveError
        As :func:`all_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.dist.reduce_scatter(wf.ones((wf.dist.size(), 3))).shape
    (3,)
    """
    return _run(REDUCE_SCATTER, "reduce_scatter", x, group, lambda node: reshape(node, node.shape[1:]))


def all_to_all(x: Any, group: Group | None = None) -> Array:
    """Return the rows that the ranks have for this one: row r of the result is this rank's row of rank r's ``x``.

    Parameters
    ----------
    x : array with one row a rank, of one shape and dtype on all ranks
    group : as for :func:`all_sum`

    Returns
    -------
    Array : of the shape of ``x``. Its derivative is :func:`all_to_all`

    Raises
    ------
    ShapeError
        ``x`` has another number of rows than there are ranks.
    TypeError, ValueError, CollectiveError
        As :func:`all_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> n = wf.dist.size()
    >>> bool((wf.dist.all_to_all(wf.full(n, wf.dist.rank())) == wf.arange(n)).all())
    True
    """
    return _run(ALL_TO_ALL, "all_to_all", x, group)


def broadcast(x: Any, root: int = 0, group: Group | None = None) -> Array:
    """Return the root's ``x``, on all ranks.

    Parameters
    ----------
    x : array or number, of one shape and dtype on all ranks
    root : the rank whose array it is; with ``group`` its place in the group
    group : as for :func:`all_sum`

    Returns
    -------
    Array : its derivative is, on the root, the sum of all cotangents, and zero elsewhere

    Raises
    ------
    TypeError, ValueError
        ``root`` is not an int, or no rank; or as :func:`all_sum`.
    CollectiveError
        As :func:`all_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.dist.broadcast(wf.array(wf.dist.rank() + 1.0)))
    1.0
    """
    root = check_rank("broadcast", "root", root, _group("broadcast", group).size)
    return _run(BROADCAST, "broadcast", x, group, root=root)


def barrier(group: Group | None = None) -> None:
    """Return when all ranks have called it.

    Parameters
    ----------
    group : as for :func:`all_sum`

    Raises
    ------
    TypeError, ValueError, CollectiveError
        As :func:`all_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.dist.barrier()
    """
    _run(BARRIER, "barrier", 0, group)


def send(x: Any, to: int) -> Array:
    """Send an array to another rank, which must call :func:`recv`. This rank does not wait for it.

    Parameters
    ----------
    x : array or number
    to : the other rank

    Returns
    -------
    Array : the number 0, in the dtype of ``x``. Added to what this rank differentiates, it leads the derivative to ``x``: the
        cotangent comes from the other rank, whose gradient must be computed, too. Messages inside of loops have no derivative

    Raises
    ------
    TypeError, ValueError
        ``to`` is not an int, or not another rank of the job.
    CollectiveError
        A message was interrupted before. At the end of the script: the other rank has not received the array.

    Examples
    --------
    The first rank computes a layer, the last one the loss; both call ``grad``:

    >>> import weft as wf
    >>> def stage(w):
    ...     if wf.dist.size() == 1:
    ...         return wf.tanh(w).sum()
    ...     if wf.dist.rank() == 0:
    ...         return wf.dist.send(wf.tanh(w), to=1)
    ...     return wf.dist.recv(w, source=0).sum() if wf.dist.rank() == 1 else w.sum()
    >>> wf.grad(stage)(wf.zeros(2))
    array([1., 1.], dtype=float32)
    """
    node, peer = as_node(x), _other_rank("send", "to", to)
    return wrap(run_effect(SEND, node, what=f"send to rank {peer}", place=user_place(), peer=peer, backward=False))


def recv(like: Any, source: int) -> Array:
    """Return the next array that another rank sends to this one.

    Parameters
    ----------
    like : array or number of the shape and dtype of the message; its content is not read
    source : the other rank

    Returns
    -------
    Array : its derivative goes back to the other rank: see :func:`send`

    Raises
    ------
    TypeError, ValueError
        ``source`` is not an int, or not another rank of the job.
    CollectiveError
        Nothing comes within ``patience`` seconds, or an array of another shape or dtype.

    Examples
    --------
    >>> import weft as wf
    >>> if wf.dist.size() > 1:
    ...     right, left = (wf.dist.rank() + 1) % wf.dist.size(), (wf.dist.rank() - 1) % wf.dist.size()
    ...     _ = wf.dist.send(wf.arange(3), to=right)
    ...     print(wf.dist.recv(wf.arange(3), source=left))
    """
    node, peer = as_node(like), _other_rank("recv", "source", source)
    return wrap(run_effect(RECV, node, what=f"recv from rank {peer}", place=user_place(), peer=peer, backward=False))


def _other_rank(function: str, name: str, value: Any) -> int:
    number = check_rank(function, name, value, world().size)
    if number == world().rank:
        raise ValueError(f"{function}: {name} is {number}, this rank itself")
    return number
