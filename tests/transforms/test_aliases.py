"""Memory that is shared: a jitted function does what it does lazily, and both do what NumPy does.

Programs are drawn: arrays and views of them as arguments and in closures, writes through any of them, and results that are
arguments, views, the same array twice. NumPy runs each of them too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from making import array

from weft.transforms.jit import jit


def slot(draw: np.random.Generator, n: int) -> slice:
    """A slice that takes something of ``n`` elements."""
    step = int(draw.choice([1, 1, 2, -1]))
    low = int(draw.integers(0, n))
    high = int(draw.integers(low + 1, n + 1))
    return slice(low, high, step) if step > 0 else slice(high - 1, low - 1 if low else None, step)


def move(draw: np.random.Generator, x: np.ndarray) -> tuple[str, Any]:
    """A view of an array, as (kind, how)."""
    kinds = ["slice", "slice", "transpose"] + (["reshape"] if x.flags.c_contiguous and x.ndim == 2 else [])
    kind = str(draw.choice(kinds))
    if kind == "slice":
        return kind, tuple(slot(draw, n) for n in x.shape)
    return kind, (x.shape[1], x.shape[0]) if kind == "reshape" else None


def seen(x: Any, how: tuple[str, Any]) -> Any:
    kind, what = how
    return x[what] if kind == "slice" else x.T if kind == "transpose" else x.reshape(what)


class Program:
    """Arrays, handles on them (arguments and closure), statements on handles, and what is returned."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        shapes = [tuple(draw.integers(1, 6, int(draw.integers(1, 3)))) for _ in range(int(draw.integers(1, 3)))]
        self.bases = [draw.integers(0, 90, s) for s in shapes]
        shown = [b.copy() for b in self.bases]
        self.handles: list[tuple[int, tuple | None]] = []  # (number of a base or an earlier handle, how it is seen)
        for _ in range(int(draw.integers(2, 5))):
            of = int(draw.integers(len(shown)))
            how = move(draw, shown[of]) if draw.random() < 0.75 else None
            self.handles.append((of, how))
            shown.append(shown[of] if how is None else seen(shown[of], how))
        self.handles = self.handles[:]
        count = len(self.handles)
        self.given = [k for k in range(count) if draw.random() < 0.7] or [0]  # the others are the closure's
        self.statements: list[tuple[str, int, int, Any]] = []
        shown = shown[len(self.bases):]
        for _ in range(int(draw.integers(2, 6))):
            a, b = int(draw.integers(len(shown))), int(draw.integers(len(shown)))
            kind = str(draw.choice(["write", "write", "add", "scale", "view", "fresh", "copy"]))
            if kind == "add" and shown[a].shape != shown[b].shape:
                kind = "write"
            how = None
            if kind == "view":
                how = move(draw, shown[a])
                shown.append(seen(shown[a], how))
            elif kind in ("fresh", "copy"):
                shown.append(np.array(shown[a]))
            self.statements.append((kind, a, b, how))
        self.returned = [int(k) for k in draw.integers(0, len(shown), int(draw.integers(1, 5)))]

    def arrays(self, make: Any) -> tuple[list[Any], list[Any]]:
        """The bases and the handles on them, made by ``make``."""
        bases = [make(b.copy()) for b in self.bases]
        all_ = list(bases)
        for of, how in self.handles:
            all_.append(all_[of] if how is None else seen(all_[of], how))
        return bases, all_[len(bases):]

    def function(self, handles: list[Any]) -> Any:
        def f(*args: Any) -> tuple[Any, ...]:
            local = list(handles)
            for k, x in zip(self.given, args, strict=True):
                local[k] = x
            for kind, a, b, how in self.statements:
                x, y = local[a], local[b]
                if kind == "write":
                    x[...] = (x * 3 + y.sum()) % 97
                elif kind == "add":
                    x += y
                elif kind == "scale":
                    x *= 2
                elif kind == "view":
                    local.append(seen(x, how))
                elif kind == "fresh":
                    local.append((x + y.sum()) % 89)
                else:
                    local.append(x.copy())
            return tuple(local[k] for k in self.returned)

        return f

    def run(self, make: Any, jitted: bool, calls: int) -> list[np.ndarray]:
        """Everything that can be seen: after each call, and after writes into what it returned."""
        bases, handles = self.arrays(make)
        f = self.function(handles)
        f = jit(f) if jitted else f
        args = [handles[k] for k in self.given]
        out: list[np.ndarray] = []
        for call in range(calls):
            results = f(*args)
            out += [np.array(r) for r in (*results, *bases)]
            for k, r in enumerate(results):
                r[...] = r + 10 * k + call
                r %= 101
                out += [np.array(x) for x in (*results, *bases, *handles)]
            for a, r in enumerate(results):  # the same object, where NumPy gives the same
                out.append(np.array([r is x for x in (*results[:a], *handles)]))
        return out


@pytest.mark.parametrize("seed", range(60))
def test_jit_lazy_and_numpy_agree_on_shared_memory(seed):
    program = Program(seed)
    want = program.run(lambda x: x, False, 2)
    for jitted in (False, True):
        got = program.run(array, jitted, 2)
        assert len(got) == len(want)
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            np.testing.assert_array_equal(g, w, err_msg=f"seed {seed}, jitted {jitted}, figure {k}: {vars(program)}")
