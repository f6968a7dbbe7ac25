"""The stub that type checkers and editors read names what ``import weft`` gives, and types a user's program."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import weft as wf

ROOT = Path(__file__).parents[1]
STUB = ast.parse((ROOT / "weft/__init__.pyi").read_text())

PROGRAM = '''
import weft as wf


def loss(w: wf.Array, x: wf.Array) -> wf.Array:
    return wf.sum(wf.tanh(x @ w + 1) ** 2) - x.mean(axis=0)[0]


x = wf.random.normal(size=(3, 4), dtype=wf.float32)
w = wf.array([[1.0]] * 4)
value, slope = wf.value_and_grad(loss)(w, x)
wf.eval(value, wf.jit(loss)(w, x))
w[0] = 3
total: float = float(w.sum()) + wf.pi
net = wf.nn.Sequential(wf.nn.Linear(4, 3), wf.nn.ReLU())
with wf.flush_denormals():
    wf.train.fit(net, x, x.numpy(), loss=wf.losses.mse, optimizer=wf.optim.Adam(lr=1e-3), epochs=1)
reveal_type(1 - x.T[1:, ::2])
'''
MISTAKES = '''
import weft as wf
wf.tanhh(1.0)
wf.array(3.0) + wf.nothing
x: int = wf.zeros((3,))
wf.nn.Linears(3, 4)
'''


def test_the_stub_names_what_the_module_exports() -> None:
    public, named = set(), set()
    for line in STUB.body:
        if isinstance(line, ast.ImportFrom):
            assert line.module
            for name in line.names:
                home = importlib.import_module(line.module)
                there = hasattr(home, name.name)
                held = getattr(home, name.name) if there else importlib.import_module(f"{line.module}.{name.name}")
                named.add(name.asname)
                if name.asname == name.name:  # so marked, a checker passes it on
                    assert held is getattr(wf, name.name), name.name
                    public.add(name.name)
        elif isinstance(line, ast.AnnAssign):
            assert isinstance(line.target, ast.Name)
            public.add(line.target.id)
        elif isinstance(line, ast.Assign):
            assert isinstance(line.targets[0], ast.Name) and isinstance(line.value, ast.Name) and line.value.id in named
            public.add(line.targets[0].id)
    assert public == set(wf.__all__)


def test_the_stub_of_nn_names_what_nn_exports() -> None:
    body = ast.parse((ROOT / "weft/nn/__init__.pyi").read_text()).body
    assert sorted(str(name.asname) for line in body if isinstance(line, ast.ImportFrom) for name in line.names) == wf.nn.__all__


def test_the_stub_is_written_by_its_tool(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    stub = importlib.import_module("stub")
    packages = [(f"weft/{package}/__init__.pyi", stub.stub_of(package)) for package in stub.PACKAGES]
    for written, now in (("weft/__init__.pyi", stub.stub()), *packages):
        assert (ROOT / written).read_text() == now, "write it anew: python tools/stub.py"


def test_mypy_types_a_users_program(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PROGRAM)
    bad.write_text(MISTAKES)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(good), str(bad)], capture_output=True, text=True, cwd=ROOT, timeout=300,
    )
    about_good, about_bad = ([line for line in done.stdout.splitlines() if name in line] for name in ("good.py", "bad.py"))
    assert len(about_good) == 1 and about_good[0].endswith('Revealed type is "weft.array.core.Array"'), done.stdout + done.stderr
    found = [int(line.split(":")[1]) for line in about_bad if ": error:" in line]
    assert found == [3, 4, 5, 6], done.stdout + done.stderr
