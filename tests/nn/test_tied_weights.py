"""Parameters under several names: one gradient, one state, saved once, matched by any name, in random models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DataError, DTypeError, ShapeError, TraceError
from weft.nn.module_tree import find_aliases

rng = np.random.default_rng()
WIDTH = 3


class Net(wf.nn.Module):
    """Layers of one width in nested containers; each has a name of its own, and ``ties`` pairs of them share a weight."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = [wf.nn.Sequential(wf.nn.Linear(WIDTH, WIDTH), ("in", wf.nn.Linear(WIDTH, WIDTH))) for _ in range(depth)]
        self.more = {"last": wf.nn.Linear(WIDTH, WIDTH, bias=False)}

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = wf.tanh(block(x))
        return self.more["last"](x)


def layers_of(model: Any) -> dict[str, Any]:
    return {name: m for name, m in model.modules() if isinstance(m, wf.nn.Linear)}


def draw_pair() -> tuple[Net, Net, dict[str, list[str]]]:
    """Return a model with ties, one with the same numbers without, and all names of each tied weight."""
    tied, apart = Net(depth := int(rng.integers(1, 4))), Net(depth)
    names = list(layers_of(tied))
    owners = {name: names[int(rng.integers(0, k + 1))] for k, name in enumerate(names)}
    shared: dict[str, list[str]] = {}
    for name in names:
        owner = owners[owners[name]] if owners[owners[name]] == owners[owners[owners[name]]] else name
        shared.setdefault(f"{owner}.weight", []).append(f"{name}.weight")
        if owner != name:
            layers_of(tied)[name].weight = layers_of(tied)[owner].weight
    for name, layer in layers_of(apart).items():
        layer.weight[...] = layers_of(tied)[name].weight
        if layer.bias is not None:
            layer.bias[...] = layers_of(tied)[name].bias
    return tied, apart, shared


def numbers(model: Any) -> dict[str, np.ndarray]:
    return {f"{name}.weight": layer.weight.numpy().copy() for name, layer in layers_of(model).items()}


def loss(model: Any, x: Any) -> Any:
    return (model(x) ** 2).mean()


@pytest.mark.parametrize("jitted", [False, True])
def test_gradients_add_up_and_an_optimizer_steps_once(jitted: bool) -> None:
    tied, apart, shared = draw_pair()
    x = wf.random.normal(size=(5, WIDTH))
    assert {name for name in tied.parameters() if name.endswith("weight")} == {names[0] for names in shared.values()}
    assert find_aliases(tied) == {name: names[0] for names in shared.values() for name in names[1:]}
    found, each = wf.grad(loss)(tied, x).parameters(), wf.grad(loss)(apart, x).parameters()
    optimizer, rate = wf.optim.SGD(0.1, weight_decay=0.2), 0.1
    before = numbers(tied)

    def step(x: Any) -> None:
        optimizer.update(tied, wf.grad(loss)(tied, x))

    (wf.jit(step) if jitted else step)(x)
    for names in shared.values():
        total = sum(each[name].numpy() for name in names)
        np.testing.assert_allclose(found[names[0]].numpy(), total, rtol=1e-4, atol=1e-5)
        new = before[names[0]] - rate * (total + 0.2 * before[names[0]])
        for name in names:
            np.testing.assert_allclose(numbers(tied)[name], new, rtol=1e-4, atol=1e-5)


