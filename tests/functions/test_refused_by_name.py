"""Bad input to every public function of ``wf``, ``wf.linalg``, ``wf.fft``, ``wf.random``: the error names function and argument.

A function that is new is asked by the rules below, and fails here where it lets nonsense pass or answers with somebody else's
words. What the rules do not fit has calls of its own in ``OWN``, or a reason in ``ANYTHING``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf

ROOMS: dict[str, tuple[Any, Any]] = {
    "": (wf, np), "linalg.": (wf.linalg, np.linalg), "fft.": (wf.fft, np.fft), "random.": (wf.random, np.random),
    "emath.": (wf.emath, np.emath), "lib.stride_tricks.": (wf.lib.stride_tricks, np.lib.stride_tricks),
}
A, V, B = np.ones((3, 4), np.float32), np.arange(4), np.ones((3, 4), bool)
ANYTHING = {  # public functions that take whatever they are given, and why
    **dict.fromkeys(("__array_namespace_info__", "get_printoptions", "geterr", "random.get_state"), "takes nothing"),
    **dict.fromkeys(("isfortran", "isscalar", "iterable", "may_share_memory", "shares_memory"), "asks what something is"),
    **dict.fromkeys(
        ("complexfloating", "floating", "generic", "inexact", "integer", "number", "signedinteger", "unsignedinteger", "ufunc",
         "flatiter", "linalg.LinAlgError"), "a class for isinstance and except",
    ),
    **dict.fromkeys(("random.RandomState", "random.BitGenerator", "random.SeedSequence"), "None is a seed as well: see OWN"),
    "frompyfunc": "takes any function; refuses when it is called", "vectorize": "the same",
    "asnumpy": "as numpy.asarray",
}
Case = tuple[Callable[[], Any], type[Exception], str]
OWN: dict[str, Case] = {
    "arange": (lambda: wf.arange(None), TypeError, "arange: start, stop and step must be numbers, not"),
    "astype": (lambda: wf.astype(A, "float31"), TypeError, "astype: dtype: 'float31' is not a dtype"),
    "can_cast": (lambda: wf.can_cast("int8", "float31"), TypeError, "can_cast: to: 'float31' is not a dtype"),
    "dtype": (lambda: wf.dtype("float31"), TypeError, "float31"),
    "finfo": (lambda: wf.finfo("int8"), TypeError, "finfo: int8 is not a float dtype"),
    "iinfo": (lambda: wf.iinfo("float32"), TypeError, "iinfo: float32 is not an integer dtype"),
    "isdtype": (lambda: wf.isdtype("float32", "floats"), TypeError, "isdtype: .*'floats'"),
    "issubdtype": (lambda: wf.issubdtype("float31", wf.integer), TypeError, "issubdtype: arg1='float31' is no dtype"),
    "promote_types": (lambda: wf.promote_types("int8", "float31"), TypeError, "promote_types: type2: 'float31' is not a dtype"),
    "result_type": (lambda: wf.result_type(), TypeError, "result_type needs at least one"),
    "min_scalar_type": (lambda: wf.min_scalar_type("a"), TypeError, "min_scalar_type: .*no dtype 'str"),
    "mintypecode": (lambda: wf.mintypecode(["float31"]), TypeError, "mintypecode: typechars holds 'float31'"),
    "common_type": (lambda: wf.common_type(A, B), TypeError, r"common_type: arrays\[1\] is bool"),
    "typename": (lambda: wf.typename("y"), KeyError, "typename: char='y' is no letter"),
    "where": (lambda: wf.where(B, A), ValueError, "where: give both x1 and x2"),
    "apply_along_axis": (lambda: wf.apply_along_axis(np.sum, 2, A), IndexError, "apply_along_axis: axis=2"),
    "apply_over_axes": (lambda: wf.apply_over_axes(np.sum, A, 2), IndexError, "apply_over_axes: axis=2"),
    "fromiter": (lambda: wf.fromiter([1, 2], "int64", 3), ValueError, "fromiter: iterator too short: Expected 3"),
    "fromstring": (lambda: wf.fromstring("1", sep=""), ValueError, "fromstring: sep must not be empty"),
    "errstate": (lambda: wf.errstate(divide="loud").__enter__(), ValueError, "loud"),
    "seterr": (lambda: wf.seterr(divide="loud"), ValueError, "loud"),
    "printoptions": (lambda: wf.printoptions(digits=2).__enter__(), TypeError, "digits"),
    "set_printoptions": (lambda: wf.set_printoptions(digits=2), TypeError, "digits"),
    "broadcast": (lambda: wf.broadcast(A, V[:3]), ValueError, r"broadcast: shapes \(3, 4\), \(3,\)"),
    "broadcast_arrays": (lambda: wf.broadcast_arrays(A, V[:3]), ValueError, r"broadcast_arrays: shapes \(3, 4\), \(3,\)"),
    "broadcast_shapes": (lambda: wf.broadcast_shapes((3, 4), (3,)), ValueError, r"broadcast_shapes: shapes \(3, 4\), \(3,\)"),
    "einsum": (lambda: wf.einsum("ij,jk", A, A), ValueError, r"einsum: 'j' has extent 4 .*3"),
    "einsum_path": (lambda: wf.einsum_path("ij,jk", A, A), ValueError, "einsum_path: Size of label 'j'"),
    "linalg.einsum": (lambda: wf.linalg.einsum("ij,jk", A, A), ValueError, r"einsum: 'j' has extent 4 .*3"),
    "ix_": (lambda: wf.ix_(A), ValueError, r"ix_: args\[0\] has shape \(3, 4\)"),
    "meshgrid": (lambda: wf.meshgrid(V, indexing="yx"), ValueError, "meshgrid: indexing='yx'"),
    "ndindex": (lambda: wf.ndindex(-1), ValueError, "ndindex: shape"),
    "atleast_1d": (lambda: wf.atleast_1d(None), TypeError, r"atleast_1d: arrays\[0\] is None"),
    "atleast_2d": (lambda: wf.atleast_2d(None), TypeError, r"atleast_2d: arrays\[0\] is None"),
    "atleast_3d": (lambda: wf.atleast_3d(None), TypeError, r"atleast_3d: arrays\[0\] is None"),
    "eye": (lambda: wf.eye(2, "3"), TypeError, "eye: N, M must be an integer or a tuple of integers"),
    "tri": (lambda: wf.tri(2.5), TypeError, "tri: N, M must be an integer"),
    "tril_indices": (lambda: wf.tril_indices(None), TypeError, "tril_indices: n, m must be"),
    "triu_indices": (lambda: wf.triu_indices(None), TypeError, "triu_indices: n, m must be"),
    "from_dlpack": (lambda: wf.from_dlpack([1]), TypeError, "from_dlpack: a list has no __dlpack__"),
    "row_stack": (lambda: wf.row_stack([A, V[:3]]), ValueError, r"row_stack: arrays\[0\] has shape \(3, 4\)"),
    "random.BitGenerator": (lambda: wf.random.BitGenerator(-1), ValueError, "negative"),
    "random.SeedSequence": (lambda: wf.random.SeedSequence(-1), ValueError, "negative"),
    "random.RandomState": (lambda: wf.random.RandomState(-1), ValueError, "RandomState: .*-1"),
    "random.Generator": (lambda: wf.random.Generator(1.5), TypeError, "Generator: the seed must be an integer, not 1.5"),
    "random.default_rng": (lambda: wf.random.default_rng("a"), TypeError, "default_rng: the seed must be an integer, not 'a'"),
    **{f"random.{n}": (lambda n=n: getattr(wf.random, n)(-1), ValueError, "negative")
       for n in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")},
    "random.key": (lambda: wf.random.key(1.5), TypeError, "key: the seed must be an integer, not 1.5"),
    "random.seed": (lambda: wf.random.seed("a"), TypeError, "seed: the seed must be an integer, not 'a'"),
    "random.set_state": (lambda: wf.random.set_state(3), ValueError, "set_state: the state must be what get_state gave"),
    "random.rand": (lambda: wf.random.rand(2.5), TypeError, "rand: size must be an integer"),
    "random.randn": (lambda: wf.random.randn(-1), ValueError, r"randn: size=\(-1,\) has a negative extent"),
    "random.standard_cauchy": (lambda: wf.random.standard_cauchy(-1), ValueError, r"standard_cauchy: size=\(-1,\)"),
    "random.standard_exponential": (lambda: wf.random.standard_exponential(-1), ValueError, r"exponential: size=\(-1,"),
    "random.bernoulli": (lambda: wf.random.bernoulli(2.0), ValueError, "bernoulli: p=2.0"),
    "random.categorical": (lambda: wf.random.categorical([]), ValueError, "categorical: logits .0,. has no class"),
}
ALIKE = {  # an alias says what it is an alias of
    "ndarray": "Array",
    "random.random_sample": "random", "random.ranf": "random", "random.sample": "random",
}


WHOLE = set("""bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor left_shift right_shift gcd lcm ldexp
    packbits unpackbits""".split())  # of integers


OWN |= {f"lib.stride_tricks.{n}": OWN[n] for n in ("broadcast_arrays", "broadcast_shapes")}


class Sample(NamedTuple):
    """A bad call, what it raises, and how the message begins; ``theirs``: the same call of NumPy's function."""

    call: Callable[[], Any]
    error: type[Exception]
    pattern: str
    theirs: Callable[[], Any] | None = None


