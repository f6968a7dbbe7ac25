"""Formulas of element-wise primitives, run by a machine made of NumPy, against the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.graph.test_primitives import SEED, samples
from tests.kernel.evaluate import NUMPY
from weft.graph.primitives import TABLE
from weft.graph.primitives.kinds import BFLOAT16, FLOAT16, FLOAT64, NARROW
from weft.graph.primitives.table import Primitive, Sample
from weft.kernel.ir import MACHINE

ELEMENTWISE = [op for op in TABLE.values() if op.kind == "elementwise"]
BYTES = {"cast", "bitcast", "select", "copysign"}  # may touch float16 and bfloat16 themselves
MEANING = {**NUMPY, "min": np.minimum, "max": np.maximum}  # the references too leave to NumPy which of two zeros it is


class Machine:
    """One method a machine operation, checking what code generators rely on: equal dtypes, no arithmetic on storage dtypes."""

    def __getattr__(self, name: str) -> Any:
        arity = MACHINE[name].arity

        def operation(*values: np.ndarray) -> np.ndarray:
            assert len(values) == arity
            compared = values[1:] if name == "select" else values
            assert len({v.dtype for v in compared}) == 1, f"{name} of {[v.dtype for v in values]}"
            if name not in BYTES:
                assert not any(v.dtype in NARROW for v in values), f"{name} computes in a storage dtype"
                if compared[0].dtype == np.bool_:
                    assert name in ("and", "or", "xor", "not"), f"{name} of bool"
            with np.errstate(all="ignore"):
                return np.asarray(MEANING[name](*values))

        return operation

    def const(self, number: Any, like: np.ndarray) -> np.ndarray:
        return np.asarray(like.dtype.type(number))

    def cast(self, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return x.astype(dtype)

    def check(self, index: np.ndarray, extent: int) -> np.ndarray:
        assert index.dtype == np.int64
        assert ((0 <= index) & (index < extent)).all()
        return index

    def bitcast(self, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return np.ascontiguousarray(x).reshape(x.shape).view(dtype)


def check(op: Primitive, sample: Sample) -> None:
    assert op.formula is not None and op.reference is not None
    with np.errstate(all="ignore"):
        got = np.asarray(op.formula(Machine(), *sample.arrays, **sample.params))
        expected = np.asarray(op.reference(*sample.arrays, **sample.params))
    message = f"{op.name} {[a.dtype for a in sample.arrays]} {sample.params}"
    if op.exact:
        assert got.dtype == expected.dtype, message
        got, expected = oracle.widened(got), oracle.widened(expected)
        np.testing.assert_array_equal(got, expected, err_msg=message)
        if oracle.is_float(got.dtype):  # zeros' signs too
            nan = np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(got)[~nan], np.signbit(expected)[~nan], err_msg=message)
    else:
        scale = 3.0 if op.name == "logaddexp" else None  # terms of this size cancel
        oracle.assert_close(got, expected, expected.dtype, scale=scale, message=message)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_formula_against_reference(op: Primitive) -> None:
    for sample in samples(op):
        check(op, sample)
        if any(a.dtype == np.float32 for a in sample.arrays) and op.name != "bitcast":
            for dtype in (FLOAT64, FLOAT16, BFLOAT16):
                with np.errstate(all="ignore"):
                    arrays = tuple(a.astype(dtype) if a.dtype == np.float32 else a for a in sample.arrays)
                check(op, Sample(arrays, sample.params, sample.tag))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_over_the_whole_range(dtype: Any) -> None:
    info = np.finfo(dtype)
    low, high = np.log2(float(info.smallest_subnormal)), np.log2(float(info.max))
    x = np.exp2(np.random.default_rng(SEED).uniform(low, high, 2000)).astype(dtype)
    powers = np.ldexp(dtype(1), np.arange(info.minexp - info.nmant, info.maxexp))
    for name in ("log2", "log10"):
        formula = TABLE[name].formula
        assert formula is not None
        got = formula(Machine(), x)
        exact = getattr(np, name)(x.astype(np.longdouble))
        assert np.max(np.abs((got - exact) / np.spacing(np.abs(exact).astype(dtype)))) < 6  # NumPy's own log has up to 4
        if name == "log2":
            np.testing.assert_array_equal(formula(Machine(), powers), np.arange(info.minexp - info.nmant, info.maxexp))
