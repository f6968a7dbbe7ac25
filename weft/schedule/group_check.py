"""What a group of nodes must fulfil as a whole to be one kernel, when each node has found its place (``structure.py``)."""

from __future__ import annotations

from collections.abc import Sequence

from weft.graph.node import Node, frozen
from weft.schedule import reasons
from weft.schedule.facts import ends_kernel, reduces
from weft.schedule.reasons import Boundary
from weft.schedule.structure import Structure
from weft.schedule.view import View


def structure_of(view: View, nodes: Sequence[Node], stored: Sequence[Node], known: Structure | None = None) -> Structure:
    """The analysis of a group; raises Boundary where it cannot be one kernel. ``known``: of its first nodes, if there is one."""
    found = Structure(view, nodes, stored) if known is None else known.extended(nodes[len(known.nodes):], stored)
    check(found)
    return found


def check(st: Structure) -> None:
    """Raise Boundary where the nodes of a group, each fine by itself, cannot be one kernel together."""
    for facts in {(f.dims, f.needs, f.product): f for f in st.facts.values() if f.needs or f.product}.values():
        st.covered(facts)
    if st.shared is not None:
        shared = [st.find(t) for t in st.shared if t]
        if len(set(shared)) != len(shared):
            raise Boundary(reasons.OTHER_INDEX)
        if any({st.find(t) for t in kept if t} != set(shared) for kept in st.kept):
            raise Boundary(reasons.REDUCE_AXES)
    if any(map(reduces, st.nodes)):
        for dims in {f.dims for f in st.facts.values()}:  # one loop cannot run two dimensions of one value
            tokens = [st.find(t) for t in dims if t]
            if len(set(tokens)) != len(tokens):
                raise Boundary(reasons.OTHER_INDEX)
    if st.product is not None:
        _check_product(st)
    if st.splits:
        _check_splits(st)
    ends = [n for n in st.nodes if ends_kernel(n)]
    if ends and len(st.nodes) > 1 and not _rows(st, ends) and not chained_alike(st.nodes):
        if st.product or st.shared or any(n is not node for node in ends for n in st.stored):
            raise Boundary(reasons.IN_PLACE)


def chained_alike(nodes: Sequence[Node]) -> bool:
    """Whether all nodes are results of one chain of products."""
    return nodes[0].op.chains and len({chain_of(n) for n in nodes}) == 1


def chain_of(node: Node) -> tuple:
    """What results of one chain of products have in common."""
    return node.op, node.inputs, frozen({k: v for k, v in node.params.items() if k != "result"})


def _rows(st: Structure, ends: list[Node]) -> bool:
    """Whether the group ends in writes of the same rows: scatters that share indices, and stores of their updates' shape."""
    if any(n.op.kind != "scatter" or n.params["mode"] != "own" for n in ends):
        return False
    first = ends[0]
    if st.product or st.splits or any(map(reduces, st.nodes)):
        return False
    return all(
        n.inputs[2:] == first.inputs[2:] and n.params == first.params and n.shape == first.shape if n in ends
        else n.shape == first.inputs[1].shape for n in (*ends, *st.stored)
    )


def _check_product(st: Structure) -> None:
    assert st.product is not None
    if st.shared is not None or any(reduces(n) or n.op.kind == "scatter" for n in st.nodes):
        raise Boundary(reasons.PRODUCT_REDUCED)
    axes = [t for t in st.tokens(st.product) if t]
    if len(set(axes)) != len(axes):
        raise Boundary(reasons.OTHER_INDEX)
    for node in st.stored:
        if sorted(t for t in st.tokens(node) if t) != sorted(axes):
            raise Boundary(reasons.PRODUCT_DOMAIN)
    for node in st.nodes:
        if st.facts[node].product and len([t for t in st.tokens(node) if t]) != len(axes):
            raise Boundary(reasons.PRODUCT_DOMAIN)
    if st.splits:
        raise Boundary(reasons.SPLITTING)


def _check_splits(st: Structure) -> None:
    """A kernel of split axes stores one array: reductions cannot join it, and would read each of several from memory.

    Of a batch norm's gradient behind pooling it would store four arrays, at strides.
    """
    if sum(any(t and st.split_of(t) for t in st.tokens(n)) for n in st.stored) > 1:
        raise Boundary(reasons.UNPOOLED)
    seen: dict[int, tuple[int, int]] = {}
    for token, split in st.splits.items():
        if seen.setdefault(st.find(token), split) != split:
            raise Boundary(reasons.SPLITTING)
    if st.shared is not None and any(t and st.find(t) in seen for t in st.shared):
        raise Boundary(reasons.SPLITTING)
    for node in st.nodes:
        if reduces(node):
            below = st.read(node.inputs[0])
            if below is not None and any(t and st.find(t) in seen for t in below.dims):
                raise Boundary(reasons.SPLITTING)
