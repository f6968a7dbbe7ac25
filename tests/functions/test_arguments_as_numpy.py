"""Arguments of NumPy's functions beside their operands, drawn at random against NumPy: values, shapes, kinds of dtypes, refusals.

What differs on purpose is listed with its reason.
"""

from __future__ import annotations

import array
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.test_calls_as_numpy import DTYPES, content, outcome, same

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
SHAPES = ((3,), (1,), (3, 3), (2, 3), (2, 1, 3), (0, 2))
Rng = np.random.Generator


def pick(rng: Rng, given: Any) -> Any:
    return given[int(rng.integers(len(given)))]


def compare(f: Callable[[Any], Any], context: Any) -> None:
    """``f(library)`` of both."""
    same(outcome(lambda: f(wf)), outcome(lambda: f(np)), context)


# ---- one function each: rng -> (what is called with a library, what it is about)

def insert(rng: Rng) -> Any:
    shape = pick(rng, SHAPES)
    axis = pick(rng, (None, 0, -1, 1))
    extent = int(np.prod(shape)) if axis is None else shape[axis % len(shape)] if axis < len(shape) else 3
    places = [
        int(rng.integers(-extent - 1, extent + 2)), [int(rng.integers(-extent, extent + 1))],
        rng.integers(-extent, extent + 1, int(rng.integers(0, 4))).tolist(), slice(*rng.integers(0, 4, 2).tolist()),
        rng.random(extent) < 0.5, np.array(int(rng.integers(-extent, extent + 1))), [[0]],
    ]
    obj, x = pick(rng, places), content(rng, shape, pick(rng, DTYPES))
    values = np.arange(100, 118)[: int(rng.integers(1, 19))]
    for factor in ((2, 3), (3, 1), (1, 3), (1, 1, 3), (3, 3), (2, 1)):
        if values.size == np.prod(factor) and rng.random() < 0.6:
            values = values.reshape(factor)
    if x.dtype == bool or x.dtype == np.uint8:
        values = values.astype(x.dtype)
    return lambda xp: xp.insert(xp.asarray(x), obj, xp.asarray(values), axis), (shape, axis, obj, values.shape)


def reflected(rng: Rng) -> Any:
    x = content(rng, pick(rng, SHAPES), pick(rng, DTYPES))
    widths = [int(rng.integers(0, 13)), tuple(rng.integers(0, 9, 2).tolist()), {-1: (1, 2)}, {0: 3},
              [tuple(p) for p in rng.integers(0, 9, (x.ndim, 2)).tolist()]]
    width, mode, kind = pick(rng, widths), pick(rng, ("reflect", "symmetric")), pick(rng, ("odd", "odd", "even"))
    return lambda xp: xp.pad(xp.asarray(x), width, mode, reflect_type=kind), (x.dtype, x.tolist(), width, mode, kind)


def padded_by_a_function(rng: Rng) -> Any:
    x, width = content(rng, pick(rng, SHAPES[:-1]), pick(rng, DTYPES[1:])), tuple(rng.integers(0, 4, 2).tolist())
    given = {"fill": 3, "constant_values": 2} if rng.random() < 0.5 else {}

    def write(line: Any, widths: tuple[int, int], axis: int, kwargs: dict[str, Any]) -> None:
        line[: widths[0]] = kwargs.get("fill", 1) + axis
        if widths[1]:
            line[-widths[1]:] = line[0] + len(kwargs)

    return lambda xp: xp.pad(xp.asarray(x), width, write, **given), (x.dtype, x.tolist(), width, given)


def padded_with_an_argument_of_another_mode(rng: Rng) -> Any:
    modes = "constant edge linear_ramp maximum mean median minimum reflect symmetric wrap empty nonsense".split()
    arguments = {"constant_values": 3, "end_values": 3, "stat_length": 2, "reflect_type": "odd", "fill": 1}
    mode, name = pick(rng, modes), pick(rng, [*arguments])
    return lambda xp: xp.pad(xp.asarray([1.0, 2.0, 4.0]), 0, mode, **{name: arguments[name]}), (mode, name)


def window(rng: Rng) -> Any:
    name, size = pick(rng, "bartlett blackman hamming hanning kaiser".split()), pick(rng, (-1, 0, 1, 4, 7, 4.0, 4.5, 1.0, True))
    size = pick(rng, (size, np.float64(size), np.int64(size)))
    return lambda xp: getattr(xp, name)(size, *([2.5] if name == "kaiser" else [])), (name, size)


