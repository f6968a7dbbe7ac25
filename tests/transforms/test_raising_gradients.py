"""Whatever is raised in the function of a gradient, wherever it is raised and caught: what was written since is taken back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import weft as wf

Write = Callable[[dict[str, Any]], Any]
WRITES: dict[str, Write] = {
    "in place": lambda a: a["p"].__iadd__(1),
    "row": lambda a: a["p"].__setitem__(0, 7.0),
    "view": lambda a: a["p"][1:].__imul__(3),
    "out": lambda a: wf.add(a["p"], 2, out=a["p"]),
    "jitted": lambda a: wf.jit(lambda: a["q"].__iadd__(a["p"]))(),
    "scan": lambda a: wf.fori_loop(0, 2, lambda i, c: (a["q"].__iadd__(1), c)[1], 0.0),
    "update": lambda a: a["optimizer"].update({"q": a["q"]}, {"q": wf.ones(3)}),
    "random": lambda a: wf.random.normal(size=(3,)),
    "parameter": lambda a: a["net"].weight.__iadd__(1),
    "batch": lambda a: a["norm"](wf.arange(6.0).reshape(2, 3)),
}
AROUND: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "grad": lambda f: wf.grad(lambda x: (f(), x * x)[1])(wf.ones(())),
    "value_and_grad": lambda f: wf.value_and_grad(lambda x: (f(), x.sum())[1])(wf.ones(3)),
    "vjp": lambda f: wf.vjp(lambda x: (f(), x * 2)[1], wf.ones(3)),
    "grad of grad": lambda f: wf.grad(lambda x: wf.grad(lambda y: (f(), y * y * y)[1])(x))(2.0),
    "grad of jit": lambda f: wf.grad(lambda x: wf.jit(lambda x: (f(), x * x)[1])(x))(wf.ones(())),
    "jit of grad": lambda f: wf.jit(lambda x: wf.grad(lambda x: (f(), x * x)[1])(x))(wf.ones(())),
    "grad of a module": lambda f: wf.grad(lambda net: (f(), net(wf.ones((1, 2))).sum())[1])(NETS[-1]),
}
CAUGHT_IN: dict[str, Callable[[Callable[[], Any]], Any]] = {  # a function within which a gradient fails and is caught
    "nothing": lambda f: f(),
    "grad": AROUND["grad"],
    "jit": lambda f: wf.jit(lambda: (f(), None)[1])(),
    "scan": lambda f: wf.scan(lambda c, _: (c, (f(), None)[1]), 0.0, length=1),
}
NETS: list[Any] = []


class Stop(BaseException):
    pass


def made() -> dict[str, Any]:
    wf.random.seed(2)
    a = {"p": wf.arange(3.0), "q": wf.ones(3), "net": wf.nn.Linear(2, 2), "norm": wf.nn.BatchNorm1d(3, momentum=None)}
    a["optimizer"] = wf.optim.Adam(0.1).init({"q": a["q"]})
    NETS[:] = [a["net"]]
    return a


def held(a: dict[str, Any]) -> list[Any]:
    trees = [{"p": a["p"], "q": a["q"]}, a["net"].arrays(), a["norm"].arrays(), a["optimizer"].arrays()]
    return [[x.numpy().tolist() for x in tree.values()] for tree in trees] + [wf.random.get_state()]


@pytest.mark.parametrize("around", AROUND)
def test_all_writes_are_taken_back(around: str) -> None:
    errors = itertools.cycle([KeyError, KeyboardInterrupt, Stop])
    for names in itertools.permutations(WRITES, 2):
        a, error = made(), next(errors)
        before = held(a)

        def body(a=a, names=names, error=error) -> None:
            for name in names:
                WRITES[name](a)
            raise error

        with pytest.raises(error):
            AROUND[around](body)
        assert held(a) == before, names


@pytest.mark.parametrize("around", [name for name in AROUND if name != "jit of grad"])
@pytest.mark.parametrize("outside", CAUGHT_IN)
def test_one_that_is_caught_takes_back_its_own_writes_alone(around: str, outside: str) -> None:
    for first, then, last in zip(WRITES, [*WRITES][3:] + [*WRITES][:3], [*WRITES][5:] + [*WRITES][:5], strict=True):
        found = []
        for failing in (True, False):
            a = made()

            def body(a=a, then=then) -> None:
                WRITES[then](a)
                raise KeyError

            def whole(a=a, failing=failing, body=body, first=first, last=last) -> None:
                WRITES[first](a)
                if failing:
                    with suppress(KeyError):
                        AROUND[around](body)
                WRITES[last](a)

            CAUGHT_IN[outside](whole)
            found.append(held(a))
        for ours, wanted in zip(*found, strict=True):
            for x, y in zip(ours, wanted, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-6, err_msg=f"{first}, {then}, {last}")
