"""Indices out of range: IndexError as NumPy's, at the user's line, wherever indices are read; nothing is half done."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import INTEGERS
from weft.dtypes.formats import FLOAT32, INT64
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind, input_leaf

N, M = 6, 5


class Use:
    """A way to read or write at indices. f(x, i) for weft arrays, want(x, i) in NumPy; axis, size: what the error names;
    slope: whether the derivative reads the indices; least: the smallest index in range, by default -size."""

    def __init__(
        self, f: Callable, want: Callable, axis: int = 0, size: int = N, shape: tuple[int, ...] = (4,), slope: bool = True,
        least: int | None = None,
    ) -> None:
        self.f, self.want, self.axis, self.size, self.shape, self.slope = f, want, axis, size, shape, slope
        self.least = -size if least is None else least


def written(x: Any, key: Any, value: Any) -> Any:
    out = x.copy()
    out[key] = value
    return out


def added(x: Any, key: Any, value: Any) -> Any:
    out = x.copy()
    out[key] += value
    return out


def put(module: Any, x: Any, i: Any, value: Any, axis: int) -> Any:
    out = x.copy()
    module.put_along_axis(out, i, value, axis)
    return out


def add_at(x: np.ndarray, key: Any, value: Any) -> np.ndarray:
    out = x.copy()
    np.add.at(out, key, value)
    return out


COLUMNS = (slice(None),)
USES = {
    "x[i]": Use(lambda x, i: x[i], lambda x, i: x[i]),
    "x[i, 1:3]": Use(lambda x, i: x[i, 1:3], lambda x, i: x[i, 1:3]),
    "x[:, i]": Use(lambda x, i: x[:, i], lambda x, i: x[:, i], 1, M),
    "x[i, i]": Use(lambda x, i: x[i, i], lambda x, i: x[i, i], 1, M),
    "x[..., i, None]": Use(lambda x, i: x[..., i, None], lambda x, i: x[..., i, None], 1, M),
    "x[3][i]": Use(lambda x, i: x[3][i], lambda x, i: x[3][i], 0, M, (2, 3)),
    "x[i][0]": Use(lambda x, i: x[i], lambda x, i: x[i], shape=()),
    "take": Use(lambda x, i: wf.take(x, i), lambda x, i: np.take(x, i), 0, N * M, (2, 2)),
    "take 1": Use(lambda x, i: wf.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1), 1, M),
    ".take": Use(lambda x, i: x.take(i, axis=0), lambda x, i: x.take(i, axis=0)),
    "along": Use(lambda x, i: wf.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1), 1, M, (N, 2)),
    "put": Use(lambda x, i: put(wf, x, i, 7.0, 0), lambda x, i: put(np, x, i, 7.0, 0), 0, N, (1, M), slope=False),
    "gather": Use(lambda x, i: wf.gather(x, i, axes=1), lambda x, i: np.moveaxis(x[:, i], 0, 1), 1, M),
    "x[i] = v": Use(lambda x, i: written(x, i, 7.0), lambda x, i: written(x, i, 7.0)),
    "x[:, i] = v": Use(lambda x, i: written(x, (*COLUMNS, i), 7.0), lambda x, i: written(x, (*COLUMNS, i), 7.0), 1, M),
    "x[i, i] += v": Use(lambda x, i: added(x, (i, i), 2.0), lambda x, i: added(x, (i, i), 2.0), 1, M),
    "scatter_add": Use(lambda x, i: wf.scatter_add(x, i, 2.0), lambda x, i: add_at(x, i, 2.0), slope=False),
    "scatter_set": Use(lambda x, i: wf.scatter_set(x, (i, i), 2.0), lambda x, i: written(x, (i, i), 2.0), 1, M),
    "embedding": Use(lambda x, i: x[i] @ x.T, lambda x, i: x[i] @ x.T),
    "summed": Use(lambda x, i: x[i].sum(0), lambda x, i: x[i].sum(0), shape=(33,)),
    "windows": Use(lambda x, i: x[i][1:] - x[i][:-1], lambda x, i: x[i][1:] - x[i][:-1]),
    "chosen": Use(lambda x, i: wf.where(i >= 0, x[i, 1], 0.0), lambda x, i: np.where(i >= 0, x[i, 1], 0.0)),
    "sorter": Use(
        lambda x, i: wf.searchsorted(x[0], x[1], sorter=i), lambda x, i: i_sorted(x, i), 0, M, (M,), slope=False, least=0,
    ),
}


def i_sorted(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    return (x[0][i] < x[1][:, None]).sum(-1)


def good(rng: np.random.Generator, use: Use) -> np.ndarray:
    low = min(use.size, N, M)
    return rng.integers(max(-low, use.least), low, use.shape)


def spoilt(rng: np.random.Generator, use: Use) -> tuple[np.ndarray, int]:
    """Indices with one out of range, and which."""
    places = good(rng, use)
    wrong = int(rng.choice([use.size, use.size + 3, use.least - 1, 2**31 - 1, -(2**40), 2**62]))
    places[tuple(rng.integers(0, s) for s in use.shape)] = wrong
    return places, wrong


def refused(wrong: int, axis: int, size: int, call: Callable[[], Any], here: bool = True) -> None:
    place = rf" \((?:{re.escape(__file__)}:\d+|array of shape .*)\)$" if here else ""  # the latter of Scalars, which are ints
    with pytest.raises(IndexError, match=rf"index {wrong} is out of bounds for axis {axis} with size {size}{place}"):
        call()


def central(use: Use, x: np.ndarray, i: np.ndarray) -> np.ndarray:
    """The derivative by each element of x, from differences."""
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        more, less = x.astype(np.float64), x.astype(np.float64)
        more[place] += 0.5
        less[place] -= 0.5
        out[place] = use.want(more, i).sum() - use.want(less, i).sum()
    return out


def ways(use: Use, x: np.ndarray) -> dict[str, tuple[Callable[[np.ndarray], Any], Callable[[np.ndarray], Any]]]:
    """How a use is run: (ours, NumPy's), functions of the indices."""
    table = wf.array(x)
    table.numpy()
    jitted = wf.jit(use.f)
    many = wf.jit(wf.vmap(use.f, in_axes=(None, 0)))

    def slope(i: wf.Array) -> wf.Array:
        return wf.grad(lambda t: use.f(t, i).astype(wf.float32).sum() + (t * 0).sum())(table)

    def steps(i: wf.Array) -> wf.Array:
        return wf.scan(lambda c, row: (c + 1, use.f(table, row)), 0, i)[1]

    def stored(i: wf.Array) -> wf.Array:
        return wf.fori_loop(0, 2, lambda k, c: c + use.f(table, i[k]), use.f(table, i[0]) * 0)

    def twice(i: np.ndarray) -> np.ndarray:
        return np.stack([i, i])

    def want(i: np.ndarray) -> np.ndarray:
        return use.want(x, i)

    return {
        "eager": (lambda i: use.f(table, wf.array(i)), want),
        "later": (lambda i: use.f(table, wf.array(i - 1) + 1), want),
        "jit": (lambda i: jitted(table, wf.array(i)), want),
        "vmap": (lambda i: many(table, wf.array(twice(i))), lambda i: twice(want(i))),
        **({"grad": (lambda i: slope(wf.array(i)), lambda i: central(use, x, i))} if use.slope else {}),
        "scan": (lambda i: steps(wf.array(twice(i))), lambda i: twice(want(i))),
        "loop": (lambda i: stored(wf.array(twice(i))), lambda i: 2 * want(i)),
    }


@pytest.mark.parametrize("name", USES)
def test_every_use_refuses_in_every_way(name: str, rng: np.random.Generator) -> None:
    """In range as NumPy; out of range an error that names the index; in range again afterwards."""
    use = USES[name]
    x = np.arange(N * M, dtype=np.float32).reshape(N, M)
    for way, (ours, theirs) in ways(use, x).items():
        for _ in range(2):  # the second time, jitted functions are warm
            fine = good(rng, use)
            np.testing.assert_allclose(ours(fine).numpy(), theirs(fine), rtol=1e-6, err_msg=way)
            places, wrong = spoilt(rng, use)
            told = rf"{re.escape(__file__)}:\d+|array of shape .*"  # the latter where a Scalar is an int
            words = rf"index {wrong} is out of bounds for axis \d with size \d+ \((?:{told})\)$"
            with pytest.raises(IndexError, match=words):
                ours(places).numpy()
            if name not in ("x[i, i]", "x[i, i] += v", "scatter_set") or wrong in (M, -M - 1):
                refused(wrong, use.axis, use.size, lambda ours=ours, places=places: ours(places).numpy())


@pytest.mark.drawn(24)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [1, 3, 127, 128, 200, 256, 300])
def test_every_dtype_at_its_limits(dtype: str, size: int) -> None:
    """Each number that is near a limit of the axis or of the dtype, alone and among others."""
    info = np.iinfo(dtype)
    near = {0, -1, size - 1, size, size + 1, -size, -size - 1, info.min, info.max, info.max - 1, 2**31, 2**63, 2**63 + size - 1}
    line = np.arange(size, dtype=np.float32)
    x = wf.array(line)
    f = wf.jit(lambda x, i: x[i])
    for number in sorted(k for k in near if info.min <= k <= info.max):
        for places in (np.array(number, dtype), np.array([0] * 20 + [number], dtype)):
            index = wf.array(places)
            for got in (lambda i=index: x[i], lambda i=index: f(x, i)):
                if -size <= number < size:
                    np.testing.assert_array_equal(got().numpy(), line[places])
                else:
                    refused(number, 0, size, lambda got=got: got().numpy())


