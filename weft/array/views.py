"""Views: a path of steps from a cell's content to the part that an array shows. Steps are slices, reshapes, permutations, real
and imaginary parts, and the bytes read as another dtype.

A read applies the steps in order; a write goes back along them and replaces each part functionally.

Inside a jitted function a slice may start at a run-time number (``TracedInt``). It is read by a gather and written by a scatter.

Neighbouring steps of one kind are joined, so a queue that drops its head again and again stays one slice. A reshape of a view
is a view if strides lead through its elements in order, else a copy, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import COMPLEX, INT64, UINT8, Format
from weft.eager import implementations, policy
from weft.eager.apply import bind
from weft.eager.materialise import materialise, read_array
from weft.eager.peek import memory_of
from weft.graph.node import Node, Shape
from weft.graph.primitives.common import inverse
from weft.graph.primitives.rules import memoise
from weft.graph.primitives.shape import find_repeated
from weft.graph.primitives.table import TABLE, constant, input_leaf
from weft.graph.source_lines import user_frame
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import Slot, TracedInt


class TracedStart:
    """The traced start of a slice, such as the counter of a loop. The slice is a copy, since a view needs a known start."""

    __slots__ = ("index",)

    def __init__(self, index: Node) -> None:
        self.index = index

    def node(self, dtype: Format) -> Node:
        return self.index if self.index.dtype is dtype else bind(TABLE["cast"], self.index, dtype=dtype)


ViewStep = tuple[str, dict[str, Any]]
ViewPath = tuple[ViewStep, ...]
REAL: ViewPath = (("real", {}),)
IMAG: ViewPath = (("imag", {}),)
ZERO_IMAG: ViewPath = (("none", {}),)  # the imaginary part of real numbers: zeros, which cannot be written to
_RUN_TIME_TYPES = frozenset((TracedInt, Slot, TracedStart))  # types of slice starts beside int
_DTYPE_STEPS = frozenset(("real", "imag", "none", "view"))  # steps to another dtype, or to zeros without memory
_MAX_BROADCAST_BYTES = 256 << 20  # bytes: a larger broadcast is not materialised to read a part of it


def view_node(node: Node, path: ViewPath) -> Node:
    """Return a node that shows ``node`` along ``path``. The steps were checked when the view was made; shape rules are not
    applied again."""
    if not path:
        return node
    if _starts_at_run_time(path):
        for step in path:
            node = _apply_step(node, step)
        return node
    if policy.is_enabled():
        if node.value is None and _is_small_part(node, path):
            materialise((node,))
        if (leaf := _view_leaf(node, path)) is not None:
            return leaf
    where = user_frame()
    if node.dtype in COMPLEX or any([name in _DTYPE_STEPS for name, _ in path]):
        for step in path:
            node = _apply_step(node, step)
        return node
    for step in path:
        name, params = step
        node = Node(TABLE[name], (node,), params, view_shape(node.shape, (step,)), node.dtype, where)
    return node


def _apply_step(node: Node, step: ViewStep) -> Node:
    """Return a node that shows ``node`` through one step."""
    name, params = step
    if name == "slice" and _starts_at_run_time((step,)):
        return _RunTimeSlice(node, params).read()
    if name == "view":
        return _reinterpret(node, params["dtype"], params["shape"])
    if name == "none":
        return bind(TABLE["broadcast_to"], constant(0, node.dtype), shape=node.shape)
    return bind(TABLE[name], node, **params)


def _reinterpret(node: Node, dtype: Format, shape: Shape) -> Node:
    """Return the bytes of a node read as another dtype. If elements do not correspond one to one, it is computed now."""
    if node.dtype is dtype:
        return node
    if _drops_bits(node.dtype, dtype):
        node = _mask(node, (1 << dtype.bits) - 1, shape)
    if dtype.bytes == node.dtype.bytes and not {dtype.kind, node.dtype.kind} & {"bool", "complex"}:
        return bind(TABLE["bitcast"], node, dtype=dtype)
    content = np.ascontiguousarray(read_array(node)).view(dtype.numpy)
    if dtype.kind == "bool":
        content = content.view(np.uint8) != 0
    return input_leaf(shape, dtype, execute.to_buffer(content.reshape(shape)))


def _drops_bits(have: Format, dtype: Format) -> bool:
    """Whether only the low bits of each byte are a number of ``dtype``, a float of 4 or 6 bits."""
    return dtype.kind == "float" and dtype.bits < 8 and dtype.bits < have.bits


def _mask(node: Node, bits: int, shape: Shape) -> Node:
    """Return some bits of each byte of the node, as uint8 of ``shape``."""
    return bind(TABLE["bitwise_and"], _reinterpret(node, UINT8, shape), constant(bits, UINT8))


def view_dtype(dtype: Format, path: ViewPath) -> Format:
    """Return the dtype at the end of a path from a cell of ``dtype``."""
    for name, params in path:
        if name in _DTYPE_STEPS:
            dtype = params["dtype"] if name == "view" else dtype.part
    return dtype


def _is_small_part(node: Node, path: ViewPath) -> bool:
    """Return whether the path shows a small part of a large pending array. It is then computed whole, since loops read part by
    part."""
    name, params = path[-1]
    if any([step in _DTYPE_STEPS for step, _ in path]) or (
        node.nbytes > _MAX_BROADCAST_BYTES and find_repeated(node) is not None
    ):
        return False
    size = node.size if name == "permute" else prod(params["shape"])
    return 8 * size <= node.size and size * node.dtype.bytes <= CONTEXT.max_eager_bytes < node.nbytes


def _view_leaf(node: Node, path: ViewPath) -> Node | None:
    """Return the viewed part of a materialised node as a leaf: a copy if it is small, a window if it is contiguous, else None."""
    memory = None if _is_scattered(node, path) else memory_of(node)
    view = None if memory is None else view_memory(memory, path)
    if memory is None or view is None:
        return None
    dtype = view_dtype(node.dtype, path)
    nbytes = view.size * dtype.bytes
    if nbytes <= CONTEXT.max_eager_bytes:
        return input_leaf(view.shape, dtype, execute.to_buffer(view))
    if view.flags.c_contiguous:
        offset = implementations.address(view) - implementations.address(memory)
        return input_leaf(view.shape, dtype, execute.eager_device().window(node.value, offset, nbytes))
    return None


def _is_scattered(node: Node, path: ViewPath) -> bool:
    """Return whether the path certainly shows a large non-contiguous part: a slice that leaves out parts of rows."""
    name, params = path[0]
    if len(path) > 1 or name != "slice" or prod(params["shape"]) * node.dtype.bytes <= CONTEXT.max_eager_bytes:
        return False
    extents = params["shape"]
    first = next((k for k, n in enumerate(extents) if n != 1), 0)
    return extents[first + 1 :] != node.shape[first + 1 :]


def write_along_path(node: Node, path: ViewPath, value: Node) -> Node:
    """Return ``node`` with ``value`` written at the end of the path."""
    if not path:
        return value
    nodes = [node]
    for step in path[:-1]:
        nodes.append(_apply_step(nodes[-1], step))
    for (name, params), behind in zip(reversed(path), reversed(nodes), strict=True):
        if name == "slice" and _starts_at_run_time(((name, params),)):
            value = _RunTimeSlice(behind, params).write(value)
        elif name == "slice":
            value = bind(TABLE["slice_set"], behind, value, start=params["start"], step=params["step"])
        elif name == "reshape":
            value = bind(TABLE["reshape"], value, shape=behind.shape)
        elif name == "real":
            value = bind(TABLE["complex"], value, bind(TABLE["imag"], behind))
        elif name == "imag":
            value = bind(TABLE["complex"], bind(TABLE["real"], behind), value)
        elif name == "view":
            if _drops_bits(behind.dtype, params["dtype"]):  # the base keeps its high bits
                high = _mask(behind, 256 - (1 << params["dtype"].bits), params["shape"])
                value = bind(TABLE["bitwise_or"], bind(TABLE["bitcast"], value, dtype=UINT8), high)
            value = _reinterpret(value, behind.dtype, behind.shape)
        elif name == "none":
            raise TypeError(f"a {behind.dtype} array has no imaginary part to be set; cast it with .astype('complex64')")
        else:
            value = bind(TABLE["permute"], value, axes=inverse(params["axes"]))
    return value


def _starts_at_run_time(path: ViewPath) -> bool:
    return any([name == "slice" and not _RUN_TIME_TYPES.isdisjoint(map(type, params["start"])) for name, params in path])


def map_starts(path: ViewPath, start: Callable[[Any], Any]) -> ViewPath:
    """Return the path with ``start`` applied to the run-time numbers at which its slices start."""
    if not _starts_at_run_time(path):
        return path
    out = []
    for name, params in path:
        if name == "slice":
            params = {**params, "start": tuple([start(s) if type(s) in _RUN_TIME_TYPES else s for s in params["start"]])}
        out.append((name, params))
    return tuple(out)


class _RunTimeSlice:
    """A slice that starts at run-time numbers along ``axes``; the slices along the other axes are already applied to
    ``inner``."""

    def __init__(self, node: Node, params: dict[str, Any]) -> None:
        self.shape, self.step = params["shape"], params["step"]
        starts = params["start"]
        self.axes = tuple([axis for axis, start in enumerate(starts) if type(start) in (TracedInt, TracedStart)])
        self.long = [axis for axis in self.axes if self.shape[axis] != 1]
        self.node = node
        self.rest = {
            "start": tuple([0 if axis in self.axes else start for axis, start in enumerate(starts)]),
            "step": tuple([1 if axis in self.axes else step for axis, step in enumerate(self.step)]),
            "shape": tuple([node.shape[axis] if axis in self.axes else n for axis, n in enumerate(self.shape)]),
        }
        self.inner = node if self.rest["shape"] == node.shape else bind(TABLE["slice"], node, **self.rest)
        self.indices = [self._index(axis, starts[axis]) for axis in self.axes]

    def _index(self, axis: int, start: TracedInt | TracedStart) -> Node:
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

    def write(self, value: Node) -> Node:
        """Return the node with ``value`` written in this window."""
        order = self._order()
        left = [axis for axis in range(len(self.shape)) if axis not in self.axes or axis in self.long]
        gathered_shape = tuple([self.shape[axis] for axis in left])
        if value.shape != gathered_shape:
            value = bind(TABLE["reshape"], value, shape=gathered_shape)
        if order != tuple(range(len(order))):
            value = bind(TABLE["permute"], value, axes=order)
        mode = "own" if self.long else "set"  # no position occurs twice
        out = bind(TABLE["scatter"], self.inner, value, *self.indices, axes=self.axes, mode=mode)
        if self.inner is self.node:
            return out
        return bind(TABLE["slice_set"], self.node, out, start=self.rest["start"], step=self.rest["step"])

    def _order(self) -> tuple[int, ...]:
        """Return the permutation from the user's axes to those of the gather, which has the gathered axes first."""
        left = [axis for axis in range(len(self.shape)) if axis not in self.axes or axis in self.long]
        return tuple([left.index(axis) for axis in (*self.long, *[axis for axis in left if axis not in self.axes])])


