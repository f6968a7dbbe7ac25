"""Arrays that a forward keeps in attributes: results of the call, neither trained nor saved."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

nn = wf.nn
RNG = np.random.default_rng()


class Net(nn.Module):
    """Keeps its hidden layer, alone and in a list and a dict, if ``keeps`` is set."""

    def __init__(self, width: int, keeps: bool) -> None:
        super().__init__()
        self.inner, self.out, self.keeps, self.declared = nn.Linear(4, width), nn.Linear(width, 2), keeps, None

    def forward(self, x: Any) -> Any:
        hidden = wf.tanh(self.inner(x))
        if self.keeps:
            self.hidden = self.declared = hidden
            self.all, self.named = [x, hidden], {"hidden": hidden}
        return self.out(hidden)


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = None

    def forward(self, x: Any) -> Any:
        if self.scale is None:
            self.scale = wf.random.normal(size=x.shape[-1])
        if not hasattr(self, "shift"):
            self.shift = wf.zeros(x.shape[-1])
        return x * self.scale + self.shift


def make_pair() -> tuple[Net, Net]:
    width = int(RNG.integers(1, 9))
    kept, plain = Net(width, True), Net(width, False)
    for name, a in kept.parameters().items():
        plain.parameters()[name][...] = a
    return kept, plain


def draw(n: int) -> tuple[Any, Any]:
    return RNG.normal(size=(n, 4)).astype("float32"), RNG.normal(size=(n, 2)).astype("float32")


def agree(kept: Net, plain: Net) -> None:
    assert list(kept.arrays()) == list(plain.arrays()) == [name for name, _ in kept.named_parameters()]
    for name, a in plain.arrays().items():
        np.testing.assert_array_equal(kept.arrays()[name].numpy(), a.numpy())


def test_results_are_neither_trained_nor_saved(tmp_path: Path) -> None:
    kept, plain = make_pair()
    if RNG.random() < 0.5:
        kept(draw(3)[0])
    data = draw(13)
    for model in (kept, plain):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a step that is traced again each time warns
            wf.train.fit(model, *data, epochs=3, batch_size=5, loss=wf.losses.mse, seed=1, show=False)
    agree(kept, plain)
    assert kept.hidden.shape == kept.declared.shape == kept.all[1].shape == kept.named["hidden"].shape
    kept.save(tmp_path / "net.npz")
    assert set(np.load(tmp_path / "net.npz")) >= set(kept.arrays()) and "hidden" not in set(np.load(tmp_path / "net.npz"))


def test_results_in_jitted_steps() -> None:
    """A loss of the kept array has the value and gradient of the same loss written without it, with batches of any size."""
    kept, plain = make_pair()

    def penalty(model: Net, x: Any) -> Any:
        out = model(x)
        hidden = model.hidden if model.keeps else wf.tanh(model.inner(x))
        return (out**2).mean() + (hidden**2).mean()

    def make_step(model: Net) -> Any:
        optimizer = wf.optim.SGD(0.1)

        @wf.jit
        def step(x: Any) -> Any:
            value, gradients = wf.value_and_grad(penalty)(model, x)
            optimizer.update(model, gradients)
            return value

        return step

    steps = make_step(kept), make_step(plain)
    for n in (3, 3, 5, 3):
        x = wf.array(draw(n)[0])
        hidden = wf.tanh(kept.inner(x))
        values = [float(step(x)) for step in steps]
        np.testing.assert_allclose(*values, rtol=1e-5)
        np.testing.assert_allclose(kept.hidden.numpy(), hidden.numpy(), atol=1e-5)
    assert kept(x[:2]).shape == (2, 2) and kept.hidden.shape[0] == 2


def test_the_first_call_may_make_parameters() -> None:
    model = Lazy()
    x = wf.array(draw(3)[0])
    model(x)
    assert list(model.parameters()) == ["scale", "shift"]
    before = model.scale.numpy().copy()
    wf.optim.SGD(0.1).update(model, wf.grad(lambda m: m(x).sum())(model))
    np.testing.assert_allclose(model.scale.numpy(), before - 0.1 * x.numpy().sum(0), rtol=1e-4, atol=1e-5)


def test_arrays_assigned_elsewhere_are_parameters() -> None:
    model = Net(3, True)
    model.extra = wf.ones(2)
    assert "extra" in model.parameters()
    with pytest.raises(wf.errors.ShapeError, match="Net.extra has shape"):
        model.extra = wf.ones(3)

    class Makes(nn.Module):
        def forward(self, x: Any) -> Any:
            self.layer = Net(3, False)
            return self.layer(x)

    made = Makes()
    made(wf.ones((2, 4)))
    assert list(made.parameters()) == [f"layer.{name}" for name in Net(3, False).parameters()]
