"""NumPy's functions called with Arrays: every one that dispatches, with arguments that NumPy takes, by place and by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.array.numpy_calls import as_ours

V = np.array([0.5, 1.5, 2.0, 0.25])
M = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
K = np.array([2, 0, 1, 3])
B = np.array([True, False, True, True])
ARGUMENTS: list[tuple[Any, ...]] = [
    (V,), (M,), (V, V), (M, M), (M, 1), (V, 2), (V, 1.5), (B, V), (V, K), (M, K[:2] % 3), (M, (1, 0)), (M, 0, 1), (B, V, V),
    (V, V, V), (K,), (K, K), (B,), (V, K, 0), (V, 1, V), (V, 0.5), ("ij,jk->ik", M, M), (V, [V > 1], [V]), (V, 4, V),
    (M, B[:3], V[:3]),
    (V, B, V), (V, (2, 2)), (K, (4, 4)), (K, (4,)), (M, (2, 3, 3)), (M[None, None], 2), (K.astype("uint8"),),
    (V[:, None], K[:, None], 0),
    (K, np.float64), (M, K[:3, None] % 3, V[:3, None], 1), (np.eye(4).reshape(2, 2, 2, 2), V.reshape(2, 2)),
]
LISTS: dict[str, tuple[Any, ...]] = {
    **{name: ([V, V],) for name in ("concatenate", "concat", "stack", "hstack", "vstack", "dstack", "column_stack", "block")},
    "lexsort": ((V, K),), "ravel_multi_index": ((K, K), (4, 4)), "dsplit": (np.ones((2, 2, 4)), 2),
    "select": ([B, ~B], [V, V]), "linalg.multi_dot": ([M, M, M],),
}
CALLED: dict[str, tuple[Any, ...]] = {"apply_along_axis": (np.sum, 0, M), "apply_over_axes": (np.sum, M, [0])}
NUMPYS = {"linspace", "arange", "full"}  # of one number, not of arrays
LEFT_OUT = {
    "save", "savez", "savez_compressed", "savetxt", "array_repr", "array_str", "array2string", "datetime_as_string", "isnat",
    "busday_count", "busday_offset", "is_busday",  # files, texts, dates
    "shares_memory", "may_share_memory",
}
# where the answers may differ: nothing is promised (empty_like, a sorted array is asked for), or the standard's sorted order
UNLIKE = {"empty_like", "searchsorted", "unique_values"}
# what weft refuses though NumPy answers, each with the arguments' kinds
REFUSED = {
    "choose": "must hold integers, but has dtype bool", "roll": "shift must be an integer",
    "poly": "a vector of coefficients is needed",
    **dict.fromkeys(("polyadd", "polysub", "polyval"), "a vector of coefficients is needed"),
}
ROOMS = {"": (np, wf), "linalg.": (np.linalg, wf.linalg), "fft.": (np.fft, wf.fft)}
FUNCTIONS = {
    room + name: getattr(theirs, name) for room, (theirs, _) in ROOMS.items() for name in sorted(dir(theirs))
    if not name.startswith("_") and name not in LEFT_OUT
    and (hasattr(getattr(theirs, name), "_implementation") or isinstance(getattr(theirs, name), np.ufunc))
}


def deep(x: Any, change: Callable[[np.ndarray], Any]) -> Any:
    if isinstance(x, np.ndarray):
        return change(x)
    if type(x) is dict:
        return {name: deep(item, change) for name, item in x.items()}
    return type(x)([deep(item, change) for item in x]) if type(x) in (list, tuple) else x


def flat(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in flat(item)] if isinstance(x, tuple | list) else [x]


def calls(name: str, f: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], Any]]:
    """At most two ways of calling by place and two by name that NumPy takes, with NumPy's answer and what it has written."""
    names = [] if isinstance(f, np.ufunc) else [
        p.name for p in inspect.signature(f).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    found = {True: 0, False: 0}
    for given in [x[name] for x in (LISTS, CALLED) if name in x] or ARGUMENTS:
        for named in (False, True):
            if found[named] == 2 or (named and len(names) < len(given)):
                continue
            args, options = ((), dict(zip(names, given, strict=False))) if named else (given, {})
            own = deep((args, options), np.copy)
            try:
                want = f(*own[0], **own[1])
            except Exception:
                continue
            found[named] += 1
            yield args, options, (want, own)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(8))
def test_every_function_that_dispatches(start: int) -> None:
    wrong, without = [], []
    for name in list(FUNCTIONS)[start::8]:
        f, bare = FUNCTIONS[name], name.split(".")[-1]
        room = name[: len(name) - len(bare)]
        ours = hasattr(ROOMS[room][1], bare) and bare not in NUMPYS
        met = 0
        for args, options, (want, own) in calls(name, f):
            met += 1
            try:
                got_args, got_options = deep((args, options), wf.asarray)
                got = f(*got_args, **got_options)
            except Exception as error:
                if not re.search(REFUSED.get(bare, "^$"), str(error)):
                    wrong.append(f"{name} {list(options)} raises {type(error).__name__}: {str(error)[:200]}")
                continue
            seen = name in LISTS or any(isinstance(x, wf.Array) for x in [*got_args, *got_options.values()])
            if not seen or not all(isinstance(x, np.ndarray | np.generic | float | int | bool | None) for x in flat(want)):
                continue
            for g, w in zip(flat(got), flat(want), strict=True):
                if isinstance(w, np.ndarray | np.generic) and isinstance(g, wf.Array) is not ours:
                    wrong.append(f"{name} {list(options)} gives a {type(g).__name__}")
                if bare in UNLIKE or w is None:
                    continue
                if not np.allclose(np.asarray(g), w, rtol=2e-5, atol=1e-5, equal_nan=True):
                    wrong.append(f"{name} {list(options)} gives {g}, not {w}")
            if want is None:
                for x, y in zip(flat([*got_args, *got_options.values()]), flat([*own[0], *own[1].values()]), strict=True):
                    if isinstance(x, wf.Array) and not np.allclose(x, y):
                        wrong.append(f"{name} leaves {x}, not {y}")
        if not met:
            without.append(name)
    assert not wrong
    assert set(without) <= {"datetime_as_string", "astype", "can_cast", "unpackbits", "piecewise", "linalg.tensorsolve"}


