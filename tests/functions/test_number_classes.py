"""What kind of thing arrays, scalars and dtypes are to Python: beside NumPy, asked in every way that programs ask."""

import decimal
import fractions
import functools
import numbers
import pickle
import statistics
import typing
from collections.abc import Callable, Hashable, Iterable, Sized
from typing import Any

import numpy as np
import pytest

import weft as wf

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)
KINDS = (
    "ndarray", "generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating",
    *NAMES,
)
OF_PYTHON = (
    list, tuple, str, bytes, dict, numbers.Number, numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral, Sized,
    Iterable, Hashable,
)
MADE: dict[str, Callable[[Any, str], Any]] = {
    "element": lambda xp, d: xp.ones(3, dtype=d)[1],
    "largest": lambda xp, d: xp.ones(3, dtype=d).max(),
    "called": lambda xp, d: getattr(xp, d)(1),
    "array": lambda xp, d: xp.ones(3, dtype=d),
    "no dimensions": lambda xp, d: xp.array(1, dtype=d),
    "rows": lambda xp, d: xp.ones((2, 2), dtype=d)[1],
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("dtype", NAMES)
def test_isinstance_as_numpys(dtype: str, made: str) -> None:
    ours, theirs = MADE[made](wf, dtype), MADE[made](np, dtype)
    for kind in KINDS:
        assert isinstance(ours, getattr(wf, kind)) == isinstance(theirs, getattr(np, kind)), kind
    for kind in OF_PYTHON:
        if not (made in ("array", "no dimensions", "rows") and kind is Hashable):  # arrays of NumPy have a __hash__ of None
            assert isinstance(ours, kind) == isinstance(theirs, kind), kind
    assert hasattr(ours, "__len__") == hasattr(theirs, "__len__") and wf.isscalar(ours) == np.isscalar(theirs)
    assert np.isscalar(ours) == np.isscalar(theirs) or dtype == "bool"  # NumPy asks for its own classes, and for numbers
    assert (type(ours) is wf.ndarray) == (type(theirs) is np.ndarray) and isinstance(ours, wf.Array)
    assert isinstance(ours, wf.Scalar) == isinstance(theirs, np.generic)
    if isinstance(theirs, np.generic):
        assert ours.__class__ is getattr(wf, dtype) and ours.__class__.__name__ == type(theirs).__name__.rstrip("_")
        with pytest.raises(TypeError):
            iter(ours)


def flattened(x: Any, xp: Any) -> list[Any]:
    return [n for part in x for n in flattened(part, xp)] if isinstance(x, (list, tuple, xp.ndarray)) else [x]


def matched(x: Any, xp: Any) -> str:
    match x:
        case xp.ndarray():
            return "array"
        case xp.bool():
            return "bool"
        case xp.integer():
            return "integer"
        case xp.floating() | float():
            return "float"
    return "other"


def dispatched(xp: Any) -> Callable[[Any], str]:
    @functools.singledispatch
    def found(x: Any) -> str:
        return "other"

    found.register(xp.ndarray)(lambda x: "array")
    found.register(xp.floating)(lambda x: "float")
    found.register(numbers.Integral)(lambda x: "integer")
    return found


def test_programs_that_ask_go_the_same_way() -> None:
    def told(xp: Any) -> list[Any]:
        things = [1, [2.0], xp.arange(4).reshape(2, 2), (xp.ones(2).sum(), xp.arange(3)[2]), xp.ones(2)[0], xp.array(True)[()]]
        flat = flattened([*things[:2], things[2], list(things[3])], xp)
        return [[float(x) for x in flat], *[[f(x) for x in (*things, things[3][0], things[3][1])] for f in (
            lambda x: matched(x, xp), dispatched(xp),
        )]]

    assert told(wf) == told(np)


METHODS = {
    "is_integer": lambda x: x.is_integer(), "as_integer_ratio": lambda x: x.as_integer_ratio(), "hex": lambda x: x.hex(),
    "bit_count": lambda x: x.bit_count(), "numerator": lambda x: x.numerator, "denominator": lambda x: x.denominator,
    "Fraction": fractions.Fraction, "statistics.mean": lambda x: float(statistics.mean([x, x, x])),
    "statistics.stdev": lambda x: float(statistics.stdev([x, x + x])), "statistics.fmean": lambda x: statistics.fmean([x, x]),
    "statistics.median": lambda x: float(statistics.median([x, x])),
    "round": round, "str": str, "format": lambda x: f"{x:.2f}", "float": float,
}


@pytest.mark.parametrize("name", METHODS)
def test_scalars_answer_as_numpys(name: str) -> None:
    rng, ask = np.random.default_rng(), METHODS[name]
    asked = 0
    for dtype in NAMES[1:12]:
        for value in rng.uniform(0, 3, 5).round(int(rng.integers(3))).tolist():
            theirs = np.asarray(value).astype(dtype)[()]
            if name == "Fraction" and isinstance(theirs, float):
                continue  # it asks for Python's own floats
            try:
                want = ask(theirs)
            except (AttributeError, TypeError):
                continue
            ours = wf.asarray(theirs)[()]
            asked += 1
            assert ask(ours) == want, (dtype, value)
    assert asked


def test_scalars_of_python_numbers() -> None:
    for given in (True, 3, 2.5, 1j, fractions.Fraction(5, 2), decimal.Decimal("0.1"), np.float32(0.1), wf.float32(0.1)):
        found = wf.Scalar(given)
        plain = given if isinstance(given, int | float | complex | np.generic | wf.Scalar) else float(given)
        assert found == plain and found.dtype == (plain.dtype if hasattr(plain, "dtype") else np.asarray(plain).dtype)
    assert wf.Scalar() == 0.0 and wf.jit(lambda x: x * wf.Scalar(2.0))(wf.ones(2, dtype="float64")).tolist() == [2.0, 2.0]
    assert statistics.mean(wf.array([0.1, 0.2])) == statistics.mean(np.float32([0.1, 0.2]).astype(float))
    assert wf.ndarray([1, 2]).shape == (1, 2)  # as NumPy's: the argument is a shape


# ---- dtypes as classes

@pytest.mark.parametrize("name", NAMES)
def test_dtypes_are_classes_as_numpys_are(name: str) -> None:
    ours, theirs = getattr(wf, name), getattr(np, name)
    assert isinstance(ours, type) and ours.__name__ == theirs.__name__.rstrip("_")
    for kind in KINDS:
        assert issubclass(ours, getattr(wf, kind)) == issubclass(theirs, getattr(np, kind)), kind
    for kind in (int, list, numbers.Number, numbers.Complex, numbers.Real, numbers.Integral):
        assert issubclass(ours, kind) == (issubclass(theirs, kind) and (name != "float64" or kind is not float)), kind
    assert not issubclass(ours, float) and issubclass(theirs, ours) and {ours: 1}[wf.ones(1, dtype=name).dtype.type] == 1
    assert typing.get_args(ours | None) == typing.get_args(typing.Optional[ours]) == (ours, type(None))  # noqa: UP045
    assert isinstance(wf.ones(1, dtype=name)[0], ours | str) and not isinstance(3, ours | str)
    assert typing.get_args(None | ours) == (type(None), ours) and pickle.loads(pickle.dumps(ours)) is ours
    space: dict[str, Any] = {"wf": wf}
    exec(f"def f(x: wf.{name} | None = None, y: 'wf.{name}' = 3) -> wf.{name} | float: return x", space)
    assert typing.get_type_hints(space["f"], {"wf": wf})["x"] == ours | None
    with pytest.raises(TypeError, match=f"class Length: it cannot be made from {ours.__name__}, .* make a class that holds"):
        type(ours)("Length", (ours,), {})


def test_a_class_of_all_dtypes_is_no_dtype() -> None:
    for kind in (wf.Scalar, wf.Array, wf.ndarray):
        with pytest.raises(TypeError, match="issubdtype: arg1=.* is the class of numbers of every dtype; use x.dtype instead"):
            wf.issubdtype(kind, wf.floating)
    assert wf.issubdtype(wf.float32(1).__class__, wf.floating)


seen: set[type] = set()


class Watched(wf.nn.Module):
    """A layer that notes of which class its inputs, and what is made of them, are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = wf.nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        seen.update(map(type, (x, x[:1], x * 2, x.reshape(-1))))
        return self.inner(x)


def test_nothing_is_of_the_class_of_both() -> None:
    """``Array`` is a base: what is made where it is an ndarray or a Scalar, in each way that arrays come into being."""
    x, net = np.random.default_rng().normal(size=(24, 3)).astype("float32"), Watched()
    wf.train.fit(net, x, np.zeros(24, "int64"), epochs=1, batch_size=7, validation=0.25, show=False)
    a = wf.array(x)
    found = {
        "jit": wf.jit(lambda a: (a * 2, a.sum(), a[0], a))(a), "grad": wf.grad(lambda a: (a**2).sum())(a),
        "vmap": wf.vmap(lambda row: row.sum())(a), "scan": wf.scan(lambda c, row: (c + row, row.sum()), a[0], a),
        "views": (a[1:], a.T, a.real, a.view("int32"), a[a > 0], a[[0, 1]]), "copies": (a.copy(), pickle.loads(pickle.dumps(a))),
        "numpy": (np.exp(a), np.concatenate([a, a])), "made": (wf.zeros(()), wf.random.normal(size=2), wf.Scalar(2.0)),
    }
    kinds = {name: {type(leaf) for leaf in wf.tree_leaves(value)} for name, value in found.items()}
    assert seen == {wf.ndarray} and all(k <= {wf.ndarray, wf.Scalar} for k in kinds.values()), (seen, kinds)
