"""The first step of an optimizer without ``init``: in every transform that of one with ``init``, also after it has failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.optim.test_failing_updates import OPTIMIZERS, OPTIONS, held


def _scan(f: Callable[[], Any]) -> None:
    def step(carry: Any, _: Any) -> tuple[Any, None]:
        f()
        return carry, None

    wf.scan(step, 0.0, length=1)


TRANSFORMS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "eager": lambda f: f(),
    "jit": lambda f: wf.jit(f)(),
    "scan": _scan,
    "fori_loop": lambda f: wf.fori_loop(0, 1, lambda i, c: (f(), c)[1], 0.0),
    "vmap": lambda f: wf.vmap(lambda x: (f(), x)[1])(wf.ones(2)),
    "grad": lambda f: wf.grad(lambda x: (f(), x * x)[1])(1.0),
    "jit of scan": lambda f: wf.jit(lambda: _scan(f))(),
    "scan of grad": lambda f: _scan(lambda: wf.grad(lambda x: (f(), x * x)[1])(wf.ones(()))),
    "jit of jit": lambda f: wf.jit(lambda: wf.jit(f)())(),
}


def _wrong_now() -> dict[str, Any]:
    return {"p": wf.ones(4), "q": wf.ones(3)}


def _wrong_later() -> dict[str, Any]:
    return {"p": wf.ones(3), "q": wf.arange(3.0)[wf.array([0, 1, 9])]}


FAILING = {
    "a shape": _wrong_now, "an index": _wrong_later, "none": lambda: {"p": wf.ones(3)},
    "text": lambda: {"p": wf.ones(3), "q": "x"},
}


def made(name: str, option: str, fresh: bool) -> tuple[dict[str, Any], Any]:
    wf.random.seed(5)
    w = {"p": wf.arange(3.0) + 1, "q": wf.ones(3)}
    optimizer = getattr(wf.optim, name)(lr=0.1, **OPTIONS[option])
    return w, optimizer if fresh else optimizer.init(w)


def good(w: dict[str, Any], optimizer: Any) -> None:
    optimizer.update(w, {"p": wf.arange(3.0) - 1.5, "q": wf.ones(3)}, loss=wf.array(2.0))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("failing", [None, *FAILING])
def test_it_is_that_of_one_with_init(transform: str, failing: str | None) -> None:
    run, first = TRANSFORMS[transform], list(TRANSFORMS).index(transform)
    for k, name in enumerate(OPTIMIZERS):
        option, found = list(OPTIONS)[(k + first) % len(OPTIONS)], []
        for fresh in (True, False):
            w, optimizer = made(name, option, fresh)
            if failing is not None and fresh:
                with pytest.raises((IndexError, TypeError, wf.errors.ShapeError)):
                    run(lambda w=w, o=optimizer: o.update(w, FAILING[failing](), loss=wf.array(2.0)))
                assert optimizer.step_count is None or int(optimizer.step_count) == 0, (name, option)
            for do in [run, TRANSFORMS["eager"], run]:
                do(lambda w=w, o=optimizer: good(w, o))
            found.append(held(w, optimizer.arrays()))
        assert list(found[0]) == list(found[1]), (name, option)
        for place, content in found[1].items():
            np.testing.assert_allclose(found[0][place], content, rtol=1e-5, atol=1e-6, err_msg=f"{name}, {option}: {place}")
