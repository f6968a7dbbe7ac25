"""What LayerManager does with its net: epochs, each layer by its own optimizer, and the printed accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from learner.layers import Layer, Output
from learner.options import optimizer
from weft import nn
from weft.array import Array
from weft.errors import DTypeError, ShapeError
from weft.optim import Optimizer
from weft.optim.optimizer import named_arrays
from weft.train import State


class Scores(nn.Module):
    """The net up to the activation of its output layer: what errors are computed from."""

    def __init__(self, net: nn.Sequential) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Array) -> Array:
        last: Output = self.net[-1]
        for layer in self.net:
            x = last.scores(x) if layer is last else layer(x)
        return x


class PerLayer(Optimizer):
    """Each layer by its own optimizer, in one step; layers of equal settings share one.

    Parameters
    ----------
    layers : (prefix of the parameters' names, layer)
    """

    def __init__(self, layers: Sequence[tuple[str, Layer]]) -> None:
        self.parts: dict[str, tuple[Optimizer, list[str]]] = {}
        for prefix, layer in layers:
            if layer.opt is not None:
                key = f"{layer.opt} {layer.opt_dic!r}"
                if key not in self.parts:
                    self.parts[key] = optimizer(layer.opt, layer.opt_dic), []
                self.parts[key][1].append(prefix + ".")

    @property
    def lr(self) -> float:
        """That of the first layer; each layer keeps its own."""
        return next((part.lr for part, _ in self.parts.values()), 0.0)

    @property
    def step_count(self) -> Array | None:
        return next((part.step_count for part, _ in self.parts.values()), None)

    def init(self, model: Any) -> Optimizer:
        parameters = named_arrays(model)
        for part, prefixes in self.parts.values():
            part.init(_of(parameters, prefixes))
        return self

    def arrays(self) -> dict[str, Array]:
        return {f"{key}/{name}": a for key, (part, _) in self.parts.items() for name, a in part.arrays().items()}

    def update(
        self, model: Any, gradients: Any, lr: float | Array | None = None, *,
        loss: Array | None = None, gradient_at: Callable[[], Any] | None = None,
    ) -> None:
        """See :meth:`Optimizer.update`; every layer keeps its own learning rate, ``lr`` is not used."""
        parameters, slopes = named_arrays(model), named_arrays(gradients)
        for part, prefixes in self.parts.values():
            part.update(
                _of(parameters, prefixes), _of(slopes, prefixes), loss=loss,
                gradient_at=None if gradient_at is None else _there(gradient_at, prefixes),
            )

    def __repr__(self) -> str:
        return f"PerLayer({', '.join(repr(part) for part, _ in self.parts.values())})"


def _of(arrays: dict[str, Array], prefixes: list[str]) -> dict[str, Array]:
    return {name: a for name, a in arrays.items() if name.startswith(tuple(prefixes))}


def _there(gradient_at: Callable[[], Any], prefixes: list[str]) -> Callable[[], dict[str, Array]]:
    return lambda: _of(named_arrays(gradient_at()), prefixes)


def prepared(what: str, x: Any, t: Any) -> tuple[np.ndarray, Any]:
    """Samples as float32 (other than 64-bit floats stay as they are), targets as they are; refused where they do not fit.

    ``t`` None: samples without targets.
    """
    x, t = (a.numpy() if isinstance(a, Array) else a if a is None else np.asarray(a) for a in (x, t))
    if x.dtype.kind not in "fiub" and x.dtype.name != "bfloat16":
        raise DTypeError(f"LayerManager: x_{what} must hold numbers, not {x.dtype}")
    if t is None and (x.ndim < 2 or not len(x)):
        raise ShapeError(f"LayerManager: x_{what} {x.shape} must hold samples along its first axis")
    if t is not None and (x.ndim < 2 or not len(x) or not t.ndim or len(x) != len(t)):
        raise ShapeError(f"LayerManager: x_{what} {x.shape} must hold samples, one for each of t_{what} {t.shape}")
    return (x.astype(np.float32) if x.dtype.kind in "iub" or x.dtype == np.float64 else x), t


def still(threshold: float) -> Callable[[State], None]:
    """A callback that ends the run when the test error changes by less than ``threshold`` from one epoch to the next."""
    def on_epoch(state: State) -> None:
        errors = state.history["val_loss"][-2:]
        if len(errors) == 2 and abs(errors[1] - errors[0]) < threshold:
            state.stop(f"the test error changed by less than {threshold:g}")

    return on_epoch


def train_error(error: Callable[[], float], found: list[float]) -> Callable[[State], None]:
    """Return a callback that prints the error of all training data after an epoch and appends it to ``found``."""
    def on_epoch(state: State) -> None:
        found.append(error())
        print(f"epoch {state.epoch}: train error {found[-1]:.4f}", flush=True)

    return on_epoch


def report(last: Output, outputs: np.ndarray, t: np.ndarray | None, threshold: float, show: bool) -> np.ndarray:
    """Predictions from outputs (labels for softmax, zeros and ones for sigmoid), printed beside their targets."""
    found = labels(last, outputs, threshold)
    if t is None or not show:
        return found
    wanted = labels(last, t, threshold)
    print("labels     ", *_shown(wanted[:16]))
    print("predictions", *_shown(found[:16]))
    if found.dtype.kind in "iu":
        right = int(_same_rows(found, wanted).sum())
        print(f"accuracy: {100 * right / len(found):.2f} % ({right} of {len(found)})")
    else:
        print(f"mean squared error: {float(((outputs - t) ** 2).mean()):.6g}")
    return found


def labels(last: Output, outputs: np.ndarray, threshold: float) -> np.ndarray:
    """What outputs or targets say: the largest of softmax's, above ``threshold`` for sigmoid's, else themselves."""
    if isinstance(last.act, nn.Softmax | nn.LogSoftmax):
        return outputs.argmax(axis=1)
    if isinstance(last.act, nn.Sigmoid):
        return (outputs > threshold).astype(np.int64)
    return outputs


def _same_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b).reshape(len(a), -1).all(axis=1)


def _shown(rows: np.ndarray) -> list[str]:
    return [",".join(f"{v:g}" for v in np.atleast_1d(row)) for row in rows]
