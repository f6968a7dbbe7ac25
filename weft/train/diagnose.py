"""Find the origin of a loss that is not finite by running its step again, operation by operation.

The origin is the first node with a bad result and without bad inputs, behind the loss, the gradients or the update. Infinite
constants, as in masks, are no origin.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.formats import FLOATS
from weft.graph.interpret import walk
from weft.graph.node import Node, topological_order
from weft.graph.primitives.elementwise import CAST, IDENTITY
from weft.graph.source_lines import file_name, user_frame, user_line
from weft.nn.module import Module
from weft.nn.module_tree import CALL_HOOK
from weft.optim.update_arguments import named_arrays
from weft.process.attributes import change_attribute
from weft.runtime import execute
from weft.train.batches import Feed, name_batch
from weft.train.objective import Objective
from weft.train.snapshot import Log, is_finite, restore_snapshot, take_snapshot
from weft.train.step import Stepper
from weft.transforms.jit import jit
from weft.transforms.tree import arrays_in, unflatten

_OPERATION_NAMES = {"dot_general": "matrix product", "conv_general": "convolution", "reduce_sum": "sum", "reduce_max": "max",
           "item": "loop", "scan": "loop"}


@dataclass(frozen=True, slots=True)
class Range:
    """The range of the numbers in an array.

    Attributes
    ----------
    name, shape, dtype : of the array
    low, high : float, the bounds of its finite numbers
    finite : bool, whether all its numbers are finite
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    finite: bool

    def __str__(self) -> str:
        also = "" if self.finite else " and numbers that are not finite"
        inside = f"[{self.low:.6g}, {self.high:.6g}]" if self.low <= self.high else "no finite number"
        return f"{self.name} {self.dtype}{list(self.shape)} in {inside}{also}"


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The first value that was not finite.

    Attributes
    ----------
    step, epoch, batch : the update that computed it, all from 1
    where : "loss", "gradient", "update", "data" or "weights"
    layer : name and class of the layer, "" outside layers
    operation : the operation that returned the value
    line : the user's line, "" if the operation is inside weft's own layer
    value : "nan", "inf" or "-inf"
    inputs : Range of each of the operation's inputs
    weights : description of the model's weights after the run
    seen : the reason to end the run: "loss", or "weights" if no loss was computed from them yet
    note : an explanation, "" if there is none
    """

    step: int
    epoch: int
    batch: int
    where: str
    layer: str
    operation: str
    line: str
    value: str
    inputs: tuple[Range, ...]
    weights: str = ""
    seen: str = "loss"
    note: str = ""

    def __str__(self) -> str:
        place = f"step {self.step} (epoch {self.epoch}, batch {self.batch})"
        by = f" in {self.layer}" if self.layer else ""
        line = f", {self.line}" if self.line else ""
        ranges = "; ".join(map(str, self.inputs))
        first = {
            "data": f"{self.operation} holds {self.value}: {ranges}",
            "weights": f"the weights {self.operation} hold {self.value} before the step: {ranges}",
            "update": f"the update of {self.operation} gives {self.value}, while loss and gradients are finite: {ranges}",
            "gradient": f"the derivative of {self.operation}{by}{line} gives {self.value}, while the loss is finite: {ranges}",
        }.get(self.where, f"{self.operation}{by}{line} gives {self.value}: {ranges}")
        weights = f". The model has {self.weights}" if self.weights else ""
        note = f"; {self.note}" if self.note else ""
        return f"{self.end}. It begins at {place}: {first}{note}{weights}"

    @property
    def end(self) -> str:
        """The reason why the run ended."""
        return f"the {self.seen} {'is' if self.seen == 'loss' else 'are'} not finite"


def find_origin(log: Log, step: int) -> NonFinite:
    """Replay the log's steps, the last of which is number ``step``. The state is left as it was before the failing step."""
    model, optimizer, stepper = log.of
    restore_snapshot(log.snapshot, *log.of)
    steps = log.steps()
    bad = len(steps) - 1
    read = stepper.open_feed(log.feed)
    for k, one in enumerate(steps):
        value = stepper.advance([read(key) for key in one.keys], one.lr)[0]
        if not math.isfinite(value) or not log.is_sound():
            bad = k
            break
    restore_snapshot(log.snapshot, *log.of)
    for one in steps[:bad]:
        stepper.advance([read(key) for key in one.keys], one.lr)
    one = steps[bad]
    at = (step - (len(steps) - 1 - bad), one.epoch, one.batch)
    before = take_snapshot(*log.of)
    batches = [read(key) for key in one.keys]
    try:
        for key, x, y in stepper.pieces(one.keys, batches):
            parts = _find_in_graph(model, stepper, log.feed, key, x, y)
            if parts is not None:
                found = NonFinite(*at, *parts)
                if found.where == "loss" and isinstance(stepper.loss, Objective):
                    found = replace(found, note=stepper.loss.explain_ignored(y))
                return found
        restore_snapshot(before, *log.of)
        parameters, slopes = named_arrays(model), stepper.gradient(*stepper.first_rows(batches))[1]
        ranges = {n: (_range("weights", p.numpy()), _range("gradient", slopes[n].numpy())) for n, p in parameters.items()}
        restore_snapshot(before, *log.of)
        stepper.advance(batches, one.lr)
        for name, p in named_arrays(model).items():
            if name in log.sound and not is_finite(p.numpy()):
                description = f"{name!r} by {type(optimizer).__name__} (lr {one.lr:g})"
                return NonFinite(*at, "update", "", description, "", _non_finite_kind(p.numpy()), ranges[name])
        return NonFinite(*at, "loss", "", "the compiled step (not seen again operation by operation)", "", "nan", ())
    finally:
        restore_snapshot(before, *log.of)


