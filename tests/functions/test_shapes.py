"""Shapes, axes, joining, splitting, padding against NumPy; views write through; errors."""

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import check, draw

SAME = [  # name, shape of x, arguments: NumPy has the same function
    ("reshape", (3, 4), [(2, 6)]),
    ("reshape", (3, 4), [(-1, 2)]),
    ("reshape", (0, 3), [(3, 0)]),
    ("reshape", (6,), [6]),
    ("ravel", (2, 3), []),
    ("ravel", (), []),
    ("expand_dims", (2, 3), [0]),
    ("expand_dims", (2, 3), [-1]),
    ("expand_dims", (2, 3), [(0, 3)]),
    ("squeeze", (1, 3, 1), []),
    ("squeeze", (1, 3, 1), [0]),
    ("squeeze", (1, 3, 1), [(-1, 0)]),
    ("atleast_1d", (), []),
    ("atleast_2d", (3,), []),
    ("atleast_2d", (2, 3), []),
    ("atleast_3d", (), []),
    ("atleast_3d", (3,), []),
    ("atleast_3d", (2, 3), []),
    ("atleast_3d", (2, 3, 4), []),
    ("transpose", (2, 3, 4), []),
    ("transpose", (2, 3, 4), [(1, 2, 0)]),
    ("transpose", (2, 0, 4), [(-1, 0, 1)]),
    ("permute_dims", (2, 3), [(1, 0)]),
    ("matrix_transpose", (4, 2, 3), []),
    ("swapaxes", (2, 3, 4), [0, -1]),
    ("moveaxis", (2, 3, 4), [0, -1]),
    ("moveaxis", (2, 3, 4), [(0, 1), (-1, 0)]),
    ("flip", (2, 3), []),
    ("flip", (2, 3), [1]),
    ("flip", (2, 3, 4), [(0, -1)]),
    ("flip", (0, 3), [0]),
    ("flipud", (2, 3), []),
    ("fliplr", (2, 3), []),
    ("roll", (5,), [2]),
    ("roll", (2, 3), [-4]),
    ("roll", (2, 3), [1, 1]),
    ("roll", (3, 4), [(1, 2), (0, 1)]),
    ("roll", (3, 4), [2, (0, 1)]),
    ("roll", (3, 4), [(1, -1), 0]),
    ("roll", (0,), [1]),
    ("broadcast_to", (3, 1), [(2, 3, 4)]),
    ("broadcast_to", (), [(3,)]),
    ("broadcast_to", (1,), [(0,)]),
    ("tile", (3,), [2]),
    ("tile", (2, 3), [(2, 1)]),
    ("tile", (2, 3), [(2, 1, 2)]),
    ("tile", (), [3]),
    ("tile", (2, 3), [0]),
    ("repeat", (2, 3), [2]),
    ("repeat", (2, 3), [2, 0]),
    ("repeat", (2, 3), [[1, 0, 2], 1]),
    ("repeat", (2, 3), [0, -1]),
    ("repeat", (2,), [[3, 1]]),
    ("repeat", (2, 3), [[2], 0]),
    ("pad", (2, 3), [1]),
    ("pad", (2, 3), [(1, 2)]),
    ("pad", (2, 3), [((1, 0), (2, 3))]),
    ("pad", (), [0]),
    ("pad", (0, 2), [1]),
]


@pytest.mark.parametrize("name, shape, args", SAME)
def test_like_numpy(name: str, shape: tuple, args: list) -> None:
    for dtype in ("float32", "int16", "bool"):
        x = draw(shape, dtype)
        check(getattr(wf, name)(wf.array(x), *args), getattr(np, name)(x, *args), dtype=x.dtype)
        check(getattr(wf, name)(x, *args), getattr(np, name)(x, *args), dtype=x.dtype)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [1, (2, 1), ((1, 2), (0, 5))])
def test_pad_modes(mode: str, width: object) -> None:
    x = draw((3, 4), "float32")
    check(wf.pad(x, width, mode=mode), np.pad(x, width, mode=mode))


def test_pad_values() -> None:
    x = draw((3, 4), "float32")
    check(wf.pad(x, 1, constant_values=2.5), np.pad(x, 1, constant_values=2.5))
    check(wf.pad(x, 1, constant_values=wf.array(2.5)), np.pad(x, 1, constant_values=2.5))
    check(
        wf.pad(draw((2,), "bool", seed=2), 1, constant_values=True), np.pad(draw((2,), "bool", seed=2), 1, constant_values=True)
    )


