"""Products of int8 rows and packed 4-bit matrices: exact sums in one kernel, on every instruction, with tails and outer loops."""

from __future__ import annotations

import numpy as np
import pytest
from cross import kernels_of, leaf
from test_gemm import Compiled
from test_integer_products import instructions

from weft.devices.cpu.generate import generate
from weft.dtypes.formats import INT32
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE


def packed_product(rows, columns, blocks, runs, transposed=False):
    """Return the leaves and the node of a product, summed over runs of 32, of each block."""
    a = leaf(np.zeros((rows, blocks, runs, 2, 16), np.int8))
    b = leaf(np.zeros((columns, blocks, runs, 16), np.uint8))
    left, right = (bind(TABLE["cast"], x, dtype=INT32) for x in (a, bind(TABLE["unpack_nibbles"], b)))
    if transposed:
        left, right = right, left
    return (a, b), bind(TABLE["dot_general"], left, right, contract=((2, 3, 4), (2, 3, 4)), batch=((1,), (1,)))


@pytest.mark.parametrize("name", instructions())
def test_random_products(rng, name):
    isa = instructions()[name]
    for _ in range(6):
        rows, columns = int(rng.integers(1, 13)), int(rng.choice([1, 7, 15, 16, 17, 32, 75]))
        blocks, runs, transposed = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 4, 6, 8, 12])), bool(rng.random() < 0.5)
        nodes, y = packed_product(rows, columns, blocks, runs, transposed)
        (fused,) = kernels_of(list(nodes), [y])
        x = rng.integers(-128, 128, nodes[0].shape).astype(np.int8)
        w = rng.integers(0, 256, nodes[1].shape, dtype=np.uint8)
        halves = np.stack([w & 15, w >> 4], axis=-2).astype(np.int64)
        want = np.einsum("mbgql,nbgql->bnm" if transposed else "mbgql,nbgql->bmn", x.astype(np.int64), halves)
        if columns == 1 or isa.bits < 256 or not isa.dot:
            assert "product of packed integers" not in generate(fused.kernel, isa).paths
            continue
        assert "product of packed integers" in generate(fused.kernel, isa).paths
        got = np.full(want.shape, -7, np.int32)
        arrays = dict(zip(nodes, (x, w), strict=True))
        Compiled(fused.kernel, isa=isa)(*[arrays[n] for n, _ in fused.inputs], got)
        np.testing.assert_array_equal(got, want, err_msg=f"{rows} {columns} {blocks} {runs} {transposed}")


def test_many_rows_share_the_unpacking():
    nodes, y = packed_product(13, 64, 2, 4)
    assert len(kernels_of(list(nodes), [y])) == 2
