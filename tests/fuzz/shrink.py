"""A failing program made smaller while it fails in the same way: lines, then extents, then numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tests.fuzz.grow import pruned
from tests.fuzz.program import Input, Program, names, parse
from tests.fuzz.runner import Outcome, Runner


def shrunk(runner: Runner, outcome: Outcome, seconds: float = 120.0) -> Outcome:
    """The smallest program found in the time that comes to the same level."""
    best, program = outcome, parse(outcome.program)
    end = time.monotonic() + seconds
    again = True
    tried: set[str] = set()
    while again:
        again = False
        for candidate in candidates(program):
            if time.monotonic() > end:
                return best
            text = str(candidate)
            if text in tried:
                continue
            tried.add(text)
            found = runner.program(text)
            if found.level == outcome.level:
                best, program, again = replace(found, seed=outcome.seed), candidate, True
                break
    return best


def candidates(p: Program) -> Iterator[Program]:
    """Programs with less in them, the largest steps first."""
    if len(p.outputs) > 1:
        for o in p.outputs:
            yield pruned(p.with_(outputs=(o,)))
    for k in range(len(p.lines)):  # without everything behind a line
        target = names(p.lines[k])
        if target and k + 1 < len(p.lines) and p.family == "expression":
            yield pruned(p.with_(lines=p.lines[: k + 1], outputs=(target[0],)))
    for k in reversed(range(len(p.lines))):  # without one line
        rest = (*p.lines[:k], *p.lines[k + 1:])
        target, *operands = names(p.lines[k]) or [""]
        yield pruned(p.with_(lines=rest))
        if not p.outputs:
            continue
        for other in dict.fromkeys([*operands, *(i.name for i in p.inputs)]):
            if other == target:
                continue
            yield pruned(_renamed(p.with_(lines=rest), target, other))
    if not p.outputs:
        text = " ".join([*p.lines, *map(str, p.options.values())])
        used = tuple(i for i in p.inputs if i.name in names(text))
        if used != p.inputs:
            yield p.with_(inputs=used)
    for k, line in enumerate(p.lines):  # without one of several statements, or without a function around an operand
        parts = line.split("; ")
        for j in range(1, len(parts)):
            yield p.with_(lines=_with(p.lines, k, "; ".join([*parts[:j], *parts[j + 1:]])))
        for simpler in _simpler(line):
            yield pruned(p.with_(lines=_with(p.lines, k, simpler)))
    yield from _smaller(p)
    yield from _plainer(p)


def _with(lines: tuple[str, ...], k: int, line: str) -> tuple[str, ...]:
    return (*lines[:k], line, *lines[k + 1:])


def _renamed(p: Program, old: str, new: str) -> Program:
    """Everything that read ``old`` reads ``new``."""
    def change(text: str) -> str:
        return re.sub(rf"\b{old}\b", new, text)

    outputs = tuple(dict.fromkeys(change(o) for o in p.outputs))
    options = {k: change(v) if isinstance(v, str) else v for k, v in p.options.items()}
    return p.with_(lines=tuple(map(change, p.lines)), outputs=outputs, options=options)


def _simpler(line: str) -> Iterator[str]:
    """The line with one call replaced by its first argument, or an arithmetic tail dropped."""
    for found in re.finditer(r"wf\.[\w.]+\((\w+)\)", line):
        yield line[: found.start()] + found[1] + line[found.end():]
    for found in re.finditer(r" [*+-] [\d.]+(?!\d)", line):
        yield line[: found.start()] + line[found.end():]


def _smaller(p: Program) -> Iterator[Program]:
    """One extent, wherever it is written, made smaller."""
    text = "\n".join([*(str(i.shape) for i in p.inputs), *p.lines, *(str(v) for v in p.options.values())])
    for n in sorted({int(x) for x in re.findall(r"(?<![\w.])\d+(?![\w.])", text)}, reverse=True):
        if n < 2:
            continue
        for less in dict.fromkeys((1, 2, n // 2, n - 1)):
            if less < n:
                yield _replaced(p, n, less)


def _replaced(p: Program, old: int, new: int) -> Program:
    def change(line: str) -> str:
        return re.sub(rf"(?<![\w.]){old}(?![\w.])", str(new), line)

    inputs = []
    for i in p.inputs:
        shape = tuple(new if n == old else n for n in i.shape)
        kind = re.sub(rf":{old}$", f":{new}", i.kind)
        if i.kind == "given" and shape != i.shape:
            inputs.append(replace(i, shape=shape, values=tuple(np.resize(np.array(i.values, object), shape).ravel().tolist())))
        else:
            inputs.append(replace(i, shape=shape, kind=kind))
    options = {k: change(v) if isinstance(v, str) else v for k, v in p.options.items()}
    return p.with_(inputs=tuple(inputs), lines=tuple(map(change, p.lines)), options=options)


def _plainer(p: Program) -> Iterator[Program]:
    """One input with plain numbers, then written out; one dtype made float32."""
    for k, i in enumerate(p.inputs):
        def put(new: Input, k: int = k) -> Program:
            return p.with_(inputs=(*p.inputs[:k], new, *p.inputs[k + 1:]))

        size = int(np.prod(i.shape))
        if i.kind == "given":
            if size <= 64:
                for at, v in enumerate(i.values):
                    for plain in (0, 1):
                        if v != plain and (v != v or v not in (0, 1)):
                            yield put(replace(i, values=(*i.values[:at], plain, *i.values[at + 1:])))
            continue
        if size <= 4096 and ":" not in i.kind:
            yield put(replace(i, kind="given", values=(1,) * size))
        if size <= 64:
            array = i.array()
            plain_values = array.astype(np.float64).tolist() if "float" in i.dtype and array.itemsize < 4 else array.tolist()
            yield put(replace(i, kind="given", values=tuple(np.ravel(np.array(plain_values, object)).tolist())))
        if i.kind in ("special", "normal"):
            yield put(replace(i, kind="few"))
