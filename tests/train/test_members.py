"""Models of several inputs and outputs: random trees of both, compared with a model of one array and with NumPy in float64."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits
from weft.data.members import list_members, map_members
from weft.errors import DataError, ShapeError

fit_module = importlib.import_module("weft.train.fit")
X = np.random.default_rng(0).normal(size=(9, 2)).astype("float32") - 3
KINDS = {"mse": 2, "l1": 1, "huber": 3, "cross_entropy": 4, "binary_cross_entropy_with_logits": 2, "hinge": 1}  # columns


def draw_tree(rng: np.random.Generator, leaf: Any, depth: int = 0) -> Any:
    """Return a random tree of what ``leaf`` returns; the outermost is a tuple or a dict."""
    if depth and (depth > 1 or rng.random() < 0.6):
        return leaf()
    parts = [draw_tree(rng, leaf, depth + 1) for _ in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.5:
        return tuple(parts)
    return dict(zip(rng.permutation(["b", "a", "z", "left", "right"])[: len(parts)].tolist(), parts, strict=True))


class TreeNet(wf.nn.Module):
    """A hidden layer of the sum of the inputs, each through its own weights, and a layer for each output."""

    def __init__(self, inputs: Any, outputs: Any) -> None:
        super().__init__()
        wf.random.seed(0)
        self.first = [wf.nn.Linear(a.shape[1], 5) for a in list_members(inputs)]
        self.last = [wf.nn.Linear(5, KINDS[kind]) for kind in list_members(outputs)]
        self.shape = [outputs]  # in a list: not a part of the structure

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        parts = list_members(args) + list_members(kwargs)
        hidden = wf.tanh(sum(layer(x) for layer, x in zip(self.first, parts, strict=True)))
        results = iter([layer(hidden) for layer in self.last])
        return map_members(lambda _: next(results), self.shape[0])


class FlatNet(wf.nn.Module):
    """The same of one array, whose columns are the inputs; the result's columns are the outputs."""

    def __init__(self, net: TreeNet, inputs: Any) -> None:
        super().__init__()
        self.net, self.ends = net, tuple(np.cumsum([a.shape[1] for a in list_members(inputs)]).tolist())

    def forward(self, x: wf.Array) -> wf.Array:
        starts = (0, *self.ends)
        out = self.net(*[x[:, a:b] for a, b in zip(starts, self.ends, strict=False)])
        return wf.concat(list_members(out), axis=1)


def draw_target(rng: np.random.Generator, kind: str, rows: int) -> np.ndarray:
    if kind == "cross_entropy":
        return rng.integers(0, 4, rows).astype("int32")
    if kind == "hinge":
        return rng.choice([-1.0, 1.0], (rows, 1)).astype("float32")
    if kind == "binary_cross_entropy_with_logits":
        return rng.integers(0, 2, (rows, 2)).astype("float32")
    return rng.normal(size=(rows, KINDS[kind])).astype("float32")


def find_all(tree: Any, given: Any) -> list[Any]:
    """Return the member of ``given`` for each member of a tree, None where one is left out."""
    if isinstance(tree, tuple | dict):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        parts = dict(given.items() if isinstance(given, dict) else enumerate(given or ()))
        return [x for k, v in items for x in find_all(v, parts.get(k))]
    return [given]


def thin(rng: np.random.Generator, tree: Any, make: Any) -> Any:
    """Return a tree of numbers or arrays in which some are left out."""
    if isinstance(tree, dict):
        return {k: thin(rng, v, make) for k, v in tree.items() if rng.random() < 0.7}
    if isinstance(tree, tuple):
        return tuple(thin(rng, v, make) for v in tree)
    return make() if rng.random() < 0.7 else None