def functions() -> dict[str, Any]:
    """Every public function and class of the rooms, by name."""
    found: dict[str, Any] = {}
    for room, (held, _) in ROOMS.items():
        for name in held.__all__:
            value = getattr(held, name)
            home = wf._HOME.get(name, "")
            listed = room or home.startswith(("weft.functions", "weft.dtypes.api"))
            if callable(value) and listed and not isinstance(value, wf.dtypes.DType):
                found[room + name] = value
    return found


def said(name: str, f: Any) -> str:
    """The name that messages begin with: an alias's are those of what it stands for."""
    return ALIKE.get(name, getattr(f, "__name__", name.rpartition(".")[2]))


def given(name: str, parameters: list[inspect.Parameter]) -> list[Any]:
    """Something for each argument that is asked for, so that the first is what is wrong."""
    own = A.astype("uint8") if name in WHOLE else A
    numbers = ("n", "N", "axis", "shape", "deg", "k", "dims", "beta")
    return [2 if p.name in numbers else own for p in parameters if p.default is p.empty and p.kind in (0, 1)]


def samples(name: str, f: Any) -> Iterator[Sample]:
    """The bad calls of a function: those of its own, and those by rule."""
    if name in OWN:
        yield Sample(*OWN[name])
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return
    room, _, short = name.rpartition(".")
    theirs = getattr(ROOMS[room and room + "."][1], short, None)
    who = re.escape(said(name, f))
    args = given(name, parameters)
    names = {p.name for p in parameters}
    if args and name not in OWN and name not in ANYTHING:
        first = parameters[0].name
        wrong = rf"{first}(\[0\])? is None|{first} has no|{first} must be|a sequence of arrays is needed|(must|the) .* not None"
        error = ValueError if name in ("savetxt", "loadtxt") else TypeError
        yield Sample(lambda: f(None, *args[1:]), error, rf"{who}: ({wrong})")
    elif not args and names & {"size"} and name not in OWN:
        yield Sample(lambda: f(size=-1), ValueError, rf"{who}: size=\(-1,\) has a negative extent")
    if name in OWN or name in ANYTHING:
        return
    one = len(args) == 1 and isinstance(args[0], np.ndarray) and first not in ("file", "fname", "dimensions", "buffer")
    if one and "axis" in names and room in ("", "fft"):
        x = args[0]
        yield Sample(lambda: f(x, axis=9), IndexError, rf"{who}: ax[ei]s=9", theirs and (lambda: theirs(x, axis=9)))
    if "dtype" in names and one and room != "random":
        y, bad = A if short == "trace" else V, {"dtype": "float31"}
        yield Sample(lambda: f(y, **bad), TypeError, rf"{who}: .*'float31' is not a dtype", theirs and (lambda: theirs(y, **bad)))
    if {"x1", "x2"} <= names and room == "":
        z = np.ones((2, 5), args[0].dtype)
        yield Sample(lambda: f(args[0], z), ValueError, rf"{who}: .*\(3, 4\).*\(2, 5\)", theirs and (lambda: theirs(args[0], z)))


