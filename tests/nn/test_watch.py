"""wf.watch: statistics of a model's numbers against NumPy, in eager code, in jit, in loops and in fit, without any change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.devices import get_num_threads, set_num_threads
from weft.dtypes.api import fixed_dtype, float_dtype
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.nn.watch import BINS, BLOCK, LOWEST, MAX_SAMPLE, measure
from weft.tools.cli import main


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def net_of(seed: int = 0) -> wf.nn.Module:
    wf.random.seed(seed)
    return wf.nn.Sequential(wf.nn.Linear(3, 40), wf.nn.ReLU(), wf.nn.Linear(40, 2))


def loss(net: Any, x: Any) -> Any:
    return (net(x) ** 2).mean()


def data(n: int = 64, seed: int = 0) -> Any:
    return wf.array(np.random.default_rng(seed).standard_normal((n, 3), np.float32))


class Measured(wf.nn.Module):
    """Returns its input, so that a watch measures it."""

    def forward(self, x: Any) -> Any:
        return x


def statistics_of(x: np.ndarray, form: str, jitted: bool) -> Any:
    net = Measured()
    with wf.watch(net, format=form) as watch:
        (wf.jit(lambda x: net(x) + 0) if jitted else lambda x: net(x) + 0)(wf.array(x))
    return watch["output"]


def overflows(a: np.ndarray, form: str) -> int:
    """Return how many magnitudes are rounded beyond the largest number, were there one more power of two."""
    largest = float(wf.finfo(form).max)
    step = largest - float(np.nextafter(np.array(largest, form), np.array(0, form)))
    if form in ("float32", "float64"):
        return int(np.isinf(a.astype(form)).sum())
    with np.errstate(all="ignore"):
        return int((np.round(a / step) > largest / step).sum())


def expected(x: np.ndarray, form: str) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        a = np.abs(x.astype(np.float64))
        narrow = x.astype(np.float64 if form == "float64" else form)
    flat, step = a.reshape(-1).astype(np.float32), -(-x.size // MAX_SAMPLE)
    if step > 1:
        rows = x.size // (BLOCK * step)
        flat = flat[: rows * BLOCK * step].reshape(rows, -1)[:, :BLOCK].reshape(-1)
    finite = flat[np.isfinite(flat)]
    powers = np.clip(np.floor(np.log2(finite[finite != 0].astype(np.float64))), LOWEST, LOWEST + BINS - 1).astype(int) - LOWEST
    known = a[~np.isnan(a)]
    return {
        "n": x.size, "zeros": int((a == 0).sum()), "nan": int(np.isnan(a).sum()), "overflow": overflows(a, form),
        "underflow": int(((narrow.astype(np.float64) == 0) & (a > 0)).sum()),
        "largest": float(known.max()) if known.size else None,
        "mean": float(finite.astype(np.float64).mean()) if finite.size else 0.0, "histogram": np.bincount(powers, minlength=BINS),
        "sampled": finite.size,
    }


def numbers(r: np.random.Generator, dtype: str) -> np.ndarray:
    size = int(r.choice((1, 7, 300, 5_000, 70_000, 140_001)))
    x = r.standard_normal(size) * 2.0 ** r.uniform(-20, 20, size)
    for value in (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 2.0**-10, 2.0**-17, 448.0, 464.0, 465.0, 65519.0, 65520.0, 7.0):
        x[r.integers(0, size, max(size // 50, 1))] = value
    x[0] = 1.5
    with np.errstate(all="ignore"):
        return x.astype(np.dtype(dtype))


@pytest.mark.parametrize("form", ["float32", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float4_e2m1fn"])
@pytest.mark.parametrize("seed", range(3))
def test_statistics_are_those_of_numpy(form: str, seed: int, threads: int) -> None:
    r = np.random.default_rng((seed, len(form)))
    x = numbers(r, str(r.choice(("float32", "float64", "float16"))))
    want = expected(x, form)
    for jitted in (False, True):
        got = statistics_of(x, form, jitted)
        for name, value in want.items():
            found = getattr(got, name)
            if name == "mean":
                assert found == pytest.approx(value, rel=1e-6), f"seed {seed}"
            elif name == "histogram":
                assert np.array_equal(found, value), f"seed {seed}"
            elif value is not None:
                assert found == value, f"{name}: {found}, NumPy {value}; {x.dtype}, seed {seed}"


@pytest.mark.parametrize("form", [
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e4m3fnuz", "float16", "bfloat16", "float32", float_dtype(3, 3),
    float_dtype(4, 2, saturate=True), fixed_dtype(8, 4),
])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_overflow_begins_where_a_cast_goes_beyond_the_largest_number(form: Any, dtype: str, recwarn: Any) -> None:
    f = parse_dtype(form)
    step = 2.0 ** ((f.top >> f.mantissa or 1) - f.bias - f.mantissa)
    x = f.largest + step * np.array([-1, 0, 0.25, 0.49, 0.5, 0.51, 0.99, 1, 1.5, 1.75, 2, 40, np.inf])
    with np.errstate(all="ignore"):
        x = np.concatenate([x, -x]).astype(dtype)
    beyond = [0, 0, 0, 0, f.top & 1, *[1] * 8]
    negative = beyond if f.special != "fixed" else [*[0] * 9, *[1] * 4]
    if form == "float32" and dtype == "float32":
        beyond = negative = np.isinf(x[:13]).tolist()
    for jitted in (False, True):
        got = [statistics_of(x[k : k + 1], form, jitted).overflow for k in range(26)] if not jitted else None
        assert got in (None, [*beyond, *negative])
        assert statistics_of(x, form, jitted).overflow == sum(beyond) + sum(negative)
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
    if not f.saturate and f.special in ("ieee", "fn"):
        cast = wf.array(x).astype(form).astype("float64").numpy()
        assert (~np.isfinite(cast)).tolist() == [bool(v) for v in (*beyond, *negative)]


def test_the_same_bits_over_threads_and_ways_of_running() -> None:
    x = wf.array(numbers(np.random.default_rng(5), "float32"))
    form, before, cells = parse_dtype("float8_e4m3fn"), get_num_threads(), []
    for count in (1, 2):
        set_num_threads(count)
        for f in (measure, lambda x, form: wf.jit(lambda x: measure(x, form))(x)):
            cells.append(f(x, form).numpy().tobytes())
    set_num_threads(before)
    assert len(set(cells)) == 1


def test_counts_and_magnitude_take_no_kernel_of_their_own() -> None:
    x = wf.ones((300, 200))

    def cast(x: Any) -> Any:
        y = x.astype("float8_e4m3fn")
        a = wf.abs(x)
        return y, a.max(), (a > 448).sum(), ((a < 2.0**-10) & (a != 0)).sum(), (a == 0).sum(), wf.isnan(a).sum()

    assert len(wf.explain(cast, x).kernels) == 1


def test_names_and_roles() -> None:
    net, x = net_of(), data()
    gradient = wf.grad(loss)(net, x)
    with wf.watch(net) as watch:
        same = wf.grad(loss)(net, x)
    for name, g in gradient.parameters().items():
        assert np.array_equal(g.numpy(), same.parameters()[name].numpy())
        assert watch[f"{name}.gradient"].largest == np.abs(g.numpy()).max()
        assert watch[name].largest == np.abs(net.parameters()[name].numpy()).max()
    assert watch["0"].largest == np.abs(net[0](x).numpy()).max() and watch["output"].n == 128
    assert {"1", "1.gradient", "output.gradient"} <= set(watch.statistics)
    with wf.watch(net, only=["0.*", "2"]) as few:
        net(x)
    assert set(few.statistics) == {"0.weight", "0.bias", "2", "2.weight", "2.bias"}


def test_formats_of_precision_and_what_would_fit() -> None:
    net, x = net_of(), data()
    formats = {"0": dict(weights="float8_e4m3fn", activations="bfloat16", gradients="float8_e5m2")}
    with wf.precision(formats), wf.watch(net) as watch:
        wf.grad(loss)(net, x * 1e4)
    assert [watch[n].format for n in ("0.weight", "0", "0.gradient", "2.weight")] == [
        "float8_e4m3fn", "bfloat16", "float8_e5m2", "float32"]
    with wf.precision(weights=wf.mxfp4), wf.watch(net) as watch:
        net(x)
    assert watch["0.weight"].format == "float32"
    with wf.watch(net, format="float8_e4m3fn") as watch:
        net(x * 1e4)
    assert watch["0"].overflow == int((np.abs(net[0](x * 1e4).numpy()) > 464).sum()) > 0
    assert watch["0"].fits in ("float8_e5m2", "float16") and watch["0.weight"].fits == "float8_e4m3fn"
    (line,) = [line for line in str(watch).splitlines() if line.startswith("0 (")]
    assert "overflow float8_e4m3fn" in line and watch["0"].fits in line
    assert float(ml_dtypes.finfo("float8_e4m3fn").max) == 448


class Scaled(wf.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.second, self.scale = wf.nn.Linear(3, 4), wf.nn.Linear(4, 2), scale

    def forward(self, x: Any) -> Any:
        hidden = self.first(x)
        return self.second(hidden) * self.scale


@pytest.mark.parametrize("way", [lambda f: f, wf.jit], ids=["eager", "jit"])
def test_lines(way: Any) -> None:
    net, first = Scaled(1e9), Scaled.forward.__code__.co_firstlineno + 1
    with wf.watch(net, format="float16") as watch:
        way(wf.grad(lambda net, x: net(x).sum()))(net, data()[:, :3])
    called = {"first": first, "second": first + 1, "output": first + 1}
    for name, s in watch.statistics.items():
        owner = name.partition(".")[0]
        assert s.line == f"{__file__}:{called[owner]}", (name, s.line)
    assert f"output ({os.path.basename(__file__)}:{first + 1}): {watch['output'].overflow} of" in str(watch)


def test_a_jitted_function_is_traced_once_with_a_watch_and_once_without() -> None:
    net = net_of()

    @wf.jit
    def step(x: Any) -> Any:
        return wf.value_and_grad(loss)(net, x)[0]

    value = step(data())
    with wf.watch(net) as watch:
        for seed in range(4):
            step(data(seed=seed))
            assert watch["output"].n == 128
        largest = watch["output"].largest
        step(data() * 3)
        assert watch["output"].largest != largest
    for _ in range(3):
        assert step(data()) == value
    assert step.traces == 2


def test_watches_inside_of_one_another_all_measure() -> None:
    a, b, x = net_of(1), net_of(2), data()
    both = wf.jit(lambda x: wf.value_and_grad(lambda a, b: (a(x) * b(x)).mean(), argnums=(0, 1))(a, b))
    _, (plain, _) = both(x)
    with wf.watch(a) as outer, wf.watch(b) as inner, wf.watch(a, only="0.weight*") as again:
        for _ in range(2):
            _, (watched, _) = both(x)
    assert both.traces == 2 and watched[0].weight.numpy().tobytes() == plain[0].weight.numpy().tobytes()
    for watch, net in ((outer, a), (inner, b)):
        assert watch["0"].largest == np.abs(net[0](x).numpy()).max() and len(watch.statistics) == 16
    assert set(again.statistics) == {"0.weight", "0.weight.gradient"}
    for name, seen in again.statistics.items():
        assert seen.largest == outer[name].largest and np.array_equal(seen.histogram, outer[name].histogram)
    first, second = wf.watch(a, every=2), wf.watch(a, every=3)
    with first, second:
        y = np.zeros((64, 2), "float32")
        wf.train.fit(a, x.numpy(), y, loss=wf.losses.mse, epochs=6, batch_size=64, show=False, callbacks=[first, second])
    assert [step for step, _ in first.records] == [1, 3, 5] and [step for step, _ in second.records] == [1, 4]
    with outer, inner:
        outer.__exit__()  # before the inner one
        b(x * 3)
        assert inner["0"].largest == np.abs(b[0](x * 3).numpy()).max()
        outer.__enter__()


def test_loops_remat_and_vmap() -> None:
    net = wf.nn.Linear(3, 3)
    x = data()
    with wf.watch(net) as watch:
        y, _ = wf.scan(lambda c, _: (net(c), None), x, None, length=3)
    assert watch["output"].largest == np.abs(y.numpy()).max()
    with wf.watch(net) as watch:
        g = wf.grad(lambda n, x: (wf.remat(n)(x) ** 2).sum())(net, x)
    assert watch["output"].n == 192 and g.weight.shape == (3, 3)
    with wf.watch(net) as watch:
        assert wf.vmap(net)(x).shape == (64, 3)
    assert not watch.statistics and str(watch) == "watch: nothing has been measured"


def test_a_layer_that_is_called_twice_has_the_gradients_of_both_calls() -> None:
    class Twice(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = wf.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(wf.tanh(self.layer(x)))

    net = Twice()
    with wf.watch(net) as watch:
        wf.grad(loss)(net, data())
    assert watch["layer.gradient"].n == 2 * 192 and watch["layer"].n == 192
    assert watch["layer.gradient"].largest >= watch["output.gradient"].largest


def test_gradients_of_parameters_are_those_of_value_and_grad() -> None:
    """Two calls, a use outside of the layer, and equal parameters of two layers."""
    net, x = wf.nn.Sequential(wf.nn.Linear(3, 3), wf.nn.Tanh(), wf.nn.Linear(3, 3)), data()
    net[2].weight = net[0].weight.copy()

    def value(net: Any, x: Any) -> Any:
        return (net(net(x)) * net(x)).sum() + 50 * (net[0].weight ** 3).sum()

    for f in (wf.grad(value), wf.jit(wf.grad(value))):
        plain = f(net, x)
        with wf.watch(net) as watch:
            gradient = f(net, x)
        for name, g in gradient.parameters().items():
            seen, a = watch[f"{name}.gradient"], np.abs(g.numpy())
            assert (seen.largest, seen.n) == (a.max(), a.size)
            assert g.numpy().tobytes() == plain.parameters()[name].numpy().tobytes()
    with wf.watch(net) as watch:
        wf.grad(lambda x: value(net, x))(x)
    assert watch["2.bias.gradient"].n == 3 * 3


def test_precision_does_not_round_biases_tables_and_gradients_of_parameters() -> None:
    net = wf.nn.Sequential(wf.nn.Embedding(7, 3), wf.nn.Linear(3, 4))
    with wf.precision(weights="float4_e2m1fn", gradients="float8_e5m2"), wf.watch(net) as watch:
        wf.grad(lambda net: (net(wf.array([1, 2, 6])) ** 2).sum())(net)
    forms = {"1.weight": "float4_e2m1fn", "1.gradient": "float8_e5m2"}
    for name in ("0.weight", "1.weight", "1.bias", "0.weight.gradient", "1.weight.gradient", "1.bias.gradient", "1.gradient"):
        assert watch[name].format == forms.get(name, "float32"), name


def test_fit_with_a_watch_gives_the_same_weights() -> None:
    x = data(640).numpy()
    y = (x.sum(1) > 0).astype("int32")
    plain, watched = net_of(), net_of()
    for options in ({}, {"precision": dict(weights="float8_e4m3fn")}, {"accumulate": 2}, {"precision": "float16"}):
        wf.train.fit(plain, x, y, epochs=2, validation=0.2, show=False, **options)
        with wf.watch(watched, every=7) as watch:
            wf.train.fit(watched, x, y, epochs=2, validation=0.2, show=False, callbacks=[watch], **options)
        for name, p in plain.parameters().items():
            assert p.numpy().tobytes() == watched.parameters()[name].numpy().tobytes(), (name, options)
        steps = [step for step, _ in watch.records]
        assert steps == list(range(1, 33 if "accumulate" not in options else 17, 7)), options
        assert all("0.weight.gradient" in of for _, of in watch.records)


def test_records_and_plot(tmp_path: Any) -> None:
    net = net_of()
    with wf.watch(net) as watch:
        for k in range(3):
            wf.grad(loss)(net, data() * 10.0**k)
            watch.record()
    assert [step for step, _ in watch.records] == [1, 2, 3]
    sizes = [of["0"].largest for _, of in watch.records]
    assert sizes == sorted(sizes) and "2 records" not in repr(watch)
    pytest.importorskip("matplotlib")
    watch.plot(tmp_path / "watch.png")
    assert (tmp_path / "watch.png").stat().st_size > 5_000


def test_the_command_prints_and_draws(tmp_path: Any, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    picture = tmp_path / "watch.png"
    assert main(["train", "digits", "--epochs", "1", "--batch-size", "64", "--watch", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "one of 1 that were watched" in shown and "4.weight.gradient" in shown and picture.stat().st_size > 5_000


def test_bad_input_and_states() -> None:
    net = net_of()
    with pytest.raises(TypeError, match="must be a Module"):
        wf.watch(lambda x: x)
    with pytest.raises(ValueError, match="every"):
        wf.watch(net, every=0)
    with pytest.raises(DTypeError, match="float format"):
        wf.watch(net, format="int8")
    with pytest.raises(DTypeError, match="it is a format for scales"):
        wf.watch(net, format="float8_e8m0fnu")
    for only in (0, ["0", 1]):
        with pytest.raises(TypeError, match="only must be a pattern such as"):
            wf.watch(net, only=only)
    with pytest.raises(ValueError, match="this watch is not active"):
        wf.watch(net).__exit__(None, None, None)
    with pytest.raises(ValueError, match="'7.*' matches no layer and no parameter of Sequential; there are 0, 1, 2, output"):
        wf.watch(net, only="7.*")
    watch = wf.watch(net)
    with pytest.raises(ValueError, match="must be active"):
        wf.train.fit(net, data().numpy(), np.zeros(64, "int32"), epochs=1, show=False, callbacks=[watch])
    with watch, pytest.raises(ValueError, match="active already"):
        watch.__enter__()
    with pytest.raises(KeyError, match="has not been measured"):
        watch["0"]
    with pytest.raises(KeyError, match="no tensor"):
        watch["nothing"]
    with pytest.raises(RuntimeError), watch:
        raise RuntimeError
    net(data())
    assert not watch.statistics  # it ended with the block
    with watch:
        net(wf.zeros((0, 3)))
    assert set(watch.statistics) == {"0.weight", "0.bias", "2.weight", "2.bias"}  # outputs without elements are left out
