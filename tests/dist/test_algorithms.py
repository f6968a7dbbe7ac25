"""The algorithms over an engine in this process, a thread a rank: any number of ranks, against one tree in NumPy."""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from weft.dist import algorithms, shard_sum
from weft.dist.algorithms import Link
from weft.dist.exchanges import Exchanges
from weft.dist.shard_sum import RoundSum, ShardSum, find_nodes, shards_in_turn, shards_of

SEED = np.random.SeedSequence().entropy


class Post:
    """The messages of all ranks."""

    def __init__(self) -> None:
        self.boxes: dict[tuple[int, int, int], deque[np.ndarray]] = defaultdict(deque)
        self.lock = threading.Lock()
        self.bytes = 0


class Arriving:
    def __init__(self, box: deque[np.ndarray], data: np.ndarray) -> None:
        self.box, self.data, self.done = box, data, False

    def Test(self) -> bool:
        if not self.done and self.box:
            message = self.box.popleft()
            assert message.nbytes == self.data.nbytes, "the lengths of a message differ"
            self.data[:] = message
            self.done = True
        return self.done


class Sent:
    def Test(self) -> bool:
        return True


class Rank:
    """An engine, and a rank that waits for its requests."""

    def __init__(self, post: Post, rank: int, size: int) -> None:
        self.post, self.rank, self.size = post, rank, size

    def isend(self, data: np.ndarray, to: int, tag: int) -> Sent:
        with self.post.lock:
            self.post.bytes += data.nbytes
            self.post.boxes[self.rank, to, tag].append(data.copy())
        return Sent()

    def irecv(self, data: np.ndarray, source: int, tag: int) -> Arriving:
        with self.post.lock:
            return Arriving(self.post.boxes[source, self.rank, tag], data)

    def finish(self) -> None:
        raise AssertionError

    def abort(self, code: int) -> None:
        raise AssertionError

    def wait(self, requests: Sequence[tuple[Arriving | Sent, int]], what: str) -> None:
        end = time.monotonic() + 60
        while requests := [r for r in requests if not r[0].Test()]:
            time.sleep(0)
            assert time.monotonic() < end, "a message is missing"


def together(n: int, f: Callable[[Link, int], np.ndarray], ranks: tuple[int, ...] = ()) -> tuple[list[np.ndarray], int]:
    """Return the result of each of ``n`` ranks, and the bytes that they sent."""
    post, out, errors = Post(), {}, []
    ranks = ranks or tuple(range(n))

    def run(rank: int) -> None:
        try:
            own = Rank(post, rank, max(ranks) + 1)
            out[rank] = f(Link(own, own, ranks, "a test"), ranks.index(rank))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(r,)) for r in ranks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    assert not any(post.boxes.values()), "a message was not received"
    return [out[r] for r in ranks], post.bytes


def tree(parts: list[np.ndarray]) -> np.ndarray:
    """The sum as the documentation says: the largest power of 2 of the ranks, then the rest."""
    if len(parts) == 1:
        return parts[0]
    half = 2 ** int(np.ceil(np.log2(len(parts))) - 1)
    return tree(parts[:half]) + tree(parts[half:])


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    numbers = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    return (numbers + 1j * rng.normal(size=shape)).astype(kind) if kind.kind == "c" else numbers.astype(kind)


