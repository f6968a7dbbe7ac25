"""ModuleTree: nested modules whose Array attributes are parameters and buffers.

A parameter that several layers share is one variable: it has one name, one gradient and one place in the optimizer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from weft.array import Array, Scalar, wrap_array
from weft.dtypes.api import can_cast, is_inexact
from weft.dtypes.parse import parse_dtype
from weft.eager.materialise import compute_fallible
from weft.errors import DTypeError, ShapeError
from weft.transforms.tree import register_module, structure_changed


class _CallHook(threading.local):
    watch_call: Any = None  # replaces forward in this thread: watch_call(module, args, kwargs)
    enter: Any = None  # returns the context manager in which forward runs: enter(module)


CALL_HOOK = _CallHook()


class ModuleTree:
    """Base of Module: a callable with arrays and modules as attributes, also in lists and dicts."""

    buffers: tuple[str, ...] = ()
    keeps_dtype = False  # whether ``astype`` leaves the arrays of this module as they are
    stored_form = ""  # what the numbers of this module's arrays mean; a weight file that says otherwise is not loaded

    def __init__(self) -> None:
        self.training = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_module(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch_call, enter = CALL_HOOK.watch_call, CALL_HOOK.enter
        if enter is not None:
            with enter(self):
                return self.forward(*args, **kwargs) if watch_call is None else watch_call(self, args, kwargs)
        return self.forward(*args, **kwargs) if watch_call is None else watch_call(self, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no forward method: define forward(self, x)")

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if isinstance(old, Array) and isinstance(value, Array | np.ndarray):
            if tuple(value.shape) != old.shape:
                given = tuple(value.shape)
                raise ShapeError(f"{type(self).__name__}.{name} has shape {old.shape}; an array of shape {given} does not fit")
            if not can_cast(value.dtype, old.dtype):
                dtype = parse_dtype(value.dtype).name
                raise DTypeError(
                    f"{type(self).__name__}.{name} is {old.dtype.name}; an array of {dtype} would be rounded: cast it with "
                    f".astype('{old.dtype.name}'), or keep the module in {dtype} with .astype('{dtype}')"
                )
            old[...] = value
            return
        if isinstance(value, Array):
            compute_fallible((value.node,))  # raises now what would raise in every call
        object.__setattr__(self, name, wrap_array(value.node) if isinstance(value, Scalar) else value)
        structure_changed()

    def children(self) -> Iterator[tuple[str, ModuleTree]]:
        """Yield (name, module) of the direct children, including those in lists and dicts."""
        for name, value in self.__dict__.items():
            yield from find_modules(name, value)

    def modules(self) -> Iterator[tuple[str, ModuleTree]]:
        """Yield (dotted name, module) of this module (name "") and all inside it; a shared one once, by its first name."""
        return _walk("", self, set())

    def _walk_arrays(self) -> Iterator[tuple[str, str, ModuleTree, Array]]:
        """Yield (dotted name, attribute, module, Array) of every Array, each once."""
        seen: set[int] = set()
        for prefix, module in self.modules():
            for attribute, value in module.__dict__.items():
                for name, array in _find(Array, attribute, value):
                    if id(array) not in seen:
                        seen.add(id(array))
                        yield (f"{prefix}.{name}" if prefix else name), attribute, module, array

    def arrays(self) -> dict[str, Array]:
        """Return every Array by dotted name, parameters and buffers; a shared one once, by its first name."""
        return {name: value for name, _, _, value in self._walk_arrays()}

    def parameters(self) -> dict[str, Array]:
        """Return the trainable Arrays by dotted name; a shared one once, by its first name.

        Examples
        --------
        >>> import weft as wf
        >>> sorted(wf.nn.Linear(3, 2).parameters())
        ['bias', 'weight']
        """
        return {
            name: value for name, attribute, module, value in self._walk_arrays()
            if attribute not in module.buffers and is_inexact(value.dtype)
        }

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of this module and all inside it (dropout is active in training); return the module."""
        for _, module in self.modules():
            object.__setattr__(module, "training", mode)
        structure_changed()
        return self

    def eval(self) -> Self:
        """Set the evaluation mode, the opposite of :meth:`train`."""
        return self.train(False)


def _walk(name: str, module: ModuleTree, seen: set[int]) -> Iterator[tuple[str, ModuleTree]]:
    if id(module) not in seen:
        seen.add(id(module))
        yield name, module
        for inner, child in module.children():
            yield from _walk(f"{name}.{inner}" if name else inner, child, seen)


def find_modules(name: str, value: Any) -> Iterator[tuple[str, ModuleTree]]:
    """Yield (name, module) of an attribute's value: a module, or lists and dicts of modules."""
    return _find(ModuleTree, name, value)


def _find(kind: type, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _find(kind, f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find(kind, f"{name}.{key}", item)
