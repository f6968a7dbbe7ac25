"""What may fail fails before an array is written with it: whatever is written, however large, the array keeps its content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime.context import CONTEXT

FAILING: dict[str, Callable[[Any], Any]] = {
    "inv": lambda zero: wf.linalg.inv(zero),
    "solve and more": lambda zero: wf.linalg.solve(zero, zero + 1).T * 2 + 1,
    "cholesky": lambda zero: wf.linalg.cholesky(zero - 1),
    "gather": lambda zero: (zero + 1)[wf.arange(len(zero)) + 1],
    "gather and more": lambda zero: wf.exp((zero + 1)[:, (wf.zeros(len(zero)) + len(zero)).astype("int64")] * 2),
    "take": lambda zero: wf.take(zero, (wf.ones(len(zero)) * -1000).astype("int64"), axis=0),
    "gradient": lambda zero: wf.grad(lambda x: (wf.linalg.solve(zero, x) ** 2).sum())(zero + 1),
    "gradient of a gather": lambda zero: wf.grad(lambda x: (x[wf.arange(len(zero)) + 1] ** 2).sum())(zero + 1),
    "vmap": lambda zero: wf.vmap(lambda row: wf.linalg.inv(zero) @ row)(zero + 1),
    "scan": lambda zero: wf.scan(lambda c, row: (c, wf.linalg.solve(zero, row)), None, zero + 1)[1],
    "loop that reads": lambda zero: wf.fori_loop(0, 3, lambda i, c: c + zero[i + len(zero)], zero),
}


def _sliced(a: Any, fresh: Any) -> None:
    a[1:] = fresh()[1:]


def _row(a: Any, fresh: Any) -> None:
    a[0] = fresh()[0]


def _view(a: Any, fresh: Any) -> None:
    view = a[:, 1:]
    view += fresh()[:, 1:]


def _masked(a: Any, fresh: Any) -> None:
    a[a > 0] = fresh()[0, 0]


def _in_scan(a: Any, fresh: Any) -> None:
    def step(carry: None, x: Any) -> tuple:
        a[...] = a * 2 + fresh() * x
        return None, a.sum()

    wf.scan(step, None, wf.ones(2))


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "in place": lambda a, fresh: a.__iadd__(fresh()),
    "all": lambda a, fresh: a.__setitem__(..., fresh()),
    "sliced": _sliced, "row": _row, "view": _view, "masked": _masked, "in a scan": _in_scan,
    "out": lambda a, fresh: wf.add(a, fresh(), out=a),
    "copyto": lambda a, fresh: wf.copyto(a, fresh()),
}


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("n", [3, 210])  # which is more than what is computed at once
def test_arrays_keep_their_content(failing: str, n: int, rng: np.random.Generator) -> None:
    for limit in (0, CONTEXT.max_eager_bytes):
        for name, write in WRITES.items():
            before, CONTEXT.max_eager_bytes = CONTEXT.max_eager_bytes, limit
            try:
                content = rng.normal(size=(n, n)).astype("float32")
                content[0, 0] = 1
                a, zero = wf.array(content), wf.zeros((n, n))
                with pytest.raises((IndexError, np.linalg.LinAlgError)):
                    write(a, lambda zero=zero: FAILING[failing](zero))
                np.testing.assert_array_equal(a.numpy(), content, err_msg=name)
                a += 1
                np.testing.assert_array_equal(a.numpy(), content + 1, err_msg=name)
            finally:
                CONTEXT.max_eager_bytes = before


def test_what_lapack_refuses_it_refuses_where_it_is_asked_for() -> None:
    for n in (3, 300):
        for f in (wf.linalg.inv, lambda x: wf.linalg.cholesky(x - 1), lambda x: wf.linalg.solve(x, x)):
            with pytest.raises(np.linalg.LinAlgError):
                f(wf.zeros((n, n)) * 2)
