"""The house: sizes of files, what an import loads, names that resolve and are documented, where state may live."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.process import distribution, platform_check

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "weft").rglob("*.py"))
ROOMS = [folder.name for folder in (ROOT / "weft").iterdir() if folder.is_dir()]
MODULES = ("nn", "losses", "optim", "train", "io", "random", "linalg", "fft")


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True, cwd=ROOT, timeout=60,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_weft_loads_little() -> None:
    plain = loaded("import numpy")
    more = loaded("import numpy, weft") - plain
    heavy = {
        m for m in more
        if m.split(".")[0] in ("llvmlite", "optree", "rich", "opt_einsum", "safetensors", "matplotlib", "pooch")
        or m.startswith(("weft.schedule", "weft.devices", "weft.nn", "weft.optim", "weft.train"))
    }
    assert not heavy


def test_arrays_load_no_layers_and_a_lazy_graph_no_compiler() -> None:
    loaded("import weft as wf; wf.jit(lambda x: x + 1)(wf.ones(10)).numpy()")  # the code that runs programs is in the disk cache
    found = loaded("import weft as wf; x = wf.ones((300, 400)) + 1; y = x.sum(axis=0)")
    heavy = ("weft.nn", "weft.kernel.ir", "llvmlite.binding", "rich", "optree", "opt_einsum")
    assert not {m for m in found if m.startswith(heavy)}


def test_small_work_loads_nothing_of_programs() -> None:
    """What is computed at once needs no kernels, and what came with the second device the CPU does not load."""
    small, jitted = ("import weft as wf; x = wf.array([1.0, 2.0]); " + f for f in ("float(x.sum())", "wf.jit(wf.sum)(x).item()"))
    loaded(small), loaded(jitted)  # from here on their code is on disk
    assert not {m for m in loaded(small) if m.startswith(("weft.schedule", "weft.kernel.ir", "weft.devices.cpu.emit", "html"))}
    found, others = loaded(jitted), ("weft.schedule.layout", "weft.devices.cuda", "weft.interop.cuda_exchange", "weft.placement")
    assert "weft.devices.cpu.native.executable" in found and not {m for m in found if m.startswith(others)}


def test_a_step_of_a_neural_ode_loads_no_other_optimizers_and_solvers() -> None:
    """A second process does not schedule the step either: its Program is in the disk cache."""
    code = """
import numpy as np, weft as wf
p = {"w": wf.array([[0.1, 0.2], [0.3, 0.4]])}
optimizer = wf.optim.Adam(0.01).init(p)
def loss(p):
    return wf.ode.solve(lambda t, y, p: wf.tanh(y @ p["w"]), wf.array([0.1, 0.2]), [0.0, 0.5, 1.0], args=p).ys.sum()
@wf.jit
def step(p):
    value, slope = wf.value_and_grad(loss)(p)
    optimizer.update(p, slope)
    return value
