"""Products of vectors and matrices, einsum, and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, ndarray, operations, wrap
from weft.array.convert import array_operands, promote_operands
from weft.array.indexing import resolve_scalar_indices
from weft.array.operations import contract_axes
from weft.dtypes.formats import BOOL, FLOATS, INT64, INTEGERS, summed
from weft.dtypes.parse import layout, parse_dtype, read_integers, to_tuple
from weft.eager.peek import peek
from weft.errors import AxisError, DTypeError, ShapeError, short
from weft.functions.creation.fill import diagonal_number
from weft.functions.elementwise.ufuncs import describe
from weft.functions.linalg.product_formats import prepare_product
from weft.functions.shape.axes import concat
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    Node,
    cast,
    check_int,
    node,
    number,
    op,
    permute_node,
    reshape_node,
    unbound,
    wrap_result,
)
from weft.graph.primitives.settings import current_precision
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
    arguments.refuse_promotion("einsum", casting, *args)
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
    value = reshape_node(value, (*value.shape, *(1 for _ in missing)))
    labels += "".join(missing)
    value = permute_node(value, tuple(labels.index(c) for c in result))
    shape = tuple(sizes[c] for c in result)
    if value.shape != shape:
        value = op("broadcast_to", value, shape=shape)
    return wrap_result(cast(value, BOOL) if is_bool else value, out, "einsum", casting)


def _cast_operands(xs: Sequence[Any], dtype: Any, casting: str) -> list[Node]:
    """Cast the operands to ``dtype``, or to their common dtype."""
    if dtype is None:
        return list(array_operands(*xs))
    form, nodes = parse_dtype(dtype), [node(x, "einsum", "operands") for x in xs]
    return [arguments.cast_by(casting, n, form, "einsum", f"operand {k}") for k, n in enumerate(nodes)]


def _parse_arguments(args: tuple[Any, ...], dtype: Any = None, casting: str = "safe") -> tuple[list[str], str, list[Node]]:
    from opt_einsum.parser import parse_einsum_input

    if len(args) < 2:
        raise ShapeError("einsum: subscripts and at least one array are needed")
    if isinstance(args[0], str):
        nodes = _cast_operands(args[1:], dtype, casting)
        inputs: list[Any] = [args[0], *(n.shape for n in nodes)]
    else:
        if any(isinstance(x, str) for x in args):
            first = next(x for x in args if isinstance(x, str))
            raise DTypeError(f"einsum: the subscripts are the first argument: wf.einsum({first!r}, x)")
        pairs = len(args) // 2
        nodes = _cast_operands(args[: 2 * pairs : 2], dtype, casting)
        inputs = [x for k, n in enumerate(nodes) for x in (n.shape, args[2 * k + 1])]
        inputs += args[2 * pairs :]
    try:
        left, right, _ = parse_einsum_input(inputs, shapes=True)
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
    inputs: list[Any] = []
    for k, x in enumerate(operands):
        if isinstance(x, Array):  # the path depends on shapes only
            x = x.tolist() if is_interleaved and k % 2 else np.broadcast_to(np.zeros((), np.float32), x.shape)
        inputs.append(x)
    try:
        path_of_numpy: Any = np.einsum_path
        path, report = path_of_numpy(*inputs, optimize=optimize)
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
    return reshape_node(value, tuple(value.shape[a] for a in kept_axes)), "".join(term[a] for a in kept_axes)


def _take_diagonal(value: Node, term: str, c: str) -> tuple[Node, str]:
    first, second = term.index(c), term.rindex(c)
    extent = value.shape[first]
    if value.shape[second] != extent:
        raise ShapeError(f"einsum: {c!r} is twice in {term!r} with extents {extent} and {value.shape[second]}")
    rest = [a for a in range(len(term)) if a not in (first, second)]
    lead = tuple(value.shape[a] for a in rest)
    flat = reshape_node(permute_node(value, (*rest, first, second)), (*lead, extent * extent))
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
        return op("dot_general", x, y, contract=axes[0], batch=axes[1], **current_precision(x.dtype)), labels
    x = permute_node(x, tuple(x_labels.index(c) for c in (*batch, *x_free)))
    y = permute_node(y, tuple(y_labels.index(c) for c in (*batch, *y_free)))
    x = reshape_node(x, (*x.shape, *(1 for _ in y_free)))
    y = reshape_node(y, (*y.shape[: len(batch)], *(1 for _ in x_free), *y.shape[len(batch) :]))
    return op("multiply", x, y), labels


def line_of(function: str, x: Any, offset: int, axis1: int, axis2: int) -> Node:
    """Return the diagonals of the matrices in two axes, along a new last axis."""
    value = node(x, function, "a")
    ndim = len(value.shape)
    if ndim < 2:
        raise ShapeError(f"{function}: the array has shape {value.shape}; a matrix or a stack of matrices is needed")
    first, second = arguments.axis_index(axis1, ndim, function, "axis1"), arguments.axis_index(axis2, ndim, function, "axis2")
    if first == second:
        raise ShapeError(f"{function}: axis1={axis1} and axis2={axis2} are the same axis")
    value = permute_node(value, (*(a for a in range(ndim) if a not in (first, second)), first, second))
    rows, columns = value.shape[-2:]
    lead, k = value.shape[:-2], check_int(offset, function, "offset")
    count = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    if count == 0:
        return arguments.slice_node(reshape_node(value, (*lead, rows * columns)), ndim - 2, 0, 0)
    flat = reshape_node(value, (*lead, rows * columns))  # neighbours on the diagonal are columns + 1 apart
    begin = k if k >= 0 else -k * columns
    zeros = (0,) * len(lead)
    return op("slice", flat, start=(*zeros, begin), step=(*(1 for _ in lead), columns + 1), shape=(*lead, count))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of matrices, along a new last axis.

    Parameters
    ----------
    a : array_like with two or more dimensions
    offset : int
        Positive: a diagonal to the right of the main one.
    axis1, axis2 : int
        The axes of the matrices.

    Returns
    -------
    Array with the diagonal along its last axis

    Raises
    ------
    ShapeError, AxisError
        ``a`` has fewer than two dimensions, or both axes are the same; ``a`` has no such axis.

    >>> wf.diagonal(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return wrap(line_of("diagonal", a, offset, axis1, axis2))


def diag(v: Any, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal.

    Parameters
    ----------
    v : (N,) or (M, N)
    k : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    (N + abs(k), N + abs(k)) Array for a vector, the diagonal for a matrix

    Raises
    ------
    ShapeError
        ``v`` is neither a vector nor a matrix.

    >>> wf.diag(wf.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    if type(v) is ndarray and type(k) is int:
        if (result := arguments.try_numpy(np.diag, v, k, most=v.size if v.ndim > 1 else (v.size + abs(k)) ** 2)) is not None:
            return result
    value = node(v, "diag", "v")
    if len(value.shape) == 2:
        return wrap(line_of("diag", v, k, 0, 1))
    if len(value.shape) != 1:
        raise ShapeError(f"diag: v has shape {value.shape}; a vector or a matrix is needed")
    k = check_int(k, "diag", "k")
    extent = value.size + abs(k)
    line = op("pad", value, low=(0,), high=(abs(k),), value=0)
    line = reshape_node(line, (extent, 1) if k >= 0 else (1, extent))
    return wrap(op("where", op("equal", diagonal_number(extent, extent), number(k, INT64)), line, number(0, value.dtype)))


def diagflat(v: Any, k: int = 0) -> Array:
    """Return the matrix with the elements of a flattened array on its k-th diagonal.

    Parameters
    ----------
    k : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    (v.size + abs(k), v.size + abs(k)) Array

    >>> wf.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    value = node(v, "diagflat", "v")
    return diag(wrap(reshape_node(value, (value.size,))), k)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Array | None = None,
) -> Array:
    """Sum the diagonal of matrices.

    Parameters
    ----------
    dtype : dtype, optional
        The dtype of the result; by default as for :func:`weft.sum`.

    Returns
    -------
    Array without the two axes

    Raises
    ------
    ShapeError, AxisError, DTypeError
        As :func:`diagonal`; ``dtype`` is unknown.

    >>> wf.trace(wf.array([[1, 2], [3, 4]])).tolist()
    5
    """
    return wrap_result(sum_of("trace", a, offset, axis1, axis2, dtype), out, "trace")