def compose_views(path: ViewPath, more: ViewPath) -> ViewPath:
    """Return two paths as one. Adjacent steps of a kind are merged, so views of views cost no more than views."""
    while path and more and path[-1][0] == more[0][0] and more[0][0] != "none":
        path, more = path[:-1], (*_merge_steps(path[-1], more[0]), *more[1:])
    return path + more


def _merge_steps(first: ViewStep, second: ViewStep) -> ViewPath:
    """Return two steps of a kind merged to one, or to none."""
    (name, before), (_, after) = first, second
    if name == "reshape":
        return (second,)
    if name == "view":
        return (("view", {**after, "have": before["have"]}),)
    if name in _DTYPE_STEPS:
        return (first, second)
    if name == "permute":
        axes = tuple([before["axes"][a] for a in after["axes"]])
        return () if axes == tuple(range(len(axes))) else (permute_step(axes),)
    steps = tuple([p * q for p, q in zip(before["step"], after["step"], strict=True)])
    places = zip(before["start"], before["step"], after["start"], after["shape"], strict=True)
    starts = tuple([a + p * b if n else 0 for a, p, b, n in places])
    return (("slice", {"start": starts, "step": steps, "shape": after["shape"]}),)


def view_step(have: Format, dtype: Format, shape: Shape) -> ViewStep:
    """Return the step that reads the bytes of ``have`` as ``dtype``."""
    return ("view", {"have": have, "dtype": dtype, "shape": shape})


