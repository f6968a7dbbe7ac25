"""Draws of one number and small ones have the numbers of compiled programs, whatever happens to their sequence in between."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dtypes.formats import DEFAULT, FORMATS
from weft.functions.random import distributions
from weft.functions.random.state import _HIDDEN_STREAM, MAX_PREPARED_ELEMENTS, PREPARED_BLOCKS
from weft.runtime.context import CONTEXT

ROWS = np.arange(12).reshape(4, 3)
MANY = {"a": 2.0, "shape": 2.0, "left": 0.0, "mode": 0.5, "right": 1.0, "p": 0.3, "mean": 1.5, "scale": 2.0}

DRAWS: list[Callable[[Any], Any]] = [  # of a generator, or of wf.random
    lambda r: r.random(),
    lambda r: r.uniform(-1, 2.5),
    lambda r: r.normal(3, 0.5),
    lambda r: r.exponential(2.5),
    lambda r: r.integers(7),
    lambda r: r.integers(-(2**63), 2**63),
    lambda r: r.integers(2, dtype=bool),
    lambda r: r.integers(0, 255, dtype=wf.uint8, endpoint=True),
    lambda r: r.random(dtype=wf.float64),
    lambda r: r.normal(1, 2, dtype=wf.float64),
    lambda r: r.normal(dtype=wf.bfloat16),
    lambda r: r.random(dtype=wf.float16),
    lambda r: r.gumbel(),
    lambda r: r.laplace(1, 2),
    lambda r: r.wald(1.0, 2.0),
    lambda r: r.geometric(0.3),
    lambda r: r.gamma(2.0),
    lambda r: r.random(3),
    lambda r: r.normal(size=(2, 3)),
    lambda r: r.integers(5, size=7),
    lambda r: r.integers(2**40, size=3),
    lambda r: r.random(2, dtype=wf.float64),
    lambda r: r.random(5000),
    lambda r: r.choice(3, p=[0.2, 0.3, 0.5]),
    lambda r: r.choice(30),
    lambda r: r.choice(ROWS, axis=1),
    lambda r: r.choice(ROWS, 2, axis=0),
    lambda r: r.choice(5, (2, 2), p=np.ones(5)),
    lambda r: r.choice(9, 4, replace=False),
    lambda r: r.random((3, 4)),
    lambda r: r.normal(size=(3, 4)),
    lambda r: r.normal(2.0, 3.0, size=5),
    lambda r: r.gamma(2.0, 1, 6),
    lambda r: r.normal(size=MAX_PREPARED_ELEMENTS),
    lambda r: r.normal(size=MAX_PREPARED_ELEMENTS + 1),
    lambda r: r.random((2, 0, 3)),
    lambda r: r.exponential(size=9),
    lambda r: r.normal(size=(1, 33), dtype=wf.float64),
    lambda r: r.normal(size=17, dtype=wf.bfloat16),
    lambda r: r.permutation(10),
    lambda r: r.permutation(ROWS),
    lambda r: r.normal(np.zeros(3), 2),
    lambda r: r.bytes(5),
]


@contextmanager
def compiled() -> Iterator[None]:
    """Everything in programs: nothing at once, nothing node by node."""
    before = CONTEXT.max_eager_bytes, CONTEXT.compile_threshold
    CONTEXT.max_eager_bytes = CONTEXT.compile_threshold = 0
    try:
        yield
    finally:
        CONTEXT.max_eager_bytes, CONTEXT.compile_threshold = before


def bits(x: Any) -> Any:
    found = np.asarray(x if isinstance(x, wf.Array) else np.frombuffer(x, np.uint8))
    return found.dtype.name, found.shape, found.tobytes()


def happened(seed: int, steps: int) -> list[Any]:
    """What a random sequence of draws gives, with seeds, states and jitted draws in between."""
    chance, found = np.random.default_rng(seed), []
    wf.random.seed(seed)
    rng = wf.random.default_rng(seed)
    sources = [wf.random, rng]
    jitted = [wf.jit(lambda: wf.random.normal(size=2)), wf.jit(lambda: rng.random(3))]
    state, few = wf.random.get_state(), chance.choice(len(DRAWS), 4)
    for _ in range(steps):
        what = chance.integers(40)
        if what == 0:
            wf.random.seed(int(chance.integers(5)))
        elif what == 1:
            state = wf.random.get_state()
        elif what == 2:
            wf.random.set_state(state)
        elif what < 5:
            found.append(bits(jitted[what - 3]()))
        elif what == 5:
            few = chance.choice(len(DRAWS), 4)
        else:
            found.append(bits(DRAWS[chance.choice(few)](sources[chance.integers(2)])))
    return [*found, wf.random.get_state(), bits(rng.random())]


@pytest.mark.parametrize("seed", range(4))
def test_as_compiled_programs(seed: int) -> None:
    got = happened(seed, 300)
    with compiled():
        want = happened(seed, 300)
    assert got == want


@pytest.mark.parametrize("number", range(len(DRAWS)))
def test_each_draw(number: int) -> None:
    draw = DRAWS[number]
    wf.random.seed(number)
    got = [bits(draw(wf.random)) for _ in range(4)]
    wf.random.seed(number)
    with compiled():
        assert [bits(draw(wf.random)) for _ in range(4)] == got


def test_longer_than_what_is_ahead() -> None:
    wf.random.seed(3)
    got = [float(wf.random.random()) for _ in range(2 * PREPARED_BLOCKS + 50)]
    wf.random.seed(3)
    assert got == [float(wf.random.random(size=1)[0]) for _ in got]


@pytest.mark.parametrize("shape", [(3, 4), (MAX_PREPARED_ELEMENTS,), (1,), (5, 7)])
def test_small_arrays_longer_than_what_is_ahead(shape: tuple[int, ...]) -> None:
    """Drawn one after the other, with other draws between them, as one after the other by compiled programs."""
    def some() -> list[Any]:
        wf.random.seed(4)
        return [bits(f()) for k in range(60) for f in (
            lambda: wf.random.normal(size=shape), lambda: wf.random.random(),
            lambda k=k: wf.random.random(shape if k % 5 else (2, 2)))]

    got = some()
    with compiled():
        assert some() == got


def test_small_arrays_take_few_operations() -> None:
    """And have memory of their own."""
    wf.random.seed(4)
    first = [wf.random.normal(size=(3, 4)) for _ in range(3)]
    before = wf.devices.counters()
    drawn = [wf.random.normal(size=(3, 4)) for _ in range(100)]
    after = wf.devices.counters()
    calls = [after[k] - before[k] for k in ("sized_calls", "numpy_calls", "kernels", "compiles")]
    assert calls[0] <= 100 + 60 and calls[1] <= 60 and calls[2:] == [0, 0]  # each adds to the position
    first[2][...] = 0
    drawn[0] += 1
    assert float(abs(drawn[1]).sum()) > 0 and first[2].tolist() != drawn[0].tolist()


def of_numbers(name: str) -> bool:
    parameters = inspect.signature(getattr(wf.random, name)).parameters
    return "size" in parameters and "key" in parameters and not {"n", "pvals", "alpha", "mean", "colors"} & set(parameters)


@pytest.mark.parametrize("name", [name for name in distributions.DISTRIBUTIONS if of_numbers(name)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions_of_one_number(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = getattr(wf.random, name)
    given = {p: MANY.get(p, 1.5) for p, k in inspect.signature(draw).parameters.items() if k.default is k.empty}
    given = {p: 5 if p in ("ngood", "nbad", "nsample") else 3.5 if name == "zipf" else x for p, x in given.items()}
    monkeypatch.setattr(DEFAULT, "real", FORMATS[dtype])
    wf.random.seed(1)
    one = [bits(draw(**given)) for _ in range(3)]
    wf.random.seed(1)
    assert [bits(draw(**given, size=1)[0]) for _ in range(3)] == one


def test_a_key_of_its_own() -> None:
    wf.random.seed(5)
    state = wf.random.get_state()
    want = [float(wf.random.random()) for _ in range(4)]
    wf.random.seed(6)
    wf.random.random(), wf.random.random()
    _HIDDEN_STREAM.key[...] = wf.array(np.uint64(state[0]))  # the key alone; the position stays at 2
    assert [float(wf.random.random()) for _ in range(2)] == want[2:]


def test_dtype_switch() -> None:
    wf.random.seed(5)
    wf.random.random(), wf.random.random()
    wf.set_default_dtype("float64")
    try:
        assert wf.random.random().dtype == wf.float64
    finally:
        wf.set_default_dtype("float32")
    assert wf.random.random().dtype == wf.float32


@pytest.mark.parametrize("arrays", [False, True])
def test_threads_never_draw_the_same(arrays: bool) -> None:
    rng, found = wf.random.default_rng(8), []

    def some() -> None:
        for k in range(300):
            found.append(int(rng.integers(2**63, size=1)[0] if arrays and k % 3 == 0 else rng.integers(2**63)))

    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1200
    alone = wf.random.default_rng(8)
    if arrays:  # which take their words one after the other
        assert rng._stream.base.node.value is not None and int(rng._stream.base) == 2400
        return
    assert sorted(found) == sorted([int(alone.integers(2**63)) for _ in range(1200)])


def test_what_is_drawn_is_a_value_of_its_own() -> None:
    a, b = wf.random.integers(0, 1), wf.random.integers(0, 1)
    c = wf.array(a)
    c += 1
    assert (int(a), int(b), int(c), int(wf.random.integers(0, 1))) == (0, 0, 1, 0)
    first = wf.random.random()
    kept = float(first)
    wf.random.seed(0)
    [wf.random.random() for _ in range(2 * PREPARED_BLOCKS)]
    assert float(first) == kept


def test_the_position_is_known_at_once() -> None:
    wf.random.seed(0)
    for _ in range(5):
        wf.random.normal()
    assert wf.random.get_state()[1] == 10
    assert _HIDDEN_STREAM.base.node.value is not None
