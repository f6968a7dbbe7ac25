"""Tallies: order-free reductions of what a kernel stores, computed in the loop that stores it.

A reduction is *order-free* if its result has the same bits in any order: an extremum, or a sum or product of integers. If a
kernel has tallies, its Contraction stores nothing. The Stage over (batch, m, n) that follows reads the product's element as
``acc``, reduces and stores. A last phase stores what the kernel computes from the tallies. Without a product, the reductions of a
Stage with stores are tallies if all of them are order-free.

    product y[M, N] = a @ b, largest[()] = abs(y).max()
    phase
      product acc0: m, n, k                      stores nothing
      stage m, n: acc1 = max abs(acc0)           y[m, n] = acc0
    phase
      stage: largest = acc1
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from weft.dtypes.formats import FLOATS, Format
from weft.kernel.expressions import roots, walk
from weft.kernel.ir import Contraction, Kernel, Phase, Reduction, Stage, Store


def is_order_free(monoid: str, dtype: Format) -> bool:
    """Return whether a reduction of elements of this dtype has the same bits in any order.

    The larger of two zeros is +0.0 and NaN is the extremum of anything and NaN, so extrema of floats qualify.
    """
    return monoid in ("max", "min") or (monoid in ("sum", "prod") and dtype not in FLOATS)


class TallySplit(NamedTuple):
    """The phases of a kernel without the last one, and the stores of this one, which read tallies."""

    phases: tuple[Phase, ...]
    stores: tuple[Store, ...]


def split_last_phase(kernel: Kernel) -> TallySplit:
    """Separate the phase that stores tallies from the phases before it."""
    last = kernel.phases[-1].stages[0] if kernel.phases and len(kernel.phases[-1].stages) == 1 else None
    tallies = {r.id for phase in kernel.phases for s in phase.stages[1:] if isinstance(s, Stage) for r in s.reductions}
    if isinstance(last, Stage) and not (last.axes or last.reductions or kernel.phases[-1].axes):
        if any(v.op == "acc" and v.attr in tallies for v in walk(roots([last]))):
            return TallySplit(kernel.phases[:-1], last.stores)
    return TallySplit(kernel.phases, ())


def reduces_tallies(stage: Stage) -> bool:
    """Return whether all reductions of a stage are order-free and over all of its loops, in any order."""
    return all(set(r.axes) == set(stage.axes) and not r.running and is_order_free(r.monoid, r.accum) for r in stage.reductions)


def contraction_of(phase: Phase) -> tuple[Contraction, tuple[Reduction, ...]] | None:
    """Return the contraction of a phase, with all stores of the phase, and its tallies. None if the phase has other stages."""
    c, *more = phase.stages
    if not isinstance(c, Contraction) or len(more) > 1:
        return None
    if not more:
        return c, ()
    (stage,) = more
    if not isinstance(stage, Stage) or c.stores or stage.axes != (*c.batch, *c.m, *c.n) or not reduces_tallies(stage):
        return None
    return replace(c, stores=stage.stores), stage.reductions
