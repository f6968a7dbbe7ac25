"""``weft bench convnets``: the nets are the published ones, and the table says what was measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft.tools import bench
from weft.tools.cli import main


@pytest.mark.parametrize("net, operations, weights", [
    ("alexnet", 178.275, 43.29), ("overfeat", 716.092, 141.7), ("vgg", 969.605, 98.8),
])
def test_operations_and_weights_are_the_published_ones(net: str, operations: float, weights: float) -> None:
    layers = bench.layers(net)
    assert bench.NETS[net][1] * sum(layer.flops for layer in layers) / 1e9 == pytest.approx(operations, abs=6e-4)
    count = sum(
        layer.outside[0] * layer.inside[0] * (layer.kernel**2 if layer.kind == "conv" else 1)
        for layer in layers if layer.kind != "pool"
    )
    assert count / 1e6 == pytest.approx(weights, abs=0.1)


_SMALL = """
import sys
from weft.tools import bench
from weft.tools.cli import main
bench.NETS["small"] = (12, 8, "conv 4 3 1 1|pool 2 2|conv 6 3 2 0|dense 9|dense 9|dense 5")
sys.exit(main(["bench", "convnets", "--nets", "small", "--batch", "2"]))
"""


def test_table_of_a_small_net() -> None:
    """In a process of its own: the bench waits until all code of its process is as good as it gets."""
    done = subprocess.run([sys.executable, "-c", _SMALL], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "measured peak" in out and "small, batch 2, median of 10" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line and line.split()[0][-1].isdigit()}
    assert list(rows) == ["conv1", "pool1", "conv2", "dense1", "dense2", "dense3"]
    assert rows["conv1"][1] == "4x12x12" and rows["conv1"].count("-") == 1  # no gradient of the images
    assert rows["pool1"][1] == "4x6x6" and len(rows["pool1"]) == 5  # ms alone, no weights
    assert all(float(row[2]) > 0 for row in rows.values())
    assert len(rows["conv2"]) == 14 and "images/s" in out


@pytest.mark.parametrize("arguments, says", [
    (["--nets", "lenet"], "no net 'lenet'; there are alexnet, vgg, overfeat"), (["--batch", "0"], "--batch must be at least 1"),
])
def test_refused(arguments, says, capsys) -> None:
    assert main(["bench", "convnets", *arguments]) == 1
    assert says in capsys.readouterr().err
