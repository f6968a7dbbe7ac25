"""NVIDIA's driver through ``cuda-bindings``, which is imported when the first device is opened."""

from __future__ import annotations

import ctypes
import importlib
from types import SimpleNamespace
from typing import Any

from weft.devices.cuda.adapter import Code, version

SHARED_WITHOUT_REQUEST = 48 << 10  # bytes of shared memory that a block may use without a request
NEW_ELAPSED_VERSION = 12_080  # CUDA 12.8: the first driver with the version of cuEventElapsedTime that cuda-bindings 13 calls


class OutOfMemory(Exception):
    """The card has no free piece of memory of the requested size."""


class DriverError(RuntimeError):
    """The driver rejected a call. The text names the error and the call."""


def version_text(version: int) -> str:
    """Return a driver's version number as text: 12040 as 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}"


class NvidiaDriver:
    """One card, its primary context, and one stream, which orders all operations: memory, copies, launches, events and graphs.

    Calls are asynchronous, except :meth:`wait`, :meth:`synchronise`, :meth:`settle` and those that create objects. Operations run
    in the order of the calls, from whatever thread. Addresses are integers. In tests another class with these methods records,
    checks and interprets.

    api : the module ``cuda.bindings.driver``, whose functions return (error, results ...)
    """

    def __init__(self, number: int = 0, api: Any = None) -> None:
        if api is None:
            api = importlib.import_module("cuda.bindings.driver")
        self._api = api
        self._call("cuInit", 0)
        self._card = self._call("cuDeviceGet", number)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._card)
        self.enter()
        self.cuda = int(self._call("cuDriverGetVersion"))
        kinds = api.CUdevice_attribute
        major, minor = (
            self._call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), self._card)
            for part in ("MAJOR", "MINOR")
        )
        self.capability = 10 * int(major) + int(minor)
        self.name = bytes(self._call("cuDeviceGetName", 100, self._card)).split(b"\0")[0].decode(errors="replace")
        self.total = int(self._call("cuDeviceTotalMem", self._card))
        self.bus = bytes(self._call("cuDeviceGetPCIBusId", 32, self._card)).split(b"\0")[0].decode(errors="replace")
        self._stream = self._call("cuStreamCreate", int(api.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.stream = int(self._stream)
        self._pool = self._call("cuDeviceGetDefaultMemPool", self._card)
        keep = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD  # released memory stays in the pool until it is trimmed
        self._call("cuMemPoolSetAttribute", self._pool, keep, api.cuuint64_t(2**64 - 1))

    def _call(self, name: str, *arguments: Any) -> Any:
        error, *results = getattr(self._api, name)(*arguments)
        if error != self._api.CUresult.CUDA_SUCCESS:
            if error == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                raise OutOfMemory(name)
            raise self._error(name, error)
        return results[0] if results else None

    def _error(self, name: str, error: Any) -> DriverError:
        _, text = self._api.cuGetErrorString(error)
        message = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return DriverError(f"{name}: {message} ({getattr(error, 'name', error)})")

    def enter(self) -> None:
        """Make the card current in the calling thread: other cards and libraries change the thread's context between calls."""
        self._call("cuCtxSetCurrent", self._context)

    def allocate(self, nbytes: int) -> int:
        """Return memory of the card. Raises OutOfMemory."""
        return int(self._call("cuMemAllocAsync", nbytes, self._stream))

    def release(self, address: int) -> None:
        """Free memory after the operations issued so far."""
        self._call("cuMemFreeAsync", address, self._stream)

    def trim(self) -> None:
        """Return released memory that the driver keeps to the system."""
        self.synchronise()
        self._call("cuMemPoolTrimTo", self._pool, 0)

    def free(self) -> int:
        """Return the bytes of free memory."""
        error, *results = self._api.cuMemGetInfo()
        return 0 if error != self._api.CUresult.CUDA_SUCCESS else int(results[0])

    def allocate_pinned(self, nbytes: int) -> int:
        """Return host memory that the card accesses directly. It lives as long as the process."""
        return int(self._call("cuMemHostAlloc", nbytes, 0))

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Copy from pinned memory to the card."""
        self._call("cuMemcpyHtoDAsync", target, source, nbytes, self._stream)

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copy from the card to pinned memory."""
        self._call("cuMemcpyDtoHAsync", target, source, nbytes, self._stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._call("cuMemcpyDtoDAsync", target, source, nbytes, self._stream)

    def zero(self, target: int, nbytes: int) -> None:
        self._call("cuMemsetD8Async", target, 0, nbytes, self._stream)

    def load(self, code: Code) -> Any:
        """Load a function; it stays loaded until :meth:`unload`."""
        module = self._module(code)
        function = self._call("cuModuleGetFunction", module, code.entry.encode())
        if code.shared > SHARED_WITHOUT_REQUEST:
            kinds = self._api.CUfunction_attribute
            self._call("cuFuncSetAttribute", function, kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, code.shared)
            # the maximum, so that as many blocks as possible share a processor; loads of such tiles bypass L1
            self._call("cuFuncSetAttribute", function, kinds.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
        return SimpleNamespace(function=function, module=module)

    def _module(self, code: Code) -> Any:
        results = self._api.CUresult
        error, module = self._api.cuModuleLoadData(code.binary)
        if error == results.CUDA_SUCCESS:
            return module
        if error not in (results.CUDA_ERROR_INVALID_IMAGE, results.CUDA_ERROR_NO_BINARY_FOR_GPU):
            raise self._error("cuModuleLoadData", error)
        raise DriverError(
            f"NVIDIA's driver, which is for CUDA {version_text(self.cuda)}, refuses code that Triton {version()} made for "
            f"compute capability {self.capability / 10:.1f} (ABI {code.binary[8]}; {self._error('cuModuleLoadData', error)}): "
            "update the driver, or install a Triton whose code older drivers take: pip install triton==3.6.0"
        )

    def unload(self, function: Any) -> None:
        """Unload a function. No launch of it may be running."""
        self._call("cuModuleUnload", function.module)

    def launch(self, function: Any, grid: tuple[int, int], code: Code, parameters: int) -> None:
        """Launch a function. parameters: address of an array of addresses of values, which are read before it returns."""
        x, y = grid
        (error,) = self._api.cuLaunchKernel(
            function.function, x, y, 1, 32 * code.warps, 1, 1, code.shared, self._stream, parameters, 0,
        )
        if error:
            raise DriverError(f"cuLaunchKernel: {error} for grid {grid}, {code.warps} warps, {code.shared} shared bytes")

    def mark(self, mark: Any = None) -> Any:
        """Record an event, in ``mark`` or a new one."""
        if mark is None:
            mark = self._call("cuEventCreate", int(self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        self._call("cuEventRecord", mark, self._stream)
        return mark

    def wait(self, mark: Any) -> None:
        """Return when all operations before a mark are done."""
        self._call("cuEventSynchronize", mark)

    def has_reached(self, mark: Any) -> bool:
        """Return whether all operations before a mark are done."""
        (error,) = self._api.cuEventQuery(mark)
        if error == self._api.CUresult.CUDA_ERROR_NOT_READY:
            return False
        if error != self._api.CUresult.CUDA_SUCCESS:
            raise DriverError(f"cuEventQuery: {error}")
        return True

    def stamp(self) -> Any:
        """Record an event with a time."""
        mark = self._call("cuEventCreate", int(self._api.CUevent_flags.CU_EVENT_DEFAULT))
        self._call("cuEventRecord", mark, self._stream)
        return mark

    def take_seconds(self, first: Any, second: Any) -> float:
        """Return the seconds between two such events, both reached, and destroy them."""
        if self.cuda < NEW_ELAPSED_VERSION:
            milliseconds = elapsed_by_old_driver(first, second)
        else:
            milliseconds = self._call("cuEventElapsedTime", first, second)
        for mark in (first, second):
            self._call("cuEventDestroy", mark)
        return float(milliseconds) / 1000

    def synchronise(self) -> None:
        self._call("cuStreamSynchronize", self._stream)

    def lead(self, stream: int) -> None:
        """Make later operations of another stream wait for the operations issued here so far."""
        self._in_order(self._stream, self._api.CUstream(stream))

    def follow(self, stream: int) -> None:
        """Make later operations here wait for the operations of another stream so far."""
        self._in_order(self._api.CUstream(stream), self._stream)

    def _in_order(self, first: Any, second: Any) -> None:
        """Make later operations of the second stream wait for the operations of the first so far."""
        event = self._call("cuEventCreate", int(self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        try:
            self._call("cuEventRecord", event, first)
            self._call("cuStreamWaitEvent", second, event, 0)
        finally:
            self._call("cuEventDestroy", event)  # CUDA keeps the event until nothing waits for it

    def settle(self) -> None:
        """Return when all operations on this card, of all libraries, are done."""
        self._call("cuCtxSynchronize")

    def gpu_of_address(self, address: int) -> int | None:
        """Return the number of the card that an address belongs to; None if it is not a card's memory."""
        which = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        error, number = self._api.cuPointerGetAttribute(which, address)
        return int(number) if error == self._api.CUresult.CUDA_SUCCESS else None

    def record(self) -> None:
        """Begin recording: operations are recorded, not run. Memory must not be allocated."""
        alone = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("cuStreamBeginCapture", self._stream, alone)

    def end_recording(self) -> Any:
        """End recording and return the operations as a graph."""
        captured = self._call("cuStreamEndCapture", self._stream)
        try:
            return self._call("cuGraphInstantiate", captured, 0)
        finally:
            self._call("cuGraphDestroy", captured)

    def replay(self, graph: Any) -> None:
        self._call("cuGraphLaunch", graph, self._stream)

    def drop(self, graph: Any) -> None:
        self._call("cuGraphExecDestroy", graph)


def elapsed_by_old_driver(first: Any, second: Any) -> float:
    """Return the milliseconds between two events through the version of cuEventElapsedTime that every driver has.

    cuda-bindings 13 calls only the version of CUDA 12.8, and raises FunctionNotFoundError on older drivers.
    """
    milliseconds = ctypes.c_float()
    function = ctypes.CDLL("libcuda.so.1").cuEventElapsedTime
    error = function(ctypes.byref(milliseconds), ctypes.c_void_p(int(first)), ctypes.c_void_p(int(second)))
    if error:
        raise DriverError(f"cuEventElapsedTime: error {error}")
    return milliseconds.value
