"""``wf.precision`` and ``fake_quantize`` against NumPy with the dtypes of ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft import fixed_dtype, float_dtype
from weft.errors import DTypeError, ShapeError

FORMATS = ["float4_e2m1fn", "float6_e3m2fn", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float16", "bfloat16"]


def rounded(a: Any, name: str | None) -> np.ndarray:
    """Round to nearest, and saturate in formats without infinities."""
    a = np.asarray(a, np.float32)
    if name is None:
        return a
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    largest = float(ml_dtypes.finfo(dtype).max)
    if name not in ("float8_e5m2", "float16", "bfloat16"):
        a = np.clip(a, -largest, largest)
    return a.astype(dtype).astype(np.float32)


def draw(*shape: int, seed: int) -> wf.Array:
    rng = np.random.default_rng(seed)
    return wf.array((rng.normal(size=shape) * np.exp2(rng.integers(-4, 4, shape))).astype("float32"))


def random_formats(rng: np.random.Generator) -> dict[str, str | None]:
    return {role: rng.choice([*FORMATS, None]) for role in ("weights", "activations", "gradients")}


def compare(got: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-5 * np.abs(want).max())


@pytest.mark.parametrize("jitted", [False, True])
def test_linear(jitted: bool) -> None:
    for seed in np.random.default_rng().integers(10**6, size=4):
        print("seed", seed)
        formats = random_formats(np.random.default_rng(seed))
        m, n, k = np.random.default_rng(seed).integers(1, 40, 3)
        x, w, b, t = draw(m, k, seed=seed), draw(n, k, seed=seed + 1), draw(n, seed=seed + 2), draw(m, n, seed=seed + 3)

        def run(x: Any, w: Any, b: Any, t: Any = t) -> Any:
            return wf.value_and_grad(lambda *a: (wf.nn.linear(*a) * t).sum(), argnums=(0, 1, 2))(x, w, b)

        with wf.precision(**formats):
            y = wf.nn.linear(x, w, b)
            _, (dx, dw, db) = (wf.jit(run) if jitted else run)(x, w, b)
        qx, qw, qg = rounded(x, formats["activations"]), rounded(w, formats["weights"]), rounded(t, formats["gradients"])
        compare(y, qx @ qw.T + b.numpy())
        compare(dx, qg @ qw)
        compare(dw, qg.T @ qx)
        compare(db, t.numpy().sum(0))


def test_other_products() -> None:
    """The results in a precision are those of a plain layer with operands and gradients rounded by hand."""
    seed = int(np.random.default_rng().integers(10**6))
    print("seed", seed)
    formats = {"weights": "float8_e4m3fn", "activations": "float8_e5m2", "gradients": "float6_e3m2fn"}
    image, sound, rows = draw(2, 4, 6, 6, seed=seed), draw(2, 4, 9, seed=seed), draw(5, 4, seed=seed)
    wf.random.seed(seed)
    cases = [
        (wf.nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False), (image,)),
        (wf.nn.Conv1d(4, 3, 3, stride=2, bias=False), (sound,)),
        (wf.nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2, bias=False), (image,)),
        (wf.nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect", bias=False), (image,)),
        (wf.nn.Bilinear(4, 4, 3, bias=False), (rows, draw(5, 4, seed=seed + 1))),
    ]
    for layer, inputs in cases:
        t = draw(*layer(*inputs).shape, seed=seed + 2)

        def gradients(weight: Any, *xs: Any, layer: Any = layer, t: Any = t) -> Any:
            def loss(weight: Any, *xs: Any) -> Any:
                layer.weight[...] = weight
                return (layer(*xs) * t).sum()

            return wf.grad(loss, argnums=tuple(range(1 + len(xs))))(weight, *xs)

        with wf.precision(**formats):
            y, found = layer(*inputs), gradients(layer.weight.copy(), *inputs)
        weight = wf.array(rounded(layer.weight, "float8_e4m3fn"))
        xs = [wf.array(rounded(x, "float8_e5m2")) for x in inputs]
        t[...] = rounded(t, "float6_e3m2fn")
        layer.weight[...] = weight
        compare(y, layer(*xs).numpy())
        for got, want in zip(found, gradients(weight, *xs), strict=True):
            compare(got, want.numpy())


def test_attention_projects_in_the_precision() -> None:
    layer, x = wf.nn.MultiHeadAttention(8, 2), draw(2, 5, 8, seed=0)
    with wf.precision(weights="float8_e4m3fn"):
        y = layer(x)
    for array in (layer.in_proj_weight, layer.out_proj.weight):
        array[...] = rounded(array, "float8_e4m3fn")
    compare(y, layer(x).numpy())


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent(kind: str) -> None:
    layer, x = getattr(wf.nn, kind)(3, 4, num_layers=2, bidirectional=True), draw(6, 2, 3, seed=1)
    run = wf.jit(wf.value_and_grad(lambda net, x: net(x)[0].sum()))
    with wf.precision(weights="float8_e4m3fn"):
        value, slopes = run(layer, x)
    for name, array in layer.parameters().items():
        if name.startswith("weight"):
            array[...] = rounded(array, "float8_e4m3fn")
    want, slopes_of_rounded = run(layer, x)
    np.testing.assert_allclose(float(value), float(want), rtol=1e-5)
    for name, g in slopes_of_rounded.parameters().items():
        compare(slopes.parameters()[name], g.numpy())
    with wf.precision(activations="float6_e3m2fn", gradients="float8_e5m2", rounding="stochastic"):
        value, slopes = run(layer, x)
    assert float(value) != float(want) and all(np.isfinite(g.numpy()).all() for g in slopes.parameters().values())


def test_stochastic_rounding_is_unbiased_and_draws_anew() -> None:
    x, w = wf.ones((1, 1)), wf.full((4000, 1), 0.3)
    for formats in ({"weights": "float8_e4m3fn"}, {"gradients": "float8_e4m3fn"}):
        run = wf.jit(wf.value_and_grad(lambda x, w: (wf.nn.linear(x, w) * 0.3).sum(), argnums=1))
        with wf.precision(**formats, rounding="stochastic"):
            wf.random.seed(3)
            parts = [run(x, w) for _ in range(3)]
            wf.random.seed(3)
            again = run(x, w)
        means = [float(p[0]) / 4000 / 0.09 if "weights" in formats else float(p[1].mean()) / 0.3 for p in parts]
        assert len(set(means)) == 3 and all(abs(m - 1) < 0.01 for m in means), means
        assert float(again[0]) == float(parts[0][0]) and (again[1] == parts[0][1]).all()
        if "gradients" in formats:
            assert set(parts[0][1][:, 0].tolist()) == {0.28125, 0.3125}


def test_vmap_and_scan() -> None:
    x, w = draw(4, 5, 8, seed=2), draw(3, 8, seed=3)
    with wf.precision(weights="float8_e4m3fn", activations="bfloat16", gradients="float8_e5m2"):
        mapped = wf.vmap(lambda x: wf.value_and_grad(lambda w: (wf.nn.linear(x, w) ** 2).sum())(w))(x)
        singly = [wf.value_and_grad(lambda w, x=x: (wf.nn.linear(x, w) ** 2).sum())(w) for x in x]
        total = wf.grad(lambda w: wf.scan(lambda c, x: (c + (wf.nn.linear(x, w) ** 2).sum(), None), wf.zeros(()), x)[0])(w)
    for k, (value, slope) in enumerate(singly):
        np.testing.assert_allclose(float(mapped[0][k]), float(value), rtol=1e-5)
        compare(mapped[1][k], slope.numpy())
    compare(total, mapped[1].numpy().sum(0))
    with wf.precision(gradients="float8_e5m2", rounding="stochastic"):
        drawn = wf.vmap(lambda x: wf.grad(lambda w: (wf.nn.linear(x, w) * x * 0.3).sum())(wf.ones((1, 1))))(wf.ones((50, 1, 1)))
    assert set(drawn[:, 0, 0].tolist()) == {0.25, 0.3125}  # every example draws words of its own


def test_a_second_derivative_is_that_of_the_rounded_product() -> None:
    x, w = draw(4, 3, seed=4), draw(2, 3, seed=5)
    with wf.precision(weights="float8_e4m3fn", gradients="bfloat16"):
        tangent = wf.jvp(lambda x: (wf.nn.linear(x, w) ** 2).sum(), (x,), (wf.ones_like(x),))[1]
        twice = wf.grad(lambda x: (wf.grad(lambda x: (wf.nn.linear(x, w) ** 2).sum())(x)).sum())(x)
    q = rounded(w, "float8_e4m3fn")
    np.testing.assert_allclose(float(tangent), (2 * (x.numpy() @ q.T) * q.sum(1)).sum(), rtol=1e-4)
    compare(twice, np.broadcast_to(2 * q.sum(1) @ q, (4, 3)).copy())


def test_remat_draws_the_same_words() -> None:
    x, w = draw(6, 8, seed=6), draw(5, 8, seed=7)

    def loss(w: Any) -> Any:
        return (wf.nn.linear(wf.tanh(wf.nn.linear(x, w)), wf.eye(5)) ** 2).sum()

    results = []
    with wf.precision(weights="float8_e4m3fn", gradients="float8_e5m2", rounding="stochastic"):
        for f in (loss, wf.remat(loss)):
            wf.random.seed(1)
            results.append(wf.grad(f)(w).numpy())
    assert (results[0] == results[1]).all()


def test_kernels() -> None:
    """Activations and gradients are rounded in the kernels that compute them. Each weight is rounded once a step."""
    net = wf.nn.Sequential(wf.nn.Linear(96, 64), wf.nn.ReLU(), wf.nn.Linear(64, 48), wf.nn.ReLU(), wf.nn.Linear(48, 32))
    x, t = draw(128, 96, seed=8), draw(128, 32, seed=9)

    def count(**formats: Any) -> tuple[int, int]:
        with wf.precision(**formats):
            step = wf.jit(lambda x, t: wf.value_and_grad(lambda net: ((net(x) - t) ** 2).mean())(net))
            return len(wf.explain(wf.jit(lambda x: net(x)), x).kernels), len(wf.explain(step, x, t).kernels)

    forward, step = count()
    assert count(weights="float8_e4m3fn") == (forward + 3, step + 3)
    assert count(activations="bfloat16") == (forward + 1, step + 1)  # that of the input
    assert count(gradients="float8_e5m2") == (forward, step)
    assert count(gradients="float8_e5m2", rounding="stochastic") == (forward, step + 1)  # the state of random numbers


def test_a_jitted_function_is_traced_once_for_each_precision() -> None:
    w = draw(3, 4, seed=10)
    f = wf.jit(lambda x: wf.nn.linear(x, w))
    x = draw(2, 4, seed=11)
    results = set()
    for _ in range(3):
        results.add(float(f(x).sum()))
        for format_ in ("float8_e4m3fn", "float4_e2m1fn"):
            with wf.precision(weights=format_):
                results.add(float(f(x).sum()))
                with wf.precision():
                    results.add(float(f(x).sum()))
    assert len(results) == 3 and f.traces == 4  # no precision, that of wf.precision(), and two


def test_layers_by_name() -> None:
    net = wf.nn.Sequential(wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Linear(4, 4)), wf.nn.Linear(4, 2))
    x = draw(5, 3, seed=12)
    run = wf.jit(lambda net, x: net(x))

    def want(*names: str) -> np.ndarray:
        copies = {name: net.parameters()[f"{name}.weight"] for name in names}
        saved = {name: a.copy() for name, a in copies.items()}
        for a in copies.values():
            a[...] = rounded(a, "float4_e2m1fn")
        y = net(x).numpy()
        for name, a in copies.items():
            a[...] = saved[name]
        return y

    f = {"weights": "float4_e2m1fn"}
    cases: list[tuple[Any, tuple[str, ...]]] = [
        ({"0.*": f}, ("0.0", "0.2")), ({"0": f}, ("0.0", "0.2")), ({"0.2": f, "1": f}, ("0.2", "1")),
        ({"1": None, "*": f}, ("0.0", "0.2")), ({"*": f, "1": None}, ("0.0", "0.2", "1")), ({"*.0": f}, ("0.0",)),
    ]
    for _ in range(2):
        for layers, names in cases:
            with wf.precision(layers):
                for y in (net(x), run(net, x), wf.vmap(net)(x)):
                    compare(y, want(*names))
    with wf.precision(**f, only=["0.0", "1"]):
        compare(net(x), want("0.0", "1"))
    with wf.precision(**f, only="encoder.*"), pytest.raises(ValueError, match="'encoder.*' matches no layer of Sequential"):
        run(net, x)
    assert (net(x) == run(net, x)).all()


def test_a_function_jitted_inside_of_a_layer_is_traced_for_each_layer() -> None:
    inner = wf.jit(lambda x, w: wf.nn.linear(x, w))

    class Layer(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = draw(3, 3, seed=13)

        def forward(self, x: Any) -> Any:
            return inner(x, self.weight)

    net, x = wf.nn.Sequential(Layer(), Layer()), draw(2, 3, seed=14)
    q = rounded(net[0].weight, "float4_e2m1fn")
    for only, (first, second) in (("0", (q, net[1].weight.numpy())), ("1", (net[0].weight.numpy(), q))):
        with wf.precision(weights="float4_e2m1fn", only=only):
            compare(net(x), x.numpy() @ first.T @ second.T)


def test_saturation() -> None:
    w = wf.full((1, 1), 1000.0)
    with wf.precision(weights="float8_e4m3fn"):
        assert float(wf.nn.linear(wf.ones((1, 1)), w)) == 448
    with wf.precision(weights="float8_e4m3fn", saturate=False):
        assert np.isnan(float(wf.nn.linear(wf.ones((1, 1)), w)))
    with wf.precision(weights="float8_e5m2", activations="float8_e5m2", saturate={"weights": True}):
        assert float(wf.nn.linear(wf.ones((1, 1)), w * 100)) == 57344
        assert float(wf.nn.linear(w * 100, wf.ones((1, 1)))) == np.inf


@pytest.mark.parametrize("arguments,error,message", [
    ({"weights": "int8"}, DTypeError, "weights: int8 cannot represent fractions"),
    ({"weights": "float8_e8m0fnu"}, DTypeError, "no negative numbers"),
    ({"activations": "complex64"}, DTypeError, "activations: complex64"),
    ({"gradients": "bfloat16", "rounding": "odd"}, ValueError, "gradients: rounding='odd' must be one of"),
    ({"weights": "bfloat16", "rounding": {"gradients": "up"}}, ValueError, "rounding names gradients, which have no format"),
    ({"weights": "bfloat16", "rounding": {"bias": "up"}}, ValueError, "no role 'bias'"),
    ({"rounding": "up"}, ValueError, "needs a format"),
    ({"weights": "float4_e2m1fn", "saturate": False}, DTypeError, "saturate=False is not possible"),
    ({"weights": "bfloat16", "only": []}, TypeError, "must be a name of a layer"),
    ({"accumulate": "float64"}, DTypeError, "accumulate=float64 is not narrower than float32"),
    ({"accumulate": "int32"}, DTypeError, "accumulate=int32 is for products of integers"),
    ({"every": 4}, ValueError, "every=4 needs the format of the sums"),
    ({"accumulate": "float16", "every": 0}, ValueError, "every=0 must be at least 1"),
])
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    for function in (wf.Precision, wf.precision):
        with pytest.raises(error, match=message):
            function(**arguments)


def test_bad_patterns_and_operands() -> None:
    with pytest.raises(TypeError, match="'a' has no option 'sums': there are weights, .*, every, rounding and saturate"):
        wf.precision({"a": {"sums": "float16"}})
    with pytest.raises(TypeError, match="must have a dict"):
        wf.precision({"weights": "bfloat16"})
    with pytest.raises(TypeError, match="by pattern or as arguments"):
        wf.precision({"*": None}, weights="bfloat16")
    with pytest.raises(TypeError, match="a Precision or arguments"):
        wf.precision(wf.Precision(), weights="bfloat16")
    with wf.precision(weights="float16"):
        with pytest.raises(DTypeError, match="weights of bfloat16 cannot represent the numbers of float16"):
            wf.nn.linear(wf.ones((2, 3), "bfloat16"), wf.ones((2, 3), "bfloat16"))
        with pytest.raises(DTypeError, match="operands of int32 cannot be rounded"):
            wf.nn.linear(wf.ones((2, 3), "int32"), wf.ones((2, 3), "int32"))


def test_fake_quantize() -> None:
    rng = np.random.default_rng()
    for name in FORMATS:
        x = wf.array((rng.normal(size=(6, 5)) * 2).astype("float32"))
        assert (wf.nn.fake_quantize(x, name).numpy() == rounded(x, name)).all()
        g = wf.grad(lambda x, name=name: (wf.nn.fake_quantize(x, name, scale="tensor") * 3).sum())(x)
        np.testing.assert_allclose(g.numpy(), 3, rtol=1e-6)
        largest = float(ml_dtypes.finfo(np.dtype(getattr(ml_dtypes, name, name))).max)
        top = np.abs(x.numpy())
        for scale, axis, factor in (
            ("tensor", 0, top.max()), ("channel", 0, top.max(1, keepdims=True)), ("channel", -1, top.max(0, keepdims=True)),
        ):
            s = (factor / np.float32(largest)).astype(np.float32)
            got = wf.jit(lambda x, name=name, scale=scale, axis=axis: wf.nn.fake_quantize(x, name, scale=scale, axis=axis))(x)
            np.testing.assert_allclose(got.numpy(), rounded(x.numpy() / s, name) * s, rtol=1e-5, atol=1e-7 * top.max())
    x = wf.array([0.1, 0.7, -3.2, 200.0])
    np.testing.assert_allclose(wf.nn.fake_quantize(x, "int8", scale=0.5), np.clip(np.rint(x.numpy() * 2), -128, 127) / 2)
    assert (wf.nn.fake_quantize(x, "int8", rounding="toward zero") == wf.array([0.0, 0.0, -3.0, 127.0])).all()
    assert (wf.nn.fake_quantize(wf.zeros(3), "int8", scale="tensor") == 0).all()
    assert wf.nn.fake_quantize(x.astype("bfloat16"), "float4_e2m1fn").dtype == wf.bfloat16


def test_fake_quantize_refuses() -> None:
    x = wf.ones((3, 4))
    for error, message, arguments in (
        (ValueError, "scale='row'", {"scale": "row"}), (ValueError, "positive and finite", {"scale": 0}),
        (ShapeError, "does not broadcast", {"scale": wf.ones(3)}), (ShapeError, "axis=2", {"scale": "channel", "axis": 2}),
        (ValueError, "fake_quantize: rounding", {"rounding": "odd"}), (DTypeError, "not possible", {"saturate": False}),
    ):
        with pytest.raises(error, match=message):
            wf.nn.fake_quantize(x, "float4_e2m1fn", **arguments)
    with pytest.raises(DTypeError, match="must be a float array"):
        wf.nn.fake_quantize(wf.ones(3, "int32"), "int8")
    with pytest.raises(DTypeError, match="cannot represent"):
        wf.nn.fake_quantize(x.astype("bfloat16"), "float16")


def test_formats_of_users() -> None:
    x, w, t = draw(6, 8, seed=15), draw(5, 8, seed=16), draw(6, 5, seed=17)
    made = {
        "weights": fixed_dtype(10, 5), "activations": float_dtype(3, 2, infinities=False),
        "gradients": float_dtype(4, 5),
    }
    with wf.precision(**made):
        y, dw = wf.nn.linear(x, w), wf.jit(wf.grad(lambda w: (wf.nn.linear(x, w) * t).sum()))(w)
    qx, qw, qg = (
        a.astype(made[role], saturate=role != "gradients").astype("float32").numpy()
        for a, role in ((x, "activations"), (w, "weights"), (t, "gradients"))
    )
    compare(y, qx @ qw.T)
    compare(dw, qg.T @ qx)
    assert (wf.nn.fake_quantize(w, made["weights"]).numpy() == qw).all()
