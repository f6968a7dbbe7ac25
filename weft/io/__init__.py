"""Files of weights and of models."""

from weft.process.lazy_names import load_on_use

_NAMES = {  # file -> its public names; ``tools/stub.py`` writes them into ``__init__.pyi``
    "onnx.load": "load_onnx",
    "onnx.save": "save_onnx",
    "weights": "load load_into save",
}

__all__ = sorted(load_on_use(__name__, _NAMES))
