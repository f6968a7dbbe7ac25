"""Steps with checked indices run ahead of the host; what a wrong index leaves, and who is told of it, as on the CPU but later."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.stub import Card, made
from tests.cuda.test_launcher import standing
from weft.devices.cuda.pending_checks import SLOTS

pytest.importorskip("triton")
ROWS, WIDTH, BATCH = 7, 3, 4


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    device, driver = made()
    with standing(device, monkeypatch):
        yield device, driver


class Net(wf.nn.Module):
    """Rows of a table, chosen by tokens and summed; a bias beside it."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(1)
        self.table = wf.array(rng.normal(size=(ROWS, WIDTH)).astype(np.float32))
        self.bias = wf.array(rng.normal(size=WIDTH).astype(np.float32))


def trainer() -> tuple[Net, Any]:
    net = Net()
    optimizer = wf.optim.Adam(0.1).init(net)

    @wf.jit
    def step(tokens: Any, wanted: Any) -> Any:
        def loss(net: Any) -> Any:
            return ((net.table[tokens] + net.bias - wanted) ** 2).mean()

        value, slopes = wf.value_and_grad(loss)(net)
        optimizer.update(net, slopes)
        return value

    return net, step


def batches(count: int, wrong: set[int]) -> list[tuple[Any, Any]]:
    """Tokens and targets; in those of the numbers ``wrong`` one token is out of range, another one in each."""
    rng, found = np.random.default_rng(2), []
    for k in range(count):
        tokens = rng.integers(0, ROWS, BATCH)
        if k in wrong:
            tokens[k % BATCH] = ROWS + k
        found.append((tokens, rng.normal(size=(BATCH, WIDTH)).astype(np.float32)))
    return found


def state(net: Net) -> list[np.ndarray]:
    return [net.table.numpy().copy(), net.bias.numpy().copy()]


