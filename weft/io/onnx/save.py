"""save_onnx: trace a model and write its graph of primitives as an ONNX file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.api import as_dtype
from weft.eager.apply import bind
from weft.eager.materialise import read_array
from weft.errors import DTypeError, ShapeError, TraceError, need_function, short
from weft.functions.creation.fill import asarray, zeros
from weft.graph.loops import ITEM, SCAN
from weft.graph.node import Graph, Node, rebuild
from weft.graph.primitives.table import CONSTANT, TABLE
from weft.graph.source_lines import user_line
from weft.io.onnx.package import onnx
from weft.io.onnx.primitives import EXPORTS, NotWritten
from weft.io.onnx.state import trace_without_state, use_evaluation_mode
from weft.io.onnx.tensors import code_of_dtype
from weft.io.onnx.writer import BATCH, OPSET, Names, Traced, Writer
from weft.nn.module import Module
from weft.nn.size_arguments import has_unknown_widths
from weft.process.files import target, write_atomically
from weft.transforms.tracing import TracedCall

SIZES = (3, 5, 7)  # of the batch in the traces, if it is open: divisions by a power of two are products
OPEN_PARAMS = ("shape", "start", "low", "high", "extent")  # parameters that may depend on the batch size
MAX_FILE_BYTES = 1 << 30  # larger weights go to a file of their own; protobuf's limit is 2 GB


def save_onnx(model: Callable[..., Any], sample: Any, path: str | os.PathLike, *, dtype: Any = "float32") -> None:
    """Write a model as an ONNX file (opset 18), with its weights as initializers. Needs ``pip install 'weft-array[onnx]'``.

    A Module is traced in evaluation mode; nothing is computed. A function is traced as it is: call ``.eval()`` on its layers.
    A file keeps nothing between calls, so a model that writes arrays other than its inputs is refused. Files larger than 1 GB get
    their weights in ``path + ".data"``.

    Parameters
    ----------
    model : Module, or function of arrays
        It returns an array, or a tuple, list or dict of them; the outputs of a dict have its keys as names.
    sample : array, shape, tuple or dict of these
        The inputs: one, a tuple of several, or a dict of arguments by name. A shape is a tuple of ints, such as
        ``(1, 3, 32, 32)``; with None in the place of the batch, ``(None, 3, 32, 32)``, the file takes batches of any size.
    path : str or path; its folder must exist
    dtype : dtype
        Of the inputs that are given as shapes.

    Raises
    ------
    ImportError
        The onnx package is not installed.
    ShapeError, DTypeError
        The sample does not fit the model; a shape has two open dimensions; ONNX has no tensors of a dtype.
    TraceError
        The model computes what an ONNX file cannot hold, such as random numbers: the message names the line. It writes arrays or
        leaves arrays behind, such as a cache or running statistics. It computes something else for other batch sizes.
    TypeError
        ``model`` is no function.
    DataError, FileNotFoundError, PermissionError
        ``path`` cannot be written.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> net = wf.nn.Sequential(wf.nn.Conv2d(3, 8, 3), wf.nn.ReLU(), wf.nn.Flatten())
    >>> wf.io.save_onnx(net, (None, 3, 6, 6), path)
    >>> wf.io.load_onnx(path)(wf.ones((7, 3, 6, 6))).shape
    (7, 128)
    """
    onnx()
    fix = "give a Module, or a function of arrays"
    need_function("save_onnx: model", model, fix)
    if isinstance(model, type):
        raise TypeError(f"save_onnx: model is the class {model.__name__}, but must be a function: make an instance, or {fix}")
    if isinstance(sample, str | os.PathLike):
        raise TypeError("save_onnx: sample is a path: the order is save_onnx(model, sample, path)")
    place = target(path, "save_onnx")
    named, specs = _split_sample(model, sample)
    form = as_dtype(dtype)
    is_open = any(_is_shape(s) and None in s for s in specs)
    sizes = SIZES if is_open else (0,)
    by_name = isinstance(sample, Mapping)
    traces: list[TracedCall] = []
    output_names: list[str] = []
    for size in sizes:
        inputs = [_make_input(s, size, form) for s in specs]
        try:
            traced, output_names = _trace(model, inputs, named, by_name)
            traces.append(traced)
        except (ValueError, IndexError) as error:  # these show the shapes
            if is_open and len(error.args) == 1:
                shape = next(s for s in specs if _is_shape(s) and None in s)
                error.args = (f"{error}; save_onnx: None in the sample's shape {tuple(shape)} was tried as {size}",)
            raise
    proto = _build(model, traces, sizes, named, specs, is_open, output_names)
    content_bytes = sum(len(t.raw_data) for t in proto.graph.initializer)
    if content_bytes <= MAX_FILE_BYTES:
        write_atomically(path, proto.SerializeToString(), "save_onnx")
    else:
        data = Path(f"{place}.data")
        data.unlink(missing_ok=True)
        onnx().save_model(proto, str(place), save_as_external_data=True, location=data.name)


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple | list) and all(n is None or (isinstance(n, int) and not isinstance(n, bool)) for n in x)


def _split_sample(model: Any, sample: Any) -> tuple[list[str], list[Any]]:
    """Return the names of the inputs and their samples. Names of positional inputs are those of the function's arguments."""
    if isinstance(sample, Mapping):
        return [str(name) for name in sample], [*sample.values()]
    specs = [sample] if not isinstance(sample, tuple | list) or _is_shape(sample) else [*sample]
    if not specs:
        raise ShapeError("save_onnx: sample has no inputs: give an array, or a shape such as (None, 3, 28, 28)")
    function = model.forward if isinstance(model, Module) else model
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        found = [name for name, p in inspect.signature(function).parameters.items() if p.kind in kinds]
    except (TypeError, ValueError):
        found = []
    return [found[k] if k < len(found) else f"input_{k}" for k in range(len(specs))], specs


