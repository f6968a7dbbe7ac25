"""Products c[m, n] = sum over k of a[m, k] * b[k, n] of any extents and strides: one function per dtype.

If b is not contiguous along n, and in the last columns, it is copied into a panel as wide as the registers of a tile: k rows of
them, in memory that the caller passes if it is large (``SCRATCH_BYTES_PER_STEP`` bytes per step of k). If there are few columns
and more rows, the operands are exchanged, so that lanes are in use.
"""

from __future__ import annotations

from weft.devices.cpu.dynamic_kernels import SCRATCH_BYTES_PER_STEP, chains
from weft.devices.cpu.dynamic_kernels.vectors import Vectors, at_least_one
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.dtypes.formats import Format
from weft.kernel.target import Orders

# work: steps of all sums together
WORDS = ("work", "a", "b", "c", "batch", "a_batch", "b_batch", "m", "n", "k", "a_m", "a_k", "b_k", "b_n", "lanes", "block",
         "scratch")
VECTORS = 2


def product_text(dtype: Format, isa: ISA, orders: Orders, in_lanes: bool) -> str:
    """Return the text of ``void @weft_product(ptr args)``, args: a word for each of WORDS; strides in elements, results dense.

    in_lanes : for orders with several lanes (one side is a vector), else for orders with one
    """
    module = Module(hides_counters=False)
    v = Vectors(module, isa, dtype)
    if in_lanes:
        _emit_vector_functions(v, orders)
        functions = {"vector": orders.vector_lanes, "dot": orders.lanes}
    else:
        _emit_matrix(v, [8 if isa.registers >= 32 else 6, 4, 2, 1])
        functions = {"matrix": 1}
    f = module.function("define void @weft_product(ptr %args)")
    word = {name: f.load("i64", f.offset("%args", 8 * k), 8) for k, name in enumerate(WORDS)}
    for name in ("a_batch", "b_batch", "a_m", "a_k", "b_k", "b_n"):
        word[name] = f.mul(word[name], v.size)
    places = {name: f.let(f"inttoptr i64 {word[name]} to ptr") for name in ("a", "b", "c", "scratch")}
    has_scratch = f.let(f"icmp ne i64 {word['scratch']}, 0", "c")
    own = f.let(f"select i1 {has_scratch}, i64 0, i64 {f.mul(word['k'], SCRATCH_BYTES_PER_STEP)}")
    own = f.let(f"alloca i8, i64 {own}, align 64")
    scratch = _select(f, has_scratch, "ptr", places["scratch"], own)
    rest = ", ".join(f"i64 {word[name]}" for name in ("m", "n", "k", "a_m", "a_k", "b_k", "b_n"))
    block = at_least_one(f, word["block"])
    with f.loop(0, word["batch"]) as number:
        a, b = (f.offset(places[side], f.mul(number, word[f"{side}_batch"])) for side in ("a", "b"))
        c = f.offset(places["c"], f.mul(number, f.mul(f.mul(word["m"], word["n"]), v.size)))
        for function, lanes in functions.items():
            with f.when(f.let(f"icmp eq i64 {word['lanes']}, {lanes}", "c")):
                f.do(f"call void @{function}(ptr {a}, ptr {b}, ptr {c}, {rest}, i64 {block}, ptr {scratch})")
    return module.text()


_SIDES = "ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k, i64 %a_m, i64 %a_k, i64 %b_k, i64 %b_n, i64 %block, ptr %scratch"


def _select(f: Function, condition: str, type_: str, yes: str, no: str) -> str:
    return f.let(f"select i1 {condition}, {type_} {yes}, {type_} {no}")


