"""Lines that compute element by element, reduce, or make arrays of nothing."""

from __future__ import annotations

import random

import numpy as np

import weft as wf
from tests.fuzz.grow import BELOW_A_BYTE, FLOATS, INTEGERS, Growth, dtype_other
from tests.oracle import takes_floats
from weft.dtypes import rounding
from weft.dtypes.api import is_float
from weft.dtypes.formats import FLOATS as FORMATS
from weft.graph.primitives import TABLE
from weft.graph.primitives.common import zero_vjp

# what a function needs of its operand, as text around it; most lines keep values of the size of 1
UNARY = {
    "abs": "{x}", "absolute": "{x}", "fabs": "{x}", "negative": "{x}", "positive": "{x}", "sign": "{x}", "square": "{x}",
    "sqrt": "wf.abs({x})", "reciprocal": "(wf.abs({x}) + 0.5)", "floor": "{x} * 3", "ceil": "{x} * 3", "trunc": "{x} * 3",
    "rint": "{x} * 3", "round": "{x} * 3", "exp": "-wf.abs({x})", "expm1": "-wf.abs({x})", "exp2": "-wf.abs({x})",
    "log": "wf.abs({x}) + 0.5", "log2": "wf.abs({x}) + 0.5", "log10": "wf.abs({x}) + 0.5", "log1p": "wf.abs({x})",
    "sin": "{x}", "cos": "{x}", "tan": "wf.tanh({x})", "arcsin": "wf.tanh({x}) * 0.9", "asin": "wf.tanh({x}) * 0.9",
    "arccos": "wf.tanh({x}) * 0.9", "acos": "wf.tanh({x}) * 0.9", "arctan": "{x}", "atan": "{x}", "sinh": "wf.tanh({x})",
    "cosh": "wf.tanh({x})", "tanh": "{x}", "arcsinh": "{x}", "asinh": "{x}", "arccosh": "wf.abs({x}) + 1.25",
    "acosh": "wf.abs({x}) + 1.25", "arctanh": "wf.tanh({x}) * 0.9", "atanh": "wf.tanh({x}) * 0.9", "stop_gradient": "{x}",
    "nan_to_num": "{x}",
}
OTHERS = {  # functions that are primitives of one float, and need nothing of it
    name: "{x}" for name in wf.__all__
    if name not in UNARY and name in TABLE and TABLE[name].vjp is not zero_vjp and takes_floats(name) == 1
}
UNARY |= OTHERS
SMOOTH = (
    "negative", "square", "sqrt", "reciprocal", "exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "abs", "positive", *OTHERS,
)
BINARY = {
    "add": "{x}, {y}", "subtract": "{x}, {y}", "multiply": "{x}, {y}", "divide": "{x}, wf.abs({y}) + 0.5",
    "true_divide": "{x}, wf.abs({y}) + 0.5", "maximum": "{x}, {y}", "minimum": "{x}, {y}", "hypot": "{x}, {y}",
    "atan2": "{x}, {y}", "arctan2": "{x}, {y}", "logaddexp": "{x}, {y}", "pow": "wf.abs({x}) + 0.5, wf.tanh({y})",
    "power": "wf.abs({x}) + 0.5, wf.tanh({y})", "copysign": "{x}, {y}", "nextafter": "{x}, {y}",
    "remainder": "{x}, wf.abs({y}) + 0.5", "mod": "{x}, wf.abs({y}) + 0.5", "floor_divide": "{x}, wf.abs({y}) + 0.5",
}
SMOOTH_TWO = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "hypot", "atan2", "logaddexp", "pow")
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
SMALL = tuple(sorted(f.name for f in FORMATS if f.name not in FLOATS and not f.custom))


def unary(g: Growth) -> str:
    x, name = g.float(), g.r.choice(sorted(UNARY))
    inside = UNARY[name] if g.r.random() < 0.93 else "{x}"  # without care for the domain
    return f"wf.{name}({inside.format(x=x)})"


def smooth(g: Growth) -> str:
    name = g.r.choice(SMOOTH)
    return f"wf.{name}({UNARY[name].format(x=g.float())})"


def binary(g: Growth) -> str:
    x, name = g.float(), g.r.choice(sorted(BINARY))
    return f"wf.{name}({BINARY[name].format(x=x, y=g.like(x))})"


