"""Layers made of layers: Sequential, Residual, Lambda."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.nn.module import Module
from weft.nn.module_tree import ModuleTree, modules_in
from weft.nn.size_arguments import whole


class Sequential(Module):
    """Layers one after another, and a list that can be changed: append, insert, remove, index, ``[i]``, ``[name]``, ``len``.

    A layer without a name of its own is called by its kind and its number among those of its kind ("linear1"). Its
    parameters then carry its position ("0.weight"), as in PyTorch; those of a layer with a name carry the name.

    Parameters
    ----------
    layers : Modules or functions, or pairs of a name and one of these

    Raises
    ------
    TypeError, ValueError
        Not a layer; a name that is taken, a number, or has a dot in it.

    Examples
    --------
    >>> import weft as wf
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
        self.layers: tuple[Module, ...] = ()  # tuples: what they hold changes by the methods below alone
        self.given: tuple[str | None, ...] = ()  # names that were given, None for automatic ones
        for i, layer in enumerate(layers):
            name, layer = layer if isinstance(layer, tuple) else (None, layer)
            self._put(i, layer, name)

    def _put(self, position: int, layer: Any, name: str | None) -> None:
        if not callable(layer):
            raise TypeError(f"Sequential: layer {position} is a {type(layer).__name__}, not a layer")
        layer = layer if isinstance(layer, Module) else Lambda(layer)
        if name is not None:
            if not isinstance(name, str) or not name or name.isdigit() or "." in name:
                raise ValueError(f"Sequential: a name must be a word without dots that is no number, not {name!r}")
            if name in self.names:
                raise ValueError(f"Sequential: there is a layer {name!r} already: {', '.join(self.names)}")
        self._take(position, position, (layer,), (name,))

    def _take(self, start: int, end: int, layers: tuple[Module, ...] = (), names: tuple[str | None, ...] = ()) -> None:
        """Put layers in the place of those from ``start`` to ``end``."""
        self.layers = self.layers[:start] + layers + self.layers[end:]
        self.given = self.given[:start] + names + self.given[end:]

    @property
    def names(self) -> list[str]:
        """One name a layer, in order."""
        taken = {name for name in self.given if name is not None}
        count: dict[str, int] = {}
        found = []
        for layer, name in zip(self.layers, self.given, strict=True):
            if name is None:
                kind = type(layer).__name__.lower()
                while True:
                    count[kind] = count.get(kind, 0) + 1
                    name = f"{kind}{count[kind]}"
                    if name not in taken:
                        break
            found.append(name)
        return found

    def forward(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x

    def children(self) -> Iterator[tuple[str, ModuleTree]]:
        """(name given or position, layer): parameters are named ``0.weight`` as in PyTorch; then what a subclass adds."""
        for i, (name, layer) in enumerate(zip(self.given, self.layers, strict=True)):
            yield name or str(i), layer
        for name, value in self.__dict__.items():
            if name != "layers":
                yield from modules_in(name, value)

    def append(self, layer: Module, name: str | None = None) -> Sequential:
        """Add a layer (or a function) at the end; returns itself."""
        self._put(len(self.layers), layer, name)
        return self

    def insert(self, index: int | str, layer: Module, name: str | None = None) -> Sequential:
        """Add a layer in front of the one at ``index`` (position or name); returns itself."""
        position = self.index(index) if isinstance(index, str) else index
        position = max(position + len(self), 0) if position < 0 else min(position, len(self))
        self._put(position, layer, name)
        return self

    def remove(self, layer: int | str | Module) -> Module:
        """Take out a layer by position, name or itself; returns the layer."""
        position = self.index(layer)
        out = self.layers[position]
        self._take(position, position + 1)
        return out

    def index(self, layer: int | str | Module) -> int:
        """The position of a layer, found by its name, itself or its position.

        Raises
        ------
        KeyError, IndexError, ValueError
            when there is no such name, position or layer.
        """
        if isinstance(layer, str):
            names = self.names
            if layer not in names:
                raise KeyError(f"Sequential: no layer is called {layer!r}; there are {', '.join(names) or 'none'}")
            return names.index(layer)
        position = None if isinstance(layer, Module) else whole(layer)
        if position is not None:
            if not -len(self) <= position < len(self):
                raise IndexError(f"Sequential: position {position}, but there are {len(self)} layers")
            return position % len(self)
        for i, own in enumerate(self.layers):
            if own is layer:
                return i
        raise ValueError(f"Sequential: {layer!r} is not one of its layers")

    def __len__(self) -> int:
        return len(self.layers)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, i: Any) -> Any:
        """A layer by position or name; a slice gives a Sequential of the same layers."""
        if isinstance(i, slice):
            return Sequential(*(layer if name is None else (name, layer) for layer, name in zip(
                self.layers[i], self.given[i], strict=True)))
        return self.layers[self.index(i)]

    def __setitem__(self, i: int | str, layer: Module) -> None:
        position = self.index(i)
        name = self.given[position]
        self.remove(position)
        self._put(position, layer, name)

    def __delitem__(self, i: int | str) -> None:
        self.remove(i)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)


class Residual(Module):
    """``x + f(x)``, or ``shortcut(x) + f(x)``.

    He et al.: Deep residual learning for image recognition. 2015.

    Parameters
    ----------
    layers : one or more layers, f being one after the other
    shortcut : layer, optional, for where f changes the shape

    Raises
    ------
    ValueError, ShapeError
        No layer; called: the layers change the shape, and there is no shortcut that does.

    Examples
    --------
    >>> import weft as wf
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
        near = x if self.shortcut is None else self.shortcut(x)
        if near.shape != y.shape:
            raise ShapeError(
                f"Residual: the layers make {y.shape} of x {x.shape}, which does not add to {near.shape}: give a shortcut that "
                "makes the same shape"
            )
        return near + y


class Lambda(Module):
    """A function as a layer.

    Parameters
    ----------
    function : callable

    Raises
    ------
    TypeError
        ``function`` cannot be called.

    Examples
    --------
    >>> import weft as wf
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
