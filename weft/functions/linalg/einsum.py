"""einsum: opt_einsum chooses the order; each step is one dot_general, or a product that fuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.convert import array_operands
from weft.dtypes.formats import BOOL, INT64
from weft.dtypes.parse import layout, parse_dtype, read_integers
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support.arguments import Node, cast, cast_by, finish, node, op, permuted, refuse_promotion, reshaped
from weft.graph.primitives.precision import asked
from weft.process.docstrings import complete_module


def einsum(
    *args: Any, out: Array | None = None, dtype: Any = None, casting: str = "safe", optimize: Any = "auto", order: Any = "K",
) -> Array:
    """Sum products in index notation.

    Parameters
    ----------
    args : str, then arrays
        Subscripts such as ``"ij,jk->ik"`` and the operands, whose dtypes are promoted; ``...`` broadcasts, a letter twice in one
        operand selects a diagonal. The form ``einsum(x, [0, 1], y, [1, 2], [0, 2])`` is accepted as well.
    dtype : dtype, optional
        The dtype that the operands are cast to.
    casting : "no", "equiv", "safe", "same_kind" or "unsafe"
        The casts of operands to ``dtype`` and of the result to ``out`` that are permitted.
    optimize : str, bool or path
        The choice of the order: a name that ``opt_einsum`` knows, such a name and the largest number of elements of an
        intermediate result (``("greedy", 1000)``), or a path returned by :func:`einsum_path`.
    order : str
        Has no effect: arrays of weft are stored in row-major order.

    Returns
    -------
    Array
        Of the shape that the letters after ``->`` name.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Operands do not fit the subscripts or ``dtype``; ``casting`` or the name of an order is unknown; ``optimize`` is not a
        path, or one that does not fit the operands.

    >>> wf.einsum("ij,kj->ik", wf.ones((2, 3)), wf.ones((4, 3))).shape
    (2, 4)
    """
    if order != "K":
        layout(order, "einsum")
    refuse_promotion("einsum", casting, *args)
    terms, result, nodes = _parse_arguments(args, dtype, casting)
    is_bool = nodes[0].dtype == BOOL
    if is_bool:
        nodes = [cast(n, INT64) for n in nodes]
    sizes = _read_extents(terms, nodes)
    work = [_prepare_operand(n, t, sizes) for n, t in zip(nodes, terms, strict=True)]
    for step in _choose_path(terms, result, nodes, optimize):
        chosen = [work[k] for k in step]
        work = [w for k, w in enumerate(work) if k not in step]
        needed = set(result).union(*(labels for _, labels in work))
        while len(chosen) > 1:
            b, a = chosen.pop(), chosen.pop()
            needed_next = needed.union(*(labels for _, labels in chosen))
            chosen.append(_multiply_pair(a, b, needed_next))
        work.append(_sum_unneeded(*chosen[0], needed))
    value, labels = work[0]
    missing = [c for c in result if c not in labels]
    value = reshaped(value, (*value.shape, *(1 for _ in missing)))
    labels += "".join(missing)
    value = permuted(value, tuple(labels.index(c) for c in result))
    shape = tuple(sizes[c] for c in result)
    if value.shape != shape:
        value = op("broadcast_to", value, shape=shape)
    return finish(cast(value, BOOL) if is_bool else value, out, "einsum", casting)


def _cast_operands(xs: Sequence[Any], dtype: Any, casting: str) -> list[Node]:
    """Cast the operands to ``dtype``, or to their common dtype."""
    if dtype is None:
        return list(array_operands(*xs))
    form, nodes = parse_dtype(dtype), [node(x, "einsum", "operands") for x in xs]
    return [cast_by(casting, n, form, "einsum", f"operand {k}") for k, n in enumerate(nodes)]


def _parse_arguments(args: tuple[Any, ...], dtype: Any = None, casting: str = "safe") -> tuple[list[str], str, list[Node]]:
    from opt_einsum.parser import parse_einsum_input

    if len(args) < 2:
        raise ShapeError("einsum: subscripts and at least one array are needed")
    if isinstance(args[0], str):
        nodes = _cast_operands(args[1:], dtype, casting)
        arguments: list[Any] = [args[0], *(n.shape for n in nodes)]
    else:
        pairs = len(args) // 2
        nodes = _cast_operands(args[: 2 * pairs : 2], dtype, casting)
        arguments = [x for k, n in enumerate(nodes) for x in (n.shape, args[2 * k + 1])]
        arguments += args[2 * pairs :]
    try:
        left, right, _ = parse_einsum_input(arguments, shapes=True)
    except (ValueError, TypeError, KeyError) as error:
        raise ShapeError(f"einsum: {error}; subscripts {args[0]!r}, shapes {[n.shape for n in nodes]}") from None
    return left.split(","), right, nodes


def _read_extents(terms: list[str], nodes: list[Node]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for k, (term, operand) in enumerate(zip(terms, nodes, strict=True)):
        if len(term) != len(operand.shape):
            raise ShapeError(f"einsum: operand {k} has shape {operand.shape}, but its subscripts {term!r} name {len(term)} axes")
        for c, n in zip(term, operand.shape, strict=True):
            extent = sizes.setdefault(c, n)
            if extent != n and 1 not in (extent, n):
                raise ShapeError(f"einsum: {c!r} has extent {extent} and, in operand {k} {operand.shape}, {n}")
            sizes[c] = n if extent == 1 else extent
    return sizes


def einsum_path(*operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """Return the order in which :func:`einsum` would multiply its operands, and NumPy's report of the costs.

    Parameters
    ----------
    operands : as for :func:`einsum`
    optimize : bool, str or path
        "greedy", "optimal", or as in NumPy.

    Returns
    -------
    (list, str)
        "einsum_path" followed by the pairs of operands, for ``einsum(..., optimize=path)``; a report to print.

    Raises
    ------
    ShapeError, DTypeError
        Operands do not fit the subscripts; an argument has a wrong type.

    >>> wf.einsum_path("ij,jk,kl->il", wf.ones((2, 9)), wf.ones((9, 9)), wf.ones((9, 3)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    is_interleaved = bool(operands) and not isinstance(operands[0], str)  # the form einsum_path(x, [0, 1], y, [1, 2])
    arguments: list[Any] = []
    for k, x in enumerate(operands):
        if isinstance(x, Array):  # the path depends on shapes only
            x = x.tolist() if is_interleaved and k % 2 else np.broadcast_to(np.zeros((), np.float32), x.shape)
        arguments.append(x)
    try:
        path_of_numpy: Any = np.einsum_path
        path, report = path_of_numpy(*arguments, optimize=optimize)
    except (TypeError, ValueError) as error:
        kind = DTypeError if isinstance(error, TypeError) else ShapeError
        raise kind(f"einsum_path: {error}") from None
    return list(path), str(report)


def _choose_path(terms: list[str], result: str, nodes: list[Node], optimize: Any) -> list[tuple[int, ...]]:
    limit = None
    if isinstance(optimize, Sequence) and not isinstance(optimize, str):
        strategy, *rest = optimize or [None]
        if strategy != "einsum_path" and isinstance(strategy, str) and len(rest) == 1 and isinstance(rest[0], int | float):
            optimize, limit = strategy, int(rest[0])
        else:
            return _parse_path(rest if strategy == "einsum_path" else list(optimize), len(nodes))
    if not (isinstance(optimize, bool | str | None) or callable(optimize)):
        raise DTypeError(f"einsum: optimize must be a bool, a name such as 'greedy', or a path, not {short(optimize)}")
    if len(nodes) < 3 or not optimize:
        return [tuple(range(len(nodes)))]
    import opt_einsum

    shapes = [n.shape for n in nodes]
    strategy = "auto" if optimize is True else optimize
    try:
        path, _ = opt_einsum.contract_path(
            f"{','.join(terms)}->{result}", *shapes, shapes=True, optimize=strategy, memory_limit=limit,
        )
    except KeyError:
        raise ValueError(f"einsum: optimize={strategy!r} is unknown; use 'greedy', 'optimal' or 'auto'") from None
    return [tuple(step) for step in path]


def _parse_path(steps: Sequence[Any], count: int) -> list[tuple[int, ...]]:
    """Return the steps of a user's path: the operands that each step joins. The result of a step becomes the last operand."""
    path, left = [read_integers(step, "einsum: each step of optimize") for step in steps], count
    for step in path:
        if not step or len(set(step)) < len(step) or any(not 0 <= k < left for k in step):
            raise ShapeError(f"einsum: optimize has the step {step}, but {left} operands are left, 0 to {left - 1}")
        left += 1 - len(step)
    if left > 1:
        raise ShapeError(f"einsum: optimize={list(steps)} leaves {left} of {count} operands apart; the last step must join them")
    return path


def _prepare_operand(value: Node, term: str, sizes: dict[str, int]) -> tuple[Node, str]:
    """Take diagonals of repeated letters and drop axes that only broadcast."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            value, term = _take_diagonal(value, term, c)
    kept_axes = [a for a, c in enumerate(term) if not (value.shape[a] == 1 and sizes[c] != 1)]
    return reshaped(value, tuple(value.shape[a] for a in kept_axes)), "".join(term[a] for a in kept_axes)


def _take_diagonal(value: Node, term: str, c: str) -> tuple[Node, str]:
    first, second = term.index(c), term.rindex(c)
    extent = value.shape[first]
    if value.shape[second] != extent:
        raise ShapeError(f"einsum: {c!r} is twice in {term!r} with extents {extent} and {value.shape[second]}")
    rest = [a for a in range(len(term)) if a not in (first, second)]
    lead = tuple(value.shape[a] for a in rest)
    flat = reshaped(permuted(value, (*rest, first, second)), (*lead, extent * extent))
    shape = (*lead, extent)
    line = op("slice", flat, start=(0,) * len(shape), step=(*(1 for _ in lead), extent + 1), shape=shape)
    return line, "".join(term[a] for a in rest) + c


def _sum_unneeded(value: Node, labels: str, needed: set[str]) -> tuple[Node, str]:
    axes = tuple(a for a, c in enumerate(labels) if c not in needed)
    if not axes:
        return value, labels
    return op("reduce_sum", value, axes=axes, keepdims=False), "".join(c for c in labels if c in needed)


def _multiply_pair(a: tuple[Node, str], b: tuple[Node, str], needed: set[str]) -> tuple[Node, str]:
    """Multiply two operands and sum over the letters that are not needed afterwards."""
    x, x_labels = _sum_unneeded(*a, needed | set(b[1]))
    y, y_labels = _sum_unneeded(*b, needed | set(a[1]))
    both = [c for c in x_labels if c in y_labels]
    contract = [c for c in both if c not in needed]
    batch = [c for c in both if c in needed]
    x_free = [c for c in x_labels if c not in both]
    y_free = [c for c in y_labels if c not in both]
    labels = "".join((*batch, *x_free, *y_free))
    if contract:
        axes = [tuple(tuple(s.index(c) for c in group) for s in (x_labels, y_labels)) for group in (contract, batch)]
        return op("dot_general", x, y, contract=axes[0], batch=axes[1], **asked(x.dtype)), labels
    x = permuted(x, tuple(x_labels.index(c) for c in (*batch, *x_free)))
    y = permuted(y, tuple(y_labels.index(c) for c in (*batch, *y_free)))
    x = reshaped(x, (*x.shape, *(1 for _ in y_free)))
    y = reshaped(y, (*y.shape[: len(batch)], *(1 for _ in x_free), *y.shape[len(batch) :]))
    return op("multiply", x, y), labels


complete_module(globals())
