"""Support ``from weft.linalg import ...`` in place of ``from numpy.linalg import ...``: the module ``wf.linalg``."""

import sys

from weft.functions import linalg as module
from weft.functions.linalg import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
