"""The layers: a Module around each function of ``functional``."""

from __future__ import annotations

from collections.abc import Iterator

from weft.array import Array
from weft.nn import functional as F
from weft.nn.module import Module, uniform_parameter


class Linear(Module):
    """``x @ weight.T + bias``, both uniform in +-1/sqrt(in_features) at the start, as in PyTorch.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.Linear(3, 2)(wf.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        F._extents("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        limit = in_features**-0.5
        self.weight = uniform_parameter((out_features, in_features), limit)
        self.bias = uniform_parameter((out_features,), limit) if bias else None

    def forward(self, x: Array) -> Array:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}" + ("" if self.bias is not None else ", bias=False")


class Conv2d(Module):
    """:func:`weft.nn.conv2d` with its weights, uniform in +-1/sqrt(fan in) at the start, as in PyTorch.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding : int or pair
    bias : bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.Conv2d(1, 10, 3, padding=1)(wf.ones((2, 1, 8, 8))).shape
    (2, 10, 8, 8)
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, bias: bool = True) -> None:
        super().__init__()
        F._extents("Conv2d", in_channels=in_channels, out_channels=out_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = F._pair(kernel_size, "kernel_size")
        self.stride, self.padding = F._pair(stride, "stride"), F._pair(padding, "padding")
        limit = (in_channels * self.kernel_size[0] * self.kernel_size[1]) ** -0.5
        self.weight = uniform_parameter((out_channels, in_channels, *self.kernel_size), limit)
        self.bias = uniform_parameter((out_channels,), limit) if bias else None

    def forward(self, x: Array) -> Array:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        return text + f", stride={self.stride}, padding={self.padding}"


class _Pool2d(Module):
    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        self.kernel_size = F._pair(kernel_size, "kernel_size")
        self.stride = self.kernel_size if stride is None else F._pair(stride, "stride")
        self.padding = F._pair(padding, "padding")

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool2d):
    """:func:`weft.nn.max_pool2d` as a layer.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.MaxPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def forward(self, x: Array) -> Array:
        return F.max_pool2d(x, self.kernel_size, self.stride, self.padding)


class AvgPool2d(_Pool2d):
    """:func:`weft.nn.avg_pool2d` as a layer.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.AvgPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def forward(self, x: Array) -> Array:
        return F.avg_pool2d(x, self.kernel_size, self.stride, self.padding)


class Flatten(Module):
    """:func:`weft.nn.flatten` as a layer.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.Flatten()(wf.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Array) -> Array:
        return F.flatten(x, self.start_dim, self.end_dim)


class ReLU(Module):
    """:func:`weft.nn.relu` as a layer.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.ReLU()(wf.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x: Array) -> Array:
        return F.relu(x)


class Tanh(Module):
    """The hyperbolic tangent as a layer.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.nn.Tanh()(wf.array(0.0)))
    0.0
    """

    def forward(self, x: Array) -> Array:
        return F.tanh(x)


class Sigmoid(Module):
    """:func:`weft.nn.sigmoid` as a layer.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.nn.Sigmoid()(wf.array(0.0)))
    0.5
    """

    def forward(self, x: Array) -> Array:
        return F.sigmoid(x)


class Dropout(Module):
    """:func:`weft.nn.dropout` as a layer: active after ``train()``, nothing after ``eval()``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.Dropout(0.5).eval()(wf.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"Dropout: p must lie between 0 and 1, not {p}")
        self.p = p

    def forward(self, x: Array) -> Array:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Sequential(Module):
    """Layers one after another.

    Examples
    --------
    >>> import weft as wf
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
    >>> net(wf.ones((5, 3))).shape
    (5, 1)
    >>> len(net), net[1]
    (3, Tanh())
    """

    def __init__(self, *layers: Module) -> None:
        super().__init__()
        for i, layer in enumerate(layers):
            if not callable(layer):
                raise TypeError(f"Sequential: layer {i} is a {type(layer).__name__}, not a layer")
        self.layers = list(layers)

    def forward(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x

    def children(self) -> Iterator[tuple[str, Module]]:
        """(position, layer): parameters are named ``0.weight`` as in PyTorch."""
        return ((str(i), layer) for i, layer in enumerate(self.layers))

    def append(self, layer: Module) -> Sequential:
        """Add a layer at the end; returns itself."""
        self.layers.append(layer)
        return self

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, i: int) -> Module:
        return self.layers[i]

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)
