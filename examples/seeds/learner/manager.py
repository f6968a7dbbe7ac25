"""LayerManager: a net as a list that one appends to, with its data; trains and predicts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from math import prod
from typing import Any

from learner.layers import LAYERS, Conv, Layer, Middle, Output, Pool, there
from learner.learning import PerLayer, Scores, prepared, report, still, train_error
from weft import nn
from weft.array import Array
from weft.devices.names import canonical_name
from weft.eager.materialise import evaluate
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.shape.axes import concatenate
from weft.nn.size_arguments import check_sizes, extents
from weft.optim import Optimizer
from weft.train import History, fit
from weft.train import predict as outputs
from weft.transforms.settings import device

_ALIASES = "m/mid/middle, o/out/output, d/drop/dropout, c/conv, p/pool"


class LayerManager:
    """The learner's list of layers, with training and test data: a thin layer over ``wf.nn`` and ``wf.train``.

    The interface is that of an article on a convolutional net in NumPy and CuPy; what it computes are weft's layers,
    losses and optimizers. Layers are found by position, slice or name; widths come from the layer before.

    Parameters
    ----------
    x : (x_train, x_test), samples along the first axis
    t : (t_train, t_test), (N, outputs) numbers such as one-hot rows, or (N,) integer labels; also called y_train and y_test
    mode : "cpu", "gpu" where weft has a GPU ("gpu:1" and so on where it has several), "gpu-sim", or "auto": where training and
        prediction run

    Raises
    ------
    ShapeError, ValueError
        when data do not fit together, or there is no such device.

    Examples
    --------
    >>> import numpy as np
    >>> from learner import LayerManager
    >>> x = np.random.default_rng(0).normal(size=(80, 1, 4, 4))
    >>> t = (x.mean(axis=(1, 2, 3)) > 0).astype(int)
    >>> lm = LayerManager((x[:60], x[60:]), (t[:60], t[60:]))
    >>> lm.append(name="c", I_shape=(1, 4, 4), F_shape=(5, 3, 3), wb_width=0.1)
    >>> lm.append(name="p", I_shape=lm[-1].O_shape, pool=2)
    >>> lm.append(name="m", n=10)
    >>> lm.append(name="o", n=2, act="softmax", err_func="Cross")
    >>> lm
    LayerManager(cpu, 60 training and 20 test samples)
      0 conv1    conv(1x4x4 -> 5x4x4, 3x3, ReLU(), Adam)
      1 pool1    pool(5x4x4 -> 5x2x2, 2x2)
      2 middle1  middle(5x2x2 -> 10, ReLU(), Adam)
      3 output1  output(10 -> 2, Softmax(), Adam, Cross)
    >>> history = lm.training(2, n_batch=8, show_error=False)
    >>> len(history.loss)
    2
    """

    def __init__(self, x: tuple[Any, Any], t: tuple[Any, Any], mode: str = "cpu") -> None:
        self.mode = _device(mode)
        self.x_train, self.t_train = map(asarray, prepared("train", *_pairs(x, t, 0)))
        self.x_test, self.t_test = map(asarray, prepared("test", *_pairs(x, t, 1)))
        for name, train, test in (("x", self.x_train, self.x_test), ("t", self.t_train, self.t_test)):
            if train.shape[1:] != test.shape[1:]:
                raise ShapeError(f"LayerManager: samples of {name}_train are {train.shape[1:]}, of {name}_test {test.shape[1:]}")
        self.net = nn.Sequential()
        self._optimizer: tuple[Any, Optimizer] | None = None
        self.error_list: list[float] = []
        self.train_error_list: list[float] = []

    y_train = property(lambda self: self.t_train)
    y_test = property(lambda self: self.t_test)

    # the list

    def append(self, name: str = "m", **options: Any) -> None:
        """Add a layer at the end.

        Parameters
        ----------
        name : kind of the layer: m/mid/middle, o/out/output, d/drop/dropout, c/conv, p/pool
        options : of its kind. Middle: ``n``; output: ``n``, ``err_func``; conv: ``I_shape``, ``F_shape``, ``stride``,
            ``pad``; pool: ``I_shape``, ``pool``, ``pad``; dropout: ``ratio``. Those with weights also ``wb_width``,
            ``act``, ``act_dic``, ``opt``, ``opt_dic``. ``prev`` (and ``I_shape``) may be left out.

        Raises
        ------
        ValueError, TypeError, ShapeError
            when a kind, name or option is unknown (the message lists what there is), or widths do not fit.
        """
        self.net.append(self._made(len(self.net), name, options))

    def extend(self, other: LayerManager) -> None:
        """Add the layers of another manager; they are shared, not copied."""
        self._insert_all(len(self.net), other)

    def insert(self, prev_name: int | str, name: str = "m", **options: Any) -> None:
        """Add a layer behind the one called ``prev_name``; options as :meth:`append`."""
        position = self.index(prev_name) + 1
        self.net.insert(position, self._made(position, name, options))

    def extend_insert(self, prev_name: int | str, other: LayerManager) -> None:
        """Add the layers of another manager behind the one called ``prev_name``."""
        self._insert_all(self.index(prev_name) + 1, other)

    def remove(self, target: int | str) -> None:
        """Take out a layer by name or position; what follows must fit when the net is next used."""
        self.net.remove(self.index(target))

    def index(self, target: int | str) -> int:
        """The position of a layer.

        Raises
        ------
        KeyError, IndexError
            when there is no such name or position.
        """
        return self.net.index(target)

    def name(self, index: int) -> str:
        """The name of the layer at a position."""
        return self.net.names[self.net.index(index)]

    def __len__(self) -> int:
        return len(self.net)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.net)

    def __contains__(self, name: str) -> bool:
        return name in self.net.names

    def __getitem__(self, i: Any) -> Any:
        return list(self.net)[i] if isinstance(i, slice) else self.net[i]

    def __setitem__(self, i: int | str, layer: Layer) -> None:
        if not isinstance(layer, Layer):
            raise TypeError(f"LayerManager: a layer of a manager may be assigned, not {type(layer).__name__}")
        self.net[i] = layer

    def __delitem__(self, i: int | str) -> None:
        self.remove(i)

    def __repr__(self) -> str:
        width = max((len(name) for name in self.net.names), default=0)
        rows = [f"  {i} {name:{width}}  {layer!r}" for i, (name, layer) in enumerate(zip(self.net.names, self, strict=True))]
        head = f"LayerManager({self.mode}, {len(self.x_train)} training and {len(self.x_test)} test samples)"
        return "\n".join([head, *rows])

    # what it does

    @there
    def training(
        self, epoch: int, n_batch: int = 16, threshold: float = 1e-8, show_error: bool = True,
        show_train_error: bool = False, *, seed: int = 0,
    ) -> History:
        """Train; each step is one native call. ``error_list`` has the test error after each epoch.

        Parameters
        ----------
        epoch : int, how often the training data are gone through
        n_batch : int, samples a step
        threshold : float; training ends when the test error changes by less from epoch to epoch
        show_error : a progress bar (in a terminal), a table (in a notebook) or a line an epoch, with the test error
        show_train_error : after each epoch also compute and print the error of all training data, and keep it in
            ``train_error_list``
        seed : of the order of the samples

        Returns
        -------
        History : of :func:`weft.train.fit`, whose validation data are the test data here; ``plot(path)`` draws the curve

        Raises
        ------
        ValueError
            when there is no output layer, or an argument makes no sense.
        """
        self._checked()
        extents("training", epoch=epoch, n_batch=n_batch)
        if not threshold >= 0:
            raise ValueError(f"training: threshold must not be negative, not {threshold!r}")
        last: Output = self.net[-1]
        x, t = prepared("train", self.x_train, self.t_train)
        x_test, t_test = prepared("test", self.x_test, self.t_test)
        self.train_error_list = []
        callbacks = [still(threshold)]
        if show_train_error:
            callbacks.append(train_error(lambda: self.error(x, t), self.train_error_list))
        history = fit(
            Scores(self.net), x, last.targets(t), epochs=epoch, batch_size=n_batch, loss=last.error,
            optimizer=self._optimizer_of_layers(), validation=(x_test, last.targets(t_test)), callbacks=callbacks,
            seed=seed, show=show_error,
        )
        self.error_list = list(history["val_loss"])
        return history

    @there
    def predict(self, x: Any = None, t: Any = None, threshold: float = 0.5, *, y: Any = None, show: bool = True) -> Array:
        """Predict the test data, or ``x``; with targets, print the first 16, the predictions and the accuracy.

        Parameters
        ----------
        x : samples; default x_test
        t : their targets, optional; default t_test where ``x`` is not given
        threshold : float, where a sigmoid's output counts as 1
        y : another name of ``t``
        show : whether to print

        Returns
        -------
        (N,) labels for softmax, (N, n) zeros and ones for sigmoid, else the outputs (N, n)
        """
        self._checked()
        if y is not None and t is not None:
            raise TypeError("predict: t and y are two names of the targets: give one of them")
        t = y if t is None else t
        if x is None:
            x, t = self.x_test, self.t_test if t is None else t
        x, t = prepared("predict", x, t)
        last: Output = self.net[-1]
        return asarray(report(last, outputs(self.net, x), None if t is None else last.targets(t), threshold, show))

    @there
    def error(self, x: Any = None, t: Any = None) -> float:
        """The mean error of the test data, or of ``x`` and ``t``."""
        self._checked()
        x, t = prepared("error", *((self.x_test, self.t_test) if x is None else (x, t)))
        last: Output = self.net[-1]
        return float(last.error(asarray(outputs(Scores(self.net), x)), asarray(last.targets(t))))

    @there
    def forward(self, x: Any, train_flag: bool = True, lim_memory: float = 10) -> Array:
        """One step by hand: return the output of the net; each layer keeps its input for :meth:`backward`.

        Parameters
        ----------
        x : samples. More than ``lim_memory`` MB of them run in pieces: the output layer then keeps all of its inputs, as
            ``lm[-1].get_error`` needs them, and the layers before it those of the last piece.
        train_flag : whether dropout drops
        """
        self._checked()
        self.net.train(train_flag)
        x = asarray(x)
        if x.nbytes <= lim_memory * 2**20:
            return self.net(x)
        last, inputs, results = self.net[-1], [], []
        count = max(1, int(lim_memory * 2**19) // max(1, x[0].nbytes))
        for begin in range(0, len(x), count):
            results.append(self.net(x[begin : begin + count]))
            inputs.append(last.x)
            evaluate((inputs[-1], results[-1]))
        last.held.x, last.held.y = concatenate(inputs), concatenate(results)
        return last.held.y

    @there
    def backward(self, t: Any) -> None:
        """One step by hand: the gradient of each layer, from the last :meth:`forward` and its targets.

        Parameters
        ----------
        t : targets of all samples of that forward, which must not have run in pieces
        """
        self._checked()
        grad = t
        for layer in reversed(list(self)):
            grad = layer.backward(grad)

    @there
    def update(self) -> None:
        """One step by hand: each layer's optimizer."""
        for layer in self:
            layer.update()

    # how it is kept together

    def _made(self, position: int, name: str, options: dict[str, Any]) -> Layer:
        kind = LAYERS.get(name.lower()) if isinstance(name, str) else None
        if kind is None:
            raise ValueError(f"append: name={name!r} is no kind of layer; there are {_ALIASES}")
        mode = options.pop("mode", self.mode)
        if _name(mode) != self.mode:
            raise ValueError(f"append: mode={mode!r}, but the manager's is {self.mode!r}: layers and data live on one device")
        before = self.net[position - 1].O_shape if position else self.x_train.shape[1:]
        shape = _input_shape(kind, before, options)
        known = [p for p in inspect.signature(kind.__init__).parameters if p not in ("self", "I_shape")]
        for option in options:
            if option not in known:
                first = "I_shape" if kind in (Conv, Pool) else "prev"
                raise TypeError(f"append: a {kind.kind} layer has no option {option!r}; it takes {', '.join([first, *known])}")
        needed = {Middle: "n", Output: "n", Conv: "F_shape"}.get(kind)
        if needed is not None and needed not in options:
            raise TypeError(f"append: a {kind.kind} layer needs {needed}=")
        layer = kind(shape, **options)
        layer.mode = self.mode
        return layer

    def _insert_all(self, position: int, other: LayerManager) -> None:
        if not isinstance(other, LayerManager):
            raise TypeError(f"LayerManager: another manager's layers can be added, not {type(other).__name__}")
        if other.mode != self.mode:
            raise ValueError(f"LayerManager: the other's mode is {other.mode!r}, this one's {self.mode!r}")
        for i, layer in enumerate(list(other.net)):
            self.net.insert(position + i, layer)

    def _checked(self) -> None:
        """Refuse a net that does not end in an output layer, or whose widths do not fit."""
        if not len(self) or type(self.net[-1]) is not Output:
            raise ValueError('LayerManager: the last layer must be an output layer: append(name="o", n=...)')
        width, before = prod(self.x_train.shape[1:]), "the data"
        for name, layer in zip(self.net.names, self, strict=True):
            if layer.prev != width:
                raise ShapeError(f"LayerManager: {before} gives {width} numbers a sample, but {name} takes {layer.prev}")
            if type(layer) is Output and layer is not self.net[-1]:
                raise ValueError(f"LayerManager: {name} is an output layer and not the last")
            width, before = layer.n, name
        self.net[-1].targets(self.t_test[:1])

    def _optimizer_of_layers(self) -> Optimizer:
        """Kept from one training to the next, until layers or their settings change."""
        key = [(id(layer), layer.opt, repr(layer.opt_dic)) for layer in self]
        if self._optimizer is None or self._optimizer[0] != key:
            layers = [(f"net.{prefix}", layer) for prefix, layer in self.net.children() if isinstance(layer, Layer)]
            self._optimizer = key, PerLayer(layers).init(Scores(self.net))
        return self._optimizer[1]


