"""Sizes that users give: an int for all spatial dimensions or a tuple; widths that must be positive, or are still unknown."""

from __future__ import annotations

from typing import Any

from weft.cell import LOCAL
from weft.errors import ShapeError, TraceError

NAMES = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def each(value: Any, count: int, name: str, least: int = 0) -> tuple[int, ...]:
    """``value`` as ``count`` ints, each at least ``least``."""
    found = (value,) * count if isinstance(value, int) else tuple(value) if isinstance(value, tuple | list) else ()
    if len(found) != count or not all(isinstance(v, int) for v in found):
        many = {1: "a tuple of one", 2: "a pair of ints", 3: "a triple of ints"}[count]
        raise ShapeError(f"{name} must be an int or {many}, not {value!r}")
    if min(found) < least:
        raise ShapeError(f"{name} must be at least {least}, not {value!r}")
    return found


def extents(layer: str, **extents: Any) -> None:
    """Refuse widths that are not positive ints."""
    for name, value in extents.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ShapeError(f"{layer}: {name} must be a positive int, not {value!r}")


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


_INFERRED = ("in_features", "in_channels", "num_features", "in1_features", "in2_features")


def waits_for_a_batch(model: Any) -> bool:
    """Whether widths somewhere in ``model`` are still unknown."""
    return any(getattr(m, name, 0) is None for _, m in model.modules() for name in _INFERRED)
