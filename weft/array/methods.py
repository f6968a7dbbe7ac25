"""Methods of Array that are functions of ``wf``: the same objects, with the array as their first argument.

The functions stand above the array layer, so they are found by name when a method is first used; then they are hung on
the class in place of the name.
"""

from __future__ import annotations

import importlib
from typing import Any

from weft.array.shapes import Shapes

_METHODS = {
    "weft.functions.reductions.folds": "all any argmax argmin max min prod sum cumprod cumsum",
    "weft.functions.reductions.averages": "mean std var",
    "weft.functions.elementwise.clip_compare": "clip",
    "weft.functions.elementwise.ufuncs": "round",
    "weft.functions.dtype_info.cast": "astype copy",
    "weft.functions.indexing.take_scatter": "nonzero take",
    "weft.functions.indexing.select": "choose",
    "weft.functions.sorting.sort_search": "argpartition argsort searchsorted",
    "weft.functions.shape.join_split": "repeat",
    "weft.functions.linalg.diagonals": "diagonal trace",
    "weft.functions.linalg.products": "dot",
    "weft.functions.shape.axes": "ravel squeeze swapaxes",
    "weft.array.read_only": "_set_write",
    "weft.array.array_ufunc": "__array_ufunc__",
    "weft.array.array_function": "__array_function__",
}
NAMES = tuple(name for names in _METHODS.values() for name in names.split())


class Methods(Shapes):
    """Base of Array."""

    __slots__ = ()


class _Later:
    """Stands where a method will be, until somebody asks for it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        setattr(Methods, self._name, getattr(importlib.import_module(self._module), self._name))
        return getattr(owner if instance is None else instance, self._name)


for _module, _names in _METHODS.items():
    for _name in _names.split():
        setattr(Methods, _name, _Later(_module, _name))
