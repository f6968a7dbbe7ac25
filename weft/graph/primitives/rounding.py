"""Primitives that round floats in a mode: to smaller floats, and by chance to floats and integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dtypes.formats import FLOATS, FROM_NUMPY, INTEGERS, UINT32, UINT64, Format
from weft.dtypes.rounding import convert_array, round_array
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives import derivatives as d
from weft.graph.primitives import formulas as f
from weft.graph.primitives.call import call
from weft.graph.primitives.common import NodeAndAxis, batch_elementwise, elementwise_cost, front
from weft.graph.primitives.rules import broadcast, dtype_error, shapes_error
from weft.graph.primitives.table import constant, register

_BATCH_KEY = 0x9E3779B97F4A7C15


def _rule(x: Node, dtype: Format, mode: str) -> tuple[Shape, Format]:
    if x.dtype not in FLOATS or dtype not in FLOATS:
        raise dtype_error("round_to", (x,), ("x",), FLOATS)
    return x.shape, dtype


def _stochastic_rule(x: Node, word: Node, dtype: Format, bits: int) -> tuple[Shape, Format]:
    if x.dtype not in FLOATS or dtype not in FLOATS and dtype not in INTEGERS:
        raise dtype_error("round_stochastic", (x,), ("x",), FLOATS)
    if word.dtype is not UINT32:
        raise dtype_error("round_stochastic", (word,), ("word",), frozenset((UINT32,)))
    shape = broadcast(x.shape, word.shape)
    if shape is None:
        raise shapes_error("round_stochastic", (x, word), ("x", "word"))
    return shape, dtype


def _round_to(x: np.ndarray, dtype: Format, mode: str) -> np.ndarray:
    return round_array(convert_array(np.asarray(x), FROM_NUMPY[x.dtype].computed.numpy), dtype, mode)


def _round_stochastic(x: np.ndarray, word: np.ndarray, dtype: Format, bits: int) -> np.ndarray:
    x, word = np.broadcast_arrays(x, word)
    x = convert_array(x, FROM_NUMPY[x.dtype].computed.numpy)
    if bits < 32:
        word = word & np.uint32((1 << 32) - (1 << 32 - bits)) | np.uint32(1 << 31 - bits)
    if dtype in FLOATS:
        return round_array(x, dtype, "stochastic", word)
    with np.errstate(all="ignore"):
        low = np.floor(x)
        part = ((x - low) * x.dtype.type(2.0**32)).astype(np.uint32)
        return convert_array(low + (word < part), dtype.numpy)


def _batch_stochastic(inputs: Sequence[Node], dims: Sequence[int | None], **params: Any) -> NodeAndAxis:
    """Batch a stochastic rounding. Examples that would share their random words get words of their own.

    They come from another key, and the base is multiplied, so that no two roundings use the same words.
    """
    x, word = inputs
    if dims[1] is None and dims[0] is not None and word.op.name == "random_bits":
        key, base = word.inputs
        x = front(x, dims[0])
        key = call.bitwise_xor(key, constant(_BATCH_KEY, UINT64))
        base = call.multiply(base, constant(x.shape[0], UINT64))
        inputs, dims = (x, call.random_bits(key, base, **{**word.params, "shape": (x.shape[0], *word.shape)})), (0, 0)
    return batch_elementwise("round_stochastic")(inputs, dims, **params)


register(Primitive(
    "round_to", "elementwise", _rule, _round_to, f.round_to, d.round_to,
    batch_elementwise("round_to"), elementwise_cost(20), True,
))
register(Primitive(
    "round_stochastic", "elementwise", _stochastic_rule, _round_stochastic, f.round_stochastic, d.round_stochastic,
    _batch_stochastic, elementwise_cost(20), True,
))
