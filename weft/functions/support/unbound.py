"""Functions that stay as they are when they are an attribute of a class: NumPy's ufuncs and builtins are not bound to objects."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _Library:
    """What methods of the library are bound to; it has them as attributes, so that they can be pickled."""

    def __getattr__(self, name: str) -> Any:
        import weft

        return getattr(weft, name)

    def __reduce__(self) -> str:
        return "LIBRARY"

    def __repr__(self) -> str:
        return "weft"


LIBRARY = _Library()


def as_method(function: Callable[..., Any]) -> Any:
    """Return a function, whose first parameter is not used, as a method of the library.

    A method is not bound a second time, and a call of it takes 2 ns more than one of the function; one through
    :func:`unbound` takes 50 ns more, a fifth of what a small operation on elements takes.
    """
    return types.MethodType(function, LIBRARY)


if TYPE_CHECKING:

    def unbound(function: F) -> F: ...

else:

    class unbound(staticmethod):  # noqa: N801  a decorator
        """A function that is not bound: what ``class Layer: init = wf.zeros`` needs for ``self.init((3, 3))``."""

        def __reduce__(self) -> str:
            return self.__qualname__

        def __repr__(self) -> str:
            return f"<function {self.__qualname__}>"


def unbind(names: dict[str, Any], listed: list[str]) -> None:
    """Decorate the listed functions that a module has from others, given its globals, with :func:`unbound`."""
    for name in listed:
        if isinstance(names.get(name), types.FunctionType):
            names[name] = unbound(names[name])
            names[name].__module__ = names["__name__"]
