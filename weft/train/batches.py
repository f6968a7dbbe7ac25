"""Feeds, the sources of batches: arrays in an order drawn each epoch, a Loader, or any iterable of batches.

A feed yields the keys of an epoch's batches. A key is small, or the batch itself (``heavy``), and always gives the same batch.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap_buffer
from weft.array.convert import refuse_subclass
from weft.data.loader import Loader
from weft.data.row_files import ON_DISK
from weft.dtypes.api import is_real
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.runtime import execute

Batch = tuple[Array, Array]


class Arrays:
    """Feed of arrays in memory or memory-mapped, whose rows are read and cast batch by batch.

    rows : the rows to use, None for all
    rng : draws the order of each epoch, None for the order of the rows
    narrow : whether float64 becomes float32
    """

    heavy = False

    def __init__(
        self, x: np.ndarray, y: np.ndarray, rows: np.ndarray | None, batch_size: int, rng: np.random.Generator | None,
        narrow: bool,
    ) -> None:
        self.x, self.y, self.rows, self.batch_size, self.rng = x, y, rows, batch_size, rng
        self.samples = len(x) if rows is None else len(rows)
        self.steps = -(-self.samples // batch_size)
        self.batch_bytes = batch_size * (x.nbytes // len(x) + y.nbytes // len(y))
        self.readers = _make_reader(x, narrow), _make_reader(y, narrow)

    def state(self) -> dict[str, Any]:
        """Return the state that determines the order of the next epoch, for checkpoints."""
        return {} if self.rng is None else {"generator": self.rng.bit_generator.state}

    def fits(self, state: dict[str, Any]) -> bool:
        """Return whether ``state`` is a valid result of :meth:`state` for this feed."""
        if self.rng is None or state.keys() != {"generator"}:
            return not state and self.rng is None
        try:
            type(self.rng.bit_generator)().state = state["generator"]
        except (TypeError, ValueError, LookupError, OverflowError):
            return False
        return True

    def epoch(self, number: int, start: int, state: dict[str, Any] | None) -> Generator[Any, None, None]:
        """Yield the keys of epoch ``number`` (from 1) after the first ``start``. ``state``: to restore, from before the epoch"""
        if self.rng is not None:
            if state is not None:
                self.rng.bit_generator.state = state["generator"]
            order = self.rng.permutation(self.samples)
        else:
            order = np.arange(self.samples)
        if self.rows is not None:
            order = self.rows[order]
        size = self.batch_size
        return (order[first : first + size] for first in range(start * size, self.samples, size))

    def batch(self, key: np.ndarray) -> Batch:
        x, y = self.readers
        return x(key), y(key)

    def check_targets(self, check: Callable[[Any], None]) -> None:
        """Call ``check`` with all targets; with those on disk batch by batch, when they are read."""
        if not isinstance(self.y, ON_DISK):
            return check(self.y)
        read_x, read_y = self.readers

        def read_and_check(rows: np.ndarray) -> Array:
            y = read_y(rows)
            check(y.numpy())
            return y

        self.readers = read_x, read_and_check

    count = staticmethod(len)  # of the rows in the batch of a key

    def part(self, key: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return the key of some rows of a batch."""
        return key[first:last]

    def kept_bytes(self, key: np.ndarray) -> int:
        """Return the number of bytes that the key keeps alive."""
        return key.nbytes

    def checksum(self) -> str:
        """Return a checksum of some rows, spread over the data."""
        rows = np.unique(np.linspace(0, len(self.x) - 1, 64).astype(np.int64))
        checksum = 0
        for a in (self.x, self.y):
            checksum = zlib.crc32(a[rows].tobytes(), checksum)
        return f"{checksum:08x}"

    def sample_number(self, key: np.ndarray, row: int) -> int:
        """Return the sample number of row ``row`` of a batch, -1 if it is not known."""
        return int(key[row])


class Stream:
    """Feed of a Loader, an iterable of batches, a function that returns one, or a generator, which is consumed only once."""

    heavy = True

    def __init__(self, source: Any, narrow: bool, steps: int | None = None) -> None:
        self.source, self.narrow = source, narrow
        self.generator = iter(source) if isinstance(source, Iterator) else None  # a generator: an epoch continues after the last
        self.samples = source.samples if isinstance(source, Loader) else None
        self.limit = steps
        self.steps: int | None = steps if steps is not None else len(source) if hasattr(source, "__len__") else None
        self.check: Callable[[Array, Array], None] | None = None  # raises for a batch that does not fit
        self.batches_read = 0  # batches read from the source

    def state(self) -> dict[str, Any]:
        return {"taken": self.batches_read}

    def fits(self, state: dict[str, Any]) -> bool:
        return state.keys() == {"taken"} and type(state["taken"]) is int and state["taken"] >= 0

    def epoch(self, number: int, start: int, state: dict[str, Any] | None) -> Generator[Any, None, None]:
        skip = start
        if isinstance(self.source, Loader):
            batches, skip = self.source.batches(number - 1, start), 0
        elif self.generator is not None:
            batches = self.generator
            if state is not None:  # a resumed run: skip to the start of the epoch
                skip += state["taken"] - self.batches_read
        else:
            batches = iter(self.source() if callable(self.source) else self.source)
        return self._read(batches, skip, number, start)

    def _read(self, batches: Iterator[Any], skip: int, number: int, start: int) -> Generator[Batch, None, None]:
        end = object()
        for _ in range(skip):
            if next(batches, end) is end:
                break
        self.batches_read += skip
        count = start
        while self.limit is None or count < self.limit:
            item = next(batches, None)
            if item is None:
                break
            self.batches_read += 1
            yield self._pair(item)
            count += 1
        if not count:
            again = "; a generator is gone through once: give steps_per_epoch=, or a function that makes a new one for each epoch"
            raise ShapeError(f"fit: the data give no batch in epoch {number}" + (again if self.generator is not None else ""))
        if self.steps is None:
            self.steps = count

    def _pair(self, item: Any) -> Batch:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise TypeError(f"fit: the data must give pairs (x, y), not {type(item).__name__}")
        x, y = (self._array(part) for part in item)
        if not x.ndim or not y.ndim or len(x) != len(y) or not len(x):
            raise ShapeError(f"fit: a batch has x of shape {x.shape} and y of shape {y.shape}: they need equally many rows")
        if self.check is not None:
            self.check(x, y)
        return x, y

    def _array(self, part: Any) -> Array:
        array = part if isinstance(part, Array) else asarray(part if isinstance(part, np.ndarray) else np.asarray(part))
        return array.astype("float32") if self.narrow and array.dtype == np.float64 else array

    def batch(self, key: Any) -> Batch:
        return key

    def count(self, key: Batch) -> int:
        return key[0].shape[0]

    def part(self, key: Batch, first: int, last: int) -> Batch:
        return key[0][first:last], key[1][first:last]

    def kept_bytes(self, key: Batch) -> int:
        return sum(a.size * a.dtype.itemsize for a in key)

    def sample_number(self, key: Batch, row: int) -> int:
        return -1


