"""Completion of messages that Python itself words: the advice that weft's own errors have is added to them.

An unknown keyword or attribute, a missing argument, ``x.size(0)``, ``float(x.item)``, ``len(model)``: Python raises the error of
these before any code of weft runs. From Python 3.12 on a callback for raised exceptions completes the message at once
(``tracebacks``), so that ``str(error)``, logs and pytest have all of it. On Python 3.11 it is completed where the error passes:
in a Module's call, in jit, grad and loops, and where Python or IPython displays it. The function or object is found in the source
of the failing line, without running anything of it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Callable
from itertools import islice
from types import ModuleType, TracebackType
from typing import Any

from weft.errors import is_own_file
from weft.process.foreign_names import ARRAY, OPERATIONS
from weft.process.keyword_checks import accepted_keywords, keyword_advice
from weft.process.name_errors import describe_missing, join_names


def complete_message(error: BaseException) -> None:
    """Add what to write in weft to the message of an error of Python's own, if an object or function of weft is at fault."""
    trace, text = error.__traceback__, error.args[0] if error.args else None
    if type(text) is not str or trace is None or "_is_complete" in error.__dict__:
        return
    if isinstance(error, AttributeError):
        _complete_attribute(error)
    elif type(error) in (TypeError, IndexError):
        for pattern, complete in _RULES:
            if (found := re.fullmatch(pattern, text)) is not None:
                error.args = (complete(found, _last(trace)), *error.args[1:])
                break
    if error.args[0] is not text:
        error.__dict__["_is_complete"] = True  # the error passes here again on its way


def _last(trace: TracebackType) -> TracebackType:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _complete_attribute(error: AttributeError) -> None:
    owner = error.obj
    if isinstance(owner, memoryview) and error.name in ARRAY:
        error.args = (f"{error.args[0]}: x.data is Python's view of memory; in weft: {ARRAY[error.name]}",)
    elif owner is not None and not isinstance(owner, type | ModuleType) and _is_of_weft(owner):
        if advice := describe_missing(owner, str(error.name)):
            error.args = (error.args[0] + advice,)
            error.obj = None  # else Python's own suggestion would follow


def _complete_keyword(found: re.Match[str], trace: TracebackType) -> str:
    function = _find_function(trace, found["name"])
    accepted = None if function is None else accepted_keywords(function)
    if accepted is None or found["keyword"] in accepted:
        return found[0]
    return found["text"] + keyword_advice(found["keyword"], accepted)


_ARGUMENT_HINTS = {
    "transpose": "; wf.swapaxes(x, 0, 1) exchanges two axes",
    "save_onnx": "; sample is an input of the model, or its shape as (None, 3, 32, 32)",
}


def _complete_arguments(found: re.Match[str], trace: TracebackType) -> str:
    """Complete a message about too many arguments by position, or too few."""
    function = _find_function(trace, found["name"])
    if function is None:
        return found[0]
    names = join_names([name for name in inspect.signature(function).parameters if name not in ("self", "library")])
    return f"{found[0]}; it takes {names or 'none'}{_ARGUMENT_HINTS.get(found['name'], '')}"


_PROPERTIES = {"size": "x.size is the number of elements, x.shape[0] an extent", "shape": "x.shape, x.shape[0]"}


def _complete_call(found: re.Match[str], trace: TracebackType) -> str:
    """Complete a message about a call of ``x.size`` or another attribute of an object of weft."""
    call = _parse(trace)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return found[0]
    owner, name = _resolve(call.func.value, trace), call.func.attr
    if owner is _UNKNOWN or not _is_of_weft(owner):
        return found[0]
    return f"{found[0]}; in weft: {_PROPERTIES.get(name, f'.{name} is an attribute, without parentheses')}"


def _complete_method(found: re.Match[str], trace: TracebackType) -> str:
    """Complete a message about an operand that is a method, as in ``float(x.item)``."""
    expression = _parse(trace)
    called = {id(node.func) for node in ast.walk(expression) if isinstance(node, ast.Call)} if expression is not None else set()
    for node in ast.walk(expression) if expression is not None else ():
        if isinstance(node, ast.Attribute) and id(node) not in called:
            owner = _resolve(node.value, trace)
            if owner is not _UNKNOWN and _is_of_weft(owner) and callable(inspect.getattr_static(owner, node.attr, None)):
                return f"{found[0]}; {ast.unparse(node)} is a method: write {ast.unparse(node)}()"
    return found[0]


def _complete_operation(found: re.Match[str], trace: TracebackType) -> str:
    """Complete a message about an index, a length or an iteration of an object that has none."""
    kind, node = found["kind"] or "len()", _parse(trace)
    if isinstance(node, ast.Subscript):
        node = node.value
    elif isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    owner = _UNKNOWN if node is None else _resolve(node, trace)
    if owner is not _UNKNOWN and not _is_of_weft(owner):
        return found[0]
    names = [found["owner"]] if owner is _UNKNOWN else [c.__name__ for c in type(owner).__mro__]
    advice = next((OPERATIONS[name][kind] for name in names if kind in OPERATIONS.get(name, ())), "")
    return found[0] + (f"; in weft: {advice}" if advice else "")


