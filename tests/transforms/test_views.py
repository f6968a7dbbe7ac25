"""Indexing, views and writes against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from making import array, normal

import weft as wf

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)


@st.composite
def shapes_and_indices(draw, count=1):
    shape = draw(SHAPES)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    indices, view = [], x
    for _ in range(count):
        if view.ndim == 0:
            break
        index = draw(hnp.basic_indices(view.shape, allow_newaxis=True, allow_ellipsis=True))
        indices.append(index)
        view = view[index]
        if not isinstance(view, np.ndarray):
            break
    return x, indices


@settings(max_examples=40, deadline=None)
@given(shapes_and_indices(count=2))
def test_basic_reads(case):
    x, indices = case
    a = array(x)
    for index in indices:
        x, a = x[index], a[index]
    assert a.shape == np.shape(x)
    np.testing.assert_array_equal(a.numpy(), x)


@settings(max_examples=40, deadline=None)
@given(shapes_and_indices(count=2), st.booleans())
def test_basic_writes_reach_the_base(case, transposed):
    x, indices = case
    a = array(x)
    x = x.copy()
    base, shown = a, a
    target, view = x, x
    if transposed:
        shown, view = shown.T, view.T
        indices = indices[:0]
    for index in indices[:-1]:
        view, shown = view[index], shown[index]
    last = indices[-1] if indices else ...
    if not isinstance(view, np.ndarray):
        return
    view[last] = -5
    shown[last] = -5
    np.testing.assert_array_equal(base.numpy(), target)
    np.testing.assert_array_equal(shown.numpy(), view)


def test_views_see_later_writes():
    x = normal(4, 6)
    a = array(x)
    x = x.copy()
    row, block, flat = a[1], a[1:3, ::-2], a.reshape(-1)
    a[1] = 7
    x[1] = 7
    np.testing.assert_array_equal(row.numpy(), x[1])
    np.testing.assert_array_equal(block.numpy(), x[1:3, ::-2])
    flat[8:] = 3
    x.reshape(-1)[8:] = 3
    np.testing.assert_array_equal(a.numpy(), x)
    block += 10
    x[1:3, ::-2] += 10
    np.testing.assert_array_equal(a.numpy(), x)
    a.T[2, 1:] = [1.0, 2.0, 3.0]
    x.T[2, 1:] = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(a.numpy(), x)
    a[..., None][0, 2] = 5
    x[..., None][0, 2] = 5
    np.testing.assert_array_equal(a.numpy(), x)


def test_values_computed_before_a_write_stay():
    a = array([1.0, 2.0])
    b = a * 10
    a[...] = 0
    assert b.tolist() == [10.0, 20.0] and a.tolist() == [0.0, 0.0]


def test_copies_are_their_own():
    a = array([1.0, 2.0])
    b, c = a.copy(), a.flatten()
    seen = a.numpy()
    a += 1
    assert b.tolist() == [1.0, 2.0] and c.tolist() == [1.0, 2.0] and seen.tolist() == [1.0, 2.0]


INDICES = [
    np.s_[[0, 2]], np.s_[[0, -1], [1, 2]], np.s_[:, [1, 0, 1]], np.s_[[2, 0], :, 1], np.s_[:, [0, 1], [1, 0]],
    np.s_[[0, 1], :, [1, 0]],
    np.s_[1:, [0, 2]], np.s_[0, [0, 2]], np.s_[..., [1, 0]], np.s_[[[0, 1], [2, 0]]], np.s_[[[0], [2]], [0, 1]],
    np.s_[None, [0, 1]],
    np.s_[[0, 1], None, [1, 1]], np.s_[::-1, [3, 0], ::2], np.s_[1, :, [0, 1]],
]


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_integer_arrays(number):
    index = INDICES[number]
    x = normal(3, 4, 5)
    a = array(x)
    want = x[index]
    np.testing.assert_array_equal(a[index].numpy(), want)
    x = x.copy()
    x[index] = 3
    a[index] = 3
    np.testing.assert_array_equal(a.numpy(), x)
    values = normal(*want.shape)
    x[index] = values
    a[index] = values
    if len({tuple(np.atleast_1d(i).ravel()) for i in np.argwhere(np.ones(want.shape))}) == want.size:
        assert (a.numpy() == x).mean() > 0.8  # repeated positions: which value stays is open


@pytest.mark.parametrize("of", [lambda x: x > 0, lambda x: x[:, 0, 0] > 0, lambda x: x[:, :, 0] > 0])
def test_masks(of):
    x = normal(3, 4, 5)
    a = array(x)
    mask = of(x)
    np.testing.assert_array_equal(a[mask].numpy(), x[mask])
    np.testing.assert_array_equal(a[array(mask)].numpy(), x[mask])
    x = x.copy()
    a[array(mask)] = 0.5
    x[mask] = 0.5
    np.testing.assert_array_equal(a.numpy(), x)
    values = normal(*x[mask].shape)
    a[mask] = values
    x[mask] = values
    np.testing.assert_array_equal(a.numpy(), x)


def test_a_lazy_index():
    x = normal(4, 3)
    a = array(x)
    i = array(np.array([3, 1]))
    np.testing.assert_array_equal(a[i].numpy(), x[[3, 1]])
    np.testing.assert_array_equal(a[a.argmax() // 3].numpy(), x[x.argmax() // 3])


def test_out_of_range_positions_are_refused():
    a = array(normal(3, 4))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        a[[0, 3]]
    with pytest.raises(IndexError, match="mask has shape"):
        a[np.array([True, False])]
    with pytest.raises(IndexError, match="only one ellipsis"):
        a[..., ...]
    with pytest.raises(IndexError, match="integers or bools"):
        a[np.array([0.5])]


def steps(rng, x, a):
    """The same random step of slicing, turning and reshaping, of a NumPy array and of ours."""
    kind = rng.choice(["slice", "transpose", "reshape", "ravel", "squeeze", "swapaxes", "newaxis", "reshape", "ravel"])
    if kind == "slice" and x.ndim:
        index = tuple(slice(*sorted(rng.integers(0, n + 1, 2)), rng.choice([1, 1, 2])) for n in x.shape)
        index = tuple(slice(None, None, -1) if rng.random() < 0.15 else i if rng.random() < 0.5 else slice(None) for i in index)
        return x[index], a[index]
    if kind == "transpose":
        order = tuple(int(i) for i in rng.permutation(x.ndim))
        return x.transpose(order), a.transpose(order)
    if kind == "swapaxes" and x.ndim > 1:
        return x.swapaxes(0, -1), a.swapaxes(0, -1)
    if kind == "squeeze":
        return x.squeeze(), a.squeeze()
    if kind == "newaxis":
        return x[None, ..., None], a[None, ..., None]
    if kind == "ravel":
        return x.ravel(), a.ravel()
    factors = [int(f) for f in rng.permutation([f for n in x.shape for f in ((2, n // 2) if n % 2 == 0 and n else (n,))])]
    cut = int(rng.integers(0, len(factors) + 1))
    shape = (*factors[:cut], -1) if 0 not in factors else x.shape
    return x.reshape(shape), a.reshape(shape)


def test_reshapes_are_views_where_numpys_are_and_copies_where_they_are_not():
    rng = np.random.default_rng()
    copies = 0
    for turn in range(400):
        shape = tuple(rng.choice([1, 2, 3, 4, 6], rng.integers(1, 4)))
        base = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        x, a = base, array(base)
        ours = a
        for _ in range(rng.integers(1, 5)):
            before, held = x, a
            x, a = steps(rng, x, a)
            if x.size and x.ndim:
                assert np.shares_memory(before, x) == (held.cell is a.cell), (shape, before.shape, before.strides, x.shape)
                copies += held.cell is not a.cell
        if turn < 12 and x.size and x.ndim and isinstance(x, np.ndarray):
            x[...] = -1
            a[...] = -1
            np.testing.assert_array_equal(ours.numpy(), base)
        if turn < 40:
            np.testing.assert_array_equal(a.numpy(), x)
    assert copies > 8


def test_writing_to_a_copy_leaves_the_original():
    x = normal(3, 4)
    for of in (
        lambda a: a.T.reshape(-1), lambda a: a.T.ravel(), lambda a: a[:, ::2].ravel(), lambda a: a[:, 1:].reshape(-1),
        lambda a: a.flatten(),
        lambda a: a[::-1].ravel(), lambda a: a.reshape(2, 6).T.reshape(3, 4), lambda a: a.swapaxes(0, 1).reshape(2, 6),
    ):
        a, b = array(x), x.copy()
        ours, theirs = of(a), of(b)
        np.testing.assert_array_equal(ours.numpy(), theirs)
        ours[0], theirs[0] = 100, 100
        np.testing.assert_array_equal(a.numpy(), x)
        np.testing.assert_array_equal(ours.numpy(), theirs)
    a = array(x)
    with pytest.raises(ValueError, match="without a copy"):
        wf.reshape(a.T, (12,), copy=False)
    assert wf.reshape(a, (12,), copy=False).cell is a and wf.reshape(a, (12,), copy=True).cell is not a


BOOLS = [
    np.s_[True], np.s_[False], np.s_[np.True_], np.s_[np.array(True)], np.s_[True, 0], np.s_[0, True], np.s_[..., True],
    np.s_[True, ...],
    np.s_[None, True], np.s_[True, None], np.s_[:, True], np.s_[True, :, 1], np.s_[True, [0, 1]], np.s_[[0, 1], True],
    np.s_[False, 0],
    np.s_[1:, False], np.s_[True, True],
]


@pytest.mark.parametrize("number", range(len(BOOLS)))
@pytest.mark.parametrize("shape", [(), (2,), (3, 2)])
def test_bools_without_dimensions(number, shape):
    index = BOOLS[number]
    x = normal(*shape)
    a = array(x)
    try:
        want = x[index]
    except IndexError:
        with pytest.raises(IndexError):
            a[index]
        return
    ours = tuple(array(i) if isinstance(i, bool) else i for i in index) if isinstance(index, tuple) else array(np.asarray(index))
    for i in (index, ours):
        np.testing.assert_array_equal(a[i].numpy(), want)
        assert a[i].shape == want.shape
        b = array(x)
        y = x.copy()
        b[i], y[index] = 5, 5
        np.testing.assert_array_equal(b.numpy(), y)


def test_a_lazy_flag_chooses_without_a_look():
    x = normal(3)
    a = array(x)
    b = array(x)
    b[a.sum() > 1e6] = 7  # of no dimensions: all or nothing
    b[a.sum() < 1e6] = 8
    np.testing.assert_array_equal(b.numpy(), np.full(3, 8, np.float32))
    s = a.sum()
    assert s[s > 1e6].shape == (0,) and s[s < 1e6].shape == (1,)


LAYOUTS = {
    "strided": lambda x: x[::2, ::2], "transposed": lambda x: x.T, "reversed": lambda x: x[::-1], "columns": lambda x: x[:, 1:3],
    "rows": lambda x: x[1:3], "flat": lambda x: x.reshape(-1), "one row": lambda x: x[2:3, ::3], "empty": lambda x: x[:0, ::2],
}
RESHAPES = {
    "ravel": lambda v: v.ravel(), "reshape": lambda v: v.reshape(-1), "T ravel": lambda v: v.T.ravel(),
    "T reshape": lambda v: v.T.reshape(v.shape[0], -1) if v.size else v.T.reshape(-1), "slice": lambda v: v[..., ::2].reshape(-1),
}


def _doubled(reshape, v, how):
    def f(v):
        w = reshape(v)
        w *= 2
        return w

    if how == "lazy":
        return f(v)
    if how == "jit":
        return wf.jit(f)(v)
    if how == "grad":
        return wf.value_and_grad(lambda v: (f(v).sum(), 0.0)[0])(v)[0]
    return wf.vmap(f, in_axes=1)(v)


@pytest.mark.parametrize("how", ["lazy", "jit", "grad"])
@pytest.mark.parametrize("reshape", RESHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reshape_of_an_argument_is_a_view_where_numpys_is(layout, reshape, how, rng):
    """What a traced function is given lies as what stands outside does."""
    x = rng.standard_normal((4, 6))
    ours, theirs = wf.array(x.astype(np.float32)), x.astype(np.float32)
    _doubled(RESHAPES[reshape], LAYOUTS[layout](ours), how)
    _doubled(RESHAPES[reshape], LAYOUTS[layout](theirs), "lazy")
    np.testing.assert_array_equal(ours.numpy(), theirs)
    if how == "jit":  # NumPy arrays are written as without jit
        given = x.astype(np.float32)
        _doubled(RESHAPES[reshape], LAYOUTS[layout](given), how)
        np.testing.assert_array_equal(given, theirs)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_reshape_of_one_example_is_a_view_where_numpys_is(axis, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    ours, theirs = wf.array(x), x.copy()

    def f(v):
        w = v.reshape(-1)
        w *= 2
        return w.sum()

    wf.vmap(f, in_axes=axis)(ours)
    for part in np.moveaxis(theirs, axis, 0):
        f(part)
    np.testing.assert_array_equal(ours.numpy(), theirs)


RANGES = [
    (range(4), range(4)), range(3), range(3, -1, -2), range(0), (slice(1, None), range(-1, -4, -1)), (0, range(2)),
    (range(2), None), (..., range(4)), (range(4), [3, 2, 1, 0]),
]


@pytest.mark.parametrize("index", RANGES, ids=str)
def test_a_range_is_an_index(index):
    """As in NumPy: the integers that it means; a copy, not a view."""
    x = normal(4, 4)
    a = wf.array(x)
    got, want = a[index], x[index]
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(wf.jit(lambda a: a[index])(a).numpy(), want)
    value = normal(*want.shape)
    x[index], a[index] = value, value
    np.testing.assert_array_equal(a.numpy(), x)
    np.add.at(a, index, 1)
    np.add.at(x, index, 1)
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(got.numpy(), want)


def test_a_range_out_of_bounds_and_as_an_array():
    a = wf.zeros((4, 4))
    for index in (range(5), (0, range(-5, 0)), range(3, 6)):
        with pytest.raises(IndexError):
            a[index] = 1
    assert not a.any() and wf.take(a, range(2), axis=0).shape == (2, 4)
    a[:, 1] = range(4)
    assert a[:, 1].tolist() == [0, 1, 2, 3] and (wf.arange(3) + range(3)).tolist() == [0, 2, 4]
