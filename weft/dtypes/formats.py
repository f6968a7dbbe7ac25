"""Number formats: the layout of a number's bits, the register format that computes it, and promotion.

Graphs, kernels, schedules and devices use formats only. ``np.dtype`` is the form in which users name a dtype
(``weft/dtypes/api.py``) and in which NumPy sees memory.

The default float format is the process's: native calls are guarded by one count, which the process shares. Nothing that depends
on it is cached by dtype alone. The sign of a NaN is kept by casts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Format:
    """A number format in memory and in registers. There is one object per format, so formats are compared by identity.

    name : the name in user code, printed kernels and messages
    kind : "bool", "signed", "unsigned", "float" or "complex"
    bits : the bits of a number; it takes a whole number of bytes in memory, in whose low bits it stands
    code : the name in weight files (safetensors); "" if they have none
    numpy : the NumPy dtype
    exponent, mantissa : the stored bits of each, for floats
    bias : the bias of a float's exponent
    computed : the format of registers and arithmetic, from which stores round; the format itself for most
    part : the format of a complex number's parts; the format itself for the rest
    special : what a float has besides numbers. "ieee": infinities and NaNs; "fn": NaN, with all bits set; "fnuz": NaN, in place
        of -0; "finite": nothing; "scale": NaN only, no sign and no zero; "fixed": nothing, and the bits are an integer
    saturate : whether casts replace numbers that are too large by the largest one
    subnormals : whether a float has numbers below the smallest normal one, besides 0
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
    special: str = "ieee"
    saturate: bool = False
    subnormals: bool = True
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
    def custom(self) -> bool:
        """Whether a user made the format: NumPy has no dtype for it, and sees its bits."""
        return self.numpy.names is not None

    @property
    def bytes(self) -> int:
        """The size of an element in memory."""
        return self.numpy.itemsize

    @property
    def narrow(self) -> bool:
        """Whether the format is storage-only: computed in another format and rounded."""
        return self.computed is not self

    @property
    def finite(self) -> bool:
        """Whether a float has no infinities."""
        return self.special != "ieee"

    @property
    def has_ordered_bits(self) -> bool:
        """Whether the bits of a float's positive numbers, counted up, are those of the next number."""
        return self.bits == 8 * self.bytes and self.special not in ("fnuz", "scale", "fixed") and self.subnormals

    @property
    def integer(self) -> Format:
        """The signed integer format of the same size, for views of the bits."""
        return next(f for f in formats_of_kind("signed") if f.bits == 8 * self.bytes)

    @property
    def least(self) -> float | int:
        """The smallest value, including infinities."""
        smallest = -np.inf if self.special == "ieee" else self.lowest
        return {"float": smallest, "signed": -(1 << self.bits - 1), "unsigned": 0, "bool": False}[self.kind]

    @property
    def greatest(self) -> float | int:
        """The largest value, including infinities."""
        unbounded = np.inf if self.special == "ieee" else self.largest
        return {"float": unbounded, "signed": (1 << self.bits - 1) - 1, "unsigned": (1 << self.bits) - 1, "bool": True}[self.kind]

    @property
    def largest(self) -> float:
        """The largest finite number of a float."""
        field, digits = divmod(self.top, 1 << self.mantissa)
        if not field and self.special != "scale":  # subnormal
            return digits * 2.0 ** (1 - self.bias - self.mantissa)
        return (1 + digits * 2.0**-self.mantissa) * 2.0 ** (field - self.bias)

    @property
    def lowest(self) -> float:
        """The smallest finite number of a float. Fixed-point formats have one more number below zero than above."""
        return -self.largest - (2.0 ** (1 - self.bias - self.mantissa) if self.special == "fixed" else 0)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number of a float with all digits."""
        return 2.0 ** ((self.special != "scale") - self.bias)

    @property
    def top(self) -> int:
        """The bits of the largest finite number of a float."""
        size = 1 << self.exponent + self.mantissa
        return size - {"ieee": (1 << self.mantissa) + 1, "fn": 2, "scale": 2}.get(self.special, 1)

    @property
    def nan(self) -> int:
        """The bits of a float's NaN. Formats without one have -0 in its place, as ml_dtypes' have."""
        size = 1 << self.exponent + self.mantissa
        if self.special == "ieee":
            return size - (1 << self.mantissa) | 1 << self.mantissa >> 1
        return size - 1 if self.special in ("fn", "scale") else 0 if self.special == "fixed" else size

    @property
    def overflow(self) -> float:
        """The result of casts of positive numbers that are too large: infinity, NaN or the largest number."""
        if self.saturate or self.special in ("finite", "fixed"):
            return self.largest
        return np.inf if self.special == "ieee" else np.nan

    @property
    def alone(self) -> bool:
        """Whether promotion with other floats is refused: small floats lose most digits, so a cast has to be explicit."""
        return self.kind == "float" and (self.bits <= 8 or self.custom)


def _numpy_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def _float(name: str, code: str, exponent: int, mantissa: int, bias: int, special: str = "ieee") -> Format:
    """Return a float format that is computed in float32."""
    bits = exponent + mantissa + (special != "scale")
    return Format(name, "float", bits, code, _numpy_of(name), exponent, mantissa, bias, _FLOAT32, special=special)


_INT8, _UINT8 = Format("int8", "signed", 8, "I8", np.dtype(np.int8)), Format("uint8", "unsigned", 8, "U8", np.dtype(np.uint8))
_FLOAT32 = Format("float32", "float", 32, "F32", np.dtype(np.float32), 8, 23, 127)
_FLOAT64 = Format("float64", "float", 64, "F64", np.dtype(np.float64), 11, 52, 1023)
FORMATS: dict[str, Format] = {
    f.name: f for f in (
        Format("bool", "bool", 8, "BOOL", np.dtype(np.bool_)),
        *(Format(f"int{n}", "signed", n, "", _numpy_of(f"int{n}"), computed=_INT8) for n in (2, 4)),
        _INT8,
        *(Format(f"int{n}", "signed", n, f"I{n}", np.dtype(f"int{n}")) for n in (16, 32, 64)),
        *(Format(f"uint{n}", "unsigned", n, "", _numpy_of(f"uint{n}"), computed=_UINT8) for n in (2, 4)),
        _UINT8,
        *(Format(f"uint{n}", "unsigned", n, f"U{n}", np.dtype(f"uint{n}")) for n in (16, 32, 64)),
        _float("float4_e2m1fn", "", 2, 1, 1, "finite"),
        _float("float6_e2m3fn", "", 2, 3, 1, "finite"),
        _float("float6_e3m2fn", "", 3, 2, 3, "finite"),
        _float("float8_e8m0fnu", "F8_E8M0", 8, 0, 127, "scale"),
        _float("float8_e5m2", "F8_E5M2", 5, 2, 15),
        _float("float8_e5m2fnuz", "", 5, 2, 16, "fnuz"),
        _float("float8_e4m3", "", 4, 3, 7),
        _float("float8_e4m3fn", "F8_E4M3", 4, 3, 7, "fn"),
        _float("float8_e4m3fnuz", "F8_E4M3FNUZ", 4, 3, 8, "fnuz"),
        _float("float8_e4m3b11fnuz", "", 4, 3, 11, "fnuz"),
        _float("float8_e3m4", "", 3, 4, 3),
        _float("float16", "F16", 5, 10, 15),
        _float("bfloat16", "BF16", 8, 7, 127),
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
    """Return the format of a name; make it if it is the name of a user's format."""
    form = EVERY.get(name)
    if form is None:
        if (float_ := _FLOAT_NAME.fullmatch(name)) is not None:
            exponent, mantissa, bias = (int(x) for x in float_.groups()[:3])
            return float_format(exponent, mantissa, bias, float_[4], float_[5] is not None, float_[6] is None)
        if (fixed := _FIXED_NAME.fullmatch(name)) is not None:
            return fixed_format(int(fixed[1]), int(fixed[2]))
        raise KeyError(name)
    return form


