"""Functions that do not bind when they are class attributes, like NumPy's ufuncs and builtins."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _Library:
    """The object that library methods are bound to. It has their names as attributes, so that they can be pickled."""

    def __getattr__(self, name: str) -> Any:
        import weft

        return getattr(weft, name)

    def __reduce__(self) -> str:
        return "LIBRARY"

    def __repr__(self) -> str:
        return "weft"


LIBRARY = _Library()


def as_method(function: Callable[..., Any]) -> Any:
    """Return a function, whose first parameter is unused, as a method of the library.

    A method is not bound again, and its call takes 2 ns more than the function's. A call through :func:`unbound` takes 50 ns
    more, a fifth of a small elementwise operation.
    """
    return types.MethodType(function, LIBRARY)


if TYPE_CHECKING:

    def unbound(function: F) -> F: ...

else:

    class unbound(staticmethod):  # noqa: N801  a decorator
        """Decorate a function so that it does not bind: ``class Layer: init = wf.zeros`` allows ``self.init((3, 3))``."""

        def __reduce__(self) -> str:
            return self.__qualname__

        def __repr__(self) -> str:
            return f"<function {self.__qualname__}>"


def unbind(names: dict[str, Any], listed: list[str]) -> None:
    """Decorate functions that a module imported from others with :func:`unbound`, given the module's globals."""
    for name in listed:
        if isinstance(names.get(name), types.FunctionType):
            names[name] = unbound(names[name])
            names[name].__module__ = names["__name__"]
