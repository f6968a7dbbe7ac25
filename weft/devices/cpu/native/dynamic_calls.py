"""Dynamic kernels: functions that take sizes as arguments, called from Python. Each is compiled per dtype on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from weft.devices.cpu.dynamic_kernels import MAX_STACK_STEPS, SCRATCH_BYTES_PER_STEP
from weft.devices.cpu.native.allocator import Allocator
from weft.devices.cpu.native.call import builtin
from weft.devices.cpu.native.compile import Compiler, LoadedKernel
from weft.devices.cpu.native.host_cpu import host
from weft.devices.native_protocols import PreparedCall
from weft.dtypes.formats import Format
from weft.graph.primitives.table import Primitive
from weft.kernel.summation import product_order
from weft.kernel.target import CPU, Order

_VECTORS = 4  # vectors per iteration, for primitives of a few instructions


class CPUDynamicKernels:
    """See ``weft.devices.base.DynamicKernels``."""

    def __init__(self, compiler: Compiler, allocator: Allocator, native: dict[str, int]) -> None:
        self._compiler, self._allocator, self._apply = compiler, allocator, native["weft_apply"]
        self._functions: dict[Any, Callable[..., None]] = {}
        self._kernels: list[LoadedKernel] = []

    def product(
        self, dtype: Format, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int, batch: int = 1, a_batch: int = 0,
        b_batch: int = 0, order: Order | None = None,
    ) -> PreparedCall:
        lanes, block = _product_order(m, n, k) if order is None else (order.lanes, order.block)
        in_lanes, needs_scratch = lanes > 1, k > MAX_STACK_STEPS

        def text() -> str:
            from weft.devices.cpu.dynamic_kernels.product import product_text

            return product_text(dtype, host(), CPU.orders, in_lanes)

        run = self._functions.get((dtype, in_lanes)) or self._compile(
            (dtype, in_lanes), f"sized product {dtype.name} {CPU.orders} {in_lanes}", "weft_product", text
        )
        if needs_scratch:
            run = partial(self._run_with_scratch, run, k * SCRATCH_BYTES_PER_STEP)
        words = m * n * k * batch, 0, 0, 0, batch, a_batch, b_batch, m, n, k, a_m, a_k, b_k, b_n, lanes, block, 0
        return PreparedCall(run, words, (1, 2), 3, needs_scratch)

    def _run_with_scratch(self, run: Callable[..., None], nbytes: int, *words: int) -> None:
        room = self._allocator.allocate(nbytes)
        run(*words[:-1], room.address)

    def sum(
        self, dtype: Format, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int, order: Order,
    ) -> PreparedCall:
        def text() -> str:
            from weft.devices.cpu.dynamic_kernels.sums import sum_text

            return sum_text(dtype, host(), CPU.orders)

        if inner == 1:
            outer, inner, x_outer, x_inner = 1, outer, 0, x_outer
        words = outer * inner * k, 0, 0, outer, x_outer, inner, x_inner, k, x_k, order.lanes, order.block
        run = self._functions.get(dtype) or self._compile(dtype, f"sized sum {dtype.name} {CPU.orders}", "weft_sum", text)
        return PreparedCall(run, words, (1,), 2, False)

    def elementwise(self, primitive: Primitive, dtypes: tuple[Format, ...], **params: Any) -> Callable[..., None]:
        key = (primitive, dtypes, *params.items())
        if key in self._functions:
            return self._functions[key]
        from weft.kernel.printer import kernel_key

        kernel = _elementwise_kernel(primitive, dtypes, params)

        def text() -> str:
            from weft.devices.cpu.dynamic_kernels.elementwise import elementwise_text

            return elementwise_text(kernel, host(), _VECTORS if primitive.exact else 1)

        return self._compile(key, f"sized each\n{kernel_key(kernel)}", "weft_each", text)

    def words(self, count: int, out: int, key: int, base: int) -> None:
        def text() -> str:
            from weft.devices.cpu.dynamic_kernels.words import words_text

            return words_text(host())

        run = self._functions.get("words") or self._compile("words", "sized words", "weft_words", text)
        run(count, out, key, base)

    def _compile(self, key: Any, what: str, symbol: str, text: Callable[[], str]) -> Callable[..., None]:
        """Compile the function that ``what`` identifies and keep it as ``key``."""
        def generate() -> Any:
            from weft.devices.cpu.emit.text import Generated

            return Generated(symbol, text(), 0, 0)

        loaded = self._compiler.kernel(what, generate)
        self._kernels.append(loaded)
        return self._functions.setdefault(key, builtin("weft_apply", self._apply, loaded.address))


def _elementwise_kernel(primitive: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any]) -> Any:
    """Return a kernel that applies an elementwise primitive to contiguous operands."""
    from weft.kernel.expressions import Machine
    from weft.kernel.ir import Access, Axis, Buffer, Kernel, Phase, Stage, Store, axis_index

    m, axis = Machine(), Axis(0, 16)
    index = (axis_index(axis),)
    inputs = tuple(Buffer(k, dtype, (axis.extent,)) for k, dtype in enumerate(dtypes))
    value = None if primitive.formula is None else primitive.formula(m, *(m.load(Access(b, index)) for b in inputs), **params)
    if value is None or value.op == "check":  # only Programs report faults
        raise TypeError(f"{primitive.name} is not an elementwise primitive without checks")
    out = Buffer(len(inputs), value.dtype, (axis.extent,))
    stage = Stage((), (), (Store(Access(out, index), value),))
    return Kernel(primitive.name, (Phase((axis,), (stage,)),), inputs, (out,))


@lru_cache(maxsize=4096)
def _product_order(m: int, n: int, k: int) -> tuple[int, int]:
    order = product_order(m, n, (k,))
    return order.lanes, order.block
