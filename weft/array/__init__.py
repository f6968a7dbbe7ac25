"""Arrays: the classes, and the conversion of objects to arrays.

``operations`` has one record per elementwise operation, used by operators, methods, functions and NumPy's ufuncs. ``core``
defines the classes; ``operators`` and ``methods`` add operators and methods to them; ``looks`` has what reads a value.

An Array holds a node of a graph and no information on how it is computed. What can be written in array code is a function in
``weft.functions``, not a method.
"""

from typing import TYPE_CHECKING

from weft.array.core import Array, Scalar, _unpickle, make_placeholder, wrap, wrap_array, wrap_buffer, wrap_like

if TYPE_CHECKING:
    ndarray = Array  # functions are annotated with Array, so type checkers take both for one class
else:
    from weft.array.core import ndarray

__all__ = ["Array", "Scalar", "_unpickle", "make_placeholder", "ndarray", "wrap", "wrap_array", "wrap_buffer", "wrap_like"]
