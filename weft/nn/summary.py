"""summary: a model's layers as a table. The model is traced, nothing is computed and nothing in it changes."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import as_dtype
from weft.errors import ShapeError, TraceError
from weft.functions.creation.fill import asarray, zeros
from weft.graph.node import Graph, Node, topological
from weft.graph.primitives.table import is_placeholder
from weft.nn.module_tree import WATCH, ModuleTree
from weft.runtime.context import LOCAL
from weft.runtime.execute import detached
from weft.schedule.program import Call, Host, Loop, Program
from weft.transforms.jit import jit
from weft.transforms.tree import arrays_in

HEAD = ("layer", "type", "output shape", "parameters", "flops", "bytes")


@dataclass(frozen=True)
class Row:
    """One call of a layer.

    Attributes
    ----------
    name : dotted, as in the names of its parameters
    type : its class
    output_shape : of its result, a tuple of shapes where there are several arrays; None where it was never called
    parameters : numbers to train; 0 where an earlier row has counted them
    flops, bytes : of the kernels that the layer becomes by itself: arithmetic, and elements read and written, each once.
        Inside a model kernels reach over layers, so that the model moves fewer bytes than its layers add up to
    """

    name: str
    type: str
    output_shape: tuple | None
    parameters: int
    flops: int
    bytes: int


@dataclass(frozen=True, repr=False)
class Summary:
    """What ``model.summary`` found: ``rows``, one for each layer called, and ``total``, the model as one program.

    A model that holds parameters itself, or computes between its layers, has a row for that, marked "(own)"; its work is
    counted operation by operation.
    """

    name: str
    rows: tuple[Row, ...]
    total: Row

    def __repr__(self) -> str:
        return f"Summary({self.name}: {len(self.rows)} rows, {self.total.parameters:,} parameters)"

    def cells(self) -> list[tuple[str, ...]]:
        """The table's texts, the total last."""
        return [
            (r.name, r.type, "not called" if r.output_shape is None else str(r.output_shape), f"{r.parameters:,}",
             _amount(r.flops), _amount(r.bytes) + "B")
            for r in (*self.rows, self.total)
        ]

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.name, title_justify="left", title_style="bold")
        for k, title in enumerate(HEAD):
            table.add_column(title, justify="left" if k < 3 else "right", overflow="fold")
        rows = self.cells()
        for k, row in enumerate(rows):
            table.add_row(*map(Text, row), end_section=k == len(rows) - 2)
        return table

    def _repr_html_(self) -> str:
        def line(tag: str, row: tuple[str, ...]) -> str:
            side = ("left", "right")
            return "<tr>" + "".join(
                f'<{tag} style="text-align:{side[k > 2]}">{html.escape(c)}</{tag}>' for k, c in enumerate(row)
            ) + "</tr>"

        *rows, total = self.cells()
        body = "".join(line("td", r) for r in rows)
        return (
            f"<table><caption>{html.escape(self.name)}</caption><thead>{line('th', HEAD)}</thead>"
            f"<tbody>{body}</tbody><tfoot>{line('th', total)}</tfoot></table>"
        )


@dataclass
class _Called:
    """A call of a module while the model is traced."""

    module: ModuleTree
    given: list[Node]
    results: list[Node]
    inner: list[_Called]


def summarise(model: ModuleTree, inputs: tuple[Any, ...], dtype: Any = "float32") -> Summary:
    """Print and return the table of ``model``'s layers when called with ``inputs``; see :meth:`weft.nn.Module.summary`.

    Examples
    --------
    >>> import weft as wf
    >>> from weft.nn.summary import summarise
    >>> summarise(wf.nn.Linear(3, 2), ((5, 3),)).total.parameters  # doctest: +ELLIPSIS
    Linear...
    8
    """
    from rich.console import Console

    if not inputs:
        raise ShapeError(f"summary: say what {type(model).__name__} is called with: an array, or a shape such as (32, 3, 28, 28)")
    if WATCH.watch is not None or LOCAL.trace is not None or LOCAL.inside:
        raise TraceError("summary: not inside a model's forward, jit or grad; call it outside")
    found = _summary(model, [_input(x, as_dtype(dtype)) for x in inputs])
    console = Console()
    if not console.is_jupyter:  # a notebook shows the returned object
        console.print(found)
    return found


def _input(x: Any, dtype: np.dtype) -> Array:
    if isinstance(x, tuple | list) and all(isinstance(n, int) and not isinstance(n, bool) for n in x):
        if any(n < 0 for n in x):
            raise ShapeError(f"summary: {tuple(x)} is no shape, an extent is below 0")
        return zeros(tuple(x), dtype=dtype)
    return asarray(x)


