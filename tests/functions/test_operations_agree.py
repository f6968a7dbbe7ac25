"""One meaning for every name: method, function, ufunc and operator give the same, and what they give is NumPy's answer.

Results are evaluated by the graph interpreter, with the NumPy references of the primitives; a share of them is compiled
besides (each primitive's kernels have their own tests). NumPy is asked for values, dtypes and refusals; where weft
differs from it is said by :func:`wanted_dtype`, a rule, alone.
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import RTOL
from weft.array.methods import NAMES
from weft.array.operations import OPERATIONS, Operation
from weft.dtypes import api
from weft.dtypes.api import is_float
from weft.eager.materialise import read_array
from weft.graph.interpret import interpret
from weft.graph.node import Graph, topological_order

UNARY = [o for o in OPERATIONS.values() if o.arity == 1]
BINARY = [o for o in OPERATIONS.values() if o.arity == 2]
SMALL = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # test_machine.py has the others' operations
ALL = [d for d in api.ALL if d.isbuiltin == 1 or d.name in SMALL]
NUMPYS = [d for d in ALL if d.isbuiltin == 1]
NARROW = [d for d in ALL if d.isbuiltin != 1]  # ml_dtypes'
NUMBERS = (True, 0, 1, 2, -1, 3, 200, 300, -200, 70_000, 2**40, -(2**40), 0.5, -1.5, 1e10)
REFUSALS = (TypeError, ValueError, OverflowError, IndexError)


# ---- outcomes

def value_of(x: wf.Array) -> np.ndarray:
    """The content of a pending Array by the graph interpreter."""
    leaves = [n for n in topological_order([x.node]) if n.value is not None]
    values = [n.value if n.op.name == "scalar" else read_array(n) for n in leaves]
    with np.errstate(all="ignore"):
        return np.asarray(interpret(Graph(leaves, [x.node]), values)[0])


def outcome(f: Callable[..., Any], *xs: Any, **options: Any) -> Any:
    """What a call gives, an Array or its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*xs, **options)
        except REFUSALS as error:
            return error


def described(x: Any) -> Any:
    """What two outcomes must have in common to be the same."""
    if isinstance(x, Exception):
        return type(x), re.sub(r"^\w+: (x\d?: )?", "", str(x))  # operators have no names
    found = value_of(x)
    return type(x), found.dtype, found.shape, found.tobytes()


def data(dtype: np.dtype, count: int = 8) -> np.ndarray:
    """Edges of the dtype, and what lies between."""
    if dtype == np.bool_:
        return np.arange(count) % 3 == 0
    if is_float(dtype):
        edges = [0.0, -0.0, 1.0, 1.5, -2.5, np.inf, np.nan, 3.0]
    else:
        limits = np.iinfo(dtype)
        edges = [0, 1, 2, limits.max, limits.min, 5, 7, max(limits.min, -1)]
    return np.resize(np.array(edges, dtype), count)


def wanted_dtype(numpys: np.dtype, *operands: Any) -> np.dtype:
    """weft's dtype for NumPy's: floats that NumPy makes of integers are float32, and Python's floats are no float64.

    Only integers that promote to float64 (uint64 and a signed dtype) are too wide for float32.
    """
    dtypes = [x.dtype for x in operands if isinstance(x, np.ndarray)]
    if numpys.kind != "f" or any(d.kind == "f" for d in dtypes) and (numpys != np.float64 or np.float64 in dtypes):
        return numpys
    whole = [d for d in dtypes if d.kind in "biu"]
    return np.dtype(np.float64) if whole == dtypes and np.result_type(*whole) == np.float64 else np.dtype(np.float32)