class Case:
    """A random model of trees with data, losses and weights."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rows, self.batch_size = int(rng.integers(20, 60)), int(rng.integers(4, 17))
        self.x = draw_tree(rng, lambda: rng.normal(size=(self.rows, int(rng.integers(1, 4)))).astype("float32"))
        self.losses = draw_tree(rng, lambda: str(rng.choice(list(KINDS))))
        self.y = map_members(lambda kind: draw_target(rng, kind, self.rows), self.losses)
        self.factors = thin(rng, self.losses, lambda: float(rng.uniform(0.2, 2))) if rng.random() < 0.7 else None
        draw = partial(rng.uniform, 0, 2, self.rows)
        self.weights = None if rng.random() < 0.4 else draw() if rng.random() < 0.5 else thin(rng, self.losses, draw)

    def options(self, **more: Any) -> dict[str, Any]:
        return dict(batch_size=self.batch_size, optimizer=wf.optim.SGD(0.05), show=False, **more)

    def fit(self, net: wf.nn.Module, **more: Any) -> wf.train.History:
        data = dict(loss=self.losses, loss_weights=self.factors, sample_weights=self.weights)
        return wf.train.fit(net, self.x, self.y, **{**data, **self.options(epochs=2), **more})

    def fit_flat(self, net: TreeNet) -> wf.train.History:
        """Train a model of one array with a loss written out over the columns of result and targets."""
        kinds, targets = list_members(self.losses), list_members(self.y)
        factors = [1.0 if f is None else f for f in find_all(self.losses, self.factors)]
        one = self.weights if isinstance(self.weights, np.ndarray) else None
        own = [one] * len(kinds) if one is not None else find_all(self.losses, self.weights)
        weights = np.stack([np.ones(self.rows) if w is None else w for w in own], 1)
        columns = [y.reshape(self.rows, -1) for y in targets]
        y = np.concatenate([weights, *columns], 1).astype("float32")

        def loss(out: wf.Array, y: wf.Array) -> wf.Array:
            total, at, column = 0.0, 0, len(kinds)
            for k, kind in enumerate(kinds):
                part, width = out[:, at : at + KINDS[kind]], columns[k].shape[1]
                target = y[:, column : column + width]
                target = target[:, 0].astype("int32") if kind == "cross_entropy" else target
                rows = getattr(wf.losses, kind)(part, target, reduction="none").reshape((out.shape[0], -1)).mean(axis=1)
                total = total + factors[k] * (rows * y[:, k]).mean()
                at, column = at + KINDS[kind], column + width
            return total

        flat = FlatNet(net, self.x)
        x = np.concatenate(list_members(self.x), 1)
        return wf.train.fit(flat, x, y, loss=loss, **self.options(epochs=2))


def make_nets(case: Case) -> tuple[TreeNet, TreeNet]:
    return TreeNet(case.x, case.losses), TreeNet(case.x, case.losses)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("seed", range(40))
def test_trees_train_as_one_array_does(seed: int) -> None:
    case = Case(seed)
    found, want = make_nets(case)
    history, expected = case.fit(found), case.fit_flat(want)
    assert np.allclose(history.loss, expected.loss, rtol=2e-5)
    for name, p in found.parameters().items():
        assert np.allclose(p.numpy(), want.parameters()[name].numpy(), rtol=2e-4, atol=2e-6), name
    factors = [1.0 if f is None else f for f in find_all(case.losses, case.factors)]
    parts = [[*history[n]] for n in history.epochs[0].values() if n.endswith("_loss")]
    assert len(parts) == len(factors)
    assert np.allclose(np.array(parts).T @ factors, history.loss, rtol=1e-5)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(20))
def test_ways_to_train_give_the_same(seed: int, tmp_path: Any) -> None:
    """Batches of a Loader and of a function, a run that resumes, and memory-mapped files give the bits of arrays."""
    case = Case(seed)
    want = TreeNet(case.x, case.losses)
    history = case.fit(want, shuffle=False, validation=(case.x, case.y))
    members = (case.x, case.y) if case.weights is None else (case.x, case.y, case.weights)
    loader = wf.data.Loader(members, case.batch_size, dtype="float32")

    def batches() -> Any:
        for first in range(0, case.rows, case.batch_size):
            yield map_members(lambda a: a[first : first + case.batch_size], members)  # noqa: B023  used at once

    for source in (loader, batches):
        net = TreeNet(case.x, case.losses)
        options = case.options(epochs=2, loss=case.losses, loss_weights=case.factors)
        assert wf.train.fit(net, source, **options).loss == history.loss and bits(net) == bits(want)
    net = TreeNet(case.x, case.losses)
    for epochs in (1, 2):
        again = case.fit(net, shuffle=False, checkpoint=tmp_path / "run", resume=True, epochs=epochs)
    assert again.loss == history.loss and bits(net) == bits(want)
    with pytest.raises(DataError, match="is the checkpoint of another run: loss is"):
        others = map_members(lambda kind: partial(getattr(wf.losses, kind)), case.losses)
        case.fit(net, loss=others, checkpoint=tmp_path / "run", resume=True, shuffle=False)
    found = wf.train.evaluate(want, case.x, case.y, loss=case.losses, loss_weights=case.factors)
    assert found == {n.removeprefix("val_"): v for n, v in history.epochs[-1].values().items() if n.startswith("val_")}
    out = wf.train.predict(want, case.x, batch_size=7)
    for a, b in zip(list_members(out), list_members(want(*case.x) if isinstance(case.x, tuple) else want(**case.x)), strict=True):
        assert np.allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)


def test_one_trace_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of a dict's keys in a batch is no new structure; the shorter last batch is a second shape."""
    steppers: list[Any] = []
    make = fit_module.make_stepper
    monkeypatch.setattr(fit_module, "make_stepper", lambda *args: steppers.append(make(*args)) or steppers[-1])
    rng = np.random.default_rng()
    x, y = {"a": rng.normal(size=(40, 2)), "b": rng.normal(size=(40, 3))}, {"p": rng.normal(size=(40, 2)), "q": np.ones((40, 1))}
    weights = {"q": rng.uniform(size=40)}

    def batches() -> Any:
        for k, first in enumerate(range(0, 40, 12)):
            parts = map_members(lambda a: a[first : first + 12], (x, y, weights))  # noqa: B023  used at once
            yield tuple(dict(reversed(part.items())) if k % 2 else part for part in parts)

    losses = {"p": "mse", "q": "l1"}
    for data in ({"x": x, "y": y, "sample_weights": weights, "batch_size": 12}, {"x": batches}):
        wf.train.fit(TreeNet(x, losses), **data, loss=losses, epochs=3, show=False)
        assert steppers.pop()._jitted_batch.traces == 2


