"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from weft.process.name_errors import missing_name


def load_on_use(package: str, names: Mapping[str, str]) -> list[str]:
    """Let the package load its names when they are first used. Return them.

    names : file of the package -> names that it defines, or the file's own name if that is public
    """
    homes = {name: f"{package}.{module}" for module, defined in names.items() for name in defined.split()}

    class LazyPackage(ModuleType):
        """A function keeps its name although a file has the name, too: an import of the file would rebind it."""

        def __getattr__(self, name: str) -> Any:
            if name not in homes:
                raise missing_name(package, name, homes)
            value = import_module(homes[name])
            if value.__name__ != f"{package}.{name}" or hasattr(value, name):
                value = getattr(value, name)
            super().__setattr__(name, value)
            return value

        def __dir__(self) -> list[str]:
            return [*(name for name in super().__dir__() if name.startswith("__")), *homes]

        def __setattr__(self, name: str, value: Any) -> None:
            if not (name in homes and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[package].__class__ = LazyPackage
    return list(homes)
