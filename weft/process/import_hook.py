"""Import hook: load modules of weft without interruption by signals, and register weft with einops.

A module of weft may be the first to import NumPy or optree, which cannot be imported again after an interrupted import. Ctrl-C
is therefore handled once a module with all its imports is loaded. Python then forgets the outermost module only; it has run to
its end and can be imported again.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from weft.process.signals import defer_signals


class _UninterruptedLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with defer_signals():
            super().exec_module(module)


class _RegisteringLoader(SourceFileLoader):
    """Loader of another library's module with which weft registers itself."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _register(module)


class _Finder:
    """Delegate to the other finders and replace the loader of their specs."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        kind = _UninterruptedLoader if name.startswith("weft.") else _RegisteringLoader if name in _REGISTRATIONS else None
        if kind is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None or isinstance(finder, _Finder) else find(name, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader:
                    spec.loader = kind(spec.loader.name, spec.loader.path)
                return spec
        if name.startswith("weft."):
            from weft.process.name_errors import missing_module

            if (error := missing_module(name)) is not None:
                raise error
        return None


# module of another library -> module of weft that registers weft with it
_REGISTRATIONS = {"einops._backends": "weft.functions.numpy_compat.einops_backend"}


def _register(module: ModuleType) -> None:
    importlib.import_module(_REGISTRATIONS[module.__name__]).introduce(module)


def install() -> None:
    """Install the import hook, and register weft with libraries that are already loaded."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        for name in _REGISTRATIONS.keys() & sys.modules.keys():
            _register(sys.modules[name])


def import_needed(package: str, what: str) -> ModuleType:
    """Import a package that weft depends on. ``what`` names its purpose if it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        error.msg = f"weft needs the package {package} for {what}, and it is not installed: pip install {package}"
        raise
