"""Gradients that ranks exchange before a shard ends: its program hands them over in parts, each of which has a sum of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from weft.array import Array
from weft.dist.exchanges import Exchange, make_buckets
from weft.dist.handover import hand_over, receive_by
from weft.dist.shard_sum import ShardSum
from weft.dist.world import user_place, world
from weft.nn.module import Module
from weft.optim.optimizer import state_dtype
from weft.optim.update_arguments import named_arrays
from weft.train.partition import Partition
from weft.train.ranks import Ranks


class EarlyGradients:
    """The gradients that programs of shards hand over, and their sums over the shards.

    parts : names of the gradients that are exchanged together, the last layers' first. The other gradients leave the program at
        its end
    sums : one for each part
    """

    def __init__(self, model: Module, partition: Partition, ranks: Ranks, is_possible: bool) -> None:
        parameters, self._ranks = named_arrays(model), ranks
        self._dtypes = {name: partition.sum_dtype(p.dtype) for name, p in parameters.items()}
        sizes = [(self._dtypes[name], p.size * self._dtypes[name].itemsize) for name, p in parameters.items()]
        names = list(parameters)
        self.parts = [[names[k] for k in bucket] for bucket in make_buckets(sizes)[:-1]] if is_possible else []
        self.sums = [self._make_sum({name: parameters[name] for name in part}) for part in self.parts]
        self._begun: list[Exchange] = []

    def hand_over(self, gradients: dict[str, Array]) -> None:
        """Hand over the gradients of the parts, inside of a jitted function, and remove them from ``gradients``."""
        for number, names in enumerate(self.parts):
            hand_over(number, [gradients.pop(name) for name in names])

    def receive(self, shard: int, request: str) -> AbstractContextManager[None]:
        """Add up what programs hand over for a shard inside a ``with`` block. request : names the sum over the shards"""
        return receive_by(partial(self._add, shard, request))

    def add_zeros(self, shard: int, request: str) -> None:
        """Add zeros for a shard without rows."""
        for number in range(len(self.parts)):
            self._add(shard, request, number, None)

    def finish(self) -> list[np.ndarray]:
        """Return the sum of each part over all shards, as a vector."""
        begun, self._begun = self._begun, []
        return [world().exchanges.finish(exchange)[0][0] for exchange in begun]

    def _make_sum(self, parameters: dict[str, Array]) -> ShardSum:
        arrays = [np.broadcast_to(np.zeros((), state_dtype(p.dtype)), p.shape) for p in parameters.values()]
        return ShardSum(self._ranks.shards, self._ranks.size, arrays, 0, [(self._dtypes[name], True) for name in parameters])

    def _add(self, shard: int, request: str, number: int, arrays: Sequence[np.ndarray] | None) -> None:
        """Add a part of a shard, None for zeros. After the last shard of this rank the exchange of the part's sum begins."""
        total = self.sums[number]
        total.add(shard, arrays)
        if shard == self._ranks.own_shards()[-1]:
            part = f"part {number + 1} of the gradients in {request}"
            self._begun.append(world().exchanges.begin(partial(total.total, part, (), user_place())))
