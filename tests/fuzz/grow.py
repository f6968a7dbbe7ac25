"""Growing a program: values that exist so far, picked by kind and shape, and lines that make more of them.

A line is tried at once: weft says shape and dtype of what it makes, lazily, so a generator need not know the rules. What
weft refuses with one of its own errors is left out (and counted); any other exception is a finding.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  lines may name it
import numpy as np

import weft as wf
from tests.fuzz.program import Input, Program, names, primitive, ruled
from weft.dtypes.api import ALL, is_float, is_integer

EDGES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)  # around lanes and blocks
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int32", "int64", "uint8", "int8", "int16", "uint16", "uint32", "uint64")
BELOW_A_BYTE = ("int4", "uint4", "int2", "uint2")

Table = list[tuple[float, Callable[["Growth"], "str | None"]]]  # (weight, what makes a line)


def size(r: random.Random, most: int = 70) -> int:
    """An extent: mostly around lane counts and block boundaries, now and then none or any."""
    roll = r.random()
    if roll < 0.02:
        return 0
    if roll < 0.75:
        return r.choice([n for n in EDGES if n <= most])
    return r.randint(1, most)


class Broken(Exception):
    """A line raised what is none of weft's own refusals."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.lines[-1])
        self.program = program


class Chooser(random.Random):
    """Random choices, but for one wish: of several texts those that name a function are taken."""

    wish = ""

    def choice(self, seq: Any) -> Any:
        if self.wish:
            found = [s for s in seq if isinstance(s, str) and (s == self.wish.split(".")[-1] or f"wf.{self.wish}(" in s)]
            if found:
                return super().choice(found)
        return super().choice(seq)


