"""Feeds, the sources of batches: arrays in an order drawn each epoch, a Loader, or any iterable of batches.

A feed yields the keys of an epoch's batches. A key is small, or the batch itself (``heavy``), and always gives the same batch.
Inputs and targets are arrays, or nested tuples and dicts of arrays with equally many rows.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array, ndarray, wrap_buffer
from weft.array.convert import refuse_subclass
from weft.data.loader import Loader
from weft.data.members import list_members, map_members, name_members, order_members, read_members
from weft.data.row_files import ON_DISK
from weft.dtypes.api import is_real
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.runtime import execute

Batch = tuple[Any, Any]  # inputs and targets


class Weighted(NamedTuple):
    """Targets with sample weights: an array, or a tree of the structure of the losses."""

    targets: Any
    weights: Any


def split_weights(y: Any) -> tuple[Any, Any]:
    """Return the targets, and the sample weights or None."""
    return (y.targets, y.weights) if isinstance(y, Weighted) else (y, None)


def name_batch(x: Any, y: Any) -> list[tuple[str, Any]]:
    """Return (name, array) of each array of a batch or of data."""
    targets, weights = split_weights(y)
    return [*name_members(x, "x"), *name_members(targets, "y"), *name_members(weights, "sample_weights")]


def count_rows(x: Any) -> int:
    """Return the number of rows of inputs."""
    return (x if hasattr(x, "shape") else list_members(x)[0]).shape[0]


class Arrays:
    """Feed of arrays in memory or memory-mapped, whose rows are read and cast batch by batch.

    rows : the rows to use, None for all
    rng : draws the order of each epoch, None for the order of the rows
    narrow : whether float64 becomes float32
    """

    heavy = False

    def __init__(
        self, x: Any, y: Any, rows: np.ndarray | None, batch_size: int, rng: np.random.Generator | None, narrow: bool,
    ) -> None:
        self.x, self.y, self.rows, self.batch_size, self.rng = x, y, rows, batch_size, rng
        self.samples = count_rows(x) if rows is None else len(rows)
        self.steps = -(-self.samples // batch_size)
        self.batch_bytes = batch_size * sum(a.nbytes // len(a) for _, a in name_batch(x, y))
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
        if not any(isinstance(a, ON_DISK) for a in list_members(self.y)):
            return check(self.y)
        read_x, read_y = self.readers

        def read_and_check(rows: np.ndarray) -> Any:
            y = read_y(rows)
            check(map_members(lambda a: a.numpy(), y))
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
        rows = np.unique(np.linspace(0, count_rows(self.x) - 1, 64).astype(np.int64))
        checksum = 0
        for _, a in name_batch(self.x, self.y):
            checksum = zlib.crc32(a[rows].tobytes(), checksum)
        return f"{checksum:08x}"

    def sample_number(self, key: np.ndarray, row: int) -> int:
        """Return the sample number of row ``row`` of a batch, -1 if it is not known."""
        return int(key[row])


class Stream:
    """Feed of a Loader, an iterable of batches, a function that returns one, or a generator, which is consumed only once."""

    heavy = True

    def __init__(self, source: Any, narrow: bool, steps: int | None = None, name: str = "fit") -> None:
        self.source, self.narrow, self.name = source, narrow, name  # name: begins the messages
        self.generator = iter(source) if isinstance(source, Iterator) else None  # a generator: an epoch continues after the last
        self.samples = source.samples if isinstance(source, Loader) else None
        self.limit = steps
        self.steps: int | None = steps if steps is not None else len(source) if hasattr(source, "__len__") else None
        self.check: Callable[[Any, Any], None] | None = None  # raises for a batch that does not fit
        self.first: Batch | None = None  # whose structure the other batches have
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
            batches = iter(self._call_source() if callable(self.source) else self.source)
        return self._read(batches, skip, number, start)

    def _call_source(self) -> Iterable[Any]:
        batches = self.source()
        if not isinstance(batches, Iterable):
            given = "None: end it with `return`, or `yield` batches" if batches is None else f"a {type(batches).__name__}"
            raise TypeError(f"{self.name}: the function that gives the data must return an iterable of batches, not {given}")
        return batches

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
            epoch = f" in epoch {number}" if self.name == "fit" else ""
            raise ShapeError(f"{self.name}: the data give no batch{epoch}" + (again if self.generator is not None else ""))
        if self.steps is None:
            self.steps = count

    def _pair(self, item: Any) -> Batch:
        if not isinstance(item, tuple | list) or len(item) not in (2, 3):
            given = type(item).__name__ + (f" of {len(item)}" if isinstance(item, tuple | list) else "")
            raise TypeError(f"{self.name}: the data must give pairs (x, y), or triples (x, y, sample_weights), not {given}")
        names = ("x", "y", "sample_weights")
        x, y, *weights = (read_members(self._array, name, part) for name, part in zip(names, item, strict=False))
        y = Weighted(y, *weights) if weights else y
        arrays = name_batch(x, y)
        rows = {a.shape[0] if a.ndim else 0 for _, a in arrays}
        if len(rows) > 1 or 0 in rows:
            shapes = " and ".join(f"{name} of shape {a.shape}" for name, a in arrays)
            raise ShapeError(f"{self.name}: a batch has {shapes}: they need equally many rows")
        if self.first is None:
            self.first = map_members(lambda _: 0, (x, y))
        elif not isinstance(x, Array) or not isinstance(y, Array):
            x = order_members(x, self.first[0], "x", f"{self.name}: the data")
            y = order_members(y, self.first[1], "y", f"{self.name}: the data")
        if self.check is not None:
            self.check(x, y)
        return x, y

    def _array(self, name: str, part: Any) -> Array:
        array = part if isinstance(part, Array) else asarray(part if isinstance(part, np.ndarray) else np.asarray(part))
        return array.astype("float32") if self.narrow and array.dtype == np.float64 else array

    def batch(self, key: Any) -> Batch:
        return key

    def count(self, key: Batch) -> int:
        return count_rows(key[0])

    def part(self, key: Batch, first: int, last: int) -> Batch:
        return map_members(lambda a: a[first:last], key)

    def kept_bytes(self, key: Batch) -> int:
        return sum(a.size * a.dtype.itemsize for a in list_members(key))

    def sample_number(self, key: Batch, row: int) -> int:
        return -1


Feed = Arrays | Stream


def _make_reader(array: Any, narrow: bool) -> Callable[[np.ndarray], Any]:
    """Return a function from row numbers, of any shape, to an Array of these rows, or a tree of Arrays.

    Rows of plain arrays in memory are copied directly into the Array; others (memory-mapped, cast) through NumPy.
    """
    if isinstance(array, tuple | dict):
        readers = map_members(lambda a: _make_reader(a, narrow), array)
        return lambda rows: map_members(lambda read: read(rows), readers)
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
    return isinstance(x, Iterable) and not hasattr(x, "dtype") and not isinstance(x, Mapping)


def check_samples(x: Any, y: Any, function: str = "fit", weights: Any = None) -> tuple[Any, Any]:
    """Return samples and targets as NumPy arrays (memory-mapped ones unchanged), or raise if they do not fit each other.

    weights : sample weights, which are returned with the targets as :class:`Weighted`
    """
    if isinstance(x, Mapping | tuple) and not len(x):
        raise ShapeError(f"{function}: x is an empty {type(x).__name__}, without an input")

    def read(name: str, a: Any) -> Any:
        return read_array(name, a, function)

    is_list = isinstance(x, list) and any(hasattr(part, "shape") for part in x)
    x, y = read_members(read, "x", x), read_members(read, "y", y)
    if weights is not None:
        y = Weighted(y, read_members(read, "sample_weights", weights))
    (first, samples), *others = name_batch(x, y)
    if not samples.ndim:
        raise ShapeError(f"{function}: {first} is one value, {short(samples[()])}, not an array of samples")
    if not len(samples):
        raise ShapeError(f"{function}: {first} is empty: shape {samples.shape}")
    for name, a in others:
        if not a.ndim or len(samples) != len(a):
            count = f"{len(a)} (shape {a.shape})" if a.ndim else "no dimensions"
            fix = f"; a list is one array: several inputs are a tuple, tuple({first})" if is_list else ""
            raise ShapeError(f"{function}: {first} has {len(samples)} samples (shape {samples.shape}), {name} has {count}{fix}")
    for name, a in ((first, samples), *others):
        check_numbers(name, a, function)
    return x, y


def check_numbers(name: str, a: Any, function: str) -> None:
    """Raise DTypeError if an array does not hold real numbers."""
    if not is_real(a.dtype):
        fix = {
            "c": ": give its real and imaginary parts as channels, np.stack([x.real, x.imag], 1)",
            "O": f": cast it, {name}.astype('float32')",
            "U": f": wf.data.LabelEncoder().fit_transform({name}) returns the number of each",
        }.get(a.dtype.kind, "")
        kind = "texts" if a.dtype.kind == "U" else a.dtype
        raise DTypeError(f"{function}: {name} must hold real numbers, not {kind}{fix}")


def read_array(name: str, a: Any, function: str) -> Any:
    """Return samples or targets as a NumPy array; a memory-mapped one unchanged."""
    if isinstance(a, Loader):
        fix = f"{function}(model, loader)" if function in ("fit", "evaluate", "find_lr") else "give arrays"
        raise TypeError(f"{function}: {name} is a Loader, whose batches have inputs and targets: {fix}")
    refuse_path(name, a, function)
    if a is None or isinstance(a, Iterator):
        fix = "" if a is None else "; np.concatenate(list(...)) joins the batches of a generator"
        raise TypeError(f"{function}: {name} must be an array, not {'None' if a is None else f'a {type(a).__name__}'}{fix}")
    if len({np.shape(part) for part in a if hasattr(part, "shape")} if isinstance(a, list) else ()) > 1:
        what = "targets" if name.startswith("y") else "inputs"
        raise TypeError(
            f"{function}: {name} is a list of {len(a)} arrays of several shapes, but a list is one array: several {what} are a "
            f"tuple, tuple({name}), or a dict"
        )
    refuse_subclass(a)
    if isinstance(a, Array):
        return a.numpy()
    try:
        return a if isinstance(a, ON_DISK) else np.asarray(a)
    except ValueError as error:
        raise ShapeError(f"{function}: {name} is no array, its rows have different shapes: pad or crop them. {error}") from error


def refuse_path(name: str, a: Any, function: str) -> None:
    """Raise TypeError if a path is given in place of data."""
    if isinstance(a, str | os.PathLike):
        fix = "read the file first, such as np.load or np.loadtxt"
        raise TypeError(f"{function}: {name} is a path, {os.fspath(a)!r}: {fix}")


def split_rows(fraction: float, samples: int, rng: np.random.Generator) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Draw the rows for validation. Return the rows for validation and for training, (None, None) if there are none."""
    if not fraction:
        return None, None
    count = int(round(fraction * samples))
    if not count:
        raise ValueError(f"fit: validation={fraction} of {samples} samples is none: give a larger fraction, or separate data")
    if count == samples:
        raise ValueError(f"fit: validation={fraction} of {samples} samples leaves none to train on")
    order = rng.permutation(samples)
    return np.sort(order[:count]), np.sort(order[count:])
