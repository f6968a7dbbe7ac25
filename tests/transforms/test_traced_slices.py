"""Slices of constant length that begin where only a trace knows: by counters of loops, scanned integers, lanes of vmap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

LAST = 4  # turns of the loops


def draw_index(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Return a function from the counter to an index, in range for all turns, with one traced slice at least."""
    parts: list[Any] = []
    for k, n in enumerate(shape):
        kind = 0 if not k else int(rng.integers(0, 5))
        if kind < 2:
            factor, first, by = int(rng.integers(1, 3)), int(rng.integers(0, 3)), int(rng.integers(1, 3))
            length = int(rng.integers(0, 4))
            assert factor * (LAST - 1) + first + length <= n
            parts.append(lambda i, f=factor, a=first, c=length, s=by: slice(f * i + a, f * i + a + c, s))
        else:
            fixed = [slice(None), int(rng.integers(-n, n)), slice(1, None, 2)][kind - 2]
            parts.append(lambda i, x=fixed: x)
            if rng.random() < 0.3:
                parts.append(lambda i: None)
    if rng.random() < 0.2:
        parts.append(lambda i: ...)
    return lambda i: tuple([part(i) for part in parts]) if len(parts) > 1 else parts[0](i)


@pytest.mark.parametrize("seed", range(60))
def test_reads_and_writes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(12, 15, rng.integers(1, 4)))
    content, index = rng.integers(-9, 9, shape).astype("float32"), draw_index(rng, shape)
    x = wf.array(content)
    want = np.stack([content[index(i)] for i in range(LAST)])
    assert wf.scan(lambda c, i: (c, x[index(i)]), 0.0, wf.arange(LAST))[1].tolist() == want.tolist()
    assert wf.vmap(lambda i: x[index(i)])(wf.arange(LAST)).tolist() == want.tolist()
    total = wf.fori_loop(0, LAST, lambda i, v: v + x[index(i)], wf.zeros(want.shape[1:]))
    assert total.tolist() == want.sum(0).tolist()
    assert wf.jit(lambda x, i: x[index(i)])(x, wf.array(2)).tolist() == want[2].tolist()

    slope = wf.grad(lambda x: wf.fori_loop(0, LAST, lambda i, v: v + x[index(i)].sum(), wf.zeros(())))(x)
    counts = np.zeros(shape, "float32")
    changed, value = content.copy(), rng.integers(1, 9)
    for i in range(LAST):
        counts[index(i)] += 1
        changed[index(i)] += value
    assert slope.tolist() == counts.tolist()

    def add(i: Any, v: Any) -> Any:
        v[index(i)] += value
        return v

    assert wf.fori_loop(0, LAST, add, wf.array(content)).tolist() == changed.tolist()
    assert x.tolist() == content.tolist()


@pytest.mark.parametrize("index", [lambda i: slice(i + 7, i + 10), lambda i: slice(i - 1, i + 1), lambda i: slice(-i - 2, -i)])
def test_slices_that_numpy_would_cut_off(index: Any) -> None:
    x = wf.arange(10.0)
    with pytest.raises(IndexError, match="out of bounds for axis 0"):
        wf.scan(lambda c, i: (c, x[index(i)]), 0.0, wf.arange(LAST))[1].numpy()
    with pytest.raises(IndexError, match="a slice of 11 elements, 1 apart, does not fit into axis 0 with size 10"):
        wf.fori_loop(0, 1, lambda i, v: v + x[i : i + 11].sum(), 0.0)


@pytest.mark.parametrize("index", [
    lambda i: slice(i), lambda i: slice(i, None), lambda i: slice(i, 2 * i), lambda i: slice(0, 3, i),
    lambda i: slice(i, i + 3, -1),
])
def test_slices_of_no_constant_length(index: Any) -> None:
    x = wf.arange(10.0)
    with pytest.raises(TypeError, match=r"unless its length is constant, .* x\[i \+ wf.arange\(3\)\]"):
        wf.fori_loop(0, LAST, lambda i, v: v + x[index(i)].sum(), 0.0)
