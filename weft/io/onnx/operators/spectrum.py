"""ONNX operators for spectra: complex numbers are pairs of reals along a last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.io.onnx.operators.table import Attributes, operator, read_static
from weft.io.onnx.tensors import dtype_of_code


def _to_complex(x: Any) -> Any:
    return x[..., 0] + (x[..., 1] * 1j if x.shape[-1] == 2 else 0j)


def _to_pairs(x: Any, dtype: Any) -> Any:
    return wf.stack([wf.real(x), wf.imag(x)], axis=-1).astype(dtype)


@operator("DFT", static=(1, 2))
def _dft(at: Attributes, x: Any, length: Any = None, axis: Any = None) -> Any:
    x = wf.asarray(x)
    d = (at.axis if at.axis is not None else -2) if axis is None else int(read_static(axis, "axis").reshape(()))
    d = d % x.ndim
    n = x.shape[d] if length is None else int(read_static(length, "dft_length").reshape(()))
    if at.inverse and at.onesided:
        full = wf.fft.irfft(_to_complex(x), n if length is not None else 2 * (x.shape[d] - 1), axis=d)
        return full[..., None].astype(x.dtype)
    y = (wf.fft.ifft if at.inverse else wf.fft.fft)(_to_complex(x), n, axis=d)
    if at.onesided:
        y = y[tuple(slice(0, n // 2 + 1) if k == d else slice(None) for k in range(y.ndim))]
    return _to_pairs(y, x.dtype)


@operator("STFT", static=(1, 3))
def _stft(at: Attributes, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    x = wf.asarray(x)
    by = int(read_static(step, "frame_step").reshape(()))
    size = window.shape[0] if length is None else int(read_static(length, "frame_length").reshape(()))
    count = (x.shape[1] - size) // by + 1
    frames = wf.take(x, np.arange(count)[:, None] * by + np.arange(size), axis=1)  # (batch, frames, size, 1 or 2)
    values = _to_complex(frames)
    values = values if window is None else values * wf.asarray(window)
    y = wf.fft.fft(values, axis=-1)
    return _to_pairs(y[..., : size // 2 + 1] if at.onesided else y, x.dtype)


@operator("MelWeightMatrix", static=(0, 1, 2, 3, 4))
def _mel_weight_matrix(at: Attributes, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    inputs = (bins, length, rate, low, high)
    bins, length, rate, low, high = (read_static(v, "the inputs").reshape(()).item() for v in inputs)
    lines = length // 2 + 1
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    steps = np.arange(bins + 2) * (ends[1] - ends[0]) / (bins + 2) + ends[0]
    places = (700 * (10 ** (steps / 2595) - 1) * (length + 1) // rate).astype(int)
    weights = np.zeros((lines, bins))
    for i in range(bins):
        first, middle, last = places[i : i + 3]
        if middle == first:
            weights[middle, i] = 1
        for j in range(first, middle + 1):
            if middle != first:
                weights[j, i] = (j - first) / (middle - first)
        for j in range(middle, last):
            if last != middle:
                weights[j, i] = (last - j) / (last - middle)
    return weights.astype(dtype_of_code(at.output_datatype))
