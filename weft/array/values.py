"""The number methods of Scalar, as Python's and NumPy's numbers have them.

All scalars are one class, so native calls make one without looking at the dtype; ``__class__`` reports the class of the dtype
to ``isinstance``, ``match`` and ``numbers``. These classes hash as NumPy's ``x.dtype.type``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weft.dtypes.scalar_types import CLASSES
from weft.eager import materialise as looking


class Value:
    """Base of Scalar."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for mypy, Scalar is one class

        @property
        def __class__(self) -> type:
            """The class of its dtype, such as ``wf.float32``, so that ``isinstance`` works for kinds of numbers."""
            return CLASSES[self._node.dtype]

    @property
    def numerator(self: Any) -> int:
        """The integer itself, as a Python int."""
        return self.item().numerator

    @property
    def denominator(self: Any) -> int:
        """1, for an integer."""
        return self.item().denominator

    def is_integer(self: Any) -> bool:
        """Return whether a real number is integral."""
        number = self.item()
        return isinstance(number, int) or number.is_integer()

    def as_integer_ratio(self: Any) -> tuple[int, int]:
        """Return two ints whose quotient is exactly the number."""
        return self.item().as_integer_ratio()

    def hex(self: Any) -> str:
        """Return a float as hexadecimal text."""
        return self.item().hex()

    def bit_count(self: Any) -> int:
        """Return the number of 1 bits in an integer's absolute value."""
        return self.item().bit_count()

    def __round__(self: Any, digits: int | None = None) -> Any:
        return round(self.item()) if digits is None else self.round(digits)

    def __trunc__(self: Any) -> int:
        return math.trunc(self.item())

    def __floor__(self: Any) -> int:
        return math.floor(self.item())

    def __ceil__(self: Any) -> int:
        return math.ceil(self.item())

    def __hash__(self: Any) -> int:
        return hash(self.item())

    def __copy__(self: Any) -> Any:
        return self

    def __deepcopy__(self: Any, memo: Any) -> Any:
        return self

    def __repr__(self: Any) -> str:
        name = self.dtype.name
        return f"{name}({self.numpy()!s})" if looking.known(self.node) else f"{name}(<not known while tracing>)"
