"""What a loop, a gradient's function or vmap's writes outside is written altogether or, where one of it fails, not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime.context import CONTEXT

ERRORS = (IndexError, np.linalg.LinAlgError)
WRITES: dict[str, Callable[[dict[str, Any], Any], None]] = {  # to count, q and p; that to p fails where k is 9
    "gather": lambda a, k: a["p"].__iadd__(a["p"][k]),
    "lapack": lambda a, k: a["p"].__iadd__(wf.linalg.inv(wf.eye(2) * (k != 9)).sum()),
    "view": lambda a, k: a["p"][1:].__iadd__(a["p"][k]),
    "row": lambda a, k: a["p"].__setitem__(0, a["p"][k] * 2),
    "inner loop": lambda a, k: a["p"].__iadd__(wf.fori_loop(0, 2, lambda j, c: c + a["p"][k + j], 0.0)),
}


def _double(a: dict[str, Any], k: Any) -> None:
    a["q"] *= 2.0


def _count(a: dict[str, Any], k: Any) -> None:
    a["count"] += 1.0


CASES = [(name, parts) for name in WRITES for parts in permutations([WRITES[name], _double, _count])]


def all_of(parts: Sequence[Callable], a: dict[str, Any]) -> Callable[[Any], None]:
    def turn(k: Any) -> None:
        for part in parts:
            part(a, k)

    return turn


def made(n: int) -> dict[str, Any]:
    return {"count": wf.array(0.0), "q": wf.ones(n), "p": wf.ones(n)}


def held(a: dict[str, Any]) -> dict[str, list[float]]:
    return {name: x.numpy().tolist() for name, x in a.items()}


@contextmanager
def tier(patience: float, at_once: int | None) -> Iterator[None]:
    """Patience of 0: all is compiled; at_once of 0: nothing is computed in the operator."""
    before = CONTEXT.compile_threshold, CONTEXT.max_eager_bytes
    CONTEXT.compile_threshold, CONTEXT.max_eager_bytes = patience, before[1] if at_once is None else at_once
    try:
        yield
    finally:
        CONTEXT.compile_threshold, CONTEXT.max_eager_bytes = before


def scan(turn: Callable[[Any], Any], ks: Any, reverse: bool = False) -> Any:
    return wf.scan(lambda c, k: (c, turn(k)), 0.0, ks, reverse=reverse)


LOOPS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "scan": scan,
    "backwards": lambda turn, ks: scan(turn, ks[::-1].copy(), reverse=True),
    "fori": lambda turn, ks: wf.fori_loop(0, len(ks), lambda i, c: (turn(ks[i]), c)[1], 0.0),
    "loop in a loop": lambda turn, ks: scan(lambda k: scan(turn, k[None])[1], ks),
    "gradient": lambda turn, ks: wf.grad(lambda x: scan(turn, ks)[0] + x)(1.0),
    "loop of gradients": lambda turn, ks: scan(lambda k: wf.grad(lambda x: (turn(k), x * x)[1])(wf.ones(())), ks),
    "vmap": lambda turn, ks: wf.vmap(lambda x: (scan(turn, ks), x)[1])(wf.ones(2)),
}


@pytest.mark.drawn(7)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("n", [3, 40000])
def test_loops_write_all_or_nothing(loop: str, n: int) -> None:
    for k, (name, parts) in enumerate(CASES):
        with tier([0.0, 1.0][k % 2], [0, None][k // 2 % 2]):
            a, bad = made(n), 9 if name == "lapack" else n + 9
            before, turn = held(a), all_of(parts, a)
            with pytest.raises(ERRORS):
                LOOPS[loop](turn, wf.array([0, 1, bad]))
            assert held(a) == before, (name, parts)
            LOOPS[loop](turn, wf.array([0, 1, 0]))
            assert a["count"] == 3 and a["q"][0] == 8, (name, parts)


@pytest.mark.parametrize("n", [3, 40000])
def test_a_loop_whose_result_fails(n: int) -> None:
    for failing in (lambda k: wf.ones(n)[k], lambda k: wf.linalg.inv(wf.eye(2) * (k < n))):
        a = made(n)

        def counted(k: Any, a: dict = a, failing: Callable = failing) -> Any:
            _count(a, k)
            return failing(k)

        with pytest.raises(ERRORS):
            scan(counted, wf.array([0, 1, n]))
        assert a["count"] == 0
        _, found = scan(counted, wf.array([0, 1, 2]))
        assert a["count"] == 3 and len(found) == 3
        with pytest.raises(ERRORS):  # it wrote nothing, so it is as lazy as ever
            scan(failing, wf.array([0, 1, n]))[1].numpy()


def test_steps_of_an_optimizer() -> None:
    for order in permutations("abc"):
        for name in ("SGD", "Adam", "Nadam"):
            w = {key: wf.ones(3) for key in order}
            optimizer = getattr(wf.optim, name)(lr=0.1).init(w)
            before = held({**w, **optimizer.arrays()})

            def turn(k: Any, w: dict = w, optimizer: Any = optimizer) -> None:
                optimizer.update(w, wf.grad(lambda w: (w["a"] ** 2).sum() + w["b"][k] ** 2 + w["c"].sum())(w))

            with pytest.raises(IndexError):
                scan(turn, wf.array([0, 1, 9]))
            assert held({**w, **optimizer.arrays()}) == before
            scan(turn, wf.array([0, 1, 2]))
            assert int(optimizer.step_count) == 3


TRANSFORMS: dict[str, Callable[[Callable[[], None], Any], Any]] = {
    "grad": lambda f, x: wf.grad(lambda x: (f(), (x * x).sum())[1])(x),
    "grad of grad": lambda f, x: wf.grad(lambda x: wf.grad(lambda x: (f(), (x**3).sum())[1])(x).sum())(x),
    "vjp": lambda f, x: wf.vjp(lambda x: (f(), x * x)[1], x),
    "vmap": lambda f, x: wf.vmap(lambda x: (f(), x * x)[1])(x),
    "grad of vmap": lambda f, x: wf.grad(lambda x: wf.vmap(lambda x: (f(), x * x)[1])(x).sum())(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("n", [3, 40000])
def test_functions_of_transforms_write_all_or_nothing(transform: str, n: int) -> None:
    for k, (name, parts) in enumerate(CASES):
        with tier([0.0, 1.0][k % 2], [0, None][k // 2 % 2]):
            a, bad = made(n), wf.array(9 if name == "lapack" else n + 9)
            before, f = held(a), all_of(parts, a)
            with pytest.raises(ERRORS):
                TRANSFORMS[transform](lambda f=f, bad=bad: f(bad), wf.ones(n))
            assert held(a) == before, (name, parts)
            TRANSFORMS[transform](lambda f=f: f(wf.array(0)), wf.ones(n))
            assert a["count"] == 1 and a["q"][0] == 2, (name, parts)


def test_a_gradient_that_fails_takes_back_what_its_function_wrote() -> None:
    a, x = made(3), wf.ones(3)
    with pytest.raises(IndexError):
        wf.grad(lambda x: (_count(a, 0), x[wf.array([0, 3])].sum())[1])(x)
    assert a["count"] == 0
    with pytest.raises(KeyError):
        wf.grad(lambda x: (_count(a, 0), {}["no"])[1])(x)
    assert a["count"] == 0
    with pytest.raises(KeyError):
        wf.grad(lambda x: (_double(a, 0), a["p"].__iadd__(a["p"][wf.array(3)]), {}["no"])[2])(x)
    assert a["p"].tolist() == a["q"].tolist() == [1, 1, 1]
    _double(a, 0)
    wf.grad(lambda x: (x.__imul__(a["q"]), x.sum())[1])(x)
    assert x.tolist() == a["q"].tolist()


def test_batches_that_fail_do_not_count() -> None:
    for options in ({}, {"momentum": None}):
        for n in (4, 40000):
            net, x = wf.nn.BatchNorm1d(3, **options), wf.ones((n, 3))
            before = held(net.arrays())
            for run in (lambda x, net=net: net(x), lambda x, net=net: wf.grad(lambda net: net(x).sum())(net)):
                with pytest.raises(IndexError):
                    run(x[wf.arange(n) + 1])
                assert held(net.arrays()) == before
            net(x)
            assert held(net.arrays()) != before
