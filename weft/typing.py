"""``from weft.typing import ...``, where a program has ``from numpy.typing import ...``: NumPy's own."""

import sys

from numpy import typing as found
from numpy.typing import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
