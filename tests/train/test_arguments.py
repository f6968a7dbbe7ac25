"""What fit, predict and accuracy are given: what is taken, and what is refused in words that help."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits, data, net
from weft.errors import ShapeError

X, Y = data(40)


@pytest.mark.parametrize("change,error,pattern", [
    ({"model": lambda x: x}, TypeError, "model must be a wf.nn.Module, .*, not a function"),
    ({"model": wf.nn.Tanh}, TypeError, r"model must be .*, not the class Tanh: call it, Tanh\(\.\.\.\)"),
    ({"loss": "MSELoss"}, ValueError, "loss: no loss 'MSELoss'; in weft: 'mse'"),
    ({"loss": 3}, TypeError, r"loss must be a function of \(predictions, targets\), .*, not 3"),
    ({"optimizer": "adam"}, TypeError, "optimizer must be one of wf.optim, .*, not 'adam'"),
    ({"optimizer": wf.optim.Adam}, TypeError, r"optimizer must be .*, not the class Adam: call it, Adam\(\.\.\.\)"),
    ({"epochs": 1.5}, TypeError, "epochs must be an integer, not 1.5"),
    ({"epochs": True}, TypeError, "epochs must be an integer, not True"),
    ({"epochs": 0}, ValueError, "epochs must be at least 1, not 0"),
    ({"batch_size": 8.0}, TypeError, "batch_size must be an integer, not 8.0"),
    ({"batch_size": -1}, ValueError, "batch_size must be at least 1, not -1"),
    ({"accumulate": "2"}, TypeError, "accumulate must be an integer, not '2'"),
    ({"x": (X, Y), "y": None}, TypeError, r"x and y are two arguments, fit\(model, x, y\)"),
    ({"validation": True}, TypeError, "validation must be a fraction"),
    ({"validation": 1e-9}, ValueError, "validation=1e-09 of 40 samples is none"),
    ({"x": wf.data.Loader((X, Y))}, TypeError, r"x is a Loader, whose batches have inputs and targets: fit\(model, loader\)"),
])
def test_arguments_that_make_no_sense(change, error, pattern) -> None:
    with pytest.raises(error, match="fit: " + pattern):
        wf.train.fit(**{"model": net(), "x": X, "y": Y, "epochs": 1, "show": False, **change})


def integers():
    """Yield (what is called, in the message; the argument; its least value; a call with a value)."""
    for name in ("epochs", "batch_size", "accumulate", "seed"):
        options = {"epochs": 1, "show": False}
        yield "fit", name, int(name != "seed"), lambda v, o=options, name=name: wf.train.fit(net(), X, Y, **{**o, name: v})
    batches = wf.data.Loader((X, Y), 8)
    yield "fit", "steps_per_epoch", 1, lambda v: wf.train.fit(net(), batches, epochs=1, steps_per_epoch=v, show=False)
    yield "predict", "batch_size", 1, lambda v: wf.train.predict(net(), X, batch_size=v)
    for name, least in (("batch_size", 1), ("workers", 0), ("prefetch", 1), ("seed", 0)):
        yield "Loader", name, least, lambda v, name=name: next(iter(wf.data.Loader(X, shuffle=True, **{name: v})))
    for name in ("epoch", "start"):
        yield "Loader.batches", name, 0, lambda v, name=name: list(wf.data.Loader(X, shuffle=True).batches(**{name: v}))
    yield "EarlyStopping", "patience", 1, lambda v: wf.train.EarlyStopping(patience=v)
    yield "ReduceLROnPlateau", "patience", 1, lambda v: wf.train.ReduceLROnPlateau(patience=v)


@pytest.mark.parametrize("function,name,least,call", list(integers()))
def test_integer_arguments(function, name, least, call) -> None:
    r = np.random.default_rng()
    for _ in range(3):
        below = least - int(r.integers(1, 10 ** int(r.integers(1, 12))))
        with pytest.raises(ValueError, match=f"{function}: {name} must be at least {least}, not {below}"):
            call(r.choice([below, np.int64(below)]))
    for value in (float(r.integers(1, 9)), "3", True, np.True_, [2], np.float64(2), 1j):
        with pytest.raises(TypeError, match=f"{function}: {name} must be an integer, not"):
            call(value)
    for kind in (int, np.int64, np.uint8):
        call(kind(r.integers(max(least, 1), 4)))


def test_numpy_integers_in_a_checkpoint(tmp_path) -> None:
    options = {"epochs": np.int64(1), "batch_size": np.int32(8), "seed": np.uint8(3), "show": False}
    options["checkpoint_every"] = np.int64(2)
    wf.train.fit(net(), X, Y, checkpoint=tmp_path / "run", **options)
    wf.train.fit(net(), X, Y, checkpoint=tmp_path / "run", resume=True, **{**options, "epochs": 2, "seed": 3})


def normed(kind: type = wf.nn.BatchNorm1d, has_statistics: bool = True) -> wf.nn.Module:
    wf.random.seed(0)
    layers = wf.nn.Linear(3, 4), kind(4, track_running_stats=has_statistics), wf.nn.Dropout(0.3), wf.nn.Tanh(), wf.nn.Linear(4, 2)
    return wf.nn.Sequential(*layers)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("seed", range(30))
def test_a_last_batch_of_one_row(seed) -> None:
    r = np.random.default_rng(seed)
    size, whole = int(r.integers(1, 9)), int(r.integers(1, 4))
    rows = size * whole + (0 if size == 1 or r.random() < 0.2 else int(r.integers(1, size)) if r.random() < 0.3 else 1)
    kind = wf.nn.BatchNorm1d if r.random() < 0.5 else wf.nn.SyncBatchNorm, bool(r.random() < 0.5)
    single, before, drawn = (rows - 1) % size == 0, bits(normed(*kind)), wf.random.rand(3).tolist()
    x, y = X[:rows], Y[:rows]
    for given in ({"x": x, "y": y}, {"x": wf.data.Loader((x, y), size)}):
        model = normed(*kind)
        if single:
            pattern = rf"fit: the last batch of an epoch has 1 row \({rows} samples\).* drop_last=True"
            with pytest.raises(ShapeError, match=pattern):
                wf.train.fit(model, **given, batch_size=size, epochs=1, show=False)
            assert bits(model) == before and model.training and wf.random.rand(3).tolist() == drawn
        else:
            wf.train.fit(model, **given, batch_size=size, epochs=1, show=False)
    if size == 1:
        with pytest.raises(ShapeError, match=pattern):
            wf.train.fit(normed(*kind), wf.data.Loader((x, y), size, drop_last=True), epochs=1, show=False)
    else:
        wf.train.fit(normed(*kind), wf.data.Loader((x, y), size, drop_last=True), epochs=1, show=False)
        wf.train.fit(normed(*kind), wf.data.Loader((x, y), size), epochs=1, steps_per_epoch=whole, show=False)
    wf.train.fit(net(), x, y, epochs=1, batch_size=size, show=False)  # a model without batch norm


def test_one_row_of_a_normed_image() -> None:
    model = wf.nn.Sequential(wf.nn.Conv2d(1, 2, 3), wf.nn.BatchNorm2d(2), wf.nn.Flatten(), wf.nn.Linear(8, 2))
    wf.train.fit(model, np.ones((5, 1, 4, 4), "float32"), Y[:5], epochs=1, batch_size=4, show=False)  # 4 values a channel


def test_an_optimizer_of_another_model() -> None:
    optimizer = wf.optim.Adam(lr=0.01)
    wf.train.fit(net(), X, Y, epochs=1, optimizer=optimizer, show=False)
    wide = wf.nn.Sequential(wf.nn.Linear(3, 9), wf.nn.Tanh(), wf.nn.Dropout(0.0), wf.nn.Linear(9, 2))
    with pytest.raises(ValueError, match=r"Adam keeps the state of another model: its .* of '0.weight' has shape \(8, 3\), "
                                         r"the parameter has \(9, 3\). Make a new optimizer"):
        wf.train.fit(wide, X, Y, epochs=1, optimizer=optimizer, show=False)


def test_ways_to_give_validation() -> None:
    def losses(validation):
        return wf.train.fit(net(), X, Y, epochs=2, validation=validation, show=False)

    assert losses(None).loss == losses(0).loss == losses(np.float32(0)).loss
    assert losses((X, Y))["val_loss"] == losses([X, Y])["val_loss"] == losses((wf.array(X), wf.array(Y)))["val_loss"]
    assert losses(np.float32(0.25))["val_loss"] == losses(0.25)["val_loss"]


@pytest.mark.parametrize("x,y", [
    (X.astype("f8"), Y), (X.astype(">f4"), Y.astype(">i8")), (np.asfortranarray(X), Y[::-1][::-1]), (X.tolist(), Y.tolist()),
    (wf.array(X), wf.array(Y)),
])
def test_however_arrays_are_stored(x, y) -> None:
    found, want = net(), net()
    options = {"epochs": 2, "batch_size": 7, "optimizer": wf.optim.SGD(lr=0.1), "show": False}
    wf.train.fit(want, X, Y.astype("i8"), **options)
    wf.train.fit(found, x, y, **{**options, "optimizer": wf.optim.SGD(lr=0.1)})
    assert bits(found) == bits(want)


def test_a_history_in_a_line() -> None:
    history = wf.train.fit(net(), X, Y, epochs=3, validation=0.2, show=False, callbacks=[lambda s: s.stop("enough")])
    row = history.epochs[0]
    assert repr(history).startswith(f"History(1 epoch: loss {row.loss:.4f}, val_loss {row.validation_loss:.4f}, val_accuracy ")
    assert repr(history).endswith("s; enough)") and "best epoch 1" in repr(history)
    assert repr(wf.train.History()) == "History(0 epochs)"


def test_predict_reads_as_fit_does() -> None:
    model = net()
    out = wf.train.predict(model, X)
    wide = wf.train.predict(model, X.astype("f8"), batch_size=7)
    assert wide.dtype == np.float32
    np.testing.assert_allclose(wide, out, rtol=1e-6, atol=1e-7)
    for given in (X.tolist(), list(X), wf.array(X)):
        np.testing.assert_allclose(wf.train.predict(model, given), out, rtol=1e-6, atol=1e-7)
    for loader in (lambda x: wf.train.predict(model, x), lambda x: wf.train.accuracy(model, x, Y)):
        with pytest.raises(TypeError, match="predict: x is a Loader, whose batches have inputs and targets: give arrays"):
            loader(wf.data.Loader((X, Y)))
    with pytest.raises(ShapeError, match="predict: x holds no samples"):
        wf.train.predict(model, X[:0])


def test_predict_leaves_a_state_alone() -> None:
    gru = wf.nn.GRU(3, 4, stateful=True)
    x = np.random.default_rng().normal(size=(5, 2, 3)).astype("f4")
    gru(wf.array(x))
    before = {n: a.numpy().tobytes() for n, a in gru.arrays().items()}

    class Out(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = gru

        def forward(self, x):
            return self.gru(x)[0]

    first, second = (wf.train.predict(Out(), x) for _ in range(2))
    assert (first == second).all()
    assert {n: a.numpy().tobytes() for n, a in gru.arrays().items()} == before


def test_accuracy() -> None:
    model = net()
    right = wf.train.predict(model, X).argmax(1)
    assert wf.train.accuracy(model, X, right) == wf.train.accuracy(model, X, np.eye(2)[right]) == 1.0
    assert wf.train.accuracy(model, X, wf.array(1 - right)) == 0.0
    for y in (Y[:-1], Y[:, None], np.zeros((40, 3))):
        with pytest.raises(ShapeError, match=r"accuracy: the model gives \(40, 2\), y is"):
            wf.train.accuracy(model, X, y)
    with pytest.raises(ShapeError, match="accuracy: y is a tuple of 2, but must be"):
        wf.train.accuracy(model, X, (Y, Y))
    with pytest.raises(wf.errors.DTypeError, match="accuracy: y must hold real numbers, not texts"):
        wf.train.accuracy(model, X, ["a"] * len(X))


FIT_ERRORS = {
    "validation path": (lambda m: fit(m, X, Y, validation="a.npz"), TypeError, "fit: validation is a path, 'a.npz'"),
    "validation pair": (lambda m: fit(m, X, Y, validation=(X,)), TypeError, "fit: validation must be a fraction, .* not a tuple"),
    "validation batch": (lambda m: fit(m, X, Y, validation=[3]), TypeError, "fit: validation: the data must give pairs"),
    "validation label": (lambda m: fit(m, X, Y, validation=(X, Y + 1)), ValueError, "fit: validation: y: labels out of range"),
    "validation loader": (
        lambda m: fit(m, wf.data.Loader((X, Y), 20), validation=wf.data.Loader((X, Y + 1), 20), shards=2), ValueError,
        "fit: validation: y: labels out of range",
    ),
    "label": (lambda m: fit(m, X, Y + 1), ValueError, "^fit: y: labels out of range: label 2 at position"),
    "mark": (lambda m: fit(m, X, Y - 1), ValueError, "there are 2 classes .0 to 1.; a loss with ignore_index=-1 leaves"),
    "image labels": (
        lambda m: fit(wf.nn.Conv2d(1, 2, 1), np.ones((4, 1, 2, 2), "f4"), np.full((4, 2, 2), 255)), ValueError,
        r"fit: y: labels out of range: label 255 at position \(0, 0, 0\)",
    ),
    "source": (lambda m: fit(m, lambda: None), TypeError, "fit: the function that gives the data must return an iterable of"),
    "path": (lambda m: fit(m, "train.csv"), TypeError, "fit: x is a path, 'train.csv'"),
    "ragged": (lambda m: fit(m, [[1.0], [1.0, 2.0]], Y[:2]), ShapeError, "fit: x is no array, its rows have different shapes"),
    "loss of rows": (lambda m: fit(m, X, Y, loss=rows), ShapeError, r"fit: the loss rows gave shape \(32, 2\), but must give"),
    "loss of none": (lambda m: fit(m, X, Y, loss=lambda p, t: None), TypeError, "must give one number, not None: end it with"),
    "checkpoint": (lambda m: fit(m, X, Y, checkpoint=3), TypeError, "fit: checkpoint: the path must be a str or a path, not 3"),
    "no batch": (lambda m: wf.train.evaluate(m, []), ShapeError, "^evaluate: the data give no batch$"),
    "predict none": (lambda m: wf.train.predict(m, None), TypeError, "predict: x is None"),
    "predict generator": (lambda m: wf.train.predict(m, iter(X)), TypeError, "predict: x must be an array, not a"),
    "predict row": (
        lambda m: wf.train.predict(m, X[0]), ShapeError, r"predict: x \(3,\) has 3 rows, .* shape \(2,\): .* x\[None\]",
    ),
    "predict value": (lambda m: wf.train.predict(m, 1.0), ShapeError, "predict: x is one value"),
}


def rows(predictions, targets):
    return predictions


def fit(*args, **kwargs):
    return wf.train.fit(*args, **{"epochs": 1, "show": False, **kwargs})


@pytest.mark.parametrize("case", FIT_ERRORS)
def test_errors_name_the_argument(case: str) -> None:
    call, error, pattern = FIT_ERRORS[case]
    with pytest.raises(error, match=pattern):
        call(net())


def test_losses_without_a_gradient() -> None:
    for loss in (lambda p, t: (p.argmax(1) == t).mean(), lambda p, t: 1.0, lambda p, t: wf.stop_gradient(p).sum()):
        with pytest.warns(RuntimeWarning, match="fit: the loss has no gradient, so the model learns nothing"):
            fit(net(), X, Y, loss=loss)
    for loss in (lambda p, t: 0.0 * p.sum(), lambda p, t: p[:, 0].sum()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(net(), X, Y, loss=loss)
