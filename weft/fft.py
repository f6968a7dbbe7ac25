"""Support ``from weft.fft import ...`` in place of ``from numpy.fft import ...``: the module ``wf.fft``."""

import sys

from weft.functions import fft as module
from weft.functions.fft import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
