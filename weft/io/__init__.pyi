"""The names of ``wf.io.*`` for type checkers and editors; ``__init__.py`` loads them from its files.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.io.onnx.load import load_onnx as load_onnx
from weft.io.onnx.save import save_onnx as save_onnx
from weft.io.weights import load as load, load_into as load_into, save as save
