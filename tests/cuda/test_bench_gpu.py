"""``weft bench gpu``: every step from end to end on gpu-sim and over the stub, numbers beside NumPy's, and what goes wrong."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import attention, command, convnets, convolutions, launch, products, record, shares, small
from benchmarks.gpu.setting import normal
from benchmarks.gpu.steps import NAMES
from benchmarks.nets import blocks
from tests.cuda.bench_running import bench, over_the_stub, step
from tests.oracle import assert_close
from weft.placement.device_figures import pinned_machines

pytest.importorskip("triton")

BY = ("clock", "events")


# ---- all steps, from end to end


def rows_of(found: dict[str, Any], word: str = "") -> list[tuple[str, dict[str, Any]]]:
    return [(name, row) for name, row in found["rows"].items() if word in name]


def check_every_step_is_done_and_says_where(results: dict[str, dict[str, Any]]) -> None:
    for name, found in results.items():
        assert (found["step"], found["status"], found["left"], found["doing"]) == (name, "done", [], None)
        about = found["about"]
        assert about["device"] in ("gpu", "gpu-sim") and {"weft", "numpy", "triton"} <= about["versions"].keys()
        assert found["rows"] or name == "sanitizer"
        assert all("error" not in row and row.get("right", True) is True for row in found["rows"].values())
    for found in (r for name, r in results.items() if name not in ("load", "sanitizer", "crossover")):
        assert all(row["right"] is True and row.get("worst", 0) <= 1 for row in found["rows"].values())
    assert any("compute-sanitizer" in note for note in results["sanitizer"]["notes"])


def check_times_are_there(results: dict[str, dict[str, Any]]) -> None:
    for name, keys in {
        "shares": ["weft"], "products": ["weft"], "convolutions": ["weft"], "attention": ["weft"], "small": ["weft", "cpu"],
        "convnets": ["forward", "step"], "crossover": ["resident", "with copies", "cpu"], "launch": ["one by one"],
    }.items():
        for row_name, row in rows_of(results[name]):
            if row_name != "figures":
                for key in keys:
                    t = row[key]
                    assert 0 < t["low"] <= t["median"] <= t["high"] and t["runs"] >= 2 and t["by"] in BY, row_name
    assert all(row["s an epoch"] > 0 and row["cpu s an epoch"] > 0 for row in results["learner"]["rows"].values())


def check_right_is_said_of_many_programs(results: dict[str, dict[str, Any]]) -> None:
    loaded = results["load"]["rows"]
    assert loaded["printing"]["texts"] == sum(row["loaded"] for name, row in loaded.items() if name != "printing") > 5
    assert sum(row["cases"] for row in results["primitives"]["rows"].values()) > 30
    scatters = results["scatters"]["rows"]
    assert {"set float32", "add float16", "scatter, samples"} <= scatters.keys()
    assert all(row["runs"] == 3 and row["different"] == 0 for row in scatters.values())


def check_chains_and_graphs(results: dict[str, dict[str, Any]]) -> None:
    start, turn = launch.matrices()
    for name, row in rows_of(results["launch"], "kernel"):
        length = int(name.split()[0])
        want = np.linalg.multi_dot([start.astype(np.float64), *[turn.astype(np.float64)] * length])
        assert_close(np.array(row["sample"], np.float32), want[0, :4], terms=16 * length, scale=4.0)
        assert row["launches"] == length and ("graph" in row) == (results["launch"]["about"]["device"] == "gpu" and length > 1)


def check_products_are_numpys(results: dict[str, dict[str, Any]]) -> None:
    found = results["products"]
    assert {name.split()[0] for name in found["rows"]} >= {"float32", "float16", "bfloat16", "float64"}
    for name, row in rows_of(found):
        kind, n = name.split()
        if kind in ("float32", "float16", "bfloat16", "float64"):
            a, b = products.operands(kind, int(n))
            want = a[0].astype(np.float64) @ b.astype(np.float64)
            assert_close(np.array(row["sample"]).astype(a.dtype), want[:4], terms=int(n), scale=10.0)
            assert row["weft GFLOP/s"] == pytest.approx(2e-9 * int(n) ** 3 / row["weft"]["median"])


def check_what_moves_data_is_numpys(results: dict[str, dict[str, Any]]) -> None:
    for name, work in shares.works(True).items():
        for dtype in ("float32", "float16"):
            row = results["shares"]["rows"][f"{name} {dtype}"]
            x = normal(work.shape, 3, dtype)
            want = work.want(x.astype(np.float64)).reshape(-1)[:4]
            size = float(np.abs(x).sum() ** 0.5)
            assert_close(np.array(row["sample"]).astype(x.dtype), want, terms=max(work.terms, 4), scale=size)
            assert row["share of copy"] > 0


def conv(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,kcij->nkhw", patches, w.astype(np.float64))


def check_convolutions_are_numpys(results: dict[str, dict[str, Any]]) -> None:
    for layer in convolutions.TINY:
        for dtype in ("float32", "float16"):
            g = convolutions.given(layer, 2, dtype)
            rows = results["convolutions"]["rows"]
            sample = np.array(rows[f"{layer.name} forward {dtype}"]["sample"]).astype(g.x.dtype)
            want = conv(g.x, g.w, g.stride, g.padding)
            assert_close(sample, want.reshape(-1)[:4], terms=27, scale=5.0)
            for part, given in (("input gradient", "x"), ("weight gradient", "w")):
                sample = np.array(rows[f"{layer.name} {part} {dtype}"]["sample"])
                for k in range(4):  # a convolution is linear in both: a derivative is what one element of it gives
                    one = np.zeros_like(getattr(g, given), np.float64)
                    one.reshape(-1)[k] = 1
                    out = conv(one, g.w, g.stride, g.padding) if given == "x" else conv(g.x, one, g.stride, g.padding)
                    assert_close(sample[k].astype(g.x.dtype), (out * g.dy.astype(np.float64)).sum(), terms=72, scale=8.0)


def numpys_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    p = np.exp(scores)
    return p / p.sum(1, keepdims=True) @ v


def check_attention_is_numpys(results: dict[str, dict[str, Any]]) -> None:
    for name, row in rows_of(results["attention"]):
        length, dtype = int(name.split()[0]), name.split()[-1]
        q, k, v, dy = (a[0, 0].astype(np.float64) for a in attention.given(True, length, dtype))
        attend = functools.partial(numpys_attention, k=k, v=v, causal="causal" in name)
        want = attend(q)[0]
        if "gradients" in name:
            for i in range(4):
                step = np.zeros_like(q)
                step[0, i] = 1e-6
                want[i] = ((attend(q + step) - attend(q - step)) * dy).sum() / 2e-6
        kind = np.float16 if dtype == "float16" else np.float32
        assert_close(np.array(row["sample"]).astype(kind), want[:4], terms=length, scale=4.0)


def numpys_net(net: Any, x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    left = iter(weights)
    for block in blocks(net):
        ends = []
        for branch in block.branches:
            y = x
            for layer in branch:
                if layer.weight is None:
                    pad = [(0, 0), (0, 0), (layer.padding,) * 2, (layer.padding,) * 2]
                    fill = -np.inf if layer.kind == "pool" else 0.0
                    windows = np.lib.stride_tricks.sliding_window_view(
                        np.pad(y, pad, constant_values=fill), (layer.kernel, layer.kernel), (2, 3),
                    )[:, :, :: layer.stride, :: layer.stride]
                    y = (np.max if layer.kind == "pool" else np.mean)(windows, axis=(4, 5))
                else:
                    w = next(left)
                    y = conv(y, w, layer.stride, layer.padding) if layer.kind == "conv" else y.reshape(len(y), -1) @ w.T
                    y = np.maximum(y, 0) if layer.relu else y
            ends.append(y)
        x = np.concatenate(ends, axis=1)
    return x


def check_whole_nets_are_numpys(results: dict[str, dict[str, Any]]) -> None:
    for name, net in convnets.QUICK.items():
        images, weights = convnets.given(net)
        want = numpys_net(net, images.astype(np.float64), [w.astype(np.float64) for w in weights]).reshape(-1)
        assert np.count_nonzero(want) > want.size // 2
        row = results["convnets"]["rows"][f"{name} float32"]
        np.testing.assert_allclose(row["sample"], want[:4], rtol=1e-4, atol=1e-5)
        assert row["step"]["median"] > 0 and row["published GFLOP/s"] > row["done GFLOP/s"] > 0
    images, weights = convnets.given(convnets.QUICK["vgg-a"])
    want = numpys_net(convnets.QUICK["vgg-a"], images, weights).reshape(-1)
    np.testing.assert_allclose(results["convnets"]["rows"]["vgg-a float16"]["sample"], want[:4], rtol=0.05, atol=0.02)


def check_losses_of_small_steps_are_numpys(results: dict[str, dict[str, Any]]) -> None:
    for batch in (1, 101):
        w = [a.astype(np.float64) for a in small.small_weights()]
        x, y = normal((batch, 3), 3), normal((batch, 3), 4)
        want = ((np.tanh(x @ w[0].T + w[1]) @ w[2].T + w[3] - y) ** 2).mean()
        losses = results["small"]["rows"][f"3-100-3, batch {batch}"]["losses"]
        assert losses[0] == pytest.approx(want, rel=1e-5) and losses[2] < losses[1] < losses[0]
    for row in [results["small"]["rows"]["transformer"], *results["learner"]["rows"].values()]:
        assert row["losses"][-1] < row["losses"][0]


def check_figures_are_a_profile(results: dict[str, dict[str, Any]]) -> None:
    rows = results["crossover"]["rows"]
    device = results["crossover"]["about"]["device"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(rows["figures"]["profile"], file)
        file.flush()
        assert pinned_machines(file.name).keys() == {"cpu", device}
    for name, row in rows_of(results["crossover"], " x "):
        n = int(name.split()[0])
        want = normal((n, n), 21)[0].astype(np.float64) @ normal((n, n), 22)
        assert_close(np.array(row["sample"], np.float32), want[:4], terms=n, scale=5.0)
        assert row["cpu estimated ms"] < row["resident estimated ms"] < row["with copies estimated ms"]
        assert row["auto takes"] == "cpu" and row["quicker"] in ("cpu", device)


CHECKS: tuple[Callable[[dict[str, dict[str, Any]]], None], ...] = (
    check_every_step_is_done_and_says_where,
    check_times_are_there,
    check_right_is_said_of_many_programs,
    check_chains_and_graphs,
    check_products_are_numpys,
    check_what_moves_data_is_numpys,
    check_convolutions_are_numpys,
    check_attention_is_numpys,
    check_whole_nets_are_numpys,
    check_losses_of_small_steps_are_numpys,
    check_figures_are_a_profile,
)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("device", ["gpu-sim", "gpu"])
def test_all_steps(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick run, on the interpreter and over the stub; in one test, for it takes a minute."""
    monkeypatch.setenv("PATH", str(tmp_path))  # no tools of NVIDIA's
    if device == "gpu":
        over_the_stub(monkeypatch)
    status = bench(tmp_path, "--quick", "--minutes", "60", device=device)
    results = {name: step(tmp_path, name) for name in NAMES}
    for check in CHECKS:
        check(results)
    assert status == 0