def _make_input(spec: Any, size: int, dtype: np.dtype) -> Array:
    """Return an array of the input's shape and dtype, with ``size`` examples if the shape leaves the batch open."""
    if spec is None or isinstance(spec, str):
        raise DTypeError(f"save_onnx: sample has {short(spec)} as an input: give an array, or a shape such as (None, 3, 28, 28)")
    if not _is_shape(spec):
        return asarray(spec)
    if sum(n is None for n in spec) > 1 or any(n is not None and n < 0 for n in spec):
        raise ShapeError(f"save_onnx: {tuple(spec)} is not a shape with at most one None, for the batch")
    return zeros(tuple(size if n is None else n for n in spec), dtype=dtype)


def _flatten_results(value: Any, name: str = "output") -> list[tuple[str, Any]]:
    """Return (name, result) of each result in tuples, lists and dicts."""
    if isinstance(value, Mapping):
        return [pair for k, v in value.items() for pair in _flatten_results(v, str(k) if name == "output" else f"{name}_{k}")]
    if isinstance(value, tuple | list):
        return [pair for k, v in enumerate(value) for pair in _flatten_results(v, f"{name}_{k}")]
    return [(name, value)]


def _trace(model: Any, inputs: list[Array], names: list[str], by_name: bool) -> tuple[TracedCall, list[str]]:
    """Return the trace of one call in evaluation mode, and names of its results. by_name : whether inputs are keywords"""
    identity = TABLE["identity"]
    output_names: list[str] = []

    def call(*args: Any) -> tuple[Any, ...]:
        value = model(**dict(zip(names, args, strict=True))) if by_name else model(*args)
        results = _flatten_results(value)
        arrays = [x for _, x in results]
        numbered = ["output"] if len(results) == 1 else [f"output_{k}" for k in range(len(results))]
        output_names[:] = [name for name, _ in results] if isinstance(value, Mapping) else numbered
        for x in arrays:
            if not isinstance(x, Array):
                raise DTypeError(f"save_onnx: the model returns a {type(x).__name__}, not an array, or a tuple or dict of arrays")
        return tuple(wrap(bind(identity, x.node)) for x in arrays)

    with use_evaluation_mode([m for _, m in model.modules()] if isinstance(model, Module) else []):
        if isinstance(model, Module) and has_unknown_widths(model):  # weights are created outside of traces only
            before = [(array, array.node) for array in model.arrays().values()]
            try:
                call(*(x.copy() for x in inputs))
            finally:
                for array, node in before:
                    if array.node is not node:
                        array._set(node)
        return trace_without_state(model, call, inputs), output_names


