"""NumPy's functions on Arrays: ``np.mean(a, axis=0)`` calls ``wf.mean(a, axis=0)``, or NumPy where weft has no such function.

The result is an Array if weft has a function of that name. A keyword that weft's function lacks is dropped if it has NumPy's
default value; otherwise NumPy computes and its results become Arrays. Functions that weft does not have, and operands that it
cannot hold (text, objects, None), return NumPy's result.
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

_MADE_BY_NUMPY = frozenset(("linspace", "arange", "full"))  # created from numbers, not from arrays
_WRITES = frozenset(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))  # into their first argument
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def __array_function__(self: Array, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N807
    """Handle a NumPy function that is not a ufunc; NumPy calls this."""
    import weft

    if not all([issubclass(kind, Array | np.ndarray) for kind in types]):
        return NotImplemented  # the other library may support weft's arrays
    refuse_subclasses((args, tuple(kwargs.values())), set(types))
    home = {"numpy": weft, "numpy.linalg": weft.linalg, "numpy.fft": weft.fft}.get(func.__module__)
    function = getattr(home, func.__name__, None) if func.__name__ not in _MADE_BY_NUMPY else None
    if func.__name__ in _WRITES and not isinstance((*args, *kwargs.values())[0], Array):
        function = None
    if function is None:
        return func(*plain(args), **plain(kwargs))
    arguments = as_ours(func, function, args, kwargs)
    if arguments is None:
        return arrays(func(*plain(args), **plain(kwargs)))
    try:
        return function(*arguments[0], **arguments[1])
    except DTypeError:
        if can_hold(args) and can_hold(kwargs):
            raise
    return func(*plain(args), **plain(kwargs))


def as_ours(
    theirs: Any, ours: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of NumPy's function as weft's function takes them. Return None if it does not take them."""
    accepted = _read_parameters(ours)
    if accepted is None:
        return args, kwargs
    if len(args) > len(accepted.places) and not accepted.many:
        return None
    if accepted.names.issuperset(kwargs):
        return args, kwargs
    expected = inspect.signature(theirs).parameters
    places = [name for name, p in expected.items() if p.kind in _POSITIONAL]
    positional, named = list(args), dict(kwargs)
    for k in range(len(args), len(places)):  # positional arguments must be contiguous
        if places[k] in accepted.names or places[k] not in named or k >= len(accepted.places) or k != len(positional):
            continue
        if accepted.places[k] != places[k] and accepted.places[k] in expected:  # weft's parameter in this place is another one
            break
        positional.append(named.pop(places[k]))
    for name in [name for name in named if name not in accepted.names]:
        candidate = accepted.places[places.index(name)] if name in places and places.index(name) < len(accepted.places) else None
        if candidate in accepted.names and candidate not in expected:
            named[candidate] = named.pop(name)
        elif name in expected and _same(named[name], expected[name].default):
            del named[name]
        else:
            return None
    return tuple(positional), named


class _Parameters:
    """places : names of positional parameters. names : names of keyword parameters. many : whether there is ``*args``"""

    __slots__ = ("many", "names", "places")

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        self.many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self.places = [p.name for p in parameters if p.kind in _POSITIONAL]
        self.names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


@functools.cache
def _read_parameters(function: Any) -> _Parameters | None:
    """Return the parameters of weft's function; None if they are unknown or if it accepts any keyword."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return None if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()) else _Parameters(signature)


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | int) and type(value) is type(default) and value == default)


def plain(x: Any) -> Any:
    """Replace weft's arrays by NumPy's, in lists, tuples and dicts too."""
    if isinstance(x, Array):
        return x.numpy()
    if type(x) in (list, tuple):
        return type(x)([plain(item) for item in x])
    return {name: plain(item) for name, item in x.items()} if type(x) is dict else x


def arrays(x: Any) -> Any:
    """Convert results to Arrays if weft has their dtype."""
    if isinstance(x, tuple | list):
        results = [arrays(item) for item in x]
        return type(x)(*results) if hasattr(x, "_fields") else type(x)(results)
    supported = isinstance(x, np.ndarray | np.generic) and x.dtype.newbyteorder("=") in FROM_NUMPY
    return wrap(numpy_node(np.asarray(x))) if supported else x


def can_hold(x: Any) -> bool:
    """Return whether weft can hold all operands: none is None or an array of a dtype that only NumPy has."""
    if type(x) is dict:
        return all(can_hold(item) for item in x.values() if item is not None)
    if type(x) in (list, tuple):
        return all(map(can_hold, x))
    return x is not None and not (isinstance(x, np.ndarray | np.generic) and x.dtype.newbyteorder("=") not in FROM_NUMPY)
