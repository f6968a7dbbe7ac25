"""A table of a model's layers. The model is traced: nothing is computed, and its contents do not change."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import as_dtype
from weft.errors import ShapeError, TraceError, amount
from weft.functions.creation.fill import asarray, zeros
from weft.graph.node import Graph, Node, topological_order
from weft.graph.primitives.table import is_placeholder
from weft.nn.module_tree import CALL_HOOK, ModuleTree
from weft.runtime.context import CONTEXT
from weft.runtime.execute import copy_structure
from weft.schedule.program import Call, HostCall, Loop, Program
from weft.transforms.jit import jit
from weft.transforms.tree import arrays_in

HEAD = ("layer", "type", "output shape", "parameters", "flops", "bytes")


@dataclass(frozen=True)
class Row:
    """One call of a layer.

    Attributes
    ----------
    name : dotted name, as in the names of its parameters
    type : name of its class
    output_shape : shape of its result, a tuple of shapes for several arrays; None if the layer was not called
    parameters : number of trainable elements; 0 if an earlier row has counted them
    flops, bytes : of the kernels of the layer compiled by itself: arithmetic, and elements read and written, each once.
        In a model, kernels fuse across layers, so that the model moves fewer bytes than the sum over its layers
    """

    name: str
    type: str
    output_shape: tuple | None
    parameters: int
    flops: int
    bytes: int


@dataclass(frozen=True, repr=False)
class Summary:
    """The result of ``model.summary``: ``rows``, one for each layer called, and ``total``, the model as one program.

    A model with parameters of its own, or with computation between its layers, has a row marked "(own)", whose work is
    counted operation by operation.
    """

    name: str
    rows: tuple[Row, ...]
    total: Row

    def __repr__(self) -> str:
        return f"Summary({self.name}: {len(self.rows)} rows, {self.total.parameters:,} parameters)"

    def cells(self) -> list[tuple[str, ...]]:
        """Return the texts of the table, the total last."""
        return [
            (r.name, r.type, "not called" if r.output_shape is None else str(r.output_shape), f"{r.parameters:,}",
             amount(r.flops), amount(r.bytes) + "B")
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
class _ModuleCall:
    """A call of a module while the model is traced."""

    module: ModuleTree
    inputs: list[Node]
    results: list[Node]
    inner: list[_ModuleCall]


def summarise(model: ModuleTree, inputs: tuple[Any, ...], dtype: Any = "float32") -> Summary:
    """Print and return the table of ``model``'s layers for ``inputs``; see :meth:`weft.nn.Module.summary`."""
    from rich.console import Console

    if not inputs:
        raise ShapeError(f"summary: pass the inputs of {type(model).__name__}: an array, or a shape such as (32, 3, 28, 28)")
    if CALL_HOOK.watch_call is not None or CONTEXT.trace is not None or CONTEXT.transform_depth:
        raise TraceError("summary: not inside a model's forward, jit or grad; call it outside")
    summary = _summary(model, [_input(x, as_dtype(dtype)) for x in inputs])
    console = Console()
    if not console.is_jupyter:  # a notebook shows the returned object
        console.print(summary)
    return summary


def _input(x: Any, dtype: np.dtype) -> Array:
    if isinstance(x, tuple | list) and all(isinstance(n, int) and not isinstance(n, bool) for n in x):
        if any(n < 0 for n in x):
            raise ShapeError(f"summary: {tuple(x)} is not a shape, an extent is below 0")
        return zeros(tuple(x), dtype=dtype)
    if isinstance(x, int):
        raise ShapeError(f"summary: {x} is not an input; give a shape with the batch as one argument, model.summary((32, {x}))")
    return asarray(x)