def sum_of(function: str, x: Any, offset: int, axis1: int, axis2: int, dtype: Any) -> Node:
    """Return the sums of the diagonals of the matrices in two axes."""
    line = line_of(function, x, offset, axis1, axis2)
    line = cast(line, summed(line.dtype) if dtype is None else parse_dtype(dtype))
    return op("reduce_sum", line, axes=(len(line.shape) - 1,), keepdims=False)


@unbound
def matmul(
    x1: Any, x2: Any, /, out: Array | None = None, *, casting: str = "same_kind", order: str = "K", dtype: Any = None,
    subok: bool = True, axes: Any = None, operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    """Compute the matrix product, as the operator ``@``.

    Parameters
    ----------
    x1, x2 : array
        Matrices, stacks of matrices whose leading dimensions broadcast, or vectors: ``x1`` as a row, ``x2`` as a column.
    dtype : dtype, optional
        The dtype to which the operands are cast as they are read, and in which products are summed: ``int32`` for 8-bit integers,
        which would wrap, ``float32`` for 8-bit floats, also of two different formats. No cast array is stored.
    casting : str
        The casts that ``dtype`` may imply.
    axes : list of tuples of int, optional
        The axes of the matrices and vectors, of the operands, then of the result; the last ones by default.
    operands : dtype, optional
        The format to which the numbers of both operands are rounded, to nearest, as they are read. Numbers beyond the largest one
        become infinity or NaN, as in ``astype``; :func:`weft.precision` saturates to formats without infinities. The derivative
        of this rounding is that of the identity.
    accumulate : dtype, optional
        The format of the sums, narrower than float32: each product is added in float32 and the sum is rounded to nearest,
        ``total = round(fma(a, b, total))``, in ascending order of the summed axis. Derivatives add up in the same way.
        ``float32`` is the default: a sum that is not rounded again, in any order. ``int32`` for bools and integers that
        int32 holds: nothing is rounded, and sums beyond int32 wrap, which those of 16 bits reach soon.
    every : int, optional
        How many products are added in float32 before ``total = round(total + sum)``, with ``accumulate``; 1 by default.

    Returns
    -------
    Array
        (..., M, N) for matrices; without the dimension of a vector.

    Raises
    ------
    ShapeError
        The inner extents differ, or an operand has no dimensions.
    DTypeError
        ``dtype`` cannot hold an operand, such as an integer dtype for floats. ``accumulate`` is not narrower than float32, or the
        operands are float64. ``operands`` has numbers that the dtype of the operands has not.
    ValueError
        ``every`` is less than 1, or without ``accumulate``.

    >>> wf.matmul(wf.array([[1.0, 2.0], [3.0, 4.0]]), wf.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    >>> wf.matmul(wf.full((2, 3), 100, dtype="int8"), wf.full((3,), 100, dtype="int8"), dtype="int32").tolist()
    [30000, 30000]
    >>> ones = wf.ones((4096,))
    >>> [float(wf.matmul(ones, ones, accumulate="bfloat16", every=n)) for n in (1, 16, 512)]
    [256.0, 4096.0, 4096.0]
    """
    has_formats = operands is not None or accumulate is not None or every is not None
    if dtype is not None or axes is not None or casting != "same_kind" or order != "K" or has_formats:
        def core(a: Node, b: Node) -> Node:
            a, b, settings = prepare_product("matmul", a, b, operands, accumulate, every)
            return operations.matmul(a, b, settings=settings)

        return arguments.call_gufunc("matmul", order, core, x1, x2, out, dtype, casting, axes)
    return wrap_result(operations.matmul(*promote_operands(x1, x2)), out, "matmul")


def _is_matmul(a: Any, b: Any, most: int) -> bool:
    """Return whether ``a @ b`` computes the result: the operands are arrays of at most ``most`` dimensions that fit."""
    if type(a) is not ndarray or type(b) is not ndarray:
        return False
    x, y = a.node.shape, b.node.shape
    return 0 < len(x) <= most and 0 < len(y) <= most and x[-1] == y[0 if len(y) == 1 else -2]


def dot(a: Any, b: Any, out: Array | None = None) -> Array:
    """Compute NumPy's dot: sum over the last axis of ``a`` and the second to last of ``b``; with a number, multiply.

    Parameters
    ----------
    a, b : array_like

    Returns
    -------
    Array : () for two vectors

    Raises
    ------
    ShapeError
        The summed axes differ in length.

    >>> wf.dot(wf.array([1.0, 2.0]), wf.array([3.0, 4.0])).tolist()
    11.0
    """
    if out is None and _is_matmul(a, b, 2):
        return a @ b
    a, b = array_operands(a, b)
    if not a.shape or not b.shape:
        return wrap_result(op("multiply", a, b), out, "dot")
    inside = max(len(b.shape) - 2, 0)
    _check_extents("dot", a, b, (len(a.shape) - 1,), (inside,))
    return wrap_result(contract_axes(a, b, (len(a.shape) - 1,), (inside,)), out, "dot")


def _check_extents(function: str, a: Node, b: Node, a_axes: Sequence[int], b_axes: Sequence[int]) -> None:
    for i, j in zip(a_axes, b_axes, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"{function}: x1 {a.shape} and x2 {b.shape} do not fit: axis {i} of x1 has extent {a.shape[i]}, "
                f"axis {j} of x2 {b.shape[j]}"
            )


def vdot(x1: Any, x2: Any, /) -> Array:
    """Sum the products of all elements of two flattened arrays; complex elements of ``x1`` are conjugated.

    Parameters
    ----------
    x1, x2 : array_like with the same number of elements

    Returns
    -------
    () Array

    Raises
    ------
    ShapeError
        The numbers of elements differ.

    >>> wf.vdot(wf.ones((2, 2)), wf.ones((2, 2))).tolist()
    4.0
    """
    a, b = array_operands(x1, x2)
    if a.size != b.size:
        raise ShapeError(f"vdot: x1 {a.shape} and x2 {b.shape} have different numbers of elements")
    return wrap(contract_axes(reshape_node(arguments.conjugate(a), (a.size,)), reshape_node(b, (b.size,)), (0,), (0,)))


def inner(a: Any, b: Any) -> Array:
    """Sum the products along the last axis of both arrays; with a number, multiply.

    Parameters
    ----------
    a, b : (..., K)

    Returns
    -------
    Array : the other axes of ``a``, then those of ``b``

    Raises
    ------
    ShapeError
        The last axes differ in length.

    >>> wf.inner(wf.ones((2, 3)), wf.ones((4, 3))).shape
    (2, 4)
    """
    if _is_matmul(a, b, 1):
        return a @ b
    a, b = array_operands(a, b)
    if not a.shape or not b.shape:
        return wrap(op("multiply", a, b))
    last = (len(a.shape) - 1,), (len(b.shape) - 1,)
    _check_extents("inner", a, b, *last)
    return wrap(contract_axes(a, b, *last))


def outer(a: Any, b: Any, out: Array | None = None) -> Array:
    """Multiply each element of ``a`` by each of ``b``; both are flattened.

    Returns
    -------
    (a.size, b.size) Array

    Raises
    ------
    DTypeError, ShapeError
        An operand is not an array; ``out`` does not fit.

    >>> wf.outer(wf.array([1, 2]), wf.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    if out is None and type(a) is type(b) is ndarray and a.dtype == b.dtype:
        if (result := arguments.try_numpy(np.outer, a, b, most=a.size * b.size)) is not None:
            return result
    a, b = array_operands(a, b)
    return wrap_result(op("multiply", reshape_node(a, (a.size, 1)), reshape_node(b, (1, b.size))), out, "outer")


def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    """Sum products over several axes.

    Parameters
    ----------
    a, b : array
    axes : int or (axes of a, axes of b)
        A number n stands for the last n axes of ``a`` and the first n of ``b``.

    Returns
    -------
    Array
        The other axes of ``a``, then those of ``b``.

    Raises
    ------
    ShapeError, AxisError
        Extents or the numbers of axes differ; an array has no such axis.

    >>> wf.tensordot(wf.ones((2, 3)), wf.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    a, b = array_operands(a, b)
    axes = resolve_scalar_indices(axes)
    if isinstance(axes, int) or getattr(axes, "shape", None) == ():
        axes = arguments.check_int(axes, "tensordot", "axes")
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ShapeError(f"tensordot: axes={axes}, but a has {len(a.shape)} dimensions and b {len(b.shape)}")
        pair = tuple(range(len(a.shape) - axes, len(a.shape))), tuple(range(axes))
    else:
        lists = [to_tuple(g) for g in arguments.as_list(axes, "tensordot", "axes")]
        if len(lists) != 2 or len(lists[0]) != len(lists[1]):
            raise ShapeError(f"tensordot: axes={axes!r} must be a number, or as many axes of a as of b")
        for g, n, name in zip(lists, (a, b), ("axes of a", "axes of b"), strict=True):
            arguments.axis_tuple(g, len(n.shape), "tensordot", name)
        pair = tuple(tuple(arguments.axis_index(i, len(n.shape)) for i in g) for g, n in zip(lists, (a, b), strict=True))  # type: ignore
    _check_extents("tensordot", a, b, *pair)
    return wrap(contract_axes(a, b, *pair))


@unbound
def vecdot(
    x1: Any, x2: Any, /, out: Array | None = None, *, axis: int | None = None, axes: Any = None, keepdims: bool = False,
    casting: str = "same_kind", order: str = "K", dtype: Any = None, subok: bool = True,
) -> Array:
    """Sum products along one axis; the others broadcast. Complex elements of ``x1`` are conjugated.

    Parameters
    ----------
    x1, x2 : array_like of the same length along ``axis``
    axis : int, optional
        None for the last.
    keepdims : bool
        Keep the axis with extent 1.

    Returns
    -------
    Array without that axis

    Raises
    ------
    ShapeError, AxisError
        The lengths differ, or the other axes do not broadcast; an operand has no such axis.

    >>> wf.vecdot(wf.ones((2, 3)), wf.ones(3)).tolist()
    [3.0, 3.0]
    """
    return arguments.call_gufunc("vecdot", order, _vecdot, x1, x2, out, dtype, casting, axes, axis, keepdims)


def _vecdot(a: Node, b: Node) -> Node:
    if not a.shape or not b.shape:
        raise AxisError(f"vecdot: x1 {a.shape} and x2 {b.shape} must have one axis at least")
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: x1 {a.shape} and x2 {b.shape} have different extents along the axis, the last of these")
    product = op("multiply", arguments.conjugate(a), b)
    terms = cast(product, INT64) if a.dtype == BOOL else product  # bools: the result is true if a product is
    return cast(op("reduce_sum", terms, axes=(len(product.shape) - 1,), keepdims=False), product.dtype)


def kron(a: Any, b: Any) -> Array:
    """Compute the Kronecker product: blocks of ``b``, each multiplied by an element of ``a``.

    Parameters
    ----------
    a, b : array

    Returns
    -------
    Array whose extents are the products of those of ``a`` and ``b``

    >>> wf.kron(wf.array([1, 10]), [1, 2]).tolist()
    [1, 2, 10, 20]
    """
    x, y = array_operands(a, b)
    ndim = max(len(x.shape), len(y.shape))
    first, second = ((1,) * (ndim - len(n.shape)) + n.shape for n in (x, y))
    wide = reshape_node(x, tuple(n for extent in first for n in (extent, 1)))
    deep = reshape_node(y, tuple(n for extent in second for n in (1, extent)))
    both = wrap(wide) * wrap(deep)
    return wrap(reshape_node(both.node, tuple(n * m for n, m in zip(first, second, strict=True))))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """Compute cross products of vectors of three, or two, elements.

    Parameters
    ----------
    a, b : array
    axisa, axisb, axisc : int
        The axes of the vectors in ``a``, in ``b`` and in the result.
    axis : int, optional
        Replaces all three.

    Returns
    -------
    Array; for vectors of two elements only the third component, without the axis

    Raises
    ------
    ShapeError, AxisError
        Vectors have another length, or shapes do not broadcast; an operand has no such axis.

    >>> wf.cross(wf.array([1, 0, 0]), [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = array_operands(a, b)
    sides = []
    for n, at, name in ((x, axisa, "axisa"), (y, axisb, "axisb")):
        place = arguments.axis_index(at, len(n.shape), "cross", name)
        n = permute_node(n, (*(d for d in range(len(n.shape)) if d != place), place))
        if n.shape[-1] not in (2, 3):
            raise ShapeError(f"cross: shapes {x.shape} and {y.shape}; vectors of 2 or 3 elements are needed")
        sides.append(n)
    lead = arguments.broadcast_shapes("cross", *(n.shape[:-1] for n in sides))
    flat = all([n.shape[-1] == 2 for n in sides])
    place = 0 if flat else arguments.axis_index(axisc, len(lead) + 1, "cross", "axisc")
    components = None if x.dtype.narrow or (x.dtype not in FLOATS and x.dtype not in INTEGERS) else peek(*sides)
    if components is not None:
        with np.errstate(all="ignore"):
            parts = _cross_components(*[[side[..., k] for k in range(side.shape[-1])] for side in components])
        return arguments.from_numpy(parts[0] if flat else np.stack(np.broadcast_arrays(*parts), place))
    u, v = ([wrap(arguments.broadcast(reshape_node(arguments.slice_node(n, len(n.shape) - 1, k, k + 1), n.shape[:-1]), lead))
             for k in range(n.shape[-1])] for n in sides)
    parts = _cross_components(u, v)
    return parts[0] if flat else concat([p.reshape(*lead[:place], 1, *lead[place:]) for p in parts], place)


def _cross_components(u: list[Any], v: list[Any]) -> list[Any]:
    """Return the components of a cross product, from arrays of weft or NumPy; one component if both vectors have two."""
    third = u[0] * v[1] - u[1] * v[0]
    if len(u) == len(v) == 2:
        return [third]
    zero = third * 0 if 2 in (len(u), len(v)) else third
    u, v = ([*w, zero] if len(w) == 2 else w for w in (u, v))
    return [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], third]


@unbound
def matvec(
    x1: Any, x2: Any, /, out: Array | None = None, *, axes: Any = None, casting: str = "same_kind", order: str = "K",
    dtype: Any = None, subok: bool = True,
) -> Array:
    """Multiply matrices by vectors.

    Parameters
    ----------
    x1 : (..., M, N) array
    x2 : (..., N) array

    Returns
    -------
    (..., M) Array

    Raises
    ------
    ShapeError
        The shapes do not fit.

    >>> wf.matvec(wf.array([[1, 2], [3, 4]]), [1, 1]).tolist()
    [3, 7]
    """
    return arguments.call_gufunc("matvec", order, _matvec, x1, x2, out, dtype, casting, axes)


def _matvec(a: Node, b: Node) -> Node:
    if len(a.shape) < 2 or not b.shape or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"matvec: shapes {a.shape} and {b.shape} do not fit: (..., M, N) and (..., N) are needed")
    column = matmul(wrap(a), wrap(op("reshape", b, shape=(*b.shape, 1))))
    return column.reshape(column.shape[:-1]).node


@unbound
def vecmat(
    x1: Any, x2: Any, /, out: Array | None = None, *, axes: Any = None, casting: str = "same_kind", order: str = "K",
    dtype: Any = None, subok: bool = True,
) -> Array:
    """Multiply vectors by matrices. Complex elements of ``x1`` are conjugated, as in :func:`vecdot`.

    Parameters
    ----------
    x1 : (..., M) array
    x2 : (..., M, N) array

    Returns
    -------
    (..., N) Array

    >>> wf.vecmat(wf.array([1, 1]), [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    return arguments.call_gufunc("vecmat", order, _vecmat, x1, x2, out, dtype, casting, axes)


def _vecmat(a: Node, b: Node) -> Node:
    if len(b.shape) < 2 or not a.shape or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"vecmat: shapes {a.shape} and {b.shape} do not fit: (..., M) and (..., M, N) are needed")
    row = matmul(wrap(op("reshape", arguments.conjugate(a), shape=(*a.shape[:-1], 1, a.shape[-1]))), wrap(b))
    return row.reshape((*row.shape[:-2], row.shape[-1])).node


for _product in (matmul, vecdot, matvec, vecmat):
    describe(_product, _product.__name__)


complete_module(globals(), (diagonal, trace), (dot, outer), (matmul, vecdot, matvec), (matvec, vecmat))
