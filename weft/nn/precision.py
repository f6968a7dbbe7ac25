"""Number formats of a model's products: those of weights, activations and gradients, and of the sums.

Layers compute ``product(rounded(x), rounded(weight))``, and round the gradient that arrives at the product before its two
derivatives read it. Rounded values keep the dtype of the arrays, so the kernel that computes an activation or a gradient rounds
it. No kernel computes a weight or the model's input: their rounding is a kernel of its own. The derivative of a rounding is that
of the identity, also for numbers that were clipped.

The precision in force is ``CONTEXT.precision``, with the name of the current layer if the formats differ by layer. It is part of
the key of jitted functions.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.block_formats import BlockFormat
from weft.dtypes.check import check_rounding, parse_number_format
from weft.dtypes.formats import FLOATS, INT32, Format, holds
from weft.dtypes.rounding import Accumulator
from weft.errors import DTypeError
from weft.functions.elementwise.ufuncs import absolute
from weft.functions.linalg.product_formats import parse_accumulator
from weft.functions.random.rounding import round_cast
from weft.functions.random.state import Words, open_words
from weft.graph.node import Node
from weft.graph.primitives.settings import check_formats, format_params
from weft.graph.primitives.settings import current_precision as matmul_precision
from weft.nn.block_rounding import rounded_blocks
from weft.nn.module_tree import CALL_HOOK, ModuleTree
from weft.process.attributes import change_attribute
from weft.process.docstrings import complete_docs
from weft.runtime.context import CONTEXT
from weft.transforms.custom import custom_vjp
from weft.transforms.settings import change_setting
from weft.transforms.tree import matches

ROLES = ("weights", "activations", "gradients")
OPTIONS = (*ROLES, "accumulate", "every", "rounding", "saturate")


@dataclass(frozen=True)
class Rounding:
    """A format, and how numbers are rounded to it. saturate : as in ``astype``"""

    form: Format
    mode: str = "nearest"
    saturate: bool | None = None

    def __call__(self, value: Node, key: Any = None) -> Node:
        """Return the rounded value in its own dtype."""
        if value.dtype is self.form:
            return value
        rounded = round_cast(value, self.form, self.mode, self.saturate, 32, key)
        return round_cast(rounded, value.dtype, None, None, 32, None) if value.dtype in FLOATS else rounded

    def __str__(self) -> str:
        return f"{self.form}, {self.mode}" + ("" if self.saturate is None else f", saturate={self.saturate}")


@dataclass(frozen=True)
class BlockRounding:
    """A block format, and how numbers are rounded to its elements. axis : of the blocks"""

    form: BlockFormat
    mode: str = "nearest"
    scale_rounding: str | None = None
    axis: int = -1

    def __call__(self, value: Node, key: Any = None) -> Node:
        """Return the rounded value in its own dtype."""
        return rounded_blocks(wrap(value), self.form, self.scale_rounding, self.mode, self.axis, key).node

    def __str__(self) -> str:
        return f"{self.form}, {self.mode}"


@dataclass(frozen=True)
class LayerPrecision:
    """The roundings of the products of a layer; None leaves a role as it is. accumulate : how products are added up"""

    weights: Rounding | BlockRounding | None = None
    activations: Rounding | BlockRounding | None = None
    gradients: Rounding | None = None
    accumulate: Accumulator | None = None

    def round_operands(
        self, *values: Node, weights: bool = True, axes: tuple[int, int] = (-1, -1),
    ) -> tuple[Node, ...]:
        """Return the operands of a product, rounded. The last one is the weight.

        weights : whether it is rounded too
        axes : the summed axis of the inputs and of the weight, along which blocks lie
        """
        for value in values:
            _check_operand(value, self)
        *inputs, weight = values
        inputs = [_round_straight(x, self.activations, axes[0]) for x in inputs]
        return (*inputs, _round_straight(weight, self.weights if weights else None, axes[1]))

    def round_weight(self, weight: Array) -> Array:
        return wrap(_round_straight(weight.node, self.weights))

    def round_gradient(self, y: Array) -> Array:
        """Return ``y``, whose gradient will be rounded."""
        return y if self.gradients is None else _gradient_rounding(self.gradients)(y, _OVERFLOW_COUNTER.overflows)


class Precision:
    """Number formats of the products of layers, for :func:`weft.precision` and ``fit(precision=)``.

    Parameters
    ----------
    layers : dict from a pattern to a dict of the other arguments, or None for float32, in place of the other arguments. A
        pattern is a layer (``"0"``, ``"encoder.1"``) or has wildcards (``"encoder.*"``), as in ``groups`` of an optimizer; the
        first one that matches decides. Names are those inside of the outermost module that is called
    weights, activations, gradients : dtypes to which the weights and inputs of products are rounded, and the gradient that
        arrives at a product, before its two derivatives are computed; None leaves them as they are. Weights and activations may
        have block formats, such as ``wf.mxfp4``, whose blocks lie along the axis that is summed
    accumulate : the dtype to which each sum of products is rounded, in layers and their derivatives: see :func:`weft.matmul`
    every : how many products are added in float32 before their sum is rounded; 1 by default
    rounding : a mode of ``astype``, or a dict with one for each role: ``{"gradients": "stochastic"}``
    saturate : bool, or a dict with one for each role: whether numbers that are too large become the largest one. By default True
        for formats without infinities
    only : a pattern, or a list of them: leave all other layers as they are

    Raises
    ------
    DTypeError, ValueError, TypeError
        A format cannot represent the numbers of a role; a rounding mode, role or option does not exist; an option is for a role
        that has no format; ``layers`` stands beside other arguments.

    Examples
    --------
    >>> p = wf.Precision(weights="float8_e4m3fn", gradients="float8_e5m2", rounding={"gradients": "stochastic"})
    >>> p
    Precision({'*': weights float8_e4m3fn, nearest, saturate=True; gradients float8_e5m2, stochastic})
    >>> p == wf.Precision(weights="float8_e4m3fn", gradients="float8_e5m2", rounding={"gradients": "stochastic"})
    True
    >>> with wf.precision(p):
    ...     y = wf.nn.linear(wf.ones((2, 2)), wf.full((3, 2), 0.3))
    >>> float(y[0, 0])  # 0.3 is 0.3125 in this format
    0.625
    """

    __slots__ = ("layers",)
    layers: tuple[tuple[str, LayerPrecision], ...]  # by pattern

    def __init__(
        self, layers: Mapping[str, Any] | None = None, /, *, weights: Any = None, activations: Any = None,
        gradients: Any = None, accumulate: Any = None, every: Any = None, rounding: Any = None, saturate: Any = None,
        only: Any = None,
    ) -> None:
        if layers is None:
            one = _layer_precision("precision", weights, activations, gradients, accumulate, every, rounding, saturate)
            self.layers = tuple((pattern, one) for pattern in _patterns(only))
            return
        if not isinstance(layers, Mapping):
            raise TypeError(
                f"precision: layers must be a dict from patterns to dicts, not {type(layers).__name__}; name formats: weights="
            )
        others = (weights, activations, gradients, accumulate, every, rounding, saturate, only)
        if any(x is not None for x in others):
            raise TypeError("precision: give formats by pattern or as arguments, not both")
        found = []
        for pattern, options in layers.items():
            (pattern,) = _patterns(pattern)
            if not (options is None or isinstance(options, Mapping)):
                raise TypeError(
                    f"precision: {pattern!r} must have a dict, such as dict(weights='bfloat16'), or None, not {options!r}"
                )
            unknown = [repr(k) for k in options or () if k not in OPTIONS]
            if unknown:
                known = f"{', '.join(OPTIONS[:-1])} and {OPTIONS[-1]}"
                raise TypeError(f"precision: {pattern!r} has no option {', '.join(unknown)}: there are {known}")
            found.append((pattern, _layer_precision(f"precision: {pattern!r}", **{**dict.fromkeys(OPTIONS), **(options or {})})))
        self.layers = tuple(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Precision) and self.layers == other.layers

    def __hash__(self) -> int:
        return hash(self.layers)

    def __repr__(self) -> str:
        parts = []
        for pattern, layer in self.layers:
            roles = "; ".join(f"{role} {r}" for role in (*ROLES, "accumulate") if (r := getattr(layer, role)) is not None)
            parts.append(f"{pattern!r}: {roles or None}")
        return f"Precision({{{', '.join(parts)}}})"

    def of(self, name: str) -> LayerPrecision | None:
        """Return the roundings of the layer ``name``; None if there are none."""
        for pattern, layer in self.layers:
            if pattern == "*" or matches(f"{name}.weight" if name else "weight", pattern):
                return None if layer == _NO_ROUNDINGS else layer
        return None


_NO_ROUNDINGS = LayerPrecision()


def _patterns(only: Any) -> tuple[str, ...]:
    names = ("*",) if only is None else (only,) if isinstance(only, str) else tuple(only) if isinstance(only, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"precision: {only!r} must be a name of a layer or a pattern such as 'encoder.*', or a list of them")
    return names


def _layer_precision(
    name: str, weights: Any, activations: Any, gradients: Any, accumulate: Any, every: Any, rounding: Any, saturate: Any,
) -> LayerPrecision:
    given = dict(zip(ROLES, (weights, activations, gradients), strict=True))
    forms: dict[str, Format | BlockFormat] = {
        role: dtype if isinstance(dtype, BlockFormat) else parse_number_format(f"{name}: {role}", dtype)
        for role, dtype in given.items() if dtype is not None
    }
    accumulator = parse_accumulator(name, accumulate, every)
    if accumulator is not None and accumulator.form is INT32:
        raise DTypeError(f"{name}: accumulate=int32 is for products of integers: give a float format")
    modes = _by_role(name, "rounding", rounding, forms)
    saturations = _by_role(name, "saturate", saturate, forms)
    roundings: dict[str, Any] = {}
    for role, form in forms.items():
        mode, does_saturate = modes.get(role) or "nearest", saturations.get(role)
        if isinstance(form, BlockFormat):
            check_rounding(f"{name}: {role}", form.element, mode, True)
            if does_saturate is not None:
                raise DTypeError(f"{name}: {role}: {form} always saturates: leave out saturate=")
            if role == "gradients":
                raise DTypeError(f"{name}: gradients cannot have the block format {form}: two products sum them along two axes")
            roundings[role] = BlockRounding(form, mode)
            continue
        check_rounding(f"{name}: {role}", form, mode, does_saturate)
        is_finite = form not in FLOATS or form.finite
        roundings[role] = Rounding(form, mode, True if does_saturate is None and is_finite else does_saturate)
    return LayerPrecision(**roundings, accumulate=accumulator)


def _by_role(name: str, option: str, given: Any, forms: Mapping[str, Format | BlockFormat]) -> dict[str, Any]:
    """Return an option for each role that has a format."""
    if not isinstance(given, Mapping):
        if given is not None and not forms:
            raise ValueError(f"{name}: {option}={given!r} needs a format: weights=, activations= or gradients=")
        return dict.fromkeys(forms, given)
    for role in given:
        if role not in ROLES:
            raise ValueError(f"{name}: {option} has no role {role!r}: there are weights, activations and gradients")
        if role not in forms:
            raise ValueError(f"{name}: {option} names {role}, which have no format: add {role}=")
    return dict(given)


def precision(
    layers: Precision | Mapping[str, Any] | None = None, /, *, weights: Any = None, activations: Any = None,
    gradients: Any = None, accumulate: Any = None, every: Any = None, rounding: Any = None, saturate: Any = None,
    only: Any = None,
) -> AbstractContextManager[None]:
    """Round the operands of the products of layers, their gradients, and their sums, to number formats inside a ``with`` block.

    The layers are Linear, Bilinear, convolutions, the projections of MultiHeadAttention, recurrent layers, and the functions of
    the same names. Biases, normalization, and the products of attention without weights stay in float32, and so do sums, except
    those of products with ``accumulate``. Arrays
    and parameters keep their dtypes. The kernel that computes an activation or a gradient rounds it; a weight and the model's
    input take a small kernel each. Derivatives are those of the unrounded values (straight through). A jitted function is traced
    once for each precision, and a derivative has the precision of its product. The setting applies to this thread; an inner block
    replaces it.

    Parameters
    ----------
    layers : a :class:`weft.Precision`, or a dict from patterns of layers to dicts of the other arguments
    weights, activations, gradients, accumulate, every, rounding, saturate, only : see :class:`weft.Precision`

    Returns
    -------
    context manager

    Raises
    ------
    DTypeError, ValueError, TypeError
        As :class:`weft.Precision`. In the block: an array's dtype cannot represent the format; a pattern matches no layer of the
        module that is called.

    Examples
    --------
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.ReLU(), wf.nn.Linear(8, 2))
    >>> with wf.precision(weights="float8_e4m3fn", activations="bfloat16", gradients="float8_e5m2"):
    ...     y = net(wf.ones((5, 3)))
    >>> with wf.precision({"2": None, "*": dict(weights="float4_e2m1fn", rounding="stochastic")}):  # all but the last layer
    ...     y = net(wf.ones((5, 3)))
    >>> y.dtype, net[0].weight.dtype
    (dtype('float32'), dtype('float32'))
    """
    if not isinstance(layers, Precision):
        layers = Precision(
            layers, weights=weights, activations=activations, gradients=gradients, accumulate=accumulate, every=every,
            rounding=rounding, saturate=saturate, only=only,
        )
    elif any(x is not None for x in (weights, activations, gradients, accumulate, every, rounding, saturate, only)):
        raise TypeError("precision: give a Precision or arguments, not both")
    return _use_precision(layers)


def parse_precision(given: Precision | Mapping[str, Any]) -> Precision:
    """Return a Precision. given : one, or a dict of its arguments, or of dicts by pattern"""
    if isinstance(given, Precision):
        return given
    return Precision(**given) if set(given) <= {*OPTIONS, "only"} else Precision(given)


class _Names(threading.local):
    names: dict[int, str] | None = None  # id of each module in the outermost one that is running -> its name


_NAMES = _Names()


class _OverflowCounter(threading.local):
    overflows: Array | None = None  # 0, whose gradient counts the roundings of gradients that overflow


_OVERFLOW_COUNTER = _OverflowCounter()


@contextmanager
def _use_precision(chosen: Precision) -> Iterator[None]:
    by_name = [pattern for pattern, _ in chosen.layers] != ["*"]
    before = _NAMES.names, CALL_HOOK.enter
    _NAMES.names, CALL_HOOK.enter = None, _enter if by_name else None
    try:
        with change_setting(CONTEXT, (chosen, ""), "precision"):
            yield
    finally:
        _NAMES.names, CALL_HOOK.enter = before


@contextmanager
def _enter(module: ModuleTree) -> Iterator[None]:
    """Context manager: a module runs. Its name chooses its precision."""
    chosen, name = CONTEXT.precision
    outermost = _NAMES.names is None
    if outermost:
        _NAMES.names = {id(m): n for n, m in module.modules()}
        _check_patterns(chosen, module)
    assert _NAMES.names is not None
    try:
        with change_setting(CONTEXT, (chosen, _NAMES.names.get(id(module), name)), "precision"):
            yield
    finally:
        if outermost:
            _NAMES.names = None


def _check_patterns(chosen: Precision, module: ModuleTree) -> None:
    names = [name for name, _ in module.modules()]
    for pattern, _ in chosen.layers:
        if pattern != "*" and not any(matches(f"{name}.weight" if name else "weight", pattern) for name in names):
            layers = ", ".join(names[1:13]) + (", ..." if len(names) > 13 else "") or "no others"
            raise ValueError(f"precision: {pattern!r} matches no layer of {type(module).__name__}; there are {layers}")


def count_overflows(counter: Array | None) -> AbstractContextManager[None]:
    """Context manager: the gradient of ``counter`` becomes the number of roundings of gradients that overflow."""
    return change_attribute(_OVERFLOW_COUNTER, "overflows", counter)


def current_precision() -> LayerPrecision | None:
    """Return the roundings of the layer that is running; None if there are none."""
    return None if CONTEXT.precision is None else _of(*CONTEXT.precision)


@cache
def _of(chosen: Precision, name: str) -> LayerPrecision | None:
    return chosen.of(name)


def product_settings(chosen: LayerPrecision | None, dtype: Format) -> dict[str, Any]:
    """Return the settings of a product of operands of ``dtype``: see ``graph/primitives/settings.py``."""
    settings = matmul_precision(dtype)
    if chosen is None or chosen.accumulate is None:
        return settings
    check_formats("precision", dtype, chosen.accumulate)
    return {**settings, **format_params(chosen.accumulate)}


def _check_operand(value: Node, layer: LayerPrecision) -> None:
    if value.dtype not in FLOATS:
        raise DTypeError(
            f"precision: operands of {value.dtype} cannot be rounded to another format: cast them, or leave the layer out"
        )
    for role in ROLES:
        rounding = getattr(layer, role)
        if rounding is None or isinstance(rounding, BlockRounding):
            continue
        if not holds(value.dtype, rounding.form) and not holds(rounding.form, value.dtype):
            raise DTypeError(f"precision: {role} of {value.dtype} cannot represent the numbers of {rounding.form}")


def _round_straight(value: Node, rounding: Rounding | BlockRounding | None, axis: int = -1) -> Node:
    if isinstance(rounding, BlockRounding):
        rounding = replace(rounding, axis=axis)
    elif rounding is None or holds(rounding.form, value.dtype):
        return value
    return straight_rounding(rounding)(wrap(value)).node


@cache
def straight_rounding(rounding: Rounding | BlockRounding) -> Callable[[Array], Array]:
    """Return the function that rounds. Its derivative is the identity."""
    @custom_vjp
    def precision(x: Array) -> Array:
        return wrap(rounding(x.node))

    precision.defvjp(lambda x: (wrap(rounding(x.node)), None), lambda _, g: (g,))
    return precision


@cache
def _gradient_rounding(rounding: Rounding) -> Callable[[Array, Array | None], Array]:
    """Return the identity that rounds its gradient. Its second argument's gradient is 1 if a number was too large, or NaN.

    The derivative draws no random words, because these change a state. The function reserves them.
    """
    @custom_vjp
    def precision(y: Array, overflows: Array | None) -> Array:
        return y

    def forward(y: Array, overflows: Array | None) -> tuple[Array, Any]:
        words = None
        if rounding.mode == "stochastic":
            words = [wrap(n) for n in open_words(None, "precision").places(math.prod(y.shape))]
        return y, (words, overflows is not None)

    def backward(saved: Any, g: Array) -> tuple[Array, Array | None]:
        words, counts = saved
        key = None if words is None else Words(words[0].node, words[1].node, None)
        rounded = wrap(rounding(g.node, key))
        return rounded, (~(absolute(g) <= rounding.form.largest)).any().astype(np.float32) if counts else None

    precision.defvjp(forward, backward)
    return precision


complete_docs(Precision, precision)
