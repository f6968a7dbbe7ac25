"""Data sets, batches of data, random changes of batches, and samplers.

Data sets are NumPy arrays, or arrays in files that are read row by row. The Loader makes batches of them, ahead of time and in an
order determined by a seed.
"""

from weft.data.augment import mixup, random_crop, random_erasing, random_flip
from weft.data.images import image_folder
from weft.data.labels import LabelEncoder
from weft.data.loader import Loader
from weft.data.row_files import RowFiles, open_rows
from weft.data.sets import Split, load_digits, load_mnist
from weft.data.unigram import UnigramSampler

__all__ = [
    "LabelEncoder", "Loader", "RowFiles", "Split", "UnigramSampler", "image_folder", "load_digits", "load_mnist", "mixup",
    "open_rows", "random_crop", "random_erasing", "random_flip",
]
