"""Containers: Sequential, Residual, Lambda."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.nn.module import Module
from weft.nn.module_tree import ModuleTree, find_modules
from weft.nn.size_arguments import int_or_none
from weft.process.docstrings import complete_module
from weft.process.foreign_names import SEQUENTIAL
from weft.process.name_errors import add_foreign_names


class Sequential(Module):
    """Layers applied one after another; also a mutable list: append, insert, remove, index, ``[i]``, ``[name]``, ``len``.

    A layer without a name is named after its class with a number ("linear1"), but its parameters carry its position
    ("0.weight"), as in PyTorch. The parameters of a named layer carry the name, and ``net.name`` reads and replaces the layer.

    Parameters
    ----------
    layers : Modules or functions, or pairs of a name and one of these

    Raises
    ------
    TypeError, ValueError
        A layer is not callable; a name is in use, is a number, or contains a dot.

    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
    >>> net(wf.ones((5, 3))).shape
    (5, 1)
    >>> len(net), net[1], net.names
    (3, Tanh(), ['linear1', 'tanh1', 'linear2'])
    >>> net.insert(2, wf.nn.Linear(8, 8), name="middle")["middle"]
    Linear(8, 8)
    >>> net.index("linear2")
    3
    """

    def __init__(self, *layers: Module | tuple[str, Module]) -> None:
        super().__init__()
        self.layers: tuple[Module, ...] = ()  # a tuple, which only the methods below replace
        self.given_names: tuple[str | None, ...] = ()  # None for a layer without a name
        for i, layer in enumerate(layers):
            name, layer = layer if isinstance(layer, tuple) else (None, layer)
            self._put_layer(i, layer, name)

    def _put_layer(self, position: int, layer: Any, name: str | None) -> None:
        if isinstance(layer, type):
            raise TypeError(f"Sequential: layer {position} is the class {layer.__name__}: call it, {layer.__name__}(...)")
        if isinstance(layer, list | tuple):
            kind = type(layer).__name__
            raise TypeError(f"Sequential: layer {position} is a {kind}: write the layers as arguments, Sequential(*layers)")
        if not callable(layer):
            fix = ": write Sequential(*layers.items())" if isinstance(layer, Mapping) else (
                ": write the layer, such as wf.nn.ReLU(); a pair is (name, layer)" if isinstance(layer, str) else "")
            raise TypeError(f"Sequential: layer {position} is of the class {type(layer).__name__}, not a layer{fix}")
        layer = layer if isinstance(layer, Module) else Lambda(layer)
        if name is not None:
            if not isinstance(name, str) or not name or name.isdigit() or "." in name:
                raise ValueError(f"Sequential: a name must be a str without dots that is not a number, not {name!r}")
            if name in self.names:
                raise ValueError(f"Sequential: there is a layer {name!r} already: {', '.join(self.names)}")
        self._replace(position, position, (layer,), (name,))

    def _replace(self, start: int, end: int, layers: tuple[Module, ...] = (), names: tuple[str | None, ...] = ()) -> None:
        """Replace the layers from ``start`` to ``end``."""
        self.layers = self.layers[:start] + layers + self.layers[end:]
        self.given_names = self.given_names[:start] + names + self.given_names[end:]

    @property
    def names(self) -> list[str]:
        """Return the name of each layer, in order."""
        used_names = {name for name in self.given_names if name is not None}
        count: dict[str, int] = {}
        names = []
        for layer, name in zip(self.layers, self.given_names, strict=True):
            if name is None:
                kind = type(layer).__name__.lower()
                while True:
                    count[kind] = count.get(kind, 0) + 1
                    name = f"{kind}{count[kind]}"
                    if name not in used_names:
                        break
            names.append(name)
        return names

    def forward(self, x: Array) -> Array:
        result: Any = x
        position = 0
        try:
            for position, layer in enumerate(self.layers):  # noqa: B007  the error names the position
                result = layer(result)
        except (TypeError, ValueError, AttributeError) as error:
            if position and not isinstance(result, Array):
                raise _refuse_result(self.layers, position, result) from error
            raise
        return result

    def children(self) -> Iterator[tuple[str, ModuleTree]]:
        """Return (given name or position, layer) of each layer, then the modules that a subclass adds."""
        for i, (name, layer) in enumerate(zip(self.given_names, self.layers, strict=True)):
            yield name or str(i), layer
        for name, value in self.__dict__.items():
            if name != "layers":
                yield from find_modules(name, value)

    def append(self, layer: Module, name: str | None = None) -> Sequential:
        """Add a layer (or a function) at the end; return the Sequential."""
        self._put_layer(len(self.layers), layer, name)
        return self

    def insert(self, index: int | str, layer: Module, name: str | None = None) -> Sequential:
        """Add a layer in front of the one at ``index`` (position or name); return the Sequential."""
        position = self.index(index) if isinstance(index, str) else index
        position = max(position + len(self), 0) if position < 0 else min(position, len(self))
        self._put_layer(position, layer, name)
        return self

    def remove(self, layer: int | str | Module) -> Module:
        """Remove a layer, specified by position, name or itself, and return it."""
        position = self.index(layer)
        out = self.layers[position]
        self._replace(position, position + 1)
        return out

    def index(self, layer: int | str | Module) -> int:
        """Return the position of a layer, specified by name, itself or position.

        Raises
        ------
        KeyError, IndexError, ValueError
            There is no such name, position or layer.
        """
        if isinstance(layer, str):
            names = self.names
            if layer not in names:
                raise KeyError(f"Sequential: no layer is called {layer!r}; there are {', '.join(names) or 'none'}")
            return names.index(layer)
        position = None if isinstance(layer, Module) else int_or_none(layer)
        if position is not None:
            if not -len(self) <= position < len(self):
                raise IndexError(f"Sequential: position {position}, but there are {len(self)} layers")
            return position % len(self)
        position = next((i for i, item in enumerate(self.layers) if item is layer), None)
        if position is None:
            raise ValueError(f"Sequential: {layer!r} is not one of its layers")
        return position

    def __len__(self) -> int:
        return len(self.layers)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, i: Any) -> Any:
        """Return a layer by position or name, or for a slice a Sequential of the same layers."""
        if isinstance(i, slice):
            return Sequential(*(layer if name is None else (name, layer) for layer, name in zip(
                self.layers[i], self.given_names[i], strict=True)))
        return self.layers[self.index(i)]

    def __setitem__(self, i: int | str, layer: Module) -> None:
        position = self.index(i)
        name = self.given_names[position]
        self.remove(position)
        self._put_layer(position, layer, name)

    def __delitem__(self, i: int | str) -> None:
        self.remove(i)

    def __getattr__(self, name: str) -> Module:
        """Return the layer that was given this name."""
        names = self.__dict__.get("given_names", ())
        return self.layers[names.index(name)] if name in names else object.__getattribute__(self, name)  # raises its error again

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace the layer that was given this name, or set an attribute."""
        if isinstance(value, Module) and name in self.__dict__.get("given_names", ()):
            self[name] = value
        else:
            super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)


