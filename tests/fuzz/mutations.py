"""Programs that write: views, masks, index arrays, overlapping slices, swaps, ``out=``, scalars; NumPy is the oracle.

Each line is run by NumPy and by weft, one after the other. What NumPy refuses weft must refuse. All that has a name is
compared at the end, or after every line (which also computes it there), or after some; then the whole is one jitted function.
Numbers are quarters and small integers, so that sums are exact in any order.
"""

from __future__ import annotations

import ast
import random
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz.grow import size
from tests.fuzz.levels import Mismatch
from tests.fuzz.mutating import LINES, Scene, for_numpy
from tests.fuzz.program import Program, names
from tests.fuzz.record import RECORD
from weft.errors import TraceError


def grown(r: random.Random) -> Program:
    """Two or three arrays and some lines that NumPy can run; now and then one that it refuses."""
    scene = Scene(r, r.choice(("float32", "float64", "int64", "int32", "float32", "uint8", "bool")))
    for _ in range(r.choice((1, 2, 2))):
        ndim = r.choice((1, 1, 2, 2, 3))
        scene.input(tuple(size(r, {1: 40, 2: 12, 3: 5}[ndim]) for _ in range(ndim)))
    if r.random() < 0.5:
        scene.input(scene.values["x0"].shape)
    for _ in range(r.randint(2, 10)):
        if not scene.step(LINES):
            break
    return Program("mutation", tuple(scene.inputs), tuple(scene.lines), (), {"looks": r.choice(("end", "steps", "some"))})


class Lenient(Exception):
    """One of the two writes what the other refuses: from here on they differ, and rightly so."""


def refuses_truth_of_sequence(error: Exception | None) -> bool:
    """Return whether weft refuses to write a list to a bool, whose truth NumPy takes, as for no other dtype."""
    return isinstance(error, ValueError) and "an element is set with one number" in str(error)


def check(program: Program) -> None:
    """NumPy beside weft, then beside jit."""
    arrays = {i.name: i.array() for i in program.inputs}
    theirs: dict[str, Any] = {"xp": np, "np": np, **{n: a.copy() for n, a in arrays.items()}}
    ours: dict[str, Any] = {"xp": wf, "np": np, **{n: wf.array(a) for n, a in arrays.items()}}
    looks, r = program.options["looks"], random.Random(str(program))
    raised = False
    for k, line in enumerate(program.lines):
        try:
            raised = both(line, theirs, ours, k) or raised
        except Lenient:
            RECORD.count("elements written from arrays of one element, which NumPy refuses since 2.4")
            return
        if looks == "steps" or (looks == "some" and r.random() < 0.4):
            compare(theirs, ours, f"after line {k}: {line}", "NumPy")
    compare(theirs, ours, "at the end", "NumPy")
    held = [n for n, a in theirs.items() if names(n) == [n] and isinstance(a, np.ndarray | np.generic)]
    RECORD.results(program, [np.asarray(theirs[n]) for n in held])
    chosen = any(made in line for line in program.lines for made in ("xp.arange(", "xp.argmax(xp", "xp.array(["))
    if chosen:
        RECORD.count("rows chosen by a number of the trace, which are copies under jit")
    elif not raised and held:
        jitted(program.with_(outputs=tuple(held)), arrays, theirs)


def both(line: str, theirs: dict[str, Any], ours: dict[str, Any], k: int) -> bool:
    """Run a line twice; whether NumPy raised."""
    errors: list[Exception | None] = []
    for space, text in ((theirs, for_numpy(line)), (ours, line)):
        try:
            before = dict(space)
            with np.errstate(all="ignore"):
                exec(text, space)  # noqa: S102
            in_order(space, before)
            errors.append(None)
        except TimeoutError:
            raise
        except Exception as error:
            errors.append(error)
    their, our = errors
    if isinstance(their, ValueError) and our is None and "array element with a sequence" in str(their):
        raise Lenient(line)
    if their is None and refuses_truth_of_sequence(our):
        raise Lenient(line)
    if their is not None and our is None:
        raise Mismatch("not refused", f"line {k}: {line}: NumPy raises {type(their).__name__}: {their}")
    if our is not None and their is None:
        raise our
    kin = isinstance(our, type(their)) or isinstance(their, type(our))
    if our is not None and type(our).__module__ == "builtins" and not kin:
        raise Mismatch("refused otherwise", f"line {k}: {line}: NumPy raises {their!r}, weft {our!r}")
    return their is not None


def in_order(space: dict[str, Any], before: dict[str, Any]) -> None:
    """What a line made lies in C order, as weft's arrays do: NumPy's ``x.T + 1`` lies as ``x.T``, and its reshapes are views."""
    had = [a for a in before.values() if isinstance(a, np.ndarray)]
    for name, a in space.items():
        if isinstance(a, np.ndarray) and a is not before.get(name) and not any(np.may_share_memory(a, b) for b in had):
            space[name] = np.ascontiguousarray(a).reshape(a.shape)


def compare(theirs: dict[str, Any], ours: dict[str, Any], when: str, level: str) -> None:
    """Every array and number that has a name."""
    for name in sorted(theirs):
        if names(name) == [name]:
            same(theirs[name], ours.get(name), f"{name} {when}", level)


def same(their: Any, our: Any, what: str, level: str) -> None:
    if isinstance(their, list | tuple):
        for k, (a, b) in enumerate(zip(their, our, strict=True)):
            same(a, b, f"{what}[{k}]", level)
        return
    a, b = np.asarray(their), np.asarray(our)
    if isinstance(their, np.ndarray | np.generic) and a.dtype != b.dtype:
        raise Mismatch(level, f"{what}: dtype {b.dtype}, NumPy has {a.dtype}")
    if a.shape != b.shape:
        raise Mismatch(level, f"{what}: shape {b.shape}, NumPy has {a.shape}")
    close = np.allclose(a, b, 1e-5 if a.dtype == np.float32 else 1e-12, 0, True) if a.dtype.kind == "f" else np.array_equal(a, b)
    if not close:
        bad = np.argwhere(np.atleast_1d(a != b))
        raise Mismatch(level, f"{what}: {len(bad)} elements differ, first {bad[0].tolist()}\n{b!r}\nNumPy has\n{a!r}")


def rebound(program: Program) -> set[str]:
    """Names that a line gives to something else (``+=`` writes into what has the name)."""
    found: set[str] = set()
    for node in ast.walk(ast.parse("\n".join(program.lines))):
        if isinstance(node, ast.Assign | ast.For):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def jitted(program: Program, arrays: dict[str, np.ndarray], theirs: dict[str, Any]) -> None:
    """All lines as one jitted function: its results, and what it wrote into its arguments."""
    space: dict[str, Any] = {"xp": wf, "np": np}
    exec(program.source(), space)  # noqa: S102
    f = wf.jit(space["f"])
    for call in ("first", "second"):
        given = {n: wf.array(a) for n, a in arrays.items()}
        try:
            out = f(*given.values())
        except TraceError:
            RECORD.count("looks, so not under jit")
            return
        for name, o in zip(program.outputs, out, strict=True):
            same(theirs[name], o, f"{name} of the {call} jitted call", "jitted writes")
        bound = rebound(program)
        for name, a in given.items():
            if name not in bound:  # else the name is another array's by now
                same(theirs[name], a, f"argument {name} after the {call} jitted call", "jitted writes")
