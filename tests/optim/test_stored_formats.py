"""Parameters and state that are stored in fewer bits: ``parameter_dtype``, ``state_dtype`` and ``rounding`` of optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dtypes.api import fixed_dtype
from weft.dtypes.rounding import MODES
from weft.errors import DTypeError
from weft.optim.optimizer import Optimizer

CLASSES = {n: c for n in wf.optim.__all__ if isinstance(c := getattr(wf.optim, n), type) and issubclass(c, Optimizer)}
NAMES = sorted(CLASSES.keys() - {"Optimizer", "SAM"})
FORMS = (None, "bfloat16", "float16", "float8_e4m3fn", "float6_e3m2fn", fixed_dtype(16, 8))
REPEATABLE = sorted(set(MODES) - {"stochastic"})


def rounded(x: np.ndarray, dtype: Any, rounding: str | None) -> np.ndarray:
    return x if dtype is None else wf.array(x).astype(dtype, rounding=rounding).astype("float32").numpy()


@pytest.mark.parametrize("name", [n for n in NAMES if "Santa" not in n])  # which draw random numbers
def test_steps_are_those_of_float32_rounded(name: str) -> None:
    """A step from any stored state has the bits of a step in float32, each result rounded once."""
    seed = int(np.random.default_rng().integers(2**31))
    rng = np.random.default_rng(seed)
    print("seed", seed)
    dtype, state_dtype = (FORMS[k] for k in rng.integers(len(FORMS), size=2))
    rounding = rng.choice(REPEATABLE)
    make = getattr(wf.optim, name)
    few, plain = make(parameter_dtype=dtype, state_dtype=state_dtype, rounding=rounding), make()
    p = {"w": wf.array(rounded(rng.normal(size=(3, 5)).astype("f4"), dtype, rounding))}
    q = {"w": wf.array(p["w"].numpy())}
    for optimizer, parameters in ((few, p), (plain, q)):
        optimizer.init(parameters)
    for _ in range(4):
        slope, loss = {"w": wf.array(rng.normal(size=(3, 5)).astype("f4"))}, {"loss": wf.array(1.0)} if name == "Eve" else {}
        q["w"][...] = p["w"]
        for slot, content in few.state["w"].items():
            plain.state["w"][slot][...] = content.astype("float32")
        few.update(p, slope, **loss)
        plain.update(q, slope, **loss)
        assert p["w"].dtype == wf.float32
        np.testing.assert_array_equal(p["w"].numpy(), rounded(q["w"].numpy(), dtype, rounding))
        for slot, content in few.state["w"].items():
            assert content.dtype == (state_dtype or "float32")
            np.testing.assert_array_equal(
                content.astype("float32").numpy(), rounded(plain.state["w"][slot].numpy(), state_dtype, rounding),
            )


@pytest.mark.parametrize("name", NAMES)
def test_a_jitted_step_is_traced_once_and_learns(name: str) -> None:
    wf.random.seed(3)
    net = wf.nn.Linear(8, 1)
    optimizer = getattr(wf.optim, name)(parameter_dtype="bfloat16", state_dtype="bfloat16", rounding="stochastic")
    x = wf.random.normal(size=(64, 8))
    y = x.sum(axis=1, keepdims=True)

    @wf.jit
    def step() -> wf.Array:
        loss, slopes = wf.value_and_grad(lambda net: ((net(x) - y) ** 2).mean())(net)
        optimizer.update(net, slopes, **({"loss": loss} if name == "Eve" else {}))
        return loss

    losses = [float(step()) for _ in range(40)]
    assert step.traces == 1 and np.isfinite(losses).all()
    assert (net.weight.astype("bfloat16").astype("float32") == net.weight).all()
    assert min(losses[5:]) < losses[0] or "Santa" in name  # which adds noise


@pytest.mark.parametrize("sparse", [False, True])
def test_small_updates_are_right_on_average(sparse: bool) -> None:
    """Updates of a tenth of a step vanish rounded to nearest, and do not rounded stochastically. A seed repeats them."""
    rows, results = 2000, []
    for rounding in ("nearest", "stochastic", "stochastic"):
        wf.random.seed(11)
        p = {"w": wf.full((rows, 2), 1.0, dtype="bfloat16")}
        groups = {"w": {"sparse": True}} if sparse else None
        optimizer = wf.optim.SGD(lr=2.0**-7 / 10, rounding=rounding, groups=groups)
        for _ in range(20):
            optimizer.update(p, {"w": wf.full((rows, 2), -1.0)})
        results.append(p["w"].astype("float32").numpy())
    assert (results[0] == 1).all()
    assert abs(results[1].mean() - (1 + 2 * 2.0**-7)) < 6 * 2.0**-7 / np.sqrt(rows)
    assert (results[1] == results[2]).all()


def test_groups_and_saved_state(tmp_path: Any) -> None:
    def train(net: wf.nn.Module, optimizer: Optimizer, epochs: int, **options: Any) -> None:
        x = np.random.default_rng(1).normal(size=(32, 4)).astype("f4")
        wf.train.fit(
            net, x, x.sum(axis=1, keepdims=True), loss=wf.losses.mse, epochs=epochs, batch_size=8, optimizer=optimizer, seed=5,
            show=False, **options,
        )

    def make() -> tuple[wf.nn.Module, Optimizer]:
        wf.random.seed(0)
        groups = {"*.bias": {"parameter_dtype": None, "state_dtype": None}}
        options = {"parameter_dtype": "bfloat16", "state_dtype": "bfloat16", "rounding": "stochastic", "groups": groups}
        return wf.nn.Sequential(wf.nn.Linear(4, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1)), wf.optim.Adam(lr=1e-2, **options)

    net, optimizer = make()
    train(net, optimizer, 4)
    kinds = {name: value.dtype for name, value in optimizer.arrays().items() if "/mean" in name}
    assert kinds == {n: wf.float32 if "bias" in n else wf.bfloat16 for n in kinds}
    path = tmp_path / "check.npz"
    again, first = make()
    train(again, first, 2, checkpoint=path)
    resumed, second = make()
    train(resumed, second, 4, checkpoint=path, resume=True)
    for (name, a), b in zip(net.parameters().items(), resumed.parameters().values(), strict=True):
        assert (a == b).all(), name


def test_bad_options() -> None:
    for error, pattern, options in (
        (ValueError, "SGD: rounding='odd' must be one of", {"rounding": "odd"}),
        (DTypeError, "SGD: parameter_dtype: int8 cannot represent fractions", {"parameter_dtype": "int8"}),
        (DTypeError, "SGD: state_dtype: bool cannot represent fractions", {"state_dtype": bool}),
        (DTypeError, "SGD: state_dtype: float8_e8m0fnu .* it is a format for scales", {"state_dtype": "float8_e8m0fnu"}),
        (DTypeError, "SGD: parameter_dtype: float8_e8m0fnu .* for scales", {"parameter_dtype": "float8_e8m0fnu"}),
        (DTypeError, "SGD: parameter_dtype: 'foo' is not a dtype", {"parameter_dtype": "foo"}),
    ):
        with pytest.raises(error, match=pattern):
            wf.optim.SGD(lr=0.1, **options)
    optimizer = wf.optim.Adam()
    with pytest.raises(DTypeError, match="Adam: state_dtype: int8 cannot represent fractions"):
        optimizer.state_dtype = "int8"
    assert optimizer.state_dtype is None
