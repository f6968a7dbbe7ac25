"""Dynamic kernels: functions that take sizes as arguments, called from Python. Each is compiled per dtype on first use.

The first code of a product has few tile sizes (8 ms to compile, not 20); better code with all of them is compiled by the second
process when a program has run 0.1 s longer (0.5 s if the first code came from disk).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from weft.devices.cpu.native.allocator import Allocator
from weft.devices.cpu.native.call import builtin
from weft.devices.cpu.native.compile import Compiler, LoadedKernel
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.recompile import FROM_DISK, PATIENCE
from weft.devices.cpu.sized import MAX_STACK_STEPS, SCRATCH_BYTES_PER_STEP
from weft.devices.native_protocols import PreparedCall
from weft.dtypes.formats import Format
from weft.graph.primitives.table import Primitive
from weft.kernel.summation import product_order
from weft.kernel.target import CPU, Order

if TYPE_CHECKING:
    from weft.devices.cpu.emit.text import Generated

_VECTORS = 4  # vectors per iteration, for primitives of a few instructions


class CPUDynamicKernels:
    """See ``weft.devices.base.Sized``."""

    def __init__(self, compiler: Compiler, allocator: Allocator, native: dict[str, int]) -> None:
        self._compiler, self._allocator, self._apply = compiler, allocator, native["weft_apply"]
        self._products: tuple[dict[Format, Callable[..., None]], ...] = {}, {}  # sums in one lane; in several lanes
        self._sums: dict[Format, Callable[..., None]] = {}
        self._functions: dict[tuple, Callable[..., None]] = {}
        self._words: Callable[..., None] | None = None
        self._held: list[LoadedKernel] = []

    def product(
        self, dtype: Format, a: int, b: int, out: int, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int,
        batch: int = 1, a_batch: int = 0, b_batch: int = 0, order: Order | None = None,
    ) -> None:
        run, lanes, block = self._product_for(dtype, m, n, k, order)
        room = self._allocator.allocate(k * SCRATCH_BYTES_PER_STEP) if k > MAX_STACK_STEPS else None
        run(*_product_words(
            a, b, out, m, n, k, a_m, a_k, b_k, b_n, batch, a_batch, b_batch, lanes, block, 0 if room is None else room.address,
        ))

    def prepared_product(
        self, dtype: Format, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int, batch: int = 1, a_batch: int = 0,
        b_batch: int = 0, order: Order | None = None,
    ) -> PreparedCall | None:
        if k > MAX_STACK_STEPS:
            return None
        run, lanes, block = self._product_for(dtype, m, n, k, order)
        words = _product_words(0, 0, 0, m, n, k, a_m, a_k, b_k, b_n, batch, a_batch, b_batch, lanes, block, 0)
        return PreparedCall(run, words, (1, 2), 3)

    def sum(
        self, dtype: Format, x: int, out: int, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int,
        order: Order,
    ) -> None:
        run = self._sums.get(dtype) or self._sum(dtype)
        run(*_sum_words(order, x, out, outer, inner, k, x_outer, x_inner, x_k))

    def prepared_sum(
        self, dtype: Format, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int, order: Order,
    ) -> PreparedCall:
        words = _sum_words(order, 0, 0, outer, inner, k, x_outer, x_inner, x_k)
        return PreparedCall(self._sums.get(dtype) or self._sum(dtype), words, (1,), 2)

    def each(self, primitive: Primitive, dtypes: tuple[Format, ...], **params: Any) -> Callable[..., None]:
        key = (primitive, dtypes, *params.items())
        return self._functions.get(key) or self._function(key, primitive, dtypes, params)

    def words(self, count: int, out: int, key: int, base: int) -> None:
        (self._words or self._compile_words())(count, out, key, base)

    def _compile_words(self) -> Callable[..., None]:
        def text() -> str:
            from weft.devices.cpu.sized.words import words_text

            return words_text(host())

        self._words = self._compile_function("sized words", "weft_words", text)
        return self._words

    def _product_for(self, dtype: Format, m: int, n: int, k: int, order: Order | None) -> tuple[Callable[..., None], int, int]:
        lanes, block = _product_order(m, n, k) if order is None else (order.lanes, order.block)
        return self._products[lanes > 1].get(dtype) or self._product(dtype, lanes > 1), lanes, block

    def _product(self, dtype: Format, in_lanes: bool) -> Callable[..., None]:
        def text(quick: bool = False) -> str:
            from weft.devices.cpu.sized.product import product_text

            return product_text(dtype, host(), CPU.orders, in_lanes, quick)

        what = f"sized product {dtype.name} {CPU.orders} {in_lanes}"
        function = self._compile_function(what, "weft_product", text, None if in_lanes else partial(text, quick=True))
        return self._products[in_lanes].setdefault(dtype, function)

    def _sum(self, dtype: Format) -> Callable[..., None]:
        def text() -> str:
            from weft.devices.cpu.sized.sums import sum_text

            return sum_text(dtype, host(), CPU.orders)

        return self._sums.setdefault(dtype, self._compile_function(f"sized sum {dtype.name} {CPU.orders}", "weft_sum", text))

    def _function(
        self, key: tuple, primitive: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any],
    ) -> Callable[..., None]:
        from weft.devices.cpu.native.each import each_kernel
        from weft.kernel.printer import kernel_key

        kernel = each_kernel(primitive, dtypes, params)

        def text() -> str:
            from weft.devices.cpu.sized.each import each_text

            return each_text(kernel, host(), _VECTORS if primitive.exact else 1)

        return self._functions.setdefault(key, self._compile_function(f"sized each\n{kernel_key(kernel)}", "weft_each", text))

    def _compile_function(
        self, what: str, symbol: str, text: Callable[[], str], quick: Callable[[], str] | None = None,
    ) -> Callable[..., None]:
        """Return the function, compiled quickly at first, and queue its recompilation.

        Code from disk is queued too if it was compiled quickly: the process that stored it may have ended before recompiling.
        """
        def generated(text: Callable[[], str]) -> Generated:
            from weft.devices.cpu.emit.text import Generated

            return Generated(symbol, text(), 0, 0)

        shorter = None if quick is None else partial(generated, quick)
        loaded = self._compiler.kernel(what, partial(generated, text), 0.0, shorter)
        self._held.append(loaded)
        self._compiler.improve([loaded], PATIENCE if self._compiler.counts.compiles else FROM_DISK)
        call: Callable[..., None] = builtin("weft_apply", self._apply, loaded.cell)
        return call


def _product_words(
    a: int, b: int, out: int, m: int, n: int, k: int, a_m: int, a_k: int, b_k: int, b_n: int, batch: int, a_batch: int,
    b_batch: int, lanes: int, block: int, scratch: int,
) -> tuple[int, ...]:
    return m * n * k * batch, a, b, out, batch, a_batch, b_batch, m, n, k, a_m, a_k, b_k, b_n, lanes, block, scratch


def _sum_words(
    order: Order, x: int, out: int, outer: int, inner: int, k: int, x_outer: int, x_inner: int, x_k: int,
) -> tuple[int, ...]:
    if inner == 1:
        outer, inner, x_outer, x_inner = 1, outer, 0, x_outer
    return outer * inner * k, x, out, outer, x_outer, inner, x_inner, k, x_k, order.lanes, order.block


@lru_cache(maxsize=4096)
def _product_order(m: int, n: int, k: int) -> tuple[int, int]:
    order = product_order(m, n, (k,))
    return order.lanes, order.block