def _complete_index(found: re.Match[str], trace: TracebackType) -> str:
    """Complete a message about an index of ``x.shape``."""
    node = _parse(trace)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        owner = _resolve(node.value.value, trace)
        if owner is not _UNKNOWN and _is_of_weft(owner):
            return f"{found[0]}: {ast.unparse(node.value)} is {owner.shape}"
    return found[0]


_NAME = r"(?P<name>[\w.<>]+)\(\)"
_RULES: tuple[tuple[str, Callable[[re.Match[str], TracebackType], str]], ...] = (
    (rf"(?P<text>{_NAME} got an unexpected keyword argument '(?P<keyword>\w+)')(?:\. Did you mean '\w+'\?)?", _complete_keyword),
    (rf"{_NAME} takes .*positional arguments? but \d+ (?:was|were) given", _complete_arguments),
    (rf"{_NAME} missing \d+ required [\w-]+ arguments?: .*", _complete_arguments),
    (r"'[\w.]+' object is not callable", _complete_call),
    (r".*'(?:method|builtin_function_or_method|function)'.*", _complete_method),
    (r"'(?P<owner>\w+)' object is not (?:an )?(?P<kind>subscriptable|iterable|iterator)", _complete_operation),
    (r"object of type '(?P<owner>\w+)' has no (?P<kind>len\(\))", _complete_operation),
    (r"tuple index out of range", _complete_index),
)


def _find_function(trace: TracebackType, qualified_name: str) -> Any:
    """Return weft's function of this qualified name that is called at the end of a traceback, or None."""
    frame, name = trace.tb_frame, qualified_name.removesuffix(".__init__").rpartition(".")[2]
    spaces = (frame.f_locals, frame.f_globals)
    candidates = [_resolve_call(trace)]
    if candidates == [_UNKNOWN] and not any(_is_function(space.get(name)) and not _is_own(space[name]) for space in spaces):
        weft = sys.modules["weft"]
        owners = [weft, weft.ndarray, *(vars(weft)[name] for name in _ROOMS if name in vars(weft))]
        owners += [weft.nn.Module, weft.optim.Optimizer] if "nn" in vars(weft) else []
        found = [getattr(owner, name, None) for owner in owners]
        candidates = [f for f in found if getattr(f, "__qualname__", "") == qualified_name]
    for function in candidates:
        is_weft = function not in (None, _UNKNOWN) and (_is_own(function) or frame.f_code in CALLERS)
        if is_weft and getattr(function, "__name__", name) == name:
            return function
    return None


_ROOMS = ("nn", "losses", "optim", "random", "linalg", "fft", "train", "data", "io", "tree")
CALLERS: set[Any] = set()  # code of weft that passes the user's arguments to a function of the user


_UNKNOWN: Any = object()  # a function that is not called by a dotted name, or whose source is not known


def _is_function(value: Any) -> bool:
    return hasattr(value, "__code__")


def _is_own(function: Any) -> bool:
    """Return whether a function or class is weft's."""
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if isinstance(function, type):
        return function.__module__.partition(".")[0] == "weft"
    return _is_function(function) and is_own_file(function.__code__.co_filename)


def _is_of_weft(value: Any) -> bool:
    """Return whether an object's class is weft's or derived from one."""
    return any(base.__module__.partition(".")[0] == "weft" for base in type(value).__mro__)


def _resolve_call(trace: TracebackType) -> Any:
    """Return the function called in the last line of a traceback, ``_UNKNOWN`` if it is no dotted name. Nothing is run for it."""
    call = _parse(trace)
    return _resolve(call.func, trace) if isinstance(call, ast.Call) else _UNKNOWN


def _parse(trace: TracebackType) -> ast.expr | None:
    """Return the expression that the last line of a traceback was running; None if its source is not known."""
    frame = trace.tb_frame
    line, end, start, stop = next(islice(frame.f_code.co_positions(), trace.tb_lasti // 2, None), (None,) * 4)
    if line is None or end is None or start is None or stop is None:
        return None
    lines = [text.encode() for text in linecache.getlines(frame.f_code.co_filename, frame.f_globals)[line - 1 : end]]
    if len(lines) != end - line + 1:
        return None
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None


def _resolve(node: ast.expr, trace: TracebackType) -> Any:
    """Return the value of a dotted name in a frame, ``_UNKNOWN`` if it is none. Nothing is run for it."""
    if isinstance(node, ast.Name):
        return trace.tb_frame.f_locals.get(node.id, trace.tb_frame.f_globals.get(node.id, _UNKNOWN))
    base = _resolve(node.value, trace) if isinstance(node, ast.Attribute) else _UNKNOWN
    if base is _UNKNOWN or not isinstance(node, ast.Attribute):
        return _UNKNOWN
    return getattr(base, node.attr, None) if isinstance(base, ModuleType) else inspect.getattr_static(base, node.attr, None)
