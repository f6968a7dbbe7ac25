"""What Python and NumPy ask an Array for: ``__array_interface__``, the buffer protocol, pickle, HTML; memory that is shared."""

from __future__ import annotations

import copy
import gc
import hashlib
import io
import pickle
import struct
import subprocess
import sys
import weakref
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

import weft as wf
from weft.dtypes.formats import FORMATS, Format

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
          "complex64", "complex128")
SHAPES = ((), (0,), (1,), (5,), (2, 3), (2, 0, 3), (2, 3, 4))


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng().integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


@pytest.mark.drawn(24)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_memory_is_seen_and_kept(dtype: str, shape: tuple[int, ...]) -> None:
    given = drawn(shape, dtype)
    a = wf.asarray(given)
    seen, described = memoryview(a), a.__array_interface__
    plain = memoryview(given)
    assert (seen.format, seen.shape, seen.c_contiguous) == (plain.format, plain.shape, True)
    assert seen.readonly
    assert (described["typestr"], described["shape"], described["version"]) == (given.dtype.str, given.shape, 3)

    class Holder:
        __array_interface__ = described

    others = [np.asarray(seen), np.asarray(Holder()), np.asarray(a), np.array(a)]
    assert seen.tobytes() == given.tobytes() and (not shape or bytes(a) == given.tobytes())
    a[...] = wf.zeros_like(a)  # what has left stays as it was
    del a
    gc.collect()
    wf.eval(wf.ones((64,)) + 1)
    for x in others:
        assert x.dtype == given.dtype and x.shape == given.shape
        np.testing.assert_array_equal(x, given)
    assert not any(x.flags.writeable for x in others[:3] if x.size or x is others[2]) and others[3].flags.writeable


def test_views_and_pending_results() -> None:
    a = wf.arange(12.0).reshape(3, 4)
    for x in (a[1:, ::2], a.T, a + 1, a[0], (a * 2)[:, 1]):
        np.testing.assert_array_equal(np.asarray(memoryview(x)), x.numpy())
        assert x.__array_interface__["shape"] == x.shape


def test_values_give_memory_of_their_own() -> None:
    """As NumPy's scalars do: what is made of one may be written to."""
    s = wf.ones(3).sum()
    assert isinstance(s, wf.Scalar)
    for made in (np.asarray(s), np.array(s), np.asarray(s, "float64")):
        made[...] = 7
        assert s == 3
    assert np.asarray(s).shape == () and memoryview(s).shape == ()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_some_have_no_word_there(dtype: str) -> None:
    x = wf.ones(3, dtype=dtype)
    assert not hasattr(x, "__array_interface__")
    assert np.asarray(x).dtype == getattr(wf, dtype) and np.array([x, x]).shape == (2, 3)
    with pytest.raises(AttributeError, match=rf"no type for {dtype}; use \.astype\('float32'\)"):
        x.__array_interface__  # noqa: B018
    with pytest.raises(BufferError, match=rf"no type for {dtype}; use \.astype\('float32'\)"):
        memoryview(x)


@pytest.mark.parametrize("form", [f for f in FORMATS.values() if f.alone], ids=str)
def test_small_floats_in_dlpack(form: Format) -> None:
    """Those of 8 bits come back as they were; for the others there is no type that keeps one element in a byte."""
    x = wf.array(np.arange(1 << form.bits, dtype=np.uint8)).view(form.numpy)
    other = SimpleNamespace(__dlpack__=x.__dlpack__, __dlpack_device__=x.__dlpack_device__)  # not an array of weft
    if form.bits == 8:
        back = wf.from_dlpack(other)
        assert back.dtype == form.numpy and back.view("uint8").tolist() == x.view("uint8").tolist()
    else:
        with pytest.raises(BufferError, match=f"DLPack has no type for {form}"):
            wf.from_dlpack(other)


