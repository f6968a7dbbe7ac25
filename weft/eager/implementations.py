"""Eager implementations of small operations on the CPU: for any strides, and specialised for known shapes.

A small operation is not compiled: it is one call of NumPy or of a native function that takes sizes as arguments. The results have
the same bits as those of compiled programs.

NumPy computes what only moves data and what is rounded exactly, except the signs of zeros in max and min and casts of floats
that an integer cannot hold. Inexact functions, sums and products are functions of the device. An exact element-wise operation
that is called often also gets one: called natively it costs less than NumPy's call; called from Python NumPy's is faster (1.8
us and 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.devices.native_protocols import PreparedCall
from weft.dtypes.formats import FLOATS, Format
from weft.dtypes.rounding import in_dtype, scalar
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives.dot_general import free_axes
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.philox import half_word
from weft.graph.primitives.settings import has_formats
from weft.graph.primitives.shape import BROADCAST
from weft.graph.source_lines import user_frame, user_line
from weft.runtime import execute

if TYPE_CHECKING:
    from weft.kernel.target import Order

COMPILE_AFTER_CALLS = 128  # NumPy calls before a device function is compiled, which takes 5 ms and saves 5 us a call
_NO_PARAMS: dict[str, Any] = {}
_CALL_COUNTS: dict[tuple, int] = {}
KERNELS: dict[tuple[Primitive, tuple[Format, ...]], Callable[..., None]] = {}
tell: list[Callable[..., None]] = []  # callbacks for new functions: ((primitive, dtypes), function)


def number(value: Any, dtype: Format) -> Any:
    """Return a cached buffer that holds a number. Nothing may write to it."""
    return _number(value, value == 0 and str(value)[0] == "-", dtype)


@lru_cache(maxsize=4096)
def _number(value: Any, negative: bool, dtype: Format) -> Any:
    if -65504 <= value <= 65504:  # float16's largest
        return execute.to_buffer(np.asarray(scalar(value, dtype)))
    with np.errstate(over="ignore"):  # the caller warns about numbers of users
        return execute.to_buffer(np.asarray(scalar(value, dtype) if dtype.narrow else np.asarray(value).astype(dtype.numpy)))


def matches_numpy(op: Primitive) -> bool:
    """Return whether NumPy computes an elementwise primitive with the same bits."""
    return op.exact and op.name not in _DIFFERS_FROM_NUMPY


def elementwise_kernel(
    op: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any] = _NO_PARAMS,
) -> Callable[..., None] | None:
    """Return the device's function for an elementwise primitive and these operand formats. Return None while NumPy computes the
    same and has done so at most ``COMPILE_AFTER_CALLS`` times."""
    if params:
        return None if matches_numpy(op) else execute.eager_device().dynamic_kernels.elementwise(op, dtypes, **params)
    key = op, dtypes
    kernel = KERNELS.get(key)
    if kernel is None:
        if matches_numpy(op):
            calls = _CALL_COUNTS[key] = _CALL_COUNTS.get(key, 0) + 1
            if calls <= COMPILE_AFTER_CALLS:
                return None
        kernel = KERNELS[key] = execute.eager_device().dynamic_kernels.elementwise(op, dtypes)
        for notify in tell:
            notify(key, kernel)
    return kernel


def numpy_function(node: Node) -> Any:
    """Return the NumPy function that computes a node; without its conversion wrapper if no format is storage-only."""
    function: Any = node.op.reference
    if not node.dtype.narrow and not any([i.dtype.narrow for i in node.inputs]):
        function = getattr(function, "__wrapped__", function)
    return function


def _run_numpy(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    execute.eager_device().numpy_calls += 1
    function = numpy_function(node)
    if type(function) is np.ufunc and not node.params:
        function(*operands, out=out)
    else:  # assignment broadcasts
        out[...] = operands[0] if node.op is BROADCAST else function(*operands, **node.params)


def _run_host(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    try:
        _run_numpy(node, operands, out)
    except ValueError as error:
        raise execute.add_user_line(error, node.source_line or user_frame()) from None


def _elementwise(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    op, inputs = node.op, node.inputs
    if op is IN_BOUNDS:
        try:
            return _run_numpy(node, operands, out)
        except IndexError as error:
            raise IndexError(f"{error} ({user_line(node.source_line or user_frame())})") from None
    one_loop = type(numpy_function(node)) is np.ufunc and not node.params  # faster than a native call from Python
    use_numpy = one_loop or any([i.shape != node.shape and i.size != 1 for i in inputs])
    run = None if use_numpy and matches_numpy(op) else elementwise_kernel(op, tuple([i.dtype for i in inputs]), node.params)
    if run is None:
        return _run_numpy(node, operands, out)
    if out.size:
        arguments, references = [], []
        for x in operands:
            if x.size != 1 and x.shape != node.shape:
                x = np.broadcast_to(x, node.shape)
            x = np.ascontiguousarray(x)
            references.append(x)
            arguments += [address(x), int(x.size != 1 or out.size == 1)]
        run(out.size, address(out), *arguments)
    return None


def _reduce(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    from weft.kernel.summation import reduce_last, shape_reduction_order, spans
    from weft.kernel.target import Order

    (x,), axes = operands, node.params["axes"]
    dtype, monoid = node.inputs[0].dtype, node.op.monoid
    is_arg = monoid in ("argmax", "argmin")
    register = node.dtype.computed if monoid in ("sum", "prod") else dtype.computed
    if all([x.shape[d] == 1 for d in axes]):  # nothing is added: a negative zero keeps its sign
        out[...] = 0 if is_arg else x.reshape(out.shape)
        return
    kept, order = [d for d in range(x.ndim) if d not in axes], shape_reduction_order(x.shape, axes)
    if monoid == "prod":  # separate lanes could reach 0 and infinity, which make NaN
        order = Order(1, max(1, prod([x.shape[d] for d in axes])))
    if monoid == "sum" and register in FLOATS:
        x = np.ascontiguousarray(in_dtype(x, register.numpy))
        span = spans(x.shape, axes)
        if span is None:
            x = np.ascontiguousarray(x.transpose(*kept, *axes))
            span = prod(x.shape[:len(kept)]), prod(x.shape[len(kept):]), 1
        outer, k, inner = span
        sums = out if node.dtype is register else np.empty(out.shape, register.numpy)
        if sums.size:
            prepared = execute.eager_device().dynamic_kernels.sum(register, outer, inner, k, k * inner, 1, inner, order)
            prepared(address(x), address(sums))
        if sums is not out:
            out[...] = in_dtype(sums, out.dtype)
    elif not x.size:
        _run_numpy(node, operands, out)
    elif monoid in ("sum", "prod") and register not in FLOATS:  # integers: any order gives the same bits
        out[...] = (np.add if monoid == "sum" else np.multiply).reduce(x, axis=axes, dtype=register.numpy).reshape(out.shape)
    else:
        flat = x.transpose(*kept, *axes).reshape(*[x.shape[d] for d in kept], -1)
        result = np.asarray(reduce_last(in_dtype(flat, register.numpy), monoid, register.numpy, order)).reshape(out.shape)
        out[...] = in_dtype(result, out.dtype)


def _running(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    from weft.kernel.summation import running

    axis, wide = node.params["axis"], node.dtype.computed.numpy
    result = running(np.moveaxis(in_dtype(operands[0], wide), axis, -1), node.op.monoid, wide)
    out[...] = in_dtype(np.moveaxis(result, -1, axis), out.dtype)


def _product(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    register = node.dtype.computed
    if register not in FLOATS:
        _run_numpy(node, operands, out)
    elif out.size:
        left, right, order = as_matrices(node, *operands)
        left, right = in_dtype(left, register.numpy), in_dtype(right, register.numpy)
        result = out if node.dtype is register else np.empty(out.shape, register.numpy)
        prepared = execute.eager_device().dynamic_kernels.product(register, *extents_and_strides(left, right), order=order)
        prepared(address(left), address(right), address(result))
        if result is not out:
            out[...] = in_dtype(result, out.dtype)


def _random_words(node: Node, operands: Sequence[np.ndarray], out: np.ndarray) -> None:
    key, base = operands
    if "bits" in node.params:
        out[...] = half_word(key, base, np.arange(out.size, dtype=np.uint64)).reshape(out.shape)
        return
    execute.eager_device().dynamic_kernels.words(out.size, address(out), address(key), address(base))


def as_matrices(node: Node, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, Order | None]:
    """Return the operands of a product as (batch, m, k) and (batch, k, n), and the order of its sums if it is not the default."""
    from weft.kernel.summation import product_order

    (ka, kb), (ba, bb) = node.params["contract"], node.params["batch"]
    batch, extents = prod([a.shape[d] for d in ba]), tuple([a.shape[d] for d in ka])
    fa, fb = free_axes(a.ndim, ka, ba), free_axes(b.ndim, kb, bb)
    m, n, k = prod([a.shape[d] for d in fa]), prod([b.shape[d] for d in fb]), prod(extents)
    left, right = a.transpose(ba + fa + ka).reshape(batch, m, k), b.transpose(bb + kb + fb).reshape(batch, k, n)
    return left, right, product_order(m, n, extents) if len(extents) != 1 else None


def extents_and_strides(left: np.ndarray, right: np.ndarray) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    """Return the size arguments of ``DynamicKernels.product`` for operands of shape (batch, m, k) and (batch, k, n)."""
    (a_batch, a_m, a_k), (b_batch, b_k, b_n) = ([s // x.itemsize for s in x.strides] for x in (left, right))
    return left.shape[1], right.shape[2], left.shape[2], a_m, a_k, b_k, b_n, len(left), a_batch, b_batch


def address(x: np.ndarray) -> int:
    """Return the address of an array's memory."""
    return x.__array_interface__["data"][0]


