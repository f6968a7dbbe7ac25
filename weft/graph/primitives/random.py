"""random_bits: counter-based random numbers. Element i is word ``i & 3`` of Philox4x32-10(key, base + (i >> 2)).

The counter's 128 bits are (low word, high word, 0, 0) of ``base + (i >> 2)``, the key's 64 bits (low word, high word).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import DTypeError, ShapeError
from weft.graph.node import Node, Shape
from weft.graph.primitives.call import broadcast_to, call, cast, number, reshape
from weft.graph.primitives.common import Batched, Later, extent, front, product, zero_vjp
from weft.graph.primitives.kinds import UINT32, UINT64
from weft.graph.primitives.table import Cost, Primitive, register

draw = Later("draw_random")

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def _rule(key: Node, base: Node, shape: tuple[int, ...]) -> tuple[Shape, np.dtype]:
    for name, node in (("key", key), ("base", base)):
        if node.dtype != UINT64:
            raise DTypeError(f"random_bits: {name} is {node.dtype.name}, but must be uint64.")
        if node.shape != ():
            raise ShapeError(f"random_bits: {name} {node.shape} must have shape (): use vmap for several of them.")
    if shape and min(shape) < 0:
        raise ShapeError(f"random_bits: shape {shape} has a negative extent.")
    return shape, UINT32


def philox(counter: np.ndarray, key: int) -> list[np.ndarray]:
    """The four words for each 64-bit counter."""
    mask = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c = [counter & mask, counter >> half, np.zeros_like(counter), np.zeros_like(counter)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(ROUNDS):
        p0, p1 = c[0] * np.uint64(MULTIPLIERS[0]), c[2] * np.uint64(MULTIPLIERS[1])
        c = [(p1 >> half) ^ c[1] ^ np.uint64(k[0]), p1 & mask, (p0 >> half) ^ c[3] ^ np.uint64(k[1]), p0 & mask]
        k = [(k[i] + WEYL[i]) & 0xFFFFFFFF for i in (0, 1)]
    return c


def _reference(key: np.ndarray, base: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    n = product(shape)
    with np.errstate(over="ignore"):
        counter = np.arange((n + 3) // 4, dtype=np.uint64) + np.uint64(base)
        words = philox(counter, int(key))
    return np.stack(words, axis=-1).astype(np.uint32).reshape(-1)[:n].reshape(shape)


def _batch(inputs: Sequence[Node], dims: Sequence[int | None], shape: tuple[int, ...]) -> Batched:
    """The same rounds as element-wise uint64 arithmetic over (batch, blocks)."""
    count, n = extent(inputs, dims), product(shape)
    key, base = (reshape(front(x, d), (count, 1)) if d is not None else x for x, d in zip(inputs, dims, strict=True))
    blocks = (n + 3) // 4
    mask, half = number(0xFFFFFFFF, key), number(32, key)

    def low(x: Node) -> Node:
        return call.bitwise_and(x, mask)

    def high(x: Node) -> Node:
        return call.bitwise_right_shift(x, half)

    if n == 0:
        return call.broadcast_to(cast(number(0, key), UINT32), shape=(count, *shape)), 0
    counter = call.add(base, call.iota(shape=(1, blocks), dtype=UINT64, axis=1))
    zero = number(0, key)
    c = [low(counter), high(counter), zero, zero]
    k = [low(key), high(key)]
    for _ in range(ROUNDS):
        p0, p1 = (call.multiply(c[2 * i], number(MULTIPLIERS[i], key)) for i in (0, 1))
        c = [
            call.bitwise_xor(call.bitwise_xor(high(p1), c[1]), k[0]), low(p1),
            call.bitwise_xor(call.bitwise_xor(high(p0), c[3]), k[1]), low(p0),
        ]
        k = [low(call.add(k[i], number(WEYL[i], key))) for i in (0, 1)]
    words = [reshape(cast(broadcast_to(w, (count, blocks)), UINT32), (count, blocks, 1)) for w in c]
    flat = reshape(call.concat(*words, axis=2), (count, blocks * 4))
    flat = call.slice(flat, start=(0, 0), step=(1, 1), shape=(count, n))
    return reshape(flat, (count, *shape)), 0


def _cost(node: Node) -> Cost:
    return Cost(20 * node.size, node.nbytes + 16)


register(Primitive(
    "random_bits", "random", _rule, _reference, None, zero_vjp, _batch, _cost, draw.random_bits, draw.random_errors, True,
    heavy=True,
))