def numpys_answer(name: str, *xs: Any) -> Any:
    """(value in the dtype that weft gives it, dtype), or the error."""
    f = getattr(np, name)
    raw = outcome(f, *xs)
    if isinstance(raw, Exception):
        return raw
    if name == "ldexp":  # the exponents do not count
        dtype = wanted_dtype(np.asarray(raw).dtype, xs[0]) if isinstance(xs[0], np.ndarray) else np.dtype(np.float32)
    else:
        dtype = wanted_dtype(np.asarray(raw).dtype, *xs)
    dtype = np.dtype(np.float64) if name == "float_power" else dtype
    if name == "ldexp":
        with np.errstate(all="ignore"):
            return np.asarray(f(np.asarray(xs[0]).astype(dtype), np.asarray(xs[1])))
    if is_float(dtype):  # of the operands in that dtype; computed without further rounding
        within = dtype if name in ("nextafter", "spacing") else np.dtype(np.float64)
        with np.errstate(all="ignore"):
            raw = f(*(np.asarray(x).astype(dtype).astype(within) for x in xs))
        if name == "spacing":
            raw = np.copysign(raw, np.where(np.less(xs[0], 0), -1, 1))  # NumPy's float16 has lost the sign
    elif name == "reciprocal":
        raw = np.where(xs[0] == 0, 0, raw)  # division by zero of integers is 0, whatever the dtype
    with np.errstate(all="ignore"):
        return np.asarray(raw).astype(dtype)


def narrow_answer(name: str, *xs: np.ndarray) -> Any:
    """NumPy's answer in float32, rounded once to the one format of ml_dtypes that all operands have."""
    own = xs[0].dtype
    if name in ("nextafter", "spacing"):
        return outcome(getattr(np, name), *xs) if own.itemsize == 1 else None
    want = numpys_answer(name, *(x.astype(np.float32) for x in xs))
    if isinstance(want, Exception) or want.dtype != np.float32:
        return want
    with np.errstate(all="ignore"):
        return want.astype(own)


def apart(a: np.dtype, b: np.dtype) -> bool:
    """Whether these formats never mix: 8-bit floats with other floats."""
    return a != b and is_float(a) and is_float(b) and 1 in (a.itemsize, b.itemsize)


def check_value(found: Any, want: Any, context: Any) -> None:
    if isinstance(want, Exception):
        assert isinstance(found, Exception), (context, found, want)
        family = next(e for e in (np.exceptions.AxisError, *REFUSALS) if isinstance(want, e))
        ours = wf.errors.AxisError if family is np.exceptions.AxisError else family
        assert isinstance(found, ours), (context, repr(found), repr(want))
        return
    assert not isinstance(found, Exception), (context, repr(found), want)
    if want is None:  # nothing is known
        return
    assert isinstance(found, wf.Scalar) == (want.ndim == 0), (context, type(found))
    got = value_of(found)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (context, got.dtype, want.dtype, got.shape, want.shape)
    if is_float(got.dtype):
        rtol = 8 * RTOL[got.dtype.name]
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=rtol, atol=rtol / 50, err_msg=str(context))
    else:
        np.testing.assert_array_equal(got, want, err_msg=str(context))


# ---- the forms of one operation

