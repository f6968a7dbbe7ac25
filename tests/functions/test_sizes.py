"""Arrays that no machine could hold: refused where they are asked for, or, where they might be held elsewhere, at the look."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import get_device
from weft.errors import ShapeError
from weft.graph.primitives.table import TABLE, bind

WIDE = 1 << 40


def row() -> Any:
    return wf.zeros((1, WIDE))


def column() -> Any:
    return wf.zeros((WIDE, 1))


CASES: dict[str, Callable[[], Any]] = {
    "zeros": lambda: wf.zeros((1 << 62,)), "ones": lambda: wf.ones((WIDE, WIDE)), "full": lambda: wf.full((1 << 61, 4), 2),
    "empty": lambda: wf.empty(1 << 70), "zeros_like": lambda: wf.zeros_like(wf.ones(2), shape=(1 << 62,)),
    "eye": lambda: wf.eye(WIDE), "arange": lambda: wf.arange(0, 1e30), "linspace": lambda: wf.linspace(0, 1, 1 << 62),
    "broadcast_to": lambda: wf.broadcast_to(wf.ones(1), (1 << 62, 4)), "add": lambda: row() + column(),
    "maximum": lambda: wf.maximum(row(), column()), "logaddexp": lambda: wf.logaddexp(row(), column()),
    "where": lambda: wf.where(row() > 0, column(), 1.0), "dot_general": lambda: column() @ row(),
    "outer": lambda: wf.outer(wf.zeros(WIDE), wf.zeros(WIDE)), "einsum": lambda: wf.einsum("ij,jk->ik", column(), row()),
    "tile": lambda: wf.tile(wf.ones(4), 1 << 62), "repeat": lambda: wf.repeat(wf.ones(4), 1 << 62),
    "pad": lambda: wf.pad(wf.ones(4), 1 << 62), "concatenate": lambda: wf.concatenate([wf.zeros(1 << 56)] * 8),
    "stack": lambda: wf.stack([wf.zeros(1 << 56)] * 4), "one_hot": lambda: wf.one_hot(wf.arange(4), 1 << 62),
    "meshgrid": lambda: wf.meshgrid(wf.zeros(WIDE), wf.zeros(WIDE)), "normal": lambda: wf.random.normal(size=(1 << 62,)),
    "conv1d": lambda: wf.nn.conv1d(wf.zeros((1, 1, 4)), wf.zeros((1, 1, 2)), padding=1 << 62),
    "scan": lambda: wf.scan(lambda c, x: (c, wf.zeros(WIDE)), wf.zeros(()), wf.zeros(1 << 30)),
    "multiply": lambda: wf.vmap(lambda x: wf.zeros(WIDE) * x)(wf.zeros(WIDE)),
    "reshape": lambda: wf.zeros(0).reshape((1 << 62, 0)).numpy(),
}


@pytest.mark.parametrize("how", ["lazy", "jit", "grad"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_where_it_is_asked_for(name: str, how: str) -> None:
    f = CASES[name]
    if how == "jit":
        f = wf.jit(f)
    elif how == "grad":
        f = lambda: wf.grad(lambda x: (CASES[name](), x)[1])(wf.ones(()))  # noqa: E731
    with pytest.raises(ShapeError, match=r"an array of shape \(.* and dtype \w+ would have [\d,]+ GiB, more than") as caught:
        f()
    assert str(caught.value).startswith(f"{name}: ")


def test_empty_arrays_count_as_numpy_counts_them() -> None:
    for shape in ((0, 1 << 62, 1 << 62), (1 << 62, 0), (0, 1 << 56), (1 << 56, 0, 1)):
        try:
            np.zeros(shape, np.float32)
        except ValueError:
            with pytest.raises(ShapeError, match="GiB"):
                wf.zeros(shape)
        else:
            assert wf.zeros(shape).numpy().shape == shape


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "float64"])
def test_the_limit(dtype: str) -> None:
    one = wf.ones(1, dtype=dtype).node
    assert bind(TABLE["broadcast_to"], one, shape=(1 << 57,)).shape == (1 << 57,)
    with pytest.raises(ShapeError, match="broadcast_to: .* GiB"):
        bind(TABLE["broadcast_to"], one, shape=((1 << 57) + 1,))


def test_what_does_not_fit_here_is_refused_at_the_look() -> None:
    x = wf.ones((1 << 50,)) * 2
    with pytest.raises(MemoryError, match=rf"{re.escape(__file__)}:\d+: .* 4,194,304 GiB .* shape \(1125899906842624,\)"):
        x.numpy()
    with pytest.raises(MemoryError, match="GiB"):
        wf.jit(lambda: wf.ones((1 << 50,)) * 2)()
    y = [wf.ones((1 << 57,), dtype="float64") * k for k in range(2, 6)]  # each could be numbered, together they cannot
    with pytest.raises(MemoryError, match="4,294,967,296 GiB"):
        wf.eval(*y)
    with pytest.raises(MemoryError, match="1,073,741,824 GiB"):
        get_device().allocate(1 << 60)
    assert (wf.ones(3) * 2).tolist() == [2, 2, 2]