def test_a_jitted_call_sees_a_later_tie() -> None:
    model, x = Net(1), wf.random.normal(size=(5, WIDTH))
    forward = wf.jit(lambda x: model(x))
    before = forward(x)
    model.more["last"].weight = model.blocks[0][0].weight
    np.testing.assert_allclose(forward(x).numpy(), model(x).numpy(), rtol=1e-5)
    assert not bool((before == forward(x)).all())


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_files(tmp_path: Path, ending: str) -> None:
    """A file has the first name, as weft writes it; other programs write any of the names, or all."""
    tied, apart, shared = draw_pair()
    path = tmp_path / f"net.{ending}"
    tied.save(path)
    loaded = wf.io.load(path)
    assert loaded.keys() == tied.arrays().keys()
    for keep in ("one", "all"):
        content = {name: a for name, a in loaded.items() if name not in shared}
        for first, names in shared.items():
            kept = rng.permutation(names)[:1] if keep == "one" else names
            content |= {str(name): loaded[first] for name in kept}
        wf.io.save(path, content)
        other = Net(len(tied.blocks))
        for first, names in shared.items():
            for name in names[1:]:
                layers_of(other)[name.removesuffix(".weight")].weight = layers_of(other)[first.removesuffix(".weight")].weight
        other.load(path)
        assert all((numbers(other)[name] == a).all() for name, a in numbers(tied).items())
        assert find_aliases(other) == find_aliases(tied)
    for first, names in shared.items():
        for name in names[1:]:
            wf.io.save(path, content | {name: content[first] + 1})
            before = numbers(other)
            with pytest.raises(DataError, match=f"'{first}' and '{name}' are one parameter of the model, but two arrays"):
                other.load(path)
            other.load(path, rename={name: None})
            assert all((numbers(other)[n] == a).all() for n, a in before.items())


def test_patterns_match_any_name() -> None:
    tied, _, shared = draw_pair()
    x = wf.random.normal(size=(5, WIDTH))
    for first, names in shared.items():
        name = str(rng.choice(names))
        layer = name.removesuffix(".weight")
        for pattern in (name, layer, f"*{layer.rpartition('.')[2]}.weight"):
            before = numbers(tied)
            optimizer = wf.optim.Adam(0.1, groups={pattern: {"lr": 0.0}})
            optimizer.update(tied, wf.grad(loss)(tied, x))
            assert (numbers(tied)[name] == before[name]).all(), pattern
            tied.freeze(pattern)
            assert first not in tied.parameters()
            assert first in tied.unfreeze(pattern).parameters()
    with pytest.raises(ValueError, match="group 'none' matches no parameter; there are .*more.last.weight"):
        wf.optim.Adam(0.1, groups={"none": {"lr": 0.0}}).init(tied)


def test_checkpoints_and_best_weights(tmp_path: Path) -> None:
    tied, _, shared = draw_pair()
    x = rng.normal(size=(16, WIDTH)).astype("float32")

    def fit(model: Any, epochs: int, checkpoint: str, resume: bool | None = None) -> Any:
        keep = wf.train.BestWeights(path=tmp_path / "best.safetensors", restore=False)
        wf.train.fit(
            model, x, x, loss=wf.losses.mse, epochs=epochs, batch_size=4, show=False, checkpoint=tmp_path / checkpoint,
            resume=resume, callbacks=[keep, wf.train.AverageWeights()], seed=1,
        )
        return keep

    start, path = tied.arrays(), tmp_path / "start.safetensors"
    tied.save(path)
    keep = fit(tied, 4, "whole")
    assert keep.best.keys() == start.keys()
    whole = numbers(tied)
    tied.load(path)
    fit(tied, 2, "parts")
    tied.load(path)
    fit(tied, 4, "parts", resume=True)
    assert all((numbers(tied)[name] == a).all() for name, a in whole.items())
    tied.load(tmp_path / "best.safetensors")
    assert find_aliases(tied) == {name: names[0] for names in shared.values() for name in names[1:]}


def test_what_cannot_be_tied() -> None:
    a, b = wf.nn.Linear(3, 3), wf.nn.Linear(3, 3)
    with pytest.raises(ShapeError, match=r"Linear.weight has shape \(3, 3\); an array of shape \(3, 4\)"):
        b.weight = wf.nn.Linear(4, 3).weight
    with pytest.raises(DTypeError, match="Linear.weight is float32, the parameter assigned to it float16: both must have one"):
        b.weight = wf.nn.Linear(3, 3).astype("float16").weight
    for transform in (wf.jit, wf.grad):
        with pytest.raises(TraceError, match=r"Linear.weight: parameters are tied outside of jit and grad.*array.copy\(\)"):
            transform(lambda x: (setattr(b, "weight", a.weight), b(x).sum())[1])(wf.ones((2, 3)))
    assert b.weight is not a.weight
    b.weight = a.weight.copy()
    assert b.weight is not a.weight and (b.weight == a.weight).all()
    b.weight = a.weight
    b.weight = wf.zeros((3, 3))  # writes into the one parameter
    assert b.weight is a.weight and not a.weight.any()