def test_nothing_is_seen_while_tracing() -> None:
    for look in (np.asarray, lambda v: v.__array_interface__, memoryview):
        with pytest.raises(wf.errors.TraceError, match="not known inside"):
            wf.jit(lambda v, f=look: f(v) is None or v)(wf.ones(2))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_interrupts_an_export_is_raised(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Python 3.12 as well, and nothing of it is kept: the arrays of its frames are freed."""
    x, y = wf.arange(3), wf.arange(3.0) * 2
    seen = weakref.ref(y)

    def refuse(self: wf.Array, flags: int, held: wf.Array) -> None:
        raise error("at work")

    for _ in range(3):
        monkeypatch.setattr(wf.Array, "_export_memory", lambda self, flags, y=y: refuse(self, flags, y))
        with pytest.raises(error, match="^at work$"):
            memoryview(x)
        with pytest.raises(error, match="^at work$"):
            np.frombuffer(x, "int64")
    monkeypatch.undo()
    del y
    gc.collect()
    assert seen() is None and memoryview(x).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8", "bool", "complex64"])
def test_bytes_alone(dtype: str, tmp_path) -> None:
    """Who wants bytes and no numbers gets them, of views in their order."""
    a = wf.asarray(np.random.default_rng().integers(0, 2, (4, 3))).astype(dtype)
    for x in (a, a.T, a[::-1], a[1:2, 1:], a[0, 0], wf.zeros((0, 3), dtype)):
        want = x.numpy().tobytes()
        assert hashlib.md5(x).digest() == hashlib.md5(want).digest() and zlib.crc32(x) == zlib.crc32(want)
        assert b"".join([x]) == want and io.BytesIO().write(x) == len(want)
        with open(tmp_path / "bytes", "w+b") as file:
            assert file.write(x) == len(want)
        assert (tmp_path / "bytes").read_bytes() == want and struct.unpack_from(f"{len(want)}B", x) == tuple(want)


def test_bytes_alone_are_no_numbers(tmp_path) -> None:
    """PyTorch's ``asarray`` takes bytes for float32: it asks for them to write there, and then to read them."""
    a = wf.arange(5, dtype="int32")
    (tmp_path / "bytes").write_bytes(bytes(20))
    for _ in range(2):
        with open(tmp_path / "bytes", "rb") as file, pytest.raises(TypeError, match="must be read-write bytes-like object"):
            file.readinto(a)
        assert zlib.crc32(a) == zlib.crc32(a.tobytes())
    with pytest.raises(BufferError, match=r"read-only: hand over memoryview\(x\)"):
        a.__buffer__(1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES[2:], ids=str)
def test_frombuffer_reads(dtype: str, shape: tuple[int, ...]) -> None:
    given = drawn(shape, dtype)
    a = wf.asarray(given)
    for take in (lambda x: x, memoryview):
        if given.size:
            found = np.frombuffer(take(a), dtype)
            assert found.tolist() == given.ravel().tolist() and not found.flags.writeable
            assert np.frombuffer(take(a), dtype, offset=given.itemsize * (given.size - 1)).tolist() == given.ravel()[-1:].tolist()
    assert np.frombuffer(a.T, "uint8").tobytes() == a.T.tobytes()


class Own(wf.ndarray):
    """A class of a user."""

    __slots__ = ()


def test_classes_made_from_array_export_too() -> None:
    x = wf.arange(3)
    x.__class__ = Own
    assert memoryview(x).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", (*DTYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2"))
def test_pickle(dtype: str) -> None:
    a = wf.asarray(drawn((3, 4), "int8")).astype(dtype)
    for x in (a, a[1:, ::2], a.T, a[0, 0], a.sum(), wf.zeros((0, 3), dtype=dtype)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            back = pickle.loads(pickle.dumps(x, protocol))
            assert type(back) is type(x) and back.dtype == x.dtype and back.shape == x.shape
            assert back.numpy().tobytes() == x.numpy().tobytes()
    back = pickle.loads(pickle.dumps(a))
    back[0] = 0
    twin = copy.deepcopy(a)
    twin[...] = 1
    assert a.tolist() == pickle.loads(pickle.dumps(a)).tolist()


def test_another_process_reads_pickles() -> None:
    code = "import sys, pickle; print(pickle.loads(sys.stdin.buffer.read()).sum().item())"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(wf.arange(5)), capture_output=True, timeout=300)
    assert done.stdout.split() == [b"10"], done.stderr


