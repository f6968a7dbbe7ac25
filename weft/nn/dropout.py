"""Dropout, as function and layer."""

from __future__ import annotations

from weft.array import Array
from weft.functions import random
from weft.functions.choosing import where
from weft.nn.module import Module


def dropout(x: Array, p: float = 0.5, training: bool = True) -> Array:
    """Zero each element with probability ``p`` and scale the rest by 1 / (1 - p); nothing when not training.

    Srivastava et al.: Dropout. 2014.

    Parameters
    ----------
    x : array
    p : float in [0, 1]
    training : bool

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    ValueError
        ``p`` is not in [0, 1].

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.dropout(wf.ones(4), p=0.5, training=False).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p must lie between 0 and 1, not {p}")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0
    keep = random.bernoulli(1.0 - p, x.shape)
    return where(keep, x * (1.0 / (1.0 - p)), 0)


class Dropout(Module):
    """:func:`weft.nn.dropout` as a layer: active after ``train()``, nothing after ``eval()``.

    Parameters
    ----------
    p : float in [0, 1]

    Raises
    ------
    ValueError
        ``p`` is not in [0, 1].

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.Dropout(0.5).eval()(wf.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"Dropout: p must lie between 0 and 1, not {p}")
        self.p = p

    def forward(self, x: Array) -> Array:
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
