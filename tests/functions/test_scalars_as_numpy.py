"""A Scalar where NumPy takes its integers: as index, bound, axis, shape, count. What NumPy gives, values and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import TraceError
from weft.runtime.context import CONTEXT

TEXTS = """
x[:s]; x[s:]; x[s:s+2]; x[::s]; x[-s:]; m[s:, :s]; m[:s, s]; m[s, :s]; m[..., s]; m[s, ...]; m[None, s]; m[s, None]
m[[0, 1], s]; m[s, [0, 1]]; m[s][s]; m[(s,)]; m[(s, s)]; m[np.array(s)]; x.flat[s]; x.item(s); m.item((s, s)); x.astype(int)[s]
np.take(x, s); np.take(m, s, axis=0); np.take(m, [s, 0], axis=s-2); np.take_along_axis(m, np.array([[s]]), axis=s-1)
np.delete(x, s); np.delete(m, s, axis=0); np.insert(x, s, 9); np.insert(m, s, 9, axis=1); np.put(x, s, 5); np.put(x, [s, s-1], s)
np.roll(x, s); np.roll(m, s, axis=0); np.roll(m, (s, s), axis=(0, 1)); np.rot90(m, s); np.flip(m, axis=s-1)
np.split(x, s); np.split(x, [s, s+1]); np.array_split(x, s); np.hsplit(m[:, :2], s); np.array_split(m, s, axis=s-1)
np.zeros(s); np.zeros((s, 3)); np.ones([s, s]); np.full(s, s); np.eye(s); np.eye(s, s); np.arange(s); np.linspace(0, 1, s)
x.reshape(s, -1); x.reshape((s, -1)); np.reshape(x, (s, -1)); np.resize(x, s); np.tile(x, s); np.tile(x, (s, 1)); np.repeat(x, s)
m.sum(axis=s-1); m.sum(s-2); m.mean(axis=(s-2, s-1)); m.argmax(axis=s-1); np.sort(m, axis=s-1); np.cumsum(m, axis=s-2)
np.concatenate([m, m], axis=s-1); np.stack([x, x], axis=s-1); np.expand_dims(x, s-1); m.swapaxes(s-2, s-1); m.transpose(s-1, s-2)
np.moveaxis(m, s-2, s-1); np.squeeze(m[None], s-2); np.diff(x, s); np.diff(m, axis=s-1); np.pad(x, s); np.pad(m, ((s, 0), (0, s)))
np.tril(m, s-2); np.diag(x, s); np.diag(m, s-1); np.trace(m, s-1); np.linalg.matrix_power(m, s); np.tensordot(m, m.T, s-1)
np.histogram(x, bins=s); np.bincount([0, 1, 1], minlength=s+4); np.vander(x, s); np.partition(x, s); np.round(x / 3, s); x ** s
np.indices((s, s)); np.ix_([s-1, 0], [s-2, 1]); np.unravel_index(s, (2, 3)); np.choose(s-1, [x, x+1]); np.atleast_2d(s)
[1, 2] * s; "ab" * s; list(range(s)); [10, 20, 30][s]; "abc"[s]; {2: "b"}[s]; round(2.567, s); divmod(7, s); 1 << s; bytes(s)
np.random.rand(s).shape; np.random.permutation(s).shape; np.random.choice(s, s).shape; np.random.normal(size=(s, 3)).shape
m[s].sort(); m[s].fill(1); m[s][0] + m[:, s][s]; np.add(x[:3], 1, out=m[s]); np.fill_diagonal(m[:s, :s], s); m[s].__iadd__(1)
"""
MADE = {
    "there": lambda xp: xp.int64(2), "of an array": lambda xp: xp.arange(5)[2], "small": lambda xp: xp.int8(2),
    "pending": lambda xp: xp.argmax(xp.array([0, 1, 5])),
}


def plain(x: Any) -> Any:
    """Values and shapes; the dtypes of floats are weft's own."""
    if isinstance(x, tuple | list):
        return [plain(item) for item in x]
    if isinstance(x, wf.Array | np.ndarray | np.generic):
        return np.asarray(x).shape, np.round(np.asarray(x, float), 5).tolist()
    return x


def tried(xp: Any, text: str, make: Any) -> Any:
    space = {"np": xp, "s": make(xp), "x": xp.arange(6) * 1.0, "m": xp.arange(9)[::-1].reshape(3, 3) * 1.0}
    found = eval(text, space)
    return plain(found), plain(space["x"]), plain(space["m"])


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("limit", [0, 128 << 10])
def test_scalars_mean_what_numpys_do(made: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONTEXT, "max_eager_bytes", limit)
    for text in TEXTS.replace("\n", ";").split(";"):
        if text := text.strip():
            assert tried(wf, text, MADE[made]) == tried(np, text, MADE[made]), text


