"""Support ``from weft.testing import ...`` in place of ``from numpy.testing import ...``: the module ``wf.testing``."""

import sys

from weft.functions.numpy_compat import testing as module
from weft.functions.numpy_compat.testing import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
