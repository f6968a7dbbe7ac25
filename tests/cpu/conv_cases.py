"""Convolution kernels built by hand, a NumPy oracle for them, and a small serial runner."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from weft.devices.cpu.convolution import tiling
from weft.devices.cpu.emit.isa import ISA, host_isa
from weft.devices.cpu.emit.text import Generated
from weft.dtypes.parse import parse_dtype
from weft.kernel.ir import Access, Affine, Axis, Buffer, Contraction, Kernel, Phase, Store, Value, axis_index
from weft.kernel.summation import window_order

SERIAL = """
@weft_counters = global [8 x i64] zeroinitializer
@weft_order = global i64 0
define void @weft_parallel(ptr %body, ptr %context, i64 %chunks) {
entry:
  %backwards = load i64, ptr @weft_order
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %run]
  %more = icmp slt i64 %i, %chunks
  br i1 %more, label %run, label %done
run:
  %last = sub i64 %chunks, 1
  %mirror = sub i64 %last, %i
  %flip = icmp ne i64 %backwards, 0
  %chunk = select i1 %flip, i64 %mirror, i64 %i
  %odd = and i64 %i, 1
  %worker = select i1 %flip, i64 %odd, i64 0
  call void %body(ptr %context, i64 %chunk, i64 %worker)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""


class Native:
    """A generated kernel, compiled; ``run(arrays)`` calls it on NumPy arrays in argument order."""

    def __init__(self, kernel: Kernel, generated: Generated, workers: int = 2, isa: ISA | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = isa.features if isa else llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu="haswell" if not isa and host_isa().bits >= 256 else "", features=features, opt=2, jit=True
        )
        module = llvm.parse_assembly(generated.ir)
        module.verify()
        pto = llvm.create_pipeline_tuning_options()
        pb = llvm.create_pass_builder(machine, pto)
        pm = llvm.create_new_function_pass_manager()
        pm.add_sroa_pass()
        for f in module.functions:
            if not f.is_declaration:
                pm.run(f, pb)
        module.link_in(llvm.parse_assembly(SERIAL))
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.engine.get_function_address(generated.symbol))
        self.order = ctypes.c_int64.from_address(self.engine.get_global_value_address("weft_order"))
        self.counter = ctypes.c_int64.from_address(self.engine.get_global_value_address("weft_counters"))
        self.kernel, self.generated = kernel, generated
        room = generated.scratch + workers * generated.worker_scratch + 4096
        self.scratch = np.full(room, 0xFF, np.uint8)  # NaN wherever it is read before it is written
        start = self.scratch.ctypes.data
        self.aligned = start + -start % 64

    def bind(self, arrays: list[np.ndarray], scalars: list[np.generic] = []) -> ctypes.Array:  # noqa: B006
        words = [a.ctypes.data for a in arrays]
        for s in scalars:
            words.append(int.from_bytes(np.asarray(s).tobytes().ljust(8, b"\0"), "little"))
        words.append(self.aligned)
        return (ctypes.c_uint64 * len(words))(*words)

    def run(self, arrays: list[np.ndarray], scalars: list[np.generic] = [], backwards: bool = False) -> None:  # noqa: B006
        self.scratch[:] = 0xFF
        self.order.value = int(backwards)
        args = self.bind(arrays, scalars)
        self.call(ctypes.addressof(args))


def load(buffer: Buffer, *index: Affine, guard=(), dtype=None) -> Value:
    value = Value("load", (), buffer.dtype, Access(buffer, tuple(index), tuple(guard)))
    return value if dtype is None or dtype == buffer.dtype else Value("cast", (value,), dtype)