def logspace(rng: Rng) -> Any:
    bases = [2.0, 3, np.float64(2), [2.0, 4.0], *map(np.array, ([2.0, 3.0], [[2.0], [3.0]], 5.0, [2.0, 3.0, 4.0]))]
    start, stop = pick(rng, (0, 1.5, [0.0, 1.0], np.array([[1.0], [0.5]]))), pick(rng, (3, [2.0, 2.5], np.array(2.0)))
    given: dict[str, Any] = {"num": int(rng.integers(0, 5)), "endpoint": bool(rng.integers(2)), "axis": int(rng.integers(-1, 2))}
    given["base"] = pick(rng, bases)

    def call(xp: Any) -> Any:
        known = {k: xp.asarray(v) if isinstance(v, np.ndarray) and v.ndim else v for k, v in given.items()}
        return xp.logspace(*(xp.asarray(x) if isinstance(x, np.ndarray) else x for x in (start, stop)), **known)

    return call, (start, stop, given)


def geomspace(rng: Rng) -> Any:
    ends = [1, 1000, -10, 0.5, 1j, 1e6, 0, np.array([1.0, 2.0]), np.array([0.0, 1.0]), [4.0, 9.0]]
    start, stop, num = pick(rng, ends), pick(rng, ends), int(rng.integers(1, 8))
    given = (start, stop)
    return lambda xp: xp.geomspace(*(xp.asarray(x) if isinstance(x, np.ndarray) else x for x in given), num), (given, num)


def arange(rng: Rng) -> Any:
    numbers = (0, 3, -2, 7, 2.5, None)
    args = [pick(rng, numbers) for _ in range(int(rng.integers(0, 3)))]
    given = {name: pick(rng, numbers) for name in ("start", "stop", "step") if rng.random() < 0.4}
    if None in (args[:1] or [given.get("start", 0)]) or ("start" in given and "stop" not in given and len(args) < 2):
        args, given = [3], {}  # None in front of a stop, and a start by name without one, are taken for what they can only mean
    return lambda xp: xp.arange(*args, **given), (args, given)


def iterables(rng: Rng) -> Any:
    extents = rng.integers(0, 4, int(rng.integers(0, 4))).tolist()
    made = {"tuple": tuple, "list": list, "range": lambda e: range(len(e)), "array": lambda e: array.array("i", e), "iter": iter,
            "numpy": lambda e: np.array(e, int), "keys": lambda e: dict.fromkeys(e).keys()}
    kind, name = pick(rng, [*made]), pick(rng, ("zeros", "full", "broadcast_to", "tile", "indices"))
    if kind in ("iter", "keys") and name in ("zeros", "full"):  # NumPy takes sequences there, and nothing else that is iterated
        kind = "list"

    def call(xp: Any) -> Any:
        shape = made[kind](extents)
        calls = {
            "zeros": lambda: xp.zeros(shape), "full": lambda: xp.full(shape, 2),
            "broadcast_to": lambda: xp.broadcast_to(1, shape), "tile": lambda: xp.tile(xp.arange(2), shape),
            "indices": lambda: xp.indices(shape),
        }
        return calls[name]()

    return call, (name, kind, extents)


def joined(rng: Rng) -> Any:
    x, y = (content(rng, (3,), pick(rng, DTYPES)) for _ in range(2))
    name, into = pick(rng, ("concatenate", "stack")), pick(rng, DTYPES)
    given = {"casting": pick(rng, CASTINGS)} if rng.random() < 0.7 else {}
    if given.get("casting") == "safe":
        given = {}  # float32, which weft makes of an integer and a float32, is not safe

    def call(xp: Any) -> Any:
        out = xp.zeros((2, 3) if name == "stack" else 6, dtype=into)
        assert getattr(xp, name)([xp.asarray(x), xp.asarray(y)], out=out, **given) is out
        return out

    return call, (name, x.dtype, y.dtype, into, given)


def clipped_or_summed(rng: Rng) -> Any:
    """Under a rule by which operands of two dtypes may not be cast, and in a dtype that is asked for."""
    names = [pick(rng, ("int32", "int64", "float32", "float64", "complex64")) for _ in range(2)]
    x, y = (content(rng, (3,), name) for name in names)
    given = {"casting": pick(rng, CASTINGS)} if rng.random() < 0.7 else {}
    if rng.random() < 0.6:
        given["dtype"] = pick(rng, ("int32", "float32", "float64", "complex64"))
    method = pick(rng, ("einsum", "clip", "method"))
    calls = {
        "einsum": lambda xp: xp.einsum("i,i->i", xp.asarray(x), xp.asarray(y), **given),
        "clip": lambda xp: xp.clip(xp.asarray(x), xp.asarray(y), None, **given),
        "method": lambda xp: xp.asarray(x).clip(None, xp.asarray(y), **given),
    }
    return calls[method], (method, names, given)


