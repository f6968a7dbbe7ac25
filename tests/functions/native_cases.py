"""What the tests of native small work share: operators, operands, and calls with and without native functions."""

from __future__ import annotations

import gc
import operator
import resource
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import weft as wf
from tests import oracle
from weft.array.core import Array, Scalar
from weft.dtypes.formats import FORMATS
from weft.eager import implementations, native

BINARY = {
    name: getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift",
        "eq", "ne", "lt", "le", "gt", "ge",
    )
}
IN_PLACE = {
    name: getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ilshift")
}
UNARY = (operator.neg, abs, operator.invert, operator.pos, lambda x: x**2, lambda x: x**2.0)
SHAPES = [(), (1,), (3,), (8,), (17,), (33,), (3, 5), (2, 1, 4), (0,), (2, 0)]
NUMBERS = [
    0, 1, -1, 2, 3, 127, 128, -128, 200, 255, 256, 70000, 2**31, 2**63, -(2**63), 2**70, True, False, 0.0, -0.0, 0.5, 2.0,
    1e-40, 65504.0, 65505.0, 1e39, float("nan"), float("inf"), float("-inf"), np.float32(1.5), np.float64(1.5), np.int8(3),
    np.bool_(True), None, "text", 1j, [1.0], (2,),
]


@contextmanager
def python() -> Iterator[None]:
    """Nothing is native."""
    names = native._ELEMENTS + native._PARTS
    ways = [*native._ELEMENTWISE_FUNCTIONS, *native._SHAPED_FUNCTIONS]
    for way in ways:
        way.call = native.not_available
    for name in names:
        setattr(native.NATIVE_ELEMENTS, name, native.not_available)
    try:
        yield
    finally:  # also of functions that were made meanwhile
        for way in (*native._ELEMENTWISE_FUNCTIONS, *native._SHAPED_FUNCTIONS):
            way.call = native.not_available if way.work is None else way.work.call
        for name in names:
            setattr(native.NATIVE_ELEMENTS, name, getattr(native._WORK[0], name) if native._WORK else native.not_available)


def content(rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if FORMATS[dtype].kind == "float":
        x = rng.normal(size=shape) * 2.0 ** rng.integers(-3, 4, shape)
        special = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-42, 1e4, -1.0], shape)
        return oracle.in_format(np.asarray(np.where(rng.random(shape) < 0.25, special, x)), FORMATS[dtype].numpy)
    low, high = (0, 2) if dtype == "bool" else (0, 9) if dtype[0] == "u" else (-5, 9)
    return np.asarray(rng.integers(low, high, shape)).astype(dtype)


def outcome(f, *xs) -> Any:
    """What comes of a call: a result with its class and bits, or an error; and warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            out = f(*xs)
        except Exception as error:
            return type(error), str(error), [str(w.message) for w in told]
    said = [str(w.message) for w in told]
    if isinstance(out, Array):
        bits = np.array(out.numpy())
        bits[bits != bits] = 0  # a NaN is a NaN
        return type(out), out.dtype, out.shape, (out.numpy() != out.numpy()).tobytes(), bits.tobytes(), said
    return type(out), repr(out), said


def same(f, *xs) -> None:
    with python():
        want = outcome(f, *xs)
    for _ in range(2):  # the first may make the function
        got = outcome(f, *xs)
        assert got == want, (f, xs)


def work_and_count() -> None:
    """AssertionError where 60,000 turns of small work hold what they do not give back."""
    implementations.COMPILE_AFTER_CALLS = 0
    x, y, out = (wf.array(content(np.random.default_rng(), (5,), "float32")) for _ in range(3))
    s, place = x[1], wf.int64(2)

    def work(n: int) -> None:
        nonlocal out
        for k in range(n):
            _ = (x + y, x * 2.0, 1 - x, x < y, -x, x**2, x[2], float(x[1]), s + s, x[place], x + "a" if k < 0 else None)
            out += x
            out[1] = 2.5
            out[2] = s
            out[place] = s

    work(2000)
    watched = [x.node.shape, x.node.dtype, x.node, x.node.value, s.node, native._NO_PARAMS, Array, Scalar, type(x.node)]
    watched += [None, (), True]
    gc.collect()
    before = [sys.getrefcount(w) for w in watched]
    alive = len(gc.get_objects())
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(60_000)
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    assert all(abs(b - a) < 50 for a, b in zip(before, after, strict=True)), list(zip(watched, before, after, strict=True))
    assert abs(len(gc.get_objects()) - alive) < 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 4000  # KB
