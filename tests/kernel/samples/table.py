"""The samples of every primitive, by its name. Element-wise primitives have theirs from the ``domain`` of their entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from tests.kernel.samples import (
    attention,
    complex,
    contract,
    elementwise,
    folds,
    host,
    index,
    matrices,
    random,
    shape,
    spectrum,
    window,
)
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.graph.node import Primitive
from weft.graph.primitives.kinds import ALL, NUMBERS

Draw = Callable[[np.random.Generator], Iterable[Sample]]
Refuse = Callable[[], Iterable[ErrorSample]]


def draw_samples(op: Primitive, rng: np.random.Generator) -> list[Sample]:
    """Return calls of a primitive that must compute, with fresh random numbers."""
    return list(elementwise.elementwise(op.domain, rng) if op.domain is not None else SAMPLES[op.name][0](rng))


def error_samples(op: Primitive) -> list[ErrorSample]:
    """Return calls of a primitive that must be refused."""
    return list(elementwise.elementwise_errors(op.name, op.domain) if op.domain is not None else SAMPLES[op.name][1]())


def has_samples(op: Primitive) -> bool:
    """Return whether samples exist: leaves and what loops are made of have none."""
    return op.domain is not None or op.name in SAMPLES


def _folds() -> dict[str, tuple[Draw, Refuse]]:
    table: dict[str, tuple[Draw, Refuse]] = {}
    for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin"):
        identity = name in ("reduce_sum", "reduce_prod")
        allowed = NUMBERS if identity else ALL
        table[name] = partial(folds.reductions, allowed, identity), partial(folds.reduction_errors, name, allowed, identity)
    for name in ("cumulative_sum", "cumulative_prod", "cumulative_max", "cumulative_min"):
        allowed = NUMBERS if name in ("cumulative_sum", "cumulative_prod") else ALL
        table[name] = partial(folds.cumulative, allowed), partial(folds.cumulative_errors, name, allowed)
    return table


MATRICES = (
    "cholesky", "eigh", "eigvalsh", "svd", "svdvals", "qr", "eig", "eigvals", "solve", "inv", "det", "cofactors", "slogdet",
    "pinv", "expm",
)
SAMPLES: dict[str, tuple[Draw, Refuse]] = {
    **_folds(),
    **{name: (getattr(matrices, name), getattr(matrices, f"{name}_errors")) for name in MATRICES},
    **{name: (getattr(spectrum, name), getattr(spectrum, f"{name}_errors")) for name in ("fft", "rfft", "irfft")},
    **{name: (getattr(complex, name), getattr(complex, f"{name}_errors")) for name in ("real", "imag", "conj", "complex")},
    "complex_constant": (complex.constants, complex.constants_errors),
    **dict.fromkeys(("where", "guard"), (elementwise.where, elementwise.where_errors)),
    "cast": (elementwise.casts, elementwise.cast_errors),
    "round_to": (elementwise.roundings, elementwise.rounding_errors),
    "round_stochastic": (elementwise.stochastic, elementwise.stochastic_errors),
    "bitcast": (elementwise.bitcasts, elementwise.bitcast_errors),
    "reshape": (shape.reshape, shape.reshape_errors),
    "recompute": (shape.recompute, shape.recompute_errors),
    "permute": (shape.permute, shape.permute_errors),
    "broadcast_to": (shape.broadcast_to, shape.broadcast_errors),
    "slice": (shape.slice_, shape.slice_errors),
    "pad": (shape.pad, shape.pad_errors),
    "concat": (shape.concat, shape.concat_errors),
    "iota": (shape.iota, shape.iota_errors),
    "unpack_nibbles": (shape.unpack_nibbles, shape.unpack_nibbles_errors),
    "slice_set": (shape.slice_set, shape.slice_set_errors),
    "in_bounds": (index.in_bounds, index.in_bounds_errors),
    "gather": (index.gather, index.gather_errors),
    "scatter": (index.scatter, index.scatter_errors),
    "last_equal": (index.last_equal, index.last_equal_errors),
    "dot_general": (contract.products, contract.product_errors),
    "conv_general": (contract.convolutions, contract.convolution_errors),
    "reduce_window": (window.windows, window.window_errors),
    "window_gather": (window.gathers, window.gather_errors),
    "attention": (attention.attention, attention.errors),
    "attention_gradient": (attention.gradient, attention.gradient_errors),
    "argsort": (host.argsort, host.argsort_errors),
    "sort": (host.sort, host.sort_errors),
    "random_bits": (random.random_bits, random.random_errors),
}
