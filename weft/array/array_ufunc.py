"""NumPy's ufuncs on Arrays: ``np.add(a, b)``, ``np.sin(a)``, ``np.add.at(a, i, v)``, ``out=``.

A ufunc that weft has runs in weft (see ``operations.py``); the others run in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import eager_indexing
from weft.array.assignment import assigned
from weft.array.convert import as_node, cast, numpy_node, refuse_subclass
from weft.array.core import Array, wrap
from weft.array.indexing import broadcast_value, check_pending_indices, scattered, select
from weft.array.operations import UFUNCS
from weft.array.views import follow, put
from weft.dtypes.formats import BOOL, DEFAULT, FLOAT64, FROM_NUMPY, INT32, Format, same_kind
from weft.eager.apply import bind
from weft.errors import DTypeError
from weft.graph.primitives.settings import scatter_add_mode
from weft.graph.primitives.table import TABLE
from weft.runtime.cell import WRITE_LOCK
from weft.runtime.traced_int import TracedInt

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
        return (_add_at if isinstance(inputs[0], Array) else _at_in_numpy)(ufunc, *inputs)
    if all(isinstance(out, Array) for out in outs):
        try:
            handled = _call_with_options(ufunc, method, inputs, outs, kwargs)
            if handled is not None:
                return handled
            computed = _call_own(ufunc, method, inputs, kwargs)
        except DTypeError:
            if all(map(_holdable, inputs)):
                raise
            computed = None
        if computed is not None:
            return _write_out(ufunc.__name__, computed, outs) if outs else computed
    if outs and not any(isinstance(out, Array) for out in outs):
        kwargs["out"] = outs
        outs = ()
    if outs and "where" in kwargs and all(isinstance(out, Array) for out in outs):  # unselected elements keep their values
        kwargs["out"] = tuple(np.array(out.numpy()) for out in outs)
        computed = _in_numpy(getattr(ufunc, method), inputs, kwargs)
        del kwargs["out"]
    else:
        computed = _in_numpy(getattr(ufunc, method), inputs, kwargs)
    if "out" in kwargs:
        return computed
    if not outs:
        return tuple(_to_array(x) for x in computed) if isinstance(computed, tuple) else _to_array(computed)
    results = computed if isinstance(computed, tuple) else (computed,)
    for out, result in zip(outs, results, strict=True):
        if out is not None:
            out[...] = result
    arrays = tuple(_to_array(r) if out is None else out for out, r in zip(outs, results, strict=True))
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
    operation = UFUNCS.get(name)
    if operation is None:
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


def _holdable(x: Any) -> bool:
    """Return whether weft can hold this operand: it is not an array of a dtype that only NumPy has."""
    return not isinstance(x, np.ndarray | np.generic) or x.dtype.newbyteorder("=") in FROM_NUMPY


def _to_array(x: Any) -> Array:
    return wrap(numpy_node(np.asarray(x)))


def _holds_kind(value: Any, dtype: Format) -> bool:
    """Return whether ``dtype`` can hold the kind of the added value. If not, NumPy adds in the wider kind and then truncates."""
    kind = FROM_NUMPY.get(value.dtype) if isinstance(value, Array | np.ndarray | np.generic) else None
    return same_kind(as_node(value, dtype).dtype if kind is None else kind, dtype)


def _at_in_numpy(ufunc: Any, *inputs: Any) -> None:
    ufunc.at(*[x.numpy() if isinstance(x, Array) else x for x in inputs])


def _add_at(ufunc: Any, target: Array, index: Any, *values: Any) -> None:
    """Implement ``ufunc.at``: unbuffered, so values at repeated indices accumulate."""
    node = target.node
    addend = assigned(values[0], node.dtype) if ufunc.__name__ in ("add", "subtract") and len(values) == 1 else None
    is_refused = node.dtype is BOOL and ufunc.__name__ == "subtract"  # NumPy refuses it
    if addend is not None and not is_refused and _holds_kind(values[0], node.dtype):
        if not node.dtype.narrow and node.dtype is not BOOL and not target.read_only:
            with WRITE_LOCK, np.errstate(all="ignore"):
                if eager_indexing.written(target, index, values[0], lambda x, i, v: ufunc.at(x, i, np.asarray(v, x.dtype))):
                    return
        if ufunc.__name__ == "subtract":
            addend = bind(TABLE["negative"], addend)
        selection = select(index, node.shape)
        if selection.axes:
            check_pending_indices(selection.indices)
            sum_dtype = INT32 if node.dtype is BOOL else node.dtype  # a sum of bools is true if any is
            fresh = cast(
                scattered(cast(node, sum_dtype), selection, cast(addend, sum_dtype), scatter_add_mode(sum_dtype)), node.dtype
            )
        else:
            view = follow(node, selection.path)
            fresh = put(node, selection.path, bind(TABLE["add"], view, broadcast_value(addend, view.shape)))
        target._in_place(fresh, f"{ufunc.__name__}.at")
        return
    content = np.array(target.numpy())
    operands = [x.numpy() if isinstance(x, Array) else x for x in values]
    ufunc.at(content, index.numpy() if isinstance(index, Array) else index, *operands)
    target[...] = content
