"""Make ``weft.random`` importable, as in ``from weft.random import normal``: the same module as ``wf.random``."""

import sys

from weft.functions import random as module
from weft.functions.random import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
