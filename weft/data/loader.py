"""Loader: batches of arrays, memory-mapped files or data sets, shuffled and prefetched by threads."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.random import default_rng

from weft.array import Array
from weft.array.convert import refuse_subclass
from weft.data.members import describe_tree, has_members, list_members, map_members, read_members
from weft.data.row_files import RowFiles
from weft.dtypes.api import as_dtype, is_float, is_real
from weft.errors import DataError, DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.functions.support.arguments import flag, integer_from
from weft.process.keyword_checks import KeywordCheck


def _refuse_no_samples(data: Any) -> None:
    """Raise TypeError for what has a length and items, but is no sequence of samples: texts, dicts, lists of whole arrays."""
    if isinstance(data, str | bytes):
        raise TypeError(f"Loader: data is a path, {short(data)}: read the file first, such as by np.load")
    shapes = [item.shape for item in data[:9] if hasattr(item, "shape")] if isinstance(data, list) else []
    is_pair = 1 < len(shapes) < 9 and len(shapes) == len(data) and len({s[:1] for s in shapes}) == 1 and len(set(shapes)) > 1
    if (isinstance(data, dict) and any(isinstance(key, str) for key in data)) or is_pair:
        what = f"a {type(data).__name__} of {len(data)} arrays"
        raise TypeError(f"Loader: data is {what}: give them as a tuple, Loader((x, y), batch_size)")


class Part(NamedTuple):
    """Some rows of a batch. ``number`` : of the part, for the random numbers of the transform"""

    number: int
    first: int
    last: int


class Loader(KeywordCheck):
    """Iterate over batches of data: ``for x, y in loader`` is one epoch of Arrays. ``wf.train.fit`` accepts a Loader.

    Only the rows of a batch are read and cast, so files may be larger than memory: pass :func:`weft.data.open_rows` or
    ``np.load(file, mmap_mode="r")``. The order depends on ``seed`` and the number of the epoch only, not on the workers.

    Parameters
    ----------
    data : array, tuple of arrays, or data set
        Arrays must have equal numbers of rows. In the place of an array there may be a tuple or dict of arrays, such as the
        inputs of a model with two arguments, ``Loader(((left, right), y))``. A data set has ``len(data)``, and ``data[i]`` is a
        sample: an array or number, or a tuple of them, or of tuples and dicts. Samples are stacked.
    batch_size : int
    shuffle : bool
        Whether each epoch has a new order.
    seed : int
        The seed of the orders.
    drop_last : bool
        Whether to drop the last batch of an epoch if it is smaller.
    transform : callable, optional
        Called with the NumPy arrays of a batch; its result replaces them. An argument ``rng`` receives a
        ``numpy.random.Generator`` that depends on seed, epoch and batch only. In ``fit(shards=)`` it is called for each shard.
    workers : int
        The number of threads that make batches; with 0 the caller makes them.
    prefetch : int
        The number of batches that workers make ahead.
    dtype : dtype, optional
        A float dtype to which floats are cast.

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        The arguments do not fit together. An error in ``data[i]`` or ``transform`` is raised when the batch is requested, with
        the number of the batch.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> loader = wf.data.Loader((np.arange(10.0).reshape(5, 2), np.arange(5)), batch_size=2, dtype="float32")
    >>> len(loader), [y.tolist() for x, y in loader]
    (3, [[0, 1], [2, 3], [4]])
    """

    _argument_hint = "Loader((x, y), batch_size)"

    def __init__(
        self, data: Any, batch_size: int = 32, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False,
        transform: Callable[..., Any] | None = None, workers: int = 0, prefetch: int = 2, dtype: Any = None,
    ) -> None:
        if getattr(batch_size, "shape", ()):
            raise TypeError("Loader: batch_size must be an int, not an array; pass several arrays as a tuple, Loader((x, y), 32)")
        batch_size, workers = integer_from(1, batch_size, "Loader", "batch_size"), integer_from(0, workers, "Loader", "workers")
        prefetch, seed = integer_from(1, prefetch, "Loader", "prefetch"), integer_from(0, seed, "Loader", "seed")
        shuffle, drop_last = flag(shuffle, "Loader", "shuffle"), flag(drop_last, "Loader", "drop_last")
        self.dtype = None if dtype is None else as_dtype(dtype)
        if self.dtype is not None and not is_float(self.dtype):
            raise DTypeError(f"Loader: dtype must be a float dtype, not {dtype!r}")
        self.arrays: tuple[Any, ...] | None
        self.is_single = not isinstance(data, tuple)
        if isinstance(data, tuple) or hasattr(data, "dtype"):
            parts = enumerate(data if isinstance(data, tuple) else (data,))
            self.arrays = tuple(read_members(_check_array, f"array {k}", a) for k, a in parts)
            lengths = [len(a) for a in list_members(self.arrays)]
            if not lengths:
                raise ShapeError("Loader: data holds no array")
            if len(set(lengths)) > 1:
                raise ShapeError(f"Loader: the arrays have {', '.join(map(str, lengths))} rows; these numbers must be equal")
            self.samples = lengths[0]
        else:
            self.arrays = None
            _refuse_no_samples(data)
            if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
                raise TypeError(
                    "Loader: data must be an array, a tuple of arrays, or have __len__ and __getitem__, not "
                    f"{type(data).__name__}; pass batches from a generator to fit directly"
                )
            self.samples = len(data)
        if not self.samples:
            raise ShapeError("Loader: data is empty")
        if drop_last and self.samples < batch_size:
            raise ValueError(f"Loader: {self.samples} samples make no batch of {batch_size}, and drop_last drops smaller ones")
        self.data, self.batch_size, self.shuffle, self.seed, self.drop_last = data, batch_size, shuffle, seed, drop_last
        self.transform, self.workers, self.prefetch = transform, workers, prefetch
        self.takes_rng = transform is not None and _takes_rng(transform)
        self.epoch = 0  # the epoch of the next iteration

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self.samples // self.batch_size if self.drop_last else -(-self.samples // self.batch_size)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("Loader: batches have no positions: next(iter(loader)) is the first; index the data for samples")

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self.batches(epoch)

    def __repr__(self) -> str:
        return f"Loader({self.samples} samples, batch_size={self.batch_size}, {len(self)} batches)"

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Any]:
        """Return an iterator over the batches of an epoch (counted from 0), starting with batch ``start``.

        Yields
        ------
        Array, or tuple of Arrays
        """
        epoch, start = integer_from(0, epoch, "Loader.batches", "epoch"), integer_from(0, start, "Loader.batches", "start")
        return self._make(epoch, start, self._read)

    def parts(self, epoch: int, start: int, divide: Callable[[int, int], Sequence[Part]]) -> Generator[list[Any], None, None]:
        """Return an iterator over the batches of an epoch, of which only some rows are read and transformed.

        divide : function of the number of a batch and its rows that returns the parts to read
        """
        return self._make(epoch, start, lambda epoch, k, order: [
            self._read(epoch, k, order, part) for part in divide(k, self.count_rows(k))
        ])

    def read(self, epoch: int, k: int, part: Part | None = None) -> Any:
        """Return batch ``k`` of an epoch, or a part of it."""
        return self._read(epoch, k, self._order(epoch), part)

    def count_rows(self, k: int) -> int:
        """Return the number of rows of batch ``k``, before the transform."""
        return min(self.batch_size, self.samples - k * self.batch_size)

    def _order(self, epoch: int) -> np.ndarray | None:
        return default_rng([self.seed, epoch]).permutation(self.samples) if self.shuffle else None

    def _make(self, epoch: int, start: int, read: Callable[[int, int, np.ndarray | None], Any]) -> Generator[Any, None, None]:
        """Yield ``read(epoch, k, order)`` for the batches ``k`` from ``start`` on."""
        order = self._order(epoch)

        def read_with_note(k: int) -> Any:
            try:
                return read(epoch, k, order)
            except Exception as error:
                error.add_note(f"Loader: this was batch {k} of epoch {epoch}")
                raise

        numbers = range(start, len(self))
        return self._prefetch(read_with_note, numbers) if self.workers else (read_with_note(k) for k in numbers)

    def _prefetch(self, read: Callable[[int], Any], numbers: Sequence[int]) -> Generator[Any, None, None]:
        """Yield batches in order, made by threads."""
        waiting: deque[Future] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="weft-loader")
        try:
            for k in numbers:
                waiting.append(pool.submit(read, k))
                if len(waiting) > self.prefetch:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # also runs if the caller leaves its loop early
            for future in waiting:
                future.cancel()
            pool.shutdown(wait=False)

    def _read(self, epoch: int, k: int, order: np.ndarray | None, part: Part | None = None) -> Any:
        """Return batch ``k``, or a part of it."""
        before = k * self.batch_size
        first, last = (0, self.count_rows(k)) if part is None else (part.first, part.last)
        numbers: Any = slice(before + first, before + last) if order is None else order[before + first : before + last]
        parts: tuple[Any, ...]
        if self.arrays is not None:
            parts = map_members(lambda a: np.asarray(a[numbers]), self.arrays)
            is_single = self.is_single
        else:
            samples = range(before + first, before + last) if order is None else numbers.tolist()
            parts, is_single = _stack_samples([self.data[i] for i in samples])
        if self.transform is not None:
            if self.arrays is not None and order is None:  # slices alias the data, which a transform in place would change
                parts = map_members(np.copy, parts)
            more = {}
            if self.takes_rng:
                more["rng"] = default_rng([self.seed, epoch, k, *(() if part is None else (part.number,))])
            transformed = self.transform(*parts, **more)
            parts, is_single = (transformed, False) if isinstance(transformed, tuple) else ((transformed,), True)
            counts = [len(p) for p in list_members(parts)]
            if part is not None and any(count != last - first for count in counts):
                raise ShapeError(
                    f"Loader: the transform returned {counts[0]} rows for {last - first}; with shards= it gets the rows of a "
                    "shard, and must return as many"
                )
        out = tuple(read_members(lambda _, a: self._cast(a), "", p) for p in parts)
        return out[0] if is_single else out

    def _cast(self, part: Any) -> Array:
        """Return a part of a batch as an Array, with floats in the loader's dtype."""
        if isinstance(part, Array):
            return part if self.dtype is None or not is_float(part.dtype) else part.astype(self.dtype)
        part = np.asarray(part)
        return asarray(part.astype(self.dtype) if self.dtype is not None and is_float(part.dtype) else part)


