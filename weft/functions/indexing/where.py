"""``wf.where``: choose elements of two arrays by a condition."""

from __future__ import annotations

from typing import Any

from weft.array.convert import promote_operands
from weft.dtypes.formats import BOOL
from weft.functions.indexing.take_scatter import nonzero
from weft.functions.support.arguments import cast, node, op, wrap_result
from weft.process.docstrings import complete_module


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """Return ``x1`` where the condition holds and ``x2`` elsewhere; with the condition alone, call :func:`nonzero`.

    Parameters
    ----------
    condition : array or bool
        Nonzero numbers count as true.
    x1, x2 : array or number

    Returns
    -------
    Array
        With the shape that all three broadcast to and the dtype that ``x1`` and ``x2`` promote to.

    Raises
    ------
    ShapeError
        The shapes do not broadcast.
    ValueError
        Only one of ``x1`` and ``x2`` is given.

    >>> x = wf.array([-1.0, 2.0])
    >>> wf.where(x > 0, x, 0.0).tolist()
    [0.0, 2.0]
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise ValueError("where: give both x1 and x2, or neither")
    a, b = promote_operands(x1, x2)
    return wrap_result(op("where", cast(node(condition, "where", "condition"), BOOL), a, b))


complete_module(globals())
