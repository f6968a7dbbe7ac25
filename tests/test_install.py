"""An installed weft: beside a clone called weft, inside of it, in a REPL, and from a wheel with its dependencies alone."""

import email
import importlib.metadata
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import weft as wf
from weft.process.distribution import NAME

ROOT = Path(__file__).parents[1]
PACKAGES = Path(sysconfig.get_path("purelib"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAX_WHEEL_BYTES = 7 << 18  # 1.75 MiB, a guard against files that do not belong in it: the sources alone take 1.53 MiB
SCRIPT = "import weft\nprint(weft.__file__, float(weft.ones(3).sum()))\n"
PROGRAM = """
import weft as wf
digits = wf.data.load_digits()
net = wf.nn.Sequential(wf.nn.Flatten(), wf.nn.Linear(64, 32), wf.nn.ReLU(), wf.nn.Linear(32, 10))
history = wf.train.fit(net, digits.x_train, digits.y_train, epochs=2)
net.save("net.safetensors")
loaded = wf.nn.Sequential(wf.nn.Flatten(), wf.nn.Linear(64, 32), wf.nn.ReLU(), wf.nn.Linear(32, 10)).load("net.safetensors")
net.summary((8, 1, 8, 8))
wf.explain(lambda x: wf.einsum("ij,jk,kl->il", x, x, x), wf.ones((50, 50)))
assert wf.train.accuracy(loaded, digits.x_test, digits.y_test) > 0.5
try:
    wf.linalg.expm(wf.zeros((2, 2))).numpy()
except ImportError as error:
    print(error)
try:
    history.plot()
except ImportError as error:
    print(error)
"""


def run(*command: object, cwd: Path, text: str | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, input=text)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_clone(folder: Path) -> Path:
    for name in ("weft", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    return folder


def make_environment(folder: Path) -> tuple[Path, Path]:
    """Return the interpreter of a new environment, and its folder for packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    return python, Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the sdist, and the wheel that is built from the sdist."""
    clone, out = make_clone(tmp_path_factory.mktemp("source") / "weft"), tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, clone, cwd=out)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def link_dependencies(name: str, folder: Path, seen: set[str]) -> None:
    """Link what a distribution requires without extras, and what that requires, into a folder of packages."""
    for requirement in map(Requirement, importlib.metadata.requires(name) or ()):
        if (requirement.marker is None or requirement.marker.evaluate({"extra": ""})) and requirement.name not in seen:
            seen.add(requirement.name)
            files = importlib.metadata.files(requirement.name) or ()
            for part in {file.parts[0] for file in files} - {"..", "__pycache__"}:
                (folder / part).symlink_to(PACKAGES / part)
            link_dependencies(requirement.name, folder, seen)


@pytest.mark.parametrize("kind", ["editable", "wheel"])
def test_a_script_beside_the_clone_imports_the_package(kind: str, tmp_path: Path, built: tuple[Path, Path]) -> None:
    """Python takes a folder ``weft`` without ``__init__.py`` for a package only where no folder of the path has a real one."""
    clone = make_clone(tmp_path / "weft")
    python, installed = make_environment(tmp_path / "environment")
    # weft's dependencies, without the installation of weft that is beside them: .pth files found this way are not followed
    (installed / "dependencies.pth").write_text(f"{PACKAGES}\n")
    install = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    run(python, "-m", "pip", "install", *install, *(["-e", clone] if kind == "editable" else [built[1]]), cwd=tmp_path)

    home = {"editable": clone, "wheel": installed}[kind]
    for folder, package in ((tmp_path, home), (clone, clone), (clone / "docs", home)):
        folder.mkdir(exist_ok=True)
        expected = f"{package / 'weft' / '__init__.py'} 3.0"
        (folder / "script.py").write_text(SCRIPT)
        assert run(python, folder / "script.py", cwd=ROOT).strip() == expected
        assert run(python, "-c", SCRIPT, cwd=folder).strip() == expected
        assert run(python, "-i", "-q", cwd=folder, text=SCRIPT).strip() == expected
        assert run(python.parent / "weft", "--help", cwd=folder).startswith("usage: weft")
    command = [python.parent / "weft", "bench", "convnets", "--nets", "none"]
    bench = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert bench.returncode == 1 and ("no net 'none'" if kind == "editable" else "run `make setup` there") in bench.stderr


def test_the_wheel_needs_its_dependencies_alone(built: tuple[Path, Path], tmp_path: Path) -> None:
    """An environment without any other package trains, saves, plans, and names the extra that a function needs."""
    python, installed = make_environment(tmp_path / "environment")
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(installed)
    found = importlib.metadata.Distribution.at(next(installed.glob("weft_array-*.dist-info")))
    assert {Requirement(r).name for r in found.requires or () if "extra" not in r} == {
        Requirement(r).name for r in PROJECT["dependencies"]}
    link_dependencies(NAME, installed, set())
    out = run(python, "-c", PROGRAM, cwd=tmp_path)
    assert "linalg.expm, and it is not installed: pip install scipy" in out and f"pip install '{NAME}[plot]'" in out
    out = run(python, "-m", "weft", "train", "digits", "--epochs", "1", cwd=tmp_path)
    assert "%" in out, out


def test_wheel_and_sdist(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=sdist.parent)
    size = wheel.stat().st_size
    assert size <= MAX_WHEEL_BYTES, f"the wheel has {size:,} bytes"
    assert (sdist.name, wheel.name) == (f"weft_array-{wf.__version__}.tar.gz", f"weft_array-{wf.__version__}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        told = email.message_from_bytes(archive.read(f"weft_array-{wf.__version__}.dist-info/METADATA"))
    assert {name.split("/")[0] for name in names} == {"weft", f"weft_array-{wf.__version__}.dist-info"}
    assert told["Name"] == NAME and told["Author"] and told["Project-URL"] and told["License-Expression"] == "Apache-2.0"
    assert set(told.get_all("Provides-Extra", ())) == set(PROJECT["optional-dependencies"])
    with tarfile.open(sdist) as source:
        kept = {name.partition("/")[2] for name in source.getnames()}
    assert {"CITATION.cff", "CHANGELOG.md", "LICENSE", "weft/data/digits/digits.bytes.gz", "weft/py.typed"} <= kept
    assert not [name for name in kept if name.startswith("tests")]


def test_the_version_has_one_value() -> None:
    assert PROJECT["version"] == wf.__version__ and f"\nversion: {wf.__version__}\n" in (ROOT / "CITATION.cff").read_text()
