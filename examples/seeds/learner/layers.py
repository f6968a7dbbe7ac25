"""The learner's layers: fully connected, output, dropout, convolution and max-pooling, each around layers of ``wf.nn``.

A layer computes when it is called. ``forward``, ``backward`` and ``update`` do one step of it by hand; results are lazy,
so a timing of them ends in ``wf.eval``. Where the time of a whole step goes, ``wf.profile`` says without taking it apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from math import inf, prod
from typing import Any

import numpy as np

from learner.options import activation, error_function, optimizer
from weft import nn
from weft.array import Array
from weft.dtypes.api import is_float
from weft.eager.materialise import evaluate
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray, ones_like
from weft.functions.statistics.pad import pad as padded
from weft.losses import check_labels
from weft.nn.size_arguments import check_sizes, extents
from weft.runtime.context import CONTEXT
from weft.transforms.grad import vjp
from weft.transforms.settings import device


def there(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of a manager or a layer run where its ``mode`` says.

    Elsewhere than where the thread computes, results are computed at once: lazy ones would run where they are looked at.
    """

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_there = CONTEXT.placement is CONTEXT.device and self.mode == (CONTEXT.device or "cpu")
        if is_there or CONTEXT.trace is not None or CONTEXT.transform_depth:
            return method(self, *args, **kwargs)
        with device(self.mode):
            result = method(self, *args, **kwargs)
            layers = [self] if isinstance(self, Layer) else list(self)
            evaluate([(one.parameters(), one.held.y, one.held.grad_x, one.held.gradients) for one in layers])
            evaluate(result if isinstance(result, Array) else None)
        return result

    return run


class _Held:
    """What a step by hand keeps between ``forward``, ``backward`` and ``update``."""

    x: Array | None = None
    y: Array | None = None
    pullback: Callable[[Any], tuple[Any, ...]] | None = None
    gradients: dict[str, Array] | None = None
    grad_x: Array | None = None
    optimizer: Any = None


