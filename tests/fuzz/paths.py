"""Programs that make the code generator take each of its ways: what uniform chance seldom enters.

A case is (way, what is joined, dtype, extents around the lanes); the program says which way it is meant to take, and fails
where no kernel took it. The ways are those of ``Generated.paths``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.fuzz.expressions import check as check_expression
from tests.fuzz.levels import Mismatch
from tests.fuzz.program import Input, Program
from tests.fuzz.record import RECORD

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS[:4], *INTEGERS, *FLOATS[4:], "bool")  # an order in which each monoid meets each of them in the matrix
MONOIDS = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all")
LANES = {
    "float32": 16, "float64": 8, "float16": 32, "bfloat16": 32, "bool": 64, "int8": 64, "uint8": 64, "int16": 32, "uint16": 32,
    "float8_e4m3fn": 64, "float8_e5m2": 64,
}

Case = tuple[dict[str, tuple[str, tuple[int, ...], str]], str]  # inputs by name (dtype, shape, kind), and the line


def _data(monoid: str, dtype: str) -> str:
    if monoid in ("any", "all"):
        return "rare" if monoid == "any" else "most"
    return {"bool": "mask"}.get(dtype, "few" if monoid in ("argmax", "argmin") else "normal" if dtype in FLOATS else "whole")


def _joined(monoid: str, dtype: str, operand: str, axis: str) -> str:
    """A reduction of an expression."""
    if monoid in ("any", "all") and dtype != "bool":
        operand = f"({operand} != 0)"
    if monoid in ("sum", "prod") and dtype == "bool":
        monoid = "count_nonzero"
    if monoid == "prod" and dtype in FLOATS:
        operand = f"(1 + {operand} * 0.05)"
    if monoid.startswith("arg") and axis.startswith("("):
        return f"primitive('{monoid}', {operand}, axes={axis}, keepdims=False)"
    return f"wf.{monoid}({operand}, axis={axis})"


def _around(r: random.Random, dtype: str, low: int, high: int) -> int:
    """An extent in a range, mostly one off a multiple of the lanes."""
    n = LANES.get(dtype, 16)
    found = [k * n + d for k in range(1, 40) for d in (-1, 0, 1) if low <= k * n + d <= high]
    return r.choice(found) if found and r.random() < 0.8 else r.randint(low, high)


# reductions: (r, monoid, dtype) -> case


def row(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((1, 2, 3, 5)), _around(r, d, 33, 300)), _data(m, d))}, _joined(m, d, "x0", "1")


def row_of_blocks(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((2, 3)), r.choice((4097, 8192, 8223, 9000))), _data(m, d))}, _joined(m, d, "x0", "-1")


def row_staged(r: random.Random, m: str, d: str) -> Case:
    n = _around(r, d, 65, 250)
    return {"x0": (d, (r.choice((2, 3)), r.choice((2, 3)), n + (n % 32 == 0)), _data(m, d))}, _joined(m, d, "x0", "(0, 2)")


def row_ragged(r: random.Random, m: str, d: str) -> Case:
    n = r.choice((257, 300, 64, 96, 128))
    return {"x0": (d, (r.choice((2, 3)), r.choice((2, 3)), n), _data(m, d))}, _joined(m, d, "x0", "(0, 2)")


def joined_rows(r: random.Random, m: str, d: str) -> Case:
    """Rows of a concatenation: no load is plain."""
    n = _around(r, d, 65, 250)
    shape = (r.choice((2, 3)), n + (n % 32 == 0))
    return {"x0": (d, shape, _data(m, d)), "x1": (d, shape, _data(m, d))}, _joined(m, d, "wf.concat([x0, x1])", "None")


def full(r: random.Random, m: str, d: str) -> Case:
    n = r.choice((200_001, 262_144, 300_000))
    operand = "wf.exp(-x0)" if d in FLOATS and m not in ("any", "all") else "x0"
    return {"x0": (d, (n,), _data(m, d))}, _joined(m, d, operand, "None")


def columns(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((17, 33, 63, 64)), _around(r, d, 7, 60)), _data(m, d))}, _joined(m, d, "x0", "0")


def tall_columns(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((65, 129, 130)), _around(r, d, 7, 60)), _data(m, d))}, _joined(m, d, "x0", "0")


def few_columns(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((2, 3, 7, 8, 15)), _around(r, d, 7, 70)), _data(m, d))}, _joined(m, d, "x0", "0")


def sheet(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((33, 64, 65, 100)), _around(r, d, 512, 1100)), _data(m, d))}, _joined(m, d, "x0", "0")


def blocks(r: random.Random, m: str, d: str) -> Case:
    n = r.choice((7, 16, 17, 33))
    return {"x0": (d, (r.choice((90_001, 131_072)) // n, n), _data(m, d))}, _joined(m, d, "x0", "0")


def running(r: random.Random, m: str, d: str) -> Case:
    x = "1 + x0 * 0.05" if m == "prod" and d in FLOATS else "x0"
    return {"x0": (d, (r.choice((3, 9)), _around(r, d, 7, 70)), _data(m, d))}, f"wf.{RUNNING[m]}({x}, axis={r.choice((0, 1))})"


RUNNING = {"sum": "cumsum", "prod": "cumprod", "max": "maximum.accumulate", "min": "minimum.accumulate"}


def scalar(r: random.Random, m: str, d: str) -> Case:
    return {"x0": (d, (r.choice((1, 2, 3)),), _data(m, d))}, _joined(m, d, "x0", "None")


REDUCTIONS: dict[str, tuple[str, Callable[[random.Random, str, str], Case]]] = {
    "row": ("row", row), "row of blocks": ("row of blocks", row_of_blocks), "row staged": ("row staged", row_staged),
    "row ragged": ("row ragged", row_ragged), "joined rows": ("", joined_rows), "full": ("full", full),
    "columns": ("tile", columns),
    "tall columns": ("tile blocks", tall_columns),
    "few columns": ("tile unrolled", few_columns), "sheet": ("sheet", sheet), "blocks": ("blocks", blocks),
    "running": ("tile running", running),
    "scalar": ("scalar", scalar),
}

IN_LANES_OR_BLOCKS = ("row", "row of blocks", "row staged", "row ragged", "full", "tall columns", "blocks")


# maps: (r, dtype) -> case


def minor(r: random.Random, d: str) -> Case:
    k, n = r.choice((2, 4)), _around(r, d, 9, 70)
    text = ", ".join(f"x0 {'+' if d != 'bool' else '|'} x{1 + j % 2}" for j in range(k))
    return {f"x{j}": (d, (3, n), "few" if d in FLOATS else "whole") for j in range(3)}, f"wf.stack([{text}], axis=-1)"


def turn(r: random.Random, d: str) -> Case:
    m, n = (_around(r, d, 64, 140) for _ in range(2))
    return {"x0": (d, (m, n), "few" if d in FLOATS else "whole")}, "x0.T + 1"


def again(r: random.Random, d: str) -> Case:
    n = _around(r, d, 17, 70)
    return {"x0": (d, (3, n), "few" if d in FLOATS else "whole")}, "x0 == 1"


def plain(r: random.Random, d: str) -> Case:
    n = _around(r, d, 17, 70)
    return {"x0": (d, (3, n), "few" if d in FLOATS else "whole")}, "x0 * x0" if d != "bool" else "~x0"


def in_order(r: random.Random, d: str) -> Case:
    n = _around(r, d, 9, 70)
    mode = "scatter_set" if d == "bool" or r.random() < 0.5 else "scatter_add"
    kind = "few" if d in FLOATS else "whole"
    return {
        "x0": (d, (5, n), kind), "x1": ("int64", (7,), "index:5"), "x2": (d, (7, n), kind),
    }, f"wf.{mode}(x0, x1, x2, axes=(0,))"


def by_columns(r: random.Random, d: str) -> Case:
    n = _around(r, d, 2100, 2300)
    mode = "scatter_set" if d == "bool" else "scatter_add"
    kind = "few" if d in FLOATS else "whole"
    return {
        "x0": (d, (5, n), kind), "x1": ("int64", (60,), "index:5"), "x2": (d, (60, n), kind),
    }, f"wf.{mode}(x0, x1, x2, axes=(0,))"


def early(r: random.Random, d: str) -> Case:
    return {"x0": (d, (r.choice((40, 64)), _around(r, d, 512, 1100)), "normal")}, "wf.nn.softmax(x0, 0)"


def parallel(r: random.Random, d: str) -> Case:
    return {"x0": (d, (r.choice((300, 311)), _around(r, d, 400, 450)), "few" if d in FLOATS else "whole")}, (
        "wf.tanh(x0) + x0" if d in FLOATS else "(x0 % 7) // 3" if d != "bool" else "~x0"
    )


MAPS: dict[str, tuple[str, Callable[[random.Random, str], Case], tuple[str, ...]]] = {
    "minor": ("tiles minor again", minor, DTYPES),
    "turn": ("turn again", turn, ("float32", "float64", "int32", "int64", "uint32", "uint64")),
    "again": ("tiles again", again, tuple(d for d in DTYPES if LANES.get(d, 16) < 64)),
    "plain": ("tiles", plain, DTYPES),
    "in order": ("tiles in order", in_order, DTYPES),
    "by columns": ("columns in order", by_columns, ("float32", "float64", "int64")),
    "early": ("sheet early", early, ("float32", "float64")),
    "parallel": ("parallel", parallel, tuple(d for d in DTYPES if d != "bool")),
}


# products and convolutions


def _product(m: int, n: int, k: int, text: str = "x0 @ x1", a: str = "mk", b: str = "kn") -> Callable[[random.Random, str], Case]:
    def case(r: random.Random, d: str) -> Case:
        size = {"m": m, "n": n, "k": k}
        epilogue = r.choice(("{}", "wf.tanh({})", "wf.maximum({} * 0.5 + 0.25, 0)", "({}) / 3 + wf.exp(-wf.abs({}))"))
        inputs = {"x0": (d, tuple(size[c] for c in a), "normal"), "x1": (d, tuple(size[c] for c in b), "normal")}
        return inputs, epilogue.replace("{}", text)

    return case


def _tallied(case: Callable[[random.Random, str], Case]) -> Callable[[random.Random, str], Case]:
    """A reduction of a product that the product's kernel computes."""
    def reduced(r: random.Random, d: str) -> Case:
        inputs, line = case(r, d)
        return inputs, r.choice(("wf.abs({}).max()", "({}).min()", "({}).max()", "wf.isfinite({}).sum()")).replace("{}", line)

    return reduced


