"""What programs ask of arrays and dtypes beside functions: memory, bytes, flat, in-place methods, dtypes that are called."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.dtypes.api import ALL, DType
from weft.dtypes.formats import EVERY


def test_memory_as_numpys() -> None:
    ours, theirs = wf.arange(24).reshape(2, 3, 4), np.arange(24).reshape(2, 3, 4)
    for index in (slice(None), 0, (slice(None), 1), (slice(None), slice(None, None, -1)), (..., slice(0, 3, 2))):
        a, b = ours[index], theirs[index]
        assert a.strides == b.strides
        assert (a.flags["C"], a.flags.f_contiguous) == (b.flags["C"], b.flags.f_contiguous), index
        assert a.base is ours.base or a is ours
    assert ours.T.strides == theirs.T.strides and ours.T.flags["F_CONTIGUOUS"] and not ours.T.flags.c_contiguous
    assert (ours + 0).base is None and (ours + 0).flags.owndata and not ours.T.flags["OWNDATA"]
    assert ours.flags.writeable and not ours.sum().flags.writeable and "ALIGNED : True" in repr(ours.flags)
    with pytest.raises(KeyError, match="there is no 'depth'"):
        ours.flags["DEPTH"]


def test_flat() -> None:
    ours, theirs = wf.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)
    assert [int(x) for x in ours.T.flat] == list(theirs.T.flat) and len(ours.flat) == 6 and int(ours.flat[4]) == 4
    for x in (ours, theirs):
        x.flat[::2] = [9, 8]
        x.flat[1] = 7
        x.T.flat[[3, 5]] = -1
    np.testing.assert_array_equal(ours.numpy(), theirs)
    for x in (ours, theirs):
        x.flat = [1, 2]
    np.testing.assert_array_equal(ours.numpy(), theirs)
    walk = ours.flat
    assert [int(next(walk)) for _ in range(6)] == [1, 2] * 3
    with pytest.raises(StopIteration):
        next(walk)
    assert ours.flat.copy().shape == (6,) and np.asarray(ours.flat).shape == (6,)


def test_bytes_and_views(tmp_path: Path) -> None:
    x = np.array([[1.5, -2.0], [3.0, 0.0]], "float32")
    a = wf.array(x)
    assert a.tobytes() == x.tobytes() and a.T.tobytes() == x.T.tobytes() and a.tobytes("F") == x.tobytes("F")
    a.tofile(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == x.tobytes()
    for dtype in ("int32", "uint32", "uint8", "float64", "bool"):
        np.testing.assert_array_equal(a.view(dtype).numpy(), x.view(dtype))
    a.view()[0, 0] = 7
    a.view("float32")[0, 1] = 8
    assert a.tolist() == [[7.0, 8.0], [3.0, 0.0]]
    assert wf.jit(lambda v: v.view("int32"))(a).tolist() == a.numpy().view("int32").tolist()


def test_methods_in_place() -> None:
    for axis in (-1, 0):
        ours, theirs = wf.array([[3, 1, 2], [0, 9, 4]]), np.array([[3, 1, 2], [0, 9, 4]])
        row = ours[0]
        assert ours.sort(axis) is None
        theirs.sort(axis)
        np.testing.assert_array_equal(ours.numpy(), theirs)
        np.testing.assert_array_equal(row.numpy(), theirs[0])
    b = wf.array([3, 1, 2])
    b.partition(1)
    assert b[1] == 2 and b.cumprod().tolist()[-1] == 6 and b.compress([True, False, True]).shape == (2,)
    b.put([0], 9)
    assert b[0] == 9 and isinstance(b, wf.ndarray) and not isinstance(3, wf.ndarray)


# ---- dtypes

@pytest.mark.parametrize("dtype", [d for d in ALL if d.name != "float8_e8m0fnu"], ids=str)  # that has no 0
def test_a_dtype_is_numpys_and_makes_scalars(dtype: np.dtype) -> None:
    ours = getattr(wf, dtype.name)
    assert isinstance(ours, DType) and ours == dtype and dtype == ours and not ours != dtype and hash(ours) == hash(dtype.type)
    assert {ours: 1}[dtype.type] == 1 and np.dtype(ours) == dtype and ours.itemsize == dtype.itemsize
    assert repr(ours) == repr(dtype)
    assert pickle.loads(pickle.dumps(ours)) == ours and copy.deepcopy(ours) == ours
    made = ours(1)
    assert isinstance(made, wf.Scalar) and made.dtype == ours and made == 1 and isinstance(made, ours)
    assert ours([1, 0]).tolist() == [1, 0] and wf.zeros(2, ours).dtype == dtype and ours() == 0
    assert not isinstance(wf.zeros(2, ours), ours) and not isinstance(1, ours) and ours != "nothing"
    assert isinstance(np.ones(1, dtype)[0], wf.bfloat16) == (dtype.name == "bfloat16")


def test_casts_and_other_names() -> None:
    assert int(wf.int32(3.7)) == 3 and float(wf.float64("nan" and 2)) == 2.0
    with pytest.raises(OverflowError):
        wf.uint8(300)
    assert wf.bool_ == np.bool_ and wf.int_ == wf.int64 == wf.intp and wf.single == wf.float32 and wf.double == wf.float64
    assert wf.half == wf.float16 and wf.byte == wf.int8 and wf.uint == wf.uint64 and isinstance(wf.ones(1).dtype, wf.dtype)
    with pytest.raises(AttributeError):
        _ = wf.float32.nothing


@pytest.mark.parametrize("kind", ["generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating"])
def test_kinds(kind: str) -> None:
    ours, theirs = getattr(wf, kind), getattr(np, kind)
    for dtype in ALL:
        like = {"float": "float16", "signed": "int8", "unsigned": "uint8"}.get(EVERY[dtype.name].kind)
        want = np.issubdtype(dtype if dtype.isbuiltin == 1 else like, theirs)
        assert wf.issubdtype(dtype, ours) == want == wf.issubdtype(getattr(wf, dtype.name), theirs)
        assert isinstance(wf.ones(1, dtype)[0], ours) == want and issubclass(dtype.type, ours) == want
    assert wf.issubdtype(ours, wf.generic) and issubclass(ours, wf.generic) and wf.issubdtype(float, wf.floating)
    assert not isinstance(wf.ones(2), ours) and not isinstance(1, ours)


# ---- nditer

def test_walks_as_numpys() -> None:
    ours, theirs = wf.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)
    for x, xp in ((ours, wf), (theirs, np)):
        with xp.nditer(x.T, flags=["multi_index"], op_flags=["readwrite"], order="C") as walk:
            for v in walk:
                v[...] = v * 10 + walk.multi_index[0]
    np.testing.assert_array_equal(ours.numpy(), theirs)
    walk, seen = wf.nditer(ours, flags=["multi_index"]), []
    while not walk.finished:
        seen.append((walk.multi_index, int(walk[0])))
        walk.iternext()
    assert seen == [(place, int(theirs[place])) for place in np.ndindex(2, 3)]
    pairs = [(int(a), int(b)) for a, b in wf.nditer([wf.arange(2).reshape(2, 1), wf.array([5, 6])])]
    assert pairs == [(int(a), int(b)) for a, b in np.nditer([np.arange(2).reshape(2, 1), np.array([5, 6])])]
    assert [float(v) for v in wf.nditer(wf.array(3.0))] == [3.0] and list(wf.nditer(wf.zeros((0, 2)))) == [] and len(walk) == 6
    walk.reset()
    assert walk.index == 0 and int(next(walk)) == int(theirs[0, 0])
    with pytest.raises(ValueError, match="^nditer: the flag 'external_loop' is not offered"):
        wf.nditer(ours, flags=["external_loop"])
    with pytest.raises(ValueError, match="^nditer: order='F'"):
        wf.nditer(ours, order="F")
    with pytest.raises(wf.errors.ShapeError, match=r"^nditer: shapes \(2, 3\), \(2,\) do not broadcast"):
        wf.nditer([ours, wf.ones(2)])
