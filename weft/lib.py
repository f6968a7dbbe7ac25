"""``from weft.lib.stride_tricks import ...``, where a program has ``numpy.lib``: the module that ``wf.lib`` is."""

import sys

from weft.functions.numpy_compat import lib as found
from weft.functions.numpy_compat.lib import *  # noqa: F403  what type checkers see

sys.modules[__name__] = found
sys.modules.update({f"{__name__}.{name}": getattr(found, name) for name in found.__all__})