def test_what_notebooks_show() -> None:
    shown = wf.arange(6.0).reshape(2, 3)._repr_html_()
    assert "array([[0., 1., 2.]," in shown and "2 x 3, float32" in shown
    assert "no dimensions, float32" in wf.ones(3).sum()._repr_html_()
    texts = []
    wf.jit(lambda v: texts.append(v._repr_html_()) or v)(wf.ones(3))
    assert "&lt;not known while tracing&gt;" in texts[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_of_others_is_shared_when_asked_for(dtype: str) -> None:
    given = drawn((50, 4), dtype)
    before = given.copy()
    a = wf.from_dlpack(given, copy=False)
    assert np.shares_memory(a.numpy(), given) and a.dtype == given.dtype
    np.testing.assert_array_equal((a[1:] == a[1:]).numpy(), given[1:] == given[1:])

    @wf.jit
    def step():
        a[...] = a + a

    a[0] = a[1]  # goes to memory of weft's own
    step(), step()
    wf.eval(a)
    np.testing.assert_array_equal(given, before)
    assert not np.shares_memory(a.numpy(), given)
    kept = wf.from_dlpack(given.copy(), copy=False)  # nobody else holds it
    gc.collect()
    np.testing.assert_array_equal(kept.numpy(), before)
    np.testing.assert_array_equal((kept | kept if dtype == "bool" else kept * 1).numpy(), before)


def test_what_cannot_be_shared_says_so() -> None:
    given = np.arange(12.0).reshape(3, 4)
    for odd in (given.T, given[:, ::2], given[::-1]):
        with pytest.raises(BufferError, match=r"^from_dlpack: with copy=False the memory must lie row by row; an array of shape"):
            wf.from_dlpack(odd, copy=False)
        np.testing.assert_array_equal(wf.from_dlpack(odd), odd)
    assert wf.from_dlpack(np.zeros((0, 3)), copy=False).shape == (0, 3)
    shared = wf.from_dlpack(given[1:], copy=False)  # a part that lies together
    assert np.shares_memory(shared.numpy(), given) and shared.sum() == given[1:].sum()


def test_to_numpy_is_what_plots_and_frames_ask_for() -> None:
    """Without it they read one element after the other."""
    a = wf.arange(6.0).reshape(2, 3)
    for x in (a, a.T, a[1], a + 1, a[0, 1], wf.zeros((0, 2))):
        found = x.to_numpy()
        assert found.dtype == x.dtype and found.tolist() == x.tolist()
        assert x.to_numpy("float64").dtype == np.float64 and x.to_numpy(copy=True).flags.writeable
    with pytest.raises(wf.errors.TraceError):
        wf.jit(lambda v: v + v.to_numpy())(a)


@pytest.mark.parametrize("shape", [(300,), (3,), (300, 2), (2, 300), (1, 4), (0, 3), (257, 1)])
def test_iteration(shape: tuple[int, ...]) -> None:
    """Rows are views, elements values as they are when they are reached; of views, pending arrays and large ones, too."""
    given = np.random.default_rng().standard_normal((*shape, 2)).astype("float32")
    whole = wf.array(given)
    views = ((whole[..., 1], given[..., 1]), (whole[::-1, ..., 0], given[::-1, ..., 0]))
    for x, y in ((wf.array(given[..., 0]), given[..., 0].copy()), *views):
        items = [*x]
        assert len(items) == len(y) and all(type(i) is (wf.Scalar if len(shape) == 1 else wf.ndarray) for i in items)
        np.testing.assert_array_equal(np.array([np.asarray(i) for i in items]).reshape(shape), y)
        for k, item in enumerate(x):
            if len(shape) > 1:
                item[...] = k
            elif k + 1 < shape[0]:
                x[k + 1] = item + 1
        want = y.copy()
        for k, item in enumerate(want):
            if len(shape) > 1:
                item[...] = k
            elif k + 1 < shape[0]:
                want[k + 1] = item + 1
        np.testing.assert_array_equal(x.numpy(), want)
    with pytest.raises(TypeError, match="cannot be iterated over"):
        iter(wf.array(1.0))