def _emit_matrix(v: Vectors, heights: list[int]) -> None:
    """Emit ``@matrix``, for orders of one lane."""
    for vectors in range(1, VECTORS + 1):
        for height in heights:
            chains.panel(v, f"tile{height}x{vectors}", rows=height, vectors=vectors)
        _emit_tiles(v, vectors, heights)
    _emit_pack(v)
    f = v.m.function(f"define internal void @matrix({_SIDES})", "nounwind noinline")
    narrow = f.let(f"icmp slt i64 %n, {v.lanes}", "c")
    swapped = f.let(f"and i1 {narrow}, {f.let('icmp sgt i64 %m, %n', 'c')}")
    a, b = _select(f, swapped, "ptr", "%b", "%a"), _select(f, swapped, "ptr", "%a", "%b")
    m, n = _select(f, swapped, "i64", "%n", "%m"), _select(f, swapped, "i64", "%m", "%n")
    a_m, b_n = _select(f, swapped, "i64", "%b_n", "%a_m"), _select(f, swapped, "i64", "%a_m", "%b_n")
    a_k, b_k = _select(f, swapped, "i64", "%b_k", "%a_k"), _select(f, swapped, "i64", "%a_k", "%b_k")
    line = f.mul("%n", v.size)
    c_m, c_n = _select(f, swapped, "i64", str(v.size), line), _select(f, swapped, "i64", line, str(v.size))
    dense = f.let(f"icmp eq i64 {b_n}, {v.size}", "c")
    wide = VECTORS * v.lanes
    with f.loop(0, n, wide) as j:
        live = f.minimum(f.let(f"sub i64 {n}, {j}"), wide)
        is_wide = f.let(f"icmp sgt i64 {live}, {v.lanes}", "c")
        width = f.let(f"select i1 {is_wide}, i64 {wide}, i64 {v.lanes}")
        source, target = f.offset(b, f.mul(j, b_n)), f.offset("%c", f.mul(j, c_n))
        in_place = f.let(f"and i1 {dense}, {f.let(f'icmp eq i64 {live}, {width}')}")
        with f.when(f.let(f"xor i1 {in_place}, true")):
            f.do(f"call void @pack(ptr {source}, ptr %scratch, i64 {live}, i64 {width}, i64 %k, i64 {b_k}, i64 {b_n})")
        panel = _select(f, in_place, "ptr", source, "%scratch")
        step = _select(f, in_place, "i64", b_k, f.mul(width, v.size))
        arguments = (f"ptr {a}, ptr {panel}, ptr {target}, i64 {m}, i64 %k, i64 {a_m}, i64 {a_k}, i64 {step}, i64 {c_m}, "
                     f"i64 {c_n}, i64 {live}, i64 %block")
        with f.when(is_wide):
            f.do(f"call void @tiles{VECTORS}({arguments})")
        with f.otherwise():
            f.do(f"call void @tiles1({arguments})")


def _emit_tiles(v: Vectors, vectors: int, heights: list[int]) -> None:
    """Emit all rows of a panel, the highest tiles first."""
    f = v.m.function(
        f"define internal void @tiles{vectors}(ptr %a, ptr %b, ptr %c, i64 %m, i64 %k, i64 %a_m, i64 %a_k, i64 %b_k, i64 %c_m, "
        "i64 %c_n, i64 %live, i64 %block)"
    )
    done = "0"
    for height in heights:
        each = f.let(f"sdiv i64 {f.let(f'sub i64 %m, {done}')}, {height}")
        end = f.add(done, f.mul(each, height))
        with f.loop(done, end, height) as i:
            f.do(
                f"call void @tile{height}x{vectors}(ptr {f.offset('%a', f.mul(i, '%a_m'))}, ptr %b, "
                f"ptr {f.offset('%c', f.mul(i, '%c_m'))}, i64 %k, i64 %a_m, i64 %a_k, i64 %b_k, i64 %c_m, i64 %c_n, i64 %live, "
                "i64 %block)"
            )
        done = end


def _emit_pack(v: Vectors) -> None:
    """Emit ``@pack(b, to, live, width, k, b_k, b_n)``: k rows of ``width`` elements, 0 from ``live`` on."""
    f = v.m.function(
        "define internal void @pack(ptr %b, ptr %to, i64 %live, i64 %width, i64 %k, i64 %b_k, i64 %b_n)", "nounwind noinline"
    )
    line = f.mul("%width", v.size)
    with f.when(f.let(f"icmp eq i64 %b_n, {v.size}", "c")):
        with f.loop(0, "%width", v.lanes) as j:
            mask = v.lane_mask(f, f.let(f"sub i64 %live, {j}"), v.lanes)
            source, target = (f.offset(p, f.mul(j, v.size)) for p in ("%b", "%to"))
            with f.loop(0, "%k") as k:
                x = v.load(f, f.offset(source, f.mul(k, "%b_k")), v.lanes, mask)
                f.store(v.type(v.lanes), x, f.offset(target, f.mul(k, line)), v.size)
        f.do("ret void")
    four = f.let("and i64 %live, -4")
    with f.loop(0, four, 4) as j:
        columns = [f.offset("%b", f.mul(f.add(j, x), "%b_n")) for x in range(4)]
        target = f.offset("%to", f.mul(j, v.size))
        with f.loop(0, "%k") as k:
            along, out = f.mul(k, "%b_k"), "poison"
            for lane, column in enumerate(columns):
                one = f.load(v.scalar, f.offset(column, along), v.size)
                out = f.let(f"insertelement {v.type(4)} {out}, {v.scalar} {one}, i32 {lane}")
            f.store(v.type(4), out, f.offset(target, f.mul(k, line)), v.size)
    with f.loop(four, "%live") as j:
        source, target = f.offset("%b", f.mul(j, "%b_n")), f.offset("%to", f.mul(j, v.size))
        with f.loop(0, "%k") as k:
            one = f.load(v.scalar, f.offset(source, f.mul(k, "%b_k")), v.size)
            f.store(v.scalar, one, f.offset(target, f.mul(k, line)), v.size)
    with f.loop(0, "%k") as k, f.loop("%live", "%width") as j:
        f.store(v.scalar, "0.0", f.offset("%to", f.add(f.mul(k, line), f.mul(j, v.size))), v.size)


