"""Calls of the C library, lane by lane. The runtime resolves the symbols in the process."""

from __future__ import annotations

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.types import wide


def libm(o: Ops, name: str, t: str, args: list[str]) -> str:
    """Emit ``name`` (that of the double function, as ``exp``) on each lane of float or double registers."""
    symbol = name + ("f" if t == "float" else "")
    o.m.called[name, t] = None
    types = ", ".join([t] * len(args))
    o.m.declare(symbol, f"declare {t} @{symbol}({types})")
    if o.lanes is None:
        return o.f.let(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in args)})")
    vt = wide(t, o.lanes)
    helper = f"weft.{symbol}.{o.lanes}"
    if o.m.once(helper):
        names = [f"%x{i}" for i in range(len(args))]
        f = o.m.function(f"define internal {vt} @{helper}({', '.join(f'{vt} {n}' for n in names)})", "nounwind noinline")
        out = "poison"
        for lane in range(o.lanes):
            ones = [f.let(f"extractelement {vt} {n}, i32 {lane}") for n in names]
            one = f.let(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in ones)})")
            out = f.let(f"insertelement {vt} {out}, {t} {one}, i32 {lane}")
        f.do(f"ret {vt} {out}")
    return o.f.let(f"call {vt} @{helper}({', '.join(f'{vt} {a}' for a in args)})")


def rare(o: Ops, name: str, t: str, x: str, where: str, out: str) -> str:
    """Return ``out`` with the C library's result in the lanes ``where``, which include NaN and infinity."""
    f, type_ = o.f, o.t(t)
    cell = f.local(type_)
    f.store(type_, out, cell)
    with f.when(where if o.lanes is None else o.m.any_lane(f, where, o.lanes)):
        f.store(type_, o.select(where, t, libm(o, name, t, [x]), out), cell)
    return f.load(type_, cell)