float(step(p))
"""
    loaded(code)
    others = ("optim.minimize", "optim.least_squares", "optim.schedules", "ode.implicit", "functions.random", "functions.linalg",
              "schedule.build", "schedule.fuse", "kernel.printer", "devices.cpu.emit")
    assert not {m for m in loaded(code) if m.startswith(tuple(f"weft.{other}" for other in others))}


def test_messages_name_extras_that_exist() -> None:
    """The distribution's name is not the import's: ``pip install weft`` would install a program of other people."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == distribution.NAME
    texts = [*SOURCES, *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.rst"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    content = "\n".join(path.read_text() for path in texts)
    named = {*re.findall(r"install_command\(['\"](\w+)['\"]\)", content), *re.findall(rf"{distribution.NAME}\[(\w+)\]", content)}
    assert {"plot", "dist", "gpu"} <= named <= set(project["optional-dependencies"])
    assert not re.findall(r"(?<![\w-])weft\[[a-z]+\]|pip\s+install\s+weft(?!-array)\b", content.replace(IMPOSTOR, ""))


IMPOSTOR = "``pip install weft`` installs a program"  # of the docstring that says so


def test_dependencies_are_imported() -> None:
    content = "\n".join(path.read_text() for path in SOURCES)
    for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        package = re.split(r"[<>=]", requirement)[0]
        assert re.search(rf"^\s*(import|from) {package}\b|import_needed\(\"{package}\"", content, re.MULTILINE), package


@pytest.mark.parametrize(("module", "name", "value", "message"), [
    ("sys", "version_info", (3, 10, 13), "Python 3.11 or newer, and this is Python 3.10.13"),
    ("sys", "version_info", (3, 15, 0), "Python 3.11 to 3.14, .*; this is Python 3.15.0"),
    ("sys", "implementation", types.SimpleNamespace(name="pypy"), "needs CPython, .* and this is pypy"),
    ("sys", "platform", "win32", "this is win32: install it in the Windows Subsystem for Linux"),
    ("sys", "platform", "emscripten", "this is emscripten$"),
    ("sys", "maxsize", 2**31 - 1, "install a 64-bit Python"),
    ("os", "uname", lambda: types.SimpleNamespace(machine="riscv64"), "this machine is riscv64"),
])
def test_platforms_without_support_are_refused(module: str, name: str, value: Any, message: str, monkeypatch) -> None:
    platform_check.refuse_platform()
    stand_in = types.SimpleNamespace(**{**vars(importlib.import_module(module)), name: value})
    monkeypatch.setattr(platform_check, module, stand_in)
    with pytest.raises(ImportError, match=message):
        platform_check.refuse_platform()


def test_the_import_refuses_an_unsupported_platform() -> None:
    code = "import sys; sys.platform = 'win32'; import weft"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: weft runs on Linux and macOS"), done.stderr


@pytest.mark.parametrize("name", wf.__all__)
def test_public_names_resolve(name: str) -> None:
    assert hasattr(wf, name)


def public() -> dict[str, Any]:
    """Functions and classes a user meets, by dotted name."""
    found: dict[str, Any] = {}
    for name in wf.__all__:
        home = wf._HOME.get(name, "")
        if home.startswith(("weft.functions", "weft.transforms", "weft.tools", "weft.eager.materialise", "weft.devices")):
            if not isinstance(getattr(wf, name), bool | np.bool_ | tuple | dict):  # constants say what they are by what they hold
                found[name] = getattr(wf, name)
    for module in MODULES:
        held = getattr(wf, module)
        names = getattr(held, "__all__", None) or [
            n for n, v in vars(held).items() if not n.startswith("_") and getattr(v, "__module__", "") == held.__name__
        ]
        for n in names:
            v = getattr(held, n)
            if inspect.isroutine(v) or (inspect.isclass(v) and not dataclasses.is_dataclass(v)):
                found[f"{module}.{n}"] = v
    return found


@pytest.mark.parametrize("name", public())
def test_documented_with_an_example(name: str) -> None:
    text = inspect.getdoc(public()[name]) or ""
    assert text.splitlines()[0] and (">>> " in text or ":class:`" in text)  # twins for other dimensions name their example


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_say_what_they_are(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not tree.body or ast.get_docstring(tree), "a module begins with what it is for"
    unfinished = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Raise) and "NotImplementedError" in ast.dump(n)]
    # a base class's method may say that its subclass must have it
    assert len(unfinished) <= 1, f"unfinished at lines {unfinished}"


def test_documents_name_what_exists() -> None:
    """Names in backquotes that look like files or weft's modules, in the documents for contributors."""
    seen = 0
    for document in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "README.md"):
        if not document.exists():
            continue
        for quoted in re.findall(r"`([^`\n]+)`", document.read_text()):
            if re.fullmatch(r"(weft|tests|benchmarks|docs)/[\w./-]+", quoted):
                assert (ROOT / quoted).exists(), f"{document.name}: {quoted}"
                seen += 1
            elif re.fullmatch(rf"({'|'.join(ROOMS)})/[\w/]+\.py", quoted):
                assert (ROOT / "weft" / quoted).exists() or (ROOT / quoted).exists(), f"{document.name}: {quoted}"
                seen += 1
            elif match := re.fullmatch(r"wf\.([\w.]+)(\(.*\))?", quoted):
                held: Any = wf
                for part in match[1].split("."):
                    assert hasattr(held, part), f"{document.name}: {quoted}"
                    held = getattr(held, part)
                seen += 1
    assert seen > 5


def test_every_submodule_imports_alone() -> None:
    """In one process a module may profit from another's import; circles show when it comes first."""
    first = [
        "weft.array", "weft.nn", "weft.functions.random", "weft.transforms.jit", "weft.schedule.build", "weft.devices",
        "weft.devices.cpu.generate", "weft.graph.primitives", "weft.tools.cli", "weft.io", "weft.losses", "weft.optim",
    ]
    for name in first:
        assert name in loaded(f"import {name}")
        assert importlib.import_module(name)
