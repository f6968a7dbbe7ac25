"""The primitives of collectives and messages: host steps that are effects, with derivatives and batching rules.

They are not in ``TABLE``: tests run its entries on samples, and the results here depend on other processes.

The derivative of a rank's result counts for the sum of what all ranks differentiate: that of a gather is the sum of the
cotangents of this rank's part, and so on. ``all_sum`` is the exception: its result is one number of the job, and its cotangent,
equal on all ranks, is counted once. The rule of ``all_sum`` is ``spread``, which makes the number of the job each rank's own: its
value is its operand, and its derivative is ``all_sum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.devices.steps import DeviceStep
from weft.dist import algorithms, card_algorithms, messages
from weft.dist.algorithms import SHORT_BYTES, Link
from weft.dist.exchanges import Exchange
from weft.dist.groups import Group
from weft.dist.nccl import agree_on_way
from weft.dist.together import run_together
from weft.dist.world import world
from weft.dtypes.formats import FROM_NUMPY, INT32, Format
from weft.errors import DTypeError, ShapeError
from weft.graph.effects import add_effect, turn_after
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives.call import permute
from weft.graph.primitives.common import front, moving
from weft.graph.primitives.table import bind

Dims = Sequence[int | None]
_HAVE_SUMS = frozenset(
    FROM_NUMPY[np.dtype(name)] for name in
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
) | {f for f in FROM_NUMPY.values() if f.name == "bfloat16"}


def _together(algorithm: Callable[..., np.ndarray | None], on_cards: bool) -> Callable[..., np.ndarray]:
    """Return the reference of a collective, which compares what the ranks ask for and then runs the algorithm."""

    def by_host(link: Link, x: np.ndarray, **params: Any) -> np.ndarray | None:
        if on_cards:
            agree_on_way(link, None)
        return algorithm(link, x, **params)

    def reference(x: np.ndarray, turn: Any, what: str, place: str, group: Group, **params: Any) -> np.ndarray:
        out = run_together(by_host, _request(what, x.dtype, x.shape, group, params), place, group.ranks, x, **params)
        return x if out is None else out

    return reference


def _on_card(name: str, algorithm: Callable[..., np.ndarray | None]) -> Callable[..., np.ndarray | None]:
    """Return the collective in a card's memory: None as its result, or that of the host if the ranks have no other way."""

    def run(link: Link, step: DeviceStep, **params: Any) -> np.ndarray | None:
        communicator = agree_on_way(link, step)
        if communicator is None:
            return algorithm(link, step.fetch(), **params)
        card_algorithms.run(name, link, communicator, step, **params)
        return None

    def on_device(step: DeviceStep, what: str, place: str, group: Group, **params: Any) -> np.ndarray | None:
        request = _request(what, step.dtype.numpy, step.shape, group, params)
        return run_together(run, request, place, group.ranks, step, **params)

    return on_device


def _request(what: str, dtype: np.dtype, shape: Shape, group: Group, params: dict[str, Any]) -> str:
    options = "".join(f" with {name}={value}" for name, value in params.items())
    some = f" among ranks {list(group.ranks)}" if group.ranks != tuple(range(world().size)) else ""
    return f"{what} of {dtype}{list(shape)}{options}{some}"


def _same(x: Node, turn: Node, what: str, **params: Any) -> tuple[Shape, Format]:
    return x.shape, x.dtype


def _check_sum(x: Node, turn: Node, what: str, **params: Any) -> tuple[Shape, Format]:
    if x.dtype not in _HAVE_SUMS:
        raise DTypeError(f"{what}: x is {x.dtype.name}{list(x.shape)}, which has no sum over ranks: cast it, as to int32")
    return x.shape, x.dtype


def _check_rows(x: Node, turn: Node, what: str, group: Group, **params: Any) -> tuple[Shape, Format]:
    if not x.shape or x.shape[0] != group.size:
        raise ShapeError(f"{what}: x has shape {x.shape}, but must have one row a rank: {group.size} rows")
    return x.shape, x.dtype