WRITES = [
    (lambda m, x: m.reshape(x, (2, 6)), "reshape"),
    (lambda m, x: m.ravel(x), "ravel"),
    (lambda m, x: m.transpose(x), "transpose"),
    (lambda m, x: m.flip(x, 0), "flip"),
    (lambda m, x: m.moveaxis(x, 0, 1), "moveaxis"),
    (lambda m, x: m.expand_dims(x, 1), "expand_dims"),
    (lambda m, x: m.split(x, 2, 1)[1], "split"),
    (lambda m, x: m.unstack(x)[1], "unstack"),
    (lambda m, x: m.swapaxes(x, 0, 1), "swapaxes"),
]


@pytest.mark.parametrize("view", [v for v, _ in WRITES], ids=[n for _, n in WRITES])
def test_views_write_through(view: object) -> None:
    x = draw((3, 4), "float32")
    ours, theirs = wf.array(x), x.copy()
    mine, yours = view(wf, ours), view(np, theirs)
    mine += 1.0
    yours += np.float32(1.0)
    mine[0] = 7.0
    yours[0] = 7.0
    check(ours, theirs, rtol=0)
    copied = wf.reshape(ours, (12,), copy=True)
    copied[...] = 0.0
    check(ours, theirs, rtol=0)


JOINS = [
    ("concat", [(2, 3), (4, 3)], {"axis": 0}),
    ("concat", [(2, 3), (2, 1), (2, 0)], {"axis": -1}),
    ("concat", [(2, 3), (4,)], {"axis": None}),
    ("concat", [(3,)], {}),
    ("concatenate", [(2,), (3,)], {}),
    ("stack", [(2, 3), (2, 3)], {}),
    ("stack", [(2, 3)] * 3, {"axis": 1}),
    ("stack", [(2, 3)] * 2, {"axis": -1}),
    ("stack", [()] * 4, {}),
    ("stack", [(0, 2)] * 2, {"axis": 1}),
    ("vstack", [(3,), (2, 3)], {}),
    ("hstack", [(3,), (2,)], {}),
    ("hstack", [(2, 3), (2, 1)], {}),
    ("hstack", [(), ()], {}),
]


@pytest.mark.parametrize("name, shapes, kwargs", JOINS)
def test_joining(name: str, shapes: list, kwargs: dict) -> None:
    xs = [draw(s, "float32") for s in shapes]
    check(getattr(wf, name)(xs, **kwargs), getattr(np, name)(xs, **kwargs))
    xs = [draw(s, d) for s, d in zip(shapes, ["int8", "float32", "bool", "int32"], strict=False)]
    found, want = getattr(wf, name)([wf.array(x) for x in xs], **kwargs), getattr(np, name)(xs, **kwargs)
    check(found, want, dtype=np.dtype(np.float32) if want.dtype == np.float64 else want.dtype)


def test_numbers_joined_with_flattened_arrays(rng: np.random.Generator) -> None:
    """Python numbers take the dtype of the arrays if there is no axis, as in NumPy, and have one of their own along an axis."""
    for _ in range(40):
        parts: list = [draw((2, 3)[: rng.integers(3)], str(d)) for d in rng.choice(["int8", "uint16", "int64", "float32"], 2)]
        parts.insert(int(rng.integers(3)), int(rng.integers(100)))
        want = np.concatenate(parts, axis=None)
        ours = [wf.array(p) if isinstance(p, np.ndarray) else p for p in parts]
        check(wf.concat(ours, axis=None), want, dtype=np.dtype(np.float32) if want.dtype == np.float64 else want.dtype)
        check(wf.jit(lambda *p: wf.concat(p, axis=None))(*ours), wf.concat(ours, axis=None).numpy())
    assert wf.hstack([wf.ones(1, dtype="int8"), 2]).dtype == np.hstack([np.ones(1, "int8"), 2]).dtype == np.int64
    with pytest.raises(OverflowError, match="concat: arrays.1.: the Python integer 300 is out of bounds for int8"):
        wf.concat([wf.ones(1, dtype="int8"), 300], axis=None)


def test_joining_out_and_dtype() -> None:
    x = draw((2, 3), "float32")
    out = wf.zeros((4, 3), dtype=wf.float64)
    assert wf.concat([x, x], out=out) is out
    check(out, np.concatenate([x, x]))
    check(wf.stack([x, x], dtype=wf.float64), np.stack([x, x]), dtype=np.dtype(np.float64))
    check(wf.concat(wf.array(x)), np.concatenate(x))


