"""Triton source of the functions that texts call. A text is preceded by those it uses.

They return NumPy's results where hardware differs: divisions by zero, wide shifts, floats out of an integer's range.
"""

from __future__ import annotations

import re
from functools import lru_cache

from weft.devices.cuda.format_functions import functions_in

_MULTIPLIERS, _WEYL, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10  # Philox4x32; tests compare them

_SOURCES = {
    # ---- joining two elements of a reduction
    "join_sum": """
def join_sum(a, b):
    return a + b
""",
    "join_prod": """
def join_prod(a, b):
    return a * b
""",
    "join_max": """
def join_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    "join_min": """
def join_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    # ---- floats
    "float_rem": """
def float_rem(a, b):
    r = ld.fmod(a, b)
    fixed = tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    return tl.where(r == 0, ld.copysign(r * 0, b), fixed)
""",
    "float_floordiv": """
def float_floordiv(a, b):
    r = ld.fmod(a, b)
    q = ld.div_rn(a - r, b)
    q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
    down = tl.floor(q)
    down = tl.where(q - down > 0.5, down + 1, down)
    ratio = ld.div_rn(a, b)
    down = tl.where(q == 0, ld.copysign(q * 0, ratio), down)
    return tl.where(b == 0, ratio, down)
""",
    "float_pow": """
def float_pow(a, b):
    return tl.where(b == 2, a * a, ld.pow(a, b))
""",
    "to_odd": """
def to_odd(x):
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    bits = near.to(tl.int32, bitcast=True)
    bits = tl.where(tl.abs(back) > tl.abs(x), bits - 1, bits)
    inexact = (back != x) & (x == x) & (tl.abs(back) != float("inf"))
    bits = tl.where(inexact, bits | 1, tl.where(tl.abs(back) == float("inf"), near.to(tl.int32, bitcast=True), bits))
    return bits.to(tl.float32, bitcast=True)
""",
    "to_integer": """
def to_integer(x, LOW: tl.constexpr, HIGH: tl.constexpr, LEAST: tl.constexpr, T: tl.constexpr):
    inside = (x >= LOW) & (x < HIGH)
    return tl.where(inside, tl.where(inside, x, 0.0).to(T), LEAST)
""",
    # ---- integers
    "int_div": """
def int_div(a, b):
    none = (b == 0) | (b == -1)
    q = a // tl.where(none, b * 0 + 1, b)
    return tl.where(b == 0, a * 0, tl.where(b == -1, -a, q))
""",
    "int_floordiv": """
def int_floordiv(a, b):
    safe = tl.where((b == 0) | (b == -1), b * 0 + 1, b)
    q = a // safe
    r = a - q * safe
    q = tl.where((r != 0) & ((r < 0) != (safe < 0)), q - 1, q)
    return tl.where(b == 0, a * 0, tl.where(b == -1, -a, q))
""",
    "int_rem": """
def int_rem(a, b):
    safe = tl.where((b == 0) | (b == -1), b * 0 + 1, b)
    r = a - (a // safe) * safe
    return tl.where((r != 0) & ((r < 0) != (safe < 0)), r + safe, r)
""",
    "uint_div": """
def uint_div(a, b):
    return tl.where(b == 0, a * 0, a // tl.where(b == 0, b * 0 + 1, b))
""",
    "uint_rem": """
def uint_rem(a, b):
    safe = tl.where(b == 0, b * 0 + 1, b)
    return a - (a // safe) * safe
""",
    "int_pow": """
def int_pow(a, b, BITS: tl.constexpr):
    out = a * 0 + 1
    for i in range(BITS):
        out = tl.where((b & 1) != 0, out * a, out)
        a = a * a
        b = b >> 1
    return out
""",
    "shift_left": """
def shift_left(a, b, BITS: tl.constexpr):
    fits = (b >= 0) & (b < BITS)
    return tl.where(fits, a << tl.where(fits, b, b * 0), a * 0)
""",
    "shift_right": """
def shift_right(a, b, BITS: tl.constexpr):
    fits = (b >= 0) & (b < BITS)
    return tl.where(fits, a >> tl.where(fits, b, b * 0), tl.where(a < 0, a * 0 - 1, a * 0))
""",
    # ---- random numbers
    "philox": f"""
def philox(key, base, element):
    counter = base + (element >> 2)
    a = counter & 4294967295
    b = counter >> 32
    c = a * 0
    d = c
    k = key & 4294967295
    l = key >> 32
    for i in tl.static_range({_ROUNDS}):
        p = a * {_MULTIPLIERS[0]}
        q = c * {_MULTIPLIERS[1]}
        a = (q >> 32) ^ b ^ k
        b = q & 4294967295
        c = (p >> 32) ^ d ^ l
        d = p & 4294967295
        k = (k + {_WEYL[0]}) & 4294967295
        l = (l + {_WEYL[1]}) & 4294967295
    which = element & 3
    return tl.where(which < 2, tl.where(which == 0, a, b), tl.where(which == 2, c, d)).to(tl.uint32)
""",
}


@lru_cache(maxsize=256)
def prepend_functions(text: str) -> str:
    """Return a text after the functions it calls. Library functions do not call each other."""
    used = [source for name, source in _SOURCES.items() if re.search(rf"\b{name}\b", text)] + [*functions_in(text)]
    return "".join(f"\n@jit{source}\n" for source in used) + "\n@jit\n" + text