_DIFFERS_FROM_NUMPY = frozenset(("maximum", "minimum", "cast"))  # for signed zeros, and casts out of range
_MOVING = frozenset(("shape", "gather", "write", "board"))  # kinds that only move data, so NumPy never warns
_MAX_CACHED_BYTES = 1 << 12  # of the result of an operation without operands (an iota)
Run = Callable[[Sequence[Any]], Any]  # from the buffers of operands to the buffer of the result


def specialise(node: Node) -> Run:
    """Return the function that computes a node from buffers. Only shapes and formats of the node's inputs are used."""
    return IMPLEMENTATIONS[node.op.kind].specialise(node) or _general_run(node)


def _general_run(node: Node) -> Run:
    types = [(i.shape, i.dtype) for i in node.inputs]
    shape, dtype, nbytes, device = node.shape, node.dtype, node.nbytes or 1, execute.eager_device()
    no_warnings, compute = node.op.kind in _MOVING, IMPLEMENTATIONS[node.op.kind].compute

    def run(buffers: Sequence[Any]) -> Any:
        operands = [device.memory(b, *s) for b, s in zip(buffers, types, strict=True)]
        out = device.allocate(nbytes)
        if no_warnings:
            compute(node, operands, device.memory(out, shape, dtype))
        else:
            with np.errstate(all="ignore"):
                compute(node, operands, device.memory(out, shape, dtype))
        return out

    return run


