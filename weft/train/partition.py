"""The parts of parameters and of the optimizer's state that a rank keeps, in ``fit(sharded=...)``, and norms of gradients.

The parameters of one dtype lie in one vector, whose blocks depend on the model alone. A rank owns neighbouring blocks, so sums of
squares over blocks, and their sum, have the same bits for any number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from weft.functions.creation.fill import asarray
from weft.nn.module import Module
from weft.optim import Optimizer
from weft.optim.array_writes import sparse_parameter_names
from weft.optim.optimizer import state_dtype
from weft.optim.update_arguments import named_arrays
from weft.train.ranks import Ranks

_BLOCKS = 4096  # about this many blocks of the whole model, so that parts differ little in size
_MIN_BLOCK = 16
_CHUNK = 1 << 16  # elements that are squared together


class Span(NamedTuple):
    """The elements of a parameter in the vector of its gradients' dtype.

    first : offset in the vector. block : elements of a block. kind : "elements", "rows" or "whole": what is not divided further
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    first: int
    size: int
    block: int
    kind: str


class Partition:
    """Which elements of the parameters each rank updates.

    spans : by dtype of gradients, the parameters in order
    cuts : by dtype of gradients, where the ranks' parts of the vector begin and end
    """

    def __init__(self, model: Module, optimizer: Optimizer, gradients_dtype: np.dtype | None, size: int, rank: int) -> None:
        self._rank, self._gradients_dtype = rank, gradients_dtype
        parameters = named_arrays(model)
        sparse, keys = sparse_parameter_names(model), optimizer._match_groups(model, parameters)
        total = sum(p.size for p in parameters.values())
        block = max(_MIN_BLOCK, 1 << max(total // _BLOCKS, 1).bit_length() - 1)
        self.spans: dict[np.dtype, list[Span]] = {}
        for name, p in parameters.items():
            spans, member = self.spans.setdefault(self.sum_dtype(p.dtype), []), optimizer._member(keys[name])
            first = spans[-1].first + spans[-1].size if spans else 0
            row = math.prod(p.shape[1:]) or 1
            if not member.by_element:
                length, kind = max(p.size, 1), "whole"
            elif p.ndim and (name in sparse or member.sparse):
                length, kind = max(1, block // row) * row, "rows"
            else:
                length, kind = block, "elements"
            spans.append(Span(name, p.shape, p.dtype, first, p.size, length, kind))
        self.cuts: dict[np.dtype, list[int]] = {}
        self._counts: dict[np.dtype, list[int]] = {}  # blocks of each rank
        for dtype, spans in self.spans.items():
            length = spans[-1].first + spans[-1].size
            starts = np.concatenate([np.arange(s.first, s.first + s.size, s.block) for s in spans])
            ends = np.append(starts, length)
            self.cuts[dtype] = [int(ends[np.searchsorted(ends, r * length // size)]) for r in range(size)] + [length]
            self._counts[dtype] = np.diff(np.searchsorted(starts, self.cuts[dtype])).tolist()
        self._by_name = {s.name: (dtype, s) for dtype, spans in self.spans.items() for s in spans}

    def sum_dtype(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype in which gradients of a parameter are added up over the shards."""
        wide = state_dtype(dtype)
        return wide if self._gradients_dtype is None or wide.kind == "c" else self._gradients_dtype

    def read_part(self, span: Span, vector: Any, offset: int) -> Any:
        """Return this rank's part of a parameter's gradient.

        vector : this rank's part of the gradients of that dtype from ``offset`` on
        """
        first, last = self.find_ends(span.name)
        start = span.first - self.cuts[self.sum_dtype(span.dtype)][self._rank] - offset
        return vector[start + first : start + last].reshape(self.part_shape(span.name))

    def find_ends(self, name: str, rank: int | None = None) -> tuple[int, int]:
        """Return the first element of a parameter that a rank owns, by default this one, and the element after the last one."""
        dtype, span = self._by_name[name]
        rank = self._rank if rank is None else rank
        first, last = (min(max(cut - span.first, 0), span.size) for cut in self.cuts[dtype][rank : rank + 2])
        return first, last

    def part_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of this rank's part of a parameter."""
        first, last = self.find_ends(name)
        _, span = self._by_name[name]
        if span.kind == "rows":
            return (last - first) // (math.prod(span.shape[1:]) or 1), *span.shape[1:]
        return span.shape if span.kind == "whole" and last > first else (last - first,)

    def extract_part(self, name: str, content: Any) -> Any:
        """Return this rank's part of an array of a parameter's shape."""
        first, last = self.find_ends(name)
        return content.reshape(-1)[first:last].reshape(self.part_shape(name))

    # ---- norms

    def measure(
        self, parts: Mapping[str, np.ndarray], optimizer: Optimizer, needs_norm: bool, ranks: Ranks, request: str,
    ) -> tuple[bool, float]:
        """Return whether all gradients are finite, and their norm. parts : this rank's parts of gradients, by name

        needs_norm : if False, the norm is not computed
        """
        is_finite = all(bool(np.isfinite(part).all()) for part in parts.values())
        own = [self._square_blocks(dtype, parts, optimizer) if needs_norm else np.zeros(0) for dtype in self.spans]
        if ranks.size > 1:
            counts = [self._counts[dtype] if needs_norm else [0] * ranks.size for dtype in self.spans]
            lengths = [sum(c) for c in zip(*counts, strict=True)]
            message = np.zeros(1 + max(lengths))
            message[0], message[1 : 1 + sum(map(len, own))] = is_finite, np.concatenate(own)
            rows = ranks.gather(message, request)
            is_finite = bool(rows[:, 0].all())
            firsts = np.cumsum([[1] * ranks.size, *counts[:-1]], axis=0)
            own = [row[f : f + n] for c, fs in zip(counts, firsts, strict=True) for row, f, n in zip(rows, fs, c, strict=True)]
        with np.errstate(all="ignore"):
            return is_finite, float(np.sqrt(np.add.reduce(np.concatenate(own))))

    def _square_blocks(self, dtype: np.dtype, parts: Mapping[str, np.ndarray], optimizer: Optimizer) -> np.ndarray:
        """Return the sums of squares of this rank's blocks of gradients, after clipping by value, in float64."""
        sums, limit = [], optimizer.clip_value
        for span in self.spans[dtype]:
            first, last = self.find_ends(span.name)
            count = -(-(last - first) // span.block)
            if optimizer._is_frozen(optimizer._keys[span.name]):
                sums.append(np.zeros(count))
                continue
            part = parts[span.name].reshape(-1)
            whole = (last - first) // span.block * span.block
            chunk = max(1, _CHUNK // span.block) * span.block
            pieces = [part[k : min(k + chunk, whole)].reshape(-1, span.block) for k in range(0, whole, chunk)]
            for piece in (*pieces, part[whole:].reshape(1, -1)) if whole < last - first else pieces:
                wide = np.abs(piece).astype(np.float64)
                with np.errstate(all="ignore"):
                    sums.append(np.square(wide if limit is None else np.minimum(wide, limit)).sum(axis=1))
        return np.concatenate(sums) if sums else np.zeros(0)


class Parts:
    """This rank's parts of the parameters and of the optimizer's state.

    arrays : the parts of the parameters, by name, in which the optimizer makes its step
    """

    def __init__(self, model: Module, optimizer: Optimizer, gradients_dtype: np.dtype | None, ranks: Ranks) -> None:
        self._model, self._optimizer, self._ranks = model, optimizer, ranks
        self.partition = Partition(model, optimizer, gradients_dtype, ranks.size, ranks.rank)
        extract = self.partition.extract_part
        self.arrays = {name: asarray(extract(name, p.numpy()).copy()) for name, p in named_arrays(model).items()}
        groups: dict[tuple[np.dtype, np.dtype], list[str]] = {}
        for dtype, spans in self.partition.spans.items():
            for span in spans:
                groups.setdefault((dtype, span.dtype), []).append(span.name)
        self.groups = list(groups.values())  # names of parameters that are gathered together

    def divide_state(self) -> None:
        """Let the optimizer keep the state of this rank's parts only. It may have none before, or that of whole parameters."""
        optimizer, place = self._optimizer, (self._ranks.rank, self._ranks.size)
        if optimizer._place is not None:
            shapes = {name: a.shape for name, a in self.arrays.items()}
            if any(a.shape != shapes.get(name) for name, slots in optimizer.state.items() for a in slots.values()):
                raise ValueError(
                    f"fit: {type(optimizer).__name__} keeps the state of another model. Make a new optimizer for each model"
                )
            return
        content = None if optimizer.step_count is None else {n: a.numpy() for n, a in optimizer.arrays().items()}
        optimizer._init_parts(self._model, self.arrays, place)
        for name, slots in optimizer.state.items():
            for slot, a in slots.items():
                if a.shape != self.arrays[name].shape:
                    raise ValueError(
                        f"fit: {type(optimizer).__name__} keeps {slot!r} of shape {a.shape} for a part of {name!r} of shape "
                        f"{self.arrays[name].shape}: sharded= divides state of the parameter's shape only"
                    )
        if content is not None:
            content = self.divide(content)
            for name, a in optimizer.arrays().items():
                a[...] = asarray(content[name])

    def _state_names(self) -> dict[str, str]:
        """Return the parameter of each array of the state, by its name in ``Optimizer.arrays``."""
        return {f"{name}/{slot}": name for name, slots in self._optimizer.state.items() for slot in slots}

    def describe(self) -> dict[str, np.ndarray]:
        """Return arrays of the shapes and dtypes of the whole state, without memory of their own."""
        shapes, owners = {n: p.shape for n, p in named_arrays(self._model).items()}, self._state_names()
        return {
            name: np.broadcast_to(np.zeros((), a.dtype), shapes[owners[name]] if name in owners else a.shape)
            for name, a in self._optimizer.arrays().items()
        }

    def divide(self, content: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's part of the whole state."""
        owners = self._state_names()
        extract = self.partition.extract_part
        return {n: extract(owners[n], content[n]) if n in owners else content[n] for n in self._optimizer.arrays()}

    def gather_state(self) -> dict[str, np.ndarray]:
        """Return the whole state on rank 0. All ranks must call this."""
        shapes, owners = {n: p.shape for n, p in named_arrays(self._model).items()}, self._state_names()
        out = {}
        for key, a in self._optimizer.arrays().items():
            content = a.numpy().copy()
            if key in owners:
                whole = self._gather(content.reshape(-1), [owners[key]], f"the state {key!r} of the optimizer", 0)
                content = whole.reshape(shapes[owners[key]]) if self._ranks.is_first else whole
            out[key] = content
        return out

    def gather_parameters(self, vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the vectors of whole parameters, from this rank's part of each group's vector."""
        return [
            self._gather(v, names, f"the parameters of fit, group {k}", None)
            for k, (v, names) in enumerate(zip(vectors, self.groups, strict=True))
        ]

    def _gather(self, vector: np.ndarray, names: Sequence[str], request: str, root: int | None) -> np.ndarray:
        find_ends, ranks = self.partition.find_ends, range(self._ranks.size)
        sizes = [sum(last - first for first, last in (find_ends(n, r) for n in names)) for r in ranks]
        return self._ranks.gather_parts(vector, sizes, request, root)


def split_vector(vector: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return arrays of these shapes, which lie one after the other in a vector."""
    ends = np.cumsum([0, *map(math.prod, shapes)]).tolist()
    return [vector[first:last].reshape(shape) for (first, last), shape in zip(pairwise(ends), shapes, strict=True)]
