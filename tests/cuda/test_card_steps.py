"""Host steps in a card's memory, over a driver without a card: what collectives ask of it, in the order of its stream."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.cuda.stub import made
from weft.devices.steps import OffersDeviceSteps, Sums, walk
from weft.dtypes.formats import FROM_NUMPY, INT32
from weft.schedule.program import HostCall, Program, Slot

pytest.importorskip("triton")
from weft.devices.cuda.run_program import CardStep, Walker, _At  # noqa: E402

SEED = random.randrange(10**6)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def draw_sums(rng: np.random.Generator, rows: list[int]) -> Sums:
    if len(rows) == 1:
        return rows[0]
    cut = int(rng.integers(1, len(rows)))
    return draw_sums(rng, rows[:cut]), draw_sums(rng, rows[cut:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_added_up_in_the_given_order(dtype: str) -> None:
    import ml_dtypes

    print("seed", SEED)
    rng = np.random.default_rng([SEED, DTYPES.index(dtype)])
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    device, driver = made()
    for count in (1, 16, int(rng.integers(2, 3000))):
        rows = int(rng.integers(2, 10))
        data = (rng.normal(size=(rows, count)) * 100).astype(kind)
        sums = draw_sums(rng, [int(k) for k in rng.permutation(rows)])
        wide = data.astype(np.float32) if kind.itemsize == 2 and kind.kind not in "iu" else data

        def add(part: Sums, wide: np.ndarray = wide) -> np.ndarray:
            return wide[part] if isinstance(part, int) else add(part[0], wide) + add(part[1], wide)

        memory = device.upload(data)
        before, skipped = int(rng.integers(3)), 5
        out = device.upload(np.zeros(before + count + skipped, kind))
        slot = Slot(0, "input", data.shape, FROM_NUMPY[kind])
        step = CardStep(device, _At(memory.pointer), slot, _At(out.pointer))
        step.sum_rows(out.pointer + before * kind.itemsize, memory.pointer, sums, count, slot.dtype)
        got = device.download(out, (before + count + skipped,), slot.dtype)
        assert got[before : before + count].tobytes() == add(sums).astype(kind).tobytes(), (sums, count)
        assert not got[:before].any() and not got[before + count :].any()


def test_a_step_in_the_memory_of_the_card() -> None:
    """Operations are issued on the device's stream; a result of the host is uploaded."""
    device, driver = made()
    x = np.arange(6, dtype=np.int32)
    memory, out = device.upload(x), device.upload(np.zeros(6, np.int32))
    seen: list[CardStep] = []

    def on_device(step: CardStep, by_host: bool) -> np.ndarray | None:
        seen.append(step)
        assert (step.shape, step.dtype, step.stream, step.card) == ((6,), INT32, driver.stream, driver.bus)
        assert step.fetch().tolist() == x.tolist()
        if by_host:
            return step.fetch() * 2
        rest = step.allocate(24)
        step.copy(rest, step.address, 24)
        step.zero(step.out, 24)
        step.copy(step.out, rest + 8, 16)
        step.mark()
        assert not step.has_reached_mark()
        step.synchronise()
        assert step.has_reached_mark()
        return None

    slots = (Slot(0, "input", (6,), INT32, 0), Slot(1, "output", (6,), INT32, 0))
    for by_host, want in ((False, [2, 3, 4, 5, 0, 0]), (True, [0, 2, 4, 6, 8, 10])):
        call = HostCall("a step", np.copy, (0,), 1, {"by_host": by_host}, on_device=on_device)
        program = Program((((6,), INT32),), (((6,), INT32),), slots, (call,), 0, (), ())
        worker = Walker(device)
        assert isinstance(worker, OffersDeviceSteps)
        walk(program, [_At(memory.pointer)], [_At(out.pointer)], _At(0), worker)
        assert device.download(out, (6,), INT32).tolist() == want
    assert len(seen) == 2
