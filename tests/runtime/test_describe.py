"""The figures of `weft info` are measured and of the right size."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from handmade import device

from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.describe import fma_text, pairs_text
from weft.devices.cpu.native.host_cpu import host


def test_describe(tmp_path: Path) -> None:
    be = device(tmp_path, threads=2)
    plain = be.describe()
    assert plain["threads"] == 2 and plain["cache_folder"] == str(tmp_path)
    assert plain["versions"]["llvmlite"] and plain["vector_bits"] in (128, 256, 512)
    assert "fma_peak_flops" not in plain
    measured = be.describe(measure=True)
    assert 1e9 < measured["fma_peak_flops"] < 1e12
    assert 1e8 < measured["copy_bytes_per_second"] < 1e12


def test_the_peak_is_measured_on_ordinary_numbers(tmp_path: Path) -> None:
    """Whatever its memory held before: multiply-adds of denormal numbers are some hundred times slower."""
    be, lanes = device(tmp_path, threads=1), host().bits // 32
    run = function(be.compiler.module(fma_text(lanes, 1000))["weft_fma_peak"], ctypes.c_void_p)
    for before in (1e-40, np.nan, 0, np.inf):
        sums = np.full(12 * lanes, before, np.float32)
        run(sums.ctypes.data)
        np.testing.assert_array_equal(sums, 1)


def test_the_peak_of_bfloat16_sums_products_of_pairs(tmp_path: Path) -> None:
    """Each step adds twice the square of a half; LLVM has the instruction for the CPUs that weft uses it on."""
    be, lanes = device(tmp_path, threads=1), host().bits // 32
    sums = np.zeros(12 * lanes, np.float32)
    if host().multiplies_bfloat16:
        run = function(be.compiler.module(pairs_text(lanes, 1000))["weft_pairs_peak"], ctypes.c_void_p)
        run(sums.ctypes.data)
    np.testing.assert_array_equal(sums, 500 if host().multiplies_bfloat16 else 0)