def polynomials(rng: Rng) -> Any:
    name = pick(rng, ("polyadd", "polysub", "polymul", "polydiv", "polyder", "polyint", "polyval"))
    lines = [rng.integers(-2, 4, int(rng.integers(1, 4))).tolist() for _ in range(2)]
    lines[1][0] = lines[1][0] or 1.0
    kinds = [pick(rng, ("list", "poly1d", "array")) for _ in range(2)]

    def call(xp: Any) -> Any:
        make = {"poly1d": xp.poly1d, "array": xp.asarray, "list": list}
        a, b = (make[kind](v) for v, kind in zip(lines, kinds, strict=True))
        found = getattr(xp, name)(a, *([] if name in ("polyder", "polyint") else [b]))
        parts = found if isinstance(found, tuple) else (found,)  # of arrays with one element more, so that kinds differ in length
        return [part.coeffs if hasattr(part, "coeffs") else np.append(np.asarray(part), 12345) for part in parts]

    return call, (name, lines, kinds)


def put(rng: Rng) -> Any:
    places = [rng.random(6) < 0.5, [0, -1], [5], [True, False], rng.integers(-6, 6, 3), [9]]
    where, mode = pick(rng, places), pick(rng, ("raise", "clip", "wrap"))
    values = pick(rng, (7, [7, 8], [1, 2, 3, 4, 5, 6]))

    def call(xp: Any) -> Any:
        x = xp.zeros((2, 3), dtype="int64")
        xp.put(x, xp.asarray(where) if isinstance(where, np.ndarray) else where, values, mode=mode)
        return x

    return call, (where, values, mode)


def put_along_axis(rng: Rng) -> Any:
    axis = pick(rng, (None, 0, 1))
    shapes = {None: (2,), 0: (1, 3), 1: (2, 1)}
    places, values = rng.integers(-2, 2, pick(rng, (shapes[axis], (2, 3)))), pick(rng, (7, 8.5))
    take = rng.random() < 0.5

    def call(xp: Any) -> Any:
        x = xp.arange(6.0).reshape(2, 3)
        if take:
            return xp.take_along_axis(x, xp.asarray(places), axis)
        xp.put_along_axis(x, xp.asarray(places), values, axis)
        return x

    return call, (axis, places.tolist(), take)


def walked(rng: Rng) -> Any:
    """Arrays for None, which nditer makes."""
    shapes = pick(rng, (((3,), (3,)), ((2, 1), (3,)), ((), (2,)), ((2, 3), ()), ((2,), (3,))))
    x, y = (content(rng, shape, pick(rng, ("int64", "float32", "float64"))) for shape in shapes)
    wanted = pick(rng, (None, [None, None, "float64"]))

    def call(xp: Any) -> Any:
        with xp.nditer([xp.asarray(x), xp.asarray(y), None], op_dtypes=wanted) as walk:
            for a, b, c in walk:
                c[...] = a * b + 1
            return walk.operands[2]

    return call, (x.dtype, y.dtype, shapes, wanted)


def least_squares(rng: Rng) -> Any:
    """The rank, by singular values that stand clear of every tolerance."""
    sizes = np.array([1.0, 0.4, 0.03, pick(rng, (1e-9, 1.8e-16, 1e-20))])
    rcond = pick(rng, (None, -1, 0, 1e-3, 0.2, 0.9, 1, 3.0, -0.5))
    return lambda xp: xp.linalg.lstsq(xp.asarray(np.diag(sizes)), xp.asarray(np.ones(4)), rcond=rcond)[2:], (sizes, rcond)


CASES = [
    insert, reflected, padded_by_a_function, padded_with_an_argument_of_another_mode, window, logspace, geomspace, arange,
    iterables, joined, clipped_or_summed, polynomials, put, put_along_axis, walked, least_squares,
]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_numpy(case: Callable[[Rng], Any], rng: Rng) -> None:
    for _ in range(150):
        call, context = case(rng)
        compare(call, (case.__name__, context))


def test_powers_of_ten_are_exact() -> None:
    for last in range(1, 20):
        assert wf.geomspace(1, 10.0**last, last + 1, dtype="float64").tolist() == [10.0**k for k in range(last + 1)]
        assert wf.logspace(0, last, last + 1, dtype="float64").tolist() == [10.0**k for k in range(last + 1)]


def test_dtypes_are_asked_for_by_every_spelling() -> None:
    for given in (np.float32, "float32", "f4", np.dtype("f4"), np.float32(1), wf.float32, wf.ones(2), wf.ones(())[()]):
        assert wf.finfo(given).eps == np.finfo(np.float32).eps and wf.can_cast(given, "float64")
    for kind in (np.int8, "int8", np.int8(3), wf.int8, wf.zeros(2, dtype="int8")):
        assert wf.iinfo(kind).max == 127
    assert wf.finfo(1.0).dtype == wf.get_default_dtype() and wf.iinfo(3).bits == 64
    for wrong in (np.floating, np.generic, "x", [1.0]):
        for ask in (wf.finfo, wf.iinfo):
            with pytest.raises(wf.errors.DTypeError):
                ask(wrong)