INDICES = [
    "x[[s, t]]", "m[[s, 0]]", "m[[s, t], 1]", "m[(s, t), [t, s]]", "m[[[s], [t]]].sum()", "m[[s, t], :2] + x[[t, t, s]][:2]",
    "m[1:, [s, t]]", "x[[s + t, s - t]]",
]


@pytest.mark.parametrize("way", [wf.jit, lambda f: lambda s, t: wf.vmap(f)(s[None], t[None])[0], wf.grad])
def test_lists_of_scalars_are_indices_in_traces(way: Any) -> None:
    for text in INDICES:
        def f(s: Any, t: Any, xp: Any = wf, text: str = text) -> Any:
            space = {"s": s, "t": t, "x": xp.arange(6) * 1.0, "m": xp.arange(9)[::-1].reshape(3, 3) * 1.0}
            return eval(text, space)

        want = f(np.int64(2), np.int64(1), np)
        if way is wf.grad:
            found = wf.grad(lambda x, f=f: (f(wf.int64(2), wf.int64(1)) * x).sum())(wf.array(1.0))
            assert float(found) == want.sum()
        else:
            np.testing.assert_array_equal(way(f)(wf.array(2), wf.array(1)).numpy(), want)


def test_lists_of_scalars_write_in_traces() -> None:
    @wf.jit
    def f(a: wf.Array, s: wf.Array, t: wf.Array) -> wf.Array:
        a[[s, t]] = 7
        a[[s, t], 0] += 1
        return a

    assert f(wf.zeros((3, 2)), wf.array(2), wf.array(0)).tolist() == [[8, 7], [0, 0], [8, 7]]
    with pytest.raises(TraceError, match="not known inside a function traced by wf.jit"):
        wf.jit(lambda a, s: a[[s > 0, s > 1, s > 2]])(wf.zeros(3), wf.array(2))
    with pytest.raises(IndexError, match="index arrays must hold integers or bools, not float32"):
        wf.jit(lambda a, s: a[[s]])(wf.zeros(3), wf.array(2.0))


@pytest.mark.parametrize("index", ["(..., one)", "(one, ...)", "(0, ..., one)", "one", "(one, 0)"])
@pytest.mark.parametrize("limit", [0, 128 << 10])
def test_dots_make_arrays(index: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONTEXT, "max_eager_bytes", limit)
    for xp, kind in ((np, np.ndarray), (wf, wf.ndarray)):
        x = xp.arange(4.0).reshape(2, 2) if index.count(",") == 2 or index == "(one, 0)" else xp.arange(4.0)
        assert isinstance(x[eval(index, {"one": xp.array(1)})], kind) == ("..." in index), (index, kind)


def test_rows_that_scalars_choose_are_views_in_gradients_too() -> None:
    def f(w: wf.Array) -> wf.Array:
        a = w * 1
        for i in wf.arange(3):
            a[i][0] = 7.0
        row = a[wf.int64(2)]
        row *= 3.0
        return a.sum()

    x = wf.array(np.arange(12.0, dtype="float32").reshape(3, 4))
    value, slopes = wf.value_and_grad(f)(x)
    assert float(value) == float(f(x)) == 149
    assert slopes.tolist() == [[0, 1, 1, 1], [0, 1, 1, 1], [0, 3, 3, 3]]


def test_numbers_of_the_text_choose_views_in_traces() -> None:
    @wf.jit
    def f(a: wf.Array) -> None:
        a[wf.int64(1)][0] = 7.0
        row = a[np.int64(0)]
        row += 1.0

    x = wf.zeros((2, 2))
    f(x)
    assert x.tolist() == [[1, 1], [7, 0]]


def test_what_is_no_integer_or_out_of_range_is_refused_at_once() -> None:
    a = wf.zeros((3, 3))
    for index in (wf.float32(1), wf.complex64(1), (0, wf.float64(1))):
        with pytest.raises(IndexError, match="index arrays must hold integers or bools, not"):
            a[index]
    for index in (wf.int64(3), wf.int8(-4), (0, wf.int64(7)), wf.uint64(2**63)):
        with pytest.raises(IndexError, match="out of bounds for axis [01] with size 3"):
            a[index]
    assert a[wf.bool(True)].shape == (1, 3, 3) and a[wf.array(1)].base is None
