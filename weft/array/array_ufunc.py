"""NumPy's ufuncs on Arrays: ``np.add(a, b)``, ``np.sin(a)``, ``np.add.at(a, i, v)``, ``out=``.

What weft has means what it means in ``wf`` (see ``operations.py``); the rest runs in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import eager_indexing
from weft.array.assignment import assigned
from weft.array.convert import as_node, cast, numpy_node, refuse_subclass
from weft.array.core import Array, wrap
from weft.array.indexing import fitted, refuse_at_once, scattered, select
from weft.array.operations import UFUNCS
from weft.array.views import follow, put
from weft.dtypes.formats import BOOL, DEFAULT, FLOAT64, FROM_NUMPY, INT32, Format, same_kind
from weft.eager.apply import bind
from weft.errors import DTypeError
from weft.graph.primitives.meeting import adding
from weft.graph.primitives.table import TABLE
from weft.runtime.cell import WRITING
from weft.runtime.traced_int import Given

_NUMBERS = (float, int, bool, Given)
_FUNCTIONS = ("matmul", "vecdot", "matvec", "vecmat")  # ufuncs that are functions of wf by the same name


def __array_ufunc__(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:  # noqa: N807
    """What NumPy's ufuncs ask of an Array; those that weft does not have run in NumPy."""
    if self.weak and all(type(x) in _NUMBERS or getattr(x, "weak", False) for x in inputs):
        inputs = tuple(wrap(x.as_dtype_node(FLOAT64)) if isinstance(x, Array) else x for x in inputs)  # as NumPy's own: float64
    outs = kwargs.pop("out", ())
    for x in (*inputs, *outs):
        refuse_subclass(x)
    if method == "at":
        return (_at if isinstance(inputs[0], Array) else _at_numpys)(ufunc, *inputs)
    if all(isinstance(out, Array) for out in outs):
        try:
            asked = _asked(ufunc, method, inputs, outs, kwargs)
            if asked is not None:
                return asked
            found = _own(ufunc, method, inputs, kwargs)
        except DTypeError:
            if all(map(_holdable, inputs)):
                raise
            found = None
        if found is not None:
            return _written(ufunc.__name__, found, outs) if outs else found
    if outs and not any(isinstance(out, Array) for out in outs):
        kwargs["out"] = outs
        outs = ()
    if outs and "where" in kwargs and all(isinstance(out, Array) for out in outs):  # elsewhere they stay as they are
        kwargs["out"] = tuple(np.array(out.numpy()) for out in outs)
        found = _in_numpy(getattr(ufunc, method), inputs, kwargs)
        del kwargs["out"]
    else:
        found = _in_numpy(getattr(ufunc, method), inputs, kwargs)
    if "out" in kwargs:
        return found
    if not outs:
        return tuple(_array(x) for x in found) if isinstance(found, tuple) else _array(found)
    results = found if isinstance(found, tuple) else (found,)
    for out, result in zip(outs, results, strict=True):
        if out is not None:
            out[...] = result
    made = tuple(_array(r) if out is None else out for out, r in zip(outs, results, strict=True))
    return made if isinstance(found, tuple) else made[0]


_OPTIONS = {
    "__call__": {"where", "dtype", "casting"}, "reduce": {"axis", "dtype", "keepdims", "initial", "where"},
    "accumulate": {"axis", "dtype"}, "reduceat": {"axis", "dtype"},
}


