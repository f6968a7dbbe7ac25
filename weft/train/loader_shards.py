"""The feed of a Loader whose batches are divided among ranks: each rank reads and transforms the rows of its parts only."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from weft.data.loader import Loader, Part
from weft.train.batches import Feed, Stream
from weft.train.ranks import Ranks
from weft.train.shards import find_shard_rows

Divide = Callable[[int, int], Sequence[Part]]  # number of a batch and its rows -> the parts that this rank reads ahead


class LoaderBatch:
    """A batch of a Loader, as a key. ``read`` has the parts that were read ahead and not used yet."""

    def __init__(self, epoch: int, number: int, rows: int, read: dict[tuple[int, int], Any]) -> None:
        self.epoch, self.number, self.rows, self.read = epoch, number, rows, read


class DividedLoader(Stream):
    """Feed of a Loader. Parts that were not read ahead are read when they are asked for, such as for the diagnosis of a NaN."""

    heavy = False

    def __init__(self, feed: Stream, shards: int, divide: Divide) -> None:
        super().__init__(feed.source, feed.narrow, feed.limit, feed.name)
        self._shards, self._divide = shards, divide

    def epoch(self, number: int, start: int, state: dict[str, Any] | None) -> Generator[Any, None, None]:
        loader, count = self.source, len(self.source)
        if self.limit is not None:
            count = min(count, self.limit)
        with closing(loader.parts(number - 1, start, self._divide)) as batches:  # its threads end with the epoch
            for k, parts in zip(range(start, count), batches, strict=False):
                rows = loader.count_rows(k)
                places = [(part.first, part.last) for part in self._divide(k, rows)]
                self.batches_read += 1
                yield LoaderBatch(number - 1, k, rows, dict(zip(places, map(self._pair, parts), strict=True)))

    def first_key(self) -> LoaderBatch:
        """Return the key of the first batch, of which nothing is read ahead."""
        return LoaderBatch(0, 0, self.source.count_rows(0), {})

    def batch(self, key: Any) -> Any:
        return self.part(key, 0, key.rows) if isinstance(key, LoaderBatch) else key

    def count(self, key: Any) -> int:
        return key.rows

    def part(self, key: Any, first: int, last: int) -> Any:
        found = key.read.pop((first, last), None)  # used once: the keys of many steps are kept
        if found is not None:
            return found
        shards = divide_shards(range(self._shards), self._shards, key.rows)
        part = next((shard for shard in shards if (shard.first, shard.last) == (first, last)), Part(0, first, last))
        return self._pair(self.source.read(key.epoch, key.number, part))

    def kept_bytes(self, key: Any) -> int:
        return 0


def divide_shards(own: range, shards: int, rows: int) -> list[Part]:
    """Return the shards ``own`` of a batch that have rows."""
    parts = [Part(shard, *find_shard_rows(rows, shards, shard)) for shard in own]
    return [part for part in parts if part.first < part.last]


def divide_loaders(feed: Feed, validation_feed: Feed | None, ranks: Ranks) -> tuple[Feed, Feed | None]:
    """Return feeds of which a rank reads its own rows only: its shards of each batch, and its batches for validation.

    A Loader for validation that has a transform stays as it is: its batches have as many rows as the transform returns.
    """
    if ranks.shards == 1:
        return feed, validation_feed
    own = ranks.own_shards()
    if isinstance(feed, Stream) and isinstance(feed.source, Loader):
        feed = DividedLoader(feed, ranks.shards, lambda k, n: divide_shards(own, ranks.shards, n))
    if isinstance(validation_feed, Stream) and isinstance(loader := validation_feed.source, Loader) and loader.transform is None:
        validation_feed = DividedLoader(
            validation_feed, 1, lambda k, n: [Part(0, 0, n)] if k % ranks.size == ranks.rank else [],
        )
    return feed, validation_feed
