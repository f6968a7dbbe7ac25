"""fit: train a model on data. Also predict, evaluate and accuracy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.random import default_rng

from weft.array import Array
from weft.data.members import describe_tree, has_members, list_members, map_members, name_members, read_members
from weft.errors import DataError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.support.arguments import flag
from weft.losses import cross_entropy
from weft.nn.module import Module
from weft.nn.weights import stored_texts
from weft.optim import Adam, Optimizer
from weft.process.docstrings import complete_module
from weft.process.files import read, target
from weft.process.keyword_checks import advise_keywords
from weft.train import checkpoint as checkpoints
from weft.train.batches import Arrays, Stream, check_numbers, name_batch, read_array, split_weights
from weft.train.checkpoint import lock_checkpoint
from weft.train.doubts import check_losses, warn_unscaled
from weft.train.feeds import casts_to_float32, open_feed, open_feeds
from weft.train.fit_arguments import check_arguments, check_monitors, check_optimizer, check_paths, check_repeatable
from weft.train.history import History, State, sort_callbacks
from weft.train.inputs import call_model, check_inputs
from weft.train.loader_shards import divide_loaders
from weft.train.loop import Run
from weft.train.metrics import ROWS, Validation, evaluation_mode, join_rows, to_numpy
from weft.train.objective import make_objective
from weft.train.preparation import prepare_model, try_single_row
from weft.train.ranks import Ranks, join_ranks
from weft.train.shards import make_stepper, unite
from weft.train.step import describe_result, training_step
from weft.transforms.jit import jit

__all__ = ["accuracy", "evaluate", "fit", "predict", "training_step"]


@advise_keywords
def fit(
    model: Module, x: Any, y: Any = None, *, epochs: int = 10, batch_size: int = 32, loss: Any = cross_entropy,
    loss_weights: Any = None, class_weights: Any = None, sample_weights: Any = None, optimizer: Optimizer | None = None,
    metrics: Any = (), validation: Any = 0.0, callbacks: Sequence[Any] = (), accumulate: int = 1, shards: int | None = None,
    sharded: str | None = None, gradients_dtype: Any = None, precision: Any = None, loss_scale: Any = "auto",
    shuffle: bool = True, seed: int = 0, steps_per_epoch: int | None = None, checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int | str = "epoch", resume: bool | None = None, show: bool = True,
) -> History:
    """Train ``model`` on ``x``, ``y``. Each step is one native call; short steps are run many at a time.

    Parameters
    ----------
    model : Module
    x, y : (N, ...) array and (N,) labels or (N, ...) targets, as ``loss`` takes them; memory-mapped ones and those of
        :func:`weft.data.open_rows` are read batch by batch. Several inputs are a tuple, which becomes ``model(*x)``, or a dict,
        which becomes ``model(**x)``; their members may be tuples and dicts. Or ``x`` alone as a source of batches (x, y) or
        (x, y, sample_weights): a
        :class:`weft.data.Loader`, an iterable, a function that returns a new iterable for each epoch, or a generator, which is
        consumed only once. float64 becomes float32 unless the model has float64 parameters
    epochs, batch_size : int; the last batch of an epoch may be smaller and is trained too. A Loader has its own batch size
    loss : function of (predictions, targets) that returns one number, or its name in ``wf.losses``. One function gets the
        model's whole result and all of ``y``. A tuple or dict has a loss for each output, None for an output without one; ``y``
        then has the same structure. The history has the figure "size_loss" of an output "size", "output_0_loss" of the first
        of a tuple
    loss_weights : factors of the losses in their sum, in the structure of ``loss``; default 1
    class_weights : (C,) weights of the classes, a dict from class to weight (others have 1), or "balanced": the number of rows
        divided by the number of classes and by the rows of the class. In the structure of ``loss`` if that has several. Not
        used in validation
    sample_weights : (N,) weights of the rows, or of the shape that the loss has with ``reduction="none"``; or a tuple or dict of
        these for several losses. The loss is sum(w * loss of the row) / rows: weights are not divided by their sum. Both kinds
        of weights multiply, and need a loss with an argument ``reduction``, as those of ``wf.losses`` have. If the loss ignores a
        label, as ``partial(wf.losses.cross_entropy, ignore_index=-1)``, the sum is divided by the class weights of the other
        labels, as in PyTorch
    optimizer : default Adam()
    metrics : names (accuracy, top_5_accuracy, binary_accuracy, mse, mae) and functions of (predictions, targets) in array
        code, or a dict of them. For training data each is the mean over the batches, each at the weights of its step. With
        several losses a tuple or dict of these by output: {"size": "mae"} gives the figure "size_mae". Weights of samples and
        classes are not used. Accuracies leave out the label that the loss ignores
    validation : a fraction of the training data to set aside, a separate (x, y) or (x, y, sample_weights), or a source of
        batches like ``x``; 0 or None for no validation
    callbacks : functions of a :class:`~weft.train.State` called after every epoch, and objects with any of ``on_begin``,
        ``on_batch``, ``on_epoch``, ``on_end``; ``state.stop(reason)`` ends the run
    accumulate : number of batches per update, whose gradients are averaged by rows
    shards : number of parts of each batch, which the ranks of a job share (``weft launch``). Gradients are averaged by rows;
        random numbers and statistics of BatchNorm are those of a shard, of SyncBatchNorm those of the batch. The result
        depends on ``shards``, not on the number of ranks: 1, 2, 3, ... ranks give the same bits. All ranks need the same data
        and arguments; weights and random state are those of rank 0, which alone writes files and shows progress. Callbacks
        run on all ranks. Default: 1 on one rank
    sharded : with ``shards``, what is divided among the ranks, to the same bits. "optimizer": each rank keeps its part of the
        optimizer's state, updates that part of the parameters, and gets the others from the other ranks (ZeRO-1). "gradients":
        also the sums of gradients over shards (ZeRO-2; Rajbhandari et al.: ZeRO: memory optimizations toward training trillion
        parameter models. 2020). Checkpoints have the whole state; the optimizer has the rank's part of it when ``fit`` returns
    gradients_dtype : with ``shards``, "bfloat16" or "float16": gradients of shards, and each sum of two in the tree, are
        rounded to it, which halves what the ranks send. An element is off by at most log2(shards) + 1 roundings of partial sums.
        Default: the dtype of the optimizer's state
    precision : "float16" or "bfloat16": activations are stored in 16 bits, weights and updates in float32; with float16 the
        loss is scaled (Micikevicius et al.: Mixed precision training. 2018). Arithmetic stays float32: on a CPU this halves the
        memory traffic of activations, and is often no faster. Or a :class:`weft.Precision`, or a dict of its arguments:
        operands, gradients and sums of the layers' products are rounded to these formats, in training and validation; there,
        ``accumulate`` is the format of sums
    loss_scale : a number by which the loss is multiplied before derivatives are taken, and gradients are divided afterwards, so
        that gradients in narrow formats do not become zero. "dynamic": an adaptive power of two; updates are skipped if a
        gradient is not finite, or too large for its format, even if it saturates. None: no scale. "auto": "dynamic" for
        ``precision="float16"``, else None
    shuffle, seed : whether to draw a new order of the samples each epoch, and the seed of the order
    steps_per_epoch : batches in an epoch, if ``x`` is a source of batches
    checkpoint : file for the state of the run, from which it continues after a crash with the same bits. The file is replaced
        atomically. During the run a lock file (``.lock``) beside it excludes other runs
    checkpoint_every : "epoch", "5 epochs", "100 steps", or a number of steps (then after every epoch too). The checkpoint is
        also written on Ctrl-C and at the end of the run
    resume : True continues from the checkpoint if it exists; False starts again and overwrites it; None raises DataError if it
        exists
    show : show a progress bar (in a terminal), a plot and a table (in a notebook), or one line per epoch

    Returns
    -------
    History
        Ctrl-C ends the run after the current step: ``history.interrupted`` is then True, and the model has the weights of the
        best epoch, by validation loss if there is validation data, else by training loss. A loss that is not finite also ends
        the run, before the weights take over that step, with a warning that names the first operation that returned such a
        value; see ``history.non_finite``.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Data are empty, lengths differ, labels are out of range, arguments are invalid, or a batch or shard has one row and the
        model has batch norm. Inputs do not fit the model's arguments; outputs or targets do not fit the losses. There are
        fewer shards than ranks, or ranks have other data. ``shards`` with SAM or a stateful layer, ``sharded`` with an
        optimizer that draws random numbers for each parameter or has other state than of its shape.
    DataError
        The checkpoint is damaged, belongs to another run, or is being written by another run.
    FileNotFoundError, PermissionError
        The checkpoint's folder does not exist; file or folder are read-only.

    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> y = (x.sum(1) > 0).astype("int32")
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
    >>> history = wf.train.fit(net, x, y, epochs=2, metrics=["accuracy"], show=False)
    >>> len(history.loss), len(history["accuracy"])
    (2, 2)
    """
    check_arguments(model, optimizer, epochs=epochs, batch_size=batch_size, accumulate=accumulate, seed=seed)
    objective = make_objective(loss, loss_weights)
    shuffle, show = flag(shuffle, "fit", "shuffle"), flag(show, "fit", "show")
    resume = None if resume is None else flag(resume, "fit", "resume")
    if not model.parameters() and any(True for _ in model.named_parameters()):
        raise ValueError("fit: every parameter of the model is frozen: model.unfreeze() trains them again")
    ranks = join_ranks(shards, takes_turns=sharded == "gradients")
    figures = objective.name_figures(metrics)
    callback_hooks = sort_callbacks(callbacks)
    due = checkpoints.parse_every(checkpoint_every)
    if resume and checkpoint is None:
        raise ValueError("fit: resume=True needs checkpoint=, the file to go on from")
    if checkpoint is not None and ranks.is_first:
        target(checkpoint, "fit: checkpoint")  # raise before the data are read if the file cannot be written
    if checkpoint is not None:
        check_paths(callback_hooks.all, checkpoint)
    epochs, batch_size, accumulate, seed = map(int, (epochs, batch_size, accumulate, seed))
    rng = default_rng(seed)
    if epochs > 1:
        check_repeatable(x, validation, steps_per_epoch)
    feed, validation_feed = open_feeds(
        model, x, y, sample_weights, validation, batch_size, rng if shuffle else None, rng, steps_per_epoch,
    )
    feed, validation_feed = divide_loaders(feed, validation_feed, ranks)
    check_monitors(callback_hooks.all, validation_feed is not None)
    unweighted, targets = objective, None
    if isinstance(feed, Arrays):
        objective.check_targets(feed.y)
        targets = split_weights(feed.y)[0]
        targets = targets if feed.rows is None else map_members(lambda a: a[feed.rows], targets)
    objective = objective.with_class_weights(class_weights, targets)
    prepare_model(model, feed, validation_feed, objective)
    try_single_row(model, feed, ranks.shards)
    warn_unscaled(model, feed)
    check_losses(model, objective, feed)
    optimizer = Adam() if optimizer is None else optimizer
    if optimizer.step_count is not None:
        check_optimizer(optimizer, model, None if sharded is None else (ranks.rank, ranks.size))
    elif sharded is None:
        optimizer.init(model)
    stepper = make_stepper(
        model, objective, optimizer, objective.name_figures(metrics), accumulate, precision, loss_scale, ranks, sharded,
        gradients_dtype,
    )
    state = State(model, optimizer, History(), epochs)
    validated = None
    if validation_feed is not None:
        validated = Validation(model, unweighted, figures, validation_feed, stepper.formats, ranks)
    source = feed.source if isinstance(feed, Stream) else feed
    description = {
        "samples": feed.samples, "batch_size": getattr(source, "batch_size", batch_size),
        "accumulate": accumulate, "steps_per_epoch": steps_per_epoch,
        "data": [
            f"{'' if name in ('x', 'y') else name + ' '}{a.dtype.name}{list(a.shape[1:])}"
            for name, a in (name_batch(feed.x, feed.y) if isinstance(feed, Arrays) else ())
        ],
        "validation_samples": None if validation_feed is None else validation_feed.samples,
        "shuffle": shuffle, "seed": seed,
        "loss": objective.describe(), "class_weights": objective.describe_class_weights(), "metrics": list(figures),
        "precision": repr(stepper.formats) if stepper.formats else stepper.dtype and stepper.dtype.name,
        "labels": [*stored_texts(model).items()] or None,
        "loss_scale": stepper.scaling, "optimizer": checkpoints.describe_optimizer(optimizer), "shards": ranks.shards,
        "gradients_dtype": stepper.gradients_dtype and stepper.gradients_dtype.name,
    }
    if ranks.shards > 1:
        description["checksum_of_data"] = [part.checksum() for part in (feed, validation_feed) if isinstance(part, Arrays)]
        unite(ranks, description, model, optimizer)
        stepper.divide_state()
    run = Run(model, optimizer, stepper, feed, callback_hooks, state, validated, show, checkpoint, due, description, ranks)
    with lock_checkpoint(checkpoint if ranks.is_first else None):
        content = None
        if checkpoint is not None and resume is not False:
            content = read(checkpoint, "checkpoint") if ranks.is_first and os.path.exists(checkpoint) else None
            content = ranks.broadcast(content, "the checkpoint of fit")
        if checkpoint is not None and content is not None:
            saved = checkpoints.parse(content, checkpoint)
            if resume is None:
                exists = f"{os.fspath(checkpoint)} exists, a run that stands at {len(saved.epochs)} epochs"
                raise DataError(f"fit: {exists}: resume=True goes on from it, resume=False begins anew and writes over it")
            run.resume(saved)
        run.train()
    return state.history


def predict(model: Module, x: Any, batch_size: int = ROWS) -> Any:
    """Return the model's outputs for ``x`` as NumPy arrays, computed batch by batch in evaluation mode.

    float64 data are cast as by :func:`fit`.

    Parameters
    ----------
    model : Module
    x : (N, ...) array, or a tuple or dict of inputs as for :func:`fit`
    batch_size : int, rows at a time

    Returns
    -------
    (N, ...) NumPy array, or a tuple or dict of them as the model returns

    Raises
    ------
    ShapeError, TypeError, ValueError
        ``x`` is empty or does not fit the model's arguments; ``batch_size`` is no positive integer.

    >>> import numpy as np, weft as wf
    >>> wf.train.predict(wf.nn.Linear(2, 3), np.ones((5, 2), "float32")).shape
    (5, 3)
    """
    check_arguments(model, None, "predict", batch_size=batch_size)
    if x is None:
        raise TypeError("predict: x is None, but must be an array, or a tuple or dict of inputs")
    x = read_members(lambda name, a: a if isinstance(a, Array) else read_array(name, a, "predict"), "x", x)
    (name, samples), *others = name_members(x, "x") or [("x", ())]
    if not len(np.shape(samples)):
        raise ShapeError(f"predict: {name} is one value, not an array of samples")
    if not len(samples):
        raise ShapeError(f"predict: {name} holds no samples")
    for other, a in others:
        if len(a) != len(samples):
            raise ShapeError(f"predict: {name} has {len(samples)} samples, {other} has {len(a)}")
    check_inputs(model, x, "predict")
    narrow = casts_to_float32(model)
    run = jit(lambda batch: call_model(model, batch))
    parts = []

    def read(a: Any, first: int) -> Array:
        rows = asarray(a[first : first + batch_size])
        return rows.astype(np.float32) if narrow and rows.dtype == np.float64 else rows

    with evaluation_mode(model):
        for first in range(0, len(samples), batch_size):
            out = run(map_members(partial(read, first=first), x))
            if not all(isinstance(a, Array) for a in list_members(out)) or not list_members(out):
                raise TypeError(f"predict: the model returns {describe_result(out)}; call model(x) itself")
            for a in list_members(out):
                if samples.ndim == 1 and a.shape[:1] != (rows := min(batch_size, len(samples) - first),):
                    raise ShapeError(
                        f"predict: {name} {samples.shape} has {rows} rows, but the model returns shape {a.shape}: one sample is "
                        f"a batch of one, {name}[None]"
                    )
            parts.append(map_members(to_numpy, out))
    return join_rows(parts, lambda a: a)


def evaluate(
    model: Module, x: Any, y: Any = None, *, loss: Any = cross_entropy, loss_weights: Any = None, sample_weights: Any = None,
    metrics: Any = (),
) -> dict[str, float]:
    """Return the loss and the metrics of a model in evaluation mode, by name, as those of validation in :func:`fit`.

    Of arrays they are computed from all predictions together; of a source of batches they are means, weighted by rows.

    Parameters
    ----------
    model : Module
    x, y, loss, loss_weights, sample_weights, metrics : as for :func:`fit`; without metrics, labels give "accuracy"

    Returns
    -------
    dict from names to floats: "loss", that of each output if there are several, then the metrics

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        As :func:`fit` raises for data that do not fit each other, the model or the losses.

    >>> import numpy as np, weft as wf
    >>> x = np.ones((5, 2), "float32")
    >>> sorted(wf.train.evaluate(wf.nn.Linear(2, 3), x, np.zeros(5, "int32")))
    ['accuracy', 'loss']
    """
    check_arguments(model, None, "evaluate")
    objective = make_objective(loss, loss_weights, "evaluate")
    feed = open_feed(model, x, y, sample_weights, ROWS, "evaluate")
    prepare_model(model, feed, None, objective, "evaluate")
    value, figures = Validation(model, objective, objective.name_figures(metrics), feed, None, Ranks())()
    return {"loss": value, **figures}


def accuracy(model: Module, x: Any, y: Any) -> float:
    """Return the share of labels at which the model has the largest score.

    Parameters
    ----------
    model : Module that returns (N, C) or (N, C, ...) scores, C at least 2
    x : (N, ...) array, or a tuple or dict of inputs as for :func:`fit`
    y : (N,) or (N, ...) integer labels, or one-hot rows of the shape of the scores

    Returns
    -------
    float

    Raises
    ------
    ShapeError, DTypeError
        ``x`` is empty, or outputs and ``y`` do not fit; ``y`` are texts.

    >>> import numpy as np, weft as wf
    >>> 0.0 <= wf.train.accuracy(wf.nn.Linear(2, 3), np.ones((5, 2), "float32"), np.zeros(5, "int32")) <= 1.0
    True
    """
    check_arguments(model, None, "accuracy")
    labels = read_members(lambda name, a: read_array(name, a, "accuracy"), "y", y)
    for name, a in name_members(labels, "y"):
        check_numbers(name, a, "accuracy")
    out = predict(model, x)
    if not isinstance(out, np.ndarray):
        raise ShapeError(f"accuracy: the model returns {describe_result(out)}, but accuracy needs (N, C) scores")
    if has_members(labels):
        raise ShapeError(f"accuracy: y is {describe_tree(labels)}, but must be (N,) labels or (N, C) one-hot rows")
    labels = np.asarray(labels)
    if labels.shape == out.shape:
        labels = labels.argmax(1)
    if out.ndim < 2 or out.shape[1] < 2 or labels.shape != (*out.shape[:1], *out.shape[2:]):
        needed = "(N, C) scores and (N,) labels, or (N, C, ...) and (N, ...)"
        raise ShapeError(f"accuracy: the model gives {out.shape}, y is {labels.shape}; it needs {needed}")
    return float((out.argmax(1) == labels).mean())


complete_module(globals())