# ---- what goes wrong


def test_a_row_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """It raises, its process dies, or the device is lost: the next rows are measured, where need be by another process."""
    over_the_stub(monkeypatch, "FAULTS")
    assert bench(tmp_path, "--only", "attention,launch") == 1
    for name in ("attention", "launch"):
        found = step(tmp_path, name)
        rows = found["rows"]
        assert list(rows) == ["first", "raises", "dies", "loses", "last"] and found["status"] == "done"
        assert rows["raises"]["error"] == "ValueError: what is wrong" and "died of SIGSEGV" in rows["dies"]["error"]
        assert "illegal memory access" in rows["loses"]["error"]
        assert rows["first"]["right"] is rows["last"]["right"] is True and rows["first"]["process"] != rows["last"]["process"]
    out = capsys.readouterr().out
    assert "no figures: raises (ValueError: what is wrong), dies (its process died of SIGSEGV" in out and "NOT RIGHT" not in out
    assert f"`--resume --out {tmp_path}` tries once more what failed" in out and out.index("launch: ") < out.index("attention: ")
    assert "ValueError: what is wrong" in (tmp_path / "launch.log").read_text()


def test_wrong_numbers_are_said_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "WRONG")
    assert bench(tmp_path, "--only", "launch") == 1
    assert step(tmp_path, "launch")["rows"]["not right"] | {"seconds": 0} == {
        "name": "not right", "right": False, "worst": "nan", "seconds": 0}
    out = capsys.readouterr().out
    assert "NOT RIGHT: not right" in out and "no figures" not in out and "tries once more" not in out
    assert bench(tmp_path, "--only", "launch", "--resume") == 1  # wrong numbers stay, and are not measured again
    assert "launch: done before" in capsys.readouterr().out