def _build(
    model: Any, traces: list[TracedCall], sizes: tuple[int, ...], input_names: list[str], specs: Sequence[Any], is_open: bool,
    output_names: list[str],
) -> Any:
    """Return the ModelProto."""
    helper = onnx().helper
    names = Names()
    w = Writer(names, sizes)
    if is_open:
        names.taken.add(BATCH)
    graphs = [_compose(t.graph) for t in traces]
    count = len(traces[0].arrays)
    infos = []
    for k in range(count):
        leaves = Traced([g.inputs[k] for g in graphs])
        name = names.new(input_names[k])
        w.value_of[leaves.node] = name
        infos.append(helper.make_tensor_value_info(name, code_of_dtype(leaves.dtype.numpy), _describe_shape(leaves, sizes)))
    if is_open:
        k, axis = next((k, s.index(None)) for k, s in enumerate(specs) if _is_shape(s) and None in s)
        w.nodes.append(helper.make_node("Shape", [infos[k].name], [BATCH], name=BATCH, start=axis, end=axis + 1))
    labels = {id(a): name for name, a in model.arrays().items()} if isinstance(model, Module) else {}
    scalars = len(traces[0].scalars)
    for k, cell in enumerate(traces[0].captured_cells, start=count + scalars):
        w.value_of[graphs[0].inputs[k]] = w.tensor(cell.numpy(), labels.get(id(cell), "array"))
    for k in range(count + scalars + len(traces[0].captured_cells), len(graphs[0].inputs)):
        leaves = Traced([g.inputs[k] for g in graphs])
        contents = [read_array(n) for n in leaves.nodes]
        if any(not np.array_equal(c, contents[0], equal_nan=c.dtype.kind == "f") for c in contents):
            raise TraceError("save_onnx: the model makes an array of numbers that depend on the batch size: fix the batch")
        w.value_of[leaves.node] = w.tensor(contents[0], "" if contents[0].size < 64 else "array")
    _walk(w, graphs)
    outputs = []
    ends = [k for source, k in traces[0].results[: len(traces[0].shows)] if source == "out"]
    if len(ends) != len(traces[0].shows):
        raise TraceError("save_onnx: a result of the model is not computed from its inputs")
    for k, out in enumerate(ends):
        leaves = Traced([g.outputs[out] for g in graphs])
        name = names.new(output_names[k])
        w.nodes.append(helper.make_node("Identity", [w.value(leaves)], [name], name=name))
        outputs.append(helper.make_tensor_value_info(name, code_of_dtype(leaves.dtype.numpy), _describe_shape(leaves, sizes)))
    graph = helper.make_graph(w.nodes, type(model).__name__, infos, outputs, names.initializers)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets), producer_name="weft",
    )


def _describe_shape(n: Traced, sizes: tuple[int, ...]) -> list[Any]:
    """Return a shape for a file: ints, the batch's name, or None where another number depends on it."""
    columns = zip(*(node.shape for node in n.nodes), strict=True)
    return [c[0] if len(set(c)) == 1 else BATCH if c == sizes else None for c in columns]


def _compose(graph: Graph) -> Graph:
    """Return a graph in which operations that have a composition of others, as attention, are replaced by it."""
    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        composed = node.op.compose
        return node.on(inputs) if composed is None or node.value is not None else composed(*inputs, **node.params)

    return rebuild(graph, change)


