"""16-bit activations with float32 weights, the scale of the loss, and updates from several batches."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits, data, net
from weft.train.step import FIRST_SCALE, Stepper, training_step

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def conv() -> wf.nn.Sequential:
    wf.random.seed(0)
    return wf.nn.Sequential(
        wf.nn.Conv2d(1, 4, 3, padding=1), wf.nn.BatchNorm2d(4), wf.nn.ReLU(), wf.nn.MaxPool2d(2), wf.nn.Flatten(),
        wf.nn.Linear(64, 5),
    )


def dense() -> wf.nn.Sequential:
    wf.random.seed(0)
    return wf.nn.Sequential(wf.nn.Flatten(), wf.nn.Linear(64, 20), wf.nn.BatchNorm1d(20), wf.nn.ReLU(), wf.nn.Linear(20, 5))


def smoothed(model: wf.nn.Sequential) -> wf.nn.Sequential:
    """Replace ReLU and MaxPool, whose derivatives jump where rounding moves an input past 0 or past another one."""
    for k, layer in enumerate(model):
        if isinstance(layer, wf.nn.ReLU | wf.nn.MaxPool2d):
            model[k] = wf.nn.Tanh() if isinstance(layer, wf.nn.ReLU) else wf.nn.AvgPool2d(2)
    return model


def images(n: int = 30):
    r = np.random.default_rng()
    return wf.array(r.normal(size=(n, 1, 8, 8)).astype("float32")), wf.array(r.integers(0, 5, n).astype("int32"))


@pytest.mark.parametrize("precision,make", [("float16", conv), ("bfloat16", dense)])
def test_gradients_are_those_of_float32_up_to_rounding(precision: str, make) -> None:
    x, y = images()
    found, wanted = [
        Stepper(smoothed(make()), wf.losses.cross_entropy, wf.optim.SGD(lr=0.1), precision=p).gradient(x, y)
        for p in (precision, None)
    ]
    largest = max(np.linalg.norm(g.numpy()) for g in wanted[1].values())
    bound = 4 * EPS[precision]
    assert float(found[0]) == pytest.approx(float(wanted[0]), rel=bound)
    for name, want in wanted[1].items():
        g, want = found[1][name].numpy(), want.numpy()
        assert g.dtype == np.float32
        error = np.linalg.norm(g - want) / largest
        assert error < bound, (name, error)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_activations_are_stored_in_16_bits_and_weights_in_32(precision: str) -> None:
    seen = []

    class Look(wf.nn.Module):
        def forward(self, x):
            seen.append(x.dtype.name)
            return x

    model = dense()
    model.insert(3, Look())
    x, y = images()
    wf.train.fit(model, x, y, epochs=1, precision=precision, show=False, validation=(x, y))
    assert set(seen) == {precision, "float32"}  # float32 where the model is looked at and validated
    assert {a.dtype.name for a in model.arrays().values()} == {"float32"}
    assert (model[2].running_mean.numpy() != 0).all()
    moved = Stepper(model, wf.losses.cross_entropy, wf.optim.SGD(lr=0.1).init(model), precision=precision)
    x, y = images(600)  # nothing of these is computed
    small, large = (
        sum(k.bytes for k in wf.explain(wf.jit(lambda x, y, s=s: s.gradient(x, y)), x, y).kernels)
        for s in (moved, Stepper(model, wf.losses.cross_entropy, wf.optim.SGD(lr=0.1)))
    )
    assert small < large


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_it_learns(precision: str) -> None:
    x, y = data(400)
    model = net()
    history = wf.train.fit(
        model, x, y, epochs=30, optimizer=wf.optim.Adam(lr=0.02), precision=precision, metrics=["accuracy"], show=False,
    )
    assert history["accuracy"][-1] > 0.93 > history["accuracy"][0]


def test_an_overflow_leaves_the_update_out_and_halves_the_scale() -> None:
    x, y = (wf.asarray(a) for a in data(20))
    model = net()
    optimizer = wf.optim.Adam(lr=0.01).init(model)
    stepper = Stepper(model, wf.losses.cross_entropy, optimizer, precision="float16")
    stepper.arrays["scale"][...] = 2.0**40
    state = {**bits(model), **{n: a.numpy().tobytes() for n, a in optimizer.arrays().items()}}
    scale = 2.0**40
    skipped = 0
    while scale > 2.0**10:
        assert np.isfinite(stepper.advance([(x, y)], 0.01)[0])
        now = {**bits(model), **{n: a.numpy().tobytes() for n, a in optimizer.arrays().items()}}
        if now != state:
            break
        scale, skipped = scale / 2, skipped + 1
        assert float(stepper.arrays["scale"]) == scale and float(stepper.arrays["good"]) == 0
    assert 5 < skipped < 30 and float(stepper.arrays["good"]) == 1 and float(optimizer.step_count) == 1
    reference = net()
    training_step(reference, wf.losses.cross_entropy, wf.optim.Adam(lr=0.01).init(reference))(x, y, 0.01)
    for name, a in model.arrays().items():  # the first Adam step is lr * sign(g): equal signs, equal weights
        np.testing.assert_allclose(a.numpy(), reference.arrays()[name].numpy(), atol=2e-3)
    stepper.arrays["good"][...] = 1999
    before = float(stepper.arrays["scale"])
    stepper.advance([(x, y)], 0.01)
    assert float(stepper.arrays["scale"]) == 2 * before and float(stepper.arrays["good"]) == 0
    assert float(Stepper(net(), wf.losses.mse, optimizer, precision="float16").arrays["scale"]) == FIRST_SCALE


def test_gradients_that_no_scale_makes_finite_are_told() -> None:
    class Root(wf.nn.Module):
        def forward(self, x):
            return wf.sqrt(x * x)

    x, y = data(20)
    x[3, 1] = 0
    model = wf.nn.Sequential(wf.nn.Linear(3, 3, bias=False), Root(), wf.nn.Linear(3, 2))
    model[0].weight[...] = wf.eye(3)
    before = bits(model)
    text = "end of epoch 16 the gradients are not finite in float16.*bfloat16 has float32's range"  # after halving 65536 so often
    with pytest.warns(RuntimeWarning, match=text) as caught:
        wf.train.fit(model, x, y, epochs=20, batch_size=20, precision="float16", show=False)
    assert len(caught) == 1
    assert bits(model) == before


def test_scaled_gradients_that_float16_could_not_hold() -> None:
    """Gradients of activations near 1e-8 vanish in float16, unless the loss is scaled."""
    x, y = (wf.asarray(a) for a in data(64))
    model = net()

    def faint(out, y):
        return wf.losses.cross_entropy(out, y) * 2e-6

    scaled = Stepper(model, faint, wf.optim.SGD(lr=1.0), precision="float16").gradient(x, y)[1]
    bare = Stepper(model, faint, wf.optim.SGD(lr=1.0), precision="float16")
    bare.arrays["scale"][...] = 1.0
    want = Stepper(model, faint, wf.optim.SGD(lr=1.0)).gradient(x, y)[1]["0.weight"].numpy()
    size = np.linalg.norm(want)
    assert np.linalg.norm(scaled["0.weight"].numpy() - want) < 0.02 * size
    assert np.linalg.norm(bare.gradient(x, y)[1]["0.weight"].numpy() - want) > 0.2 * size


def test_precisions_that_make_no_sense() -> None:
    x, y = data(20)
    with pytest.raises(ValueError, match="precision must be 'float32', .* or a wf.Precision .*, not 'float64'"):
        wf.train.fit(net(), x, y, precision="float64", show=False)
    with pytest.raises(wf.errors.DTypeError, match="half"):
        wf.train.fit(net(), x, y, precision="half-ish", show=False)


# ---- accumulation


@pytest.mark.parametrize("optimizer", [
    lambda: wf.optim.SGD(lr=0.1, momentum=0.9), lambda: wf.optim.Adam(lr=0.01, clip_norm=0.1), lambda: wf.optim.Eve(lr=0.01),
])
def test_accumulated_batches_are_one_large_batch(optimizer) -> None:
    x, y = data(107)
    found, wanted = net(), net()
    one = wf.train.fit(found, x, y, epochs=4, batch_size=8, accumulate=4, optimizer=optimizer(), metrics=["accuracy"], show=False)
    two = wf.train.fit(wanted, x, y, epochs=4, batch_size=32, optimizer=optimizer(), metrics=["accuracy"], show=False)
    for a, b in zip(one.epochs, two.epochs, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=1e-5) and a["accuracy"] == pytest.approx(b["accuracy"])
    for name, a in found.arrays().items():
        np.testing.assert_allclose(a.numpy(), wanted.arrays()[name].numpy(), rtol=2e-4, atol=2e-5)


def test_updates_are_counted_not_batches() -> None:
    x, y = data(100)
    seen = []

    class Watch:
        def on_batch(self, state):
            seen.append((state.step, state.batch))

    optimizer = wf.optim.Adam()
    wf.train.fit(
        net(), x, y, epochs=2, batch_size=10, accumulate=4, optimizer=optimizer, callbacks=[Watch()], show=False,
    )
    assert seen == [(1, 4), (2, 8), (3, 10), (4, 4), (5, 8), (6, 10)] and float(optimizer.step_count) == 6


def test_accumulation_that_cannot_be() -> None:
    x, y = data(20)
    with pytest.raises(ValueError, match="SAM computes each gradient twice"):
        wf.train.fit(net(), x, y, accumulate=2, optimizer=wf.optim.SAM(wf.optim.SGD(lr=0.1)), show=False)
    with pytest.raises(ValueError, match="accumulate must be at least 1, not 0"):
        wf.train.fit(net(), x, y, accumulate=0, show=False)


ALL_8_BITS = {"weights": "float8_e4m3fn", "activations": "float8_e4m3fn", "gradients": "float8_e5m2"}


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("precision", [
    ALL_8_BITS, wf.Precision({"0": {"weights": "float8_e4m3fn", "rounding": "stochastic"}}), {"*": ALL_8_BITS},
])
def test_it_learns_in_formats_of_products(precision: object, accumulate: int) -> None:
    x, y = data(400)
    model = net()
    history = wf.train.fit(
        model, x, y, epochs=30, optimizer=wf.optim.Adam(lr=0.02), precision=precision, loss_scale="dynamic",
        metrics=["accuracy"], validation=0.2, accumulate=accumulate, show=False,
    )
    assert history["accuracy"][-1] > 0.9 > history["accuracy"][0]
    assert {a.dtype.name for a in model.arrays().values()} == {"float32"}


def test_fit_computes_as_the_with_block_does() -> None:
    x, y = data(60)
    results = []
    for inside in (False, True):
        model = net()
        arguments = {"epochs": 2, "show": False, "validation": (x, y), "seed": 3}
        if inside:
            with wf.precision(**ALL_8_BITS):
                history = wf.train.fit(model, x, y, **arguments)
        else:
            history = wf.train.fit(model, x, y, precision=ALL_8_BITS, **arguments)
        results.append((bits(model), history.loss, history["val_loss"]))
    plain = net()
    wf.train.fit(plain, x, y, **arguments)
    assert results[0] == results[1] != (bits(plain),)
    assert bits(plain) != results[0][0]


def test_a_static_scale_keeps_small_gradients() -> None:
    """Gradients below the smallest number of the format become zero without a scale."""
    x, y = (wf.asarray(a) for a in data(20))

    def faint(out, y):
        return wf.losses.cross_entropy(out, y) * 1e-5

    want = Stepper(net(), faint, wf.optim.SGD(lr=1.0)).gradient(x, y)[1]
    formats = {"gradients": "float8_e5m2"}
    lost = Stepper(net(), faint, wf.optim.SGD(lr=1.0), precision=formats).gradient(x, y)[1]
    kept = Stepper(net(), faint, wf.optim.SGD(lr=1.0), precision=formats, loss_scale=2.0**20).gradient(x, y)[1]
    name = "0.weight"
    size = np.linalg.norm(want[name].numpy())
    assert np.abs(lost[name].numpy()).max() == 0
    assert np.linalg.norm(kept[name].numpy() - want[name].numpy()) < 0.25 * size


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("saturate", [True, False])
def test_a_dynamic_scale_sees_what_saturates(saturate: bool, accumulate: int) -> None:
    """The gradients of the weights are finite; only the rounding of the gradient inside shows that it was too large."""
    x, y = (wf.asarray(a) for a in data(20))
    model = net()
    optimizer = wf.optim.SGD(lr=0.01).init(model)
    formats = {"gradients": "float8_e4m3fn", "saturate": saturate}
    stepper = Stepper(
        model, wf.losses.cross_entropy, optimizer, accumulate=accumulate, precision=formats, loss_scale="dynamic"
    )
    stepper.arrays["scale"][...] = scale = 2.0**18
    assert np.isfinite(stepper.gradient(x, y)[1]["0.weight"].numpy()).all() == saturate
    skipped, start = 0, bits(model)
    for _ in range(30):
        stepper.advance([(x, y)] * accumulate, 0.01)
        if bits(model) != start:
            break
        scale, skipped = scale / 2, skipped + 1
        assert float(stepper.arrays["scale"]) == scale
    largest = float(abs(wf.grad(lambda out: wf.losses.cross_entropy(out, y))(model(x))).max())
    assert 2 < skipped < 20 and scale * largest < 600 and float(stepper.arrays["good"]) == 1


def test_the_second_gradient_of_sam_counts_too() -> None:
    x, y = (wf.asarray(a) for a in data(20))
    model = net()
    optimizer = wf.optim.SAM(wf.optim.SGD(lr=0.01)).init(model)
    stepper = Stepper(model, wf.losses.cross_entropy, optimizer, precision={"gradients": "float8_e4m3fn"}, loss_scale="dynamic")
    stepper.arrays["scale"][...] = 2.0**18
    start = bits(model)
    stepper.advance([(x, y)], 0.01)
    assert bits(model) == start and float(stepper.arrays["scale"]) == 2.0**17


def test_arguments_of_formats_and_scale() -> None:
    x, y = data(20)
    for error, message, arguments in (
        (ValueError, "loss_scale='static' must be", {"loss_scale": "static"}), (ValueError, "loss_scale=0", {"loss_scale": 0}),
        (TypeError, "'products' must have a dict", {"precision": {"products": "float16"}}),
        (ValueError, r"such as dict\(weights=.*not 'float8_e5m2'", {"precision": "float8_e5m2"}),
        (ValueError, "'9' matches no layer of Sequential", {"precision": {"9": {"weights": "bfloat16"}}}),
    ):
        with pytest.raises(error, match=message):
            wf.train.fit(net(), x, y, epochs=1, show=False, **arguments)
