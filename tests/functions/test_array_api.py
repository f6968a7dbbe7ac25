"""The array API standard, 2025.12: names and parameters beside those of array-api-strict, and what a library says of itself.

What functions compute the standard's own suite tests: tools/array_api.sh.
"""

from __future__ import annotations

import inspect
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import weft as wf
from weft.errors import DeviceError, DTypeError

strict.set_array_api_strict_flags(api_version="2025.12")
NAMES = [(room, n) for room in ("", "linalg", "fft") for n in (getattr(strict, room) if room else strict).__all__]
SPECIAL = ("__dlpack__", "__dlpack_device__", "__array_namespace__", "__complex__", "__index__")
OWN = {*(f"{do}_array_api_strict_flags" for do in ("set", "get", "reset")), "ArrayAPIStrictFlags", "Device"}
FOREIGN = {"linalg", "fft", "__version__"} | OWN  # no functions of the standard
NOT_YET = {n for n in ("cumulative_prod", "diff") if not hasattr(wf, n)}  # of NumPy's chapter on differences
OURS = [(room, n) for room, n in NAMES if n not in FOREIGN | NOT_YET]


def of(library: Any, room: str, name: str) -> Any:
    return getattr(getattr(library, room) if room else library, name)


def parameters(f: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(f).parameters)


@pytest.mark.parametrize("room, name", OURS)
def test_names_and_parameters(room: str, name: str) -> None:
    theirs, ours = of(strict, room, name), of(wf, room, name)
    if not inspect.isfunction(theirs):
        return
    have = parameters(ours)
    for word, wanted in parameters(theirs).items():
        if wanted.kind in (wanted.VAR_POSITIONAL, wanted.VAR_KEYWORD, wanted.POSITIONAL_ONLY):
            continue
        assert word in have, f"{name} has no parameter {word}"
        if wanted.kind is wanted.POSITIONAL_OR_KEYWORD:
            assert have[word].kind is wanted.kind, f"{name}: {word} must be given by place or by name"
        if wanted.default is not wanted.empty:
            assert have[word].default is not wanted.empty, f"{name}: {word} must have a default"
    places = [p for p in have.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wants = [p for p in parameters(theirs).values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    assert len(places) >= len(wants) or any(p.kind is p.VAR_POSITIONAL for p in have.values())


def test_the_comparison_would_notice() -> None:
    assert len(OURS) > 180 and {("", "matmul"), ("linalg", "svd"), ("fft", "irfftn")} <= set(OURS)
    assert "no_such_name" not in dir(wf) and not hasattr(wf.linalg, "no_such_name")


def test_methods() -> None:
    for name in dir(strict.asarray([1.0]).__class__):
        if not name.startswith("_") or name in SPECIAL:
            assert hasattr(wf.Array, name), name
    x = wf.ones(3)
    assert x.device == "cpu" and x.to_device("cpu") is x and x.__dlpack_device__() == (1, 0)
    assert x.__array_namespace__() is wf is x.__array_namespace__(api_version="2025.12")
    with pytest.raises(ValueError, match="weft supports the array API of 2021.12, .*, not '1999.12'"):
        x.__array_namespace__(api_version="1999.12")
    with pytest.raises(ValueError, match="no device 'cuda'; there are 'cpu', 'gpu-sim' and 'gpu'"):
        x.to_device("cuda")
    assert x.to("cpu") is x and x.to(wf.float64).dtype == "float64" == x.to("float64").dtype
    if "gpu" not in wf.__array_namespace_info__().devices():
        for name in ("cuda", "cuda:0", "gpu"):
            with pytest.raises(DeviceError, match="device 'gpu': "):
                x.to(name)
    for name in ("cuda:x", "gpu:01", "gpu:-1", "gpu:"):
        with pytest.raises(ValueError, match="no device 'gpu:"):
            x.to(name)
    with pytest.raises(RuntimeError, match="the CPU has no streams"):
        x.__dlpack__(stream=1)


def test_what_it_says_of_itself() -> None:
    info = wf.__array_namespace_info__()
    assert wf.__array_api_version__ == "2025.12" and info.default_device() == "cpu" == info.devices()[0]
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_dtypes()["complex floating"] == wf.array(1j).dtype and info.default_dtypes()["integral"] == wf.int64
    assert info.default_dtypes()["real floating"] == wf.ones(1).dtype
    assert set(info.dtypes()) == set(strict.__array_namespace_info__().dtypes())
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    with pytest.raises(DTypeError, match="kind=3 must be the name of a kind"):
        info.dtypes(kind=3)
    with pytest.raises(DTypeError, match="unknown kind"):
        info.dtypes(kind="odd")
    with pytest.raises(ValueError, match="no device 'tpu'"):
        info.dtypes(device="tpu")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "complex64",
                                   "complex128"])
