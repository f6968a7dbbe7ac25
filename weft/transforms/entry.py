"""Entry: a traced and compiled call, and the short way through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

from weft.array import Array, holding, wrap
from weft.convert import as_node
from weft.graph.node import Node
from weft.graph.primitives.table import SCALAR, input_leaf
from weft.transforms.traced import Traced, concrete
from weft.transforms.tree import unflatten

MISS = object()
_new = object.__new__

# references that getrefcount sees to a captured node when only its cell and Entry._nodes hold it (and the call itself),
# and to a buffer when only its node and the list of inputs do
_FREE = 3


class Entry:
    """One Program with the guard of its arguments and the places of its results.

    Captured cells are remembered by the node they held last: when that is still their node, nothing about them needs
    to be checked. A cell that the Program writes gets its new buffer in the same node where nobody else holds that.
    """

    __slots__ = (
        "_cells", "_finish", "_fixed", "_nodes", "_results", "_run", "_scalars", "_shared", "_signature", "_single", "_specs",
        "_state", "_structure", "_survivors", "_writes", "plain",
    )

    def __init__(self, traced: Traced, leaves: Sequence[Any], run: Callable[..., list[Any]], plain: bool) -> None:
        graph = traced.graph
        self.plain = plain  # all arguments are positional Arrays or floats
        self._run = run
        self._fixed = list(traced.fixed)
        self._scalars = traced.scalars
        first = {k: n for k, n in zip(traced.arrays, graph.inputs, strict=False)}
        self._signature = [(k, n.shape, n.dtype) for k, n in first.items()]
        specs: dict[int, Any] = {k: (n.shape, n.dtype) for k, n in first.items()}
        self._specs = tuple(None if type(leaf) is float else specs.get(k, ()) for k, leaf in enumerate(leaves))
        if () in self._specs:
            self.plain = False  # an argument that is another one: the guard has to see that
        self._cells = traced.captured
        self._nodes: list[Node] = [cell._node for cell in traced.captured]
        start = len(traced.arrays) + len(traced.scalars)
        outputs = graph.outputs
        self._results = [_result(s, graph.inputs, outputs) for s in traced.results]
        self._structure = traced.structure
        self._writes = [
            (target, _result(s, graph.inputs, outputs), _number(traced.captured, target, start)) for _, target, s in traced.writes
        ]
        returned = {s[1] for s in (*traced.results, *(w[2] for w in traced.writes)) if s[0] == "in"}
        self._state = [(i, i - start) for _, _, i in self._writes if i >= 0 and i not in returned]
        self._survivors = [(cell, _result(s, graph.inputs, outputs)) for cell, s in traced.survivors]
        self._single = len(self._results) == 1 and self._structure is None and self._results[0][0] == 1
        self._finish = bool(self._writes or self._survivors)
        self._shared = len(graph.inputs)

    def fast(self, args: tuple) -> Any:
        """Run with positional Arrays and floats, or MISS where anything is not as it was."""
        specs = self._specs
        if len(args) != len(specs):
            return MISS
        inputs = []
        for arg, spec in zip(args, specs):  # noqa: B905  lengths were compared
            if spec is None:
                if type(arg) is not float:
                    return MISS
                continue
            if type(arg) is not Array or arg._base is not None:
                return MISS
            node = arg._node
            value = node.value
            if value is None or node.dtype is not spec[1] or node.shape != spec[0] or node.op is SCALAR:
                return MISS
            inputs.append(value)
        for k in self._scalars:
            inputs.append(args[k])
        if self._cells:
            for cell, node in zip(self._cells, self._nodes):  # noqa: B905
                if cell._node is not node:
                    return MISS
            del node  # a name would count as a holder
            inputs += [n.value for n in self._nodes]
        if self._fixed:
            inputs += self._fixed
        if self._finish:
            return self._stateful(inputs, args)
        outputs = self._run(inputs)
        if self._single:
            _, k, shape, dtype = self._results[0]
            return holding(outputs[k], shape, dtype)
        return self._pack(inputs, outputs)

    def run_with(self, leaves: list[Any]) -> Any:
        """Run with concrete leaves, or MISS where a captured cell has another shape or dtype now."""
        inputs: list[Any] = [leaves[k].node.value for k, _, _ in self._signature]
        inputs += [leaves[k] for k in self._scalars]
        if not self._renew():
            return MISS
        inputs += [n.value for n in self._nodes]
        inputs += self._fixed
        if self._finish:
            return self._stateful(inputs, leaves)
        return self._pack(inputs, self._run(inputs))

    def _renew(self) -> bool:
        """Bring ``_nodes`` up to date; False where a captured cell has another shape or dtype now."""
        for i, cell in enumerate(self._cells):
            node = concrete(cell)._node
            before = self._nodes[i]
            if node is not before:
                if node.shape != before.shape or node.dtype != before.dtype:
                    return False
                self._nodes[i] = node
        return True

    def forget_survivors(self) -> None:
        self._survivors = []
        self._finish = bool(self._writes)

    def _stateful(self, inputs: list[Any], leaves: Sequence[Any]) -> Any:
        """Run a Program that writes cells; their buffers are given to it where nobody else holds them."""
        held: list[bool] | None = None
        if self._state:
            held = [True] * self._shared
            nodes = self._nodes
            for position, k in self._state:
                if getrefcount(nodes[k]) <= _FREE and getrefcount(inputs[position]) <= _FREE:
                    held[position] = False
        outputs = self._run(inputs, held)
        for target, result, position in self._writes:
            kind, k, shape, dtype = result
            value = outputs[k] if kind == 1 else inputs[k]
            if position >= 0:
                i = position - (self._shared - len(self._fixed) - len(self._nodes))
                node = self._nodes[i]
                if held is not None and not held[position]:
                    node.value = value
                else:
                    fresh = input_leaf(shape, dtype, value)
                    self._nodes[i] = fresh
                    target._node = fresh
            elif isinstance(target, int):
                leaves[target]._set(input_leaf(shape, dtype, value))
            else:
                target._node = input_leaf(shape, dtype, value)
        for cell, (kind, k, shape, dtype) in self._survivors:
            cell._node = input_leaf(shape, dtype, outputs[k] if kind == 1 else inputs[k])
            cell._trace = None
        return self._pack(inputs, outputs)

    def _pack(self, inputs: list[Any], outputs: list[Any]) -> Any:
        out: list[Any] = []
        for kind, k, shape, dtype in self._results:
            if kind == 1:
                out.append(holding(outputs[k], shape, dtype))
            elif kind == 0:
                value = inputs[k]
                out.append(wrap(as_node(value, dtype)) if isinstance(value, int | float) else holding(value, shape, dtype))
            else:
                out.append(k)
        return out[0] if self._structure is None else unflatten(self._structure, out)


def _result(source: tuple[str, Any], inputs: Sequence[Node], outputs: Sequence[Node]) -> tuple[int, Any, Any, Any]:
    """(1, output, shape, dtype), (0, input, shape, dtype) or (2, value, None, None)."""
    kind, k = source
    if kind == "static":
        return (2, k, None, None)
    node = (outputs if kind == "out" else inputs)[k]
    return (1 if kind == "out" else 0, k, node.shape, node.dtype)


def _number(captured: Sequence[Array], target: Any, start: int) -> int:
    """The input position of a written cell that was read too; -1 for others."""
    if isinstance(target, int):
        return -1
    return next((start + i for i, cell in enumerate(captured) if cell is target), -1)


