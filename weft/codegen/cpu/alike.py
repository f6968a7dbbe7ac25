"""Functions that differ in numbers only become one: so the phases of a strided convolution's gradient compile sooner.

Works on the text: two functions are alike if their lines are, but for integers in additions, multiplications, comparisons
and offsets. What differs becomes parameters; each function stays as a call that hands over its own numbers.
"""

from __future__ import annotations

import re

from weft.codegen.cpu.text import Function, Module

_ARITHMETIC = re.compile(r"  %\w+ = (?:add|sub|mul|icmp \w+|select i1 %?\w+,) i64 ")
_OFFSET = re.compile(r"  %\w+ = getelementptr [\w]+, ptr %\w+, i64 ")
_NUMBER = re.compile(r"(?<=[ ,])-?\d+(?=,|$)")


def share_alike(module: Module, names: tuple[str, ...]) -> None:
    """Join the functions of ``module`` whose names end in one of ``names`` and that are alike."""
    groups: dict[tuple, list[tuple[Function, list[str]]]] = {}
    for f in module.functions:
        head, _, arguments = f.signature.partition("(")
        if head.endswith(names):
            frame, numbers = _apart(f.lines)
            groups.setdefault((arguments, f.attributes, tuple(f.allocas), frame), []).append((f, numbers))
    for number, ((arguments, attributes, allocas, frame), members) in enumerate(groups.items()):
        if len(members) < 2:
            continue
        differ = [k for k, values in enumerate(zip(*(numbers for _, numbers in members), strict=True)) if len(set(values)) > 1]
        first = members[0][0]
        own = [word.split()[-1] for word in arguments.rstrip(")").split(",")]
        types = [" ".join(word.split()[:-1]) for word in arguments.rstrip(")").split(",")]
        name = f"{first.signature.partition('(')[0].split()[-1]}.alike{number}"
        more = [f"i64 %number{k}" for k in differ]
        joined = module.function(f"define internal void {name}({', '.join([arguments.rstrip(')'), *more])})", attributes)
        joined.allocas = list(allocas)
        words = list(members[0][1])
        for k in differ:
            words[k] = f"%number{k}"
        joined.lines = "\n".join(frame).replace("{", "{{").replace("}", "}}").replace("\0", "{}").format(*words).split("\n")
        passed = [f"{t} {v}" for t, v in zip(types, own, strict=True)]
        for f, numbers in members:
            f.allocas = []
            f.lines = [f"  call void {name}({', '.join([*passed, *(f'i64 {numbers[k]}' for k in differ)])})", "  ret void"]


def _apart(lines: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The lines with a mark in place of each number, and the numbers."""
    frame, numbers = [], []
    for line in lines:
        if _ARITHMETIC.match(line) or _OFFSET.match(line):
            numbers += _NUMBER.findall(line)
            line = _NUMBER.sub("\0", line)
        frame.append(line)
    return tuple(frame), numbers