def test_there_are_many() -> None:
    assert len(FUNCTIONS) > 330 and {"mean", "linalg.svd", "fft.rfft", "add"} <= FUNCTIONS.keys()


def test_keywords_that_weft_has_not() -> None:
    """Left out where they say what NumPy does anyway; otherwise NumPy computes, and the result is an Array."""
    x = wf.array([[3.0, 1.0], [2.0, 4.0]])
    for call in (
        lambda v: np.ravel(v, order="F"), lambda v: np.ravel(v, "F"), lambda v: np.reshape(v, (4,), order="C"),
        lambda v: np.broadcast_to(v, (2, 2, 2), subok=True), lambda v: np.sort(v, order=None),
        lambda v: np.hstack((v, v), dtype="float64"), lambda v: np.std(v, mean=np.zeros((1, 1), "float32")),
        lambda v: np.clip(v, a_min=1.5, a_max=3), lambda v: np.tile(A=v, reps=2), lambda v: np.expand_dims(a=v, axis=0),
    ):
        found, want = call(x), call(x.numpy())
        assert isinstance(found, wf.Array) and found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)

    def theirs(array: Any, shape: Any, newer: bool = False) -> None: ...

    def ours(array: Any, shape: Any) -> None: ...

    given, named = as_ours(theirs, ours, (), {"array": x, "shape": (2, 2), "newer": False})
    both = {**dict(zip(("array", "shape"), given, strict=False)), **named}
    assert both["array"] is x and both["shape"] == (2, 2) and both.keys() == {"array", "shape"}
    assert as_ours(theirs, ours, (x, (2, 2)), {"newer": True}) is None
    with pytest.raises(TypeError, match="no_such_name"):
        np.mean(x, no_such_name=1)
    with pytest.raises(TypeError, match="clip: min and a_min are two names"):
        wf.clip(x, 1, a_min=2)


def test_what_only_numpy_can_hold() -> None:
    """Text, objects and None beside an Array: NumPy's answer. What weft refuses otherwise stays refused."""
    x = wf.ones(3)
    found = np.broadcast_arrays(x, None)
    assert found[0].tolist() == [1, 1, 1] and found[1].tolist() == [None] * 3
    assert np.concatenate([x, np.array(["a"])]).tolist() == ["1.0", "1.0", "1.0", "a"]
    with pytest.raises(wf.errors.DTypeError, match="choose"):
        np.choose(x, [x, x])


class Other:
    """Arrays of a library that knows weft."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> str:
        return "theirs"


def test_other_libraries_are_asked() -> None:
    assert np.concatenate([wf.ones(2), Other()]) == "theirs"


def test_several_at_once() -> None:
    for f in (wf.atleast_1d, wf.atleast_2d, wf.atleast_3d):
        theirs = getattr(np, f.__name__)
        assert f() == () and [x.shape for x in f(1.0, wf.ones(2))] == [x.shape for x in theirs(1.0, np.ones(2))]


WRITING: tuple[Callable, ...] = (  # NumPy's functions that write into what they are given first, whoever made the rest
    lambda d, c: np.copyto(d, c(A)), lambda d, c: np.copyto(d, 0, where=c(A > 1)), lambda d, c: np.add.at(d, c(PLACES), 1),
    lambda d, c: np.add.at(d, PLACES, c(A)), lambda d, c: np.multiply.at(d, c(PLACES), c(A)),
    lambda d, c: np.negative.at(d, c(PLACES)),
    lambda d, c: np.put(d, c(PLACES), c(A)), lambda d, c: np.putmask(d, c(A > 1), 0), lambda d, c: np.place(d, c(A > 1), [1]),
    lambda d, c: np.put_along_axis(d, c(PLACES), c(A), 0), lambda d, c: np.add(d, c(A), out=d),
    lambda d, c: np.fill_diagonal(d[:, None], c(A)),
)
A, PLACES = np.array([3.0, 1.0, 2.0]), np.array([0, 0, 2])


@pytest.mark.parametrize("write", WRITING)
def test_arrays_of_numpy_are_written(write: Callable) -> None:
    theirs, ours = np.array([10.0, 20.0, 30.0]), np.array([10.0, 20.0, 30.0])
    write(theirs, np.array)
    write(ours, wf.asarray)
    np.testing.assert_array_equal(ours, theirs)


def test_isfortran() -> None:
    for x in (np.ones((2, 3)), np.ones(3)):
        assert [np.isfortran(a) for a in (x, x.T)] == [np.isfortran(a) for a in (wf.asarray(x), wf.asarray(x).T)]
