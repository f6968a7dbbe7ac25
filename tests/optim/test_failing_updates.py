"""An update that fails has written nothing: neither parameters, nor their state, nor the number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime.context import CONTEXT


def is_optimizer(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, wf.optim.Optimizer)


OPTIMIZERS = sorted(n for n in wf.optim.__all__ if is_optimizer(getattr(wf.optim, n)) and n not in ("Optimizer", "SAM"))
FAILING: dict[str, Callable[[Any, Any], Any]] = {  # of a parameter and a position, which is out of range at times
    "gather": lambda p, i: (p[i] ** 2).sum(),
    "vmap": lambda p, i: wf.vmap(lambda k: p[k] ** 2)(i).sum(),
    "stacked": lambda p, i: wf.stack([p, p * 2])[:, i].sum(),
    "loop": lambda p, i: wf.scan(lambda c, k: (c + p[k] * p[k], None), 0.0, i)[0],
    "lapack": lambda p, i: wf.linalg.inv(wf.eye(2) * (i[1] < 3) * p[0]).sum(),
    "lapack in a loop": lambda p, i: wf.scan(lambda c, k: (c + wf.linalg.inv(wf.eye(2) * (k < 3)).sum() * p[0], None), 0.0, i)[0],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "clipped": {"clip_norm": 1.0}, "decayed": {"weight_decay": 0.01},
    "schedule": {"schedule": lambda count: 1 / (count + 1)}, "group": {"groups": {"q": {"lr": 0.2}}},
}


@contextmanager
def at_once(limit: int | None) -> Iterator[None]:
    before = CONTEXT.max_eager_bytes
    CONTEXT.max_eager_bytes = before if limit is None else limit
    try:
        yield
    finally:
        CONTEXT.max_eager_bytes = before


def made(order: tuple[str, ...], n: int) -> dict[str, Any]:
    return {name: wf.arange(n) / n + 1.0 for name in order}


def held(*trees: dict[str, Any]) -> dict[str, np.ndarray]:
    return {f"{k} {name}": a.numpy().copy() for k, tree in enumerate(trees) for name, a in tree.items()}


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], what: str) -> None:
    assert list(found) == list(wanted), what
    for name, content in wanted.items():
        np.testing.assert_array_equal(found[name], content, err_msg=f"{what}: {name}")


def initialised(name: str, option: str, w: dict[str, Any]) -> Any:
    wf.random.seed(4)  # for the state that is drawn
    return getattr(wf.optim, name)(lr=0.1, **OPTIONS[option]).init(w)


def step(optimizer: Any, w: dict[str, Any], failing: Callable[[Any, Any], Any], bad: int) -> None:
    def loss(w: dict[str, Any]) -> Any:
        return (w["p"] ** 2).sum() + failing(w["q"], wf.array([1, bad])) + (w["r"] ** 3).sum()

    wf.random.seed(3)  # which may advance in vain
    value, slopes = wf.value_and_grad(loss)(w)
    optimizer.update(w, slopes, loss=wf.array(2.0))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("n", [5, 40000])
def test_nothing_is_written(name: str, n: int) -> None:
    place = OPTIMIZERS.index(name)  # every optimizer gets two of the cases, and every case seven optimizers
    cases = [*zip(permutations("pqr"), FAILING, strict=True)] * 2
    for k, (order, failing) in enumerate(cases[2 * place % 6 :][:2]):
        option = list(OPTIONS)[(k + place) % len(OPTIONS)]
        with at_once(0 if n < 100 and k else None):
            w, other = made(order, n), made(order, n)
            ours, theirs = initialised(name, option, w), initialised(name, option, other)
            what = f"{order}, {failing}, {option}"
            before = held(w, ours.arrays())
            with pytest.raises((IndexError, np.linalg.LinAlgError)):
                step(ours, w, FAILING[failing], n + 7)
            same(held(w, ours.arrays()), before, what)
            step(ours, w, FAILING[failing], 2)
            step(theirs, other, FAILING[failing], 2)
            same(held(w, ours.arrays()), held(other, theirs.arrays()), what)


@pytest.mark.parametrize("n", [5, 40000])
def test_sparse_tables_and_what_is_beside_them(n: int) -> None:
    for order in permutations("pqr"):
        w = {name: wf.ones((n, 2)) for name in order}
        optimizer = wf.optim.Adam(lr=0.1, groups={"q": {"sparse": True}}).init(w)
        before = held(w, optimizer.arrays())
        slopes = wf.grad(lambda w: (w["q"][wf.array([0, 2])] ** 2).sum() + w["p"].sum() + w["r"][wf.array([0, n])].sum())(w)
        with pytest.raises(IndexError):
            optimizer.update(w, slopes)
        same(held(w, optimizer.arrays()), before, str(order))


class Solving(wf.optim.Optimizer):
    """A rule that LAPACK may refuse."""

    slots = ("m",)

    def rule(self, p: Any, g: Any, state: dict[str, Any], lr: Any, t: Any) -> tuple[Any, dict[str, Any]]:
        return p - lr * wf.linalg.solve(g, p), {"m": state["m"] + g}


@pytest.mark.parametrize("n", [3, 210])
def test_rules_rates_and_losses_that_fail(n: int) -> None:
    table, sharp = wf.ones(3), wf.optim.SAM(wf.optim.Adam(lr=0.1))

    def outside() -> Any:
        return wf.eye(n)[wf.arange(n) + 1]

    cases: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (Solving(lr=0.1), {"q": lambda: wf.zeros((n, n))}, {}),
        (wf.optim.SGD(lr=0.1, schedule=lambda count: table[count.astype("int32") + 3]), {}, {}),
        (wf.optim.SGD(lr=0.1), {}, {"lr": lambda: wf.ones(n)[wf.full((), n, dtype="int32") * 2]}),
        (wf.optim.Eve(lr=0.1), {}, {"loss": lambda: wf.ones(n)[wf.array([n])].sum()}),
        (sharp, {}, {"gradient_at": lambda: lambda: {"p": wf.eye(n), "q": outside()}}),
        (sharp, {"q": outside}, {"gradient_at": lambda: dict}),
    ]
    for limit in (0, None):
        for optimizer, slopes, options in cases:
            with at_once(limit):
                w = {name: wf.eye(n) for name in "pq"}
                optimizer.init(w)
                before = held(w, optimizer.arrays())
                with pytest.raises((IndexError, np.linalg.LinAlgError)):
                    given = {name: slopes.get(name, lambda: wf.eye(n))() for name in w}
                    optimizer.update(w, given, **{name: make() for name, make in options.items()})
                same(held(w, optimizer.arrays()), before, repr(optimizer))


def test_what_is_refused_is_refused_before_it_is_written() -> None:
    w = {"p": wf.ones(3), "q": wf.ones(3)}
    optimizer = wf.optim.Adam(lr=0.1).init(w)
    before = held(w, optimizer.arrays())
    w["q"].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        optimizer.update(w, {"p": wf.ones(3), "q": wf.ones(3)})
    same(held(w, optimizer.arrays()), before, "read-only")


@pytest.mark.parametrize("n", [6, 40000])
def test_parameters_that_share_memory_move_in_turn(n: int) -> None:
    p = wf.ones(n)
    w, g = {"a": p, "b": p, "c": p[: n // 2]}, {"a": wf.ones(n), "b": wf.ones(n) * 2, "c": wf.ones(n // 2)}
    optimizer = wf.optim.SGD(lr=0.5, weight_decay=0.5).init(w)
    with pytest.raises(IndexError):
        optimizer.update(w, {**g, "c": g["c"][wf.arange(n // 2) + 1]})
    assert p.tolist() == [1.0] * n and int(optimizer.step_count) == 0
    optimizer.update(w, g)
    value = 1 - 0.5 * 1.5
    value -= 0.5 * (2 + 0.5 * value)
    np.testing.assert_allclose(p[n // 2 :].numpy(), value)
    np.testing.assert_allclose(p[: n // 2].numpy(), value - 0.5 * (1 + 0.5 * value))
