"""ONNX operators with subgraphs, sequences and optional values. A subgraph is called with its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.errors import DataError, TraceError
from weft.io.onnx.operators.table import Attributes, operator, read_static


def _read_if_known(value: Any) -> np.ndarray | None:
    """Return the values of an input, or None if they depend on an argument of a traced function."""
    try:
        return read_static(value, "")
    except TraceError:
        return None


@operator("If")
def _if(at: Attributes, condition: Any) -> Any:
    known = _read_if_known(condition)
    if known is not None:
        return tuple((at.then_branch if known.reshape(()) else at.else_branch)())
    return wf.cond(wf.reshape(condition, ()), lambda: _to_arrays(at.then_branch()), lambda: _to_arrays(at.else_branch()))


def _to_arrays(values: Any) -> Any:
    return tuple(wf.asarray(v) for v in values)


@operator("Loop")
def _loop(at: Attributes, limit: Any, condition: Any, *state: Any) -> Any:
    most = None if limit is None else _read_if_known(limit)
    known = None if condition is None else _read_if_known(condition)
    if (limit is not None and most is None) or (condition is not None and known is None):
        return _traced_loop(at, limit, condition, state)
    count, going = None if most is None else int(most.reshape(())), True if known is None else bool(known.reshape(()))
    rows: list[list[Any]] = []
    number, carried = 0, list(state)
    while going and (count is None or number < count):
        again, *results = at.body(np.array(number, np.int64), np.array(going), *carried)
        carried, row = results[: len(state)], results[len(state) :]
        rows.append(row)
        number += 1
        going = True
        if condition is not None:
            more = _read_if_known(again)
            if more is None:
                raise TraceError("the condition of a Loop depends on a traced argument: call the model outside of jit")
            going = bool(more.reshape(()))
    columns = list(zip(*rows, strict=True))
    if not rows:
        columns = [()] * at.body.count_stacked(len(state))
    return *carried, *(wf.stack(c) if c else wf.zeros((0,), dtype=np.float32) for c in columns)


def _traced_loop(at: Attributes, limit: Any, condition: Any, state: Any) -> Any:
    """Return the state after a loop whose number of steps depends on traced values."""
    if at.outputs > len(state):
        raise TraceError("a Loop with stacked outputs needs a number of steps that is known: call the model outside of jit")
    most = np.int64(2**62) if limit is None else wf.reshape(limit, ())
    going = wf.asarray(np.array(True)) if condition is None else wf.reshape(condition, ())

    def step(carry: Any) -> Any:
        number, going, values = carry
        again, *new = at.body(number, going, *values)
        return number + 1, wf.reshape(wf.asarray(again), ()) if condition is not None else going, _to_arrays(new)

    start = (wf.asarray(np.array(0, np.int64)), going, _to_arrays(state))
    return wf.while_loop(lambda carry: carry[1] & (carry[0] < most), step, start)[2]


@operator("Scan")
def _scan(at: Attributes, *inputs: Any) -> Any:
    if at.opset < 9:
        lengths, *inputs = inputs  # type: ignore[assignment]
        rows = [_scan_rows(at, [x[b] for x in inputs], at.directions) for b in range(wf.shape(inputs[0])[0])]
        return tuple(wf.stack(column) for column in zip(*rows, strict=True))
    return _scan_rows(at, list(inputs), at.scan_input_directions)


def _scan_rows(at: Attributes, inputs: list[Any], directions: Any) -> Any:
    count = at.num_scan_inputs
    states, xs = _to_arrays(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    for k, (axis, backward) in enumerate(zip(at.scan_input_axes or (0,) * count, directions or (0,) * count, strict=True)):
        x = wf.moveaxis(wf.asarray(xs[k]), axis, 0)
        xs[k] = wf.flip(x, axis=0) if backward else x

    def step(carry: Any, row: Any) -> Any:
        results = _to_arrays(at.body(*carry, *row))
        return results[: len(carry)], results[len(carry) :]

    final, ys = wf.scan(step, states, tuple(xs))
    axes, turned = at.scan_output_axes or (0,) * len(ys), at.scan_output_directions or (0,) * len(ys)
    ys = [wf.flip(y, axis=0) if t else y for y, t in zip(ys, turned, strict=True)]
    return *final, *(wf.moveaxis(y, 0, a) for y, a in zip(ys, axes, strict=True))


operator("SequenceConstruct")(lambda at, *xs: [*xs])
operator("SequenceEmpty")(lambda at: [])
operator("SequenceLength")(lambda at, xs: np.array(len(xs), np.int64))
operator("SequenceAt", static=(1,))(lambda at, xs, k: xs[int(read_static(k, "position").reshape(()))])
operator("Optional")(lambda at, x=None: x)
operator("OptionalHasElement")(lambda at, x=None: np.array(x is not None))


@operator("OptionalGetElement")
def _optional_get_element(at: Attributes, x: Any) -> Any:
    if x is None:
        raise DataError("an optional value is read, but it is not there")
    return x


@operator("SequenceInsert", static=(2,))
def _sequence_insert(at: Attributes, xs: Any, x: Any, k: Any = None) -> Any:
    place = len(xs) if k is None else int(read_static(k, "position").reshape(()))
    place = place + len(xs) if place < 0 else place
    return [*xs[:place], x, *xs[place:]]


@operator("SequenceErase", static=(1,))
def _sequence_erase(at: Attributes, xs: Any, k: Any = None) -> Any:
    place = len(xs) - 1 if k is None else int(read_static(k, "position").reshape(())) % len(xs)
    return [*xs[:place], *xs[place + 1 :]]


@operator("ConcatFromSequence")
def _concat_from_sequence(at: Attributes, xs: Any) -> Any:
    return wf.stack(xs, axis=at.axis) if at.new_axis else wf.concatenate(xs, axis=at.axis)


@operator("SplitToSequence", static=(1,))
def _split_to_sequence(at: Attributes, x: Any, sizes: Any = None) -> Any:
    n = wf.shape(x)[at.axis]
    given = np.array(1) if sizes is None else read_static(sizes, "split")
    ends = np.cumsum(given)[:-1].tolist() if given.ndim else list(range(int(given), n, int(given)))
    parts = wf.split(x, ends, axis=at.axis)
    return [wf.squeeze(p, axis=at.axis) for p in parts] if sizes is None and not at.keepdims else list(parts)
