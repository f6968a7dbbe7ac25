"""The time of a sum over ranks, and the efficiency of training on more nodes, by the formula of latency and bandwidth.

A message of n bytes takes ``latency + n / bandwidth``. The formula leaves out slow nodes and crowded networks.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.dist.algorithms import SHORT_BYTES

NODES = tuple(2**k for k in range(1, 11))


@dataclass(frozen=True)
class Network:
    """What a message costs: seconds, and bytes a second."""

    latency: float
    bandwidth: float

    def sum_seconds(self, count: int, ranks: int) -> float:
        """Return the time of a sum of ``count`` bytes over ``ranks``: halving and doubling, after one message of agreement."""
        levels = (ranks - 1).bit_length()
        if count <= SHORT_BYTES:  # whole vectors are exchanged
            return (levels + 1) * self.latency + levels * count / self.bandwidth
        return (2 * levels + 1) * self.latency + 2 * (ranks - 1) / ranks * count / self.bandwidth


def find_efficiency(network: Network, step_seconds: float, count: int, ranks: int, shard_seconds: float = 0.0) -> float:
    """Return the time of a step on one node, divided by that on many, of which each keeps its rows.

    step_seconds : a step on one node
    count : bytes of gradients, which are summed up after they are computed
    shard_seconds : further work of a step on many nodes
    """
    return step_seconds / (step_seconds + shard_seconds + network.sum_seconds(count, ranks))


def fit_network(short: tuple[int, float], long: tuple[int, float], ranks: int) -> Network:
    """Return the network for which sums of two sizes, in bytes, take the measured seconds."""
    levels = (ranks - 1).bit_length()
    latency = short[1] / (levels + 1)
    rest = max(long[1] - (2 * levels + 1) * latency, 0.1 * long[1])
    return Network(latency, 2 * (ranks - 1) / ranks * long[0] / rest)
