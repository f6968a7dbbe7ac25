"""Functions with state that Python holds: modules in and out, rates and counters, optimizers, objects; jitted beside eager.

A program is a function of ``x`` and ``k`` that names an object ``o``, a module ``m`` and an optimizer ``q``, as arguments or as
global variables. A line may run a loop whose body rebinds state. It is called several times; between the calls something of the
state changes. Every call must give and leave what the same call gives and leaves without jit, and with its loops written in
Python; a program whose state does not change must not be traced again.
"""

from __future__ import annotations

import copy
import math
import random
import types
import warnings
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz.levels import Mismatch
from tests.fuzz.mutations import same
from tests.fuzz.program import Input, Program
from tests.fuzz.record import RECORD

LINES = (
    "x = x * o.rate + o.n", "x = m(x)", "x = x + o.h", "x = x - o.d['w'] * o.d['r']", "x = x * o.t[1] + o.t[0]",
    "x = x / (q.lr + 1)", "x = x + x[o.n % 3]", "x = x + t0[k % 3]", "x = x + t0[k % 3:k % 3 + 1]", "x = x * (1 + k)",
    "x = x + o.l[1] * o.l[0]", "x = x * len(o.name)", "x = x * 2 if o.n > 3 else x - 1", "x = x * 0.5 if m.training else x",
    "x = x + o.m.gain * o.m(x)", "o.n += 1", "o.n = o.n + k", "o.n = k", "o.rate *= 0.5", "o.rate = o.n / 4",
    "o.d['r'] = o.d['r'] + 0.25", "o.l[0] += 1", "o.t = (o.t[0] + 1, o.t[1] * 0.5)", "o.h = o.h * 0.5 + x.sum(axis=0) * 0.1",
    "o.h = x[0]", "o.d['w'] = o.d['w'] + x[1]", "o.h, o.d['w'] = o.d['w'], o.h", "o.h[...] = o.h * 0.5",
    "o.l[1] = o.l[1] * 0.5", "m.gain = m.gain * 0.5", "m.seen += 1", "m.w = m.w * 0.5",
    "o.name = 'ab' if o.name == 'a' else 'a'", "o.n = 0 if o.n > 4 else o.n", "t0[k % 3] = x[0]", "t0[o.n % 3] += 1",
    "q.lr = q.lr * 0.5", "q.weight_decay = q.weight_decay + 0.01", "q.lr = 0.1 / (1 + o.n)",
    "v, g = wf.value_and_grad(lambda m: (m(x) ** 2).mean())(m); q.update(m, g)",
    "v, g = wf.value_and_grad(lambda m: (m(x) ** 2).mean())(m); q.update(m, g, 0.1 * (1 + k))",
    "g = wf.grad(lambda m: (m(x) ** 2).mean())(m); m = wf.tree_map(lambda p, s: p - 0.1 * s, m, g)",
    "o.m = wf.tree_map(lambda a, b: 0.5 * a + 0.5 * b, o.m, m)", "s = State(x[0] * 2, o.n + 1)", "s = State(o.h, m)",
    "o.s = State(x, k)", "o.m = made(o.m, x)",
    "(v, s), g = wf.value_and_grad(lambda m: ((m(x) ** 2).mean(), State(x * 2, 1)), has_aux=True)(m)",
    "x = x * o.f", "x = x + np.float32(2) * o.f", "o.f = o.f * 0.5 + np.cos(o.n)", "o.f = np.float64(k)",
    "x = x + x[o.i % 3]", "x = x + t0[o.i % 3:o.i % 3 + 1]", "o.i = o.i + 1", "o.i = np.int64(k) + 1", "o.f = o.f / (1 + o.i)",
    "x = x * np.sin(k) + np.maximum(k, o.i)", "x = wf.roll(x, k, 1)", "x = x + x[[k % 2, 0]][0]", "x = x + wf.array([k, 0.5, 1])",
    "x = x * t + t", "x = x * math.exp(-t)", "x = x * 2 if t > 0.3 else x", "x = x * max(t, 0.3) + int(t * 3)", "o.rate = t",
    "x = x + (t in (0.25, 0.5))", "o.name = f'{t:.1f}'", "o.rate = math.floor(t * 5) / 4 if isinstance(t, float) else 0.0",
    "o.h, _ = wf.scan(lambda c, r: (0.5 * c + r, None), o.h, x)", "x = wf.vmap(lambda r: r * o.rate + o.h)(x)",
    "o.c['n'] = o.c.get('n', 0) + 1; x = x + o.c['n']", "o.c['h'] = x[0] * 0.5", "C['x'] = x[0]", "x = x + len(E)",
    "x = x * sum([a if isinstance(a, int) else 0.5 for a in E])", "x = x + len(o.c)",
)
MOVING = (  # lines that change the length of a container at each call, which is traced again each time
    "E.append(k)", "E.append(x[0])", "o.e.append(k); x = x + len(o.e)", "o.e.append(x[0]); o.e[:] = o.e[-2:]", "E.extend([1, k])",
    "E.insert(0, o.rate)", "E.pop() if len(E) > 1 else E.append(k)", "o.c[len(o.c)] = k", "C[len(C)] = o.n", "del E[:1]",
    "o.c.popitem() if o.c else o.c.update(a=k)", "o.z.add(len(o.z)); x = x * len(o.z)", "o.e.reverse(); o.e.append(0.5)",
)
LOOPED = (  # lines of a loop's body: ``c`` is the carry, ``r`` what the step is given
    "c = c * o.rate + o.n", "c = c + r * o.l[0]", "c = c + o.h * 0.25", "c = c - o.d['w'] * o.d['r']", "c = c * o.t[1] + o.t[0]",
    "c = c + m.gain", "c = c + m(r) * 0.1", "c = c * 0.5 if o.n > 3 else c - 1", "c = c + k", "o.n += 1", "o.n = o.n + k",
    "o.n = k", "o.rate *= 0.5", "o.rate = o.n / 4", "o.d['r'] = o.d['r'] + 0.25", "o.l[0] += 1", "o.l[1] = o.l[1] * 0.5 + c",
    "o.t = (o.t[0] + 1, o.t[1] * 0.5)", "o.h = o.h * 0.5 + r * 0.1", "o.h = c", "o.h = r", "o.d['w'] = o.d['w'] + c",
    "o.h, o.d['w'] = o.d['w'], o.h", "o.h = o.d['w'] = c + 1", "o.h[...] = o.h * 0.5", "o.h[0] = c[1]", "m.gain = m.gain * 0.5",
    "m.seen += 1", "m.w = m.w * 0.5", "m.w[...] = m.w + 0.25 * c", "o.rate = c.sum() * 0.1", "o.d['r'] = r[0]", "o.h = m.w",
    "o.m.gain = o.m.gain + 0.5", "o.m.w = o.m.w * 0.5 + r", "turns += 1", "c = c * turns", "trail = trail * 0.5 + c",
    "c = c + trail[::-1]", "o.name = 'ab'", "o.s = c", "o.l.append(c)", "o.new = r", "o.h = o.h[:2]", "o.s = State(c, o.n)",
    "q.lr = q.lr * 0.5", "g = wf.grad(lambda m: (m(r) ** 2).mean())(m); q.update(m, g)", "o.l.append(1)", "o.d['r'] = k",
)
CHANGES = (
    "pass", "pass", "o.n = 2", "o.n = 7", "o.rate = 0.75", "o.rate = 0.0", "q.lr = 0.0", "q.lr = 0.05", "q.weight_decay = 0.1",
    "q.betas = (0.8, 0.9)", "m.gain = 3.0", "m.eval()", "m.train()", "m = copy.deepcopy(m)", "o.m = Net(2.0)", "m.w[...] = 0.5",
    "o.h = wf.full(3, 0.25)", "o.d['w'] += 1", "o.d['r'] = 2.0", "o.l[0] = 3", "o.t = (4, 0.5)", "o.name = 'abc'", "o = Holder()",
    "q = wf.optim.SGD(0.1).init(m)", "o.n = 2.5", "o.h = o.d['w']", "t0 = wf.ones((3, 3))", "o.s = None",
    "o.f = np.float64(0.75)", "o.f = np.float32(0.25)", "o.i = np.int64(3)", "o.i = np.int8(2)", "o.f = np.float64(0.0)",
)
OUTPUTS = ("x", "m", "o", "o.m", "g", "v", "s", "o.h", "o.n", "o.t", "o.f", "o.i", "t", "q", "{'m':m,'x':x}", "(o.n,x[k%3])")
MADE_BY = {"g": "g = ", "v": "v, g = ", "s": " s = State"}


