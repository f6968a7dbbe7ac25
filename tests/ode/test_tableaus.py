"""Tableaus fulfil the conditions of their order, one for each rooted tree (Hairer, Nørsett and Wanner I, chapter II.2)."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest

from weft.ode import tableaus
from weft.ode.tableaus import Tableau

TABLEAUS = {name: x for name, x in vars(tableaus).items() if isinstance(x, Tableau)}
Tree = tuple  # the subtrees of the root, sorted


@cache
def trees(nodes: int) -> tuple[Tree, ...]:
    """Return all rooted trees with this number of nodes."""
    return tuple(forests(nodes - 1, nodes - 1))


def forests(nodes: int, largest: int) -> list[Tree]:
    """Return all multisets of trees with ``nodes`` nodes together, none of them with more than ``largest``."""
    if nodes == 0:
        return [()]
    found = set()
    for size in range(1, min(nodes, largest) + 1):
        for tree in trees(size):
            found |= {tuple(sorted((tree, *rest))) for rest in forests(nodes - size, size)}
    return sorted(found)


def size(tree: Tree) -> int:
    return 1 + sum(map(size, tree))


def density(tree: Tree) -> int:
    return size(tree) * prod(map(density, tree))


def matrix(tableau: Tableau) -> np.ndarray:
    """Return the factors of all stages; the last row is the solution."""
    stages = len(tableau.a) + 1
    a = np.zeros((stages, stages))
    for k, row in enumerate(tableau.a, 1):
        a[k, : len(row)] = row
        a[k, k] = tableau.diagonal
    return a


def weighted(a: np.ndarray, weights: np.ndarray, tree: Tree) -> float:
    """Return the elementary weight of a tree; it is 1 / density where the tree's condition is fulfilled."""
    def stages(tree: Tree) -> np.ndarray:
        return prod([a @ stages(branch) for branch in tree], start=np.ones(len(a)))

    return float(weights @ stages(tree))


def test_numbers_of_trees() -> None:
    assert [len(trees(n)) for n in range(1, 10)] == [1, 1, 2, 4, 9, 20, 48, 115, 286]


@pytest.mark.parametrize("name", TABLEAUS)
def test_order_conditions(name: str) -> None:
    tableau = TABLEAUS[name]
    a = matrix(tableau)
    np.testing.assert_allclose(a.sum(axis=1)[1:], tableau.c, rtol=0, atol=1e-14)

    def missed(nodes: int) -> float:
        return max(abs(weighted(a, a[-1], tree) - 1 / density(tree)) for tree in trees(nodes))

    def estimated(nodes: int) -> float:
        return max(abs(weighted(a, np.array(tableau.error), tree)) for tree in trees(nodes))

    assert max(map(missed, range(1, tableau.order + 1))) < 1e-13
    assert missed(tableau.order + 1) > 1e-6  # the order is no higher
    if tableau.error:
        assert max(map(estimated, range(1, tableau.error_order)), default=0) < 1e-13
        assert estimated(tableau.error_order) > 1e-6