def _batched(r: random.Random, d: str) -> Case:
    b, m, n, k = r.choice((2, 3)), r.choice((2, 5, 9)), r.choice((2, 16, 17)), r.choice((8, 33))
    return {"x0": (d, (b, m, k), "normal"), "x1": (d, (b, k, n), "normal")}, r.choice(("x0 @ x1", "wf.tanh(x0 @ x1)"))


def _convolution(x: tuple[int, ...], w: tuple[int, ...], extra: str, slope: str = "") -> Callable[[random.Random, str], Case]:
    def case(r: random.Random, d: str) -> Case:
        text = f"wf.nn.conv2d(x0, x1{extra})"
        if slope:
            text = f"wf.grad(lambda x0, x1: ({text} ** 2).sum(), argnums={slope})(x0, x1)"
        return {"x0": (d, x, "normal"), "x1": (d, w, "normal")}, text

    return case


def _pooling(r: random.Random, d: str) -> Case:
    place = f"{r.choice((2, 3))}, 2, {r.choice((0, 1))}"
    shape = (2, 3, r.choice((5, 8)), r.choice((33, 64)))
    return {"x0": (d, shape, "normal")}, f"wf.grad(lambda x: (wf.nn.max_pool2d(x, {place}) ** 2).sum())(wf.maximum(x0, 0))"


