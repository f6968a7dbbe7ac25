"""Methods of Array that are functions of ``wf``: the same objects, with the array as their first argument.

The functions' modules import the array layer, so a method is looked up by name when it is first used, and then replaces the
placeholder in the class.
"""

from __future__ import annotations

import importlib
from typing import Any

from weft.process.foreign_names import ARRAY
from weft.process.name_errors import add_foreign_names, own_names

_METHODS = {
    "weft.functions.reductions.folds": "all any argmax argmin max min prod sum cumprod cumsum mean std var",
    "weft.functions.elementwise.compositions": "clip",
    "weft.functions.elementwise.ufuncs": "round",
    "weft.functions.dtype_info.dtype_info": "astype copy",
    "weft.functions.indexing.take_scatter": "nonzero take",
    "weft.functions.indexing.edit": "choose",
    "weft.functions.sorting.sort_search": "argpartition argsort searchsorted",
    "weft.functions.shape.axes": "repeat ravel squeeze swapaxes",
    "weft.functions.linalg.products": "diagonal trace dot",
    "weft.array.core": "_set_write",
    "weft.array.numpy_calls": "__array_ufunc__ __array_function__",
}
NAMES = tuple(name for names in _METHODS.values() for name in names.split())


class Methods:
    """Base of Array that looks its methods up."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return own_names(type(self), object.__dir__(self))


class _LazyMethod:
    """The placeholder of a method, replaced at first access."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        setattr(Methods, self._name, getattr(importlib.import_module(self._module), self._name))
        return getattr(owner if instance is None else instance, self._name)


for _module, _names in _METHODS.items():
    for _name in _names.split():
        setattr(Methods, _name, _LazyMethod(_module, _name))
add_foreign_names(Methods, ARRAY, flags=("grad", "requires_grad"))
