"""Quantiles that count each element by its weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import INEXACT
from weft.functions.averages import weights_along
from weft.functions.choosing import where
from weft.functions.common import Axis, Node, broadcast, node, permuted, reshaped
from weft.functions.elementwise import isnan, less, maximum, minimum
from weft.functions.indexing import take_along_axis
from weft.functions.products import cumsum
from weft.functions.sorting import argsort
from weft.functions.statistics import sum
from weft.runtime.context import LOCAL


def quantiles(
    function: str, a: Any, line: Array, axes: tuple[int, ...], axis: Axis, weights: Any, skip: bool,
) -> Array:
    """The least elements up to which the weights are ``line`` of all, along a last axis; ``skip``: NaN have no weight."""
    value = node(a, function, "a")
    weight = broadcast(weights_along(function, node(weights, function, "weights"), value.shape, axis), value.shape)
    _checked(function, weight, value if skip and value.dtype in INEXACT else None, axes)
    rest = tuple(k for k in range(len(value.shape)) if k not in axes)
    lead = tuple(value.shape[k] for k in rest)
    shape = (*lead, math.prod(value.shape[k] for k in axes))
    row, mass = (wrap(reshaped(permuted(n, rest + axes), shape)) for n in (value, weight))
    order = argsort(row)
    row, mass = take_along_axis(row, order), take_along_axis(mass, order).astype("float64")
    missing = isnan(row) if value.dtype in INEXACT else None
    last: Any = shape[-1] - 1
    if skip and missing is not None:
        mass = where(missing, 0.0, mass)
        last = maximum(sum(~missing, axis=-1, keepdims=True) - 1, 0)
    part = cumsum(mass, axis=-1)
    part = part / part[..., -1:]
    part = where(part == 0, -1.0, part)  # what has no weight is no quantile, not of 0 either
    place = sum(less(part[..., None], line), axis=-2)
    found = take_along_axis(row, minimum(place, last), mode="clip")
    if missing is None:
        return found
    bad = missing[..., :1] if skip else missing[..., -1:]  # NaN is sorted behind all numbers
    return where(bad, np.nan, found).astype(found.dtype)


def _checked(function: str, weight: Node, value: Node | None, axes: tuple[int, ...]) -> None:
    """Refuse weights that are none, where they are known; ``value``: whose NaN have no weight."""
    if LOCAL.trace is not None:
        return
    known = wrap(weight).numpy()
    if (known < 0).any():
        raise ValueError(f"{function}: weights hold {known[known < 0].flat[0]}; they must not be negative")
    there = np.ones(known.shape, bool) if value is None else ~np.isnan(wrap(value).numpy())
    total = np.sum(known, axis=axes, dtype=np.float64, where=there)
    if not (np.isfinite(total) & (total > 0) | ~there.any(axis=axes)).all():
        raise ValueError(f"{function}: weights sum to {np.asarray(total).flat[0]}; they must be finite, and not all zero")
