"""LayerManager: its list, its widths, its training against a float64 reference, steps by hand, and what it refuses."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
import seeds  # noqa: F401  puts the programs' folder on the path

import weft as wf
from learner import LayerManager
from learner.learning import Scores
from weft.errors import ShapeError


@pytest.mark.parametrize("name", ["manager", "options"])
def test_the_docstrings_examples_run(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"learner.{name}"))
    assert not failed and tried


def data(n: int = 60, images: bool = False, seed: int | None = None):
    r = np.random.default_rng(seed)
    x = r.normal(size=(n, 2, 6, 5) if images else (n, 7))
    t = r.integers(0, 3, n)
    return (x[: n // 2], x[n // 2 :]), (t[: n // 2], t[n // 2 :])


def convolutional(**options) -> LayerManager:
    lm = LayerManager(*data(images=True))
    lm.append(name="c", I_shape=(2, 6, 5), F_shape=(4, 3, 3), **options)
    lm.append(name="p", I_shape=lm[-1].O_shape, pool=2)
    lm.append(name="d", ratio=0.25)
    lm.append(name="m", n=8, act="tanh", **options)
    lm.append(name="o", n=3, **options)
    return lm


def test_shapes_and_names_follow_the_layers_before() -> None:
    lm = convolutional()
    assert [layer.O_shape for layer in lm] == [(4, 6, 5), (4, 3, 2), (4, 3, 2), (8,), (3,)]
    assert [layer.prev for layer in lm] == [60, 120, 24, 24, 8]
    assert lm.net.names == ["conv1", "pool1", "dropout1", "middle1", "output1"]
    assert lm["middle1"] is lm[3] is lm[-2] and lm[1:3] == [lm[1], lm[2]] and lm.name(1) == "pool1" and "conv1" in lm
    assert lm.index("output1") == 4 and len(lm) == 5


def test_the_list_changes() -> None:
    lm, other = convolutional(), LayerManager(*data())
    other.append(name="mid", n=5)
    other.append(name="middle", n=8)
    lm.insert("middle1", name="drop", ratio=0.5)
    lm.extend_insert("middle1", other)
    assert [layer.kind for layer in lm] == ["conv", "pool", "dropout", "middle", "middle", "middle", "dropout", "output"]
    with pytest.raises(ShapeError, match="middle1 gives 8 numbers a sample, but middle2 takes 7"):
        lm.training(1, show_error=False)
    del lm[4]
    lm.remove("middle2")
    lm[3] = convolutional()[3]
    assert [layer.n for layer in lm] == [120, 24, 24, 8, 8, 3]
    assert lm.predict(show=False).shape == (30,)
    with pytest.raises(TypeError, match="a layer of a manager"):
        lm[0] = wf.nn.ReLU()


@pytest.mark.parametrize("stride, pad, size", [
    (1, "same", (6, 5)), ((2, 3), "same", (3, 2)), (1, 0, (4, 3)), (2, (1, 2), (3, 4)),
])
def test_padding_of_a_convolution(stride, pad, size) -> None:
    lm = LayerManager(*data(images=True))
    lm.append(name="conv", I_shape=(2, 6, 5), F_shape=(4, 3, 3), stride=stride, pad=pad)
    assert lm[0].O_shape == (4, *size)
    assert lm[0](wf.asarray(lm.x_test)).shape == (30, 4, *size)


def test_even_windows_are_padded_more_behind() -> None:
    lm = LayerManager(*data(images=True))
    lm.append(name="conv", F_shape=(1, 2, 2), act="identity")
    w, b = (p.numpy().astype(np.float64) for p in lm[0].parameters().values())
    x = np.pad(lm.x_test.astype(np.float64), ((0, 0), (0, 0), (0, 1), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    want = np.einsum("ncijhw,ochw->noij", windows, w) + b.reshape(1, -1, 1, 1)
    np.testing.assert_allclose(lm[0](wf.asarray(lm.x_test)).numpy(), want, rtol=1e-5, atol=1e-6)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("act, err_func, last, error", [
    ("softmax", "Cross", softmax, lambda y, t: -(t * np.log(y)).sum(1).mean()),
    ("sigmoid", "Binary", lambda z: 1 / (1 + np.exp(-z)), lambda y, t: -(t * np.log(y) + (1 - t) * np.log(1 - y)).sum(1).mean()),
    ("identity", "Square", lambda z: z, lambda y, t: 0.5 * ((y - t) ** 2).sum(1).mean()),
])
def test_training_against_float64(act, err_func, last, error) -> None:
    """Full batches by gradient descent; the three pairs all have the gradient (y - t) / N at the scores."""
    lm = LayerManager(*data())
    lm.append(name="m", n=9, act="tanh", opt="SGD", opt_dic={"eta": 0.3})
    lm.append(name="o", n=3, act=act, err_func=err_func, opt="sgd", opt_dic={"eta": 0.1})
    w1, b1, w2, b2 = (p.numpy().astype(np.float64) for p in lm.net.parameters().values())
    x, t = lm.x_train.astype(np.float64), np.eye(3)[lm.t_train]
    history = lm.training(4, n_batch=len(x), show_error=False)
    for loss in history.loss:
        h = np.tanh(x @ w1.T + b1)
        y = last(h @ w2.T + b2)
        assert loss == pytest.approx(error(y, t), rel=1e-5)
        dz = (y - t) / len(x)
        dh = dz @ w2 * (1 - h * h)
        w2, b2 = w2 - 0.1 * dz.T @ h, b2 - 0.1 * dz.sum(0)
        w1, b1 = w1 - 0.3 * dh.T @ x, b1 - 0.3 * dh.sum(0)
    for p, want in zip(lm.net.parameters().values(), (w1, b1, w2, b2), strict=True):
        np.testing.assert_allclose(p.numpy(), want, rtol=1e-5, atol=1e-6)
    out = last(np.tanh(lm.x_test @ w1.T + b1) @ w2.T + b2)
    found = lm.predict(show=False)
    want = out.argmax(1) if act == "softmax" else out > 0.5 if act == "sigmoid" else out
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    assert lm.error() == pytest.approx(error(out, np.eye(3)[lm.t_test]), rel=1e-4)


def test_steps_by_hand_are_the_gradient_of_the_error() -> None:
    lm = convolutional(opt="SGD", opt_dic={"eta": 0.5})
    lm.remove("dropout1")
    x, t = wf.asarray(lm.x_train), wf.asarray(np.eye(3, dtype=np.float32)[lm.t_train])
    model = Scores(lm.net)
    slopes = wf.grad(lambda net: net.net[-1].error(net(x), t))(model).parameters()
    before = {name: p.numpy().copy() for name, p in model.parameters().items()}
    assert lm.forward(lm.x_train).shape == (30, 3)
    lm.backward(lm.t_train)
    lm.update()
    for name, p in model.parameters().items():
        np.testing.assert_allclose(p.numpy(), before[name] - 0.5 * slopes[name].numpy(), rtol=1e-4, atol=1e-6)


def test_what_the_article_does_with_a_trained_net(capsys) -> None:
    """Training, predictions of both sets, and each part of a step by hand, in the article's names and order."""
    r = np.random.default_rng()
    x, t = r.normal(size=(60, 2, 6, 5)), np.eye(3)[r.integers(0, 3, 60)]
    lm = LayerManager((x[:40], x[40:]), (t[:40], t[40:]), mode="cpu")
    assert lm.mode == "cpu" and lm.x_train.get().dtype == np.float32 and lm.y_test.shape == (20, 3)
    opt_dic = {"eta": 1e-2}
    lm.append(name="c", I_shape=(2, 6, 5), F_shape=(4, 3, 3), pad=1, wb_width=0.1, opt="AdaDelta", opt_dic=opt_dic)
    lm.append(name="p", I_shape=lm[-1].O_shape, pool=2)
    lm.append(name="m", n=8, wb_width=0.1, opt="AdaDelta", opt_dic=opt_dic)
    lm.append(name="o", n=3, act="softmax", err_func="Cross", wb_width=0.1, opt="AdaDelta", opt_dic=opt_dic)
    lm.training(3, 8, 0.0, show_train_error=True)
    assert len(lm.error_list) == len(lm.train_error_list) == 3
    y_pred = lm.predict(x=lm.x_train, y=lm.y_train).get()
    assert isinstance(y_pred, np.ndarray) and y_pred.shape == (40,)
    right = int((y_pred == lm.y_train.get().argmax(axis=1)).sum())
    assert f"({right} of 40)" in capsys.readouterr().out and lm.predict().get().shape == (20,)

    lm.forward(lm.x_train, train_flag=False)
    assert lm[-1].get_error(lm.y_train) == pytest.approx(lm.error(lm.x_train, lm.t_train))
    lm.forward(lm.x_train, lim_memory=1e-3)
    assert lm[-1].y.shape == (40, 3) and lm[-1].get_error(lm.y_train) == pytest.approx(lm.train_error_list[-1])
    with pytest.raises(ShapeError, match=r"middle: the gradient is \(40, 8\), but the result of the last forward was \(\d, 8\)"):
        lm.backward(lm.y_train)

    rand = r.permutation(40)[:8]
    lm.forward(lm.x_train[rand])
    lm.backward(lm.y_train[rand])
    whole = lm[0].grad_x.numpy()
    err3 = lm[3].backward(lm.y_train[rand])
    err2 = lm[2].backward(err3)
    err2 = err2.reshape(8, *lm[1].O_shape)
    err1 = lm[1].backward(err2)
    err0 = lm[0].backward(err1)
    np.testing.assert_array_equal(err0, whole)
    by_hand = (lm[3].y - lm.y_train[rand]) / 8
    np.testing.assert_allclose(lm[3].grad_w, lm[3].x.T @ by_hand, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(lm[3].grad_b, by_hand.sum(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(err3, by_hand @ lm[3].w.T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(lm[3].x @ lm[3].w + lm[3].b, wf.log(lm[3].y) + wf.log(wf.exp(lm[3].x @ lm[3].w + lm[3].b).sum(
        axis=1, keepdims=True)), rtol=1e-3, atol=1e-5)
    assert lm[0].w.shape == lm[0].grad_w.shape == (18, 4) and lm[0].F_shape == (4, 2, 3, 3) and lm[1].w is lm[1].grad_b is None

    C, O_h, O_w = lm[1].O_shape  # the pooling layer's gradient as it was meant: one place of each window has it
    grad = err2.transpose(0, 2, 3, 1).reshape(-1, 1)
    grad_x = wf.zeros((grad.size, lm[1].pool * lm[1].pool))
    grad_x[wf.arange(grad.size), lm[1].max_index] = grad[:, 0]
    grad_x = grad_x.reshape(8, O_h, O_w, C, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(8, C, 2 * O_h, 2 * O_w)
    np.testing.assert_array_equal(grad_x, err1[:, :, :2 * O_h, :2 * O_w])
    before = [p.numpy().copy() for p in lm.net.parameters().values()]
    lm.update()
    for layer in lm:
        layer.update()
    assert all((p.numpy() != b).any() for p, b in zip(lm.net.parameters().values(), before, strict=True))


@pytest.mark.parametrize("refused, error, message", [
    (lambda lm: lm.predict(lm.x_train, lm.t_train, y=lm.t_train), TypeError, "t and y are two names of the targets"),
    (lambda lm: lm[-1].get_error(lm.t_train), ValueError, "get_error needs a forward before it"),
    (lambda lm: lm[-1].backward(lm.t_train), ValueError, "backward needs a forward before it"),
    (lambda lm: (lm.forward(lm.x_train), lm[-1].backward(lm.t_train[:3])), ShapeError, r"\(3,\) .* each of the 30 samples"),
    (lambda lm: (lm.forward(lm.x_train), lm[0].backward(np.ones((30, 8)))), ShapeError, r"\(30, 8\), but .* \(30, 9\)"),
])
def test_steps_by_hand_refuse(refused, error, message) -> None:
    lm = LayerManager(*data())
    lm.append(name="m", n=9)
    lm.append(name="o", n=3)
    with pytest.raises(error, match=message):
        refused(lm)


@pytest.mark.parametrize("pool, pad", [(2, 0), (3, 1), ((2, 3), (1, 0))])
def test_max_index_is_where_the_windows_have_their_maximum(pool, pad) -> None:
    lm = LayerManager(*data(images=True))
    lm.append(name="p", I_shape=(2, 6, 5), pool=pool, pad=pad)
    assert lm[0].max_index is None
    y = lm[0].forward(lm.x_test).numpy()
    height, width, top, left = *lm[0].inner.kernel_size, *lm[0].pad_state
    x = np.pad(lm.x_test.get(), ((0, 0), (0, 0), (top, top), (left, left)), constant_values=-np.inf)
    where = lm[0].max_index.numpy().reshape(len(y), *lm[0].O_shape[1:], 2).transpose(0, 3, 1, 2)
    for at in np.ndindex(y.shape):
        n, c, i, j = at
        assert x[n, c, i * height + where[at] // width, j * width + where[at] % width] == y[at]


def test_modes_of_one_device_are_one_mode() -> None:
    lm, other = LayerManager(*data(), mode="cpu:0"), LayerManager(*data(), mode="cpu")
    assert lm.mode == "cpu"
    for mode in ("cpu", "cpu:0"):
        lm.append(name="m", n=3, mode=mode)
    other.append(name="m", n=7)
    lm.extend(other)
    assert len(lm) == 3


def test_dropout_by_hand_has_one_mask_for_both_ways() -> None:
    lm = LayerManager(*data())
    lm.append(name="d", ratio=0.5)
    y = lm[0].forward(np.ones((30, 7))).numpy()
    np.testing.assert_array_equal(lm[0].backward(np.ones((30, 7), np.float32)).numpy(), y)
    assert set(np.unique(y)) == {0.0, 2.0}


def test_training_ends_when_the_test_error_stays(capsys) -> None:
    lm = convolutional()
    history = lm.training(50, threshold=1e9)
    assert len(history.epochs) == 2 and "changed by less" in history.stopped
    assert capsys.readouterr().out.startswith("epoch 1/50")


def test_training_goes_on_with_the_state_of_the_optimizer() -> None:
    one, two = (convolutional() for _ in range(2))
    for a, b in zip(one.net.parameters().values(), two.net.parameters().values(), strict=True):
        b[...] = a.numpy()
    one.x_train, one.t_train = two.x_train, two.t_train
    for lm in (one, two):
        lm.remove("dropout1")
    one.training(2, n_batch=30, threshold=0, show_error=False)
    for _ in range(2):
        two.training(1, n_batch=30, show_error=False)
    for a, b in zip(one.net.parameters().values(), two.net.parameters().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)  # only the order within the batch differs


def test_what_predict_prints(capsys) -> None:
    lm = convolutional()
    found = lm.predict()
    lines = capsys.readouterr().out.splitlines()
    right = int((found == lm.t_test).sum())
    assert lines[0].split()[1:] == [str(v) for v in lm.t_test[:16]]
    assert lines[1].split()[1:] == [str(v) for v in found[:16]]
    assert lines[2] == f"accuracy: {100 * right / 30:.2f} % ({right} of 30)"
    assert lm.predict(lm.x_train).shape == (30,) and not capsys.readouterr().out


def test_every_optimizer_in_one_net() -> None:
    """Layers with optimizers of their own, one of them SAM, in one step."""
    lm = LayerManager(*data())
    for name in ("momentum", "NAG", "Eve", "SantaE"):
        lm.append(name="m", n=6, act="tanh", wb_width=0.5, opt=name)
    lm.append(name="m", n=6, act="tanh", wb_width=0.5, opt="SAM", opt_dic={"rho": 0.1, "opt": "Adam"})
    lm.append(name="o", n=3)
    before = {name: p.numpy().copy() for name, p in lm.net.parameters().items()}
    lm.training(1, show_error=False)
    assert all(np.isfinite(p.numpy()).all() and (p.numpy() != before[n]).any() for n, p in lm.net.parameters().items())


@pytest.mark.parametrize("change, error, pattern", [
    (lambda lm: lm.append(name="x"), ValueError, r"name='x' is no kind of layer; there are m/mid/middle, o/out/output"),
    (lambda lm: lm.append(name="m"), TypeError, "needs n="),
    (lambda lm: lm.append(name="m", n=0), ShapeError, "n must be a positive int, not 0"),
    (lambda lm: lm.append(name="m", n=4, kernel=3), TypeError, "no option 'kernel'; it takes prev, n, wb_width, act"),
    (lambda lm: lm.append(name="m", n=4, prev=5), ShapeError, r"prev=5, but what comes before gives \(4, 3, 2\): 24"),
    (lambda lm: lm.append(name="m", n=4, act="relux"), ValueError, "act='relux' is unknown; there are step, identity"),
    (lambda lm: lm.append(name="m", n=4, opt="adamm"), ValueError, "opt='adamm' is unknown; there are SGD, MSGD"),
    (lambda lm: lm.append(name="m", n=4, opt_dic={"mu": 1}), ValueError, "Adam has no option 'mu'; its options: eta"),
    (lambda lm: lm.append(name="m", n=4, act="ELU", act_dic={"beta": 1}), ValueError, "ELU has no option 'beta'; .* alpha"),
    (lambda lm: lm.append(name="m", n=4, wb_width=0), ValueError, "wb_width must be positive"),
    (lambda lm: lm.append(name="o", n=4, err_func="Crossed"), ValueError, "err_func='Crossed' is unknown; .* Square"),
    (lambda lm: lm.append(name="d", ratio=1), ValueError, r"ratio must lie in \[0, 1\)"),
    (lambda lm: lm.append(name="m", n=4, mode="gpu"), ValueError, "layers and data live on one device"),
    (lambda lm: lm.append(name="c", F_shape=(4, 9, 9), pad=0), ShapeError, "F_shape=9x9 is larger than the images, 3x2"),
    (lambda lm: lm.append(name="c", I_shape=(5, 5), F_shape=(4, 3, 3)), ShapeError, r"I_shape=\(1, 5, 5\) has 25 numbers"),
    (lambda lm: lm.append(name="p", I_shape=(24,)), ShapeError, r"give I_shape=\(channels, height, width\)"),
    (lambda lm: lm.append(name="c", F_shape=(4, 3, 3), pad="valid"), ValueError, 'pad must be an int, a pair or "same"'),
    (lambda lm: lm["conv9"], KeyError, "no layer is called 'conv9'; there are conv1"),
    (lambda lm: lm[7], IndexError, "position 7"),
    (lambda lm: lm.training(1), ValueError, r"the last layer must be an output layer"),
    (lambda lm: lm.backward(np.zeros(3, int)), ValueError, "the last layer must be an output layer"),
    (lambda lm: lm[0].backward(0), ValueError, "backward needs a forward"),
    (lambda lm: lm[0].forward(np.zeros((3, 4))), ShapeError, r"x must be \(N, 2, 6, 5\), not \(3, 4\)"),
    (lambda lm: lm.extend(3), TypeError, "another manager's layers"),
])
def test_refused(change, error, pattern) -> None:
    lm = LayerManager(*data(images=True))
    lm.append(name="c", F_shape=(4, 3, 3))
    lm.append(name="p")
    with pytest.raises(error, match=pattern):
        change(lm)
    assert len(lm) == 2


X, T = (np.zeros((3, 2)), np.zeros((2, 2))), (np.zeros(3, int), np.zeros(2, int))


@pytest.mark.parametrize("x, t, mode, error, pattern", [
    *[(X, T, mode, ValueError, 'cannot be used here: use mode="cpu"') for mode in ("gpu", "gpu:3")],
    *[(X, T, mode, ValueError, r'"cpu", "gpu" \("gpu:1", \.\.\.\), "gpu-sim" or "auto", not') for mode in ("tpu", "gpu:x", 3)],
    ((X[0], np.zeros((2, 3))), T, "cpu", ShapeError, r"x_train are \(2,\), of x_test"),
    (X, (np.zeros(4, int), T[1]), "cpu", ShapeError, "one for each of t_train"),
    (X[0], T, "cpu", TypeError, "must be a pair"),
])
def test_data_refused(x, t, mode, error, pattern) -> None:
    with pytest.raises(error, match=pattern):
        LayerManager(x, t, mode=mode)


def test_labels_out_of_range() -> None:
    x, t = data()
    lm = LayerManager(x, (t[0] + 1, t[1]))
    lm.append(name="o", n=3)
    with pytest.raises(ValueError, match="label 3 at position"):
        lm.training(1, show_error=False)


def test_what_training_and_predict_refuse() -> None:
    lm = LayerManager(*data())
    lm.append("m", n=4)
    lm.append("o", n=3)
    for options in ({"epoch": 0}, {"epoch": 1.5}, {"epoch": 1, "n_batch": 0}):
        with pytest.raises(ShapeError, match="must be a positive int, not"):
            lm.training(**options)
    for threshold in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="threshold must not be negative"):
            lm.training(1, threshold=threshold)
    for x in (np.zeros((0, 7)), np.zeros(7)):
        with pytest.raises(ShapeError, match="must hold samples along its first axis"):
            lm.predict(x)
    with pytest.raises(ShapeError, match=r"one for each of t_predict \(\)"):
        lm.predict(np.zeros((1, 7)), 1)


def test_predict_takes_whatever_holds_numbers() -> None:
    lm = LayerManager(*data())
    lm.append("m", n=4)
    lm.append("o", n=3)
    x = np.random.default_rng().integers(0, 9, (5, 7))
    wanted = lm.predict(x.astype(float), show=False)
    for given in (x, x.astype("u1"), wf.array(x), x.tolist()):
        assert np.array_equal(lm.predict(given, show=False), wanted)
