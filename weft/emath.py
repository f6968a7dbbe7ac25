"""``from weft.emath import ...``, where a program has ``from numpy.emath import ...``: the module that ``wf.emath`` is."""

import sys

from weft.functions.elementwise import emath as found
from weft.functions.elementwise.emath import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
