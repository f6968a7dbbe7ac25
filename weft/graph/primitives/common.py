"""Helpers of entries of every kind: the zero derivative, costs, and moves of batch dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib import import_module
from typing import Any

import numpy as np

from weft.dtypes.formats import FROM_NUMPY, Format
from weft.dtypes.rounding import convert_array
from weft.graph.node import Cost, Node
from weft.graph.primitives.call import broadcast_to, call, permute, reshape

NodeAndAxis = tuple[Node, int | None]


class _IndexRules:
    """The functions of ``index_rules``, which is imported when one of them is called: only kernels need it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        @cache
        def load() -> Callable[..., Any]:
            return getattr(import_module("weft.graph.primitives.index_rules"), name)

        return lambda *args: load()(*args)


read = _IndexRules()


def zero_vjp(g: Node, out: Node, *inputs: Node, **params: Any) -> tuple[None, ...]:
    """Return a zero derivative for each input. An entry without a vjp rule has no derivative instead."""
    return (None,) * len(inputs)


def traffic(node: Node) -> int:
    """Return the bytes of inputs and outputs, counting each element once."""
    return node.nbytes + sum(i.nbytes for i in node.inputs)


def moving(node: Node) -> Cost:
    """Return the cost of a move: memory traffic only."""
    return Cost(0, traffic(node))


def elementwise_cost(flops: int) -> Callable[[Node], Cost]:
    """Return a cost of ``flops`` operations for each element of the result."""
    return lambda node: Cost(flops * node.size, traffic(node))


def reduction_cost(node: Node) -> Cost:
    """Return the cost of one operation for each element of the operand."""
    return Cost(node.inputs[0].size, traffic(node))


def compute_in_float32(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a reference that computes storage-only formats in their register format and rounds once, as kernels do."""

    @wraps(fn)
    def reference(*arrays: np.ndarray, **params: Any) -> np.ndarray:
        formats = [FROM_NUMPY.get(a.dtype) for a in arrays]  # tests use wider formats than weft has
        narrow = next((f for f in formats if f is not None and f.narrow), None)
        with np.errstate(all="ignore"):
            if narrow is None:
                return np.asarray(fn(*arrays, **params))
            pairs = zip(arrays, formats, strict=True)
            wide = [convert_array(a, f.computed.numpy) if f is not None and f.narrow else a for a, f in pairs]
            out = np.asarray(fn(*wide, **params))
            return convert_array(out, narrow.numpy) if out.dtype == narrow.computed.numpy else out

    return reference


def round_operands(arrays: Sequence[np.ndarray], forms: Sequence[Format | None]) -> list[np.ndarray]:
    """Return arrays with their numbers rounded to formats, in their own dtypes. None leaves an array as it is."""
    return [x if f is None else convert_array(convert_array(x, f.numpy), x.dtype) for x, f in zip(arrays, forms, strict=True)]


def front(x: Node, dim: int | None, ndim: int | None = None) -> Node:
    """Move the batch dimension to the front.

    Insert dimensions of 1 behind it until ``ndim`` dimensions follow (NumPy's broadcasting).
    """
    if dim is None:
        return x
    x = permute(x, (dim, *(d for d in range(len(x.shape)) if d != dim)))
    if ndim is not None and len(x.shape) - 1 < ndim:
        x = reshape(x, (x.shape[0],) + (1,) * (ndim - len(x.shape) + 1) + x.shape[1:])
    return x


def extent(inputs: Sequence[Node], dims: Sequence[int | None]) -> int:
    """Return the size of the batch."""
    return next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)


def spread(x: Node, dim: int | None, count: int) -> Node:
    """Return x with a batch dimension of ``count`` in front, repeating x if it is not batched."""
    return front(x, dim) if dim is not None else broadcast_to(x, (count, *x.shape))


def rank(x: Node, dim: int | None) -> int:
    """Return the number of dimensions without the batch dimension."""
    return len(x.shape) - (dim is not None)


# how parameters that number or measure dimensions change if the batch, of n elements, becomes the first dimension
_PARAMETER_LIFTS: dict[str, Callable[[Any, int], Any]] = {
    "axis": lambda axis, n: axis + 1, "axes": lambda axes, n: shift_axes(axes), "shape": lambda shape, n: (n, *shape),
    **dict.fromkeys(("start", "low", "high"), lambda positions, n: (0, *positions)), "step": lambda steps, n: (1, *steps),
}


def batch_in_front(name: str) -> Callable[..., NodeAndAxis]:
    """Return the batching rule of a primitive that treats the batch, in front of all operands, as one more dimension."""
    def rule(inputs: Sequence[Node], dims: Sequence[int | None], **params: Any) -> NodeAndAxis:
        n = extent(inputs, dims)
        lifted = {key: _PARAMETER_LIFTS[key](value, n) if key in _PARAMETER_LIFTS else value for key, value in params.items()}
        return getattr(call, name)(*[spread(x, d, n) for x, d in zip(inputs, dims, strict=True)], **lifted), 0
    return rule


def batch_elementwise(name: str) -> Callable[..., NodeAndAxis]:
    """Return the batching rule of an element-wise primitive."""
    def rule(inputs: Sequence[Node], dims: Sequence[int | None], **params: Any) -> NodeAndAxis:
        bind = getattr(call, name)
        if len(inputs) == 1:
            return bind(*inputs, **params), dims[0]
        dim = next(d for d in dims if d is not None)
        shapes = {len(x.shape) for x, d in zip(inputs, dims, strict=True) if d is not None}
        same = all(d == dim or (d is None and not x.shape) for x, d in zip(inputs, dims, strict=True))
        if same and len(shapes) == 1:
            return bind(*inputs, **params), dim
        ndim = max(map(rank, inputs, dims))
        return bind(*(front(x, d, ndim) for x, d in zip(inputs, dims, strict=True)), **params), 0

    return rule


def shift_axes(axes: Sequence[int]) -> tuple[int, ...]:
    """Return axes, shifted by a batch dimension in front."""
    return tuple(a + 1 for a in axes)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes ``axes``."""
    out = [0] * len(axes)
    for position, axis in enumerate(axes):
        out[axis] = position
    return tuple(out)
