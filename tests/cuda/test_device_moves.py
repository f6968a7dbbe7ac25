"""Arrays that follow programs to gpu-sim and back, under all of PyTorch's names; profiles, which are the CPU's; $WEFT_DEVICE."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from benchmarks.gpu.setting import Setting
from weft.devices import get_device
from weft.devices.names import why_not
from weft.errors import DeviceError
from weft.tools import cli

pytest.importorskip("triton")

SIM = "gpu-sim"


@pytest.mark.parametrize("first", ["cpu", SIM])
def test_an_array_lies_where_it_was_last_read_by_a_program(first: str) -> None:
    """As the guide says: looks move nothing."""
    other = SIM if first == "cpu" else "cpu"
    x = wf.arange(6.0).to_device(first)
    before = x.node.value
    assert x.numpy().tolist() == wf.asnumpy(x).tolist() == list(range(6)) and x.get() is not None
    assert x.device == first and x.node.value is before
    for place in (other, first, other):
        with wf.device(place):
            assert float((x * 2).sum()) == 30
        assert x.device == place


def test_to_a_device_and_a_dtype() -> None:
    """All ways to say it; the array itself stays what and where it is."""
    for device, dtype in itertools.product((None, "cpu", SIM), (None, "float16", wf.int32)):
        if device is dtype is None:
            continue
        target = wf.ones(2, dtype=dtype or "float32", device=device or "cpu")
        ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {"device": device, "dtype": dtype})]
        ways += [((device,), {"dtype": dtype})] if device else []
        ways += [((device, dtype), {})] if device and dtype else []
        ways += [((target,), {})] if dtype else []
        for start, (args, kwargs) in itertools.product(("cpu", SIM), ways):
            x = wf.arange(4.0).to_device(start)
            there = target.device if args and args[0] is target else device or None
            found = x.to(*args, **kwargs)
            assert found.dtype == np.dtype(dtype or "float32") and found.tolist() == [0, 1, 2, 3]
            assert there is None or found.device == there
            assert (x.dtype, x.device) == ("float32", start) or there is None


def test_nothing_is_moved_in_traces() -> None:
    x = wf.ones(3)
    assert wf.jit(lambda v: v.to(SIM) + 1)(x).device == "cpu"
    assert wf.grad(lambda v: (v.to(SIM, "float64") ** 2).sum())(x).tolist() == [2, 2, 2]


def test_a_profile_is_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    calls: list[int] = []
    device: Any = get_device(SIM)
    x, before = wf.ones(3), device.launches
    says = "profile: the device 'gpu-sim' cannot time the steps of a program, the CPU can: profile there, inside"
    with wf.device(SIM):
        with pytest.raises(DeviceError, match=says):
            wf.profile(lambda v: calls.append(1) or v + 1, x)
        with wf.device("cpu"):
            assert wf.profile(wf.jit(lambda v: wf.tanh(v) + 1), x, repeat=1, show=False).kernels
    monkeypatch.setattr(wf.data, "load_digits", lambda: calls.append(1))
    try:
        for more in ((), (str(tmp_path / "p.html"),)):
            assert cli.main(["train", "digits", "--device", SIM, "--profile", *more]) == 1
            assert f"weft: {says}" in capsys.readouterr().err
    finally:
        wf.set_device("cpu")
    assert not calls and device.launches == before and not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", ["cpu", SIM])
def test_training_in_the_interpreter_is_said_to_be_slow(device: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def stop() -> None:
        raise ValueError("enough")

    monkeypatch.setattr(wf.data, "load_digits", stop)
    try:
        assert cli.main(["train", "digits", "--device", device]) == 1
    finally:
        wf.set_device("cpu")
    assert ("which is slow: an epoch takes minutes" in capsys.readouterr().out) == (device == SIM)


def test_beside_an_interpreter_pytorchs_time_is_no_share() -> None:
    assert Setting(SIM).of_torch(1.0, 2.0) is None and Setting("gpu:1").of_torch(1.0, 2.0) == 0.5


def _run(device: str, code: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "WEFT_DEVICE": device, "COLUMNS": "300"},
    )
    return done.stdout, done.stderr


GOOD = {"": "cpu", "cpu": "cpu", "cpu:0": "cpu", "auto": "cpu", SIM: SIM}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", [*GOOD, "foo", "gpu", "gpu:0", "gpu:17", "GPU", "cuda"])
def test_the_variable_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In errors of programs, and by ``weft info``, which says whether it can be."""
    out, error = _run(name, "import weft as wf\nprint(wf.ones(3).sum(), wf.ones(3).device)")
    info, _ = _run(name, "import sys\nfrom weft.tools.cli import main\nsys.exit(main(['info']))")
    (line,) = [line.split("device in use")[1].strip() for line in info.splitlines() if "device in use" in line]
    if name in GOOD:
        assert out == f"3.0 {GOOD[name]}\n" and not error
        chosen = " (from $WEFT_DEVICE)" if name else ""
        assert line.startswith(f"auto{chosen}: cpu for all" if name == "auto" else f"{GOOD[name]}{chosen}")
        return
    if name.startswith("gpu"):
        if why_not(name) is None:
            return  # there is a card
        wanted = "gpu" if name == "gpu:0" else name
        assert not out and f"DeviceError: $WEFT_DEVICE: device '{wanted}': " in error
        assert line == f"{wanted} (from $WEFT_DEVICE): {why_not(name)}"
    else:
        assert not out and f"ValueError: $WEFT_DEVICE: no device '{name}'; there are 'cpu'" in error
        assert line == f"{name} (from $WEFT_DEVICE): no such device; there are cpu, gpu-sim, gpu and auto"
