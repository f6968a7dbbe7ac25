"""Arrays on a card and other libraries on it: capsules taken apart as dlpack.h says, streams that do nothing before a wait."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from tests.cuda.others import CODES, COPIED, READ_ONLY, Consumer, Interfaced, Producer
from tests.cuda.stub import Card, made
from tests.cuda.test_launcher import standing
from weft.errors import DTypeError
from weft.interop import cuda_exchange

pytest.importorskip("triton")

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64")
def drawn(dtype: str, shape: tuple[int, ...] = (3, 5)) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2 if dtype == "bool" else 100, shape)
    return (x + 1j * x[::-1] if dtype == "complex64" else x).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    device, driver = made()
    with standing(device, monkeypatch):
        yield device, driver


# ---- what others are shown


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (), (1,), (0, 4)])
def test_others_read_the_memory_itself_when_it_is_written(card: Card, dtype: str, shape: tuple[int, ...]) -> None:
    _, driver = card
    given = drawn(dtype, (*shape, 2))[..., 0]
    with wf.device("gpu"):
        x = wf.array(given, device="gpu")
        seen = Consumer(driver, x, stream=9)
        waits = driver.waits
        assert seen.device == (2, 0) == (seen.tensor.kind, seen.tensor.id) and seen.flags == READ_ONLY
        assert seen.tensor.data == x.node.value.pointer and tuple(seen.tensor.shape[: seen.tensor.ndim]) == shape
        found = seen.read()
    assert driver.waits == waits and found.dtype == given.dtype
    np.testing.assert_array_equal(found, given)
    seen.release()


@pytest.mark.parametrize("dtype, code", [("float8_e4m3fn", 10), ("float8_e5m2", 12)])
def test_8_bit_floats_have_type_codes_of_their_own(card: Card, dtype: str, code: int) -> None:
    _, driver = card
    with wf.device("gpu"):
        x = wf.array(drawn("float32").astype(getattr(ml_dtypes, dtype)), device="gpu")
        seen = Consumer(driver, x, stream=9)
        assert (seen.tensor.code, seen.tensor.bits) == (code, 8)
        assert cuda_exchange._FORMATS[code, 8].name == dtype
    seen.release()


@pytest.mark.parametrize("stream", [None, 1, 2, 12345])
def test_the_consumers_stream_waits(card: Card, stream: Any) -> None:
    _, driver = card
    with wf.device("gpu"):
        x = wf.jit(lambda x: x @ x)(wf.array(np.full((8, 8), 2, np.float32)))
        early = Consumer(driver, x, stream=-1)
        assert not driver.others
        seen = Consumer(driver, x, stream=stream)
        assert list(driver.others) == [1 if stream is None else stream]
        assert (early.at_once() != 32).all()  # nothing was done yet, and nobody waits
        np.testing.assert_array_equal(seen.read(), np.full((8, 8), 32))
        for wrong, error in ((0, ValueError), (-2, ValueError), ("1", TypeError), (True, TypeError)):
            with pytest.raises(error, match=r"^__dlpack__: stream"):
                x.__dlpack__(stream=wrong, max_version=(1, 0))
    seen.release(), early.release()


def test_memory_lives_as_long_as_somebody_reads_it_and_nobody_gets_it_before_that(card: Card) -> None:
    device, driver = card
    with wf.device("gpu"):
        x = wf.array(np.arange(100, dtype=np.float32))
        pointer = x.node.value.pointer
        seen = Consumer(driver, x, stream=9)
        del x
        gc.collect()
        assert device.allocate(400).pointer != pointer and device.memories.bytes_in_use
        np.testing.assert_array_equal(seen.read(), np.arange(100))
        late: list[bytes] = []
        driver.others[9].append(lambda: late.append(ctypes.string_at(pointer, 400)))  # not done when it is given back
        seen.release()
        settles = driver.settles
        kept = [device.allocate(400) for _ in range(3)]
        assert driver.settles == settles + 1 and pointer in [k.pointer for k in kept]
        np.testing.assert_array_equal(np.frombuffer(late[0], np.float32), np.arange(100))
    del kept


def test_what_was_shown_is_written_no_more(card: Card) -> None:
    device, driver = card
    state = wf.zeros(50)

    @wf.jit
    def step() -> None:
        state[...] = state * 2 + 1

    with wf.device("gpu"):
        step(), step()
        before = state.node.value.pointer
        step()
        assert state.node.value.pointer == before  # in its own memory
        seen, told = Consumer(driver, state, stream=9), state.__cuda_array_interface__
        for _ in range(6):
            step()
        assert state.node.value.pointer != before == told["data"][0]
        assert float(state[0]) == 2**9 - 1 and (seen.read() == 7).all()
        seen.release()
        for _ in range(4):
            step()
        device.synchronise()
        assert ctypes.c_float.from_address(before).value == 7  # the array lives, and its address was told


def test_copies(card: Card) -> None:
    _, driver = card
    with wf.device("gpu"):
        x = wf.array(np.arange(6, dtype=np.float32))
        pointer = x.node.value.pointer
        copied, old = Consumer(driver, x, copy=True), Consumer(driver, x, max_version=None)
        shared = Consumer(driver, x, copy=False)
        assert (copied.flags, old.flags, shared.flags) == (COPIED, None, READ_ONLY)
        assert shared.tensor.data == pointer and pointer not in (copied.tensor.data, old.tensor.data)
        for seen in (copied, old, shared):
            np.testing.assert_array_equal(seen.read(), np.arange(6))
            seen.release()
        for copy, version in ((False, None), (False, (0, 8))):
            with pytest.raises(BufferError, match=r"^__dlpack__: with copy=False .* too old .DLPack before 1.0. to respect that"):
                x.__dlpack__(copy=copy, max_version=version)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cpu_gets_a_copy_where_it_asks_for_one(card: Card, dtype: str) -> None:
    given = drawn(dtype)
    x = wf.array(given, device="gpu")
    for asked in ({"max_version": (1, 0)}, {}):
        seen = Consumer(card[1], x, None, dl_device=(1, 0), **({"max_version": None} | asked))
        assert (seen.tensor.kind, seen.tensor.id) == (1, 0) and seen.flags == (COPIED if asked else None)
        np.testing.assert_array_equal(seen.at_once(), given)
        seen.release()
    if dtype != "bfloat16":
        found = np.from_dlpack(x, device="cpu")
        np.testing.assert_array_equal(found, given)
        assert found.flags.writeable
    with pytest.raises((BufferError, RuntimeError), match="[Uu]nsupported device"):
        np.from_dlpack(x)  # NumPy's own: it does not ask for a copy unless told to
    with pytest.raises(BufferError, match="with copy=False the memory is shared"):
        x.__dlpack__(dl_device=(1, 0), copy=False, max_version=(1, 0))
    for wrong in ((2, 1), (10, 0)):
        with pytest.raises(BufferError, match=rf"device \(2, 0\) goes there or, copied, to \(1, 0\), not to \({wrong[0]}"):
            x.__dlpack__(dl_device=wrong, max_version=(1, 0))


def test_the_cuda_array_interface(card: Card) -> None:
    device, driver = card
    x = wf.array(np.arange(6, dtype=np.int16).reshape(2, 3), device="gpu")
    told = x.__cuda_array_interface__
    assert told == {
        "version": 3, "shape": (2, 3), "typestr": "<i2", "data": (x.node.value.pointer, True), "strides": None,
        "stream": driver.stream,
    }
    pointer = x.node.value.pointer
    with wf.device("gpu"):
        x[...] = 7
        wf.eval(x)
    assert x.node.value.pointer != pointer == told["data"][0] and device.memories.bytes_in_use
    driver.synchronise()
    np.testing.assert_array_equal(np.frombuffer(ctypes.string_at(pointer, 12), np.int16), np.arange(6))
    assert wf.zeros((0, 3), device="gpu").__cuda_array_interface__["data"] == (0, True)
    for other in (wf.ones(3), wf.ones(3, device="gpu-sim"), wf.ones(3, dtype="bfloat16", device="gpu")):
        assert not hasattr(other, "__cuda_array_interface__")
    wf.jit(lambda v: [v * 2, hasattr(v, "__cuda_array_interface__") or None][0])(x)
    assert wf.ones(3, device="gpu-sim").__dlpack_device__() == (1, 0)  # nobody else reaches its memory: a copy
    np.testing.assert_array_equal(np.from_dlpack(wf.ones(3, device="gpu-sim")), np.ones(3))
    with pytest.raises(BufferError, match="this array does not lie in the CPU's"):
        np.from_dlpack(wf.ones(3, device="gpu-sim"), copy=False)


def test_two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, one), (second, two) = made(), made(name="gpu:1")
    with standing(first, monkeypatch, second):
        x = wf.array(np.arange(4), device="gpu:1")
        seen = Consumer(two, x)
        assert seen.device == (2, 1) == (seen.tensor.kind, seen.tensor.id)
        np.testing.assert_array_equal(seen.read(), np.arange(4))
        seen.release()
        given = Producer(two, np.arange(5, dtype=np.float32))
        given.device = (2, 1)
        assert two.gpu_of_address(given.first) == 0
        with pytest.raises(BufferError, match="does not lie on CUDA's card 1, as the array says"):
            wf.from_dlpack(given)
        monkeypatch.setattr(two, "gpu_of_address", lambda address: 1)
        given = Producer(two, np.arange(5, dtype=np.float32))
        given.device = (2, 1)
        taken = wf.from_dlpack(given)
        assert taken.device == "gpu:1" and taken.tolist() == [0.0, 1, 2, 3, 4] and not one.asked


# ---- what others show


@pytest.mark.parametrize(("kind", "dtype"), [
    *[(Producer, dtype) for dtype in DTYPES], *[(Interfaced, dtype) for dtype in DTYPES if dtype != "bfloat16"],
])
def test_memory_of_others_is_read_where_it_lies(card: Card, dtype: str, kind: type[Producer]) -> None:
    device, driver = card
    given = drawn(dtype)
    take = wf.asarray if kind is Interfaced else wf.from_dlpack
    theirs = kind(driver, given)
    waits = driver.waits
    x = take(theirs)
    assert x.device == "gpu" and x.node.value.pointer == theirs.first and driver.waits == waits and x.dtype == given.dtype
    assert kind is not Producer or theirs.asked == [{"stream": driver.stream, "max_version": (1, 1)}]
    if dtype != "complex64":  # kernels know none
        with wf.device("gpu"):
            doubled = (x == x).astype("int8") + 1
            np.testing.assert_array_equal(doubled.numpy(), np.full((3, 5), 2))
    np.testing.assert_array_equal(x.numpy(), given)
    del x
    if kind is Producer:
        gc.collect()
        device.synchronise()
        device.allocate(1)
        assert theirs.released == 1


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 16])
@pytest.mark.parametrize("versioned", [True, False])
def test_memory_that_begins_anywhere(card: Card, offset: int, versioned: bool) -> None:
    _, driver = card
    given, f = drawn("float32", (16, 16)), wf.jit(lambda x: wf.tanh(x @ x) + x)
    want = np.tanh(given.astype(np.float64) @ given) + given
    with wf.device("gpu"):
        own = wf.array(given)
        for _ in range(5):  # replayed from the third on
            theirs = Producer(driver, given, versioned=versioned, offset=offset)
            x = wf.from_dlpack(theirs)
            assert x.node.value.pointer % 16 == offset % 16
            for _ in range(4):
                np.testing.assert_allclose(f(x).numpy(), want, rtol=1e-5)
            np.testing.assert_allclose(f(own).numpy(), want, rtol=1e-5)


def test_memory_of_others_is_kept_until_it_was_read_and_never_written(card: Card) -> None:
    device, driver = card
    given = drawn("float32", (40,))
    theirs = Producer(driver, given)
    x = wf.from_dlpack(theirs)

    @wf.jit
    def step() -> None:
        x[...] = x * 2 + 1

    with wf.device("gpu"):
        first = wf.jit(lambda x: (x * 3).sum())(x)
        step(), step()
        del step
        x = wf.ones(3)
        gc.collect()
        assert theirs.released == 0  # the card has read nothing yet
        device.allocate(8)
        assert theirs.released == 0
        assert float(first) == given.sum() * 3
        device.allocate(8)
        assert theirs.released == 1
    np.testing.assert_array_equal(theirs.content, given)


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda x: x.T, "steps": lambda x: x[:, ::2], "backwards": lambda x: x[::-1, 1:4],
    "a part": lambda x: x[1:3, 2:],
    "repeated": lambda x: np.broadcast_to(x[:, :1], (4, 3)), "one element": lambda x: x[1:2, 3:4], "none": lambda x: x[2:2, ::2],
    "three": lambda x: x.reshape(2, 2, 6)[:, :, ::-3].transpose(2, 0, 1),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("kind", [Producer, Interfaced])
def test_views_of_others(card: Card, name: str, kind: type[Producer]) -> None:
    _, driver = card
    theirs = kind(driver, drawn("int32", (4, 6)), view=VIEWS[name])
    take = wf.asarray if kind is Interfaced else wf.from_dlpack
    dense = theirs.content.size == 0 or theirs.content.flags.c_contiguous
    if not dense:
        with pytest.raises(BufferError, match="with copy=False the memory must lie row by row; .* with strides"):
            take(theirs, copy=False)
    for copy in (None, True, *[False] * dense):
        again = kind(driver, drawn("int32", (4, 6)), view=VIEWS[name])
        x = take(again, copy=copy)
        assert x.device == "gpu" and (x.node.value.pointer == again.first) == (dense and not copy) or not x.size
        np.testing.assert_array_equal(x.numpy(), again.content)


def test_streams_of_the_cuda_array_interface(card: Card) -> None:
    _, driver = card
    for version, told, waits in ((3, 5, True), (3, None, False), (3, 1, True), (2, None, True)):
        theirs = Interfaced(driver, drawn("float32"), stream=told or 1)
        theirs.version, theirs.told = version, told
        count = len(driver.asked)
        x = wf.asarray(theirs)
        assert ("follow" in [name for name, _ in driver.asked[count:]]) == waits
        if waits:
            np.testing.assert_array_equal(x.numpy(), theirs.content)
        driver.run(told or 1)
    for wrong in (0, -1, "5"):
        theirs.version, theirs.told = 3, wrong
        with pytest.raises(ValueError, match=r"^asarray: __cuda_array_interface__ tells stream="):
            wf.asarray(theirs)


def test_as_an_operand_it_is_copied(card: Card) -> None:
    _, driver = card
    given = drawn("float32")
    with wf.device("gpu"):
        for take in (wf.array, lambda t: wf.multiply(t, 1), lambda t: wf.from_dlpack(t, copy=True), lambda t: wf.ones((3, 5)) * t,
                     lambda t: wf.asarray(t, copy=True), lambda t: wf.array(t, dtype="float64")):
            theirs = Producer(driver, given)
            x = take(theirs)
            driver.follow(theirs.stream)
            driver.others[5].append(lambda at=theirs.first: ctypes.memset(at, 0, given.nbytes))  # they go on with it
            np.testing.assert_array_equal(x.numpy(), given)
            assert x.device == "gpu"


def test_where_and_as_what_it_is_asked_for(card: Card) -> None:
    _, driver = card
    given = drawn("float32")
    assert wf.asarray(Producer(driver, given), dtype="float32", copy=False).device == "gpu"
    assert wf.from_dlpack(Producer(driver, given), device="gpu", copy=False).device == "gpu"
    for f in (wf.from_dlpack, wf.asarray, wf.array):
        here = f(Producer(driver, given), device="cpu")
        assert here.device == "cpu"
        np.testing.assert_array_equal(here.numpy(), given)
    np.testing.assert_array_equal(wf.asarray(Producer(driver, given), dtype="int8").numpy(), given)
    x = wf.array(given, device="gpu")
    assert wf.from_dlpack(x).device == "gpu" and wf.from_dlpack(x, copy=False).tolist() == given.tolist()
    kept = "^asarray: with copy=False the array keeps dtype float32 and device gpu, but"
    with pytest.raises(ValueError, match=f"{kept} int8 on gpu is needed"):
        wf.asarray(Producer(driver, given), dtype="int8", copy=False)
    with pytest.raises(ValueError, match=f"{kept} float32 on cpu is needed"):
        wf.asarray(Producer(driver, given), device="cpu", copy=False)
    with pytest.raises(BufferError, match=r"^from_dlpack: with copy=False the result shares memory on gpu and cannot be on cpu"):
        wf.from_dlpack(Producer(driver, given), device="cpu", copy=False)


def test_what_cannot_be_taken_says_so(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    _, driver = card
    theirs = Producer(driver, drawn("float32"), offset=2)
    with pytest.raises(BufferError, match="not aligned for float32"):
        wf.from_dlpack(theirs)
    theirs = Interfaced(driver, np.zeros(3, ">f4"))
    with pytest.raises(DTypeError, match="the bytes of >f4 are in the other order"):
        wf.asarray(theirs)
    theirs = Interfaced(driver, np.zeros(3, np.float32))
    theirs.first = 4096
    with pytest.raises(BufferError, match="the address 0x1000, which lies on no card"):
        wf.asarray(theirs)
    monkeypatch.setitem(CODES, "float", 9)
    with pytest.raises(DTypeError, match="weft has no dtype of DLPack's code 9 with 1 x 32 bits"):
        wf.from_dlpack(Producer(driver, drawn("float32")))


def test_without_a_card_it_says_so() -> None:
    _, driver = made()
    theirs = Producer(driver, drawn("float32"))
    for take in (wf.from_dlpack, wf.asarray, wf.array, wf.sin):
        with pytest.raises(BufferError, match="lies on another device, CUDA's card 0, .* as 'gpu': there is no NVIDIA driver"):
            take(theirs)
