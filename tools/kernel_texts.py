"""The LLVM texts of all kernels that the tests generate, and how those of two trees differ: for changes that may change none.

    python tools/kernel_texts.py record before -- -n auto --dist loadgroup    # in the one tree; pytest's arguments at the end
    python tools/kernel_texts.py record after -- -n auto --dist loadgroup     # in the other
    python tools/kernel_texts.py compare before after

A kernel is known by its printed form and the processor it was generated for. Names of registers, labels and functions do not
count. Tests draw sizes afresh, so a few kernels are in one record only; they are counted and not compared.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import importlib
import inspect
import itertools
import os
import pkgutil
import re
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "WEFT_KERNEL_TEXTS"


def pytest_configure() -> None:
    """As a plugin: every text is written down, in a file a process."""
    if FOLDER in os.environ:
        watch(Path(os.environ[FOLDER]) / f"{os.getpid()}.sqlite")


def watch(path: Path) -> None:
    """Put functions that keep what they give in the places of all that make a kernel's text for a processor."""
    import weft

    kept = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    kept.execute("pragma synchronous = off")
    kept.execute("create table texts (key text primary key, text blob)")
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(weft.__path__, "weft.") if "__main__" not in m.name]
    printed: Callable[[Any], str] = next(m.kernel_key for m in modules if hasattr(m, "kernel_key"))
    pid = os.getpid()

    def keeping(generate: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(generate)
        def kept_too(kernel: Any, isa: Any) -> Any:
            made = generate(kernel, isa)
            if made is not None and os.getpid() == pid:  # a forked child has no database
                key = hashlib.sha256(f"{printed(kernel)}\n{isa!r}".encode()).hexdigest()
                whole = f"; {made.symbol} {made.scratch} {made.worker_scratch}\n{printed(kernel)}".replace("\n", "\n; ")
                kept.execute("insert or ignore into texts values (?, ?)", (key, zlib.compress(f"{whole}\n{made.ir}".encode())))
            return made

        return kept_too

    found: dict[Any, Any] = {}
    for module in modules:
        for name, f in list(vars(module).items()):
            given = list(inspect.signature(f).parameters) if name.startswith("generate") and inspect.isfunction(f) else ()
            if given == ["kernel", "isa"]:
                setattr(module, name, found.setdefault(f, keeping(f)))


def record(folder: Path, arguments: list[str]) -> int:
    """Run the tests of the tree in which this file lies."""
    folder.mkdir(parents=True)
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as cache:  # what is on disk already is not generated
        more = {FOLDER: str(folder.resolve()), "WEFT_CACHE": cache, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tools'}"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "kernel_texts", *arguments]
        return subprocess.run(command, cwd=root, env={**os.environ, **more}).returncode


def texts(folder: Path) -> dict[str, bytes]:
    """All that a record holds, by key."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.sqlite")):
        with sqlite3.connect(path) as kept:
            found.update(kept.execute("select key, text from texts"))
    return found


def plain(text: str) -> str:
    """With names by order of appearance."""
    numbers = itertools.count()
    known: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        name = match.group()
        if name[0] == "@" and name.startswith(("@llvm.", "@weft_")):
            return name
        return known.setdefault(name, f"{name[0]}n{next(numbers)}")

    text = re.sub(r"(?m)^([\w.]+):$", r"%\1:", text)  # where a label stands
    return re.sub(r'[%@][\w.]+', renamed, text)


def compare(before: Path, after: Path, shown: int = 3) -> int:
    """Print what differs; the number of kernels that do."""
    old, new = texts(before), texts(after)
    both = old.keys() & new.keys()
    different = [k for k in sorted(both) if old[k] != new[k]]
    pairs = [(plain(zlib.decompress(old[k]).decode()), plain(zlib.decompress(new[k]).decode())) for k in different]
    pairs = [(a, b) for a, b in pairs if a != b]
    print(f"{len(both)} kernels in both ({len(old) - len(both)} only before, {len(new) - len(both)} only after): "
          f"{len(both) - len(different)} equal, {len(different) - len(pairs)} but for names, {len(pairs)} different")
    for a, b in sorted(pairs, key=lambda pair: len(pair[0]))[:shown]:
        print("\n".join(difflib.unified_diff(a.splitlines(), b.splitlines(), "before", "after", lineterm="")))
    return len(pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record")
    one.add_argument("folder", type=Path)
    one.add_argument("arguments", nargs="*")
    two = commands.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        return record(given.folder, given.arguments)
    return 1 if compare(given.before, given.after) else 0


if __name__ == "__main__":
    sys.exit(main())