def formats_of_kind(*kinds: str) -> tuple[Format, ...]:
    """Return weft's own formats of some kinds, in the table's order."""
    return tuple(f for table in (FORMATS, HOST_FORMATS) for f in table.values() if f.kind in kinds)


(BOOL,) = formats_of_kind("bool")
INT2, INT4, INT8, INT16, INT32, INT64 = formats_of_kind("signed")
UINT2, UINT4, UINT8, UINT16, UINT32, UINT64 = formats_of_kind("unsigned")
FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = (
    FORMATS[name] for name in ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64")
)
COMPLEX64, COMPLEX128 = formats_of_kind("complex")


class Kinds(set[Format]):
    """A set of formats, hashed by identity. Formats of users join the sets that contain float32."""

    made: ClassVar[WeakSet[Kinds]] = WeakSet()

    def __init__(self, formats: Iterable[Format] = ()) -> None:
        super().__init__(formats)
        self.made.add(self)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __or__(self, other: Iterable[Format]) -> Kinds:  # type: ignore[override]
        return Kinds([*self, *other])


INTEGERS, FLOATS, COMPLEX = (
    Kinds(formats_of_kind(*kinds)) for kinds in (("signed", "unsigned"), ("float",), ("complex",))
)
INEXACT = FLOATS | COMPLEX  # differentiable formats