def test_a_step_that_cannot_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "at_once")
    assert bench(tmp_path, "--only", "launch") == 1
    found = step(tmp_path, "launch")
    assert found["status"] == "failed" and "died of SIGKILL" in found["reason"] and found["rows"] == {}


def test_time_is_cut_and_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "SLOW")
    assert bench(tmp_path, "--only", "launch,shares", "--minutes", "0.12") == 0
    cut = step(tmp_path, "launch")
    assert cut["status"] == "cut" and "rows were not begun" in cut["reason"]
    assert [*cut["rows"], *cut["left"]] == ["one", "two", "three", "four"] and cut["left"]
    assert "CUT: its" in capsys.readouterr().out
    assert bench(tmp_path, "--only", "launch", "--minutes", "1", "--resume") == 0
    whole = step(tmp_path, "launch")
    assert whole["status"] == "done" and whole["left"] == [] and list(whole["rows"]) == ["one", "two", "three", "four"]
    assert whole["rows"].items() >= cut["rows"].items()  # what was measured is not measured again
    before = (tmp_path / "launch.json").read_bytes()
    assert bench(tmp_path, "--only", "launch", "--resume") == 0
    assert (tmp_path / "launch.json").read_bytes() == before and "launch: done before" in capsys.readouterr().out


def test_a_row_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "HANGS")
    monkeypatch.setattr(command, "_LEAST_GRACE", 6.0)
    assert bench(tmp_path, "--only", "launch,attention", "--minutes", "0.4") == 1
    found = step(tmp_path, "launch")
    assert found["status"] == "cut" and "was over in the middle of a row" in found["rows"]["hangs"]["error"]
    assert found["rows"]["first"]["right"] and "never" not in found["rows"]
    assert step(tmp_path, "attention")["rows"]["first"]["right"]  # the next step has its share all the same