@pytest.mark.drawn(4)
@pytest.mark.parametrize("count", [1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 130])
def test_every_lane_is_looked_at(count: int, rng: np.random.Generator) -> None:
    line = rng.random(50, np.float32)
    x = wf.array(line)
    read, written_, both = wf.jit(lambda i: x[i]), wf.jit(lambda i: wf.scatter_set(x, i, 1.0)), wf.jit(lambda i: x[i] @ x[i])
    for k in range(count):
        places = rng.integers(-50, 50, count)
        places[k] = rng.choice([50, -51, 2**40])
        for f in (read, written_, both):
            refused(places[k], 0, 50, lambda f=f, places=places: f(wf.array(places)).numpy())
    np.testing.assert_array_equal(read(wf.array(rng_ := rng.integers(-50, 50, count))).numpy(), line[rng_])


def test_indices_that_nothing_is_left_of() -> None:
    """NumPy refuses every index of an axis without elements, and no index at all is fine."""
    none, no_rows = wf.zeros((0, 3)), wf.array(np.zeros(0, np.int64))
    assert none[no_rows].shape == (0, 3) and none[:, wf.array([1])].numpy().shape == (0, 1)
    assert wf.take(none, no_rows, axis=0, mode="wrap").numpy().shape == (0, 3)
    assert wf.zeros(5)[no_rows].numpy().shape == (0,)
    for use in (lambda: none[wf.array([0])], lambda: wf.take(none, wf.array(0), axis=0), lambda: none[[0]]):
        with pytest.raises(IndexError, match=r"out of bounds for axis 0 with size 0"):
            use().numpy()
    for mode in ("raise", "clip", "wrap"):
        with pytest.raises(IndexError, match="axis 0 with size 0"):
            wf.take(none, [1], axis=0, mode=mode)


