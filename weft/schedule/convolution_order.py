"""Phases of dilated convolutions, and the choice between sums along taps and sums along positions."""

from __future__ import annotations

from itertools import product
from math import prod

from weft.graph.node import Node
from weft.graph.primitives.conv_general import dilation_phases, tap_phase


def sums_along_positions(spots: int, taps: int) -> bool:
    """Return whether sums run along positions, in the code generator's order.

    They do if positions are fewer than taps, as in a weight gradient.
    """
    return spots < taps


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
