"""Compile and interpret texts with Triton. Only this module and ``emission.py`` use its internals.

Compiled, a text becomes machine code for a given kind of card, with or without one in the machine. Interpreted, the same text
runs in NumPy over host memory. Triton's interpreter is corrected where it differs from a card: rounding of bfloat16, signed zeros
in min and max, libdevice. Every access is checked against the buffer of its pointer.

Works with Triton 3.6 to 3.9.

``gpu-sim`` and the launcher use the same text, by hash. The interpreter's patches are in place only while a launch runs, so
both ways work in one process without ``TRITON_INTERPRET``.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.emission import Job, compile_job, functions
from weft.kernel.summation import running

INTERPRETING = threading.Lock()  # the interpreter's state is global
_SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def version() -> str:
    """Return Triton's version; raise ImportError if it is not installed."""
    import triton

    return triton.__version__


# ---- compiled

ASSEMBLER = "TRITON_PTXAS_BLACKWELL_PATH"  # environment variable: Triton's assembler for newer cards
ABI_8_SINCE = 13_000  # CUDA 13.0: older drivers reject what Triton 3.9 assembles for compute capability 9.0


def assemble_for(cuda: int, capability: int) -> None:
    """Make Triton assemble code that a driver of this CUDA version (12040: 12.4) accepts; a user's choice takes precedence.

    Triton contains two assemblers. Triton 3.9 uses the newer one from compute capability 9.0 on, which writes ABI 8; the older
    one writes ABI 7 for 9.0 from the same text.
    """
    import triton

    older = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    if cuda < ABI_8_SINCE and capability < 100 and older.exists():
        os.environ.setdefault(ASSEMBLER, str(older))


def toolchain() -> tuple[str, str]:
    """Return what machine code depends on besides the text: Triton's version, and the assembler if one is set."""
    return version(), os.environ.get(ASSEMBLER, "")


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of a launch for one kind of card.

    entry : name of the function
    warps : 32 threads each
    shared : bytes of a block's shared memory
    scratch : bytes of the card's memory that it requires
    assembly : PTX
    """

    binary: bytes
    entry: str
    warps: int
    shared: int
    scratch: int
    assembly: str


def compile_launch(launch: Launch, capability: int, aligned: int = 16) -> Code:
    """Compile a launch for a compute capability (90 is 9.0). aligned: alignment of all buffers' addresses."""
    return Code(*compile_job(job(launch, capability, aligned)))


def job(launch: Launch, capability: int, aligned: int) -> Job:
    """Return the job that a compiler process receives."""
    return launch.text, launch.signature, launch.warps, launch.stages, capability, aligned


# ---- interpreted


class OutOfBounds(Exception):
    """An access outside of the buffer of its pointer."""


def interpret_launch(launch: Launch, addresses: Sequence[tuple[int, int] | None], numbers: Sequence[Any]) -> None:
    """Run a launch in NumPy. addresses: (address, bytes) of each buffer, None for numbers.

    Raises
    ------
    OutOfBounds
        An access is out of bounds.
    """
    if 0 in launch.grid:
        return
    with INTERPRETING:
        tools = _tools()
        tools.run(launch, addresses, numbers)


@functools.cache
def _tools() -> _Interpreter:
    return _Interpreter()


