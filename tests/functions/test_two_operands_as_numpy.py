"""Functions of two operands against NumPy: arrays of every dtype, Python's numbers and NumPy's scalars, also out of range."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf

DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()
PRODUCTS = "inner outer dot convolve correlate vdot kron".split()
OTHERS = """
    append hstack intersect1d setdiff1d setxor1d isin polyadd polysub polymul array_equal add multiply subtract maximum minimum
    float_power logaddexp power
""".split()
CALLS: dict[str, Callable[..., Any]] = {
    **{name: lambda xp, a, b, n=name: getattr(xp, n)(a, b) for name in PRODUCTS + OTHERS},
    **{f"{name} turned": lambda xp, a, b, n=name: getattr(xp, n)(b, a) for name in PRODUCTS + ["append", "isin"]},
    "tensordot": lambda xp, a, b: xp.tensordot(a, b, 0),
    "einsum": lambda xp, a, b: xp.einsum("i,...->i...", a, b),
    "where": lambda xp, a, b: xp.where([True, False], a, b),
    "stack": lambda xp, a, b: xp.stack([a[0], b]) if np.ndim(b) == 0 else xp.stack([a, b]),
    "block": lambda xp, a, b: xp.block([a, b]),
    "add.outer": lambda xp, a, b: xp.add.outer(a, b),
    "matmul": lambda xp, a, b: xp.matmul(a, [b, b]) if np.ndim(b) == 0 else xp.matmul(a, b),
    "clip": lambda xp, a, b: xp.clip(a, None, b),
    "full_like": lambda xp, a, b: xp.full_like(a, b),
    "diff": lambda xp, a, b: xp.diff(a, prepend=b),
}
NUMBERS = (5, -1, True, 300, 70000, 2**31, 2**40, -(2**63), 1.5, 0.1, 1j)
UNLIKE: dict[str, Callable[[Any, Any], bool]] = {  # what weft refuses and NumPy loses without a word, and the other way round
    "full_like": lambda a, b: np.iscomplexobj(b) or a.dtype == bool, "clip": lambda a, b: np.iscomplexobj(b),
    "diff": lambda a, b: np.iscomplexobj(b), "where": lambda a, b: type(b) is int,
    "correlate": lambda a, b: np.ndim(b) == 0, "correlate turned": lambda a, b: np.ndim(b) == 0,
}


def value(dtype: str) -> Any:
    return {"b": 1, "u": 200, "i": -3, "f": 2.5, "c": 1 + 2j}[np.dtype(dtype).kind]


def others() -> Iterator[tuple[Any, Any]]:
    """Second operands, for NumPy and for weft."""
    yield from ((n, n) for n in NUMBERS)
    for dtype in DTYPES:
        for a in (np.array(value(dtype), dtype), np.array([value(dtype), 1], dtype)):
            yield a, wf.array(a)
        scalar = np.array(value(dtype), dtype)[()]
        yield scalar, scalar


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = f(*args)
        except (ValueError, TypeError, OverflowError) as error:
            return error
    return np.asarray(found)


@pytest.fixture
def _wide() -> Iterator[None]:
    wf.set_default_dtype("float64")
    yield
    wf.set_default_dtype("float32")


@pytest.mark.drawn(16)
@pytest.mark.usefixtures("_wide")
@pytest.mark.parametrize("name", CALLS)
def test_dtypes_and_values(name: str) -> None:
    wrong = []
    for dtype in DTYPES:
        for other, theirs in others():
            a = np.array([1, 0] if dtype == "bool" else [100, 3], dtype)
            if name in UNLIKE and UNLIKE[name](a, other):
                continue
            want, got = outcome(CALLS[name], np, a.copy(), other), outcome(CALLS[name], wf, wf.array(a), theirs)
            refused = [isinstance(found, Exception) for found in (want, got)]
            if all(refused):
                continue
            with np.errstate(all="ignore"):
                if any(refused) or got.dtype != want.dtype or got.shape != want.shape or not np.allclose(
                    got.astype(complex), want.astype(complex), rtol=1e-5, equal_nan=True,
                ):
                    wrong.append(f"{dtype} with {other!r}: {got!r}, not {want!r}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:5])
