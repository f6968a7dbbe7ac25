"""A text while it is written: lines in loops, and a name for each different expression.

An expression is printed once, in the outermost loop where it can be. Equal text is an equal value: no name is given twice.

A launch works on a tile of two dimensions; what an expression varies along is known, so that rows and columns stay small until
something needs both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.devices.cuda.arguments import Arguments, Launch


@dataclass(frozen=True, slots=True)
class Expression:
    """A printed expression. dims: the dimensions of the tile along which it varies; level: the loop in which it stands.

    A scalar has no dims; what has one is a block of one row or column.
    """

    text: str
    dims: frozenset[int] = frozenset()
    level: int = 0


def joined(parts: Iterable[Expression]) -> tuple[frozenset[int], int]:
    """Where and along what dimensions something stands that is made of others."""
    dims: frozenset[int] = frozenset()
    level = 0
    for e in parts:
        dims |= e.dims
        level = max(level, e.level)
    return dims, level


class Text:
    def __init__(self) -> None:
        self.arguments = Arguments()
        self._lines: list[list[str]] = [[]]
        self._known: list[dict[str, Expression]] = [{}]
        self._count = 0

    @property
    def level(self) -> int:
        """How many loops are open."""
        return len(self._lines) - 1

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, text: str, dims: Iterable[int] = (), level: int = 0) -> Expression:
        """A name for an expression that stands in the loop ``level``."""
        for known in self._known[: level + 1]:
            if text in known:
                return known[text]
        name = self.fresh("v")
        self._lines[level].append(f"{name} = {text}")
        made = self._known[level][text] = Expression(name, frozenset(dims), level)
        return made

    def line(self, text: str, level: int | None = None) -> None:
        self._lines[-1 if level is None else level].append(text)

    def open(self) -> None:
        """Begin a loop."""
        self._lines.append([])
        self._known.append({})

    def close(self, head: str) -> None:
        """End the loop, of which ``head`` is the first line."""
        body = self._lines.pop()
        self._known.pop()
        self._lines[-1] += [head, *("    " + line for line in body)]

    def launch(self, grid: tuple[int, int], warps: int = 4, stages: int = 3) -> Launch:
        """What was written, as a launch."""
        (lines,) = self._lines
        return Launch(tuple(lines), self.arguments.order, grid, warps, stages)
