"""What one node may differ from its NumPy reference: bits where the primitive is exact, else a bound for its dtype.

The reference is computed in float64 on the very arrays the node was given. A sum's bound grows with the sum of the
magnitudes that were added, which the same reference gives for the operands' absolute values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import oracle
from tests.fuzz import native
from weft.dtypes.formats import FROM_NUMPY
from weft.graph.node import Node

ULPS = {"pow": 8.0, "logaddexp": 6.0, "log2": 6.0, "log10": 6.0, "hypot": 6.0}  # of results made by several operations
SUMS = ("dot_general", "conv_general", "reduce_sum", "cumulative_sum", "reduce_window", "window_gather")


def limits(dtype: np.dtype) -> tuple[float, float]:
    """(largest finite number, smallest normal number)."""
    form = FROM_NUMPY[dtype]
    return form.largest, 2.0 ** (1 - form.bias)


def check_node(node: Node, args: Sequence[np.ndarray], got: np.ndarray) -> str | None:
    """What is wrong with ``got`` as the node's value of ``args``; None if nothing is."""
    op = node.op
    assert op.reference is not None
    with np.errstate(all="ignore"):
        exact = np.asarray(op.reference(*args, **node.params))
        if exact.shape != got.shape or exact.dtype != got.dtype or exact.dtype != node.dtype.numpy:
            return f"{got.dtype}{list(got.shape)}, the reference gives {exact.dtype}{list(exact.shape)}"
        if native.same(got, exact):
            return None
        if op.name in ("maximum", "minimum") and np.array_equal(got, exact, equal_nan=oracle.is_float(node.dtype)):
            return None  # NumPy leaves open which of two zeros is larger
        if not oracle.is_float(node.dtype) or (op.exact and op.name != "scatter"):
            return _first(got, exact, ~_equal(got, exact))
        wide = np.asarray(op.reference(*map(oracle.widened, args), **node.params), np.float64)
        eps = oracle.EPS[node.dtype.numpy]
        narrow = eps > oracle.EPS[np.dtype(np.float32)]
        inner = oracle.EPS[np.dtype(np.float32)] if narrow else eps
        if op.name in SUMS or op.name == "scatter":
            if op.name == "reduce_window" and node.params.get("kind") not in ("sum", "avg", None):
                scale = np.abs(wide)
            else:
                sizes = [np.abs(oracle.widened(a)) if oracle.is_float(a.dtype) else a for a in args]
                scale = np.abs(np.asarray(op.reference(*sizes, **node.params), np.float64))
            terms = max(2.0, max((a.size for a in args), default=2) / max(got.size, 1))
            if op.name == "dot_general":
                terms = max(2.0, np.sqrt(args[0].size * args[1].size / max(got.size, 1)))
            if op.name in ("scatter", "cumulative_sum"):
                terms = max(2.0, float(max(a.size for a in args)))
                inner = max(inner, eps if op.name == "scatter" else 0.0)
            bound = 2 * eps * np.abs(wide) + 2 * inner * (4 + np.sqrt(terms) + np.log2(terms)) * scale
        elif op.name in ("reduce_prod", "cumulative_prod"):
            terms = max(2.0, args[0].size / max(got.size, 1) if op.name == "reduce_prod" else args[0].shape[node.params["axis"]])
            bound = (2 * eps + 2 * inner * terms) * np.abs(wide)
        else:
            bound = 2 * eps * ULPS.get(op.name, 4.0) * np.abs(wide)
            if op.name == "logaddexp":
                bound = bound + 4 * inner * np.maximum(*(np.abs(oracle.widened(a)) for a in args))
        largest, normal = limits(node.dtype.numpy)
        mine = oracle.widened(got)
        over = np.abs(wide) > largest * (1 - 4 * bound_rate(bound, wide))
        fine = np.abs(mine - wide) <= bound + normal * eps * 4
        fine |= np.isnan(mine) & np.isnan(wide)
        fine |= mine == wide
        if node.dtype.finite:  # NaN stands for what is too large
            fine |= np.isnan(mine) & ~(np.abs(wide) + bound <= largest)
        fine |= over & np.isfinite(wide) & ((np.abs(mine) >= largest * 0.9) & (np.sign(mine) == np.sign(wide)))
        if op.name == "cumulative_prod":  # behind what left the range on the way nothing is known
            beyond, small = limits(node.dtype.computed.numpy)
            axis, sizes = node.params["axis"], np.abs(wide)
            fine |= np.minimum.accumulate(sizes, axis) < 2 * small
            fine |= ~(np.maximum.accumulate(sizes, axis) < beyond / 2)
        if op.name in SUMS + ("reduce_prod", "scatter"):  # what overflows on the way depends on the order
            fine |= ~(np.abs(scale) < largest / 4) if op.name != "reduce_prod" else ~np.isfinite(mine) | (np.abs(mine) < normal)
        return None if fine.all() else _first(got, wide, ~fine)


def bound_rate(bound: np.ndarray, wide: np.ndarray) -> Any:
    return np.where(np.isfinite(wide) & (wide != 0), bound / np.maximum(np.abs(wide), 1e-300), 0)


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) & (np.signbit(a) == np.signbit(b)) | ((a != a) & (b != b)) if oracle.is_float(a.dtype) else a == b


def _first(got: np.ndarray, wanted: np.ndarray, bad: np.ndarray) -> str:
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad))) if got.ndim else ()
    return f"{int(bad.sum())} of {got.size} elements, first {at}: {got[at]!r}, the reference gives {wanted[at]!r}"