class Net(wf.nn.Module):
    """A module with numbers of its own."""

    def __init__(self, start: float = 1.0) -> None:
        super().__init__()
        self.w, self.gain, self.seen, self.count = wf.full(3, start), 1.5, 0, wf.array([1, 2])

    def forward(self, x: Any) -> Any:
        return x * self.w * self.gain + self.count[0]


class State:
    """What functions make and give."""

    def __init__(self, h: Any, n: Any) -> None:
        self.h, self.n = h, n


class Holder:
    """What functions are given, and change."""

    def __init__(self) -> None:
        self.n, self.rate, self.name, self.t = 1, 0.5, "a", (1, 0.5)
        self.h, self.d, self.l = wf.ones(3), {"w": wf.full(3, 2.0), "r": 0.5}, [2, wf.full(3, 0.5)]
        self.m, self.s, self.f, self.i = Net(0.5), None, np.float64(0.5), np.int64(1)
        self.e, self.c, self.z = [], {}, {0}


def made(net: Net, x: Any) -> Net:
    """A module that a function makes."""
    out = Net(2.0)
    out.gain, out.w = net.gain * 0.5 + 0.5, net.w * 0.5 + x[0] * 0.1
    return out


def grown(r: random.Random) -> Program:
    """Some lines, and calls with changes between them: mostly the same change, as in a loop."""
    lines = [r.choice(MOVING if r.random() < 0.05 else LINES) for _ in range(r.randint(1, 6))]
    if r.random() < 0.5:
        lines.insert(r.randrange(len(lines) + 1), looped(r))
    written = " " + " ".join([line for line in lines if "loop(" not in line])  # what a loop's body binds is its own
    known = [o for o in OUTPUTS if o not in MADE_BY or MADE_BY[o] in written]
    changes = [r.choice(CHANGES) for _ in range(r.choice((1, 1, 2)))]
    calls = [(r.randrange(4), r.choice(changes) if turn else "pass") for turn in range(r.randint(3, 8))]
    outputs = tuple(dict.fromkeys(r.choice(known) for _ in range(r.choice((1, 2)))))
    options = {"way": r.choice(("arguments", "globals", "method")), "calls": repr(calls)}
    return Program("state", (Input("x0", "float32", (2, 3), "few", r.randrange(10**6)),), tuple(lines), outputs, options)


