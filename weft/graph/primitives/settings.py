"""Parameters of products and scatters: how exactly float32 is multiplied, formats of a product, the order of a scatter.

The first and the last are settings of the whole process, and permissions, which devices may leave unused. So is the algorithm of
convolutions. A product of another precision than float32 has it as a parameter, and so have its derivatives; a convolution of
another algorithm than the direct one has that. A scatter has its mode.

Every product takes these *settings*: ``precision``; ``accumulator``, an :class:`Accumulator` or None; ``operands``, the formats
to which the operands are rounded, to nearest, as they are read, or None. Devices must honour the last two. The derivative of a
rounding is the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from weft.dtypes.formats import BFLOAT16, FLOAT32, FLOATS, Format, holds
from weft.dtypes.rounding import Accumulator
from weft.errors import DTypeError

T = TypeVar("T")


class Choice(Generic[T]):
    """A process-wide setting. Its ``value`` applies to operations that are created afterwards."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


PRECISIONS = ("float32", "tf32", "tf32x3", "bfloat16")
MATMUL_PRECISION = Choice("float32")  # the precision of new products
ADD, ADD_UNORDERED = "add", "add_unordered"
ADD_MODES = (ADD, ADD_UNORDERED)
CONV_ALGORITHMS = ("direct", "winograd")
CONV_ALGORITHM = Choice("direct")  # the algorithm of new convolutions
DETERMINISM = Choice(True)  # whether every run must produce the same bits


def current_precision(dtype: Format) -> dict[str, Any]:
    """Return the precision parameter of a new product of ``dtype``."""
    return {} if dtype is not FLOAT32 else precision_params(MATMUL_PRECISION.value)


def precision_params(precision: str) -> dict[str, Any]:
    """Return a precision as a parameter; {} for float32."""
    return {} if precision == "float32" else {"precision": precision}


def convolution_params(dtype: Format) -> dict[str, Any]:
    """Return the algorithm and precision parameters of a new convolution of ``dtype``; {} for the direct one in float32.

    A convolution of bfloat16 has the precision "bfloat16", too, where it is permitted: its sums then have another order.
    """
    algorithm, precision = CONV_ALGORITHM.value, MATMUL_PRECISION.value
    params = {} if algorithm == "direct" or dtype.computed is not FLOAT32 else {"algorithm": algorithm}
    return params | (precision_params(precision) if dtype is FLOAT32 or dtype is BFLOAT16 and precision == "bfloat16" else {})


Pair = tuple[Format | None, Format | None]


def format_params(accumulator: Accumulator | None, operands: Pair = (None, None)) -> dict[str, Any]:
    """Return the formats of a product as parameters, without those that have their defaults."""
    given = {"accumulator": accumulator, "operands": None if operands == (None, None) else operands}
    return {name: value for name, value in given.items() if value is not None}


def has_formats(params: Mapping[str, Any]) -> bool:
    """Return whether the parameters of a product choose formats."""
    return "accumulator" in params or "operands" in params


def with_operands(settings: Mapping[str, Any], a: Format | None, b: Format | None) -> dict[str, Any]:
    """Return a product's settings for other operands, which are rounded to ``a`` and ``b``."""
    rest = {name: value for name, value in settings.items() if name != "operands"}
    return rest if a is b is None else {**rest, "operands": (a, b)}


def check_formats(name: str, dtype: Format, accumulator: Accumulator | None = None, operands: Pair = (None, None)) -> None:
    """Raise DTypeError if a product of ``dtype`` cannot add up or be rounded in these formats."""
    if accumulator is not None and dtype.computed is not FLOAT32:
        raise DTypeError(
            f"{name}: numbers of {dtype} cannot be added up in {accumulator.form}: rounded sums are sums in float32. Cast the "
            "operands, or leave accumulate= out"
        )
    for form in operands:
        if form is not None and not holds(dtype, form):
            raise DTypeError(f"{name}: operands of {dtype} cannot represent the numbers of {form}: cast them to float32")


def scatter_add_mode(dtype: Format) -> str:
    """Return the mode of a new scatter that adds numbers of ``dtype``. For integers any order has the same result."""
    return ADD if DETERMINISM.value or dtype not in FLOATS else ADD_UNORDERED
