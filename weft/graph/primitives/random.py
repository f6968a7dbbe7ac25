"""random_bits: counter-based random numbers. Element i is word ``i & 3`` of Philox4x32-10(key, base + (i >> 2)).

The counter's 128 bits are (low word, high word, 0, 0) of ``base + (i >> 2)``, the key's 64 bits (low word, high word). With
``bits=16`` an element is half a word (see :func:`~weft.graph.primitives.philox.half_word`), and its lower 16 bits are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import SimpleNamespace

import numpy as np

from weft.dtypes.formats import UINT32, UINT64, Format
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import broadcast_to, call, cast, number, reshape
from weft.graph.primitives.common import NodeAndAxis, extent, front, read, zero_vjp
from weft.graph.primitives.philox import half_word, philox, word
from weft.graph.primitives.table import register


def count_blocks(count: int, bits: int) -> int:
    """Return how many blocks of four words the random bits of ``count`` elements take."""
    return (count + 3) // 4 if bits == 32 else (count + 31) // 32 * 4


def _rule(key: Node, base: Node, shape: tuple[int, ...], bits: int = 32) -> tuple[Shape, Format]:
    for name, node in (("key", key), ("base", base)):
        if node.dtype != UINT64:
            raise DTypeError(f"random_bits: {name} is {node.dtype.name}, but must be uint64.")
        if node.shape != ():
            raise ShapeError(f"random_bits: {name} {node.shape} must have shape (): use vmap for several of them.")
    if shape and min(shape) < 0:
        raise ShapeError(f"random_bits: shape {shape} has a negative extent.")
    return shape, UINT32


def _arithmetic(like: Node) -> SimpleNamespace:
    """Return arithmetic on uint64 numbers in nodes, for :func:`philox`."""
    return SimpleNamespace(
        number=lambda value: number(value, like), multiply=call.multiply, add=call.add, xor=call.bitwise_xor,
        low=lambda a: call.bitwise_and(a, number(0xFFFFFFFF, like)),
        high=lambda a: call.bitwise_right_shift(a, number(32, like)),
    )


def _reference(key: np.ndarray, base: np.ndarray, shape: tuple[int, ...], bits: int = 32) -> np.ndarray:
    return (word if bits == 32 else half_word)(key, base, np.arange(prod(shape), dtype=np.uint64)).reshape(shape)


def _batch(inputs: Sequence[Node], dims: Sequence[int | None], shape: tuple[int, ...], bits: int = 32) -> NodeAndAxis:
    """Compute the same rounds by element-wise uint64 arithmetic over (batch, blocks)."""
    count, n = extent(inputs, dims), prod(shape)
    key, base = (reshape(front(x, d), (count, 1)) if d is not None else x for x, d in zip(inputs, dims, strict=True))
    counters = count_blocks(n, bits)
    if n == 0:
        return call.broadcast_to(cast(number(0, key), UINT32), shape=(count, *shape)), 0
    counter = call.add(base, call.iota(shape=(1, counters), dtype=UINT64, axis=1))
    columns = philox(_arithmetic(key), counter, key)
    words = [reshape(cast(broadcast_to(w, (count, counters)), UINT32), (count, counters, 1)) for w in columns]
    flat = call.concat(*words, axis=2)
    if bits == 16:
        flat = reshape(flat, (count, counters // 4, 1, 16))
        halves = call.bitwise_left_shift(flat, number(16, flat)), call.bitwise_and(flat, number(0xFFFF0000, flat))
        flat = call.concat(*halves, axis=2)
    flat = reshape(flat, (count, flat.size // count))
    flat = call.slice(flat, start=(0, 0), step=(1, 1), shape=(count, n))
    return reshape(flat, (count, *shape)), 0


def _cost(node: Node) -> Cost:
    return Cost(20 * node.size, node.nbytes + 16)


register(Primitive(
    "random_bits", "random", _rule, _reference, None, zero_vjp, _batch, _cost, True,
    heavy=True, at=read.random_bits,
))
