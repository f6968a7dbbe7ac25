"""What a profile says of settings: the limit of each kernel, and the gain of bfloat16, of a larger batch, of another layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import get_device
from weft.devices.cpu.product.dot import MAX_FMA_FLOPS
from weft.placement.device_figures import Machine
from weft.placement.estimate import CPU_PRODUCT_SHARE, NOT_OVERLAPPED
from weft.tools.profile_gains import BATCH, BFLOAT16, LAYOUT, find_gains, pair_kernels, plan_larger_batch

RNG = np.random.default_rng()
MACHINE = Machine("pinned", 1, 1e11, ((1 << 15, 4e11), (1 << 30, 2e10)), bfloat16_flops=2e11)


@pytest.fixture(autouse=True)
def pinned_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(asdict(MACHINE)))
    monkeypatch.setenv("WEFT_PROFILE", str(file))


def normal(*shape: int) -> wf.Array:
    return wf.asarray(RNG.normal(size=shape).astype(np.float32))


def gains_of(f: Callable, *args: Any) -> tuple[str, dict[str, float]]:
    """Return the limit of the only kernel of a function, and its gains."""
    (kernel,) = wf.profile(wf.jit(f), *args, repeat=1, show=False).kernels
    return kernel.bound, {gain.setting: gain.factor for gain in kernel.gains}


def product(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize("turned", [False, True])
def test_a_large_product_is_limited_by_arithmetic_and_gains_from_bfloat16(turned: bool) -> None:
    m, n, k = RNG.integers(300, 400, 3)
    a, b = normal(m, k), normal(n, k).T if turned else normal(k, n)
    bound, gains = gains_of(product, a, b)
    assert bound == "arithmetic" and set(gains) == {BFLOAT16} and 1.7 < gains[BFLOAT16] < 2
    with wf.matmul_precision("bfloat16"):
        bound, gains = gains_of(product, a, b)
    assert bound == "arithmetic" and not gains


def test_a_large_convolution_gains_from_bfloat16() -> None:
    x, w = normal(4, 64, 28, 28), normal(64, 64, 3, 3)
    bound, gains = gains_of(lambda x, w: wf.nn.conv2d(x, w, padding=1), x, w)
    assert bound == "arithmetic" and 1.7 < gains[BFLOAT16] < 2
    with wf.conv_algorithm("winograd"):
        assert BFLOAT16 not in gains_of(lambda x, w: wf.nn.conv2d(x, w, padding=1), x, w)[1]


def test_the_floor_of_transformed_convolutions_counts_the_multiplications_that_are_left() -> None:
    x, w = normal(4, 64, 28, 28), normal(64, 64, 3, 3)

    def layer(x: Any) -> Any:
        return wf.nn.conv2d(x, w, padding=1)

    def layers(x: Any) -> Any:
        return wf.scan(lambda y, _: (layer(y), None), x, None, length=3)[0]

    for f in (layer, layers):
        (direct,) = wf.profile(wf.jit(f), x, repeat=1, show=False).kernels
        with wf.conv_algorithm("winograd"):
            (transformed,) = wf.profile(wf.jit(f), x, repeat=1, show=False).kernels
        assert direct.bound == transformed.bound == "arithmetic" and direct.flops == transformed.flops
        assert any(np.isclose(transformed.floor / direct.floor, ((m + 2) / (3 * m)) ** 2) for m in (2, 4))


def test_the_gain_of_bfloat16_is_that_of_the_two_measured_rates() -> None:
    """Arithmetic and memory of a product overlap by half; nothing else of it is counted but the elements that it stores."""
    n = int(RNG.integers(400, 500))
    flops, memory = 2 * n**3, 12 * n**2 / MACHINE.bandwidth_at(12 * n**2)
    wide, narrow = (flops / (rate * CPU_PRODUCT_SHARE) for rate in (MACHINE.flops, MACHINE.bfloat16_flops))
    bound, gains = gains_of(product, normal(n, n), normal(n, n))
    assert bound == "arithmetic"
    assert gains[BFLOAT16] == pytest.approx((wide + NOT_OVERLAPPED * memory) / (narrow + NOT_OVERLAPPED * memory), rel=0.02)


def test_what_bfloat16_does_not_change() -> None:
    n = int(RNG.integers(130, 200))
    assert 2 * n**3 > MAX_FMA_FLOPS
    double = wf.asarray(RNG.normal(size=(n, n)))
    small = normal(8, 8)
    for f, args in (
        (product, (double, double)), (product, (normal(n, n).astype(wf.bfloat16), normal(n, n).astype(wf.bfloat16))),
        (product, (small, small)), (lambda x, w: wf.nn.conv2d(x, w, groups=64), (normal(2, 64, 50, 50), normal(64, 1, 3, 3))),
        (lambda q, k: wf.nn.scaled_dot_product_attention(q, k, k), (normal(1, 8, 900, 16), normal(1, 8, 900, 16))),
        (lambda x: wf.tanh(x), (normal(n, n),)),
    ):
        found = wf.profile(wf.jit(f), *args, repeat=1, show=False)
        assert found.kernels and all(gain.setting != BFLOAT16 for kernel in found.kernels for gain in kernel.gains), f


def test_a_machine_without_bfloat16_is_not_advised_to_use_it() -> None:
    n = int(RNG.integers(200, 300))
    traced = wf.jit(product).trace(normal(n, n), normal(n, n)).graph
    program = plan_larger_batch(wf.jit(product), (normal(n, n), normal(n, n)), {})
    assert program is not None
    ((kernel, nbytes),) = pair_kernels(program, program).values()
    assert [g.setting for g in find_gains(kernel, nbytes, traced.order, MACHINE)] == [BFLOAT16]
    assert not find_gains(kernel, nbytes, traced.order, replace(MACHINE, bfloat16_flops=0.0))


@pytest.mark.parametrize("f", [lambda x, y: x + y, lambda x, y: wf.maximum(x, 2 * y) - y], ids=["add", "chain"])
def test_large_element_wise_work_is_limited_by_memory_and_gains_nothing(f: Callable) -> None:
    shape = RNG.integers(700, 900, 2)
    assert gains_of(f, normal(*shape), normal(*shape)) == ("memory", {})


def test_reading_across_rows_gains_from_another_layout() -> None:
    m, n = RNG.integers(700, 900, 2)
    x = normal(m, n)
    gains = gains_of(lambda x: wf.tanh(x.T) + 1, x)[1]
    assert set(gains) == {LAYOUT} and gains[LAYOUT] > 1.3
    assert LAYOUT not in gains_of(lambda x: wf.tanh(x) + 1, x)[1]


def test_a_product_of_few_rows_gains_from_more_of_them() -> None:
    """It reads all weights for a few rows: twice the rows take nearly the same time."""
    n = int(RNG.integers(1200, 1500))
    w = normal(n, n)
    bound, gains = gains_of(lambda x: x @ w, normal(1, n))
    assert bound == "memory" and 1.5 < gains[BATCH] <= 2
    many = gains_of(lambda x: x @ w, normal(600, n))[1]
    assert BATCH not in many


def test_a_batch_that_cannot_be_doubled() -> None:
    x, w = normal(6, 10), normal(10, 4)
    assert plan_larger_batch(wf.jit(lambda x: x.reshape(2, 30)), (x,), {}) is None
    assert plan_larger_batch(wf.jit(lambda: w + 1), (), {}) is None
    assert plan_larger_batch(lambda x: x + 1, (x,), {}) is None  # not jitted
    square = plan_larger_batch(wf.jit(product), (normal(20, 20), normal(20, 20)), {})
    assert square is not None and square.outputs[0][0] == (40, 20)  # both doubled do not fit
    both = plan_larger_batch(wf.jit(lambda x, *, y: x * y), (x,), {"y": normal(6, 10)})
    assert both is not None and both.outputs[0][0] == (12, 10)
    assert not pair_kernels(square, both)
    found = wf.profile(wf.jit(lambda x: x.reshape(2, 30) @ wf.ones((30, 3))), x, repeat=1, show=False)
    assert not found.batch_known and BATCH not in {gain.setting for gain in found.advice}


@pytest.mark.parametrize("jitted", [False, True])
def test_arrays_that_a_function_keeps_can_be_read(jitted: bool) -> None:
    class Layer:
        def run(self, x):
            self.kept = wf.tanh(x)
            return self.kept + 1

    layer, x = Layer(), normal(6, 10)
    assert wf.profile(wf.jit(layer.run) if jitted else layer.run, x, repeat=1, show=False).kernels
    np.testing.assert_array_equal(layer.kept.numpy(), wf.tanh(x).numpy())


def test_the_advice_for_a_call_weighs_its_kernels(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    net = wf.nn.Sequential(wf.nn.Linear(700, 600), wf.nn.Tanh(), wf.nn.Linear(600, 5))
    step = wf.train.training_step(net, wf.losses.cross_entropy, wf.optim.Adam().init(net))
    x, y = normal(32, 700), wf.asarray(RNG.integers(0, 5, 32))
    before = {name: a.numpy().copy() for name, a in net.arrays().items()}
    found = wf.profile(step, x, y, 1e-3, repeat=3)
    assert all((a.numpy() == before[name]).all() for name, a in net.arrays().items()), "planning a larger batch writes nothing"
    assert found.batch_known and {gain.setting for gain in found.advice} >= {BATCH, BFLOAT16}
    for gain in found.advice:
        rest = found.outside / (2 if gain.setting == BATCH else 1)
        for kernel in found.kernels:
            rest += kernel.seconds / next((g.factor for g in kernel.gains if g.setting == gain.setting), 1.0)
        assert gain.factor == pytest.approx(found.seconds / rest, rel=1e-6)
    out = capsys.readouterr().out
    assert 'wf.matmul_precision("bfloat16")' in out and "twice the batch" in out and "batch 1." in out
    assert "wf.matmul_precision(&quot;bfloat16&quot;)" in found._repr_html_()


def test_the_cpu_measures_bfloat16_if_it_multiplies_it() -> None:
    from weft.devices.cpu.native.host_cpu import host

    found = get_device("cpu").measure()
    assert (found.get("bfloat16_flops", 0.0) > 1e9) == host().multiplies_bfloat16
