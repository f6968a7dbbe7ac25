"""einops on Arrays: its own tests with weft as the backend, and random patterns against NumPy, eager, under jit and grad."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import weft as wf

os.environ.setdefault("EINOPS_TEST_BACKENDS", "numpy")  # einops' tests ask for it when they are imported
einops = pytest.importorskip("einops")
NAMES = "abcdef"


def backend():
    from einops._backends import get_backend

    return get_backend(wf.ones(1))


@pytest.mark.parametrize("first", ["einops", "weft"])
def test_it_registers_itself_whoever_comes_first(first: str) -> None:
    """And only where somebody else imports einops."""
    imports = "import einops, weft as wf" if first == "einops" else (
        "import sys, weft as wf; wf.ones(2).numpy(); assert 'einops' not in sys.modules; import einops"
    )
    code = f"{imports}\nx = einops.rearrange(wf.ones((2, 3)), 'a b -> b a'); assert type(x) is wf.ndarray and x.shape == (3, 2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


THEIRS = {
    "test_ops": (
        "test_ellipsis_ops_imperative", "test_reduction_imperatives", "test_reduction_stress_imperatives",
        "test_enumerating_directions", "test_concatenations_and_stacking", "test_tiling_imperatives", "test_repeat_imperatives",
        "test_reduction_imperatives_booleans",
    ),
    "test_packing": ("test_pack_unpack_against_numpy",),
    "test_einsum": ("test_functional",),
    "test_other": ("test_parse_shape_imperative", "test_is_float_type"),
}
CASES = [(module, name) for module, names in THEIRS.items() for name in names]


@pytest.mark.parametrize("module, name", CASES, ids=[name for _, name in CASES])
def test_einops_own(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINOPS_TEST_BACKENDS", "weft")
    theirs = pytest.importorskip(f"einops.tests.{module}")
    ours, used = type(backend()), []
    from_numpy = ours.from_numpy
    monkeypatch.setattr(ours, "from_numpy", lambda self, x: used.append(1) or from_numpy(self, x))

    def collect(symbolic: bool = False, layers: bool = False) -> list:
        return [] if symbolic or layers else [backend()]

    for word, value in (
        ("imp_op_backends", [backend()]), ("_IMPERATIVE_BACKENDS", [backend()]), ("collect_test_backends", collect),
    ):
        if hasattr(theirs, word):
            monkeypatch.setattr(theirs, word, value)
    if hasattr(theirs, "is_backend_tested"):
        monkeypatch.setattr(theirs, "is_backend_tested", lambda name: name == "weft")
    if name == "test_functional":
        monkeypatch.setattr(theirs, "valid_backends_functional", ["weft"])
    getattr(theirs, name)()
    assert used  # it did run on weft


def pattern(rng: np.random.Generator) -> tuple[str, str, tuple[int, ...], dict[str, int], list[str]]:
    """The two sides of a random pattern, the shape, lengths of axes, and the names that lie on the left."""
    count = int(rng.integers(1, 6))
    names = list(NAMES[:count])
    length = {n: int(rng.integers(1, 4)) for n in names}

    def side(order: list[str]) -> tuple[str, list[int]]:
        parts, sizes, k = [], [], 0
        while k < len(order):
            group = order[k : k + int(rng.integers(1, 3))]
            parts.append(group[0] if len(group) == 1 else f"({' '.join(group)})")
            sizes.append(int(np.prod([length[n] for n in group])))
            k += len(group)
        return " ".join(parts), sizes

    left, shape = side(list(rng.permutation(names)))
    right, _ = side(list(rng.permutation(names)))
    return left, right, tuple(shape), length, names


def alike(function, x: np.ndarray, *args, **lengths) -> None:
    want = function(x, *args, **lengths)
    for call in (lambda v: function(v, *args, **lengths), wf.jit(lambda v: function(v, *args, **lengths))):
        found = call(wf.asarray(x))
        assert isinstance(found, wf.Array) and found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-6)


def test_random_patterns(rng: np.random.Generator) -> None:
    for turn in range(25):
        left, right, shape, length, names = pattern(rng)
        x = rng.normal(size=shape).astype("float32")
        alike(einops.rearrange, x, f"{left} -> {right}", **length)
        kept = [n for n in names if rng.random() < 0.6]
        how = ("sum", "mean", "max", "min", "prod")[turn % 5]
        alike(einops.reduce, x, f"{left} -> {' '.join(rng.permutation(kept))}", how, **length)
        alike(einops.reduce, x, f"{left} -> {' '.join(kept)}", lambda v, axes: (v * v).sum(axes), **length)
        alike(einops.repeat, x, f"{left} -> {right} new", new=int(rng.integers(1, 4)), **length)


def test_random_einsum_and_packs(rng: np.random.Generator) -> None:
    for _ in range(15):
        length = {n: int(rng.integers(1, 4)) for n in NAMES[:4]}
        sides = [list(rng.permutation(list(length))[: rng.integers(1, 4)]) for _ in range(2)]
        met = sorted({n for side in sides for n in side})
        out = [n for n in rng.permutation(met) if rng.random() < 0.6]
        text = f"{', '.join(' '.join(side) for side in sides)} -> {' '.join(out)}"
        given = [rng.normal(size=[length[n] for n in side]).astype("float32") for side in sides]
        found = einops.einsum(*map(wf.asarray, given), text)
        assert isinstance(found, wf.Array)
        np.testing.assert_allclose(found, einops.einsum(*given, text), rtol=1e-4, atol=1e-5)
        parts = [rng.normal(size=(2, *rng.integers(1, 4, rng.integers(0, 3)), 3)).astype("float32") for _ in range(3)]
        packed, shapes = einops.pack([wf.asarray(p) for p in parts], "a * b")
        want, wanted = einops.pack(parts, "a * b")
        assert shapes == wanted
        np.testing.assert_array_equal(packed, want)
        for back, part in zip(einops.unpack(packed, shapes, "a * b"), parts, strict=True):
            assert isinstance(back, wf.Array)
            np.testing.assert_array_equal(back, part)


def test_derivatives_go_through() -> None:
    x = wf.arange(24.0).reshape(2, 3, 4)
    found = wf.grad(lambda v: (einops.reduce(einops.rearrange(v, "a b c -> c (a b)"), "c d -> d", "mean") ** 2).sum())(x)
    means = x.numpy().mean(axis=2, keepdims=True)
    np.testing.assert_allclose(found, np.broadcast_to(2 * means / 4, x.shape), rtol=1e-6)