class _Interpreter:
    """Triton's interpreter with corrections. It patches Triton's functions only while a launch runs."""

    def __init__(self) -> None:
        import triton.language as tl
        from triton.runtime import interpreter

        self.tl, self.interpreter = tl, interpreter
        self.kernels: dict[str, tuple[Callable[..., None], Any]] = {}
        self.bounds: list[tuple[int, int]] = []
        self.corrections = self._corrections()

    def run(self, launch: Launch, addresses: Sequence[tuple[int, int] | None], numbers: Sequence[Any]) -> None:
        kernel, raw = self._kernel(launch.text)
        self.bounds = [a for a in addresses if a is not None]
        arguments, buffer_count = [], 0
        for (_, kind, _), address, number in zip(launch.signature, addresses, numbers, strict=True):
            if address is None:
                arguments.append(self._number(kind, number))
            else:
                arguments.append(self._pointer(kind[1:], address[0], buffer_count))
                buffer_count += 1
        builder = self.interpreter.interpreter_builder
        originals = {name: getattr(type(builder), name) for name in self.corrections}
        scope = self.interpreter._patch_lang(raw)
        # Triton before 3.9 fails here with NumPy 2.4
        scope.set_attr(self.tl.tensor, "__index__", lambda x: int(x.handle.data.reshape(-1)[0]))
        for name, corrected in self.corrections.items():
            setattr(type(builder), name, corrected)
        reduce, scan = self.interpreter.ReduceOps.apply_impl, self.interpreter.ScanOps.apply_impl
        self.interpreter.ReduceOps.apply_impl = self._joining(reduce, _REDUCE, True)
        self.interpreter.ScanOps.apply_impl = self._joining(scan, _SCAN, False)
        try:
            builder.set_grid_dim(*launch.grid, 1)
            with np.errstate(all="ignore"):
                for x in range(launch.grid[0]):
                    for y in range(launch.grid[1]):
                        builder.set_grid_idx(x, y, 0)
                        kernel(*arguments)
        finally:
            self.interpreter.ReduceOps.apply_impl, self.interpreter.ScanOps.apply_impl = reduce, scan
            for name, function in originals.items():
                setattr(type(builder), name, function)
            scope.restore()

    def _kernel(self, text: str) -> tuple[Callable[..., None], Any]:
        functions_ = self.kernels.get(text)
        if functions_ is None:
            raw = functions(text, {"tl": self.tl, "ld": _library(self), "jit": self._helper})
            functions_ = self.kernels[text] = raw.function, raw.raw
        return functions_

    def _helper(self, raw: Callable[..., Any]) -> Any:
        """Return a function of a text that is rewritten for the interpreter at its first call and keeps its name."""
        rewriter = self.interpreter.FunctionRewriter(raw)

        @functools.wraps(raw)
        def call(*arguments: Any) -> Any:
            nonlocal rewriter
            if not callable(rewriter):
                rewriter = rewriter.rewrite_ast()
            return rewriter(*arguments)

        call.function, call.raw = call, raw  # type: ignore[attr-defined]
        return call

    # ---- arguments of a launch

    def _number(self, kind: str, value: Any) -> Any:
        form = self.tl.str_to_ty(kind, None)
        return self._tensor(np.array([value]).astype(_SHORT.get(kind, form.name)), form)

    def _pointer(self, kind: str, address: int, buffer_number: int) -> Any:
        form = self.tl.pointer_type(self.tl.str_to_ty(kind, None))
        pointer = self._tensor(np.array([address], np.uint64), form)
        pointer.handle.attr["buffer"] = buffer_number
        return pointer

    def _tensor(self, data: np.ndarray, form: Any) -> Any:
        return self.tl.tensor(self.interpreter.TensorHandle(data, form), form)

    # ---- corrections of the interpreter

    def _corrections(self) -> dict[str, Callable[..., Any]]:
        """Return the corrected methods of Triton's InterpreterBuilder, by name."""
        inside, tl = self.interpreter, self.tl
        builder = inside.InterpreterBuilder
        tensor = inside.TensorHandle
        numpys = {tl.bfloat16: ml_dtypes.bfloat16, tl.float16: np.float16, tl.float32: np.float32, tl.float64: np.float64}

        def cast(original: Callable[..., Any]) -> Callable[..., Any]:
            def convert(own: Any, x: Any, target: Any, *rest: Any) -> Any:
                a, b = x.dtype.scalar, target.scalar
                if a not in numpys or b not in numpys:
                    return original(own, x, target, *rest)
                result = np.ascontiguousarray(x.data).view(numpys[a]).astype(numpys[b])
                return tensor(result.view(inside._get_np_dtype(b)), b)

            return convert

        def extreme(name: str) -> Callable[..., Any]:
            def ordered(own: Any, a: Any, b: Any) -> Any:
                return tensor(_signed_extreme(name, a.data, b.data), a.dtype.scalar)

            return ordered

        def following(original: Callable[..., Any], which: int) -> Callable[..., Any]:
            """Return a pointer operation whose result belongs to the buffer of its operand."""

            def follow(own: Any, *arguments: Any) -> Any:
                result = original(own, *arguments)
                result.attr.update(arguments[which].attr)
                return result

            return follow

        def checked(original: Callable[..., Any], pointer: int, mask: int) -> Callable[..., Any]:
            def check(own: Any, *arguments: Any) -> Any:
                self._check(arguments[pointer], arguments[mask])
                return original(own, *arguments)

            return check

        def compared(original: Callable[..., Any]) -> Callable[..., Any]:
            return lambda own, a, b: tensor(original(own, a, b).data, tl.int1)

        def dot(own: Any, a: Any, b: Any, total: Any, precision: Any, *rest: Any) -> Any:
            x, y = (np.asarray(t.data).view(numpys.get(t.dtype.scalar, t.data.dtype)).astype(total.data.dtype) for t in (a, b))
            return tensor(_product(x, y, str(precision).rsplit(".", 1)[-1].lower()) + total.data, total.dtype.scalar)

        def all_ones(own: Any, form: Any) -> Any:  # Triton before 3.9 returns a wrong value for unsigned integers
            kind = inside._get_np_dtype(form)
            ones = {"i": -1, "b": True}.get(kind.kind) or np.iinfo(kind).max
            return tensor(np.full(1, ones, kind), form.scalar)

        comparisons = [n for n in dir(builder) if n.startswith(("create_icmp", "create_fcmp"))]
        return {
            **{name: compared(getattr(builder, name)) for name in comparisons}, "create_dot": dot,
            "get_all_ones_value": all_ones,
            "cast_impl": cast(builder.cast_impl),
            "create_fp_to_fp": cast(builder.create_fp_to_fp),
            "create_minimumf": extreme("min"), "create_maximumf": extreme("max"),
            "create_addptr": following(builder.create_addptr, 0), "create_splat": following(builder.create_splat, 1),
            "create_broadcast": following(builder.create_broadcast, 0),
            "create_masked_load": checked(builder.create_masked_load, 0, 1),
            "create_masked_store": checked(builder.create_masked_store, 0, 2),
            "create_atomic_rmw": checked(builder.create_atomic_rmw, 1, 3),
        }

    def _check(self, pointers: Any, mask: Any) -> None:
        """Raise OutOfBounds if an unmasked pointer is outside of its buffer."""
        inside = mask.data.astype(bool)
        if not inside.any():
            return
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        first, nbytes = self.bounds[pointers.attr["buffer"]]
        begin = np.broadcast_to(pointers.data, inside.shape)[inside]
        wrong = (begin < first) | (begin + np.uint64(size) > first + nbytes)
        if wrong.any():
            element = (int(begin[wrong][0]) - first) // size
            raise OutOfBounds(f"element {element} of a buffer of {nbytes // size} is accessed")

    def _joining(self, original: Callable[..., Any], fast: dict[str, Callable[..., Any]], keeps: bool) -> Callable[..., Any]:
        """Return a reduction or scan that runs the texts' join functions on a whole tile at once."""

        def apply(operation: Any, operands: Any) -> Any:
            join = fast.get(getattr(operation.combine_fn, "__name__", ""))
            if join is None:
                return original(operation, operands)
            x = operands[0]
            options = {"keepdims": operation.keep_dims} if keeps else {}
            result = np.asarray(join(x.handle.data, axis=operation.axis, **options)).astype(x.handle.data.dtype)
            return (operation.to_tensor(result, x.dtype),)

        return apply


