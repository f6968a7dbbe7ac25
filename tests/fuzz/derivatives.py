"""Derivatives: gradients in both modes, pullbacks and Hessian-vector products against central differences, and at every level.

The function is the lines; ``weigh`` makes a number of its result. In float64 its derivative along a random direction is
compared with differences of the graph interpreter's values; near a kink (where two step lengths or two directions
disagree) the differences say nothing, and only what fails every time counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import elementwise, layers, levels, moving
from tests.fuzz.expressions import graph_of, jitted, shape
from tests.fuzz.grow import Growth, Table, pruned
from tests.fuzz.levels import Mismatch, want
from tests.fuzz.program import Program, names, ruled
from tests.fuzz.record import RECORD
from weft.errors import TraceError
from weft.graph.interpret import walk
from weft.runtime.context import CONTEXT

STEPS: Table = [
    (5.0, elementwise.smooth), (4.0, elementwise.smooth_two), (4.0, elementwise.operator), (1.5, elementwise.number),
    (1.5, elementwise.choose), (3.0, elementwise.reduction), (3.0, elementwise.centred), (0.8, elementwise.running),
    (2.0, moving.sliced), (2.0, moving.reshaped), (2.0, moving.turned), (1.5, moving.flipped), (3.0, moving.joined),
    (1.0, moving.parted),
    (2.0, moving.padded), (0.5, moving.triangle), (2.0, moving.written), (1.0, moving.gathered), (0.6, moving.along),
    (1.0, moving.scattered), (0.8, moving.fancy), (3.0, layers.product), (0.8, layers.batched), (1.5, layers.contraction),
    (3.0, layers.convolution), (3.0, layers.pooling), (3.0, layers.normalised), (2.0, layers.smooth_activation),
    (1.0, layers.layer), (0.8, layers.loss), (1.0, layers.loop), (0.7, layers.mapped), (0.4, layers.slope),
    (0.3, layers.state), (0.3, layers.table), (1.5, layers.with_rule),
]
MODES = (("grad", 5), ("value_and_grad", 1), ("vjp", 2), ("second", 4), ("forward", 3), ("over", 4))
MOST_COLUMNS = 100  # elements of the arguments up to which a gradient is computed in forward mode


def _is_float64(a: Any) -> bool:
    return a.dtype == wf.float64


def grown(r: random.Random) -> Program:
    """A function of one or two float64 arrays, and how it is differentiated."""
    exact = r.random() < 0.85
    g = Growth(r, "float64" if exact else r.choice(("float32", "float32", "float16")), most=1024)
    for _ in range(r.choice((1, 1, 2))):
        g.input(small(r))
    first = tuple(g.values)
    for k in range(r.randint(1, 6) + 6):
        if k >= 6 or not any(dependent([line], set(first)) - set(first) for line in g.lines):
            g.step(STEPS)
    ends = [n for n, a in g.values.items() if n.startswith("v") and a.dtype == g.values[first[0]].dtype and a.size]
    if exact and r.random() < 0.03 and ends:
        name = g.fresh()
        g.line(f"{name} = wf.array({r.choice(ends)}.numpy() * 2.0)", name)
        ends.append(name)
    reached = dependent(g.lines, set(first))
    ends = [n for n in ends if n in reached] or ends
    out = ends[-1] if ends else first[0]
    mode = r.choices([m for m, _ in MODES], [w for _, w in MODES])[0]
    if mode == "forward" and sum(int(np.prod(g.shape(n))) for n in first) > MOST_COLUMNS:
        mode = "over"
    if r.random() < (0.7 if mode in ("second", "over") else 0.2):
        out = g.add(f"wf.sin({out})") or out
    if r.random() < 0.4:
        out = g.add(f"{out} * wf.sin({first[0]}).sum()") or out
    return pruned(Program("derivative", tuple(g.inputs), tuple(g.lines), (out,), {"mode": mode, "by": " ".join(first)}))


def dependent(lines: list[str], first: set[str]) -> set[str]:
    """What is made, directly or not, of some values."""
    found = set(first)
    for line in lines:
        target, *operands = names(line)
        if found & set(operands):
            found.add(target)
    return found


def small(r: random.Random) -> tuple[int, ...]:
    found = shape(r)
    while not found or 0 in found or int(np.prod(found)) > 400:
        found = shape(r)
    return found


def _by(program: Program) -> list[int]:
    return [k for k, i in enumerate(program.inputs) if i.name in program.options["by"].split()]


def source(program: Program) -> str:
    """The program's function, and ``derived``: its derivative, as Python."""
    by, mode = _by(program), program.options["mode"]
    arguments = ", ".join(i.name for i in program.inputs)
    lines = [program.source(), f"def number({arguments}):\n    return weigh(f({arguments})[0])\n"]
    own = [program.inputs[k].name for k in by]
    if mode == "grad":
        lines.append(f"derived = wf.grad(number, argnums={tuple(by)})")
    elif mode == "value_and_grad":
        lines.append(f"def derived({arguments}):\n    return wf.value_and_grad(number, argnums={tuple(by)})({arguments})[1]")
    elif mode == "forward":
        lines.append(f"derived = wf.jacfwd(number, argnums={tuple(by)})")
    elif mode == "vjp":
        some = ", ".join(own)
        lines.append(
            f"def derived({arguments}):\n    out, back = wf.vjp(lambda {some}: f({arguments})[0], {some})\n"
            "    return back(weights_like(out))"
        )
    else:
        lines.append(
            f"def slope({arguments}):\n    found = wf.grad(number, argnums={tuple(by)})({arguments})\n"
            "    return sum(weigh(s) for s in found)"
        )
        some = ", ".join(own)
        lines.append(
            f"derived = wf.grad(slope, argnums={tuple(by)})" if mode == "second" else
            f"def derived({arguments}):\n    slopes = lambda {some}: wf.grad(number, argnums={tuple(by)})({arguments})\n"
            f"    return wf.jvp(slopes, ({some},), tuple(weights_like(x) for x in ({some},)))[1]"
        )
    return "\n".join(lines)


