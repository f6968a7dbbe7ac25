"""Random convolutions in every direction and by every generator: values, and infinities and NaNs at random places.

They reach the sums that see them, and no others. Two orders of the chunks give the same bits, and vectors of filters give those
of vectors of pixels.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conv_cases import Native, conv_reference, force_filter_vectors, forward, weight_gradient, weight_reference
from harness import isas

from weft.devices.cpu.convolution import conv, filter_weights
from weft.devices.cpu.convolution.filter_weights import FilterGradient
from weft.devices.cpu.convolution.weights import WeightGradient

BOUND = {"float32": 3e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}
DTYPES = (np.dtype("float32"), np.dtype("float64"), np.dtype(ml_dtypes.bfloat16), np.dtype("float16"),
          np.dtype(ml_dtypes.float8_e5m2))
GENERATORS = {"weights": WeightGradient, "dot": WeightGradient, "filters": FilterGradient, "dot filters": FilterGradient}
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33)  # of rows and columns: about the lanes of every target
CHANNELS = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 33)


def draw(rng: np.random.Generator, direction: str) -> tuple[tuple, tuple]:
    """(n, c, h, w, o, kh, kw), (stride, padding, dilation, groups) of a convolution that has an output."""
    while True:
        h, w = (int(x) for x in rng.choice(SIZES, 2))
        kh, kw = (int(x if direction.startswith("dot") else rng.choice([1, 1, 2, 3, 3, 5, 7])) for x in (h, w))
        stride, dilation = (tuple(int(x) for x in rng.choice([1, 1, 1, 2, 3], 2)) for _ in range(2))
        padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 4, (2, 2))) if rng.random() < 0.7 else ((0, 0), (0, 0))
        if direction == "input":  # the gradient of a convolution with padding less than its window
            stride = (1, 1)
        spots = [
            (e + sum(p) - (k - 1) * d - 1) // s + 1
            for e, p, k, d, s in zip((h, w), padding, (kh, kw), dilation, stride, strict=True)
        ]
        if min(spots) < 1:
            continue
        n, groups = int(rng.integers(1, 6)), int(rng.choice([1, 1, 2, 3]))
        c, o = (int(x) for x in rng.choice(CHANNELS, 2))
        if n * c * o * groups * kh * kw * spots[0] * spots[1] < 1 << 20:
            return (n, c, h, w, o, kh, kw), (stride, padding, dilation, 1 if direction == "input" else groups)


def spoiled(rng: np.random.Generator, a: np.ndarray, count: int) -> np.ndarray:
    """A copy in which ``count`` elements are infinite or NaN."""
    a = a.copy()
    a.reshape(-1)[rng.integers(0, a.size, count)] = rng.choice(np.array([np.inf, -np.inf, np.nan]), count).astype(a.dtype)
    return a


def cut_finely(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Set the sizes at which the weight gradient of filters is cut, so that small images have all kinds of blocks."""
    sizes = {
        "CHAIN": (1, 5, 40, 200), "UNIT": (1, 12, 100, 960), "GROUP": (1, 2, 16), "MAX_COPY": (1, 5000, 1 << 24),
        "COPIED_CHANNELS": (1, 4, 32), "CHUNKS": (1, 8), "MAX_CALLS": (1, 4),
    }
    drawn = {name: int(rng.choice(found)) for name, found in sizes.items()}
    drawn["UNIT"] = max(drawn["UNIT"], drawn["CHAIN"])
    for name, size in drawn.items():
        monkeypatch.setattr(filter_weights, name, size)


def sums(direction: str, x: np.ndarray, w: np.ndarray, kernel_size: tuple, how: tuple) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        if direction in ("weights", "filters"):
            return weight_reference(x, w, *kernel_size, *how)
        return conv_reference(x, w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1] if direction == "input" else w, *how)


@pytest.mark.drawn(11)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(
    "direction", ["forward", "dot", "weights", "input", "filters", "dot filters", "forward vectors", "input vectors"]
)
def test_only_what_sees_them(direction: str, isa: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ""
    vectors = direction.endswith(" vectors")
    if vectors:
        direction = direction.removesuffix(" vectors")
        expected = "convolution filter vectors"
    elif direction in GENERATORS:
        expected = GENERATORS[direction].path or "convolution weights"
        monkeypatch.setattr(conv, "choose_driver", lambda *_: GENERATORS[direction])
    paths: set[str] = set()
    for number in range(14):
        cut_finely(monkeypatch, rng)
        sizes, how = draw(rng, direction)
        stride, padding, dilation, groups = how
        dtype = DTYPES[number % (len(DTYPES) if "+f16c" in isas()[isa].features else 3)]
        if direction in ("weights", "filters"):
            kernel = weight_gradient(*sizes, stride, padding, dilation, groups, dtype)
        else:
            kernel = forward(*sizes, *how, dtype=dtype, flip=direction == "input", dot=direction.startswith("dot"))
        with monkeypatch.context() as patch:
            if vectors:
                force_filter_vectors(patch)
            generated = conv.generate_conv(kernel, isas()[isa])
        assert any(path.startswith(expected) for path in generated.paths)
        paths.update(generated.paths)
        native = Native(kernel, generated, isa=isas()[isa])
        other = Native(kernel, conv.generate_conv(kernel, isas()[isa]), isa=isas()[isa]) if vectors else native
        arrays = [rng.standard_normal(b.shape).astype(dtype) for b in kernel.inputs]
        scale = sums(direction, *(abs(a.astype(np.float64)) for a in arrays), sizes[5:], how)
        for counts in ((0, 0), (1, 0), (1, 0), (0, 1), (3, 0), (2, 2)):
            given = [spoiled(rng, a, count) for a, count in zip(arrays, counts, strict=True)]
            want = sums(direction, *given, sizes[5:], how)
            got = np.empty(kernel.outputs[0].shape, dtype)
            native.run([*given, got], backwards=bool(sum(counts) % 2))
            if counts == (0, 0):
                again = np.empty_like(got)
                other.run([*given, again], backwards=True)
                assert again.tobytes() == got.tobytes()
            wide, told = got.astype(np.float64), (direction, number, sizes, how, dtype, counts)
            assert (np.isnan(wide) == np.isnan(want)).all(), told
            infinite, finite = np.isinf(want), np.isfinite(want)
            last_rounding = float(ml_dtypes.finfo(dtype).smallest_subnormal) / 2  # of sums that are subnormal numbers
            assert (wide[infinite] == want[infinite]).all() and not np.isinf(wide[~infinite]).any(), told
            assert (abs(wide[finite] - want[finite]) <= BOUND[dtype.name] * scale[finite] + last_rounding).all(), told
    if direction in ("dot", "weights"):
        both = {"convolution weights", "convolution weights direct"}
        for number in range(300):
            if both <= paths:
                break
            sizes, how = draw(rng, direction)
            dtype = DTYPES[number % 2]
            if direction == "weights":
                kernel = weight_gradient(*sizes, *how, dtype)
            else:
                kernel = forward(*sizes, *how, dtype=dtype, dot=True)
            paths.update(conv.generate_conv(kernel, isas()[isa]).paths)
        assert both <= paths
