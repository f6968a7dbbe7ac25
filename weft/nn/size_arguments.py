"""Sizes that users give: an int for all spatial dimensions or a tuple; widths that must be positive, or are still unknown."""

from __future__ import annotations

import operator
from typing import Any

from weft.errors import ShapeError, TraceError, short
from weft.runtime.context import LOCAL

NAMES = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def whole(value: Any) -> int | None:
    """``value`` as an int where it is one: NumPy's integers are (``labels.max() + 1``), bools are not."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def each(value: Any, count: int, name: str, least: int = 0) -> tuple[int, ...]:
    """``value`` as ``count`` ints, each at least ``least``."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,) * count
    found = tuple(n for n in map(whole, given) if n is not None)
    if not len(found) == len(given) == count:
        many = {1: "a tuple of one", 2: "a pair of ints", 3: "a triple of ints", 4: "a tuple of four ints"}[count]
        raise ShapeError(f"{name} must be an int or {many}, not {short(value)}")
    if min(found) < least:
        raise ShapeError(f"{name} must be at least {least}, not {short(value)}")
    return found


def extents(layer: str, **named: Any) -> tuple[int, ...]:
    """Widths as ints; refused where they are not positive."""
    found = []
    for name, value in named.items():
        n = whole(value)
        if n is None or n < 1:
            raise ShapeError(f"{layer}: {name} must be a positive int, not {short(value)}")
        found.append(n)
    return tuple(found)


def images(function: str, shape: tuple[int, ...], spatial: int) -> None:
    """Refuse arrays that are not batches of images of ``spatial`` dimensions."""
    if len(shape) != spatial + 2:
        raise ShapeError(f"{function}: x must be {NAMES[spatial]}, not {shape}")


def first_batch(layer: Any, what: str) -> None:
    """Widths are found, and weights made, outside of traces only: inside, they would belong to one trace."""
    if LOCAL.inside or LOCAL.trace is not None:
        raise TraceError(
            f"{type(layer).__name__}: {what} is not known yet, and this is inside jit or grad: call the model once on a "
            f"batch, model(x[:1]), or give {what}"
        )


_INFERRED = ("in_features", "in_channels", "num_features", "num_channels", "in1_features", "in2_features", "input_size")


def waits_for_a_batch(model: Any) -> bool:
    """Whether widths somewhere in ``model`` are still unknown."""
    return any(getattr(m, name, 0) is None for _, m in model.modules() for name in _INFERRED)
