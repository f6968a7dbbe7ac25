"""What NVIDIA's driver is asked, call by call, by a module in the place of ``cuda.bindings.driver``; nothing is computed."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.devices.cuda.adapter import Code
from weft.devices.cuda.device import CardDevice
from weft.devices.cuda.nvidia import DriverError, NvidiaDriver, OutOfMemory
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE, input_leaf
from weft.schedule.build import build

pytest.importorskip("triton")

ARITY = {  # parameters of the functions of cuda-bindings 13
    "cuInit": 1, "cuDeviceGet": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1, "cuDeviceGetAttribute": 2,
    "cuDeviceGetName": 2, "cuDeviceTotalMem": 1, "cuStreamCreate": 1, "cuDeviceGetDefaultMemPool": 1, "cuMemPoolSetAttribute": 3,
    "cuMemPoolTrimTo": 2, "cuMemAllocAsync": 2, "cuMemFreeAsync": 2, "cuMemHostAlloc": 2, "cuMemcpyHtoDAsync": 4,
    "cuMemcpyDtoHAsync": 4, "cuMemcpyDtoDAsync": 4, "cuMemsetD8Async": 4, "cuMemGetInfo": 0, "cuEventCreate": 1,
    "cuEventRecord": 2, "cuEventSynchronize": 1, "cuStreamSynchronize": 1, "cuModuleLoadData": 1, "cuModuleGetFunction": 2,
    "cuFuncSetAttribute": 3, "cuModuleUnload": 1, "cuDriverGetVersion": 0,
    "cuLaunchKernel": 11, "cuStreamBeginCapture": 2, "cuStreamEndCapture": 1, "cuGraphInstantiate": 2,
    "cuGraphDestroy": 1, "cuGraphLaunch": 2, "cuGraphExecDestroy": 1, "cuGetErrorString": 1,
    "cuEventQuery": 1, "cuEventDestroy": 1, "cuStreamWaitEvent": 3, "cuCtxSynchronize": 0,
    "cuEventElapsedTime": 2, "cuPointerGetAttribute": 2, "cuDeviceGetPCIBusId": 2,
}
NAMES = {
    "CUdevice_attribute": ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
    "CUstream_flags": ("CU_STREAM_NON_BLOCKING",), "CUmemPool_attribute": ("CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",),
    "CUfunction_attribute": (
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", "CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT",
    ),
    "CUevent_flags": ("CU_EVENT_DISABLE_TIMING", "CU_EVENT_DEFAULT"),
    "CUstreamCaptureMode": ("CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",),
    "CUresult": (
        "CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_READY", "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
    ),
    "CUpointer_attribute": ("CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",),
}
RESULTS = {
    "cuDeviceGet": 0, "cuDevicePrimaryCtxRetain": "context", "cuDeviceGetName": b"A card\0\0", "cuDeviceTotalMem": 1 << 36,
    "cuDeviceGetPCIBusId": b"0000:01:00.0\0",
    "cuStreamCreate": 7, "cuPointerGetAttribute": 3, "cuDriverGetVersion": 13000,
    "cuEventElapsedTime": 2.5, "cuDeviceGetDefaultMemPool": "pool", "cuEventCreate": "event", "cuModuleLoadData": "module",
    "cuModuleGetFunction": "function", "cuStreamEndCapture": "drawn", "cuGraphInstantiate": "graph",
    "cuGetErrorString": b"what it says",
}


class Api:
    """Checks how many arguments each function gets, and gives what it would give; ``fails``: names that give an error.

    asked : (name, arguments) in their order; kept : memory that it gave out
    """

    cuuint64_t = int
    CUstream = int

    def __init__(self) -> None:
        for kind, names in NAMES.items():
            setattr(self, kind, SimpleNamespace(**{name: k for k, name in enumerate(names)}))
        self.asked: list[tuple[str, tuple]] = []
        self.fails: dict[str, int] = {}
        self.kept: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def function(*given: Any) -> tuple:
            assert len(given) == ARITY[name], (name, given)
            self.asked.append((name, given))
            if name in self.fails:
                gives = name in RESULTS or name in ("cuMemAllocAsync", "cuMemHostAlloc")
                return (self.fails[name], None) if gives else (self.fails[name],)
            if name == "cuDeviceGetAttribute":
                return (0, (9, 0)[given[0]])
            if name in ("cuMemAllocAsync", "cuMemHostAlloc"):
                self.kept.append(ctypes.create_string_buffer(given[0] + 512))
                return (0, -(-ctypes.addressof(self.kept[-1]) // 256) * 256)
            if name == "cuMemGetInfo":
                return (0, 1 << 30, 1 << 36)
            if name.startswith("cuMemcpy"):
                ctypes.memmove(given[0], given[1], given[2])
            if name == "cuLaunchKernel":
                self.parameters = [ctypes.string_at(at, 8) for at in (ctypes.c_void_p * 3).from_address(given[9])]
            return (0, RESULTS[name]) if name in RESULTS else (0,)

        return function

    def count(self) -> Counter[str]:
        return Counter(name for name, _ in self.asked)

    def last(self, name: str) -> tuple:
        return [given for asked, given in self.asked if asked == name][-1]


def test_a_card_is_opened_once() -> None:
    api = Api()
    driver = NvidiaDriver(0, api)
    assert (driver.name, driver.capability, driver.total) == ("A card", 90, 1 << 36)
    assert api.last("cuMemPoolSetAttribute") == ("pool", 0, 2**64 - 1) and api.last("cuStreamCreate") == (0,)
    for count in (2, 3):  # each time: other libraries may have set theirs
        driver.enter()
        assert api.count()["cuCtxSetCurrent"] == count and api.last("cuCtxSetCurrent") == ("context",)


def test_a_program_is_started() -> None:
    api, loaded = Api(), Code(b"\x7fELF", "kernel", 4, 100 << 10, 0, "")
    driver = NvidiaDriver(0, api)

    def compiler(launch: Any, capability: int, aligned: int) -> Code:
        assert (capability, aligned) == (90, 16)
        types = ["u64" if t[0] == "*" else t.replace("i", "u").replace("fp", "f") for _, t, _ in launch.signature]
        head = ",".join(f".param .{t} p" for t in [*types, "u64", "u64"])
        return Code(loaded.binary, "kernel", launch.warps, loaded.shared, 0, f".entry kernel({head})")

    device = CardDevice(driver, compiler=compiler)
    x = input_leaf((300,), FLOAT32)
    run = device.compile(build(Graph([x], [bind(TABLE["exp"], x)]), device.target))
    assert [given for name, given in api.asked if name == "cuFuncSetAttribute"] == [
        ("function", 0, 100 << 10), ("function", 1, 100),
    ]
    assert api.last("cuModuleGetFunction") == ("module", b"kernel")
    given = device.upload(np.arange(300, dtype=np.float32))
    (out,) = run([given])
    function, *grid, shared, stream, parameters, extra = api.last("cuLaunchKernel")
    assert (function, grid[1:], shared, stream, extra) == ("function", [1, 1, 128, 1, 1], 100 << 10, 7, 0) and grid[0] > 0
    assert {struct.unpack("Q", p)[0] for p in api.parameters[:2]} == {given.pointer, out.pointer}
    assert struct.unpack("i", api.parameters[2][:4]) == (300,)
    np.testing.assert_array_equal(device.download(given, (300,), FLOAT32), np.arange(300))
    count = api.count()
    assert count["cuEventSynchronize"] == 1 and count["cuEventCreate"] == 2 and count["cuStreamSynchronize"] == 0
    device.synchronise()
    del given, out
    device.memories.give_back()
    assert api.count()["cuMemFreeAsync"] == 2 and api.last("cuMemPoolTrimTo") == ("pool", 0)


def test_graphs() -> None:
    api = Api()
    driver = NvidiaDriver(0, api)
    driver.record()
    driver.copy(16, 16, 0)
    graph = driver.end_recording()
    driver.replay(graph)
    driver.drop(graph)
    names = [name for name, _ in api.asked][-6:]
    assert names == [
        "cuMemcpyDtoDAsync", "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphDestroy", "cuGraphLaunch", "cuGraphExecDestroy",
    ]
    assert api.last("cuGraphLaunch") == ("graph", 7) and api.last("cuStreamBeginCapture")[0] == 7
    api.fails["cuGraphInstantiate"] = 7
    driver.record()
    with pytest.raises(DriverError, match=r"cuGraphInstantiate: what it says \(7\)"):
        driver.end_recording()
    assert api.count()["cuGraphDestroy"] == 2


def test_other_libraries_on_the_card() -> None:
    api = Api()
    driver = NvidiaDriver(0, api)
    assert driver.stream == 7 and driver.gpu_of_address(4096) == 3
    for order, first, second in ((driver.lead, 7, 1), (driver.follow, 2, 7), (driver.lead, 7, 1 << 40)):
        order(first if second == 7 else second)
        assert [given for name, given in api.asked[-4:]] == [(0,), ("event", first), (second, "event", 0), ("event",)]
    mark = driver.mark()
    assert driver.has_reached(mark)
    api.fails.update(cuEventQuery=2, cuPointerGetAttribute=1)
    assert not driver.has_reached(mark) and driver.gpu_of_address(4096) is None
    api.fails["cuEventQuery"] = 5
    with pytest.raises(DriverError, match="cuEventQuery: 5"):
        driver.has_reached(mark)
    driver.settle()
    api.fails["cuStreamWaitEvent"] = 9
    with pytest.raises(DriverError, match="cuStreamWaitEvent"):
        driver.lead(1)
    assert api.asked[-1][0] == "cuEventDestroy" and api.count()["cuEventDestroy"] == 4 and api.count()["cuCtxSynchronize"] == 1


def test_time_on_the_card() -> None:
    api = Api()
    driver = NvidiaDriver(0, api)
    first, second = driver.stamp(), driver.stamp()
    assert api.last("cuEventCreate") == (1,) and api.count()["cuEventRecord"] == 2  # the default keeps the time
    assert driver.take_seconds(first, second) == 0.0025 and api.count()["cuEventDestroy"] == 2
    driver.mark()
    assert api.last("cuEventCreate") == (0,)


def test_errors_say_what_was_asked() -> None:
    api = Api()
    driver = NvidiaDriver(0, api)
    api.fails["cuMemAllocAsync"] = 1
    with pytest.raises(OutOfMemory):
        driver.allocate(8)
    api.fails["cuLaunchKernel"] = 9
    with pytest.raises(DriverError, match=r"cuLaunchKernel: 9 for grid \(3, 1\), 4 warps, 0 shared bytes"):
        driver.launch(SimpleNamespace(function=1), (3, 1), Code(b"", "kernel", 4, 0, 0, ""), 0)
    api.fails["cuMemGetInfo"] = 3
    assert driver.free() == 0
    api.fails["cuInit"] = 100
    with pytest.raises(DriverError, match=r"cuInit: what it says \(100\)"):
        NvidiaDriver(0, api)


def test_the_module_is_as_it_is_taken_to_be() -> None:
    """Where cuda-bindings is installed: its functions take as many arguments, and its names are there."""
    try:
        there = importlib.util.find_spec("cuda.bindings") is not None
    except ImportError:
        there = False
    if there:
        from cuda.bindings import driver

        told = {name: getattr(driver, name).__doc__.strip().splitlines()[0] for name in ARITY}
        inside = {name: line[line.index("(") + 1 : line.rindex(")")] for name, line in told.items()}
        assert {name: len([p for p in text.split(",") if p.strip()]) for name, text in inside.items()} == ARITY
        assert all(hasattr(getattr(driver, kind), name) for kind, names in NAMES.items() for name in names)
    code = "import weft as wf, sys; wf.ones(3).numpy(); sys.exit('cuda' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0
