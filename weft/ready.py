"""Operations made ready: of operands of known shapes and formats, as functions of their buffers.

What does not depend on contents is done once: which function of the device runs, on how many elements, how far apart. Most
operations of a loop are the same ones again, and then cost no more than a look-up and a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import small
from weft.devices.small import Prepared
from weft.dtypes.formats import FLOATS
from weft.graph.node import Node
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.shape import BROADCAST
from weft.runtime import execute

if TYPE_CHECKING:
    from weft.kernel.target import Order

_FEW = 1 << 12  # bytes: what needs no operand (an iota) is kept, up to so many
Run = Callable[[Sequence[Any]], Any]  # from the buffers of operands to the buffer of the result


def ready(node: Node) -> Run:
    """What computes a node, given buffers for its inputs, of which only shapes and formats are looked at."""
    direct = _DIRECT.get(node.op.kind)
    return (None if direct is None else direct(node)) or _by_arrays(node)


def _by_arrays(node: Node) -> Run:
    seen = [(i.shape, i.dtype) for i in node.inputs]
    shape, dtype, nbytes, device = node.shape, node.dtype, node.nbytes or 1, execute.any_size()
    quiet = node.op.kind in small.MOVING

    def run(buffers: Sequence[Any]) -> Any:
        operands = [device.memory(b, *s) for b, s in zip(buffers, seen, strict=True)]
        out = device.allocate(nbytes)
        if quiet:
            small.one(node, operands, device.memory(out, shape, dtype))
        else:
            with np.errstate(all="ignore"):
                small.one(node, operands, device.memory(out, shape, dtype))
        return out

    return run


def _moved(node: Node) -> Run | None:
    """What NumPy's function gives, copied once: of what only moves data."""
    if not node.size or node.op is BROADCAST:  # which assignment does, in one pass
        return None
    seen, params, reference = [(i.shape, i.dtype) for i in node.inputs], node.params, small.reference(node)
    shape, wanted, otherwise, device = node.shape, node.dtype.numpy, _by_arrays(node), execute.any_size()
    kept = None if node.inputs or node.nbytes > _FEW else np.asarray(reference(**params))

    def run(buffers: Sequence[Any]) -> Any:
        found = kept
        if found is None:
            found = reference(*[device.memory(b, *s) for b, s in zip(buffers, seen, strict=True)], **params)
        if type(found) is not np.ndarray or found.shape != shape or found.dtype != wanted:
            return otherwise(buffers)
        device.numpy_calls += 1
        return execute.to_buffer(found)

    return run


def _elementwise(node: Node) -> Run | None:
    """Operands of the result's shape, or of one element."""
    op, inputs, size = node.op, node.inputs, node.size
    if op is IN_BOUNDS or not size or any([i.shape != node.shape and i.size != 1 for i in inputs]):
        return None
    dtypes, params, nbytes = tuple([i.dtype for i in inputs]), node.params, node.nbytes
    steps = [int(i.size != 1 or size == 1) for i in inputs]
    otherwise, device = _by_arrays(node), execute.any_size()
    function = small.function(op, dtypes, params)

    def run(buffers: Sequence[Any]) -> Any:
        nonlocal function
        if function is None:
            function = small.function(op, dtypes, params)
            if function is None:
                return otherwise(buffers)
        out = device.allocate(nbytes)
        if len(steps) == 1:
            function(size, out.address, buffers[0].address, steps[0])
        elif len(steps) == 2:
            function(size, out.address, buffers[0].address, steps[0], buffers[1].address, steps[1])
        else:
            words = [word for b, step in zip(buffers, steps, strict=True) for word in (b.address, step)]
            function(size, out.address, *words)
        return out

    return run


def _reduced(node: Node) -> Run | None:
    if node.op.monoid in _EXTREMES:
        return _extreme(node, _EXTREMES[node.op.monoid])
    if node.op.monoid in ("argmax", "argmin"):
        return _place(node)
    words = _sum_words(node)
    return None if words is None else _sized(node, execute.sized().sum, *words)


def _extreme(node: Node, join: np.ufunc) -> Run | None:
    """NumPy's, but for zeros, whose signs it does not order."""
    (x,), axes = node.inputs, node.params["axes"]
    if not x.size or node.dtype.narrow:
        return None
    shape, dtype, out_shape, nbytes = x.shape, x.dtype, node.shape, node.nbytes
    signed, keep, device, otherwise = dtype in FLOATS, len(out_shape) == len(shape), execute.any_size(), _by_arrays(node)

    def run(buffers: Sequence[Any]) -> Any:
        out = device.allocate(nbytes)
        found = device.memory(out, out_shape, dtype)
        join.reduce(device.memory(buffers[0], shape, dtype), axis=axes, keepdims=keep, out=found)
        if signed and np.count_nonzero(found) != found.size:
            return otherwise(buffers)
        device.numpy_calls += 1
        return out

    return run


