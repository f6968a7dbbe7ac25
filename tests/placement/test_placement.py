"""Which device pays, on recorded figures: no device is needed for that, and none is measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.placement.programs import program_of as cpu_program
from tests.placement.programs import works
from weft.devices import get_device
from weft.devices.cuda.generate import generate
from weft.devices.cuda.target import GPU
from weft.errors import DataError
from weft.kernel.ir import MACHINE_OPERATIONS
from weft.placement.choose import choose
from weft.placement.device_figures import Machine, pinned_machines, profiled_devices
from weft.placement.estimate import CPU_PRODUCT_SHARE, estimate, link_seconds, work_of
from weft.schedule.build import build
from weft.schedule.program import calls

SOURCE, MEASURED = (Path(__file__).with_name(f"{name}.json") for name in ("source", "measured"))
HOST = Machine("host", 1, 1e11, ((1 << 15, 1e11), (1 << 30, 1e10)), call=0.0, launch=1e-7, replay=1e-8)
CARD = Machine("card", 1, 1e13, ((1 << 30, 1e12),), call=0.0, launch=5e-6, replay=1e-6, link=(1e-5, 1e10))


def program_of(f: Any, *args: Any) -> Any:
    return build(wf.jit(f).trace(*args).graph, get_device().target)


def ones(*shape: int) -> Any:
    return wf.ones(shape)


def solve(start: Any, w1: Any, w2: Any) -> Any:
    """The neural ODE of 3-100-3, by 25 steps of Euler's method."""
    return wf.scan(lambda y, _: (y + 0.04 * (w2 @ wf.tanh(w1 @ y)), y.sum()), start, None, length=25)[0]


def alexnet(batch: int) -> Any:
    """One of nervanagpu's nets, forward, as a program."""
    net = wf.nn.Sequential(
        wf.nn.Conv2d(3, 64, 11, stride=4, padding=2), wf.nn.ReLU(), wf.nn.MaxPool2d(3, 2),
        wf.nn.Conv2d(64, 192, 5, padding=2), wf.nn.ReLU(), wf.nn.MaxPool2d(3, 2),
        wf.nn.Conv2d(192, 384, 3, padding=1), wf.nn.ReLU(), wf.nn.Conv2d(384, 256, 3, padding=1), wf.nn.ReLU(),
        wf.nn.Conv2d(256, 256, 3, padding=1), wf.nn.ReLU(), wf.nn.MaxPool2d(3, 2), wf.nn.Flatten(),
        wf.nn.Linear(9216, 4096), wf.nn.ReLU(), wf.nn.Linear(4096, 1000),
    )
    return program_of(net, wf.zeros((batch, 3, 224, 224)))


def test_the_figures_of_the_source() -> None:
    """A launch of 12 us: what the answerer measured, and what follows for the asker's net, and for a large one."""
    machines = pinned_machines(str(SOURCE))
    wide, thin = program_of(lambda a, x: a @ x, ones(100, 100), ones(100)), program_of(lambda a, x: a @ x, ones(100, 3), ones(3))
    decision = choose(wide, machines, [(40_000, "gpu"), (400, "gpu")])
    assert decision.device == "gpu" and decision.estimates[0].total == pytest.approx(12.5e-6, rel=0.1)
    assert choose(wide, machines, [(40_000, "cpu"), (400, "cpu")]).estimates[-1].total == pytest.approx(56.3e-6, rel=0.1)
    assert choose(thin, machines, [(1200, "cpu"), (12, "cpu")]).estimates[0].total == pytest.approx(0.25e-6, rel=0.4)
    ode = program_of(solve, ones(3), ones(100, 3), ones(3, 100))
    arrays = [(12, "cpu"), (1200, "cpu"), (1200, "cpu")]
    decision = choose(ode, machines, arrays)
    assert decision.device == "cpu" and "starting" in decision.reason and decision.estimates[1].launching > 25 * 12e-6
    decision = choose(alexnet(16), machines, [(16 * 3 * 224 * 224 * 4, "cpu")])
    assert decision.device == "gpu" and decision.estimates[1].total > 3 * decision.estimates[0].total


