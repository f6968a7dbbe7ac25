"""Implementations of small operations on the CPU, for any strides and specialised for known shapes.

Small operations are not compiled: each is one call of NumPy or of a native function whose sizes are arguments. The bits are those
that a compiled program gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.devices.native_protocols import Prepared
from weft.dtypes.formats import FLOATS, Format, scalar
from weft.graph.node import Node, Primitive
from weft.graph.primitives.dot_general import free_axes
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.shape import BROADCAST
from weft.graph.source_lines import user_frame, user_line
from weft.runtime import execute

if TYPE_CHECKING:
    from weft.kernel.target import Order

OFTEN = 128  # operations on formats that NumPy computes before a function is made for them, which saves 5 us each and takes 5 ms
_NOTHING: dict[str, Any] = {}
_ASKED: dict[tuple, int] = {}
_MADE: dict[tuple[Primitive, tuple[Format, ...]], Callable[..., None]] = {}
tell: list[Callable[..., None]] = []  # is called with ((primitive, dtypes), function) when one is made


def can(node: Node) -> bool:
    """Whether an operation can be computed so at all."""
    return node.op.kind in _WAYS


def compute(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
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


def matches_numpy(op: Primitive) -> bool:
    """Whether NumPy computes an element-wise primitive with the same bits."""
    return op.exact and op.name not in _NOT_NUMPYS


def elementwise_kernel(
    op: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any] = _NOTHING,
) -> Callable[..., None] | None:
    """The device's function for an element-wise primitive of operands of these formats; None while NumPy computes it as well,
    and it has not been asked for often."""
    if params:
        return None if matches_numpy(op) else execute.sized().each(op, dtypes, **params)
    key = op, dtypes
    made = _MADE.get(key)
    if made is None:
        if matches_numpy(op):
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


def numpy_function(node: Node) -> Any:
    """What NumPy computes a node with, itself where it need not be told of narrow formats."""
    found: Any = node.op.reference
    if not node.dtype.narrow and not any([i.dtype.narrow for i in node.inputs]):
        found = getattr(found, "__wrapped__", found)
    return found


def _in_numpy(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    execute.count_numpy()
    given = numpy_function(node)
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
    one_loop = type(numpy_function(node)) is np.ufunc and not node.params  # quicker than a native call from Python
    better = one_loop or any([i.shape != node.shape and i.size != 1 for i in inputs])
    run = None if better and matches_numpy(op) else elementwise_kernel(op, tuple([i.dtype for i in inputs]), node.params)
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
    from weft.kernel.summation import order_over, reduced, spans
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
    from weft.kernel.summation import running

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

_FEW = 1 << 12  # bytes: what needs no operand (an iota) is kept, up to so many
Run = Callable[[Sequence[Any]], Any]  # from the buffers of operands to the buffer of the result


def specialise(node: Node) -> Run:
    """What computes a node, given buffers for its inputs, of which only shapes and formats are looked at."""
    direct = _DIRECT.get(node.op.kind)
    return (None if direct is None else direct(node)) or _by_arrays(node)


def _by_arrays(node: Node) -> Run:
    seen = [(i.shape, i.dtype) for i in node.inputs]
    shape, dtype, nbytes, device = node.shape, node.dtype, node.nbytes or 1, execute.any_size()
    quiet = node.op.kind in MOVING

    def run(buffers: Sequence[Any]) -> Any:
        operands = [device.memory(b, *s) for b, s in zip(buffers, seen, strict=True)]
        out = device.allocate(nbytes)
        if quiet:
            compute(node, operands, device.memory(out, shape, dtype))
        else:
            with np.errstate(all="ignore"):
                compute(node, operands, device.memory(out, shape, dtype))
        return out

    return run


def _specialise_moved(node: Node) -> Run | None:
    """What NumPy's function gives, copied once: of what only moves data."""
    if not node.size or node.op is BROADCAST:  # which assignment does, in one pass
        return None
    seen, params, reference = [(i.shape, i.dtype) for i in node.inputs], node.params, numpy_function(node)
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


def _specialise_elementwise(node: Node) -> Run | None:
    """Operands of the result's shape, or of one element."""
    op, inputs, size = node.op, node.inputs, node.size
    if op is IN_BOUNDS or not size or any([i.shape != node.shape and i.size != 1 for i in inputs]):
        return None
    dtypes, params, nbytes = tuple([i.dtype for i in inputs]), node.params, node.nbytes
    steps = [int(i.size != 1 or size == 1) for i in inputs]
    otherwise, device = _by_arrays(node), execute.any_size()
    function = elementwise_kernel(op, dtypes, params)

    def run(buffers: Sequence[Any]) -> Any:
        nonlocal function
        if function is None:
            function = elementwise_kernel(op, dtypes, params)
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


def _specialise_reduced(node: Node) -> Run | None:
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


def _specialise_running(node: Node) -> Run | None:
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


def _specialise_product(node: Node) -> Run | None:
    words = _product_words(node)
    return None if words is None else _sized(node, execute.sized().product, *words)


def _product_words(node: Node) -> tuple[tuple[int, ...], Order | None] | None:
    """The same for products of matrices of floats that registers hold, which no transposition has to copy."""
    dtype = node.dtype
    if dtype not in FLOATS or dtype.narrow or not node.size:
        return None
    a, b = (np.empty(i.shape, i.dtype.numpy) for i in node.inputs)  # never touched: only their strides count
    left, right, order = as_matrices(node, a, b)
    if address(left) != address(a) or address(right) != address(b):
        return None
    return extents_and_strides(left, right), order


def _specialise_words(node: Node) -> Run:
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
    "elementwise": _specialise_elementwise, "reduce": _specialise_reduced, "product": _specialise_product,
    "random": _specialise_words,
    "shape": _specialise_moved, "gather": _specialise_moved, "running": _specialise_running,
}
_EXTREMES = {"max": np.maximum, "min": np.minimum}
_JOINS = {"sum": np.add, "prod": np.multiply, **_EXTREMES}