def test_what_is_known_is_refused_when_it_is_written() -> None:
    x = wf.zeros((3, 4))
    for bad in (3, -4, [0, 3], np.array([[0], [-4]])):
        wrong = int(np.asarray(bad).flat[-1])
        for use in (
            lambda bad=bad: wf.take(x, bad, axis=0), lambda bad=bad: x.take(bad, axis=0), lambda bad=bad: x[bad],
            lambda bad=bad: wf.gather(x, bad), lambda bad=bad: wf.scatter_add(x, bad, 1.0),
        ):
            refused(wrong, 0, 3, use, here=False)


def test_modes() -> None:
    """Clip and wrap as NumPy: clip has no negative indices."""
    line = np.arange(5.0, dtype=np.float32)
    x, far = wf.array(line), np.array([7, -1, -9, 0, 4, 5, -5, -6, 2**62, -(2**62)])
    for mode in ("clip", "wrap"):
        where = np.clip(far, 0, 4) if mode == "clip" else far % 5  # numpy.take walks to 2**62 in steps of 5
        np.testing.assert_array_equal(np.take(line, far[:-2], mode=mode), line[where[:-2]])
        for got in (wf.take(x, far, mode=mode), wf.take(x, wf.array(far), mode=mode), x.take(wf.array(far), mode=mode)):
            np.testing.assert_array_equal(got.numpy(), line[where])
        np.testing.assert_array_equal(wf.gather(x, wf.array(far), mode=mode).numpy(), line[where])
        np.testing.assert_array_equal(wf.take_along_axis(x, wf.array(far), mode=mode).numpy(), line[where])
        np.testing.assert_array_equal(wf.scatter_add(x, wf.array(far), 1.0, mode=mode).numpy(), add_at(line, where, 1.0))
        last = x.copy()
        wf.put_along_axis(last, wf.array(far), np.arange(10.0), mode=mode)
        np.testing.assert_array_equal(last.numpy(), wf.scatter_set(x, wf.array(far), np.arange(10.0), mode=mode).numpy())
        np.testing.assert_array_equal(last.numpy(), written(line, where, np.arange(10.0)))
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        ends = np.array([info.min, 0, 3, info.max], dtype)
        for mode in ("clip", "wrap"):
            where = [min(max(int(k), 0), 4) if mode == "clip" else int(k) % 5 for k in ends]
            np.testing.assert_array_equal(wf.take(x, wf.array(ends), mode=mode).numpy(), line[where])
    for use in (lambda: wf.take(x, [0], mode="nearest"), lambda: wf.scatter_set(x, [0], 1.0, mode="drop")):
        with pytest.raises(ValueError, match=r"mode='(nearest|drop)' must be 'raise', 'clip' or 'wrap'"):
            use()


