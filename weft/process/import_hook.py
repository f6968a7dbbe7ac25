"""Modules of weft load whole: Ctrl-C waits until a module, with all that it imports, is there. einops learns of weft here, too.

A module of weft may be the first to import NumPy or optree, and these cannot be imported again after an interrupted start.
The module that Python itself then forgets, the outermost one, ran to its end and can be imported again.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from weft.process.signals import uninterrupted


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with uninterrupted():
            super().exec_module(module)


class _Introduced(SourceFileLoader):
    """Of a module that asks which libraries there are."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _introduce(module)


class _Finder:
    """Asks the other finders, and has what they find loaded whole, or weft introduced to it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        kind = _Loader if name.startswith("weft.") else _Introduced if name in _GUESTS else None
        if kind is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None or isinstance(finder, _Finder) else find(name, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader:
                    spec.loader = kind(spec.loader.name, spec.loader.path)
                return spec
        return None


# a module of another library: weft's, which introduces weft to it
_GUESTS = {"einops._backends": "weft.functions.numpy_compat.einops_backend"}


def _introduce(module: ModuleType) -> None:
    importlib.import_module(_GUESTS[module.__name__]).introduce(module)


def install() -> None:
    """From now on modules of weft load whole, and libraries that ask who is there learn of weft."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        for name in _GUESTS.keys() & sys.modules.keys():
            _introduce(sys.modules[name])


def needed(package: str, what: str) -> ModuleType:
    """Import a package that weft depends on.

    Raises
    ------
    ModuleNotFoundError
        It is missing, on a machine where weft was not installed by pip; ``what`` says for what it is needed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        error.msg = f"weft needs the package {package} for {what}, and it is not installed: pip install {package}"
        raise
