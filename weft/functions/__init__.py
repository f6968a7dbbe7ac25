"""Functions of arrays, under NumPy's names.

Each is array code: primitives bound to nodes, or other functions. ``common`` has what they share (operands, axes, ``out=``),
the other files are NumPy's chapters.

What array code cannot say is a primitive (``weft.graph.primitives``); nothing here knows kernels or devices.
"""

from weft.graph import source_lines

source_lines.part(__file__, "function")