def looped(r: random.Random) -> str:
    """A line that runs a loop of :func:`loop`, whose body is a text."""
    body = "; ".join(line for line in (r.choice(LOOPED) for _ in range(r.randint(1, 5))))
    return f"x = x + loop({body!r}, {{'o': o, 'm': m, 'q': q, 'k': k, 'reverse': {r.random() < 0.3}}}, x)"


_LOOP = """
def run({names}, k, x):
    turns, trail = 1, wf.full(3, 0.5)
    def body(c, r):
        nonlocal turns, trail, o, m, q
        {body}
        return c, c * 2
    c, ys = scan(body, x[0] * 0.5, wf.concatenate([x, x + 0.5]), reverse={reverse})
    return c + ys.sum(axis=0) * 0.1 + turns + trail
"""


def by_python(body: Any, c: Any, xs: Any, reverse: bool) -> Any:
    """``wf.scan`` as a loop of Python."""
    ys = []
    for r in xs[::-1] if reverse else xs:
        c, y = body(c, r.copy())
        ys.append(y)
    return c, wf.stack(ys[::-1] if reverse else ys)


def loop_of(scan: Any) -> Any:
    """The function ``loop`` of a program. scan : runs its loops"""
    known: dict[Any, Any] = {}

    def loop(body: str, names: dict[str, Any], x: Any) -> Any:
        key = body, names["reverse"]
        if key not in known:
            space: dict[str, Any] = {"wf": wf, "State": State, "scan": scan, "__name__": "program"}
            exec(_LOOP.format(names="o, m, q", body=body, reverse=names["reverse"]), space)  # noqa: S102
            known[key] = space["run"]
        return known[key](names["o"], names["m"], names["q"], names["k"], x)

    return loop


_BODY = """
def f({given}):
{names}{lines}
    return ({outputs},)
"""


def _space(program: Program, jitted: bool, native: bool = True) -> dict[str, Any]:
    names = "o, m, q, t0"
    given = {"arguments": f"{names}, x, k, t", "globals": "x, k, t", "method": "self, x, k, t"}[program.options["way"]]
    start = {"arguments": "", "globals": f"    global {names}\n", "method": "    o, m, q, t0 = self.o, self.m, self.q, self.t0\n"}
    text = _BODY.format(
        given=given, names=start[program.options["way"]], lines="\n".join(f"    {line}" for line in program.lines),
        outputs=", ".join(program.outputs),
    )
    space: dict[str, Any] = {"wf": wf, "np": np, "math": math}
    space |= {"copy": copy, "Net": Net, "State": State, "Holder": Holder, "made": made}
    space |= {"__name__": "program", "o": Holder(), "m": Net(), "t0": wf.array(np.arange(9.0).reshape(3, 3) / 4)}
    space |= {"E": [1], "C": {}}
    space["loop"] = loop_of(wf.scan if native else by_python)
    space["q"] = wf.optim.Adam(0.1).init(space["m"])
    exec(text, space)  # noqa: S102
    if jitted:
        space["f"] = wf.jit(space["f"])
    return space


def _called(program: Program, space: dict[str, Any], x: np.ndarray, k: int) -> Any:
    way = program.options["way"]
    if way == "globals":
        return space["f"](wf.array(x), k, k / 4)
    held = [space[name] for name in ("o", "m", "q", "t0")]
    if way == "arguments":
        return space["f"](*held, wf.array(x), k, k / 4)
    return space["f"](types.SimpleNamespace(o=held[0], m=held[1], q=held[2], t0=held[3]), wf.array(x), k, k / 4)


