"""Mistakes of people from PyTorch, Keras, JAX and NumPy, by pattern: the error says what to write in weft."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.process.completion import complete_message
from weft.train.batches import Arrays
from weft.train.doubts import check_loss

nn = wf.nn
RNG = np.random.default_rng()
X, Y = RNG.normal(size=(16, 8)).astype("float32"), np.arange(16) % 3
x, y = wf.array(X), wf.array(Y)
IMAGES, SEQUENCES = wf.ones((2, 3, 9, 9)), wf.ones((2, 5, 8))


def net() -> wf.nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def fit(model: Any = None, x: Any = X, y: Any = Y, **options: Any) -> Any:
    return wf.train.fit(model or net(), x, y, show=False, **{"epochs": 1, **options})


def slope(model: Any) -> Any:
    return wf.grad(lambda model: model(x).sum())(model)


class Setup(nn.Module):
    def setup(self) -> None:
        self.inner = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.inner(x)


class Missing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.blocks = nn.Linear(8, 3), [nn.ReLU()]

    def forward(self, x: Any) -> Any:
        return self.fc2(x)


class Call(nn.Module):
    def call(self, x: Any) -> Any:
        return x


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = RNG.normal(size=(8, 3)).astype("float32")

    def forward(self, x: Any) -> Any:
        return x @ self.w


class TwoInputs(nn.Module):
    def forward(self, x: Any, labels: Any) -> Any:
        return x


class States(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 4), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.rnn(x))


class Sizes(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.reshape(x.size(0), -1)


FLOAT16 = type("dtype", (), {"__module__": "torch", "__repr__": lambda self: "torch.float16"})


def swap_update() -> None:
    model = net()
    wf.optim.SGD(0.1).update(slope(model), model)


def swap_value_and_gradient() -> None:
    model = net()
    gradients, _ = wf.value_and_grad(lambda model: model(x).sum())(model)
    wf.optim.SGD(0.1).update(model, gradients)


MODELS = {
    "channels last": (lambda: nn.Conv2d(3, 4, 3)(wf.ones((2, 9, 9, 3))), "channels come before the image: x.transpose(0, 3, 1,"),
    "sequences, channels last": (lambda: nn.Conv1d(8, 4, 3)(SEQUENCES), "channels come before the image: x.transpose(0, 2, 1)"),
    "no batch": (lambda: nn.Conv2d(3, 4, 3)(IMAGES[0]), "not (3, 9, 9); x[None] adds the batch, x[:, None] a channel"),
    "batch norm of vectors": (lambda: nn.BatchNorm2d(8)(x), "not (16, 8); BatchNorm1d takes (N, C)"),
    "one width": (lambda: nn.Linear(10), "out_features must be a positive int, not None; give it, as Linear(None, 10) does"),
    "no kernel size": (lambda: nn.MaxPool2d(), "MaxPool2d: kernel_size must be an int or a pair of ints, not None"),
    "float indices": (lambda: nn.Embedding(9, 4)(wf.ones(3)), "input must hold integers, not float32: cast with .astype('int32'"),
    "a state": (lambda: States()(SEQUENCES), "the input is a tuple of 2, as a recurrent layer returns: take it apart, y, state"),
    "a dict of layers": (lambda: nn.Sequential(OrderedDict(a=nn.ReLU())), "not a layer: write Sequential(*layers.items())"),
    "a layer of x": (lambda: nn.ReLU(x), "ReLU()(x) applies the layer"),
    "too many arguments": (lambda: nn.Linear(3, 4, True, 5), "Linear: 4 arguments by position, it takes 3: in_features, out_fea"),
    "a text as a layer": (lambda: nn.Sequential("relu"), "not a layer: write the layer, such as wf.nn.ReLU()"),
    "padding by position": (lambda: nn.Conv2d(3, 4, 3, "same"), "not 'same'; padding='same' is a keyword"),
    "a mask for attention": (lambda: nn.MultiHeadAttention(8, 2)(SEQUENCES, mask=x), "'mask'; in weft: attn_mask="),
    "two arguments": (lambda: net()(x, y), "takes 2 positional arguments but 3 were given; it takes x"),
    "setup": (lambda: Setup()(x), "no attribute 'inner'; in weft: make layers in __init__, setup is not called"),
    "call": (lambda: Call()(x), "no forward method: define forward(self, x); in weft: rename call to forward"),
    "x.size(0)": (lambda: Sizes()(x), "'int' object is not callable; in weft: x.size is the number of elements, x.shape[0]"),
    "device of a layer": (lambda: nn.Linear(2, 2, device="cuda"), "'device'; in weft: wf.set_device(\"gpu\") chooses"),
    "return_sequences": (lambda: nn.LSTM(8, 4, return_sequences=True), "leave it out, the output of each step is returned"),
    "Keras' embedding": (lambda: nn.Embedding(input_dim=10, output_dim=4), "'input_dim'; in weft: num_embeddings="),
    "constants": (lambda: slope(Constant()), "w is a NumPy array, a constant; self.w = wf.array(...) is a parameter"),
}
TRAINING = {
    "parameters": (lambda: wf.optim.Adam(net().parameters(), lr=1e-3), "Adam: lr is given twice, by position as a dict and by"),
    "parameters alone": (lambda: wf.optim.Adam(net()), "not a Sequential; in weft: Adam(lr=1e-3) without parameters"),
    "a schedule as rate": (lambda: wf.optim.Adam(wf.optim.schedules.cosine(9)), "not cosine(steps=9, least=0.0); schedule= take"),
    "one beta": (lambda: wf.optim.Adam(betas=0.9), "betas must be 2 numbers in [0, 1), not 0.9"),
    "a list of groups": (lambda: wf.optim.Adam(groups=[{"lr": 1}]), "groups must be a dict from patterns of names to options"),
    "a foreign option": (lambda: wf.optim.Adam(groups={"0": {"learning_rate": 1}}), "no option 'learning_rate'; in weft: lr="),
    "StepLR": (lambda: wf.optim.schedules.step(step_size=3), "'step_size'; in weft: every="),
    "swapped": (swap_update, "update(model, gradients): the model is the first argument, its gradients the second; they are swa"),
    "swapped pair": (swap_value_and_gradient, "wf.value_and_grad returns (value, gradients)"),
    "no argument": (lambda: wf.grad(lambda: x.sum())(), "give what it is differentiated by as an argument, such as wf.grad(loss"),
    "an int": (lambda: wf.grad(lambda w: w * w)(3), "argument 0 is 3 (int), but must be float: write 3.0"),
    "labels as a column": (lambda: wf.losses.cross_entropy(net()(x), y[:, None]), "not (16, 1): give target.reshape((16,))"),
    "float labels": (lambda: wf.losses.cross_entropy(net()(x), y.astype("float32")), "not float32: cast with .astype('int32')"),
    "labels first": (lambda: wf.losses.cross_entropy(y, net()(x)), "the order is cross_entropy(logits, target)"),
    "one logit": (lambda: wf.losses.cross_entropy(x[:, :1], y), "binary_cross_entropy_with_logits is for one logit"),
    "a column and a row": (lambda: wf.losses.mse(x[:, :1], x[:, 0]), "differ in shape: give target.reshape((16, 1))"),
    "labels and mse": (lambda: fit(loss="mse"), ": for labels of classes take cross_entropy, or give wf.one_hot("),
    "images and rows": (lambda: wf.losses.mse(IMAGES.reshape(2, -1), IMAGES), "in shape: give target.reshape((2, 243))"),
    "data first": (lambda: wf.train.predict(X, net()), "predict: model must be a wf.nn.Module, ", "the model is the first argu"),
    "data and labels first": (lambda: wf.train.accuracy(X, Y, net()), "accuracy: model must be", "the model is the first argu"),
    "one pair": (lambda: wf.train.evaluate(net(), (X, Y)), "evaluate: x and y are two arguments, evaluate(model, x, y), not one"),
    "names unpacked": (lambda: [p for _, p in net().parameters()], "'0.weight' is unpacked", "model.parameters().items()"),
    "bce": (lambda: wf.losses.bce, "no attribute 'bce'; in weft: wf.losses.binary_cross_entropy"),
    "load_iris": (lambda: wf.data.load_iris(), "in weft: arrays of your own; wf.data.load_digits() and"),
    "texts": (lambda: fit(y=np.array(["a", "b"] * 8)), "not texts: wf.data.LabelEncoder().fit_transform(y) returns"),
    "objects": (lambda: fit(x=X.astype(object)), "not object: cast it, x.astype('float32')"),
    "epochs by position": (lambda: wf.train.fit(net(), X, Y, 5), "fit: 4 arguments by position, it takes 3: model, x, y"),
    "learning_rate": (lambda: fit(learning_rate=1e-3), "'learning_rate'; in weft: optimizers take it, optimizer=wf.optim.Adam(l"),
    "class_weight": (lambda: fit(class_weight={}), "'class_weight'; in weft: class_weights"),
    "two inputs": (lambda: fit(TwoInputs()), "TwoInputs.forward takes x, labels, but x is one array: give x=(x, labels)"),
    "acc": (lambda: fit(metrics=["acc"]), "no metric 'acc'. Did you mean 'accuracy'?"),
    "patience first": (lambda: wf.train.EarlyStopping(3), "monitor must be the name of a figure such as 'val_loss', not 3"),
    "filepath": (lambda: wf.train.BestWeights(filepath="x"), "BestWeights: unexpected keyword argument 'filepath'; in weft: pat"),
    "history.history": (lambda: wf.train.History().history, "no attribute 'history'; in weft: history['val_loss'], history.loss"),
    "the value of a loss": (lambda: wf.grad(x.sum()), "but must be a function: give the loss, wf.grad(loss)(model, x), not its"),
    "a pair": (lambda: wf.optim.SGD(0.1).update(m := net(), wf.value_and_grad(lambda m: m(x).sum())(m)), "(value, gradients): t"),
    "a list of arrays": (lambda: wf.data.Loader([X, Y], 4), "a list of 2 arrays: give them as a tuple, Loader((x, y), batch_siz"),
    "a dict of arrays": (lambda: wf.data.Loader({"x": X, "y": Y}, 4), "a dict of 2 arrays: give them as a tuple"),
    "a path": (lambda: wf.data.Loader("data/", 4), "data is a path, 'data/': read the file first"),
    "autocast": (lambda: wf.autocast, "precision=\"bfloat16\" of wf.train.fit"),
    "Loader(x, y)": (lambda: wf.data.Loader(X, Y, batch_size=4), "batch_size is given twice, by position as a ndarray and by"),
}
ARRAYS = {
    "ones(2, 3, 4)": (lambda: wf.ones(2, 3, 4), "ones: 3 is no dtype; the shape is one argument, wf.ones((2, 3, 4))"),
    "concat(x, x)": (lambda: wf.concat(x, x), "axis must be an integer, not array(", "the arrays are one argument, wf.concat((a"),
    "transpose": (lambda: SEQUENCES.transpose(0, 1), "must name each of the 3 axes once; x.swapaxes(0, 1) exchanges two"),
    "transpose of two": (lambda: wf.transpose(x, 0, 1), "it takes a, axes; wf.swapaxes(x, 0, 1) exchanges two axes"),
    "mean(0, True)": (lambda: x.mean(0, True), "True is not a dtype; if it means keepdims, write keepdims=True"),
    "item": (lambda: x.item(), "item: an array of shape (16, 8) is not one number: give its place, or call tolist()"),
    "f32": (lambda: x.astype("f32"), "'f32' is not a dtype. Did you mean 'float32'?"),
    "bf16": (lambda: x.astype("bf16"), "Did you mean 'bfloat16'?"),
    "torch.float32": (lambda: x.astype("torch.float32"), "Did you mean 'float32'?"),
    "a dtype of PyTorch": (lambda: x.astype(FLOAT16()), "torch.float16 is not a dtype. Did you mean 'float16'?"),
    "an object as dtype": (lambda: x.astype(net()), "is not a dtype such as 'float32'"),
    "randint": (lambda: wf.random.randint(10, (3,)), "no integer from low=10 to high=(3,); size=(3,) is the keyword of a shape"),
    "linspace": (lambda: wf.linspace(0, 1, steps=5), "'steps'; in weft: num="),
    "unbiased": (lambda: x.std(unbiased=False), "'unbiased'; in weft: ddof="),
    "cond of numbers": (lambda: wf.cond(x.sum() > 0, 1.0, 2.0), "is 2.0, but must be a function; wf.where(condition, x, y) choo"),
    "fori_loop": (lambda: wf.fori_loop(lambda i, c: c, 0, 3, x), "the order is fori_loop(lower, upper, body, init)"),
    "scan": (lambda: wf.scan(lambda c, t: (c, t), x, 0.0), "it has no axis to loop over; the order is scan(f, init, xs)"),
    "body of scan": (lambda: wf.scan(lambda c: c, 0.0, x), "takes 1 positional argument but 2 were given; scan calls the functi"),
    "body of fori_loop": (lambda: wf.fori_loop(0, 3, lambda x: x, x), "were given; fori_loop calls body(i, value)"),
    "while_loop": (lambda: wf.while_loop(x, bool, bool), "must be a function: the order is while_loop(condition, body, init)"),
    "vmap of a result": (lambda: wf.vmap(x), "but must be a function: give the function, wf.vmap(f)(x), not its result"),
    "a mask": (lambda: wf.jit(lambda x: x[x > 0])(x), "a mask as an index needs it, for the length of the result: use wf.where("),
    "save of a dict": (lambda: wf.save("x", {"a": x}), "arr is a dict, not an array; wf.io.save(path, arrays) writes models"),
    "save of a model": (lambda: wf.save(net(), "x"), "must be a path or an open file, not Sequential; wf.io.save(path, model)"),
    "a list of models": (lambda: wf.io.save("x", {"a": [net(), net()]}), "'a' is a list of 2 arrays or models: give each a name"),
    "an address": (lambda: net().load("https://a.b/c.safetensors"), "it is an address, download the file first"),
    "two things": (lambda: wf.io.save("x", net(), wf.optim.Adam()), "several things are saved as a dict, wf.io.save(path, {'mod"),
}
loader, model = wf.data.Loader((X, Y), 4), net()
layer = model[0]
OBJECTS = {
    "p.data": (lambda: [p.data for p in layer.parameters()], "the name 'weight' has no attribute 'data'; in weft: model.par"),
    "p.numel()": (lambda: sum(p.numel() for p in layer.parameters()), "the name 'weight' has no attribute 'numel'"),
    "a layer": (lambda: layer.kernel, "'Linear' object has no attribute 'kernel'; it has weight, bias"),
    "a layer in forward": (lambda: Missing()(x), "'Missing' object has no attribute 'fc2'; it has fc1, blocks"),
    "a misspelled layer": (lambda: layer.wieght, "'wieght'. Did you mean weight?"),
    "layer[0]": (lambda: layer[0], "Linear has no positions", "model.children() yields (name, layer); it has weight, bias"),
    "list(layer)": (lambda: [*layer], "Linear has no positions and cannot be iterated over"),
    "len(layer)": (lambda: len(layer), "has no len(); in weft: len([*model.modules()]) counts layers"),
    "len of a number": (lambda: len(x.sum()), "has no len(); in weft: a number has no length"),
    "loader[0]": (lambda: loader[0], "Loader: batches have no positions: next(iter(loader)) is the first"),
    "next(loader)": (lambda: next(loader), "not an iterator; in weft: next(iter(loader)) is the first batch"),
    "x.item": (lambda: float(x.item), "not 'method'; x.item is a method: write x.item()"),
    "x.item + 1": (lambda: x.item + 1, "x.item is a method: write x.item()"),
    "x.data.fill_": (lambda: x.data.fill_(0), "x.data is Python's view of memory; in weft: x[...] = v"),
    "x.shape[2]": (lambda: x.shape[2], "tuple index out of range: x.shape is (16, 8)"),
    "x.dtype()": (lambda: x.dtype(), "object is not callable; in weft: .dtype is an attribute, without parentheses"),
    "x.median()": (lambda: x.median(), "no attribute 'median'; in weft: wf.median(x)"),
    "too few": (lambda: wf.train.accuracy(net(), x), "missing 1 required positional argument: 'y'; it takes model, x, y"),
    "training=": (lambda: Missing()(x, training=True), "'training'; in weft: model.train() and model.eval() set the mode"),
    "two inputs": (lambda: Missing()(x, x), "takes 2 positional arguments but 3 were given; it takes x"),
    "randn of a tuple": (lambda: wf.random.randn((2, 3)), "wf.random.randn(2, 3); wf.random.normal(size=(2, 3)) takes a tuple"),
    "eye of a tuple": (lambda: wf.eye((2, 3)), "the extents are arguments of their own, wf.eye(2, 3)"),
    "x * text": (lambda: x * "a", "an index, not float32 of shape (16, 8): range(x), sequence[x] and text * x need one integer"),
    "einsum": (lambda: wf.einsum(x, "ij->ji"), "the subscripts are the first argument: wf.einsum('ij->ji', x)"),
    "linear": (lambda: nn.linear(8, 4), "weight must be an array (out_features, in_features), not 4; wf.nn.Linear(8, 4) make"),
    "callbacks": (lambda: fit(callbacks=3), "callbacks must be a list of functions of the state or of callbacks, not 3"),
    "a list of gradients": (lambda: wf.optim.SGD(0.1).update(layer, [x]), "gradients is a list of 1, but must be the result of"),
    "summary of a width": (lambda: layer.summary(8), "give a shape with the batch as one argument, model.summary((32, 8))"),
}
MISTAKES = {**MODELS, **TRAINING, **ARRAYS, **OBJECTS}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    run, *messages = MISTAKES[case]
    with pytest.raises(Exception) as caught:
        run()
    if sys.version_info < (3, 12):
        complete_message(caught.value)  # as where the error is displayed
    for message in messages:
        assert message in str(caught.value)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_load_of_a_weight_file(tmp_path: Path) -> None:
    net().save(path := tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match=r"net.safetensors' is a weight file: wf.io.load\(path\) reads its arrays"):
        wf.load(path)


@pytest.mark.parametrize("last", [nn.Softmax(), nn.softmax, nn.Sequential(nn.Sigmoid())])
def test_probabilities_before_a_loss_of_logits(last: Any) -> None:
    with pytest.warns(RuntimeWarning, match="fit: the model ends with [sS].*, but wf.losses.cross_entropy takes logits"):
        check_loss(nn.Sequential(*net(), last), wf.losses.cross_entropy, feed(Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_loss(nn.Sequential(*net(), last), wf.losses.mse, feed(X))
        check_loss(nn.Sequential(*net(), nn.LogSoftmax()), wf.losses.cross_entropy, feed(np.eye(3, dtype="float32")[Y]))


def test_targets_that_are_no_probabilities() -> None:
    targets = np.abs(RNG.normal(size=(16, 3))).astype("float32")
    check_loss(net(), wf.losses.cross_entropy, feed(targets))
    targets[RNG.integers(16), RNG.integers(3)] = -0.5
    with pytest.raises(ValueError, match="fit: y holds numbers down to -0.5, .* for a regression give loss=wf.losses.mse"):
        fit(y=targets)


def feed(targets: np.ndarray) -> Arrays:
    return Arrays(X, targets, None, 8, None, True)


def test_other_objects_are_left_alone() -> None:
    """A call of a number that is no attribute of an array, and constructors of users, have Python's text."""

    class Own(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()

    class Holder:
        size = 3

    holder = Holder()
    for run in (lambda: holder.size(0), lambda: Own(3, 4), lambda: len(3)):
        with pytest.raises(TypeError) as caught:
            run()
        complete_message(caught.value)
        assert "weft" not in str(caught.value)
    assert re.match(r".*takes 2 positional arguments but 3 were given", str(pytest.raises(TypeError, Own, 3, 4).value))


def test_names_of_parameters_are_strings() -> None:
    parameters = model.parameters()
    assert list(parameters) == [name for name, _ in model.named_parameters()] and "0.weight" in parameters
    assert [*next(iter(parameters))] == [*"0.weight"] and set(next(iter(parameters))) == set("0.weight")
    assert {type(name) for name in pickle.loads(pickle.dumps([*parameters]))} == {str}
    total = wf.jit(lambda arrays: sum(a.sum() for a in arrays.values()))(parameters)
    np.testing.assert_allclose(float(total), sum(a.numpy().sum(dtype=float) for a in parameters.values()), atol=1e-4)
    for name in ("upper", "index", "count"):
        assert hasattr("weight", name) and hasattr(next(iter(parameters)), name)


def test_integers_between_arrays() -> None:
    """Bounds that leave no integer at one place are refused; the others are kept."""
    low = RNG.integers(-5, 5, 20)
    high = low + RNG.integers(1, 5, 20)
    drawn = wf.random.integers(wf.array(low), wf.array(high), (50, 20)).numpy()
    assert (drawn >= low).all() and (drawn < high).all()
    at = int(RNG.integers(20))
    with pytest.raises(ValueError, match="there is no integer from low"):
        wf.random.integers(low, np.where(np.arange(20) == at, low, high))
    assert (wf.random.integers(low, low, endpoint=True).numpy() == low).all()


def test_a_shape_as_the_mean() -> None:
    """A tuple of extents alone is warned about and drawn as in NumPy; tuples of means beside other arguments are not."""
    shape = tuple(int(n) for n in RNG.integers(1, 9, RNG.integers(1, 4)))
    for draw, name in ((wf.random.normal, "loc"), (wf.random.uniform, "low")):
        with pytest.warns(RuntimeWarning, match=re.escape(f"{shape} is {name}, as in NumPy, so {len(shape)} numbers are drawn")):
            assert draw(shape).shape == (len(shape),)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            draw(shape, 2.0), draw(shape, size=(5, len(shape))), draw([*shape]), draw(size=shape)
