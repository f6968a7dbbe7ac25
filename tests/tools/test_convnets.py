"""``weft bench convnets``: nets have the published sizes; tables and files have the same figures."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from benchmarks.convnet_report import times
from benchmarks.convnet_worker import find_passes
from benchmarks.convnets import find_limit
from benchmarks.nets import DEFINITIONS, Block, Layer, Net, Weft, blocks, executed, forward, layers, shrink, weights
from weft.placement.device_figures import Machine
from weft.tools.cli import main

ALL = [(definition, name) for definition, nets in DEFINITIONS.items() for name in nets]
PUBLISHED = {  # GFLOP of a forward pass, number of parameters
    ("nervanagpu", "alexnet"): (178.275, 43_289_280), ("convnet-benchmarks", "alexnet"): (182.832, 61_100_840),
    ("nervanagpu", "overfeat"): (716.092, 141_740_064), ("convnet-benchmarks", "overfeat"): (717.159, 145_920_872),
    ("nervanagpu", "vgg-a"): (969.605, 98_797_248), ("convnet-benchmarks", "vgg-a"): (973.964, 132_863_336),
    ("nervanagpu", "vgg-e"): (2508.545, 109_598_400), ("convnet-benchmarks", "vgg-e"): (2512.904, 143_667_240),
    ("nervanagpu", "googlenet"): (405.164, 6_990_272), ("convnet-benchmarks", "googlenet"): (405.164, 6_998_552),
    ("nervanagpu", "resnet50"): (523.416, 25_557_032), ("convnet-benchmarks", "resnet50"): (523.416, 25_557_032),
}


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    """The command sets the number of threads of this process."""
    threads = wf.get_num_threads()
    yield
    wf.set_num_threads(threads)


@pytest.mark.parametrize("definition, name", ALL)
def test_operations_and_parameters_are_the_published_ones(definition: str, name: str) -> None:
    net = DEFINITIONS[definition][name]
    operations, count = PUBLISHED[definition, name]
    assert net.batch * sum(layer.flops for layer in layers(net)) / 1e9 == pytest.approx(operations, abs=6e-4)
    assert sum(prod(shape) for layer in layers(net) for shape in layer.parameters) == count


@pytest.mark.parametrize("definition, name", ALL)
def test_operations_of_each_layer_are_its_windows(definition: str, name: str) -> None:
    """Each filter is multiplied by each element of each window of the bordered image; NumPy makes the windows, without memory."""
    for layer in layers(DEFINITIONS[definition][name]):
        if layer.kind == "dense":
            expected = np.broadcast_to(0, layer.inside).size * layer.outside[0]
        elif layer.kind == "conv":
            side = layer.inside[1] + 2 * layer.padding
            image = np.broadcast_to(0, (layer.inside[0], side, side))
            windows = np.lib.stride_tricks.sliding_window_view(image, (layer.kernel, layer.kernel), (1, 2))
            expected = windows[:, :: layer.stride, :: layer.stride].size * layer.outside[0]
        else:
            expected = 0
        assert layer.flops == 2 * expected, layer


def meets(block: Block, before: tuple[int, ...]) -> bool:
    """Return whether the branches of a block read what the block before computed, and whether their results can be joined."""
    for branch in block.branches:
        if branch and branch[0].inside not in (before, (prod(before),)):
            return False
        if any(a.outside != b.inside for a, b in zip(branch, branch[1:], strict=False)):
            return False
    ends = [branch[-1].outside if branch else before for branch in block.branches]
    return len(set(ends)) == 1 if block.adds else len({end[1:] for end in ends}) == 1


@pytest.mark.parametrize("definition, name", ALL)
def test_branches_meet_and_one_gradient_is_not_computed(definition: str, name: str) -> None:
    net = DEFINITIONS[definition][name]
    found = layers(net)
    before: tuple[int, ...] = (3, net.side, net.side)
    for block in blocks(net):
        assert meets(block, before)
        before = block.outside
    assert before == (1000,) and len(blocks(net)) == len(net.text.split("|"))
    assert found[-1].relu == net.last_relu and len({layer.name for layer in found}) == len(found)
    assert 3 * sum(layer.flops for layer in found) - executed(net) == found[0].flops
    small = layers(shrink(net, 100, 8))
    assert [(a.kind, a.kernel) for a in found if a.kind != "mean"] == [(a.kind, a.kernel) for a in small if a.kind != "mean"]


def convolve(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    padded = np.pad(x, [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("bchwij,ocij->bohw", windows, w)


def numpys_layer(layer: Layer, x: np.ndarray, parameters: Sequence[np.ndarray]) -> np.ndarray:
    if layer.kind == "mean":
        return x.mean((2, 3), keepdims=True)
    if layer.kind == "norm":
        x = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
        x = x * parameters[0][:, None, None] + parameters[1][:, None, None]
    elif layer.kind == "conv":
        x = convolve(x, parameters[0], layer.stride, layer.padding)
        x = x + (parameters[1][:, None, None] if layer.bias else 0)
    else:
        x = x.reshape(len(x), -1) @ parameters[0].T + (parameters[1] if layer.bias else 0)
    return np.maximum(x, 0) if layer.relu else x


@pytest.mark.parametrize("biases", [False, True])
def test_a_net_with_bottlenecks_is_numpys(biases: bool) -> None:
    text = "normed 4 3 1 1|bottleneck 3 6 2|bottleneck 3 6 1|conv 5 3 1 1|mean 7 1|dense 4"
    net = Net(7, 3, text, biases=biases, last_relu=True)
    rng = np.random.default_rng()
    given = weights(net, rng)
    x = rng.normal(size=(3, 3, 7, 7))
    got = wf.jit(forward(net, Weft()))(wf.asarray(x.astype(np.float32)), [wf.asarray(w) for w in given]).numpy()
    left = iter([w.astype(np.float64) for w in given])
    for block in blocks(net):
        ends = []
        for branch in block.branches:
            y = x
            for layer in branch:
                y = numpys_layer(layer, y, [next(left) for _ in layer.parameters])
            ends.append(y)
        x = np.maximum(ends[0] + ends[1], 0) if block.adds else ends[0]
    np.testing.assert_allclose(got, x, rtol=1e-3, atol=1e-3)


def numbers(line: str) -> list[float]:
    """Return the columns of a line behind the shape."""
    return [float(cell) for cell in line.replace("%", "").split()[2:]]


def check_layer(found: dict[str, Any], layer: Layer, first: bool, line: str, batch: int, peak: float) -> None:
    """Check a layer's record, and its line of the table: ms, GFLOP/s in both conventions, and the share of the peak."""
    seconds = found["seconds"]["weft"]
    assert set(seconds) == {"forward", *find_passes(layer, first)} and all(t > 0 for t in seconds.values())
    assert found["multiply_adds"] * 2 == layer.flops and tuple(found["outside"]) == layer.outside
    forward, backward = times(seconds)
    assert forward == seconds["forward"] and forward + backward == pytest.approx(sum(seconds.values()))
    assert line.split()[:2] == [layer.name, "x".join(map(str, layer.outside))]
    *_, limit = line.split()
    assert limit == found["limit"] and (limit == "memory" or layer.flops)
    cells = numbers(line.removesuffix(limit))
    assert cells[:3] == pytest.approx([1e3 * forward, 1e3 * backward, 1e3 * sum(seconds.values())], abs=6e-4)
    if layer.flops:
        rate = batch * layer.flops * len(seconds) / sum(seconds.values())
        assert cells[3:] == pytest.approx([rate / 1e9, rate / 2e9, 100 * rate / peak], abs=0.51)
    else:
        assert len(cells) == 3


