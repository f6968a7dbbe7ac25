"""Refusal of models that write arrays, leave arrays behind or draw random numbers: a file keeps no state between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from weft.array import Array
from weft.errors import TraceError
from weft.functions.random.state import is_position
from weft.graph.node import Node
from weft.graph.source_lines import user_line
from weft.nn.kept_results import name_kept
from weft.nn.module import Module
from weft.nn.module_tree import CALL_HOOK, ModuleTree, describe_layer
from weft.runtime.context import CONTEXT
from weft.transforms.causes import name_of_array, name_owners
from weft.transforms.jit import jit
from weft.transforms.tracing import TracedCall

RANDOM = "draws random numbers (the operation 'random_bits')"
LEAVES = "leaves an array behind in "


class Calls:
    """The layers that were called during a trace.

    modules : each once
    writers : id of a written cell -> the chain of calls in which it was written, from the outermost layer to the innermost
    """

    def __init__(self) -> None:
        self.modules: dict[int, ModuleTree] = {}
        self.writers: dict[int, tuple[ModuleTree, ...]] = {}
        self._chain: list[ModuleTree] = []

    @contextmanager
    def enter(self, module: ModuleTree) -> Iterator[None]:
        """Record a call, and attribute the writes of the current trace during the call to it."""
        trace = CONTEXT.trace
        before = set() if trace is None else {*trace.written_cells}
        self.modules[id(module)] = module
        self._chain.append(module)
        try:
            yield
            for key in () if trace is None else trace.written_cells.keys() - before:
                self.writers.setdefault(key, tuple(self._chain))
        finally:
            self._chain.pop()


@contextmanager
def record_calls() -> Iterator[Calls]:
    """Record the calls of layers. Watches and profiles are suspended: they would measure a trace, and write into arrays."""
    calls = Calls()
    watch_call, enter = CALL_HOOK.watch_call, CALL_HOOK.enter

    @contextmanager
    def enter_both(module: ModuleTree) -> Iterator[None]:
        with calls.enter(module), nullcontext() if enter is None else enter(module):
            yield

    CALL_HOOK.watch_call, CALL_HOOK.enter = None, enter_both
    try:
        yield calls
    finally:
        CALL_HOOK.watch_call, CALL_HOOK.enter = watch_call, enter


@contextmanager
def use_evaluation_mode(modules: Sequence[ModuleTree]) -> Iterator[None]:
    """Put modules into evaluation mode for a while."""
    modes = [(m, m.training) for m in modules]
    try:
        for module in modules:
            object.__setattr__(module, "training", False)
        yield
    finally:
        for module, mode in modes:
            object.__setattr__(module, "training", mode)


def trace_without_state(model: Callable[..., Any], call: Callable[..., Any], inputs: Sequence[Array]) -> TracedCall:
    """Return the trace of ``call``, which calls the model. Raise TraceError if the model changes state or draws random numbers.

    Attributes, variables and containers that the model sets are restored.
    """
    records = [*jit(model).read_captured().records]

    def trace() -> tuple[TracedCall, Calls, list[tuple[Array, Node | None]], dict[int, str]]:
        try:
            with record_calls() as calls:
                traced = jit(call).trace(*inputs)
            changes = _find_changes(traced)
            return traced, calls, changes, _name_changes(model, traced, [cell for cell, _ in changes]) if changes else {}
        finally:
            for record in records:
                if not record.is_unchanged():
                    record.reset()

    traced, calls, changes, names = trace()
    if not changes:
        return traced
    reached = {id(r.owner): r.owner for r in records if isinstance(r.owner, ModuleTree)} | calls.modules
    training = [m for m in reached.values() if m.training]
    still: set[str] = set()  # the names of the changes in evaluation mode: arrays that the model makes are others in each trace
    if training:
        try:
            with use_evaluation_mode(training):
                _, _, others, other_names = trace()
            still = {other_names[id(cell)] for cell, _ in others}
        except Exception:  # the model does not run in evaluation mode
            training = []
    cell, node = next(((c, n) for c, n in changes if names[id(c)] in still), changes[0])
    helps_eval = bool(training) and names[id(cell)] not in still
    raise TraceError(_describe_change(model, node, names[id(cell)], calls.writers.get(id(cell), ()), helps_eval))


def _find_changes(traced: TracedCall) -> list[tuple[Array, Node | None]]:
    """Return the arrays that a traced call leaves behind or writes, with their new nodes, None for an input's.

    Arrays left behind are first: if they are weights, the random numbers that are drawn for them explain less.
    """
    ends = [(cell, end) for cell, end, _ in traced.survivors]
    ends += [(cell, end) for kind, cell, end in traced.writes if kind == "cell"]
    return [(cell, traced.graph.outputs[k] if source == "out" else None) for cell, (source, k) in ends]


def _name_changes(model: Any, traced: TracedCall, cells: Sequence[Array]) -> dict[int, str]:
    """Return what the model does to each changed array, with its name in the model or in what the function reaches, by id."""
    own = {id(a.cell): name for name, a in model.arrays().items()} if isinstance(model, Module) else {}
    records = jit(model).read_captured(again=True).records
    owners = name_owners(model, records)
    reached = {id(r.owner): r.owner for r in records if isinstance(r.owner, ModuleTree)}.values()
    kept = {key for module in reached for key in name_kept(module)}
    if isinstance(model, Module):
        for path, module in model.modules():
            own |= {key: f"{path}.{name}".lstrip(".") for key, name in name_kept(module).items()}
    left = {id(cell) for cell, _, _ in traced.survivors} | kept
    names = {}
    for cell in cells:
        name = own.get(id(cell)) or name_of_array(records, cell, owners)
        if is_position(cell):
            names[id(cell)] = RANDOM
        elif id(cell) in left:
            names[id(cell)] = f"{LEAVES}`{name}`" if name else f"{LEAVES}an attribute, a global, a list or a dict"
        else:
            names[id(cell)] = f"writes `{name}`" if name else "writes an array"
    return names


def _describe_change(model: Any, node: Node | None, name: str, chain: Sequence[ModuleTree], helps_eval: bool) -> str:
    """Return the message about a change.

    name : what :func:`_name_changes` returned
    chain : the nested calls of layers in which it was made
    helps_eval : whether it is absent in evaluation mode
    """
    line = "" if node is None or node.source_line is None else f"{user_line(node.source_line)}: "
    layer = f" in layer {describe_layer(*chain)}" if chain else f" of {type(model).__name__}" if isinstance(model, Module) else ""
    text = f"save_onnx: {line}the model {name}{layer}, which weft does not write to ONNX files"
    if helps_eval:
        fix = "call .eval() on it" if isinstance(model, Module) else "pass the Module itself to save_onnx, or call .eval() on it"
        return f"{text}. The layer is in training mode: {fix}"
    if name == RANDOM:
        return f"{text}: make the numbers an input of the model; a dropout in a function takes training=False"
    if name.startswith(LEAVES):
        return (
            f"{text}: a file keeps nothing from one call to the next. Return the array; a model that makes weights at its first "
            "call has to be called once before"
        )
    return (
        f"{text}: a file keeps nothing from one call to the next. Make the array an input of the model and return its new "
        "content, or export a model without it (a recurrent layer without stateful=True, attention without a cache)"
    )
