"""The real cuda-bindings over a libcuda without a card (``libcuda.c``): which calls reach the driver, in which context.

Each test is a process of its own, which loads that library in the driver's place.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")


def _has_bindings() -> bool:
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except ImportError:
        return False


pytestmark = pytest.mark.skipif(shutil.which("cc") is None or not _has_bindings(), reason="needs a C compiler and cuda-bindings")

ROOT = Path(__file__).parents[2]
COMMON = """
import ctypes
import numpy as np
import weft as wf
from weft.devices import get_device

calls = ctypes.CDLL("libcuda.so.1").stub_calls
count = lambda name: calls(name.encode())
f = wf.jit(lambda x, y: wf.tanh(x @ y).sum(axis=1))
ones = lambda n: np.ones((n, n), np.float32)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libcuda")
    source = Path(__file__).parent / "libcuda.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(folder / "libcuda.so.1"), str(source)], check=True)
    return folder


def environment(library: Path, **stub: int | str) -> dict[str, str]:
    """stub : what the library stands for, see libcuda.c"""
    return {**os.environ, "LD_LIBRARY_PATH": str(library), **{f"STUB_{name}": str(value) for name, value in stub.items()}}


def run(library: Path, code: str, **stub: int | str) -> str:
    """Run a program over the library; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(code)], env=environment(library, **stub), capture_output=True, text=True,
        timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("version", [12000, 12040, 12080, 13000])
def test_time_is_taken_on_drivers_of_each_age(library: Path, version: int) -> None:
    """Before CUDA 12.8 a driver lacks the form of cuEventElapsedTime that cuda-bindings call."""
    run(library, """
        device = get_device("gpu")
        device.enter()
        first, second = device.driver.stamp(), device.driver.stamp()
        assert 0 <= device.driver.take_seconds(first, second) < 60
        assert count("cuEventElapsedTime") + count("cuEventElapsedTime_v2") == 1
    """, CUDA=version)


def test_cards_that_take_turns(library: Path) -> None:
    """Each launch, copy and mark is asked for in the context of its card, whatever was asked of the other one before."""
    run(library, """
        import threading
        def turns():
            for n in (40, 50, 40, 50):
                for name in ("gpu", "gpu:1"):
                    with wf.device(name):
                        assert f(wf.array(ones(n)), wf.array(ones(n))).numpy().shape == (n,)
            get_device("gpu").synchronise()
            get_device("gpu:1").synchronise()
        turns()
        thread = threading.Thread(target=turns)
        thread.start()
        thread.join()
        assert count("cuLaunchKernel") > 20
    """, CARDS=2)


def test_another_library_sets_its_own_context(library: Path) -> None:
    run(library, """
        from cuda.bindings import driver
        with wf.device("gpu"):
            for _ in range(3):
                f(wf.array(ones(40)), wf.array(ones(40))).numpy()
                _, other = driver.cuDevicePrimaryCtxRetain(1)
                driver.cuCtxSetCurrent(other)
    """, CARDS=2)


def test_a_driver_of_cuda_12_is_given_code_that_it_takes(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    code = """
        with wf.device("gpu"):
            assert f(wf.array(ones(40)), wf.array(ones(40))).numpy().shape == (40,)
        assert count("cuModuleLoadData") >= 1
    """
    run(library, code, CUDA=13000, ABI=8)
    run(library, code, CUDA=12040, ABI=7)  # what is on disk for the other driver is not taken


def test_a_driver_that_refuses_code_is_named(library: Path) -> None:
    told = run(library, """
        try:
            with wf.device("gpu"):
                f(wf.array(ones(40)), wf.array(ones(40))).numpy()
        except RuntimeError as error:
            print(error)
    """, CUDA=12060, ABI=6)
    assert told.startswith("NVIDIA's driver, which is for CUDA 12.6, refuses code that Triton ")
    assert told.rstrip().endswith(": pip install triton==3.6.0") and "(ABI 7; cuModuleLoadData: device kernel image" in told


def test_what_is_missing_is_named(library: Path) -> None:
    """Neither a package of weft's nor one of a card's is taken for a driver that refuses to work."""
    told = run(library, """
        import sys
        for name in ("optree", "platformdirs"):
            sys.modules[name] = None
        with wf.device("gpu"):
            assert f(wf.array(ones(40)), wf.array(ones(40))).numpy().shape == (40,)
            try:
                wf.jit(lambda pair: pair[0] + pair[1])([wf.ones(3), wf.ones(3)])
            except ImportError as error:
                print(error)
    """)
    assert told == (
        "weft needs the package optree for lists, dicts and modules as arguments, and it is not installed: pip install optree\n"
    )


def test_functions_that_nobody_holds_are_unloaded(library: Path) -> None:
    run(library, """
        import gc
        from weft.devices.cuda import code_store
        from weft.runtime import execute
        from weft.process.bounded_cache import BoundedCache
        device = get_device("gpu")
        device.codes._loaded_code = BoundedCache(4, 2)
        execute.PROGRAMS = BoundedCache(0.0, 2)
        for n in range(2, 30):
            with wf.device("gpu"):
                wf.jit(lambda x, n=n: x[: n] * 2 + x.sum())(wf.array(np.ones(n + n % 7, np.float32))).numpy()
        gc.collect()
        device.synchronise()
        loaded, gone = count("cuModuleLoadData"), count("cuModuleUnload")
        assert loaded > 12 and loaded - gone <= 12, (loaded, gone)
    """)


def test_tiles_that_need_much_memory_of_their_own_ask_for_all_of_it(library: Path) -> None:
    run(library, """
        with wf.device("gpu"):
            a = wf.array(np.ones((1024, 1024), np.float16))
            (a @ a).numpy()
            small = count("cuFuncSetAttribute")
            (wf.array(ones(40)) + 1).numpy()
        assert small == 2 and count("cuFuncSetAttribute") == 2
    """)


@pytest.mark.parametrize(("stub", "says"), [
    ({}, ["works   loading", "works   copies", "BROKEN  launch ", " 2 x + 1 is wrong at 3000 of 3000 places"]),
    ({"CUDA": 12040, "ABI": 7}, ["driver for CUDA 12.4; Triton assembles by", "ABI 7", "works   loading"]),
    ({"ABI": 6}, ["BROKEN  loading", "pip install triton==3.6.0"]),
    ({"FAIL": "cuLaunchKernel"}, ["works   copies", "BROKEN  launch", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
    ({"FAIL": "cuStreamCreate"}, ["works   packages", "BROKEN  driver", "cuStreamCreate: an illegal memory access"]),
])
def test_the_first_step_of_the_benchmark(library: Path, tmp_path: Path, stub: dict[str, Any], says: list[str]) -> None:
    """As a command, by the real bindings; nothing is computed, so the first kernel's result is wrong, and it ends there."""
    done = subprocess.run(
        [sys.executable, "-m", "weft.tools", "bench", "gpu", "--out", str(tmp_path), "--minutes", "3"],
        env=environment(library, **stub), capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )
    assert done.returncode == 1 and "The other steps need it" in done.stdout, done.stdout + done.stderr
    for text in says:
        assert text in done.stdout
    assert sorted(file.name for file in tmp_path.iterdir()) == ["basics.json", "basics.log"]


def test_the_parts_of_the_first_step(library: Path) -> None:
    """Each that can work where nothing is computed, by itself: their calls are those that the driver takes."""
    told = run(library, """
        from benchmarks.gpu import basics
        from benchmarks.gpu.setting import Setting
        setting = Setting("gpu")
        rows = dict(basics.rows(setting))
        for name in ("driver", "compiler", "loading", "copies", "events", "memory", "two streams", "two cards"):
            print(name, rows[name]())
        numbers = [f"numbers: {name}" for name in ("maps", "product, bfloat16", "steps of training")]
        for name in ("graphs", "wrong index", "threads", *numbers):
            print(name, rows[name]()["says"])  # which are wrong here, and raise nothing
        assert count("cuGraphLaunch") > 0 and count("cuStreamWaitEvent") > 0
    """, CARDS=2)
    assert "took turns" in told and "6 runs were replayed" in told
