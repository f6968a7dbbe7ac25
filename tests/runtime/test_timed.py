"""Timed programs: the same bits, and a time for every step."""

from __future__ import annotations

import time

import numpy as np

import weft as wf
from weft.devices import get_device
from weft.graph.node import Graph
from weft.schedule.build import build_with_groups
from weft.schedule.program import Call, Copy, HostCall, Loop


def everything(x, w, k):
    """Kernels, a loop, and a step in NumPy between them."""
    last, _ = wf.scan(lambda c, _: (wf.tanh(c @ w), c.sum()), x, None, length=5)
    order = wf.argsort(last, axis=1)
    return (order * 2 + k).sum(axis=0), last.T @ x


def test_the_same_bits_and_every_step_timed() -> None:
    rng = np.random.default_rng()
    x, w = (wf.asarray(rng.normal(size=(32, 32)).astype(np.float32)) for _ in range(2))
    graph = wf.jit(everything).trace(x, w, 3).graph
    # an output that is an input is copied
    program, fused = build_with_groups(Graph(graph.inputs, [*graph.outputs, graph.inputs[0]]))
    assert {type(s) for s in program.steps} == {Call, Copy, HostCall, Loop}
    assert len(fused) == sum(not isinstance(s, Copy) for s in program.steps)
    device = get_device()
    inputs = [a.node.value for a in (x, w)]
    plain, timed = device.compile(program), device.compile_timed(program)
    for threads in (1, wf.get_num_threads()):
        before = wf.get_num_threads()
        wf.set_num_threads(threads)
        try:
            wanted = plain(inputs)
            for _ in range(3):
                begin = time.perf_counter_ns()
                found = timed(inputs)
                end = time.perf_counter_ns()
                times = timed.times()
                assert len(times) == len(program.steps) and sum(ns for _, ns in times) <= end - begin
                assert all(ns >= 0 and begin <= start <= end for start, ns in times)
                assert [a for a, _ in times] == sorted(a for a, _ in times)
                assert sum(ns for _, ns in times) > 0
        finally:
            wf.set_num_threads(before)
        for a, b, (shape, dtype) in zip(wanted, found, program.outputs, strict=True):
            assert device.download(a, shape, dtype).tobytes() == device.download(b, shape, dtype).tobytes()