def view(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same numbers in other memory: reversed, or every second element of a larger array."""
    if not x.ndim or rng.random() < 0.5:
        return x
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "uint8", "int64", "complex64")


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_sums_have_the_bits_of_the_tree(n: int) -> None:
    print("seed", SEED)
    rng = np.random.default_rng([SEED % 2**63, n])
    sizes = [0, 1, 2, n - 1, n, n + 1, int(rng.integers(2, 300)), 4096, 4097, 5001]
    for size in dict.fromkeys(sizes):
        dtype = str(rng.choice(DTYPES))
        data = [draw(rng, (size,), dtype) for _ in range(n)]
        shown = [view(x, rng) for x in data]
        wide = [x.astype(np.float32) for x in data] if dtype in ("float16", "bfloat16") else data
        with np.errstate(all="ignore"):
            expected = tree(wide).astype(data[0].dtype)
        results, sent = together(n, lambda link, r, shown=shown: algorithms.all_sum(link, shown[r]))
        for out in results:
            assert out.tobytes() == expected.tobytes(), (n, size, dtype)
        assert all(x.tobytes() == y.tobytes() for x, y in zip(data, map(np.ascontiguousarray, shown), strict=True))
        if size * data[0].itemsize > algorithms.SHORT_BYTES and n & (n - 1) == 0 and dtype not in ("float16", "bfloat16"):
            assert sent <= 2 * (n - 1) * (data[0].nbytes + n * data[0].itemsize), "more bytes than a ring sends"


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_moves(n: int) -> None:
    print("seed", SEED)
    rng = np.random.default_rng([SEED % 2**63, 10 + n])
    (numbers, _) = together(n, lambda link, r: algorithms.all_gather(link, np.array(float(r))))
    assert all(x.tolist() == list(range(n)) for x in numbers)
    for shape in [(), (0,), (3,), (2, 5), (4, 0, 2), (700, 11)]:
        dtype = str(rng.choice([*DTYPES, "bool"]))
        if dtype == "bool":
            data = [rng.random((n, *shape)) < 0.5 for _ in range(n)]
        else:
            data = [draw(rng, (n, *shape), dtype) for _ in range(n)]
        shown = [view(x, rng) for x in data]
        for r, out in enumerate(together(n, lambda link, r, shown=shown: algorithms.all_to_all(link, shown[r]))[0]):
            assert out.tobytes() == np.stack([x[r] for x in data]).tobytes()
        for out in together(n, lambda link, r, shown=shown: algorithms.all_gather(link, shown[r]))[0]:
            assert out.tobytes() == np.stack(data).tobytes() and out.shape == (n, n, *shape)
        for root in range(n):
            for out in together(n, lambda link, r, root=root, shown=shown: algorithms.broadcast(link, shown[r], root))[0]:
                assert out.tobytes() == data[root].tobytes()
        if dtype != "bool":
            totals, _ = together(n, lambda link, r, shown=shown: algorithms.all_sum(link, shown[r]))
            for r, out in enumerate(together(n, lambda link, r, shown=shown: algorithms.reduce_scatter(link, shown[r]))[0]):
                assert out.tobytes() == totals[0][r].tobytes()
        together(n, lambda link, r: (algorithms.barrier(link), np.zeros(1))[1])


def test_groups_keep_their_order() -> None:
    rng = np.random.default_rng(SEED % 2**63)
    ranks = (5, 0, 3)
    data = [rng.normal(size=20).astype(np.float32) for _ in ranks]
    for out in together(3, lambda link, r: algorithms.all_sum(link, data[r]), ranks)[0]:
        assert out.tobytes() == ((data[0] + data[1]) + data[2]).tobytes()


def test_shards_are_added_in_one_tree_by_any_number_of_ranks() -> None:
    print("seed", SEED)
    rng = np.random.default_rng([SEED % 2**63, 40])
    for shards in (1, 2, 5, 7, 8, int(rng.integers(9, 40))):
        shapes = [((), "float64"), ((3, 2), "float32"), ((int(rng.choice([0, 5, 5000])),), "float32"), ((2,), "complex64")]
        data: list[list[np.ndarray] | None] = [[draw(rng, shape, dtype) for shape, dtype in shapes] for _ in range(shards)]
        empty = int(rng.integers(shards))  # shards without rows are the last ones
        data[shards - empty :] = [None] * empty
        zeros = [np.zeros(shape, dtype) for shape, dtype in shapes]
        expected = [tree([(part or zeros)[k] for part in data]) for k in range(len(shapes))]
        for n in {1, 2, 3, 4, 5, shards}:
            if n > shards:
                continue
            sums = [ShardSum(shards, n, zeros, 2) for _ in range(n)]

            def run(link: Link, rank: int, sums=sums, data=data, n=n) -> np.ndarray:
                for shard in shards_of(rank, n, len(data)):
                    sums[rank].add(shard, data[shard])
                vectors = sums[rank].join_ranks(link)
                parts = [vectors[v][first : first + int(np.prod(shape))] for v, first, shape in sums[rank].places]
                return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts])

            for _ in range(2):  # memory is used again
                for out in together(n, run)[0]:
                    assert out.tobytes() == b"".join(x.tobytes() for x in expected), (shards, n)
    for shards in range(1, 40):
        for n in range(1, shards + 1):
            parts = [shards_of(r, n, shards) for r in range(n)]
            assert [s for part in parts for s in part] == list(range(shards)) and all(parts)
            for part in parts:
                nodes = find_nodes(part)
                assert [s for level, number in nodes for s in range(number << level, (number + 1) << level)] == list(part)
                assert len(nodes) <= 2 * len(part).bit_length()


def pairwise_sum(leaves: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum in one tree, each node of which is rounded to the leaves' dtype."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return pairwise_sum(leaves[:half]) + pairwise_sum(leaves[half:])


@pytest.mark.parametrize("kind", [ShardSum, RoundSum])
def test_ranks_get_parts_of_rounded_sums(kind: type[ShardSum], monkeypatch: pytest.MonkeyPatch) -> None:
    rng, local = np.random.default_rng(SEED), threading.local()
    monkeypatch.setattr(shard_sum, "run_together", lambda algorithm, request, place, ranks, *rest: algorithm(local.link, *rest))
    for _ in range(12):
        shards, length = int(rng.integers(1, 12)), int(rng.choice([1, 7, 40, 5000]))
        dtype = np.dtype([np.float32, ml_dtypes.bfloat16, np.float16][rng.integers(3)])
        n = int(rng.integers(1, shards + 1))
        shapes = ((length, "f4"), ((3, 2), "f8"), (2, "f4"))
        data = [[rng.normal(size=shape).astype(form) for shape, form in shapes] for _ in range(shards)]
        forms = [(dtype, True), (np.dtype("f8"), False), (np.dtype("f4"), False)]
        cuts = sorted(rng.integers(0, length + 1, n - 1).tolist())
        sums = [kind(shards, n, data[0], 2, forms) for _ in range(n)]
        leaves = [[row[0].astype(dtype), *row[1:]] for row in data]
        expected = [pairwise_sum(column) for column in zip(*leaves, strict=True)]
        assign = shards_in_turn if kind is RoundSum else shards_of

        def run(link: Link, rank: int, sums=sums, data=data, n=n, cuts=cuts, assign=assign, dtype=dtype) -> np.ndarray:
            local.link, total = link, sums[rank]
            places = {place[0] for place in total.places}
            assert len(places) == 3
            total.scatter(total.places[0][0], [0, *cuts, len(data[0][0])])
            for shard in assign(rank, n, len(data)):
                total.add(shard, data[shard])
            if kind is RoundSum:
                part = np.diff([0, *cuts, len(data[0][0])])[rank] * dtype.itemsize
                assert total.nbytes <= (part + 80) * (len(data).bit_length() + 1)
            vectors, flags = total.total("a sum", [rank, 1])
            assert flags.tolist() == [n * (n - 1) / 2, n]
            rest = [vectors[v][first : first + int(np.prod(shape))] for v, first, shape in total.places[1:]]
            return np.concatenate([np.ascontiguousarray(a).view(np.uint8) for a in (vectors[total.places[0][0]], *rest)])

        for _ in range(2):
            outs, _ = together(n, run)
            for rank, (first, last) in enumerate(pairwise([0, *cuts, length])):
                parts = [expected[0][first:last], *expected[1:]]
                assert outs[rank].tobytes() == b"".join(a.tobytes() for a in parts), (shards, n, length, dtype, rank)


def test_an_exchange_keeps_no_result() -> None:
    exchanges = Exchanges()
    result = exchanges.finish(exchanges.begin(lambda: np.zeros(3)))
    reference = weakref.ref(result)
    del result
    assert reference() is None and exchanges.is_idle
