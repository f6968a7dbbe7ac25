"""Functions that write, called with arrays that share memory: lazily, and jitted again and again; NumPy is the oracle.

A program is a function of ``a0``, ``a1``, ..., called several times: each call says what the arguments are (an array, a view
of it, the same one twice), and every call of the jitted function meets what the calls before it left. What a call returns is
written into afterwards, which must show where NumPy shows it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz.levels import Mismatch
from tests.fuzz.mutating import (
    LINES,
    Scene,
    assigned,
    augmented,
    computed,
    for_numpy,
    numbers,
    outed,
    overlapping,
    scattered,
    swapped,
    view,
)
from tests.fuzz.mutations import refuses_truth_of_sequence, same
from tests.fuzz.program import Program, names
from tests.fuzz.record import RECORD
from weft.errors import TraceError

BODY = [
    (3.0, view), (3.0, computed), (3.0, assigned), (1.5, overlapping), (3.0, augmented), (1.5, scattered), (0.5, swapped),
    (0.7, numbers),
    (1.0, outed),
]
assert BODY and LINES


def _views(r: random.Random, name: str, shape: tuple[int, ...]) -> list[str]:
    """Views of an array that have its own shape, or nearly."""
    out = [name, name, f"{name}[::-1]", f"{name}[...]", f"{name}[:]"]
    if len(shape) == 2 and shape[0] == shape[1]:
        out.append(f"{name}.T")
    return out


def grown(r: random.Random) -> Program:
    """A function of two or three arrays of one shape, and calls of it."""
    n = r.choice((1, 2, 3, 5, 8, 9, 17))
    shape = r.choice(((n,), (n,), (n, n), (2, n), (n, 3)))
    dtype = r.choice(("float32", "float64", "int64", "float32", "int32"))
    scene = Scene(r, dtype, traced=True)
    bases = [scene.input(tuple(2 * m for m in shape) if r.random() < 0.5 else shape) for _ in range(r.choice((1, 2)))]
    inputs, arrays = list(scene.inputs), dict(scene.values)
    count = r.choice((2, 2, 3))

    def argument() -> str:
        base = r.choice(bases)
        big = arrays[base].shape != shape
        if not big:
            return r.choice(_views(r, base, shape))
        first = r.choice((f"{base}[{', '.join(f':{m}' for m in shape)}]", f"{base}[{', '.join('::2' for _ in shape)}]",
                          f"{base}[{', '.join('1::2' for _ in shape)}]", f"{base}[{', '.join(f'{m}:' for m in shape)}]"))
        return first

    calls = [[argument() for _ in range(count)] for _ in range(r.randint(1, 4))]
    if r.random() < 0.5:
        calls.append(list(calls[0]))
    body = Scene(r, dtype, traced=True)
    body.values = {f"a{k}": arrays_of(calls[0], arrays)[k] for k in range(count)}
    for _ in range(r.randint(1, 5)):
        if not body.step(BODY):
            break
    made = [n for n, a in body.values.items() if isinstance(a, np.ndarray)]
    returned = r.sample(made, min(len(made), r.choice((1, 2, 3))))
    after = [
        r.choice(("r{k} += 1", "r{k}[0] = 3", "r{k}[...] = r{k}[::-1] * 2")).format(k=r.randrange(len(returned)))
        for _ in range(r.choice((0, 0, 1)))
    ]
    return Program(
        "alias", tuple(inputs), tuple(body.lines), tuple(returned),
        {"calls": repr(calls), "after": "; ".join(after), "arguments": count}
    )


def arrays_of(call: list[str], arrays: dict[str, Any]) -> list[Any]:
    return [eval(text, {}, arrays) for text in call]


def check(program: Program) -> None:
    """Every call lazily and jitted, against NumPy."""
    arguments = ", ".join(f"a{k}" for k in range(program.options["arguments"]))
    returned = "".join(f"{o}, " for o in program.outputs)
    theirs, ours = (
        f"def f({arguments}):\n" + "".join(f"    {line}\n" for line in lines) + f"    return ({returned})\n"
        for lines in (map(for_numpy, program.lines), program.lines)
    )
    their = {"xp": np, "np": np}
    our = {"xp": wf, "np": np}
    exec(theirs, their)  # noqa: S102
    exec(ours, our)  # noqa: S102
    calls: list[list[str]] = eval(program.options["calls"])
    fresh = {i.name: i.array() for i in program.inputs}
    runs = {
        "NumPy": (their["f"], {n: a.copy() for n, a in fresh.items()}),
        "lazily": (our["f"], {n: wf.array(a) for n, a in fresh.items()}),
        "jitted": (wf.jit(our["f"]), {n: wf.array(a) for n, a in fresh.items()}),
    }
    for k, call in enumerate(calls):
        results: dict[str, Any] = {}
        for name, (f, arrays) in runs.items():
            try:
                with np.errstate(all="ignore"):
                    out = f(*arrays_of(call, arrays))
                    space = {f"r{j}": o for j, o in enumerate(out)}
                    exec(program.options["after"], {}, space)  # noqa: S102
            except TraceError:
                RECORD.count("aliases that jit refuses")
                return
            except Exception as error:
                if name == "NumPy":
                    RECORD.count("calls that NumPy refuses")
                    return
                if refuses_truth_of_sequence(error):
                    RECORD.count("sequences written to a bool, whose truth NumPy takes")
                    return
                raise
            results[name] = [*space.values(), *arrays.values()]
        labels = [*(f"result {j}" for j in range(len(program.outputs))), *(f"array {n}" for n in fresh)]
        for name in ("lazily", "jitted"):
            for label, a, b in zip(labels, results["NumPy"], results[name], strict=False):
                same(a, b, f"{label} after call {k} f({', '.join(call)}) {name}", f"aliases {name}")
    RECORD.results(program, [np.asarray(a) for a in results["NumPy"]])


__all__ = ["Mismatch", "check", "grown", "names"]
