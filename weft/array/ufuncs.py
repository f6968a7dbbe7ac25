"""NumPy's functions on Arrays: ``np.add(a, b)``, ``np.sin(a)``, ``np.add.at(a, i, v)``, ``out=``; ``np.mean(a, axis=0)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.core import Array, wrap
from weft.array.meaning import apply, matmul
from weft.convert import as_node, cast, operands
from weft.dtypes import bool as BOOL
from weft.dtypes import floating, is_float
from weft.graph.primitives.table import TABLE, bind
from weft.indexing import scattered, select
from weft.views import follow, put

# ufunc name -> primitive; NumPy's spelling where it differs
_BINARY = {
    **{n: n for n in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum", "equal", "not_equal",
        "less", "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "hypot",
        "logaddexp", "nextafter",
    )},
    "power": "pow", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "arctan2": "atan2",
}
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_FLOATING = {
    **{n: n for n in ("sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
}
_ALIKE = {
    "negative": "negative", "absolute": "abs", "fabs": "abs", "sign": "sign", "square": "square", "reciprocal": "reciprocal",
    "invert": "bitwise_invert", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round",
}
_TESTS = {"isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit"}
_MADE_BY_NUMPY = frozenset(("linspace", "arange", "full"))  # of one number, not of arrays
_WHOLE = frozenset(("floor", "ceil", "trunc", "round"))


def ufunc_call(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``Array.__array_ufunc__`` answers; ufuncs that weft does not have run in NumPy."""
    out = kwargs.get("out")
    if out is not None:
        out = out[0] if isinstance(out, tuple) else out
    if method == "at" and isinstance(inputs[0], Array):
        _at(ufunc, *inputs)
        return None
    if method == "__call__" and set(kwargs) <= {"out"} and (out is None or isinstance(out, Array)):
        node = _node(ufunc.__name__, inputs)
        if node is not None:
            if out is None:
                return wrap(node)
            return out._in_place(node, f"np.{ufunc.__name__}(out=)")
    plain = [x.numpy() if isinstance(x, Array) else x for x in inputs]
    if isinstance(out, Array):
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        out[...] = getattr(ufunc, method)(*plain, **kwargs)
        return out
    found = getattr(ufunc, method)(*plain, **kwargs)
    if out is not None:
        return found
    return tuple(wrap(as_node(x)) for x in found) if isinstance(found, tuple) else wrap(as_node(found))


def function_call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``Array.__array_function__`` answers: weft's function of that name, else what NumPy does with an Array."""
    import weft

    home = {"numpy": weft, "numpy.linalg": weft.linalg}.get(func.__module__)
    own = getattr(home, func.__name__, None) if func.__name__ not in _MADE_BY_NUMPY else None
    if own is not None:
        return own(*args, **kwargs)
    return func._implementation(*args, **kwargs)


def _node(name: str, inputs: tuple[Any, ...]) -> Any:
    if name in _BINARY and len(inputs) == 2:
        return apply(_BINARY[name], *inputs)
    if name == "matmul":
        return matmul(*operands(*inputs))
    if name in _LOGICAL:
        a, b = (as_node(x) for x in inputs)
        return bind(TABLE[name], *(x if x.dtype == BOOL else bind(TABLE["not_equal"], *operands(x, 0)) for x in (a, b)))
    if len(inputs) != 1:
        return None
    x = as_node(inputs[0])
    if name in _FLOATING:
        return bind(TABLE[_FLOATING[name]], cast(x, floating(x.dtype)))
    if name == "logical_not":
        return bind(TABLE["equal"], *operands(x, 0)) if x.dtype != BOOL else bind(TABLE["logical_not"], x)
    if name in _ALIKE:
        primitive = _ALIKE[name]
        if primitive in _WHOLE and not is_float(x.dtype):
            return x
        return bind(TABLE[primitive], x)
    if name in _TESTS and is_float(x.dtype):
        return bind(TABLE[_TESTS[name]], x)
    return None


def _at(ufunc: Any, target: Array, index: Any, *values: Any) -> None:
    """``np.add.at``: unbuffered, so repeated indices add up."""
    node = target.node
    if ufunc.__name__ in ("add", "subtract") and len(values) == 1:
        given = cast(as_node(values[0], node.dtype), node.dtype)
        if ufunc.__name__ == "subtract":
            given = bind(TABLE["negative"], given)
        chosen = select(index, node.shape)
        if chosen.axes:
            view = follow(node, chosen.path)
            fresh = scattered(view, chosen, given, "add")
            target._set(put(node, chosen.path, fresh) if chosen.path else fresh)
            return
    content = np.array(target.numpy())
    plain = [x.numpy() if isinstance(x, Array) else x for x in values]
    ufunc.at(content, index.numpy() if isinstance(index, Array) else index, *plain)
    target[...] = content