def forward(
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride=(1, 1),
    padding=((0, 0), (0, 0)),
    dilation=(1, 1),
    groups: int = 1,
    dtype=np.float32,
    flip: bool = False,
    epilogue=None,
    dot: bool = False,
) -> Kernel:
    """x[n, c*groups, h, w] with w[o*groups, c, kh, kw] (flip: w[c*groups, o, kh, kw] read backwards, an input gradient).

    dot: no order of the sum, as where the window is larger than the output.
    """
    dtype = parse_dtype(dtype)
    accum = dtype.computed
    oh = (h + sum(padding[0]) - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (w + sum(padding[1]) - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    x = Buffer(0, dtype, (n, c * groups, h, w))
    wt = Buffer(1, dtype, (c * groups, o, kh, kw) if flip else (o * groups, c, kh, kw))
    G, N, OH, OW, OC, C, KH, KW = (Axis(i, e) for i, e in enumerate((groups, n, oh, ow, o, c, kh, kw)))

    def g(each: int) -> Affine:
        return axis_index(G, each) if groups > 1 else Affine()

    ih = axis_index(OH, stride[0]).plus(axis_index(KH), dilation[0]).plus(Affine(-padding[0][0]))
    iw = axis_index(OW, stride[1]).plus(axis_index(KW), dilation[1]).plus(Affine(-padding[1][0]))
    guard = [(i, 0, e) for i, e, p in ((ih, h, padding[0]), (iw, w, padding[1])) if p != (0, 0)]
    a = load(x, axis_index(N), g(c).plus(axis_index(C)), ih, iw, guard=guard, dtype=accum)
    if flip:
        b = load(wt, axis_index(C), axis_index(OC), Affine(kh - 1, ((KH.id, -1),)), Affine(kw - 1, ((KW.id, -1),)), dtype=accum)
    else:
        b = load(wt, g(o).plus(axis_index(OC)), axis_index(C), axis_index(KH), axis_index(KW), dtype=accum)
    y = Buffer(2, dtype, (n, o * groups, oh, ow))
    acc = Value("acc", (), accum, 100)
    where = (axis_index(N), g(o).plus(axis_index(OC)), axis_index(OH), axis_index(OW))
    inputs, outputs, stores, scalars = [x, wt], [y], None, ()
    if epilogue is not None:
        inputs, outputs, stores, scalars = epilogue(inputs, y, acc, where)
    else:
        value = acc if accum == dtype else Value("cast", (acc,), dtype)
        stores = (Store(Access(y, where), value),)
    batch = (G,) if groups > 1 else ()
    con = Contraction(100, batch, (N, OH, OW), (OC,), (C, KH, KW), a, b, accum, None if dot else window_order(c, kh * kw), stores)
    return Kernel("conv", (Phase((), (con,)),), tuple(inputs), tuple(outputs), scalars)


def weight_gradient(
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride=(1, 1),
    padding=((0, 0), (0, 0)),
    dilation=(1, 1),
    groups: int = 1,
    dtype=np.float32,
    epilogue=None,
) -> Kernel:
    """dw[o*groups, c, kh, kw] from x[n, c*groups, h, w] and dy[n, o*groups, oh, ow]."""
    dtype = parse_dtype(dtype)
    accum = dtype.computed
    oh = (h + sum(padding[0]) - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (w + sum(padding[1]) - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    x, dy = Buffer(0, dtype, (n, c * groups, h, w)), Buffer(1, dtype, (n, o * groups, oh, ow))
    dw = Buffer(2, dtype, (o * groups, c, kh, kw))
    G, N, OH, OW, OC, C, KH, KW = (Axis(i, e) for i, e in enumerate((groups, n, oh, ow, o, c, kh, kw)))

    def g(each: int) -> Affine:
        return axis_index(G, each) if groups > 1 else Affine()

    ih = axis_index(OH, stride[0]).plus(axis_index(KH), dilation[0]).plus(Affine(-padding[0][0]))
    iw = axis_index(OW, stride[1]).plus(axis_index(KW), dilation[1]).plus(Affine(-padding[1][0]))
    guard = [(i, 0, e) for i, e, p in ((ih, h, padding[0]), (iw, w, padding[1])) if p != (0, 0)]
    a = load(x, axis_index(N), g(c).plus(axis_index(C)), ih, iw, guard=guard, dtype=accum)
    b = load(dy, axis_index(N), g(o).plus(axis_index(OC)), axis_index(OH), axis_index(OW), dtype=accum)
    acc = Value("acc", (), accum, 100)
    where = (g(o).plus(axis_index(OC)), axis_index(C), axis_index(KH), axis_index(KW))
    value = acc if accum == dtype else Value("cast", (acc,), dtype)
    inputs, outputs, stores, scalars = [x, dy], [dw], (Store(Access(dw, where), value),), ()
    if epilogue is not None:
        inputs, outputs, stores, scalars = epilogue(inputs, dw, acc, where)
    batch = (G,) if groups > 1 else ()
    con = Contraction(100, batch, (C, KH, KW), (OC,), (N, OH, OW), a, b, accum, None, stores)
    return Kernel("dconv", (Phase((), (con,)),), tuple(inputs), tuple(outputs), scalars)


def windows(x: np.ndarray, kh: int, kw: int, stride, padding, dilation) -> np.ndarray:
    """[n, c, oh, ow, kh, kw] in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))
    view = sliding_window_view(x, ((kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1), axis=(2, 3))
    return view[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def conv_reference(x, w, stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups: int = 1) -> np.ndarray:
    o, c, kh, kw = w.shape
    view = windows(x, kh, kw, stride, padding, dilation)
    parts = [
        np.einsum(
            "nchwij,ocij->nohw", view[:, g * c : (g + 1) * c], w[g * (o // groups) : (g + 1) * (o // groups)].astype(np.float64)
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1)


def weight_reference(
    x, dy, kh: int, kw: int, stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups: int = 1
) -> np.ndarray:
    view = windows(x, kh, kw, stride, padding, dilation)[:, :, : dy.shape[2], : dy.shape[3]]
    pairs = zip(np.split(view, groups, axis=1), np.split(dy.astype(np.float64), groups, axis=1), strict=True)
    return np.concatenate([np.einsum("nchwij,nohw->ocij", a, b) for a, b in pairs])


def force_filter_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every forward convolution use vectors of filters."""
    cheapest = tiling.choose_filter_tile
    monkeypatch.setattr(tiling, "choose_filter_tile", lambda *given: replace(cheapest(*given), cost=-1.0))
    monkeypatch.setattr(tiling, "MAX_SPREAD_PHASES", 0)
    monkeypatch.setattr(tiling, "readable_in_place", lambda *_: False)