def smooth_two(g: Growth) -> str:
    x, name = g.float(), g.r.choice(SMOOTH_TWO)
    return f"wf.{name}({BINARY[name].format(x=x, y=g.like(x))})"


def operator(g: Growth) -> str:
    x = g.float()
    y = g.like(x)
    return g.r.choice((
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} * {y} + {x}", "{x} / ({y} * {y} + 1)", "-{x} + {y}",
    )).format(x=x, y=y)


def number(g: Growth) -> str:
    """With a Python number, which is an argument of the program outside of jit."""
    x, c = g.float(), g.r.choice(("0.3", "2", "1.7", "-0.25", "1", "0", "0.0", "-1.5"))
    return g.r.choice((
        "{x} * {c}", "{x} + {c}", "{c} - {x}", "{x} / 1.5", "wf.maximum({x}, {c})", "{x} ** 2", "{x} % 1.5",
    )).format(x=x, c=c)


def compare(g: Growth) -> str:
    x = g.any()
    y = g.like(x) if g.r.random() < 0.7 else "0"
    return f"wf.{g.r.choice(COMPARE)}({x}, {y})"


def choose(g: Growth) -> str:
    x = g.float()
    y = g.like(x)
    where = f"{x} > {y}" if g.r.random() < 0.5 else g.mask(g.shape(x))
    return g.r.choice((
        f"wf.where({where}, {x}, {y})", f"wf.where({where}, {x}, 0.5)", f"wf.clip({x}, -0.5, 0.75)", f"wf.clip({x}, {y})",
    ))


def integer(g: Growth) -> str:
    x = g.whole()
    y, r = g.like(x), g.r
    plain = (
        f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"wf.maximum({x}, {y})", f"wf.{r.choice(BITS)}({x}, {y})", f"~{x}",
        f"{x} // {y}", f"{x} % {y}", f"wf.abs({x})", f"wf.sign({x})", f"wf.square({x})", f"{x} >> 1", f"wf.bitwise_invert({x})",
        f"wf.negative({x})", f"wf.left_shift({x}, 1)", f"wf.right_shift({x}, 1)", f"wf.bitwise_not({x})", f"wf.invert({x})",
    )
    if wf.iinfo(g.values[x].dtype).max < 8:  # Python's numbers from 2 on may be out of range
        return r.choice(plain)
    return r.choice((
        *plain, f"{x} % 5 + {y}", f"wf.bitwise_left_shift({x}, wf.abs({y}) % 8)", f"wf.bitwise_right_shift({x}, wf.abs({y}) % 8)",
        f"{x} // 3", f"wf.minimum({x}, 7)", f"wf.pow({x}, wf.abs({y}) % 4)", f"{x} << 2", f"wf.clip({x}, 1, 5)",
    ))


def truth(g: Growth) -> str:
    x = g.pick(lambda a: a.dtype == bool) or g.mask(g.shape(g.any()))
    y, r = g.like(x), g.r
    return r.choice((
        f"{x} & {y}", f"{x} | {y}", f"{x} ^ {y}", f"~{x}", f"wf.logical_and({x}, {y})", f"wf.logical_or({x}, {y})",
        f"wf.logical_xor({x}, {y})", f"wf.logical_not({x})", f"{x} == {y}", f"wf.where({x}, 2.5, -1.0)",
        f"wf.bitwise_and({x}, {y})",
    ))


def kind(g: Growth) -> str:
    return f"wf.{g.r.choice(('isnan', 'isinf', 'isfinite', 'signbit'))}({g.float()})"


def cast(g: Growth) -> str:
    x = g.any()
    if is_float(g.values[x].dtype) and g.r.random() < 0.6:
        forms = FLOATS if g.r.random() < 0.7 else SMALL
        return f"{x}.astype('{g.r.choice([d for d in forms if d != g.values[x].dtype.name])}')"
    to = dtype_other(g.r, g.values[x].dtype.name)
    if is_float(g.values[x].dtype) and to in INTEGERS:  # C leaves open what numbers beyond the range become
        return f"wf.astype(wf.clip(wf.nan_to_num({x}) * 3, {0 if to.startswith('u') else -100}, 100), '{to}')"
    if to.startswith("u") or g.r.random() < 0.5:
        return f"wf.astype(wf.abs({x}) * 3, '{to}')" if g.values[x].dtype != bool else f"wf.astype({x}, '{to}')"
    return f"{x}.astype('{to}')"


