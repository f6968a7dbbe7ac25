"""A program of the fuzzer: plain data, kept as text, and printed as Python that a user can paste."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import weft as wf
from weft.dtypes.api import as_dtype, bool, is_float

KINDS = {
    "normal": "numbers around 0",
    "unit": "between 0.1 and 0.9",
    "few": "quarters between -1 and 1: many are equal",
    "special": "NaN, infinities, both zeros, the smallest and the largest numbers among others",
    "whole": "small integers",
    "full": "integers of all sizes",
    "index:N": "integers in [0, N)",
    "signed:N": "integers in [-N, N)",
    "mask": "half true",
    "rare": "all false (or 0) but one", "most": "all true (or 1) but one",
    "given": "the numbers themselves",
}
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 3e38, -7.0)


@dataclass(frozen=True, slots=True)
class Input:
    """An array that a program is given: drawn from its own seed, or (kind ``given``) written out."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str
    seed: int = 0
    values: tuple[Any, ...] = ()

    def array(self, turn: int = 0) -> np.ndarray:
        """The NumPy array; another ``turn`` gives other numbers of the same kind."""
        dtype = as_dtype(self.dtype)
        if self.kind == "given":
            with np.errstate(all="ignore"):
                return np.array(self.values, object if dtype.kind in "iu" else None).astype(dtype).reshape(self.shape)
        return drawn(self.kind, dtype, self.shape, self.seed + 7919 * turn)


