"""The builder of the runtime's functions: what Python blocks and operators become, run as machine code."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import device

from weft.devices.cpu.emit.text import Function
from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.routine import Body, Routine, Signature, Value, routine, text_of_all

I64 = ctypes.c_int64
PAIR = {"small": (0, "i32"), "large": (8, "i64")}


def run(tmp_path: Path, *routines: Routine) -> Any:
    address = device(tmp_path, threads=1).compiler.module(text_of_all(routines))[routines[0].signature.name]
    return function(address, *(I64 for _ in routines[0].signature.types), result=I64)


@routine("i64 classify(i64 a, i64 b)", exported=True)
def classify(f: Body, a: Value, b: Value) -> None:
    out = f.variable("i64", 100)
    with f.when(a < b):
        with f.when(a == 0):
            f.ret(-1)
        out.now = out.now + 1
    with f.otherwise():
        with f.unless(a == b):
            f.ret((a - b) * 1000)
        with f.otherwise():
            out.now = out.now + 7
    f.ret(out.now)


@pytest.mark.parametrize("a,b,expected", [(0, 3, -1), (1, 3, 101), (5, 3, 2000), (3, 3, 107)])
def test_branches(tmp_path: Path, a: int, b: int, expected: int) -> None:
    assert run(tmp_path, classify)(a, b) == expected


@routine("i64 both(i64 a)", exported=True)
def both(f: Body, a: Value) -> None:
    with f.when(a == 0):
        f.ret(1)
    with f.otherwise():
        f.ret(2)


def test_nothing_is_reached_behind_two_returns(tmp_path: Path) -> None:
    assert [run(tmp_path, both)(k) for k in (0, 5)] == [1, 2]


@routine("i64 primes(i64 below)", exported=True)
def primes(f: Body, below: Value) -> None:
    found = f.variable("i64")
    with f.count_to(below) as n:
        with f.when(n < 2):
            f.again()
        divisor = f.variable("i64", 2)
        with f.forever():
            with f.when(divisor.now * divisor.now > n):
                found.now = found.now + 1
                f.leave()
            with f.when(n - n // divisor.now * divisor.now == 0):
                f.leave()
            divisor.now = divisor.now + 1
    f.ret(found.now)


def test_loops_are_left_and_go_on(tmp_path: Path) -> None:
    assert run(tmp_path, primes)(100) == 25 and run(tmp_path, primes)(0) == 0


@routine("i64 sum_of(ptr pairs, i64 count)", exported=True)
def sum_of(f: Body, pairs: Value, count: Value) -> None:
    room = f.allocate_stack("i64", count)
    with f.count_to(count) as k:
        room[k] = f.call(product, f.array(pairs, "i8").at(k << 4))
    total = f.variable("i64")
    with f.count_to(count) as k:
        total.now = total.now + room[k]
    f.record(pairs, PAIR)["large"] = total.now
    f.ret(f.record(pairs, PAIR)["small"].to("i64"))


@routine("i64 product(ptr pair)")
def product(f: Body, pair: Value) -> None:
    fields = f.record(pair, PAIR)
    f.ret(fields["small"].to("i64") * fields["large"])


def test_fields_arrays_and_calls(tmp_path: Path) -> None:
    pairs = np.array([(3, 10), (4, 100), (5, 1000)], np.dtype({"names": ["a", "b"], "formats": ["i4", "i8"], "offsets": [0, 8]}))
    assert run(tmp_path, sum_of, product)(pairs.ctypes.data, 3) == 3
    assert pairs["b"].tolist() == [5430, 100, 1000]


@routine("i64 bits(i64 a, i64 b)", exported=True)
def bits(f: Body, a: Value, b: Value) -> None:
    low = (a & 255) | (b << 8)
    f.ret((low >> 4) + ((a <= b) & ~(a != b)).pick(1 << 40, 0) + a.minimum(b).to("i32").to("i64"))


@pytest.mark.parametrize("a,b", [(7, 7), (300, 2), (9, 4000)])
def test_operators(tmp_path: Path, a: int, b: int) -> None:
    assert run(tmp_path, bits)(a, b) == ((a & 255 | b << 8) >> 4) + (1 << 40) * (a == b) + min(a, b)


def test_misuse_is_told_where_the_text_is_made() -> None:
    f = Body(both)
    a, wide = f.parameters[0], f.constant("i32", 3)
    with pytest.raises(TypeError, match="of type i32, not i64"):
        a + wide
    with pytest.raises(TypeError, match="use f.when"):
        bool(a == 1)
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        f.call(product, f.constant("ptr", None), a)
    with pytest.raises(TypeError, match="of type i64, not ptr"):
        f.call("Py_DecRef", a)
    with pytest.raises(ValueError, match="does not return a value"):
        text_of_all([routine("i64 lost(i64 a)")(lambda f, a: None)])
    assert Signature.parse("i64 syscall(i64, ...)") == Signature("i64", "syscall", ("i64",), True)


def test_bits_are_no_elements() -> None:
    f = Body(both)
    pointer = f.constant("ptr", None)
    for enter in (lambda: f.array(pointer, "i1")[1], lambda: f.record(pointer, {"bit": (0, "i1")})["bit"]):
        with pytest.raises(ValueError, match="no addresses"):
            enter()


def test_otherwise_stands_behind_a_when() -> None:
    f = Function("define void @f()")
    with f.loop(0, 3):
        pass
    with pytest.raises(ValueError, match="when"):
        with f.otherwise():
            pass
