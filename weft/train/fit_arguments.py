"""Checks of the arguments of fit and of the functions beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from weft import optim
from weft.functions.support.arguments import integer_from
from weft.nn.module import Module
from weft.optim import Optimizer
from weft.optim.update_arguments import named_arrays
from weft.process.foreign_names import MODULES
from weft.process.name_errors import suggest


def check_arguments(model: Any, optimizer: Any, function: str = "fit", **counts: Any) -> None:
    """Raise TypeError or ValueError if model or optimizer is invalid, or one of ``counts`` is no integer of at least 1.

    ``seed`` may be 0.
    """
    if not isinstance(model, Module):
        order = "; the model is the first argument" if hasattr(model, "__array__") else ""
        given = describe_value(model)
        raise TypeError(f"{function}: model must be a wf.nn.Module, such as wf.nn.Sequential(...), not {given}{order}")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        given = describe_value(optimizer) + _name_in_weft(optimizer)
        raise TypeError(f"{function}: optimizer must be one of wf.optim, such as wf.optim.Adam(lr=1e-3), not {given}")
    for name, value in counts.items():
        integer_from(0 if name == "seed" else 1, value, function, name)


def check_optimizer(optimizer: Optimizer, model: Module, place: tuple[int, int] | None = None) -> None:
    """Raise ValueError if the optimizer's state belongs to another model, whose parameters have other shapes.

    place : the number of the part of the state that this rank keeps, and of how many; None for all of it
    """
    kept = getattr(optimizer, "_place", None)
    if kept is not None and kept != place:
        raise ValueError(
            f"fit: {type(optimizer).__name__} keeps part {kept[0]} of {kept[1]} of its state, from fit(sharded=...): train on as "
            f"many ranks with sharded= again, resume from a checkpoint, or make a new optimizer"
        )
    if kept is not None:
        return
    for name, p in named_arrays(model).items():
        for slot, array in getattr(optimizer, "state", {}).get(name, {}).items():
            if array.shape not in (p.shape, optimizer.start(slot, p).shape):
                raise ValueError(
                    f"fit: {type(optimizer).__name__} keeps the state of another model: its {slot!r} of {name!r} has shape "
                    f"{array.shape}, the parameter has {p.shape}. Make a new optimizer for each model"
                )


def check_repeatable(x: Any, validation: Any, steps: int | None) -> None:
    """Raise ValueError if data or validation are a generator, which would be exhausted after the first epoch."""
    if isinstance(x, Iterator) and steps is None:
        raise ValueError(
            "fit: x is a generator, which is gone through once: give steps_per_epoch=, or a function that makes a new one for "
            "each epoch"
        )
    if isinstance(validation, Iterator):
        raise ValueError(
            "fit: validation is a generator, which is gone through once, but each epoch is validated: give a list of its "
            "batches, or a function that makes a new one"
        )


def check_monitors(callbacks: Sequence[Any], validated: bool) -> None:
    """Raise ValueError if a callback monitors a figure of validation data and there are none."""
    for c in callbacks:
        name = getattr(c, "monitor", None)
        if isinstance(name, str) and name.startswith("val_") and not validated:
            fix = f"give validation=0.1, say, or monitor={name.removeprefix('val_')!r}"
            raise ValueError(f"fit: {type(c).__name__} watches {name!r}, but there are no validation data: {fix}")


def check_paths(callbacks: Sequence[Any], checkpoint: str | os.PathLike) -> None:
    """Raise ValueError if a callback writes the file of the checkpoint."""
    for c in callbacks:
        path = getattr(c, "path", None)
        if isinstance(path, str | os.PathLike) and os.path.realpath(path) == os.path.realpath(checkpoint):
            name = type(c).__name__
            raise ValueError(f"fit: checkpoint= and {name} would both write {os.fspath(checkpoint)!r}: give two files")


def _name_in_weft(name: Any) -> str:
    """Return the end of a message about the name of an optimizer, as Keras takes it, where weft takes an object."""
    if not isinstance(name, str):
        return ""
    close = suggest(name, optim.__all__)  # type: ignore[attr-defined]
    spelling = f"wf.optim.{close}()" if close else MODULES["weft.optim"].get(name)
    return f"; in weft: {spelling}" if spelling else ""


def describe_value(value: Any) -> str:
    """Return a text or the type of an argument, for messages."""
    if isinstance(value, type):
        return f"the class {value.__name__}: call it, {value.__name__}(...)"
    return repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