def _name(mode: Any) -> Any:
    """Return a mode as the manager keeps it: "gpu:0" is "gpu"."""
    return mode if mode == "auto" else canonical_name(mode)


def _device(mode: str) -> str:
    try:
        with device(mode):
            return _name(mode)
    except ValueError:
        raise ValueError(f'LayerManager: mode must be "cpu", "gpu" ("gpu:1", ...), "gpu-sim" or "auto", not {mode!r}') from None
    except RuntimeError as error:
        raise ValueError(f'LayerManager: mode={mode!r}, but this device cannot be used here: use mode="cpu" ({error})') from None


def _pairs(x: Any, t: Any, which: int) -> tuple[Any, Any]:
    for name, pair in (("x", x), ("t", t)):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"LayerManager: {name} must be a pair ({name}_train, {name}_test), not {type(pair).__name__}")
    return x[which], t[which]


def _input_shape(kind: type[Layer], before: tuple[int, ...], options: dict[str, Any]) -> tuple[int, ...]:
    """The shape that a layer takes, from ``I_shape`` or ``prev`` or the layer before it."""
    width = prod(before)
    if kind in (Conv, Pool):
        given = options.pop("I_shape", None)
        shape = before if given is None else tuple(given) if isinstance(given, tuple | list) else (given,)
        shape = (1, *shape) if len(shape) == 2 else shape
        if len(shape) != 3:
            raise ShapeError(f"append: a {kind.kind} layer takes images: give I_shape=(channels, height, width), not {shape}")
        shape = check_sizes(shape, 3, f"{kind.kind}: I_shape", 1)
        if prod(shape) != width:
            raise ShapeError(f"append: I_shape={shape} has {prod(shape)} numbers, but what comes before gives {before}: {width}")
        return shape
    prev = options.pop("prev", None)
    if prev is not None and prev != width:
        raise ShapeError(f"append: prev={prev}, but what comes before gives {before}: {width} numbers")
    return before