def test_limits_are_pythons_numbers(dtype: str) -> None:
    found = wf.finfo(dtype)
    assert all(type(getattr(found, n)) is float for n in ("eps", "max", "min", "smallest_normal")) and type(found.bits) is int
    assert found.dtype == {"complex64": wf.float32, "complex128": wf.float64}.get(dtype, getattr(wf, dtype))
    assert found.max == -found.min > 0 < found.smallest_normal < found.eps < 1
    assert wf.finfo(wf.ones(1, dtype=dtype)).eps == found.eps
    with pytest.raises(AttributeError):
        found.no_such_limit  # noqa: B018


CREATION = {
    "zeros": (3,), "ones": (3,), "empty": (3,), "full": (3, 1.0), "arange": (3,), "linspace": (0, 1, 3), "eye": (2,),
    "zeros_like": (wf.ones(2),), "ones_like": (wf.ones(2),), "empty_like": (wf.ones(2),), "full_like": (wf.ones(2), 2),
    "asarray": ([1.0],), "from_dlpack": (np.ones(2),), "astype": (wf.ones(2), wf.int32),
}


@pytest.mark.parametrize("name", CREATION)
def test_devices(name: str) -> None:
    f, args = getattr(wf, name), CREATION[name]
    np.testing.assert_array_equal(f(*args, device="cpu"), f(*args))
    with pytest.raises(ValueError, match=f"{name}: no device 'cuda'; there are 'cpu', .*; what others call 'cuda' is 'gpu' here"):
        f(*args, device="cuda")
    with pytest.raises(ValueError, match=f"{name}: no device 'auto'; .* an array lies on one of these"):
        f(*args, device="auto")
    assert wf.jit(lambda: f(*args, device="cpu") * 2)().tolist() == (f(*args) * 2).tolist()


def test_cupys_names() -> None:
    x = wf.arange(3) * 2
    for found in (x.get(), wf.asnumpy(x), wf.asnumpy([0, 2, 4])):
        assert type(found) is np.ndarray and found.flags.writeable and found.tolist() == [0, 2, 4]
        found[0] = 7
    assert x.tolist() == [0, 2, 4]


def test_copies() -> None:
    x = wf.arange(3.0)
    assert wf.asarray(x, copy=False) is x and wf.asarray(x, copy=True) is not x
    for given, dtype in (([1.0], None), (np.ones(2), None), (x, "float64"), (1.0, None)):
        with pytest.raises(ValueError, match="asarray: copy=False needs an Array that already has the dtype"):
            wf.asarray(given, dtype, copy=False)
    with pytest.raises(BufferError, match=r"^from_dlpack: with copy=False the memory must lie row by row; .* strides \(16,\)"):
        wf.from_dlpack(np.ones(4)[::2], copy=False)
    assert wf.from_dlpack(x, copy=False).tolist() == wf.from_dlpack(x, copy=True).tolist() == x.tolist()


def test_lists_of_lists_of_scalars_keep_their_shape() -> None:
    x = wf.arange(6.0).reshape(2, 3)
    assert wf.asarray([[x[1, 1]]]).shape == (1, 1)
    assert wf.asarray([[x[i, j] for i in range(2)] for j in range(3)]).tolist() == x.T.tolist()