def _find_in_graph(model: Module, stepper: Stepper, feed: Feed, key: Any, x: Any, y: Any) -> tuple | None:
    """Return (where, layer, operation, line, value, inputs) of the first operation in loss and gradients whose result is not
    finite, None if there is none."""
    owners: dict[Node, str] = {}
    with _record_owners(model, owners):
        traced = jit(stepper.gradient).trace(x, y)
    data: dict[str, Array] = {}
    for name, a in name_batch(x, y):
        if not any(a is other for other in data.values()):  # an array that is there twice is one input
            data[name] = a
    names: dict[Node, str] = dict(zip(traced.graph.inputs, data, strict=False))
    parameters = {id(a): name for name, a in model.parameters().items()}
    start = len(traced.arrays) + len(traced.scalars)
    values: list[Any] = [a.numpy() for a in data.values()]
    for node, cell in zip(traced.graph.inputs[start:], traced.captured_cells, strict=False):
        if id(cell) in parameters:
            names[node] = repr(parameters[id(cell)])
        values.append(cell.numpy())
    values += [execute.to_numpy(n.value, n.shape, n.dtype) for n in traced.fixed_nodes]
    loss, slopes = unflatten(traced.structure, list(traced.shows))

    bad: dict[Node, str] = {}
    ranges: dict[Node, Range] = {}
    several = set()  # nodes with several results, each of which is a node of its own
    with np.errstate(all="ignore"):
        for node, value in walk(traced.graph, values):
            if isinstance(value, list):
                several.add(node)
            if isinstance(value, list) or node.dtype not in FLOATS:
                continue
            ranges[node] = _range(names.get(node, "input"), value)
            if not ranges[node].finite and (node in names or (node.op.kind != "leaf" and node not in traced.graph.inputs)):
                bad[node] = _non_finite_kind(value)
    ends = [loss] if loss in bad else [g for g in slopes.values() if g in bad]
    if not ends:
        return None
    sound = frozenset([n for n in traced.graph.order if n not in bad and n not in several])
    behind = set(topological_order(ends, stop=sound)) & bad.keys()
    first = next(n for n in traced.graph.order if n in behind)
    if first in names:
        return _describe_leaf(first, names[first], bad[first], ranges[first], feed, key, data.get(names[first]))
    forward = set(topological_order([loss], stop=frozenset(traced.graph.inputs)))
    operation_node = first if first in forward else _find_forward_operation(first, forward)
    inputs = first.inputs[0].inputs if first.op.kind == "result" else first.inputs
    operands = [replace(ranges[i], name=_name(i, names)) for i in inputs if i in ranges]
    operands = operands or [_range("input", np.zeros(0, np.float32))]
    line = user_line(operation_node.source_line)
    own_line = user_line(user_frame())
    user_code_line = "" if line in (own_line, "<unknown>") else f"{file_name(line.rpartition(':')[0])}:{line.rpartition(':')[2]}"
    operation = _OPERATION_NAMES.get(operation_node.op.name, operation_node.op.name)
    if operation_node.op is CAST:
        operation = f"cast to {operation_node.dtype.name}"
    where = "loss" if first in forward else "gradient"
    return where, owners.get(operation_node, ""), operation, user_code_line, bad[first], tuple(operands)