def _product(a: np.ndarray, b: np.ndarray, precision: str) -> np.ndarray:
    """Return the product of two tiles in one of Triton's precisions, with operands rounded as for tensor cores."""
    if precision not in ("tf32", "tf32x3"):
        return np.matmul(a, b)
    high, other = tf32(a), tf32(b)
    if precision == "tf32":
        return np.matmul(high, other)
    correction = np.matmul(_rest(a, high), other) + np.matmul(high, _rest(b, other))
    return np.where(np.isnan(correction), 0, correction) + np.matmul(high, other)  # infinity times zero must not give NaN


def tf32(x: np.ndarray) -> np.ndarray:
    """Round float32 to 10 bits of mantissa, to nearest, halves away from zero. NaN and infinity are unchanged."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    special = (bits & 0x7F800000) == 0x7F800000
    return np.where(special, bits, (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _rest(x: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the remainder ``x - high`` rounded to tf32, 0 for infinities."""
    return tf32(np.where(np.isfinite(high), x - high, 0).astype(np.float32))


def _signed_extreme(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the max or min as a card computes it: NaN wins, and -0 is less than 0."""
    extreme = (np.maximum if name == "max" else np.minimum)(a, b)
    if extreme.dtype.kind != "f":
        return extreme
    both, one = np.signbit(a) & np.signbit(b), np.signbit(a) | np.signbit(b)
    zero = np.where(both if name == "max" else one, -0.0, 0.0).astype(extreme.dtype)
    return np.where(extreme == 0, zero, extreme)


def _extreme(name: str) -> Callable[..., Any]:
    def joined(x: np.ndarray, axis: int, keepdims: bool) -> np.ndarray:
        extreme = (np.max if name == "max" else np.min)(x, axis=axis, keepdims=keepdims)
        if x.dtype.kind != "f":
            return extreme
        signs = np.signbit(x)
        negative = (np.all if name == "max" else np.any)(signs, axis=axis, keepdims=keepdims)
        return np.where(extreme == 0, np.where(negative, -0.0, 0.0).astype(x.dtype), extreme)

    return joined


def _running(monoid: str) -> Callable[..., Any]:
    def joined(x: np.ndarray, axis: int) -> np.ndarray:
        return np.moveaxis(running(np.moveaxis(x, axis, -1), monoid, x.dtype), -1, axis)

    return joined


_REDUCE: dict[str, Callable[..., Any]] = {
    "join_sum": np.sum, "join_prod": np.prod, "join_max": _extreme("max"), "join_min": _extreme("min"),
}
_SCAN = {f"join_{monoid}": _running(monoid) for monoid in ("sum", "prod", "max", "min")}

_NUMPYS = {
    **{name: getattr(np, name) for name in (
        "exp", "log", "expm1", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "trunc", "rint", "copysign", "fmod",
    )},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    "pow": np.power, "div_rn": np.divide, "sqrt_rn": np.sqrt, "erf": np.vectorize(math.erf, otypes=[np.float64]),
}


def _library(interpreter: _Interpreter) -> SimpleNamespace:
    """Return libdevice's functions in NumPy."""

    def function(of_arrays: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            tl = interpreter.tl
            data = [np.asarray(x.handle.data if isinstance(x, tl.tensor) else x) for x in arguments]
            form = next(x for x in arguments if isinstance(x, tl.tensor)).dtype
            result = np.asarray(of_arrays(*data)).astype(data[0].dtype)
            block = any(isinstance(x, tl.tensor) and x.type.is_block() for x in arguments)
            kind = tl.block_type(form, list(result.shape)) if block else form
            return tl.tensor(interpreter.interpreter.TensorHandle(result, form), kind)

        return call

    return SimpleNamespace(**{name: function(f) for name, f in _NUMPYS.items()})


