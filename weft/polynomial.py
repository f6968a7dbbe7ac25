"""``from weft.polynomial import ...``, where a program has ``numpy.polynomial``: NumPy's own, which takes arrays of weft."""

import sys

from numpy import polynomial as found
from numpy.polynomial import *  # noqa: F403  what type checkers see

_PARTS = ("chebyshev", "hermite", "hermite_e", "laguerre", "legendre", "polynomial", "polyutils")

sys.modules[__name__] = found
sys.modules.update({f"{__name__}.{name}": getattr(found, name) for name in _PARTS})
