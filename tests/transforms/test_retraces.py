"""What a jitted function is still traced again for is told after the third time: what has changed, where, and what to do."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

import weft as wf

X = wf.ones(3)
SIZE = 1


class Holder:
    kind = "a"

    def __init__(self) -> None:
        self.mode, self.n, self.items, self.cfg, self.w = "a", 0, [], {"k": 1}, wf.ones(3)


def of_shape(k: int) -> wf.ndarray:
    return wf.ones(k + 1)


def caller(f: Any, arguments: Any) -> Any:
    """Calls of a jitted function, and the function."""
    jitted = wf.jit(f)
    return lambda k: jitted(*arguments(k)), jitted


def looped(x, n):
    for _ in range(n):
        x = x * 2
    return x


def grown(h, x):
    h.items.append(1)
    return x


def argument_shape():
    return caller(lambda x, y: x.sum() + y, lambda k: (of_shape(k), 1.0))


def argument_dtype():
    return caller(lambda x, y: x.sum() + y, lambda k: (X.astype(["int8", "int16", "int32", "int64", "uint8", "float64"][k]), 1.0))


def argument_int():
    return caller(looped, lambda k: (X, k))


def argument_text():
    jitted = wf.jit(lambda x, *, mode: x if mode else -x)
    return lambda k: jitted(X, mode=f"m{k}"), jitted


def argument_keys():
    return caller(lambda p: p["x"], lambda k: ({"x": X, f"k{k}": X},))


def argument_leaf():
    return caller(lambda p: p["x"][0].sum(), lambda k: ({"x": [of_shape(k)]},))


def argument_in_a_tuple():
    return caller(lambda *rest: rest[1].sum(), lambda k: (X, of_shape(k)))


def attribute_text():
    h = Holder()

    def call(k):
        h.mode = f"m{k}"
        return jitted(h, X)

    jitted = wf.jit(lambda h, x: x if h.mode == "a" else -x)
    return call, jitted


def attribute_number():
    h = Holder()

    def call(k):
        h.n = k
        return jitted(X)

    jitted = wf.jit(lambda x: x * len(f"{h.n}"))
    return call, jitted


def attribute_array():
    h = Holder()

    def call(k):
        h.w = of_shape(k)
        return jitted(X)

    jitted = wf.jit(lambda x: x * h.w.sum())
    return call, jitted


def attribute_list():
    h = Holder()
    jitted = wf.jit(grown)
    return lambda k: jitted(h, X), jitted


def item():
    h = Holder()

    def call(k):
        h.cfg["k"] = k
        return jitted(X)

    jitted = wf.jit(lambda x: x * [1, 2, 3, 4, 5, 6, 7][h.cfg["k"]])
    return call, jitted


def class_attribute():
    def call(k):
        Holder.kind = f"k{k}"
        return jitted(X)

    jitted = wf.jit(lambda x: x * len(Holder.kind))
    return call, jitted


def global_variable():
    def call(k):
        global SIZE
        SIZE = k + 1
        return jitted(X)

    jitted = wf.jit(lambda x: wf.zeros(SIZE) + x[0])
    return call, jitted


def closure_variable():
    v = X

    def call(k):
        nonlocal v
        v = of_shape(k)
        return jitted(X)

    jitted = wf.jit(lambda x: x * v.sum())
    return call, jitted


def function_exchanged():
    def call(k):
        nonlocal helper
        exec(f"def helper(x): return x * {k}", space)
        helper = space["helper"]
        return jitted(X)

    space: dict[str, Any] = {}
    helper = len
    jitted = wf.jit(lambda x: helper(x))
    return call, jitted


def condition():
    jitted = wf.jit(lambda x, k: x if k == 2 else x * 2 if k == 3 else x * 3 if k == 4 else x * 4 if k == 5 else -x)
    return lambda k: jitted(X, k), jitted


CAUSES = {
    argument_shape: r"the shape of the argument `x` changes \(from float32\[3\] to float32\[4\]\).*padding",
    argument_dtype: r"the dtype of the argument `x` changes \(from int32\[3\] to int64\[3\]\)",
    argument_int: r"the argument `n` changes \(from 2 to 3\). Line test_retraces.py:\d+ needs its value, as shapes, range\(\)",
    argument_text: r"the argument `mode` changes \(from 'm2' to 'm3'\). It is a constant of the program",
    argument_keys: r"the structure of its arguments changes \(from the argument `p\['k2'\]` to the argument `p\['k3'\]`\)",
    argument_leaf: r"the shape of the argument `p\['x'\]\[0\]` changes",
    argument_in_a_tuple: r"the shape of the argument `rest\[1\]` changes",
    attribute_text: r"the attribute `h.mode` changes \(from 'm2' to 'm3'\). It is a constant",
    attribute_number: r"the attribute `h.n` changes \(from 2 to 3\). Line test_retraces.py:\d+ needs its value",
    attribute_array: r"the shape of the attribute `h.w` changes \(from float32\[3\] to float32\[4\]\)",
    attribute_list: r"since it adds items to `h.items`, or removes or reorders them",
    item: r"the item `h.cfg\['k'\]` changes \(from 2 to 3\). Line test_retraces.py:\d+ needs its value",
    class_attribute: r"the attribute `Holder.kind` changes \(from 'k2' to 'k3'\)",
    global_variable: r"the global variable `SIZE` changes \(from 3 to 4\). Line test_retraces.py:\d+ needs its value",
    closure_variable: r"the shape of the closure variable `v` changes \(from float32\[3\] to float32\[4\]\)",
    function_exchanged: r"what it reaches \(functions, objects, lists or dicts\) changes",
    condition: r"the outcome of a condition on the argument `k` \(in line test_retraces.py:\d+\) changes",
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_told_once_when_it_comes_for_the_third_time(cause: Any) -> None:
    call, jitted = cause()
    told = []
    for k in range(6):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(k)
        told.append([str(w.message) for w in seen])
        assert all(w.filename == __file__ and w.category is RuntimeWarning for w in seen)
    texts = [text for row in told for text in row]
    assert len(texts) == 1 and not any(told[:3]), texts
    name = re.escape(jitted.f.__name__)
    where = rf"^{name}\(\) \(test_retraces.py:\d+\) is traced again each time "
    assert re.search(where + CAUSES[cause], texts[0]), texts[0]
    assert jitted.traces > 3


def test_two_shapes_and_modes_are_no_news() -> None:
    net = wf.nn.Sequential(wf.nn.Linear(3, 3), wf.nn.Dropout(0.5))
    f = wf.jit(lambda x: net(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(12):
            net.train(k % 3 == 0)
            f(wf.ones((4 if k % 2 else 3, 3)))
    assert f.traces == 4


def test_what_the_user_asks_for_is_no_news() -> None:
    f, x = wf.jit(lambda x: x @ x), wf.ones((4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for precision in ("tf32", "float32", "tf32x3"):
            for on in (True, False):
                with wf.matmul_precision(precision), wf.deterministic(on):
                    f(x)
    assert f.traces == 6


def test_arrays_that_are_left_behind_are_told_with_their_place() -> None:
    h, kept = Holder(), []

    def in_a_list(x):
        h.items.append(x * 2)
        return x

    def in_a_variable(x):
        kept.append(x * 2)
        return x

    def in_a_new_attribute(x):
        setattr(h, f"n{len(vars(h))}", x * 2)
        return x

    grow = {in_a_list: "in `h.items`, which grows", in_a_variable: "in `kept`, which grows"}
    for f, where in grow.items():
        jitted = wf.jit(f)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(6):
                jitted(X)
        (text,) = [str(w.message) for w in seen]
        assert where in text and "leaves arrays behind at each call" in text, text
        assert re.search(r"The array was made in line test_retraces.py:\d+\. Return the array", text)
        assert jitted.traces == 6
    jitted = wf.jit(in_a_new_attribute)
    with pytest.warns(RuntimeWarning, match=r"traced again each time .*`h`.*Set them before the first call \('n\d'\)"):
        for _ in range(6):
            jitted(X)
    assert jitted.traces == 6
