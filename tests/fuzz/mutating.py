"""Lines that write, and the scene they are tried in: NumPy arrays by name."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.moving import factors
from tests.fuzz.program import Input


class Scene:
    """A program under construction, as NumPy runs it.

    traced : what it indexes with must be known to a trace, too: a row that a trace's own number chooses is a copy
    """

    def __init__(self, r: random.Random, dtype: str, traced: bool = False) -> None:
        self.r, self.dtype, self.traced = r, dtype, traced
        self.inputs: list[Input] = []
        self.lines: list[str] = []
        self.values: dict[str, Any] = {}
        self.made = 0
        self.refusals = 0

    def input(self, shape: tuple[int, ...], dtype: str | None = None, kind: str | None = None) -> str:
        name = f"x{len(self.inputs)}"
        dtype = dtype or self.dtype
        made = Input(name, dtype, shape, kind or ("few" if dtype.startswith("float") else "whole"), self.r.randrange(10**6))
        self.inputs.append(made)
        self.values[name] = made.array()
        return name

    def fresh(self) -> str:
        self.made += 1
        return f"v{self.made - 1}"

    def array(self, test: Callable[[np.ndarray], bool] = lambda a: True) -> str | None:
        """An array's name; late ones are likelier."""
        found = [n for n, a in self.values.items() if isinstance(a, np.ndarray) and test(a)]
        return found[max(self.r.randrange(len(found)), self.r.randrange(len(found)))] if found else None

    def some(self) -> str:
        """An array that has elements, if there is one."""
        return self.array(lambda a: a.size > 0 and a.ndim > 0) or self.array() or self.input((4,))

    def like(self, name: str) -> str:
        """Something that can be added to an array: another one, or a number."""
        a = self.values[name]

        def fits(b: np.ndarray) -> bool:
            try:
                return np.broadcast_shapes(a.shape, b.shape) == a.shape and np.can_cast(b.dtype, a.dtype, "same_kind")
            except ValueError:
                return False

        found = self.array(fits) if self.r.random() < 0.7 else None
        return found or self.number(name)

    def number(self, name: str) -> str:
        dtype = self.values[name].dtype
        if dtype.kind == "b":
            return self.r.choice(("True", "False"))
        return self.r.choice(
            ("1", "2", "3", "5") + (("0.25", "-1.5", "-2") if dtype.kind == "f" else ("-1",) if dtype.kind == "i" else ()),
        )

    def step(self, table: list[tuple[float, Callable[[Scene], str | None]]]) -> bool:
        """One line; what NumPy refuses is kept seldom. False where it stopped half-way: the program ends before that line."""
        for _ in range(8):
            maker = self.r.choices([m for _, m in table], [w for w, _ in table])[0]
            text = maker(self)
            if text is None:
                continue
            keep = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in self.values.items()}
            space = {"xp": np, "np": np, **self.values}
            try:
                with np.errstate(all="ignore"):
                    exec(text, space)  # noqa: S102
            except Exception:  # whatever NumPy raises
                untouched = all(np.array_equal(self.values[n], a) for n, a in keep.items())
                if untouched and self.r.random() < 0.15:
                    self.lines.append(text)
                    self.refusals += 1
                    return True
                if not untouched:
                    self.values = keep
                    return False
                continue
            self.values = {n: a for n, a in space.items() if n not in ("xp", "np", "__builtins__")}
            if any(isinstance(a, np.ndarray) and a.size > 5000 for a in self.values.values()):
                self.values = keep
                continue
            self.lines.append(text)
            return True
        return True


def for_numpy(line: str) -> str:
    """The line as NumPy does it right: ``x[::2] = x[:9]`` reads what it has just written (NumPy 2.4), a copy does not."""
    return re.sub(r"^(\w+\[.*\] =) (\w+(\[[^\]]*\])?)$", r"\1 xp.copy(\2)", line)


def _part(s: Scene, n: int) -> str:
    r = s.r
    if not n or r.random() < 0.25:
        return ":"
    lo = r.randrange(n)
    if r.random() < 0.1:
        return f"{_integer(s, lo)}:{_integer(s, r.randint(lo, n))}"
    return r.choice((
        f"{lo}:", f":{r.randint(1, n)}", f"{lo}:{r.randint(lo, n)}", "::2", "1::2", "::-1", f"{-r.randint(1, n)}:", f":{n + 2}",
    ))


def _integer(s: Scene, k: int) -> str:
    """An integer as programs have them: Python's, NumPy's, a Scalar that is there, or one that is computed."""
    if s.r.random() < 0.7:
        return str(k)
    known = (f"np.int64({k})", f"np.int16({k})", f"xp.int64({k})", f"xp.int8({k})")
    made = (
        f"xp.arange({k - 1}, {k + 2})[1]", f"xp.argmax(xp.arange({abs(k) + 1})) * {-1 if k < 0 else 1}", f"xp.array([{k}])[0]",
        f"xp.nonzero(xp.arange({abs(k) + 2}) == {abs(k)})[0][0] * {-1 if k < 0 else 1}",
    )
    return s.r.choice(known if s.traced else known + made)


