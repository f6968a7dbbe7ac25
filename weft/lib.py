"""Support ``from weft.lib.stride_tricks import ...`` in place of ``numpy.lib``: the module ``wf.lib``."""

import sys

from weft.functions.numpy_compat import lib as module
from weft.functions.numpy_compat.lib import *  # noqa: F403  for type checkers

sys.modules[__name__] = module
sys.modules.update({f"{__name__}.{name}": getattr(module, name) for name in module.__all__})
