"""Without a launcher: one rank, no MPI, and the same checks of arguments as on several ranks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError, ShapeError


def test_one_rank_loads_no_mpi() -> None:
    code = (
        "import sys, weft as wf\n"
        "wf.jit(lambda x: x + 1)(wf.ones(3)).numpy()\n"
        "assert not [m for m in sys.modules if m.startswith('weft.dist')], 'weft.dist is loaded by import weft'\n"
        "x = wf.jit(lambda x: wf.dist.all_sum(x))(wf.ones(3))\n"
        "assert wf.dist.size() == 1 and x.tolist() == [1, 1, 1]\n"
        "assert 'mpi4py' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_rank_adds_no_steps() -> None:
    x = wf.asarray(np.random.default_rng().normal(size=(1, 1000)).astype("float32"))

    def without(x):
        return (x * 2).sum(), x.reshape(1, 1, 1000), x[0]

    def within(x):
        d = wf.dist
        return d.all_sum(d.broadcast(x) * 2).sum(), d.all_gather(d.all_to_all(x)), d.reduce_scatter(x)

    plain, jitted = wf.jit(without), wf.jit(within)
    for a, b in zip(plain(x), jitted(x), strict=True):
        assert a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
    before = wf.counters()["entries"]
    plain(x)
    middle = wf.counters()["entries"]
    jitted(x)
    assert wf.counters()["entries"] - middle == middle - before
    wf.dist.barrier()
    assert np.allclose(wf.grad(lambda x: (wf.dist.all_sum(x) ** 2).sum())(x).numpy(), 2 * x.numpy())


@pytest.mark.parametrize(
    ("call", "error", "texts"),
    [
        (lambda d: d.all_sum(wf.array([True])), DTypeError, ["all_sum: x is bool[1]", "cast it"]),
        (lambda d: d.reduce_scatter(wf.ones(3)), ShapeError, ["reduce_scatter: x has shape (3,)", "1 rows"]),
        (lambda d: d.all_to_all(wf.array(1.0)), ShapeError, ["all_to_all: x has shape ()"]),
        (lambda d: d.broadcast(1.0, root=1), ValueError, ["broadcast: root is 1, but the ranks are 0 to 0"]),
        (lambda d: d.broadcast(1.0, root=0.5), TypeError, ["broadcast: root is 0.5"]),
        (lambda d: d.broadcast(1.0, root=True), TypeError, ["broadcast: root is True"]),
        (lambda d: d.send(1.0, to=0), ValueError, ["send: to is 0, this rank itself"]),
        (lambda d: d.recv(1.0, source=-1), ValueError, ["recv: source is -1"]),
        (lambda d: d.all_sum(1.0, group=[0]), TypeError, ["all_sum: group is [0]", "wf.dist.group"]),
        (lambda d: d.group([]), ValueError, ["group: ranks is []"]),
        (lambda d: d.group([0, 0]), ValueError, ["each once"]),
        (lambda d: d.group([1]), ValueError, ["group: ranks[0] is 1, but the ranks are 0 to 0"]),
        (lambda d: d.group(3), TypeError, ["group: ranks is 3"]),
        (lambda d: d.group([False]), TypeError, ["group: ranks[0] is False, but must be the number of a rank"]),
        (lambda d: d.Group((0, 7)), ValueError, ["group: ranks[1] is 7, but the ranks are 0 to 0"]),
        (lambda d: d.average([1.0], 3), TypeError, ["average: gradients has 1.0 (float)", "Arrays only"]),
        (lambda d: d.average(wf.arange(3), 3), DTypeError, ["average: gradients has a int64[3] array"]),
        (lambda d: d.average(wf.ones(3), -1), ValueError, ["average: rows is -1"]),
        (lambda d: d.average(wf.ones(3), 0.5), TypeError, ["average: rows is 0.5"]),
        (lambda d: d.average(wf.ones(3), wf.ones(2)), ShapeError, ["average: rows has shape (2,)"]),
        (lambda d: d.init(patience=0), ValueError, ["init: patience is 0"]),
        (lambda d: d.init(patience="long"), ValueError, ["init: patience is 'long'"]),
    ],
)
def test_bad_arguments(call, error: type[Exception], texts: list[str]) -> None:
    with pytest.raises(error) as caught:
        call(wf.dist)
    for text in texts:
        assert text in str(caught.value), caught.value


def test_numbers_and_sequences_are_arrays() -> None:
    assert wf.dist.all_sum(2).dtype == wf.asarray(2).dtype and wf.dist.all_gather(np.arange(3)).shape == (1, 3)
    assert wf.dist.all_sum(wf.ones(3, dtype="bfloat16")).dtype == wf.bfloat16