def _check_array(name: str, a: Any) -> Any:
    refuse_subclass(a)
    content = a.numpy() if isinstance(a, Array) else a if isinstance(a, np.ndarray | RowFiles) else np.asarray(a)
    if not content.ndim:
        raise ShapeError(f"Loader: {name} has no dimensions; its first dimension must be that of the samples")
    if not is_real(content.dtype):
        raise DTypeError(f"Loader: {name} must hold numbers, not {content.dtype}")
    return content


def _stack_samples(samples: list[Any]) -> tuple[tuple[Any, ...], bool]:
    """Return the stacked parts of the samples, and whether a sample is a single value instead of a tuple."""
    is_single = not isinstance(samples[0], tuple | list)
    count = None if is_single else len(samples[0])
    other = next((s for s in samples if (len(s) if isinstance(s, tuple | list) else None) != count), None)
    if other is not None:
        raise DataError(f"Loader: a sample is {describe_tree(samples[0])}, another is {describe_tree(other)}")
    columns = [samples] if is_single else list(zip(*samples, strict=True))
    return tuple(_stack(column, f"part {k}") for k, column in enumerate(columns)), is_single


def _stack(column: Sequence[Any], name: str) -> Any:
    """Return one part of the samples, stacked. Parts that are tuples or dicts have stacked members."""
    first = column[0]
    if has_members(first):
        keys = list(first) if isinstance(first, Mapping) else range(len(first))
        for other in column:
            if type(other) is not type(first) or (list(other) if isinstance(other, Mapping) else range(len(other))) != keys:
                both = f"{describe_tree(first)} in one and {describe_tree(other)} in another"
                raise DataError(f"Loader: {name} of the samples is {both}")
        stacked = {key: _stack([part[key] for part in column], f"{name}[{key!r}]") for key in keys}
        return stacked if isinstance(first, Mapping) else tuple(stacked.values())
    parts = [p.numpy() if isinstance(p, Array) else np.asarray(p) for p in column]
    shapes = {p.shape for p in parts}
    if len(shapes) > 1:
        listed = ", ".join(map(str, sorted(shapes)))
        raise DataError(f"Loader: {name} of the samples has shapes {listed}; they must be equal")
    return np.stack(parts)


def _takes_rng(f: Callable) -> bool:
    try:
        return "rng" in inspect.signature(f).parameters
    except (TypeError, ValueError):  # built-in functions may have no signature
        return False
