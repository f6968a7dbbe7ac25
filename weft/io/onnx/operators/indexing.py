"""ONNX operators that read and write at indices, or whose results have as many elements as they find."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.io.onnx.operators.table import Attributes, operator, read_static


@operator("Gather")
def _gather(at: Attributes, x: Any, indices: Any) -> Any:
    return wf.take(x, indices, axis=at.axis)


@operator("GatherElements")
def _gather_elements(at: Attributes, x: Any, indices: Any) -> Any:
    own = [wf.arange(n).reshape([-1 if k == d else 1 for k in range(wf.ndim(x))]) for d, n in enumerate(wf.shape(indices))]
    own[at.axis] = wf.asarray(indices)
    return wf.gather(x, *own)


def _split_indices(indices: Any, batch: int) -> tuple[Any, ...]:
    """Return an index array for each axis that rows of ``indices`` address; the first ``batch`` axes keep their own index."""
    indices = wf.asarray(indices)
    lead = indices.ndim - 1
    own = [wf.arange(n).reshape([-1 if k == d else 1 for k in range(lead)]) for d, n in enumerate(indices.shape[:batch])]
    return *own, *(indices[..., k] for k in range(indices.shape[-1]))


@operator("GatherND")
def _gather_nd(at: Attributes, x: Any, indices: Any) -> Any:
    return wf.gather(x, *_split_indices(indices, at.batch_dims or 0))


def _combine(x: Any, places: tuple[Any, ...], updates: Any, how: str | None) -> Any:
    """Return ``x`` with updates written at indices, or combined with the elements there."""
    x, updates = wf.asarray(x), wf.asarray(updates)
    if how in (None, "none"):
        return wf.scatter_set(x, places, updates)
    if how == "add":
        return wf.scatter_add(x, places, updates)
    # one update of each element at a time: order them by the number of earlier updates of the same element
    table = np.stack(np.broadcast_arrays(*(read_static(p, "indices") for p in places)), -1)
    rows = np.where(table < 0, table + np.array(x.shape[: table.shape[-1]]), table).reshape(-1, table.shape[-1])
    seen: dict[tuple[int, ...], int] = {}
    turn = []
    for row in map(tuple, rows.tolist()):
        seen[row] = seen.get(row, -1) + 1
        turn.append(seen[row])
    flat = updates.reshape((len(rows), *updates.shape[table.ndim - 1 :]))
    join = {"mul": wf.multiply, "max": wf.maximum, "min": wf.minimum}[how]
    for k in range(max(turn, default=-1) + 1):
        chosen = np.flatnonzero(np.array(turn) == k)
        at_rows = tuple(rows[chosen].T)
        x = wf.scatter_set(x, at_rows, join(wf.gather(x, *at_rows), wf.take(flat, chosen, axis=0)))
    return x


@operator("ScatterElements", "Scatter")
def _scatter_elements(at: Attributes, x: Any, indices: Any, updates: Any) -> Any:
    shape = wf.shape(indices)
    places = [wf.arange(n).reshape([-1 if k == d else 1 for k in range(len(shape))]) for d, n in enumerate(shape)]
    places[at.axis] = wf.asarray(indices)
    return _combine(x, tuple(places), updates, at.reduction)


@operator("ScatterND")
def _scatter_nd(at: Attributes, x: Any, indices: Any, updates: Any) -> Any:
    return _combine(x, _split_indices(indices, 0), updates, at.reduction)


@operator("TensorScatter")
def _tensor_scatter(at: Attributes, past: Any, update: Any, first: Any = None) -> Any:
    past, update = wf.asarray(past), wf.asarray(update)
    axis, shape = at.axis % past.ndim, update.shape
    places = [wf.arange(n).reshape([-1 if k == d else 1 for k in range(len(shape))]) for d, n in enumerate(shape)]
    if first is not None:
        places[axis] = places[axis] + wf.asarray(first).reshape((-1, *(1,) * (past.ndim - 1)))
    if at.mode == "circular":
        places[axis] = places[axis] % past.shape[axis]
    return wf.scatter_set(past, tuple(places), update)


@operator("OneHot", static=(1,))
def _one_hot(at: Attributes, indices: Any, depth: Any, values: Any) -> Any:
    count = int(read_static(depth, "depth").reshape(-1)[0])
    indices, values = wf.asarray(indices).astype(np.int64), wf.asarray(values)
    axis = at.axis % (indices.ndim + 1)
    classes = wf.arange(count).reshape([-1 if d == axis else 1 for d in range(indices.ndim + 1)])
    return wf.where(wf.expand_dims(wf.where(indices < 0, indices + count, indices), axis) == classes, values[1], values[0])


@operator("Compress", static=(1,))
def _compress(at: Attributes, x: Any, condition: Any) -> Any:
    return wf.compress(read_static(condition, "condition"), x, axis=at.axis)


@operator("NonZero")
def _non_zero(at: Attributes, x: Any) -> Any:
    return np.stack(np.nonzero(read_static(x, "X"))).astype(np.int64)


@operator("Unique")
def _unique(at: Attributes, x: Any) -> Any:
    found, first, back, counts = np.unique(
        read_static(x, "X"), return_index=True, return_inverse=True, return_counts=True, axis=at.axis
    )
    back = back.reshape(-1)
    if not at.sorted:
        order = np.argsort(first)
        found, first, counts = np.take(found, order, axis=at.axis or 0), first[order], counts[order]
        back = np.argsort(order)[back]
    return found, first.astype(np.int64), back.astype(np.int64), counts.astype(np.int64)


@operator("NonMaxSuppression")
def _non_max_suppression(
    at: Attributes, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, threshold: Any = None
) -> Any:
    boxes, scores = read_static(boxes, "boxes").astype(np.float64), read_static(scores, "scores")
    limit = 0 if most is None else int(read_static(most, "max_output_boxes_per_class").reshape(-1)[0])
    greatest = 0.0 if overlap is None else float(read_static(overlap, "iou_threshold").reshape(-1)[0])
    lowest = -np.inf if threshold is None else float(read_static(threshold, "score_threshold").reshape(-1)[0])
    if at.center_point_box:
        boxes = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    area = np.prod(high - low, axis=-1)
    kept: list[tuple[int, int, int]] = []
    for image, own in enumerate(scores):
        for label, row in enumerate(own):
            chosen: list[int] = []
            for box in np.argsort(-row, kind="stable"):
                if len(chosen) >= limit or not row[box] > lowest:
                    break
                others = np.array(chosen, int)
                sides = np.minimum(high[image, box], high[image, others]) - np.maximum(low[image, box], low[image, others])
                common = np.prod(np.maximum(sides, 0), axis=-1)
                if not (common / (area[image, box] + area[image, others] - common) > greatest).any():
                    chosen.append(int(box))
            kept += [(image, label, box) for box in chosen]
    return np.array(kept, np.int64).reshape(-1, 3)
