"""Docstrings in NumPy's form: every public name says what it takes, what it gives, and what it raises.

What is raised is found by reading: a ``raise`` in the function itself or in a function of weft that it calls. Not counted
are what nearly everything calls (an argument that is no array, an ``out`` that does not fit), and the array functions where
layers and losses call them.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

ROOT = Path(__file__).parents[1]
EVERYWHERE = {
    "array_operands", "arrays", "as_node", "bind", "cast", "constant", "exact_operands", "finish", "node", "number_node", "op",
    "operands", "wrap",
}
NEVER = {  # what they call is called with what it takes
    "weft.nan_to_num", "weft.counters", "weft.get_num_threads", "weft.devices.settle", "weft.diagflat", "weft.ediff1d", "weft.i0",
    "weft.modf", "weft.sinc", "weft.fix", "weft.isneginf", "weft.isposinf",
}


def _rooms() -> Any:
    spec = importlib.util.spec_from_file_location("rooms_of_the_site", ROOT / "docs" / "rooms.py")
    assert spec and spec.loader
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    return rooms


def public() -> dict[str, Any]:
    """Functions and classes by the first name under which the site shows them."""
    rooms, found = _rooms(), {}
    for room in rooms.rooms():
        for name in rooms.public(room):
            plain = rooms._ours(name.value) and not (inspect.isclass(name.value) and issubclass(name.value, Exception))
            if plain and name.value not in (wf.Array, wf.ndarray, wf.Scalar) and name.value not in found.values():
                found[name.path] = name.value
    return found


PUBLIC = public()


def sections(text: str) -> dict[str, list[str]]:
    """Title -> the lines of a section."""
    lines, out, title = text.splitlines(), {}, ""
    for k, line in enumerate(lines):
        under = k + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[k + 1].strip())
        if under and line.strip():
            title = line.strip()
            out[title] = []
        elif title and not re.fullmatch(r"-{3,}", line.strip()):
            out[title].append(line)
    return out


def entries(lines: list[str]) -> list[str]:
    """The names that a section describes: ``x1, x2 : array`` are two."""
    heads = [line.partition(" : ")[0] for line in lines if line.strip() and not line.startswith(" ")]
    return [name.strip().lstrip("*") for head in heads for name in re.split(r"[,;]", head)]


def parameters(value: Any) -> list[str]:
    return [name for name in inspect.signature(value).parameters if name != "self"]


def gives(value: Any) -> bool:
    return not inspect.isclass(value) and inspect.signature(value).return_annotation not in ("None", None)


def _code(f: Callable[..., Any]) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(f)))
    except OSError:  # what dataclasses write has no source
        return ast.Module([], [])


def _called(f: Callable[..., Any], tree: ast.AST, owner: type | None) -> Iterator[tuple[Any, type | None]]:
    """Functions of weft that ``f`` calls by name, through a module, or on itself."""
    for call in (n.func for n in ast.walk(tree) if isinstance(n, ast.Call)):
        if isinstance(call, ast.Name):
            yield f.__globals__.get(call.id), None
        elif isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name):
            held = f.__globals__.get(call.value.id)
            if isinstance(held, types.ModuleType):
                yield getattr(held, call.attr, None), None
            elif call.value.id == "self" and owner is not None:
                yield getattr(owner, call.attr, None), owner
        elif isinstance(call, ast.Attribute) and "super" in ast.dump(call.value) and owner is not None:
            for base in owner.__mro__[1:]:
                if call.attr in vars(base):
                    yield vars(base)[call.attr], owner
                    break


@functools.cache
def raises(value: Any, owner: type | None = None) -> bool:
    """Whether a ``raise`` can be reached from a function, or from making or calling an object of a class."""
    return _raises(value, owner, set())


def _function(value: Any) -> Any:
    """The function behind a decorator, or behind a method."""
    found = inspect.unwrap(value)
    return getattr(found, "__func__", found)


def _parts(value: Any) -> list[Any]:
    """What runs when an object of a class is made or called; a function itself."""
    if not inspect.isclass(value):
        return [_function(value)] if callable(value) else []
    return [f for n in ("__init__", "__post_init__", "check", "forward") if inspect.isfunction(f := getattr(value, n, None))]


def _raises(value: Any, owner: type | None, seen: set[Any]) -> bool:
    if inspect.isclass(value):
        return any(_raises(p, value, seen) for p in _parts(value))
    f = _function(value) if callable(value) else value
    ours = inspect.isfunction(f) and f.__module__.startswith("weft.") and f.__name__ not in EVERYWHERE
    if not ours or (f, owner) in seen:
        return False
    seen.add((f, owner))
    tree = _code(f)
    own = [n for n in ast.walk(tree) if isinstance(n, ast.Raise) and n.exc is not None and "NotImplemented" not in ast.dump(n)]
    return bool(own) or any(_raises(c, o, seen) for c, o in _called(f, tree, owner) if not _array_code(c, f))


def _array_code(called: Any, caller: Any) -> bool:
    where = getattr(called, "__module__", "") or ""
    return where.startswith("weft.functions") and not caller.__module__.startswith("weft.functions")


def missing(value: Any, name: str = "") -> list[str]:
    """What the docstring of a public function or class lacks."""
    have = sections(inspect.getdoc(value) or "")
    out = []
    wanted = parameters(value)
    named = entries(have.get("Parameters", []) + have.get("Attributes", []))
    if wanted and not named:
        out.append("Parameters")
    else:
        out += [f"parameter {p}" for p in wanted if p not in named]
        if "Parameters" in have:
            out += [f"no parameter {n}" for n in entries(have["Parameters"]) if n not in wanted]
    if gives(value) and not have.get("Returns"):
        out.append("Returns")
    if name not in NEVER and raises(value) and not have.get("Raises"):
        out.append("Raises")
    said = {error: _error(error) for error in entries(have.get("Raises", []))}
    out += [f"no error {n}" for n, e in said.items() if not (inspect.isclass(e) and issubclass(e, BaseException))]
    known = tuple(e for e in said.values() if inspect.isclass(e))
    return out + [f"{error.__name__} in Raises" for error in _own(value) if known and not issubclass(error, known)]


def _error(name: str) -> Any:
    """weft's error of a name, Python's or LAPACK's."""
    return next((e for room in (wf.errors, builtins, np.linalg) if (e := getattr(room, name, None)) is not None), None)