def test_cheaper_launches_turn_the_small_net() -> None:
    machines = pinned_machines(str(SOURCE))
    gpu = machines["gpu"]
    cheap = {**machines, "gpu": replace(gpu, launch=gpu.launch / 100, replay=gpu.replay / 100, link=(1e-7, 6e9))}
    ode = program_of(solve, ones(3), ones(100, 3), ones(3, 100))
    arrays = [(12, "cpu"), (1200, "cpu"), (1200, "cpu")]
    assert [choose(ode, m, arrays).device for m in (machines, cheap)] == ["cpu", "gpu"]


def test_a_product_turns_where_its_figures_say() -> None:
    machines = pinned_machines(str(SOURCE))
    quick = {**machines, "cpu": replace(machines["cpu"], products=(("float32", ((600, 2.4e9), (20_000, 1.3e10))),))}  # 1.55 us
    wide = program_of(lambda a, x: a @ x, ones(100, 100), ones(100))
    arrays = [(40_000, "cpu"), (400, "cpu")]
    assert [choose(wide, m, arrays).device for m in (machines, quick)] == ["gpu", "cpu"]


def test_what_an_estimate_is_made_of() -> None:
    add = program_of(lambda x: x + 1.0, ones(1 << 20))
    nbytes = 2 * 4 << 20
    here, there = estimate("cpu", add, HOST), estimate("gpu", add, CARD, link_seconds(4 << 20, CARD.link))
    assert here.launches == 1 and nbytes / 1e10 < here.working < 1.5 * nbytes / 1e10 and here.moving == 0
    assert here.total == here.launching + here.working
    assert there.working == pytest.approx(nbytes / 1e12) and there.moving == pytest.approx(1e-5 + (4 << 20) / 1e10)
    assert there.total == pytest.approx(max(there.launching, there.working) + there.moving)
    product = program_of(lambda a: a @ a, ones(512, 512))
    assert estimate("cpu", product, HOST).working == pytest.approx(2 * 512**3 / (CPU_PRODUCT_SHARE * 1e11), rel=0.05)
    loop = program_of(lambda x: wf.scan(lambda h, _: (h * 0.5 + 1, h.sum()), x, None, length=50), ones(10))
    assert estimate("cpu", loop, HOST).launches >= 50
    walked = program_of(lambda x: wf.scan(lambda h, _: (wf.sort(h * 0.5), None), x, None, length=50)[0], ones(10))
    apart, prepared = estimate("gpu", walked, CARD), estimate("gpu", loop, CARD)
    assert apart.moving > 50 * 2 * CARD.link[0]  # type: ignore[index]
    assert apart.launching / apart.launches == pytest.approx(CARD.launch) != prepared.launching / prepared.launches
    sort = program_of(lambda x: wf.sort(x), ones(1 << 16))
    assert estimate("gpu", sort, CARD).moving > 2 * CARD.link[0]  # type: ignore[index]


def test_arrays_weigh_where_they_lie() -> None:
    """Four megabytes: adding once does not pay for the copy, but where they lie there it does."""
    add, machines = program_of(lambda x: x + 1.0, ones(1 << 20)), {"cpu": HOST, "gpu": CARD}
    assert choose(add, machines, [(4 << 20, "gpu")]).device == "gpu"
    away = choose(add, {"cpu": replace(HOST, bandwidth=((1 << 30, 1e11),)), "gpu": CARD}, [(4 << 20, "cpu")])
    assert away.device == "cpu" and "copying arrays" in away.reason


def test_rates_between_what_was_measured() -> None:
    machine = replace(HOST, products=(("float32", ((100.0, 1e9), (10_000.0, 1e11))),))
    rates = [machine.product_rate("float32", n) for n in (1, 100, 1000, 10_000, 1e9)]
    assert rates == pytest.approx([1e9, 1e9, 1e10, 1e11, 1e11])
    assert machine.product_rate("float16", 1000) == machine.flops