@pytest.mark.parametrize("parts, axis", [(2, 0), ([1, 3], 0), ([2], 1), (3, -1), ([0, 9], 0)])
def test_splitting(parts: object, axis: int) -> None:
    x = draw((4, 6), "int32")
    for name in ("split", "array_split"):
        found, want = getattr(wf, name)(x, parts, axis=axis), getattr(np, name)(x, parts, axis=axis)
        assert len(found) == len(want)
        for f, w in zip(found, want, strict=True):
            check(f, w)
    for f, w in zip(wf.array_split(x, 4, axis=1), np.array_split(x, 4, axis=1), strict=True):
        check(f, w)
    for f, w in zip(wf.unstack(x, axis=axis), np.moveaxis(x, axis, 0), strict=True):
        check(f, w)


def test_broadcasting() -> None:
    xs = [draw((3, 1), "float32"), draw((4,), "int8"), draw((), "bool")]
    for f, w in zip(wf.broadcast_arrays(*xs), np.broadcast_arrays(*xs), strict=True):
        check(f, w, dtype=w.dtype)
    assert wf.broadcast_shapes((2, 1), (3,), 3) == (2, 3)


ERRORS = [
    (lambda x: wf.reshape(x, (5, 2)), wf.errors.ShapeError, r"reshape.*\(3, 4\).*\(5, 2\)"),
    (lambda x: wf.transpose(x, (0, 0)), wf.errors.AxisError, "transpose"),
    (lambda x: wf.squeeze(x, 0), wf.errors.ShapeError, "squeeze: axis 0 has extent 3"),
    (lambda x: wf.expand_dims(x, 5), wf.errors.AxisError, "expand_dims: axis=5"),
    (lambda x: wf.moveaxis(x, (0, 1), 0), wf.errors.AxisError, "moveaxis"),
    (lambda x: wf.broadcast_to(x, (4, 3)), wf.errors.ShapeError, r"broadcast.*\(3, 4\)"),
    (
        lambda x: wf.concat([x, x[:, :2]]),
        wf.errors.ShapeError,
        r"concat: arrays\[0\] has shape \(3, 4\) and arrays\[1\] \(3, 2\)",
    ),
    (lambda x: wf.concat([]), wf.errors.ShapeError, "nothing to join"),
    (lambda x: wf.concat(3), wf.errors.DTypeError, "concat: a sequence of arrays is needed, not int"),
    (lambda x: wf.stack([x, x[0]]), wf.errors.ShapeError, r"stack: .*must be equal"),
    (lambda x: wf.split(x, 2), wf.errors.ShapeError, "split: 2 equal parts do not divide axis 0.*array_split"),
    (lambda x: wf.split(x, 0), wf.errors.ShapeError, "at least 1"),
    (lambda x: wf.pad(x, -1), wf.errors.ShapeError, "pad_width"),
    (lambda x: wf.pad(x, 1, mode="nonsense"), ValueError, "mode='nonsense'"),
    (lambda x: wf.pad(x[:0], 1, mode="edge"), wf.errors.ShapeError, "no element"),
    (lambda x: wf.tile(x, 1.5), wf.errors.DTypeError, "reps must be an integer"),
    (lambda x: wf.tile(x, -1), wf.errors.ShapeError, "negative"),
    (lambda x: wf.repeat(x, [1, 2], 1), wf.errors.ShapeError, "repeat: repeats"),
    (lambda x: wf.roll(x, (1, 2), (0, 1, 0)), wf.errors.ShapeError, "roll: shift"),
    (lambda x: wf.flip(x, 2), wf.errors.AxisError, "flip: axis=2"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(draw((3, 4), "float32"))


@pytest.mark.parametrize("cut", [slice(0, 3), slice(8, 10), slice(7, None, -1), slice(2, 9)])
def test_slices_that_keep_padding_only(cut):
    """Guards that never hold leave the fill."""
    a, b = np.random.default_rng().normal(size=(2, 2, 3))
    padded = wf.pad(wf.concat([wf.asarray(a), wf.asarray(b[:, :2])], axis=1), ((0, 0), (3, 2)), constant_values=7.0)
    expected = np.pad(np.concatenate([a, b[:, :2]], axis=1), ((0, 0), (3, 2)), constant_values=7.0)
    np.testing.assert_allclose((padded[:, cut] * 2).numpy(), expected[:, cut] * 2)
