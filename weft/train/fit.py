"""fit: train a model on data. Also predict and accuracy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.random import default_rng

from weft.array import Array
from weft.data.loader import Loader
from weft.errors import DataError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.support.arguments import integer_from
from weft.losses import check_labels, cross_entropy
from weft.nn.module import Module
from weft.nn.size_arguments import waits_for_a_batch
from weft.optim import Adam, Optimizer
from weft.process.files import target
from weft.train import arguments
from weft.train import checkpoint as checkpoints
from weft.train.batches import Arrays, Feed, Stream, checked, is_stream, set_aside
from weft.train.checkpoint import only_writer
from weft.train.history import History
from weft.train.loop import Run
from weft.train.metrics import named
from weft.train.state import State, hooks
from weft.train.step import Stepper, training_step
from weft.train.validate import ROWS, Validation, evaluating
from weft.transforms.jit import jit
from weft.transforms.traced import trace

__all__ = ["accuracy", "fit", "predict", "training_step"]


def fit(
    model: Module,
    x: Any,
    y: Any = None,
    *,
    epochs: int = 10,
    batch_size: int = 32,
    loss: Callable[[Array, Array], Array] = cross_entropy,
    optimizer: Optimizer | None = None,
    metrics: Any = (),
    validation: Any = 0.0,
    callbacks: Sequence[Any] = (),
    accumulate: int = 1,
    precision: Any = None,
    shuffle: bool = True,
    seed: int = 0,
    steps_per_epoch: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int | str = "epoch",
    resume: bool | None = None,
    show: bool = True,
) -> History:
    """Train ``model`` on ``x``, ``y``; every step is one native call, or where steps are short, many steps are.

    Parameters
    ----------
    model : Module
    x, y : (N, ...) array and (N,) labels or (N, ...) targets, as ``loss`` takes them; memory-mapped ones are read batch by
        batch. Or ``x`` alone, giving batches (x, y): a :class:`weft.data.Loader`, an iterable, a function that gives a new
        iterable for each epoch, or a generator, which is gone through once. float64 becomes float32 unless the model has
        float64 parameters
    epochs, batch_size : int; the last batch of an epoch may be smaller and is trained too. A Loader has its own batch size
    loss : function of (predictions, targets), one number
    optimizer : default Adam()
    metrics : names (accuracy, top_5_accuracy, binary_accuracy, mse, mae) and functions of (predictions, targets) in array
        code, or a dict of them. Of training data each is the mean over the batches, at the weights each batch met
    validation : a fraction of the training data kept aside, (x, y) of its own, or what gives batches as ``x`` does; 0 or
        None for none
    callbacks : functions of a :class:`~weft.train.State` called after every epoch, and objects with any of ``on_begin``,
        ``on_batch``, ``on_epoch``, ``on_end``; ``state.stop(reason)`` ends the run
    accumulate : batches whose gradients make one update: their mean, by rows
    precision : "float16" or "bfloat16": activations are kept in 16 bits, weights and updates in float32; with float16 the
        loss is scaled by a power of two that adapts, and updates whose gradients overflow are left out (Micikevicius et al.:
        Mixed precision training. 2018). Arithmetic stays float32: on a CPU this halves memory traffic of activations, and
        is often no faster
    shuffle, seed : a new order of the samples each epoch, from ``seed``
    steps_per_epoch : batches that make an epoch, where ``x`` gives batches
    checkpoint : file that the whole run is written to, so that it can go on after a crash, to the same bits. There is
        always the old file or the new one, whole. While the run lasts a lock beside it (``.lock``) says whose it is
    checkpoint_every : "epoch", "5 epochs", "100 steps", or a number of steps (then after every epoch too); Ctrl-C and the
        end of the run write it as well
    resume : True goes on where the checkpoint stands, if there is one; False begins anew and writes over it. Without either
        word an existing file is refused
    show : progress bar (in a terminal), a plot and a table (in a notebook), or one line an epoch

    Returns
    -------
    History
        Ctrl-C ends the run after the step: the history then has ``interrupted`` set and the model the weights of
        the best epoch, by validation loss where there is validation data, else by training loss. A loss that is not finite
        ends it too, with a warning that says which operation first gave such a value, see ``history.non_finite``; that step
        is not in the weights.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        when data are empty, lengths differ, labels are out of range, arguments make no sense, or the last batch has one row and
        the model has batch norm.
    DataError
        when the checkpoint is damaged or another run's, or another run is writing it.
    FileNotFoundError, PermissionError
        when the checkpoint's folder does not exist; when file or folder are read-only.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> y = (x.sum(1) > 0).astype("int32")
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
    >>> history = wf.train.fit(net, x, y, epochs=2, metrics=["accuracy"], show=False)
    >>> len(history.loss), len(history["accuracy"])
    (2, 2)
    """
    arguments.checked(model, loss, optimizer, epochs=epochs, batch_size=batch_size, accumulate=accumulate, seed=seed)
    wanted = named(metrics)
    called = hooks(callbacks)
    due = checkpoints.every(checkpoint_every)
    if resume and checkpoint is None:
        raise ValueError("fit: resume=True needs checkpoint=, the file to go on from")
    if checkpoint is not None:
        target(checkpoint, "fit: checkpoint")  # what cannot be written is refused before the data are read
        arguments.apart(called.all, checkpoint)
    epochs, batch_size, accumulate, seed = map(int, (epochs, batch_size, accumulate, seed))
    rng = default_rng(seed)
    if epochs > 1:
        arguments.repeatable(x, validation, steps_per_epoch)
    feed, held = _feeds(model, x, y, validation, batch_size, rng if shuffle else None, rng, steps_per_epoch)
    arguments.watching(called.all, held is not None)
    _first_look(model, feed, held, loss)
    _try_single_row(model, feed)
    optimizer = Adam() if optimizer is None else optimizer
    if optimizer.step_count is None:
        optimizer.init(model)
    else:
        arguments.fitting(optimizer, model)
    stepper = Stepper(model, loss, optimizer, wanted, accumulate, precision)
    state = State(model, optimizer, History(), epochs)
    validated = Validation(model, loss, wanted, held) if held is not None else None
    about = {
        "samples": feed.samples, "batch_size": feed.source.batch_size if isinstance(feed, Stream) and hasattr(
            feed.source, "batch_size") else batch_size, "accumulate": accumulate, "steps_per_epoch": steps_per_epoch,
        "data": _about(feed), "validation_samples": None if held is None else held.samples, "shuffle": shuffle, "seed": seed,
        "loss": getattr(loss, "__qualname__", type(loss).__name__), "metrics": list(wanted),
        "precision": None if stepper.dtype is None else stepper.dtype.name, "optimizer": checkpoints.describe(optimizer),
    }
    run = Run(model, optimizer, stepper, feed, called, state, validated, show, checkpoint, due, about)
    with only_writer(checkpoint):
        if checkpoint is not None and os.path.exists(checkpoint) and resume is not False:
            found = checkpoints.load(checkpoint)
            if resume is None:
                raise DataError(
                    f"fit: {os.fspath(checkpoint)} exists, a run that stands at {len(found.epochs)} epochs: resume=True goes on "
                    "from it, resume=False begins anew and writes over it"
                )
            run.resume(found)
        run.train()
    return state.history


def predict(model: Module, x: Any, batch_size: int = ROWS) -> np.ndarray:
    """The model's outputs for ``x`` as a NumPy array, in evaluation mode, a batch at a time; float64 is read as by :func:`fit`.

    Parameters
    ----------
    model : Module
    x : (N, ...) array
    batch_size : int, rows at a time

    Returns
    -------
    (N, ...) NumPy array

    Raises
    ------
    ShapeError, TypeError, ValueError
        ``x`` is empty; ``batch_size`` is no positive integer.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> wf.train.predict(wf.nn.Linear(2, 3), np.ones((5, 2), "float32")).shape
    (5, 3)
    """
    if not len(x):
        raise ShapeError("predict: x holds no samples")
    integer_from(1, batch_size, "predict", "batch_size")
    narrow = _narrow(model)
    run = jit(lambda batch: model(batch))
    parts = []
    with evaluating(model):
        for first in range(0, len(x), batch_size):
            batch = asarray(x[first : first + batch_size])
            parts.append(run(batch.astype(np.float32) if narrow and batch.dtype == np.float64 else batch).numpy())
    return np.concatenate(parts)


def accuracy(model: Module, x: Any, y: Any) -> float:
    """The share of rows whose largest output is at the label.

    Parameters
    ----------
    model : Module that gives (N, C) scores, C at least 2
    x : (N, ...) array
    y : (N,) integer labels, or (N, C) one-hot rows

    Returns
    -------
    float

    Raises
    ------
    ShapeError
        ``x`` is empty, or outputs and ``y`` do not fit.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> 0.0 <= wf.train.accuracy(wf.nn.Linear(2, 3), np.ones((5, 2), "float32"), np.zeros(5, "int32")) <= 1.0
    True
    """
    out, labels = predict(model, x), np.asarray(y)
    if labels.shape == out.shape:
        labels = labels.argmax(1)
    if out.ndim != 2 or out.shape[1] < 2 or labels.shape != out.shape[:1]:
        raise ShapeError(f"accuracy: the model gives {out.shape}, y is {labels.shape}; it needs (N, C) scores and (N,) labels")
    return float((out.argmax(1) == labels).mean())


def _narrow(model: Module) -> bool:
    """Whether float64 data become float32: where the model has no float64 parameters."""
    return not any(p.dtype == np.float64 for p in model.parameters().values())


def _feeds(
    model: Module, x: Any, y: Any, validation: Any, batch_size: int, order: np.random.Generator | None,
    rng: np.random.Generator, steps: int | None,
) -> tuple[Feed, Feed | None]:
    """Where batches of training and validation come from."""
    narrow = _narrow(model)
    aside = rest = None
    validation = 0.0 if validation is None else validation
    fraction = isinstance(validation, Real) and not isinstance(validation, bool)
    if fraction and not 0.0 <= validation < 1.0:
        raise ValueError(f"fit: validation must be a fraction in [0, 1), (x, y) or a Loader, not {validation}")
    feed: Feed
    if y is None:
        if _is_pair(x):
            raise TypeError("fit: x and y are two arguments, fit(model, x, y), not one pair")
        if not is_stream(x):
            raise TypeError(f"fit: y is missing; without it x must give batches (x, y), as a Loader does, not {type(x).__name__}")
        if fraction and validation:
            raise ValueError("fit: a fraction for validation needs arrays; give validation=(x, y) or a Loader")
        if steps is not None:
            integer_from(1, steps, "fit", "steps_per_epoch")
        feed = Stream(x, narrow, steps)
    else:
        if steps is not None:
            raise ValueError("fit: steps_per_epoch is for data that give batches; arrays have as many as they have")
        x, y = checked(x, y)
        if fraction:
            aside, rest = set_aside(validation, x, rng)
        if rest is not None and not isinstance(x, np.memmap):  # copied once: faster than through an index at every batch
            held_x, held_y, x, y, rest = x[aside], y[aside], x[rest], y[rest], None
        else:
            held_x, held_y = x, y
        feed = Arrays(*_ready(x, y, narrow), rest, batch_size, order, narrow)
    if fraction:
        if aside is None:
            return feed, None
        return feed, Arrays(held_x, held_y, aside if isinstance(held_x, np.memmap) else None, ROWS, None, narrow)
    if _is_pair(validation):
        return feed, Arrays(*checked(*validation), None, ROWS, None, narrow)
    if is_stream(validation) and not isinstance(validation, tuple):
        return feed, Stream(validation, narrow)
    raise TypeError(f"fit: validation must be a fraction, (x, y) or what gives batches, not {type(validation).__name__}")


def _is_pair(given: Any) -> bool:
    """Whether this is (x, y), two arrays, and not two batches."""
    return isinstance(given, tuple | list) and len(given) == 2 and all(hasattr(part, "shape") for part in given)


def _ready(x: np.ndarray, y: np.ndarray, narrow: bool) -> tuple[np.ndarray, np.ndarray]:
    """Arrays in memory are cast once, files batch by batch."""
    cast = [a.astype(np.float32) if narrow and a.dtype == np.float64 and not isinstance(a, np.memmap) else a for a in (x, y)]
    return cast[0], cast[1]


def _first_look(model: Module, feed: Feed, held: Feed | None, loss: Callable) -> None:
    """Make widths known, and refuse labels out of range, before anything is trained."""
    for part in (feed, held):
        if isinstance(part, Stream) and loss is cross_entropy:
            part.check = _labels_checked(model)
    if not isinstance(feed, Arrays):
        if waits_for_a_batch(model):
            _run(model, _peek(feed))
        return
    if loss is cross_entropy and feed.y.ndim == 1:
        out = _run(model, feed.batch(np.arange(1))[0])
        for part in (feed, held):
            if isinstance(part, Arrays):
                check_labels(part.y, _width(out))
    elif waits_for_a_batch(model):
        _run(model, feed.batch(np.arange(1))[0])


def _try_single_row(model: Module, feed: Feed) -> None:
    """Refuse a last batch of one row that the model cannot be trained on, as batch norm cannot.

    The model is traced, not run: its statistics and the random state stay as they are.
    """
    size = _last_batch_size(feed)
    if size != 1:
        return
    sample = feed.batch(np.arange(1))[0] if isinstance(feed, Arrays) else _peek(feed)
    with evaluating(model):
        model.train()
        try:
            trace(model, [sample[:1]], lambda leaves: ((leaves[0],), {}))
        except ShapeError as error:
            raise ShapeError(
                f"fit: the last batch of an epoch has 1 row ({feed.samples} samples), on which the model cannot be trained: "
                f"{error}. Give another batch_size, or wf.data.Loader((x, y), batch_size, drop_last=True) in place of x and y"
            ) from error
        except Exception:
            pass  # the first step raises it


def _last_batch_size(feed: Feed) -> int | None:
    """Return how many rows the last batch of an epoch has, or None if that is not known."""
    source = feed.source if isinstance(feed, Stream) else feed
    if not isinstance(source, Arrays | Loader) or getattr(source, "drop_last", False):
        return None
    if isinstance(feed, Stream) and feed.limit is not None and feed.limit < len(feed.source):
        return source.batch_size
    return (source.samples - 1) % source.batch_size + 1


def _labels_checked(model: Module) -> Callable[[Array, Array], None]:
    """A check of each batch's labels; the first batch tells how many classes there are."""
    classes = 0

    def check(x: Array, y: Array) -> None:
        nonlocal classes
        if y.ndim == 1 and y.dtype.kind in "iu":
            classes = classes or _width(_run(model, x[:1]))
            check_labels(y.numpy(), classes)

    return check


def _width(out: Array) -> int:
    if out.ndim != 2:
        raise ShapeError(f"fit: cross_entropy needs outputs of shape (N, classes), the model gives {out.shape}")
    return out.shape[1]


def _peek(feed: Feed) -> Array:
    """The first batch's x."""
    if getattr(feed, "once", None) is not None:
        raise ValueError(
            "fit: the model's widths are not known yet, and looking at the first batch would use it up: call the model once on "
            "a batch first, or give a function that makes the generator"
        )
    for key in feed.epoch(1, 0, None):
        return feed.batch(key)[0][:1]
    raise ShapeError("fit: the data give no batch")


def _run(model: Module, sample: Array) -> Any:
    with evaluating(model):
        return model(sample)


def _about(feed: Feed) -> list[Any]:
    """Shape of a sample and dtypes, as far as they are known before the first batch."""
    arrays = (feed.x, feed.y) if isinstance(feed, Arrays) else ()
    return [f"{a.dtype.name}{list(a.shape[1:])}" for a in arrays]
