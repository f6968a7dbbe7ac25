"""Writing in place rests on parts of a kernel's order; a device that does not keep one gets no such pair."""

import pytest

from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.hazards import in_place
from weft.kernel.target import EVERY, Target
from weft.schedule.build import build
from weft.schedule.program import Program, calls

F = FLOAT32


def _next(x):
    return bind(TABLE["exp"], x)


def _rows(x):
    """A row is read as a whole before its elements are written."""
    total = bind(TABLE["reduce_sum"], x, axes=(1,), keepdims=True)
    return bind(TABLE["divide"], x, total)


def _all(x):
    """Everything is read in a phase of its own, and once more where it is written."""
    total = bind(TABLE["reduce_sum"], x, axes=(0, 1), keepdims=True)
    return bind(TABLE["divide"], x, total)


CASES = [(_next, {"elements"}), (_rows, {"elements", "iterations"}), (_all, {"elements", "phases"})]


def _program(make, keeps) -> Program:
    x = input_leaf((5, 37), F)
    return build(Graph([x], [make(x)]), Target(kept_orders=frozenset(keeps)))


@pytest.mark.parametrize(("make", "needed"), CASES)
def test_each_order_that_is_needed_is_asked_for(make, needed) -> None:
    (call,) = calls(_program(make, EVERY))
    assert in_place(call.kernel, frozenset(needed)) == [(0, 0)]
    assert _program(make, needed).donate == ((0, 0),)
    for one in needed:
        assert in_place(call.kernel, EVERY - {one}) == []
        assert _program(make, EVERY - {one}).donate == ()


def test_temporaries_share_memory_only_where_the_device_keeps_the_order() -> None:
    x, w = input_leaf((64, 64), F), input_leaf((64, 64), F)
    product = bind(TABLE["dot_general"], x, w, contract=((1,), (0,)), batch=((), ()))
    out = bind(TABLE["sort"], _rows(product), axis=0)
    orders = (EVERY, EVERY - {"iterations"})
    assert [build(Graph([x, w], [out]), Target(kept_orders=keeps)).arena for keeps in orders] == [64 * 64 * 4, 2 * 64 * 64 * 4]
