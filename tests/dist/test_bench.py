"""``weft bench dist``: its formula, its measurements, and errors of options."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.dist.jobs import LAUNCH
from weft.tools.cli import main
from weft.tools.scaling import NODES, Network, find_efficiency, fit_network

pytestmark = pytest.mark.xdist_group("jobs")


def test_the_formula(rng: np.random.Generator) -> None:
    latency, bandwidth = 10 ** rng.uniform(-6, -3), 10 ** rng.uniform(8, 11)
    network = Network(latency, bandwidth)
    for ranks in (2, 4, 8, 64, 1024):
        levels, seconds = int(np.log2(ranks)), latency  # the agreement
        for k in range(levels):  # halves, then quarters, ...; and back
            seconds += 2 * (latency + 1e8 / 2 ** (k + 1) / bandwidth)
        assert np.isclose(network.sum_seconds(10**8, ranks), seconds)
        assert np.isclose(network.sum_seconds(100, ranks), latency + levels * (latency + 100 / bandwidth))
        found = fit_network((8, network.sum_seconds(8, ranks)), (10**9, network.sum_seconds(10**9, ranks)), ranks)
        assert np.isclose(found.latency, latency, rtol=0.1) and np.isclose(found.bandwidth, bandwidth, rtol=0.1)
    efficiencies = [find_efficiency(network, 0.1, 10**7, n) for n in NODES]
    assert efficiencies == sorted(efficiencies, reverse=True) and 0 < efficiencies[-1] < efficiencies[0] < 1
    assert find_efficiency(network, 0.1, 10**7, 2, 0.1) < 0.5


def test_figures_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--latency-us 30 --gbytes-per-s 2.8 --step-ms 275 --mbytes 244"
    assert main(["bench", "dist", *options.split()]) == 0
    nodes, efficiency = (line.split()[1:] for line in capsys.readouterr().out.split("\n")[1:3])
    found = dict(zip(nodes, efficiency, strict=True))
    assert [found[n] for n in ("2", "8", "128", "1,024")] == ["76%", "64%", "61%", "61%"]


MODEL = """
import numpy as np, weft as wf
def make():
    return wf.nn.Linear(3, 2), np.ones((7, 3)), np.ones((7, 2), "float32"), wf.losses.mse
def none():
    return 3
"""


def test_a_model_is_measured(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = subprocess.run(
        [*LAUNCH[:-1], "bench", "dist", "--model", f"{tmp_path}/model.py:make"], capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 0, done
    lines = [line.removeprefix("[0] ") for line in done.stdout.splitlines()]
    assert [line[:22].strip() for line in lines[:3]] == ["a sum of", "measured, 2 ranks", "by the formula"], done
    assert len({len(line) for line in lines[:3]}) == 1 and "a step of 7 rows, 8 parameters: " in done.stdout, done
    assert "with 32 B of gradients" in done.stdout and len(re.findall(r"\d%", lines[-1])) == 10, done


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-n", "1"], "-n is 1, but messages need at least 2 ranks"),
        (["--mbytes", "-3"], "--mbytes is -3, but must be positive"),
        (["--model", "nothing"], "must be FILE:FUNCTION, such as train.py:make"),
        (["--model", "{}:other"], "has no function 'other'"),
        (["--model", "{}:none"], "must return (net, x, y) or (net, x, y, loss), not int"),
        (["--hosts", "a,b,c"], "-n is 2, but --hosts names 3 hosts"),
    ],
)
def test_bad_options(options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    assert main(["bench", "dist", *(option.format(tmp_path / "model.py") for option in options)]) == 1
    assert text in capsys.readouterr().err