def reshape_step(shape: Shape) -> ViewStep:
    return ("reshape", {"shape": shape})


def permute_step(axes: Sequence[int]) -> ViewStep:
    return ("permute", {"axes": tuple(axes)})


TRANSPOSES: tuple[ViewPath, ...] = ((), (), *[(permute_step(range(n)[::-1]),) for n in range(2, 9)])  # by dimensions
RESHAPED = "reshape"  # stored in place of an index in reshapes that native code makes


def row_major(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    strides = [0] * len(shape)
    stride = 1
    for axis in reversed(range(len(shape))):
        strides[axis] = stride
        stride *= shape[axis]
    return tuple(strides)


ViewLayout = tuple[Shape, tuple[int, ...], int]  # extents, strides and offset in bytes


def view_layout(shape: Shape, dtype: Format, path: ViewPath) -> ViewLayout | None:
    """Return where the elements at the end of a path lie in a contiguous array; None for steps to another dtype, and for starts
    that a run decides."""
    if any([name in _DTYPE_STEPS for name, _ in path]) or _starts_at_run_time(path):
        return None
    strides, offset = row_major(shape), 0
    for step in path:
        name, params = step
        if name == "reshape" and reshape_strides(strides, shape, params["shape"]) is None:
            return None
        if name == "slice":
            offset += sum([start * stride for start, stride in zip(params["start"], strides, strict=True)])
        strides = view_strides(shape, strides, (step,))
        shape = view_shape(shape, (step,))
    nbytes = dtype.bytes
    return shape, tuple([stride * nbytes for stride in strides]), offset * nbytes


def row_path(row: int, shape: Shape) -> ViewPath:
    """Return the path to a row of an array."""
    other_starts, steps, extents, rest = _find_row_steps(shape)
    return (("slice", {"start": (row, *other_starts), "step": steps, "shape": extents}), rest)


@memoise
def _find_row_steps(shape: Shape) -> tuple[Shape, Shape, Shape, ViewStep]:
    """Return what the paths to all rows have in common: starts along the other axes, steps, extents and the last step."""
    return (0,) * (len(shape) - 1), (1,) * len(shape), (1, *shape[1:]), reshape_step(shape[1:])


def view_shape(shape: Shape, path: ViewPath) -> Shape:
    """Return the shape at the end of a path from an array of ``shape``."""
    for name, params in path:
        if name == "permute":
            shape = tuple([shape[a] for a in params["axes"]])
        else:
            shape = params.get("shape", shape)
    return shape


def view_strides(shape: Shape, strides: Sequence[int], path: ViewPath) -> tuple[int, ...]:
    """Return the strides at the end of a path from a cell with ``strides``."""
    for step in path:
        name, params = step
        if name == "slice":
            strides = [s * by for s, by in zip(strides, params["step"], strict=True)]
        elif name == "permute":
            strides = [strides[a] for a in params["axes"]]
        elif name in ("real", "imag"):
            strides = [2 * s for s in strides]
        elif name == "view":
            have, dtype = params["have"].bytes, params["dtype"].bytes
            strides = [s * have // dtype for s in strides[:-1]] + [1 if have != dtype else s for s in strides[-1:]]
        elif name == "none":
            strides = row_major(shape)
        else:
            reshaped = reshape_strides(strides, shape, params["shape"])
            assert reshaped is not None  # reshape makes a view only if there are strides
            strides = reshaped
        shape = view_shape(shape, (step,))
    return tuple(strides)


def reshape_strides(strides: Sequence[int], shape: Shape, want: Shape) -> tuple[int, ...] | None:
    """Return the strides of the same elements in the shape ``want``; None if there are none, so that NumPy would copy."""
    if 0 in shape:
        return (0,) * len(want)
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    out = [0] * len(want)
    new = old = 0
    while old < len(axes):
        while want[new] == 1:
            new += 1
        last, past = new, old + 1
        new_size, old_size = want[new], axes[old][0]
        while new_size != old_size:  # extend both groups of axes until they have as many elements
            if new_size < old_size:
                last += 1
                new_size *= want[last]
            else:
                old_size *= axes[past][0]
                past += 1
        if any(axes[k][1] != axes[k + 1][0] * axes[k + 1][1] for k in range(old, past - 1)):
            return None
        stride = axes[past - 1][1]
        for axis in range(last, new - 1, -1):
            out[axis] = stride
            stride *= want[axis]
        new, old = last + 1, past
    return tuple(out)


def unused_memory(shape: Shape, dtype: Format) -> np.ndarray:
    """Return a NumPy array without memory of its own. Only its addresses may be used."""
    element = np.empty((), f"V{dtype.bytes}")  # NumPy's ``as_strided`` does not take 8-bit floats
    memory = np.lib.stride_tricks.as_strided(element, shape, [s * dtype.bytes for s in row_major(shape)])
    return memory.view(dtype.numpy)


def overlap(shape: Shape, dtype: Format, first: ViewPath, second: ViewPath) -> bool:
    """Return whether two views of an array of ``shape`` share an element; True if that is too hard to decide."""
    memory = unused_memory(shape, dtype)
    limit: Any = 10_000  # limit of NumPy's search, which is exponential
    view, other_view = view_memory(memory, first), view_memory(memory, second)
    if view is None or other_view is None:
        return True
    try:
        return np.shares_memory(view, other_view, max_work=limit)
    except np.exceptions.TooHardError:
        return True


def view_memory(memory: np.ndarray, path: ViewPath) -> np.ndarray | None:
    """Return NumPy's view of ``memory`` along the path; None if NumPy would have to copy."""
    if _starts_at_run_time(path):
        return None
    for name, params in path:
        if name == "slice":
            places = zip(params["start"], params["step"], params["shape"], strict=True)
            memory = memory[tuple([_make_slice(*place) for place in places])]
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
                return None  # the byte of a bool must stay 0 or 1
            if _drops_bits(params["have"], params["dtype"]):
                return None
            memory = memory.view(params["dtype"].numpy)
        else:
            shape = params["shape"]
            if not memory.flags.c_contiguous and [n for n in shape if n != 1] != [n for n in memory.shape if n != 1]:
                if reshape_strides(memory.strides, memory.shape, shape) is None:
                    return None
            memory = memory.reshape(shape)
    return memory


def _make_slice(start: int, step: int, count: int) -> slice:
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step) if count else slice(0, 0)
