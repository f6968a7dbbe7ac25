"""Module: a thing with parameters. Attributes that are Arrays are its parameters and buffers; Modules nest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation import asarray
from weft.transforms.tree import register_module, structure_changed


class Module:
    """A layer or a model: write ``__init__`` and ``forward``.

    Arrays assigned as attributes are parameters when they hold floating-point numbers and are not named in
    ``buffers``. Assigning to an existing Array attribute writes its contents, so a jitted step keeps working.

    Examples
    --------
    >>> import weft as wf
    >>> class Scale(wf.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = wf.ones(3)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(wf.ones((2, 3))).shape
    (2, 3)
    """

    buffers: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.training = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_module(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no forward method: define forward(self, x)")

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if isinstance(old, Array) and isinstance(value, Array | np.ndarray):
            if tuple(value.shape) != old.shape:
                raise ShapeError(
                    f"{type(self).__name__}.{name} has shape {old.shape}; an array of shape {tuple(value.shape)} does not fit"
                )
            old[...] = value
            return
        object.__setattr__(self, name, value)
        structure_changed()

    def children(self) -> Iterator[tuple[str, Module]]:
        """(name, Module) of the modules directly inside, lists and dicts of modules included."""
        for name, value in self.__dict__.items():
            yield from _modules(name, value)

    def modules(self) -> Iterator[tuple[str, Module]]:
        """(dotted name, Module) of this module (name "") and everything inside it."""
        yield "", self
        for name, child in self.children():
            for inner, module in child.modules():
                yield (f"{name}.{inner}" if inner else name), module

    def arrays(self) -> dict[str, Array]:
        """Every Array by dotted name, parameters and buffers."""
        return {
            (f"{prefix}.{name}" if prefix else name): value
            for prefix, module in self.modules()
            for name, value in module.__dict__.items()
            if isinstance(value, Array)
        }

    def parameters(self) -> dict[str, Array]:
        """The trainable Arrays by dotted name.

        Examples
        --------
        >>> import weft as wf
        >>> sorted(wf.nn.Linear(3, 2).parameters())
        ['bias', 'weight']
        """
        return {
            (f"{prefix}.{name}" if prefix else name): value
            for prefix, module in self.modules()
            for name, value in module.__dict__.items()
            if isinstance(value, Array) and name not in module.buffers and value.dtype.kind not in "iub"
        }

    def train(self, mode: bool = True) -> Module:
        """Put this module and all inside it in training mode (dropout active); returns itself."""
        for _, module in self.modules():
            object.__setattr__(module, "training", mode)
        structure_changed()
        return self

    def eval(self) -> Module:
        """The opposite of :meth:`train`."""
        return self.train(False)

    def __repr__(self) -> str:
        inside = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n" + "\n".join(inside) + "\n)" if inside else ")")

    def extra_repr(self) -> str:
        """What stands between the parentheses of ``repr``."""
        return ""


def _modules(name: str, value: Any) -> Iterator[tuple[str, Module]]:
    if isinstance(value, Module):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _modules(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _modules(f"{name}.{key}", item)


def uniform_parameter(shape: tuple[int, ...], limit: float) -> Array:
    """A fresh float32 Array with elements uniform in [-limit, limit), from the library's random state."""
    from weft.functions import random

    return asarray(random.uniform(-limit, limit, shape))
