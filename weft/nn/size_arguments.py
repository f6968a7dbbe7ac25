"""Checks of size arguments: extents for each spatial dimension, widths, and widths inferred from the first batch."""

from __future__ import annotations

import operator
from typing import Any

from weft.errors import ShapeError, TraceError, short
from weft.runtime.context import CONTEXT

IMAGE_LAYOUTS = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


MAX_EXTENT = 1 << 62  # larger ints overflow in NumPy and LLVM


def int_or_none(value: Any) -> int | None:
    """Return ``value`` as an int, or None if it is not an integer; NumPy integers are, bools are not."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_sizes(value: Any, count: int, name: str, least: int = 0) -> tuple[int, ...]:
    """Return ``value`` as ``count`` ints, each at least ``least``; an int is repeated."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * count
    ints = tuple(n for n in map(int_or_none, values) if n is not None)
    if not len(ints) == len(values) == count:
        many = {1: "a tuple of one", 2: "a pair of ints", 3: "a triple of ints", 4: "a tuple of four ints"}
        fix = f"; padding={value!r} is a keyword" if isinstance(value, str) else ""
        raise ShapeError(f"{name} must be an int or {many.get(count, f'a tuple of {count} ints')}, not {short(value)}{fix}")
    if min(ints) < least:
        raise ShapeError(f"{name} must be at least {least}, not {short(value)}")
    if max(ints) > MAX_EXTENT:
        raise ShapeError(f"{name} must be at most {MAX_EXTENT:,}, not {short(value)}")
    return ints


def check_pads(value: Any, count: int, name: str) -> tuple[tuple[int, int], ...]:
    """Return the padding (before, after) of each dimension: from an int, an int a dimension, or a pair a dimension."""
    if not isinstance(value, tuple | list) or not any(isinstance(v, tuple | list) for v in value):
        return tuple((n, n) for n in check_sizes(value, count, name))
    if len(value) != count:
        each = f"for each of {count} dimensions" if count > 1 else "in a tuple of one"
        forms = f"an int, or an int or a pair (before, after) {each}"
        raise ShapeError(f"{name} must be {forms}, not {short(value)}")
    pairs = [check_sizes(v, 2, name) for v in value]
    return tuple((low, high) for low, high in pairs)


def extents(layer: str, **named: Any) -> tuple[int, ...]:
    """Return widths as ints; raise for one that is not positive."""
    widths = []
    for name, value in named.items():
        n = int_or_none(value)
        if n is None or n < 1:
            fix = f"; give it, as {layer}(None, 10) does: the other width is taken from the first batch" if value is None else ""
            raise ShapeError(f"{layer}: {name} must be a positive int, not {short(value)}{fix}")
        if n > MAX_EXTENT:
            raise ShapeError(f"{layer}: {name} must be at most {MAX_EXTENT:,}, not {short(value)}")
        widths.append(n)
    return tuple(widths)


def images(function: str, shape: tuple[int, ...], spatial: int) -> None:
    """Raise unless ``shape`` is that of a batch of images with ``spatial`` dimensions."""
    if len(shape) != spatial + 2:
        fix = "; x[None] adds the batch, x[:, None] a channel" if len(shape) == spatial + 1 else ""
        raise ShapeError(f"{function}: x must be {IMAGE_LAYOUTS[spatial]}, not {shape}{fix}")


def check_can_infer(layer: Any, name: str) -> None:
    """Raise inside a trace, where a layer must not infer widths and create weights: they would belong to the trace."""
    if CONTEXT.transform_depth or CONTEXT.trace is not None:
        raise TraceError(
            f"{type(layer).__name__}: {name} is not known yet, and this is inside jit or grad: call the model once on a "
            f"batch, model(x[:1]), or give {name}"
        )


_INFERRED_ARGUMENTS = ("in_features", "in_channels", "num_features", "num_channels", "in1_features", "in2_features", "input_size")


def has_unknown_widths(model: Any) -> bool:
    """Return whether a layer in ``model`` has yet to infer a width from the first batch."""
    return any(getattr(m, name, 0) is None for _, m in model.modules() for name in _INFERRED_ARGUMENTS)
