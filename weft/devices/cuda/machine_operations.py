"""Print the machine operations of the kernel IR as Triton expressions with NumPy's results.

Storage-only floats are kept as float32 and rounded after each operation, as on the CPU, so only casts distinguish them. Functions
are libdevice's, with an error of at most 2 ulp; Triton's own ``exp`` is faster and less accurate.
"""

from __future__ import annotations

from weft.devices.cuda.format_functions import function_name
from weft.devices.cuda.formats import convert_loaded, convert_stored, memory, register, round_to_format
from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FLOATS, UINT8, UINT32, UINT64, Format
from weft.kernel.ir import Value, is_exact

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|", "xor": "^",
}
_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_OF_BOOLS = {"add": "|", "max": "|", "mul": "&", "min": "&", "pow": "&", "sub": "^"}
# identities for bools and unsigned integers; all but abs for signed integers
_IDENTITIES = frozenset(("abs", "floor", "ceil", "trunc", "rint"))


def operation(v: Value, t: list[str]) -> str:
    """Return one machine operation on operands of these names."""
    op, form = v.op, v.args[0].dtype
    if op == "select":
        return f"tl.where({t[0]}, {t[1]}, {t[2]})"
    if op == "cast":
        return cast(t[0], form, v.dtype)
    if op.startswith("round_"):
        return f"{function_name(op, form, v.dtype)}({', '.join(t)})"
    if op == "bitcast":
        return _bitcast(t[0], form, v.dtype)
    if op == "philox":
        return f"philox({', '.join(t)})"
    if op == "philox_half":
        words = f"philox({t[0]}, {t[1]}, ({t[2]} >> 5 << 4) | ({t[2]} & 15))"
        return f"(({words} << (16 - ({t[2]} & 16)).to(tl.uint32)) & 4294901760)"
    if form is BOOL:
        return _bool(op, t)
    if op in _INFIX:
        text = f"({t[0]} {_INFIX[op]} {t[1]})"
        return text if op in _COMPARE else round_to_format(text, form)
    if op in ("min", "max"):
        nan = ", propagate_nan=tl.PropagateNan.ALL" if form in FLOATS else ""
        return f"tl.{op}imum({t[0]}, {t[1]}{nan})"
    if form not in FLOATS:
        return _integer(op, form, t)
    text = _float(op, form.computed, v, t)
    return text if is_exact(op, form) else round_to_format(text, form)


def _bool(op: str, t: list[str]) -> str:
    sign = _OF_BOOLS.get(op) or _INFIX.get(op)
    if sign:
        return f"({t[0]} {sign} {t[1]})"
    if op in ("not", "neg"):
        return f"({t[0]} == 0)"
    if op in _IDENTITIES:
        return t[0]
    raise ValueError(f"machine operation {op} is not defined for bool")


# {own}: Triton's division of float64 is less accurate on some cards. neg: negates zero, too.
_FLOAT = {
    "div": "{own}.div_rn({0}, {1})", "sqrt": "{own}.sqrt_rn({0})", "neg": "({0} * -1.0)", "abs": "tl.abs({0})",
    "floor": "tl.floor({0})", "ceil": "tl.ceil({0})", "fma": "tl.fma({0}, {1}, {2})", "rem": "float_rem({0}, {1})",
    "floordiv": "float_floordiv({0}, {1})", "pow": "float_pow({0}, {1})",
}
_INTEGER = {
    "neg": "(-{0})", "not": "(~{0})", "fma": "({0} * {1} + {2})", "pow": "int_pow({0}, {1}, {bits})",
    "shl": "shift_left({0}, {1}, {bits})", "shr": "shift_right({0}, {1}, {bits})",
}
_SIGNED_TEXT = {"abs": "tl.abs({0})", **{op: f"int_{op}({{0}}, {{1}})" for op in ("div", "floordiv", "rem")}}
_UNSIGNED_TEXT = {"div": "uint_div({0}, {1})", "floordiv": "uint_div({0}, {1})", "rem": "uint_rem({0}, {1})"}


def _float(op: str, form: Format, v: Value, t: list[str]) -> str:
    if op == "pow" and v.args[1].op == "const" and float(v.args[1].attr) == 2.0:
        return f"({t[0]} * {t[0]})"
    text = _FLOAT.get(op)
    return f"ld.{op}({', '.join(t)})" if text is None else text.format(*t, own="tl" if form is FLOAT32 else "ld")


def _integer(op: str, form: Format, t: list[str]) -> str:
    text = _INTEGER.get(op) or (_SIGNED_TEXT if form.kind == "signed" else _UNSIGNED_TEXT).get(op)
    if text is not None:
        return text.format(*t, bits=form.bits)
    if op in _IDENTITIES:
        return t[0]
    raise ValueError(f"machine operation {op} is not defined for {form}")


def cast(x: str, source: Format, target: Format) -> str:
    """Return NumPy's astype."""
    if source is target:
        return x
    if target is BOOL:
        return f"({x} != 0)"
    if target.narrow and target not in FLOATS:
        return round_to_format(cast(x, source, target.computed), target)
    if target in FLOATS:
        if source.computed is FLOAT64 and target.narrow:  # by way of float32 rounded to odd, which avoids double rounding
            return round_to_format(f"to_odd({x})", target)
        if source.computed is target.computed:
            return round_to_format(x, target) if target.narrow else x
        return round_to_format(f"{x}.to({register(target)})", target)
    if source in FLOATS:
        return _to_integer(x, source.computed, target)
    return f"{x}.to({register(target)})"


def _to_integer(x: str, source: Format, target: Format) -> str:
    """Return a truncation to an integer, with the results of x86.

    Values out of range and NaN give the smallest integer. Small and unsigned formats take the low bits of the next wider signed
    one.
    """
    if target is UINT64:
        high = f"({x} >= {2.0**63!r})"
        low = _convert_to_integer(f"tl.where({high}, {x} - {2.0**63!r}, {x})", source, 64)
        return f"({low}.to(tl.uint64) ^ ({high}.to(tl.uint64) << 63))"
    bits = 64 if target.bits == 64 or target is UINT32 else 32
    integer = _convert_to_integer(x, source, bits)
    return integer if target.name == f"int{bits}" else f"{integer}.to({register(target)})"


def _convert_to_integer(x: str, source: Format, bits: int) -> str:
    edge = 2.0 ** (bits - 1)
    low = -2147483648.9999995 if source is FLOAT64 and bits == 32 else -edge  # values above -2**31 - 1 truncate to -2**31
    return f"to_integer({x}, {low!r}, {edge!r}, {-int(edge)}, tl.int{bits})"


def _bitcast(x: str, source: Format, target: Format) -> str:
    """Return the same bits in another format of the same width."""
    if source is target:
        return x
    if source is BOOL:
        x, source = f"{x}.to(tl.uint8)", UINT8
    elif source.narrow:
        x = convert_stored(x, source)
    if memory(source) != memory(target):
        x = f"{x}.to({memory(target)}, bitcast=True)"
    if target is BOOL:
        return f"({x} != 0)"
    return convert_loaded(x, target)
