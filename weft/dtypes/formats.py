"""Number formats: the layout of a number's bits, the register format that computes it, and promotion.

Graphs, kernels, schedules and devices use formats only. ``np.dtype`` is the form in which users name a dtype
(``weft/dtypes/api.py``) and in which NumPy sees memory.

The default float format is the process's: native calls are guarded by one count, which the process shares. Nothing that depends
on it is cached by dtype alone. The sign of a NaN is kept by casts only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Format:
    """A number format in memory and in registers. There is one object per format, so formats are compared by identity.

    name : the name in user code, printed kernels and messages
    kind : "bool", "signed", "unsigned", "float" or "complex"
    bits : the size of an element in memory
    code : the name in weight files (safetensors); "" if they have none
    numpy : the NumPy dtype
    exponent, mantissa : the stored bits of each, for floats
    bias : the bias of a float's exponent
    computed : the format of registers and arithmetic, from which stores round; the format itself for most
    part : the format of a complex number's parts; the format itself for the rest
    finite : whether a float has no infinities: overflow is NaN, with all bits set
    reach : a bound below which Python numbers certainly fit into a float; -1 for the rest
    """

    name: str
    kind: str
    bits: int
    code: str
    numpy: np.dtype
    exponent: int = 0
    mantissa: int = 0
    bias: int = 0
    computed: Format = None  # type: ignore[assignment]  # the format itself, set by __post_init__
    part: Format = None  # type: ignore[assignment]
    finite: bool = False
    reach: float = -1

    def __post_init__(self) -> None:
        for own in ("computed", "part"):
            if getattr(self, own) is None:
                object.__setattr__(self, own, self)
        if self.kind == "float":
            object.__setattr__(self, "reach", min(65504.0, self.largest))  # at most float16's largest: larger numbers are rare

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    @property
    def bytes(self) -> int:
        """The size of an element in memory."""
        return self.bits // 8

    @property
    def narrow(self) -> bool:
        """Whether the format is storage-only: computed in another format and rounded."""
        return self.computed is not self

    @property
    def integer(self) -> Format:
        """The signed integer format of the same width, for views of the bits."""
        return next(f for f in formats_of_kind("signed") if f.bits == self.bits)

    @property
    def least(self) -> float | int:
        """The smallest value, including infinities."""
        return {"float": -self.greatest, "signed": -(1 << self.bits - 1), "unsigned": 0, "bool": False}[self.kind]

    @property
    def greatest(self) -> float | int:
        """The largest value, including infinities."""
        unbounded = self.largest if self.finite else np.inf
        return {"float": unbounded, "signed": (1 << self.bits - 1) - 1, "unsigned": (1 << self.bits) - 1, "bool": True}[self.kind]

    @property
    def largest(self) -> float:
        """The largest finite number of a float."""
        return (2 - 2.0 ** (self.finite - self.mantissa)) * 2.0 ** (self.bias + self.finite)

    @property
    def alone(self) -> bool:
        """Whether promotion with other floats is refused: 8-bit floats lose most digits, so a cast has to be explicit."""
        return self.kind == "float" and self.bits == 8


_FLOAT32 = Format("float32", "float", 32, "F32", np.dtype(np.float32), 8, 23, 127)
_FLOAT64 = Format("float64", "float", 64, "F64", np.dtype(np.float64), 11, 52, 1023)
FORMATS: dict[str, Format] = {
    f.name: f for f in (
        Format("bool", "bool", 8, "BOOL", np.dtype(np.bool_)),
        *(Format(f"int{n}", "signed", n, f"I{n}", np.dtype(f"int{n}")) for n in (8, 16, 32, 64)),
        *(Format(f"uint{n}", "unsigned", n, f"U{n}", np.dtype(f"uint{n}")) for n in (8, 16, 32, 64)),
        Format("float8_e4m3fn", "float", 8, "F8_E4M3", np.dtype(ml_dtypes.float8_e4m3fn), 4, 3, 7, _FLOAT32, finite=True),
        Format("float8_e5m2", "float", 8, "F8_E5M2", np.dtype(ml_dtypes.float8_e5m2), 5, 2, 15, _FLOAT32),
        Format("float16", "float", 16, "F16", np.dtype(np.float16), 5, 10, 15, _FLOAT32),
        Format("bfloat16", "float", 16, "BF16", np.dtype(ml_dtypes.bfloat16), 8, 7, 127, _FLOAT32),
        _FLOAT32,
        _FLOAT64,
    )
}  # the formats of kernels
HOST_FORMATS: dict[str, Format] = {
    f.name: f for f in (
        Format("complex64", "complex", 64, "C64", np.dtype(np.complex64), part=_FLOAT32),
        Format("complex128", "complex", 128, "", np.dtype(np.complex128), part=_FLOAT64),
    )
}  # computed by NumPy on the host, see graph/primitives/complexes.py
EVERY = {**FORMATS, **HOST_FORMATS}
FROM_NUMPY: dict[np.dtype, Format] = {f.numpy: f for f in EVERY.values()}


def named(name: str) -> Format:
    return EVERY[name]


def formats_of_kind(*kinds: str) -> tuple[Format, ...]:
    """Return the formats of some kinds, in the table's order."""
    return tuple(f for f in EVERY.values() if f.kind in kinds)


