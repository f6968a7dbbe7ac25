"""Random words of any count: those of the definition, on every machine, and no memory but what was asked for."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from harness import compile_ir, isas
from test_dynamic_kernels import Guarded

from weft.devices import get_device
from weft.devices.cpu.dynamic_kernels.words import words_text
from weft.graph.primitives.philox import word

DEVICE: Any = get_device()
COUNTS = (0, 1, 2, 3, 4, 5, 15, 16, 17, 33, 100, 1003)
BASES = (0, 1, 2**32 - 2, 2**64 - 3)  # the counter's halves carry, and it begins anew


def right(run: Any, rng: np.random.Generator) -> None:
    for count in COUNTS:
        for base in BASES:
            given = rng.integers(2**64, dtype=np.uint64), np.uint64(base)
            key, start = (np.array([x], np.uint64) for x in given)
            for off in (0, 1):
                out = Guarded((count,), np.dtype(np.uint32), off)
                run(count, out.address, key.ctypes.data, start.ctypes.data)
                assert out.checked().tolist() == word(*given, np.arange(count, dtype=np.uint64)).tolist()


def test_words(rng: np.random.Generator) -> None:
    right(DEVICE.dynamic_kernels.words, rng)


@pytest.mark.parametrize("isa", [*isas()])
def test_every_machine(isa: str, rng: np.random.Generator) -> None:
    engine = compile_ir(words_text(isas()[isa]), isas()[isa])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("weft_words"))
    right(lambda *words: function(np.array(words, np.uint64).ctypes.data), rng)
