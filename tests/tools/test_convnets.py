"""``weft bench convnets``: the nets are the published ones, and the table says what was measured."""

from __future__ import annotations

import subprocess
import sys
from math import prod

import pytest

from benchmarks.nets import NETS, blocks, executed, layers
from weft.tools.cli import main


@pytest.mark.parametrize("net, operations, weights", [
    ("alexnet", 178.275, 43.29), ("overfeat", 716.092, 141.7), ("vgg", 969.605, 98.8), ("googlenet", 405.164, 6.99),
])
def test_operations_and_weights_are_the_published_ones(net: str, operations: float, weights: float) -> None:
    found = layers(net)
    assert NETS[net][1] * sum(layer.flops for layer in found) / 1e9 == pytest.approx(operations, abs=6e-4)
    count = sum(
        layer.outside[0] * layer.inside[0] * (layer.kernel**2 if layer.kind == "conv" else 1)
        for layer in found if layer.kind in ("conv", "dense")
    )
    assert count / 1e6 == pytest.approx(weights, abs=0.1)


def test_branches_meet_and_one_gradient_is_not_computed() -> None:
    for net, (_, _, text) in NETS.items():
        before: tuple[int, ...] | None = None
        for block in blocks(net):
            for branch in block:
                assert before is None or branch[0].inside in (before, (prod(before),))
                assert all(a.outside == b.inside for a, b in zip(branch, branch[1:], strict=False))
            assert len({branch[-1].outside[1:] for branch in block}) == 1
            before = (sum(branch[-1].outside[0] for branch in block), *block[0][-1].outside[1:])
        assert before == (1000,) and len(blocks(net)) == len(text.split("|"))
        assert [layer.name for layer in layers(net) if layer.weight and not layer.relu] == [layers(net)[-1].name]
        assert 3 * sum(layer.flops for layer in layers(net)) - executed(net) == layers(net)[0].flops


_SMALL = """
import sys
from weft.tools.cli import main
from benchmarks.nets import NETS
NETS["small"] = (12, 8, "conv 4 3 1 1|pool 2 2|conv 6 3 2 0|inception 2 2 3 1 2 1|mean 2 1|dense 9|dense 9|dense 5")
sys.exit(main(["bench", "convnets", "--nets", "small", "--batch", "2"]))
"""


def test_table_of_a_small_net() -> None:
    """In a process of its own: the bench waits until all code of its process is as good as it gets."""
    done = subprocess.run([sys.executable, "-c", _SMALL], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "measured peak" in out and "small, batch 2, median of 10" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line and line.split()[0][-1].isdigit()}
    inception = ["1x1", "before3", "3x3", "before5", "5x5", "pool", "after"]
    within = [line.split()[0] for line in out.splitlines() if line.startswith("inc1.")]
    assert within == [f"inc1.{part}" for part in inception]
    assert [name for name in rows if name not in within] == ["conv1", "pool1", "conv2", "mean1", "dense1", "dense2", "dense3"]
    assert rows["conv1"][1] == "4x12x12" and rows["conv1"].count("-") == 1  # no gradient of the images
    assert rows["pool1"][1] == "4x6x6" and len(rows["pool1"]) == 5  # ms alone, no weights
    assert rows["inc1.3x3"][1] == "3x2x2" and rows["mean1"][1] == "8x1x1" and len(rows["mean1"]) == 5
    assert all(float(row[2]) > 0 for row in rows.values())
    assert len(rows["conv2"]) == 14 and "images/s" in out


@pytest.mark.parametrize("arguments, says", [
    (["--nets", "lenet"], "no net 'lenet'; there are alexnet, vgg, overfeat"), (["--batch", "0"], "--batch must be at least 1"),
])
def test_refused(arguments, says, capsys) -> None:
    assert main(["bench", "convnets", *arguments]) == 1
    assert says in capsys.readouterr().err
