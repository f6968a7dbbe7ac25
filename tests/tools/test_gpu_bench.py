"""What ``weft bench gpu`` is made of, without a GPU's code: files, closeness, times in turns, tables, refusals, PyTorch."""

from __future__ import annotations

import json
import math
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.gpu import (
    attention,
    command,
    convnets,
    convolutions,
    correct,
    needed,
    peers,
    products,
    record,
    sanitizer,
    shares,
    small,
)
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.pack import LOG_BYTES, Pack
from benchmarks.gpu.setting import Setting, formats, normal
from benchmarks.gpu.steps import NAMES, STEPS, broken
from benchmarks.gpu.tables import table
from benchmarks.gpu.timing import Effort, Side, spread, turns, watch_of
from benchmarks.nets import weft_functions
from tests import oracle
from weft.devices.names import why_not
from weft.errors import DataError
from weft.tools.cli import main

# ---- the command


def test_without_a_card_it_says_so_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    missing = why_not("gpu") or "there is no NVIDIA driver"
    monkeypatch.setattr(command, "why_not", lambda name: missing)
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "gpu"]) == 1
    said = capsys.readouterr()
    assert said.err == f"weft: device 'gpu': {missing}\n" and not said.out and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("more", "says"), [
    (("--device", "cpu"), "--device is gpu, gpu:1 or gpu-sim"), (("--device", "tpu"), "no device 'tpu'"),
    (("--only", "products,prodcts"), f"no step 'prodcts'; there are {', '.join(NAMES)}"),
    (("--minutes", "0"), "--minutes must be more"), (("--minutes", "nan"), "--minutes must be more"),
    (("--minutes", "inf"), "at most 1440, a day, not inf"),
])
def test_refused(more: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(command, "why_not", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "gpu", *more]) == 1
    assert says in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_shares_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step leaves over goes to those behind it, by their weights."""
    asked: list[tuple[str, float]] = []
    clock = [1000.0]

    def run(step: Any, device: str, folder: Path, share: float, *more: Any) -> dict[str, Any]:
        asked.append((step.name, share))
        clock[0] += share / 2
        return {**record.fresh(step.name, step.title, share), "status": record.DONE}

    monkeypatch.setattr(command, "why_not", lambda name: None)
    monkeypatch.setattr(command, "_run", run)
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert main(["bench", "gpu", "--out", str(tmp_path), "--minutes", "8"]) == 0
    assert [name for name, _ in asked] == list(NAMES)
    total, left, spent = sum(step.weight for step in STEPS), sum(step.weight for step in STEPS), 0.0
    assert asked[0] == ("basics", 60)  # which has a minute, however many there are
    for step, (_, share) in zip(STEPS, asked, strict=True):
        assert share == pytest.approx((480 - spent) * step.weight / left) or step.spoken
        spent, left = spent + share / 2, left - step.weight
    assert asked[1][1] == pytest.approx(450 * STEPS[1].weight / (total - 60))


def test_packages_that_are_missing_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    real = needed.importlib.util.find_spec
    monkeypatch.setattr(command, "why_not", lambda name: None)
    monkeypatch.chdir(tmp_path)
    gone = ("optree", "rich")
    monkeypatch.setattr(needed.importlib.util, "find_spec", lambda name: None if name in gone else real(name))
    assert main(["bench", "gpu"]) == 1 and not list(tmp_path.iterdir())
    assert capsys.readouterr().err.startswith("weft: bench gpu: not installed here: optree, rich. pip install optree rich")


# ---- files and tables

def test_results_in_one_file(tmp_path: Path) -> None:
    """It is whole whenever it is read, has the ends of long logs, and is written only where something is new."""
    folder, target = tmp_path / "results", tmp_path / "results.zip"
    folder.mkdir()
    pack = Pack(folder, str(target))
    pack.write()
    assert not target.exists()  # there is nothing yet
    record.write(folder, record.fresh("launch", "title", 3.0))
    (folder / "launch.log").write_bytes(b"a" * LOG_BYTES + b"the end")
    (folder / ".lock").touch()
    pack.write()
    with zipfile.ZipFile(target) as found:
        assert sorted(found.namelist()) == ["launch.json", "launch.log"] and found.testzip() is None
        log = found.read("launch.log")
        assert len(log) == LOG_BYTES and log.endswith(b"the end")
    before = target.stat().st_ino
    pack.write()
    assert target.stat().st_ino == before
    record.write(folder, record.fresh("load", "title", 3.0))
    pack.write()
    with zipfile.ZipFile(target) as found:
        assert len(found.namelist()) == 3
    Pack(folder, None).write()


@pytest.mark.parametrize(("row", "says"), [
    ({"name": "driver", "says": "a card", "right": True}, "works   driver "),
    ({"name": "launch", "says": "it is wrong", "right": False}, "BROKEN  launch "),
    ({"name": "graphs", "error": "DriverError: no\nmore"}, "BROKEN  graphs "),
])
def test_a_part_is_told_in_a_line(row: dict[str, Any], says: str) -> None:
    line = record.sentence(row)
    assert line.startswith(says) and "\n" not in line and line.endswith(str(row.get("says", "DriverError: no")))
    found = {**record.fresh("basics", "title", 3.0), "rows": [row]}
    assert broken(found) == (row["name"] if row["name"] == "launch" else None)
    assert broken({**found, "step": "launch"}) is None


def test_a_file_is_what_was_written(tmp_path: Path) -> None:
    found = record.fresh("launch", "title", 3.0)
    found["rows"] = [{"name": "a", "x": np.float32(0.5), "n": np.int64(3), "bad": math.nan, "far": -math.inf, "t": (1, 2)}]
    record.write(tmp_path, found)
    back = record.read(tmp_path, "launch")
    assert back is not None and back["rows"] == [{"name": "a", "x": 0.5, "n": 3, "bad": "nan", "far": "-inf", "t": [1, 2]}]
    assert json.loads((tmp_path / "launch.json").read_text(), parse_constant=lambda word: pytest.fail(word)) == back
    assert record.read(tmp_path, "load") is None
    for text in ("", "[]", "{", '{"form": 1}', json.dumps({**back, "step": "load"}), json.dumps({**back, "form": 0})):
        (tmp_path / "launch.json").write_text(text)
        with pytest.raises(DataError, match="is no file of `weft bench gpu`"):
            record.read(tmp_path, "launch")


def test_a_table_tells_what_was_measured() -> None:
    found = record.fresh("launch", "title", 3.0)
    found["rows"] = [
        {"name": "first", "weft": {"median": 0.0125}, "share": 0.123456, "right": True, "sample": [1]},
        {"name": "second", "error": "ValueError: no"},
    ]
    found.update(status="cut", reason="its 3 s are over", left=["third"], notes=["a remark"])
    lines = table(found).splitlines()
    assert lines[0].split() == ["weft", "ms", "share", "error"] and lines[1].split() == ["first", "12.5", "0.1235", "-"]
    assert lines[2].split(maxsplit=3) == ["second", "-", "-", "ValueError: no"]
    assert lines[3:] == ["CUT: its 3 s are over", "left: third", "a remark"]
    found["rows"] = [{"name": f"row {k}", "right": k != 77} for k in range(100)]
    assert "row 77" in table(found) and "100 rows in all, see launch.json" in table(found)


# ---- closeness: as the tests' own bound has it


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_], ids=str)
def test_apart_agrees_with_the_oracle(dtype: Any, rng: np.random.Generator) -> None:
    agreed = []
    for _ in range(300):
        want = oracle.random(rng, (rng.integers(0, 6),), dtype)
        got = want.copy()
        if got.size and oracle.is_float(dtype) and rng.random() < 0.8:
            k = rng.integers(got.size)
            where = rng.random()
            if where < 0.5:
                got[k] = np.float64(got[k]) * (1 + oracle.EPS[np.dtype(dtype)] * 10 ** rng.uniform(-1, 3.5))
            elif where < 0.8:
                got[k] = rng.choice([np.nan, np.inf, -np.inf, 0.0])
            else:
                got[k] = want[k] = np.nan
        elif got.size and rng.random() < 0.5:
            got[0] = not got[0]
        terms = int(rng.choice([1, 100]))
        try:
            oracle.assert_close(got, oracle.widened(want), dtype, terms=terms, ulps=16)
            right = True
        except AssertionError:
            right = False
        off = apart(got, oracle.widened(want), terms=terms)
        assert (off <= 1) is right, (got, want, terms, off)
        agreed.append(right)
    assert 20 < sum(agreed) < 299
    assert apart(np.zeros(3, dtype), np.zeros(4, dtype)) == math.inf and told(math.inf)["right"] is False
    assert told(math.nan)["right"] is False


# ---- times


class FakeWatch:
    """Time that passes when something is called. series : how many calls each had"""

    by = "clock"

    def __init__(self) -> None:
        self.now, self.at, self.calls = 0.0, 0.0, 0
        self.series: list[int] = []

    def begin(self) -> None:
        self.at, self.calls = self.now, 0

    def end(self) -> float:
        self.series.append(self.calls)
        return self.now - self.at

    def call(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds
            self.calls += 1

        return run


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 3e-3, 0.02, 1.0])
def test_turns(seconds: float) -> None:
    watch, order = FakeWatch(), []
    sides = {name: Side((lambda name=name: order.append(name) or watch.call(seconds)()), watch) for name in "ab"}
    found = turns(sides, Effort(runs=5, seconds=0.4, least=5e-3))
    for times in found.values():
        assert times["median"] == pytest.approx(seconds) and 2 <= times["runs"] <= 5 and times["by"] == "clock"
        assert times["calls"] * seconds >= min(5e-3 * 0.8, 1000 * seconds * 0.8) or times["calls"] == 1
        assert times["runs"] == 5 or times["runs"] * times["calls"] * seconds < 2.5
    changes = sum(a != b for a, b in zip(order, order[1:], strict=False))
    assert changes >= 2 * min(times["runs"] for times in found.values()) - 1  # in turns, not one after the other


def test_the_drivers_marks_tell_the_time_where_they_can() -> None:
    """They stand in the order of what is asked for, behind a wait, and are asked for under the device's lock."""
    asked: list[str] = []

    class Driver:
        def enter(self) -> None:
            assert device.lock.held

        def stamp(self) -> int:
            assert device.lock.held
            asked.append("stamp")
            return len(asked)

        def take_seconds(self, first: int, second: int) -> float:
            assert asked[-1] == "wait" and (asked[first - 1], asked[second - 1]) == ("stamp", "stamp")
            return 0.25 * asked[first:second].count("call")

    class Lock:
        held = False

        def __enter__(self) -> None:
            self.held = True

        def __exit__(self, *error: Any) -> None:
            self.held = False

    device = SimpleNamespace(driver=Driver(), lock=Lock(), synchronise=lambda: asked.append("wait"))
    watch = watch_of(device)
    found = turns({"a": Side(lambda: asked.append("call"), watch)}, Effort(runs=3, seconds=9.0))["a"]
    assert found["by"] == "events" and found["median"] == found["low"] == 0.25 and found["calls"] == 1 and found["runs"] == 3
    del device.driver
    assert watch_of(device).by == "clock"