(BOOL,) = formats_of_kind("bool")
INT8, INT16, INT32, INT64 = formats_of_kind("signed")
UINT8, UINT16, UINT32, UINT64 = formats_of_kind("unsigned")
FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = formats_of_kind("float")
COMPLEX64, COMPLEX128 = formats_of_kind("complex")
INTEGERS, FLOATS, COMPLEX = (
    frozenset(formats_of_kind("signed", "unsigned")),
    frozenset(formats_of_kind("float")),
    frozenset(formats_of_kind("complex")),
)
INEXACT = FLOATS | COMPLEX  # differentiable formats


# ---- promotion: as in NumPy, except that integers become float32 where NumPy makes them float64


class Default:
    """The formats of floats without a dtype: of Python numbers, of floats from integers, of ``zeros``. One per process.

    real, complex : the formats
    wide : whether ``real`` is float64; then all formats promote as in NumPy
    """

    __slots__ = ("complex", "real", "wide")

    def __init__(self) -> None:
        self.value = FLOAT32

    @property
    def value(self) -> Format:
        return self.real

    @value.setter
    def value(self, form: Format) -> None:
        self.real, self.wide, self.complex = form, form is FLOAT64, COMPLEX128 if form is FLOAT64 else COMPLEX64


DEFAULT = Default()


def promote(a: Format, b: Format) -> Format:
    """Return the format that ``a`` and ``b`` promote to."""
    return _promote(a, b, DEFAULT.wide)


@cache
def _promote(a: Format, b: Format, wide: bool) -> Format:
    if wide and a is not b and BFLOAT16 not in (a, b) and not (a.alone or b.alone):
        return FROM_NUMPY[np.promote_types(a.numpy, b.numpy)]
    if a is b or b is BOOL:
        return a
    if a is BOOL:
        return b
    if (a.alone and b in INEXACT) or (b.alone and a in INEXACT):
        raise _promotion_error(a, b)
    if b.kind == "complex":
        a, b = b, a
    if a.kind == "complex":
        return complex_format(_promote(a.part, b.part, wide)) if b in INEXACT else a
    if a.kind == "float" != b.kind:
        return a if b.bits == 8 else a.computed
    if b.kind == "float" != a.kind:
        return _promote(b, a, wide)
    both = "float" if a.kind == "float" else "unsigned" if a.kind == b.kind == "unsigned" else "signed"
    return next((f for f in formats_of_kind(both) if holds(f, a) and holds(f, b)), FLOAT64)  # uint64 with a signed format


def _promotion_error(a: Format, b: Format) -> Exception:
    from weft import errors  # not at the top: this module is hashed into kernels' cache keys, errors is not

    one, other = (a, b) if a.alone else (b, a)
    common = f"astype('{FLOAT32 if other.alone else other}')"
    return errors.DTypeError(
        f"{a} and {b} do not mix: 8-bit floats become other floats only where that is asked for. Cast the {one} operand with "
        f"{common}{', and the other' if other.alone else ''}, or what meets it with astype('{one}')."
    )


def complex_format(form: Format) -> Format:
    """Return the complex format for numbers of ``form``: complex128 for float64 and its parts, complex64 for other floats."""
    if form not in INEXACT:
        return DEFAULT.complex
    return COMPLEX128 if form.part is FLOAT64 else COMPLEX64


