"""Support ``from weft.typing import ...`` in place of ``from numpy.typing import ...``: NumPy's module."""

import sys

from numpy import typing as module
from numpy.typing import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
