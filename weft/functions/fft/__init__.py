"""``wf.fft``: discrete Fourier transforms with the names, arguments and results of ``numpy.fft``."""

from weft.functions.fft.transforms import *  # noqa: F403
from weft.functions.fft.transforms import __all__ as __all__