def below_a_byte(g: Growth) -> str:
    """Integers of 2 or 4 bits, and arithmetic that wraps around."""
    x, form = g.any(), g.r.choice(BELOW_A_BYTE)
    limits = wf.iinfo(form)
    text = f"wf.astype(wf.clip(wf.nan_to_num({x}), {limits.min}, {limits.max}), '{form}')"
    return g.r.choice((text, f"{text} * 1", f"-{text}", f"{text} + {text}", f"wf.abs({text})"))


def rounded(g: Growth) -> str:
    """Numbers rounded to another format in every way."""
    x, r = g.float(), g.r
    if g.values[x].ndim and r.random() < 0.25:
        blocks = r.choice(("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "nvfp4", "block_format('int4', 4)", "block_format('int8', None)"))
        return f"wf.nn.dequantize(wf.nn.quantize({x}, wf.{blocks}), '{g.dtype}')"
    own = r.random() < 0.25
    named = r.choice([d for d in (*FLOATS, *SMALL) if d not in (g.values[x].dtype.name, "float64")])
    form = own_format(r) if own else repr(named)
    mode, saturate = r.choice((*rounding.MODES, "stochastic", "stochastic")), r.choice((None, True))
    way = f"{form}, rounding={mode!r}, saturate={saturate}"
    if mode != "stochastic" and r.random() < 0.4:
        return f"wf.nn.fake_quantize({x}, {way}{r.choice(('', ', scale=0.25'))})"
    key = f", key=wf.random.key({r.randrange(9)})" if mode == "stochastic" else ""
    back = f".astype('{g.dtype}')" if own or r.random() < 0.7 else ""
    return f"{x}.astype({way}{key}){back}"


def own_format(r: random.Random) -> str:
    """A float format of drawn digits, bias and special numbers."""
    exponent, mantissa, infinities = r.randint(2, 8), r.randint(1, 7), r.random() < 0.5
    bias = 2 ** (exponent - 1) - 1 + (r.randint(-2, 2) if exponent < 8 else 0)
    nans = infinities or r.random() < 0.5
    return f"wf.float_dtype({exponent}, {mantissa}, {bias}, infinities={infinities}, nans={nans}, subnormals={r.random() < 0.8})"


def back(g: Growth) -> str:
    """Back to the program's float dtype, so that what integers and masks say enters the graph again."""
    x = g.pick(lambda a: a.dtype.name != g.dtype)
    return f"{x}.astype('{g.dtype}')" if x else unary(g)


def close(g: Growth) -> str:
    x = g.float()
    return f"wf.isclose({x}, {g.like(x)}, rtol=0.5, atol=0.5)"


# reductions

SUMS = ("sum", "mean", "max", "min", "prod", "var", "std", "amax", "amin", "ptp")


def reduction(g: Growth) -> str:
    x, name = g.float(1), g.r.choice(SUMS)
    kept = ", keepdims=True" if g.r.random() < 0.6 else ""
    method = g.r.random() < 0.4 and name not in ("amax", "amin", "ptp")
    axis = g.axes(x)
    if g.r.random() < 0.1:
        return f"wf.logsumexp({x}, axis={axis}{kept})"
    if name == "prod":
        return f"wf.prod(1 + {x} * 0.05, axis={axis}{kept})"
    return f"{x}.{name}(axis={axis}{kept})" if method else f"wf.{name}({x}, axis={axis}{kept})"


def centred(g: Growth) -> str:
    """A reduction that the operand meets again: one kernel with several stages."""
    x, r = g.float(1), g.r
    axis = g.axes(x)
    return r.choice((
        "{x} - {x}.mean(axis={a}, keepdims=True)", "{x} - {x}.max(axis={a}, keepdims=True)",
        "{x} / ({x} * {x}).sum(axis={a}, keepdims=True)", "{x} / wf.sqrt({x}.var(axis={a}, keepdims=True) + 1e-3)",
        "wf.exp({x} - {x}.max(axis={a}, keepdims=True))", "{x} * (1 + 0.01 * {x}).prod(axis={a}, keepdims=True)",
        "{x} == {x}.max(axis={a}, keepdims=True)", "{x} - {x}.min(axis={a}, keepdims=True) * 0.5",
    )).format(x=x, a=axis)


def truth_reduction(g: Growth) -> str:
    r = g.r
    x = g.pick(lambda a: a.dtype == bool) if r.random() < 0.5 else None
    if x is None:
        y = g.any(1)
        signed = g.values[y].dtype.kind not in "bu"
        x = f"({y} {r.choice(('>', '<', '!=', '>='))} {r.choice(('0', '-1.5', '1', '-3') if signed else ('0', '1'))})"
    shape = np.shape(g.space[x]) if x in g.space else None
    axis = g.axes(x) if shape else "None"
    name = r.choice(("any", "all", "count_nonzero"))
    kept = ", keepdims=True" if r.random() < 0.4 else ""
    return f"wf.{name}({x}, axis={axis}{kept})"


def place(g: Growth) -> str:
    x = g.any(1)
    axis = "None" if g.r.random() < 0.2 else str(g.axis(x))
    name, kept = g.r.choice(("argmax", "argmin")), g.r.choice(("", ", keepdims=True"))
    return f"{x}.{name}(axis={axis}{kept})" if g.r.random() < 0.4 else f"wf.{name}({x}, axis={axis}{kept})"


def integer_reduction(g: Growth) -> str:
    x = g.whole()
    name = g.r.choice(("sum", "max", "min", "prod", "any", "all", "count_nonzero", "ptp"))
    return f"wf.{name}({x}, axis={g.axes(x)})"


def running(g: Growth) -> str:
    x = g.any(1)
    axis = g.axis(x)
    extra = g.r.choice(("", "", f", dtype='{g.r.choice(FLOATS[:2] + INTEGERS[:2])}'"))
    if g.r.random() < 0.3:
        return f"wf.cumulative_sum({x}, axis={axis}, include_initial={g.r.random() < 0.5})"
    return f"wf.cumsum({x}, axis={axis}{extra})" if g.r.random() < 0.5 else f"{x}.cumsum(axis={axis})"


def weighted(g: Growth) -> str:
    x = g.float(1)
    axis = g.axis(x, False)
    w = g.input((g.shape(x)[axis],), g.values[x].dtype.name, "unit")
    return g.r.choice((f"wf.average({x}, axis={axis}, weights={w})", f"wf.average({x}, axis={axis})"))


# arrays made of nothing


def made(g: Growth) -> str:
    x, r = g.any(), g.r
    shape, dtype = g.shape(x), g.values[x].dtype.name
    n = r.choice((1, 3, 8, 17, 33))
    return r.choice((
        f"wf.zeros({shape}, '{dtype}')", f"wf.ones({shape}, '{g.dtype}')", f"wf.full({shape}, 2.5, '{g.dtype}')",
        f"wf.ones_like({x})",
        f"wf.zeros_like({x})", f"wf.full_like({x}, 1)", f"wf.arange({n}, dtype='{g.dtype}')", f"wf.arange(3, {n + 3}, 2)",
        f"wf.linspace(-1, 2, {n}, dtype='{g.dtype}')",
        f"wf.eye({n}, {r.choice((2, n))}, k={r.choice((-1, 0, 1))}, dtype='{g.dtype}')",
        f"wf.identity({n}, '{g.dtype}')", f"wf.tri({n}, {n}, {r.choice((-1, 0, 2))}, dtype='{g.dtype}')",
        f"wf.asarray({x})", f"wf.array({x})", f"wf.copy({x})", f"wf.empty(({n}, 0), '{dtype}')", f"wf.empty_like({x}) * 0",
        f"wf.meshgrid(wf.arange({n}), wf.arange(4, dtype='{g.dtype}'))[{r.choice((0, 1))}]",
        f"wf.meshgrid(wf.arange({n}), wf.arange(4, dtype='{g.dtype}'), indexing='ij')[{r.choice((0, 1))}]",
    ))


PLAIN = [
    (6.0, unary), (5.0, binary), (4.0, operator), (3.0, number), (2.0, compare), (2.5, choose), (2.5, integer), (2.0, truth),
    (0.6, kind), (2.0, cast), (1.5, rounded), (0.7, below_a_byte), (2.5, back), (0.3, close), (0.8, made),
]
REDUCE = [
    (4.0, reduction), (4.0, centred), (2.5, truth_reduction), (1.5, place), (1.5, integer_reduction), (1.5, running),
    (0.4, weighted),
]
