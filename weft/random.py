"""Support ``from weft.random import ...`` in place of ``from numpy.random import ...``: the module ``wf.random``."""

import sys

from weft.functions import random as module
from weft.functions.random import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
