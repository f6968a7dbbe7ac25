"""Gradient clipping by norm and by value."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.functions.dtype_info.half_precision import to_compute_dtype
from weft.functions.elementwise.compositions import clip
from weft.functions.elementwise.ufuncs import maximum
from weft.functions.support.arguments import norm_root
from weft.process.docstrings import complete_docs
from weft.transforms.tree import flatten_value, unflatten


def global_norm(gradients: Any) -> Array:
    """Return the Euclidean norm of all arrays of a tree together; an array that occurs twice counts once.

    Parameters
    ----------
    gradients : Array, Module or a tree of Arrays, such as the result of ``wf.grad``

    Returns
    -------
    Array of shape (), float32 or wider

    Raises
    ------
    ValueError
        The tree contains no array.

    >>> float(wf.optim.global_norm({"a": wf.array([3.0]), "b": wf.array([0.0, 4.0])}))
    5.0
    """
    total: Any = 0.0
    for leaf in {id(leaf): leaf for leaf in flatten_value(gradients)[0]}.values():  # a shared parameter's counts once
        if isinstance(leaf, Array):
            wide = to_compute_dtype(leaf)
            total = total + (wide * wide).sum()
    if not isinstance(total, Array):
        raise ValueError("global_norm: the gradients hold no array")
    return wrap(norm_root(total.node))


def clip_by_norm(gradients: Any, max_norm: float) -> Any:
    """Scale all gradients by one factor, so that their norm together is at most ``max_norm``.

    R. Pascanu, T. Mikolov, Y. Bengio, On the difficulty of training recurrent neural networks, ICML 2013.

    Parameters
    ----------
    max_norm : positive float

    Returns
    -------
    tree like ``gradients``; bit for bit unchanged if the norm is not larger

    Raises
    ------
    ValueError
        ``max_norm`` is not positive, or the tree contains no array.

    >>> wf.optim.clip_by_norm({"a": wf.array([3.0]), "b": wf.array([4.0])}, 1.0)["b"].tolist()
    [0.800000011920929]
    """
    if not max_norm > 0:
        raise ValueError(f"clip_by_norm: max_norm must be positive, not {max_norm}")
    factor = max_norm / maximum(global_norm(gradients), max_norm)
    return _map(lambda g: (g * factor).astype(g.dtype), gradients)


def clip_by_value(gradients: Any, limit: float) -> Any:
    """Limit every element of the gradients to [-limit, limit].

    Parameters
    ----------
    limit : positive float

    Returns
    -------
    tree like ``gradients``

    Raises
    ------
    ValueError
        ``limit`` is not positive.

    >>> wf.optim.clip_by_value([wf.array([-3.0, 0.5])], 1.0)[0].tolist()
    [-1.0, 0.5]
    """
    if not limit > 0:
        raise ValueError(f"clip_by_value: limit must be positive, not {limit}")
    return _map(lambda g: clip(g, -limit, limit), gradients)


def _map(f: Any, tree: Any) -> Any:
    leaves, structure = flatten_value(tree)
    out = [f(leaf) if isinstance(leaf, Array) else leaf for leaf in leaves]
    return unflatten(structure, out)


complete_docs(global_norm, clip_by_norm, clip_by_value)
