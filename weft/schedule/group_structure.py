"""Analysis of a group of nodes: which dimensions share a loop, and what must be complete before what.

Each dimension of each node gets a token; dimensions that run together share a token (union-find). The tokens determine the
shared axes (kept dimensions of reductions), the phases (a full reduction is complete only after its phase) and the stages (a
reduction of a reduction belongs to a later stage). ``check`` tests conditions on the group as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod

from weft.graph.node import Node, frozen
from weft.kernel.tallies import is_order_free
from weft.schedule import reasons
from weft.schedule.fusion_graph import FusionGraph
from weft.schedule.reasons import NotFusible

Dims = tuple[int, ...]
MAX_UNROLLED = 16  # largest window, in elements, that is written out without a loop


def is_reduction(node: Node) -> bool:
    """Return whether the primitive reduces over axes or windows, even if it needs no loop."""
    return node.op.kind in ("reduce", "window")


def reduces(node: Node) -> bool:
    """Return whether a node needs a loop of its own. Reductions of one element and small windows do not."""
    if not is_reduction(node):
        return False
    if node.op.kind == "window":
        return prod(node.params["window"]) > MAX_UNROLLED
    shape = node.inputs[0].shape
    return any(shape[a] != 1 for a in node.params["axes"])


def is_tally(node: Node) -> bool:
    """Return whether a node reduces all elements of its operand in any order (``kernel/tallies.py``)."""
    if node.op.kind != "reduce":
        return False
    operand = node.inputs[0]
    whole = all(n == 1 or d in node.params["axes"] for d, n in enumerate(operand.shape))
    return whole and all(is_order_free(node.op.monoid, n.dtype) for n in (node, operand))


def ends_kernel(node: Node) -> bool:
    """Return whether no node of the same kernel can read what the node writes."""
    return node.op.ends_kernel or node.op.kind == "write" and any(abs(s) != 1 for s in node.params["step"])


@dataclass(eq=False, slots=True)
class NodeFacts:
    """Results of the analysis for one node of a group.

    dims: token of each dimension, 0 for extent 1. full: number of full reductions below, one after the other. needs: the
    dimensions kept by a reduction of the same phase below the node, or None. depth: number of such reductions, one after the
    other. product: whether the node depends on the group's product. heavy: whether the node is costly to compute again. views:
    number of positions at which one element reads the members below.
    """

    dims: Dims
    full: int = 0
    needs: Dims | None = None
    depth: int = 0
    product: bool = False
    heavy: bool = False
    views: int = 1


MIN_TALL_RATIO = 16  # of operand to result size, from which on a reduction over rows is tall


class Structure:
    """The analysis of one group, node by node.

    Raises NotFusible if a node cannot join. See :func:`structure_of` for the whole group.
    """

    def __init__(self, view: FusionGraph, nodes: Sequence[Node], stored: Sequence[Node]) -> None:
        self.view = view
        self.limits = view.target.fusion
        self.nodes: list[Node] = []
        self.stored_nodes = stored
        self.members: frozenset[Node] = frozenset()
        self.parent: list[int] = [0]
        self.splits: dict[int, tuple[int, int]] = {}  # token -> (stride, low): position = q * stride + r - low
        self.facts: dict[Node, NodeFacts] = {}
        self._virtual: dict[Node, NodeFacts | None] = {}
        self._siblings: dict[tuple, Dims] = {}
        self.kept_dims: list[Dims] = []
        self.product: Node | None = None
        self.depends_on_stored = False  # whether the result depends on which nodes are stored
        self._tall: dict[Node, dict[Node, tuple[frozenset[Node], bool]]] = {}
        self._add(nodes)

    def extend(self, nodes: Sequence[Node], stored: Sequence[Node]) -> Structure:
        """Return the analysis of this group with ``nodes`` appended. This object does not change."""
        more = copy(self)
        more.stored_nodes = stored
        more.nodes, more.kept_dims, more.parent = self.nodes.copy(), self.kept_dims.copy(), self.parent.copy()
        more.splits, more.facts = self.splits.copy(), self.facts.copy()
        more._virtual, more._siblings, more._tall = self._virtual.copy(), self._siblings.copy(), self._tall.copy()
        more._add(nodes)
        return more

    def _add(self, nodes: Sequence[Node]) -> None:
        self.nodes += nodes
        self.members = self.members.union(nodes)
        for node in nodes:
            self.facts[node] = _VISITS.get(node.op.kind, Structure._elementwise)(self, node)

    @property
    def shared(self) -> Dims | None:
        """Return the dimensions that the group's reductions keep, or None if all of them are full."""
        return self.kept_dims[0] if self.kept_dims else None

    def find(self, token: int) -> int:
        """Return the representative of a token."""
        parent = self.parent
        while parent[token] != token:
            parent[token] = parent[parent[token]]
            token = parent[token]
        return token

    def fresh(self) -> int:
        """Return a new token."""
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def tokens(self, node: Node) -> Dims:
        """Return the representative of each dimension's token, 0 for extent 1."""
        return tuple([self.find(t) if t else 0 for t in self.facts[node].dims])

    def is_full(self, node: Node) -> bool:
        """Return whether a member is a reduction that keeps no dimension."""
        return reduces(node) and not self.facts[node].needs

    def split_of(self, token: int) -> tuple[int, int] | None:
        """Return (stride, low) if the token's dimension is split into positions and window offsets, else None."""
        for t, split in self.splits.items():
            if self.find(t) == self.find(token):
                return split
        return None

    def _fresh_dims(self, shape: Sequence[int]) -> Dims:
        """Return a new token for each dimension, 0 for extent 1."""
        return tuple([0 if n == 1 else self.fresh() for n in shape])

    def _unite(self, a: Dims, b: Dims) -> None:
        """Make the dimensions at equal positions share a loop."""
        for s, t in zip(a, b, strict=True):
            if s and t and s != t:
                s, t = self.find(s), self.find(t)
                if s != t:
                    self.parent[max(s, t)] = min(s, t)

    def check_covered(self, facts: NodeFacts) -> None:
        """Raise NotFusible unless the node runs along all axes of the reduction or product below it."""
        if facts.needs or facts.product:
            present = {self.find(t) for t in facts.dims if t}
            required = self.facts[self.product].dims if facts.product and self.product is not None else facts.needs
            for t in required or ():
                if t and self.find(t) not in present:
                    raise NotFusible(reasons.OTHER_INDEX)

    def read(self, node: Node) -> NodeFacts | None:
        """Return the facts of an operand of a member, or None if no member is below it (memory or numbers only)."""
        facts = self.facts.get(node)
        if facts is not None:
            if ends_kernel(node):
                raise NotFusible(reasons.ATTENTION_ENDS if node.op.chains else reasons.IN_PLACE)
            return facts
        if self.view.is_real(node) or self.view.leaf(node):
            return None
        if node in self._virtual:
            return self._virtual[node]
        facts = self._virtual[node] = self._virtual_facts(node)
        if facts is not None:
            self.check_covered(facts)
        return facts

    def _virtual_facts(self, node: Node) -> NodeFacts | None:
        """Return the facts of a node that is not stored, from its operands. None if no member is below it."""
        below = [self.read(i) for i in node.inputs]
        operands = [f for f in below if f is not None]
        if not operands:
            return None
        if node.op.axis_maps is not None:
            dims = self._dims_along(node, below)
        else:
            for f, i in zip(below, node.inputs, strict=True):
                if f is not None and i.shape != node.shape:
                    raise NotFusible(reasons.OTHER_INDEX)
            dims = operands[0].dims
        facts = self._merge_facts(dims, operands)
        if node.op.moves and len(node.inputs) > 1 and facts.needs:
            self._refuse_slow_merge(node, join=True)
        if node.op.moves and (len(node.inputs) > 1 or node.op.reads > 1):
            facts.views = node.op.reads * sum(f.views for f in operands)
            if facts.views > self.limits.views:
                raise NotFusible(reasons.TOO_MANY_POSITIONS)
        return facts

    def _dims_along(self, node: Node, below: Sequence[NodeFacts | None]) -> Dims:
        """Return a moving node's dimensions: those of its operands where it runs along them, otherwise new ones."""
        assert node.op.axis_maps is not None
        places = node.op.axis_maps(node)
        if places is None:
            raise NotFusible(reasons.RESHAPE)
        dims = [0] * len(node.shape)
        for f, along in zip(below, places, strict=True):
            if f is not None:
                for d, place in enumerate(along):
                    token = 0 if place is None else f.dims[place]
                    if token and dims[d]:
                        self._unite((dims[d],), (token,))
                    dims[d] = dims[d] or token
        return tuple([t or (0 if n == 1 else self.fresh()) for t, n in zip(dims, node.shape, strict=True)])

    def _refuse_slow_merge(self, node: Node, join: bool) -> None:
        """Refuse tall reductions beside operands that read none of their arrays, where the merged kernel would be slower.

        The kernel of a join stores more than the reductions' columns, so it cannot share their rows among the cores. Sums of
        products read each array many times; with several of them in one kernel the arrays do not stay in the cache.
        """
        tall = [self._tall_below(i) for i in node.inputs]
        for k, reductions in enumerate(tall):
            for memory, product in reductions.values():
                for j, other in enumerate(node.inputs):
                    if j != k and (join or product and any(p for _, p in tall[j].values())):
                        if not memory & self.arrays_below(other):
                            raise NotFusible(reasons.FASTER_ALONE)

    def _tall_below(self, node: Node) -> dict[Node, tuple[frozenset[Node], bool]]:
        """Map each tall reduction that this group computes for ``node`` to the arrays it reads and whether it sums products."""
        result = self._tall.get(node)
        if result is None:
            result = {}
            if node in self.members and reduces(node):
                operand = node.inputs[0]
                if self.facts[node].needs and _is_tall(node):
                    memory = self.arrays_below(operand)
                    result[node] = memory, operand.size > 2 * max([m.size for m in memory], default=0)
            elif node in self.members or not (self.view.is_real(node) or self.view.leaf(node)):
                for i in node.inputs:
                    result |= self._tall_below(i)
            self._tall[node] = result
        return result

    def arrays_below(self, node: Node) -> frozenset[Node]:
        """Return the arrays that this group reads for a value."""
        out: set[Node] = set()
        stack, seen = [node], {node}
        while stack:
            n = stack.pop()
            if self.view.is_stored(n) or (self.view.is_real(n) and n not in self.members):
                out.add(n)
            else:
                stack += [i for i in n.inputs if i not in seen]
                seen.update(n.inputs)
        return frozenset(out)

    def _merge_facts(self, dims: Dims, operands: Sequence[NodeFacts], heavy: bool = False) -> NodeFacts:
        """Return the facts of a node with dimensions ``dims`` whose operands have the facts ``operands``."""
        if not operands:
            return NodeFacts(dims, heavy=heavy)
        full = depth = views = 0
        needs, product = None, False
        for f in operands:
            full, views = max(full, f.full), max(views, f.views)
            product, heavy = product or f.product, heavy or f.heavy
            if f.needs:
                needs, depth = needs or f.needs, max(depth, f.depth)
        return NodeFacts(dims, full, needs, depth, product, heavy, views)

    def _host(self, node: Node) -> NodeFacts:
        raise NotFusible(reasons.HOST)

    def _running(self, node: Node) -> NodeFacts:
        if self.read(node.inputs[0]) is not None:
            raise NotFusible(reasons.RUNNING)
        return NodeFacts(self._fresh_dims(node.shape))

    def _shape(self, node: Node) -> NodeFacts:
        facts = self._virtual_facts(node)
        if facts is None:
            return NodeFacts(self._fresh_dims(node.shape))
        self.check_covered(facts)
        return facts

    def _elementwise(self, node: Node) -> NodeFacts:
        """Return the facts of an element-wise node: dimensions of equal position are united."""
        shape = node.shape
        dims = [0] * len(shape)
        operands = []
        for operand in node.inputs:
            f = self.read(operand)
            if f is None:
                continue
            operands.append(f)
            if f.heavy and operand.size > 1 and operand.size * self.limits.factor <= node.size and not f.needs and not f.product:
                raise NotFusible(reasons.RECOMPUTE)
            for k, t in enumerate(f.dims, len(shape) - len(f.dims)):
                if t and dims[k] != t:
                    if dims[k]:
                        self._unite((dims[k],), (t,))
                    else:
                        dims[k] = t
        if 0 in dims:
            dims = [t or (0 if n == 1 else self.fresh()) for t, n in zip(dims, shape, strict=True)]
        facts = self._merge_facts(tuple(dims), operands, node.op.heavy)
        if facts.needs and len(operands) > 1:
            self._refuse_slow_merge(node, join=False)
        moved = {i: self._virtual.get(i) for i in node.inputs if i.op.moves and i not in self.facts}
        if moved:
            members = [f for i, f in ((i, self.facts.get(i)) for i in node.inputs) if f is not None]
            facts.views = max((f.views for f in members), default=0) + sum(f.views for f in moved.values() if f is not None) or 1
            if facts.views > self.limits.views:
                raise NotFusible(reasons.TOO_MANY_POSITIONS)
        self.check_covered(facts)
        return facts

    def _reduce(self, node: Node) -> NodeFacts:
        """Return the facts of a reduction and record the dimensions it keeps."""
        if not reduces(node):
            return self._single(node)
        operand = node.inputs[0]
        f = self.read(operand)
        if f is not None and f.product:
            self._check_tally(node, f)
        if node.op.kind == "window":
            kept = out = self._windows(node, f)
        else:
            axes = node.params["axes"]
            key = (operand, axes)
            if f is None and key not in self._siblings:
                self._siblings[key] = self._fresh_dims(operand.shape)
            source = self._siblings[key] if f is None else f.dims
            kept = tuple([t for d, t in enumerate(source) if d not in axes])
            out = tuple([0 if d in axes else t for d, t in enumerate(source)]) if node.params["keepdims"] else kept
        below = f or NodeFacts(())
        self.check_covered(below)
        if not any(kept):
            return NodeFacts(out, below.full + 1, views=0)  # complete in a later phase: reading it computes nothing
        self.kept_dims.append(kept)
        return NodeFacts(out, below.full, kept, below.depth + 1, views=0)

    def _check_tally(self, node: Node, f: NodeFacts) -> None:
        """Raise NotFusible unless a product's kernel can compute this reduction of its result (``kernel/tallies.py``)."""
        if not is_tally(node) or f.full:
            raise NotFusible(reasons.PRODUCT_REDUCED)
        if not self.view.target.tallies:
            raise NotFusible(reasons.PRODUCT_TALLIED)

    def _single(self, node: Node) -> NodeFacts:
        """Return the facts of a reduction over dimensions of extent 1, or over a window of a few elements."""
        f = self.read(node.inputs[0])
        if node.op.kind == "window":
            if f is not None and f.product:
                raise NotFusible(reasons.PRODUCT_REDUCED)
            dims = self._windows(node, f)
            return self._merge_facts(dims, [f] if f is not None else [], True)
        if f is None:
            return NodeFacts(self._fresh_dims(node.shape))
        if node.params["keepdims"]:
            return self._merge_facts(f.dims, [f])
        return self._merge_facts(tuple([t for d, t in enumerate(f.dims) if d not in node.params["axes"]]), [f])

    def _windows(self, node: Node, f: NodeFacts | None) -> Dims:
        """Return the dimensions of a window reduction, the same for windows of the same operand."""
        p = node.params
        count = len(p["window"])
        lead = len(node.shape) - count
        if f is not None:
            self._check_windowed(node, f, bool(f.needs))
        key = (node.inputs[0], p["window"], p["stride"], p["padding"])
        if key not in self._siblings:
            first = self._fresh_dims(node.shape[:lead]) if f is None else f.dims[:lead]
            self._siblings[key] = first + self._fresh_dims(node.shape[lead:])
        return self._siblings[key]

    def _check_windowed(self, node: Node, f: NodeFacts, moved: bool) -> None:
        """Raise NotFusible if windows must read an operand from memory. moved: whether it would be read at another index."""
        if moved:
            raise NotFusible(reasons.OTHER_INDEX)
        if f.heavy or any(w > s for w, s in zip(node.params["window"], node.params["stride"], strict=True)):
            raise NotFusible(reasons.COSTLY_WINDOWS)

    def _unwindow(self, node: Node) -> NodeFacts:
        """Return the facts of a gather from windows, whose strided axes are split."""
        p = node.params
        count = len(p["window"])
        lead = len(node.shape) - count
        operands = [f for f in map(self.read, node.inputs) if f is not None]
        dims = self._fresh_dims(node.shape)
        for f in operands:
            self._check_windowed(node, f, bool(f.needs or f.product))
            self._unite(dims[:lead], f.dims[:lead])
        for token, stride, (low, _) in zip(dims[lead:], p["stride"], p["padding"], strict=True):
            if token and stride > 1:
                self.splits[token] = (stride, low // stride * stride)  # a row's first element begins a pair: stores are aligned
        return self._merge_facts(dims, operands)

    def _gather(self, node: Node) -> NodeFacts:
        """Return the facts of a gather. Indices run along the leading dimensions; the source is read from memory."""
        if self.read(node.inputs[0]) is not None:
            raise NotFusible(reasons.GATHERED_READ)
        operands = []
        rank = max((len(i.shape) for i in node.inputs[1:]), default=0)
        dims = self._fresh_dims(node.shape)
        for operand in node.inputs[1:]:
            f = self.read(operand)
            if f is not None:
                if operand.size > 1 and operand.size * self.limits.factor <= node.size:
                    if f.heavy:
                        raise NotFusible(reasons.RECOMPUTE)
                    self.depends_on_stored = True
                    # rows have a loop of their own anyway and can be prefetched
                    if self.view.memory(operand) in self.stored_nodes:
                        raise NotFusible(reasons.ROWS)
                operands.append(f)
                self._unite(dims[rank - len(f.dims): rank], f.dims)
        facts = self._merge_facts(dims, operands)
        self.check_covered(facts)
        return facts

    def _write(self, node: Node) -> NodeFacts:
        """Return the facts of scatter or slice_set. The result runs along its base; the update is read at other positions."""
        below = [self.read(i) for i in node.inputs]
        operands = [f for f in below if f is not None]
        if any(f.needs or f.product or (f.full and ends_kernel(node)) for f in operands):
            raise NotFusible(reasons.IN_PLACE)
        dims = self._fresh_dims(node.shape)
        if below[0] is not None:
            self._unite(dims, below[0].dims)
        facts = self._merge_facts(dims, operands)
        facts.views = sum(f.views for f in operands) or 1  # the update may read the base too, at its own positions
        if facts.views > self.limits.views:
            raise NotFusible(reasons.TOO_MANY_POSITIONS)
        return facts

    def _contract(self, node: Node) -> NodeFacts:
        """Return the facts of the group's product, or of a result of its chain. Its operands are read from memory."""
        if node.op.contracts and self.product is not None:
            raise NotFusible(reasons.TWO_PRODUCTS)
        if any(self.read(i) is not None for i in node.inputs):
            raise NotFusible(reasons.PRODUCT_OPERAND)
        if node.op.contracts:
            self.product = node
        return NodeFacts(self._fresh_dims(node.shape), product=node.op.contracts)


def _is_tall(node: Node) -> bool:
    """Return whether a reduction keeps the last dimension of an array with at least ``MIN_TALL_RATIO`` elements for each
    result."""
    operand = node.inputs[0]
    if node.op.kind != "reduce" or operand.size < MIN_TALL_RATIO * node.size:
        return False
    last = max(d for d, n in enumerate(operand.shape) if n != 1)
    return last not in node.params["axes"]


_VISITS: dict[str, Callable[[Structure, Node], NodeFacts]] = {
    "host": Structure._host, "product": Structure._contract, "convolution": Structure._contract,
    "reduce": Structure._reduce, "window": Structure._reduce, "unwindow": Structure._unwindow, "gather": Structure._gather,
    "write": Structure._write, "scatter": Structure._write, "running": Structure._running, "board": Structure._running,
    "shape": Structure._shape, "attention": Structure._contract, "attention_gradient": Structure._contract,
}


def structure_of(view: FusionGraph, nodes: Sequence[Node], stored: Sequence[Node], prefix: Structure | None = None) -> Structure:
    """Return the analysis of a group. Raise NotFusible if the group cannot be one kernel.

    ``prefix``: an analysis of the group's first nodes, to be extended.
    """
    structure = Structure(view, nodes, stored) if prefix is None else prefix.extend(nodes[len(prefix.nodes):], stored)
    check(structure)
    return structure


def check(st: Structure) -> None:
    """Raise NotFusible if the nodes of a group, each accepted by itself, cannot be one kernel together."""
    for facts in {(f.dims, f.needs, f.product): f for f in st.facts.values() if f.needs or f.product}.values():
        st.check_covered(facts)
    if st.shared is not None:
        shared = [st.find(t) for t in st.shared if t]
        if len(set(shared)) != len(shared):
            raise NotFusible(reasons.OTHER_INDEX)
        if any({st.find(t) for t in kept if t} != set(shared) for kept in st.kept_dims):
            raise NotFusible(reasons.REDUCE_AXES)
    if any(map(reduces, st.nodes)):
        for dims in {f.dims for f in st.facts.values()}:  # one loop cannot run along two dimensions of one value
            tokens = [st.find(t) for t in dims if t]
            if len(set(tokens)) != len(tokens):
                raise NotFusible(reasons.OTHER_INDEX)
    if st.product is not None:
        _check_product(st)
    if st.splits:
        _check_splits(st)
    ends = [n for n in st.nodes if ends_kernel(n)]
    if ends and len(st.nodes) > 1 and not _writes_same_rows(st, ends) and not share_chain(st.nodes):
        if st.product or st.shared or any(n is not node for node in ends for n in st.stored_nodes):
            raise NotFusible(reasons.IN_PLACE)


def share_chain(nodes: Sequence[Node]) -> bool:
    """Return whether all nodes are results of the same chain of products."""
    return nodes[0].op.chains and len({chain_key(n) for n in nodes}) == 1


def chain_key(node: Node) -> tuple:
    """Return a key that is equal for all results of one chain of products."""
    return node.op, node.inputs, frozen({k: v for k, v in node.params.items() if k != "result"})


def _writes_same_rows(st: Structure, ends: list[Node]) -> bool:
    """Return whether the group ends in writes to the same rows.

    That holds for scatters with equal indices if every other stored node has the shape of the updates.
    """
    if any(n.op.kind != "scatter" or n.params["mode"] != "own" for n in ends):
        return False
    first = ends[0]
    if st.product or st.splits or any(map(reduces, st.nodes)):
        return False
    return all(
        n.inputs[2:] == first.inputs[2:] and n.params == first.params and n.shape == first.shape if n in ends
        else n.shape == first.inputs[1].shape for n in (*ends, *st.stored_nodes)
    )


def _check_product(st: Structure) -> None:
    """Raise NotFusible unless the group's nodes and stores fit the loops of its product."""
    assert st.product is not None
    if st.shared is not None or any(n.op.kind == "scatter" for n in st.nodes):
        raise NotFusible(reasons.PRODUCT_REDUCED)
    axes = [t for t in st.tokens(st.product) if t]
    if len(set(axes)) != len(axes):
        raise NotFusible(reasons.OTHER_INDEX)
    for node in st.nodes:
        if reduces(node):
            below = st.read(node.inputs[0])
            if below is None or not below.product:
                raise NotFusible(reasons.PRODUCT_REDUCED)
            if sorted(st.find(t) for t in below.dims if t) != sorted(axes):
                raise NotFusible(reasons.PRODUCT_DOMAIN)
        elif st.facts[node].full and (st.facts[node].product or node.size != 1 or node.op.kind not in ("elementwise", "shape")):
            raise NotFusible(reasons.PRODUCT_REDUCED)
    for node in st.stored_nodes:
        if not st.facts[node].full and sorted(t for t in st.tokens(node) if t) != sorted(axes):
            raise NotFusible(reasons.PRODUCT_DOMAIN)
    for node in st.nodes:
        if st.facts[node].product and len([t for t in st.tokens(node) if t]) != len(axes):
            raise NotFusible(reasons.PRODUCT_DOMAIN)
    if st.splits:
        raise NotFusible(reasons.SPLITTING)


def _check_splits(st: Structure) -> None:
    """Raise NotFusible if the split axes do not fit one kernel.

    A kernel with split axes stores one array. Reductions cannot join it and would read each of several arrays from memory. For
    the gradient of a batch norm behind pooling the kernel would store four arrays, with strides.
    """
    if sum(any(t and st.split_of(t) for t in st.tokens(n)) for n in st.stored_nodes) > 1:
        raise NotFusible(reasons.POOLING_GRADIENT)
    seen: dict[int, tuple[int, int]] = {}
    for token, split in st.splits.items():
        if seen.setdefault(st.find(token), split) != split:
            raise NotFusible(reasons.SPLITTING)
    if st.shared is not None and any(t and st.find(t) in seen for t in st.shared):
        raise NotFusible(reasons.SPLITTING)
    for node in st.nodes:
        if reduces(node):
            below = st.read(node.inputs[0])
            if below is not None and any(t and st.find(t) in seen for t in below.dims):
                raise NotFusible(reasons.SPLITTING)
