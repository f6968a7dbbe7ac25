"""What is run on ``gpu-sim`` and compiled: the samples that ``weft bench gpu`` runs on a card."""

from __future__ import annotations

from benchmarks.gpu.samples import Case, derivatives, primitives, samples, values

__all__ = ["PRIMITIVES", "Case", "derivatives", "samples", "values"]

PRIMITIVES = primitives()
