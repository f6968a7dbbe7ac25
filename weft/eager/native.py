"""Native functions for small work, available once the device is in use.

Operators, indexing and reads of numbers call them first. They return None until the device provides them, and for every case that
is not plain; the Python implementation then takes over.

Before and after native functions, in one run on a busy machine: an addition of ten floats 2.5 and 0.34 us (NumPy 0.37),
``tanh`` of them 2.6 and 0.37, ``a[3]`` 2.4 and 0.27, ``a[3] = x`` 1.85 and 0.17, ``float((a + 1).sum())`` 10 and 0.95, a
product of 100 x 100 by a vector 5.8 and 1.0. They read the thread's limit (0 if eager execution is off) from the thread's own
dict. Filling CPython's operator slots (``nb_add``) instead would save less than 0.1 us and need an entry for each operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.devices.base import NativeEager
from weft.devices.native_protocols import ResultInfo, ShapedOperation, SmallOperation, SmallOperationContext, SmallWork
from weft.dtypes.formats import Format
from weft.eager import implementations, policy
from weft.eager.implementations import prepare_call
from weft.graph.node import Node, Primitive
from weft.graph.primitives.table import INPUT, input_leaf
from weft.runtime import execute
from weft.runtime.cell import VIEW_READS
from weft.runtime.context import CONTEXT

_NO_PARAMS: dict[str, Any] = {}
_CLASSES: list[Any] = []
_ARRAY_FIELDS: list[Any] = []
_WORK: list[SmallWork | None] = []  # the device's native functions, once the device is in use


def not_available(*operands: Any) -> None:
    """Return None and count the call: it stands in for native functions that are not loaded. ``MAX_MISSES`` calls load those
    for elements, or those for parts of arrays if those for elements are loaded."""
    if not _PARTS_LOADED and CONTEXT.eager_limit:
        _MISSES[0] += 1
        if _MISSES[0] < MAX_MISSES:
            return
        if _WORK:
            load_parts()
        else:  # a program that only reads the numbers that jitted functions return has no use for parts
            _MISSES[0] = 0
            start()


MAX_MISSES = 300  # compiling the functions takes 50 to 150 ms, once on each machine; programs with few small arrays save that
_MISSES = [0]
_PARTS_LOADED: list[bool] = []
_ELEMENTS = ("element", "store", "number")
_PARTS = ("show", "take", "put", "open", "full", "transpose", "reshape", "join_numbers", "extreme", "item")


class NativeElements:
    """The native functions for elements and parts of arrays: see ``weft.devices.native_protocols.SmallWork``."""

    __slots__ = _ELEMENTS + _PARTS  # Python reads slots faster than the attributes of a namespace

    def __init__(self) -> None:
        for name in _ELEMENTS + _PARTS:
            setattr(self, name, not_available)

    if TYPE_CHECKING:
        element: Callable[..., Any]

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


NATIVE_ELEMENTS = NativeElements()


class NativeElementwise:
    """The native function of a one- or two-operand operation: ``call``.

    result_dtype : (primitive, dtype of the operands) -> dtype of the result, if the operation is this primitive alone, else None
    """

    __slots__ = ("arity", "call", "result_dtype", "work")

    def __init__(self, arity: int, way: Callable[[Primitive, Format], Format | None]) -> None:
        self.arity, self.result_dtype = arity, way
        self.call: Callable[..., Any] = not_available
        self.work: SmallOperation | None = None
        _ELEMENTWISE_FUNCTIONS.append(self)
        if _WORK:
            for key, function in [*implementations.KERNELS.items()]:
                self.offer(*key, function)

    def offer(self, op: Primitive, dtypes: tuple[Format, ...], function: Callable[..., None]) -> None:
        """Use a new elementwise function if it computes this operation."""
        dtype, work = dtypes[0], _WORK[0]
        if work is None or len(dtypes) != self.arity or dtypes[-1] is not dtype or dtype.custom:
            return
        result = self.result_dtype(op, dtype)
        if result is not None:
            if self.work is None:
                self.work = work.operation(self.arity)
            self.work.add(dtype, function, INPUT if self.arity == 1 else op, result)
            self.call = self.work.call


class NativeShaped:
    """The native function of a product or a sum, for recorded shapes: ``call``.

    make_node : nodes of operands -> the node of the result. met: how often Python computed it, by dtype and shapes
    """

    __slots__ = ("make_node", "call", "call_counts", "work")

    def __init__(self, asked: Callable[..., Node]) -> None:
        self.make_node = asked
        _SHAPED_FUNCTIONS.append(self)
        self.call: Callable[..., Any] = not_available
        self.call_counts: dict[Any, int] = {}
        self.work: ShapedOperation | None = None

    def count_call(self, result: Node, *operands: Node) -> None:
        """Count a computation in Python. After ``_PREPARE_AFTER_CALLS`` with the same dtype and shapes, let the device compute
        these."""
        dtype, shapes = operands[0].dtype, tuple([x.shape for x in operands])
        if result.value is None or any([x.value is None or x.dtype is not dtype for x in operands]) or not policy.is_enabled():
            return
        start()
        if len(self.call_counts) >= 1000:
            self.call_counts.clear()
        times = self.call_counts[dtype, shapes] = self.call_counts.get((dtype, shapes), 0) + 1
        # less and less often: the device may not support it
        if times < _PREPARE_AFTER_CALLS or times & (times - 1) or _WORK[0] is None:
            return
        leaves = tuple([input_leaf(shape, dtype) for shape in shapes])
        node = self.make_node(*leaves)
        call = prepare_call(node) if node.inputs == leaves else None  # else it is not a product or sum of the operands themselves
        if call is not None:
            if self.work is None:
                self.work = _WORK[0].shaped_operation()
            self.work.add(dtype, shapes, call, ResultInfo(node.shape, node.dtype, node.nbytes, result.params or _NO_PARAMS))
            self.call = self.work.call


_PREPARE_AFTER_CALLS = 4
_ELEMENTWISE_FUNCTIONS: list[NativeElementwise] = []
_SHAPED_FUNCTIONS: list[NativeShaped] = []


def introduce(array: type, value: type, transposes: tuple[Any, ...], reshaped: str, getitem: Callable[..., Any]) -> None:
    """Set the fields of ``SmallOperationContext`` that ``weft.array`` defines."""
    _CLASSES[:] = array, value
    _ARRAY_FIELDS[:] = transposes, reshaped, getitem


def call_after_views(native: Callable[..., Any], *operands: Any) -> Any:
    """Let views among the operands cache their nodes, then call a native function again that returned None for them. It lets
    only small views with a layout cache theirs, and only if the functions for parts are loaded."""
    array, views = _CLASSES[0], False
    for x in operands:
        if type(x) is array and x._base is not None and native is not not_available:
            x.node  # noqa: B018  the view caches its node
            views = True
    return native(*operands) if views else None


def start() -> None:
    """Get the native functions of the device, which has just computed something."""
    if _WORK:
        return
    device: Any = execute.device()
    if not isinstance(device, NativeEager):
        _WORK.append(None)
        return
    array, value = _CLASSES
    work = device.small_work(SmallOperationContext(
        CONTEXT, "eager_limit", array, value, Node, INPUT, _NO_PARAMS, "reduced",
        {"inputs": (), "source_line": None, "holder": None}, {"_base": None, "_trace": None},
        {"_trace": None, "_source": None}, VIEW_READS, *_ARRAY_FIELDS,
    ))
    _WORK.append(work)
    for name in _ELEMENTS:
        setattr(NATIVE_ELEMENTS, name, getattr(work, name))
    for function in [*implementations.KERNELS.items()]:
        _offer(*function)


def load_parts() -> None:
    """Load the device's functions for parts of arrays, if it has some."""
    start()
    _PARTS_LOADED.append(True)
    if (work := _WORK[0]) is not None:
        for name in _PARTS:
            setattr(NATIVE_ELEMENTS, name, getattr(work, name))
        NATIVE_ELEMENTS.element = work.part


def _offer(key: tuple[Primitive, tuple[Format, ...]], function: Callable[..., None]) -> None:
    """Pass on a new elementwise function."""
    if not _WORK:
        return start()
    for operation in _ELEMENTWISE_FUNCTIONS:
        operation.offer(*key, function)


implementations.tell.append(_offer)
