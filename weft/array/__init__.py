"""Arrays: what the user holds. The class and what makes objects of it."""

from weft.array.core import Array, _unpickle, holding, wrap

__all__ = ["Array", "_unpickle", "holding", "wrap"]