def _check_rows_of_sum(x: Node, turn: Node, what: str, group: Group, **params: Any) -> tuple[Shape, Format]:
    _check_sum(x, turn, what)
    _check_rows(x, turn, what, group)
    return x.shape[1:], x.dtype


def _to_root(link: Link, x: np.ndarray, root: int) -> np.ndarray:
    total = algorithms.all_sum(link, x)
    return total if link.me == root else np.zeros_like(x)


# ---- derivatives and batches


def _derivative(name: str) -> Callable[..., tuple[Node | None, None]]:
    """Return the rule of a collective whose transpose is another one. Its line is that of the collective itself."""

    def vjp(g: Node, out: Node, x: Node, turn: Node, what: str, **params: Any) -> tuple[Node, None]:
        return add_effect(_ENTRIES[name], g, what=f"the derivative of {what}", **params), None

    return vjp


def _tangent(name: str) -> Callable[..., Node | None]:
    """Return the forward rule of a linear collective: itself, of the tangents."""

    def jvp(tangents: Sequence[Node | None], out: Node, x: Node, turn: Node, what: str, **params: Any) -> Node | None:
        given = tangents[0]
        return None if given is None else add_effect(_ENTRIES[name], given, what=f"the tangent of {what}", **params)

    return jvp


def _one_turn(turn: Node) -> Node:
    """Return one turn, of those of all examples if a loop has made them examples."""
    return turn_after(turn) if turn.shape else turn


def _batch(name: str, behind: bool, shift: int) -> Callable[..., tuple[Node, int | None]]:
    """Return the batching rule: one collective for all examples.

    behind : whether the ranks' rows stay the first axis of the operand. shift : of the batch axis, from operand to result
    """

    def batch(inputs: Sequence[Node], dims: Dims, **params: Any) -> tuple[Node, int | None]:
        (x, turn), d = inputs, dims[0]
        if d == 0 and behind:
            x, d = permute(x, (1, 0, *range(2, len(x.shape)))), 1
        return bind(_ENTRIES[name], x, _one_turn(turn), **params), None if d is None else d + shift

    return batch


# ---- beside the program


def _make_beginning(name: str, reference: Callable[..., np.ndarray], of_copy: Callable[..., np.ndarray]) -> Primitive:
    """Return the primitive that begins a collective and returns its ``number``, for ``_FINISH``.

    of_copy : the collective of an operand that it may overwrite
    """

    def begin(x: np.ndarray, turn: Any, number: int, at_once: bool = False, **params: Any) -> np.ndarray:
        job = world()
        exchange: Exchange | np.ndarray
        is_short = x.nbytes <= SHORT_BYTES and job.exchanges.is_idle  # a thread costs more
        if not job.overlaps or at_once or is_short or job.is_elsewhere():  # ``reference`` refuses the latter
            exchange = reference(x, turn, **params)
        else:
            exchange = job.exchanges.begin(partial(of_copy, np.array(x, order="C"), turn, **params))
        job.exchanges.keep(number, exchange)
        return np.asarray(number, np.int32)

    return Primitive(f"dist_begin_{name}", "host", lambda *inputs, **params: ((), INT32), begin, raises=True, timing="early")


def _finish(number: np.ndarray) -> np.ndarray:
    return world().exchanges.take(int(number))


_FINISH = Primitive("dist_finish", "host", lambda *inputs: ((), INT32), _finish, raises=True, timing="late")

_ENTRIES: dict[str, Primitive] = {}


def _enter(name: str, rule: Any, algorithm: Any, vjp: Any, behind: bool = False, shift: int = 0) -> Primitive:
    on_cards = name in card_algorithms.BY_NAME
    reference = _together(algorithm, on_cards)
    of_copy = _together(partial(algorithm, in_place=True), on_cards) if name == "all_sum" else reference
    entry = _ENTRIES[name] = Primitive(
        f"dist_{name}", "host", rule, reference, None, vjp, _batch(name, behind, shift), moving, raises=True, effect=True,
        jvp=_tangent(name), on_device=_on_card(name, algorithm) if on_cards else None,
        halves=(_make_beginning(name, reference, of_copy), _FINISH),
    )
    return entry


