"""custom_vjp, custom_jvp and remat: functions with a derivative rule of their own, or whose gradient computes them again.

Without a derivative around it, such a function is called as it is. Inside of one, its rule is traced at the call: the result
becomes a call node that holds two graphs, that of the result and that of the rule (``weft/graph/calls.py``). The function inside
of its own rule counts for the derivatives further out, as in JAX, whose names and meanings these are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dtypes.formats import COMPLEX, INEXACT
from weft.errors import DTypeError, ShapeError, TraceError
from weft.graph.calls import CALL, result
from weft.graph.loops import Body
from weft.graph.node import Node, topological_order
from weft.graph.primitives.call import cast, full
from weft.graph.primitives.table import bind, input_leaf
from weft.graph.source_lines import user_line
from weft.process.docstrings import complete_docs, complete_each
from weft.runtime.context import CONTEXT
from weft.transforms.control import extract_body
from weft.transforms.trace import Trace
from weft.transforms.tree import flatten_value, unflatten
from weft.transforms.variables import Argument, flatten_like, name_of, zero


class _RuleTrace(Trace):
    read_error = "a derivative rule (custom_vjp, custom_jvp)"
    carries_turns = False  # a derivative that applies the rule orders its effects

    def __init__(self, rule: Callable) -> None:
        super().__init__()
        self.source_line = getattr(rule, "__code__", None), -1


def custom_vjp(fun: Callable, nondiff_argnums: Sequence[int] = ()) -> Any:
    """Return ``fun`` with a reverse derivative of its own, which ``defvjp`` of the result sets.

    Outside of derivatives, ``fun`` is called. Inside of derivatives ``fwd`` is called in its place, and ``bwd`` gives the
    gradient. The rule works under ``jit``, ``vmap``, ``scan`` and further derivatives; forward derivatives use its transpose.

    Parameters
    ----------
    fun : function of Arrays, floats or trees. It must take as arguments all arrays that are differentiated by
    nondiff_argnums : numbers of positional arguments that are not differentiated by, such as functions and options

    Returns
    -------
    function
        as ``fun``, with a method ``defvjp(fwd, bwd)``. ``fwd`` takes the arguments of ``fun`` and returns its result and
        residuals (any tree). ``bwd`` takes the arguments of ``nondiff_argnums``, the residuals and the cotangent of the result,
        and returns a tuple with the cotangent of each other argument, a tree like it; None is zero.

    Raises
    ------
    TypeError, ValueError, ShapeError, DTypeError
        When called inside of a derivative: no rule was set; ``fwd`` does not return a pair; ``bwd`` returns other than a tuple
        with one entry an argument, or cotangents that differ from it in structure, shape or dtype.
    TraceError
        When called inside of a derivative: ``bwd`` reads the value of an array, or writes one. When differentiated: by an array
        that ``fun`` reads from outside.

    References
    ----------
    Bradbury et al.: JAX, composable transformations of Python+NumPy programs. 2018.

    Examples
    --------
    >>> @wf.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (wf.clip(g, -1, 1),))
    >>> wf.grad(lambda x: (5 * clip_gradient(x)).sum())(wf.ones(2))
    array([1., 1.], dtype=float32)
    """
    rules: list[Callable] = []
    name = f"custom_vjp of {name_of(fun)}"

    @functools.wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        args = _positional(fun, args, kwargs, name)
        if not CONTEXT.custom_rules:
            return fun(*args)
        if not rules:
            raise TypeError(f"{name}: it has no rule: call .defvjp(fwd, bwd)")
        fixed = _fixed_numbers(args, nondiff_argnums, name)
        arguments = _arguments(args, fixed, name)
        with _variables_in_place(arguments):
            out = rules[0](*_insert_variables(args, fixed, arguments))
            if not (isinstance(out, tuple) and len(out) == 2):
                raise TypeError(f"{name}: fwd must return (result, residuals), not {type(out).__name__}")
            value = _Result(out[0])
            with _RuleTrace(rules[1]) as trace:
                slots = [input_leaf(n.shape, n.dtype) for n in value.floats]
                cotangents = rules[1](*[args[k] for k in sorted(fixed)], out[1], value.with_floats(slots))
                ends = _cotangents(cotangents, arguments, name)
                _refuse_writes(trace, f"{name}: bwd")
        return _bind(value, arguments, name, slots, ends, False)

    def defvjp(fwd: Callable, bwd: Callable) -> None:
        """Set the rule."""
        rules[:] = [fwd, bwd]

    called.defvjp = defvjp  # type: ignore[attr-defined]
    return called


def custom_jvp(fun: Callable, nondiff_argnums: Sequence[int] = ()) -> Any:
    """Return ``fun`` with a forward derivative of its own, which ``defjvp`` of the result sets.

    Outside of derivatives, ``fun`` is called. Inside of derivatives the rule is called in its place; reverse derivatives
    transpose it. It works under ``jit``, ``vmap``, ``scan`` and further derivatives.

    Returns
    -------
    function
        as ``fun``, with a method ``defjvp(jvp)``. ``jvp`` takes the arguments of ``nondiff_argnums``, a tuple of the other
        arguments and a tuple of their tangents. It returns the result and its tangent, which must be linear in the tangents. A
        method ``defjvps(*jvps)`` sets a rule from one function an argument, ``jvp(tangent, result, *arguments)``; None is zero.

    Raises
    ------
    TypeError, ValueError, ShapeError, DTypeError
        When called inside of a derivative: no rule was set; the rule does not return a pair; the tangent differs from the result
        in structure, shape or dtype; the result depends on the tangents.
    TraceError
        When called inside of a derivative: the rule reads the value of a tangent, or writes an array. When differentiated: by
        an array that ``fun`` reads from outside.

    References
    ----------
    Bradbury et al.: JAX, composable transformations of Python+NumPy programs. 2018.

    Examples
    --------
    >>> @wf.custom_jvp
    ... def softplus(x):
    ...     return wf.log1p(wf.exp(x))
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return softplus(x), dx / (1 + wf.exp(-x))
    >>> float(wf.grad(softplus)(100.0))
    1.0
    """
    rules: list[Callable] = []
    name = f"custom_jvp of {name_of(fun)}"

    @functools.wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        args = _positional(fun, args, kwargs, name)
        if not CONTEXT.custom_rules:
            return fun(*args)
        if not rules:
            raise TypeError(f"{name}: it has no rule: call .defjvp(rule)")
        fixed = _fixed_numbers(args, nondiff_argnums, name)
        arguments = _arguments(args, fixed, name)
        with _variables_in_place(arguments), _RuleTrace(rules[0]) as trace:
            variables = _variables(arguments)
            slots = {v: input_leaf(v.shape, v.dtype) for v in variables}
            given = tuple([a.result(slots) for a in arguments])
            out = rules[0](*[args[k] for k in sorted(fixed)], tuple([a.value for a in arguments]), given)
            if not (isinstance(out, tuple) and len(out) == 2):
                raise TypeError(f"{name}: the rule must return (result, tangent), not {type(out).__name__}")
            value = _Result(out[0])
            if not set(slots.values()).isdisjoint(topological_order(value.nodes, stop=frozenset(variables))):
                raise ValueError(f"{name}: the rule's result depends on the tangents")
            ends = _check_leaves(out[1], value.structure, value.of_leaves, f"{name}: the tangent", "result")
            _refuse_writes(trace, f"{name}: the rule")
        return _bind(value, arguments, name, [*slots.values()], ends, True)

    def defjvp(jvp: Callable) -> Callable:
        """Set the rule, and return it."""
        rules[:] = [jvp]
        return jvp

    def defjvps(*jvps: Callable | None) -> None:
        """Set the rule from one function an argument, ``jvp(tangent, result, *arguments)``."""
        def rule(*args: Any) -> tuple[Any, Any]:
            *fixed, primals, tangents = args
            out = called(*_interleave(fixed, nondiff_argnums, primals))
            if len(jvps) != len(primals):
                raise ValueError(f"{name}: defjvps was given {len(jvps)} functions for {len(primals)} arguments")
            parts = [f(t, out, *primals) for f, t in zip(jvps, tangents, strict=True) if f is not None]
            return out, functools.reduce(lambda a, b: a + b, parts) if parts else out * 0

        rules[:] = [rule]

    called.defjvp, called.defjvps = defjvp, defjvps  # type: ignore[attr-defined]
    return called


def remat(fun: Callable) -> Callable[..., Any]:
    """Return ``fun``, of which derivatives keep only the arguments: the backward walk computes the rest again.

    This costs one more evaluation of ``fun`` and saves the memory of its intermediate results, so layers that are wrapped one by
    one need the memory of one layer beside their arguments. Results and gradients are the same.

    Parameters
    ----------
    fun : function of Arrays, floats or trees; arrays that it reads from outside count as arguments

    Returns
    -------
    function of the same arguments

    Raises
    ------
    TraceError
        When called inside of a derivative: as :func:`value_and_grad`.

    References
    ----------
    Chen et al.: Training deep nets with sublinear memory cost. 2016.

    Examples
    --------
    >>> block = wf.remat(lambda x: wf.sin(wf.sin(x)))
    >>> wf.grad(lambda x: block(block(x)).sum())(wf.zeros(2))
    array([1., 1.], dtype=float32)
    """
    name = f"remat of {name_of(fun)}"

    @functools.wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not CONTEXT.custom_rules:
            return fun(*args, **kwargs)
        values = [*args, *kwargs.values()]
        arguments = _arguments(values, set(), name)
        with _variables_in_place(arguments, outer=False):
            passed = [a.value for a in arguments]
            out = fun(*passed[: len(args)], **dict(zip(kwargs, passed[len(args) :], strict=True)))
        return _bind(_Result(out), arguments, name)

    return called


def _positional(fun: Callable, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> tuple[Any, ...]:
    """Return all arguments by position: rules have no keywords."""
    if not kwargs:
        return args
    bound = inspect.signature(fun).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"{name}: {sorted(bound.kwargs)} can only be given by keyword, but rules take arguments by position")
    return bound.args


def _fixed_numbers(args: Sequence[Any], nondiff: Sequence[int], name: str) -> set[int]:
    """Return the numbers of the arguments that are not differentiated by, counted from the first."""
    if any(not -len(args) <= k < len(args) for k in nondiff):
        raise ValueError(f"{name}: nondiff_argnums {tuple(nondiff)}, but the function was called with {len(args)} arguments")
    return {k % len(args) for k in nondiff}


def _arguments(args: Sequence[Any], fixed: set[int], name: str) -> list[Argument]:
    """Return all other arguments as variables."""
    fresh_nodes: dict[int, Node] = {}
    return [Argument(a, f"{name}: argument {k}", fresh_nodes, needs_floats=False) for k, a in enumerate(args) if k not in fixed]


def _insert_variables(args: Sequence[Any], fixed: set[int], arguments: Sequence[Argument]) -> list[Any]:
    """Return all arguments, the variables in their places."""
    values = iter(arguments)
    return [a if k in fixed else next(values).value for k, a in enumerate(args)]


def _interleave(fixed: Sequence[Any], numbers: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """Return arguments in the order of the call. numbers : the places of ``fixed``"""
    count = len(fixed) + len(others)
    places = {k % count for k in numbers}
    first, rest = iter(fixed), iter(others)
    return [next(first) if k in places else next(rest) for k in range(count)]


def _variables(arguments: Sequence[Argument]) -> list[Node]:
    return list(dict.fromkeys(n for a in arguments for n in a.nodes if n is not None))


@contextmanager
def _variables_in_place(arguments: Sequence[Argument], outer: bool = True) -> Iterator[None]:
    """Put the variables in place while the function is called. outer : functions with a rule count for outer derivatives only"""
    CONTEXT.custom_rules -= outer
    try:
        for a in arguments:
            a.enter()
        yield
    finally:
        for a in arguments:
            a.leave(False)
        CONTEXT.custom_rules += outer


class _Result:
    """The result of the function. of_leaves : the node of each leaf, None where it is no array and no number"""

    def __init__(self, out: Any) -> None:
        self.leaves: list[Any]
        self.structure: Any
        self.leaves, self.structure = flatten_value(out)
        shown = [isinstance(x, Array | np.ndarray | np.generic | float | complex) for x in self.leaves]
        self.of_leaves = [as_node(x) if is_shown else None for x, is_shown in zip(self.leaves, shown, strict=True)]
        self.nodes = [n for n in self.of_leaves if n is not None]
        self.floats = [n for n in self.nodes if n.dtype in INEXACT]

    def fill(self, nodes: Sequence[Node | None]) -> Any:
        """Return the result with other nodes in it; None is zeros."""
        new = iter(nodes)
        leaves = [x if n is None else zero(x) if (o := next(new)) is None else wrap(o)
                  for x, n in zip(self.leaves, self.of_leaves, strict=True)]
        return unflatten(self.structure, leaves)

    def with_floats(self, floats: Sequence[Node]) -> Any:
        """Return the result with other nodes in place of its floats, and zeros for other arrays."""
        new = iter(floats)
        return self.fill([next(new) if n.dtype in INEXACT else None for n in self.nodes])


def _cotangents(given: Any, arguments: Sequence[Argument], name: str) -> list[Node]:
    """Return the nodes that ``bwd`` gives for the variables, checked."""
    if not isinstance(given, tuple | list):
        raise TypeError(f"{name}: bwd must return a tuple with one cotangent an argument, not {type(given).__name__}")
    if len(given) != len(arguments):
        raise ValueError(f"{name}: bwd returned {len(given)} cotangents for {len(arguments)} arguments; None is zero")
    found: dict[Node, Node] = {}
    for k, (g, a) in enumerate(zip(given, arguments, strict=True)):
        variables = [n for n in a.nodes if n is not None]
        if g is None or not variables:
            nodes = [full(0, n.shape, n.dtype) for n in variables]
        else:
            nodes = _check_leaves(g, a.structure, a.nodes, f"{name}: the cotangent of argument {k} that bwd returned", "argument")
        for n, x in zip(variables, nodes, strict=True):
            found.setdefault(n, x)  # a parameter that occurs twice has the first of its cotangents
    return [found[v] for v in _variables(arguments)]


def _check_leaves(tree: Any, structure: Any, like: Sequence[Node | None], what: str, role: str) -> list[Node]:
    """Return the leaves of a tree as nodes, one for each float node of ``like``, of its shape and dtype.

    structure : that the tree must have. role : of ``like``, in messages
    """
    out = []
    for x, n in zip(flatten_like(tree, structure, what), like, strict=True):
        if n is None or n.dtype not in INEXACT:
            continue
        node = as_node(x, n.dtype)
        if isinstance(x, float | int) or (isinstance(x, complex) and n.dtype in COMPLEX):
            node = cast(node, n.dtype)
        if node.shape != n.shape:
            raise ShapeError(f"{what} has shape {node.shape}, but the {role} has {n.shape}: they must be equal")
        if node.dtype is not n.dtype:
            raise DTypeError(
                f"{what} is {node.dtype.name}, but the {role} is {n.dtype.name}: cast it with .astype('{n.dtype.name}')"
            )
        out.append(node)
    return out


def _refuse_writes(trace: Trace, what: str) -> None:
    """Raise TraceError if a rule has written an array from outside."""
    for key, cell in trace.written_cells.items():
        if trace.nodes[key] is not trace.outer(cell):
            raise TraceError(
                f"{user_line(trace.source_line)}: {what} writes an array from outside (shape {trace.nodes[key].shape}), such as "
                "the state of random numbers; return it as a residual or a result of the function instead"
            )


def _bind(
    value: _Result, arguments: Sequence[Argument], name: str, slots: Sequence[Node] = (), ends: Sequence[Node] | None = None,
    pushes: bool = False,
) -> Any:
    """Return the result as results of a call node.

    slots, ends : the rule's graph, from cotangents or (``pushes``) from tangents; without ``ends`` the body is computed again
    """
    rule: Body | None = None
    residuals: list[Node] = []
    if ends is not None:
        rule, residuals = extract_body([*slots], [], [], [*ends])
    variables = _variables(arguments)
    body, reads = extract_body(variables, [], [], [*value.nodes, *residuals])
    token = bind(
        CALL, *variables, *reads, body=body, rule=rule, pushes=pushes, count=len(value.nodes), args=len(variables), name=name
    )
    return value.fill([result(token, k) for k in range(len(value.nodes))])


complete_docs(custom_vjp, custom_jvp)
complete_each(remat)
