"""Benchmarks; ``python -m weft.tools bench`` runs ``convnets`` and ``gpu``, the others are scripts."""
