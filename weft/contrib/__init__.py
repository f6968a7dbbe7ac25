"""Interfaces of other frameworks on top of weft's own layers: the learner's LayerManager."""

from weft.contrib.manager import LayerManager

__all__ = ["LayerManager"]
