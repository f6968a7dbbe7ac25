"""Additions where indices repeat: in any order, if that was permitted, they are atomic, and right to a bound; else in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from tests import oracle
from tests.cuda.resources import usage
from weft.devices.cuda import adapter
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.generate import generate
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import FORMATS
from weft.dtypes.rounding import convert_array
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")

KINDS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
# table, indices: few and many, of one element, none at all, more than a program has, of rows, of elements, along another axis
SHAPES = [
    ((7,), (40,)), ((1,), (1,)), ((5,), (0,)), ((3, 4), (2500,)), ((50, 300), (9,)), ((2, 3), (5, 4)), ((4, 0), (3,)),
    ((1000,), (3, 700)),
]


@pytest.fixture(autouse=True)
def permitted() -> Iterator[None]:
    with wf.deterministic(False):
        yield


def launches(f: Any, *arguments: Any) -> list[Launch]:
    graph = wf.jit(f).trace(*arguments).graph
    return [launch for call in calls(build(graph, GPU)) for launch in generate(call.kernel).launches]


def drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    return np.asarray(convert_array(rng.normal(size=shape), FORMATS[kind].numpy))


def compare(got: np.ndarray, want: np.ndarray, terms: np.ndarray, kind: str) -> None:
    """Within what adding up so many numbers costs: in float32 or float64, and one rounding to the format."""
    assert got.dtype == FORMATS[kind].numpy and got.shape == want.shape
    unit = 2.0**-53 if kind == "float64" else 2.0**-24
    own = float(ml_dtypes.finfo(got.dtype).eps)
    error = abs(got.astype(np.float64) - want)
    assert (error <= 8 * unit * terms + own * abs(want) + float(ml_dtypes.finfo(got.dtype).smallest_subnormal)).all(), error.max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "places"), SHAPES, ids=str)
def test_sums_are_right(shape: tuple[int, ...], places: tuple[int, ...], kind: str) -> None:
    rng = oracle.rng()
    x, v = drawn(rng, shape, kind), drawn(rng, (*places, *shape[1:]), kind)
    i = rng.integers(-shape[0], shape[0], places)
    want, terms = x.astype(np.float64), abs(x.astype(np.float64))
    np.add.at(want, i, v.astype(np.float64))
    np.add.at(terms, i, abs(v.astype(np.float64)))
    terms = terms * max(1, v.size)
    with wf.device("gpu-sim"):
        compare(wf.jit(wf.scatter_add)(wf.array(x), wf.array(i), wf.array(v)).numpy(), want, terms, kind)
        a = wf.array(x)
        np.add.at(a, wf.array(i), wf.array(v))  # in place
        compare(a.numpy(), want, terms, kind)


def test_of_pairs_of_indices_and_of_columns() -> None:
    rng = oracle.rng()
    x, v, w = rng.normal(size=(6, 5, 4)), rng.normal(size=(300, 5)), rng.normal(size=(6, 9, 4))
    i, k, j = rng.integers(0, 6, 300), rng.integers(0, 4, 300), rng.integers(0, 5, 9)
    want = x.copy()
    np.add.at(want.transpose(0, 2, 1), (i, k), v)
    columns = x.copy()
    np.add.at(columns.transpose(1, 0, 2), j, w.transpose(1, 0, 2))
    with wf.device("gpu-sim"):
        found = wf.scatter_add(wf.array(x), (wf.array(i), wf.array(k)), wf.array(v), axes=(0, 2))
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-12, atol=1e-12)
        found = wf.scatter_add(wf.array(x), wf.array(j), wf.array(w.transpose(1, 0, 2)), axes=1)
        np.testing.assert_allclose(found.numpy(), columns, rtol=1e-12, atol=1e-12)


INDICES: dict[str, Any] = {  # what says where n numbers go, in a table of some rows
    "one place": lambda n, rows: wf.full(n, min(1, rows - 1)), "zeros": lambda n, rows: wf.zeros(n, dtype="int64"),
    "counted": lambda n, rows: wf.arange(n) % rows, "broadcast": lambda n, rows: wf.broadcast_to(wf.array(rows - 1), (n,)),
    "an array": lambda n, rows: wf.array(np.arange(n) * 7 % rows),
    "pairs": lambda n, rows: wf.repeat(wf.arange((n + 1) // 2), 2)[:n] % rows,
}
GIVEN: dict[str, Any] = {  # and what they are
    "a number": lambda shape, kind: 1, "ones": lambda shape, kind: wf.ones(shape, kind),
    "one row": lambda shape, kind: wf.ones(shape[1:], kind),
    "an array": lambda shape, kind: wf.array(np.arange(np.prod(shape)).reshape(shape) % 3).astype(kind),
}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("kind", ["int32", "int64", "float32", "bfloat16"])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", INDICES)
def test_what_is_the_same_for_all_is_added_for_each(name: str, traced: bool, kind: str) -> None:
    """A kernel may know indices and numbers without reading an element of an array."""
    for on in (True, False):
        for rows, rest, n in ((1, (), 3), (1, (), 3000), (5, (), 40), (1, (1,), 9), (5, (33,), 40), (2, (1, 16), 30), (7, (), 1)):
            for what, given in GIVEN.items():
                def f(name: str = name, given: Any = given, rows: int = rows, rest: tuple[int, ...] = rest, n: int = n) -> Any:
                    table = wf.zeros((rows, *rest), kind)
                    return wf.scatter_add(table, INDICES[name](n, rows), given((n, *rest), kind))

                want = np.zeros((rows, *rest))
                here = np.asarray(given((n, *rest), kind), np.float64) if what == "a number" else given((n, *rest), kind).numpy()
                np.add.at(want, INDICES[name](n, rows).numpy(), here.astype(np.float64))
                with wf.device("gpu-sim"), wf.deterministic(on):
                    found = (wf.jit(f) if traced else f)().numpy()
                if on and kind == "bfloat16":  # each sum is rounded
                    with wf.device("cpu"):
                        want = (wf.jit(f) if traced else f)().numpy().astype(np.float64)
                want = convert_array(want, found.dtype).astype(np.float64)
                np.testing.assert_array_equal(found.astype(np.float64), want, str((on, rows, rest, n, what)))


def test_what_is_not_finite_stays_where_it_is() -> None:
    v = wf.array([1.0, np.inf, -np.inf, np.nan, 2.0])
    for kind in KINDS:
        with wf.device("gpu-sim"):
            found = wf.scatter_add(wf.zeros(5, kind), wf.array([0, 1, 2, 3, 0]), v.astype("float8_e5m2").astype(kind)).numpy()
        found = found.astype(np.float64)
        assert found[0] == 3 and found[4] == 0 and np.isnan(found[3])
        if kind != "float8_e4m3fn":  # which has no infinities
            assert found[1] == np.inf and found[2] == -np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_rows_that_repeat(kind: str) -> None:
    rng = oracle.rng()
    table, i = drawn(rng, (11, 6), kind), rng.integers(0, 11, (4, 30))
    between = "float64" if kind == "float64" else "float32"
    with wf.device("gpu-sim"):
        found = wf.jit(wf.grad(lambda t: (t[wf.array(i)].astype(between) ** 2).sum()))(wf.array(table)).numpy()
    wide = table.astype(np.float64)
    want, terms = np.zeros_like(wide), np.zeros_like(wide)
    np.add.at(want, i, 2 * wide[i])
    np.add.at(terms, i, abs(2 * wide[i]))
    compare(found, want, terms * i.size, kind)


def test_wrong_indices_are_told_and_nothing_is_lost() -> None:
    with wf.device("gpu-sim"):
        x = wf.ones((4, 2))
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
            np.add.at(x, wf.array([1, 4, 0]), wf.ones((3, 2)))
            x.numpy()
        assert x.numpy().tolist() == [[1, 1]] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_launches(kind: str) -> None:
    """In order: one program goes through all rows. In any order: as many programs as there is work for."""
    arguments = wf.zeros(100, kind), wf.zeros(5000, "int64"), wf.zeros(5000, kind)
    found = [launch for launch in launches(wf.scatter_add, *arguments) if "atomic_add" in launch.text]
    assert len(found) == 1 and found[0].grid[0] >= 5
    with wf.deterministic(True):
        assert not [launch for launch in launches(wf.scatter_add, *arguments) if "atomic_add" in launch.text]


def test_explain_says_so(capsys: pytest.CaptureFixture) -> None:
    arguments = wf.zeros(100), wf.zeros(50, "int64"), wf.zeros(50)
    with wf.device("gpu-sim"):
        wf.explain(wf.scatter_add, *arguments)
        assert "additions in any order" in capsys.readouterr().out
        with wf.deterministic(True):
            wf.explain(wf.scatter_add, *arguments)
    assert "any order" not in capsys.readouterr().out


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_compiled(capability: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for what an addition finds: they are reductions, not read and written by a loop of comparisons."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for kind in KINDS:
        arguments = wf.zeros((1000, 64), kind), wf.zeros(5000, "int64"), wf.zeros((5000, 64), kind)
        for launch in launches(wf.scatter_add, *arguments):
            code = adapter.compile_launch(launch, capability)
            if "atomic_add" in launch.text:
                wide = "f64" if kind == "float64" else "f32"
                assert re.search(rf"\b(red|atom)\.[a-z.]*global[a-z0-9.]*\.add[a-z0-9.]*\.{wide}", code.assembly), code.assembly
                assert ".cas" not in code.assembly


# ---- in order


@pytest.mark.drawn(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "places"), [
    ((7,), (40,)), ((1,), (1,)), ((1,), (20,)), ((5,), (0,)), ((3, 4), (300,)), ((50, 300), (9,)), ((2, 3), (5, 4)),
    ((4, 0), (30,)), ((300,), (2, 65)), ((500, 2), (17,)), ((2, 1100), (40,)), ((5, 4, 3), (6, 5)), ((2, 3), (129,)),
], ids=str)
def test_in_order_the_bits_are_the_cpus(shape: tuple[int, ...], places: tuple[int, ...], kind: str) -> None:
    """Each place belongs to one program, which goes through the rows in their order, wherever places are divided."""
    rng = oracle.rng()
    x, v = drawn(rng, shape, kind), drawn(rng, (*places, *shape[1:]), kind)
    i, found = rng.integers(-shape[0], shape[0], places), []
    for device in ("cpu", "gpu-sim"):
        with wf.device(device), wf.deterministic(True):
            found.append(wf.jit(wf.scatter_add)(*map(wf.array, (x, i, v))).numpy())
    assert found[0].tobytes() == found[1].tobytes()


def test_places_are_divided_among_programs() -> None:
    """As many as keep a card busy, no more than the table has rows; not for a few."""
    def grid(f: Any, *arguments: wf.Array) -> tuple[int, int]:
        with wf.deterministic(True):
            return launches(f, *arguments)[-1].grid

    rows, few, table = wf.zeros(5000, "int64"), wf.zeros(15, "int64"), wf.zeros((1000, 300))
    assert grid(wf.scatter_add, table, rows, wf.zeros((5000, 300))) == (1, 264)
    assert grid(wf.scatter_add, wf.zeros((20, 300)), rows, wf.zeros((5000, 300))) == (1, 20)
    assert grid(wf.scatter_add, wf.zeros((1000, 40_000)), rows, wf.zeros((5000, 40_000))) == (40, 7)
    assert grid(wf.scatter_add, table, few, wf.zeros((15, 300))) == (1, 1)
    assert grid(wf.scatter_add, wf.zeros(7), rows, wf.zeros(5000)) == (1, 7)
    each = wf.zeros((5000, 300), "int64"), wf.arange(300)  # of elements, not of rows
    assert grid(lambda x, v: wf.scatter_add(x, each, v), table, wf.zeros((5000, 300))) == (1, 264)


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_in_order_compiled(capability: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with wf.deterministic(True):
        for kind in KINDS:
            arguments = wf.zeros((1000, 64), kind), wf.zeros(5000, "int64"), wf.zeros((5000, 64), kind)
            for launch in launches(wf.scatter_add, *arguments):
                assert usage(adapter.compile_launch(launch, capability)).stack == 0
