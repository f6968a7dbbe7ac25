"""What tests compare with: random data, float64 references, bounds a dtype, central differences.

Importing this completes the table of primitives: some stand in files of ``weft/functions/``, beside their function.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.functions
from tests.kernel.samples.sample import Sample
from weft.dtypes.formats import FLOAT64, FROM_NUMPY, Format, formats_of_kind
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node, Primitive
from weft.graph.primitives import TABLE, bind, constant, input_leaf
from weft.graph.primitives.table import LAZY_ENTRIES

for _file in pkgutil.walk_packages(weft.functions.__path__, "weft.functions."):
    importlib.import_module(_file.name)
for _module in LAZY_ENTRIES:
    importlib.import_module(f"weft.graph.primitives.{_module}")

# relative error of one rounding: half the distance of 1 to the next number
EPS = {f.numpy: 2.0 ** -(f.mantissa + 1) for f in formats_of_kind("float")}
NARROW = tuple(f.numpy for f in formats_of_kind("float") if f.narrow and f.special != "scale")  # that has no 0


def in_numpy(dtype: Any) -> np.dtype:
    """NumPy's dtype of a Format, or of anything that NumPy knows."""
    return dtype.numpy if isinstance(dtype, Format) else np.dtype(dtype)


def is_float(dtype: Any) -> bool:
    return in_numpy(dtype) in EPS


def takes_floats(name: str) -> int:
    """How many float operands an element-wise primitive takes; 0 if none."""
    for arity in (1, 2):
        try:
            TABLE[name].rule(*[input_leaf((), FLOAT64)] * arity)
            return arity
        except TypeError:
            pass
    return 0


def rng(*seed: Any) -> np.random.Generator:
    """Fresh numbers every run when called without a seed; the seed is printed by a failing test's parameters otherwise."""
    return np.random.default_rng(seed if seed else None)


def random(
    generator: np.random.Generator, shape: Sequence[int], dtype: Any = np.float32, low: float = -2.0, high: float = 2.0
) -> np.ndarray:
    """Random data of any dtype; bool is half true, integers fill low..high."""
    dtype = in_numpy(dtype)
    if dtype == np.bool_:
        return generator.random(tuple(shape)) < 0.5
    if is_float(dtype):
        return generator.uniform(low, high, tuple(shape)).astype(dtype)
    low = max(low, 0) if dtype.kind == "u" else low
    return generator.integers(int(low), int(high) + 1, tuple(shape)).astype(dtype)


def in_format(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A sample of floats in another format. NaN has no sign: which one comes out of a function is left open by machines."""
    with np.errstate(all="ignore"):
        found = np.asarray(array.astype(dtype))
    found[np.isnan(found)] = np.nan
    return found


def widened(array: np.ndarray) -> np.ndarray:
    """Floats as float64, all else unchanged."""
    array = np.asarray(array)
    return array.astype(np.float64) if is_float(array.dtype) else array


def bound(dtype: Any, terms: int = 1, ulps: float = 4.0) -> float:
    """Relative error allowed in a result of ``dtype`` that adds ``terms`` numbers: roundings grow as their root."""
    dtype = in_numpy(dtype)
    accumulate = EPS[np.dtype(np.float32)] if EPS[dtype] > EPS[np.dtype(np.float32)] else EPS[dtype]
    return 2 * EPS[dtype] * ulps + 2 * accumulate * ulps * float(np.sqrt(max(terms, 1)))


def assert_close(
    actual: Any, expected: Any, dtype: Any = None, terms: int = 1, ulps: float = 4.0, scale: float | None = None,
    message: str = "",
) -> None:
    """Equal for integers and bool; for floats within :func:`bound` relative to |expected| or to ``scale``, NaNs in place.

    ``scale`` is the size of the numbers that were added or cancelled; by default the largest finite of expected.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{message} shape {actual.shape}, expected {expected.shape}"
    if dtype is not None:
        assert actual.dtype == in_numpy(dtype), f"{message} dtype {actual.dtype}, expected {in_numpy(dtype)}"
    dtype = in_numpy(dtype or actual.dtype)
    if not is_float(dtype):
        np.testing.assert_array_equal(actual, expected, err_msg=message)
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(expected, np.float64)
        form = FROM_NUMPY[dtype]
        beyond = np.nan if form.finite else np.inf
        expected = np.where(np.abs(expected) > form.largest * (1 + EPS[dtype]), np.sign(expected) * beyond, expected)
    finite = expected[np.isfinite(expected)]
    size = scale if scale is not None else float(np.max(np.abs(finite), initial=0.0))
    tiny = 2.0 ** (1 - form.bias - form.mantissa)  # the smallest subnormal
    relative = bound(dtype, terms, ulps)
    absolute = relative * size if terms > 1 or scale is not None else 0.0
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, rtol=relative, atol=absolute + tiny, err_msg=message)


def not_mostly_zero(array: np.ndarray) -> None:
    """A result made mostly of zeros proves nothing."""
    array = np.asarray(array)
    assert array.size == 0 or np.count_nonzero(array) * 2 >= array.size, "the result is mostly zeros"


def leaves(arrays: Sequence[np.ndarray]) -> list[Node]:
    return [input_leaf(a.shape, FROM_NUMPY[a.dtype]) for a in arrays]


def run(fn: Callable[..., Node | Sequence[Node]], *arrays: np.ndarray) -> list[np.ndarray]:
    """Interpret ``fn(*nodes)`` on arrays."""
    nodes = leaves(arrays)
    outputs = fn(*nodes)
    return interpret(Graph(nodes, [outputs] if isinstance(outputs, Node) else list(outputs)), arrays)


def apply(op: Primitive, sample: Sample) -> np.ndarray:
    """One primitive on one sample by its reference."""
    return run(lambda *nodes: bind(op, *nodes, **sample.params), *sample.arrays)[0]


def in_float64(sample: Sample) -> Sample:
    return Sample(tuple(widened(a) for a in sample.arrays), sample.params, sample.tag)


def central_differences(fn: Callable[..., np.ndarray], arrays: Sequence[np.ndarray], k: int, step: float = 1e-6) -> np.ndarray:
    """d sum(fn) / d arrays[k], in float64, an element at a time."""
    base = [np.array(a, copy=True) for a in arrays]
    out = np.zeros(base[k].shape, np.float64)
    for at in np.ndindex(*base[k].shape):
        middle = base[k][at]
        base[k][at] = middle + step
        above = np.sum(fn(*base))
        base[k][at] = middle - step
        below = np.sum(fn(*base))
        base[k][at] = middle
        out[at] = (above - below) / (2 * step)
    return out


def number(value: Any, like: Node) -> Node:
    return constant(value, like.dtype)
