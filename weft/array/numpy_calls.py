"""NumPy's functions and ufuncs on Arrays: ``np.mean(a, axis=0)`` calls ``wf.mean(a, axis=0)``, or NumPy where weft has none.

The result is an Array if weft has a function of that name. A keyword that weft's function lacks is dropped if it has NumPy's
default value; otherwise NumPy computes and its results become Arrays. Functions that weft does not have, and operands that it
cannot hold (text, objects, None), return NumPy's result.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np

from weft.array import indexing
from weft.array.convert import as_node, cast, convert_assigned, numpy_node, refuse_subclass, refuse_subclasses
from weft.array.core import Array, ndarray, wrap
from weft.array.indexing import broadcast_value, check_pending_indices, scatter_selection, select
from weft.array.operations import UFUNCS
from weft.array.views import view_node, write_along_path
from weft.dtypes.formats import BOOL, DEFAULT, FLOAT32, FLOAT64, FROM_NUMPY, INT32, Format, same_kind
from weft.eager.apply import bind
from weft.errors import DTypeError
from weft.graph.primitives.settings import scatter_add_mode
from weft.graph.primitives.table import TABLE
from weft.runtime.cell import WRITE_LOCK
from weft.runtime.traced_int import TracedInt

_NUMPY_CREATION = frozenset(("linspace", "arange", "full"))  # created from numbers, not from arrays
_WRITES = frozenset(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))  # into their first argument
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def __array_function__(self: Array, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N807
    """Handle a NumPy function that is not a ufunc; NumPy calls this."""
    import weft

    if not all([issubclass(kind, Array | np.ndarray) for kind in types]):
        return NotImplemented  # the other library may support weft's arrays
    refuse_subclasses((args, tuple(kwargs.values())), set(types))
    home = {"numpy": weft, "numpy.linalg": weft.linalg, "numpy.fft": weft.fft}.get(func.__module__)
    function = getattr(home, func.__name__, None) if func.__name__ not in _NUMPY_CREATION else None
    if func.__name__ in _WRITES and not isinstance((*args, *kwargs.values())[0], Array):
        function = None
    if function is None:
        return func(*to_numpy_arrays(args), **to_numpy_arrays(kwargs))
    if (arguments := as_ours(func, function, args, kwargs)) is None:
        return arrays(func(*to_numpy_arrays(args), **to_numpy_arrays(kwargs)))
    try:
        return function(*arguments[0], **arguments[1])
    except DTypeError:
        if can_hold(args) and can_hold(kwargs):
            raise
    return func(*to_numpy_arrays(args), **to_numpy_arrays(kwargs))


def as_ours(
    theirs: Any, ours: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of NumPy's function as weft's function takes them. Return None if it does not take them."""
    if (accepted := _read_parameters(ours)) is None:
        return args, kwargs
    if len(args) > len(accepted.places) and not accepted.takes_many:
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

    __slots__ = ("takes_many", "names", "places")

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        self.takes_many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
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


def to_numpy_arrays(x: Any) -> Any:
    """Replace weft's arrays by NumPy's, in lists, tuples and dicts too."""
    if isinstance(x, Array):
        return x.numpy()
    if type(x) in (list, tuple):
        return type(x)([to_numpy_arrays(item) for item in x])
    return {name: to_numpy_arrays(item) for name, item in x.items()} if type(x) is dict else x


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


_NUMBERS = (float, int, bool, TracedInt)
_FUNCTIONS = ("matmul", "vecdot", "matvec", "vecmat")  # ufuncs that wf has under the same name


