"""Files."""

from weft.io.safetensors import load, load_into, save

__all__ = ["load", "load_into", "save"]
