"""Whatever shows NumPy's users an array's own elements shows weft's users theirs: views of views drawn at random, written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

DTYPES = ("float32", "float64", "int32", "int64", "uint8", "complex64", "complex128", "bool")
OTHER = {1: ("uint8", "int8"), 4: ("int32", "float32", "uint32"), 8: ("int64", "float64", "uint64"), 16: ()}
Step = Callable[[Any, Any], Any]
STEPS: dict[str, Step] = {
    "real": lambda xp, a: a.real,
    "imag": lambda xp, a: a.imag if a.dtype.kind == "c" else a,
    "wf.real": lambda xp, a: xp.real(a),
    "wf.imag": lambda xp, a: xp.imag(a) if a.dtype.kind == "c" else a,
    "conj": lambda xp, a: a.conj() if a.dtype.kind != "c" else a,
    "view": lambda xp, a: a.view(OTHER[a.itemsize][0]) if a.dtype.kind not in "bc" else a,
    "bytes": lambda xp, a: a.view("uint8"),
    "halves": lambda xp, a: a.view("int32" if a.itemsize == 8 else "uint8"),
    "slice": lambda xp, a: a[1:] if len(a) > 1 else a[:1],
    "every other": lambda xp, a: a[..., ::2],
    "backwards": lambda xp, a: a[::-1],
    "transposed": lambda xp, a: a.T,
    "reshape": lambda xp, a: a.reshape(-1) if a.flags.c_contiguous else a,
    "axis": lambda xp, a: a[..., None],
    "flip": lambda xp, a: xp.flip(a),
    "ravel": lambda xp, a: xp.ravel(a) if a.flags.c_contiguous else a,
    "squeeze": lambda xp, a: xp.squeeze(a) if a.size > 1 else a,
    "swapaxes": lambda xp, a: xp.swapaxes(a, 0, -1),
    "moveaxis": lambda xp, a: xp.moveaxis(a, 0, -1),
    "expand_dims": lambda xp, a: xp.expand_dims(a, 0),
    "atleast_2d": lambda xp, a: xp.atleast_2d(a),
    "split": lambda xp, a: xp.split(a, [1])[1] if len(a) > 1 else a,
    "rot90": lambda xp, a: xp.rot90(a) if a.ndim > 1 else a,
    "rollaxis": lambda xp, a: xp.rollaxis(a, a.ndim - 1),
    "asarray": lambda xp, a: xp.asarray(a),
    "astype": lambda xp, a: a.astype(a.dtype, copy=False),
    "matrix_transpose": lambda xp, a: xp.matrix_transpose(a) if a.ndim > 1 else a,
    "ellipsis": lambda xp, a: a[...],
    "flipud": lambda xp, a: xp.flipud(a),
    "row of a Scalar": lambda xp, a: a[xp.int64(-1)] if a.ndim > 1 else a,
    "row of NumPy's integer": lambda xp, a: a[np.int16(0)] if a.ndim > 1 else a,
    "column of a Scalar": lambda xp, a: a[:, xp.uint8(0)] if a.ndim > 1 else a,
    "last of a Scalar": lambda xp, a: a[..., xp.int64(-1), None],
    "Scalars as bounds": lambda xp, a: a[xp.int64(0) : xp.int32(2), ...],
    "permute_dims": lambda xp, a: xp.permute_dims(a, tuple(range(a.ndim))[::-1]),
}
WRITES: dict[str, Step] = {
    "all": lambda xp, v: v.__setitem__(..., 1),
    "element": lambda xp, v: v.__setitem__((0,) * v.ndim, 1),
    "slice": lambda xp, v: v.__setitem__(slice(None, None, 2), 1),
    "mask": lambda xp, v: v.__setitem__(xp.asarray(np.arange(v.size).reshape(v.shape) % 2 == 0), 1),
    "indices": lambda xp, v: v.__setitem__(xp.asarray([0, 0]), 1),
    "array": lambda xp, v: v.__setitem__(..., xp.asarray(np.arange(v.size).reshape(v.shape).astype(v.dtype))),
    "in place": lambda xp, v: v.__imul__(2) if v.dtype != bool else v.__ior__(True),
    "out": lambda xp, v: xp.add(v, v, out=v),
    "fill": lambda xp, v: v.fill(1),
    "sort": lambda xp, v: v.sort(),
    "put": lambda xp, v: xp.put(v, [0], 1),
    "row of a Scalar": lambda xp, v: v[None][xp.argmax(xp.asarray([0, 1])) - 1].__setitem__(..., 1),
    "element of Scalars": lambda xp, v: v.__setitem__(tuple(xp.nonzero(xp.ones(1))[0][0] for _ in range(v.ndim)), 1),
}


def start(rng: np.random.Generator) -> np.ndarray:
    shape = ((4,), (2, 4), (3, 2), (2, 3, 2), (1, 4))[rng.integers(5)]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    x = rng.integers(0, 5, shape)
    return np.asarray(x + 1j * rng.integers(0, 5, shape)).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


def walked(xp: Any, a: Any, steps: list[str]) -> Any:
    """Where the steps lead, or the error."""
    try:
        for name in steps:
            a = STEPS[name](xp, a)
    except (ValueError, TypeError) as error:
        return error
    return a


@pytest.mark.parametrize("pending", [False, True])
def test_writes_land(pending: bool, rng: np.random.Generator, request: pytest.FixtureRequest) -> None:
    if pending:
        request.getfixturevalue("lazy")
    names, written = list(STEPS), 0
    for _ in range(150 if pending else 400):
        x = start(rng)
        steps = [names[k] for k in rng.integers(0, len(names), rng.integers(1, 4))]
        write = list(WRITES)[rng.integers(len(WRITES))]
        theirs, ours = x.copy(), wf.array(x)
        if pending:
            ours = ours + x.dtype.type(0)
        context = (steps, write, x.dtype, x.tolist())
        there, here = walked(np, theirs, steps), walked(wf, ours, steps)
        if isinstance(there, Exception) or isinstance(here, Exception):
            assert isinstance(there, Exception) and isinstance(here, Exception), (context, there, here)
            continue
        assert (here.shape, here.dtype) == (there.shape, there.dtype), (context, here, there)
        if x.dtype == bool != here.dtype and write in ("in place", "out", "array"):
            continue  # the bytes of bools are 0 and 1 alone
        np.testing.assert_array_equal(here.numpy(), there, err_msg=str(context))
        held = here[...]
        WRITES[write](np, there), WRITES[write](wf, here)
        written += 1
        np.testing.assert_array_equal(ours.numpy(), theirs, err_msg=str(context))
        np.testing.assert_array_equal(here.numpy(), there, err_msg=str(context))
        np.testing.assert_array_equal(held.numpy(), there, err_msg=str(context))
    assert written > 80
    x = np.ones((2, 4), np.float32)  # bytes of elements that do not lie together
    ours = wf.array(x) + np.float32(0) if pending else wf.array(x)
    for xp, a in ((np, x), (wf, ours)):
        assert isinstance(walked(xp, a, ["transposed", "bytes"]), ValueError)


def test_writes_land_in_traced_functions(rng: np.random.Generator) -> None:
    """Parts and readings that keep the width, written inside of jit; arguments that are such views, too."""
    for _ in range(25):
        x = start(rng)
        names = [n for n in STEPS if n not in ("bytes", "halves")]
        steps = [names[k] for k in rng.integers(0, len(names), 2)]
        theirs, ours, outside = x.copy(), wf.array(x), wf.array(x)
        there, here = walked(np, theirs, steps), walked(wf, outside, steps)
        if isinstance(there, Exception):
            continue

        def inside(a: Any, steps: list[str] = steps) -> None:
            WRITES["in place"](wf, walked(wf, a, steps))

        WRITES["in place"](np, there)
        wf.jit(inside)(ours)
        np.testing.assert_array_equal(ours.numpy(), theirs, err_msg=str((steps, x.dtype, x.tolist())))
        wf.jit(lambda v: WRITES["in place"](wf, v))(here)
        np.testing.assert_array_equal(outside.numpy(), theirs, err_msg=str((steps, x.dtype, x.tolist())))


def test_derivatives_of_parts_written() -> None:
    def f(z: wf.Array) -> wf.Array:
        w = z * 1
        w.real[1:] *= 3.0
        w.imag = w.real**2
        return wf.abs(w).sum()

    def numpys(z: np.ndarray) -> float:
        w = z * 1
        w.real[1:] *= 3.0
        w.imag = w.real**2
        return float(np.abs(w).sum())

    z = np.array([1 + 2j, 0.5 - 1j, -2 + 0.25j])
    found = wf.grad(f)(wf.array(z)).numpy()
    for k in range(3):
        slopes = []
        for unit in (1e-6, 1e-6j):
            step = np.zeros(3, complex)
            step[k] = unit
            slopes.append((numpys(z + step) - numpys(z - step)) / 2e-6)
        assert abs(found[k] - (slopes[0] - 1j * slopes[1])) < 1e-6


def test_orders(rng: np.random.Generator) -> None:
    """Row by row, column by column, as it lies: of views as well; what is a view in NumPy is one here."""
    for _ in range(150):
        x = start(rng)
        steps = [("transposed", "slice", "swapaxes", "every other", "ellipsis")[k] for k in rng.integers(0, 5, 2)]
        theirs, ours = x.copy(), wf.array(x)
        there, here = walked(np, theirs, steps), walked(wf, ours, steps)
        for order in "CFAK":
            context = (steps, order, x.shape)
            np.testing.assert_array_equal(here.flatten(order).numpy(), there.flatten(order), err_msg=str(context))
            np.testing.assert_array_equal(wf.ravel(here, order).numpy(), np.ravel(there, order), err_msg=str(context))
            if order != "K":
                for shape in ((-1,), (2, -1), (1, -1, 1)):
                    if there.size % 2 == 0 or shape[0] != 2:
                        want = np.reshape(there, shape, order)
                        np.testing.assert_array_equal(here.reshape(shape, order=order).numpy(), want, err_msg=str(context))
                        np.testing.assert_array_equal(wf.reshape(here, shape, order).numpy(), want, err_msg=str(context))
        wf.ravel(here, "F")[...] = 1
        np.ravel(there, "F")[...] = 1
        np.testing.assert_array_equal(ours.numpy(), theirs, err_msg=str((steps, x.shape)))
    for call in (lambda a: a.reshape(4, order="K"), lambda a: wf.ravel(a, "R"), lambda a: a.flatten("X")):
        with pytest.raises(ValueError, match="order=.* must be one of 'C', 'F', 'A'"):
            call(wf.ones(4))


def test_what_cannot_be_written_says_so() -> None:
    for a in (wf.ones(3), wf.arange(3)):
        assert a.imag.tolist() == [0, 0, 0]
        for write in (lambda v: v.__setitem__(0, 1), lambda v: v.__setitem__(slice(0, 2), 1), lambda v: v.fill(2)):
            with pytest.raises(TypeError, match="has no imaginary part to be set; cast it with .astype"):
                write(a.imag)
    with pytest.raises(ValueError, match="view: an array without dimensions of float32 cannot be read as int8"):
        wf.array(1.0).view("int8")
    with pytest.raises(ValueError, match="of another width, only if the last axis is contiguous"):
        wf.ones((4, 4)).T.view("int8")
    with pytest.raises(ValueError, match="rows of 3 float32, 12 bytes, cannot be read as float64"):
        wf.ones((2, 3)).view("float64")
    s = wf.array([1 + 2j])[0]
    assert isinstance(s.real, wf.Scalar) and (s.real, s.imag) == (1.0, 2.0) and wf.float32(2.0).imag == 0