# ---- formats that users make

_FLOAT_NAME = re.compile(r"float_e(\d{1,2})m(\d{1,2})b(-?\d{1,4})_(ieee|fn|fnuz|finite)(_saturate)?(_flush)?")
_FIXED_NAME = re.compile(r"fixed(\d{1,2})_(-?\d{1,3})")


def float_format(exponent: int, mantissa: int, bias: int, special: str, saturate: bool, subnormals: bool) -> Format:
    """Return the format of a float. Equal arguments give one object, that of weft's own format if it is one."""
    if special == "ieee" and not saturate and subnormals:
        wide = next((f for f in (_FLOAT32, _FLOAT64) if (f.exponent, f.mantissa, f.bias) == (exponent, mantissa, bias)), None)
        if wide is not None:
            return wide
    saturate = saturate and special != "finite"
    key = exponent, mantissa, bias, special, saturate, subnormals
    for f in EVERY.values():
        if f.kind == "float" and (f.exponent, f.mantissa, f.bias, f.special, f.saturate, f.subnormals) == key:
            return f
    name = f"float_e{exponent}m{mantissa}b{bias}_{special}{'_saturate' * saturate}{'' if subnormals else '_flush'}"
    return _make(name, *key)


def fixed_format(bits: int, fraction: int) -> Format:
    """Return the format of integers of ``bits`` bits times 2**-fraction."""
    name = f"fixed{bits}_{fraction}"
    return EVERY.get(name) or _make(name, 0, bits - 1, 2 - bits + fraction, "fixed", False, True)


def _make(name: str, exponent: int, mantissa: int, bias: int, special: str, saturate: bool, subnormals: bool) -> Format:
    bits = 1 + exponent + mantissa
    cell = np.dtype([(name, f"u{next(size for size in (1, 2, 4, 8) if bits <= 8 * size)}")])
    wide = next((f for f in (_FLOAT32, _FLOAT64) if _contains(f, exponent, mantissa, bias, special)), None)
    if wide is None:
        raise ValueError(f"{name} has numbers that float64 does not hold")
    form = Format(
        name, "float", bits, "", cell, exponent, mantissa, bias, wide, special=special, saturate=saturate, subnormals=subnormals,
    )
    EVERY[name] = FROM_NUMPY[cell] = form
    for kinds in Kinds.made:
        if _FLOAT32 in kinds:
            kinds.add(form)
    return form