def __array_ufunc__(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:  # noqa: N807
    """Handle a NumPy ufunc; NumPy calls this. Ufuncs that weft does not have run in NumPy."""
    if self.weak and all(type(x) in _NUMBERS or getattr(x, "weak", False) for x in inputs):
        inputs = tuple(wrap(x.as_dtype_node(FLOAT64)) if isinstance(x, Array) else x for x in inputs)  # NumPy uses float64
    outs = kwargs.pop("out", ())
    for x in (*inputs, *outs):
        refuse_subclass(x)
    if method == "at":
        return _add_at(ufunc, *inputs) if isinstance(inputs[0], Array) else ufunc.at(*to_numpy_arrays(inputs))
    if all(isinstance(out, Array) for out in outs):
        try:
            if (handled := _call_with_options(ufunc, method, inputs, outs, kwargs)) is not None:
                return handled
            computed = _call_own(ufunc, method, inputs, kwargs)
        except DTypeError:
            if all(x is None or can_hold(x) for x in inputs):
                raise
            computed = None
        if computed is not None:
            return _write_out(ufunc.__name__, computed, outs) if outs else computed
    if outs and not any(isinstance(out, Array) for out in outs):
        kwargs["out"] = outs
        outs = ()
    options = kwargs
    if outs and "where" in kwargs and all(isinstance(out, Array) for out in outs):  # unselected elements keep their values
        options = kwargs | {"out": tuple(np.array(out.numpy()) for out in outs)}
    computed = _in_numpy(getattr(ufunc, method), inputs, options)
    if "out" in kwargs:
        return computed
    results = computed if isinstance(computed, tuple) else (computed,)
    for out, result in zip(outs, results, strict=False):
        if out is not None:
            out[...] = result
    places = outs or (None,) * len(results)
    arrays = tuple(_to_array(r) if out is None else out for out, r in zip(places, results, strict=True))
    return arrays if isinstance(computed, tuple) else arrays[0]


_OPTIONS = {
    "__call__": {"where", "dtype", "casting"}, "reduce": {"axis", "dtype", "keepdims", "initial", "where"},
    "accumulate": {"axis", "dtype"}, "reduceat": {"axis", "dtype"},
}


def _call_with_options(ufunc: Any, method: str, inputs: tuple[Any, ...], outs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call weft's function with ``out=`` or other options; return None if it does not take them."""
    import weft

    operation = UFUNCS.get(ufunc.__name__)
    no_options = not outs and (not options or method != "__call__")
    if operation is None or no_options or len(outs) > 1 or not set(options) <= _OPTIONS.get(method, set()):
        return None
    function = getattr(weft, operation.name)
    call = function if method == "__call__" else getattr(function, method, None)
    return None if call is None else call(*inputs, out=outs[0] if outs else None, **options)


def _call_own(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call weft's own function; return None if there is none."""
    import weft

    name = ufunc.__name__
    if (operation := UFUNCS.get(name)) is None:
        if method != "__call__" or options:
            return None
        if name == "divmod":
            return weft.floor_divide(*inputs), weft.remainder(*inputs)
        return getattr(weft, name)(*inputs) if name in _FUNCTIONS else None
    function = getattr(weft, operation.name)
    if method == "__call__" and not options:
        return function(*inputs)
    if method == "outer" and not options:
        a, b = (weft.asarray(x) for x in inputs)
        return function(a.reshape(a.shape + (1,) * b.ndim), b)
    if method == "reduce" and operation.fold and set(options) <= {"axis", "keepdims"}:
        return getattr(weft, operation.fold)(*inputs, **{"axis": 0, **options})
    return None


def _write_out(name: str, computed: Any, outs: tuple[Array, ...]) -> Any:
    pairs = zip(outs, computed if isinstance(computed, tuple) else (computed,), strict=True)
    arrays = tuple(out._in_place(result.node, f"np.{name}(out=)") for out, result in pairs)
    return arrays if isinstance(computed, tuple) else arrays[0]


def _in_numpy(call: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Compute in NumPy. Floats that NumPy makes of integers are computed in float64 and returned as float32, weft's default."""
    operands = [x.numpy() if isinstance(x, Array) else x for x in inputs]
    options = {k: v.numpy() if isinstance(v, Array) else v for k, v in options.items()}
    computed = call(*operands, **options)
    is_tuple = isinstance(computed, tuple)
    has_floats = any(np.asarray(x).dtype.kind == "f" for x in (computed if is_tuple else (computed,)))
    if not has_floats or options.keys() & {"dtype", "out"} or not all(np.asarray(x).dtype.kind in "biu" for x in operands):
        return computed
    try:
        computed = call(*(np.asarray(x, np.float64) for x in operands), **options)
    except TypeError:  # some ufuncs require an integer operand beside floats
        pass
    results = map(np.asarray, computed if is_tuple else (computed,))
    narrowed = [x.astype(DEFAULT.real.numpy) if x.dtype == np.float64 else x for x in results]
    return tuple(narrowed) if is_tuple else narrowed[0]


def _to_array(x: Any) -> Array:
    return wrap(numpy_node(np.asarray(x)))


def _holds_kind(value: Any, dtype: Format) -> bool:
    """Return whether ``dtype`` can hold the kind of the added value. If not, NumPy adds in the wider kind and then truncates."""
    kind = FROM_NUMPY.get(value.dtype) if isinstance(value, Array | np.ndarray | np.generic) else None
    return same_kind(as_node(value, dtype).dtype if kind is None else kind, dtype)


def _adds_natively(ufunc: Any, target: Any, values: tuple[Any, ...]) -> bool:
    """Return whether ``ufunc.at`` may compute in the memory of an array: NumPy then has weft's dtypes and roundings, and does not
    warn."""
    if ufunc.__name__ not in ("add", "subtract") or len(values) != 1 or type(target) is not ndarray or target._base is not None:
        return False
    dtype, value = target._node.dtype, values[0]
    return (dtype is FLOAT32 or dtype is FLOAT64) and isinstance(value, ndarray) and value.node.dtype is dtype


def _add_at(ufunc: Any, target: Array, index: Any, *values: Any) -> None:
    """Implement ``ufunc.at``: unbuffered, so values at repeated indices accumulate."""
    if _adds_natively(ufunc, target, values):
        with np.errstate(all="ignore"):
            if indexing.write_natively(target, index, values[0], ufunc.at):
                return
    node = target.node
    addend = convert_assigned(values[0], node.dtype) if ufunc.__name__ in ("add", "subtract") and len(values) == 1 else None
    is_refused = node.dtype is BOOL and ufunc.__name__ == "subtract"  # NumPy refuses it
    if addend is not None and not is_refused and _holds_kind(values[0], node.dtype):
        if not node.dtype.narrow and node.dtype is not BOOL and not target.read_only:
            with WRITE_LOCK, np.errstate(all="ignore"):
                if indexing.write_eagerly(target, index, values[0], lambda x, i, v: ufunc.at(x, i, np.asarray(v, x.dtype))):
                    return
        if ufunc.__name__ == "subtract":
            addend = bind(TABLE["negative"], addend)
        selection = select(index, node.shape)
        if selection.axes:
            check_pending_indices(selection.indices)
            sum_dtype = INT32 if node.dtype is BOOL else node.dtype  # a sum of bools is true if any is
            total, mode = cast(node, sum_dtype), scatter_add_mode(sum_dtype)
            fresh = cast(scatter_selection(total, selection, cast(addend, sum_dtype), mode), node.dtype)
        else:
            view = view_node(node, selection.path)
            fresh = write_along_path(node, selection.path, bind(TABLE["add"], view, broadcast_value(addend, view.shape)))
        target._in_place(fresh, f"{ufunc.__name__}.at")
        return
    content = np.array(target.numpy())
    operands = [x.numpy() if isinstance(x, Array) else x for x in values]
    ufunc.at(content, index.numpy() if isinstance(index, Array) else index, *operands)
    target[...] = content
