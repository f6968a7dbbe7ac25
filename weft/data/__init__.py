"""Data sets, batches of data, random changes of batches, and samplers.

Data sets are NumPy arrays; the Loader makes batches of them, ahead of time and in an order determined by a seed.
"""

from weft.data.augment import mixup, random_crop, random_erasing, random_flip
from weft.data.loader import Loader
from weft.data.sets import Split, load_digits, load_mnist
from weft.data.unigram import UnigramSampler

__all__ = [
    "Loader", "Split", "UnigramSampler", "load_digits", "load_mnist", "mixup", "random_crop", "random_erasing", "random_flip",
]