class Layer(nn.Module):
    """What the learner's layers share.

    Attributes
    ----------
    I_shape, O_shape : shapes of one sample at the input and at the result, (C, H, W) or (width,)
    prev, n : their numbers of elements
    mode : the manager's: where steps by hand run
    x, y, grad_x : input and result of the last forward, and the gradient that the last backward returned
    w, b, grad_w, grad_b : weights as a matrix (inputs, outputs), biases, and their gradients of the last backward
    """

    kind = ""
    mode = "cpu"

    def __init__(self, I_shape: tuple[int, ...], O_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.I_shape, self.O_shape = I_shape, O_shape
        self.prev, self.n = prod(I_shape), prod(O_shape)
        self.opt: str | None = None
        self.opt_dic: dict[str, Any] = {}
        self.held = _Held()

    def compute(self, x: Array) -> Array:
        raise TypeError(f"{type(self).__name__} has no compute method")

    @there
    def forward(self, x: Any, train_flag: bool | None = None) -> Array:
        """Return the layer's result; outside of jit and grad the input is kept for :meth:`backward`.

        Parameters
        ----------
        x : (N, ...) with ``prev`` elements a sample
        train_flag : whether dropout drops; by default as the layer was left by ``train()`` and ``eval()``
        """
        x = asarray(x)
        if x.ndim < 1 or prod(x.shape[1:]) != self.prev:
            raise ShapeError(f"{self.kind}: x must be (N, {', '.join(map(str, self.I_shape))}), not {x.shape}")
        if train_flag is not None:
            self.train(train_flag)
        if CONTEXT.trace is not None or CONTEXT.transform_depth:
            return self.compute(x)
        held = self.held
        held.x = x if is_float(x.dtype) else x.astype("float32")
        if self.parameters():
            held.y, held.pullback = vjp(lambda layer, x: layer.compute(x), self, held.x)
        else:
            held.y, held.pullback = vjp(self.compute, held.x)
        return held.y

    @there
    def backward(self, grad: Any) -> Array:
        """Return the gradient at the input of the last :meth:`forward`; those of the weights are kept for :meth:`update`.

        Parameters
        ----------
        grad : gradient of the result, (N, ...) with ``n`` elements a sample

        Raises
        ------
        ValueError, ShapeError
            when :meth:`forward` was not called before, or had another number of samples.
        """
        if self.held.pullback is None:
            raise ValueError(f"{self.kind}: backward needs a forward before it")
        assert self.held.y is not None
        grad, shape = asarray(grad), self.held.y.shape
        if grad.shape[:1] != shape[:1] or grad.size != prod(shape):
            raise ShapeError(f"{self.kind}: the gradient is {grad.shape}, but the result of the last forward was {shape}")
        return self._backward(self.held.pullback, grad.reshape(shape))

    def _backward(self, pullback: Callable[[Any], tuple[Any, ...]], grad: Array) -> Array:
        *layer, found = pullback(grad)
        self.held.gradients = layer[0].parameters() if layer else {}
        self.held.grad_x = found
        return found

    @there
    def update(self) -> None:
        """One step of the layer's optimizer, in a state of its own, by the gradients of the last :meth:`backward`."""
        if self.opt is None:
            return
        if self.held.gradients is None:
            raise ValueError(f"{self.kind}: update needs a backward before it")
        if self.held.optimizer is None:
            self.held.optimizer = optimizer(self.opt, self.opt_dic)
        self.held.optimizer.update(self.parameters(), self.held.gradients)

    x = property(lambda self: self.held.x)
    y = property(lambda self: self.held.y)
    grad_x = property(lambda self: self.held.grad_x)
    w = property(lambda self: _matrix(self.parameters()))
    b = property(lambda self: self.parameters().get("inner.bias"))
    grad_w = property(lambda self: _matrix(self.held.gradients))
    grad_b = property(lambda self: (self.held.gradients or {}).get("inner.bias"))

    def learns_by(self, opt: str, opt_dic: Mapping[str, Any] | None) -> None:
        optimizer(opt, opt_dic)  # a wrong name or option is told now, not when training begins
        self.opt, self.opt_dic = opt, dict(opt_dic or {})

    def __repr__(self) -> str:
        return f"{self.kind}({_text(self.I_shape)} -> {_text(self.O_shape)}{self.extra_repr()})"


def _matrix(parameters: Mapping[str, Array] | None) -> Array | None:
    """Return weights, or their gradient, as (inputs, outputs); None for layers without weights."""
    weight = (parameters or {}).get("inner.weight")
    return None if weight is None else weight.reshape(len(weight), -1).T


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _normal(layer: Any, wb_width: float) -> Any:
    """Weights and biases normal with deviation ``wb_width``."""
    if not wb_width > 0:
        raise ValueError(f"wb_width must be positive, not {wb_width!r}")
    for p in layer.parameters().values():
        p[...] = nn.init.normal(p, std=wb_width)
    return layer


class Middle(Layer):
    """A fully connected layer: ``act(x @ w + b)``, images flattened first."""

    kind = "middle"

    def __init__(
        self, I_shape: tuple[int, ...], *, n: int, wb_width: float = 0.05, act: str = "ReLU",
        act_dic: Mapping[str, Any] | None = None, opt: str = "Adam", opt_dic: Mapping[str, Any] | None = None,
    ) -> None:
        extents(self.kind, n=n)
        super().__init__(I_shape, (n,))
        self.inner = _normal(nn.Linear(self.prev, n), wb_width)
        self.act = activation(act, act_dic)
        self.learns_by(opt, opt_dic)

    def scores(self, x: Array) -> Array:
        """What the activation is given."""
        return self.inner(x if x.ndim == 2 else x.reshape((x.shape[0], -1)))

    def compute(self, x: Array) -> Array:
        return self.act(self.scores(x))

    def extra_repr(self) -> str:
        return f", {self.act!r}, {self.opt}"


class Output(Middle):
    """The last layer. ``err_func`` is "Square", "Binary" or "Cross": sums over the outputs, means over samples."""

    kind = "output"

    def __init__(
        self, I_shape: tuple[int, ...], *, n: int, wb_width: float = 0.05, act: str = "softmax", err_func: str = "Cross",
        act_dic: Mapping[str, Any] | None = None, opt: str = "Adam", opt_dic: Mapping[str, Any] | None = None,
    ) -> None:
        error_function(err_func)
        super().__init__(I_shape, n=n, wb_width=wb_width, act=act, act_dic=act_dic, opt=opt, opt_dic=opt_dic)
        self.err_func = err_func

    def error(self, scores: Array, target: Array) -> Array:
        """The error of scores; softmax with Cross and sigmoid with Binary have the gradient y - t, without a division."""
        return error_function(self.err_func)(self.act, scores, target)

    @there
    def backward(self, t: Any) -> Array:
        """Return the gradient of the error of the last :meth:`forward` at its input, from targets in place of a gradient."""
        if self.held.x is None:
            raise ValueError(f"{self.kind}: backward needs a forward before it")
        target = asarray(self.targets(t, len(self.held.x)))
        error, pullback = vjp(lambda layer, x: layer.error(layer.scores(x), target), self, self.held.x)
        return self._backward(pullback, ones_like(error))

    @there
    def get_error(self, t: Any) -> float:
        """Return the mean error of the last :meth:`forward` against its targets."""
        if self.held.x is None:
            raise ValueError(f"{self.kind}: get_error needs a forward before it")
        return float(self.error(self.scores(self.held.x), asarray(self.targets(t, len(self.held.x)))))

    def targets(self, t: Any, count: int | None = None) -> np.ndarray:
        """Return targets as (N, n); labels become one-hot rows. ``count``: how many there have to be."""
        t = np.asarray(t)
        if count is not None and t.shape[:1] != (count,):
            raise ShapeError(f"{self.kind}: targets {t.shape} must be one for each of the {count} samples of the last forward")
        if t.ndim == 1 and t.dtype.kind in "iu" and self.n > 1:
            check_labels(t, self.n)
            return np.eye(self.n, dtype=np.float32)[t]
        t = t.reshape(len(t), -1).astype(np.float32)
        if t.shape[1] != self.n:
            raise ShapeError(f"LayerManager: targets have {t.shape[1]} numbers a sample, the output layer n={self.n}")
        return t

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.err_func}"