@pytest.mark.usefixtures("lazy")
def test_labels() -> None:
    """Labels that are known are refused at once, others when the loss is computed; -1 is no class."""
    def refused(wrong: int, classes: int, call: Callable[[], Any]) -> None:
        text = rf"cross_entropy: labels must be from 0 to {classes - 1}, not {wrong} \({re.escape(__file__)}:"
        with pytest.raises(IndexError, match=text):
            call()

    logits = wf.random.normal(size=(4, 3))
    loss = wf.jit(lambda z, y: wf.losses.cross_entropy(z, y))
    slope = wf.jit(wf.grad(lambda z, y: wf.losses.cross_entropy(z, y)))
    for bad in (3, -1, -3, 100):
        labels = np.array([0, 2, bad, 1])
        with pytest.raises(wf.errors.LabelError, match=f"label {bad} at position 2, but there are 3 classes"):
            wf.losses.cross_entropy(logits, wf.array(labels))
        refused(bad, 3, lambda y=labels: wf.losses.cross_entropy(logits, wf.array(y) + 0).numpy())
        refused(bad, 3, lambda y=labels: loss(logits, wf.array(y)).numpy())
        refused(bad, 3, lambda y=labels: slope(logits, wf.array(y)).numpy())
    ignoring = wf.jit(lambda z, y: wf.losses.cross_entropy(z, y, ignore_index=-100))
    np.testing.assert_allclose(
        ignoring(logits, wf.array([0, -100, 1, -100])), wf.losses.cross_entropy(logits[::2], wf.array([0, 1])), rtol=1e-6,
    )
    refused(-99, 3, lambda: ignoring(logits, wf.array([0, -99, 1, -100])).numpy())
    images = wf.random.normal(size=(2, 5, 3, 3))
    many = np.zeros((2, 3, 3), np.uint8)
    many[1, 2, 0] = 5
    refused(5, 5, lambda: loss(images, wf.array(many)).numpy())


def test_interpret_refuses() -> None:
    x, i = input_leaf((3,), FLOAT32), input_leaf((2,), INT64)
    from weft.graph.interpret import interpret

    checked = bind(TABLE["in_bounds"], i, extent=3, axis=0, from_end=True)
    graph = Graph([x, i], [bind(TABLE["gather"], x, checked, axes=(0,))])
    refused(3, 0, 3, lambda: interpret(graph, [np.zeros(3, np.float32), np.array([0, 3])]))


@pytest.mark.usefixtures("lazy")
def test_the_line_is_that_of_the_expression() -> None:
    """Also where the program was made for another line, and from inside layers and transforms."""
    x = wf.array(np.arange(3.0, dtype=np.float32))
    first = x[wf.array([0, 2])]
    assert first.tolist() == [0.0, 2.0]
    found = []
    for bad in (
        lambda: x[wf.array([0, 3])],
        lambda: x[wf.array([0, 4])],
        lambda: wf.nn.Embedding(3, 2)(wf.array([0, 4]) + 1),
    ):
        line = bad.__code__.co_firstlineno
        with pytest.raises(IndexError, match=rf"{re.escape(__file__)}:{line}\)$"):
            bad().numpy()
        found.append(line)
    assert len(set(found)) == 3