def _contains(wide: Format, exponent: int, mantissa: int, bias: int, special: str) -> bool:
    """Return whether a wide float has all numbers of a float, as normal numbers or with the same exponents."""
    most = (1 << exponent) - 1 - bias - (special == "ieee")
    smallest = 1 - bias - mantissa
    return mantissa < wide.mantissa and most <= wide.bias and (bias == wide.bias or smallest > -wide.bias)


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
    if wide and a is not b and BFLOAT16 not in (a, b) and not (a.alone or b.alone) and min(a.bits, b.bits) >= 8:
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
        return a if b.bits <= 8 else a.computed
    if b.kind == "float" != a.kind:
        return _promote(b, a, wide)
    both = "float" if a.kind == "float" else "unsigned" if a.kind == b.kind == "unsigned" else "signed"
    return next((f for f in formats_of_kind(both) if holds(f, a) and holds(f, b)), FLOAT64)  # uint64 with a signed format


def _promotion_error(a: Format, b: Format) -> Exception:
    from weft import errors  # not at the top: this module is hashed into kernels' cache keys, errors is not

    one, other = (a, b) if a.alone else (b, a)
    common = f"astype('{FLOAT32 if other.alone else other}')"
    return errors.DTypeError(
        f"{a} and {b} do not mix: {one} becomes another float only where that is asked for. Cast the {one} "
        f"operand with {common}{', and the other' if other.alone else ''}, or what meets it with astype('{one}')."
    )


def complex_format(form: Format) -> Format:
    """Return the complex format for numbers of ``form``: complex128 for float64 and its parts, complex64 for other floats."""
    if form not in INEXACT:
        return DEFAULT.complex
    return COMPLEX128 if form.part is FLOAT64 else COMPLEX64


def holds(wide: Format, narrow: Format) -> bool:
    """Return whether every value of ``narrow`` is exactly a value of ``wide``."""
    if wide is narrow or narrow is BOOL:
        return wide.special != "scale" or wide is narrow
    if wide is BOOL:
        return False
    if wide.kind == "complex":
        return holds(wide.part, narrow.part)
    if narrow.kind == "complex":
        return False
    if narrow.kind == "float":
        return wide.kind == "float" and wide.mantissa >= narrow.mantissa and _reaches(wide, narrow)
    bits = narrow.bits - (narrow.kind == "signed")
    if wide.kind == "float":
        return wide.special != "scale" and bits <= wide.mantissa + 1 and max(narrow.greatest, -narrow.least) <= wide.largest
    return wide.bits - (wide.kind == "signed") >= bits and not (wide.kind == "unsigned" and narrow.kind == "signed")


_CONTAINING = {  # by the special values of a float: those of the floats that have them, too
    "ieee": ("ieee",), "fn": ("ieee", "fn"), "fnuz": ("ieee", "fn", "fnuz"), "finite": ("ieee", "fn", "finite"),
    "scale": ("ieee", "fn", "fnuz", "scale"), "fixed": ("ieee", "fn", "fnuz", "finite", "fixed"),
}


def _reaches(wide: Format, narrow: Format) -> bool:
    """Return whether a float has the largest and smallest numbers of another one, its infinities, its NaN and its -0."""
    if wide.special not in _CONTAINING[narrow.special]:
        return False
    smallest = [f.smallest_normal * (2.0**-f.mantissa if f.subnormals else 1.0) for f in (wide, narrow)]
    return wide.largest >= narrow.largest and smallest[0] <= smallest[1]


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
    return FLOAT16 if form.bits <= 8 else FLOAT32


def summed(form: Format) -> Format:
    """Return the format of a sum or product: 64 bits for integers and bool."""
    return {"float": form, "complex": form, "unsigned": UINT64}.get(form.kind, INT64)


def same_kind(source: Format, target: Format) -> bool:
    """Return whether ``source`` may be written into ``target`` by ``out=`` or in place: bool < unsigned < signed < float <
    complex."""
    order = ("bool", "unsigned", "signed", "float", "complex")
    return order.index(source.kind) <= order.index(target.kind)
