"""Block formats: small numbers in blocks of an axis, with one scale for each block."""

from __future__ import annotations

import math
import operator
from typing import Any

from weft.dtypes.formats import FLOATS, FORMATS, INT8, Format
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.process.docstrings import complete_module


class BlockFormat:
    """A block format. Equal parameters make equal formats.

    Parameters
    ----------
    name : str
    element : Format
        The format of an element; int8 for integers of 4 bits.
    bits : int
        The bits of an element. 4-bit elements are stored two a byte, others one a byte.
    block : int or None
        The number of elements with one scale; None: all elements along the axis.
    scale : Format
    has_tensor_scale : bool
        Whether there is also a float32 scale for the whole array.

    Examples
    --------
    >>> wf.mxfp4, wf.mxfp4.block, wf.mxfp4.bits
    (mxfp4, 32, 4)
    """

    __slots__ = ("bits", "block", "element", "has_tensor_scale", "name", "scale")

    def __init__(
        self, name: str, element: Format, bits: int, block: int | None, scale: Format, has_tensor_scale: bool = False,
    ) -> None:
        self.name, self.element, self.bits, self.block = name, element, bits, block
        self.scale, self.has_tensor_scale = scale, has_tensor_scale

    def _parameters(self) -> tuple[Any, ...]:
        return self.element, self.bits, self.block, self.scale, self.has_tensor_scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockFormat) and self._parameters() == other._parameters()

    def __hash__(self) -> int:
        return hash(self._parameters())

    def __repr__(self) -> str:
        return self.name

    @property
    def largest(self) -> float:
        """The largest element."""
        return self.element.largest if self.element in FLOATS else float((1 << self.bits - 1) - 1)

    @property
    def top_exponent(self) -> int:
        """The exponent of the largest element."""
        return math.frexp(self.largest)[1] - 1

    @property
    def has_power_scales(self) -> bool:
        """Whether scales are powers of two."""
        return self.scale.special == "scale"

    @property
    def is_packed(self) -> bool:
        """Whether two elements share a byte."""
        return self.bits == 4

    @property
    def run(self) -> int:
        """The number of elements that are packed together: the first half in the low bits of bytes, the second in the high bits.

        1 if elements are not packed.
        """
        if not self.is_packed:
            return 1
        return 32 if self.block is None or self.block % 32 == 0 else self.block

    @property
    def block_axes(self) -> int:
        """The number of axes of a block, see :meth:`block_shape`."""
        return 3 if self.is_packed else 1

    def block_shape(self, extent: int) -> tuple[int, ...]:
        """Return the number of blocks that hold an axis, and the shape of a block: (runs, 2, run / 2) if it is packed."""
        size = self.block or max(-(-extent // self.run) * self.run, self.run)
        return -(-extent // size), *((size // self.run, 2, self.run // 2) if self.is_packed else (size,))


def block_format(element: Any, block: int | None = 32, *, scale: Any = "float32") -> BlockFormat:
    """Return the format of small numbers with one scale for each block of ``block`` adjacent ones.

    Parameters
    ----------
    element : dtype
        ``"int4"``, ``"int8"``, or a float dtype of 8 bits or fewer. Integers are symmetric: -7 to 7 and -127 to 127.
    block : int or None
        None: one scale for all elements along the axis. 4-bit elements need an even number.
    scale : float dtype
        The dtype of the scales: float32, float16, bfloat16, float8_e4m3fn, or float8_e8m0fnu for powers of two.

    Returns
    -------
    BlockFormat

    Raises
    ------
    DTypeError
        ``element`` or ``scale`` is not one of these.
    ValueError
        ``block`` is not a positive integer, or is odd for 4-bit elements.

    Examples
    --------
    >>> wf.block_format("int4", 128)
    block_format('int4', 128, scale='float32')
    >>> wf.nn.quantize(wf.ones((2, 256)), wf.block_format("int4", 128)).nbytes  # 2 * 128 bytes of codes, 2 * 2 scales
    272
    """
    name = element if isinstance(element, str) else getattr(element, "name", None)
    form, bits = (INT8, 4) if name == "int4" else (parse_dtype(element), 0)
    bits = bits or form.bits
    if not (form is INT8 or form in FLOATS and bits <= 8 and form.special in ("ieee", "fn", "fnuz", "finite")):
        raise DTypeError(f"block_format: element={form} must be int4, int8, or a float dtype of 8 bits or fewer")
    if block is not None and not isinstance(block, bool) and hasattr(type(block), "__index__"):
        block = operator.index(block)
    if block is not None and (type(block) is not int or block < 1 or bits == 4 and block % 2):
        even = "even " if bits == 4 else ""
        raise ValueError(f"block_format: block={block!r} must be a positive {even}integer, or None for one scale along the axis")
    scales = parse_dtype(scale)
    if scales.name not in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"):
        raise DTypeError(
            f"block_format: scale={scales} must be float32, float16, bfloat16, float8_e4m3fn or float8_e8m0fnu"
        )
    name = f"int{bits}" if form is INT8 else form.name
    made = BlockFormat(f"block_format({name!r}, {block}, scale={scales.name!r})", form, bits, block, scales)
    return _NAMED.get(made, made)


def _mx(name: str, element: str) -> BlockFormat:
    form = FORMATS[element]
    return BlockFormat(name, form, form.bits, 32, FORMATS["float8_e8m0fnu"])


# OCP Microscaling Formats (MX) Specification 1.0; NVFP4: NVIDIA, Pretraining large language models with NVFP4, 2025
mxfp8_e4m3 = _mx("mxfp8_e4m3", "float8_e4m3fn")
mxfp8_e5m2 = _mx("mxfp8_e5m2", "float8_e5m2")
mxfp6_e2m3 = _mx("mxfp6_e2m3", "float6_e2m3fn")
mxfp6_e3m2 = _mx("mxfp6_e3m2", "float6_e3m2fn")
mxfp4 = _mx("mxfp4", "float4_e2m1fn")
nvfp4 = BlockFormat("nvfp4", FORMATS["float4_e2m1fn"], 4, 16, FORMATS["float8_e4m3fn"], has_tensor_scale=True)
_NAMED = {form: form for form in (mxfp8_e4m3, mxfp8_e5m2, mxfp6_e2m3, mxfp6_e3m2, mxfp4, nvfp4)}  # one name for equal formats

complete_module(globals())
