"""cond and switch: one of several functions runs, chosen by a value that is known when the Program runs.

Each branch is a loop of 0 or 1 steps (see ``weft/graph/loops.py``), so a branch that is not chosen costs some nanoseconds. The
rules of loops hold for branches: what they read and write outside, derivatives, batching.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dtypes.formats import BOOL, INT64, INTEGERS, promote
from weft.errors import DTypeError, ShapeError, short
from weft.graph.node import Node
from weft.graph.primitives.call import call, cast, reshape
from weft.graph.primitives.table import constant
from weft.process.docstrings import complete_docs
from weft.transforms.control import run_loop
from weft.transforms.rebinding import Rebinding
from weft.transforms.tree import flatten, flatten_value, unflatten


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Return ``true_fun(*operands)`` if ``pred`` is true, else ``false_fun(*operands)``. Only one of them is run.

    Under :func:`vmap`, a ``pred`` that differs between examples makes it a ``where`` of both results.

    Parameters
    ----------
    pred : bool, or an Array of shape () of bools
    true_fun, false_fun : functions of the operands that return Arrays or trees of one structure and equal shapes. They may write
        arrays from outside in place; the writes of the function that is not run are not done. They cannot rebind attributes and
        variables from outside
    operands : Arrays, numbers or trees. The functions get copies of arrays: writes into them do not leave the function

    Returns
    -------
    tree like the functions' results, in the dtypes that :func:`promote_types` gives for both

    Raises
    ------
    ShapeError, DTypeError
        ``pred`` is not one bool, or shapes of the results differ.
    TypeError
        The structures of the results differ.
    TraceError
        A function reads a value, or rebinds something outside.

    Examples
    --------
    >>> import weft as wf
    >>> shrink = lambda x: wf.cond(abs(x) > 1, lambda x: x / 2, lambda x: x, x)
    >>> float(shrink(wf.array(3.0))), float(wf.grad(shrink)(wf.array(3.0)))
    (1.5, 0.5)
    """
    node = as_node(pred)
    if node.shape:
        raise ShapeError(f"cond: pred has shape {node.shape}, but must be one bool; wf.where chooses element by element")
    if node.dtype is not BOOL:
        raise DTypeError(f"cond: pred is {node.dtype.name}, but must be a bool: compare it, for example pred != 0")
    return _choose("cond", [call.logical_not(node), node], [false_fun, true_fun], ["false_fun", "true_fun"], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Return ``branches[index](*operands)``. Only this function is run. An ``index`` out of range is clamped to the nearest.

    Parameters
    ----------
    index : int, or an integer Array of shape ()
    branches : sequence of functions, as those of :func:`cond`
    operands : Arrays, numbers or trees

    Raises
    ------
    ShapeError, DTypeError
        ``index`` is not one integer, or shapes of the results differ.
    ValueError
        There are no branches.
    TypeError, TraceError
        As :func:`cond`.

    Examples
    --------
    >>> import weft as wf
    >>> [float(wf.switch(k, [wf.sin, wf.cos, lambda x: x], 0.0)) for k in range(3)]
    [0.0, 1.0, 0.0]
    """
    functions = list(branches)
    if not functions:
        raise ValueError("switch: branches is empty, but one of them must be run")
    node = as_node(index)
    if node.shape:
        raise ShapeError(f"switch: index has shape {node.shape}, but must be one integer")
    if node.dtype not in INTEGERS:
        raise DTypeError(f"switch: index is {node.dtype.name}, but must be an integer")
    last = len(functions) - 1
    if last <= node.dtype.greatest:
        node = call.minimum(node, constant(last, node.dtype))
    place = call.maximum(cast(node, INT64), constant(0, INT64))
    chosen = [call.equal(place, constant(k, INT64)) for k in range(last + 1)]
    return _choose("switch", chosen, functions, [f"branches[{k}]" for k in range(last + 1)], operands)


complete_docs(cond, switch)


def _choose(
    what: str, chosen: list[Node], functions: Sequence[Callable[..., Any]], names: Sequence[str], operands: Sequence[Any]
) -> Any:
    """Return the result of the function whose bool in ``chosen`` is true. names : of the functions in messages"""
    for f, name in zip(functions, names, strict=True):
        if not callable(f):
            fix = "; wf.where(condition, x, y) chooses between values" if what == "cond" else ""
            raise TypeError(f"{what}: {name} is {short(f)}, but must be a function{fix}")
    results = [_flatten_result(_run(f"wf.{what}", f, c, operands)) for f, c in zip(functions, chosen, strict=True)]
    (out, structure), *rest = results
    for (leaves, other), c, name in zip(rest, chosen[1:], names[1:], strict=True):
        if other != structure:
            raise TypeError(
                f"{what}: {names[0]} returns {_text(structure)} and {name} returns {_text(other)}, but their results must have "
                "one structure"
            )
        out = [_select(c, b, a, f"{what}: {names[0]} and {name}", k) for k, (a, b) in enumerate(zip(out, leaves, strict=True))]
    if structure == "none":
        return None
    arrays = [None if n is None else wrap(reshape(n, n.shape[1:])) for n in out]
    return unflatten(structure, arrays)


def _run(what: str, f: Callable[..., Any], chosen: Node, operands: Sequence[Any]) -> Any:
    """Return the result of a function with a first axis of 1, computed if ``chosen`` is true."""
    leaves, structure = flatten(tuple(operands), modules=False)
    arrays = [k for k, x in enumerate(leaves) if isinstance(x, Array | np.ndarray | np.generic | int | float | complex)]
    rows = {str(k): wrap(call.reshape(n, shape=(1, *n.shape))) for k in arrays for n in (as_node(leaves[k]),)}

    def step(_: Any, row: dict[str, Any]) -> tuple[None, Any]:
        given = [row.get(str(k), x) if row else x for k, x in enumerate(leaves)]
        return None, f(*unflatten(structure, given))

    return run_loop(step, None, rows or None, 1, False, Rebinding(f, what), count=cast(chosen, INT64))[1]


def _flatten_result(out: Any) -> tuple[list[Node | None], Any]:
    if out is None:
        return [None], "none"
    leaves, structure = flatten_value(out)
    return [None if x is None else as_node(x) for x in leaves], structure


def _select(chosen: Node, a: Node | None, b: Node | None, what: str, leaf: int) -> Node | None:
    if a is None or b is None:
        if a is not b:
            raise TypeError(f"{what} return None and an array as leaf {leaf} of their results")
        return None
    if a.shape != b.shape:
        raise ShapeError(f"{what} return arrays of shapes {b.shape[1:]} and {a.shape[1:]} as leaf {leaf} of their results")
    dtype = promote(a.dtype, b.dtype)
    return call.where(chosen, cast(a, dtype), cast(b, dtype))


def _text(structure: Any) -> str:
    return "one array" if structure is None else "None" if structure == "none" else short(str(structure))