def holds(wide: Format, narrow: Format) -> bool:
    """Return whether every value of ``narrow`` is exactly a value of ``wide``."""
    if wide is narrow or narrow is BOOL:
        return True
    if wide is BOOL:
        return False
    if wide.kind == "complex":
        return holds(wide.part, narrow.part)
    if narrow.kind == "complex":
        return False
    if narrow.kind == "float":
        return wide.kind == "float" and wide.mantissa >= narrow.mantissa and wide.exponent >= narrow.exponent
    bits = narrow.bits - (narrow.kind == "signed")
    if wide.kind == "float":
        return bits <= wide.mantissa + 1 and bits <= wide.bias
    return wide.bits - (wide.kind == "signed") >= bits and not (wide.kind == "unsigned" and narrow.kind == "signed")


def compared(a: Format, b: Format) -> Format:
    """Return the format in which ``a`` and ``b`` are compared: float64 for integers of more than 16 bits with floats."""
    promoted = promote(a, b)
    if promoted in INEXACT and any(f in INTEGERS and f.bits > 16 for f in (a, b)):
        return FLOAT64 if promoted in FLOATS else COMPLEX128
    return promoted


def weak(kind: type, form: Format) -> Format:
    """Return the format of an operation of a Python number of type ``kind`` with an array of ``form``."""
    if kind is float:
        return floating(form)
    if kind is complex:
        return complex_format(form)
    return INT64 if kind is int and form is BOOL else form


def weak_compared(kind: type, form: Format) -> Format:
    """Return the format in which a Python number of type ``kind`` is compared with an array of ``form``."""
    if form in INTEGERS and kind in (float, complex):
        return FLOAT64 if kind is float else COMPLEX128
    return weak(kind, form)


def floating(form: Format) -> Format:
    """Return the format of true division and means: floats and complex formats themselves, the default for the rest."""
    return form if form in INEXACT else DEFAULT.real


def elementwise_float_format(form: Format) -> Format:
    """Return the format of roots, sines and so on: as ``floating``, or NumPy's float16 and float32 for small formats."""
    if form in INEXACT or not DEFAULT.wide or form.bits > 16:
        return floating(form)
    return FLOAT16 if form.bits == 8 else FLOAT32


def summed(form: Format) -> Format:
    """Return the format of a sum or product: 64 bits for integers and bool."""
    return {"float": form, "complex": form, "unsigned": UINT64}.get(form.kind, INT64)


def same_kind(source: Format, target: Format) -> bool:
    """Return whether ``source`` may be written into ``target`` by ``out=`` or in place: bool < unsigned < signed < float <
    complex."""
    order = ("bool", "unsigned", "signed", "float", "complex")
    return order.index(source.kind) <= order.index(target.kind)


def converted(x: np.ndarray, to: np.dtype) -> np.ndarray:
    """Convert like NumPy's astype, with two corrections.

    float64 is rounded once to formats of ml_dtypes, whose conversion rounds to float32 first. All floats give the same
    integers for values that an integer format cannot hold.
    """
    if x.dtype.isbuiltin != 1 and to.kind in "iu":
        return x.astype(np.float32).astype(to)
    if x.dtype != FLOAT64.numpy or to.isbuiltin == 1:
        return x.astype(to)
    with np.errstate(all="ignore"):
        near = np.asarray(x.astype(np.float32))
        back = near.astype(np.float64)
        bits = near.view(np.int32) - (abs(back) > abs(x))  # round to odd: towards zero, then set the last bit if inexact
        odd = np.where((back != x) & np.isfinite(x), bits | 1, near.view(np.int32))
        return odd.astype(np.int32).view(np.float32).astype(to)


def scalar(value: Any, form: Format) -> Any:
    """Convert a Python number to a NumPy scalar, rounded once. NaN loses its sign, which printed kernels cannot show."""
    if form.narrow and form.numpy.isbuiltin != 1 and type(value) is not bool:
        rounded = converted(np.asarray(float(value)), form.numpy)[()]
        return rounded if rounded == rounded else form.numpy.type(np.nan)
    return form.numpy.type(value)
