"""Compile a Kernel built by hand and run it on NumPy arrays: no scheduler, no thread pool."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from weft.devices.cpu.emit.isa import ISA, host_isa, isa_from_features
from weft.devices.cpu.emit.text import Generated
from weft.dtypes.parse import parse_dtype
from weft.kernel.ir import Access, Affine, Axis, Buffer, Kernel, Value, axis_index

_SUPPORT = """
@weft_counters = global [64 x i64] zeroinitializer
define void @weft_parallel(ptr %body, ptr %context, i64 %chunks) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body1]
  %more = icmp slt i64 %i, %chunks
  br i1 %more, label %body1, label %done
body1:
  call void %body(ptr %context, i64 %i, i64 0)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""


_WIDER = {"avx2": ("avx512", "avx10", "amx", "evex512"), "sse": ("avx", "amx", "evex512", "fma", "f16c", "xop", "va", "vpcl")}


@lru_cache(maxsize=1)
def isas() -> dict[str, ISA]:
    """The targets that this machine can run: its own, and those of older processors of its kind."""
    import llvmlite.binding as llvm

    found = {"host": host_isa()}
    have = dict(llvm.get_host_cpu_features())
    for name, gone in _WIDER.items():
        less = {feature: on and not feature.startswith(gone) for feature, on in have.items()}
        isa = isa_from_features(less, host_isa().l1, host_isa().l2)
        if isa.bits < min(i.bits for i in found.values()):
            found[name] = isa
    return found


@lru_cache(maxsize=1)
def machine():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return llvm, lambda isa: target.create_target_machine(cpu="", features=isa.features, opt=2, jit=True)


def compile_ir(ir: str, isa: ISA | None = None):
    """An execution engine (keep it) whose functions can be called."""
    llvm, make = machine()
    module = llvm.parse_assembly(ir)
    module.verify()
    tm = make(isa or host_isa())
    pb = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options())
    pm = llvm.create_new_function_pass_manager()
    pm.add_sroa_pass()
    for function in module.functions:
        if not function.is_declaration:
            pm.run(function, pb)
    engine = llvm.create_mcjit_compiler(module, tm)
    support = llvm.parse_assembly(_SUPPORT)
    engine.add_module(support)
    engine.finalize_object()
    return engine


def assembly(ir: str) -> str:
    llvm, make = machine()
    module = llvm.parse_assembly(ir)
    tm = make(host_isa())
    pb = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options())
    pm = llvm.create_new_function_pass_manager()
    pm.add_sroa_pass()
    for function in module.functions:
        if not function.is_declaration:
            pm.run(function, pb)
    return tm.emit_assembly(module)


class Compiled:
    """``compiled(inputs, outputs, scalars)`` runs the kernel once."""

    def __init__(self, generated: Generated, kernel: Kernel, isa: ISA | None = None) -> None:
        self.generated, self.kernel = generated, kernel
        self.engine = compile_ir(generated.ir, isa)
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.engine.get_function_address(generated.symbol))
        self.scratch = np.zeros(generated.scratch + generated.worker_scratch + 128, np.uint8)
        self.record = np.zeros(2, np.int64)  # of faults: (site + 1, index)

    def bind(self, inputs, outputs, scalars=()):
        words = [a.ctypes.data for a in (*inputs, *outputs)]
        for dtype, s in zip(self.kernel.scalars, scalars, strict=True):
            raw = np.asarray(s).astype(dtype.numpy).tobytes().ljust(8, b"\0")
            words.append(int.from_bytes(raw, "little"))
        words.append((self.scratch.ctypes.data + 63) // 64 * 64)
        words.append(self.record.ctypes.data)
        args = np.array(words, np.uint64)
        return args, ctypes.c_void_p(args.ctypes.data)

    def __call__(self, inputs, outputs, scalars=()):
        args, pointer = self.bind(inputs, outputs, scalars)
        self.function(pointer)
        del args
        return outputs


def compile_kernel(kernel: Kernel) -> Compiled:
    from weft.devices.cpu.nest.kernel import generate_loops

    return Compiled(generate_loops(kernel, host_isa()), kernel)


def buffers(*specs):
    """Buffers of (dtype, shape) in argument order."""
    return [Buffer(i, parse_dtype(d), tuple(s)) for i, (d, s) in enumerate(specs)]


def load(buffer: Buffer, *index, guard=(), fill=0) -> Value:
    return Value("load", (), buffer.dtype, access(buffer, *index, guard=guard, fill=fill))


def access(buffer: Buffer, *index, guard=(), fill=0) -> Access:
    return Access(buffer, tuple(as_affine(i) for i in index), tuple((as_affine(g), lo, hi) for g, lo, hi in guard), fill)


def as_affine(i) -> Affine:
    if isinstance(i, Axis):
        return axis_index(i)
    if isinstance(i, int):
        return Affine(i)
    if isinstance(i, Value):
        return Affine(0, (), ((i, 1),))
    return i


def op(name: str, *args: Value, dtype=None) -> Value:
    return Value(name, args, parse_dtype(dtype) if dtype is not None else args[0].dtype)


def const(value, dtype) -> Value:
    return Value("const", (), parse_dtype(dtype), value)


def acc(id_: int, dtype) -> Value:
    return Value("acc", (), parse_dtype(dtype), id_)


def fresh(dtype, shape) -> np.ndarray:
    size = int(np.prod(shape)) * parse_dtype(dtype).bytes
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64  # as the runtime's memory
    out = raw[start:start + size].view(parse_dtype(dtype).numpy).reshape(shape)
    out.reshape(-1).view(np.uint8).fill(0xA5)
    return out
