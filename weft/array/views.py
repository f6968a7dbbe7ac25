"""Views: a path of slices, reshapes, permutations and other readings from a cell's content to what a handle shows of it.

Other readings are the real and the imaginary parts of complex numbers, and the bytes as another dtype. Reading follows the path
forwards; writing goes back along it, each step put back functionally.

Inside a jitted function a slice may begin at a run-time number (``Given``). It is read by a gather and written by a scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import COMPLEX, INT64, Format
from weft.eager import implementations, policy
from weft.eager.apply import bind
from weft.eager.materialise import look, materialise
from weft.graph.node import Node, Shape
from weft.graph.primitives.shape import repeated
from weft.graph.primitives.table import SCALAR, TABLE, constant, input_leaf
from weft.graph.source_lines import user_frame
from weft.runtime import execute
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import Given, Slot

ViewStep = tuple[str, dict[str, Any]]
Path = tuple[ViewStep, ...]
REAL: Path = (("real", {}),)
IMAG: Path = (("imag", {}),)
NONE: Path = (("none", {}),)  # the imaginary part of real numbers: zeros, which cannot be written to
_RUN_TIME = frozenset((Given, Slot))  # what a slice may begin at beside ints
_OTHER = frozenset(("real", "imag", "none", "view"))  # steps to another dtype, or to what is not there
_REPEATED = 256 << 20  # bytes: a larger broadcast is not stored because a part of it is read


def follow(node: Node, path: Path) -> Node:
    """What the path shows of ``node``. Its steps fit each other, so no rule is asked."""
    if not path:
        return node
    if _starts_at_run_time(path):
        for step in path:
            node = _shown(node, step)
        return node
    if policy.wanted():
        if node.value is None and _part(node, path):
            materialise((node,))
        if node.value is not None and node.op is not SCALAR and execute.computes_at_once():
            found = None if ELSEWHERE and not execute.fetched(node) else _there(node, path)
            if found is not None:
                return found
    where = user_frame()
    if node.dtype in COMPLEX or any([name in _OTHER for name, _ in path]):
        for step in path:
            node = _shown(node, step)
        return node
    for name, params in path:
        shape = params["shape"] if name != "permute" else tuple([node.shape[a] for a in params["axes"]])
        node = Node(TABLE[name], (node,), params, shape, node.dtype, where)
    return node


def _shown(node: Node, step: ViewStep) -> Node:
    """What one step shows of ``node``."""
    name, params = step
    if name == "slice" and _starts_at_run_time((step,)):
        return _Window(node, params).read()
    if name == "view":
        return _viewed(node, params["dtype"], params["shape"])
    if name == "none":
        return bind(TABLE["broadcast_to"], constant(0, node.dtype), shape=node.shape)
    return bind(TABLE[name], node, **params)


def _viewed(node: Node, dtype: Format, shape: Shape) -> Node:
    """The bytes read as another dtype; where their numbers do not stand one for one, computed at once."""
    if node.dtype is dtype:
        return node
    if dtype.bits == node.dtype.bits and not {dtype.kind, node.dtype.kind} & {"bool", "complex"}:
        return bind(TABLE["bitcast"], node, dtype=dtype)
    found = np.ascontiguousarray(look(node)).view(dtype.numpy)
    if dtype.kind == "bool":
        found = found.view(np.uint8) != 0
    return input_leaf(shape, dtype, execute.to_buffer(found.reshape(shape)))


def dtype_behind(dtype: Format, path: Path) -> Format:
    """The dtype of what the path shows of a cell of ``dtype``."""
    for name, params in path:
        if name in _OTHER:
            dtype = params["dtype"] if name == "view" else dtype.part
    return dtype


def _part(node: Node, path: Path) -> bool:
    """Whether a little of a large pending array is shown: loops read it part by part, and what is small should not wait."""
    name, params = path[-1]
    if any([step in _OTHER for step, _ in path]) or (node.nbytes > _REPEATED and repeated(node) is not None):
        return False
    size = node.size if name == "permute" else prod(params["shape"])
    return 8 * size <= node.size and size * node.dtype.bytes <= LOCAL.at_once < node.nbytes


def _there(node: Node, path: Path) -> Node | None:
    """What the path shows of a content that is there, as a leaf: a copy of what is little, a window on what lies together."""
    if _scattered(node, path):
        return None
    memory = execute.memory(node.value, node.shape, node.dtype)
    seen = shown(memory, path)
    if seen is None:
        return None
    dtype = dtype_behind(node.dtype, path)
    nbytes = seen.size * dtype.bytes
    if nbytes <= LOCAL.at_once:
        return input_leaf(seen.shape, dtype, execute.to_buffer(seen))
    if seen.flags.c_contiguous:
        begin = implementations.address(seen) - implementations.address(memory)
        return input_leaf(seen.shape, dtype, execute.window(node.value, begin, nbytes))
    return None


def _scattered(node: Node, path: Path) -> bool:
    """Whether much is shown that certainly does not lie together: rows of which a part is left out."""
    name, params = path[0]
    if len(path) > 1 or name != "slice" or prod(params["shape"]) * node.dtype.bytes <= LOCAL.at_once:
        return False
    extents = params["shape"]
    first = next((k for k, n in enumerate(extents) if n != 1), 0)
    return extents[first + 1 :] != node.shape[first + 1 :]


def put(node: Node, path: Path, value: Node) -> Node:
    """``node`` with ``value`` where the path leads."""
    if not path:
        return value
    seen = [node]
    for step in path[:-1]:
        seen.append(_shown(seen[-1], step))
    for (name, params), behind in zip(reversed(path), reversed(seen), strict=True):
        if name == "slice" and _starts_at_run_time(((name, params),)):
            value = _Window(behind, params).written(value)
        elif name == "slice":
            value = bind(TABLE["slice_set"], behind, value, start=params["start"], step=params["step"])
        elif name == "reshape":
            value = bind(TABLE["reshape"], value, shape=behind.shape)
        elif name == "real":
            value = bind(TABLE["complex"], value, bind(TABLE["imag"], behind))
        elif name == "imag":
            value = bind(TABLE["complex"], bind(TABLE["real"], behind), value)
        elif name == "view":
            value = _viewed(value, behind.dtype, behind.shape)
        elif name == "none":
            raise TypeError(f"a {behind.dtype} array has no imaginary part to be set; cast it with .astype('complex64')")
        else:
            value = bind(TABLE["permute"], value, axes=inverse(params["axes"]))
    return value


def _starts_at_run_time(path: Path) -> bool:
    return any([name == "slice" and not _RUN_TIME.isdisjoint(map(type, params["start"])) for name, params in path])


def with_starts(path: Path, start: Callable[[Any], Any]) -> Path:
    """The path with ``start`` of what its slices begin at, where that is a run-time number."""
    if not _starts_at_run_time(path):
        return path
    out = []
    for name, params in path:
        if name == "slice":
            params = {**params, "start": tuple([start(s) if type(s) in _RUN_TIME else s for s in params["start"]])}
        out.append((name, params))
    return tuple(out)


class _Window:
    """A slice that begins at run-time numbers along some axes; along the others it has been taken."""

    def __init__(self, node: Node, params: dict[str, Any]) -> None:
        self.shape, self.step = params["shape"], params["step"]
        starts = params["start"]
        self.axes = tuple([axis for axis, start in enumerate(starts) if type(start) is Given])
        self.long = [axis for axis in self.axes if self.shape[axis] != 1]
        self.node = node
        self.rest = {
            "start": tuple([0 if axis in self.axes else start for axis, start in enumerate(starts)]),
            "step": tuple([1 if axis in self.axes else step for axis, step in enumerate(self.step)]),
            "shape": tuple([node.shape[axis] if axis in self.axes else n for axis, n in enumerate(self.shape)]),
        }
        self.inner = node if self.rest["shape"] == node.shape else bind(TABLE["slice"], node, **self.rest)
        self.indices = [self._index(axis, starts[axis]) for axis in self.axes]

    def _index(self, axis: int, start: Given) -> Node:
        first = start.node(INT64)
        if axis not in self.long:
            return first
        count = self.shape[axis]
        along = bind(TABLE["iota"], shape=(count,), dtype=INT64, axis=0)
        if self.step[axis] != 1:
            along = bind(TABLE["multiply"], along, constant(self.step[axis], INT64))
        behind = len(self.long) - 1 - self.long.index(axis)
        return bind(TABLE["reshape"], bind(TABLE["add"], along, first), shape=(count, *(1,) * behind))

    def read(self) -> Node:
        out = bind(TABLE["gather"], self.inner, *self.indices, axes=self.axes)
        order = inverse(self._order())
        if order != tuple(range(len(order))):
            out = bind(TABLE["permute"], out, axes=order)
        return out if out.shape == self.shape else bind(TABLE["reshape"], out, shape=self.shape)

    def written(self, value: Node) -> Node:
        """The node with ``value`` in this place."""
        order = self._order()
        kept = tuple([self.shape[axis] for axis in range(len(self.shape)) if axis not in self.axes or axis in self.long])
        if value.shape != kept:
            value = bind(TABLE["reshape"], value, shape=kept)
        if order != tuple(range(len(order))):
            value = bind(TABLE["permute"], value, axes=order)
        mode = "own" if self.long else "set"  # nothing is written twice
        out = bind(TABLE["scatter"], self.inner, value, *self.indices, axes=self.axes, mode=mode)
        if self.inner is self.node:
            return out
        return bind(TABLE["slice_set"], self.node, out, start=self.rest["start"], step=self.rest["step"])

    def _order(self) -> tuple[int, ...]:
        """The axes that are left, those of the gather in front: numbers among the axes that are left as the user sees them."""
        left = [axis for axis in range(len(self.shape)) if axis not in self.axes or axis in self.long]
        return tuple([left.index(axis) for axis in (*self.long, *[axis for axis in left if axis not in self.axes])])


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    out = [0] * len(axes)
    for position, axis in enumerate(axes):
        out[axis] = position
    return tuple(out)


def onward(path: Path, more: Path) -> Path:
    """A path and what follows it. Neighbours of a kind become one, so views of views of views cost no more than views."""
    while path and more and path[-1][0] == more[0][0] and more[0][0] != "none":
        path, more = path[:-1], (*_one(path[-1], more[0]), *more[1:])
    return path + more


def _one(first: ViewStep, second: ViewStep) -> Path:
    """Two steps of a kind as one, or none."""
    (name, before), (_, after) = first, second
    if name == "reshape":
        return (second,)
    if name == "view":
        return (("view", {**after, "have": before["have"]}),)
    if name in _OTHER:
        return (first, second)
    if name == "permute":
        axes = tuple([before["axes"][a] for a in after["axes"]])
        return () if axes == tuple(range(len(axes))) else (permute_step(axes),)
    steps = tuple([p * q for p, q in zip(before["step"], after["step"], strict=True)])
    places = zip(before["start"], before["step"], after["start"], after["shape"], strict=True)
    starts = tuple([a + p * b if n else 0 for a, p, b, n in places])
    return (("slice", {"start": starts, "step": steps, "shape": after["shape"]}),)


def view_step(have: Format, dtype: Format, shape: Shape) -> ViewStep:
    """The bytes of ``have`` read as ``dtype``."""
    return ("view", {"have": have, "dtype": dtype, "shape": shape})


def reshape_step(shape: Shape) -> ViewStep:
    return ("reshape", {"shape": shape})


def permute_step(axes: Sequence[int]) -> ViewStep:
    return ("permute", {"axes": tuple(axes)})


def row_major(shape: Shape) -> tuple[int, ...]:
    """How far apart elements lie along each axis, in elements, where they lie one after the other."""
    strides = [0] * len(shape)
    apart = 1
    for axis in reversed(range(len(shape))):
        strides[axis] = apart
        apart *= shape[axis]
    return tuple(strides)


def strides_behind(shape: Shape, strides: Sequence[int], path: Path) -> tuple[int, ...]:
    """How far apart the elements of a view lie along its axes, those of the cell being ``strides`` apart."""
    for name, params in path:
        if name == "slice":
            strides = [s * by for s, by in zip(strides, params["step"], strict=True)]
            shape = params["shape"]
        elif name == "permute":
            strides, shape = [strides[a] for a in params["axes"]], tuple(shape[a] for a in params["axes"])
        elif name in ("real", "imag"):
            strides = [2 * s for s in strides]
        elif name == "view":
            shape, (have, dtype) = params["shape"], (params["have"].bytes, params["dtype"].bytes)
            strides = [s * have // dtype for s in strides[:-1]] + [1 if have != dtype else s for s in strides[-1:]]
        elif name == "none":
            strides = row_major(shape)
        else:
            found = strides_for(strides, shape, params["shape"])
            assert found is not None  # reshape makes a view only where there is one
            strides, shape = found, params["shape"]
    return tuple(strides)


def strides_for(strides: Sequence[int], shape: Shape, want: Shape) -> tuple[int, ...] | None:
    """The strides of elements in the shape ``want``, or None where no strides lead through them in order: NumPy copies then."""
    if 0 in shape:
        return (0,) * len(want)
    have = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    out = [0] * len(want)
    new = old = 0
    while old < len(have):
        while want[new] == 1:
            new += 1
        last, past = new, old + 1
        wide, held = want[new], have[old][0]
        while wide != held:  # the smallest groups of axes, before and after, that hold as many elements
            if wide < held:
                last += 1
                wide *= want[last]
            else:
                held *= have[past][0]
                past += 1
        if any(have[k][1] != have[k + 1][0] * have[k + 1][1] for k in range(old, past - 1)):
            return None
        apart = have[past - 1][1]
        for axis in range(last, new - 1, -1):
            out[axis] = apart
            apart *= want[axis]
        new, old = last + 1, past
    return tuple(out)


def unused_memory(shape: Shape, dtype: Format) -> np.ndarray:
    """Return an array of NumPy whose addresses are asked for, and which is never read: it has no memory of its own."""
    return np.lib.stride_tricks.as_strided(np.empty((), dtype.numpy), shape, [s * dtype.bytes for s in row_major(shape)])


def overlap(shape: Shape, dtype: Format, first: Path, second: Path) -> bool:
    """Whether two views of one array of ``shape`` show an element in common; yes where that is hard to tell."""
    memory = unused_memory(shape, dtype)
    most: Any = 10_000  # steps of a search that can take very long
    one, other = shown(memory, first), shown(memory, second)
    if one is None or other is None:
        return True
    try:
        return np.shares_memory(one, other, max_work=most)
    except np.exceptions.TooHardError:
        return True


def shown(memory: np.ndarray, path: Path) -> np.ndarray | None:
    """What the path shows, as NumPy's view of ``memory``; None where NumPy would have to copy (the cell lies otherwise)."""
    if _starts_at_run_time(path):
        return None
    for name, params in path:
        if name == "slice":
            places = zip(params["start"], params["step"], params["shape"], strict=True)
            memory = memory[tuple([_run(*place) for place in places])]
        elif name == "permute":
            memory = memory.transpose(params["axes"])
        elif name in ("real", "imag"):
            memory = memory.real if name == "real" else memory.imag
        elif name == "none":
            return None
        elif name == "view":
            if memory.strides[-1:] != (memory.itemsize,) and memory.itemsize != params["dtype"].bytes:
                return None
            if "bool" in (params["have"].kind, params["dtype"].kind):
                return None  # the byte of a bool is 0 or 1, whoever writes it
            memory = memory.view(params["dtype"].numpy)
        else:
            shape = params["shape"]
            if not memory.flags.c_contiguous and [n for n in shape if n != 1] != [n for n in memory.shape if n != 1]:
                if strides_for(memory.strides, memory.shape, shape) is None:
                    return None
            memory = memory.reshape(shape)
    return memory


def _run(start: int, step: int, count: int) -> slice:
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step) if count else slice(0, 0)