def _bytes(m: int, n: int, k: int) -> Callable[[random.Random, str], Case]:
    """A product of 8-bit integers in int32."""
    def case(r: random.Random, d: str) -> Case:
        epilogue = r.choice(("{}", "wf.maximum({}, 0)", "{}.astype('float32') * 0.5 + 0.25"))
        turned = r.random() < 0.5
        inputs = {"x0": (d, (m, k), "whole"), "x1": (r.choice(BYTES), (n, k) if turned else (k, n), "whole")}
        return inputs, epilogue.replace("{}", f"wf.matmul(x0, x1{'.T' if turned else ''}, dtype='int32')")

    return case


def _rounded(text: str, a: tuple[int, ...], b: tuple[int, ...], every: Sequence[int]) -> Callable[[random.Random, str], Case]:
    """A product whose sums are rounded."""
    def case(r: random.Random, d: str) -> Case:
        formats = f", accumulate='{r.choice(('float16', 'bfloat16', 'float8_e5m2', 'float4_e2m1fn'))}', every={r.choice(every)}"
        return {"x0": (d, a, "normal"), "x1": (d, b, "normal")}, text.replace("{}", formats)

    return case


ROUNDED_PRODUCTS: dict[str, tuple[str, Callable[[random.Random, str], Case]]] = {
    "rounded sums": ("product rounds sums", _rounded("wf.matmul(x0, x1{})", (13, 70), (70, 40), (1, 2, 16, 100))),
    "rounded pieces": ("product rounds sums", _rounded("wf.matmul(x0, x1{})", (26, 1100), (1100, 70), (1, 32))),
    "rounded windows": (
        "product rounds sums", _rounded("wf.nn.conv2d(x0, x1, padding=1{})", (2, 3, 7, 8), (5, 3, 3, 3), (2, 9, 40)),
    ),
    "rounded along two axes": (
        "tile rounded sums",
        _rounded("wf.grad(lambda w: wf.matmul(x0.transpose(1, 0, 2), w{}).sum())(x1)", (3, 5, 7), (7, 4), (2, 9)),
    ),
}
BYTES = ("int8", "uint8")
INTEGER_PRODUCTS: dict[str, tuple[str, Callable[[random.Random, str], Case]]] = {
    "bytes": ("product of integers", _bytes(13, 70, 129)), "bytes in pieces": ("product of integers", _bytes(30, 130, 4101)),
    "bytes, few rows": ("", _bytes(1, 33, 131)),
}
PRODUCTS: dict[str, tuple[str, Callable[[random.Random, str], Case]]] = {
    "product": ("product", _product(9, 17, 8)), "last columns": ("product last columns", _product(5, 19, 33)),
    "batch": ("product batch", _batched),
    "turns b": ("product turns b", _product(2, 33, 70, "x0 @ x1.T", "mk", "nk")),
    "packs b": ("product packs b", _product(40, 33, 70, "x0 @ x1.T", "mk", "nk")),
    "packs a": ("product packs a", _product(170, 80, 1030, "x0.T @ x1", "km", "kn")),
    "in pieces": ("product in pieces", _product(30, 260, 2300)), "units": ("product units", _product(260, 260, 70)),
    "along": ("vector product along", _product(1, 33, 70, "x1 @ x0.reshape((-1,))", "mk", "nk")),
    "across": ("vector product across", _product(1, 33, 70)), "sweep": ("vector product sweep", _product(1, 2049, 257)),
    "tallied": ("tallies", _tallied(_product(9, 17, 8))), "tallied units": ("tallies", _tallied(_product(260, 260, 33))),
    "tallied vector": ("tallies", _tallied(_product(1, 33, 70))),
}
CONVOLUTIONS: dict[str, tuple[str, Callable[[random.Random, str], Case]]] = {
    "convolution": ("convolution", _convolution((2, 3, 9, 9), (8, 3, 3, 3), ", padding=1")),
    "direct": ("convolution direct", _convolution((1, 1, 7, 7), (2, 1, 3, 3), "")),
    "weights": ("convolution weights", _convolution((3, 2, 9, 9), (4, 2, 3, 3), ", padding=1", "1")),
    "filter vectors": ("convolution filter vectors", _convolution((3, 16, 3, 3), (32, 16, 3, 3), ", padding=1")),
    "filter weights": ("convolution filter weights", _convolution((3, 16, 7, 6), (16, 16, 3, 3), ", padding=1", "1")),
    "strided gradient": ("convolution fill", _convolution((2, 2, 9, 9), (3, 2, 1, 1), ", stride=2", "0")),
    "input gradient": ("", _convolution((2, 2, 9, 9), (3, 2, 3, 3), ", stride=2, padding=1", "0")),
    "pooling gradient": ("", _pooling),  # stores at stride 2 that interleave, where masked stores are fast
    "tallied convolution": ("tallies", _tallied(_convolution((2, 3, 9, 9), (8, 3, 3, 3), ", padding=1"))),
    "tallied gradient": ("tallies", _tallied(_convolution((2, 2, 9, 9), (3, 2, 1, 1), ", stride=2", "0"))),
}


