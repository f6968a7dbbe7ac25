"""An element-wise primitive as a kernel of one store: what names its function of any count, and what that is made of."""

from __future__ import annotations

from typing import Any

from weft.dtypes.formats import Format
from weft.graph.primitives.table import Primitive
from weft.kernel.expressions import Machine
from weft.kernel.ir import Access, Axis, Buffer, Kernel, Phase, Stage, Store, along


def each_kernel(primitive: Primitive, dtypes: tuple[Format, ...], params: dict[str, Any]) -> Kernel:
    """An element-wise primitive of contiguous operands, as a kernel of one store."""
    m, axis = Machine(), Axis(0, 16)
    here = (along(axis),)
    inputs = tuple(Buffer(k, dtype, (axis.extent,)) for k, dtype in enumerate(dtypes))
    value = None if primitive.formula is None else primitive.formula(m, *(m.load(Access(b, here)) for b in inputs), **params)
    if value is None or value.op == "check":  # whose faults belong to the run of a Program
        raise TypeError(f"{primitive.name} is no function of elements alone")
    out = Buffer(len(inputs), value.dtype, (axis.extent,))
    stage = Stage((), (), (Store(Access(out, here), value),))
    return Kernel(primitive.name, (Phase((axis,), (stage,)),), inputs, (out,))