@pytest.mark.parametrize(("dtype", "into", "precision", "measured"), [
    ("bfloat16", None, "float32", "bfloat16"), ("float16", None, "float32", "float16"), ("float32", None, "float32", "float32"),
    ("int8", "int32", "float32", "int8"), ("float8_e5m2", "float32", "float32", "float8_e5m2"), ("float32", None, "tf32", "tf32"),
    ("bfloat16", None, "tf32", "bfloat16"), ("float64", None, "tf32", "float64"), ("int16", "int32", "float32", "int32"),
])
def test_products_have_the_rate_of_their_format(dtype: str, into: str | None, precision: str, measured: str) -> None:
    """What operands come in decides, where that was measured; else what they add up in."""
    with wf.matmul_precision(precision):
        graph = wf.jit(lambda a, b: wf.matmul(a, b, dtype=into)).trace(*[wf.ones((512, 512), dtype)] * 2).graph
    program, seconds = build(graph, GPU), []
    widest = {"bfloat16": "float32", "float16": "float32", "tf32": "float32", "int8": "int32", "float8_e5m2": "float32"}
    for name in (measured, widest.get(measured, measured)):
        machine = replace(CARD, flops=1e3, bandwidth=((1 << 30, 1e15),), products=((name, ((1.0, 1e12),)),))
        seconds.append(estimate("gpu", program, machine).working)
    assert seconds == pytest.approx([2 * 512**3 / 1e12] * 2)
    other = replace(CARD, flops=1e9, bandwidth=((1 << 30, 1e15),), products=(("complex64", ((1.0, 1e12),)),))
    assert estimate("gpu", program, other).working == pytest.approx(2 * 512**3 / 1e9)


def test_explain_tells_both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WEFT_PROFILE", str(SOURCE))
    found = wf.explain(solve, ones(3), ones(100, 3), ones(3, 100))
    assert found.placement is not None and found.placement.device == "cpu"
    assert "on cpu: gpu would take" in capsys.readouterr().out
    monkeypatch.delenv("WEFT_PROFILE")
    assert wf.explain(solve, ones(3), ones(100, 3), ones(3, 100)).placement is None and profiled_devices() == {}


@pytest.mark.parametrize("change", [
    {"flops": 0}, {"flops": "many"}, {"bandwidth": []}, {"bandwidth": [[2, 1.0], [1, 1.0]]}, {"link": [1]}, {"link": [-1, 5]},
    {"products": [["float32", []]]}, {"launch": -1.0}, {"call": float("nan")}, {"launch": float("inf")}, {"flops": float("inf")},
    {"bandwidth": [[1, float("inf")]]}, {"link": [float("inf"), 5]}, {"name": None, "threads": "x"},
])
def test_files_that_hold_something_else(change: dict[str, Any], tmp_path: Path) -> None:
    devices = json.loads(SOURCE.read_text())["devices"]
    devices["gpu"].update(change)
    path = tmp_path / "machines.json"
    path.write_text(json.dumps({"devices": devices}))
    key = list(change)[-1]
    says = re.escape(f"machines.json: 'gpu' has {key} = {json.dumps(change[key])}; the file must hold a JSON object with name")
    with pytest.raises(DataError, match=rf"^WEFT_PROFILE: .*{says}"):
        pinned_machines(str(path))
    path.write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        pinned_machines(str(path))