def _program(name: str, way: str, case: Case, seed: int) -> Program:
    inputs, line = case
    given = tuple(Input(n, d, shape, kind, seed + k) for k, (n, (d, shape, kind)) in enumerate(inputs.items()))
    return Program("path", given, (f"v0 = {line}",), ("v0",), {"way": way, "case": name}, seed)


def cases() -> list[tuple[str, str, str]]:
    """(case, what is joined, dtype), all of them; what is joined is empty where nothing is."""
    out = [(n, m, d) for n in REDUCTIONS for m in (RUNNING if n == "running" else MONOIDS) for d in DTYPES if _has(n, m, d)]
    out += [(n, "", d) for n, (_, _, dtypes) in MAPS.items() for d in dtypes]
    out += [(n, "", d) for n in PRODUCTS for d in FLOATS if n != "turns b" or d in ("float32", "float64")]
    out += [(n, "", d) for n in INTEGER_PRODUCTS for d in BYTES]
    out += [(n, "", d) for n in ROUNDED_PRODUCTS for d in FLOATS if d != "float64"]
    return out + [(n, "", d) for n in CONVOLUTIONS for d in FLOATS]


def _has(name: str, monoid: str, dtype: str) -> bool:
    """Whether a reduction takes its way with this monoid and dtype. Products of floats go through the elements in order."""
    if monoid == "prod" and dtype in FLOATS and name in IN_LANES_OR_BLOCKS:
        return False
    if name == "running":
        return dtype != "bool" or monoid in ("max", "min")
    if name == "few columns" and monoid == "prod":
        return dtype not in FLOATS[2:]  # too many instructions to be written out
    return name not in ("row staged", "blocks") or monoid not in ("argmax", "argmin")


def program(name: str, monoid: str, dtype: str, seed: int) -> Program:
    """The program of a case."""
    r = random.Random(f"{name} {monoid} {dtype} {seed}")
    if name in REDUCTIONS:
        way, reduce = REDUCTIONS[name]
        return _program(name, way, reduce(r, monoid, dtype), seed)
    way, make = (MAPS[name][:2]) if name in MAPS else (PRODUCTS | INTEGER_PRODUCTS | ROUNDED_PRODUCTS | CONVOLUTIONS)[name]
    return _program(name, way, make(r, dtype), seed)


def grown(r: random.Random) -> Program:
    """A random case."""
    return program(*r.choice(cases()), seed=r.randrange(10**6))


def check(program: Program) -> None:
    """All levels, and that the way was taken."""
    before = dict(RECORD.counters["paths"])
    check_expression(program)
    taken = {p for p, n in RECORD.counters["paths"].items() if n > before.get(p, 0)}
    way = program.options["way"]
    if way and not any(p.startswith(way) for p in taken):
        raise Mismatch("way not taken", f"{program.options['case']}: {sorted(taken)} instead of {way!r}")
