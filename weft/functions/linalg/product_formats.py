"""The arguments of products that choose number formats: ``operands``, ``accumulate`` and ``every``."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes.check import parse_number_format
from weft.dtypes.formats import BOOL, FLOAT32, INT32, INTEGERS, holds
from weft.dtypes.parse import parse_dtype
from weft.dtypes.rounding import Accumulator
from weft.errors import DTypeError
from weft.functions.support.arguments import Node, cast, check_int
from weft.graph.primitives.settings import check_formats, format_params

NARROW = "float16, bfloat16, a float8 or smaller float, or a made format of fewer digits"


def prepare_product(
    name: str, a: Node, b: Node, operands: Any, accumulate: Any, every: Any,
) -> tuple[Node, Node, dict[str, Any]]:
    """Return the operands of a product, and its settings."""
    accumulator = parse_accumulator(name, accumulate, every)
    if accumulator is not None and accumulator.form is INT32:
        if not (a.dtype is BOOL or a.dtype in INTEGERS and holds(INT32, a.dtype)):
            raise DTypeError(
                f"{name}: accumulate=int32 is for bools and integers whose common dtype int32 holds, not for {a.dtype}: cast the "
                "operands"
            )
        a, b, accumulator = cast(a, INT32), cast(b, INT32), None
    form = None if operands is None else parse_number_format(f"{name}: operands", operands)
    if accumulator is None and form is None:
        return a, b, {}
    check_formats(name, a.dtype, accumulator, (form, form))
    form_a, form_b = (None if form is None or holds(form, x.dtype) else form for x in (a, b))
    return a, b, format_params(accumulator, (form_a, form_b))


def parse_accumulator(name: str, accumulate: Any, every: Any) -> Accumulator | None:
    """Return how products are added up; None for float32, which is not rounded. The format int32 is for integers."""
    if accumulate is None:
        if every is not None:
            raise ValueError(f"{name}: every={every!r} needs the format of the sums: accumulate=")
        return None
    if isinstance(every, bool | np.bool_):
        raise DTypeError(f"{name}: every must be an integer, not {every!r}")
    form, block = parse_dtype(accumulate), 1 if every is None else check_int(every, name, "every")
    if block < 1:
        raise ValueError(f"{name}: every={every!r} must be at least 1, the products that are added before their sum is rounded")
    if form is INT32:
        if every is not None:
            raise ValueError(f"{name}: every={every!r} is for sums that are rounded; sums in int32 wrap instead")
        return Accumulator(form)
    form = parse_number_format(f"{name}: accumulate", form)
    if form is FLOAT32:
        return None
    if form.computed is not FLOAT32:
        raise DTypeError(
            f"{name}: accumulate={form} is not narrower than float32, in which products are added: give {NARROW}, or cast the "
            "operands to float64"
        )
    return Accumulator(form, block)
