"""Formulas of element-wise primitives, run by a machine made of NumPy, against the references."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests import oracle
from tests.graph.test_primitives import SEED, samples
from tests.kernel.evaluate import NUMPY
from tests.kernel.samples.sample import Sample
from weft.dtypes.formats import BOOL, FROM_NUMPY, INT64, Format, formats_of_kind
from weft.dtypes.rounding import convert_array, round_array
from weft.graph.node import Primitive
from weft.graph.primitives import TABLE
from weft.kernel.ir import MACHINE_OPERATIONS

ELEMENTWISE = [op for op in TABLE.values() if op.kind == "elementwise"]
BYTES = {"cast", "bitcast", "select", "copysign"}  # may touch narrow floats themselves
MEANING = {**NUMPY, "min": np.minimum, "max": np.maximum}  # the references too leave to NumPy which of two zeros it is


class Held(NamedTuple):
    """What a formula sees of a value is its format."""

    array: np.ndarray

    @property
    def dtype(self) -> Format:
        return FROM_NUMPY[self.array.dtype]


class Machine:
    """One method a machine operation, checking what code generators rely on: equal dtypes, no arithmetic on storage dtypes."""

    def __getattr__(self, name: str) -> Any:
        arity = MACHINE_OPERATIONS[name].arity

        def operation(*values: Held) -> Held:
            assert len(values) == arity
            compared = values[1:] if name == "select" else values
            assert len({v.dtype for v in compared}) == 1, f"{name} of {[v.dtype for v in values]}"
            if name not in BYTES:
                assert not any(v.dtype.narrow for v in values), f"{name} computes in a storage dtype"
                if compared[0].dtype is BOOL:
                    assert name in ("and", "or", "xor", "not"), f"{name} of bool"
            with np.errstate(all="ignore"):
                return Held(np.asarray(MEANING[name](*[v.array for v in values])))

        return operation

    def const(self, number: Any, like: Held) -> Held:
        return Held(np.asarray(like.dtype.numpy.type(number)))

    def cast(self, x: Held, dtype: Format) -> Held:
        return Held(convert_array(x.array, dtype.numpy))

    def make(self, op: str, values: tuple[Held, ...], dtype: Format) -> Held:
        x, *words = np.broadcast_arrays(*[v.array for v in values])
        return Held(round_array(x, dtype, op.removeprefix("round_"), *words))

    def check(self, index: Held, extent: int) -> Held:
        assert index.dtype is INT64
        assert ((0 <= index.array) & (index.array < extent)).all()
        return index

    def bitcast(self, x: Held, dtype: Format) -> Held:
        return Held(np.ascontiguousarray(x.array).reshape(x.array.shape).view(dtype.numpy))


def computed(op: Primitive, *arrays: np.ndarray, **params: Any) -> np.ndarray:
    assert op.formula is not None
    return np.asarray(op.formula(Machine(), *map(Held, arrays), **params).array)


def check(op: Primitive, sample: Sample) -> None:
    assert op.reference is not None
    with np.errstate(all="ignore"):
        got = computed(op, *sample.arrays, **sample.params)
        expected = np.asarray(op.reference(*sample.arrays, **sample.params))
    message = f"{op.name} {[a.dtype for a in sample.arrays]} {sample.params}"
    if op.exact:
        assert got.dtype == expected.dtype, message
        got, expected = oracle.widened(np.broadcast_to(got, expected.shape)), oracle.widened(expected)  # it may be an operand
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
            for dtype in formats_of_kind("float"):
                with np.errstate(all="ignore"):
                    arrays = tuple(convert_array(a, dtype.numpy) if a.dtype == np.float32 else a for a in sample.arrays)
                check(op, Sample(arrays, sample.params, sample.tag))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_over_the_whole_range(dtype: Any) -> None:
    info = np.finfo(dtype)
    low, high = np.log2(float(info.smallest_subnormal)), np.log2(float(info.max))
    x = np.exp2(np.random.default_rng(SEED).uniform(low, high, 2000)).astype(dtype)
    powers = np.ldexp(dtype(1), np.arange(info.minexp - info.nmant, info.maxexp))
    for name in ("log2", "log10"):
        got = computed(TABLE[name], x)
        exact = getattr(np, name)(x.astype(np.longdouble))
        assert np.max(np.abs((got - exact) / np.spacing(np.abs(exact).astype(dtype)))) < 6  # NumPy's own log has up to 4
        if name == "log2":
            np.testing.assert_array_equal(computed(TABLE[name], powers), np.arange(info.minexp - info.nmant, info.maxexp))
