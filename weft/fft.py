"""``from weft.fft import ...``, where a program has ``from numpy.fft import ...``: the module that ``wf.fft`` is."""

import sys

from weft.functions import fft as found
from weft.functions.fft import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
