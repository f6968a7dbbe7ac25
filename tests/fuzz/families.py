"""The families of programs: how each grows and how it is checked."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import weft as wf
from tests.fuzz import aliases, derivatives, expressions, large, mutations, paths, state, tour
from tests.fuzz.grow import Broken
from tests.fuzz.levels import AT_ONCE, COMPILED, UNSEEN, Mismatch, tier
from tests.fuzz.program import Program


@dataclass(frozen=True)
class Family:
    """``weight``: how many of a hundred programs are of this family."""

    weight: float
    grow: Callable[[random.Random], Program]
    check: Callable[[Program], None]


FAMILIES: dict[str, Family] = {
    "expression": Family(50, expressions.grown, expressions.check),
    "derivative": Family(20, derivatives.grown, derivatives.check),
    "mutation": Family(20, mutations.grown, mutations.check),
    "alias": Family(8, aliases.grown, aliases.check),
    "state": Family(8, state.grown, state.check),
    "large": Family(4, large.grown, large.check),
    "path": Family(4, paths.grown, paths.check),
}


def family_of(seed: int) -> str:
    """Which family a seed's program is of."""
    return random.Random(seed).choices(list(FAMILIES), [f.weight for f in FAMILIES.values()])[0]


def grown(seed: int, family: str | None = None, public: str | None = None) -> Program:
    """The program of a seed; ``public``: one that calls this public function."""
    name = family or ("expression" if public else family_of(seed))
    try:
        program = tour.grown(public, seed) if public else FAMILIES[name].grow(random.Random(f"{name} {seed}"))
    except Broken as broken:
        program = broken.program
    return program.with_(family=name, seed=seed)


def problem(program: Program) -> tuple[str, str] | None:
    """(level, message) of what is wrong with a program; None if nothing is."""
    threads = wf.get_num_threads()
    try:
        with tier(*COMPILED):  # graphs are what most levels are about
            FAMILIES[program.family].check(program)
        if program.family in ("mutation", "alias"):
            for other in (UNSEEN, AT_ONCE):
                with tier(*other):
                    FAMILIES[program.family].check(program)
    except Mismatch as found:
        return found.level, str(found)
    except TimeoutError as found:
        return "hang", str(found)
    except Exception as error:  # whatever a program raises that weft did not refuse while it was written
        return f"raised {type(error).__name__}", _trace(error)
    finally:
        wf.set_num_threads(threads)
    return None


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error, limit=-6))