def _asked(ufunc: Any, method: str, inputs: tuple[Any, ...], outs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What weft's function gives that is called with ``out=`` or its like, or None."""
    import weft

    known = UFUNCS.get(ufunc.__name__)
    plain = not outs and (not options or method != "__call__")
    if known is None or plain or len(outs) > 1 or not set(options) <= _OPTIONS.get(method, set()):
        return None
    function = getattr(weft, known.name)
    asked = function if method == "__call__" else getattr(function, method, None)
    return None if asked is None else asked(*inputs, out=outs[0] if outs else None, **options)


def _own(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What weft's own function gives, or None."""
    import weft

    name = ufunc.__name__
    known = UFUNCS.get(name)
    if known is None:
        if method != "__call__" or options:
            return None
        if name == "divmod":
            return weft.floor_divide(*inputs), weft.remainder(*inputs)
        return getattr(weft, name)(*inputs) if name in _FUNCTIONS else None
    function = getattr(weft, known.name)
    if method == "__call__" and not options:
        return function(*inputs)
    if method == "outer" and not options:
        a, b = (weft.asarray(x) for x in inputs)
        return function(a.reshape(a.shape + (1,) * b.ndim), b)
    if method == "reduce" and known.fold and set(options) <= {"axis", "keepdims"}:
        return getattr(weft, known.fold)(*inputs, **{"axis": 0, **options})
    return None


def _written(name: str, found: Any, outs: tuple[Array, ...]) -> Any:
    pairs = zip(outs, found if isinstance(found, tuple) else (found,), strict=True)
    made = tuple(out._in_place(result.node, f"np.{name}(out=)") for out, result in pairs)
    return made if isinstance(found, tuple) else made[0]


def _in_numpy(call: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """NumPy's answer; floats that it makes of integers are made in float64 and become float32, as everywhere in weft."""
    plain = [x.numpy() if isinstance(x, Array) else x for x in inputs]
    options = {k: v.numpy() if isinstance(v, Array) else v for k, v in options.items()}
    found = call(*plain, **options)
    many = isinstance(found, tuple)
    made = any(np.asarray(x).dtype.kind == "f" for x in (found if many else (found,)))
    if not made or options.keys() & {"dtype", "out"} or not all(np.asarray(x).dtype.kind in "biu" for x in plain):
        return found
    try:
        found = call(*(np.asarray(x, np.float64) for x in plain), **options)
    except TypeError:  # some take integers beside floats, and nothing else
        pass
    narrow = [x.astype(DEFAULT.real.numpy) if x.dtype == np.float64 else x for x in map(np.asarray, found if many else (found,))]
    return tuple(narrow) if many else narrow[0]


def _holdable(x: Any) -> bool:
    """Whether this is no array that only NumPy can hold."""
    return not isinstance(x, np.ndarray | np.generic) or x.dtype.newbyteorder("=") in FROM_NUMPY


def _array(x: Any) -> Array:
    return wrap(numpy_node(np.asarray(x)))


def _held_exactly(value: Any, dtype: Format) -> bool:
    """Whether what is added is of a kind that ``dtype`` holds: what it does not hold is added first and then cut off."""
    kind = FROM_NUMPY.get(value.dtype) if isinstance(value, Array | np.ndarray | np.generic) else None
    return same_kind(as_node(value, dtype).dtype if kind is None else kind, dtype)


def _at_numpys(ufunc: Any, *inputs: Any) -> None:
    ufunc.at(*[x.numpy() if isinstance(x, Array) else x for x in inputs])


def _at(ufunc: Any, target: Array, index: Any, *values: Any) -> None:
    """``np.add.at``: unbuffered, so repeated indices add up."""
    node = target.node
    given = assigned(values[0], node.dtype) if ufunc.__name__ in ("add", "subtract") and len(values) == 1 else None
    refused = node.dtype is BOOL and ufunc.__name__ == "subtract"  # by NumPy
    if given is not None and not refused and _held_exactly(values[0], node.dtype):
        if not node.dtype.narrow and node.dtype is not BOOL and not target.read_only:
            with WRITING, np.errstate(all="ignore"):
                if eager_indexing.written(target, index, values[0], lambda x, i, v: ufunc.at(x, i, np.asarray(v, x.dtype))):
                    return
        if ufunc.__name__ == "subtract":
            given = bind(TABLE["negative"], given)
        chosen = select(index, node.shape)
        if chosen.axes:
            refuse_at_once(chosen.indices)
            wide = INT32 if node.dtype is BOOL else node.dtype  # the sum of bools: whether any is true
            fresh = cast(scattered(cast(node, wide), chosen, cast(given, wide), adding(wide)), node.dtype)
        else:
            view = follow(node, chosen.path)
            fresh = put(node, chosen.path, bind(TABLE["add"], view, fitted(given, view.shape)))
        target._in_place(fresh, f"{ufunc.__name__}.at")
        return
    content = np.array(target.numpy())
    plain = [x.numpy() if isinstance(x, Array) else x for x in values]
    ufunc.at(content, index.numpy() if isinstance(index, Array) else index, *plain)
    target[...] = content
