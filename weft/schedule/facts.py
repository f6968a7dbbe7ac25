"""What is known of one node in a group: whether it needs a loop of its own, and along which dimensions it runs."""

from __future__ import annotations

from weft.graph.node import Node

Dims = tuple[int, ...]
UNROLLED = 16  # elements of a window that is written out, without a loop


def is_reduction(node: Node) -> bool:
    return node.op.kind in ("reduce", "window")


def reduces(node: Node) -> bool:
    """Whether a node needs a loop of its own: a reduction of single elements is those elements."""
    kind = node.op.kind
    if kind not in ("reduce", "window"):
        return False
    if kind == "window":
        size = 1
        for n in node.params["window"]:
            size *= n
        return size > UNROLLED
    shape = node.inputs[0].shape
    return any(shape[a] != 1 for a in node.params["axes"])


def ends_kernel(node: Node) -> bool:
    """Whether a node writes in a way that nothing in the same kernel can read."""
    return node.op.last or node.op.kind == "write" and any(abs(s) != 1 for s in node.params["step"])


class Facts:
    """Of one node in a group. dims: a token a dimension (0: extent 1).

    full: how many full reductions deep. needs: what a reduction of its own phase that it reads keeps, None if
    it reads none; depth: how many such reductions deep. product: reads the group's product. heavy: costly to
    compute again. views: at how many positions the members below are computed for one element.
    """

    __slots__ = ("depth", "dims", "full", "heavy", "needs", "product", "views")

    def __init__(
        self, dims: Dims, full: int = 0, needs: Dims | None = None, depth: int = 0, product: bool = False, heavy: bool = False,
        views: int = 1,
    ) -> None:
        self.dims = dims
        self.full = full
        self.needs = needs
        self.depth = depth
        self.product = product
        self.heavy = heavy
        self.views = views
