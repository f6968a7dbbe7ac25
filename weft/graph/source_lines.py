"""Origins of nodes: the user's line and, during a profile, the current layer, loss or optimizer."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.errors import is_own_file


class _Origins(threading.local):
    """The origin of new nodes, in this thread.

    source_line: replaces the running line, for nodes that stand for another node (its derivative). layer: while a profile marks
    nodes, the path of the innermost layer that is being called, "" outside of layers; otherwise None.
    """

    source_line: Any = None
    layer: str | None = None


ORIGIN = _Origins()
_NUMPY = os.path.join(os.path.dirname(np.__file__ or ""), "")  # NumPy's frames are skipped: its caller is the user
_OURS: dict[str, bool] = {}  # file name -> whether weft or NumPy owns it; a look-up is cheaper than comparing prefixes
_PARTS: dict[str, str] = {}  # folder of a package -> the role of its functions


@contextmanager
def keep_origin() -> Iterator[Any]:
    """Give the current ``ORIGIN.source_line``, and restore it at the end."""
    before = ORIGIN.source_line
    try:
        yield before
    finally:
        ORIGIN.source_line = before


def part(init: str, is_: str) -> None:
    """Register the role of a package's functions: "function" (called by name), "loss", or "update" (of parameters).

    ``init`` : its ``__file__``
    """
    _PARTS[os.path.dirname(init)] = is_


def _part_of(frame: Any) -> str:
    return _PARTS.get(os.path.dirname(frame.f_code.co_filename), "")


def user_frame() -> Any:
    """Return (code object, instruction offset) of the user's running line: cheap to take, resolved when needed."""
    origin = ORIGIN.source_line
    if origin is not None:
        return origin
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        ours = _OURS.get(name)
        if ours is None:
            ours = _OURS[name] = is_own_file(name) or name.startswith(_NUMPY)
        if not ours:
            break
        frame = frame.f_back
    layer = ORIGIN.layer
    if layer is not None:
        return _mark(frame, layer)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def find_user_function(name: str) -> str:
    """Return the name of weft's function that the user called, or ``name`` if it was not called by name (an operator)."""
    frame: Any = sys._getframe(1)
    outermost, part = "_", ""
    while frame is not None and is_own_file(frame.f_code.co_filename):
        outermost, part = frame.f_code.co_name, _part_of(frame)
        frame = frame.f_back
    return outermost if part in ("function", "loss") and not outermost.startswith("_") else name


def _mark(frame: Any, layer: str) -> Any:
    """Return the user's line, the running layer or loss, and the phase.

    Some optimizers call the model again (SAM). The layer then determines the phase, not the optimizer around it.
    """
    loss, optimizer = "", False
    ours: Any = sys._getframe(2)
    while ours is not None and ours is not frame and not layer:
        part = _part_of(ours)
        optimizer |= part == "update"
        if part == "loss":
            loss = ours.f_code.co_name  # the outermost function of the loss is found last
        ours = ours.f_back
    phase = None if layer else "forward" if loss else "update" if optimizer else None
    layer = layer or loss
    if frame is None:
        return (None, -1, layer, phase)
    return (frame.f_code, frame.f_lasti, layer, phase)


def derived_line(where: Any, phase: str) -> Any:
    """Return the source line of nodes that stand for a node at ``where`` in another phase, such as its derivative."""
    return None if where is None else (where[0], where[1], where[2] if len(where) > 2 else "", phase)


def user_line(where: Any) -> str:
    """Return ``file:line`` of a result of :func:`user_frame`."""
    if where is None or where[0] is None:
        return "<unknown>"
    code, instruction = where[:2]
    positions = list(code.co_positions())
    line = positions[instruction // 2][0] if instruction >= 0 and instruction // 2 < len(positions) else code.co_firstlineno
    return f"{code.co_filename}:{line}"


def file_name(path: str) -> str:
    """Return the file name known to the user: ``train.py``, or ``In[3]`` for a notebook cell, whose file name IPython invents."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cell = shell.compile.format_code_name(path) if shell is not None else None  # ("Cell", "In[3]")
    return cell[1] if cell else path.replace("\\", "/").rsplit("/", 1)[-1] or path
