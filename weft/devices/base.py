"""What is asked of a device, and nothing else is.

A device is one folder; :func:`weft.devices.get_device` finds it by name. ``Device`` is what each must offer. The protocols below
it are abilities: who wants one asks ``isinstance(device, Timing)``, and does without where a device has it not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from weft.devices.faults import IndexFault
from weft.devices.native_protocols import Prepared, SmallWork, Surroundings, WarmTable, Watched, World
from weft.dtypes.formats import Format

if TYPE_CHECKING:  # importing weft need not import its compiler
    from weft.graph.primitives.table import Primitive
    from weft.kernel.ir import Kernel
    from weft.kernel.target import Order, Target
    from weft.schedule.program import Program


class Memory(Protocol):
    """Memory on a device, for as long as the object lives. ``address`` is a plain int."""

    address: int
    nbytes: int


# Classes of memory on devices other than the CPU -> the device's name; empty until such a device is used, so that who asks
# whether memory lies elsewhere pays nothing where there is one device.
ELSEWHERE: dict[type, str] = {}


class Run(Protocol):
    """What runs a program."""

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        """Run: buffers (or Python numbers for scalar inputs) in, one new buffer an output out.

        ``held[i]`` is False where nobody else holds input i, so that its memory may become an output's. Raises IndexFault
        where an index is out of range; then no input has changed.
        """
        ...

    def direct(self) -> int:
        """The address of what one native call runs, for warm calls; 0 where there is none."""
        ...


@runtime_checkable
class DefersChecks(Protocol):
    """A Run on a device that works behind the host: it can return before it is known whether an index was out of range."""

    def deferring(
        self, inputs: list[Any], held: list[bool] | None, written: Mapping[int, int] | None,
        tell: Callable[[IndexFault], IndexError],
    ) -> list[Any]:
        """Run, as :class:`Run` does. written: for each output that an array holds afterwards the input that it held before; where
        an index is wrong, that output holds the input's content. Then the error, as ``tell`` makes it, is raised by a later run
        or look. Where that cannot be so, or ``written`` is None, IndexFault is raised at once.

        Raises the error of an earlier run that nobody has heard of, before anything is done.
        """
        ...


@runtime_checkable
class TellsLate(Protocol):
    """A device whose runs may be found to have failed when they are looked at."""

    def tell(self) -> None:
        """Raise the error of an earlier run that nobody has heard of yet, where it is known."""
        ...


class Executable(Run, Protocol):
    """A compiled Program. ``places``: what the array layer keeps with it, to say where a fault comes from."""

    program: Program
    places: Any


class TimedExecutable(Executable, Protocol):
    """An Executable that says how long each step of its last run took."""

    def times(self) -> list[tuple[int, int]]:
        """(number of the step, nanoseconds), in the order in which they ran."""
        ...

    def parallel(self, kernel: int) -> bool:
        """Whether a kernel, by number, shares its work among threads."""
        ...


class Device(Protocol):
    """What runs programs, which are built for its ``target``. Calls may come from any thread."""

    name: str
    target: Target

    @property
    def threads(self) -> int:
        """How many threads of the host a kernel may use."""
        ...

    def set_threads(self, count: int) -> None: ...

    def compile(self, program: Program, flush_denormals: bool = False) -> Executable: ...

    def allocate(self, nbytes: int) -> Any:
        """Memory of at least so many bytes, not initialised."""
        ...

    def upload(self, array: np.ndarray) -> Any:
        """Memory with a copy of an array, in row-major order."""
        ...

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> Any:
        """Memory with a copy of some rows of an array; ``rows``, of any shape, lie within it."""
        ...

    def first(self, buffer: Any, dtype: Format) -> Any:
        """The first element of a buffer, as a NumPy number."""
        ...

    def download(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """A buffer's content, not to be written to; without a copy where the memory is the host's."""
        ...

    def synchronise(self) -> None:
        """Return when all that was asked for has been done."""
        ...

    def counters(self) -> dict[str, int]:
        """What was counted since the process began: see :func:`weft.devices.counters`."""
        ...

    def describe(self, measure: bool = False) -> dict[str, Any]:
        """For people; ``measure``: with figures that take a moment."""
        ...


@runtime_checkable
class Timing(Protocol):
    """A device that can time the steps of a program."""

    def compile_timed(self, program: Program, flush_denormals: bool = False) -> TimedExecutable: ...


@runtime_checkable
class WarmCalls(Protocol):
    """A device that runs jitted functions without Python in between: see ``weft.devices.native_protocols``."""

    def install_warm_calls(self, cls: type, table: str, world: World) -> None: ...

    def warm_table(
        self, run: Run, structures: int, watch: Sequence[Watched], arguments: Sequence[tuple], inputs: Sequence[tuple],
        node: dict[str, Any], array: tuple[type, dict[str, Any]],
    ) -> WarmTable: ...

    def watched(self, rows: Sequence[Watched]) -> Callable[[], bool]: ...


@runtime_checkable
class Measuring(Protocol):
    """A device that knows what it can do, and keeps notes on disk under names."""

    @property
    def processor(self) -> str:
        """What the processor calls itself."""
        ...

    @property
    def identity(self) -> str:
        """Another text for another processor."""
        ...

    def measure(self) -> dict[str, Any]:
        """``flops``: float32 operations a second; ``bandwidth``: (bytes touched, bytes a second) pairs. About half a second.

        Devices with memory of their own have more: see :class:`weft.placement.device_figures.Machine`."""
        ...

    def recall(self, name: str) -> dict[str, Any] | None: ...

    def remember(self, name: str, note: dict[str, Any]) -> None: ...


class Sized(Protocol):
    """Functions that take sizes as arguments, with the bits of the kernels that are compiled for them. What they run on are
    addresses; strides are in elements. Results are dense, and lie on no operand of another extent."""

    def product(
        self, dtype: Format, a: int, b: int, out: int, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int,
        batch: int = 1, a_batch: int = 0, b_batch: int = 0, order: Order | None = None,
    ) -> None:
        """out[m, n] = sum over k of a[m, k] * b[k, n], as often as ``batch`` says; dtype is float32 or float64.

        a_m, ... : strides; order : of the sum, where it is not that of a product with one axis of k
        """
        ...

    def sum(
        self, dtype: Format, x: int, out: int, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int,
        order: Order,
    ) -> None:
        """out[outer, inner] = sum over k of x[outer, inner, k]; x_outer, ... : strides. dtype is float32 or float64."""
        ...

    def prepared_product(
        self, dtype: Format, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int, batch: int = 1, a_batch: int = 0,
        b_batch: int = 0, order: Order | None = None,
    ) -> Prepared | None:
        """A product as :meth:`product` is told of it, but for addresses; None where it needs memory of its own."""
        ...

    def prepared_sum(
        self, dtype: Format, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int, order: Order,
    ) -> Prepared:
        """The same of a sum."""
        ...

    def each(self, primitive: Primitive, dtypes: tuple[Format, ...], **params: Any) -> Callable[..., None]:
        """``f(count, out, x, step, ...)``: an element-wise primitive of operands of these dtypes; after the address of each
        operand 1, or 0 where one number stands for ``count`` of them. Memory beyond the elements is not touched."""
        ...

    def words(self, count: int, out: int, key: int, base: int) -> None:
        """The first words that ``random_bits`` makes of a key and a base, of which the addresses are given."""
        ...


@runtime_checkable
class AnySize(Device, Protocol):
    """A device that computes small things at once, without compiling for their size.

    numpy_calls : how many operations NumPy has computed on its memory
    """

    numpy_calls: int

    @property
    def sized(self) -> Sized: ...

    def window(self, buffer: Any, start: int, nbytes: int) -> Any:
        """A buffer that is a part of another one, which it keeps, and which is not written to while it lives."""
        ...

    def over(self, array: np.ndarray) -> Any:
        """A buffer over the memory of an array that lies row by row; it keeps the array, and is never written to."""
        ...

    def memory(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """A buffer's memory, to be read from for a moment, while the buffer is held."""
        ...

    def writable(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray | None:
        """A buffer's memory, to be written to for a moment; None where a view or another library may be reading it."""
        ...

    def together(self, buffers: Sequence[Any]) -> bytes | None:
        """The bytes of many buffers, one after the other; None where one of them is a part of another buffer."""
        ...


@runtime_checkable
class Limited(Protocol):
    """A device with memory of its own, which may be full: then ``OutOfRoom`` is raised."""

    def room(self) -> int:
        """Bytes that are left for arrays and programs."""
        ...


@runtime_checkable
class Exchanging(Protocol):
    """A card whose memory other libraries read where it lies, and which reads theirs. Streams are CUDA's, as integers; where
    there is None nothing waits."""

    name: str

    @property
    def number(self) -> int:
        """Of the card, as CUDA counts."""
        ...

    @property
    def stream(self) -> int:
        """On which it does everything."""
        ...

    def lend(self, buffer: Any, stream: int | None) -> int:
        """The address of a buffer that others will read on a stream of theirs, which waits for it. It is never written from then
        on, and not given out again before all that they asked for is done."""
        ...

    def borrow(self, address: int, nbytes: int, owner: Any, stream: int | None = None) -> Any:
        """A buffer over memory of others, which ``owner`` keeps; it is read after what was asked for on ``stream``, and never
        written."""
        ...

    def copied(self, buffer: Any) -> Any:
        """A buffer of its own with the same content."""
        ...

    def lies(self, address: int) -> int | None:
        """The number of the card on which an address lies; None where it is no card's memory."""
        ...


@runtime_checkable
class Settling(Protocol):
    """A device whose code gets better behind the back of what runs."""

    def settle(self) -> None:
        """Return when all code in memory is as good as it gets."""
        ...


@runtime_checkable
class ChoosesByMeasuring(Protocol):
    """A device that tries several ways to compute the same bits while a program runs, and keeps the quickest."""

    def settled(self, run: Callable[[], Any], seconds: float) -> bool:
        """Repeat ``run`` until each kernel of it runs in the way that is kept; return False where ``seconds`` are not enough."""
        ...


@runtime_checkable
class DoesSmallWork(Protocol):
    """A device that does small work on arrays without Python in between: see ``weft.devices.native_protocols``."""

    def small_work(self, world: Surroundings) -> SmallWork: ...


@dataclass(frozen=True, slots=True)
class Code:
    """What a kernel's code is like. vectors: whether several elements are computed together; called: functions of a library
    that are called for one element at a time."""

    vectors: bool
    called: tuple[str, ...]


@runtime_checkable
class Launches(Protocol):
    """A device on which a kernel may be several launches."""

    def launches_of(self, kernel: Kernel) -> int: ...


@runtime_checkable
class ReadsCode(Protocol):
    """A device that can say what a kernel's code is like."""

    def code_of(self, kernel: Kernel) -> Code: ...
