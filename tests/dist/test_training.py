"""``fit`` with shards: the same bits on 1, 2 and 3 ranks, also after a kill; what one rank does alone reaches the others."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from tests.dist.jobs import HERE, run_job
from weft.errors import DataError, DTypeError, ShapeError
from weft.train.shards import find_shard_rows

pytestmark = pytest.mark.xdist_group("jobs")
SCRIPT = HERE / "training.py"
SEED = random.randrange(10**6)


def test_random_runs_on_one_to_three_ranks() -> None:
    print("seed", SEED)
    outputs = [run_job(ranks, SCRIPT, "cases", SEED, 7) for ranks in (1, 2, 3)]
    hashes = [[re.findall(rf"\[{rank}\] hash (.*)", job.text) for rank in range(ranks)] for ranks, job in enumerate(outputs, 1)]
    assert len(hashes[0][0]) == 7, outputs[0].text
    for job, found in zip(outputs, hashes, strict=True):
        assert job.code == 0 and all(rank == hashes[0][0] for rank in found), (hashes, job.text)


def test_a_killed_run_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    print("seed", SEED)
    whole = run_job(1, SCRIPT, "run", tmp_path / "whole", SEED, -1)
    (expected,) = re.findall(r"hash (\w+)", whole.text)
    killed = run_job(3, SCRIPT, "run", tmp_path / "part", SEED, 8)
    assert killed.code == 9 and "rank 2 of 3 was ended by SIGKILL" in killed.text, killed.text
    shutil.copy(tmp_path / "part", tmp_path / "same")
    for name, ranks in (("part", 1), ("same", 2)):
        rest = run_job(ranks, SCRIPT, "run", tmp_path / name, SEED, -1)
        assert re.findall(r"hash (\w+)", rest.text) == [expected] * ranks, (expected, rest.text)
        assert [line.split(" ")[1:3] for line in rest.text.split("\n") if "loss" in line] == [["epoch", "2/3"], ["epoch", "3/3"]]
    assert len((tmp_path / "same.csv").read_text().split()) == 4
    assert (tmp_path / "same.best").read_bytes() == (tmp_path / "whole.best").read_bytes()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("net", ["norm", "cnn", "gpt"])
def test_the_example_prints_the_same_bits(net: str) -> None:
    script = Path(__file__).parents[2] / "examples" / "several_ranks.py"
    results = [run_job(ranks, script, "--net", net, "--epochs", 1) for ranks in (1, 2, 4)]
    found = [re.findall(r"(bits .*);", result.text) for result in results]
    assert len(found[0]) == 1 and found[0] == found[1] == found[2], found


def test_parts_of_gradients_are_exchanged_beside_the_program() -> None:
    found = []
    for ranks, parts, environment in (
        (1, 0, {}), (2, 2, {}), (3, 2, {}), (2, 0, {"WEFT_OVERLAP": "0"}), (2, 0, {"MPI4PY_RC_THREAD_LEVEL": "serialized"}),
    ):
        result = run_job(ranks, SCRIPT, "parts", **environment)
        lines = re.findall(r"begun (\[.*\]) (\w+)", result.text)
        # a part is a layer, whose bias is too short for one; the first layer's goes with the loss, after the program
        assert [counts for counts, _ in lines] == [str([parts, 2 * parts, 3 * parts])] * ranks, (ranks, environment, result.text)
        found += [bits for _, bits in lines]
    assert len(set(found)) == 1, found


def test_each_rank_keeps_its_part_of_the_state() -> None:
    result = run_job(3, SCRIPT, "bytes")
    texts = [re.findall(rf"\[{rank}\] bytes (.*)", result.text) for rank in range(3)]
    found = [[tuple(map(int, row.split())) for row in rows] for rows in texts]
    assert len(found[0]) == 3, result.text
    for rows in zip(*found, strict=True):
        (whole, slots), kept = rows[0][1:], [row[0] for row in rows]
        assert sum(kept) == whole and max(kept) <= whole / 3 + 2 * 16 * 4 * slots, rows


MODES = {  # mode: exit code and texts, of all ranks or of one
    "stop": (0, ["[{0}] ended 'a rank has had enough" + 300 * "!" + "' 1"]),
    "stop step": (0, ["[{0}] ended 'a rank has had enough' 0"]),
    "ctrl-c": (0, ["[{0}] ended 'Ctrl-C' 1"]),
    "not finite": (0, ["[{0}] ended 'the loss is not finite' 0", "It begins at step"]),
    "rate": (70, ["lr 0.05", "lr 0.1", "all ranks must ask for the same"]),
    "weights": (70, ["the end of epoch 1 of fit, with weights of checksum", "all ranks must ask for the same"]),
    "other data": (70, ["fit: rank 2 of 3 trains another model, or on other data, than rank 0: checksum of data"]),
    "few shards": (70, ["fit: shards=2, but this job has 3 ranks"]),
    "no shards": (70, ["fit: this job has 3 ranks: give shards="]),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("mode", MODES)
def test_ranks_decide_alike(mode: str) -> None:
    code, texts = MODES[mode]
    result = run_job(3, SCRIPT, mode)
    assert result.code == code, result.text
    for text in texts:
        assert all(text.format(rank) in result.text for rank in range(3)), result.text
    if not code:
        assert len(set(re.findall(r"\] ended (.*)", result.text))) == 1 and result.text.count("RuntimeWarning") <= 1, result.text


# ---- in this process


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 3)).astype("float32"), rng.integers(0, 2, rows).astype("int32")


def net(*layers: wf.nn.Module) -> wf.nn.Module:
    wf.random.seed(0)
    return wf.nn.Sequential(wf.nn.Linear(3, 5), *layers, wf.nn.Linear(5, 2))


def test_one_shard_is_fit_and_more_are_close_to_it(rng: np.random.Generator) -> None:
    batch_size, rows, found = int(rng.integers(5, 30)), int(rng.integers(30, 90)), []
    for shards in (None, 1, int(rng.integers(2, 40))):
        model = net(wf.nn.Tanh())
        options = dict(batch_size=batch_size, optimizer=wf.optim.SGD(0.1), shards=shards)
        history = wf.train.fit(model, *data(rows), epochs=2, show=False, **options)
        found.append((np.concatenate([p.numpy().reshape(-1) for p in model.parameters().values()]), history.loss))
    assert found[0][0].tobytes() == found[1][0].tobytes() and found[0][1] == found[1][1]
    assert np.allclose(found[0][0], found[2][0], rtol=1e-4, atol=1e-5) and np.allclose(found[0][1], found[2][1], rtol=1e-5)


def test_running_statistics_are_means_over_shards(rng: np.random.Generator) -> None:
    x, y = data(13)
    model = net(wf.nn.BatchNorm1d(5))
    start = model[0](wf.asarray(x)).numpy()
    wf.train.fit(model, x, y, epochs=1, batch_size=13, shards=4, optimizer=wf.optim.SGD(0.0), shuffle=False, show=False)
    parts = [start[slice(*find_shard_rows(13, 4, s))] for s in range(4)]
    mean = sum(len(p) / 13 * p.mean(0) for p in parts)
    variance = sum(len(p) / 13 * p.var(0, ddof=1) for p in parts)
    assert np.allclose(model[1].running_mean.numpy(), 0.1 * mean, atol=1e-5)
    assert np.allclose(model[1].running_var.numpy(), 0.9 + 0.1 * variance, atol=1e-5)


def test_each_shard_and_step_draws_its_own_numbers() -> None:
    seen: list[bytes] = []

    class Noise(wf.nn.Module):
        def forward(self, x: wf.Array) -> wf.Array:
            return x + wf.random.uniform(size=(x.shape[0], 1))

    x, y = data(12)
    model = wf.nn.Sequential(Noise(), wf.nn.Linear(3, 2))
    for epochs in (1, 2):
        wf.random.seed(5)
        model[1] = wf.nn.Linear(3, 2)
        wf.random.seed(5)
        options = dict(batch_size=12, shards=3, loss=lambda out, y: out[:, 0].mean())
        history = wf.train.fit(model, x * 0, y, epochs=epochs, show=False, **options)
        seen.append(repr(history.loss).encode())
    assert len(set(history.loss)) == 2 and seen[1].startswith(seen[0][:-1])


def test_checkpoints_of_another_run_are_refused(tmp_path: Path) -> None:
    x, y = data(40)

    def train(model: wf.nn.Module, x: np.ndarray, shards: int | None, epochs: int) -> None:
        path = tmp_path / "run"
        wf.train.fit(model, x, y, epochs=epochs, batch_size=10, shards=shards, checkpoint=path, resume=True, show=False)

    train(net(), x, 3, 1)
    for model, inputs, shards, text in (
        (net(), x, 4, "shards is 3 there, and 4 here"),
        (net(), x, None, "shards is 3 there, and 1 here"),
        (net(), x + 1, 3, "checksum of data is"),
        (net(wf.nn.BatchNorm1d(5)), x, 3, "the model's arrays are others"),
    ):
        with pytest.raises(DataError, match=re.escape(text)):
            train(model, inputs, shards, 2)
    train(net(), x, 3, 2)


class Records(wf.nn.Module):
    def __init__(self) -> None:
        self.last = wf.zeros(())

    def forward(self, x: wf.Array) -> wf.Array:
        self.last = x.mean()
        return x


class Counts(wf.optim.SGD):
    """Has a number for each parameter in its state."""

    def check(self) -> None:
        super().check()
        self.slots = ("count",)

    def start(self, slot: str, p: wf.Array) -> wf.Array:
        return wf.zeros(())

    def rule(self, p: wf.Array, g: wf.Array, state: dict, lr: float, t: wf.Array) -> tuple[wf.Array, dict]:
        return p - lr * g, {"count": state["count"] + 1}


def test_the_state_of_a_part_is_for_the_same_ranks_only(tmp_path: Path) -> None:
    (x, y), model, optimizer, other = data(20), net(), wf.optim.Adam(), net()
    options = dict(epochs=1, batch_size=10, shards=2, show=False)
    plain = wf.optim.Adam()
    for sharded in (None, "optimizer", "gradients"):  # the state of whole parameters is divided, that of parts is kept
        wf.train.fit(model, x, y, optimizer=optimizer, sharded=sharded, **options)
        wf.train.fit(other, x, y, optimizer=plain, **options)
    found = [b"".join(a.numpy().tobytes() for a in m.arrays().values()) for m in (model, other)]
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="fit: Adam keeps the state of another model"):
        wf.train.fit(wf.nn.Linear(3, 2), x, y, optimizer=optimizer, sharded="optimizer", **options)
    with pytest.raises(ValueError, match=re.escape("fit: Adam keeps part 0 of 1 of its state, from fit(sharded=...)")):
        wf.train.fit(model, x, y, optimizer=optimizer, **options)
    with pytest.raises(ValueError, match=re.escape("Adam: save: this is part 0 of 1 of the state")):
        optimizer.save(tmp_path / "state")
    wf.train.fit(model, x, y, optimizer=optimizer.init(model), **options)


def test_gradients_of_16_bits_are_close(rng: np.random.Generator) -> None:
    x, y = data(40)
    for shards in (2, 8):
        found = []
        for dtype in (None, "bfloat16", "float16"):
            model = net()
            before = np.concatenate([p.numpy().reshape(-1) for p in model.parameters().values()])
            options = dict(batch_size=40, epochs=1, optimizer=wf.optim.SGD(1.0), shards=shards)
            wf.train.fit(model, x, y, gradients_dtype=dtype, show=False, **options)
            found.append(np.concatenate([p.numpy().reshape(-1) for p in model.parameters().values()]) - before)
        for other, digits in zip(found[1:], (8, 11), strict=True):  # each of the log2(shards) + 1 levels rounds once
            bound = 2.0 ** -digits * (np.log2(shards) + 1) * abs(found[0]).max() * shards
            assert 0 < abs(other - found[0]).max() < bound


def test_refusals() -> None:
    x, y = data(22)
    normed = dict(model=net(wf.nn.BatchNorm1d(5)))
    stochastic = wf.optim.SGD(0.1, parameter_dtype="bfloat16", rounding="stochastic")
    stateful = wf.nn.Sequential(wf.nn.GRU(3, 4, batch_first=True, stateful=True))
    for options, error, text in (
        (dict(shards=0), ValueError, "fit: shards must be at least 1, not 0"),
        (dict(shards=2.0), DTypeError, "fit: shards must be an integer, not 2.0"),
        (dict(shards=True), DTypeError, "fit: shards must be an integer"),
        (dict(shards=2, optimizer=wf.optim.SAM(wf.optim.SGD(0.1))), ValueError, "fit: SAM computes each gradient twice"),
        (dict(shards=2, model=stateful, loss=lambda out, y: out[0].mean()), ValueError, "fit: layer '0' (GRU) is stateful"),
        (dict(shards=2, model=net(Records())), ValueError, "fit: the model writes '1.last' in its step"),
        (dict(shards=2, sharded="parameters"), ValueError, "fit: sharded must be None, 'optimizer' or 'gradients', not"),
        (dict(sharded="optimizer"), ValueError, "fit: sharded='optimizer' needs shards= of 2 or more"),
        (dict(gradients_dtype="bfloat16", shards=1), ValueError, "fit: gradients_dtype='bfloat16' needs shards= of 2 or more"),
        (dict(gradients_dtype="int8", shards=2), ValueError, "fit: gradients_dtype must be 'float32', 'float16' or 'bfloat16'"),
        (dict(shards=2, sharded="optimizer", optimizer=wf.optim.SantaE()), ValueError, "fit: SantaE draws random numbers"),
        (dict(shards=2, sharded="gradients", optimizer=stochastic), ValueError, "fit: SGD draws random numbers"),
        (dict(shards=2, sharded="optimizer", optimizer=Counts()), ValueError, "fit: Counts keeps 'count' of shape ()"),
        (dict(shards=4, batch_size=7) | normed, ShapeError, "a batch of 7 rows in 4 shards has shards of 1 row"),
        (dict(shards=2, batch_size=10) | normed, ShapeError, "a batch of 2 rows in 2 shards"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            wf.train.fit(options.pop("model", net()), x, y, epochs=1, show=False, **options)
