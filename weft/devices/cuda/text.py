"""Write the text of a launch: lines in nested loops, and one name for each distinct expression.

An expression is printed once, in the outermost loop possible. Equal texts are equal values, since no name is assigned twice.

A launch works on a tile of two dimensions. Expressions record the dimensions along which they vary, so that rows and columns stay
small until an operation needs both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.devices.cuda.arguments import Arguments, Launch


@dataclass(frozen=True, slots=True)
class Expression:
    """A printed expression. dims: dimensions of the tile along which it varies; level: the loop that contains it.

    A scalar has no dims; an expression that varies along one dimension is a block of one row or column.
    """

    text: str
    dims: frozenset[int] = frozenset()
    level: int = 0


def joined(parts: Iterable[Expression]) -> tuple[frozenset[int], int]:
    """Return (dims, level) of an expression with these operands."""
    dims: frozenset[int] = frozenset()
    level = 0
    for e in parts:
        dims |= e.dims
        level = max(level, e.level)
    return dims, level


class Text:
    """The lines, names and arguments of a launch while it is written."""

    def __init__(self) -> None:
        self.arguments = Arguments()
        self._lines: list[list[str]] = [[]]
        self._names: list[dict[str, Expression]] = [{}]
        self._count = 0

    @property
    def level(self) -> int:
        """Return the number of open loops."""
        return len(self._lines) - 1

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, text: str, dims: Iterable[int] = (), level: int = 0) -> Expression:
        """Return the name of an expression, assigning it in the loop ``level`` if no open loop up to that level has done so."""
        for names in self._names[: level + 1]:
            if text in names:
                return names[text]
        name = self.fresh("v")
        self._lines[level].append(f"{name} = {text}")
        expression = self._names[level][text] = Expression(name, frozenset(dims), level)
        return expression

    def line(self, text: str, level: int | None = None) -> None:
        self._lines[-1 if level is None else level].append(text)

    def open(self) -> None:
        """Begin a loop."""
        self._lines.append([])
        self._names.append({})

    def close(self, head: str) -> None:
        """End the loop, whose first line is ``head``."""
        body = self._lines.pop()
        self._names.pop()
        self._lines[-1] += [head, *("    " + line for line in body)]

    def launch(self, grid: tuple[int, int], warps: int = 4, stages: int = 3) -> Launch:
        """Return the written lines as a launch."""
        (lines,) = self._lines
        return Launch(tuple(lines), self.arguments.order, grid, warps, stages)