def basic(s: Scene, name: str, drop: float = 0.3) -> str:
    """A basic index."""
    r, parts = s.r, []
    for n in s.values[name].shape:
        parts.append(_integer(s, r.randrange(-n, n)) if n and r.random() < drop else _part(s, n))
    if r.random() < 0.1 and len(parts) > 1:
        parts = r.choice((["...", parts[-1]], [parts[0], "..."], parts[:1]))
    if r.random() < 0.07:
        parts.insert(r.randint(0, len(parts)), "None")
    return ", ".join(parts) or "..."


def fancy(s: Scene, name: str) -> str:
    """Index arrays (as lists or integer arrays of the program), masks, and both beside slices."""
    r, a = s.r, s.values[name]
    n = a.shape[0]
    roll = r.random()
    if roll < 0.25:
        return f"{name} {r.choice(('>', '<=', '!='))} {s.number(name)}" if a.dtype != bool else name
    if roll < 0.35:
        return repr([bool(r.random() < 0.5) for _ in range(n)])
    picks = [r.randrange(-n, n) for _ in range(r.choice((1, 2, 3, 5)))]
    if roll < 0.75 or a.ndim == 1:
        return repr(picks) if r.random() < 0.7 else f"np.array({picks})"
    m = a.shape[1] or 1
    if roll < 0.9:
        return f"{picks!r}, {[r.randrange(-m, m) for _ in picks]!r}"
    return r.choice((f"{picks!r}, {r.randrange(m)}", f":, {[r.randrange(-m, m) for _ in picks]!r}", f"{picks!r}, {_part(s, m)}"))


# what makes names


def view(s: Scene) -> str:
    x, v, r = s.some(), s.fresh(), s.r
    a = s.values[x]
    shape = factors(s, a.size, r.randint(1, 3))  # type: ignore[arg-type]
    if a.ndim > 1 and len(a) and r.random() < 0.15:
        return f"{v} = {x}[{_integer(s, r.randrange(-len(a), len(a)))}]"
    return f"{v} = " + r.choice((
        f"{x}[{basic(s, x, 0.15)}]", f"{x}[{basic(s, x, 0.15)}]", f"{x}.T", f"{x}.reshape({shape})", f"{x}[::-1]", f"{x}[None]",
        f"{x}.squeeze()",
        f"{x}.swapaxes(0, -1)", f"xp.reshape({x}, {shape})", f"xp.expand_dims({x}, 0)", x, f"{x}[...]",
        f"xp.moveaxis({x}, 0, -1)",
        f"{x}.transpose()", f"xp.flip({x})", f"{x}.ravel()", f"xp.ravel({x}.T)",
        f"{x}.T.reshape(-1)", f"xp.split({x}, [1])[0]", f"xp.atleast_2d({x})",
    ))


def copied(s: Scene) -> str:
    x, v = s.some(), s.fresh()
    return f"{v} = " + s.r.choice((
        f"{x}.copy()", f"{x}.flatten()", f"xp.copy({x})", f"xp.array({x})", f"{x}.astype({x}.dtype)", f"xp.zeros_like({x})",
        f"{x}[{fancy(s, x)}]" if len(s.values[x]) else f"{x}.copy()", f"xp.concatenate([{x}, {x}])",
    ))


def taken(s: Scene) -> str | None:
    """A scalar out of an array; it is a value, not a view."""
    x = s.some()
    a = s.values[x]
    if not a.size:
        return None
    at = ", ".join(str(s.r.randrange(-n, n)) for n in a.shape)
    return f"{s.fresh()} = {x}[{at}]"


def computed(s: Scene) -> str:
    x, v, r = s.some(), s.fresh(), s.r
    y, a = s.like(x), s.values[x]
    if a.dtype == bool:
        return f"{v} = " + r.choice((
            f"{x} & {y}", f"{x} | {y}", f"~{x}", f"{x} ^ {x}", f"{x}.any()", f"{x}.all(axis=0)", f"{x}.sum()",
        ))
    return f"{v} = " + r.choice((
        f"{x} + {y}", f"{x} * {y}", f"{x} - {y}", f"xp.where({x} > 0, {x}, {y})", f"xp.maximum({x}, {y})", f"{x}.sum()",
        f"{x}.sum(axis=0)",
        f"{x}.max()", f"xp.cumsum({x}, axis=0)", f"abs({x})", f"{x}[0] + {y}", f"{x}.min(axis=-1)", f"{x}.argmax()",
        f"{x} == {y}", f"{x} % 3",
        f"{x} // 2", f"{x} ** 2", f"{x}.prod() * 0", f"xp.sort({x}, axis=0)", f"({x} > 0).any()",
        f"-{x}" if a.dtype.kind != "u" else f"{x} + 1",
        f"{x} > -1", f"{x} < 300", f"{x} != -7",
        f"xp.broadcast_to({x}, {(2, *a.shape)}) + {y}",
        f"{x}.clip(0, 2)", f"xp.roll({x}, 1)", f"{x} @ {x}" if a.ndim == 1 else f"{x} @ {x}.T" if a.ndim == 2 else f"{x} + {x}",
    ))


