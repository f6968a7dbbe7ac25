"""NumPy's functions called with Arrays: ``np.mean(a, axis=0)`` is ``wf.mean(a, axis=0)``, and what weft lacks NumPy does.

What a call gives is an Array wherever weft has a function of that name. A keyword that weft's function does not have is left
out where it says what NumPy does anyway; otherwise NumPy computes, and the results come back as Arrays. Functions that weft does
not have, and operands that it cannot hold (text, objects, None), give what NumPy gives.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np

from weft.array.convert import numpy_node, refuse_subclasses
from weft.array.core import Array, wrap
from weft.dtypes.formats import FROM_NUMPY
from weft.errors import DTypeError

_MADE_BY_NUMPY = frozenset(("linspace", "arange", "full"))  # of one number, not of arrays
_WRITES = frozenset(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))  # into what they are given first
_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def __array_function__(self: Array, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N807
    """What NumPy's functions that are no ufuncs ask of an Array."""
    import weft

    if not all([issubclass(kind, Array | np.ndarray) for kind in types]):
        return NotImplemented  # whose arrays these are may know weft; weft does not know them
    refuse_subclasses((args, tuple(kwargs.values())), set(types))
    home = {"numpy": weft, "numpy.linalg": weft.linalg, "numpy.fft": weft.fft}.get(func.__module__)
    found = getattr(home, func.__name__, None) if func.__name__ not in _MADE_BY_NUMPY else None
    if func.__name__ in _WRITES and not isinstance((*args, *kwargs.values())[0], Array):
        found = None
    if found is None:
        return func(*plain(args), **plain(kwargs))
    given = as_ours(func, found, args, kwargs)
    if given is None:
        return arrays(func(*plain(args), **plain(kwargs)))
    try:
        return found(*given[0], **given[1])
    except DTypeError:
        if holdable(args) and holdable(kwargs):
            raise
    return func(*plain(args), **plain(kwargs))


def as_ours(
    theirs: Any, ours: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments of NumPy's function as weft's takes them: by its names and places. None where it does not take them."""
    have = _parameters(ours)
    if have is None:
        return args, kwargs
    if len(args) > len(have.places) and not have.many:
        return None
    if have.names.issuperset(kwargs):
        return args, kwargs
    asked = inspect.signature(theirs).parameters
    places = [name for name, p in asked.items() if p.kind in _PLACED]
    listed, named = list(args), dict(kwargs)
    for k in range(len(args), len(places)):  # places follow each other without a gap
        if places[k] in have.names or places[k] not in named or k >= len(have.places) or k != len(listed):
            continue
        if have.places[k] != places[k] and have.places[k] in asked:  # it means something else, or stands elsewhere
            break
        listed.append(named.pop(places[k]))
    for name in [name for name in named if name not in have.names]:
        other = have.places[places.index(name)] if name in places and places.index(name) < len(have.places) else None
        if other in have.names and other not in asked:
            named[other] = named.pop(name)
        elif name in asked and _same(named[name], asked[name].default):
            del named[name]
        else:
            return None
    return tuple(listed), named


class _Parameters:
    """places : names of what may be given by place. names : of what may be given by name. many : ``*args``."""

    __slots__ = ("many", "names", "places")

    def __init__(self, found: inspect.Signature) -> None:
        parameters = found.parameters.values()
        self.many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self.places = [p.name for p in parameters if p.kind in _PLACED]
        self.names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


@functools.cache
def _parameters(function: Any) -> _Parameters | None:
    """What a function of weft takes; None where that cannot be told, or where it takes any name."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return None if any(p.kind is p.VAR_KEYWORD for p in found.parameters.values()) else _Parameters(found)


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | int) and type(value) is type(default) and value == default)


def plain(x: Any) -> Any:
    """Arguments with NumPy's arrays for weft's, in lists, tuples and dicts too."""
    if isinstance(x, Array):
        return x.numpy()
    if type(x) in (list, tuple):
        return type(x)([plain(item) for item in x])
    return {name: plain(item) for name, item in x.items()} if type(x) is dict else x


def arrays(x: Any) -> Any:
    """Results as Arrays, where weft has their dtype."""
    if isinstance(x, tuple | list):
        made = [arrays(item) for item in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    held = isinstance(x, np.ndarray | np.generic) and x.dtype.newbyteorder("=") in FROM_NUMPY
    return wrap(numpy_node(np.asarray(x))) if held else x


def holdable(x: Any) -> bool:
    """Whether nothing is among the operands that only NumPy can hold."""
    if type(x) is dict:
        return all(holdable(item) for item in x.values() if item is not None)
    if type(x) in (list, tuple):
        return all(map(holdable, x))
    return x is not None and not (isinstance(x, np.ndarray | np.generic) and x.dtype.newbyteorder("=") not in FROM_NUMPY)