@pytest.mark.parametrize(("given", "says"), [
    ({"devices": {}}, "the figures of the CPU are missing"), ([1], "'cpu' is no JSON object with figures"),
    ({"devices": [1]}, "'cpu' has no name and no threads and no flops and no bandwidth"), (None, "'cpu' is no JSON object"),
    ({"devices": {"cpu": 3}}, "'cpu' is no JSON object with figures"), ({"name": "a", "flops": 1}, "'cpu' has no threads and no"),
])
def test_files_that_lack_something(given: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "machines.json"
    path.write_text(json.dumps(given))
    with pytest.raises(DataError, match=f"^WEFT_PROFILE: .*machines.json: {says}"):
        pinned_machines(str(path))


def test_no_estimate_is_negative_or_infinite(rng: np.random.Generator) -> None:
    for _ in range(30):
        shape = tuple(rng.integers(0, 40, 2).tolist())
        program = program_of(lambda x: (wf.exp(x) @ x.T).sum(axis=0), ones(*shape))
        for machine in (HOST, CARD):
            found = estimate("it", program, machine, float(rng.random()))
            assert np.isfinite(found.total) and found.total >= machine.call


def test_estimates_are_within_a_factor_of_two_of_what_programs_took() -> None:
    """On one processor's figures and times, one thread (benchmarks/placement.py --record); each kind of work has a program."""
    recorded = json.loads(MEASURED.read_text())
    profile, took = pinned_machines(str(MEASURED))["cpu"], recorded["took"]
    assert set(took) == set(works())
    off = {}
    threads = get_device().threads
    wf.set_num_threads(profile.threads)
    try:
        for name, work in works().items():
            ratio = estimate("cpu", cpu_program(work), profile).total / took[name]
            if not 0.5 <= ratio <= 2:
                off[name] = ratio
    finally:
        wf.set_num_threads(threads)
    assert not off


def test_what_a_kernel_computes_is_counted() -> None:
    """In nanoseconds of operations, where there are any, and by how often they run."""
    n, m = 1 << 12, 1 << 6

    def work(f: Any, *args: Any) -> Any:
        (call,) = calls(program_of(f, *args))
        return work_of(call.kernel)

    once, twice = work(wf.exp, ones(n)), work(lambda x: wf.exp(wf.exp(x)), ones(n))
    assert once.vectors == pytest.approx(MACHINE_OPERATIONS["exp"].ns * n) and twice.vectors == pytest.approx(2 * once.vectors)
    assert work(wf.exp, wf.ones(n, dtype="float64")).vectors == pytest.approx(2 * once.vectors)
    assert work(wf.exp, ones(2 * n)).vectors == pytest.approx(2 * once.vectors) and once.calls == once.call_count == 0
    program = program_of(lambda x, y: x * wf.exp(y)[:, None], ones(m, m), ones(m))
    rows = sum([work_of(call.kernel).vectors for call in calls(program)])
    assert rows < MACHINE_OPERATIONS["exp"].ns * m * m  # once a row, not once an element
    tangents = work(wf.tan, ones(n))
    assert tangents.calls == pytest.approx(MACHINE_OPERATIONS["tan"].ns * n) and tangents.call_count == n and not tangents.vectors
    (product,) = work(lambda a, b: wf.nn.gelu(a @ b), ones(m, m), ones(m, m)).products
    assert product[1] == 2 * m**3
    assert work(lambda x: wf.cumsum(x, axis=1), ones(m, m)).waits > 0


def test_sorts_and_factorisations_take_what_they_cost() -> None:
    """Steps in NumPy were estimated by the bytes that they go through alone."""
    def seconds(f: Any, *args: Any) -> float:
        return estimate("cpu", program_of(f, *args), HOST).working

    n = 1 << 18
    assert seconds(wf.argsort, ones(n)) > 10 * seconds(wf.sort, ones(n)) > 10 * 8 * n / 5e9
    assert seconds(wf.linalg.svd, ones(256, 256)) > 5 * seconds(wf.linalg.inv, ones(256, 256))


def test_launches_of_a_kernel_are_counted_one_by_one() -> None:
    """A card's kernel of several launches, pieces and their sum, was counted as one."""
    graph = wf.jit(lambda x: x.sum(axis=1)).trace(ones(2, 100_000)).graph
    program = build(graph, GPU)
    launches = sum([len(generate(call.kernel).launches) for call in calls(program)])
    found = estimate("gpu", program, CARD)
    assert launches > 1 and found.launches == launches and found.launching == pytest.approx(launches * CARD.launch)
