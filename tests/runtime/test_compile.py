"""Compiling and loading: both loaders, imported symbols, constant data, keys, threads, and real generated kernels."""

from __future__ import annotations

import ast
import ctypes
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from handmade import F32, device, executable, scale_kernel, scale_twice

from weft.devices.cpu.native import code_key, elf, emission
from weft.devices.cpu.native.code_memory import CodeMemory
from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.emission import emit_object

ROOT = Path(__file__).parents[2]

# constants in memory, a table of functions, a global that is written, an import from libm, tail of alignment
_IR = """
declare double @cbrt(double)
@table = internal constant [2 x ptr] [ptr @twice, ptr @thrice]
@count = internal global i64 5
@bias = internal constant <4 x double> <double 0.5, double 1.5, double 2.5, double 3.5>, align 32

define internal double @twice(double %x) nounwind {
  %y = fmul double %x, 2.0
  ret double %y
}

define internal double @thrice(double %x) nounwind {
  %y = fmul double %x, 3.0
  ret double %y
}

define double @pick(double %x, i64 %which) nounwind {
  %n = load i64, ptr @count
  %n1 = add i64 %n, 1
  store i64 %n1, ptr @count
  %p = getelementptr ptr, ptr @table, i64 %which
  %f = load ptr, ptr %p
  %y = call double %f(double %x)
  %z = call double @cbrt(double %y)
  %q = getelementptr double, ptr @bias, i64 %n
  %b = getelementptr double, ptr @bias, i64 %which
  %c = load double, ptr %b
  %r = fadd double %z, %c
  ret double %r
}

define i64 @counted() nounwind {
  %n = load i64, ptr @count
  ret i64 %n
}
"""


@pytest.mark.parametrize("loader", ["own", "llvm"])
def test_both_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str) -> None:
    if loader == "llvm":
        monkeypatch.setattr(elf, "is_supported", lambda: False)
    be = device(tmp_path, threads=2)
    found = be.compiler.module(_IR)
    assert set(found) == {"pick", "counted"}
    pick = function(found["pick"], ctypes.c_double, ctypes.c_int64, result=ctypes.c_double)
    assert pick(4.0, 0) == math.cbrt(8.0) + 0.5 and pick(9.0, 1) == math.cbrt(27.0) + 1.5
    assert function(found["counted"], result=ctypes.c_int64)() == 7
    x = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    out = executable(be, scale_twice(4096), scale_kernel(be))([be.upload(x), 2.0, 0.25])[0]
    assert np.array_equal(be.download(out, x.shape, F32), x * np.float32(0.5))


def test_an_unknown_symbol_is_named(tmp_path: Path) -> None:
    be = device(tmp_path, threads=1)
    text = "declare void @weft_no_such_thing()\ndefine void @f() {\n  call void @weft_no_such_thing()\n  ret void\n}"
    with pytest.raises(RuntimeError, match="weft_no_such_thing"):
        be.compiler.module(text)


def test_what_is_no_object_is_refused() -> None:
    code, _ = emit_object(_IR)
    for broken in (b"", b"\x7fELF" + bytes(100), b"MZ" + code[2:], code[:18] + b"\xb7\0" + code[20:]):
        with pytest.raises(elf.UnsupportedObject):
            elf.load(broken, elf.process_symbol, CodeMemory())


def test_code_pages_are_never_writable_and_executable(tmp_path: Path) -> None:
    address = device(tmp_path, threads=1).compiler.module(_IR)["pick"]
    pages = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    mode = next(m for span, m in pages if int(span.split("-")[0], 16) <= address < int(span.split("-")[1], 16))
    assert mode.startswith("r-x")


def test_the_key_holds_features_versions_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    text = code_key.identity()
    assert llvmlite.__version__ in text and code_key.ABI in text and code_key.source_hash() in text
    flags = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features"))]
    assert flags[0] in text