def forms(operation: Operation) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every way to ask for it."""
    for name in (operation.name, *operation.aliases):
        yield f"wf.{name}", getattr(wf, name)
    if operation.ufunc != "":
        yield f"np.{operation.ufunc}", getattr(np, operation.ufunc)
    if operation.operator:
        word = {"and": "and_", "or": "or_"}.get(operation.operator, operation.operator)
        yield f"operator.{word}", getattr(operator, word)


def same(operation: Operation, *xs: Any) -> Any:
    """The one outcome of all forms."""
    found = [(name, outcome(f, *xs)) for name, f in forms(operation)]
    first = described(found[0][1])
    for name, x in found[1:]:
        assert described(x) == first, (operation.name, name, xs, x, found[0][1])
    return found[0][1]


@pytest.mark.parametrize("operation", UNARY, ids=lambda o: o.name)
def test_one_operand(operation: Operation) -> None:
    for dtype in ALL:
        for x in (data(dtype), data(dtype, 3).reshape(3, 1), data(dtype, 2)[1:].reshape(())):
            found = same(operation, wf.array(x))
            if operation.ufunc != "":
                answer = numpys_answer if dtype in NUMPYS else narrow_answer
                check_value(found, answer(operation.ufunc, x), (operation.name, dtype, x.shape))


def operands_of(operation: Operation, a: np.dtype, b: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    x, y = data(a), data(b)[::-1].copy()
    if operation.name == "pow" and b.kind in "iu":
        y = (np.abs(y.astype(object)) % 7).astype(b)
    if "shift" in operation.name and b.kind in "iu":
        y = (np.abs(y.astype(object)) % 11).astype(b)
    return x, y


@pytest.mark.drawn(12)
@pytest.mark.parametrize("operation", BINARY, ids=lambda o: o.name)
def test_two_operands(operation: Operation) -> None:
    for a in ALL:
        for b in ALL:
            x, y = operands_of(operation, a, b)
            pairs = [(x, y)]
            if a == b:
                pairs += [(x.reshape(2, 1, 4), y[:4].reshape(4)), (x[1:2].reshape(()), y[3:4].reshape(()))]
            for p, q in pairs:
                found = same(operation, wf.array(p), wf.array(q))
                if apart(a, b) and not operation.name.startswith("logical"):
                    assert isinstance(found, wf.errors.DTypeError), (operation.name, a, b, found)
                elif a in NARROW and a == b:
                    check_value(found, narrow_answer(operation.ufunc, p, q), (operation.name, a))
                elif a in NUMPYS and b in NUMPYS:
                    check_value(found, numpys_answer(operation.ufunc, p, q), (operation.name, a, b))
                if p.ndim:
                    f = getattr(wf, operation.name)
                    assert described(outcome(f, p, wf.array(q))) == described(outcome(f, wf.array(p), q)) == described(found)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("operation", BINARY, ids=lambda o: o.name)
def test_a_python_number(operation: Operation) -> None:
    for dtype in ALL:
        x = data(dtype)
        for number in NUMBERS:
            for p, q in ((x, number), (number, x)):
                if operation.name == "pow" and dtype.kind == "i" and q is x:
                    q = np.abs(x) % dtype.type(3)
                if operation.name == "ldexp" and type(q) is int and abs(q) >= 2**31:
                    continue  # which C's int does not hold
                found = same(operation, *(wf.array(z) if isinstance(z, np.ndarray) else z for z in (p, q)))
                if dtype in NUMPYS:
                    check_value(found, numpys_answer(operation.ufunc, p, q), (operation.name, dtype, p, q))


@pytest.mark.parametrize("operation", [o for o in BINARY if o.operator], ids=lambda o: o.name)
def test_reflected_in_place_and_out(operation: Operation) -> None:
    word = {"and": "and_", "or": "or_"}.get(operation.operator, operation.operator)
    comparison = word in ("eq", "ne", "lt", "le", "gt", "ge")
    ufunc = getattr(np, operation.ufunc)
    for a in NUMPYS:
        for b in NUMPYS:
            x, y = operands_of(operation, a, b)
            found = outcome(getattr(wf, operation.name), wf.array(x), wf.array(y))
            reflected = outcome(getattr(operator, word), list(x) if a == b else x, wf.array(y))
            assert described(reflected) == described(found), (operation.name, a, b)
            if comparison:
                continue
            target = wf.array(x)
            held = target
            kept = outcome(getattr(operator, f"i{word.rstrip('_')}"), target, wf.array(y))
            out = wf.array(x)
            through = outcome(ufunc, wf.array(x), wf.array(y), out=out)
            with np.errstate(all="ignore"):
                want = outcome(ufunc, x, y, out=x.copy())
            if isinstance(found, Exception) or isinstance(want, Exception) and not wf.dtypes.same_kind(found.dtype, a):
                assert isinstance(kept, TypeError | ValueError), (operation.name, a, b, kept)
                assert isinstance(through, TypeError | ValueError), (operation.name, a, b, through)
                assert described(target) == described(wf.array(x)), "half written"
                continue
            assert kept is held and through is out and target.dtype == a
            assert described(target) == described(out) == described(wf.array(found).astype(a))


# ---- methods

def test_a_method_is_its_function() -> None:
    for name in NAMES:
        if not name.startswith("_"):
            assert getattr(wf.Array, name) is getattr(wf, name), name
            assert getattr(wf.Scalar, name) is getattr(wf, name), name


def test_reductions_of_ufuncs() -> None:
    for operation in BINARY:
        if not operation.fold:
            continue
        for dtype in NUMPYS:
            x = np.resize(data(dtype, 6), (2, 3))
            ufunc = getattr(np, operation.ufunc)
            for options in ({}, {"axis": 1}, {"axis": None, "keepdims": True}):
                got = outcome(ufunc.reduce, wf.array(x), **options)
                want = outcome(getattr(wf, operation.fold), wf.array(x), **{"axis": 0, **options})
                assert described(got) == described(want)
            outer = outcome(ufunc.outer, wf.array(x), wf.array(x[0]))
            assert described(outer) == described(outcome(getattr(wf, operation.name), wf.array(x[:, :, None]), wf.array(x[0])))


# ---- the other functions, beside NumPy

SHAPES = ((), (4,), (0,), (2, 3), (1, 3, 1), (2, 0, 3))
AXES = (None, 0, -1, 1, 2, 5, (0, 1), (0, 0), 1.5)
OVER_AXES = "sum prod max min any all mean var std ptp cumsum argmax argmin count_nonzero flip squeeze sort average".split()


def calls(x: np.ndarray) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    for axis in AXES:
        for name in OVER_AXES:
            if not (name == "average" and 0 in x.shape):  # NumPy divides by zero in Python
                yield name, (x,), {"axis": axis}
        for name in ("sum", "mean", "max", "all"):
            yield name, (x,), {"axis": axis, "keepdims": True}
        for name in ("repeat", "roll"):
            yield name, (x, 2), {"axis": axis}
        for at in (0, [0, 0]):
            yield "take", (x, at), {"axis": axis}
        yield "expand_dims", (x,), {"axis": axis}
        yield "concatenate", ([x, x],), {"axis": axis}
        yield "stack", ([x, x],), {"axis": axis}
        if not isinstance(axis, tuple):
            yield "swapaxes", (x, axis, 0), {}
            yield "moveaxis", (x, axis, 0), {}
    for name in ("ravel", "atleast_1d", "atleast_2d", "atleast_3d", "transpose", "fliplr", "flipud", "diagonal", "diag", "trace"):
        yield name, (x,), {}
    for k in (-1, 0, 2):
        yield "diagonal", (x, k), {}
        yield "trace", (x, k), {}
        if x.ndim:
            yield "tril", (x, k), {}
            yield "triu", (x, k), {}
        if x.dtype != bool:
            yield "round", (x, k), {}
    for shape in (-1, (-1,), (1, -1), (2, -1), (3,), (2, 2), (-1, -1), ()):
        yield "reshape", (x, shape), {}
    if x.dtype != bool:
        for bounds in ((0, 1), (None, 2), (1, None), (None, None), (0.5, 300), (-5, 5), (0, 300), (np.int16(1), np.array(2))):
            yield "clip", (x, *bounds), {}
    for name in ("nan_to_num", "zeros_like", "copy", "count_nonzero", "linalg.norm", "linalg.diagonal", "linalg.trace"):
        yield name, (x,), {}
    yield "where", (x > 0, x, 0), {}
    yield "isclose", (x, x + x.dtype.type(1)), {}
    yield "meshgrid", (x, x), {}


def pick(module: Any, name: str) -> Callable[..., Any]:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def taken(x: Any) -> Any:
    return wf.array(x) if isinstance(x, np.ndarray) else [taken(i) for i in x] if isinstance(x, list) else x


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "bool", "float64"])
def test_other_functions_as_numpys(dtype: str) -> None:
    for shape in SHAPES:
        x = np.resize(np.array([1, 2, 0, 3, 1, 0], dtype), shape) if shape else np.array(2, dtype)
        for name, args, options in calls(x):
            with np.errstate(all="ignore"):
                want = outcome(pick(np, name), *args, **options)
            got = outcome(pick(wf, name), *(taken(a) for a in args), **options)
            context = (name, dtype, shape, args[1:], options)
            if isinstance(want, Exception) or isinstance(got, Exception):
                check_value(got, want, context)
                continue
            pairs = list(zip(got, want, strict=True)) if isinstance(want, tuple) else [(got, want)]
            for ours, theirs in pairs:
                theirs = np.asarray(theirs)
                found = value_of(ours)
                assert found.shape == theirs.shape, context
                assert found.dtype == wanted_dtype(theirs.dtype, x, *(a for a in args if isinstance(a, np.ndarray))), context
                np.testing.assert_allclose(found.astype(float), theirs.astype(float), rtol=1e-5, atol=1e-6, err_msg=str(context))