def told(x: Any, seen: dict[int, int] | None = None) -> list[Any]:
    """Everything that something holds, in order; arrays as NumPy's."""
    seen = {} if seen is None else seen
    if isinstance(x, wf.Array):
        return [np.array(x)]
    if isinstance(x, np.generic):
        return [x.dtype.name, x.item()]
    if x is None or isinstance(x, int | float | str):
        return [x]
    if id(x) in seen:
        return [f"again {seen[id(x)]}"]
    if not isinstance(x, tuple):
        seen[id(x)] = len(seen)
    if isinstance(x, wf.optim.Optimizer):
        return [x.lr, x.weight_decay, *told(x.arrays(), seen)]
    if isinstance(x, dict):
        return [part for key in x for part in (str(key), *told(x[key], seen))]
    if isinstance(x, list | tuple | set):
        return [type(x).__name__, *(part for item in x for part in told(item, seen))]
    return [type(x).__name__, *(part for key in sorted(vars(x)) for part in (key, *told(vars(x)[key], seen)))]


def check(program: Program) -> None:
    """Every call with jit beside the same call without, and without beside the same call with loops written in Python."""
    _compare(program, jitted=True)
    if any("loop(" in line for line in program.lines):
        _compare(program, jitted=False)


def _compare(program: Program, jitted: bool) -> None:
    """jitted : compare jit with plain calls; else plain calls with native loops with those whose loops Python runs"""
    x = program.inputs[0].array()
    spaces = [_space(program, False, native=jitted), _space(program, jitted)]
    for turn, (k, change) in enumerate(eval(program.options["calls"])):
        found: list[list[Any]] = []
        outs: list[Any] = []
        for space in reversed(spaces):
            if outs and outs[0] == "TraceError" and not jitted:
                RECORD.count("loops with state that are refused")
                return  # a loop cannot carry it: it says so, and writes nothing
            before = [part for name in KEPT for part in told(space[name])]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    exec(change, space)  # noqa: S102
                    before = [part for name in KEPT for part in told(space[name])]
                    outs.append(_called(program, space, x, k))
            except (IndexError, TypeError, ValueError, AttributeError) as error:
                outs.append(type(error).__name__)
            kept = [] if isinstance(outs[-1], str) else [part for name in KEPT for part in told(space[name])]
            now = [part for name in KEPT for part in told(space[name])]
            if outs[-1] == "TraceError" and len(program.lines) == 1 and not _alike(before, now):
                raise Mismatch("state", f"a loop that is refused leaves {now}, it was {before}")
            found.append([*told(outs[-1]), *kept])  # of a call that fails jit writes nothing
        second, first = found
        where = f"after call {turn} (k = {k}, {change}), {'jit beside plain' if jitted else 'native loops beside Python'}"
        if len(first) != len(second):
            raise Mismatch("state", f"{where}: {second} is not {first}")
        for n, (a, b) in enumerate(zip(first, second, strict=True)):
            if isinstance(a, np.ndarray):
                _near(a, b, f"part {n} {where}")
            elif type(a) is not type(b) or (not np.isclose(a, b, 1e-9, 0) if isinstance(a, float) else a != b):
                raise Mismatch("state", f"part {n} {where}: {b!r} is not {a!r}")
        if isinstance(outs[0], str):
            RECORD.count("programs with state that end with an error")
            return
    RECORD.results(program, [a for a in first if isinstance(a, np.ndarray)])
    if jitted and not any(line in MOVING or "append" in line for line in program.lines):  # a longer list needs another program
        _settles(program, spaces[1], x, k)


def _alike(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x, y, True) if isinstance(x, np.ndarray) else x is y or x == y for x, y in zip(a, b, strict=True)
    )


KEPT = ("o", "m", "q", "t0", "E", "C")
SETTLED = 12  # calls in which whatever alternates has come round, and every number has come with a second value


def _settles(program: Program, space: dict[str, Any], x: np.ndarray, k: int) -> None:
    """A program that is called again and again is not traced for ever: numbers, arrays and objects that it replaces are state."""
    traces = 0
    for turn in range(SETTLED + 3):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                _called(program, space, x, k)
        except (IndexError, TypeError, ValueError, AttributeError):
            return
        traces = space["f"].traces if turn < SETTLED else traces
    if space["f"].traces > traces:
        raise Mismatch("traces", f"{space['f'].traces} traces after {SETTLED + 3} calls that are alike")


def _near(a: np.ndarray, b: Any, what: str) -> None:
    if a.dtype.kind == "f" and isinstance(b, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype:
        if np.allclose(a, b, 1e-4, 1e-5, True):
            return
    same(a, b, what, "state")


__all__ = ["Mismatch", "check", "grown"]