@pytest.mark.parametrize(("sources", "rooms", "besides"), [
    (code_key.CODE_SOURCES, [f"devices/cpu/{room}" for room in ("emit", "nest", "product", "convolution", "generate.py")], ()),
    (code_key.PROGRAM_SOURCES, ["schedule", "graph/primitives"], ("weft/errors.py", "weft/process/")),
], ids=["code", "programs"])
def test_the_sources_in_the_key_are_all_that_decide(sources: tuple[str, ...], rooms: list[str], besides: tuple[str, ...]) -> None:
    """Whatever the code generator or the scheduler imports decides what a kernel's code or a Program looks like."""
    hashed = {path.relative_to(ROOT).as_posix() for path in code_key._sources(sources)}
    waiting = [path for path in hashed if path.startswith(tuple(f"weft/{room}" for room in rooms))]
    seen = set(waiting)
    while waiting:
        tree = ast.parse((ROOT / waiting.pop()).read_text())
        for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
        skipped = {id(n) for block in for_types for n in block.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and id(node) not in skipped and (node.module or "").startswith("weft."):
                names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
                found = {f"{name.replace('.', '/')}.py" for name in names if (ROOT / f"{name.replace('.', '/')}.py").exists()}
                waiting += found - seen
                seen |= found
    assert len(seen) > 30
    assert sorted(path for path in seen - hashed if not path.startswith(besides)) == []


def test_edited_sources_are_not_kept_under_the_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be = device(tmp_path / "c", threads=1)
    monkeypatch.setattr(code_key, "_START_TIME", 0.0)
    assert be.compiler.module(_IR)["pick"] and not (tmp_path / "c").exists()


def test_sources_are_looked_at_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, now, sources = [], [1e9], code_key._sources()
    monkeypatch.setattr(code_key, "_sources", lambda places: looks.append(1) or sources)
    monkeypatch.setattr(code_key.time, "monotonic", lambda: now[0])
    assert all(code_key.sources_unchanged() for _ in range(50)) and len(looks) == 1
    monkeypatch.setattr(code_key, "_START_TIME", 0.0)  # as if they had been edited since
    now[0] += 1.0
    assert not code_key.sources_unchanged() and len(looks) == 2


def test_two_threads_compile_each_kernel_once(tmp_path: Path) -> None:
    be = device(tmp_path, threads=1)
    out: list[int] = []
    threads = [threading.Thread(target=lambda: out.append(be.native["weft_run"])) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(out)) == 1 and be.compiler.counts.compiles == 3


def test_kernels_compiled_in_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object code does not depend on the number of threads, and errors are raised where the kernel is needed."""
    monkeypatch.setattr(emission, "_spare_cores", lambda: 3)
    be = device(tmp_path, threads=1)
    texts = {f"k{i}": _IR.replace("0.5", f"{i}.5") for i in range(20)}
    for name, text in texts.items():
        be.compiler.begin_module(name, lambda text=text: text)  # type: ignore[misc]
    begun = {entry.emission: text for entry, text in zip(be.compiler._compilations.values(), texts.values(), strict=True)}
    for name in list(texts)[::-1]:
        assert be.compiler.named_module(name, lambda: 1 / 0)["pick"]  # type: ignore[arg-type, return-value]
    assert all(e.code == emit_object(text)[0] for e, text in begun.items())
    assert be.compiler.counts.compiles == 20 and not be.compiler._compilations
    be.compiler.begin_module("k0", lambda: 1 / 0)  # type: ignore[arg-type, return-value]  # it is loaded
    with pytest.raises(RuntimeError, match="parsing"):
        be.compiler.begin_module("no text", lambda: "no text")


def test_a_fork_waits_for_the_thread_that_compiles(tmp_path: Path) -> None:
    """In the child nothing is half done, and no lock is held by a thread that does not exist there."""
    be = device(tmp_path, threads=1)
    assert be.native
    done: list[int] = []

    def compile_many() -> None:
        while len(done) < 1000:
            try:
                text = _IR.replace("0.5", f"{len(done)}.5")
                be.compiler.begin_module(text, lambda text=text: text)  # type: ignore[misc]
                be.compiler.module(text)
            except BaseException:
                return
            done.append(1)

    other = threading.Thread(target=compile_many)
    other.start()
    children = []
    for k in range(5):
        seen = len(done)
        while len(done) == seen and other.is_alive():
            time.sleep(0.001)
        time.sleep(random.uniform(0.0, 0.01))  # in the middle of a compilation
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if be.compiler.module(_IR.replace("1.5", f"{k}.25")) else 1)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    done += [1] * 1000
    other.join()
    assert statuses == [0] * 5


_REAL = """
import sys
import numpy as np
from weft.dtypes.formats import FLOAT32 as f
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.devices import counters, get_device
from weft.schedule.build import build
if sys.argv[1] == "forbidden":
    import llvmlite.binding as llvm
    def refuse(*a, **k):
        raise AssertionError("LLVM was entered")
    llvm.parse_assembly = llvm.parse_bitcode = llvm.create_pass_builder = llvm.TargetMachine.emit_object = refuse
x, w, b = input_leaf((33, 48), f), input_leaf((48, 17), f), input_leaf((17,), f)
y = bind(TABLE["tanh"], bind(TABLE["add"], bind(TABLE["dot_general"], x, w, contract=((1,), (0,)), batch=((), ())), b))
z = bind(TABLE["subtract"], y, bind(TABLE["reduce_max"], y, axes=(1,), keepdims=True))
be = get_device()
ex = be.compile(build(Graph([x, w, b], [y, z])))
rng = np.random.default_rng(3)
X, W, B = (rng.normal(size=n.shape).astype(np.float32) for n in (x, w, b))
Y, Z = (be.download(o, n.shape, f) for o, n in zip(ex([be.upload(a) for a in (X, W, B)]), (y, z)))
want = np.tanh(X.astype(np.float64) @ W + B)
assert np.abs(Y - want).max() < 2e-5 and np.abs(want).mean() > 0.1
assert np.abs(Z - (want - want.max(1, keepdims=True))).max() < 4e-5
assert counters()["entries"] == 1 and counters()["kernels"] == len(ex.program.info)
print(counters()["compiles"])
"""


def test_a_generated_program_runs_and_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    def once(mode: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _REAL, mode], capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2],
            env={**os.environ, "WEFT_CACHE": str(tmp_path / "c")},
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert once("free") >= 3
    assert once("forbidden") == 0
