"""Collectives by NCCL, whose stand-in moves the bytes: the bits of the host's collectives, the calls, and errors."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.dist.host_cards import UNWRITTEN, HostStep, Library, Stream
from tests.dist.jobs import HERE, run_job
from tests.dist.test_algorithms import DTYPES, draw, together
from weft.dist import algorithms, card_algorithms, primitives
from weft.dist.algorithms import Link
from weft.dist.nccl import Communicator
from weft.dtypes.formats import FROM_NUMPY
from weft.errors import CollectiveError

SEED = random.randrange(10**6)
BY_HOST: dict[str, Callable[..., np.ndarray]] = {
    "all_sum": algorithms.all_sum, "all_gather": algorithms.all_gather, "reduce_scatter": algorithms.reduce_scatter,
    "all_to_all": algorithms.all_to_all, "broadcast": algorithms.broadcast,
    "reduce": primitives._to_root,
}
HAS_ROWS, HAS_ROOT = ("reduce_scatter", "all_to_all"), ("broadcast", "reduce")


def on_card(
    link: Link, name: str, x: np.ndarray, shape: tuple[int, ...], in_place: bool, root: int,
) -> tuple[np.ndarray, Library]:
    """Return a collective's result, computed by a stand-in of a card, and the library that recorded the calls."""
    stream = Stream(7)
    memory = np.array(x, order="C").reshape(-1).view(np.uint8)
    out = memory if in_place else np.full(int(np.prod(shape)) * x.itemsize, UNWRITTEN, np.uint8)
    library = Library(link._engine, link._world, link.ranks, [stream])
    step = HostStep(memory, x.shape, FROM_NUMPY[x.dtype], out, stream, "a card")
    params = {"root": root} if name in HAS_ROOT else {}
    card_algorithms.run(name, link, Communicator(library, link), step, **params)
    assert not stream.asked, "something was issued after the wait"
    return out.view(x.dtype).reshape(shape), library


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
def test_cards_give_the_bits_of_the_host(n: int) -> None:
    print("seed", SEED)
    rng = np.random.default_rng([SEED, n])
    for name in card_algorithms.BY_NAME:
        for _ in range(6):
            check_case(rng, name, n)


def check_case(rng: np.random.Generator, name: str, n: int) -> None:
    """One collective on random data of ``n`` ranks, by the host and by the stand-in."""
    dtype, root = str(rng.choice(DTYPES)), int(rng.integers(n))
    shapes = [(), (1,), (n,), (n - 1,), (n + 1, 2), (int(rng.integers(2, 400)),), (5001,)]
    part = shapes[rng.integers(len(shapes))]
    shape = (n, *part) if name in HAS_ROWS else part
    data = [draw(rng, shape, dtype) for _ in range(n)]
    ranks = tuple([int(r) for r in rng.permutation(n + 2)[:n]])
    params = {"root": root} if name in HAS_ROOT else {}
    want, _ = together(n, lambda link, r: BY_HOST[name](link, data[r], **params), ranks)
    in_place = want[0].nbytes == data[0].nbytes and rng.random() < 0.5
    libraries: dict[int, Library] = {}

    def run(link: Link, r: int) -> np.ndarray:
        result, libraries[r] = on_card(link, name, data[r], want[r].shape, in_place, root)
        return result

    for r, out in enumerate(together(n, run, ranks)[0]):
        assert out.tobytes() == want[r].tobytes(), (name, n, shape, dtype, r)
    for r, library in libraries.items():
        check_calls(library, r, n)
    if name == "all_sum":
        sent = sum(call[2] for library in libraries.values() for call in library.calls if call[0] == "send")
        assert sent == 2 * (n - 1) * data[0].nbytes, "other bytes than a ring sends"


def check_calls(library: Library, me: int, n: int) -> None:
    """A communicator is begun, then there are groups; each has at most a message for another rank, receives first."""
    calls = library.calls[1:] if me == 0 else library.calls
    assert (library.calls[0] == ("get_unique_id",)) is (me == 0)
    assert calls[0] == ("comm_init_rank_scalable", n, me, 1, bytearray(range(128)), 0)
    text = "".join({"group_start": "(", "group_end": ")", "recv": "r", "send": "s"}[call[0]] for call in calls[1:])
    assert re.fullmatch(r"(\(r*s*\))*", text), text
    for group in re.findall(r"\((r*)(s*)\)", text):
        assert all(len(messages) < n for messages in group)
    assert all(call[3:4] + call[5:] == (1, f"communicator {me}", 7) for call in calls if call[0] in ("send", "recv"))


@pytest.mark.parametrize("name", ["get_unique_id", "comm_init_rank_scalable", "group_start", "send", "recv", "group_end"])
def test_errors_of_the_library(name: str) -> None:
    def run(link: Link, r: int) -> np.ndarray:
        stream = Stream(7)
        memory = np.zeros(16, np.uint8)
        library = Library(link._engine, link._world, link.ranks, [stream])
        library.fails = {name}
        step = HostStep(memory, (4,), FROM_NUMPY[np.dtype("f4")], memory, stream, "a card")
        if name == "get_unique_id" and r:
            return np.zeros(1)  # the others wait for its number
        with pytest.raises(CollectiveError, match=rf"a test: NCCL's {name} failed \({name} is unwell\): NCCL_DEBUG=INFO"):
            card_algorithms.run("all_sum", link, Communicator(library, link), step)
        names = [call[0] for call in library.calls]
        assert names.count("group_start") == names.count("group_end") + (name == "group_start"), "a group stays open"
        return np.zeros(1)

    together(2, run)


def test_an_error_on_the_card_ends_its_work() -> None:
    def run(link: Link, r: int) -> np.ndarray:
        stream = Stream(7)
        memory = np.zeros(16, np.uint8)
        library = Library(link._engine, link._world, link.ranks, [stream])
        step = HostStep(memory, (4,), FROM_NUMPY[np.dtype("f4")], memory, stream, "a card")
        step.has_reached_mark = lambda: False  # type: ignore[method-assign]
        communicator = Communicator(library, link)
        library.state = library.Result.RemoteError
        with pytest.raises(CollectiveError, match=r"a test: NCCL failed on the card \(error 6\)"):
            card_algorithms.run("all_sum", link, communicator, step)
        assert library.calls[-1] == ("comm_abort", f"communicator {r}")
        return np.zeros(1)

    together(2, run)


@pytest.mark.xdist_group("jobs")
@pytest.mark.parametrize("ranks", [2, 3])
def test_jobs_on_stand_ins_of_cards(ranks: int) -> None:
    print("seed", SEED)
    result = run_job(ranks, HERE / "card_programs.py", SEED)
    assert result.code == 0 and result.text.count("all checked") == ranks, result.text
