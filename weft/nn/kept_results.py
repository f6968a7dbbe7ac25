"""Arrays that a forward keeps in an attribute, as in ``self.last = x``: they are results of a call, not parameters.

An array that is assigned in ``__init__`` is a parameter or buffer. One that the user's forward assigns to a new attribute belongs
to the call, unless the assignment stands under an ``if`` that asks for the attribute: such a forward makes a parameter in its
first call.
"""

from __future__ import annotations

import ast
import linecache
import sys
import weakref
from types import CodeType, FrameType
from typing import Any

from weft.array import Array
from weft.errors import is_own_file
from weft.functions.creation.fill import zeros
from weft.runtime.cell import inside_trace, traces

MODULE_CALLS: set[CodeType] = set()  # code of weft that runs the forward of a module
_KEPT: weakref.WeakKeyDictionary[Any, dict[Any, Array]] = weakref.WeakKeyDictionary()  # see ``keep_result``


def is_result(name: str) -> bool:
    """Return whether the user's line that assigns to an attribute of a module runs in a forward, and keeps a result there."""
    frame: FrameType | None = sys._getframe(2)
    if frame is None or is_own_file(frame.f_code.co_filename):
        return False
    assigning = frame
    while frame is not None and frame.f_code not in MODULE_CALLS:
        if frame.f_code.co_name == "__init__":  # of a module that is made in a forward
            return False
        frame = frame.f_back
    return frame is not None and not _makes_parameter(assigning, name)


def keep_result(module: Any, name: str, value: Any) -> None:
    """Set an attribute to a result of a call.

    A user's jitted function sets the attribute in each call. Jitted functions of weft, such as the step of ``fit``, do not: there
    the result is written into an array that outlives the trace, one for each shape.
    """
    if not all(trace.sets_attributes for trace in traces()):
        value = _write(_KEPT.setdefault(module, {}), (name,), value)
    object.__setattr__(module, name, value)


def name_kept(module: Any) -> dict[int, str]:
    """Return the attributes whose arrays outlive traces, by the ids of the arrays' cells."""
    return {id(a.cell): path[0] for (path, _, _), a in _KEPT.get(module, {}).items()}


def _write(kept: dict[Any, Array], path: tuple[Any, ...], value: Any) -> Any:
    """Write the arrays in a value into those that are kept for their path and shape, and return the value with these."""
    if type(value) in (list, tuple):
        return type(value)(_write(kept, (*path, k), item) for k, item in enumerate(value))
    if type(value) is dict:
        return {k: _write(kept, (*path, k), item) for k, item in value.items()}
    if not isinstance(value, Array):
        return value
    key = path, value.shape, value.dtype
    if key not in kept:
        with inside_trace(None):
            kept[key] = zeros(value.shape, value.dtype)
    kept[key][...] = value
    return kept[key]


def _makes_parameter(frame: FrameType, name: str) -> bool:
    """Return whether the line that runs stands under an ``if`` whose test has the attribute's name."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    except (SyntaxError, ValueError):
        return False
    return any(
        isinstance(node, ast.If) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0) and _names(node.test, name)
        for node in ast.walk(tree)
    )


def _names(test: ast.expr, name: str) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Constant) and node.value == name)
        for node in ast.walk(test)
    )
