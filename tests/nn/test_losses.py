"""Losses: value and gradient against float64 formulas, large scores, labels in and out of range, small dtypes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from layer_reference import check
from scipy import special

import weft as wf
from weft.errors import DTypeError, ShapeError

losses = wf.losses
rng = np.random.default_rng()
Y = np.array([0, 3, 1, 2, 2, 0])


def _cross_entropy(z, target, smoothing=0.0):
    n, c = z.shape
    if target.ndim == 1:
        target = np.eye(c)[target]
    target = (1 - smoothing) * target + smoothing * target.sum(1, keepdims=True) / c
    return -(target * special.log_softmax(z, 1)).sum(1)


def test_cross_entropy() -> None:
    z, p = rng.normal(size=(6, 4)) * 3, rng.dirichlet(np.ones(4), 6)
    for smoothing in (0.0, 0.15):
        check(lambda z, s=smoothing: losses.cross_entropy(z, wf.array(Y), label_smoothing=s),
              lambda z, s=smoothing: _cross_entropy(z, Y, s).mean(), z)
        check(lambda z, p, s=smoothing: losses.cross_entropy(z, p, label_smoothing=s),
              lambda z, p, s=smoothing: _cross_entropy(z, p, s).mean(), z, p)
    check(lambda z: losses.cross_entropy(z, wf.array(Y), reduction="none"), lambda z: _cross_entropy(z, Y), z)
    check(lambda z: losses.cross_entropy(z, wf.array(Y), reduction="sum"), lambda z: _cross_entropy(z, Y).sum(), z)


@pytest.mark.parametrize("shape", [(2, 0), (2, 0, 3), (0,)])
def test_rows_of_no_classes_have_no_loss(shape: tuple[int, ...]) -> None:
    x = wf.ones(shape)
    assert losses.cross_entropy(x, x, reduction="sum").numpy() == 0
    assert wf.grad(lambda x: losses.cross_entropy(x, x, reduction="sum"))(x).shape == shape


def test_ignored_labels() -> None:
    z, y = rng.normal(size=(6, 4)), np.array([0, -100, 1, -100, 2, 3])
    kept = y >= 0
    check(lambda z: losses.cross_entropy(z, wf.array(y), ignore_index=-100),
          lambda z: _cross_entropy(z[kept], y[kept]).mean(), z)
    check(lambda z: losses.cross_entropy(z, wf.array(y), ignore_index=-100, label_smoothing=0.1, reduction="sum"),
          lambda z: _cross_entropy(z[kept], y[kept], 0.1).sum(), z)
    with pytest.raises(ValueError, match="label -100 at position 1"):
        losses.cross_entropy(wf.array(z), y)
    with pytest.raises(ValueError, match="rows of zeros"):
        losses.cross_entropy(wf.array(z), wf.ones((6, 4)), ignore_index=0)


def test_binary_cross_entropy() -> None:
    x, z = rng.normal(size=(5, 7)) * 4, rng.random((5, 7))

    def reference(x, z, w=1.0):
        return (z * w * np.logaddexp(0, -x) + (1 - z) * np.logaddexp(0, x)).mean()

    check(losses.binary_cross_entropy_with_logits, reference, x, z)
    check(lambda x, z: losses.binary_cross_entropy_with_logits(x, z, 2.5), lambda x, z: reference(x, z, 2.5), x, z)
    far = wf.array(np.array([1e4, -1e4, 60.0], "float32"))
    values = losses.binary_cross_entropy_with_logits(far, np.array([1.0, 1.0, 1.0], "float32"), reduction="none")
    np.testing.assert_allclose(values.numpy(), [0, 1e4, np.exp(-60.0)], rtol=1e-5)
    slope = wf.grad(lambda x: losses.binary_cross_entropy_with_logits(x, wf.zeros(3)))(far)
    np.testing.assert_allclose(slope.numpy(), [1 / 3, 0, 1 / 3], atol=1e-6)


REGRESSION = {
    "mse": (lambda p, t: ((p - t) ** 2).mean(), {}),
    "l1": (lambda p, t: np.abs(p - t).mean(), {}),
    "huber": (lambda p, t: np.where(np.abs(p - t) <= 0.8, (p - t) ** 2 / 2, 0.8 * (np.abs(p - t) - 0.4)).mean(), {"delta": 0.8}),
    "hinge": (lambda p, t: np.maximum(0, 1.5 - p * t).mean(), {"margin": 1.5}),
    "cosine": (
        lambda p, t: (1 - (p * t).sum(1) / np.linalg.norm(p, axis=1) / np.linalg.norm(t, axis=1)).mean(), {}),
}


@pytest.mark.parametrize("name", REGRESSION)
def test_value_and_gradient(name: str) -> None:
    reference, settings = REGRESSION[name]
    p, t = rng.normal(size=(5, 7)) * 2, rng.normal(size=(5, 7))
    loss = getattr(losses, name)
    check(lambda p, t: loss(p, t, **settings), reference, p, t)
    each = loss(wf.array(p), wf.array(t), reduction="none", **settings)
    np.testing.assert_allclose(each.numpy().mean(), reference(p, t), rtol=1e-10)
    np.testing.assert_allclose(float(loss(wf.array(p), wf.array(t), reduction="sum", **settings)), each.numpy().sum(), rtol=1e-10)
    with pytest.raises(ShapeError, match="differ in shape"):
        loss(wf.ones((4, 1)), wf.ones(4))
    with pytest.raises(ValueError, match="reduction"):
        loss(wf.ones((2, 2)), wf.ones((2, 2)), reduction="avg")


def test_squared_hinge_and_kl() -> None:
    p, t = rng.normal(size=(4, 5)), np.sign(rng.normal(size=(4, 5)))
    check(lambda p: losses.hinge(p, wf.array(t), squared=True), lambda p: (np.maximum(0, 1 - p * t) ** 2).mean(), p)
    log_q, q = special.log_softmax(rng.normal(size=(4, 5)), 1), rng.dirichlet(np.ones(5), 4)
    check(losses.kl_div, lambda k, q: (q * (np.log(q) - k)).sum() / 4, log_q, q)
    check(lambda k, m: losses.kl_div(k, m, "sum", log_target=True), lambda k, m: (np.exp(m) * (m - k)).sum(), log_q, np.log(q))
    sharp = np.eye(5)[:4]
    np.testing.assert_allclose(float(losses.kl_div(wf.array(log_q), wf.array(sharp))), -(sharp * log_q).sum() / 4, rtol=1e-12)


def test_cosine_of_nothing() -> None:
    x = wf.zeros((2, 3))
    value, slope = wf.value_and_grad(lambda x: losses.cosine(x, wf.ones((2, 3))))(x)
    assert float(value) == 1.0 and np.isfinite(slope.numpy()).all()


def test_cosine_of_any_length() -> None:
    x, y = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
    want = 1 - (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    for scale in (1e-6, 1e15):
        a, b = (wf.array((scale * v).astype("float32")) for v in (x, y))
        np.testing.assert_allclose(losses.cosine(a, b, reduction="none").numpy(), want, atol=1e-5)


def test_class_weights() -> None:
    z, y, w = rng.normal(size=(6, 4)), np.array([0, 3, 1, 2, 2, 3]), rng.random(4) + 0.2
    each = -special.log_softmax(z, 1)[np.arange(6), y] * w[y]
    np.testing.assert_allclose(losses.cross_entropy(wf.array(z), y, w, reduction="none").numpy(), each, rtol=1e-10)
    check(lambda z, w: losses.cross_entropy(z, wf.array(y), w),
          lambda z, w: (-special.log_softmax(z, 1)[np.arange(6), y] * w[y]).sum() / w[y].sum(), z, w)
    kept, share = y != 2, rng.dirichlet(np.ones(4), 6)

    def smooth(z):
        p = -special.log_softmax(z, 1)
        rows = 0.8 * p[np.arange(6), y] * w[y] + 0.2 * (p * w).mean(1)
        return rows[kept].sum() / w[y][kept].sum()

    check(lambda z: losses.cross_entropy(z, wf.array(y), wf.array(w), ignore_index=2, label_smoothing=0.2), smooth, z)
    check(lambda z: losses.cross_entropy(z, wf.array(share), wf.array(w), label_smoothing=0.2),
          lambda z: -((0.8 * share + 0.05) * w * special.log_softmax(z, 1)).sum(1).mean(), z)
    with pytest.raises(ShapeError, match=r"weight must be \(4,\)"):
        losses.cross_entropy(wf.array(z), y, w[:3])


def test_scores_with_more_dimensions() -> None:
    z, y = rng.normal(size=(2, 4, 3, 5)), rng.integers(0, 4, (2, 3, 5))
    y[0, 0] = -1
    flat, labels = z.transpose(0, 2, 3, 1).reshape(-1, 4), y.reshape(-1)
    want = _cross_entropy(flat, np.maximum(labels, 0)) * (labels >= 0)
    each = losses.cross_entropy(wf.array(z), y, ignore_index=-1, reduction="none")
    np.testing.assert_allclose(each.numpy(), want.reshape(2, 3, 5), rtol=1e-10)
    share = special.softmax(rng.normal(size=z.shape), 1)
    check(lambda z: losses.cross_entropy(z, wf.array(share), label_smoothing=0.1),
          lambda z: -((0.9 * share + 0.025) * special.log_softmax(z, 1)).sum(1).mean(), z)
    alone = losses.cross_entropy(wf.array(flat[-1]), int(labels[-1]))
    np.testing.assert_allclose(float(alone), want[-1], rtol=1e-10)
    with pytest.raises(ValueError, match=r"label 4 at position \(1, 2, 3\)"):
        y[0, 0], y[1, 2, 3] = 0, 4
        losses.cross_entropy(wf.array(z), y)


def test_labels_and_rows_of_any_dtype() -> None:
    z = rng.normal(size=(3, 300)).astype("float32")
    y = np.array([0, 255, 7], "uint8")  # there are more classes than such labels can say
    want = _cross_entropy(z.astype(float), y.astype(int))
    for labels in (y, wf.array(y), y.astype("uint64"), y.tolist()):
        np.testing.assert_allclose(losses.cross_entropy(wf.array(z), labels, reduction="none").numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(float(losses.cross_entropy(wf.array(z), y, ignore_index=-100)), want.mean(), rtol=1e-5)
    rows = np.eye(300)[y]
    for target in (rows, rows.astype(int), rows > 0, rows.tolist()):
        loss = losses.cross_entropy(wf.array(z), target)
        assert loss.dtype == np.float32
        np.testing.assert_allclose(float(loss), want.mean(), rtol=1e-5)


P, T = rng.normal(size=(6, 4)) * 3, rng.normal(size=(6, 4))
M = np.abs(P[:, ::-1]) + 0.3


def _ctc(p: np.ndarray, labels: np.ndarray) -> float:
    """The loss of one sequence of two labels, by the sum over all alignments of six steps."""
    total = -np.inf
    for path in itertools.product(range(4), repeat=len(p)):
        merged = [c for k, c in enumerate(path) if c and (not k or path[k - 1] != c)]
        if merged == labels.tolist():
            total = np.logaddexp(total, sum(p[k, c] for k, c in enumerate(path)))
    return -total / 2


def _gap(difference: np.ndarray) -> np.ndarray:
    return (difference**2).sum(1)


EVERY = {  # loss -> (prediction, target, formula, further operands); the settings are the defaults
    "nll_loss": (P, Y, lambda p, t: -p[np.arange(6), t].mean()),
    "binary_cross_entropy": (
        special.expit(P / 4), rng.random((6, 4)), lambda p, t: -(t * np.log(p) + (1 - t) * np.log1p(-p)).mean()),
    "gaussian_nll": (P, T, lambda p, t, v: (np.log(v) + (p - t) ** 2 / v).mean() / 2, M),
    "focal": (
        P, np.eye(4)[Y], lambda p, t: (np.where(t > 0, 0.25, 0.75) * special.expit(np.where(t > 0, -p, p)) ** 2
                                       * np.logaddexp(0, np.where(t > 0, -p, p))).mean()),
    "contrastive": (
        P / 8, T / 8, lambda p, t, y: np.where(y, _gap(p - t), np.maximum(0, 1 - _gap(p - t) ** 0.5) ** 2).mean() / 2,
        np.arange(6) % 2),
    "triplet": (
        P, T, lambda p, t, n: np.maximum(0, _gap(p - t + 1e-6) ** 0.5 - _gap(p - n + 1e-6) ** 0.5 + 1).mean(), M),
    "ctc": (special.log_softmax(P, 1), np.array([1, 3]), _ctc),
    "cross_entropy": (P, Y, lambda p, t: _cross_entropy(p, t).mean()),
    "binary_cross_entropy_with_logits": (
        P, rng.random((6, 4)), lambda p, t: (t * np.logaddexp(0, -p) + (1 - t) * np.logaddexp(0, p)).mean()),
    "mse": (P, T, REGRESSION["mse"][0]),
    "l1": (P, T, REGRESSION["l1"][0]),
    "huber": (P, T, lambda p, t: np.where(np.abs(p - t) <= 1, (p - t) ** 2 / 2, np.abs(p - t) - 0.5).mean()),
    "hinge": (P, np.sign(T), lambda p, t: np.maximum(0, 1 - p * t).mean()),
    "cosine": (P, T, REGRESSION["cosine"][0]),
    "kl_div": (special.log_softmax(P, 1), rng.dirichlet(np.ones(4), 6), lambda p, t: (t * (np.log(t) - p)).sum() / 6),
}


def test_every_loss_is_here() -> None:
    assert EVERY.keys() == set(losses.__all__) - {"check_labels"}


@pytest.mark.parametrize("name", EVERY)
def test_small_dtypes_round_once(name: str) -> None:
    p, t, formula, *others = EVERY[name]
    run = wf.jit(wf.value_and_grad(getattr(losses, name)))
    for dtype, bound in (("float16", 1e-3), ("bfloat16", 8e-3)):
        operands = [wf.array(v) if v.dtype.kind == "i" else wf.array(v).astype(dtype) for v in (p, t, *others)]
        value, slope = run(*operands)
        wide = [v.numpy() if v.dtype.kind == "i" else v.astype("float64").numpy() for v in operands]
        assert value.dtype == slope.dtype == dtype
        np.testing.assert_allclose(float(value), formula(*wide), rtol=bound)
        exact = run(*(wf.array(v) for v in wide))[1].numpy()
        np.testing.assert_allclose(slope.astype("float64").numpy(), exact, rtol=bound, atol=bound * np.abs(exact).max())
    half = wf.array(np.array([[300.0, 0, 0, 0]], "float16"))
    assert float(losses.mse(half, half * 0)) == 22496.0  # 300 squared is more than float16 holds


def test_wrong_arguments() -> None:
    z = wf.ones((3, 4))
    with pytest.raises(DTypeError, match="must be integers"):
        losses.cross_entropy(z, wf.ones(3))
    with pytest.raises(ValueError, match="label_smoothing"):
        losses.cross_entropy(z, wf.array([0, 1, 2]), label_smoothing=2.0)
    with pytest.raises(ValueError, match="delta"):
        losses.huber(z, z, delta=0.0)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_loss_and_its_gradient_are_one_kernel(name: str) -> None:
    p, t, _, *others = EVERY[name]
    operands = [wf.array(v) for v in (p, t, *others)]
    kernels = wf.explain(wf.jit(wf.value_and_grad(getattr(losses, name))), *operands).kernels
    assert len(kernels) <= {"ctc": 9, "kl_div": 2}.get(name, 1)  # the loops of ctc are kernels of their own


def test_alignments_that_do_not_fit() -> None:
    x = wf.nn.log_softmax(wf.array(rng.normal(size=(3, 2, 4))))
    y = wf.array([[1, 1, 2], [3, -7, 99]])  # 1, 1 needs a blank between; targets beyond their length are ignored
    run = wf.value_and_grad(lambda x, **options: losses.ctc(x, y, target_lengths=wf.array([3, 1]), **options))
    assert float(run(x)[0]) == np.inf
    value, slope = run(x, zero_infinity=True)
    assert 0 < float(value) < np.inf and np.isfinite(slope.numpy()).all() and not slope.numpy()[:, 0].any()
    slope = run(wf.where(wf.arange(4) == 2, -np.inf, x), zero_infinity=True)[1]
    assert np.isfinite(slope.numpy()).all()  # of a class of probability 0
    empty = losses.ctc(x, wf.zeros((2, 0), dtype="int64"), reduction="none")
    np.testing.assert_allclose(empty.numpy(), -x.numpy()[:, :, 0].sum(0))
    for bad, error, words in (
        (lambda: losses.ctc(x, wf.array([[1], [0]])), ValueError, r"position \(1, 0\) of targets is 0, the blank"),
        (lambda: losses.ctc(x, wf.array([[1], [4]])), ValueError, "label 4 at position"),
        (lambda: losses.ctc(x, y, target_lengths=[1, 4]), ValueError, "target_lengths must be from 0 to 3"),
        (lambda: losses.ctc(x, wf.array([1, 2])), ShapeError, r"\(T, N, C\) and \(N, S\)"),
        (lambda: losses.ctc(x, y, blank=4), ValueError, "from 0 to 3"),
        (lambda: losses.nll_loss(x, x), DTypeError, "must be labels"),
        (lambda: losses.nll_loss(x[0], [0, 1, 1]), ShapeError, r"must be \(2,\) labels for log_probs \(2, 4\), not \(3,\)"),
        (lambda: losses.gaussian_nll(x, x, wf.ones(3)), ShapeError, "does not broadcast"),
        (lambda: losses.contrastive(x, x, wf.ones(3)), ShapeError, "one per pair"),
        (lambda: losses.triplet(x, x, x, margin=0.0), ValueError, "margin"),
        (lambda: losses.focal(x, x, alpha=2.0), ValueError, "alpha"),
    ):
        with pytest.raises(error, match=words):
            bad()
    jitted = wf.jit(lambda *a: losses.ctc(x, *a))
    for labels, steps, counts, words in (
        ([[1, 2], [1, 4]], [3, 3], [2, 2], "targets must be from 0 to 3, not 4"),
        ([[1, 2], [1, -1]], [3, 3], [2, 2], "targets must be from 0 to 3, not -1"),
        ([[1, 2], [1, 2]], [4, 3], [2, 2], "input_lengths must be from 0 to 3, not 4"),
        ([[1, 2], [1, 2]], [3, 3], [3, 2], "target_lengths must be from 0 to 2, not 3"),
    ):
        with pytest.raises(IndexError, match=words):
            wf.eval(jitted(*map(wf.array, (labels, steps, counts))))
    want = losses.ctc(x, [[1, 2], [1, 9]], None, [2, 1])
    got = jitted(wf.array([[1, 2], [1, 9]]), wf.array([3, 3]), wf.array([2, 1]))
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-6)


def test_gradients_at_corners_are_finite() -> None:
    x = wf.zeros((2, 3))
    for f in (
        lambda x: losses.contrastive(x, wf.zeros((2, 3)), wf.array([0, 1])),
        lambda x: losses.triplet(x, x, x, eps=0.0),
        lambda x: losses.focal(x + 200.0, wf.ones((2, 3)), gamma=0.5),
        lambda x: losses.binary_cross_entropy(x, wf.array([[0.0, 1.0, 0.5]] * 2)),
        lambda x: losses.gaussian_nll(x, x, x),
    ):
        value, slope = wf.value_and_grad(f)(x)
        assert np.isfinite(float(value)) and np.isfinite(slope.numpy()).all()


def test_the_step_of_the_digit_net_has_fifteen_kernels() -> None:
    from weft.tools.digit_net import digit_net
    from weft.train.fit import training_step

    net = digit_net(28)
    step = training_step(net, losses.cross_entropy, wf.optim.Adam(lr=1e-3).init(net))
    found = wf.explain(step, wf.ones((8, 1, 28, 28)), wf.array(np.arange(8, dtype=np.int32)), 1e-3)
    assert len(found.kernels) <= 15
