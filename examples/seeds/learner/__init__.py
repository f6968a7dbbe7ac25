"""A learner's framework on top of weft: an article's LayerManager, with its names of layers, options and optimizers.

For programs in this folder, and others that have it on their path: ``from learner import LayerManager``.
"""

from learner.manager import LayerManager

__all__ = ["LayerManager"]
