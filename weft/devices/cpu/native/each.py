"""Kernels of single elementwise primitives, from which dynamic kernels of any element count are generated and named."""

from __future__ import annotations

from typing import Any

from weft.dtypes.formats import Format
from weft.graph.primitives.table import Primitive
from weft.kernel.expressions import Machine
from weft.kernel.ir import Access, Axis, Buffer, Kernel, Phase, Stage, Store, along


def each_kernel(primitive: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any]) -> Kernel:
    """Return a kernel that applies an elementwise primitive to contiguous operands."""
    m, axis = Machine(), Axis(0, 16)
    index = (along(axis),)
    inputs = tuple(Buffer(k, dtype, (axis.extent,)) for k, dtype in enumerate(dtypes))
    value = None if primitive.formula is None else primitive.formula(m, *(m.load(Access(b, index)) for b in inputs), **params)
    if value is None or value.op == "check":  # only Programs report faults
        raise TypeError(f"{primitive.name} is not an elementwise primitive without checks")
    out = Buffer(len(inputs), value.dtype, (axis.extent,))
    stage = Stage((), (), (Store(Access(out, index), value),))
    return Kernel(primitive.name, (Phase((axis,), (stage,)),), inputs, (out,))
