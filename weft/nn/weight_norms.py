"""Layers whose weight is computed from other parameters at each call: weight and spectral normalisation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.array import Array
from weft.dtypes.api import is_float
from weft.errors import AxisError, ShapeError, short
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import maximum, sqrt, stop_gradient
from weft.functions.shape.axes import moveaxis
from weft.functions.support.arguments import check_real_scalar
from weft.nn.convolution import ConvTranspose2d
from weft.nn.module import Module
from weft.nn.size_arguments import int_or_none
from weft.process.docstrings import complete_docs

FIRST_ITERATIONS = 15  # power iterations when a layer is wrapped, as in PyTorch


class _Reparametrized(Module):
    """Base class: takes the weight away from the inner layer, and lends it the computed one for each call."""

    def __init__(self, inner: Any, name: str) -> None:
        super().__init__()
        own = type(self).__name__
        if not isinstance(inner, Module):
            raise TypeError(f"{own}: inner must be a layer of weft.nn, not {short(inner)}")
        weight = vars(inner).get(name, self)
        if weight is None:
            raise ShapeError(f"{own}: {name} of {type(inner).__name__} is not known yet: give the layer its input width")
        if not isinstance(weight, Array) or not is_float(weight.dtype):
            raise TypeError(f"{own}: {type(inner).__name__} has no float array {name!r}")
        self.inner, self.name = inner, name
        self._start(asarray(weight).copy())
        object.__delattr__(inner, name)

    def _start(self, weight: Array) -> None:
        """Create the parameters that give ``weight``: by default itself."""
        self.weight = weight

    @abstractmethod
    def compute_weight(self) -> Array:
        """Return the weight that the inner layer gets."""

    @contextmanager
    def _lend(self, weight: Array) -> Iterator[None]:
        held = vars(self.inner)
        held[self.name] = weight
        try:
            yield
        finally:
            held.pop(self.name, None)  # another thread may have taken it away

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with self._lend(self.compute_weight()):
            return self.inner(*args, **kwargs)


def _check_axis(layer: Any, weight: Array, axis: Any) -> int:
    number = int_or_none(axis)
    if number is None or not -weight.ndim <= number < weight.ndim:
        raise AxisError(f"{type(layer).__name__}: axis={short(axis)} is no axis of a weight of shape {weight.shape}")
    return number % weight.ndim


class WeightNorm(_Reparametrized):
    """Wrap a layer so that its weight is ``g * v / norm(v)``: length and direction are parameters of their own.

    Salimans, Kingma: Weight normalization. 2016.

    Parameters
    ----------
    inner : Module, such as Linear or Conv2d; the first weight is its own
    name : str, the attribute of ``inner``
    axis : int, or None
        The axis with a length for each index, that of the outputs by default. None: one length for all.

    Attributes
    ----------
    weight_g, weight_v : the lengths, and the directions

    Raises
    ------
    TypeError, ShapeError, AxisError
        ``inner`` is no layer, has no such array, or has yet to infer its width; there is no such axis.

    >>> layer = wf.nn.WeightNorm(wf.nn.Linear(3, 2))
    >>> layer(wf.ones((5, 3))).shape, sorted(layer.parameters())
    ((5, 2), ['inner.bias', 'weight_g', 'weight_v'])
    """

    def __init__(self, inner: Any, name: str = "weight", axis: int | None = 0) -> None:
        self.axis: int | None = axis
        super().__init__(inner, name)

    def _start(self, weight: Array) -> None:
        self.axis = None if self.axis is None else _check_axis(self, weight, self.axis)
        self.weight_g, self.weight_v = self._measure(weight), weight

    def _measure(self, v: Array) -> Array:
        """Return the length of each part of ``v``."""
        others = tuple(k for k in range(v.ndim) if k != self.axis)
        return sqrt((v * v).sum(axis=others, keepdims=self.axis is not None))

    def compute_weight(self) -> Array:
        """Return the weight that the inner layer gets."""
        v = to_compute_dtype(self.weight_v)
        return to_storage_dtype(v * (to_compute_dtype(self.weight_g) / self._measure(v)), self.weight_v)


class SpectralNorm(_Reparametrized):
    """Wrap a layer so that its weight is divided by its largest singular value: the layer changes no distance by more than 1.

    Each call in training mode improves the singular vectors by power iterations; they are buffers, saved with the weights.

    Miyato et al.: Spectral normalization for generative adversarial networks. 2018.

    Parameters
    ----------
    inner : Module, such as Linear or Conv2d; the first weight is its own
    name : str, the attribute of ``inner``
    n_power_iterations : int, at least 1; for each call
    eps : float, the smallest length by which vectors are divided
    axis : int, optional
        The axis of the outputs: 0, or 1 for transposed convolutions, by default. The weight is a matrix with rows of it.

    Attributes
    ----------
    weight : the weight before the division
    u, v : the singular vectors

    Raises
    ------
    TypeError, ShapeError, AxisError, ValueError
        ``inner`` is no layer, has no such array, or has yet to infer its width; the weight has no element; there is no such
        axis; ``n_power_iterations`` is below 1.

    >>> layer = wf.nn.SpectralNorm(wf.nn.Linear(3, 2), n_power_iterations=20)
    >>> y = layer(wf.ones((5, 3)))
    >>> round(float(wf.linalg.norm(layer.eval().compute_weight(), 2)), 3)
    1.0
    """

    buffers = ("u", "v")

    def __init__(
        self, inner: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, axis: int | None = None,
    ) -> None:
        count = int_or_none(n_power_iterations)
        if count is None or count < 1:
            raise ValueError(f"SpectralNorm: n_power_iterations must be an int, at least 1, not {short(n_power_iterations)}")
        self.n_power_iterations, self.axis = count, axis
        self.eps = check_real_scalar(eps, "SpectralNorm", "eps")
        super().__init__(inner, name)

    def _start(self, weight: Array) -> None:
        if not weight.ndim or not weight.size:
            raise ShapeError(f"SpectralNorm: a weight of shape {weight.shape} is no matrix")
        default = 1 if isinstance(self.inner, ConvTranspose2d) else 0
        self.axis = _check_axis(self, weight, default if self.axis is None else self.axis)
        super()._start(weight)
        matrix = self._matrix()
        self.u, self.v = (self._normalise(random.normal(size=n).astype(matrix.dtype)) for n in matrix.shape)
        self._iterate(matrix, FIRST_ITERATIONS)

    def _matrix(self) -> Array:
        wide = to_compute_dtype(self.weight)
        return moveaxis(wide, self.axis, 0).reshape((wide.shape[self.axis or 0], -1))

    def _normalise(self, x: Array) -> Array:
        return x / maximum(sqrt((x * x).sum()), self.eps)

    def _iterate(self, matrix: Array, times: int) -> None:
        u, v, matrix = self.u, self.v, stop_gradient(matrix)
        for _ in range(times):
            u = self._normalise(matrix @ v)
            v = self._normalise(matrix.T @ u)
        self.u[...], self.v[...] = u, v

    def compute_weight(self) -> Array:
        """Return the weight that the inner layer gets; improve the singular vectors in training mode."""
        matrix = self._matrix()
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        sigma = stop_gradient(self.u) @ matrix @ stop_gradient(self.v)
        return to_storage_dtype(to_compute_dtype(self.weight) / sigma, self.weight)


complete_docs(WeightNorm, SpectralNorm)
