"""Losses: predictions and targets in, one number out.

Array code, each a few lines around the shared reductions.
"""

from weft.graph import origin
from weft.losses.classification import binary_cross_entropy_with_logits, check_labels, cross_entropy, hinge
from weft.losses.regression import cosine, huber, kl_div, l1, mse

origin.part(__file__, "loss")

__all__ = [
    "binary_cross_entropy_with_logits", "check_labels", "cosine", "cross_entropy", "hinge", "huber", "kl_div", "l1", "mse",
]
