"""``from weft.random import ...``, where a program has ``from numpy.random import ...``: the module that ``wf.random`` is."""

import sys

from weft.functions import random as found
from weft.functions.random import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
