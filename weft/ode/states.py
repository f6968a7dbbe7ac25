"""States: a tree of the user's as one array, and functions of trees as functions of that array."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dtypes.formats import COMPLEX, DEFAULT, FLOATS, Format, promote
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.functions.shape.axes import concat
from weft.graph.primitives.call import cast
from weft.ode.steps import Slope
from weft.ode.symplectic import PairOfSlopes
from weft.transforms.tree import flatten_value, unflatten


@dataclass(frozen=True)
class Layout:
    """How a tree lies in one array: a single array as it is, more of them flat and one after another.

    structure : of the tree, None for a single array
    shapes, dtypes : of its leaves
    dtype : of the array, to which all leaves convert
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Format, ...]
    dtype: Format

    def pack(self, leaves: list[Any]) -> Array:
        """Return leaves as one array."""
        arrays = [wrap(cast(as_node(x, self.dtype), self.dtype)) for x in leaves]
        return arrays[0] if len(arrays) == 1 else concat([x.reshape(-1) for x in arrays])

    def unpack(self, y: Array, rows: tuple[int, ...] = ()) -> Any:
        """Return the tree of an array; ``rows``: the extents of leading axes of the array."""
        if len(self.shapes) == 1:
            parts = [y]
        else:
            parts, at = [], 0
            for shape in self.shapes:
                size = math.prod(shape)
                parts.append(y[..., at : at + size].reshape(*rows, *shape))
                at += size
        leaves = [wrap(cast(x.node, dtype)) for x, dtype in zip(parts, self.dtypes, strict=True)]
        return unflatten(self.structure, leaves)


def lay_out(y0: Any) -> tuple[Layout, Array]:
    """Return the layout of a first state and its array."""
    leaves, structure = flatten_value(y0)
    if not leaves:
        raise ShapeError("solve: y0 is an empty tree, but must hold at least one array")
    nodes = []
    for k, leaf in enumerate(leaves):
        if not isinstance(leaf, Array | np.ndarray | np.generic | float | int | list):
            raise TypeError(f"solve: y0, leaf {k}, is {short(leaf)} ({type(leaf).__name__}), but must be an array or a number")
        node = as_node(asarray(leaf))
        if node.dtype in COMPLEX:
            raise DTypeError(f"solve: y0, leaf {k}, is {node.dtype.name}: give real and imaginary parts as two arrays")
        nodes.append(node if node.dtype in FLOATS else cast(node, DEFAULT.real))
    dtype = nodes[0].dtype
    for node in nodes:
        dtype = promote(dtype, node.dtype)
    if dtype.narrow:
        raise DTypeError(f"solve: y0 is {dtype.name}, whose steps would be too coarse: cast it with astype('float32')")
    layout = Layout(structure, tuple([n.shape for n in nodes]), tuple([n.dtype for n in nodes]), dtype)
    return layout, layout.pack([wrap(n) for n in nodes])


def slope_of(f: Callable[..., Any], layout: Layout, args: Any) -> Slope:
    """Return the user's f as a function of a time and an array."""
    def slope(t: Array, y: Array) -> Array:
        return pack_result(f(t.astype(y.dtype), layout.unpack(y), args), layout, "f")

    return slope


def pair_of_slopes(f: Any, layout: Layout, y0: Any, args: Any) -> PairOfSlopes:
    """Return the user's pair of functions as functions of times and arrays."""
    if not (isinstance(f, tuple | list) and len(f) == 2 and all(map(callable, f))):
        raise TypeError("solve: f must be a pair (dq/dt of (t, p, args), dp/dt of (t, q, args)) for a symplectic solver")
    if not (isinstance(y0, tuple | list) and len(y0) == 2):
        raise TypeError("solve: y0 must be a pair (positions, momenta) for a symplectic solver")
    (q, positions), (p, _) = lay_out(y0[0]), lay_out(y0[1])
    if q.shapes != p.shapes:
        raise ShapeError(f"solve: the positions in y0 have shapes {q.shapes} and the momenta {p.shapes}, but both must be equal")

    def part(function: Callable[..., Any], given: Layout, result: Layout, what: str) -> Slope:
        def slope(t: Array, y: Array) -> Array:
            state = given.unpack(y.reshape(given.shapes[0]) if len(given.shapes) == 1 else y)
            return pack_result(function(t.astype(y.dtype), state, args), result, what).reshape(-1)

        return slope

    return PairOfSlopes(part(f[0], p, q, "f[0]"), part(f[1], q, p, "f[1]"), positions.size)


def pack_result(out: Any, layout: Layout, what: str) -> Array:
    """Return what the user's function returned as one array."""
    leaves, structure = flatten_value(out)
    if structure != layout.structure or out is None:
        raise TypeError(
            f"solve: {what} returns {short(structure) if structure else type(out).__name__}, but must return a tree like y0: "
            f"{short(layout.structure) if layout.structure else 'one array'}"
        )
    for k, (leaf, shape) in enumerate(zip(leaves, layout.shapes, strict=True)):
        found = as_node(leaf)
        if found.shape != shape:
            raise ShapeError(f"solve: {what} returns an array of shape {found.shape} where y0 has {shape}" + (
                f" (leaf {k})" if len(leaves) > 1 else ""))
        if found.dtype in COMPLEX:
            raise DTypeError(f"solve: {what} returns {found.dtype.name}, but the state is real")
    return layout.pack(leaves)


def read_times(ts: Any, dtype: Format, readable: bool) -> Array:
    """Return the times as an array; ``readable``: whether values of weft's arrays can be checked."""
    numbers = not isinstance(ts, Array)
    if isinstance(ts, list | tuple) and any(isinstance(t, Array) for t in ts):
        ts, numbers = concat([asarray(t).reshape(1) for t in ts]), False
    times = asarray(ts) if isinstance(ts, Array | np.ndarray) else asarray(ts, dtype=dtype.numpy)
    if times.ndim != 1 or not times.size:
        raise ShapeError(f"solve: ts has shape {times.shape}, but must be a sequence of at least one time")
    if times.node.dtype not in FLOATS:
        times = times.astype(dtype.numpy)
    if numbers or readable:
        values = np.asarray(ts if numbers else times, np.float64)
        if not np.isfinite(values).all():
            raise ValueError("solve: ts has a time that is not finite")
        changes = np.diff(values)
        if changes.size and not ((changes >= 0).all() or (changes <= 0).all()):
            k = int(np.flatnonzero(changes * np.sign(values[-1] - values[0] or changes[np.flatnonzero(changes)[0]]) < 0)[0])
            raise ValueError(f"solve: ts turns back: ts[{k}] is {values[k]:g} and ts[{k + 1}] is {values[k + 1]:g}")
    return times
