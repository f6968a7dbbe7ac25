"""Errors for names that weft does not have: with weft's spelling of another library's name, or with the name most alike.

``import`` statements get the same text: Python would replace the message of an AttributeError by one without advice.

Classes get a :class:`ForeignName` per entry of their table, which raises when it is read: a ``__getattr__`` would slow down every
attribute. ``wf`` and its modules ask :func:`missing_name` after a lookup has failed.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterable, Iterator
from dis import opname
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any

from weft.process.foreign_names import MODULES, PARAMETERS


class ForeignName:
    """Class attribute that raises AttributeError with weft's spelling. An attribute of the instance or of a subclass hides it."""

    __slots__ = ("name", "spelling")

    def __init__(self, name: str, spelling: str) -> None:
        self.name, self.spelling = name, spelling

    def __get__(self, instance: Any, owner: type) -> Any:
        subject = f"the name {instance!r}" if isinstance(instance, ParameterName) else f"{owner.__name__!r} object"
        raise _refuse(f"{subject} has no attribute {self.name!r}; in weft: {self.spelling}", self.name)


class ForeignFlag(ForeignName):
    """A foreign name that may not be assigned either, as in ``layer.trainable = False``."""

    __slots__ = ()

    def __set__(self, instance: Any, value: Any) -> None:
        self.__get__(instance, type(instance))


class ParameterName(str):
    """A name in ``model.parameters()``. Attributes of arrays raise advice: ``for p in model.parameters(): p.data``.

    So does ``for name, p in model.parameters()``, which unpacks a name.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        frame = sys._getframe(1)
        if opname[frame.f_code.co_code[frame.f_lasti]] in ("UNPACK_SEQUENCE", "UNPACK_EX"):
            raise ValueError(f"the name {str(self)!r} is unpacked into several variables; in weft: {PARAMETERS}")
        return super().__iter__()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def _refuse(message: str, name: str) -> AttributeError:
    return AttributeError(message, name=name)  # without ``obj``: Python's own suggestion would follow ours


def add_foreign_names(owner: type, names: dict[str, str], flags: Iterable[str] = ()) -> None:
    """Let the attributes ``names`` of a class that it does not have raise an error with weft's spelling.

    flags : those that may not be assigned either
    """
    for name, spelling in names.items():
        if inspect.getattr_static(owner, name, None) is None:
            setattr(owner, name, (ForeignFlag if name in flags else ForeignName)(name, spelling))


def own_names(owner: type, names: Iterable[str]) -> list[str]:
    """Return the names of ``dir`` without foreign ones."""
    attributes = {name: value for base in reversed(owner.__mro__) for name, value in vars(base).items()}
    return [name for name in names if not isinstance(attributes.get(name), ForeignName)]


def missing_name(module: str, name: str, names: Iterable[str]) -> AttributeError | ImportError:
    """Return the error for a name that a module does not have. ``names`` : the names that it has"""
    public = module.replace("weft.functions.", "weft.")
    advice = _advice(public, name, tuple(names))
    if _is_imported():
        return ImportError(f"cannot import name {name!r} from {public!r}{advice}", name=public)
    return _refuse(f"module {public!r} has no attribute {name!r}{advice}", name)


def _is_imported() -> bool:
    """Return whether the user's line is a statement ``from module import name``, which has looked for a submodule already."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "weft":
        frame = frame.f_back
    return frame is not None and frame.f_lasti >= 0 and opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


def missing_module(name: str) -> ModuleNotFoundError | None:
    """Return the error for the import of a module that another library has; None if none is known to have it."""
    parent, _, last = name.rpartition(".")
    if last not in MODULES.get(parent, ()) or not last.islower():
        return None
    return ModuleNotFoundError(f"No module named {name!r}{_advice(parent, last, ())}", name=name)


@lru_cache(256)
def _advice(module: str, name: str, names: tuple[str, ...]) -> str:
    spelling = MODULES.get(module, {}).get(name)
    if spelling is not None:
        return f"; in weft: {spelling}"
    if name.startswith("_"):
        return ""
    close = suggest(name, names)
    prefix = "wf" + module.removeprefix("weft")
    return f". Did you mean {prefix}.{close}?" if close else ""


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the name most like a misspelled one, or ""."""
    names = [known for known in names if not known.startswith("_")]
    same = [known for known in names if known.lower() == name.lower()]
    if close := same or difflib.get_close_matches(name, names, 1, 0.75):
        return close[0]
    lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), lower, 1, 0.7)
    return lower[close[0]] if close else ""


@lru_cache(256)
def _suggest_attribute(owner: Any, name: str, names: tuple[str, ...]) -> str:
    return suggest(name, {*dir(owner), *names})


def describe_missing(owner: Any, name: str) -> str:
    """Return the end of a message about a missing attribute of a weft object: the most similar name, or the names it has."""
    if name.startswith("_"):
        return ""
    kind, weft = type(owner), sys.modules["weft"]
    parts = owner._list_parts() if hasattr(kind, "_list_parts") else []  # of a module
    if hasattr(kind, "__array_namespace__") and name in weft.__all__ and callable(getattr(weft, name)):
        return f"; in weft: wf.{name}(x)"
    names = tuple(vars(owner)) if hasattr(owner, "__dict__") else ()
    if close := suggest(name, parts) or _suggest_attribute(kind, name, names):  # type: ignore[arg-type]  # a class is hashable
        return f". Did you mean {close}?"
    return f"; it has {join_names(parts)}" if parts else ""


def join_names(names: list[str]) -> str:
    """Return names for a message, abbreviated if they are many."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def explain_missing_names(module: ModuleType) -> None:
    """Let a module without a ``__getattr__`` suggest a name for one that it does not have. Other lookups stay as fast."""
    if hasattr(type(module), "__getattr__"):  # of a package that loads its names on use
        return
    names = vars(module)

    def __getattr__(name: str) -> Any:
        raise missing_name(module.__name__, name, names.get("__all__", ()))

    names.setdefault("__getattr__", __getattr__)
