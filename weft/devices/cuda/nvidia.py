"""NVIDIA's driver, by ``cuda-bindings``, which is imported with the first device and never before."""

from __future__ import annotations

import ctypes
import importlib
from types import SimpleNamespace
from typing import Any

from weft.devices.cuda.adapter import Code, version
from weft.devices.cuda.driver import DriverError, OutOfMemory, dotted

PLAIN = 48 << 10  # bytes of a block's own memory that need not be asked for
ELAPSED_SINCE = 12_080  # CUDA 12.8: since then drivers have the form of cuEventElapsedTime that cuda-bindings 13 calls


class NvidiaDriver:
    """See :class:`weft.devices.cuda.driver.Driver`. One card, its primary context, one stream.

    api : the module ``cuda.bindings.driver``, whose functions give (error, results ...)
    """

    def __init__(self, number: int = 0, api: Any = None) -> None:
        if api is None:
            api = importlib.import_module("cuda.bindings.driver")
        self._api = api
        self._ask("cuInit", 0)
        self._card = self._ask("cuDeviceGet", number)
        self._context = self._ask("cuDevicePrimaryCtxRetain", self._card)
        self.enter()
        self.cuda = int(self._ask("cuDriverGetVersion"))
        kinds = api.CUdevice_attribute
        major, minor = (
            self._ask("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), self._card)
            for part in ("MAJOR", "MINOR")
        )
        self.capability = 10 * int(major) + int(minor)
        self.name = bytes(self._ask("cuDeviceGetName", 100, self._card)).split(b"\0")[0].decode(errors="replace")
        self.total = int(self._ask("cuDeviceTotalMem", self._card))
        self._stream = self._ask("cuStreamCreate", int(api.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.stream = int(self._stream)
        self._pool = self._ask("cuDeviceGetDefaultMemPool", self._card)
        keep = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD  # released memory stays ours until it is trimmed
        self._ask("cuMemPoolSetAttribute", self._pool, keep, api.cuuint64_t(2**64 - 1))

    def _ask(self, name: str, *given: Any) -> Any:
        error, *results = getattr(self._api, name)(*given)
        if error != self._api.CUresult.CUDA_SUCCESS:
            if error == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                raise OutOfMemory(name)
            raise self._refused(name, error)
        return results[0] if results else None

    def _refused(self, name: str, error: Any) -> DriverError:
        _, text = self._api.cuGetErrorString(error)
        told = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return DriverError(f"{name}: {told} ({getattr(error, 'name', error)})")

    def enter(self) -> None:
        self._ask("cuCtxSetCurrent", self._context)  # each time: other cards and other libraries set theirs in this thread

    def allocate(self, nbytes: int) -> int:
        return int(self._ask("cuMemAllocAsync", nbytes, self._stream))

    def release(self, address: int) -> None:
        self._ask("cuMemFreeAsync", address, self._stream)

    def trim(self) -> None:
        self.synchronise()
        self._ask("cuMemPoolTrimTo", self._pool, 0)

    def free(self) -> int:
        error, *found = self._api.cuMemGetInfo()
        return 0 if error != self._api.CUresult.CUDA_SUCCESS else int(found[0])

    def pinned(self, nbytes: int) -> int:
        return int(self._ask("cuMemHostAlloc", nbytes, 0))

    def upload(self, target: int, source: int, nbytes: int) -> None:
        self._ask("cuMemcpyHtoDAsync", target, source, nbytes, self._stream)

    def download(self, target: int, source: int, nbytes: int) -> None:
        self._ask("cuMemcpyDtoHAsync", target, source, nbytes, self._stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._ask("cuMemcpyDtoDAsync", target, source, nbytes, self._stream)

    def zero(self, target: int, nbytes: int) -> None:
        self._ask("cuMemsetD8Async", target, 0, nbytes, self._stream)

    def load(self, code: Code) -> Any:
        module = self._module(code)
        function = self._ask("cuModuleGetFunction", module, code.entry.encode())
        if code.shared > PLAIN:
            kinds = self._api.CUfunction_attribute
            self._ask("cuFuncSetAttribute", function, kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, code.shared)
            # all that a processor can give, so that as many blocks run on it as fit; loads of such tiles pass L1 by
            self._ask("cuFuncSetAttribute", function, kinds.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
        return SimpleNamespace(function=function, module=module)

    def _module(self, code: Code) -> Any:
        results = self._api.CUresult
        error, module = self._api.cuModuleLoadData(code.binary)
        if error == results.CUDA_SUCCESS:
            return module
        if error not in (results.CUDA_ERROR_INVALID_IMAGE, results.CUDA_ERROR_NO_BINARY_FOR_GPU):
            raise self._refused("cuModuleLoadData", error)
        raise DriverError(
            f"NVIDIA's driver, which is for CUDA {dotted(self.cuda)}, refuses code that Triton {version()} made for compute "
            f"capability {self.capability / 10:.1f} (ABI {code.binary[8]}; {self._refused('cuModuleLoadData', error)}): update "
            "the driver, or install a Triton whose code older drivers take: pip install triton==3.6.0"
        )

    def unload(self, function: Any) -> None:
        self._ask("cuModuleUnload", function.module)

    def launch(self, function: Any, grid: tuple[int, int], code: Code, parameters: int) -> None:
        x, y = grid
        (error,) = self._api.cuLaunchKernel(
            function.function, x, y, 1, 32 * code.warps, 1, 1, code.shared, self._stream, parameters, 0,
        )
        if error:
            raise DriverError(f"cuLaunchKernel: {error} for grid {grid}, {code.warps} warps, {code.shared} shared bytes")

    def mark(self, mark: Any = None) -> Any:
        if mark is None:
            mark = self._ask("cuEventCreate", int(self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        self._ask("cuEventRecord", mark, self._stream)
        return mark

    def wait(self, mark: Any) -> None:
        self._ask("cuEventSynchronize", mark)

    def reached(self, mark: Any) -> bool:
        (error,) = self._api.cuEventQuery(mark)
        if error == self._api.CUresult.CUDA_ERROR_NOT_READY:
            return False
        if error != self._api.CUresult.CUDA_SUCCESS:
            raise DriverError(f"cuEventQuery: {error}")
        return True

    def stamp(self) -> Any:
        mark = self._ask("cuEventCreate", int(self._api.CUevent_flags.CU_EVENT_DEFAULT))
        self._ask("cuEventRecord", mark, self._stream)
        return mark

    def passed(self, first: Any, second: Any) -> float:
        if self.cuda < ELAPSED_SINCE:
            milliseconds = elapsed_before(first, second)
        else:
            milliseconds = self._ask("cuEventElapsedTime", first, second)
        for mark in (first, second):
            self._ask("cuEventDestroy", mark)
        return float(milliseconds) / 1000

    def synchronise(self) -> None:
        self._ask("cuStreamSynchronize", self._stream)

    def lead(self, stream: int) -> None:
        self._in_order(self._stream, self._api.CUstream(stream))

    def follow(self, stream: int) -> None:
        self._in_order(self._api.CUstream(stream), self._stream)

    def _in_order(self, first: Any, second: Any) -> None:
        """What comes on the second stream waits for what was asked for on the first."""
        event = self._ask("cuEventCreate", int(self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        try:
            self._ask("cuEventRecord", event, first)
            self._ask("cuStreamWaitEvent", second, event, 0)
        finally:
            self._ask("cuEventDestroy", event)  # which lasts until nobody waits for it

    def settle(self) -> None:
        self._ask("cuCtxSynchronize")

    def lies(self, address: int) -> int | None:
        which = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        error, number = self._api.cuPointerGetAttribute(which, address)
        return int(number) if error == self._api.CUresult.CUDA_SUCCESS else None

    def record(self) -> None:
        alone = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._ask("cuStreamBeginCapture", self._stream, alone)

    def recorded(self) -> Any:
        drawn = self._ask("cuStreamEndCapture", self._stream)
        try:
            return self._ask("cuGraphInstantiate", drawn, 0)
        finally:
            self._ask("cuGraphDestroy", drawn)

    def replay(self, graph: Any) -> None:
        self._ask("cuGraphLaunch", graph, self._stream)

    def drop(self, graph: Any) -> None:
        self._ask("cuGraphExecDestroy", graph)


def elapsed_before(first: Any, second: Any) -> float:
    """Return the milliseconds between two events, by the form of cuEventElapsedTime that every driver has.

    cuda-bindings 13 call the form of CUDA 12.8 alone, and raise FunctionNotFoundError on older drivers.
    """
    found = ctypes.c_float()
    function = ctypes.CDLL("libcuda.so.1").cuEventElapsedTime
    error = function(ctypes.byref(found), ctypes.c_void_p(int(first)), ctypes.c_void_p(int(second)))
    if error:
        raise DriverError(f"cuEventElapsedTime: error {error}")
    return found.value


class SecondStream:
    """Another stream on a driver's card, as another library has one: it fills memory with a byte. number : as CUDA has it"""

    def __init__(self, driver: NvidiaDriver) -> None:
        self._driver, api = driver, driver._api
        driver.enter()
        self._stream = driver._ask("cuStreamCreate", int(api.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.number = int(self._stream)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        self._driver.enter()
        self._driver._ask("cuMemsetD8Async", address, value, nbytes, self._stream)
