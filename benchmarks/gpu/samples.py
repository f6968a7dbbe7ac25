"""Programs of single primitives: their samples in all float formats, with derivatives. The tests of devices run the same."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import weft.functions
from tests.kernel.samples.sample import Sample
from tests.kernel.samples.table import draw_samples, has_samples
from weft.dtypes.formats import FLOAT32, FLOATS, FROM_NUMPY, formats_of_kind
from weft.graph.gradient import backward
from weft.graph.node import Graph, Primitive
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.graph.primitives.table import LAZY_ENTRIES

Choose = Callable[[Sequence[np.dtype]], Sequence[np.dtype]]
MOST = 20_000  # elements of a sample: an interpreter is slow


class Case(NamedTuple):
    graph: Graph
    arrays: list[np.ndarray]


def primitives() -> list[Primitive]:
    """Return all primitives with samples. First import ``weft/functions/``, whose files define some of them."""
    for file in pkgutil.walk_packages(weft.functions.__path__, "weft.functions."):
        importlib.import_module(file.name)
    for module in LAZY_ENTRIES:
        importlib.import_module(f"weft.graph.primitives.{module}")
    return [op for op in TABLE.values() if op.kind != "leaf" and has_samples(op)]


def samples(op: Primitive, rng: np.random.Generator, choose: Choose = list) -> list[Sample]:
    """Return the samples of a primitive, those of float32 also in the other float formats that ``choose`` returns of all."""
    samples_ = draw_samples(op, rng)
    if op.name not in ("bitcast", "cast") and op.kind != "host":
        tags = ("prime", "special") if op.kind == "elementwise" else ("prime",)
        for dtype in choose([form.numpy for form in formats_of_kind("float") if form is not FLOAT32]):
            for s in list(samples_):
                if s.tag in tags and any(a.dtype == np.float32 for a in s.arrays):
                    with np.errstate(all="ignore"):
                        arrays = tuple(a.astype(dtype) if a.dtype == np.float32 else a for a in s.arrays)
                    samples_.append(Sample(arrays, s.params, s.tag))
    return [s for s in samples_ if sum(a.size for a in s.arrays) <= MOST]


def values(op: Primitive, rng: np.random.Generator, choose: Choose = list) -> Iterator[Case]:
    """Yield a program for each sample."""
    for s in samples(op, rng, choose):
        nodes = [input_leaf(a.shape, FROM_NUMPY[a.dtype]) for a in s.arrays]
        yield Case(Graph(nodes, [bind(op, *nodes, **s.params)]), list(s.arrays))


def derivatives(op: Primitive, rng: np.random.Generator) -> Iterator[Case]:
    """Yield programs of the derivatives by all float operands, for a random cotangent."""
    for s in draw_samples(op, rng):
        nodes = [input_leaf(a.shape, FROM_NUMPY[a.dtype]) for a in s.arrays]
        out = bind(op, *nodes, **s.params)
        by = [n for n in nodes if n.dtype in FLOATS]
        if s.tag == "special" or not by or out.dtype not in FLOATS or op.vjp is None:
            continue
        if sum(a.size for a in s.arrays) > MOST:
            continue
        cotangent = np.asarray(rng.standard_normal(out.shape), out.dtype.numpy)
        leaf = input_leaf(cotangent.shape, FROM_NUMPY[cotangent.dtype])
        slopes = [x for x in backward([out], [leaf], by) if x is not None]
        if slopes:
            yield Case(Graph([*nodes, leaf], slopes), [*s.arrays, cotangent])