def test_a_median_and_its_spread() -> None:
    assert spread([3.0]) == {"median": 3.0, "low": 3.0, "high": 3.0, "runs": 1}
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found["low"], found["median"], found["high"], found["runs"]) == (2.0, 3.0, 4.0, 5)


def test_a_share_of_a_copy_that_another_process_measured() -> None:
    """A row alone, as behind a row that ended the process: the copy is measured again."""
    rows = dict(shares.rows(Setting("cpu", True)))
    alone, copy = rows["softmax float16"](), rows["copy float16"]()
    assert 0 < alone["share of copy"] != 1.0 and copy["share of copy"] > 0 and alone["right"] and copy["right"]


# ---- compute-sanitizer


@pytest.mark.parametrize(("said", "right", "errors"), [
    ("========= ERROR SUMMARY: 0 errors", True, 0), ("========= ERROR SUMMARY: 3 errors", False, 3),
    ("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)", False, 2), ("cannot attach", False, None),
])
def test_sanitizer_is_run_and_read(
    said: str, right: bool, errors: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in for NVIDIA's tool: it notes what it is given, and leaves the file that the step would."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
while [ "$1" != primitives ] && [ "$1" != scatters ]; do shift; done
step=$1
while [ "$1" != --out ]; do shift; done
echo x > $2/$step.json
echo '{said}'
""")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    setting: Any = SimpleNamespace(card=SimpleNamespace(driver=object()), device="gpu:1", left=20.0, notes=[])
    rows = dict(sanitizer.rows(setting))
    assert list(rows) == [f"{name} {step}" for name in sanitizer.TOOLS for step in ("primitives", "scatters")]
    row = rows["racecheck scatters"]()
    assert row["right"] is right and row["errors"] == errors
    asked = (tmp_path / "asked").read_text()
    assert "--tool racecheck" in asked and "benchmarks.gpu scatters --device gpu:1" in asked and "--quick" in asked


def test_no_sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer, "PLACES", ())
    setting: Any = SimpleNamespace(card=SimpleNamespace(driver=object()), notes=[])
    assert list(sanitizer.rows(setting)) == [] and "compute-sanitizer is not installed" in setting.notes[0]


# ---- PyTorch beside weft


def test_without_pytorch_its_columns_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    assert peers.torch_beside("gpu") == (None, "PyTorch is not installed: its columns are empty")
    found = Setting("cpu", True).timed({"weft": lambda: time.sleep(0), "torch": None})
    assert found.keys() == {"weft"}


def test_what_pytorch_cannot_do_is_a_remark() -> None:
    def refused() -> None:
        raise RuntimeError("not implemented\nfor this")

    found = Setting("cpu", True).timed({"weft": lambda: None, "torch": refused})
    assert found["torch error"] == "RuntimeError: not implemented" and found["weft"]["runs"] == 2 and "torch" not in found
    with pytest.raises(RuntimeError):
        Setting("cpu", True).timed({"weft": refused})


def test_pytorch_computes_the_same() -> None:
    """All that is timed of PyTorch, on its CPU, beside what weft is checked against."""
    torch = pytest.importorskip("torch")
    peer = peers.Torch(torch, "cpu")
    setting = Setting("cpu", True, torch=peer)

    def near(got: Any, want: Any, scale: float = 4.0) -> None:
        np.testing.assert_allclose(peer.numpy(got), want, rtol=2e-2, atol=2e-2 * scale)

    for kind in ("float32", "float16", "bfloat16", "float64"):
        a, b = products.operands(kind, 9)
        near(products._torch(setting, kind, a, b)(), a.astype(np.float64) @ b.astype(np.float64))  # type: ignore[misc]
    for work in shares.works(True).values():
        x = normal(work.shape, 3)
        near(work.beside(torch, peer.array(x))(), work.want(x.astype(np.float64)), 1.0)
    for layer in convolutions.TINY:
        g = convolutions.given(layer, 2, "float32")
        for part in convolutions.PASSES:
            want = convolutions._reference(convolutions._call(part, g), (g.x, g.w, g.dy))
            for last in (False, True):
                got = convolutions._torch(setting, part, g, last)()  # type: ignore[misc]
                near(next(x for x in got if x is not None) if isinstance(got, tuple) else got, want)
    for causal in (False, True):
        arrays = attention.given(True, 13, "float32")
        q, k, v, dy = (a[0, 0].astype(np.float64) for a in arrays)
        near(attention._torch(setting, arrays, causal, False)()[0, 0, :8], attention._reference(q, k, v, dy, causal, False))  # type: ignore[misc]
        near(attention._torch(setting, arrays, causal, True)()[0][0, 0, :8], attention._reference(q, k, v, dy, causal, True))  # type: ignore[misc]
    for net in convnets.QUICK.values():
        images, weights = convnets.given(net)
        want = weft_functions(net)[0](images, weights).numpy()
        calls = convnets._torch(setting, net, "float32", False)
        near(calls["torch forward"](), want)
        near(calls["torch step"](), want)
    row = small._small(setting, 7)
    assert row["right"] and row["torch"]["median"] > 0 and row["cpu"]["median"] > 0


def test_formats_are_those_that_are_there() -> None:
    assert formats("float32", "no_such_format", "float64") == ["float32", "float64"]
    assert normal((3,), 1, "float16").dtype == np.float16
    np.testing.assert_array_equal(normal((5,), 2), normal((5,), 2))


def test_bits_that_change_are_counted() -> None:
    def bits(*given: float) -> Callable[[], list[np.ndarray]]:
        left = iter(given)
        return lambda: [np.zeros(3), np.array([next(left)])]

    assert correct._again(Setting("cpu"), 5, bits(1, 1, 2, 1, 3)) == (5, 2)
    assert correct._again(Setting("cpu"), 3, bits(0.0, -0.0, 0.0)) == (3, 1)
    assert correct._again(Setting("cpu", deadline=0.0), 100, bits(1, 2, 3)) == (2, 1)  # no time is left: twice all the same
