"""Data sets."""

from weft.data.sets import Split, load_digits, load_mnist

__all__ = ["Split", "load_digits", "load_mnist"]