@pytest.mark.parametrize("change,error,message", [
    ({"x": {"a": X}}, TypeError, "Pair.forward takes a, b, but x has no 'b'"),
    ({"x": {"a": X, "b": X, "c": X}}, TypeError, "Pair.forward takes a, b, but x has 'c', which it does not take"),
    ({"x": {"a": X, "b": X[:3]}}, ShapeError, r"x\['a'\] has 9 samples \(shape \(9, 2\)\), x\['b'\] has 3 \(shape \(3, 2\)\)"),
    ({"x": (X, X, X)}, TypeError, "Pair.forward takes a, b, but x is a tuple of 3"),
    ({"x": X}, TypeError, r"Pair.forward takes a, b, but x is one array: give x=\(a, b\)"),
    ({"y": {"p": X}}, ValueError, "y has no 'q', for which there is a loss"),
    ({"y": {"p": X, "q": X, "r": X}}, ValueError, "y has 'r', for which there is no loss"),
    ({"y": {"p": X, "q": X[:4]}}, ShapeError, r"x\['a'\] has 9 samples .*, y\['q'\] has 4"),
    ({"y": (X, X)}, TypeError, "loss is a dict of 'p', 'q', but y is a tuple of 2"),
    ({"loss": "mse"}, TypeError, "y is a dict of 'p', 'q', but loss= is one loss of one array"),
    ({"loss": {"p": "mse"}, "y": {"p": X}}, ValueError, "output 'q' of the model has no loss; None leaves it out"),
    ({"loss": {"p": "mse", "q": "mse", "r": "mse"}, "y": {"p": X, "q": X, "r": X}}, ValueError, "the loss 'r' has no output"),
    ({"loss": {"p": "mse", "q": "mze"}}, ValueError, r"loss\['q'\]: no loss 'mze'"),
    ({"loss_weights": {"r": 1.0}}, ValueError, "loss_weights has 'r', for which there is no loss"),
    ({"loss_weights": {"p": "1"}}, TypeError, r"loss_weights\['p'\] must be a finite number, not '1'"),
    ({"metrics": ["mae"]}, TypeError, ".*metrics is .'mae'.: give metrics by output"),
    ({"metrics": {"r": "mae"}}, ValueError, "metrics has 'r', for which there is no loss"),
    ({"sample_weights": {"r": X[:, 0]}}, ValueError, "sample_weights has 'r', for which there is no loss"),
    ({"sample_weights": X[:4, 0]}, ShapeError, ".*sample_weights has 4"),
    ({"class_weights": {"p": {0: 1.0}}}, TypeError, r"class_weights need labels from 0 in y\['p'\]"),
])
def test_structures_that_do_not_fit(change: dict[str, Any], error: type[Exception], message: str) -> None:
    class Pair(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = wf.nn.Linear(2, 2)

        def forward(self, a: wf.Array, b: wf.Array) -> dict[str, wf.Array]:
            return {"p": self.layer(a), "q": self.layer(b)}

    options = {"x": {"a": X, "b": X}, "y": {"p": X, "q": X}, "loss": {"p": "mse", "q": wf.losses.l1}, "epochs": 1, "show": False}
    with pytest.raises(error, match="fit: " + message):
        wf.train.fit(Pair(), **{**options, **change})
    wf.train.fit(Pair(), **{**options, "loss": {"p": "mse", "q": None}, "y": {"p": X}})
