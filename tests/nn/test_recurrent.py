"""RNN, LSTM, GRU against NumPy loops written from PyTorch's formulas, and their gradients against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_formulas import recurrent

import weft as wf
from weft.devices import get_device
from weft.errors import DTypeError, ShapeError
from weft.nn import GRU, LSTM, RNN
from weft.transforms.tree import flatten

LAYERS = {"RNN": RNN, "LSTM": LSTM, "GRU": GRU}


def numbers(layer: Any) -> dict[str, np.ndarray]:
    return {k: np.asarray(v).astype(np.float64) for k, v in layer.parameters().items()}


def result(kind: str, out: Any) -> tuple[Any, list]:
    y, state = out
    return y, list(state) if kind == "LSTM" else [state]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    ("layers", "both", "first", "bias"), [(1, False, False, True), (2, True, True, True), (1, True, False, False)]
)
def test_values(kind: str, layers: int, both: bool, first: bool, bias: bool) -> None:
    rng = np.random.default_rng()
    layer = LAYERS[kind](3, 4, num_layers=layers, bidirectional=both, batch_first=first, bias=bias)
    x = rng.standard_normal((6, 2, 3)).astype(np.float32)
    count = layers * (2 if both else 1)
    start = [rng.standard_normal((count, 2, 4)).astype(np.float32) for _ in range(layer.states)]
    given = [wf.array(s) for s in start]
    f = wf.jit(lambda x, s: layer(x, s))
    for call in (layer, f):
        for s, used in ((None, [np.zeros_like(s) for s in start]), (tuple(given) if kind == "LSTM" else given[0], start)):
            y, state = result(kind, call(wf.array(x.swapaxes(0, 1) if first else x), s))
            want, ends = recurrent(kind, x.astype(np.float64), used, numbers(layer), layers, both)
            np.testing.assert_allclose(np.asarray(y), want.swapaxes(0, 1) if first else want, rtol=2e-5, atol=2e-6)
            for a, b in zip(state, ends, strict=True):
                np.testing.assert_allclose(np.asarray(a), b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients(kind: str) -> None:
    rng = np.random.default_rng()
    layer = LAYERS[kind](3, 4, num_layers=2, bidirectional=True)
    x, weight = rng.standard_normal((5, 2, 3)), rng.standard_normal((5, 2, 8))
    zeros = [np.zeros((4, 2, 4))] * layer.states

    def loss(layer: Any, x: Any) -> Any:
        y, state = result(kind, layer(x))
        return (y * wf.array(weight.astype(np.float32))).sum() + sum((s * s).sum() for s in state)

    def loss_numpy(p: dict, x: np.ndarray) -> float:
        y, state = recurrent(kind, x, zeros, p, 2, True)
        return float((y * weight).sum() + sum((s * s).sum() for s in state))

    x = x.astype(np.float32).astype(np.float64)
    grads, dx = wf.jit(wf.grad(loss, argnums=(0, 1)))(layer, wf.array(x.astype(np.float32)))
    p = numbers(layer)
    found = {k: np.asarray(v) for k, v in grads.parameters().items()} | {"x": np.asarray(dx)}
    assert len(found) == 17
    for name in [*rng.choice(sorted(p), 6, replace=False), "weight_hh_l0", "weight_ih_l0", "bias_hh_l1_reverse", "x"]:
        for _ in range(4):
            a = x if name == "x" else p[name]
            i = tuple(rng.integers(0, n) for n in a.shape)
            ends = []
            for s in (1e-5, -1e-5):
                moved = a.copy()
                moved[i] += s
                ends.append(loss_numpy(p, moved) if name == "x" else loss_numpy({**p, name: moved}, x))
            want = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(found[name][i], want, rtol=2e-4, atol=2e-4, err_msg=f"{name}{i}")


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("jitted", [False, True])
def test_stateful_layers_continue(kind: str, jitted: bool) -> None:
    rng = np.random.default_rng()
    x = wf.array(rng.standard_normal((8, 2, 3)).astype(np.float32))
    layer = LAYERS[kind](3, 4, stateful=True)
    f = wf.jit(lambda x: layer(x)[0]) if jitted else lambda x: layer(x)[0]
    parts = [np.asarray(f(x[k : k + 2])) for k in (0, 2, 4, 6)]
    layer.reset_state()
    np.testing.assert_array_equal(np.concatenate(parts), np.asarray(layer(x)[0]))
    assert "hidden" not in layer.parameters()
    with pytest.raises(ShapeError, match="reset_state"):
        layer(x[:, :1])


@pytest.mark.parametrize("kind", LAYERS)
def test_stateful_layers_begin_alike_everywhere_and_after_failures(kind: str) -> None:
    x = wf.array(np.random.default_rng().standard_normal((4, 2, 3)).astype(np.float32))
    layer = LAYERS[kind](3, 4, stateful=True)
    ways = {
        "jit": wf.jit(lambda x: layer(x)[0]),
        "scan": lambda x: wf.scan(lambda c, x: (c, layer(x)[0]), 0.0, x[None])[1][0],
        "grad": lambda x: wf.grad(lambda net: ((y := net(x)[0]).sum(), y), has_aux=True)(layer)[1],
        "forgetful scan": lambda x: wf.scan(lambda c, x: (c, (layer.reset_state(), layer(x)[0])[1]), 0.0, x[None])[1][0],
        "eager": lambda x: layer(x)[0],
    }
    wanted = [np.asarray(layer(x)[0]) for _ in range(2)]
    for name, run in ways.items():
        for _ in range(2):
            layer.reset_state()
            with pytest.raises(IndexError):
                np.asarray(run(x[wf.array([0, 1, 9, 2])]))
            if name == "forgetful scan":
                np.testing.assert_allclose(np.asarray(run(x)), wanted[0], rtol=1e-5, atol=1e-6)
                continue
            for y in wanted:
                np.testing.assert_allclose(np.asarray(run(x)), y, rtol=1e-5, atol=1e-6, err_msg=name)


def test_one_native_entry_and_one_compilation_for_a_training_step() -> None:
    layer = LSTM(3, 8)
    step = wf.jit(wf.value_and_grad(lambda layer, x: (layer(x)[0] ** 2).mean()))
    x = wf.array(np.random.default_rng().standard_normal((20, 4, 3)).astype(np.float32))
    for _ in range(3):
        value, grads = step(layer, x)
        wf.eval(value, grads)
    before = get_device().counters()
    value, grads = step(layer, x)
    wf.eval(value, grads)
    after = get_device().counters()
    assert after["entries"] - before["entries"] == 1 and after["compiles"] == before["compiles"]
    assert all(np.isfinite(np.asarray(g)).all() for g in flatten(grads)[0])


def test_one_sequence_alone_unknown_widths_and_refusals() -> None:
    x = np.random.default_rng().standard_normal((6, 3)).astype(np.float32)
    layer = GRU(None, 4, batch_first=True)
    y, h = layer(wf.array(x))
    many, ends = layer(wf.array(x[None]))
    np.testing.assert_array_equal(np.asarray(y), np.asarray(many)[0])
    np.testing.assert_array_equal(np.asarray(h), np.asarray(ends)[:, 0])
    assert sorted(layer.parameters()) == ["bias_hh_l0", "bias_ih_l0", "weight_hh_l0", "weight_ih_l0"]
    assert layer.parameters()["weight_ih_l0"].shape == (12, 3)
    with pytest.raises(ShapeError, match="input_size = 3"):
        layer(wf.ones((2, 6, 4)))
    with pytest.raises(ShapeError, match=r"hidden_size\) = \(1, 2, 4\)"):
        layer(wf.ones((2, 6, 3)), wf.ones((1, 3, 4)))
    with pytest.raises(ShapeError, match="must be"):
        layer(wf.ones(3))
    with pytest.raises(ValueError, match="nonlinearity"):
        RNN(3, 4, nonlinearity="sine")
    with pytest.raises(ValueError, match="dropout"):
        LSTM(3, 4, dropout=1.5)


def test_states_take_the_dtype_of_the_layer() -> None:
    layer, x = LSTM(3, 4, stateful=True), np.random.default_rng().standard_normal((5, 2, 3)).astype(np.float32)
    first = layer(wf.array(x))[0]
    half = layer.astype("bfloat16")(wf.array(x).astype("bfloat16"))[0]
    again = layer.astype("float32")(wf.array(x))[0]
    assert (first.dtype, half.dtype.name, again.dtype) == (np.float32, "bfloat16", np.float32)
    given = [np.zeros((1, 2, 4)), np.zeros((1, 2, 4))]
    np.testing.assert_allclose(np.asarray(layer(wf.array(x), given)[0]), np.asarray(first), atol=0.03)
    with pytest.raises(TypeError, match="state must be a pair"):
        layer(wf.array(x), wf.zeros((1, 2, 4)))


def test_relu_and_dropout_between_layers() -> None:
    x = wf.array(np.random.default_rng().standard_normal((6, 5, 3)).astype(np.float32))
    layer = RNN(3, 16, num_layers=2, nonlinearity="relu", dropout=0.5)
    assert float(layer(x)[0].min()) >= 0.0
    one, other = np.asarray(layer(x)[0]), np.asarray(layer(x)[0])
    assert (one != other).any()
    layer.eval()
    np.testing.assert_array_equal(np.asarray(layer(x)[0]), np.asarray(layer(x)[0]))


def test_lengths_and_projections_are_checked() -> None:
    x = wf.ones((4, 2, 3))
    layer = LSTM(3, 5, proj_size=2, num_layers=2)
    y, (h, c) = layer(x, lengths=[1, 4])
    assert (y.shape, h.shape, c.shape) == ((4, 2, 2), (2, 2, 2), (2, 2, 5)) and not y.numpy()[1:, 0].any()
    step = wf.jit(lambda x, n: layer(x, lengths=n)[0])
    for n in ([1, 4], [3, 2], [0, 4]):
        wf.eval(step(x, wf.array(n)))
    for n in ([1, 5], [-1, 2]):
        with pytest.raises(IndexError, match=r"LSTM: lengths must be from 0 to 4, not (5|-1) \(.*test_recurrent"):
            wf.eval(step(x, wf.array(n)))
    assert step.traces == 1  # lengths are run-time values
    np.testing.assert_array_equal(GRU(3, 4)(x[:, 0], lengths=4)[0].numpy().shape, (4, 4))
    with pytest.raises(ValueError, match="lengths must be from 0 to 4"):
        layer(x, lengths=[1, 5])
    with pytest.raises(ShapeError, match=r"must be \(2,\), one per sequence"):
        layer(x, lengths=[1, 2, 3])
    with pytest.raises(DTypeError, match="lengths must be integers"):
        layer(x, lengths=[1.0, 2.0])
    with pytest.raises(ShapeError, match="proj_size"):
        LSTM(3, 5, proj_size=5)
    with pytest.raises(ShapeError, match=r"proj_size\) = \(2, 2, 2\)"):
        layer(x, (wf.zeros((2, 2, 5)), wf.zeros((2, 2, 5))))


def test_cells_make_the_layer() -> None:
    x = np.random.default_rng().standard_normal((5, 2, 3)).astype(np.float32)
    for kind, cell in (("RNN", wf.nn.RNNCell), ("LSTM", wf.nn.LSTMCell), ("GRU", wf.nn.GRUCell)):
        layer, one = LAYERS[kind](3, 4), cell(None, 4)
        state = one(wf.array(x[0]))
        for name, p in one.parameters().items():
            p[...] = layer.parameters()[f"{name}_l0"]
        state = None
        for row in x:
            state = one(wf.array(row), state)
        want = result(kind, layer(wf.array(x)))[1]
        for a, b in zip(state if kind == "LSTM" else [state], want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy()[0], rtol=1e-5, atol=1e-6)
        alone = one(wf.array(x[0, 0]))
        assert (alone[0] if kind == "LSTM" else alone).shape == (4,)
        with pytest.raises(ShapeError, match="input_size = 3"):
            one(wf.ones((2, 4)))
        with pytest.raises(ShapeError, match="a state has shape"):
            one(wf.ones((2, 3)), (wf.ones((3, 4)),) * 2 if kind == "LSTM" else wf.ones((3, 4)))
