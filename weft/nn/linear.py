"""Linear and bilinear maps, as functions and as layers."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.convert import promote_operands
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.graph.primitives import TABLE
from weft.nn.module import Module, uniform_parameter
from weft.nn.precision import current_precision, product_settings
from weft.nn.size_arguments import check_can_infer, extents
from weft.process.docstrings import complete_docs


def linear(x: Any, weight: Array, bias: Array | None = None) -> Array:
    """Return ``x @ weight.T + bias``.

    Parameters
    ----------
    x : (..., in_features)
    weight : (out_features, in_features)
    bias : (out_features,), optional

    Returns
    -------
    Array of shape (..., out_features)

    Raises
    ------
    ShapeError, DTypeError
        The last dimension of ``x`` is not ``in_features``, or the bias has another shape; ``weight`` is not an array.

    >>> wf.nn.linear(wf.ones((2, 3)), wf.ones((4, 3))).shape
    (2, 4)
    """
    if not hasattr(weight, "ndim"):
        problem = f"weight must be an array (out_features, in_features), not {short(weight)}"
        raise DTypeError(f"linear: {problem}; wf.nn.Linear(8, 4) makes a layer")
    return multiply(x, weight, bias, True)


def multiply(x: Any, weight: Array, bias: Array | None, round_weight: bool) -> Array:
    """Compute :func:`linear`. round_weight : False if the weight has been rounded to the format of ``wf.precision``"""
    x = asarray(x)
    if weight.ndim != 2:
        raise ShapeError(f"linear: weight must be (out_features, in_features), not {weight.shape}")
    if x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        hint = f"(weight is {weight.shape})" + ("; flatten images first" if x.ndim == 4 else "")
        raise ShapeError(f"linear: x has shape {x.shape}, its last dimension must be in_features = {weight.shape[1]} {hint}")
    _check_bias("linear", bias, weight.shape[0])
    a, w = promote_operands(x, weight)
    chosen = current_precision()
    if chosen is not None:
        a, w = chosen.round_operands(a, w, weights=round_weight)
    settings = product_settings(chosen, a.dtype)
    y = wrap(bind(TABLE["dot_general"], a, w, contract=((x.ndim - 1,), (1,)), batch=((), ()), **settings))
    if chosen is not None:
        y = chosen.round_gradient(y)
    return y if bias is None else y + bias


def _check_bias(name: str, bias: Array | None, width: int) -> None:
    if bias is not None and bias.shape != (width,):
        raise ShapeError(f"{name}: bias must be ({width},), one per feature of the result, not {bias.shape}")


def bilinear(input1: Any, input2: Any, weight: Array, bias: Array | None = None) -> Array:
    """Return ``y[..., o] = input1[..., i] * weight[o, i, j] * input2[..., j] + bias[o]``, summed over i and j.

    Parameters
    ----------
    input1 : (..., in1_features)
    input2 : (..., in2_features), the other dimensions as in ``input1``
    weight : (out_features, in1_features, in2_features)

    Raises
    ------
    ShapeError
        The inputs do not agree up to their last dimension, or do not fit the weight.

    >>> wf.nn.bilinear(wf.ones((2, 3)), wf.ones((2, 4)), wf.ones((5, 3, 4))).shape
    (2, 5)
    """
    input1, input2 = asarray(input1), asarray(input2)
    if weight.ndim != 3 or input1.ndim < 1 or input2.ndim < 1 or input1.shape[:-1] != input2.shape[:-1]:
        shapes = f"inputs {input1.shape} and {input2.shape} must agree up to the last dimension"
        raise ShapeError(f"bilinear: {shapes}, weight {weight.shape} must be (out, in1, in2)")
    if (input1.shape[-1], input2.shape[-1]) != weight.shape[1:]:
        raise ShapeError(f"bilinear: inputs {input1.shape} and {input2.shape} must end in in1 and in2 of weight {weight.shape}")
    _check_bias("bilinear", bias, weight.shape[0])
    a, w = promote_operands(input1, weight)
    chosen = current_precision()
    if chosen is not None:
        b = promote_operands(input2, weight)[0]
        a, b, w = chosen.round_operands(a, b, w)
        input2 = wrap(b)
    contract, settings = ((input1.ndim - 1,), (1,)), product_settings(chosen, a.dtype)
    half = wrap(bind(TABLE["dot_general"], a, w, contract=contract, batch=((), ()), **settings))
    y = (half * input2.reshape((*input2.shape[:-1], 1, input2.shape[-1]))).sum(axis=-1)
    if chosen is not None:
        y = chosen.round_gradient(y)
    return y if bias is None else y + bias


class Linear(Module):
    """Apply ``x @ weight.T + bias``; both start uniform in +-1/sqrt(in_features), as in PyTorch.

    Parameters
    ----------
    in_features : int, or None (the default) to infer it from the first batch
    out_features : int
    bias : bool

    Raises
    ------
    ShapeError
        A width is not positive, or ``x`` does not fit.
    TraceError
        The first batch is inside jit or grad, and the width of the input was left out.

    >>> wf.nn.Linear(3, 2)(wf.ones((5, 3))).shape
    (5, 2)
    >>> wf.nn.Linear(out_features=2)(wf.ones((5, 7))).shape
    (5, 2)
    """

    def __init__(self, in_features: int | None = None, out_features: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.in_features: int | None = None
        (self.out_features,) = extents("Linear", out_features=out_features)
        self.has_bias = bool(bias)
        self.weight: Array | None = None
        self.bias: Array | None = None
        if in_features is not None:
            self._make(in_features)

    def _make(self, width: int) -> None:
        (in_features,) = extents("Linear", in_features=width)
        self.in_features = in_features
        limit = in_features**-0.5
        self.weight = uniform_parameter((self.out_features, in_features), limit)
        self.bias = uniform_parameter((self.out_features,), limit) if self.has_bias else None

    def forward(self, x: Any) -> Array:
        if self.weight is None:
            check_can_infer(self, "in_features")
            x = asarray(x)
            if x.ndim < 1:
                raise ShapeError("Linear: x has no dimensions")
            self._make(x.shape[-1])
        assert self.weight is not None
        return linear(x, self.weight, self.bias)


class Bilinear(Module):
    """Apply :func:`weft.nn.bilinear`; weight and bias start uniform in +-1/sqrt(in1_features), as in PyTorch.

    Parameters
    ----------
    in1_features, in2_features : int, or None (the default) to infer them from the first batch

    >>> wf.nn.Bilinear(3, 4, 5)(wf.ones((2, 3)), wf.ones((2, 4))).shape
    (2, 5)
    """

    def __init__(
        self, in1_features: int | None = None, in2_features: int | None = None, out_features: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        (self.out_features,) = extents("Bilinear", out_features=out_features)
        self.in1_features, self.in2_features, self.has_bias = in1_features, in2_features, bool(bias)
        self.weight: Array | None = None
        self.bias: Array | None = None
        if in1_features is not None and in2_features is not None:
            self._make(in1_features, in2_features)

    def _make(self, first: int, second: int) -> None:
        first, second = extents("Bilinear", in1_features=first, in2_features=second)
        self.in1_features, self.in2_features = first, second
        self.weight = uniform_parameter((self.out_features, first, second), first**-0.5)
        self.bias = uniform_parameter((self.out_features,), first**-0.5) if self.has_bias else None

    def forward(self, input1: Any, input2: Any) -> Array:
        if self.weight is None:
            check_can_infer(self, "in1_features or in2_features")
            input1, input2 = asarray(input1), asarray(input2)
            if not (input1.ndim and input2.ndim):
                raise ShapeError(f"Bilinear: inputs {input1.shape} and {input2.shape} must have one dimension or more")
            self._make(self.in1_features or input1.shape[-1], self.in2_features or input2.shape[-1])
        assert self.weight is not None
        return bilinear(input1, input2, self.weight, self.bias)


complete_docs(linear, bilinear)
complete_docs(Linear, Bilinear)
