"""The primitives. Importing this package fills ``TABLE``.

``table`` defines the table; an entry is a Primitive (``graph/node.py``). ``elementwise``, ``shape``, ``reduce`` and the like
contain the entries, one kind a file, with rules, derivatives and batching beside them. ``formulas`` and ``index_rules`` define
them for kernels. A new primitive is one entry in one of these files: CONTRIBUTING.md.
"""

from weft.graph.primitives import (
    conv_general,
    dot_general,
    elementwise,
    host,
    index,
    random,
    reduce,
    reduce_window,
    rounding,
    running,
    shape,
)
from weft.graph.primitives.table import CONSTANT, INPUT, SCALAR, TABLE, bind, constant, input_leaf, register, scalar_leaf

__all__ = [
    "CONSTANT", "INPUT", "SCALAR", "TABLE", "bind", "constant", "conv_general", "dot_general", "elementwise", "host", "index",
    "input_leaf", "random", "reduce", "reduce_window", "register", "rounding", "running", "scalar_leaf", "shape",
]
