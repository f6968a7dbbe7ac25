"""Random lines of NumPy: expressions, functions, gets and sets, drawn with the arrays in sight that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

T = TypeVar("T")
DTYPES = (
    "float32", "float64", "int64", "int32", "bool", "uint8", "int8", "int16", "uint16", "uint32", "uint64", "complex64",
    "complex128",
)
SHAPES = (
    (), (1,), (3,), (4,), (0,), (2, 3), (3, 1), (1, 4), (3, 3), (0, 2), (2, 0), (2, 3, 2), (1, 3, 1), (2, 1, 4), (2, 0, 3),
)
_SMALL = (0, 1, 2, 3, 5, 1, 7, 4)

UNARY = """
    abs negative positive invert sign square sqrt cbrt exp expm1 exp2 log log1p log2 log10 sin cos tan arcsin arccos
    arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc rint isnan isinf isfinite signbit logical_not fabs
    deg2rad rad2deg degrees radians bitwise_count
""".split()
BINARY = """
    add subtract multiply divide true_divide floor_divide remainder mod fmod power maximum minimum fmax fmin arctan2 hypot
    copysign logaddexp logaddexp2 heaviside left_shift right_shift bitwise_and bitwise_or bitwise_xor logical_and
    logical_or logical_xor equal not_equal less less_equal greater greater_equal
""".split()
COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
FOLDS = "add multiply maximum minimum logical_and logical_or bitwise_and bitwise_or bitwise_xor".split()
OPERATORS = "+ - * / // % ** == != < <= > >= & | ^ << >> @".split()
REDUCE = """
    sum prod mean var std max min any all argmax argmin ptp median count_nonzero cumsum cumprod nansum nanmax nanmean
""".split()
METHODS = "sum prod mean var std max min any all argmax argmin cumsum cumprod".split()
ELEMENTS = """
    conjugate nan_to_num angle iscomplex isreal sinc round around fix isneginf isposinf
