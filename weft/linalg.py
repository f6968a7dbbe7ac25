"""``from weft.linalg import ...``, where a program has ``from numpy.linalg import ...``: the module that ``wf.linalg`` is."""

import sys

from weft.functions import linalg as found
from weft.functions.linalg import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