def _name(node: Node, names: dict[Node, str]) -> str:
    """Return the name of an input: x, y, x['image'], a parameter (also if it is reshaped or cast), else "input"."""
    while node not in names and len(node.inputs) == 1 and (node.op.kind == "shape" or node.op in (IDENTITY, CAST)):
        node = node.inputs[0]
    return names.get(node, "input")


def _describe_leaf(node: Node, name: str, value: str, range_: Range, feed: Feed, key: Any, content: Array | None) -> tuple:
    if content is None:
        return "weights", "", name, "", value, (range_,)
    numbers = content.numpy()
    row = int(np.argmax(~np.isfinite(numbers.astype(np.float64)).reshape(len(numbers), -1).all(axis=1)))
    sample = feed.sample_number(key, row)
    which = f"sample {sample}" if sample >= 0 else f"row {row} of the batch"
    return "data", "", f"{name}, {which},", "", value, (range_,)


def _record_owners(model: Module, owners: dict[Node, str]) -> AbstractContextManager[None]:
    """Context manager: calls of modules record the nodes that they create in ``owners``, under the innermost module."""
    names = {id(m): f"layer {name!r} ({type(m).__name__})" if name else type(m).__name__ for name, m in model.modules()}

    def watch(module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        argument_nodes = frozenset(a.node for a in arrays_in([args, kwargs]))
        out = module.forward(*args, **kwargs)
        for node in topological_order([a.node for a in arrays_in(out)], stop=argument_nodes | owners.keys()):
            if node not in argument_nodes:
                owners.setdefault(node, names.get(id(module), type(module).__name__))
        return out

    return change_attribute(CALL_HOOK, "watch_call", watch)


def _find_forward_operation(node: Node, forward: set[Node]) -> Node:
    """Return the operation to whose derivative ``node`` belongs: its nearest ancestor that computes the loss."""
    layer = [node]
    seen = set(layer)
    while layer:
        reached = [i for n in layer for i in n.inputs if i not in seen]
        for i in reached:
            if i in forward and i.inputs:
                return i
        seen.update(reached)
        layer = reached
    return node


def _non_finite_kind(a: np.ndarray) -> str:
    wide = a.astype(np.float64)
    return "nan" if np.isnan(wide).any() else "inf" if (wide == np.inf).any() else "-inf"


def _range(name: str, a: np.ndarray) -> Range:
    wide = np.asarray(a).astype(np.float64)
    fine = np.isfinite(wide)
    finite_numbers = wide[fine]
    low, high = (float(finite_numbers.min()), float(finite_numbers.max())) if finite_numbers.size else (math.inf, -math.inf)
    return Range(name, tuple(a.shape), a.dtype.name, low, high, bool(fine.all()))
