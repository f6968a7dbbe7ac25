"""Loss functions."""

from weft.graph import source_lines
from weft.losses.losses import (
    binary_cross_entropy_with_logits,
    check_labels,
    cosine,
    cross_entropy,
    hinge,
    huber,
    kl_div,
    l1,
    mse,
)

source_lines.part(__file__, "loss")

__all__ = [
    "binary_cross_entropy_with_logits", "check_labels", "cosine", "cross_entropy", "hinge", "huber", "kl_div", "l1", "mse",
]
