"""wf.tree: flatten, unflatten, map, leaves and ravel of random trees."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError

KINDS = ("float32", "float64", "float16", "int32", "bool")


def draw(rng: random.Random, depth: int = 0) -> Any:
    """Return a random tree of arrays and numbers."""
    kind = rng.choice(["array", "array", "number", "numpy"] if depth > 2 else ["array", "dict", "list", "tuple", "number"])
    if kind == "dict":
        return {name: draw(rng, depth + 1) for name in "abc"[: rng.randrange(4)]}
    if kind in ("list", "tuple"):
        items = [draw(rng, depth + 1) for _ in range(rng.randrange(4))]
        return items if kind == "list" else tuple(items)
    if kind == "number":
        return rng.choice([2.5, 3, True])
    shape = rng.choice([(), (3,), (2, 2), (0,), (1, 2, 3)])
    values = np.random.default_rng(rng.randrange(99)).integers(0, 2, shape).astype(rng.choice(KINDS))
    return wf.array(values) if kind == "array" else values


@pytest.mark.parametrize("seed", range(40))
def test_ravel(seed: int) -> None:
    tree = draw(random.Random(seed))
    leaves, structure = wf.tree.flatten(tree)
    assert wf.tree.leaves(tree) is not leaves and len(wf.tree.leaves(tree)) == len(leaves)
    vector, unravel = wf.tree.ravel(tree)
    assert vector.shape == (sum(np.size(x) for x in leaves),)
    assert vector.dtype == (wf.result_type(*[wf.asarray(x).dtype for x in leaves]) if leaves else np.float32)
    if leaves:
        np.testing.assert_array_equal(vector.numpy(), np.concatenate([np.ravel(np.asarray(x)) for x in leaves]))
    for f in (unravel, wf.jit(unravel)):
        again, same = wf.tree.flatten(f(vector))
        assert same == structure
        for a, b in zip(leaves, again, strict=True):
            assert wf.asarray(a).dtype == b.dtype and np.shape(a) == b.shape
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    with pytest.raises(ShapeError, match="unravel: the vector has shape"):
        unravel(wf.zeros(vector.size + 1))


def test_functions() -> None:
    leaves, structure = wf.tree.flatten({"b": (1, [2.0]), "a": 3})
    assert leaves == [3, 1, 2.0] and wf.tree.unflatten(structure, "xyz") == {"a": "x", "b": ("y", ["z"])}
    assert wf.tree.map(lambda a, b: a + b, [1, 2], [10, 20]) == [11, 22]
    assert wf.tree.map is wf.tree_map and wf.tree.leaves is wf.tree_leaves
    with pytest.raises(ValueError, match="there are 2 leaves, but the structure has 3"):
        wf.tree.unflatten(structure, [1, 2])
    with pytest.raises(TypeError, match="leaf 1 is 'no'"):
        wf.tree.ravel([1.0, "no"])


def test_ravel_of_modules_and_derivatives() -> None:
    net = wf.nn.Sequential(wf.nn.Linear(2, 3), wf.nn.Tanh(), wf.nn.Linear(3, 1))
    x = wf.ones((4, 2))
    vector, unravel = wf.tree.ravel(net)
    assert vector.shape == (13,) and (unravel(vector)(x) == net(x)).all()
    slope = wf.grad(lambda v: (unravel(v)(x) ** 2).sum())(vector)
    want = wf.tree.ravel(wf.grad(lambda net: (net(x) ** 2).sum())(net))[0]
    np.testing.assert_allclose(slope.numpy(), want.numpy(), rtol=1e-6)
    rows = wf.vmap(lambda v: unravel(v)(x).sum())(wf.stack([vector, 2 * vector]))
    np.testing.assert_allclose(rows.numpy(), [float(unravel(v)(x).sum()) for v in (vector, 2 * vector)], rtol=1e-6)


def test_reals_beside_complex_numbers() -> None:
    vector, unravel = wf.tree.ravel([wf.array([1j]), 1.0])
    a, b = unravel(vector)
    assert a.tolist() == [1j] and float(b) == 1


@pytest.mark.parametrize("transform", [wf.jit, wf.grad, wf.vmap])
@pytest.mark.parametrize("kind", ["list", "dict", "deep"])
def test_trees_without_an_end_are_refused(transform: Any, kind: str) -> None:
    tree: Any = {"a": wf.ones(2)} if kind == "dict" else [wf.ones(2)]
    if kind == "dict":
        tree["b"] = tree
    else:
        tree.append(tree)
    if kind == "deep":
        for _ in range(5000):
            tree = [tree]
    with pytest.raises(ValueError, match="contains itself, or is nested too deeply"):
        transform(lambda x: x)(tree)
