"""The interface of a device.

Every device implements ``Device``. The other protocols are optional: a caller tests ``isinstance(device, Timing)`` and falls
back if the device does not implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from weft.devices.faults import IndexFault
from weft.devices.native_protocols import (
    PreparedCall,
    SmallOperationContext,
    SmallWork,
    WarmCall,
    WarmCallContext,
    WarmTable,
    WatchRow,
)
from weft.dtypes.formats import Format

if TYPE_CHECKING:  # importing weft need not import its compiler
    from weft.graph.primitives.table import Primitive
    from weft.kernel.ir import Kernel
    from weft.kernel.target import Order, Target
    from weft.schedule.program import Program


# Buffer class -> device name, for devices other than the CPU. It is empty until such a device is used, so the check for foreign
# buffers costs nothing on a machine with one device.
DEVICE_OF_BUFFER_TYPE: dict[type, str] = {}


class Run(Protocol):
    """A callable that runs a program."""

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        """Run the program on buffers (or Python numbers for scalar inputs). Return one buffer per output.

        If ``held[i]`` is False, nothing else refers to input i and its memory may be donated to an output. Raises IndexFault if
        an index is out of range; no input is changed then.
        """

    def direct(self) -> int:
        """Return the address of the table that one native call executes, for warm calls, or 0 if a run needs more."""


@runtime_checkable
class DefersChecks(Protocol):
    """A Run on an asynchronous device: it can return before the device has checked the indices."""

    def run_deferred(
        self, inputs: list[Any], held: list[bool] | None, written: Mapping[int, int] | None,
        tell: Callable[[IndexFault], IndexError],
    ) -> list[Any]:
        """Run as :class:`Run` does, but report an index that is out of range later.

        ``written`` maps each output that replaces the content of an array to the input with the old content. If an index is out
        of range, such an output receives the old content, and a later run or read raises the error that ``tell`` returns. If
        this is impossible or ``written`` is None, IndexFault is raised immediately. A pending error of an earlier run is raised
        before the run starts.
        """


@runtime_checkable
class ReportsErrorsLate(Protocol):
    """A device that reports errors of a run after the run has returned."""

    def raise_pending_error(self) -> None:
        """Raise the error of an earlier run if one is known and has not been raised yet."""


class Executable(Run, Protocol):
    """A compiled Program. ``places`` is set by the array layer: the source lines of the checked indices."""

    program: Program
    places: Any


class TimedExecutable(Executable, Protocol):
    """An Executable that measures each step of its last run."""

    def times(self) -> list[tuple[int, int]]:
        """Return (begin, nanoseconds) of each step of the last run, in execution order."""

    def parallel(self, kernel: int) -> bool:
        """Return whether kernel number ``kernel`` divides its work among threads."""


class Device(Protocol):
    """A device that runs programs built for its ``target``. All methods are thread-safe."""

    name: str
    target: Target

    @property
    def threads(self) -> int:
        """The number of host threads a kernel may use."""

    def set_threads(self, count: int) -> None: ...

    def compile(self, program: Program, flush_denormals: bool = False) -> Executable: ...

    def allocate(self, nbytes: int) -> Any:
        """Return an uninitialised buffer of at least ``nbytes`` bytes."""

    def upload(self, array: np.ndarray) -> Any:
        """Copy an array to a new buffer, in row-major order."""

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> Any:
        """Copy rows of an array to a new buffer. ``rows`` may have any shape; its indices must be in range."""

    def read_first(self, buffer: Any, dtype: Format) -> Any:
        """Return the first element of a buffer as a NumPy number."""

    def download(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """Return a buffer's content as a read-only array, without a copy if the memory belongs to the host."""

    def synchronise(self) -> None:
        """Wait until all submitted work has finished."""

    def counters(self) -> dict[str, int]:
        """Return the counters: see :func:`weft.devices.counters`."""

    def describe(self, measure: bool = False) -> dict[str, Any]:
        """Return a description for display. ``measure`` adds measured figures (0.2 s on the CPU)."""


@runtime_checkable
class Prepares(Protocol):
    """A device that compiles kernels of a program while the rest of the program is scheduled."""

    def prepare(self, kernel: Kernel, text: str | None = None) -> str:
        """Start the compilation of a kernel of a program that will be compiled soon. Return its printed form.

        text : the printed form, if the caller knows it
        """


@runtime_checkable
class Timing(Protocol):
    """A device that can time the steps of a program."""

    def compile_timed(self, program: Program, flush_denormals: bool = False) -> TimedExecutable:
        """Compile a program with time stamps between its steps."""


@runtime_checkable
class KeepsPrograms(Protocol):
    """A device that stores Programs on disk for later processes. See ``weft/runtime/program_files.py``."""

    def read_program(self, name: str) -> bytes | None:
        """Return the bytes stored under ``name`` by the same sources of weft, or None."""

    def write_program(self, name: str, content: bytes) -> None:
        """Store a Program under ``name``."""


@runtime_checkable
class WarmCalls(Protocol):
    """A device that runs warm calls of jitted functions natively: see ``weft.devices.native_protocols``."""

    def install_warm_calls(self, cls: type, table: str, world: WarmCallContext) -> None:
        """Make calls of ``cls`` native: they use the table in the instance's slot ``table``, and read the state in ``world``."""

    def warm_table(self, table: WarmCall) -> WarmTable | None:
        """Return the native table of one signature, or None if its calls cannot run natively."""

    def watch_check(self, rows: Sequence[WatchRow]) -> Callable[[], bool]:
        """Return a function that checks that the watched variables and containers still hold the objects of ``rows``."""


