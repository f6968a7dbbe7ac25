"""Support ``from weft.polynomial import ...`` in place of ``numpy.polynomial``: NumPy's module, which accepts weft's arrays."""

import sys

from numpy import polynomial as module
from numpy.polynomial import *  # noqa: F403  for type checkers

_PARTS = ("chebyshev", "hermite", "hermite_e", "laguerre", "legendre", "polynomial", "polyutils")

sys.modules[__name__] = module
sys.modules.update({f"{__name__}.{name}": getattr(module, name) for name in _PARTS})
