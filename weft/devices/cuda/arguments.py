"""What a launch is given: buffers, run-time numbers, and the constants of a finished kernel, which are arguments here.

A shape, a stride or the length of a mean in the text would make a text of its own for every size. Reading an argument costs a
GPU nothing, so the text keeps small numbers only: windows, strides of convolutions, unit strides, and what rules look for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.devices.cuda.formats import passed, pointer
from weft.devices.cuda.library import with_functions
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32, INT64, Format
from weft.kernel.ir import Buffer

LITERAL = 8  # integers up to this stay in the text
_KEPT = (0.0, 1.0, -1.0, 2.0, 0.5)  # and these floats
FAULTS = "faults"  # the record of wrong indices: see ``values.py``


@dataclass(frozen=True, slots=True)
class Argument:
    """kind: "buffer" (value: scope and id), "scalar" (value: which of the kernel's), "number" (value: itself), "faults"."""

    name: str
    kind: str
    form: Format
    value: Any = None

    @property
    def type(self) -> str:
        """In a signature."""
        return pointer(self.form) if self.kind in ("buffer", "faults") else passed(self.form)

    @property
    def divisibility(self) -> int:
        """The largest power of two, up to 16, that is known to divide it: so much may be loaded at once."""
        if self.kind != "number" or self.form not in (INT32, INT64):
            return 1
        return min(16, self.value & -self.value)


_RECORD = Argument(FAULTS, FAULTS, INT64)


class Arguments:
    """Collects the arguments of a launch while its text is written; equal numbers are one argument."""

    def __init__(self) -> None:
        self._found: dict[tuple, Argument] = {}
        self._count: dict[str, int] = {}

    def _named(self, key: tuple, prefix: str, kind: str, form: Format, value: Any) -> str:
        found = self._found.get(key)
        if found is None:
            number = self._count.get(prefix, 0)
            self._count[prefix] = number + 1
            found = self._found[key] = Argument(f"{prefix}{number}", kind, form, value)
        return found.name

    def buffer(self, b: Buffer) -> str:
        return self._named(("buffer", b.scope, b.id), "b", "buffer", b.dtype, (b.scope, b.id))

    def scalar(self, position: int, form: Format) -> str:
        return self._named(("scalar", position), "s", "scalar", form, position)

    def faults(self) -> str:
        return self._found.setdefault((FAULTS,), _RECORD).name

    def integer(self, n: int) -> str:
        if abs(n) <= LITERAL:
            return str(n)
        form = INT32 if -(2**31) <= n < 2**31 else INT64
        return self._named(("number", n), "n", "number", form, n)

    def number(self, x: Any, form: Format) -> str | None:
        """The name of a constant; None where it belongs into the text."""
        if form is INT64 and abs(int(x)) > LITERAL:
            name = self.integer(int(x))
            return f"{name}.to(tl.int64)" if -(2**31) <= int(x) < 2**31 else name
        if form in (FLOAT32, FLOAT64) and np.isfinite(x) and float(x) not in _KEPT:
            exact = float(form.numpy.type(x))
            return self._named(("float", form.name, exact), "f", "number", form, exact)
        return None

    @property
    def order(self) -> tuple[Argument, ...]:
        """Pointers first, then numbers: as they are passed."""
        first = ("buffer", FAULTS)
        return tuple(sorted(self._found.values(), key=lambda a: a.kind not in first))


@dataclass(frozen=True)
class Launch:
    """A text with all that running it takes. lines: of its body; grid: programs along two dimensions; stops: it does nothing
    once an index was found out of range; others: print the same in other tiles, where a device may choose by measuring."""

    lines: tuple[str, ...]
    arguments: tuple[Argument, ...]
    grid: tuple[int, int]
    warps: int = 4
    stages: int = 3
    stops: bool = False
    others: Callable[[], tuple[Launch, ...]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def alternatives(self) -> tuple[Launch, ...]:
        """The same in other tiles, with the same bits."""
        found = () if self.others is None else self.others()
        return tuple([launch.stopping() for launch in found]) if self.stops else found

    @cached_property
    def text(self) -> str:
        head = f"def kernel({', '.join(a.name for a in self.arguments)}):"
        stop = (f"if tl.load({FAULTS}) != 0:", "    return") if self.stops else ()
        return with_functions("\n    ".join([head, *stop, *self.lines]) + "\n")

    @property
    def signature(self) -> tuple[tuple[str, str, int], ...]:
        """(name, type, divisibility) of each argument: what is compiled depends on these and the text."""
        return tuple([(a.name, a.type, a.divisibility) for a in self.arguments])

    @property
    def checks(self) -> bool:
        return any(a.kind == FAULTS for a in self.arguments)

    def stopping(self) -> Launch:
        """The same, which does nothing once a fault was found."""
        own = self.arguments if self.checks else (_RECORD, *self.arguments)
        return replace(self, arguments=own, stops=True)


@dataclass(frozen=True, slots=True)
class Printed:
    """A kernel as launches, one after another. scratch: buffers that it needs besides its arguments; sites: how many places
    check indices."""

    name: str
    launches: tuple[Launch, ...]
    scratch: tuple[Buffer, ...]
    sites: int = 0


def texts(printed: Sequence[Printed]) -> dict[str, Launch]:
    """Each different text once."""
    return {launch.text: launch for p in printed for launch in p.launches}
