"""Arguments of a launch: buffers, run-time numbers, and most constants of the kernel.

Shapes, strides and lengths in the text would require one text for every size. Reading an argument is free on a GPU, so the text
contains small numbers only: windows, strides of convolutions, unit strides, and numbers that rules match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.devices.cuda.formats import parameter_type, pointer
from weft.devices.cuda.library import prepend_functions
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32, INT64, Format
from weft.kernel.ir import Buffer

MAX_LITERAL = 8  # integers up to this stay in the text
_LITERAL_FLOATS = (0.0, 1.0, -1.0, 2.0, 0.5)  # these floats stay in the text, too
FAULTS = "faults"  # the record of failed index checks: see ``tile_expressions.py``


@dataclass(frozen=True, slots=True)
class Argument:
    """kind: "buffer" (value: scope and id), "scalar" (value: number of the kernel's scalar), "number" (value: itself), "faults".
    """

    name: str
    kind: str
    form: Format
    value: Any = None

    @property
    def type(self) -> str:
        """Return the type in a signature."""
        return pointer(self.form) if self.kind in ("buffer", "faults") else parameter_type(self.form)

    @property
    def divisibility(self) -> int:
        """Return the largest power of two, up to 16, that divides the value: Triton vectorises loads by it."""
        if self.kind != "number" or self.form not in (INT32, INT64):
            return 1
        return min(16, self.value & -self.value)


_RECORD = Argument(FAULTS, FAULTS, INT64)


class Arguments:
    """Collects the arguments of a launch while its text is written; equal numbers are one argument."""

    def __init__(self) -> None:
        self._arguments: dict[tuple, Argument] = {}
        self._count: dict[str, int] = {}

    def _add(self, key: tuple, prefix: str, kind: str, form: Format, value: Any) -> str:
        argument = self._arguments.get(key)
        if argument is None:
            number = self._count.get(prefix, 0)
            self._count[prefix] = number + 1
            argument = self._arguments[key] = Argument(f"{prefix}{number}", kind, form, value)
        return argument.name

    def buffer(self, b: Buffer) -> str:
        return self._add(("buffer", b.scope, b.id), "b", "buffer", b.dtype, (b.scope, b.id))

    def scalar(self, position: int, form: Format) -> str:
        return self._add(("scalar", position), "s", "scalar", form, position)

    def faults(self) -> str:
        return self._arguments.setdefault((FAULTS,), _RECORD).name

    def integer(self, n: int) -> str:
        if abs(n) <= MAX_LITERAL:
            return str(n)
        form = INT32 if -(2**31) <= n < 2**31 else INT64
        return self._add(("number", n), "n", "number", form, n)

    def number(self, x: Any, form: Format) -> str | None:
        """Return the name of a constant; None if it belongs into the text."""
        if form is INT64 and abs(int(x)) > MAX_LITERAL:
            name = self.integer(int(x))
            return f"{name}.to(tl.int64)" if -(2**31) <= int(x) < 2**31 else name
        if form in (FLOAT32, FLOAT64) and np.isfinite(x) and float(x) not in _LITERAL_FLOATS:
            exact = float(form.numpy.type(x))
            return self._add(("float", form.name, exact), "f", "number", form, exact)
        return None

    @property
    def order(self) -> tuple[Argument, ...]:
        """Return the arguments in signature order: pointers, then numbers."""
        pointer_kinds = ("buffer", FAULTS)
        return tuple(sorted(self._arguments.values(), key=lambda a: a.kind not in pointer_kinds))


@dataclass(frozen=True)
class Launch:
    """A text and everything that running it takes.

    lines: of its body. grid: number of programs along two dimensions. warps, stages: options of Triton.
    stops: the launch returns at once if an index check has failed.
    others: print the same launch in other tiles, among which a device may choose by measuring.
    """

    lines: tuple[str, ...]
    arguments: tuple[Argument, ...]
    grid: tuple[int, int]
    warps: int = 4
    stages: int = 3
    stops: bool = False
    others: Callable[[], tuple[Launch, ...]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def alternatives(self) -> tuple[Launch, ...]:
        """Return the same launch in other tiles, which give the same bits."""
        launches = () if self.others is None else self.others()
        return tuple([launch.stopping() for launch in launches]) if self.stops else launches

    @cached_property
    def text(self) -> str:
        head = f"def kernel({', '.join(a.name for a in self.arguments)}):"
        stop = (f"if tl.load({FAULTS}) != 0:", "    return") if self.stops else ()
        return prepend_functions("\n    ".join([head, *stop, *self.lines]) + "\n")

    @property
    def signature(self) -> tuple[tuple[str, str, int], ...]:
        """Return (name, type, divisibility) of each argument. Compiled code depends on these and the text."""
        return tuple([(a.name, a.type, a.divisibility) for a in self.arguments])

    @property
    def checks(self) -> bool:
        return any(a.kind == FAULTS for a in self.arguments)

    def stopping(self) -> Launch:
        """Return the launch with ``stops`` set."""
        arguments = self.arguments if self.checks else (_RECORD, *self.arguments)
        return replace(self, arguments=arguments, stops=True)


@dataclass(frozen=True, slots=True)
class PrintedKernel:
    """A kernel as consecutive launches. scratch: buffers besides its arguments; sites: number of index checks."""

    name: str
    launches: tuple[Launch, ...]
    scratch: tuple[Buffer, ...]
    sites: int = 0
