"""Who asked for a node: the user's line, and while a profile marks nodes the layer, the loss or the optimizer at work."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np

from weft.errors import is_own


class _Origins(threading.local):
    """Where new nodes come from, in this thread.

    where: what new nodes get in place of the line that is running, because they stand for another node (its derivative).
    layer: while a profile marks nodes, the path of the innermost layer that is being called, "" outside of layers; else None.
    """

    where: Any = None
    layer: str | None = None


ORIGIN = _Origins()
_NUMPY = os.path.join(os.path.dirname(np.__file__ or ""), "")  # what it asks of weft, its caller has asked
_OURS: dict[str, bool] = {}  # file name -> is it weft's own or NumPy's; a look-up is cheaper than comparing the path's start
_PARTS: dict[str, str] = {}  # folder of a package -> what its functions are to a user


def part(init: str, is_: str) -> None:
    """A package says what its functions are to a user: "function" (called by name), "loss", or "update" (of parameters).

    ``init`` : its ``__file__``
    """
    _PARTS[os.path.dirname(init)] = is_


def _part(frame: Any) -> str:
    return _PARTS.get(os.path.dirname(frame.f_code.co_filename), "")


def user_frame() -> Any:
    """Where the user's own code stands: (code object, instruction offset), cheap to take, resolved when needed."""
    origin = ORIGIN.where
    if origin is not None:
        return origin
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        ours = _OURS.get(name)
        if ours is None:
            ours = _OURS[name] = is_own(name) or name.startswith(_NUMPY)
        if not ours:
            break
        frame = frame.f_back
    layer = ORIGIN.layer
    if layer is not None:
        return _marked(frame, layer)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def user_function(name: str) -> str:
    """The name of weft's function that the user called; ``name`` where that is an operator or some other way in."""
    frame: Any = sys._getframe(1)
    outermost, part = "_", ""
    while frame is not None and is_own(frame.f_code.co_filename):
        outermost, part = frame.f_code.co_name, _part(frame)
        frame = frame.f_back
    return outermost if part in ("function", "loss") and not outermost.startswith("_") else name


def _marked(frame: Any, layer: str) -> Any:
    """The user's line, the layer (or the loss) that runs, and whether an optimizer is at work.

    Some optimizers call the model again (SAM): there the layer counts, not the optimizer around it.
    """
    loss, optimizer = "", False
    ours: Any = sys._getframe(2)
    while ours is not None and ours is not frame and not layer:
        part = _part(ours)
        optimizer |= part == "update"
        if part == "loss":
            loss = ours.f_code.co_name  # the outermost function of the loss is found last
        ours = ours.f_back
    phase = None if layer else "forward" if loss else "update" if optimizer else None
    layer = layer or loss
    if frame is None:
        return (None, -1, layer, phase)
    return (frame.f_code, frame.f_lasti, layer, phase)


def derived(where: Any, phase: str) -> Any:
    """The ``where`` of nodes that stand for a node at ``where`` in another phase, as its derivative does."""
    if where is None:
        return None
    return (where[0], where[1], where[2] if len(where) > 2 else "", phase)


def user_line(where: Any) -> str:
    """``file:line`` of what :func:`user_frame` took."""
    if where is None or where[0] is None:
        return "<unknown>"
    code, instruction = where[:2]
    positions = list(code.co_positions())
    line = positions[instruction // 2][0] if instruction >= 0 and instruction // 2 < len(positions) else code.co_firstlineno
    return f"{code.co_filename}:{line}"


def file_name(path: str) -> str:
    """A file's name as its user knows it: ``train.py``, or ``In[3]`` for a notebook's cell, whose file IPython makes up."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cell = shell.compile.format_code_name(path) if shell is not None else None  # ("Cell", "In[3]")
    return cell[1] if cell else path.replace("\\", "/").rsplit("/", 1)[-1] or path
