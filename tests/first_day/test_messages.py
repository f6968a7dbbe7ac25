"""Mistakes of a first day: each error names the cause and what to write, and silent ones speak."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.train.batches import Arrays
from weft.train.doubts import warn_unscaled

X, Y = np.random.default_rng().normal(size=(16, 8)).astype("float32"), np.arange(16) % 3
A = wf.ones((4, 2))


def net() -> wf.nn.Sequential:
    return wf.nn.Sequential(wf.nn.Linear(8, 16), wf.nn.ReLU(), wf.nn.Linear(16, 3))


def fit(model: Any = None, x: Any = X, y: Any = Y, **options: Any) -> Any:
    return wf.train.fit(model or net(), x, y, epochs=1, show=False, **options)


class Net(wf.nn.Module):
    """A module whose forward is a given function of the layer's output."""

    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.inner, self.function = wf.nn.Linear(8, 3), forward

    def forward(self, x: Any) -> Any:
        return self.function(self.inner(x))


class Wide(wf.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = [wf.nn.Sequential(wf.nn.Linear(8, 16), ("head", wf.nn.Linear(17, 3)))]

    def forward(self, x: Any) -> Any:
        return self.blocks[0](x)


MESSAGES = {
    "two inputs": (lambda: fit(x=(X, X)), "Sequential.forward takes x, but x is a tuple of 2"),
    "inputs of two shapes": (lambda: fit(x=[X, X[:, :2]]), "fit: x is a list of 2 arrays of several shapes, but a list is one"),
    "a list of inputs": (lambda: fit(x=[X, X]), "y has 16 (shape (16,)); a list is one array: several inputs are a tuple"),
    **{
        f"x {shape} and y swapped, {name}": (call, f"{name}: the model takes y (16, 8), but not x {shape}: x and y seem")
        for name, shape, call in (
            ("fit", "(16,)", lambda: fit(x=Y, y=X)), ("fit", "(16, 1)", lambda: fit(x=Y[:, None], y=X, loss="mse")),
            ("evaluate", "(16,)", lambda: wf.train.evaluate(net(), Y, X)),
            ("find_lr", "(16, 1)", lambda: wf.train.find_lr(net(), Y[:, None] * 0.1, X, loss="mse")),
        )
    },
    **{
        f"{name} as a text": (call, f"{name} must be True or False, not 'yes'")
        for name, call in (
            ("fit: shuffle", lambda: fit(shuffle="yes")), ("fit: resume", lambda: fit(resume="yes")),
            ("fit: show", lambda: wf.train.fit(net(), X, Y, show="yes")),  # type: ignore[arg-type]
            ("Loader: shuffle", lambda: wf.data.Loader((X, Y), shuffle="yes")),  # type: ignore[arg-type]
            ("Loader: drop_last", lambda: wf.data.Loader((X, Y), drop_last="yes")),  # type: ignore[arg-type]
        )
    },
    "bits of weights": (lambda: wf.nn.quantize_model(net(), 8), "quantize_model: weights is 8, but must be a format, such as"),
    "a dict": (lambda: fit(x={"a": X, "b": X}), "fit: Sequential.forward takes x, but x has no 'x'"),
    "a path": (lambda: fit(x="data.csv"), "fit: x is a path, 'data.csv': read the file first"),
    "two outputs": (lambda: fit(Net(lambda h: (h, h))), "fit: the model returns a tuple of 2; cross_entropy needs an array"),
    "two outputs, mse": (
        lambda: fit(Net(lambda h: (h, h)), y=X, loss=wf.losses.mse), "the model returns a tuple of 2; the loss needs",
    ),
    "predict no output": (lambda: wf.train.predict(Net(lambda h: None), X), "predict: the model returns None"),
    "no return": (lambda: fit(Net(lambda h: None)), "fit: the model returns None: end its forward with `return`"),
    "no return, own loss": (lambda: fit(Net(lambda h: None), loss=lambda out, y: out), "fit: the model returns None: end its"),
    "a class": (lambda: wf.nn.Sequential(wf.nn.Flatten), "Sequential: layer 0 is the class Flatten: call it, Flatten(...)"),
    "a list of layers": (lambda: wf.nn.Sequential([wf.nn.ReLU()]), "Sequential: layer 0 is a list: write the layers as"),
    "a recurrent layer": (
        lambda: wf.nn.Sequential(wf.nn.LSTM(8, 3), wf.nn.Linear(3, 3))(wf.ones((2, 5, 8))),
        "Sequential: layer 0 (LSTM) returns a tuple of 2, which layer 1 (Linear) cannot take",
    ),
    "view": (lambda: A.view(2, -1), "view: (2, -1) is no dtype; in weft: x.reshape(2, -1)"),
    "view of one": (lambda: A.view(-1), "view: -1 is no dtype; in weft: x.reshape(-1)"),
    "large integer": (lambda: wf.array([2**70]), "array: the integer 1180591620717411303424 needs more than 64 bits"),
    "objects": (lambda: wf.array(np.array([{}, 1])), "a dict cannot be held: arrays hold numbers"),
    "missing numbers": (lambda: wf.array(np.array([None, 1.0])), "None cannot be held: write float('nan')"),
    "dates": (lambda: wf.array(np.array(["2020-01-01"], "datetime64[D]")), "dates cannot be held: subtract a date"),
    "complex data": (lambda: fit(x=X.astype("complex64")), "fit: x must hold real numbers, not complex64: give its real and"),
    "a loss by name": (lambda: fit(loss="MSELoss"), "fit: loss: no loss 'MSELoss'; in weft: 'mse'"),
    "a loss by Keras' name": (lambda: fit(loss="categorical_crossentropy"), "; in weft: 'cross_entropy'"),
    "an optimizer by name": (lambda: fit(optimizer="adam"), "not 'adam'; in weft: wf.optim.Adam()"),
    "a schedule": (lambda: wf.optim.Adam(schedule=0.9), "Adam: schedule must be a function of the number of steps"),  # type: ignore[arg-type]
    "a schedule set later": (lambda: setattr(wf.optim.Adam(), "schedule", 0.9), "Adam: schedule must be a function"),
    "a layer's shape": (lambda: Wide()(X), "(weight is (3, 17)); in layer blocks.0.head of Wide: Linear(17, 3)"),
    "a layer's shape in fit": (lambda: fit(Wide()), "in layer blocks.0.head of Wide: Linear(17, 3)"),
    **{
        f"key in {name}": (lambda name=name, more=more: getattr(wf.random, name)(wf.random.key(0), *more),
                           f"{name}: the first argument is a key; in weft: wf.random.{name}(")
        for name, more in (
            ("normal", [(3,)]), ("uniform", [(3,)]), ("bernoulli", []), ("permutation", [5]), ("choice", [5]),
            ("categorical", [wf.zeros(3)]),
            ("randint", [2, 0]),
        )
    },
}


@pytest.mark.parametrize("case", MESSAGES)
def test_message(case: str) -> None:
    code, message = MESSAGES[case]
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        code()


class IntegerParameter(wf.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = wf.array([1, 2, 3])


class IntegerBuffer(IntegerParameter):
    buffers = ("scale",)


def test_integers_are_no_parameters() -> None:
    with pytest.warns(RuntimeWarning, match=r"IntegerParameter.scale is int64: integers are not trained.*buffers = \('scale',\)"):
        IntegerParameter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IntegerBuffer()
        wf.nn.MultiHeadAttention(4, 2)


def test_pixels_that_are_not_scaled() -> None:
    pixels = np.random.default_rng().integers(16, 256, (16, 8)).astype("uint8")

    def fit(model: Any, x: Any) -> None:
        warn_unscaled(model, Arrays(x, Y, None, 8, None, True))

    with pytest.warns(RuntimeWarning, match=r"fit: x holds uint8 numbers up to \d+, and Linear\(8, 16\) gets them as they are"):
        fit(net(), x=pixels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(wf.nn.Sequential(lambda x: x / 255, *net()), x=pixels)
        fit(wf.nn.Sequential(wf.nn.Embedding(256, 4), wf.nn.Flatten(), wf.nn.Linear(32, 3)), x=pixels)


def loop(x: Any) -> Any:
    while x.sum() < 10:
        x = x + 1
    return x


def branch(x: Any) -> Any:
    if x.sum() > 0 and x.shape:
        return x
    return -x


def count(x: Any) -> Any:
    return [k for k in range(x.sum().astype("int32"))]


CONSTRUCTS = {
    "while": (loop, "`while` needs it. Use wf.while_loop"), "if": (branch, "`if` needs it: use wf.where.*wf.cond"),
    "range": (count, "`range` needs it. Use wf.fori_loop"),
    "if expression": (lambda x: 1 if x[0] else 2, "`if` needs it: use wf.where"),
    "filter": (lambda x: [1 for k in range(2) if x[k]], "`if` needs it: select with a mask"),
    "and": (lambda x: x[0] and x[1], "`and` and `or` need it: write & and |"),
    "max": (lambda x: max(x[0], x[1]), "use wf.minimum, wf.maximum"), "float": (lambda x: float(x[0]), "float() needs it"),
    "item": (lambda x: x[0].item(), "item() needs it"), "format": (lambda x: f"{x[0]:.2f}", "a format needs it"),
    "NumPy": (lambda x: np.asarray(x), "np.asarray needs it"),
}


@pytest.mark.parametrize("case", CONSTRUCTS)
def test_traced_values(case: str) -> None:
    function, message = CONSTRUCTS[case]
    with pytest.raises(wf.errors.TraceError, match=message.replace("(", r"\(").replace(")", r"\)").replace("|", r"\|")):
        wf.jit(function)(wf.ones(3))


SCRIPT = """
import weft as wf
def loss(w, x):
    return (x @ w).sum(dim=0)
def step(w):
    return wf.grad(loss)(w, wf.ones((3, 4)))
wf.jit(step)(wf.ones({}))
"""


def run_script(extent: int, **variables: str) -> str:
    """Return what Python prints for an error in a jitted gradient."""
    import os

    command = [sys.executable, "-c", SCRIPT.format(extent)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | variables).stderr


def test_tracebacks_hide_own_frames() -> None:
    text = run_script(5)
    assert text.count('File "') == 3 and text.count('File "<string>"') == 3 and "ShapeError: matmul" in text
    assert "wf.errors.show_own_frames()" in text
    full = run_script(5, WEFT_TRACEBACK="full")
    assert full.count('File "') > 6 and "show_own_frames" not in full
    assert "'dim'; in weft: axis=" in run_script(4)


def test_misspelled_attributes() -> None:
    from weft.process.completion import complete_message

    for code, close in ((lambda: wf.ones(2).sume, "sum"), (lambda: net().paramters, "parameters"), (lambda: [].apend, "")):
        with pytest.raises(AttributeError) as caught:
            code()
        complete_message(caught.value)  # as where it is displayed
        assert str(caught.value).endswith(f". Did you mean {close}?") is bool(close)


def test_show_own_frames_is_a_switch() -> None:
    from weft.process.tracebacks import prepare_display

    def frames() -> int:
        with pytest.raises(wf.errors.ShapeError) as caught:
            wf.jit(lambda x: x @ wf.ones(5))(wf.ones(4))
        prepare_display(caught.value)
        trace, count = caught.value.__traceback__, 0
        while trace is not None:
            trace, count = trace.tb_next, count + 1
        return count

    hidden = frames()
    wf.errors.show_own_frames()
    try:
        assert frames() > hidden
    finally:
        wf.errors.show_own_frames(False)


def warnings_of(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught]


def test_a_loss_that_grows_or_does_not_fall() -> None:
    def run(x: Any, lr: float, epochs: int = 4) -> list[str]:
        wf.random.seed(0)
        model = wf.nn.Sequential(wf.nn.Linear(8, 1))
        optimizer = wf.optim.SGD(lr=lr)
        return warnings_of(lambda: wf.train.fit(
            model, x, x[:, :1] * 0.5, epochs=epochs, batch_size=16, loss="mse", optimizer=optimizer, show=False,
        ))

    finite, infinite = run(X, 10.0), run(X, 1e9, 9)
    assert len(finite) == len(infinite) == 1
    assert re.match(r"fit: the loss rose from \S+ at the first step to \S+: lr=10 may be too large; wf.train.find_lr", finite[0])
    assert re.match(r"fit: the loss is not finite.*; the loss rose from \S+ at .*: lr=1e\+09 may be too large", infinite[0])
    assert not run(X, 0.01) and not run(X * 16, 1e-4, 30) and not run(X, 0.0), "scaled, or the loss falls"
    (still,) = run(np.full_like(X, 255), 0.0)
    assert still.startswith("fit: the loss has not fallen, and x holds numbers up to 255, but networks train on numbers near 1")


@pytest.mark.parametrize("name, owner", [
    ("w.pt", "PyTorch"), ("w.PTH", "PyTorch"), ("w.h5", "Keras"), ("w.keras", "Keras"), ("w.pkl", "pickle"), ("w.npy", "NumPy"),
    ("w.onnx", "ONNX"), ("w.safetensors", ""), ("w.npz", ""), ("w", ""), ("w.ckpt", ""),
])
def test_the_name_of_another_format(name: str, owner: str, tmp_path: Any) -> None:
    found = warnings_of(lambda: net().save(tmp_path / name))
    text = f"save: {name!r} gets the safetensors format, not that of {owner}"
    assert [w.partition(": name it 'w.safetensors'")[0] for w in found] == [text] * bool(owner)
    net().load(tmp_path / name)


def test_the_arguments_of_save_onnx(tmp_path: Any) -> None:
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match=r"save_onnx: sample is a path: the order is save_onnx\(model, sample, path\)"):
        wf.io.save_onnx(net(), tmp_path / "net.onnx", X)
    script = "import weft as wf; wf.io.save_onnx(wf.nn.Linear(2, 3), 'net.onnx')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert "it takes model, sample, path, dtype; sample is an input of the model, or its shape" in done.stderr, done
