"""deterministic: a permission that additions at repeated indices carry from where they are written; the CPU leaves it unused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import FLOAT32, INT64
from weft.graph.batching import batch
from weft.graph.gradient import backward
from weft.graph.node import topological_order
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.printer import kernel_key
from weft.kernel.target import CPU
from weft.schedule.build import build
from weft.schedule.program import calls


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    assert wf.get_deterministic() is True


def added_at(x: wf.Array, i: wf.Array, v: wf.Array) -> wf.Array:
    x = x.copy()
    np.add.at(x, i, v)
    return x


def subtracted_at(x: wf.Array, i: wf.Array, v: wf.Array) -> wf.Array:
    x = x.copy()
    np.subtract.at(x, i, v)
    return x


ASKED: dict[str, Callable[..., wf.Array]] = {  # what users write, of a table, indices, and a row for each
    "scatter_add": wf.scatter_add,
    "add.at": added_at,
    "subtract.at": subtracted_at,
    "derivative of x[i]": lambda x, i, v: wf.grad(lambda x: (x[i] * v).sum())(x),
    "derivative of take": lambda x, i, v: wf.grad(lambda x: (wf.take(x, i, axis=0) * v).sum())(x),
    "derivative of an embedding": lambda x, i, v: wf.grad(lambda x: (wf.nn.embedding(i, x) * v).sum())(x),
    "of rows in vmap": lambda x, i, v: wf.vmap(lambda x, v: wf.scatter_add(x, i, v), in_axes=(1, 1), out_axes=1)(x, v),
}


def arguments(dtype: str = "float32") -> tuple[wf.Array, wf.Array, wf.Array]:
    return wf.zeros((7, 3), dtype), wf.array([1, 4, 4, 0, 1]), wf.ones((5, 3), dtype)


def scatters(outputs: Any) -> list[str]:
    return [n.params["mode"] for n in topological_order(outputs) if n.op.name == "scatter"]


def modes(f: Callable[..., Any], *given: Any) -> set[str]:
    return set(scatters(wf.jit(f).trace(*given).graph.outputs))


@pytest.mark.parametrize("name", ASKED)
def test_operations_keep_what_held_where_they_were_written(name: str) -> None:
    f = ASKED[name]
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        with wf.deterministic(False):
            assert modes(f, *arguments(dtype)) == {"add_unordered"}
        assert modes(f, *arguments(dtype)) == {"add"}


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integers_have_one_sum(dtype: str) -> None:
    with wf.deterministic(False):
        assert modes(wf.scatter_add, *arguments(dtype)) == {"add"}


def test_weights_of_bincount() -> None:
    x, weights = np.array([0, 2, 2, 5]), wf.array([0.5, 1.0, 2.0, 4.0])
    for on, mode in ((True, "add"), (False, "add_unordered")):
        with wf.deterministic(on):
            assert modes(lambda w: wf.bincount(x, w), weights) == {mode}
            assert wf.bincount(x, weights).tolist() == [0.5, 0, 3, 0, 0, 4]


def test_which_write_stays_is_never_open() -> None:
    def written(x: wf.Array, i: wf.Array, v: wf.Array) -> wf.Array:
        x = x.copy()
        x[i] = v
        return x

    with wf.deterministic(False):
        assert modes(written, *arguments()) == {"set"}
        assert "add_unordered" not in modes(lambda x, i, v: wf.grad(lambda v: (written(x, i, v) ** 2).sum())(v), *arguments())


def test_derivatives_and_batches_have_it_too() -> None:
    x, i, v = input_leaf((7, 3), FLOAT32), input_leaf((5,), INT64), input_leaf((5, 3), FLOAT32)
    with wf.deterministic(False):
        read = bind(TABLE["gather"], x, i, axes=(0,))
        (first,) = backward([read], [v], [x])
    assert scatters([first]) == ["add_unordered"]
    for mapped in ((v,), (i,), (i, v)):
        ((made, _),) = batch([first], {n: (input_leaf((4, *n.shape), n.dtype), 0) for n in mapped})
        assert scatters([made]) == ["add_unordered"], mapped


@pytest.mark.parametrize("name", ASKED)
def test_the_cpu_computes_as_ever(name: str) -> None:
    """The same kernels; a GPU has others."""
    keys: dict[bool, list[Any]] = {}
    for on in (True, False):
        with wf.deterministic(on):
            graph = wf.jit(ASKED[name]).trace(*arguments()).graph
        keys[on] = [[kernel_key(call.kernel) for call in calls(build(graph, target))] for target in (CPU, GPU)]
    assert keys[True][0] == keys[False][0] and keys[True][1] != keys[False][1]


def test_a_jitted_function_is_traced_once_for_each() -> None:
    f = wf.jit(wf.scatter_add)
    for on in (True, False, True, False):
        with wf.deterministic(on):
            assert f(*arguments())[:, 0].tolist() == [1, 2, 0, 0, 2, 0, 0]
    assert f.traces == 2


def test_rows_of_a_table_are_found_in_either_order() -> None:
    """Optimizers that touch only the rows of a batch know the derivative of a table in both modes: others stay where they are."""
    found = []
    for on in (True, False):
        with wf.deterministic(on):
            wf.random.seed(3)
            table, adam = wf.nn.Embedding(50, 4, sparse=True), wf.optim.Adam(lr=0.1)

            @wf.jit
            def step(table: Any, i: wf.Array, adam: Any = adam) -> None:
                adam.update(table, wf.grad(lambda table: (table(i) ** 2).sum())(table))

            step(table, wf.array([3, 7, 7]))
            after_one = table.weight.numpy()
            step(table, wf.array([49, 0, 49]))
            np.testing.assert_array_equal(table.weight.numpy()[1:49], after_one[1:49])
            found.append(table.weight.numpy())
    np.testing.assert_array_equal(*found)


def test_set_and_get() -> None:
    wf.set_deterministic(False)
    try:
        assert wf.get_deterministic() is False
        with wf.deterministic(True):
            assert wf.get_deterministic() is True
        assert wf.get_deterministic() is False
        with pytest.raises(KeyError), wf.deterministic(True):
            raise KeyError
        assert wf.get_deterministic() is False
    finally:
        wf.set_deterministic(True)


@pytest.mark.parametrize("wrong", [None, 0, 1, "yes", np.True_])
def test_wrong_words(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"set_deterministic: on=.* must be True .* or False"):
        wf.set_deterministic(wrong)
    with pytest.raises(TypeError, match=r"deterministic: on="), wf.deterministic(wrong):
        pass