@runtime_checkable
class Measuring(Protocol):
    """A device that measures its speed and stores named notes on disk."""

    @property
    def processor(self) -> str:
        """The processor's model name."""

    @property
    def identity(self) -> str:
        """A text that differs for each kind of processor."""

    def measure(self) -> dict[str, Any]:
        """Measure the device for about half a second.

        Returns ``flops``, float32 operations per second, and ``bandwidth``, pairs (bytes touched, bytes per second). Devices with
        their own memory return more: see :class:`weft.placement.device_figures.Machine`.
        """

    def recall(self, name: str) -> dict[str, Any] | None:
        """Return the note stored under ``name``, or None."""

    def remember(self, name: str, note: dict[str, Any]) -> None:
        """Store a note under ``name``."""


class DynamicKernels(Protocol):
    """Functions that take sizes as run-time arguments; their results equal those of compiled kernels bit for bit.

    Strides are in elements. Results are contiguous and may alias only operands of the same extent.
    """

    def product(
        self, dtype: Format, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int, batch: int = 1, a_batch: int = 0,
        b_batch: int = 0, order: Order | None = None,
    ) -> PreparedCall:
        """Return out[m, n] = sum over k of a[m, k] * b[k, n] for each of ``batch`` products, in float32 or float64.

        ``a_m`` to ``b_batch`` are strides. ``order`` is the order of the sums, by default that of a product with one axis k.
        """

    def sum(
        self, dtype: Format, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int, order: Order,
    ) -> PreparedCall:
        """Return out[outer, inner] = sum over k of x[outer, inner, k] in float32 or float64; ``x_outer`` to ``x_k``: strides."""

    def elementwise(self, primitive: Primitive, dtypes: tuple[Format, ...], **params: Any) -> Callable[..., None]:
        """Return ``f(count, out, x, step, ...)``, which computes an elementwise primitive on operands of these dtypes.

        ``step`` follows the address of each operand: 1, or 0 to broadcast one element. Memory beyond the elements is not touched.
        """

    def words(self, count: int, out: int, key: int, base: int) -> None:
        """Compute the first ``count`` words of ``random_bits``. ``key`` and ``base`` are addresses."""


@runtime_checkable
class EagerDevice(Device, Protocol):
    """A device that executes small operations eagerly, without compiling a kernel for their sizes.

    ``numpy_calls`` counts the operations that NumPy has computed on its buffers.
    """

    numpy_calls: int

    @property
    def dynamic_kernels(self) -> DynamicKernels: ...

    def window(self, buffer: Any, start: int, nbytes: int) -> Any:
        """Return a buffer that aliases part of another. It keeps that buffer alive and prevents writes to it."""

    def alias_numpy(self, array: np.ndarray) -> Any:
        """Return a read-only buffer that aliases a contiguous NumPy array and keeps it alive."""

    def memory(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """Return a NumPy view of a buffer for a short read. The caller must keep the buffer alive."""

    def writable(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray | None:
        """Return a writable NumPy view of a buffer, or None if a view or another library may be reading it."""

    def concatenate(self, buffers: Sequence[Any]) -> bytes | None:
        """Return the concatenated bytes of buffers, or None if one of them is a window on another buffer."""


@runtime_checkable
class HasOwnMemory(Protocol):
    """A device with its own memory. It raises ``OutOfDeviceMemory`` if the memory is full."""

    def free_bytes(self) -> int:
        """Return the free bytes for arrays and programs."""


@runtime_checkable
class SharesMemory(Protocol):
    """A GPU that shares memory with other libraries without copies.

    Streams are CUDA streams as integers; for None nothing is synchronised.
    """

    name: str

    @property
    def number(self) -> int:
        """The GPU's CUDA device number."""

    @property
    def stream(self) -> int:
        """The stream of all its work."""

    def lend(self, buffer: Any, stream: int | None) -> int:
        """Return the address of a buffer for another library, and make ``stream`` wait for it.

        The buffer is not written any more, and its memory is reused only after the work of ``stream`` has finished.
        """

    def borrow(self, address: int, nbytes: int, owner: Any, stream: int | None = None) -> Any:
        """Return a read-only buffer over another library's memory, which ``owner`` keeps alive, after waiting for ``stream``."""

    def copy_buffer(self, buffer: Any) -> Any:
        """Return a copy of a buffer."""

    def gpu_of_address(self, address: int) -> int | None:
        """Return the number of the GPU that owns an address, or None if no GPU does."""


@runtime_checkable
class ChoosesByMeasuring(Protocol):
    """A device that times bitwise equal variants of a kernel while a program runs, and keeps the fastest."""

    def choose_variants(self, run: Callable[[], Any], seconds: float) -> bool:
        """Repeat ``run`` until the variant of each of its kernels is chosen. Return False if this takes more than ``seconds``."""


@runtime_checkable
class NativeEager(Protocol):
    """A device with native functions for small eager operations: see ``weft.devices.native_protocols``."""

    def small_work(self, world: SmallOperationContext) -> SmallWork:
        """Return the native functions, which read the state in ``world``."""


@dataclass(frozen=True, slots=True)
class CodeProperties:
    """Properties of a kernel's code. ``vectors``: it is vectorised; ``called_functions``: library functions called per
    element."""

    vectors: bool
    called_functions: tuple[str, ...]


@runtime_checkable
class Launches(Protocol):
    """A device that may split a kernel into several launches."""

    def launches_of(self, kernel: Kernel) -> int:
        """Return the number of launches."""


@runtime_checkable
class ReadsCode(Protocol):
    """A device that can describe a kernel's code."""

    def code_of(self, kernel: Kernel) -> CodeProperties:
        """Return the properties of the kernel's compiled code."""
