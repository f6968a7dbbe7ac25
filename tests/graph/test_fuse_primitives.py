"""Every primitive on every sample through fusion: what the kernels mean is what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.fusing import check
from tests.kernel.samples.table import draw_samples
from weft.dtypes.formats import FROM_NUMPY
from weft.graph.node import Node, Primitive
from weft.graph.primitives import TABLE, bind, input_leaf

PRIMITIVES = [op for op in TABLE.values() if op.kind != "leaf"]
TOLERANCE = {
    "log2": 1e-4, "log10": 1e-4, "pow": 1e-4, "erf": 1e-4, "cumulative_sum": 1e-4, "reduce_prod": 1e-3, "cumulative_prod": 1e-3,
}


@pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)
def test_kernels_of_one_primitive(op: Primitive) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    for sample in draw_samples(op, np.random.default_rng(seed)):
        inputs: list[Node] = [input_leaf(a.shape, FROM_NUMPY[a.dtype]) for a in sample.arrays]
        out = bind(op, *inputs, **sample.params)
        print(sample.tag, [(a.shape, a.dtype) for a in sample.arrays], sample.params)
        check(inputs, [out], list(sample.arrays), tolerance=TOLERANCE.get(op.name), special=True)
