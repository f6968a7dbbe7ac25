"""Support ``from weft.emath import ...`` in place of ``from numpy.emath import ...``: the module ``wf.emath``."""

import sys

from weft.functions.elementwise import emath as module
from weft.functions.elementwise.emath import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