def _summary(model: ModuleTree, inputs: list[Array]) -> Summary:
    try:
        root = _trace_calls(model, inputs)
    except TraceError:  # layers infer widths and create weights outside of traces only
        mode = [(m, m.training) for _, m in model.modules()]
        try:
            model.eval()(*inputs)
        finally:
            for module, training in mode:
                object.__setattr__(module, "training", training)
        root = _trace_calls(model, inputs)
    names = {id(module): name for name, module in reversed(list(model.modules()))}
    counted: set[int] = set()
    rows: list[Row] = []
    called: set[int] = set()

    def count(module: ModuleTree, inside: bool) -> int:
        """Return the number of parameters not counted before; of inner modules too if ``inside``."""
        new = [a for n, a in module.named_parameters() if (inside or "." not in n) and id(a) not in counted]
        counted.update(map(id, new))
        return sum(a.size for a in new)

    def walk(call: _ModuleCall) -> tuple[int, int]:
        module, kind = call.module, type(call.module).__name__
        called.add(id(module))
        flops, moved = _call_cost(call)
        name = names.get(id(module)) or kind
        if not call.inner:
            rows.append(Row(name, kind, _output_shape(call), count(module, True), flops, moved))
            return flops, moved
        at = len(rows)
        own_parameters = count(module, False)
        for c in call.inner:
            walk(c)
        cost = _own_cost(call)
        if own_parameters or cost[0]:
            rows.insert(at, Row(f"{name} (own)", kind, _output_shape(call), own_parameters, *cost))
        return flops, moved

    total = walk(root)
    for name, module in model.modules():
        if id(module) not in called and (own_parameters := count(module, False)):
            rows.append(Row(name, type(module).__name__, None, own_parameters, 0, 0))
    parameters = sum({id(a): a.size for a in dict(model.named_parameters()).values()}.values())
    return Summary(type(model).__name__, tuple(rows), Row("total", "", _output_shape(root), parameters, *total))


def _trace_calls(model: ModuleTree, inputs: list[Array]) -> _ModuleCall:
    """Return the calls of modules in one call of ``model``, traced so that its writes have no effect."""
    top = _ModuleCall(model, [], [], [])
    stack = [top]

    def watch(module: ModuleTree, args: tuple, kwargs: dict[str, Any]) -> Any:
        call = _ModuleCall(module, [a.node for a in arrays_in([args, kwargs])], [], [])
        stack[-1].inner.append(call)
        stack.append(call)
        try:
            out = module.forward(*args, **kwargs)
        finally:
            stack.pop()
        call.results = [a.node for a in arrays_in(out)][::-1]  # arrays_in walks from the last to the first
        return out

    CALL_HOOK.watch_call = watch
    try:
        jit(lambda *args: model(*args)).trace(*inputs)
    finally:
        CALL_HOOK.watch_call = None
    return top.inner[0]


def _output_shape(call: _ModuleCall) -> tuple:
    shapes = tuple(n.shape for n in call.results)
    return shapes[0] if len(shapes) == 1 else shapes


def _call_cost(call: _ModuleCall) -> tuple[int, int]:
    """Return flops and bytes of a call compiled by itself."""
    from weft.schedule.build import build

    stop = frozenset(call.inputs)
    inputs = list(dict.fromkeys(call.inputs))
    leaves = [n for n in topological_order(call.results, stop) if n not in stop and (n.value is not None or is_placeholder(n))]
    outputs = [n for n in call.results if n not in stop and n not in leaves]
    if not outputs:
        return 0, 0
    return _program_cost(build(copy_structure(Graph([*inputs, *leaves], outputs))))


def _pending_nodes(call: _ModuleCall) -> set[Node]:
    stop = frozenset(call.inputs)
    return {n for n in topological_order(call.results, stop) if n not in stop and n.value is None and n.op.kind != "leaf"}


def _own_cost(call: _ModuleCall) -> tuple[int, int]:
    """Return flops and bytes of the operations of a call outside its inner layers, counted one by one."""
    outside = _pending_nodes(call).difference(*map(_pending_nodes, call.inner))
    costs = [n.op.cost(n) for n in outside if n.op.cost is not None]
    return sum(c.flops for c in costs), sum(c.bytes for c in costs)


def _program_cost(program: Program) -> tuple[int, int]:
    flops = moved = 0
    infos = iter(program.info)
    for step in program.steps:
        if isinstance(step, Call):
            info = next(infos)
            flops, moved = flops + info.flops, moved + info.bytes
        elif isinstance(step, Loop):
            body = _program_cost(step.body)
            flops, moved = flops + step.expected_steps * body[0], moved + step.expected_steps * body[1]
        elif isinstance(step, HostCall):
            slots = [program.slots[i] for i in (*step.args, step.out)]
            moved += sum(int(np.prod(s.shape)) * s.dtype.bytes for s in slots)
    return flops, moved