def _emit_copy(v: Vectors) -> None:
    """Emit ``@copied(x, step, k, to)``: return x if its elements are contiguous, else copy them to ``to`` and return that."""
    f = v.m.function("define internal ptr @copied(ptr %x, i64 %step, i64 %k, ptr %to)")
    with f.when(f.let(f"icmp eq i64 %step, {v.size}", "c")):
        f.do("ret ptr %x")
    with f.loop(0, "%k") as k:
        one = f.load(v.scalar, f.offset("%x", f.mul(k, "%step")), v.size)
        f.store(v.scalar, one, f.element("%to", v.scalar, k), v.size)
    f.do("ret ptr %to")


def _emit_vector_functions(v: Vectors, orders: Orders) -> None:
    lanes = orders.vector_lanes
    chains.panel(v, "across", rows=1, vectors=VECTORS, chains=lanes)
    chains.panel(v, "across.last", rows=1, vectors=1, chains=lanes, masked=True)
    for name, height, apart in (("along", 8, False), ("along.last", 1, False), ("along.apart", 1, True)):
        chains.rows(v, name, rows=height, chains=lanes, apart=apart)
    chains.rows(v, "chains", rows=1, chains=orders.lanes, apart=False)
    _emit_copy(v)
    _emit_vector(v)
    _emit_dot(v)


def _emit_vector(v: Vectors) -> None:
    """Emit ``@vector``: a matrix with strides ``free`` and along k, times a vector x."""
    f = v.m.function(f"define internal void @vector({_SIDES})", "nounwind noinline")
    right = f.let("icmp eq i64 %n, 1", "c")
    matrix, x = _select(f, right, "ptr", "%a", "%b"), _select(f, right, "ptr", "%b", "%a")
    count, free = _select(f, right, "i64", "%m", "%n"), _select(f, right, "i64", "%a_m", "%b_n")
    step, x_k = _select(f, right, "i64", "%a_k", "%b_k"), _select(f, right, "i64", "%b_k", "%a_k")
    with f.when(f.let(f"icmp eq i64 {free}, {v.size}", "c")):
        wide = VECTORS * v.lanes
        full_count = f.let(f"and i64 {count}, {-wide}")

        def across(name: str, j: str, live: str | int) -> None:
            at = f.mul(j, v.size)
            f.do(
                f"call void @{name}(ptr {x}, ptr {f.offset(matrix, at)}, ptr {f.offset('%c', at)}, i64 %k, i64 0, i64 {x_k}, "
                f"i64 {step}, i64 0, i64 {v.size}, i64 {live}, i64 %block)"
            )

        with f.loop(0, full_count, wide) as j:
            across("across", j, wide)
        with f.loop(full_count, count, v.lanes) as j:
            across("across.last", j, f.minimum(f.let(f"sub i64 {count}, {j}"), v.lanes))
        f.do("ret void")
    x = f.let(f"call ptr @copied(ptr {x}, i64 {x_k}, i64 %k, ptr %scratch)")
    contiguous = f.let(f"icmp eq i64 {step}, {v.size}", "c")

    def along(name: str, i: str) -> None:
        f.do(
            f"call void @{name}(ptr {x}, ptr {f.offset(matrix, f.mul(i, free))}, ptr {f.element('%c', v.scalar, i)}, i64 %k, "
            f"i64 {free}, i64 {step}, i64 {v.size}, i64 %block)"
        )

    with f.when(contiguous):
        full_count = f.let(f"and i64 {count}, -8")
        with f.loop(0, full_count, 8) as i:
            along("along", i)
        with f.loop(full_count, count) as i:
            along("along.last", i)
    with f.otherwise(), f.loop(0, count) as i:
        along("along.apart", i)


def _emit_dot(v: Vectors) -> None:
    f = v.m.function(f"define internal void @dot({_SIDES})", "nounwind noinline")
    x = f.let("call ptr @copied(ptr %a, i64 %a_k, i64 %k, ptr %scratch)")
    y = f.let(f"call ptr @copied(ptr %b, i64 %b_k, i64 %k, ptr {f.element('%scratch', v.scalar, '%k')})")
    f.do(f"call void @chains(ptr {x}, ptr {y}, ptr %c, i64 %k, i64 0, i64 {v.size}, i64 0, i64 %block)")