def test_ufuncs_say_what_they_take() -> None:
    """Of NumPy's types those that weft has, and all of these."""
    letters = {np.dtype(name).char for name in (*DTYPES, "int8", "int16", "int32", "uint16", "uint32", "float16")}
    for name in dir(np):
        theirs, ours = getattr(np, name), getattr(wf, name, None)
        if isinstance(theirs, np.ufunc) and name != "isnat":
            assert [getattr(ours, k) for k in ("nin", "nout", "nargs", "identity", "signature")] == [
                getattr(theirs, k) for k in ("nin", "nout", "nargs", "identity", "signature")], name
            want = [t for t in theirs.types if set(t) <= letters | {"-", ">"}]
            assert ours.types == want and ours.ntypes == len(want), name  # type: ignore[union-attr]


def test_flags(rng: Rng) -> None:
    """Every attribute and every key, but for those that say who owns memory, and the word of bits that is NumPy's own."""
    makes: list[Callable[[Any], Any]] = [
        lambda xp: xp.ones((2, 3)), lambda xp: xp.ones((2, 3)).T, lambda xp: xp.ones(3), lambda xp: xp.ones((4, 4))[::2, ::2],
        lambda xp: xp.array(3.0), lambda xp: xp.ones((2, 3))[:, :0], lambda xp: xp.ones((3, 1)), lambda xp: xp.ones((2, 3))[::-1],
    ]
    for make in makes:
        ours, theirs = make(wf).flags, make(np).flags
        for name in dir(theirs):
            if not name.startswith("_") and name not in ("owndata", "num", "farray"):  # NumPy says farray of what is none, too
                assert getattr(ours, name) == getattr(theirs, name), name
        for key in "C F CA B BEHAVED W A X WRITEABLE C_CONTIGUOUS CONTIGUOUS F_CONTIGUOUS FORTRAN FNC FORC CARRAY".split():
            assert ours[key] == theirs[key], key
    with pytest.raises(KeyError):
        wf.ones(2).flags["nonsense"]


def test_seeds() -> None:
    for seed in (range(3), [0, 1, 2], np.arange(3), wf.arange(3), (0, 1, 2)):
        a, b = wf.random.default_rng(seed), wf.random.default_rng([0, 1, 2])
        assert a.random(3).tolist() == b.random(3).tolist()
        wf.random.seed(seed)
        x = wf.random.rand(3)
        wf.random.seed([0, 1, 2])
        assert x.tolist() == wf.random.rand(3).tolist()


# parameters that weft does not take, and why
MISSING = {
    "iinfo": {"int_type"}, "einsum_path": {"einsum_call"},  # given by place
    "nditer": {"casting", "op_axes", "itershape", "buffersize"},  # nothing is cast or buffered
    "random.Generator": {"bit_generator"}, "random.Philox": {"counter", "key"}, "random.get_state": {"legacy"},  # states differ
}


@pytest.mark.parametrize("room", ["", "linalg", "random", "fft", "lib.stride_tricks", "emath"])
def test_every_parameter_of_numpy_is_taken(room: str) -> None:
    theirs, ours = np, wf
    for part in filter(None, room.split(".")):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    for name in dir(theirs):
        try:
            want = inspect.signature(getattr(theirs, name)).parameters
            have = inspect.signature(getattr(ours, name)).parameters
        except (TypeError, ValueError, AttributeError):
            continue  # no function, or one of C's without a signature, or one that weft has not
        if name.startswith("_") or isinstance(getattr(theirs, name), np.ufunc):
            continue
        if any(p.kind is p.VAR_KEYWORD for p in have.values()):
            continue
        named = {k for k, p in want.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        missing = named - have.keys() - MISSING.get(f"{room}.{name}".lstrip("."), set())
        assert not missing, (name, missing)


def test_a_part_of_a_huge_broadcast_is_read() -> None:
    """As large as no memory: what a look at one element needs is computed, and the rest stays pending."""
    huge = wf.broadcast_to(wf.array([3, 4]), (1 << 40, 2))
    parts = wf.array_split(huge, 4)
    assert [p.shape for p in parts] == [(1 << 38, 2)] * 4 and parts[3][5].tolist() == [3, 4]
    assert int(huge[7, 1] + parts[0][1, 0]) == 7 and huge[::1 << 39].tolist() == [[3, 4], [3, 4]]


def test_what_broadcasts_repeat_is_stored_and_they_are_not() -> None:
    x = wf.arange(300.0) * 2
    wide = wf.broadcast_to(wf.exp(x), (500, 300))
    assert float((wide + 1).sum()) > 0
    (behind,) = wide.node.inputs
    assert behind.value is not None and wide.node.value is None
    assert wide.numpy().shape == (500, 300) and wide.node.value is not None
