"""Bools kept in memory between loops: a bit has no address, so each takes a byte. Every way of reducing them, on every ISA."""

from __future__ import annotations

import numpy as np
import pytest
from cross import TABLE, bind, leaf, run_both
from harness import isas

from weft.devices.cpu.emit.text import Function
from weft.graph.primitives.table import constant

# (shape, axes): rows with ragged ends staged to a local array; few and many columns; blocks of tall columns; a full reduction
CASES = [
    ((2, 17), (0, 1)), ((6, 17), (0, 1)), ((5, 3, 33), (0, 2)), ((4, 7, 7), (0, 2)), ((3, 200), (1,)), ((3, 7), (1,)),
    ((40, 12), (0,)), ((200, 1100), (0,)), ((3000, 140), (0,)), ((70, 9, 33), (0, 1)), ((100_000,), (0,)),
]


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("shape,axes", CASES, ids=str)
def test_any_and_all(shape, axes, name, isa, rng):
    """Each result rests on one element, wherever it lies: a lost or moved byte changes it."""
    usual = np.float32(name == "reduce_min")
    x = np.full((*shape[:-1], 2 * shape[-1]), usual)
    results = int(np.prod([n for d, n in enumerate(x.shape) if d not in axes]))
    for _ in range(rng.integers(2) if results == 1 else -(-results // 2)):
        x[tuple(rng.integers(0, n) for n in x.shape)] = 1 - usual
    arrays = [np.ascontiguousarray(part) for part in np.split(x, 2, axis=-1)]
    inputs = [leaf(a) for a in arrays]
    joined = bind(TABLE["concat"], *inputs, axis=len(shape) - 1)
    out = bind(TABLE[name], bind(TABLE["greater"], joined, constant(0.5, joined.dtype)), axes=axes, keepdims=False)
    for _, (got,), _ in run_both(inputs, arrays, [out], isas()[isa]):
        np.testing.assert_array_equal(got, (np.any if name == "reduce_max" else np.all)(x > 0.5, axis=axes))
    assert results == 1 or 0 < np.count_nonzero(got) < got.size


@pytest.mark.parametrize("type_", ["i1", "<8 x i1>", "[8 x i1]", "[4 x <8 x i1>]"])
def test_bits_have_no_addresses(type_):
    f = Function("define void @f()")
    array = f.local("[8 x i16]")
    for enter in (
        lambda: f.local(f"[2 x {type_}]"), lambda: f.element(array, type_, 3), lambda: f.load(type_, array),
        lambda: f.store(type_, "zeroinitializer", array), lambda: f.load(type_, "%argument"),
        lambda: f.load(type_, f.offset(array, 2)),
    ):
        with pytest.raises(ValueError, match="no addresses"):
            enter()


def test_a_variable_may_hold_bits():
    f = Function("define i1 @f()")
    place = f.local("<8 x i1>")
    f.store("<8 x i1>", "zeroinitializer", place)
    f.load("<8 x i1>", place)
    with pytest.raises(ValueError, match="no addresses"):
        f.load("<8 x i1>", f.offset(place, 1))
