"""NumPy's own functions on weft's arrays: weft's functions of that name, lazy and under jit; NumPy's where weft has none."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng()

ALIKE = {
    **{name: getattr(np, name) for name in (
        "sum", "mean", "max", "min", "std", "var", "prod", "argmax", "cumsum", "any", "all", "ravel", "transpose", "sort", "copy",
        "flip", "trace", "median", "diff", "cumprod", "diagonal", "tril", "zeros_like", "atleast_3d", "round", "nan_to_num",
        "count_nonzero",
    )},
    "mean of columns": lambda x: np.mean(x, axis=0, keepdims=True),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "stack": lambda x: np.stack((x, x)),
    "where": lambda x: np.where(x > 0, x, 0),
    "clip": lambda x: np.clip(x, -0.5, 0.5),
    "dot": lambda x: np.dot(x, x.T),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "reshape": lambda x: np.reshape(x, (4, 3)),
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "pad": lambda x: np.pad(x, 1),
    "broadcast_to": lambda x: np.broadcast_to(x[0], (3, 4)),
    "split": lambda x: np.split(x, 2, axis=1)[1],
}
NUMPYS = {
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x[0], 2),
    "linspace": lambda x: np.linspace(x[0], x[1], 3),
}


@pytest.mark.parametrize("name", ALIKE)
def test_lazy_and_as_numpy(name: str) -> None:
    x = RNG.normal(size=(3, 4)).astype("float32")
    before, expected = wf.counters()["kernels"], ALIKE[name](x)
    lazy = ALIKE[name](wf.array(x))
    assert wf.counters()["kernels"] == before and lazy.shape == np.shape(expected)
    for f in (ALIKE[name], wf.jit(ALIKE[name])):
        got = f(wf.array(x))
        assert isinstance(got, wf.Array) and got.shape == np.shape(expected)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NUMPYS)
def test_what_weft_has_not_runs_in_numpy(name: str) -> None:
    x = RNG.normal(size=(3, 4)).astype("float32")
    found = NUMPYS[name](wf.array(x))
    assert not isinstance(found, wf.Array)
    np.testing.assert_allclose(found, NUMPYS[name](x), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("lazy")
def test_what_needs_no_content_does_not_look() -> None:
    x = wf.ones((2, 3)) + 1
    assert np.shape(x) == (2, 3) and np.ndim(x) == 2 and np.size(x) == 6 and x.node.value is None
    assert np.result_type(x, np.float64) == np.float64 and wf.result_type(np.float16, wf.bfloat16) == np.float32
    assert np.allclose(x, 2) is True and np.array_equal(x, x) is True


def test_an_argument_that_weft_has_not_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="no_such_argument"):
        np.average(wf.ones(3), no_such_argument=True)
