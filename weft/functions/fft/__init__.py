"""``wf.fft``: discrete Fourier transforms with the names, arguments and results of ``numpy.fft``."""

from weft.functions.fft.transforms import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]
