"""Numbers whose bytes lie in the other order: read as what they are, refused where weft would have to hold them so."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError

DTYPES = ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
other = pytest.mark.parametrize("order", [">", "<"])
every = pytest.mark.parametrize("dtype", DTYPES)


class Interface:
    """Shows a NumPy array by the array interface alone."""

    def __init__(self, content: np.ndarray) -> None:
        self.held, self.__array_interface__ = content, content.__array_interface__


def saved(content: np.ndarray) -> io.BytesIO:
    file = io.BytesIO()
    np.save(file, content)
    file.seek(0)
    return file


READERS: dict[str, Callable[[np.ndarray], Any]] = {
    "frombuffer": lambda a: wf.frombuffer(a.tobytes(), dtype=a.dtype),
    "frombuffer, by name": lambda a: wf.frombuffer(a.tobytes(), a.dtype.str, count=len(a)),
    "asarray": wf.asarray,
    "array": wf.array,
    "every other": lambda a: wf.asarray(np.repeat(a, 2)[::2]),
    "memoryview": lambda a: wf.asarray(memoryview(a)) if a.dtype.kind != "c" else wf.asarray(a),
    "interface": lambda a: wf.asarray(Interface(a)),
    "list": lambda a: wf.array(list(a)),
    "load": lambda a: wf.load(saved(a)),
    "assigned": lambda a: _assigned(a),
    "argument of jit": lambda a: wf.jit(lambda x: x + 0)(a),
    "function": lambda a: wf.concatenate([a, a])[: len(a)],
    "zeros_like": lambda a: wf.zeros_like(a) + a,
}


def _assigned(a: np.ndarray) -> wf.Array:
    x = wf.zeros(a.shape, a.dtype.newbyteorder("="))
    x[...] = a
    return x


@other
@every
def test_memory_is_read_in_its_order(order: str, dtype: str, tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    content = rng.integers(0, 100, 7).astype(order + dtype)
    native = content.astype(dtype)
    content.tofile(tmp_path / "bytes")
    assert np.array_equal(wf.fromfile(tmp_path / "bytes", dtype=content.dtype).numpy(), native)
    for name, read in READERS.items():
        found = read(content)
        assert found.dtype == native.dtype and np.array_equal(found.numpy(), native), name


def test_a_reader_of_headers() -> None:
    raw = np.array([2051, 2, 1, 3], ">u4").tobytes()
    header = wf.frombuffer(raw, dtype=wf.dtype(wf.uint32).newbyteorder(">"), count=4)
    assert [int(n) for n in header] == [2051, 2, 1, 3]


MAKERS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda dtype: wf.zeros(3, dtype), "astype": lambda dtype: wf.ones(3).astype(dtype),
    "array": lambda dtype: wf.array([1, 2], dtype=dtype), "asarray": lambda dtype: wf.asarray(np.ones(2, dtype), dtype),
    "view": lambda dtype: wf.zeros(16, "uint8").view(dtype), "sum": lambda dtype: wf.ones(3).sum(dtype=dtype),
    "arange": lambda dtype: wf.arange(3, dtype=dtype), "full_like": lambda dtype: wf.full_like(wf.ones(3), 2, dtype=dtype),
}


@every
@pytest.mark.parametrize("maker", MAKERS)
def test_what_weft_would_hold_so_is_refused(maker: str, dtype: str) -> None:
    turned = np.dtype(dtype).newbyteorder("S")
    for spelling in (turned, turned.str):
        with pytest.raises(DTypeError, match=rf"no numbers in the other byte order, '{turned.str}': use '{turned.name}' here"):
            MAKERS[maker](spelling)
    MAKERS[maker](turned.newbyteorder("S"))


def test_questions_about_dtypes_and_text_do_not_ask_for_the_order() -> None:
    assert wf.finfo(">f4").bits == 32 and wf.iinfo(">i2").max == 32767 and wf.can_cast(">i2", "<i4")
    assert wf.result_type(">f4", "int8") == wf.promote_types(">f4", ">f4") == "float32" and wf.issubdtype(">f4", wf.floating)
    assert wf.fromstring("1 2", dtype=">i4", sep=" ").tolist() == wf.loadtxt(["1", "2"], dtype=">i4").tolist() == [1, 2]
    assert np.asarray(wf.arange(2), ">i4").tobytes() == b"\0\0\0\0\0\0\0\1"