class Growth:
    """A program under construction."""

    def __init__(self, r: random.Random, dtype: str = "float32", kind: str = "normal", most: int = 4096) -> None:
        self.r = Chooser(r.getrandbits(64))
        self.dtype = dtype
        self.kind = kind
        self.most = most  # elements of one value
        self.inputs: list[Input] = []
        self.lines: list[str] = []
        self.values: dict[str, Any] = {}  # name -> lazy Array
        self.space: dict[str, Any] = {"wf": wf, "np": np, "nan": np.nan, "inf": np.inf, "primitive": primitive, "ruled": ruled}
        self.made = 0
        self.used: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    # values

    def input(self, shape: tuple[int, ...], dtype: str | None = None, kind: str | None = None) -> str:
        """A new input."""
        name = f"x{len(self.inputs)}"
        dtype = dtype or self.dtype
        if kind is None:
            kind = self.kind if is_float(np.dtype(getattr(wf, dtype))) else "mask" if dtype == "bool" else "whole"
        made = Input(name, dtype, tuple(shape), kind, self.r.randrange(10**6))
        self.inputs.append(made)
        self.space[name] = self.values[name] = wf.array(made.array())
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def names(self, test: Callable[[Any], bool] = lambda a: True) -> list[str]:
        return [n for n, a in self.values.items() if test(a)]

    def pick(self, test: Callable[[Any], bool] = lambda a: True) -> str | None:
        """A value that passes the test: late ones are likelier, so that programs grow deep."""
        found = self.names(test)
        if not found:
            return None
        return found[max(self.r.randrange(len(found)), self.r.randrange(len(found)))]

    def float(self, least: int = 0, most: int = 9) -> str:
        """A float value of so many dimensions; a new input where there is none."""
        found = self.pick(lambda a: a.dtype.name == self.dtype and least <= a.ndim <= most) if self.r.random() < 0.7 else None
        found = found or self.pick(lambda a: is_float(a.dtype) and least <= a.ndim <= most)
        if found is None:
            found = self.input(
                tuple(size(self.r, 33) or 1 for _ in range(self.r.randint(max(least, 1), min(most, max(least, 2)))))
            )
        return found

    def any(self, least: int = 0, most: int = 9) -> str:
        return self.pick(lambda a: least <= a.ndim <= most) or self.float(least, most)

    def whole(self) -> str:
        """An integer value."""
        found = self.pick(lambda a: is_integer(a.dtype))
        return found or self.input(
            self.r.choice(list(self.values.values())).shape if self.values else (7,), self.r.choice(INTEGERS),
        )

    def mask(self, shape: tuple[int, ...]) -> str:
        """A bool value of a shape."""
        found = self.pick(lambda a: a.dtype == bool and a.shape == shape)
        return found if found and self.r.random() < 0.7 else self.input(shape, "bool")

    def like(self, name: str, other: bool = True) -> str:
        """A value of the same dtype that broadcasts with it."""
        mine = self.values[name]

        def fits(a: Any) -> bool:
            try:
                shape = np.broadcast_shapes(a.shape, mine.shape)
            except ValueError:
                return False
            return a.dtype == mine.dtype and int(np.prod(shape)) <= self.most

        found = self.names(lambda a: fits(a))
        if other:
            found = [n for n in found if n != name] or found
        if found and self.r.random() < 0.8:
            return found[max(self.r.randrange(len(found)), self.r.randrange(len(found)))]
        shape = tuple(1 if self.r.random() < 0.25 else n for n in mine.shape)
        return self.input(shape[self.r.randint(0, len(shape)) if self.r.random() < 0.2 else 0:], mine.dtype.name)

    def axis(self, name: str, negative: bool = True) -> int:
        ndim = len(self.shape(name))
        return self.r.randrange(-ndim, ndim) if negative else self.r.randrange(ndim)

    def axes(self, name: str) -> str:
        """None, an axis or a tuple of axes, as text."""
        ndim = len(self.shape(name))
        roll = self.r.random()
        if roll < 0.25 or not ndim:
            return "None"
        if roll < 0.75:
            return str(self.axis(name))
        chosen = sorted(self.r.sample(range(ndim), self.r.randint(1, ndim)))
        return repr(tuple(chosen))

    # lines

    def add(self, expression: str, kept: Callable[[Any], bool] = lambda a: True) -> str | None:
        """One more value; None where weft refuses it, or where it is too large."""
        name = self.fresh()
        return self.line(f"{name} = {expression}", name, kept)

    def fresh(self) -> str:
        """A name that nothing has."""
        self.made += 1
        return f"v{self.made - 1}"

    def line(self, text: str, name: str, kept: Callable[[Any], bool] = lambda a: True) -> str | None:
        """One more line, which makes ``name``."""
        try:
            exec(text, self.space)  # noqa: S102  the fuzzer's own text
        except (wf.errors.ShapeError, wf.errors.DTypeError, wf.errors.AxisError, wf.errors.TraceError) as error:
            self.refused[str(error).split(":")[0]] += 1
            return None
        except Exception as error:
            raise Broken(Program("", tuple(self.inputs), (*self.lines, text), (name,))) from error
        made = self.space[name]
        if not isinstance(made, wf.Array) or made.size > self.most or not kept(made):
            self.space.pop(name)
            return None
        self.values[name] = made
        self.lines.append(text)
        return name

    def step(self, table: Table, tries: int = 8) -> str | None:
        """One line from a table."""
        for _ in range(tries):
            maker = self.r.choices([m for _, m in table], [w for w, _ in table])[0]
            text = maker(self)  # an expression, or the name of what it made with lines of its own
            made = text if text is None or text in self.values else self.add(text)
            if made is not None:
                self.used[maker.__name__] += 1
                return made
        return None

    def wish(self, name: str, makers: list[Callable[[Growth], str | None]], tries: int = 40) -> str | None:
        """A line that names a public function."""
        self.r.wish = name
        try:
            for _ in range(tries):
                for maker in makers:
                    before = len(self.lines)
                    text = maker(self)
                    made = text if text is None or text in self.values else self.add(text) if f"wf.{name}(" in text else None
                    if made is not None and any(f"wf.{name}(" in line for line in self.lines[before:]):
                        return made
        finally:
            self.r.wish = ""
        return None

    # the end

    def program(self, family: str, most: int = 3, **options: Any) -> Program:
        """The program: what no line reads is looked at, and now and then what one reads as well, in any order: where outputs lie
        in inputs' memory, it matters which is written first."""
        read = {n for line in self.lines for n in names(line.split(" = ", 1)[-1])}
        made = [n for n in self.values if n.startswith("v")]
        ends = [n for n in made if n not in read] or made[-1:]
        ends = ends[-most:]
        if self.r.random() < 0.3 and made:
            ends = list(dict.fromkeys([*ends, *self.r.choices(made, k=self.r.choice((1, 1, 2, 3)))]))
            self.r.shuffle(ends)
        return pruned(Program(family, tuple(self.inputs), tuple(self.lines), tuple(ends), options))


def pruned(program: Program) -> Program:
    """Without lines and inputs that no output needs (lines that write into what an output reads are needed)."""
    if not program.outputs:  # all that has a name is looked at
        return program
    wanted = set(program.outputs)
    for value in program.options.values():
        if isinstance(value, str):
            wanted |= set(names(value))
    kept = []
    for line in reversed(program.lines):
        if set(names(line)[:1]) & wanted:
            kept.append(line)
            wanted |= set(names(line))
    inputs = tuple(i for i in program.inputs if i.name in wanted)
    return program.with_(lines=tuple(reversed(kept)), inputs=inputs)


def dtype_other(r: random.Random, than: str) -> str:
    return r.choice([d.name for d in ALL if d.name != than])