def drawn(kind: str, dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random numbers of a kind (see ``KINDS``)."""
    r = np.random.default_rng(seed)
    name, _, most = kind.partition(":")
    with np.errstate(all="ignore"):
        if name == "index":
            return r.integers(0, int(most), shape).astype(dtype)
        if name == "signed":
            return r.integers(-int(most), int(most), shape).astype(dtype)
        if name in ("rare", "most"):
            out = np.full(shape, name == "most", dtype)
            if out.size:
                out.reshape(-1)[r.integers(out.size)] = name == "rare"
            return out
        if dtype == bool:
            return r.random(shape) < 0.5
        if is_float(dtype):
            if name == "unit":
                return r.uniform(0.1, 0.9, shape).astype(dtype)
            if name in ("few", "whole"):
                return (r.integers(-4, 5, shape) / 4).astype(dtype)
            out = r.normal(size=shape)
            if name == "special":
                out = np.where(r.random(shape) < 0.3, r.choice(_SPECIAL, size=shape), out)
            return out.astype(dtype)
        if name == "full":
            info = np.iinfo(dtype)
            return r.integers(info.min, info.max, shape, dtype, endpoint=True)
        return r.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)


@dataclass(frozen=True, slots=True)
class Program:
    """Inputs, lines of Python that make more values from them, and which of these are looked at.

    ``options`` say what the family does with the lines, see ``families``.
    """

    family: str
    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = -1

    def __str__(self) -> str:
        """The form that :func:`parse` reads: what the corpus holds."""
        out = [f"family {self.family}" + (f" seed {self.seed}" if self.seed >= 0 else "")]
        out += [f"option {k} = {v!r}" for k, v in self.options.items()]
        for i in self.inputs:
            tail = repr(list(i.values)) if i.kind == "given" else str(i.seed)
            out.append(f"{i.name}: {i.dtype} {i.shape!r} {i.kind} {tail}")
        out += [f"> {line}" for line in self.lines]
        return "\n".join([*out, "return " + " ".join(self.outputs)])

    def source(self, name: str = "f") -> str:
        """The lines as a function of the inputs."""
        body = "".join(f"    {line}\n" for line in self.lines)
        result = ", ".join(self.outputs) + ("," if len(self.outputs) == 1 else "")
        return f"def {name}({', '.join(i.name for i in self.inputs)}):\n{body}    return {result or '()'}\n"

    def python(self) -> str:
        """A script with the numbers in it."""
        out = ["import numpy as np, ml_dtypes, weft as wf", "nan, inf = np.nan, np.inf", ""]
        for i in self.inputs:
            array = i.array()
            plain = array.dtype.isbuiltin == 1
            quoted = repr(i.dtype) if plain else f"ml_dtypes.{i.dtype}"
            if array.size <= 24:
                data = f"np.array({array.astype(array.dtype if plain else 'f4').tolist()!r})"
                out.append(f"{i.name} = wf.array({data}.astype({quoted}).reshape({i.shape}))")
            else:
                out.append(f"{i.name} = wf.array(drawn({i.kind!r}, np.dtype({quoted}), {i.shape}, {i.seed}))")
                if "from tests.fuzz.program import drawn" not in out:
                    out.insert(1, "from tests.fuzz.program import drawn")
        if any("primitive(" in line for line in self.lines):
            out.insert(1, "from tests.fuzz.program import primitive")
        if any("ruled(" in line for line in self.lines):
            out.insert(1, "from tests.fuzz.program import ruled")
        return "\n".join([*out, "", self.source(), f"print(*f({', '.join(i.name for i in self.inputs)}), sep='\\n')", ""])

    def with_(self, **changes: Any) -> Program:
        return replace(self, **changes)


_INPUT = re.compile(r"(\w+): (\w+) (\([^)]*\)) ([\w:]+) (.*)")


def parse(text: str) -> Program:
    """The program that ``str(program)`` wrote.

    Raises
    ------
    ValueError
        for a line that says nothing
    """
    family, seed = "", -1
    inputs: list[Input] = []
    lines: list[str] = []
    outputs: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    for line in text.strip().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        word, _, rest = line.partition(" ")
        if word == "family":
            parts = rest.split()
            family, seed = parts[0], int(parts[2]) if len(parts) > 2 else -1
        elif word == "option":
            name, _, value = rest.partition(" = ")
            options[name] = ast.literal_eval(value)
        elif word == ">":
            lines.append(rest)
        elif word == "return":
            outputs = tuple(rest.split())
        else:
            found = _INPUT.fullmatch(line)
            if not found:
                raise ValueError(f"not a line of a program: {line!r}")
            name, dtype, shape, kind, tail = found.groups()
            given = kind == "given"
            values = tuple(eval(tail, {"nan": np.nan, "inf": np.inf})) if given else ()
            inputs.append(Input(name, dtype, ast.literal_eval(shape), kind, 0 if given else int(tail), values))
    return Program(family, tuple(inputs), tuple(lines), outputs, options, seed)


def parse_many(text: str) -> list[tuple[str, Program]]:
    """(the comment in front, the program) for every program of a corpus file; blank lines stand between them."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip()):
        comment = " ".join(line[1:].strip() for line in block.splitlines() if line.startswith("#"))
        if any(line.startswith("family") for line in block.splitlines()):
            out.append((comment, parse(block)))
    return out


def primitive(name: str, *arrays: Any, **params: Any) -> Any:
    """A primitive that no public function is made of alone, as a function of Arrays."""
    from weft.array import wrap
    from weft.dtypes.parse import parse_dtype
    from weft.graph.primitives import TABLE, bind

    params = {k: parse_dtype(v) if k == "dtype" else v for k, v in params.items()}
    return wrap(bind(TABLE[name], *(a.node for a in arrays), **params))


def ruled(f: Callable[[Any], Any], forward: bool = False) -> Callable[[Any], Any]:
    """A function with its own derivative as a rule: ``custom_jvp`` (``forward``) or ``custom_vjp``."""
    if forward:
        pushed = wf.custom_jvp(f)
        pushed.defjvp(lambda primals, tangents: (pushed(*primals), wf.jvp(f, primals, tangents)[1]))
        return pushed
    pulled = wf.custom_vjp(f)
    pulled.defvjp(lambda x: (pulled(x), x), lambda x, g: wf.vjp(f, x)[1](g))
    return pulled


def names(text: str) -> list[str]:
    """The variables of the fuzzer that a line names, in order."""
    return re.findall(r"\b[a-z]\d+\b", text)
