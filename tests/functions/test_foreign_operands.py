"""Operators beside what weft cannot hold: who is asked, and what == says. NumPy is the oracle."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import weft as wf

NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "divmod")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Reflects:
    """Answers every reflected operator."""

    def _told(self, other: Any) -> str:
        return "theirs"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _told
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rdivmod__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _told  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([1, 2], dtype)


class NoUfuncs(Reflects):
    __array_ufunc__ = None


class Higher(Reflects):
    __array_priority__ = 10


class Lower(Reflects):
    __array_priority__ = -10


class Own(Higher):
    """A priority counts only where there is no __array_ufunc__."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*[np.asarray(x) for x in inputs], **kwargs)


class Silent:
    __array_ufunc__ = None


def told(make: Any, name: str, other: Any) -> Any:
    function = divmod if name == "divmod" else getattr(operator, name)
    try:
        found = function(make(), other())
    except TypeError:
        return TypeError
    return found if isinstance(found, str) else np.asarray(found).tolist()


@pytest.mark.parametrize("other", [NoUfuncs, Higher, Lower, Own, Silent])
@pytest.mark.parametrize("name", NAMES + COMPARISONS + tuple(f"i{n.strip('_')}" for n in NAMES if n != "divmod"))
def test_who_is_asked(name: str, other: type) -> None:
    if name == "imatmul" and other in (Lower, Own):
        name = "iadd"  # their product has no dimensions, and no place in x
    assert told(lambda: wf.array([3, 4]), name, other) == told(lambda: np.array([3, 4]), name, other)


OTHERS: list[Any] = [
    None, "a", b"a", {}, {1}, object(), ["a", "b"], [None, 1], [[None], [3]], np.array(["x", "y"]), np.array([None, 4]), "",
    [3, 4], (), [object(), object()], float, Ellipsis, slice(1), range(3, 5), np.datetime64("2020-01-01"), lambda: 3,
]


@pytest.mark.parametrize("name", ["eq", "ne"])
@pytest.mark.parametrize("k", range(len(OTHERS)))
def test_equal_to_anything(name: str, k: int) -> None:
    other, compare = OTHERS[k], getattr(operator, name)
    for content in ([3, 4], [[3, 4], [5, 6]], [], [True, False], [1.5, np.nan]):
        x = np.array(content)
        try:
            want = compare(x, other)
        except (ValueError, TypeError):
            with pytest.raises((ValueError, TypeError)):
                compare(wf.array(x), other)
            continue
        found = compare(wf.array(x), other)
        assert isinstance(found, wf.Array) and found.dtype == bool, (content, other)
        assert found.shape == want.shape and found.tolist() == want.tolist(), (content, other)
        turned = compare(other, wf.array(x))
        assert not isinstance(turned, wf.Array) or turned.tolist() == want.tolist()


def test_of_scalars_lists_and_traces() -> None:
    s, x = wf.float32(2), wf.arange(3)
    assert (s == None) is False and (s != "a") is True and not s == object() and None not in x and 2 in x  # noqa: E711
    assert wf.jit(lambda a: (a == None) | (a != "b"))(x).tolist() == [True] * 3  # noqa: E711
    assert (x == None).sum() == 0 and wf.sum(x != None) == 3  # noqa: E711
    with pytest.raises(TypeError):
        x < None  # noqa: B015
    with pytest.raises(TypeError, match="in place: NoUfuncs has __array_ufunc__ = None"):
        x += NoUfuncs()


REFLECTED = {"lt": "__gt__", "le": "__ge__", "gt": "__lt__", "ge": "__le__", "eq": "__eq__", "ne": "__ne__"}
OPERATORS = tuple(n.strip("_") for n in NAMES) + COMPARISONS


def reflecting(rng: np.random.Generator) -> tuple[type, set[str]]:
    """Return a class that weft cannot hold, and the operators of which it has the reflected methods: some of all."""
    names = {str(n) for n in OPERATORS if rng.random() < 0.7}
    body: dict[str, Any] = {REFLECTED.get(n, f"__r{n}__"): lambda self, other, n=n: (n, other) for n in names}
    if rng.random() < 0.5:  # as symbols of SymPy

        def refuse(self: Any) -> float:
            raise TypeError("no number")

        body["__float__"] = refuse
    return type("Value", (), body | {"__hash__": object.__hash__}), names