add_foreign_names(Sequential, SEQUENTIAL)


def _refuse_result(layers: tuple[Module, ...], position: int, result: Any) -> TypeError:
    """Return the error of the layer at ``position``, which cannot take the ``result`` of the layer before it."""
    before, after = (type(layers[i]).__name__ for i in (position - 1, position))
    kind = f"a {type(result).__name__} of {len(result)}" if isinstance(result, tuple | list) else repr(result)
    fix = "end its forward with `return`" if result is None else (
        "write a Module that passes on the part it needs, such as x, state = layer(x)")
    return TypeError(
        f"Sequential: layer {position - 1} ({before}) returns {kind}, which layer {position} ({after}) cannot take: {fix}"
    )


class Residual(Module):
    """``x + f(x)``, or ``shortcut(x) + f(x)``.

    He et al.: Deep residual learning for image recognition. 2015.

    Parameters
    ----------
    layers : one or more layers, applied one after the other as f
    shortcut : layer, optional, required if f changes the shape

    Raises
    ------
    ValueError, ShapeError
        There is no layer; called: the shapes of the two terms differ.

    >>> wf.nn.Residual(wf.nn.Linear(4, 4), wf.nn.ReLU())(wf.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(self, *layers: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        if not layers:
            raise ValueError("Residual: give at least one layer")
        self.inner = layers[0] if len(layers) == 1 and isinstance(layers[0], Module) else Sequential(*layers)
        self.shortcut = shortcut

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        y = self.inner(x)
        direct = x if self.shortcut is None else self.shortcut(x)
        if direct.shape != y.shape:
            shapes = f"the layers turn x {x.shape} into {y.shape}, which cannot be added to {direct.shape}"
            raise ShapeError(f"Residual: {shapes}: give a shortcut that returns the same shape")
        return direct + y


class Lambda(Module):
    """A function as a layer.

    Parameters
    ----------
    function : callable

    Raises
    ------
    TypeError
        ``function`` is not callable.

    >>> wf.nn.Lambda(lambda x: x * 2)(wf.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"Lambda: {function!r} is not a function")
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


complete_module(globals())
