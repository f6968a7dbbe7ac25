"""Calls that are measured: what they can reach, what is refused, how often they run, and how long they take."""

from __future__ import annotations

import contextlib
import functools
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.eager.materialise import evaluate
from weft.tools.profile_session import Run, Session
from weft.transforms.jit import Jitted
from weft.transforms.reach import contents_of, names_in

SETTLE = 2  # calls before each round that are not counted: arrays change owners, caches fill
MOST_OBJECTS = 100_000


def check_call(tool: str, f: Any, repeat: Any) -> None:
    """Refuse what ``profile`` and ``bench`` (``tool``) cannot call, or not so often."""
    if not callable(f):
        raise TypeError(f"{tool}: {f!r} is not a function: give the function and its arguments, wf.{tool}(f, x)")
    if repeat is not None and (isinstance(repeat, bool) or not isinstance(repeat, int | np.integer)):
        raise TypeError(f"{tool}: repeat must be an integer, not {repeat!r}")
    if repeat is not None and repeat < 1:
        raise ValueError(f"{tool}: repeat must be at least 1, not {repeat}")


@contextlib.contextmanager
def contents_kept(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Iterator[list[Array]]:
    """Call ``f`` once and yield the Arrays that its calls reach; afterwards these have the contents from before.

    A first call that makes state (an optimizer's, say) counts: that state stays as this call left it.
    """
    arrays = reached(f, args, kwargs)
    evaluate(arrays)
    kept = [(array, array._node) for array in arrays]
    try:
        called(f, args, kwargs, arrays)
        made = reached(f, args, kwargs)
        if not {id(a) for a in made} <= {id(a) for a in arrays}:
            arrays = made
            evaluate(arrays)
            kept = [(array, array._node) for array in arrays]
        yield arrays
    finally:
        for array, node in kept:
            array._node = node


def name_of(f: Any) -> str:
    """Return the name of a function, or of its class."""
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__)


def in_notebook() -> bool:
    """Whether a result is shown by itself."""
    from rich.console import Console

    return Console().is_jupyter


def called(f: Callable, args: tuple, kwargs: dict[str, Any], reached: Sequence[Array]) -> int:
    """Call, compute what comes out and what was written; nanoseconds."""
    begin = time.perf_counter_ns()
    out = f(*args, **kwargs)
    pending = [a for a in reached if a._node.value is None]
    if pending or not isinstance(out, Array) or out.node.value is None:
        evaluate(out, pending)
    return time.perf_counter_ns() - begin


def measured(
    session: Session, call: Callable[[], int], repeat: int | None, budget: float,
) -> tuple[list[int], list[int], list[list[Run]]]:
    """Nanoseconds of whole calls; of calls in the session; and the runs of each of these. ``budget``: seconds for all of it."""
    once = min(call(), call()) * 1e-9
    count = repeat if repeat is not None else int(min(200, max(3, budget / 2 / max(once, 1e-7))))
    rounds = min(count, 4)
    wholes: list[int] = []
    timed: list[int] = []
    runs: list[list[Run]] = []
    for r in range(rounds):  # plain and timed calls in turns, so that a busy moment meets both
        share = count * (r + 1) // rounds - count * r // rounds
        for _ in range(SETTLE if once < 0.5 else 1):
            call()
        wholes += [call() for _ in range(share)]
        with session:
            for _ in range(SETTLE if r else SETTLE + 1):
                call()
            session.recording = True
            for _ in range(share):
                session.runs = []
                timed.append(call())
                runs.append(session.runs)
            session.recording = False
    return wholes, timed, runs


def reached(*roots: Any) -> list[Array]:
    """Every Array with a content of its own that the roots lead to, and the random state."""
    from weft.functions.random import state

    found: dict[int, Array] = {}
    seen: dict[int, Any] = {}
    stack: list[Any] = [*roots, state._STATE.key, state._STATE.base]
    while stack and len(seen) < MOST_OBJECTS:
        item = stack.pop()
        if item is None or isinstance(item, int | float | str | bytes | type | types.ModuleType | np.ndarray) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Array):
            found[id(item.cell)] = item.cell
        elif isinstance(item, types.FunctionType):
            stack += [*contents_of(item), *(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
            if not (item.__module__ or "").startswith("weft."):
                stack += [item.__globals__[n] for n in names_in(item.__code__).variables if n in item.__globals__]
        elif isinstance(item, types.MethodType):
            stack += [item.__func__, item.__self__]
        elif isinstance(item, functools.partial):
            stack += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, Jitted):
            stack.append(item.f)
        elif isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif hasattr(item, "__dict__"):
            stack += vars(item).values()
    return list(found.values())
