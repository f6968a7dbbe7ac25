"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import DTypeError, ShapeError
from weft.functions.creation import asarray
from weft.losses import check_labels, cross_entropy
from weft.nn.module import Module
from weft.nn.sizes import waits_for_a_batch
from weft.optim import Adam, Optimizer
from weft.train.history import Epoch, History
from weft.train.progress import progress
from weft.transforms.denormals import flush_denormals
from weft.transforms.grad import value_and_grad
from weft.transforms.jit import jit


def fit(
    model: Module,
    x: Any,
    y: Any,
    *,
    epochs: int = 10,
    batch_size: int = 32,
    loss: Callable[[Array, Array], Array] = cross_entropy,
    optimizer: Optimizer | None = None,
    validation: float | tuple[Any, Any] = 0.0,
    shuffle: bool = True,
    seed: int = 0,
    show: bool = True,
) -> History:
    """Train ``model`` on ``x``, ``y``; every step is one native call.

    Parameters
    ----------
    model : Module
    x : (N, ...) array of numbers; y : (N,) integer labels or (N, ...) targets, as ``loss`` takes them. float64 data, NumPy's
        default, become float32 (as in Keras), unless the model has a float64 parameter
    epochs, batch_size : int; the last batch of an epoch may be smaller and is trained too
    loss : function of (predictions, targets), one number
    optimizer : default Adam()
    validation : a fraction of the training data kept aside, or (x, y) of its own
    shuffle, seed : a new order of the samples each epoch, from ``seed``
    show : progress bar (in a terminal) or one line an epoch

    Returns
    -------
    History
        Ctrl-C ends the run within a step: the history then has ``interrupted`` set and the model the weights of
        the best epoch, by validation loss where there is validation data, else by training loss.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        when data are empty, lengths differ, labels are out of range or arguments make no sense.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> y = (x.sum(1) > 0).astype("int32")
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
    >>> history = wf.train.fit(net, x, y, epochs=2, show=False)
    >>> len(history.loss)
    2
    """
    x, y = _checked(x, y, epochs, batch_size, model)
    rng = np.random.default_rng(seed)
    held, x, y = _set_aside(validation, x, y, rng, model)
    if loss is cross_entropy and y.ndim == 1:
        classes = _check_width(model, x[:1])
        check_labels(y, classes)
        if held is not None:
            check_labels(held[1], classes)
    elif waits_for_a_batch(model):
        mode = model.training
        model.eval()(asarray(x[:1]))
        model.train(mode)
    optimizer = Adam() if optimizer is None else optimizer
    if optimizer.step_count is None:
        optimizer.init(model)
    step = training_step(model, loss, optimizer)
    history = History()
    kept: dict[str, np.ndarray] | None = None
    least = float("inf")
    per_epoch = -(-len(x) // batch_size)
    model.train()
    try:
        with flush_denormals(), progress(epochs * per_epoch, show) as bar:
            for number in range(1, epochs + 1):
                start = time.perf_counter()
                order = rng.permutation(len(x)) if shuffle else np.arange(len(x))
                total = 0.0
                for first in range(0, len(x), batch_size):
                    rows = order[first : first + batch_size]
                    total += float(step(asarray(x[rows]), asarray(y[rows]), optimizer.lr)) * len(rows)
                    bar.step()
                row = Epoch(number, total / len(x), time.perf_counter() - start)
                if held is not None:
                    row = _validated(row, model, held, loss)
                history.epochs.append(row)
                bar.epoch(row, epochs)
                score = row.loss if row.validation_loss is None else row.validation_loss
                if score < least or kept is None:
                    kept = {name: a.numpy().copy() for name, a in model.arrays().items()}
                    least, history.best = score, number
    except KeyboardInterrupt:
        history.interrupted = True
        if kept is not None:
            for name, array in model.arrays().items():
                array[...] = asarray(kept[name])
    finally:
        model.eval()
    return history


def training_step(model: Module, loss: Callable, optimizer: Optimizer) -> Callable[[Array, Array, float], Array]:
    """The jitted step: forward, backward and update in one native call; gives the loss before the update.

    Examples
    --------
    >>> import weft as wf
    >>> net, opt = wf.nn.Linear(2, 1), wf.optim.SGD(lr=0.1)
    >>> step = wf.train.training_step(net, wf.losses.mse, opt.init(net))
    >>> step(wf.ones((4, 2)), wf.zeros((4, 1)), 0.1).shape
    ()
    """
    value_and_gradient = value_and_grad(lambda net, x, y: loss(net(x), y))

    @jit
    def step(x: Array, y: Array, lr: float) -> Array:
        value, gradient = value_and_gradient(model, x, y)
        optimizer.update(model, gradient, lr, loss=value, gradient_at=lambda: value_and_gradient(model, x, y)[1])
        return value

    return step


def predict(model: Module, x: Any, batch_size: int = 1000) -> np.ndarray:
    """The model's outputs for ``x`` as a NumPy array, in evaluation mode, a batch at a time.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> wf.train.predict(wf.nn.Linear(2, 3), np.ones((5, 2), "float32")).shape
    (5, 3)
    """
    mode = model.training
    model.eval()
    run = jit(lambda batch: model(batch))
    try:
        parts = [run(asarray(x[i : i + batch_size])).numpy() for i in range(0, len(x), batch_size)]
        return np.concatenate(parts)
    finally:
        model.train(mode)


def accuracy(model: Module, x: Any, y: Any) -> float:
    """The share of rows whose largest output is at the label.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> 0.0 <= wf.train.accuracy(wf.nn.Linear(2, 3), np.ones((5, 2), "float32"), np.zeros(5, "int32")) <= 1.0
    True
    """
    return float((predict(model, x).argmax(1) == np.asarray(y)).mean())


def _checked(x: Any, y: Any, epochs: int, batch_size: int, model: Module) -> tuple[np.ndarray, np.ndarray]:
    x, y = (a.numpy() if isinstance(a, Array) else np.asarray(a) for a in (x, y))
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"fit: epochs and batch_size must be at least 1, not {epochs} and {batch_size}")
    if not len(x):
        raise ShapeError(f"fit: x is empty: shape {x.shape}")
    if len(x) != len(y):
        raise ShapeError(f"fit: x has {len(x)} samples (shape {x.shape}), y has {len(y)} (shape {y.shape})")
    if x.dtype.kind not in "fiub" and x.dtype.name != "bfloat16":
        raise DTypeError(f"fit: x must hold numbers, not {x.dtype}")
    wide = any(p.dtype == np.float64 for p in model.arrays().values())
    return (x.astype(np.float32) if x.dtype == np.float64 and not wide else x), y


