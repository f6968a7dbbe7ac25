"""Operators and functions of small arrays without Python do what Python does in their place, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from native_cases import BINARY, IN_PLACE, NUMBERS, SHAPES, UNARY, content, same

import weft as wf
from weft.array import operators
from weft.dtypes.formats import FORMATS
from weft.eager import implementations
from weft.functions.elementwise import ufuncs


@pytest.fixture(autouse=True)
def often(monkeypatch) -> None:
    """Functions are made when first asked for."""
    monkeypatch.setattr(implementations, "COMPILE_AFTER_CALLS", 0)


@pytest.mark.drawn(150)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_operators_of_arrays(name: str, dtype: str, rng) -> None:
    for shape in SHAPES:
        x, y = (wf.array(content(rng, shape, dtype)) for _ in range(2))
        zero, number = wf.array(content(rng, (), dtype)), wf.array(content(rng, (1,), dtype))[0]
        for pair in ((x, y), (x, x), (x, zero), (zero, x), (x, number), (number, x), (number, number)):
            same(BINARY[name], *pair)
    same(BINARY[name], wf.array(content(rng, (3, 5), dtype)), wf.array(content(rng, (5,), dtype)))
    same(BINARY[name], wf.array(content(rng, (3, 5), dtype)), wf.array(content(rng, (4,), dtype)))


@pytest.mark.drawn(150)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_operators_of_an_array_and_a_number(name: str, dtype: str, rng) -> None:
    x, zero = wf.array(content(rng, (5,), dtype)), wf.array(content(rng, (1,), dtype))[0]
    for y in NUMBERS:
        for array in (x, zero):
            same(BINARY[name], array, y)
            same(BINARY[name], y, array)


SPREAD = [
    ((3, 5), (5,)), ((3, 5), (3, 1)), ((3, 5), (1, 5)), ((3, 5), (1, 1)), ((3, 5), (1,)), ((1, 5), (3, 1)),
    ((1,), (5,)), ((1, 1), (1,)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (2, 1, 1)), ((2, 3, 4), (2, 3, 1)),
    ((2, 3, 4), (1, 3, 1)), ((2, 3, 4), (2, 1, 4)), ((2, 3, 4), (3, 1)), ((2, 1, 3, 1, 4), (3, 1, 4)),
    ((2, 1, 3, 1, 4), (3, 1, 1)), ((1, 2, 3), (2, 3)), ((70, 17), (17,)), ((70, 17), (70, 1)), ((17, 70), (70,)),
    ((70, 33), (33,)), ((33, 70), (33, 1)), ((500, 2), (2,)), ((3, 5), (4,)), ((3, 5), (3,)), ((3, 5), (2, 5)),
    ((0, 3), (3,)), ((3, 0), (3, 1)), ((1, 3), (0, 1)), ((5,), (2, 3, 1, 5)), ((300, 200), (200,)), ((4, 1), (4, 6)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("name", ["add", "sub", "truediv", "pow", "lt", "maximum", "iadd", "imul"])
def test_operands_that_are_spread(name: str, dtype: str, rng) -> None:
    f = IN_PLACE.get(name) or BINARY.get(name) or getattr(wf, name)
    for shapes in SPREAD:
        x, y = (content(rng, s, dtype) for s in shapes)
        same(lambda a, b: f(wf.array(a), wf.array(b)), x, y)
        same(lambda a, b: f(wf.array(b), wf.array(a)), x, y)


@pytest.mark.parametrize("name", ["add", "mul", "truediv", "floordiv", "lt", "pow", "mod"])
def test_operators_of_two_dtypes_and_of_other_classes(name: str, rng, some) -> None:
    arrays = {dtype: wf.array(content(rng, (4,), dtype)) for dtype in FORMATS}
    for x in arrays.values():
        for y in (arrays["float32"], arrays["int8"], arrays["float64"], arrays["bool"]):
            same(BINARY[name], x, y)
    for first in some(FORMATS, 9):
        for second in some(FORMATS, 9):
            x, y = (wf.array(content(rng, (9,), dtype)) for dtype in (first, second))
            for k in range(9):
                same(BINARY[name], x[k], y[k])
                same(lambda a, b: BINARY[name](wf.log1p(a), b), x[k], y[k])
    for other in (np.arange(4), np.ones(4, np.float32), np.float32(2), np.array(2.0), [1, 2, 3, 4], range(4)):
        same(BINARY[name], arrays["float32"], other)
        same(BINARY[name], other, arrays["float32"])


@pytest.mark.drawn(80)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, dtype: str, rng) -> None:
    for shape in ((4,), (2, 3), (), (0,)):
        x, others = content(rng, shape, dtype), [wf.array(content(rng, s, dtype)) for s in (shape, (), (2,))]

        def apply(y, x=x):
            a = wf.array(x)
            view, kept = a[...], a
            before = a.numpy()
            held = before.tobytes()
            a = IN_PLACE[name](a, y)
            assert a is kept and before.tobytes() == held
            assert view.numpy().tobytes() == a.numpy().tobytes()
            return a

        for y in (*others, 1, 2, -1, 0.5, 300, True, wf.array(1.5), np.float32(2)):
            same(apply, y)


def test_in_place_of_views_and_values(rng) -> None:
    def view(y):
        a = wf.array(np.arange(6, dtype=np.float32))
        b = a[1:4]
        b.numpy()  # it knows its content
        b += y
        assert b.numpy().tobytes() == a.numpy()[1:4].tobytes()
        return a

    def value(y):
        s = before = wf.array([1.0, 2.0])[0]
        s += y
        assert float(before) == 1.0
        return s

    for y in (2.0, wf.array([1.0, 2.0, 3.0]), wf.array(2.0)):
        same(view, y)
    same(value, 2.0)
    same(value, wf.array([1.0, 2.0])[1])


@pytest.mark.drawn(10)
@pytest.mark.parametrize("dtype", FORMATS)
def test_functions_of_one_operand(dtype: str, rng) -> None:
    names = [name for name, f in operators._CALLS.items() if operators.OPERATIONS[name].arity == 1 and hasattr(ufuncs, name)]
    assert len(names) > 30
    functions = [*UNARY, *(getattr(ufuncs, name) for name in names)]
    for shape in ((5,), (1,), (), (2, 3), (0,), (17,)):
        x = wf.array(content(rng, shape, dtype))
        for f in functions:
            same(f, x)
    for f in functions:
        same(f, x[0] if x.shape else x)
        same(f, wf.array(content(rng, (3,), dtype))[1])


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "atan2", "pow", "less", "logical_and", "copysign", "bitwise_and"])
def test_functions_of_two_operands(name: str, rng, some) -> None:
    f = getattr(wf, name)
    for dtype in some(FORMATS, 9):
        x, y = (wf.array(content(rng, (5,), dtype)) for _ in range(2))
        for pair in ((x, y), (x, y[0]), *((x, n) for n in NUMBERS[:30]), *((n, x) for n in NUMBERS[:30])):
            same(f, *pair)