def _barrier(link: Link, x: np.ndarray) -> None:
    algorithms.barrier(link)


def _spread(x: Node, **params: Any) -> Node:
    return bind(SPREAD, x, **params)


SPREAD = Primitive(  # the simplifier removes it
    "dist_spread", "host", lambda x, **params: (x.shape, x.dtype), lambda x, **params: x, None,
    lambda g, out, x, what, **params: (add_effect(_ENTRIES["all_sum"], g, what=f"the second derivative of {what}", **params),),
    lambda inputs, dims, **params: (_spread(inputs[0], **params), dims[0]), moving,
    jvp=lambda tangents, out, x, **params: _spread(tangents[0], **params),
)
ALL_SUM = _enter("all_sum", _check_sum, algorithms.all_sum, lambda g, out, x, turn, **params: (_spread(g, **params), None))
ALL_GATHER = _enter(
    "all_gather", lambda x, turn, group, **params: ((group.size, *x.shape), x.dtype), algorithms.all_gather,
    _derivative("reduce_scatter"), shift=1,
)
REDUCE_SCATTER = _enter(
    "reduce_scatter", _check_rows_of_sum, algorithms.reduce_scatter, _derivative("all_gather"), behind=True, shift=-1,
)
ALL_TO_ALL = _enter("all_to_all", _check_rows, algorithms.all_to_all, _derivative("all_to_all"), behind=True)
BROADCAST = _enter("broadcast", _same, algorithms.broadcast, _derivative("reduce"))
REDUCE = _enter("reduce", _check_sum, _to_root, _derivative("broadcast"))  # the sum at the root, zeros elsewhere
BARRIER = _enter("barrier", _same, _barrier, lambda g, *rest, **params: (g, None))

# ---- messages


def _send(x: np.ndarray, turn: Any, what: str, place: str, peer: int, backward: bool) -> np.ndarray:
    messages.send(x, peer, place, backward)
    return np.zeros((), x.dtype)


def _receive(like: np.ndarray, turn: Any, what: str, place: str, peer: int, backward: bool) -> np.ndarray:
    return messages.receive(like.shape, like.dtype, peer, place, backward)


def _send_vjp(g: Node, out: Node, x: Node, turn: Node, what: str, place: str, peer: int, backward: bool) -> tuple[Node, None]:
    return add_effect(RECV, x, what=f"the derivative of {what}", place=place, peer=peer, backward=not backward), None


def _recv_vjp(
    g: Node, out: Node, like: Node, turn: Node, what: str, place: str, peer: int, backward: bool,
) -> tuple[None, None]:
    add_effect(SEND, g, what=f"the derivative of {what}", place=place, peer=peer, backward=not backward)
    return None, None


def _no_tangent(tangents: Sequence[Node | None], out: Node, *inputs: Node, what: str, **params: Any) -> Node:
    raise TypeError(f"jvp: {what} has no forward derivative: use grad")


def _batch_send(inputs: Sequence[Node], dims: Dims, **params: Any) -> tuple[Node, None]:
    return bind(SEND, front(inputs[0], dims[0]), _one_turn(inputs[1]), **params), None


def _batch_receive(inputs: Sequence[Node], dims: Dims, **params: Any) -> tuple[Node, int | None]:
    return bind(RECV, front(inputs[0], dims[0]), _one_turn(inputs[1]), **params), None if dims[0] is None else 0


SEND = Primitive(
    "dist_send", "host", lambda x, turn, **params: ((), x.dtype), _send, None, _send_vjp, _batch_send, moving, raises=True,
    effect=True, jvp=_no_tangent,
)
RECV = Primitive(
    "dist_recv", "host", _same, _receive, None, _recv_vjp, _batch_receive, moving, raises=True, effect=True, jvp=_no_tangent,
    receives=True,
)


