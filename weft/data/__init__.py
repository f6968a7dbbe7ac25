"""Data sets, batches of data, and samplers.

Data sets are NumPy arrays; the Loader makes batches of them, ahead of time and in an order determined by a seed.
"""

from weft.data.loader import Loader
from weft.data.sets import Split, load_digits, load_mnist
from weft.data.unigram import UnigramSampler

__all__ = ["Loader", "Split", "UnigramSampler", "load_digits", "load_mnist"]