def _own(value: Any) -> set[type[BaseException]]:
    """The errors that a ``raise`` in the function itself names."""
    found = set()
    for f in _parts(value):
        for n in ast.walk(_code(f)) if f.__module__.startswith("weft.") else ():
            if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call) and isinstance(n.exc.func, ast.Name):
                held = f.__globals__.get(n.exc.func.id) or getattr(builtins, n.exc.func.id, None)
                if inspect.isclass(held) and issubclass(held, BaseException):
                    found.add(held)
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_sections_are_complete(name: str) -> None:
    assert missing(PUBLIC[name], name) == []


def test_methods_say_what_they_do() -> None:
    """Those that a base class calls (``forward``, ``on_epoch``, ...) are described where they are called."""
    called = re.compile(r"_.*|forward|extra_repr|on_\w+|(load_)?state_dict")
    silent = []
    for name, value in {**PUBLIC, "weft.Array": wf.Array, "weft.Scalar": wf.Scalar}.items():
        bases = [b for b in value.__mro__ if b.__module__.startswith("weft")] if inspect.isclass(value) else []
        for method, held in [pair for base in bases for pair in vars(base).items()]:
            kinds = (types.FunctionType, property, classmethod, staticmethod)
            if isinstance(held, kinds) and not called.fullmatch(method) and not inspect.getdoc(getattr(value, method)):
                silent.append(f"{name}.{method}")
    assert silent == []


def _refusing(x: int) -> int:
    if x < 0:
        raise ValueError(f"_refusing: x must not be negative, not {x}")
    return x


def _half(x: int, y: int) -> int:
    """Half.

    Parameters
    ----------
    x, z : int

    Raises
    ------
    Mistake
        Never.
    """
    return _refusing(x) // y


def test_what_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for f in (_half, _refusing):
        monkeypatch.setattr(f, "__module__", "weft.somewhere")
    assert missing(_refusing) == ["Parameters", "Returns", "Raises"]
    assert missing(_half) == ["parameter y", "no parameter z", "Returns", "no error Mistake"]
    monkeypatch.setattr(_refusing, "__doc__", "x.\n\nParameters\n---\nx : int\n\nReturns\n---\nint\n\nRaises\n---\nTypeError\n")
    assert missing(_refusing) == ["ValueError in Raises"]
    assert raises(_half) and raises(wf.nn.Linear) and raises(wf.fliplr) and not raises(wf.isreal)


def test_every_room_is_read() -> None:
    assert {"weft.sum", "weft.nn.Linear", "weft.nn.init.zeros", "weft.optim.schedules.step", "weft.io.load"} <= set(PUBLIC)
    assert len(PUBLIC) > 400