FUNCTIONS = functions()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_input(name: str) -> None:
    found = list(samples(name, FUNCTIONS[name]))
    assert found or name in ANYTHING, "give it a bad call in OWN, or a reason in ANYTHING"
    for sample in found:
        with pytest.raises(sample.error) as raised:
            sample.call()
        assert re.search(rf"^{sample.pattern}" if name not in OWN else sample.pattern, str(raised.value)), str(raised.value)
        if sample.theirs is not None:
            with pytest.raises(Exception) as numpys:
                sample.theirs()
            family = np.exceptions.AxisError if isinstance(numpys.value, np.exceptions.AxisError) else sample.error
            assert isinstance(numpys.value, family) and isinstance(raised.value, family), (numpys.value, raised.value)


# what is nothing that most arguments can be; where it is something all the same, the call may pass
NONSENSE: tuple[Any, ...] = ("x", b"xy", 1.5, (1, 2), (0, 1, 1), [[1, 2], [3]], 9, -9, None, np.nan, [], 1j, [None])
PASSED_ON = {"savetxt", "loadtxt", "save", "savez", "savez_compressed", "genfromtxt", "fromfile", "load", "memmap"}  # files' own


@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if not isinstance(f, type) and n not in PASSED_ON])
def test_nonsense_is_refused_in_the_function_s_own_name(name: str) -> None:
    f = FUNCTIONS[name]
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return
    args, asked = given(name, parameters), [p.name for p in parameters if p.default is p.empty and p.kind in (0, 1)]
    for p in parameters:
        for bad in NONSENSE if p.kind in (1, 3) or p.name in asked else ():
            some = [bad if n == p.name else x for n, x in zip(asked, args, strict=True)]
            try:
                found = f(*some, **({} if p.name in asked else {p.name: bad}))
                wf.eval([x for x in (found if isinstance(found, tuple | list) else [found]) if isinstance(x, wf.Array)])
            except Exception as error:
                text = str(error.args[0] if isinstance(error, KeyError) else error)
                assert text.startswith((f"{said(name, f)}: ", f"{said(name, f)}()")), f"{p.name}={bad!r}: {text}"


