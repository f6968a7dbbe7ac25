"""Modules of weft load whole: Ctrl-C waits until a module, with all that it imports, is there.

A module of weft may be the first to import NumPy or optree, and these cannot be imported again after an interrupted start.
The module that Python itself then forgets, the outermost one, ran to its end and can be imported again.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from weft.signals import uninterrupted


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with uninterrupted():
            super().exec_module(module)


class _Finder:
    """Asks the other finders, and has what they find loaded whole."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("weft."):
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None or isinstance(finder, _Finder) else find(name, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader:
                    spec.loader = _Loader(spec.loader.name, spec.loader.path)
                return spec
        return None


def install() -> None:
    """From now on modules of weft load whole."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
