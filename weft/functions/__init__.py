"""Functions of arrays, under NumPy's names.

Each function is array code: primitives bound to nodes, or calls of other functions. ``support`` has the shared helpers
(operands, axes, ``out=``); the other packages follow NumPy's chapters.

Operations that array code cannot express are primitives (``weft.graph.primitives``); nothing here depends on kernels or
devices.
"""

from weft.graph import source_lines

source_lines.part(__file__, "function")