def _set_aside(validation, x, y, rng, model):
    if isinstance(validation, tuple):
        return _checked(validation[0], validation[1], 1, 1, model), x, y
    if not 0.0 <= validation < 1.0:
        raise ValueError(f"fit: validation must be a fraction in [0, 1) or (x, y), not {validation}")
    count = int(round(validation * len(x)))
    if not count:
        return None, x, y
    order = rng.permutation(len(x))
    aside, rest = np.sort(order[:count]), np.sort(order[count:])
    return (x[aside], y[aside]), x[rest], y[rest]


def _check_width(model: Module, sample: np.ndarray) -> int:
    mode = model.training
    out = model.eval()(asarray(sample))
    model.train(mode)
    if out.ndim != 2:
        raise ShapeError(f"fit: cross_entropy needs outputs of shape (N, classes), the model gives {out.shape}")
    return out.shape[1]


def _validated(row: Epoch, model: Module, held: tuple[np.ndarray, np.ndarray], loss: Callable) -> Epoch:
    out = predict(model, held[0])
    value = float(loss(asarray(out), asarray(held[1])))
    right = float((out.argmax(1) == held[1]).mean()) if held[1].ndim == 1 and out.ndim == 2 else None
    return Epoch(row.number, row.loss, row.seconds, value, right)
