"""Small work at once: an operation whose operands have values, and whose result is small, is computed in the operator.

No graph, no key, no look. The bits are those of compiled kernels (``small.py``), so whoever reads the result later sees nothing
new. Everything else stays pending and is compiled with what follows: large results, what rests on pending arrays, and what is
asked for in a trace, in a gradient, while denormals are flushed and while a profile looks on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from weft import node_by_node, small
from weft.bind import large
from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import BOOL, FLOAT32, FLOATS, INTEGERS, Format
from weft.graph.node import Node, Primitive
from weft.graph.primitives.meeting import ADDITIONS
from weft.graph.primitives.rules import reduction_behind
from weft.graph.primitives.table import CONSTANT, INPUT, MAY_FAIL, SCALAR, input_leaf
from weft.look import materialise
from weft.runtime import execute
from weft.runtime.cell import BEING_WRITTEN, WRITING, Cell
from weft.runtime.context import LOCAL
from weft.views import Path, dtype_behind, shown

_NUMBERS = frozenset((float, int, bool))
_MOST = 24  # nodes behind an operation that are computed with it: those of a function that binds several


def computed(node: Node) -> bool:
    """Compute a pending node, if it is small work whose operands have values; whether it has its value now."""
    limit = LOCAL.small
    if not limit or node.nbytes > limit:
        return False
    for i in node.inputs:
        if i.value is not None or not i.inputs:
            continue
        if (i.nbytes > limit and not i.op.view) or (i.holder is not None and i.op.kind != "shape"):  # most wait for this
            return False
    order = _order(node, limit)
    if order is None or not execute.computes_at_once():
        return False
    if ELSEWHERE and not execute.fetched(*{i for n in order for i in n.inputs if i.value is not None}):
        return False
    (value,) = node_by_node.computed(order, (node,))
    behind = any([n.op.kind == "reduce" or any(["reduced" in i.params for i in n.inputs]) for n in order])
    reduced = reduction_behind(node) if behind else None
    node.value = value
    node.inputs = ()
    if node.op.raises:
        MAY_FAIL.discard(node)
    if reduced is not None:  # for who tells of shapes that do not fit
        node.op, node.params = INPUT, {"reduced": reduced}
    return True


def _order(node: Node, limit: int) -> list[Node] | None:
    """The pending nodes behind one, operands first; None where one of them is no small work, or is pending for a reason."""
    order: list[Node] = []
    done: set[Node] = set()
    stack = [node]
    while stack:
        n = stack[-1]
        if n in done:
            stack.pop()
            continue
        op = n.op
        if not small.can(n) or large(n) or (n.op.kind == "scatter" and n.params["mode"] in ADDITIONS):
            return None
        if n is not node and ((n.holder is not None and op.kind != "shape") or (n.nbytes > limit and not op.view)):
            return None
        waiting = [i for i in n.inputs if i.value is None and i.op is not CONSTANT and i not in done]
        if waiting:
            if len(stack) + len(order) > _MOST:
                return None
            stack += waiting
            continue
        stack.pop()
        done.add(n)
        order.append(n)
    return order


# ---- the short ways: two operands, one element


def joined(op: Primitive, x: Node, y: Node, like: Node, dtype: Format) -> Any:
    """The buffer of an operation of two operands that have values, of one format, and of one shape but for numbers; None if it
    is no small work. like : the operand that has the result's shape."""
    size = 1
    for n in like.shape:
        size *= n
    if size * x.dtype.bytes > LOCAL.at_once or not small.wanted():
        return None
    if ELSEWHERE and not execute.fetched(x, y):
        return None
    a, b = x.value, y.value
    if (a is None and x.op is not CONSTANT) or (b is None and y.op is not CONSTANT) or not execute.computes_at_once():
        return None
    function = small.function(op, (x.dtype, x.dtype))
    if function is None:
        return None
    if a is None or x.op is SCALAR:
        a = small.number(x.params["value"] if a is None else a, x.dtype)
    if b is None or y.op is SCALAR:
        b = small.number(y.params["value"] if b is None else b, y.dtype)
    out = execute.allocator()(size * dtype.bytes or 1)
    if size:
        function(size, out.address, a.address, int(x.shape == like.shape), b.address, int(y.shape == like.shape))
    return out


def element(array: Any, index: Any) -> Node | None:
    """The element of an array at integers, as a leaf; None where the content is not there."""
    node = array.cell._node
    if node.value is None or node.op is SCALAR or LOCAL.trace is not None or not small.able():
        return None
    if ELSEWHERE and not execute.fetched(node):
        return None
    seen = array._shown(execute.memory(node.value, node.shape, node.dtype))
    return None if seen is None else input_leaf((), shown_dtype(array), execute.to_buffer(seen[index]))


# ---- writes


