"""Support ``from weft.exceptions import ...`` in place of ``from numpy.exceptions import ...``: NumPy's module."""

import sys

from numpy import exceptions as module
from numpy.exceptions import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