@pytest.mark.usefixtures("lazy")
def test_an_array_that_cannot_be_computed_says_so_each_time() -> None:
    x = wf.array(np.arange(3.0, dtype=np.float32))
    bad = x[wf.array([0, 3])]
    other = x * 2
    joined = wf.concatenate([bad, other])
    for _ in range(2):
        for array in (bad, joined):
            refused(3, 0, 3, lambda array=array: array.numpy())
    assert other.tolist() == [0.0, 2.0, 4.0] and x.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("extent", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool", "int64"])
def test_of_equal_indices_the_last_writes(extent: int, dtype: str, rng: np.random.Generator) -> None:
    """Also where the array has one element, and where all indices are one number."""
    for count in (1, 2, 3, 8, 17, 40):
        values = rng.integers(0, 2 if dtype == "bool" else 127, count).astype(dtype)
        for places in (rng.integers(0, extent, count), np.full(count, extent - 1)):
            want = written(np.zeros(extent, dtype), places, values)
            for index in (places, wf.array(places), wf.array(places) + 0):
                got = wf.zeros(extent, dtype=dtype)
                got[index] = values
                np.testing.assert_array_equal(got.numpy(), want)
            got = wf.zeros(extent, dtype=dtype)
            if (places == extent - 1).all():
                got[wf.full((count,), extent - 1, dtype="int64")] = values
                np.testing.assert_array_equal(got.numpy(), want)
        rows = rng.integers(0, 100, (count, 3)).astype(np.float32)
        want = written(np.zeros((extent, 3), np.float32), (places, COLUMNS[0]), rows)
        table = wf.zeros((extent, 3))
        table[wf.array(places)] = wf.array(rows)
        np.testing.assert_array_equal(table.numpy(), want)


def test_faults_are_told_from_vectors_of_every_width() -> None:
    """A vector of one lane hands over no mask: LLVM 22 aborts on its single bit."""
    from tests.cpu.harness import compile_ir
    from weft.devices.cpu.emit.check import _fault_recorder
    from weft.devices.cpu.emit.text import Module

    for lanes in (None, 2, 4, 8, 16, 32, 64):
        m = Module()
        _fault_recorder(m, lanes)
        compile_ir(m.text().replace("define internal", "define"))


WRITES = {
    "set": lambda a, i: a.__setitem__(i, 0.0), "columns": lambda a, i: a.__setitem__((slice(None), i), 0.0),
    "pending": lambda a, i: a.__setitem__(i + 0, 0.0), "add": lambda a, i: np.add.at(a, i, 1.0),
    "in place": lambda a, i: a.__setitem__(i, a[i % 2] + 1),
    "along": lambda a, i: wf.put_along_axis(a, i[:1].reshape(1, 1), 1.0, axis=0),
    "of a view": lambda a, i: a[:, ::-1].__setitem__(i, 0.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_array_keeps_its_content_when_a_write_is_refused(name: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4)).astype(np.float32)
    a = wf.array(x) * 1
    view = a[1]
    for wrong in ([9], [-5, 0], [4, 1, 4]):
        with pytest.raises(IndexError, match="out of bounds"):
            WRITES[name](a, wf.array(wrong))
        np.testing.assert_array_equal(a.numpy(), x)
        np.testing.assert_array_equal(view.numpy(), x[1])


def test_a_refused_warm_call_lets_go_of_its_table() -> None:
    f = wf.jit(lambda x, i: x[i])
    x, fine, wrong = wf.arange(5.0), wf.array(np.array([1, 2])), wf.array(np.array([1, 9]))
    for _ in range(5):
        f(x, fine).numpy()
    before = sys.getrefcount(f._native_table)
    for _ in range(10):
        refused(9, 0, 5, lambda: f(x, wrong).numpy())
    after = sys.getrefcount(f._native_table)  # before the assertion: pytest keeps references to its operands
    assert f._native_table is not None and after == before
