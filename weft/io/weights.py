"""Weight files; ``weft.nn.weights`` has the code, which modules use too."""

from weft.nn.weights import load, load_into, save

__all__ = ["load", "load_into", "save"]