# what writes


def assigned(s: Scene) -> str:
    x, r = s.some(), s.r
    y = s.like(x)
    at = basic(s, x)
    return r.choice((
        f"{x}[{at}] = {y}[{at}]" if y in s.values and s.values[y].shape == s.values[x].shape else f"{x}[{at}] = {s.number(x)}",
        f"{x}[{at}] = {s.number(x)}", f"{x}[...] = {y}", f"{x}[:] = {y}", f"{x}[{at}] = {x}[{basic(s, x)}]", f"{x}[{at}] = {y}",
        f"{x}.fill({s.number(x)})", f"{x}[{_integer(s, 0)}][...] = {s.number(x)}",
    ))


def overlapping(s: Scene) -> str:
    x, r = s.some(), s.r
    plain = s.values[x].dtype != bool
    return r.choice((
        f"{x}[1:] = {x}[:-1]", f"{x}[:-1] = {x}[1:]", f"{x}[...] = {x}[::-1]", f"{x}[::-1] = {x}", f"{x}[:] = {x}.T",
        f"{x}[::2] = {x}[:{x}[::2].shape[0]].copy()",  # without a copy NumPy 2.4 reads what it has just written
        *(
            (
                f"{x}[1:] += {x}[:-1]", f"{x} += {x}[::-1]", f"{x} += {x}.T", f"{x}[1:] *= {x}[0]", f"{x} += {x}[0]",
                f"{x}[0] += {x}[-1]",
            ) if plain else ()
        ),
    ))


def augmented(s: Scene) -> str:
    x, r = s.some(), s.r
    y, at = s.like(x), basic(s, x)
    if s.values[x].dtype == bool:
        return r.choice((f"{x} &= {y}", f"{x}[{at}] |= {s.number(x)}", f"{x} ^= {y}", f"{x}[{at}] ^= True"))
    op = r.choice(("+=", "-=", "*=", "+="))
    return r.choice((
        f"{x} {op} {y}", f"{x}[{at}] {op} {s.number(x)}", f"{x}[{at}] {op} {s.number(x)}", f"{x} //= 2", f"{x} %= 3",
        f"{x} **= 2",
    ))


def scattered(s: Scene) -> str | None:
    x, r = s.some(), s.r
    if not len(s.values[x]):
        return None
    at, plain = fancy(s, x), s.values[x].dtype != bool
    picks = [r.randrange(len(s.values[x])) for _ in range(r.choice((1, 2, 3)))]
    values = [eval(s.number(x)) for _ in picks]
    return r.choice((
        f"{x}[{at}] = {s.number(x)}", f"{x}[{at}] = {x}[{at}]",
        f"{x}[{picks}] = {values if s.values[x].ndim == 1 else values[0]}",
        *((f"{x}[{at}] += {s.number(x)}", f"np.add.at({x}, {picks}, {s.number(x)})", f"{x}[{picks}] *= 2") if plain else ()),
    ))


def mixed(s: Scene) -> str | None:
    """Index arrays, masks, numbers and slices beside each other, an ellipsis (also of no dimension) and new axes between them."""
    x, r = s.some(), s.r
    shape = s.values[x].shape
    if not shape or 0 in shape:
        return None
    count = r.choice((1, 2, 3))
    parts = []
    for n in shape:
        picks = [r.randrange(-n, n) for _ in range(count)]
        parts.append(r.choice((
            repr(picks), repr(picks), f"np.array({picks})", f"np.array({picks}).reshape(-1, 1)", str(r.randrange(-n, n)),
            repr([k < count for k in range(n)]), _part(s, n), _part(s, n),
        )))
    if r.random() < 0.6:
        at = r.randint(0, len(parts))
        parts[at:at + r.choice((0, 0, 1))] = ["..."]
    if r.random() < 0.3:
        parts.insert(r.randint(0, len(parts)), "None")
    v, at = s.fresh(), ", ".join(parts)
    return r.choice((
        f"{v} = {x}[{at}]", f"{v} = {x}[{at}]", f"{x}[{at}] = {s.number(x)}", f"{x}[{at}] = {x}[{at}][::-1]",
        f"{v} = {x}[{at}]; {x}[{at}] = {v} {'^' if s.values[x].dtype == bool else '*'} {v}",
    ))


