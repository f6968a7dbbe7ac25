"""A primitive that moves data and that no pass has heard of: its entry alone makes it fuse, and be right."""

from __future__ import annotations

import numpy as np
from fusing import kernels

from tests.kernel.evaluate import evaluate
from weft.dtypes.formats import FLOAT32
from weft.graph.node import AxisMaps, Graph, Node, Primitive, Reader
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.index import Guards, Index
from weft.kernel.ir import Affine, Value
from weft.schedule.build import build


def _at(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    """The element before, and in front of the first one the last: read at two places."""
    (x,), (*lead, i) = node.inputs, index
    before = i.plus(Affine(-1))
    own = (before, 0, node.shape[-1])
    inside = reader.m.guards_hold((own,))
    assert inside is not None
    last = reader.at(x, (*lead, Affine(node.shape[-1] - 1)), guards)
    return reader.m.select(inside, reader.at(x, (*lead, before), (*guards, own)), last)


def _along(node: Node) -> AxisMaps:
    last = len(node.shape) - 1
    return (tuple([d if d < last else None for d in range(len(node.shape))]),)


ROLLED = Primitive(
    "rolled", "shape", lambda x: (x.shape, x.dtype), lambda x: np.roll(x, 1, -1), moves=True, reads=2, at=_at, axis_maps=_along,
)


def chain(turns: int) -> tuple[Graph, list]:
    x = input_leaf((5, 7), FLOAT32)
    y = x
    for _ in range(turns):
        y = bind(TABLE["add"], bind(ROLLED, bind(TABLE["sin"], y)), y)
    graph = Graph([x], [y])
    return graph, kernels(build(graph))


def test_it_fuses_and_is_right() -> None:
    _, found = chain(1)
    assert len(found) == 1
    x = np.random.default_rng().normal(size=(5, 7)).astype(np.float32)
    (out,), _ = evaluate(found[0], [x])
    np.testing.assert_array_equal(out, np.roll(np.sin(x), 1, -1) + x)


def test_what_is_read_at_two_places_is_computed_twice_and_counts_so() -> None:
    """Else a chain of them would compute an element at ever more places, in one kernel."""
    assert [len(chain(turns)[1]) for turns in (1, 2, 8)] == [1, 1, 3]
