"""An installed weft is the package for scripts beside a clone called weft, inside of it, and in a REPL."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = "import weft\nprint(weft.__file__, float(weft.ones(3).sum()))\n"


def run(*command: object, cwd: Path, text: str | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, input=text)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["editable", "wheel"])
def test_a_script_beside_the_clone_imports_the_package(kind: str, tmp_path: Path) -> None:
    """Python takes a folder ``weft`` without ``__init__.py`` for a package only where no folder of the path has a real one."""
    clone, venv = tmp_path / "weft", tmp_path / "environment"
    for folder in ("weft", "benchmarks"):
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    python = venv / "bin" / "python"
    installed = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # weft's dependencies, without the installation of weft that is beside them: .pth files found this way are not followed
    (installed / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    run(python, "-m", "pip", "install", *install, *(["-e"] if kind == "editable" else []), clone, cwd=tmp_path)

    home = {"editable": clone, "wheel": installed}[kind]
    for folder, package in ((tmp_path, home), (clone, clone), (clone / "docs", home)):
        folder.mkdir(exist_ok=True)
        expected = f"{package / 'weft' / '__init__.py'} 3.0"
        (folder / "script.py").write_text(SCRIPT)
        assert run(python, folder / "script.py", cwd=ROOT).strip() == expected
        assert run(python, "-c", SCRIPT, cwd=folder).strip() == expected
        assert run(python, "-i", "-q", cwd=folder, text=SCRIPT).strip() == expected
        assert run(venv / "bin" / "weft", "--help", cwd=folder).startswith("usage: weft")
    command = [venv / "bin" / "weft", "bench", "convnets", "--nets", "none"]
    bench = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert bench.returncode == 1 and ("no net 'none'" if kind == "editable" else "run `make setup` there") in bench.stderr
