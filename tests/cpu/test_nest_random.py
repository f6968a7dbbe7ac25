"""Random words made four at a time: whatever the shape, the words are those of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from cross import TABLE, bind, leaf, run_both

from weft.dtypes.formats import FLOAT32


@pytest.mark.drawn(36)
@pytest.mark.parametrize("shape", [(1000,), (3,), (3, 7), (5, 8), (6, 12), (2, 3, 20), (70000,), (9, 4), (40, 66)])
@pytest.mark.parametrize("use", ["plain", "turned", "summed", "every second"])
@pytest.mark.parametrize("halves", [{}, {"bits": 16}])
def test_words(rng, shape, use, halves):
    key, base = (np.asarray(rng.integers(0, 2**63, dtype=np.uint64) * 2 + 1) for _ in range(2))
    inputs = [leaf(key), leaf(base)]
    bits = bind(TABLE["random_bits"], *inputs, shape=shape, **halves)
    values = bind(TABLE["cast"], bits, dtype=FLOAT32)
    if use == "turned":
        values = bind(TABLE["permute"], values, axes=tuple(reversed(range(len(shape)))))
    elif use == "summed":
        values = bind(TABLE["reduce_max"], values, axes=(len(shape) - 1,), keepdims=False)
    elif use == "every second":
        half = (*shape[:-1], shape[-1] // 2)
        values = bind(TABLE["slice"], values, start=(0,) * len(shape), step=(*(1,) * (len(shape) - 1), 2), shape=half)
    for _, got, want in run_both(inputs, [key, base], [values]):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)
