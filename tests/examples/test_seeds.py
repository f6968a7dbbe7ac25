"""The seeds' programs: each runs, shorter than its source's, and does what it is there for."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from seeds import load

import weft as wf


def part(data: wf.data.Split, count: int) -> wf.data.Split:
    return wf.data.Split(data.x_train[:count], data.y_train[:count], data.x_test[:count], data.y_test[:count])


def test_keras_cnn_has_the_examples_layers() -> None:
    module = load("keras_cnn")
    net = module.start(module.build(), np.zeros((1, 1, 28, 28), np.float32))
    assert [p.shape for p in net.parameters().values()] == [
        (32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,), (128, 9216), (128,), (10, 128), (10,),
    ]
    assert sum(p.size for p in net.parameters().values()) == 1_199_882
    assert (net["conv2d1"].bias.numpy() == 0).all() and 0 < net["conv2d1"].weight.numpy().max() <= (6 / (9 + 288)) ** 0.5


def test_keras_cnn_learns_digits(capsys) -> None:
    module = load("keras_cnn")
    _, (loss, accuracy) = module.train(part(wf.data.load_digits(), 512), epochs=3, batch_size=16, show=False)
    assert loss < 1.5 and accuracy > 0.6


def test_learners_net_learns_digits(capsys) -> None:
    module = load("learner_cnn")
    lm = module.main(["--data", "digits", "--epoch", "3", "--n-batch", "32", "--seed", "1"])
    assert sum(p.size for p in lm.net.parameters().values()) == 10 * 9 + 10 + 160 * 100 + 100 + 1010
    assert (lm.predict(show=False) == lm.t_test).mean() > 0.85
    out = capsys.readouterr().out
    assert "conv1    conv(1x8x8 -> 10x8x8, 3x3, ReLU(), SAM)" in out and out.count("train error") == 3
    assert out.splitlines()[-1].startswith("accuracy: ")
    with pytest.raises(ValueError, match="this device cannot be used here"):
        module.build(part(wf.data.load_digits(), 8), mode="gpu")


def test_textbook_session_prints_what_it_shows(capsys) -> None:
    module = load("numpy_session")
    failed, tried = doctest.testmod(module)
    assert failed == 0 and tried > 15
    module.main()
    typed = [line[4:] for line in module.__doc__.splitlines() if line.startswith(">>> ")]
    shown = [line[4:] for line in capsys.readouterr().out.splitlines() if line.startswith(">>> ")]
    assert shown == typed


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float16", 5e-3)])
def test_nervana_lines_are_one_kernel_each(dtype, tolerance, capsys) -> None:
    module = load("nervana_lines")
    found = module.main(dtype, 48, 20, 12)
    assert [(e.name, len(e.kernels), e.host) for e in found] == [("gemm", 1, ()), ("variance", 1, ()), ("batch_norm", 1, ())]
    r = np.random.default_rng()
    a, b, gamma, beta = (wf.asarray(r.normal(size=s).astype(dtype)) for s in ((48, 20), (48, 12), (48, 1), (48, 1)))
    x, y, g, c = (v.numpy().astype(np.float64) for v in (a, b, gamma, beta))
    for found, want in (
        (module.gemm(a, b), np.maximum(x.T @ y, 0)),
        (module.variance(a), x.var(axis=1, keepdims=True)),
        (module.batch_norm(a, gamma, beta), g * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3) + c),
    ):
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(found.numpy(), want, rtol=tolerance, atol=10 * tolerance)


def lorenz64(u: np.ndarray) -> np.ndarray:
    return np.array([10 * (u[1] - u[0]), u[0] * (28 - u[2]) - u[1], u[0] * u[1] - 8 / 3 * u[2]])


def runge_kutta(f, u, h: float, steps: int, every: int) -> np.ndarray:
    points = [u]
    for k in range(1, steps + 1):
        k1 = f(u)
        k2 = f(u + h / 2 * k1)
        k3 = f(u + h / 2 * k2)
        k4 = f(u + h * k3)
        u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if k % every == 0:
            points.append(u)
    return np.array(points)


def test_lorenz_data_against_float64() -> None:
    module = load("lorenz_node")
    found = wf.ode.solve(module.lorenz, module.U0, module.TS, args=[10.0, 28.0, 8 / 3], rtol=1e-8, atol=1e-8).ys.numpy()
    want = runge_kutta(lorenz64, np.array([1.0, 0.0, 0.0]), 1e-3, 1000, 10)
    assert found.shape == (101, 3)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_neural_ode_step_is_one_call_and_its_gradient_is_right() -> None:
    module = load("lorenz_node")
    u0, node = module.U0, module.build()
    node.solver = wf.ode.RK4()
    assert sum(p.size for p in node.parameters().values()) == 703
    data = wf.asarray(np.random.default_rng(0).normal(size=(101, 3)))
    slope = wf.grad(lambda node: ((node(u0) - data) ** 2).sum())(node).parameters()
    weights = [p.numpy() for p in node.parameters().values()]

    def loss64(weights: list[np.ndarray]) -> float:
        w1, b1, w2, b2 = weights
        points = runge_kutta(lambda u: np.tanh(w1 @ u + b1) @ w2.T + b2, np.array([1.0, 0.0, 0.0]), 0.01, 100, 1)
        return float(((points - data.numpy()) ** 2).sum())

    for at, g in enumerate(slope.values()):
        place = tuple(np.random.default_rng().integers(0, s) for s in g.shape)
        ends = []
        for h in (1e-5, -1e-5):
            moved = [w.copy() for w in weights]
            moved[at][place] += h
            ends.append(loss64(moved))
        assert float(g.numpy()[place]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-3)

    step = wf.train.training_step(node, lambda found, data: ((found - data) ** 2).sum(), wf.optim.Adam(lr=0.01).init(node))
    for _ in range(4):
        float(step(u0, data, 0.01))
    before = wf.counters()
    float(step(u0, data, 0.01))
    assert wf.counters()["entries"] - before["entries"] == 1


def test_lorenz_program_is_that_of_the_command(capsys, monkeypatch, tmp_path) -> None:
    """Adam, then BFGS, from the same start to the same loss; the command leaves the weights and the picture."""
    from weft.tools.cli import main

    result = load("lorenz_node").main(["--iterations", "60", "--seed", "3"])
    lines = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert len(lines) == 2 and result.loss < 0.5 * lines[0]
    monkeypatch.chdir(tmp_path)
    save = ["--save", "net.safetensors"]
    assert main(["train", "lorenz", "--steps", "60", "--bfgs-steps", "60", "--seed", "3", *save]) == 0
    out = capsys.readouterr().out
    assert f"loss {result.best_loss:.4g}: {result.message}" in out and "largest error" in out
    assert (tmp_path / "lorenz.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(wf.io.load("net.safetensors")) == sorted(result.params.net.parameters())
    for bad, text in ((["--steps", "-1"], "steps is -1"), (["--plot", str(tmp_path)], "is a folder, not a file")):
        assert main(["train", "lorenz", *bad]) == 1 and text in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "lorenz", "--epochs", "3"])