class Dropout(Layer):
    """Zeroes a share ``ratio`` of the elements while training and scales the rest by 1 / (1 - ratio)."""

    kind = "dropout"

    def __init__(self, I_shape: tuple[int, ...], *, ratio: float = 0.25) -> None:
        super().__init__(I_shape, I_shape)
        if not 0.0 <= ratio < 1.0:
            raise ValueError(f"dropout: ratio must lie in [0, 1), not {ratio!r}")
        self.inner = nn.Dropout(ratio)

    def compute(self, x: Array) -> Array:
        return self.inner(x)

    def extra_repr(self) -> str:
        return f", ratio={self.inner.p}"


class Conv(Layer):
    """A convolution. ``pad="same"`` gives ceil(extent / stride); ``F_shape`` is (filters, height, width)."""

    kind = "conv"

    def __init__(
        self, I_shape: tuple[int, ...], *, F_shape: Any, stride: Any = 1, pad: Any = "same", wb_width: float = 0.05,
        act: str = "ReLU", act_dic: Mapping[str, Any] | None = None, opt: str = "Adam", opt_dic: Mapping[str, Any] | None = None,
    ) -> None:
        filters, *window = check_sizes(F_shape, 3, "conv: F_shape", 1)
        steps = check_sizes(stride, 2, "conv: stride", 1)
        if isinstance(pad, str) and pad != "same":
            raise ValueError(f'conv: pad must be an int, a pair or "same", not {pad!r}')
        if pad == "same":
            totals = [max((-(-i // s) - 1) * s + f - i, 0) for i, f, s in zip(I_shape[1:], window, steps, strict=True)]
            pads = [(t // 2, t - t // 2) for t in totals]
        else:
            pads = [(p, p) for p in check_sizes(pad, 2, "conv: pad")]
        O_shape = _sizes("conv", I_shape, window, steps, pads, "F_shape")
        super().__init__(I_shape, (filters, *O_shape))
        self.F_shape, self.stride = (filters, I_shape[0], *window), stride
        even = all(before == after for before, after in pads)
        self.around = None if even else ((0, 0), (0, 0), *pads)
        within = tuple(before for before, _ in pads) if even else 0
        self.inner = _normal(nn.Conv2d(I_shape[0], filters, tuple(window), steps, within), wb_width)
        self.act = activation(act, act_dic)
        self.learns_by(opt, opt_dic)

    def compute(self, x: Array) -> Array:
        x = x.reshape((x.shape[0], *self.I_shape))
        return self.act(self.inner(x if self.around is None else padded(x, self.around)))

    def extra_repr(self) -> str:
        return f", {_text(self.inner.kernel_size)}, {self.act!r}, {self.opt}"


class Pool(Layer):
    """Max-pooling over windows of ``pool``, which do not overlap. Of equal elements the first takes the gradient."""

    kind = "pool"

    def __init__(self, I_shape: tuple[int, ...], *, pool: Any = 2, pad: Any = 0) -> None:
        window = check_sizes(pool, 2, "pool: pool", 1)
        around = check_sizes(pad, 2, "pool: pad")
        O_shape = _sizes("pool", I_shape, window, window, [(p, p) for p in around], "pool")
        super().__init__(I_shape, (I_shape[0], *O_shape))
        self.pool, self.pad_state = pool, around
        self.inner = nn.MaxPool2d(window, padding=around)

    def compute(self, x: Array) -> Array:
        return self.inner(x.reshape((x.shape[0], *self.I_shape)))

    @property
    def max_index(self) -> Array | None:
        """Where each window of the last forward has its maximum; windows in the order sample, row, column, channel."""
        if self.held.x is None:
            return None
        (C, rows, columns), (height, width), (top, left) = self.O_shape, self.inner.kernel_size, self.pad_state
        x = padded(self.held.x.reshape((-1, *self.I_shape)), ((0, 0), (0, 0), (top, top), (left, left)), constant_values=-inf)
        windows = x[:, :, :rows * height, :columns * width].reshape((-1, C, rows, height, columns, width))
        return windows.transpose(0, 2, 4, 1, 3, 5).reshape((-1, height * width)).argmax(axis=1)

    def extra_repr(self) -> str:
        return f", {_text(self.inner.kernel_size)}"


def _sizes(kind: str, I_shape: tuple[int, ...], window: Any, steps: Any, pads: Any, option: str) -> list[int]:
    found = [(i + a + b - f) // s + 1 for i, f, s, (a, b) in zip(I_shape[1:], window, steps, pads, strict=True)]
    if min(found) < 1:
        raise ShapeError(f"{kind}: {option}={_text(tuple(window))} is larger than the images, {_text(I_shape[1:])}")
    return found


LAYERS: dict[str, type[Layer]] = {
    alias: layer for layer, aliases in (
        (Middle, "m mid middle"), (Output, "o out output"), (Dropout, "d drop dropout"), (Conv, "c conv"), (Pool, "p pool"),
    ) for alias in aliases.split()
}