WORDS = {"order": ("C", "F", "A", "K", "c", "f", None, "X", 3), "like": (None, np.ones(2), 3), "subok": (False,)}
CALLED = {  # what the words are given beside, where `given` has nothing that fits
    "arange": (3,), "eye": (3,), "tri": (3,), "einsum": ("ij->ji", A), "matmul": (A, A.T), "matvec": (A, A[0]),
    "vecmat": (A[0], A.T), "reshape": (A, (4, 3)), "unravel_index": (3, (2, 3)), "ravel_multi_index": ((1, 1), (2, 3)),
    "broadcast_to": (A, (2, 3, 4)),
    "fromiter": (range(3), "int64"), "frombuffer": (b"12345678",), "fromfunction": (lambda i: i, (2,)), "ldexp": (A, V),
    "broadcast_arrays": (A, A), "full": ((2,), 3), "full_like": (A, 3),
}


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if hasattr(np, n) and n not in ("fromfile", "fromstring", "astype")])
@pytest.mark.parametrize("word", WORDS)
def test_words_about_memory(name: str, word: str) -> None:
    """What NumPy's functions take beside their operands is taken, and refused by the same kind of error."""
    f, theirs = FUNCTIONS[name], getattr(np, name)
    if isinstance(f, type):
        return
    parameters = list(inspect.signature(f).parameters.values())
    has = word in {p.name for p in parameters}
    try:
        known = word in inspect.signature(theirs).parameters
    except (TypeError, ValueError):
        known = has
    assert has or not known or any(p.kind == 4 for p in parameters), f"{name} does not take {word}"
    if not has or (word == "order" and re.search("sort|partition", name)):  # there: names of fields
        return
    args = CALLED.get(name, given(name, parameters))
    for value in WORDS[word]:
        took = []
        for call in (theirs, f):
            try:
                took.append(call(*args, **{word: value}) is None)
            except (TypeError, ValueError) as error:
                took.append(TypeError if isinstance(error, TypeError) else ValueError)
        assert took[0] == took[1], (name, value, took)


def test_the_lists_name_what_exists() -> None:
    assert {*OWN, *ANYTHING} <= {*FUNCTIONS} and {*ALIKE} <= {*FUNCTIONS, "ndarray"}
    assert len(FUNCTIONS) > 500


def test_where_an_error_comes_from() -> None:
    """What every function does with its operands names the function that was called, through what is made of others, too."""
    for call, text in (
        (lambda: wf.add(A, None), "add: x2 is None"), (lambda: wf.corrcoef(None), "corrcoef: x is None"),
        (lambda: wf.stack([A, None]), r"stack: arrays\[1\] is None"), (lambda: wf.zeros(3, "float31"), "zeros: dtype: 'float31'"),
        (lambda: wf.jit(lambda a: wf.exp(a) + wf.add(a, "b"))(A), "add: x2: cannot make an array of 'b'"),
        (lambda: wf.poly1d(None), "poly1d: c_or_r is None"), (lambda: wf.array([1]) + "a", "cannot make|unsupported|operand"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


def test_operators_have_no_name() -> None:
    x = wf.array([1, 2], dtype="int8")
    for call in (lambda: x + 300, lambda: 300 - x, lambda: x**300, lambda: x.__imul__(300)):
        with pytest.raises(OverflowError, match="^the Python integer 300 is out of bounds for int8"):
            call()
    with pytest.raises(ValueError, match=r"^cannot make an array of \[\[1\], \[2, 3\]\]: its rows have different lengths"):
        x @ [[1], [2, 3]]
    with pytest.raises(ValueError, match=r"^sum: a: cannot make an array of \[\[1\], \[2, 3\]\]"):
        wf.sum([[1], [2, 3]])
    for call in (lambda: wf.take(x, 7), lambda: x.take(7)):
        with pytest.raises(IndexError, match="^take: index 7 is out of bounds for axis 0 with size 2"):
            call()