@pytest.mark.parametrize("batch", [1, 16])
def test_limits_of_layers(batch: int) -> None:
    """One image leaves a dense layer to memory, which reads its weights; 3x3 convolutions are limited by arithmetic."""
    limits = Machine("pinned", 1, 1e11, ((1 << 15, 1e11), (1 << 30, 1e10)))
    found = {layer.name: find_limit(layer, batch, limits) for layer in layers("vgg-a")}
    assert {found[f"conv{k}"] for k in range(2, 9)} == {"arithmetic"} and {found[f"pool{k}"] for k in range(1, 6)} == {"memory"}
    # 2 x batch x n x m operations against 4 x n x m bytes: as long where batch = 2 x 1e11 / 1e10 = 20
    assert found["dense1"] == "memory"
    assert find_limit(layers("vgg-a")[-3], 25, limits) == "arithmetic"


def test_table_json_and_picture_of_small_nets(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    files = [tmp_path / "bench.json", tmp_path / "bench.png"]
    options = ["--nets", "alexnet,googlenet", "--definition", "convnet-benchmarks"]
    options += ["--image", "64", "--narrow", "32", "--batch", "2"]
    chosen = ["--layers", "conv1,pool1,conv3,inc2.5x5,mean1,dense1", "--repeats", "2", "--threads", "1", "--cpu-time"]
    options += ["--algorithm", "winograd", "--precision", "bfloat16"]
    assert main(["bench", "convnets", *options, *chosen, "--json", str(files[0]), "--picture", str(files[1])]) == 0
    record = json.loads(files[0].read_text())
    figures = {"peak_flops", "memory_bytes_per_second"}
    settings = {"definition", "algorithm", "precision", "threads", "clock", "repeats"}
    assert set(record) == {"about", "versions", "nets"} | settings | figures
    assert record["versions"] == {"weft": wf.__version__} and record["definition"] == "convnet-benchmarks"
    assert (record["threads"], record["clock"], record["repeats"]) == (1, "cpu", 2) and record["peak_flops"] > 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert record["precision"] == "bfloat16" and any(line.count("64 x 64, bfloat16: ") for line in lines)
    assert record["algorithm"] == "winograd" and any(line.endswith("; winograd convolutions, 1 thread") for line in lines)
    for name in ("alexnet", "googlenet"):
        found, net = record["nets"][name], shrink(DEFINITIONS["convnet-benchmarks"][name], 64, 32)
        assert set(found) == {"batch", "image", "layers"} and (found["batch"], found["image"]) == (2, 64)
        every = layers(net)
        asked = [layer for layer in every if layer.name in chosen[1].split(",")]
        assert [layer["name"] for layer in found["layers"]] == [layer.name for layer in asked]
        head = next(k for k, line in enumerate(lines) if line.startswith(f"{name} of convnet-benchmarks, batch 2"))
        for layer, entry, line in zip(asked, found["layers"], lines[head + 4 :], strict=False):
            check_layer(entry, layer, layer is every[0], line, 2, record["peak_flops"])
        assert lines[head + 4 + len(asked)].startswith("sum of layers")
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_a_whole_net_and_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "bench.json"
    options = ["--nets", "alexnet", "--image", "64", "--narrow", "32", "--batch", "2", "--repeats", "1", "--json", str(file)]
    assert main(["bench", "convnets", *options]) == 0
    found = json.loads(file.read_text())["nets"]["alexnet"]
    assert set(found) == {"batch", "image", "layers", "whole", "memory"} and len(found["layers"]) == 11
    assert set(found["whole"]["weft"]) == {"forward", "step"} and min(found["whole"]["weft"].values()) > 0
    assert found["memory"]["weft"]["peak"] >= found["memory"]["weft"]["baseline"] > 1 << 20
    out = capsys.readouterr().out
    assert "images/s of a training step: weft" in out and "above what it had before: weft" in out


@pytest.mark.parametrize("arguments, says", [
    (["--nets", "lenet"], "no net 'lenet'; there are alexnet, overfeat, vgg-a, vgg-e, googlenet, resnet50"),
    (["--batch", "0"], "--batch must be at least 1"), (["--narrow", "-1"], "--narrow must be at least 1"),
    (["--nets", "alexnet", "--layers", "conv9"], "no layer 'conv9' in alexnet; there are conv1, pool1"),
    (["--cpu-time"], "--cpu-time is the time of one thread"),
    (["--image", "20"], "pool2 has a window of 3, its images a side of 1"),
    (["--nets", ""], "no net ''"), (["--nets", "alexnet", "--layers", ""], "no layer ''"),
    (["--json", "/nowhere/a.json"], "--json: there is no folder '/nowhere' for 'a.json'"), (["--json", "."], "'.' is a folder"),
    (["--json", ""], "the path is empty"),
    (["--peers"], "--peers needs PyTorch, which is not installed"), (["--picture", "x.png"], "--picture needs matplotlib"),
])
def test_refused(arguments, says, capsys, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["bench", "convnets", *arguments]) == 1
    shown = capsys.readouterr()
    assert says in shown.err and not shown.out


def test_an_unknown_definition_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "convnets", "--definition", "soumith"])
    assert "nervanagpu" in capsys.readouterr().err


@pytest.mark.drawn(2)
@pytest.mark.parametrize("script", ["eager", "first_figures", "language_model", "neural_ode", "training", "tiny"])
def test_other_benchmarks_refuse_a_file_that_cannot_be_written(script: str, tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "benchmarks" / f"{script}.py"
    done = subprocess.run([sys.executable, file, "--json", tmp_path / "none" / "x.json"], capture_output=True, text=True)
    assert done.returncode == 2 and "argument --json" in done.stderr and "there is no folder" in done.stderr, done
