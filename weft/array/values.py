"""What a Scalar is beside an Array: the number that Python and NumPy take it for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weft.dtypes.scalar_types import CLASSES
from weft.eager import materialise as looking


class Value:
    """Base of Scalar."""

    __slots__ = ()

    if not TYPE_CHECKING:  # to mypy it is one class, as all are

        @property
        def __class__(self) -> type:
            """The class of its dtype, ``wf.float32``: whoever asks for a kind of number with ``isinstance`` gets an answer."""
            return CLASSES[self._node.dtype]

    @property
    def numerator(self: Any) -> int:
        """Of an integer: itself, as a Python int."""
        return self.item().numerator

    @property
    def denominator(self: Any) -> int:
        """Of an integer: 1."""
        return self.item().denominator

    def is_integer(self: Any) -> bool:
        """Whether a real number is a whole one."""
        number = self.item()
        return isinstance(number, int) or number.is_integer()

    def as_integer_ratio(self: Any) -> tuple[int, int]:
        """Two ints whose quotient is a real number, exactly."""
        return self.item().as_integer_ratio()

    def hex(self: Any) -> str:
        """A float's text in base 16."""
        return self.item().hex()

    def bit_count(self: Any) -> int:
        """How many bits of an integer's absolute value are 1."""
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