def _walk(w: Writer, graphs: Sequence[Graph]) -> None:
    """Add the nodes of graphs that were traced for several batch sizes."""
    orders = [[n for n in g.order if n.op is not CONSTANT] for g in graphs]  # constants may be shared in one and not in another
    if any(_describe_structure(order) != _describe_structure(orders[0]) for order in orders[1:]):
        raise TraceError(
            "save_onnx: the model computes other operations for other batch sizes: give a sample with a fixed batch"
        )
    loops: dict[Node, list[str]] = {}
    for nodes in zip(*orders, strict=True):
        n = Traced(nodes)
        if n.node in w.value_of or n.node.op is SCAN:
            continue
        if n.node.op is ITEM:
            (scan,) = n.inputs
            if scan.node not in loops:
                loops[scan.node] = _add_loop(w, scan)
            if n.params["index"] >= len(loops[scan.node]):
                raise TraceError(f"save_onnx: {scan.line}: the model contains the derivative of a loop")
            w.value_of[n.node] = loops[scan.node][n.params["index"]]
        else:
            w.value_of[n.node] = _add(w, n)


def _describe_structure(order: Sequence[Node]) -> list[tuple[Any, ...]]:
    """Return the operations of a graph and the numbers of their operands, those of constants being -1."""
    number = {node: k for k, node in enumerate(order)}
    return [(node.op.name, *(number.get(i, -1) for i in node.inputs)) for node in order]


def _add(w: Writer, n: Traced) -> str:
    """Add the nodes of one operation; return the name of its result."""
    name = n.node.op.name
    entry = EXPORTS.get(name)
    operands = [w.value(i) for i in n.inputs]
    try:
        if entry is None:
            raise NotWritten(f"random numbers (the operation {name!r})" if name == "random_bits" else f"the operation {name!r}")
        n.check_params(*OPEN_PARAMS)
        return w.add(entry, *operands) if isinstance(entry, str) else entry(w, n, *operands)
    except NotWritten as error:
        line = user_line(n.node.source_line)
        raise TraceError(f"save_onnx: {line}: the model computes {error}, which weft does not write to ONNX files") from None


def _add_loop(w: Writer, scan: Traced) -> list[str]:
    """Add a loop as one node of kind Scan; its body reads constants from the graph around it. Return the results' names."""
    scan.check_params("body", "length")
    p = scan.params
    if p["counted"] or p["until"]:
        raise TraceError(f"save_onnx: {scan.line}: the number of steps of a loop depends on values; it must be fixed")
    bodies = [_compose(node.params["body"].graph) for node in scan.nodes]
    carries, xs = p["carries"], p["xs"]
    operands = [w.value(i) for i in scan.inputs]
    inner = Writer(w.names, w.sizes)
    inputs = []
    leaves = [Traced(parts) for parts in zip(*(b.inputs for b in bodies), strict=True)]
    for k, leaf in enumerate(leaves):
        if k < carries + xs:
            name = w.names.new("state" if k < carries else "row")
            inner.value_of[leaf.node] = name
            inputs.append(_make_value_info(name, leaf))
        else:
            inner.value_of[leaf.node] = operands[k]
    _walk(inner, bodies)
    outputs = []
    for out in (Traced(parts) for parts in zip(*(b.outputs for b in bodies), strict=True)):
        name = inner.add("Identity", inner.value(out))
        outputs.append(_make_value_info(name, out))
    rows = operands[carries : carries + xs]
    if not xs:  # a Scan takes its number of steps from an array
        rows = [w.tensor(np.zeros(w.same_ints(scan, lambda m: m.params["length"]), np.int32))]
        inputs.append(onnx().helper.make_tensor_value_info(w.names.new("row"), code_of_dtype(np.dtype(np.int32)), []))
    body = onnx().helper.make_graph(inner.nodes, w.names.new("body"), inputs, outputs)
    turned = int(p["reverse"])
    stacked = len(outputs) - carries
    return w.add_many(
        "Scan", [*operands[:carries], *rows], len(outputs), body=body, num_scan_inputs=len(rows),
        scan_input_directions=[turned] * len(rows), **({"scan_output_directions": [turned] * stacked} if stacked else {}),
    )


def _make_value_info(name: str, n: Traced) -> Any:
    shape = [None if len(set(c)) > 1 else c[0] for c in zip(*(node.shape for node in n.nodes), strict=True)]
    return onnx().helper.make_tensor_value_info(name, code_of_dtype(n.dtype.numpy), shape)