""".split()
# {x}, {y}: arrays; {axis}, {k}: a number; {axes}: numbers or None; {keep}: a bool; {shape}: another shape of as many elements
MOVES = """
    np.reshape({x}, {shape})|{x}.reshape({shape})|np.transpose({x})|{x}.T|np.transpose({x}, {order})|{x}.transpose({order})
    np.swapaxes({x}, {axis}, {axis})|np.moveaxis({x}, {axis}, {axis})|np.squeeze({x})|np.squeeze({x}, {axis})
    np.expand_dims({x}, {axis})|np.flip({x})|np.flip({x}, {axis})|np.roll({x}, {k})|np.roll({x}, {k}, {axis})
    np.repeat({x}, 2)|np.repeat({x}, 2, {axis})|np.tile({x}, 2)|np.tile({x}, (2, 1))|np.concatenate(({x}, {y}), {axis})
    np.concatenate(({x}, {y}), axis=None)|np.stack(({x}, {y}), {axis})|np.split({x}, 2, {axis})
    np.array_split({x}, 2, {axis})|np.ravel({x})|{x}.flatten()|np.pad({x}, 1)|np.pad({x}, (0, 2), constant_values=3)
    np.atleast_1d({x})|np.atleast_2d({x})|np.atleast_3d({x})|np.rot90({x}, {k})|np.take({x}, {k})
    np.take({x}, [0, -1], {axis})|np.take({x}, [[0, 5]], {axis}, mode='wrap')|np.where({x}, {y}, {z})|np.where({x})
    np.clip({x}, 0, 2)|np.clip({x}, {y}, {z})|{x}.clip(1)|np.sort({x}, {axis})|np.sort({x}, None)
    np.argsort({x}, {axis}, kind='stable')|np.cumsum({x}, {axis})|np.diff({x})|np.diff({x}, axis={axis})|np.unique({x})
    np.nonzero({x})|np.argwhere({x})|np.flatnonzero({x})|np.isin({x}, {y})|np.tril({x}, {k})|np.triu({x}, {k})|np.trace({x})
    np.copy(np.diagonal({x}))|np.copy(np.diag({x}))|{x}.item()|np.dot({x}, {y})|np.matmul({x}, {y})|np.inner({x}, {y})
    np.outer({x}, {y})|np.tensordot({x}, {y}, 1)|np.gcd({x}, {y})|np.lcm({x}, {y})|np.float_power({x}, {y})
    np.vdot({x}, {y})|np.kron({x}, {y})|np.tensordot({x}, {x}, axes=([{axis}], [{axis}]))
    np.einsum('...i,...i->...', {x}, {x})|np.zeros_like({x})|np.ones_like({x})|np.full_like({x}, {k})
    np.shape(np.empty_like({x}))|{x}.astype('{dtype}')|np.array({x}, dtype='{dtype}')|np.copy(np.broadcast_to({x}, {fits}))
    np.broadcast_shapes({x}.shape, {y}.shape)|np.result_type({x}, {y})|np.isclose({x}, {y})|np.allclose({x}, {y})
    np.array_equal({x}, {y})|np.searchsorted(np.sort(np.ravel({x})), {y})|np.meshgrid({x}, {y})|np.hstack(({x}, {y}))
    np.vstack(({x}, {y}))|np.dstack(({x}, {y}))|np.column_stack(({x}, {y}))|np.append({x}, {y})|np.delete({x}, 0)
    np.insert({x}, 0, 1)|np.average({x}, {axis})|np.percentile({x}, 30)|np.quantile({x}, 0.5, {axis})|np.nanmin({x})
    np.bincount(np.ravel({x}))|np.ptp({x}, {axis})|np.partition(np.ravel({x}), 0)[0]|np.select([{x} > 1], [{x}], 2)
    np.interp({x}, [0., 1., 4.], [1., 2., 0.])|np.linalg.norm({x})|np.linalg.norm({x}, axis={axis})
    np.take_along_axis({x}, np.argsort({x}, {axis}), {axis})|np.compress([True, False], {x}, {axis})
    np.count_nonzero({x}, {axis})|np.cross({x}, {y})|np.histogram({x}, 3, (0, 6))[0]|np.digitize({x}, [0, 2, 4])
    np.fliplr({x})|np.flipud({x})|np.rollaxis({x}, {axis})|np.ediff1d({x})|np.gradient({x})|np.trapezoid({x})|np.vander({x})
    np.polyval([1, 2, 0], {x})|np.convolve({x}, {y})|np.choose({x}, [{y}, {z}])|np.extract({x}, {y})
    np.resize({x}, (2, 2))|np.union1d({x}, {y})|np.intersect1d({x}, {y})|np.setdiff1d({x}, {y})
    np.unravel_index({x}, (3, 4))|np.divmod({x}, {y})|np.modf({x})|np.frexp({x})|np.ldexp({x}, 2)|len({x})|np.size({x})
    np.ndim({x})|np.shape({x})|{x}.tolist()|bool({x})|float({x})|int({x})|complex({x})|list({x})|np.isscalar({x})|{x}.real
    {x}.imag|{x}.conj()|divmod({x}, {number})|round({x})|abs({x})|-{x}|~{x}|+{x}|{x} in [1, 2]|np.lexsort(({x}, {x}))
    np.cov({x})|np.cov({x}, {x})|np.corrcoef({x})|np.append({x}, {number})|np.dot({x}, {number})|np.inner({number}, {x})
    np.outer({x}, {number})|np.kron({x}, {number})|np.convolve({x}, {number})|np.intersect1d({x}, {number})
    np.linspace({x}, {number}, 3)|np.linspace({number}, np.max({x}), 3)|np.logspace(np.min({x}), {number}, 3)
    np.percentile({x}, [30, {number}])|np.quantile({x}, np.array([0.5]))|np.quantile({x}, np.array([0.5], 'float32'))
    np.histogram(np.real({x}), 3)[1]|np.roll({x}, [1, 2])|np.roll({x}, [1, -2], {axis})|np.repeat({x}, [True])
    np.take({x}, [True, False])
    np.nanmedian({x})|np.arange({k})|np.arange(0.5, {k})|np.arange(3, {k}, -1)|np.linspace({number}, 3, 4)
    np.full({fits}, {number})|np.eye(3, k={k})|np.zeros({fits}, dtype='{dtype}')|np.array([{number}, 2])|np.array({number})
    np.logspace(0, 1, 3)|np.identity(2)|np.tri(2, 3, {k})|np.fromiter(range(3), '{dtype}')|np.array([{x}, {x}])
    np.asarray({x}, dtype='{dtype}')|np.promote_types({x}.dtype, '{dtype}')