def _place(node: Node) -> Run | None:
    """Where an extreme stands, if it runs along one axis, or along all of them, one after the other."""
    (x,), axes = node.inputs, node.params["axes"]
    long = [n for n in axes if x.shape[n] != 1]
    if not x.size or x.dtype.narrow or (len(long) != 1 and len(axes) != len(x.shape)):
        return None
    shape, dtype, nbytes, device = x.shape, x.dtype, node.nbytes, execute.any_size()
    if len(axes) == len(shape):
        shape, long, axes = (x.size,), [0], (0,)
    axis, rest = long[0], tuple([1 if k in axes else n for k, n in enumerate(shape)])
    short, kind, first = rest[:axis] + rest[axis + 1 :], node.dtype, node.op.monoid == "argmax"

    def run(buffers: Sequence[Any]) -> Any:
        seen, out = device.memory(buffers[0], shape, dtype), device.allocate(nbytes)
        found = device.memory(out, short, kind)
        seen.argmax(axis, found) if first else seen.argmin(axis, found)
        device.numpy_calls += 1
        return out

    return run


def _running(node: Node) -> Run | None:
    """NumPy's, but for extremes of zeros, whose signs it does not order."""
    axis, monoid, dtype = node.params["axis"], node.op.monoid, node.dtype
    if not node.size or dtype.narrow:
        return None
    accumulate, number, shape, nbytes = _JOINS[monoid].accumulate, dtype.numpy, node.shape, node.nbytes
    signed, device, otherwise = dtype in FLOATS and monoid in _EXTREMES, execute.any_size(), _by_arrays(node)

    def run(buffers: Sequence[Any]) -> Any:
        out = device.allocate(nbytes)
        found = device.memory(out, shape, dtype)
        with np.errstate(all="ignore"):
            accumulate(device.memory(buffers[0], shape, dtype), axis, number, found)
        if signed and np.count_nonzero(found) != found.size:
            return otherwise(buffers)
        device.numpy_calls += 1
        return out

    return run


def _sized(node: Node, function: Callable[..., None], sizes: tuple[int, ...], order: Any) -> Run:
    """A function of the device that is told dtype, addresses, sizes and the order of the sum."""
    device, nbytes, dtype = execute.any_size(), node.nbytes, node.dtype

    def run(buffers: Sequence[Any]) -> Any:
        out = device.allocate(nbytes)
        function(dtype, *[b.address for b in buffers], out.address, *sizes, order)
        return out

    return run


def _sum_words(node: Node) -> tuple[tuple[int, ...], Order] | None:
    """What ``Sized.sum`` is told, for sums of floats that registers hold, over axes that lie together."""
    from weft.kernel.summation import order_over, spans

    (x,), axes, dtype = node.inputs, node.params["axes"], node.dtype
    span = spans(x.shape, axes)
    if node.op.monoid != "sum" or dtype not in FLOATS or dtype.narrow or not node.size or span is None or span[1] < 2:
        return None
    outer, k, inner = span
    return (outer, inner, k, k * inner, 1, inner), order_over(x.shape, axes)


def _product(node: Node) -> Run | None:
    words = _product_words(node)
    return None if words is None else _sized(node, execute.sized().product, *words)


def _product_words(node: Node) -> tuple[tuple[int, ...], Order | None] | None:
    """The same for products of matrices of floats that registers hold, which no transposition has to copy."""
    dtype = node.dtype
    if dtype not in FLOATS or dtype.narrow or not node.size:
        return None
    a, b = (np.empty(i.shape, i.dtype.numpy) for i in node.inputs)  # never touched: only their strides count
    left, right, order = small.as_matrices(node, a, b)
    if small.address(left) != small.address(a) or small.address(right) != small.address(b):
        return None
    return small.extents_and_strides(left, right), order


def _words(node: Node) -> Run:
    device, nbytes, count = execute.any_size(), node.nbytes or 1, node.size
    words = device.sized.words

    def run(buffers: Sequence[Any]) -> Any:
        out, (key, base) = device.allocate(nbytes), buffers
        words(count, out.address, key.address, base.address)
        return out

    return run


def prepared(node: Node) -> Prepared | None:
    """A product or a sum as one call of a function of the device, where it is one."""
    if node.op.kind not in ("product", "reduce"):
        return None
    words = _product_words(node) if node.op.kind == "product" else _sum_words(node)
    sized: Any = execute.sized()
    prepare = sized.prepared_product if node.op.kind == "product" else sized.prepared_sum
    return None if words is None else prepare(node.dtype, *words[0], words[1])


_DIRECT: dict[str, Callable[[Node], Run | None]] = {
    "elementwise": _elementwise, "reduce": _reduced, "product": _product, "random": _words,
    "shape": _moved, "gather": _moved, "running": _running,
}
_EXTREMES = {"max": np.maximum, "min": np.minimum}
_JOINS = {"sum": np.add, "prod": np.multiply, **_EXTREMES}
