"""Losses of distances between vectors along the last axis: contrastive and triplet."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import maximum, minimum
from weft.functions.support.arguments import norm_root, powers
from weft.losses.arguments import prepare_pair, reduce_loss


def contrastive(x1: Array, x2: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Array:
    """Return the mean of ``d**2 / 2`` for pairs that belong together, of ``max(0, margin - d)**2 / 2`` for others.

    d is the Euclidean distance of the two vectors. Hadsell et al.: Dimensionality reduction by learning an invariant mapping.
    2006.

    Parameters
    ----------
    x1, x2 : (..., E), of one shape
    target : (...), 1 for a pair that belongs together, 0 for one that does not
    margin : float, positive; the distance from which other pairs count nothing

    Returns
    -------
    (), or the shape of ``target`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes do not fit; ``margin`` is not positive; ``reduction`` is unknown.

    >>> x = wf.array([[0.0, 0.0], [3.0, 4.0]])
    >>> float(wf.losses.contrastive(x, wf.zeros((2, 2)), wf.array([0, 1])))
    6.5
    """
    _check_margin("contrastive", margin)
    a, b, like = prepare_pair("contrastive", x1, x2, ("x1", "x2"))
    y = asarray(target)
    if not a.ndim or y.shape != a.shape[:-1]:
        raise ShapeError(f"contrastive: target has shape {y.shape}, x1 {a.shape}; target must be {a.shape[:-1]}, one per pair")
    y = y.astype(a.dtype)
    distance = _distance(a - b, 2.0)
    near = maximum(margin - distance, 0.0)
    return reduce_loss("contrastive", (y * distance * distance + (1.0 - y) * near * near) * 0.5, reduction, like)


def triplet(
    anchor: Array, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0, swap: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    """Return the mean of ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    d is the p-norm of the difference plus ``eps``, as in PyTorch. Schroff et al.: FaceNet. 2015. ``swap``: Balntas et al.:
    Learning local feature descriptors with triplets. 2016.

    Parameters
    ----------
    anchor, positive, negative : (..., E), of one shape
    margin : float, positive
    p : float, at least 1
    swap : bool, use the distance of ``positive`` and ``negative`` where it is the smaller one
    eps : float

    Returns
    -------
    (), or the shape without E with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes differ; ``margin`` is not positive; ``p`` is below 1; ``reduction`` is unknown.

    >>> x = wf.array([[0.0, 0.0]])
    >>> round(float(wf.losses.triplet(x, x + 1.0, x + 2.0, margin=2.0)), 4)
    0.5858
    """
    _check_margin("triplet", margin)
    if isinstance(p, float | int) and not p >= 1:
        raise ValueError(f"triplet: p must be at least 1, not {p}")
    a, b, like = prepare_pair("triplet", anchor, positive, ("anchor", "positive"))
    _, c, _ = prepare_pair("triplet", like, negative, ("anchor", "negative"))
    if not a.ndim:
        raise ShapeError("triplet: anchor must be (..., E), not ()")
    near, far = _distance(a - b + eps, p), _distance(a - c + eps, p)
    if swap:
        far = minimum(far, _distance(b - c + eps, p))
    return reduce_loss("triplet", maximum(near - far + margin, 0.0), reduction, like)


def _check_margin(name: str, margin: Any) -> None:
    if isinstance(margin, float | int) and not margin > 0:
        raise ValueError(f"{name}: margin must be positive, not {margin}")


def _distance(difference: Array, p: float) -> Array:
    """Return the p-norm along the last axis; its gradient at 0 is 0."""
    if p == 1:
        return absolute(difference).sum(axis=-1)
    return wrap(norm_root(wrap(powers(to_compute_dtype(difference).node, p)).sum(axis=-1).node, p))
