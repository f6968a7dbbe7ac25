"""``from weft.testing import ...``, where a program has ``from numpy.testing import ...``: the module that ``wf.testing`` is."""

import sys

from weft.functions.numpy_compat import testing as found
from weft.functions.numpy_compat.testing import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
