"""Phases of dilated convolutions, and the choice between sums along taps and sums along positions."""

from __future__ import annotations

from itertools import product
from math import prod

from weft.graph.node import Node
from weft.graph.primitives.conv_general import dilation_phases, tap_phase
from weft.kernel.target import Target


def sums_along_positions(spots: int, taps: int) -> bool:
    """Return whether sums run along positions, in the code generator's order.

    They do if positions are fewer than taps, as in a weight gradient.
    """
    return spots < taps


def permits_winograd(node: Node, target: Target) -> bool:
    """Return whether a convolution may use Winograd's transforms: the user and the device permit it, and nothing is skipped."""
    p = node.params
    if p.get("algorithm", "direct") not in target.algorithms or "accumulator" in p or p["groups"] > 1 or len(p["stride"]) != 2:
        return False
    return {*p["stride"], *p["lhs_dilation"], *p["rhs_dilation"]} == {1}


def has_generator_order(node: Node) -> bool:
    """Return whether the code generator orders a sum of this convolution.

    The order may depend on how the operands lie in memory.
    """
    p = node.params
    window = [node.inputs[1].shape[d] for d in p["dims"][1][2:]]
    extents = [node.shape[d] for d in p["dims"][2][2:]]
    sides = []
    for d, extent in enumerate(extents):
        stride, ld, rd, low = p["stride"][d], p["lhs_dilation"][d], p["rhs_dilation"][d], p["padding"][d][0]
        step = dilation_phases(ld, stride)
        phases = []
        for r in range(min(step, extent)):
            first, every = tap_phase(r * stride - low, rd, ld, window[d])
            phases.append((-(-(extent - r) // step), max(0, -(-(window[d] - first) // every))))
        sides.append(phases)
    return any(sums_along_positions(prod(s for s, _ in phase), prod(t for _, t in phase)) for phase in product(*sides))