def _specialise_movement(node: Node) -> Run | None:
    """Specialise a node that only moves data: call NumPy's function and copy its result once."""
    if not node.size or node.op is BROADCAST:  # assignment broadcasts in one pass
        return None
    types, params, reference = [(i.shape, i.dtype) for i in node.inputs], node.params, numpy_function(node)
    shape, numpy_dtype, general, device = node.shape, node.dtype.numpy, _general_run(node), execute.eager_device()
    cached = None if node.inputs or node.nbytes > _MAX_CACHED_BYTES else np.asarray(reference(**params))

    def run(buffers: Sequence[Any]) -> Any:
        result = cached
        if result is None:
            result = reference(*[device.memory(b, *s) for b, s in zip(buffers, types, strict=True)], **params)
        if type(result) is not np.ndarray or result.shape != shape or result.dtype != numpy_dtype:
            return general(buffers)
        device.numpy_calls += 1
        return execute.to_buffer(result)

    return run


def _specialise_elementwise(node: Node) -> Run | None:
    """Specialise an elementwise node whose operands have the shape of the result, or one element."""
    op, inputs, size = node.op, node.inputs, node.size
    if op is IN_BOUNDS or not size or any([i.shape != node.shape and i.size != 1 for i in inputs]):
        return None
    dtypes, params, nbytes = tuple([i.dtype for i in inputs]), node.params, node.nbytes
    steps = [int(i.size != 1 or size == 1) for i in inputs]
    general, device = _general_run(node), execute.eager_device()
    function = elementwise_kernel(op, dtypes, params)

    def run(buffers: Sequence[Any]) -> Any:
        nonlocal function
        if function is None:
            function = elementwise_kernel(op, dtypes, params)
            if function is None:
                return general(buffers)
        out = device.allocate(nbytes)
        if len(steps) == 1:
            function(size, out.address, buffers[0].address, steps[0])
        elif len(steps) == 2:
            function(size, out.address, buffers[0].address, steps[0], buffers[1].address, steps[1])
        else:
            arguments = [word for b, step in zip(buffers, steps, strict=True) for word in (b.address, step)]
            function(size, out.address, *arguments)
        return out

    return run