"""
MOVE = [text.strip() for line in MOVES.splitlines() for text in line.split("|") if text.strip()]


class Lines:
    """Draws lines; ``arrays`` are NumPy's, by name."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.arrays: dict[str, Any] = {}

    def pick(self, options: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self._data.draw(st.integers(0, 99)) >= 100 - percent

    def leaf(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> np.ndarray:
        """Small numbers, now and then with what is not finite."""
        dtype = dtype or self.pick(DTYPES)
        shape = self.pick(SHAPES) if shape is None else shape
        turn = self._data.draw(st.integers(0, 7))
        numbers = np.resize(np.roll(_SMALL, turn), shape)
        if dtype[0] in "fc":
            numbers = numbers / 4 - (turn % 3 - 1)
        elif dtype[0] == "i":
            numbers = numbers - turn % 4
        elif dtype == "bool":
            numbers = numbers % 3 == 0
        made = numbers.astype(dtype)
        if dtype[0] == "c":
            made = made + np.dtype(dtype).type(1j) * (numbers % 1.5).astype(dtype)
        if dtype[0] == "f" and made.size and self.chance(12):
            made.flat[turn % made.size] = self.pick((np.nan, np.inf, -np.inf, -0.0))
        return np.asarray(made)

    def name(self) -> str:
        return self.pick(list(self.arrays))

    def number(self) -> str:
        return self.pick(("2", "0.5", "-1", "0", "True", "3", "1", "-2.5", "1j", "300"))

    def axis(self, ndim: int, wrong: bool = True) -> str:
        reach = ndim + (1 if wrong and self.chance(6) else 0)
        return str(self.pick(range(-reach, reach))) if reach else self.pick(("0", "None", "-1"))

    def axes(self, ndim: int) -> str:
        kind = self.pick(("none", "one", "one", "some", "empty"))
        if kind == "some" and ndim > 1:
            order = self._data.draw(st.permutations(range(ndim)))[:2]
            return repr(tuple(a - ndim * (a == self.pick((0, 1))) for a in order))
        return {"none": "None", "empty": "()"}.get(kind) or self.axis(ndim)

    # ---- indices

    def index(self, shape: tuple[int, ...]) -> str:
        """Any index of an array of this shape; few do not fit."""
        kind = self.pick(("basic", "basic", "mixed", "mixed", "mask", "odd"))
        if kind == "mask":
            return self.mask(shape)
        if kind == "odd":
            return self.pick((
                "...", "()", "None", "True", "False", "..., None", "np.array(True)", "None, ...", "[]", "[[]]", "...,", "0",
                "-1", "0.5", "..., ...", "np.array(0)", "'a'", "[True]", "slice(None, None, -1)", "np.int64(0)", ":, :, :, :",
            ))
        together = self.pick(((), (1,), (2,), (3,), (2, 1), (2, 2), (0,)))
        parts = [self.part(n, kind == "mixed", together) for n in shape]
        if self.chance(25):
            parts = parts[:self.pick(range(len(parts) + 1))]
        if self.chance(20):
            place = self.pick(range(len(parts) + 1))
            parts[place:self.pick((place, len(parts)))] = ["..."]
        if self.chance(20):
            parts.insert(self.pick(range(len(parts) + 1)), "None")
        return ", ".join(parts) + ("," if len(parts) == 1 and self.chance(20) else "") if parts else "()"

    def mask(self, shape: tuple[int, ...]) -> str:
        size = shape[:self.pick(range(len(shape) + 1))] or shape
        if self.chance(6):
            size = (*size[:-1], 5)
        mask = np.resize(np.roll([True, False, True, True, False], self.pick(range(5))), size)
        return f"{'' if self.chance(30) and size else 'np.array'}({mask.tolist()})" if mask.ndim else f"np.array({bool(mask)})"

    def part(self, n: int, advanced: bool, together: tuple[int, ...]) -> str:
        basic = ("slice", "slice", "int", "all")
        kind = self.pick((*basic, "array", "array", "bools") if advanced else basic)
        if kind == "bools":
            return repr([bool(b) for b in np.resize([True, False, True], n)]) if n else ":"
        if kind == "int" and n:
            return str(self.pick(range(-n, n)) + (n if self.chance(4) else 0))
        if kind == "array":
            low, high = (-n, n) if n else (0, 1)
            flat = [self.pick(range(low, high)) for _ in range(int(np.prod(together)))]
            if self.chance(4):
                flat = [n + 1 for _ in flat]
            found = np.array(flat, int).reshape(together).tolist()
            dtypes = ("int64", "int32", "uint8") if min(flat, default=0) >= 0 else ("int64", "int8")
            return f"np.array({found}, dtype='{self.pick(dtypes)}')"
        if kind == "all":
            return ":"
        ends = [str(self.pick(range(-n - 1, n + 2))) if self.chance(60) else "" for _ in range(2)]
        step = self.pick(("", "", ":-1", ":2", ":-2", ":3"))
        return ":".join(ends) + step

    def like(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to this one, nearly always."""
        if 0 not in shape and self.chance(4):  # where nothing is written NumPy lets some shapes pass
            return (5, *shape)
        cut = shape[self.pick(range(len(shape) + 1)):] if self.chance(40) else shape
        return tuple(1 if self.chance(15) else n for n in cut)

    # ---- lines

    def operand(self, shape: tuple[int, ...]) -> str:
        """An array beside one of this shape, or a number."""
        if self.chance(30):
            return self.number()
        fitting = [n for n, a in self.arrays.items() if fits(np.shape(a), shape)]
        if fitting and self.chance(60):
            return self.pick(fitting)
        return self.fresh(self.leaf(self.like(shape)))

    def fresh(self, array: np.ndarray) -> str:
        name = f"x{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def line(self) -> str:
        kind = self.pick(("get", "set", "operator", "unary", "binary", "reduce", "move", "move", "ufunc", "place"))
        x = self.name()
        return getattr(self, f"_{kind}")(x, np.shape(self.arrays[x]))

    def _get(self, x: str, shape: tuple[int, ...]) -> str:
        return f"{x}[{self.index(shape)}]"

    def _set(self, x: str, shape: tuple[int, ...]) -> str:
        index = self.index(shape)
        try:
            part = np.shape(eval(f"{x}[{index}]", {"np": np, x: self.arrays[x]}))  # noqa: S307
        except (IndexError, TypeError, ValueError):
            part = ()
        word = self.pick(("=", "=", "=", "+=", "*=", "-="))
        return f"{x}[{index}] {word} {self.number() if self.chance(30) else self.fresh(self.value(x, part))}"

    def value(self, x: str, shape: tuple[int, ...]) -> np.ndarray:
        return self.leaf(self.like(shape), None if self.chance(40) else np.asarray(self.arrays[x]).dtype.name)

    def _place(self, x: str, shape: tuple[int, ...]) -> str:
        return f"{x} {self.pick(('+=', '-=', '*=', '/=', '//=', '%=', '**=', '&=', '|=', '^=', '<<='))} {self.operand(shape)}"

    def _operator(self, x: str, shape: tuple[int, ...]) -> str:
        sides = [x, self.operand(shape)]
        first, second = sides if self.chance(70) else sides[::-1]
        return f"{first} {self.pick(OPERATORS)} {second}"

    def _unary(self, x: str, shape: tuple[int, ...]) -> str:
        if self.chance(15):
            return f"np.{self.pick(ELEMENTS)}({x})"
        return f"np.{self.pick(UNARY)}({x}{self.options(shape)})"

    def _binary(self, x: str, shape: tuple[int, ...]) -> str:
        name, other = self.pick(BINARY), self.operand(shape)
        if not other.startswith("x") and name in COMPARISONS:
            return f"np.{name}({x}, {other})"  # with out= and where= NumPy 2.4 ends the process: uint64, -1
        if name == "power":  # where= leaves out what would be refused
            return f"np.{name}({x}, {other})"
        return f"np.{name}({x}, {other}{self.options(shape)})"

    def options(self, shape: tuple[int, ...]) -> str:
        """out= and where= now and then; dtype= of floats."""
        if not self.chance(30):
            return ""
        out = self.fresh(self.leaf(shape))
        where = f", where={self.fresh(self.leaf(self.like(shape), 'bool'))}" if self.chance(40) else ""
        return f", out={out}{where}" if self.chance(75) else f", dtype='{self.pick(DTYPES)}'"

    def _reduce(self, x: str, shape: tuple[int, ...]) -> str:
        name = self.pick(REDUCE)
        one = name.startswith(("arg", "cum"))
        axis = self.axis(len(shape)) if one else self.axes(len(shape))
        more = "" if axis == "None" and self.chance(50) else f", axis={axis}"
        if name[:3] not in ("cum", "cou") and self.chance(35):
            more += ", keepdims=True"
        if name in ("sum", "prod", "mean", "cumsum", "var") and self.chance(20):
            more += f", dtype='{self.pick(DTYPES[:2] if name in ('mean', 'var') else DTYPES)}'"
        if name in ("sum", "prod", "max", "min") and self.chance(25):
            more += ", initial=" + self.pick(("0", "1", "2.5"))
        if name in ("sum", "prod", "mean", "any", "all", "max") and self.chance(15):
            more += f", where={self.fresh(self.leaf(self.like(shape), 'bool'))}"
        if name in ("sum", "max", "mean", "any", "argmax") and "initial" not in more and self.chance(15):
            known = {"max": np.asarray(self.arrays[x]).dtype.name, "mean": "float64", "argmax": "int64"}
            like = known.get(name, "complex128")
            more += f", out={self.fresh(self.leaf(self.reduced(shape, axis, more), like))}"
        if name in METHODS and self.chance(40):
            return f"{x}.{name}({more[2:]})"
        return f"np.{name}({x}{more})"

    def reduced(self, shape: tuple[int, ...], axis: str, more: str) -> tuple[int, ...]:
        """The shape of what a reduction gives."""
        try:
            made = np.sum(np.zeros(shape), axis=eval(axis), keepdims="keepdims" in more)  # noqa: S307
        except (ValueError, IndexError):
            return shape
        return np.shape(made)

    def _ufunc(self, x: str, shape: tuple[int, ...]) -> str:
        kind, name = self.pick(("reduce", "accumulate", "outer", "at", "reduceat")), self.pick(FOLDS)
        if kind == "reduce":
            keep = ", keepdims=True" if self.chance(30) else ""
            return f"np.{name}.reduce({x}, axis={self.axes(len(shape))}{keep})"
        if kind == "accumulate":
            return f"np.{name}.accumulate({x}, axis={self.axis(len(shape))})"
        if kind == "outer":
            return f"np.{self.pick(BINARY)}.outer({x}, {self.operand(shape)})"
        if kind == "reduceat":
            return f"np.{name}.reduceat({x}, {self.pick(('[0]', '[0, 1]', '[1, 0]', '[0, 0]'))}, axis={self.axis(len(shape))})"
        index = self.index(shape)
        if np.asarray(self.arrays[x]).dtype == bool:
            return f"np.logical_or.at({x}, ({index}), True)"
        # numbers that fit: NumPy casts there as nowhere else
        return f"np.{self.pick(('add', 'multiply', 'maximum'))}.at({x}, ({index}), {self.pick('0123')})"

    def _move(self, x: str, shape: tuple[int, ...]) -> str:
        text = self.pick(MOVE)
        while "{axis}" in text:
            text = text.replace("{axis}", self.axis(len(shape)), 1)
        words = {
            "x": lambda: x, "y": lambda: self.beside(shape), "z": lambda: self.beside(shape),
            "k": lambda: self.pick(("1", "0", "-1", "2", "3")),
            "number": self.number, "dtype": lambda: self.pick(DTYPES), "fits": lambda: repr((2, *shape)),
            "order": lambda: repr(tuple(self._data.draw(st.permutations(range(len(shape)))))),
            "shape": lambda: self.pick(("-1", "(1, -1)", "(-1, 1)", "(2, -1)", repr(shape[::-1]), "(3,)", "()", "(-1, -1)")),
        }
        return text.format(**{word: make() for word, make in words.items() if "{" + word + "}" in text})

    def beside(self, shape: tuple[int, ...]) -> str:
        """An array of the same shape, mostly."""
        same = [n for n, a in self.arrays.items() if np.shape(a) == shape]
        return self.pick(same) if self.chance(60) else self.fresh(self.leaf(shape if self.chance(80) else None))


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True
