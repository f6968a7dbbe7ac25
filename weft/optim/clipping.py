"""Limits on gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.functions.elementwise.clip_compare import clip
from weft.functions.elementwise.ufuncs import maximum
from weft.functions.support.arguments import norm_root
from weft.transforms.tree import flatten, is_container, unflatten


def global_norm(gradients: Any) -> Array:
    """The Euclidean norm of all arrays of a tree together.

    Parameters
    ----------
    gradients : Array, Module or a tree of Arrays

    Returns
    -------
    Array of shape (), float32 or wider

    Raises
    ------
    ValueError
        There is no array.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.optim.global_norm({"a": wf.array([3.0]), "b": wf.array([0.0, 4.0])}))
    5.0
    """
    total: Any = 0.0
    for leaf in {id(leaf): leaf for leaf in _leaves(gradients)[0]}.values():  # that of a shared parameter counts once
        if isinstance(leaf, Array):
            wide = leaf if leaf.dtype.itemsize >= 4 else leaf.astype(np.dtype(np.float32))
            total = total + (wide * wide).sum()
    if not isinstance(total, Array):
        raise ValueError("global_norm: the gradients hold no array")
    return wrap(norm_root(total.node))


def clip_by_norm(gradients: Any, max_norm: float) -> Any:
    """Scale all gradients by one factor, so that their norm together is at most ``max_norm``.

    Parameters
    ----------
    gradients : Array, Module or a tree of Arrays, as ``wf.grad`` gives them
    max_norm : positive float

    Returns
    -------
    tree like ``gradients``; unchanged (to the bit) where the norm is no larger

    Raises
    ------
    ValueError
        ``max_norm`` is not positive, or there is no array.

    References
    ----------
    R. Pascanu, T. Mikolov, Y. Bengio, On the difficulty of training recurrent neural networks, ICML 2013.

    Examples
    --------
    >>> import weft as wf
    >>> wf.optim.clip_by_norm({"a": wf.array([3.0]), "b": wf.array([4.0])}, 1.0)["b"].tolist()
    [0.800000011920929]
    """
    if not max_norm > 0:
        raise ValueError(f"clip_by_norm: max_norm must be positive, not {max_norm}")
    factor = max_norm / maximum(global_norm(gradients), max_norm)
    return _mapped(lambda g: (g * factor).astype(g.dtype), gradients)


def clip_by_value(gradients: Any, limit: float) -> Any:
    """Limit every element of the gradients to [-limit, limit].

    Parameters
    ----------
    gradients : Array, Module or a tree of Arrays
    limit : positive float

    Returns
    -------
    tree like ``gradients``

    Raises
    ------
    ValueError
        ``limit`` is not positive.

    Examples
    --------
    >>> import weft as wf
    >>> wf.optim.clip_by_value([wf.array([-3.0, 0.5])], 1.0)[0].tolist()
    [-1.0, 0.5]
    """
    if not limit > 0:
        raise ValueError(f"clip_by_value: limit must be positive, not {limit}")
    return _mapped(lambda g: clip(g, -limit, limit), gradients)


def _leaves(tree: Any) -> tuple[list[Any], Any]:
    return flatten(tree) if is_container(tree) else ([tree], None)


def _mapped(f: Any, tree: Any) -> Any:
    leaves, structure = _leaves(tree)
    out = [f(leaf) if isinstance(leaf, Array) else leaf for leaf in leaves]
    return out[0] if structure is None else unflatten(structure, out)
