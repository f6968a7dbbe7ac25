"""Support ``from weft.tree import ...``: the module ``wf.tree``."""

import sys

from weft.transforms import tree_functions as module
from weft.transforms.tree_functions import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