def swapped(s: Scene) -> str:
    x, y = s.some(), s.some()
    return s.r.choice((
        f"{x}[0], {x}[-1] = {x}[-1], {x}[0]", f"{x}, {y} = {y}, {x}", f"{x}[0], {x}[1] = {x}[1], {x}[0]",
        f"{x}[[0, 1]] = {x}[[1, 0]]",
    ))


def numbers(s: Scene) -> str | None:
    """What is done to scalars: they are values, and what is written through them stays where it is."""
    found = [n for n, a in s.values.items() if isinstance(a, np.generic) and a.dtype.kind in "iuf"]
    x = s.some()
    if not found:
        return taken(s)
    t = s.r.choice(found)
    v = s.fresh()
    i = s.r.randrange(max(len(s.values[x]), 1))
    return s.r.choice((
        f"{v} = {t}; {v} = {v} + 1", f"{t} += 1", f"{v} = {t}; {t} += 1", f"{x}[{i}] = {t}", f"{t} *= 2",
        f"{x} += {t}.astype({x}.dtype)",
        f"{v} = {x}[{i}]; {x}[{i}] = {x}[{i}] + {x}[{i}]", f"{x}[{i}] += {t}.astype({x}.dtype)",
        f"{v} = xp.sum({x}); {t} = {v}; {v} += 1",
    ))


def outed(s: Scene) -> str:
    """Results written where ``out=`` says."""
    x, r = s.some(), s.r
    y = s.like(x)
    a = s.values[x]
    if a.dtype == bool:
        return f"xp.logical_not({x}, out={x})"
    return r.choice((
        f"xp.add({x}, {y}, out={x})", f"xp.multiply({x}, {y}, out={x})", f"xp.maximum({x}, {y}, out={x})",
        f"xp.subtract({x}, {x}[::-1], out={x})",
        f"xp.cumsum({x}, axis=0, out={x})", f"xp.negative({x}, out={x})", f"xp.abs({x}, out={x})", f"xp.clip({x}, 0, 2, out={x})",
        f"xp.sum({x}, axis=0, out={x}[0])", f"xp.add({x}[1:], {x}[:-1], out={x}[1:])",
        f"xp.take({x}, [0] * {len(a)}, axis=0, out={x})",
    ))


def looped(s: Scene) -> str:
    """Many writes in a row, which a program does one at a time."""
    x, r = s.some(), s.r
    n = len(s.values[x])
    plain = s.values[x].dtype != bool
    if not plain:
        return f"for i in range({n}): {x}[i] = not {x}[0].any()"
    k = r.choice((3, 8, 20, 30))
    held = s.fresh()
    return r.choice((
        f"for i in range({k}): {x}[i % {n or 1}:i % {n or 1} + 5] += 1", f"for i in range({k}): {x}[i % {n or 1}] += 1",
        f"for i in range({min(k, n)}): {x}[i] = {x}[i - 1] + 1", f"for row in {x}: row += 1",
        f"for i in range({k}): {x} += {x}[::-1]; {x} //= 2",
        f"{held} = []; [{held}.append(({x} + i).sum()) for i in range({k})]",
        f"for i in range({min(n, k)}): {x}[i], {x}[-1 - i] = {x}[-1 - i], {x}[i]",
        f"for i in range({min(k, 8)}): {x}[i % {n or 1}:], {x} = {x}[i % {n or 1}:] * 1, {x}",
    ))


def wrong(s: Scene) -> str:
    """Mostly refused by NumPy."""
    x, r = s.some(), s.r
    a = s.values[x]
    n = len(a)
    return r.choice((
        f"{x}[{n + 3}]", f"{x}[[0, {n}]] = 1", f"{x}[{-n - 1}] = 1", f"{x}[..., ...]",
        f"{x} + np.ones({(*a.shape[:-1], a.shape[-1] + 1)})",
        f"{x}[:] = np.ones({(n + 1,)})", f"{x}.reshape({a.size + 1},)", f"{x} ** -1", f"{x}[0, 0, 0, 0, 0]", f"{x}['a']",
        f"{x}.sum(axis=7)",
        f"{x}[0] = np.nan", f"{x} += 0.5", f"{x}[1.5]", f"xp.concatenate([{x}, {x}], axis=9)", f"{x}.transpose(0, 0)",
    ))


LINES: list[tuple[float, Callable[[Scene], str | None]]] = [
    (4.0, view), (1.5, copied), (1.5, taken), (3.0, computed), (4.0, assigned), (2.0, overlapping), (3.0, augmented),
    (2.5, scattered), (2.5, mixed),
    (1.2, swapped), (1.2, numbers), (1.5, outed), (0.7, looped), (0.6, wrong),
]