@pytest.mark.drawn(24)
@pytest.mark.parametrize("seed", range(60))
def test_reflected_methods_of_what_cannot_be_held(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind, names = reflecting(rng)
    dtype = rng.choice(["float32", "float64", "int64", "int8", "bool"])
    x = wf.array(rng.integers(0, 2, [(), (3,), (2, 0)][seed % 3]), str(dtype))
    scalar = [x.sum(), wf.float32(2), wf.ones(3)[1], wf.random.rand(), wf.int8(3)][seed % 5]
    for left in (x, scalar, x[:1] if x.shape else x):
        for name in OPERATORS:
            if name in ("eq", "ne") and not isinstance(left, wf.Scalar):
                continue  # element by element, see test_equal_to_anything
            function = divmod if name == "divmod" else getattr(operator, name if name not in ("and", "or") else f"{name}_")
            if name in names:
                said, given = function(left, kind())
                assert said == name and given is left
                assert wf.jit(lambda a, f=function: f(a, kind())[1] * 1)(left).tolist() == left.tolist()
            elif name in ("eq", "ne"):
                assert function(left, kind()) == (name == "ne" and "eq" not in names)  # Python derives != from ==
            elif name != "divmod" or not {"floordiv", "mod"} <= names:
                with pytest.raises(TypeError):
                    function(left, kind())


@pytest.mark.parametrize("name", [n.strip("_") for n in NAMES if n != "divmod"])
def test_in_place_beside_what_cannot_be_held(name: str) -> None:
    kind = type("Value", (), {f"__r{name}__": lambda self, other: "theirs"})
    for x in (wf.arange(3), wf.array(2.0), wf.ones((2, 2))[0]):
        before = x.tolist()
        with pytest.raises(TypeError, match=rf"in place: .*Value.__r{name}__; use a = a"):
            getattr(operator, f"i{name}")(x, kind())
        assert x.tolist() == before
    assert getattr(operator, f"i{name}")(wf.ones(3).sum(), kind()) == "theirs"


def test_a_value_of_an_own_derivative_program() -> None:
    class Value:
        def __init__(self, data: Any) -> None:
            self.data = data

        def __rmul__(self, other: Any) -> Value:
            return Value(other * self.data)

        def __radd__(self, other: Any) -> Value:
            return Value(other + self.data)

    x = wf.array([1.0, 2.0])
    assert float((x.sum() * Value(3.0)).data) == 9 and float((x[1] * Value(wf.ones(()))).data) == 2
    assert (x * Value(3.0)).data.tolist() == [3, 6] and sum([Value(1.0), Value(2.0)][:1], x[0]).data == 2
    with pytest.raises(TypeError, match="cannot make an array of"):
        x - Value(1.0)
    with pytest.raises(wf.errors.ShapeError):  # an error of another kind stays
        x + wf.ones(3)


class Holds:
    """Gives an array of weft's for its own content."""

    def __init__(self, content: Any) -> None:
        self.content = wf.asarray(content)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.content


def test_objects_that_give_arrays_of_weft() -> None:
    given = Holds([1, 2])
    for found in (wf.asarray(given), wf.array(given), wf.arange(2) * 0 + given, wf.stack([given, given])[0], wf.arange(3)[given]):
        assert found.tolist() == [1, 2]
    assert int(wf.sum(given)) == 3 and wf.array(given, "float64").dtype == "float64"
    wf.array(given)[0] = 9
    assert given.content.tolist() == [1, 2]
    slope = wf.grad(lambda a: (wf.asarray(Holds(a)) * 3.0).sum())(wf.ones(2))
    assert slope.tolist() == [3, 3]


def test_without_a_copy() -> None:
    x = wf.ones(3)
    assert wf.array(x, copy=False) is x and wf.array(x, copy=None) is x and wf.array([1], copy=None).tolist() == [1]
    for given, dtype in (([1, 2], None), (3.0, None), (np.ones(2), None), (x, "float64"), (range(3), None)):
        with pytest.raises(ValueError, match="array: copy=False needs an Array that already has the dtype"):
            wf.array(given, dtype, copy=False)
