"""Write stubs of weft and of packages that load names on use, for type checkers, from the lists in their ``__init__.py``."""

from __future__ import annotations

import textwrap
from pathlib import Path

import weft as wf

HEAD = '''\
"""The names of ``PACKAGE.*`` for type checkers and editors; ``__init__.py`` loads them WHEN.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

'''
PACKAGES = ("nn", "optim", "ode", "dist", "io")
TYPES = {
    "__array_api_version__": "str", "__version__": "str", **dict.fromkeys(("e", "euler_gamma", "inf", "nan"), "float"),
    "newaxis": "None", "pi": "float",
}


def line(module: str, names: list[str]) -> str:
    """``from module import a as a, ...``: so marked, a checker passes a name on."""
    asked = [f"{wf._MODULE_NAMES[n]} as _{wf._MODULE_NAMES[n]}" if n in wf._MODULE_NAMES else f"{n} as {n}" for n in names]
    short = f"from {module} import {', '.join(asked)}"
    if len(short) <= 120:
        return short
    text = ", ".join(asked).replace(" as ", "-as-")  # no line ends within
    wrapped = textwrap.fill(text + ",", 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"from {module} import (\n{wrapped.replace('-as-', ' as ')}\n)"


def stub() -> str:
    rooms: dict[str, list[str]] = {}
    for name, module in wf._MODULES.items():
        rooms.setdefault(module.rpartition(".")[0], []).append(name)
    lines = [line(module, names.split()) for module, names in wf._NAMES.items()]
    lines += [line(module, names) for module, names in rooms.items()]
    lines += ["", *(f"{name}: {kind}" for name, kind in TYPES.items())]
    lines += [f"{name} = _{there}  # the module calls it otherwise" for name, there in wf._MODULE_NAMES.items()]
    return _file("wf", "when they are first used", lines)


def stub_of(package: str) -> str:
    """Return the stub of a package. A name that is a file is public itself."""
    files = {"init": "init", **wf.nn._NAMES} if package == "nn" else getattr(wf, package)._NAMES
    rooms = [(f"weft.{package}" if file == names else f"weft.{package}.{file}", names.split()) for file, names in files.items()]
    return _file(f"wf.{package}", "from its files", [line(room, names) for room, names in rooms])


def _file(package: str, when: str, lines: list[str]) -> str:
    return HEAD.replace("PACKAGE", package).replace("WHEN", when) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    root = Path(wf.__file__).parent
    (root / "__init__.pyi").write_text(stub())
    for package in PACKAGES:
        (root / package / "__init__.pyi").write_text(stub_of(package))
