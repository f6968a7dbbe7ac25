"""``wf.tree``: functions of trees, which are dicts, lists, tuples, dataclasses and modules of arrays and numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap, wrap_array
from weft.array.convert import as_node
from weft.dtypes.formats import COMPLEX, DEFAULT, promote
from weft.errors import ShapeError, short
from weft.graph.primitives.call import call, cast, reshape, slice_axis
from weft.graph.primitives.table import constant
from weft.transforms import tree as trees

__all__ = ["flatten", "leaves", "map", "ravel", "unflatten"]

map = trees.tree_map
leaves = trees.tree_leaves


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree, including those of modules, and its structure.

    Parameters
    ----------
    tree : anything; an object that is not a tree is a leaf. Leaves of a module are its float parameters

    Returns
    -------
    (leaves, structure) : a list, and what :func:`unflatten` needs. Structures of equal trees are equal

    Raises
    ------
    ValueError
        A list, tuple or dict contains itself, or is nested too deeply.

    Examples
    --------
    >>> import weft as wf
    >>> leaves, structure = wf.tree.flatten({"a": [1, 2.5], "b": (3,)})
    >>> leaves, wf.tree.unflatten(structure, [10, 20, 30])
    ([1, 2.5, 3], {'a': [10, 20], 'b': (30,)})
    """
    return trees.flatten(tree)


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """Return a tree of a structure with other leaves: the inverse of :func:`flatten`.

    Parameters
    ----------
    structure : the second result of :func:`flatten`
    leaves : as many as the structure has

    Returns
    -------
    tree

    Raises
    ------
    ValueError
        The number of leaves differs.
    """
    values = list(leaves)
    if len(values) != structure.num_leaves:
        raise ValueError(f"tree.unflatten: there are {len(values)} leaves, but the structure has {structure.num_leaves}")
    return trees.unflatten(structure, values)


def ravel(tree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Return all elements of a tree as one vector, and the function that makes a tree from such a vector.

    Parameters
    ----------
    tree : tree whose leaves are arrays and numbers

    Returns
    -------
    (vector, unravel) : the vector has the dtype that :func:`promote_types` gives for all leaves; ``unravel(vector)`` returns
        a new tree with the shapes and dtypes of the leaves, and converts the elements to them. A Python number becomes a Scalar

    Raises
    ------
    TypeError
        A leaf is not an array or a number.
    ShapeError
        From ``unravel``: the vector has another number of elements.

    Examples
    --------
    >>> import weft as wf
    >>> vector, unravel = wf.tree.ravel({"a": wf.ones((2, 2)), "b": 3.0})
    >>> vector, float(unravel(2 * vector)["b"])
    (array([1., 1., 1., 1., 3.], dtype=float32), 6.0)
    """
    values, structure = trees.flatten(tree)
    for k, x in enumerate(values):
        if not isinstance(x, Array | np.ndarray | np.generic | bool | int | float | complex):
            raise TypeError(f"tree.ravel: leaf {k} is {short(x)} ({type(x).__name__}), but must be an array or a number")
    nodes = [as_node(x) for x in values]
    is_writable = [isinstance(x, Array) and not isinstance(x, Scalar) for x in values]
    kinds = [(n.shape, n.dtype) for n in nodes]
    dtype = kinds[0][1] if kinds else DEFAULT.real
    for _, other in kinds:
        dtype = promote(dtype, other)
    ends = [0]
    for shape, _ in kinds:
        ends.append(ends[-1] + prod(shape))
    parts = [cast(reshape(n, (n.size,)), dtype) for n in nodes]
    if not parts:
        parts = [call.broadcast_to(constant(0, dtype), shape=(0,))]
    vector = wrap_array(parts[0] if len(parts) == 1 else call.concat(*parts, axis=0))

    def unravel(vector: Any) -> Any:
        node = as_node(vector)
        if node.shape != (ends[-1],):
            raise ShapeError(f"unravel: the vector has shape {node.shape}, but the tree has {ends[-1]} elements")
        out = []
        for (start, stop), (shape, kind), writable in zip(pairwise(ends), kinds, is_writable, strict=True):
            part = reshape(slice_axis(node, 0, start, stop), shape)
            part = cast(call.real(part) if part.dtype in COMPLEX and kind not in COMPLEX else part, kind)
            out.append(wrap_array(part) if writable else wrap(part))
        return trees.unflatten(structure, out)

    return vector, unravel
