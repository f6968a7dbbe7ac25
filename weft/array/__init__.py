"""Arrays: the classes, and what makes objects of them."""

from weft.array.core import Array, Scalar, _unpickle, holding, like, own, standing_for, wrap

__all__ = ["Array", "Scalar", "_unpickle", "holding", "like", "own", "standing_for", "wrap"]
