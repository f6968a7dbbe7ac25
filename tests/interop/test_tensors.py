"""PyTorch and JAX beside weft: arrays of one are arguments of the other. Where they are not installed these are skipped."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float8_e4m3fn",
          "float8_e5m2", "float32", "float64", "complex64", "complex128")


def drawn(dtype: str) -> wf.Array:
    return wf.asarray(np.random.default_rng().integers(0, 2, (3, 4))).astype(dtype)


def bits(x) -> list:
    return np.asarray(x, "complex128" if "complex" in str(x.dtype) else "float64").tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a = drawn(dtype)
    with pytest.raises(RuntimeError, match="could not retrieve buffer"):  # it takes buffers for bytes, before it asks for DLPack
        torch.asarray(a)
    for take in (torch.as_tensor, torch.tensor, torch.from_dlpack, torch.utils.dlpack.from_dlpack):
        for x in (a, a[1:], a[0, 0]):
            t = take(x)
            assert t.dtype is getattr(torch, dtype) and tuple(t.shape) == x.shape
            assert t.tolist() == x.tolist()
            before = x.tolist()
            t.fill_(1)  # its own memory
            assert x.tolist() == before
    t = torch.from_dlpack(a)
    for back in (wf.asarray(t), wf.from_dlpack(t), wf.array(t), wf.from_dlpack(t, copy=False)):
        assert back.dtype == a.dtype and back.tolist() == a.tolist()
    shared = wf.from_dlpack(t, copy=False)
    if dtype not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        assert shared.numpy().ctypes.data == t.data_ptr()
    wf.asarray(t)[...] = 0
    shared[...] = 0
    assert t.tolist() == a.tolist()
    assert wf.from_dlpack(t.T).tolist() == a.T.tolist()


def test_torch_computes_with_arrays() -> None:
    torch = pytest.importorskip("torch")
    a, t = wf.arange(6.0).reshape(2, 3), torch.ones((2, 3))
    assert isinstance(a + t, wf.Array) and (a + t).tolist() == (a + 1).tolist()
    assert wf.arange(3.0)[torch.tensor([2, 0])].tolist() == [2.0, 0.0]
    assert wf.arange(3.0)[torch.tensor([True, False, True])].tolist() == [0.0, 2.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    a = drawn(dtype)
    for take in (jnp.asarray, jnp.array, jnp.from_dlpack):
        for x in (a, a[1:]):
            t = take(x)
            if dtype not in ("int64", "float64", "complex128"):  # JAX has these only when asked
                assert t.dtype == x.dtype
            assert t.shape == x.shape and bits(t) == bits(x)
    t = jnp.asarray(a)
    for back in (wf.asarray(t), wf.from_dlpack(t)):
        assert back.dtype == t.dtype and bits(back) == bits(a)
    before = bits(t)
    shared = wf.from_dlpack(t, copy=False)
    shared[...] = 0
    assert bits(t) == before


def test_jax_computes_with_arrays() -> None:
    jax = pytest.importorskip("jax")
    a = wf.arange(6.0).reshape(2, 3)
    ones = jax.numpy.ones((2, 3))
    for found in (a + ones, ones + a):
        assert isinstance(found, wf.Array) and found.tolist() == (a + 1).tolist()
    np.testing.assert_allclose(jax.numpy.sin(jax.numpy.asarray(a)), np.sin(a.numpy()), rtol=1e-6)
