"""Sums of any extents and strides: one function per dtype."""

from __future__ import annotations

from weft.devices.cpu.dynamic_kernels import chains
from weft.devices.cpu.dynamic_kernels.vectors import Vectors, at_least_one
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Module
from weft.dtypes.formats import Format
from weft.kernel.target import Orders

# work: number of elements
WORDS = ("work", "x", "out", "outer", "x_outer", "inner", "x_inner", "k", "x_k", "lanes", "block")
VECTORS = 4


def sum_text(dtype: Format, isa: ISA, orders: Orders) -> str:
    """Return the text of ``void @weft_sum(ptr args)``, args: a word for each of WORDS; strides in elements.

    out[outer, inner] = sum over k of x[outer, inner, k]; orders of several lanes are those of a reduction.
    """
    module = Module(hides_counters=False)
    v = Vectors(module, isa, dtype)
    chains.panel(v, "across", rows=1, vectors=VECTORS, product=False)
    chains.panel(v, "across.last", rows=1, vectors=1, masked=True, product=False)
    for height in (4, 1):
        chains.rows(v, f"plain{height}", rows=height, chains=1, apart=True, product=False)
    for apart in (False, True):
        chains.rows(v, f"lanes{'.apart' if apart else ''}", rows=1, chains=orders.lanes, apart=apart, product=False)
    f = module.function("define void @weft_sum(ptr %args)")
    word = {name: f.load("i64", f.offset("%args", 8 * k), 8) for k, name in enumerate(WORDS)}
    x, out = (f.let(f"inttoptr i64 {word[name]} to ptr") for name in ("x", "out"))
    x_outer, x_inner, x_k = (f.mul(word[name], v.size) for name in ("x_outer", "x_inner", "x_k"))
    inner, steps, wide = word["inner"], word["k"], VECTORS * v.lanes
    block = at_least_one(f, word["block"])
    in_lanes = f.let(f"icmp ne i64 {word['lanes']}, 1", "c")
    dense = f.let(f"icmp eq i64 {x_inner}, {v.size}", "c")
    contiguous = f.let(f"icmp eq i64 {x_k}, {v.size}", "c")
    with f.loop(0, word["outer"]) as number:
        source = f.offset(x, f.mul(number, x_outer))
        target = f.element(out, v.scalar, f.mul(number, inner))

        def across(name: str, j: str, live: str | int, source: str = source, target: str = target) -> None:
            at = f.mul(j, v.size)
            f.do(
                f"call void @{name}(ptr null, ptr {f.offset(source, at)}, ptr {f.offset(target, at)}, i64 {steps}, i64 0, i64 0, "
                f"i64 {x_k}, i64 0, i64 {v.size}, i64 {live}, i64 {block})"
            )

        def row(name: str, j: str, source: str = source, target: str = target) -> None:
            f.do(
                f"call void @{name}(ptr null, ptr {f.offset(source, f.mul(j, x_inner))}, ptr {f.element(target, v.scalar, j)}, "
                f"i64 {steps}, i64 {x_inner}, i64 {x_k}, i64 {v.size}, i64 {block})"
            )

        with f.when(in_lanes), f.loop(0, inner) as j:
            with f.when(contiguous):
                row("lanes", j)
            with f.otherwise():
                row("lanes.apart", j)
        with f.otherwise():
            with f.when(dense):
                full_count = f.let(f"and i64 {inner}, {-wide}")
                with f.loop(0, full_count, wide) as j:
                    across("across", j, wide)
                with f.loop(full_count, inner, v.lanes) as j:
                    across("across.last", j, f.minimum(f.let(f"sub i64 {inner}, {j}"), v.lanes))
            with f.otherwise():
                four = f.let(f"and i64 {inner}, -4")
                with f.loop(0, four, 4) as j:
                    row("plain4", j)
                with f.loop(four, inner) as j:
                    row("plain1", j)
    return module.text()
