"""Derivatives of the derivatives: every smooth element-wise primitive, at common places and at those where a rule can break."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests import oracle
from weft.dtypes.formats import FLOAT64, Format, formats_of_kind
from weft.graph.gradient import backward
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, constant, input_leaf
from weft.graph.primitives.common import zero_vjp

F64 = FLOAT64
KINKS = {"abs", "maximum", "minimum", "remainder", "copysign"}  # in pieces; at ties they have no second derivative


SMOOTH = {
    n: oracle.takes_floats(n) for n, p in TABLE.items()
    if p.kind == "elementwise" and p.vjp is not zero_vjp and n not in KINKS and oracle.takes_floats(n)
}
TWO = [n for n, arity in SMOOTH.items() if arity == 2]


def partials(name: str, dtype: Format, order: int, *values: np.ndarray) -> list[np.ndarray]:
    """All partial derivatives of an order, of operands one beside the other: for order 2 of x, y these are xx, xy, yx, yy."""
    values = tuple(np.asarray(v, dtype.numpy) for v in values)
    leaves = [input_leaf(v.shape, dtype) for v in values]
    found: list[Node] = [bind(TABLE[name], *leaves)]
    for _ in range(order):
        found = [d for f in found for d in backward([f], [constant(1, dtype)], leaves)]
    with np.errstate(all="ignore"):
        return interpret(Graph(leaves, found), list(values))


def common(name: str, count: int) -> list[np.ndarray]:
    """Operands from where all of them are smooth."""
    low, high = (1.3, 3.0) if name == "acosh" else (0.35, 0.85)
    return [oracle.rng().uniform(low, high, 40) for _ in range(count)]


@pytest.mark.parametrize("name", SMOOTH)
def test_against_differences_of_the_first(name: str) -> None:
    arity = SMOOTH[name]
    values = common(name, arity)
    if arity == 2:
        values[1][:20] = values[0][:20]  # ties
    second = partials(name, F64, 2, *values)
    h = 1e-5
    for i in range(arity):
        up, down = ([v + s * h if k == i else v for k, v in enumerate(values)] for s in (1, -1))
        ahead, behind = partials(name, F64, 1, *up), partials(name, F64, 1, *down)
        for k in range(arity):
            want = (ahead[k] - behind[k]) / (2 * h)
            np.testing.assert_allclose(second[k * arity + i], want, rtol=2e-7, atol=2e-8, err_msg=f"{name} d{k} d{i}")


# ---- closed forms: xx, xy, yy

def _logaddexp(x: float, y: float) -> tuple[float, float, float]:
    e = math.exp(-abs(x - y)) if x != y else 1.0
    both = 0.0 if math.isinf(x) or math.isinf(y) else e / (1 + e) ** 2
    return both, -both, both


def _atan2(y: float, x: float) -> tuple[float, float, float]:
    r = math.hypot(x, y)
    return -2 * (x / r) * (y / r) / r / r, ((y / r) ** 2 - (x / r) ** 2) / r / r, 2 * (x / r) * (y / r) / r / r


def _hypot(x: float, y: float) -> tuple[float, float, float]:
    r = math.hypot(x, y)
    return (y / r) ** 2 / r, -(x / r) * (y / r) / r, (x / r) ** 2 / r


CLOSED: dict[str, Callable[[float, float], tuple[float, float, float]]] = {
    "add": lambda x, y: (0.0, 0.0, 0.0),
    "subtract": lambda x, y: (0.0, 0.0, 0.0),
    "multiply": lambda x, y: (0.0, 1.0, 0.0),
    "divide": lambda x, y: (0.0, -1 / y / y, 2 * x / y / y / y),
    "pow": lambda x, y: (
        y * (y - 1) * x ** (y - 2), x ** (y - 1) * (1 + y * math.log(x)), x**y * math.log(x) ** 2,
    ),
    "logaddexp": _logaddexp,
    "atan2": _atan2,
    "hypot": _hypot,
}
SIDES = [-4.0, -1.0, 0.5, 1.0, 2.0, 4.0, 16.0]
FAR = [-math.inf, -30000.0, -800.0, -90.0, -8.0, 0.0, 1.0, 8.0, 90.0, 800.0, 30000.0, math.inf]
PLACES = {
    "logaddexp": [(x, y) for x in FAR for y in FAR],
    "pow": [(x, y) for x in (0.25, 1.0, 2.0, 4.0) for y in (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)],
}


def test_each_has_its_closed_form() -> None:
    assert set(TWO) == set(CLOSED)


@pytest.mark.parametrize("dtype", [f for f in formats_of_kind("float") if f.largest >= 240 and f.special != "scale"], ids=str)
@pytest.mark.parametrize("name", CLOSED)
def test_ties_and_far_apart(name: str, dtype: Format) -> None:
    places = [(x, y) for x, y in PLACES.get(name, [(x, y) for x in SIDES for y in SIDES]) if float(dtype.numpy.type(x)) == x]
    if dtype.finite or dtype.largest < 1000:  # squares of larger numbers overflow
        places = [(x, y) for x, y in places if max(abs(x), abs(y)) <= 8 and max(map(abs, CLOSED[name](x, y))) <= dtype.largest]
    xs, ys = (np.array(v) for v in zip(*places, strict=True))
    xx, xy, yx, yy = partials(name, dtype, 2, xs, ys)
    want = np.array([CLOSED[name](float(x), float(y)) for x, y in places])
    eps = oracle.EPS[dtype.numpy]
    least = float(np.abs(np.nextafter(dtype.numpy.type(0), dtype.numpy.type(1))).astype(np.float64))
    size = np.abs(want).max(axis=1) if name != "logaddexp" else 0.0
    for got, k, which in ((xx, 0, "xx"), (xy, 1, "xy"), (yx, 1, "yx"), (yy, 2, "yy")):
        wide = np.asarray(got, np.float64)
        off = np.abs(wide - want[:, k]) - (100 * eps * np.abs(want[:, k]) + 20 * eps * size + 4 * least)
        bad = [(p, g, w) for p, g, w, o in zip(places, wide, want[:, k], off, strict=True) if not o <= 0]
        assert not bad, f"{name} {which}: {bad[:5]}"
    if name == "logaddexp":
        for third in partials(name, dtype, 3, xs, ys):
            assert np.isfinite(np.asarray(third, np.float64)).all()
