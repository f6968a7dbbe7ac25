"""What is run on ``gpu-sim`` and compiled: every sample of every primitive, in all float formats, with derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests import oracle
from weft.graph.gradient import backward
from weft.graph.node import Graph, Primitive, Sample
from weft.graph.primitives import TABLE, bind

PRIMITIVES = [op for op in TABLE.values() if op.kind != "leaf" and op.samples is not None]
MOST = 20_000  # elements of a sample: the interpreter is slow


class Case(NamedTuple):
    graph: Graph
    arrays: list[np.ndarray]


def samples(op: Primitive, rng: np.random.Generator) -> list[Sample]:
    """The samples of a primitive, those of float32 in the other formats too."""
    found = list(op.samples(rng))  # type: ignore[misc]
    if op.name not in ("bitcast", "cast") and op.kind != "host":
        tags = ("prime", "special") if op.kind == "elementwise" else ("prime",)
        for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
            for s in list(found):
                if s.tag in tags and any(a.dtype == np.float32 for a in s.arrays):
                    with np.errstate(all="ignore"):
                        arrays = tuple(a.astype(dtype) if a.dtype == np.float32 else a for a in s.arrays)
                    found.append(Sample(arrays, s.params, s.tag))
    return [s for s in found if sum(a.size for a in s.arrays) <= MOST]


def values(op: Primitive, rng: np.random.Generator) -> Iterator[Case]:
    for s in samples(op, rng):
        nodes = oracle.leaves(s.arrays)
        yield Case(Graph(nodes, [bind(op, *nodes, **s.params)]), list(s.arrays))


def derivatives(op: Primitive, rng: np.random.Generator) -> Iterator[Case]:
    """The derivatives by all float operands, for a random cotangent."""
    for s in op.samples(rng):  # type: ignore[misc]
        nodes = oracle.leaves(s.arrays)
        out = bind(op, *nodes, **s.params)
        by = [n for n in nodes if oracle.is_float(n.dtype)]
        if s.tag == "special" or not by or not oracle.is_float(out.dtype) or op.vjp is None:
            continue
        if sum(a.size for a in s.arrays) > MOST:
            continue
        cotangent = np.asarray(rng.standard_normal(out.shape), out.dtype.numpy)
        (leaf,) = oracle.leaves([cotangent])
        slopes = [x for x in backward([out], [leaf], by) if x is not None]
        if slopes:
            yield Case(Graph([*nodes, leaf], slopes), [*s.arrays, cotangent])
