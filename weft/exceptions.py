"""``from weft.exceptions import ...``, where a program has ``from numpy.exceptions import ...``: NumPy's own."""

import sys

from numpy import exceptions as found
from numpy.exceptions import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