def _specialise_reduced(node: Node) -> Run | None:
    if node.op.monoid in ("max", "min"):
        return _specialise_extreme(node)
    if node.op.monoid in ("argmax", "argmin"):
        return _specialise_argextreme(node)
    return _specialise_prepared(node)


def _specialise_extreme(node: Node) -> Run | None:
    (x,), axes = node.inputs, node.params["axes"]
    if not x.size or node.dtype.narrow:
        return None
    reduce: Any
    reduce, keepdims = _UFUNCS[node.op.monoid].reduce, len(node.shape) == len(x.shape)
    return _call_numpy(node, lambda content, out: reduce(content, axes, None, out, keepdims), x.shape, node.shape)


def _specialise_argextreme(node: Node) -> Run | None:
    """Specialise argmax and argmin along one axis, or along all axes flattened."""
    (x,), axes = node.inputs, node.params["axes"]
    varying = [n for n in axes if x.shape[n] != 1]
    if not x.size or x.dtype.narrow or (len(varying) != 1 and len(axes) != len(x.shape)):
        return None
    shape = x.shape
    if len(axes) == len(shape):
        shape, varying, axes = (x.size,), [0], (0,)
    axis, kept = varying[0], tuple([1 if k in axes else n for k, n in enumerate(shape)])
    function = np.ndarray.argmax if node.op.monoid == "argmax" else np.ndarray.argmin
    return _call_numpy(node, lambda content, out: function(content, axis, out), shape, kept[:axis] + kept[axis + 1 :])