def test_a_row_that_was_begun_late_is_left_for_another_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over_the_stub(monkeypatch, "LATE")
    monkeypatch.setattr(command, "_LEAST_GRACE", 6.0)
    assert bench(tmp_path, "--only", "launch", "--minutes", "0.2") == 0
    found = step(tmp_path, "launch")
    assert (found["status"], list(found["rows"]), found["left"]) == ("cut", ["one"], ["hangs"])


def test_results_are_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "ALL")
    refused: list[tuple[tuple[str, ...], str, Callable[[], Any]]] = [
        ((), "--resume goes on with that", lambda: None), (("--quick", "--resume"), "has results without --quick", lambda: None),
        (("--resume",), "is no file of `weft bench gpu`", lambda: (tmp_path / "launch.json").write_text('{"form": 1}')),
    ]
    assert bench(tmp_path, "--only", "launch") == 0
    for more, says, spoil in refused:
        spoil()
        capsys.readouterr()
        assert bench(tmp_path, "--only", "launch", *more) == 1
        assert says in capsys.readouterr().err


def test_no_time_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "ALL")
    assert bench(tmp_path, "--only", "launch,load", "--minutes", "0.001") == 0
    for name in ("launch", "load"):
        assert record.read(tmp_path, name)["status"] == "cut"  # type: ignore[index]
    assert "no time was left for it" in capsys.readouterr().out
