"""``x.to`` in all of PyTorch's spellings, on the CPU; and what another library tells wrongly of its memory on a card."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError

DEVICES = ("cpu", "cpu:0")
DTYPES = ("float16", wf.float32, np.float64, np.dtype("int32"), bool)
NOTHING = object()


def spelled() -> list[tuple[tuple[Any, ...], dict[str, Any], Any]]:
    """(arguments, keywords, the dtype asked for or None): each part by position, by keyword or left out."""
    found: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []
    for device, dtype, copy in itertools.product((NOTHING, *DEVICES), (NOTHING, *DTYPES), (NOTHING, False, True)):
        more = {} if copy is NOTHING else {"copy": copy}
        wanted = None if dtype is NOTHING else dtype
        if dtype is not NOTHING:
            found.append(((), {"dtype": dtype, **({} if device is NOTHING else {"device": device}), **more}, wanted))
        if device is not NOTHING:
            found.append(((device, *([] if dtype is NOTHING else [dtype])), more, wanted))
            found.append(((device,), {**({} if dtype is NOTHING else {"dtype": dtype}), "non_blocking": True, **more}, wanted))
        if device is NOTHING and dtype is not NOTHING:
            found += [((dtype,), more, wanted), ((dtype, True), more, wanted)]  # the second is non_blocking
    return found


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_every_spelling(dtype: str, rng: np.random.Generator) -> None:
    content = (rng.normal(size=(3, 4)) * 3).astype(dtype)
    for of in (lambda: wf.array(content), lambda: wf.array(content) + wf.zeros((), dtype), lambda: wf.array(content)[1, 2]):
        for args, kwargs, wanted in spelled():
            x = of()
            found = x.to(*args, **kwargs)
            want = np.dtype(x.dtype if wanted is None else getattr(wf, str(wanted), wanted))
            assert (found.dtype, found.device, type(found)) == (want, "cpu", type(x)), (args, kwargs)
            np.testing.assert_array_equal(found.numpy(), x.numpy().astype(want))
            assert (found is x) == (want == x.dtype and not kwargs.get("copy"))


def test_another_array() -> None:
    x = wf.arange(3)
    for other in (wf.ones(2, dtype="float16"), wf.ones(2) > 0, wf.ones(2).sum(), x):
        found = x.to(other)
        assert found.dtype == other.dtype and found.device == other.device and (found is x) == (other.dtype == x.dtype)
    assert x.to(wf.ones(1), copy=True).dtype == "float32" and x.to(x, copy=True) is not x


def test_nothing_is_moved_in_traces() -> None:
    x = wf.ones(3)
    assert wf.jit(lambda v: v.to("cpu", "float64") + 1)(x).dtype == "float64"
    assert wf.jit(lambda v: v.to(x) + 1)(x).tolist() == [2, 2, 2]
    assert wf.grad(lambda v: (v.to("cpu", dtype="float64") ** 2).sum())(x).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda x: x.to("zzz"), DTypeError, "^to: target: 'zzz' is neither a device nor a dtype; devices are 'cpu', .*, dtypes such"),
    (lambda x: x.to(3), DTypeError, "^to: target: 3 is neither a device nor a dtype"),
    (lambda x: x.to([1.0]), DTypeError, "^to: target: .* is neither a device nor a dtype"),
    (lambda x: x.to(), TypeError, "^to: give a device, a dtype, both or an array"),
    (lambda x: x.to(copy=True), TypeError, "^to: give a device, a dtype, both or an array"),
    (lambda x: x.to("cpu", "zzz"), DTypeError, "^to: dtype: 'zzz' is not a dtype; weft has bool"),
    (lambda x: x.to(device="zzz"), ValueError, "^to: no device 'zzz'; there are 'cpu'"),
    (lambda x: x.to(device=3), ValueError, "^to: no device 3; there are 'cpu'"),
    (lambda x: x.to("cpu:1"), ValueError, "^to: no device 'cpu:1'"),
    (lambda x: x.to("cpu", device="cpu"), TypeError, "^to: the device is given twice, as 'cpu' and as device='cpu'"),
    (lambda x: x.to("int8", "int16"), TypeError, "^to: the dtype is given twice, as 'int8' and as 'int16'"),
    (lambda x: x.to(x, "int16"), TypeError, "^to: the dtype is given twice"),
    (lambda x: x.to("cpu", memory=3), TypeError, r"^Array\.to\(\) got an unexpected keyword argument 'memory'"),
])
def test_refused(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(wf.ones(3))


def test_pythons_own_errors_name_the_class_that_users_know() -> None:
    names = [name for name in dir(wf.Array) if not name.startswith("_") and hasattr(wf.Array, name)]
    wrong = [name for name in names if not getattr(getattr(wf.Array, name), "__qualname__", name).startswith(("Array.", name))]
    assert len(names) > 60 and not wrong


GOOD = {"shape": (3,), "typestr": "<f4", "data": (4096, True), "strides": None, "version": 3}
WRONG: dict[str, tuple[Any, ...]] = {
    "shape": (None, 3, "ab", (1.5,), (-1,), ("3",)),
    "typestr": (None, 4, b"<f4"),
    "data": (None, 4096, (), (4096,), ("x", True), (-8, True), (None, True), (1.5, False)),
    "strides": (4, (4.0,), (4, 4), ()),
    "version": (None, "3", 2.5),
}


@pytest.mark.parametrize("make", [wf.asarray, wf.array, lambda x: wf.ones(3) + x], ids=["asarray", "array", "add"])
def test_what_a_library_tells_wrongly_of_its_memory(make: Any) -> None:
    """A sentence that names function and entry, before any card is asked for."""
    given: list[tuple[Any, str]] = [(x, "must be a dict with shape, typestr and data, not") for x in (None, 5, "text", (), [1])]
    for key in ("shape", "typestr", "data"):
        given += [({k: v for k, v in GOOD.items() if k != key}, f"says nothing about '{key}'")]
    for key, values in WRONG.items():
        given += [({**GOOD, key: value}, "tells " + ("shape=" if value in ((4, 4), ()) and key == "strides" else f"{key}="))
                  for value in values]
    for described, says in given:
        theirs = type("Theirs", (), {"__cuda_array_interface__": described})()
        with pytest.raises(BufferError, match=rf"^\w+: __cuda_array_interface__ {says}"):
            make(theirs)
