"""A second process trains the seed's net on the first one's kernels: LLVM's entry points raise in it, and nothing is missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_STEP = """
import hashlib, json, sys
if sys.argv[1] == "forbidden":
    import llvmlite.binding as llvm
    def refuse(*a, **k):
        raise AssertionError("LLVM was entered")
    for name in ("parse_assembly", "parse_bitcode", "create_pass_builder", "create_mcjit_compiler", "create_lljit_compiler"):
        if hasattr(llvm, name):
            setattr(llvm, name, refuse)
    llvm.Target.create_target_machine = llvm.TargetMachine.emit_object = llvm.TargetMachine.emit_assembly = refuse
import numpy as np
import weft as wf
from weft.tools.digit_net import digit_net
from weft.train.fit import training_step
wf.random.seed(5)
net = digit_net(8)
step = training_step(net, wf.losses.cross_entropy, wf.optim.Adam().init(net))
rng = np.random.default_rng(5)
for _ in range(3):
    x, y = rng.random((8, 1, 8, 8)).astype("float32"), rng.integers(0, 10, 8).astype("int32")
    loss = float(step(wf.array(x), wf.array(y), 1e-3))
lazy = (wf.array(x).reshape((8, -1)) @ wf.array(x).reshape((8, -1)).T - loss).sum(axis=0).numpy()
found = wf.counters()
print(json.dumps({
    "loss": loss, "counters": found, "llvm": "llvmlite.binding" in sys.modules,
    "scheduled": "weft.schedule.build" in sys.modules,
    "bits": hashlib.sha256(b"".join(a.numpy().tobytes() for a in net.arrays().values()) + lazy.tobytes()).hexdigest(),
}))
"""


def process(cache: Path, mode: str, threads: int = 2) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _STEP, mode], capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2],
        env={**os.environ, "WEFT_CACHE": str(cache), "WEFT_THREADS": str(threads)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    cache = tmp_path_factory.mktemp("second") / "cache"
    return cache, process(cache, "free")


def test_it_compiles_nothing_and_gives_the_same_bits(first: tuple[Path, dict[str, Any]]) -> None:
    cache, one = first
    assert one["counters"]["compiles"] > 10 and one["counters"]["cache_hits"] == 0
    two = process(cache, "forbidden")
    assert two["counters"]["compiles"] == 0 and two["counters"]["cache_hits"] > 10
    assert two["bits"] == one["bits"] and two["loss"] == one["loss"]
    assert two["counters"]["kernels"] == one["counters"]["kernels"]


def test_llvm_is_not_even_loaded(first: tuple[Path, dict[str, Any]]) -> None:
    cache, one = first
    two = process(cache, "free")
    assert two["counters"]["compiles"] == 0 and not two["llvm"] and two["bits"] == one["bits"]


def test_large_programs_are_read_and_not_scheduled_again(tmp_path: Path) -> None:
    """The step of a net is read from disk. Damaged entries are not used, and are replaced."""
    code = """
import sys, json, numpy as np, weft as wf
net = wf.nn.Sequential(wf.nn.Embedding(7, 5), wf.nn.Linear(5, 4), wf.nn.Tanh(), wf.nn.Linear(4, 3))
optimizer = wf.optim.Adam(0.01).init(net)
@wf.jit
def step(x, y):
    loss, slope = wf.value_and_grad(lambda net: wf.losses.cross_entropy(net(x), y))(net)
    optimizer.update(net, slope)
    return loss
y = wf.array([0, 1, 2, 0])
losses = [float(step(wf.array([1, 2, 6, 0]), y)) for _ in range(2)]
before = "weft.schedule.build" in sys.modules
try:
    float(step(wf.array([1, 2, 7, 0]), y))
except IndexError as error:
    print(json.dumps([losses, before, str(error)]))
"""
    found = [run_code(tmp_path, code)]
    found.append(run_code(tmp_path, code))
    for path in tmp_path.glob("c/*"):
        data = path.read_bytes()
        if b"weft.schedule.program" in data:
            path.write_bytes(data[: len(data) // 2] + b"?" + data[len(data) // 2 + 1 :])
    found += [run_code(tmp_path, code), run_code(tmp_path, code)]
    assert [scheduled for _, scheduled, _ in found] == [True, False, True, False]
    assert all(f[0] == found[0][0] and f[2] == found[0][2] for f in found) and "7" in found[0][2], found


def run_code(folder: Path, code: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", "import weft as wf; wf.random.seed(3)\n" + code], capture_output=True, text=True, timeout=120,
        cwd=Path(__file__).parents[2], env={**os.environ, "WEFT_CACHE": str(folder / "c")},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kernels_do_not_depend_on_the_number_of_threads(first: tuple[Path, dict[str, Any]]) -> None:
    cache, one = first
    two = process(cache, "forbidden", threads=1)
    assert two["counters"]["compiles"] == 0 and two["bits"] == one["bits"]


def test_without_the_cache_llvm_would_have_been_entered(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="LLVM was entered"):
        process(tmp_path / "empty", "forbidden")