def in_own_memory(cell: Any, write: Callable[[np.ndarray], bool]) -> bool:
    """Call ``write(memory)`` on what a cell holds (computed, if it was pending), where nobody else holds that, or on a small copy
    of it. Return whether it wrote.

    So only what is written is touched, however large the array is. Who reads meanwhile in another thread finds a leaf that gets
    its content when the write is done, and looks wait for that: to be called under ``WRITING``, where anything is computed at
    once. Nobody can get at the memory once it is known that nobody has it, and whoever followed a view of it before follows it
    again.
    """
    if LOCAL.trace is not None:
        return False
    before = cell._node
    if before.value is None:
        materialise((before,))
    if before.op is SCALAR or (ELSEWHERE and not execute.fetched(before)):
        return False
    shape, dtype = before.shape, before.dtype
    after, buffer, done = Node(INPUT, (), before.params, shape, dtype), before.value, False
    BEING_WRITTEN.add(after)
    cell._node = after
    try:
        memory = None
        if _holders(before, buffer) == _ALONE:
            memory = execute.writable(buffer, shape, dtype)
        if memory is None and before.nbytes <= LOCAL.at_once:
            buffer = execute.to_buffer(execute.memory(buffer, shape, dtype))
            memory = execute.writable(buffer, shape, dtype)
        done = memory is not None and write(memory)
    finally:
        if done:
            after.value = buffer
        else:  # which others hold
            cell._node = before
            if _held(after) != _UNHELD:  # a node has a buffer of its own
                after.value = execute.to_buffer(execute.memory(before.value, shape, dtype))
        BEING_WRITTEN.discard(after)
    return done


def _held(leaf: Node) -> int:
    (count,) = map(getrefcount, [leaf])
    return count


def _unheld() -> int:
    """What :func:`_held` tells of a leaf that only a variable and a set hold."""
    leaf = input_leaf((), FLOAT32)
    held = {leaf}
    return _held(leaf) if held else 0


def _holders(node: Node, buffer: Any) -> tuple[int, ...]:
    """What getrefcount tells, over map, of a node and of its buffer."""
    return tuple(map(getrefcount, (node, buffer)))


def _alone() -> tuple[int, ...]:
    """The same of a node that only a variable holds, and a buffer that only its node and a variable hold; Pythons differ."""
    node = input_leaf((), FLOAT32, object())
    buffer = node.value
    return _holders(node, buffer)


_UNHELD, _ALONE = _unheld(), _alone()


def written(cell: Any, path: Path, value: Node) -> bool:
    """Write a small value where a path leads into a cell's memory, if nobody else can see that; whether it is done."""
    if value.nbytes > LOCAL.at_once or not small.able():
        return False
    if value.value is None and value.op is not CONSTANT and not computed(value):
        return False
    content = node_by_node.content(value)

    def write(memory: np.ndarray) -> bool:
        target = shown(memory, path)
        if target is None:
            return False
        target[...] = content
        return True

    return in_own_memory(cell, write)


def part_written(array: Any, index: Any, value: Any) -> bool:
    """The same of what users assign through a handle, a number or an array of this dtype, where an index of integers and slices
    leads; NumPy knows how it is repeated. To be called under ``WRITING``."""
    if not small.able():
        return False
    content = plain_content(value, shown_dtype(array))
    if content is None:
        return False

    def write(memory: np.ndarray) -> bool:
        seen = array._shown(memory)
        if seen is None:
            return False
        seen[index] = content
        return True

    try:
        return in_own_memory(array.cell, write)
    except ValueError:  # it does not fit: told by others, who know the line
        return False


def shown_dtype(array: Any) -> Format:
    """The dtype of what an array shows, without following it."""
    dtype = array.cell._node.dtype
    return dtype if array._base is None else dtype_behind(dtype, array._path)


def plain_content(value: Any, dtype: Format) -> Any:
    """What is to be written, if NumPy puts it as it is into an array of ``dtype``; else None."""
    if number_fits(value, dtype):
        return value
    if not isinstance(value, Cell):
        return None
    node = value.node  # type: ignore[attr-defined]
    if node.dtype is not dtype or node.nbytes > LOCAL.at_once:
        return None
    if node.value is None and node.op is not CONSTANT and not computed(node):
        return None
    return node_by_node.content(node)


def number_written(cell: Any, index: Any, value: Any) -> bool:
    """The same for a Python number and an index of integers: what they mean NumPy knows."""
    if not number_fits(value, cell._node.dtype) or not small.able():
        return False

    def write(memory: np.ndarray) -> bool:
        memory[index] = value
        return True

    with WRITING:
        return in_own_memory(cell, write)


def number_fits(value: Any, dtype: Format) -> bool:
    """Whether this is a Python number that becomes one of ``dtype`` without a word, and as arrays of ``dtype`` take it."""
    kind = type(value)
    if kind not in _NUMBERS:
        return False
    if dtype in FLOATS:
        return kind is float and not dtype.largest < abs(value) < math.inf or kind is not float and abs(value) <= dtype.reach
    return kind is bool if dtype is BOOL else kind is int and dtype in INTEGERS and dtype.least <= value <= dtype.greatest