def space() -> dict[str, Any]:
    """What the source names: ``weigh`` makes a number of an array, with weights that are all different."""
    def weights_like(a: Any) -> Any:
        n = a.size
        return wf.array(np.cos(np.arange(1.0, n + 1)).reshape(a.shape).astype(a.dtype))

    def weigh(a: Any) -> Any:
        return (a * weights_like(a)).sum()

    return {"wf": wf, "np": np, "nan": np.nan, "inf": np.inf, "ruled": ruled, "weigh": weigh, "weights_like": weights_like}


def check(program: Program) -> None:
    """Levels, jit, and central differences."""
    scope = space()
    exec(source(program), scope)  # noqa: S102
    arrays = [i.array() for i in program.inputs]
    looks = any(".numpy()" in line for line in program.lines)
    try:
        outputs = list(scope["derived"](*map(wf.array, arrays)))
    except TraceError:
        if looks:
            RECORD.count("looks inside a derivative, refused")
            return
        raise
    if looks:
        differences(program, scope, arrays, [o.numpy() for o in outputs])
        return
    graph, values = graph_of(outputs)
    RECORD.graph(graph)
    expected = levels.check_graph(graph, values, RECORD.kernel)
    RECORD.results(program, expected)
    wf.eval(outputs)
    for k, (o, e) in enumerate(zip(outputs, expected, strict=True)):
        want("lazily", o.numpy(), e, f"derivative {k}")
    jitted(lambda *a: tuple(scope["derived"](*a)), program, arrays, expected)
    if all(program.inputs[k].dtype == "float64" for k in _by(program)):
        differences(program, scope, arrays, expected)


def differences(program: Program, scope: dict[str, Any], arrays: list[np.ndarray], slopes: list[np.ndarray]) -> None:
    """The derivative along random directions against differences of the function's values."""
    by = _by(program)
    base = scope["slope"] if program.options["mode"] in ("second", "over") else scope["number"]
    value = interpreted(base, arrays, by)
    failed = []
    start, largest = value([arrays[k] for k in by])
    here = max(0.01, abs(start))
    reach = 1 + max(float(np.abs(arrays[k]).max(initial=0)) for k in by)  # what is given is rounded as well
    for turn in range(4):
        r = np.random.default_rng(turn)
        along = [r.normal(size=arrays[k].shape) for k in by]
        steep = sum(float(np.abs(s * d).sum()) for s, d in zip(slopes, along, strict=True))
        h = min((1e-5, 3e-6, 1e-6, 3e-5)[turn], 1e-3 * here / max(steep, 1e-9))  # short beside the waves of a steep sine
        wanted = float(sum((s * d).sum() for s, d in zip(slopes, along, strict=True)))
        ends = [value([arrays[k] + sign * h * d for k, d in zip(by, along, strict=True)])[0] for sign in (1, -1)]
        scale = max(0.01, 0.01 * largest, *(abs(e) for e in ends))  # a result near 0 is made of numbers that are not
        found = (ends[0] - ends[1]) / (2 * h)
        noise = 1e-14 * scale / h * 100 + steep * (2e-4 + 1e-15 * reach / h)
        if not np.isfinite(found) or not np.isfinite(wanted):
            RECORD.count("derivatives that are not finite")
            return
        if abs(found - wanted) <= noise + 1e-7 * abs(found):
            return
        failed.append(f"{wanted!r} along direction {turn}, differences give {found!r} (noise {noise:.1e})")
    raise Mismatch("derivative", "; ".join(failed))


def interpreted(
    base: Callable[..., Any], arrays: list[np.ndarray], by: list[int]
) -> Callable[[list[np.ndarray]], tuple[float, float]]:
    """By the graph interpreter, for other numbers in the arguments ``by``: the function's value, and the largest number on the
    way to it, the last bits of which are in what is left where such numbers cancel."""
    given = [wf.array(a) for a in arrays]
    nodes = [given[k].node for k in by]  # as they are before the function writes its arguments
    CONTEXT.pending.limit = 10**9  # a graph that was cut does not tell of its arguments
    CONTEXT.transform_depth += 1  # nor one of which a part was computed before it was written
    try:
        out = base(*given)
    finally:
        CONTEXT.transform_depth -= 1
    graph, values = graph_of([out])
    CONTEXT.pending.limit = 0
    places = []
    for node in nodes:
        places.append(graph.inputs.index(node) if node in graph.inputs else -1)

    def value(new: list[np.ndarray]) -> tuple[float, float]:
        now = list(values)
        for place, array in zip(places, new, strict=True):
            if place >= 0:
                now[place] = array
        largest, last = 0.0, None
        for node, found in walk(graph, now):
            for array in found if isinstance(found, list) else [found]:
                if array.dtype == np.float64:
                    largest = max(largest, float(np.abs(array[np.isfinite(array)]).max(initial=0)))
            last = found if node is graph.outputs[0] else last
        return float(np.asarray(last)), largest

    return value