def _summary(model: ModuleTree, inputs: list[Array]) -> Summary:
    try:
        root = _traced(model, inputs)
    except TraceError:  # widths that were left out are found, and weights made, outside of traces only
        mode = [(m, m.training) for _, m in model.modules()]
        try:
            model.eval()(*inputs)
        finally:
            for module, training in mode:
                object.__setattr__(module, "training", training)
        root = _traced(model, inputs)
    names = {id(module): name for name, module in reversed(list(model.modules()))}
    counted: set[int] = set()
    rows: list[Row] = []
    seen: set[int] = set()

    def own(module: ModuleTree) -> int:
        fresh = [a for n, a in module.parameters().items() if "." not in n and id(a) not in counted]
        counted.update(map(id, fresh))
        return sum(a.size for a in fresh)

    def walk(call: _Called) -> tuple[int, int]:
        module, kind = call.module, type(call.module).__name__
        seen.add(id(module))
        flops, moved = _work(call)
        name = names.get(id(module)) or kind
        if not call.inner:
            everything = [a for a in module.parameters().values() if id(a) not in counted]
            counted.update(map(id, everything))
            rows.append(Row(name, kind, _shape(call), sum(a.size for a in everything), flops, moved))
            return flops, moved
        at = len(rows)
        count = own(module)
        for c in call.inner:
            walk(c)
        rest = _rest(call)
        if count or rest[0]:
            rows.insert(at, Row(f"{name} (own)", kind, _shape(call), count, *rest))
        return flops, moved

    total = walk(root)
    for name, module in model.modules():
        if id(module) not in seen and (count := own(module)):
            rows.append(Row(name, type(module).__name__, None, count, 0, 0))
    parameters = sum({id(a): a.size for a in model.parameters().values()}.values())
    return Summary(type(model).__name__, tuple(rows), Row("total", "", _shape(root), parameters, *total))


def _traced(model: ModuleTree, inputs: list[Array]) -> _Called:
    """The calls of modules in one call of ``model``; what it writes stays in the trace."""
    top = _Called(model, [], [], [])
    stack = [top]

    def watch(module: ModuleTree, args: tuple, kwargs: dict[str, Any]) -> Any:
        call = _Called(module, [a.node for a in arrays_in([args, kwargs])], [], [])
        stack[-1].inner.append(call)
        stack.append(call)
        try:
            out = module.forward(*args, **kwargs)
        finally:
            stack.pop()
        call.results = [a.node for a in arrays_in(out)][::-1]  # arrays_in walks from the last to the first
        return out

    def whole(*args: Array) -> Any:
        return model(*args)

    WATCH.watch = watch
    try:
        jit(whole).trace(*inputs)
    finally:
        WATCH.watch = None
    return top.inner[0]


def _shape(call: _Called) -> tuple:
    shapes = tuple(n.shape for n in call.results)
    return shapes[0] if len(shapes) == 1 else shapes


def _work(call: _Called) -> tuple[int, int]:
    """Flops and bytes of a call compiled by itself."""
    from weft.schedule.build import build

    stop = frozenset(call.given)
    given = list(dict.fromkeys(call.given))
    leaves = [
        n for n in topological(call.results, stop)
        if n not in stop and (n.value is not None or is_placeholder(n))
    ]
    made = [n for n in call.results if n not in stop and n not in leaves]
    if not made:
        return 0, 0
    return _cost(build(detached(Graph([*given, *leaves], made))))


def _nodes(call: _Called) -> set[Node]:
    stop = frozenset(call.given)
    return {n for n in topological(call.results, stop) if n not in stop and n.value is None and n.op.kind != "leaf"}


def _rest(call: _Called) -> tuple[int, int]:
    """Flops and bytes of what a call does outside the layers in it, operation by operation."""
    outside = _nodes(call).difference(*map(_nodes, call.inner))
    costs = [n.op.cost(n) for n in outside if n.op.cost is not None]
    return sum(c.flops for c in costs), sum(c.bytes for c in costs)


def _cost(program: Program) -> tuple[int, int]:
    flops = moved = 0
    own = iter(program.info)
    for step in program.steps:
        if isinstance(step, Call):
            info = next(own)
            flops, moved = flops + info.flops, moved + info.bytes
        elif isinstance(step, Loop):
            inside = _cost(step.body)
            flops, moved = flops + step.length * inside[0], moved + step.length * inside[1]
        elif isinstance(step, Host):
            slots = [program.slots[i] for i in (*step.args, step.out)]
            moved += sum(int(np.prod(s.shape)) * s.dtype.bytes for s in slots)
    return flops, moved


def _amount(n: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} "
