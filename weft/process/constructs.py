"""Which Python construct needs the value of an array that is being traced, and what to write instead.

Asked only when an error is raised: the user's source is parsed, and the construct at the running instruction is found by its
position.
"""

from __future__ import annotations

import ast
import linecache
from dis import opname
from itertools import islice
from types import CodeType

_GENERAL = (
    "numpy(), float(), bool(), formats (f\"{x:.2f}\"), Python's math, min, max, if and while need it. Use wf.where for choices, "
    "wf.exp and wf.minimum for numbers, or return the array and look at it outside"
)
_OUTSIDE = "return the array and look at it outside"
_MASK = "a mask as an index needs it, for the length of the result: use wf.where(mask, x, 0), whose shape is known"
_BRANCH = "use wf.where(condition, x, y), or wf.cond(condition, f, g, *arguments), which runs one of two functions"
_STATEMENTS: dict[type[ast.AST], str] = {
    ast.While: "`while` needs it. Use wf.while_loop(condition, body, state)", ast.If: f"`if` needs it: {_BRANCH}",
    ast.IfExp: f"`if` needs it: {_BRANCH}", ast.comprehension: "`if` needs it: select with a mask, wf.where(condition, x, y)",
    ast.Assert: "`assert` needs it: check the result outside",
    ast.BoolOp: "`and` and `or` need it: write & and |, or wf.logical_and and wf.logical_or",
    ast.JoinedStr: f"a format needs it: {_OUTSIDE}",
}
_CALLS = {
    "range": "`range` needs it. Use wf.fori_loop(start, stop, body, state), or give the function a Python int",
    **dict.fromkeys(("min", "max"), "`min` and `max` need it: use wf.minimum, wf.maximum, or x.min(), x.max()"),
    "sorted": "`sorted` needs it: use wf.sort", **dict.fromkeys(("any", "all"), "`any` and `all` need it: use wf.any, wf.all"),
    **dict.fromkeys(("float", "int", "bool", "complex", "item", "tolist", "numpy", "to_numpy"), ""),
    **dict.fromkeys(("print", "str", "repr", "format"), f"text needs it: {_OUTSIDE}"),
}
_OPERATORS = (ast.BoolOp, ast.JoinedStr)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LIBRARIES = ("math", "np", "numpy", "scipy", "torch", "jnp", "cmath")


def advise(code: CodeType | None, offset: int) -> str:
    """Return what needs the value at an instruction of the user's code, and what to write instead."""
    place = None if code is None else next(islice(code.co_positions(), max(offset, 0) // 2, None), None)
    if code is None or place is None or None in place:
        return _GENERAL
    line, last, start, stop = place
    here = (line, start), (last, stop)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return _GENERAL
    found = _GENERAL
    operators = ""
    is_truth = opname[code.co_code[max(offset, 0)]] == "TO_BOOL"  # from Python 3.13 on; it has the tested expression's position
    for node in ast.walk(tree):  # outer nodes first: the innermost that holds the instruction stays
        if _span(node) == here and isinstance(node, ast.Call):
            return _advise_call(node)
        if _span(node) == here and isinstance(node, ast.Subscript) and not is_truth:
            return _MASK
        for part in _parts(node):
            first, end = _span(part)
            if part is node and not isinstance(node, _OPERATORS) and (first, end) != here:
                continue  # a jump may have the position of its statement, but other instructions are inside of that, too
            if first <= here[0] and here[1] <= end:
                if isinstance(node, _OPERATORS):
                    operators = _STATEMENTS[type(node)]
                else:
                    found = _STATEMENTS[ast.comprehension if isinstance(node, _COMPREHENSIONS) else type(node)]
    return operators if found is _GENERAL and operators else found


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the nodes in which a truth value is asked for the sake of ``node``."""
    if isinstance(node, ast.While | ast.If | ast.IfExp | ast.Assert):
        return [node, node.test]
    if isinstance(node, ast.comprehension):
        return [*node.ifs]
    filters = isinstance(node, _COMPREHENSIONS) and any(part.ifs for part in node.generators)
    return [node] if filters or isinstance(node, _OPERATORS) else []


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    first = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return first, (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))


def _advise_call(call: ast.Call) -> str:
    function = call.func
    name = function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id in _LIBRARIES:
        library = function.value.id
        return f"{library}.{name} needs it: use wf.{name} if weft has it, or call {library}.{name} outside"
    if name in _CALLS:
        return _CALLS[name] or f"{name}() needs it: compute with the array itself (x.astype(dtype) casts), or {_OUTSIDE}"
    return _GENERAL
