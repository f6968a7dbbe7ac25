"""Files."""

from weft.nn.weights import load, load_into, save

__all__ = ["load", "load_into", "save"]