def _specialise_running(node: Node) -> Run | None:
    axis, dtype = node.params["axis"], node.dtype
    if not node.size or dtype.narrow:
        return None
    accumulate, numpy_dtype = _UFUNCS[node.op.monoid].accumulate, dtype.numpy

    def function(content: np.ndarray, out: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            accumulate(content, axis, numpy_dtype, out)

    return _call_numpy(node, function, node.shape, node.shape)


def _call_numpy(node: Node, function: Callable[..., Any], shape: Shape, out_shape: Shape) -> Run:
    """Return a call of a NumPy function that folds an array, taken in ``shape``, and writes ``out`` in ``out_shape``. Extremes
    that are zero are computed again: NumPy does not order the signs of zeros."""
    in_dtype, dtype, nbytes = node.inputs[0].dtype, node.dtype, node.nbytes
    has_signed_zeros = dtype in FLOATS and node.op.monoid in ("max", "min")
    device, general = execute.eager_device(), _general_run(node)

    def run(buffers: Sequence[Any]) -> Any:
        out = device.allocate(nbytes)
        result = device.memory(out, out_shape, dtype)
        function(device.memory(buffers[0], shape, in_dtype), result)
        if has_signed_zeros and np.count_nonzero(result) != result.size:
            return general(buffers)
        device.numpy_calls += 1
        return out

    return run


def _specialise_prepared(node: Node) -> Run | None:
    """Specialise a product or a sum that is one call of a device function."""
    call, device, nbytes = prepare_call(node), execute.eager_device(), node.nbytes
    if call is None:
        return None

    def run(buffers: Sequence[Any]) -> Any:
        out = device.allocate(nbytes)
        call(*[b.address for b in buffers], out.address)
        return out

    return run


def _prepare_sum(node: Node) -> PreparedCall | None:
    """Return the call of a float sum over adjacent axes; None for other reductions."""
    from weft.kernel.summation import shape_reduction_order, spans

    (x,), axes, dtype = node.inputs, node.params["axes"], node.dtype
    span = spans(x.shape, axes)
    if node.op.monoid != "sum" or dtype not in FLOATS or dtype.narrow or not node.size or span is None or span[1] < 2:
        return None
    outer, k, inner = span
    sized = execute.eager_device().dynamic_kernels
    return sized.sum(dtype, outer, inner, k, k * inner, 1, inner, shape_reduction_order(x.shape, axes))


def _prepare_product(node: Node) -> PreparedCall | None:
    """Return the call of a product of float matrices that needs no copy; else None."""
    dtype = node.dtype
    if dtype not in FLOATS or dtype.narrow or not node.size:
        return None
    a, b = (np.empty(i.shape, i.dtype.numpy) for i in node.inputs)  # only their strides are used
    left, right, order = as_matrices(node, a, b)
    if address(left) != address(a) or address(right) != address(b):
        return None
    return execute.eager_device().dynamic_kernels.product(dtype, *extents_and_strides(left, right), order=order)


def _specialise_random(node: Node) -> Run | None:
    if "bits" in node.params:
        return None
    device, nbytes, count = execute.eager_device(), node.nbytes or 1, node.size
    words = device.dynamic_kernels.words

    def run(buffers: Sequence[Any]) -> Any:
        out, (key, base) = device.allocate(nbytes), buffers
        words(count, out.address, key.address, base.address)
        return out

    return run


def prepare_call(node: Node) -> PreparedCall | None:
    """Return a product or a sum as one prepared call of a device function, or None if it is not one."""
    return _prepare_product(node) if node.op.kind == "product" else _prepare_sum(node) if node.op.kind == "reduce" else None


_UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class Implementation(NamedTuple):
    """How the operations of one kind are computed without a compiled kernel.

    compute : compute a node into contiguous memory, given the contents of its operands, which may have any strides
    specialise : return the function for a node's shapes and formats, or None if only ``compute`` applies
    """

    compute: Callable[[Node, Sequence[np.ndarray], np.ndarray], None]
    specialise: Callable[[Node], Run | None] = lambda node: None


def has_implementation(node: Node) -> bool:
    """Return whether a node can be computed without a compiled kernel.

    Products in chosen formats cannot, nor effects: a run node by node that is short of memory is repeated by a Program.
    """
    op = node.op
    return op.kind in IMPLEMENTATIONS and not op.effect and not (op.kind == "product" and has_formats(node.params))


_ONLY_NUMPY = Implementation(_run_numpy)
IMPLEMENTATIONS = {  # by the kind of the primitive
    "elementwise": Implementation(_elementwise, _specialise_elementwise),
    "reduce": Implementation(_reduce, _specialise_reduced),
    "running": Implementation(_running, _specialise_running),
    "product": Implementation(_product, _specialise_prepared),
    "random": Implementation(_random_words, _specialise_random),
    "shape": Implementation(_run_numpy, _specialise_movement),
    "gather": Implementation(_run_numpy, _specialise_movement),
    "write": _ONLY_NUMPY,
    "scatter": _ONLY_NUMPY,
    "board": _ONLY_NUMPY,
    "host": Implementation(_run_host),
}
