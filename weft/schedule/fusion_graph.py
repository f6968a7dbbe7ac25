"""Graph facts for fusion: which nodes are computed by kernels, and which nodes read them.

A node is *stored* (a leaf with a buffer), *real* (some kernel computes it) or *virtual*: moved, constant, or so cheap that each
reader computes it again.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from weft.dtypes.formats import FLOATS, INT32, Format
from weft.graph.node import Graph, Node
from weft.graph.primitives.elementwise import CAST
from weft.graph.primitives.shape import UNPACK_NIBBLES
from weft.graph.primitives.table import CONSTANT, INPUT, SCALAR
from weft.graph.simplify import holds
from weft.kernel.index import follows
from weft.kernel.product import WIDENED_FORMATS
from weft.kernel.target import CPU, Target
from weft.schedule.convolution_order import has_generator_order, permits_winograd

_MOVES = 48  # moves of data in a row that one reader may follow
_READS = 12  # pieces of memory that a chain of concatenations may read
_SCALAR_CHAIN = 24  # operations of shape () that each reader may repeat


def strip(node: Node) -> Node:
    """Return the node whose memory a chain of reshapes reads."""
    while node.op.same_memory and node.inputs and node.value is None:
        node = node.inputs[0]
    return node


class FusionGraph:
    """Users, sources and kinds of the nodes of one graph.

    real: nodes in topological order. readers[n]: the real nodes that read real node n, through virtual ones. sources[n]: the
    real nodes that real node n reads. outputs: real nodes that the graph returns. target: the device for which the graph is
    scheduled.
    """

    def __init__(self, graph: Graph, target: Target = CPU) -> None:
        self.graph = graph
        self.target = target
        self.graph_inputs = frozenset(graph.inputs)
        self._chain: dict[Node, int] = {}  # number of cheap operations below a virtual node over leaves; absent for other nodes
        self._moves: dict[Node, tuple[int, int]] = {}  # of a virtual node: (moves in a row, pieces read)
        self.uniform: set[Node] = set()  # the same number everywhere
        self._real: set[Node] = set()
        self._classify()
        self.real = tuple(n for n in graph.order if n in self._real)
        self.number = {n: k for k, n in enumerate(self.real)}
        self.outputs = frozenset(b for b in map(strip, graph.outputs) if b in self._real)
        self.sources: dict[Node, tuple[Node, ...]] = {}
        self.readers: dict[Node, list[Node]] = {n: [] for n in self.real}
        self._link()

    def is_stored(self, node: Node) -> bool:
        """Return whether a node is a leaf with a buffer."""
        return node in self.graph_inputs or node.value is not None or node.op is INPUT

    def leaf(self, node: Node) -> bool:
        """Return whether a node is a leaf or stored."""
        return node.op.kind == "leaf" or self.is_stored(node)

    def is_real(self, node: Node) -> bool:
        """Return whether a kernel computes the node."""
        return node in self._real

    def memory(self, node: Node) -> Node | None:
        """Return the stored or real node whose memory ``node`` reads under another shape, or None."""
        base = strip(node)
        return base if base in self._real or (self.is_stored(base) and base.op is not SCALAR) else None

    def _classify(self) -> None:
        """Find the real and the uniform nodes. ``force``: nodes that must be stored."""
        force: set[Node] = set()
        for output in self.graph.outputs:
            base = strip(output)
            if not self.is_stored(base) or base.op is SCALAR:
                force.add(base)
        for node in self.graph.order:
            if node.op.outside_kernels:
                force.update(b for b in map(strip, node.inputs) if not self.is_stored(b) or b.op is SCALAR)
        for node in self.graph.order:
            chain = self._chain
            kind = node.op.kind
            if self.leaf(node):
                chain[node] = 0
                if node.op in (CONSTANT, SCALAR):
                    self.uniform.add(node)
                if node in force:
                    self._real.add(node)
                continue
            inputs = node.inputs
            if node.size == 0 and not node.op.outside_kernels:
                chain[node] = 0  # nothing to compute
                self.uniform.add(node)
            elif node in force:
                self._real.add(node)
                if kind == "convolution" and has_generator_order(node):
                    self._store_operands(inputs)
                elif kind == "convolution" and permits_winograd(node, self.target):
                    self._store_operands((inputs[0], _skip_flip(inputs[1])))
                if kind == "product" and node.dtype is INT32:
                    self._store_bytes(node, force)
                for i in inputs[: node.op.factor_count]:
                    self._store_unless_indexed(i, kind)
            elif kind == "shape" and self._is_deep(node):
                self._real.add(node)
            elif kind == "shape":
                if len(inputs) > 1:
                    for below in map(strip, inputs):  # pieces of a long concatenation are stored, see simplify.py
                        if below.op is node.op and len(below.inputs) >= _READS and not self.is_stored(below):
                            self._store(below)
                if node.op.same_memory and not follows(node.shape, inputs[0].shape):
                    below = strip(inputs[0])
                    if below not in self._real and not self.is_stored(below) and below not in self.uniform:
                        self._store(below)
                if node.op.view and inputs[0] in self.uniform:
                    self.uniform.add(node)
                if all(i in chain for i in inputs):
                    chain[node] = max((chain[i] for i in inputs), default=0)
            elif kind == "elementwise" and all(i in chain for i in inputs):
                length = 1 + sum(chain[i] for i in inputs)
                single = node.size == 1 and length <= _SCALAR_CHAIN and not node.op.heavy
                if single or (length == 1 and node.op.cheap):
                    chain[node] = length
                    if all(i in self.uniform for i in inputs):
                        self.uniform.add(node)
                else:
                    self._real.add(node)
            else:
                self._real.add(node)
                if kind == "convolution" and has_generator_order(node):
                    self._store_operands(inputs)
                elif kind == "convolution" and permits_winograd(node, self.target):
                    self._store_operands((inputs[0], _skip_flip(inputs[1])))
                elif kind == "product" and node.dtype is INT32:
                    self._store_bytes(node, force)
                else:
                    for i in inputs if node.op.contracts else inputs[: node.op.factor_count]:
                        self._store_unless_indexed(i, kind)

    def _store_bytes(self, product: Node, force: set[Node]) -> None:
        """Store the operands of an int32 product so that it reads bytes: computed ones are widened as they are read.

        With few rows it also unpacks halves of bytes.
        """
        shared = prod([product.inputs[0].shape[d] for pair in ("contract", "batch") for d in product.params[pair][0]])
        unpacks = min(i.size for i in product.inputs) <= self.target.unpacking_rows * shared
        for node in product.inputs:
            if node.op is CAST and not node.inputs[0].dtype.narrow and node.inputs[0].dtype.bytes > 1:
                continue  # wider integers are read by a loop nest
            if node.op is CAST and node in self._real and node not in force and node.inputs[0].dtype in WIDENED_FORMATS[INT32]:
                self._real.discard(node)
                self._store(node.inputs[0])
            self._store_unless_indexed(node, "product", unpacks)

    def _is_deep(self, node: Node) -> bool:
        """Return whether too many moves of data are nested, so that the result is better stored."""
        below = [self._moves.get(i, (0, 1)) for i in node.inputs]
        length = 1 + max((b[0] for b in below), default=0)
        reads = sum(b[1] for b in below)
        if len(node.inputs) < _READS < reads or length > _MOVES:
            return True
        self._moves[node] = length, min(reads, _READS + 1) if len(node.inputs) < _READS else _READS
        return False

    def _store_operands(self, operands: tuple[Node, ...]) -> None:
        """Store the operands of a convolution that the code generator orders.

        Its bits may depend on how the operands lie in memory, so they must not be read through an index. Winograd's transforms
        alone read flipped weights: the generator chooses by extents, and reads any memory that is a window.
        """
        for node in operands:
            if self.memory(node) is None:
                self._store(node)

    def _store_unless_indexed(self, node: Node, kind: str, unpacks: bool = False) -> None:
        """Store an operand of a product, of a kind, unless it is memory read through an index and at most widened.

        unpacks : whether it may also be halves of bytes
        """
        at = node
        while at not in self._real and not self.is_stored(at):
            if at.op is CAST and holds(at.dtype, at.inputs[0].dtype) and at.inputs[0].dtype in _read_as(at.dtype, kind):
                at = at.inputs[0]
            elif at.op.view and (not at.op.same_memory or follows(at.shape, at.inputs[0].shape) or self.memory(at) is not None):
                at = at.inputs[0]
            elif unpacks and at.op is UNPACK_NIBBLES:
                at, unpacks = at.inputs[0], False
            else:
                self._store(node)
                return

    def _store(self, node: Node) -> None:
        base = strip(node)
        self._real.add(base)
        self._chain.pop(base, None)

    def real_operands(self, node: Node) -> tuple[Node, ...]:
        """Return the real nodes that a node reads, through virtual ones, each once, in order."""
        out: dict[Node, None] = {}
        stack = list(reversed(node.inputs))
        seen: set[Node] = set()
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if n in self._real:
                out[n] = None
            elif n not in self._chain or not self.leaf(n):  # a chain may contain nodes that became real later
                stack.extend(reversed(n.inputs))
        return tuple(out)

    def memory_below(self, node: Node) -> set[Node]:
        """Return the arrays that a node reads if it is computed alone: real nodes and stored ones."""
        out: set[Node] = set()
        stack = list(node.inputs)
        while stack:
            n = stack.pop()
            if n in self._real or self.is_stored(n):
                if n.op is not SCALAR:
                    out.add(n)
            else:
                stack.extend(n.inputs)
        return out

    def _link(self) -> None:
        """Fill ``sources`` and ``readers``."""
        for node in self.real:
            self.sources[node] = () if self.leaf(node) else self.real_operands(node)
            for p in self.sources[node]:
                self.readers[p].append(node)


def _skip_flip(node: Node) -> Node:
    """Return the operand of a flip; any other node as it is."""
    flips = node.op.name == "slice" and node.value is None and node.shape == node.inputs[0].shape
    return node.inputs[0] if flips else node


def _read_as(dtype: Format, kind: str) -> Collection[Format]:
    """Return the formats that a product or convolution can read from memory as ``dtype``."""
    floats = FLOATS if dtype in FLOATS else ()
    return WIDENED_FORMATS.get(dtype, floats) if kind == "product" else floats