def test_steps_of_an_embedding_run_ahead(card: Card) -> None:
    """Nobody waits, whoever keeps the losses; and what runs again in the same memory is replayed."""
    device, driver = card
    data = batches(1, set())[0]
    net, step = trainer()
    want = [float(step(*map(wf.array, data))) for _ in range(30)]
    expected = state(net)
    net, step = trainer()
    with wf.device("gpu"):
        given = [wf.array(x) for x in data]
        losses = [step(*given) for _ in range(3)]
        waits, looks = driver.waits, driver.log.count("download")
        losses += [step(*given) for _ in range(17)]
        for _ in range(10):
            last = step(*given)
        assert driver.waits == waits and driver.log.count("download") == looks
        assert device.replays > 0
        np.testing.assert_allclose([*map(float, losses), float(last)], [*want[:20], want[-1]], rtol=1e-4)
        for a, b in zip(state(net), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def reference(data: list[tuple[Any, Any]]) -> tuple[list[float | None], list[np.ndarray]]:
    """Losses and state on the CPU, where each wrong step is refused; None for these."""
    net, step = trainer()
    losses: list[float | None] = []
    for tokens, wanted in data:
        try:
            losses.append(float(step(wf.array(tokens), wf.array(wanted))))
        except IndexError:
            losses.append(None)
    return losses, state(net)


@pytest.mark.parametrize("seed", range(12))
def test_a_wrong_step_changes_nothing_and_is_told_once(card: Card, seed: int) -> None:
    """Random steps are wrong, and what was asked for is looked at now and then: the state is that of the other steps alone, each
    wrong step is told once by a look or a later step, which then has done nothing, and its own result each time."""
    _, driver = card
    rng = np.random.default_rng(seed)
    count = 20
    wrong = set(rng.choice(np.arange(3, count), rng.integers(1, 5), replace=False).tolist())
    data = batches(count, wrong)
    want, expected = reference(data)
    net, step = trainer()
    told: list[int] = []

    def hear(error: IndexError) -> None:
        index = re.match(r"index (\d+) is out of bounds for axis 0 with size 7.*test_pending_checks\.py", str(error))
        assert index is not None and error.__notes__, error
        told.append(int(index[1]) - ROWS)

    with wf.device("gpu"):
        given = [(wf.array(t), wf.array(w)) for t, w in data]
        losses: list[Any] = []
        for k, pair in enumerate(given):
            while True:
                try:
                    losses.append(step(*pair))
                    break
                except IndexError as error:
                    if "__notes__" not in vars(error):  # the first step after tracing waits, and is told at once
                        assert k in wrong
                        losses.append(None)
                        told.append(k)
                        break
                    hear(error)
            if rng.random() < 0.2:
                driver.synchronise()  # the card has come so far, and the host does not look
            if rng.random() < 0.1:
                try:
                    losses[-1] is not None and float(losses[-1])
                except IndexError as error:
                    hear(error)
        while True:
            try:
                wf.eval(net.bias)
                break
            except IndexError as error:
                hear(error)
        assert sorted(told) == sorted(wrong)
        for a, b in zip(state(net), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
        for k, loss in enumerate(losses):
            if k not in wrong:
                assert float(loss) == pytest.approx(want[k], rel=1e-3)
            elif loss is not None:
                for _ in range(2):
                    with pytest.raises(IndexError, match=f"index {ROWS + k} is out of bounds"):
                        float(loss)


def test_what_is_made_of_doubtful_results_is_in_doubt(card: Card) -> None:
    device, driver = card
    _, step = trainer()
    total = wf.array(np.zeros((), np.float32))
    double = wf.jit(lambda x: x * 2)

    @wf.jit
    def add(x: Any) -> None:
        total[...] = total + x

    with wf.device("gpu"):
        good, wrong = [tuple(map(wf.array, pair)) for pair in batches(2, {1})]
        for _ in range(3):
            double(double(step(*good)))
        add(wf.array(1.0)), add(wf.array(1.0))
        waits = driver.waits
        twice = double(double(step(*wrong)))
        assert driver.waits == waits
        loss = step(*good)
        with pytest.raises(IndexError, match="index 8"):
            add(twice)  # writes in place what nobody could take back, so it waits for the outcome
        assert driver.waits == waits + 1 and float(total) == 2.0
        for look in (float, lambda x: (x + 1).numpy(), lambda x: x.__dlpack__(), add):
            with pytest.raises(IndexError, match="index 8"):
                look(twice)
        assert float(loss) > 0 and float(total) == 2.0
        add(loss)
        assert float(total) == pytest.approx(2.0 + float(loss))
        del twice
        gc.collect()
        assert not device.checks._failed_results and not device.checks._waiting


def random_step(seed: int) -> tuple[list[Any], Any, bool]:
    """Arrays, and a jitted function that writes some of them with what it reads of a table at indices, each in one of many ways;
    whether it reads at its second indices."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([1, 3, 40]))
    rows = int(rng.choice([1, 5, 300]))
    states = [wf.array(rng.normal(size=shape).astype(np.float32)) for shape in ((rows, width), (width,), (), (rows,))]
    chosen = [int(k) for k in rng.choice(4, rng.integers(1, 4), replace=False)]
    ways = [int(k) for k in rng.integers(0, 4, 4)]
    reduce = (
        lambda x: x.sum(), lambda x: x.mean(axis=0).max(), lambda x: (x @ x.T).sum(), lambda x: wf.cumsum(x, axis=0)[-1, 0],
    )

    @wf.jit
    def step(table: Any, at: Any, other: Any) -> Any:
        rows_of = wf.tanh(table[at])
        for k in chosen:
            state, number = states[k], reduce[ways[k]](rows_of)
            if ways[k] == 3:
                number = number * table[other].sum()  # another check, behind the first
            if k == 0 and ways[k] < 2:
                state[...] = wf.nn.softmax(state + number, -1)
            elif k == 3 and ways[k] == 2:
                state[...] = state / (state.sum() + number)
            else:
                state[...] = state * 0.5 + number
        return rows_of.sum() + states[chosen[0]].sum()

    return states, step, 3 in [ways[k] for k in chosen]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("device", ["gpu", "gpu-sim"])
@pytest.mark.parametrize("seed", range(24))
def test_no_array_changes_where_an_index_is_wrong(card: Card, device: str, seed: int) -> None:
    """Whatever launches a step becomes, and whether they write in place: as on the CPU."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(6, int(rng.choice([2, 33])))).astype(np.float32)
    good = [np.array([0, 5, 2, 2]), np.array([1, 3])]
    expected, on_cpu, second = random_step(seed)
    wrong = [good[0], np.array([1, 6])] if second and seed % 2 else [np.array([0, 5, 2, 6]), good[1]]
    for _ in range(3):
        on_cpu(wf.array(table), *map(wf.array, good))
    states, step, _ = random_step(seed)
    with wf.device(device):
        for _ in range(3):
            step(wf.array(table), *map(wf.array, good))
        for turn in range(2):
            before = [s.numpy().copy() for s in states] if turn else []  # at first nobody has looked
            with pytest.raises(IndexError, match="index 6 is out of bounds"):
                float(step(wf.array(table), *map(wf.array, wrong)))
            for k, state in enumerate(states):
                if turn:
                    np.testing.assert_array_equal(state.numpy(), before[k])
                else:
                    np.testing.assert_allclose(state.numpy(), expected[k].numpy(), rtol=1e-3, atol=1e-4)


def test_many_steps_ahead_wait_for_the_oldest(card: Card) -> None:
    _, driver = card
    _, step = trainer()
    data = [wf.array(x) for x in batches(1, set())[0]]
    with wf.device("gpu"):
        for _ in range(3):
            loss = step(*data)
        float(loss)
        waits = driver.waits
        for _ in range(SLOTS):
            loss = step(*data)
        assert driver.waits == waits
        step(*data)
        assert driver.waits == waits + 1


def test_what_is_not_written_in_place_is_given_its_content_back(card: Card) -> None:
    """An argument that is written, a content that somebody else holds too, and arrays whose contents change places."""
    _, driver = card
    a, b = (wf.array(np.arange(3, dtype=np.float32) + k) for k in range(2))

    @wf.jit
    def put(x: Any, y: Any, at: Any) -> None:
        x[...] = y[at]

    @wf.jit
    def swap(x: Any, at: Any) -> Any:
        kept = a[...] + 0
        a[...] = b
        b[...] = kept
        return x[at]

    def heard(call: Any) -> None:
        with pytest.raises(IndexError, match="index 5"):
            call()

    with wf.device("gpu"):
        x, y = wf.array(np.zeros(2, np.float32)), wf.array(np.arange(5, dtype=np.float32))
        good, wrong = wf.array(np.array([1, 4])), wf.array(np.array([1, 5]))
        for _ in range(4):
            put(x, y, good)
            swap(y, good)
        before = [v.numpy().copy() for v in (x, a, b)]
        waits = driver.waits
        put(x, y, wrong)
        assert driver.waits == waits
        heard(lambda: wf.eval(y))
        heard(lambda: swap(y, wrong))  # what arrays hold changes beside outputs: it is told at once
        for v, kept in zip((x, a, b), before, strict=True):
            np.testing.assert_array_equal(v.numpy(), kept)
        net, step = trainer()
        right, false = [tuple(map(wf.array, pair)) for pair in batches(2, {1})]
        for _ in range(3):
            step(*right)
        held = net.table + 0  # pending: it reads the content that the next step would write over
        loss = step(*false)
        with pytest.raises(IndexError, match="index 8"):
            float(loss)
        np.testing.assert_array_equal(held.numpy(), net.table.numpy())
