"""One program for every public function with array semantics, so that a fixed set of seeds leaves none out."""

from __future__ import annotations

import inspect
import random
import re
from typing import Any

import weft as wf
from tests.fuzz.elementwise import PLAIN, REDUCE
from tests.fuzz.expressions import MIXTURES, shape
from tests.fuzz.grow import Growth, Table
from tests.fuzz.layers import LOOPS, MODULES, NETS
from tests.fuzz.moving import INDEX, SHAPES, unknown
from tests.fuzz.program import Program

ROOMS = ("nn", "losses", "linalg", "random")
NO_ARRAYS = {  # public names that programs need not call, and why
    **dict.fromkeys(("can_cast", "finfo", "iinfo", "isdtype", "result_type"), "about dtypes, not arrays"),
    "broadcast_shapes": "about shapes, not arrays",
    **dict.fromkeys(("allclose", "array_equal"), "give a Python bool: a look; they are isclose or equal, and all"),
    **dict.fromkeys(("grad", "value_and_grad", "vjp"), "the family of derivatives is made of them"),
    **dict.fromkeys(("jit", "eval", "counters", "get_num_threads", "set_num_threads"), "every program is run by them"),
    **dict.fromkeys(("explain", "profile"), "they print, and compute nothing of their own"),
    **dict.fromkeys(("tree_leaves", "tree_map"), "about trees; jit and grad flatten by the same functions"),
    "from_dlpack": "imports memory that is not weft's",
    "flush_denormals": "a context: other bits by design",
    **dict.fromkeys(("device", "set_device"), "say where programs run; tests/cuda runs them elsewhere"),
    **dict.fromkeys(
        ("random.seed", "random.get_state", "random.set_state"), "the hidden state; modules and draws without a key use it",
    ),
    "random.shuffle": "writes; the same order as permutation",
    "losses.check_labels": "raises or not; computes nothing",
    **dict.fromkeys(
        ("nn.init", "nn.Module", "nn.Sequential", "nn.Residual", "nn.Lambda"),
        "hold other layers, and compute nothing of their own",
    ),
}


def public() -> list[str]:
    """Public functions and layers with array semantics, as programs name them: ``sum``, ``nn.relu``, ``random.uniform``."""
    homes = ("weft.functions.", "weft.transforms.", "weft.look", "weft.tools", "weft.devices")
    found = [n for n in wf.__all__ if wf._HOME.get(n, "").startswith(homes)]
    for room in ROOMS:
        found += [f"{room}.{n}" for n in getattr(wf, room).__all__ if not (room == "linalg" and n in found)]
    return [n for n in found if n not in NO_ARRAYS]


TABLES: list[Table] = [PLAIN, REDUCE, SHAPES, INDEX, NETS, LOOPS, MODULES, [(1.0, unknown)]]


def called(program: Program) -> set[str]:
    """The public functions that a program names."""
    return set(re.findall(r"wf\.([\w.]+)\(", " ".join(program.lines)))


def makers(name: str) -> list[Any]:
    """The makers of lines whose text, or a table they use, names a function; all where none does."""
    short = name.split(".")[-1]
    forms = {
        f"{short}(", f"'{short}'", f'"{short}"', re.sub(r"\dd$", "{d}d", short) + "(",
        "_pool{d}d(" if "_pool" in short else f"{short}(",
    }
    found = []
    for maker in (m for table in TABLES for _, m in table):
        tables = [v for n in maker.__code__.co_names if isinstance(v := maker.__globals__.get(n), tuple | dict)]
        if any(short in t for t in tables) or any(f in inspect.getsource(maker) for f in forms):
            found.append(maker)
    return found or [m for table in TABLES for _, m in table]


def grown(name: str, seed: int) -> Program:
    """A program with a call of ``name`` in the middle of others.

    Raises
    ------
    LookupError
        if no line names it.
    """
    for turn in range(20):
        r = random.Random(f"{name} {seed} {turn}")
        g = Growth(r, r.choice(("float32", "float32", "float64", "float16", "bfloat16")))
        g.input(shape(r))
        g.step(MIXTURES[0][1])
        made = g.wish(name, makers(name))
        if made is None:
            continue
        g.step(MIXTURES[0][1])
        program = g.program("expression")
        program = program.with_(
            outputs=tuple(dict.fromkeys([*program.outputs, made])), inputs=tuple(g.inputs), lines=tuple(g.lines),
        )
        return program
    raise LookupError(f"no line of the fuzzer names wf.{name}: give it one, or a reason in NO_ARRAYS")
