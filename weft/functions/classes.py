"""Classes of NumPy's that programs ask by name: ``broadcast``, ``flatiter``, ``ufunc``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from weft.array import Array
from weft.array.habits import Flat as flatiter
from weft.functions.broadcasting import broadcast_to
from weft.functions.common import arrays, broadcast_shapes


class broadcast:  # noqa: N801  NumPy's name
    """Arrays side by side in the shape that they broadcast to: to ask for that shape, or to walk over their elements together.

    Parameters
    ----------
    args : array_like

    Raises
    ------
    ShapeError
        Shapes that do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> both = wf.broadcast(wf.arange(2), [[10], [20]])
    >>> both.shape, [int(a + b) for a, b in both]
    ((2, 2), [10, 11, 20, 21])
    """

    def __init__(self, *args: Any) -> None:
        given = arrays("broadcast", **{f"args[{k}]": x for k, x in enumerate(args)})
        self.shape = broadcast_shapes("broadcast", *(x.shape for x in given))
        self.nd = self.ndim = len(self.shape)
        self.size, self.numiter, self.index = math.prod(self.shape), len(given), 0
        self._lines = [broadcast_to(x, self.shape).reshape(-1) for x in given]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self.index >= self.size:
            raise StopIteration
        self.index += 1
        return tuple(line[self.index - 1] for line in self._lines)

    @property
    def iters(self) -> tuple[flatiter, ...]:
        """The elements of each, one after the other."""
        return tuple(flatiter(line) for line in self._lines)

    def reset(self) -> None:
        """Begin anew."""
        self.index = 0


class _Ufuncs(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return not isinstance(x, Array) and callable(x) and hasattr(x, "nin") and hasattr(x, "at")


class ufunc(metaclass=_Ufuncs):  # noqa: N801  NumPy's name
    """What functions of elements are to ``isinstance``: those with ``.nin``, ``.reduce``, ``.at`` and the like; NumPy's own too.

    Examples
    --------
    >>> import weft as wf
    >>> isinstance(wf.add, wf.ufunc), isinstance(wf.sum, wf.ufunc)
    (True, False)
    """


__all__ = ["broadcast", "flatiter", "ufunc"]
