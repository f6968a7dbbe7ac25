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


@pytest.mark.drawn(15)
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


def test_init_again_is_seen_by_jitted_steps() -> None:
    for fresh in (True, False):
        found = []
        for jit in (lambda f: f, wf.jit):
            w, optimizer = made("Adam", "plain", fresh)
            step = jit(lambda w=w, o=optimizer: good(w, o))
            for again in (False, False, True, False, True):
                if again:
                    optimizer.init(w)
                step()
            found.append(held(w, optimizer.arrays()))
        assert list(found[0]) == list(found[1])
        for place, content in found[0].items():
            np.testing.assert_allclose(found[1][place], content, rtol=1e-5, err_msg=place)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_init_again_is_a_write(transform: str) -> None:
    """It begins anew where it stands, in loops at each step, compiles nothing, and is taken back where the function fails."""
    run = TRANSFORMS[transform]
    for name in ("SGD", "Adam", "SantaE"):
        w, optimizer = made(name, "plain", False)
        good(w, optimizer)
        before = held(w, optimizer.arrays())

        def failing(w: Any = w, o: Any = optimizer) -> None:
            o.init(w)
            raise KeyError

        if transform != "eager":
            with pytest.raises(KeyError):
                run(failing)
            after = held(w, optimizer.arrays())
            assert list(before) == list(after) and all((before[k] == after[k]).all() for k in before)

        def anew(w: Any = w, o: Any = optimizer) -> None:
            o.init(w)
            good(w, o)

        for do in (run, TRANSFORMS["eager"], run):
            do(anew)
            assert int(optimizer.step_count) == 1
        good(w, optimizer)
        assert all(np.isfinite(x).all() for x in held(w, optimizer.arrays()).values())


@pytest.mark.parametrize("name", ["SantaE", "SantaSSS"])
def test_what_fails_draws_no_numbers(name: str) -> None:
    for failing in FAILING.values():
        for _ in range(2):
            w, optimizer = made(name, "plain", False)
            state = wf.random.get_state()
            with pytest.raises((IndexError, TypeError, wf.errors.ShapeError)):
                optimizer.update(w, failing())
            assert wf.random.get_state() == state


def test_gradients_that_are_none_are_refused_by_name() -> None:
    for name in OPTIMIZERS:
        for wrong in ("x", None, 1.0, np.ones(3)):
            optimizer = getattr(wf.optim, name)(lr=0.1)
            with pytest.raises(TypeError, match=r"gradient of parameter 'a\.w' .* float Array of shape \(3,\)"):
                optimizer.update({"a": {"w": wf.ones(3)}}, {"a": {"w": wrong}}, loss=wf.array(1.0))
            with pytest.raises(TypeError, match="gradients is .* a dict with 'w'"):
                optimizer.update({"w": wf.ones(3)}, "x" if wrong is None else None, loss=wf.array(1.0))


def test_numbers_made_in_a_gradient_are_read_as_they_were_written() -> None:
    made: list[Any] = []
    wf.grad(lambda x: (made.append(wf.zeros(())), x * x)[1])(1.0)
    (count,) = made

    def step() -> None:
        count[...] = count + 1

    wf.jit(step)()
    assert float(count + 1) == 2
