"""One operation on memory that is there, whatever its sizes: with the bits of compiled kernels, and nothing compiled for a shape.

NumPy computes what is exactly rounded and what only moves data. What is not exactly rounded, and what has been asked for often,
functions of the device compute that take their sizes as arguments (``weft.devices.base.Sized``): one for each primitive and
format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dtypes.formats import FLOATS, Format, scalar
from weft.graph.node import Node, Primitive
from weft.graph.origin import user_frame, user_line
from weft.graph.primitives.dot_general import free_axes
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.shape import BROADCAST
from weft.runtime import execute
from weft.runtime.context import LOCAL

if TYPE_CHECKING:
    from weft.kernel.target import Order

OFTEN = 128  # operations on formats that NumPy computes before a function is made for them, which saves 5 us each and takes 5 ms
_NOTHING: dict[str, Any] = {}
_ASKED: dict[tuple, int] = {}
_MADE: dict[tuple[Primitive, tuple[Format, ...]], Callable[..., None]] = {}
tell: list[Callable[..., None]] = []  # is called with ((primitive, dtypes), function) when one is made


def wanted() -> bool:
    """Whether anything may be computed at once here, if the device can. Asking that loads the device."""
    return LOCAL.small > 0


def able() -> bool:
    """Whether anything is computed at once here: it may be, and the device can."""
    return wanted() and execute.computes_at_once()


def possible() -> bool:
    """Whether anything may run without being compiled: with kernels that flush denormals, or that a profile times, it may not."""
    return not LOCAL.flush and LOCAL.watch is None and LOCAL.device is None


def can(node: Node) -> bool:
    """Whether an operation can be computed so at all."""
    return node.op.kind in _WAYS


def one(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    """Compute a node into dense memory, given the contents of its operands."""
    _WAYS[node.op.kind](node, operands, out)


def number(value: Any, dtype: Format) -> Any:
    """A buffer with a number, which nobody writes."""
    return _number(value, value == 0 and str(value)[0] == "-", dtype)


@lru_cache(maxsize=4096)
def _number(value: Any, negative: bool, dtype: Format) -> Any:
    if -65504 <= value <= 65504:  # float16's largest
        return execute.to_buffer(np.asarray(scalar(value, dtype)))
    with np.errstate(over="ignore"):  # who asks for numbers of users warns of them
        return execute.to_buffer(np.asarray(scalar(value, dtype) if dtype.narrow else np.asarray(value).astype(dtype.numpy)))


def numpys(op: Primitive) -> bool:
    """Whether NumPy computes an element-wise primitive with the same bits."""
    return op.exact and op.name not in _NOT_NUMPYS


def function(op: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any] = _NOTHING) -> Callable[..., None] | None:
    """The device's function for an element-wise primitive of operands of these formats; None while NumPy computes it as well,
    and it has not been asked for often."""
    if params:
        return None if numpys(op) else execute.sized().each(op, dtypes, **params)
    key = op, dtypes
    made = _MADE.get(key)
    if made is None:
        if numpys(op):
            asked = _ASKED[key] = _ASKED.get(key, 0) + 1
            if asked <= OFTEN:
                return None
        made = _MADE[key] = execute.sized().each(op, dtypes)
        for told in tell:
            told(key, made)
    return made


def made() -> list[tuple[tuple[Primitive, tuple[Format, ...]], Callable[..., None]]]:
    """The functions of elements that there are, by primitive and dtypes of the operands."""
    return list(_MADE.items())


def reference(node: Node) -> Any:
    """What NumPy computes a node with, itself where it need not be told of narrow formats."""
    found: Any = node.op.reference
    if not node.dtype.narrow and not any([i.dtype.narrow for i in node.inputs]):
        found = getattr(found, "__wrapped__", found)
    return found


def _in_numpy(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    execute.count_numpy()
    given = reference(node)
    if type(given) is np.ufunc and not node.params:
        given(*operands, out=out)
    elif node.op is BROADCAST:  # which assignment does
        out[...] = operands[0]
    else:
        out[...] = given(*operands, **node.params)


def _hosted(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    try:
        _in_numpy(node, operands, out)
    except ValueError as error:
        raise execute.refused(error, node.where or user_frame()) from None


def _elementwise(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    op, inputs = node.op, node.inputs
    if op is IN_BOUNDS:
        try:
            return _in_numpy(node, operands, out)
        except IndexError as error:
            raise IndexError(f"{error} ({user_line(node.where or user_frame())})") from None
    one_loop = type(reference(node)) is np.ufunc and not node.params  # NumPy's, which is quicker than a call of ours from Python
    better = one_loop or any([i.shape != node.shape and i.size != 1 for i in inputs])
    run = None if better and numpys(op) else function(op, tuple([i.dtype for i in inputs]), node.params)
    if run is None:
        return _in_numpy(node, operands, out)
    if out.size:
        words, kept = [], []
        for x in operands:
            if x.size != 1 and x.shape != node.shape:
                x = np.broadcast_to(x, node.shape)
            x = np.ascontiguousarray(x)
            kept.append(x)
            words += [address(x), int(x.size != 1 or out.size == 1)]
        run(out.size, address(out), *words)
    return None


def _reduced(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    from weft.kernel.ordered import reduced
    from weft.kernel.summation import order_over, spans
    from weft.kernel.target import Order

    (x,), axes = operands, node.params["axes"]
    dtype, monoid = node.inputs[0].dtype, node.op.monoid
    place = monoid in ("argmax", "argmin")
    wide = node.dtype.computed if monoid in ("sum", "prod") else dtype.computed
    if all([x.shape[d] == 1 for d in axes]):  # where nothing is added, a negative zero stays one
        out[...] = 0 if place else x.reshape(out.shape)
        return
    kept, order = [d for d in range(x.ndim) if d not in axes], order_over(x.shape, axes)
    if monoid == "prod":  # of lanes apart one may reach 0 and another infinity
        order = Order(1, max(1, prod([x.shape[d] for d in axes])))
    if monoid == "sum" and wide in FLOATS:
        x = np.ascontiguousarray(x, wide.numpy)
        span = spans(x.shape, axes)
        if span is None:
            x = np.ascontiguousarray(x.transpose(*kept, *axes))
            span = prod(x.shape[:len(kept)]), prod(x.shape[len(kept):]), 1
        outer, k, inner = span
        found = out if node.dtype is wide else np.empty(out.shape, wide.numpy)
        if found.size:
            execute.sized().sum(wide, address(x), address(found), outer, inner, k, k * inner, 1, inner, order)
        if found is not out:
            out[...] = found
    elif not x.size:
        _in_numpy(node, operands, out)
    elif monoid in ("sum", "prod") and wide not in FLOATS:  # in any order
        out[...] = (np.add if monoid == "sum" else np.multiply).reduce(x, axis=axes, dtype=wide.numpy).reshape(out.shape)
    else:
        flat = x.transpose(*kept, *axes).reshape(*[x.shape[d] for d in kept], -1)
        out[...] = np.asarray(reduced(flat.astype(wide.numpy, copy=False), monoid, wide.numpy, order)).reshape(out.shape)


def _running(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    from weft.kernel.ordered import running

    axis, wide = node.params["axis"], node.dtype.computed.numpy
    out[...] = np.moveaxis(running(np.moveaxis(operands[0].astype(wide, copy=False), axis, -1), node.op.monoid, wide), -1, axis)


def _product(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    wide = node.dtype.computed
    if wide not in FLOATS:
        _in_numpy(node, operands, out)
    elif out.size:
        left, right, order = as_matrices(node, *operands)
        left, right = left.astype(wide.numpy, copy=False), right.astype(wide.numpy, copy=False)
        found = out if node.dtype is wide else np.empty(out.shape, wide.numpy)
        product: Callable[..., None] = execute.sized().product
        product(wide, address(left), address(right), address(found), *extents_and_strides(left, right), order)
        if found is not out:
            out[...] = found


def _words(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    key, base = operands
    execute.sized().words(out.size, address(out), address(key), address(base))


def as_matrices(node: Node, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, Order | None]:
    """The operands of a product as (batch, m, k) and (batch, k, n), and the order of its sums where that is not the usual one."""
    from weft.kernel.summation import product_order

    (ka, kb), (ba, bb) = node.params["contract"], node.params["batch"]
    batch, extents = prod([a.shape[d] for d in ba]), tuple([a.shape[d] for d in ka])
    fa, fb = free_axes(a.ndim, ka, ba), free_axes(b.ndim, kb, bb)
    m, n, k = prod([a.shape[d] for d in fa]), prod([b.shape[d] for d in fb]), prod(extents)
    left, right = a.transpose(ba + fa + ka).reshape(batch, m, k), b.transpose(bb + kb + fb).reshape(batch, k, n)
    return left, right, product_order(m, n, extents) if len(extents) != 1 else None


def extents_and_strides(left: np.ndarray, right: np.ndarray) -> tuple[int, ...]:
    """What ``Sized.product`` is told of (batch, m, k) and (batch, k, n)."""
    (a_batch, a_m, a_k), (b_batch, b_k, b_n) = ([s // x.itemsize for s in x.strides] for x in (left, right))
    return left.shape[1], right.shape[2], left.shape[2], a_m, a_k, b_k, b_n, len(left), a_batch, b_batch


def address(x: np.ndarray) -> int:
    """Where an array lies."""
    return x.__array_interface__["data"][0]


_NOT_NUMPYS = frozenset(("maximum", "minimum", "cast"))  # of zeros with signs, and of what integers cannot hold
MOVING = frozenset(("shape", "gather", "write", "board"))  # kinds that compute nothing, and so warn of nothing
_WAYS: dict[str, Callable[[Node, Sequence[np.ndarray], np.ndarray], None]] = {
    "elementwise": _elementwise, "reduce": _reduced, "running": _running, "product": _product, "random": _words,
    "host": _hosted, **dict.fromkeys(("shape", "gather", "write", "scatter", "board"), _in_numpy),
}
