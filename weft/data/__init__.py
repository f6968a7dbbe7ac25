"""Data sets, and batches of data."""

from weft.data.loader import Loader
from weft.data.sets import Split, load_digits, load_mnist

__all__ = ["Loader", "Split", "load_digits", "load_mnist"]