Feed = Arrays | Stream


def _make_reader(array: np.ndarray, narrow: bool) -> Callable[[np.ndarray], Array]:
    """Return a function from row numbers, of any shape, to an Array of these rows.

    Rows of plain arrays in memory are copied directly into the Array; others (memory-mapped, cast) through NumPy.
    """
    cast = np.float32 if narrow and array.dtype == np.float64 else None
    plain = array.dtype.isnative and array.dtype.isbuiltin == 1 and not isinstance(array, ON_DISK)
    if cast is not None or not plain:
        return lambda rows: asarray(array[rows] if cast is None else array[rows].astype(cast))
    dtype, sample = parse_dtype(array.dtype), array.shape[1:]
    return lambda rows: wrap_buffer(execute.device().upload_rows(array, rows), (*rows.shape, *sample), dtype, ndarray)


def is_stream(x: Any) -> bool:
    """Return whether ``x`` is a source of batches, not an array."""
    if isinstance(x, Loader) or callable(x):
        return True
    return isinstance(x, Iterable) and not hasattr(x, "dtype")


def check_samples(x: Any, y: Any, function: str = "fit") -> tuple[np.ndarray, np.ndarray]:
    """Return samples and targets as NumPy arrays (memory-mapped ones unchanged), or raise if they do not fit each other."""
    for name, a in (("x", x), ("y", y)):
        if isinstance(a, str | os.PathLike):
            fix = "read the file first, such as np.load or np.loadtxt"
            raise TypeError(f"{function}: {name} is a path, {os.fspath(a)!r}: {fix}")
        shapes = {np.shape(part) for part in a if hasattr(part, "shape")} if isinstance(a, tuple | list) else set()
        is_pair = isinstance(a, tuple) and len(a) < 9 and len(shapes) == 1 and shapes != {()}
        if isinstance(a, Mapping) or len(shapes) > 1 or is_pair:
            what = "input" if name == "x" else "target"
            raise TypeError(
                f"{function}: {name} is a {type(a).__name__} of {len(a)} {what}s; {function} takes one array of them: join them "
                f"along an axis (wf.concat, wf.stack) and take them apart in {'forward' if name == 'x' else 'the loss'}, or "
                "write the step with wf.value_and_grad and optimizer.update"
            )
        refuse_subclass(a)
    x, y = (a.numpy() if isinstance(a, Array) else a if isinstance(a, ON_DISK) else np.asarray(a) for a in (x, y))
    if not x.ndim:
        raise ShapeError(f"{function}: x is one value, {short(x[()])}, not an array of samples")
    if not len(x):
        raise ShapeError(f"{function}: x is empty: shape {x.shape}")
    if not y.ndim or len(x) != len(y):
        count = f"{len(y)} (shape {y.shape})" if y.ndim else "no dimensions"
        raise ShapeError(f"{function}: x has {len(x)} samples (shape {x.shape}), y has {count}")
    for name, a in (("x", x), ("y", y)):
        if not is_real(a.dtype):
            fix = {
                "c": ": give its real and imaginary parts as channels, np.stack([x.real, x.imag], 1)",
                "O": f": cast it, {name}.astype('float32')",
                "U": f": np.unique({name}, return_inverse=True) returns the texts and the number of each",
            }.get(a.dtype.kind, "")
            kind = "texts" if a.dtype.kind == "U" else a.dtype
            raise DTypeError(f"{function}: {name} must hold real numbers, not {kind}{fix}")
    return x, y


def split_rows(fraction: float, x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Draw the rows for validation. Return the rows for validation and for training, (None, None) if there are none."""
    count = int(round(fraction * len(x)))
    if not count:
        return None, None
    if count == len(x):
        raise ValueError(f"fit: validation={fraction} of {len(x)} samples leaves none to train on")
    order = rng.permutation(len(x))
    return np.sort(order[:count]), np.sort(order[count:])
