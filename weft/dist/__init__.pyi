"""The names of ``wf.dist.*`` for type checkers and editors; ``__init__.py`` loads them from its files.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.dist.collectives import (
    all_gather as all_gather, all_sum as all_sum, all_to_all as all_to_all, barrier as barrier, broadcast as broadcast,
    recv as recv, reduce_scatter as reduce_scatter, send as send,
)
from weft.dist.gradients import average as average
from weft.dist.groups import Group as Group, group as group
from weft.dist.world import init as init, rank as rank, size as size
