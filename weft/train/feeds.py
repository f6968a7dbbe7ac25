"""Open the feeds of data: from arrays, or from a source of batches, with a part set aside for validation."""

from __future__ import annotations

from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np

from weft.data.members import has_members, list_members, map_members
from weft.data.row_files import ON_DISK
from weft.functions.support.arguments import integer_from
from weft.nn.module import Module
from weft.train.batches import Arrays, Feed, Stream, check_samples, count_rows, is_stream, refuse_path, split_rows
from weft.train.fit_arguments import describe_value
from weft.train.metrics import ROWS


def casts_to_float32(model: Module) -> bool:
    """Return whether float64 data become float32, which is so unless the model has float64 parameters."""
    return not any(p.dtype == np.float64 for _, p in model.named_parameters())


def open_feed(model: Module, x: Any, y: Any, sample_weights: Any, batch_size: int, function: str) -> Feed:
    """Return the feed of arrays in the order of their rows, or of a source of batches if ``y`` is None."""
    narrow = casts_to_float32(model)
    if y is not None:
        arrays = cast_in_memory(check_samples(x, y, function, sample_weights), narrow)
        return Arrays(*arrays, None, batch_size, None, narrow)
    return _open_source(x, sample_weights, narrow, function)


def _open_source(x: Any, sample_weights: Any, narrow: bool, function: str, steps: int | None = None) -> Stream:
    """Return the feed of a source of batches. steps : batches in an epoch, None for all"""
    refuse_path("x", x, function)
    if (_is_pair(x) if isinstance(x, list) else has_members(x)):
        raise TypeError(f"{function}: x and y are two arguments, {function}(model, x, y), not one pair")
    if sample_weights is not None:
        raise ValueError(f"{function}: sample_weights= is for arrays; a source of batches gives (x, y, sample_weights)")
    if not is_stream(x):
        needed = "without it x must give batches (x, y), as a Loader does"
        raise TypeError(f"{function}: y is missing; {needed}, not {type(x).__name__}")
    return Stream(x, narrow, steps, function)


def open_feeds(
    model: Module, x: Any, y: Any, weights: Any, validation: Any, batch_size: int, order: np.random.Generator | None,
    rng: np.random.Generator, steps: int | None,
) -> tuple[Feed, Feed | None]:
    """Return the feeds of training and validation batches."""
    narrow = casts_to_float32(model)
    aside = rest = None
    validation = 0.0 if validation is None else validation
    is_fraction = isinstance(validation, Real) and not isinstance(validation, bool)
    if is_fraction and not 0.0 <= validation < 1.0:
        raise ValueError(f"fit: validation must be a fraction in [0, 1), (x, y) or a Loader, not {validation}")
    feed: Feed
    if y is None:
        feed = _open_source(x, weights, narrow, "fit", steps)
        if is_fraction and validation:
            raise ValueError("fit: a fraction for validation needs arrays; give validation=(x, y) or a Loader")
        if steps is not None:
            integer_from(1, steps, "fit", "steps_per_epoch")
    else:
        if steps is not None:
            raise ValueError("fit: steps_per_epoch needs x to be a source of batches; for arrays give batch_size instead")
        data = held = check_samples(x, y, weights=weights)
        if is_fraction:
            aside, rest = split_rows(validation, count_rows(data[0]), rng)
        is_mapped = any(isinstance(a, ON_DISK) for a in list_members(data))
        if rest is not None and not is_mapped:  # copied once: faster than through an index at every batch
            held, data = (map_members(itemgetter(rows), data) for rows in (aside, rest))
            aside, rest = np.arange(count_rows(held[0])), None
        feed = Arrays(*cast_in_memory(data, narrow), rest, batch_size, order, narrow)
    if is_fraction:
        return feed, None if aside is None else Arrays(*held, aside if is_mapped else None, ROWS, None, narrow)
    refuse_path("validation", validation, "fit")
    if _is_pair(validation):
        x, y, *more = validation
        return feed, Arrays(*check_samples(x, y, "fit: validation", *more), None, ROWS, None, narrow)
    if is_stream(validation) and not isinstance(validation, tuple):
        return feed, Stream(validation, narrow, None, "fit: validation")
    needed = "a fraction, (x, y) or a source of batches, such as a Loader"
    raise TypeError(f"fit: validation must be {needed}, not {describe_value(validation)}")


def _is_pair(value: Any) -> bool:
    """Return whether ``value`` is (x, y) or (x, y, sample_weights); a list may be of batches."""
    if isinstance(value, tuple):
        return len(value) in (2, 3)
    return isinstance(value, list) and len(value) == 2 and all(hasattr(part, "shape") for part in value)


def cast_in_memory(data: tuple[Any, Any], narrow: bool) -> tuple[Any, Any]:
    """Cast arrays in memory from float64 to float32 if ``narrow``. Memory-mapped ones are cast batch by batch."""
    return map_members(
        lambda a: a.astype(np.float32) if narrow and a.dtype == np.float64 and not isinstance(a, ON_DISK) else a, data,
    )
