"""Arrays: the classes, and what makes objects of them.

``operations`` has a record for each operation: operators, methods, functions and NumPy's ufuncs all ask it. ``core`` is the
class, ``operators`` and ``methods`` hang on it what the records and the functions say, ``looks`` is what Python and other
libraries see.

An Array holds a node of a graph and nothing of how it will be computed. What can be written in array code is a function
(``weft.functions``), not a method of its own.
"""

from typing import TYPE_CHECKING

from weft.array.core import Array, Scalar, _unpickle, holding, like, own, standing_for, wrap

if TYPE_CHECKING:
    ndarray = Array  # functions say that they give an Array: to type checkers both are one
else:
    from weft.array.core import ndarray

__all__ = ["Array", "Scalar", "_unpickle", "holding", "like", "ndarray", "own", "standing_for", "wrap"]
