"""Weight files under the names users look for: ``weft.nn.weights`` has the code."""

from weft.nn.weights import load, load_into, save

__all__ = ["load", "load_into", "save"]
