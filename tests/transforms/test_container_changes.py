"""Containers that jitted functions change: lists, dicts, sets and buffers, in all places that a function reaches.

Results and contents are equal to those without jit, also after a call that raises.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import linecache
import random
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

SETUP = """
import collections
class K: pass
K.c = INIT
o = K(); o.i = INIT
c = INIT
nest = {"c": INIT}
rows = [INIT]
pair = (INIT, 1)
def closed():
    c = INIT
    @jit
    def f(x):
        BODY
    return f, lambda: c
def helper(x, c=INIT):
    BODY
@jit
def by_default(x): return helper(x)
"""
PLACES = {
    "global": "c", "module": "other.c", "class": "K.c", "attribute": "o.i", "value": "nest['c']", "item": "rows[0]",
    "tuple": "pair[0]", "vars": "o.__dict__['i']", "closure": "c", "default": "c",
}
# for each kind: how it starts, a number that shows its content, and operations
KINDS = {
    "list": ("[1.0, 2.0]", "(sum(C) + len(C))", [
        "C.append(3.0)", "C.append(len(C))", "C.insert(0, 5.0)", "C.extend([1.0])", "C.pop() if C else None", "C.clear()",
        "C.reverse()", "C.sort(reverse=True)", "C[:] = [7.0]", "C[:] = C + [1.0]", "del C[0:1]", "C[0:0] = [2.0]",
        "C.append(C.pop(0))", "C.append(3.0) if len(C) < 4 else None", "C.append(float(len(C))); del C[:1]",
    ]),
    "long list": ("[1.0] * 150", "(sum(C) + len(C))", ["C.append(3.0)", "C.pop()", "C[0] += 1", "C.sort()"]),
    "nested": ("[[1.0], [2.0]]", "(sum(map(sum, C)) + len(C))", [
        "C.append([3.0])", "C.append(C[0])", "C[0].append(1.0)", "C.pop(0)[0] if len(C) > 1 else None",
        "C.append(C[0]); C[-1].append(2.0)",
    ]),
    "dict": ("{'a': 1.0}", "(sum(C.values()) + len(C) + ord(max(C, default='a')))", [
        "C['b'] = 2.0", "C[chr(97 + len(C))] = 2.0", "C['b'] = C.get('b', 0) + 1", "C.setdefault('z', 4.0)", "C.pop('a', None)",
        "C.clear()", "C.update(a=5.0, k=1.0)", "C.popitem() if C else None", "C['a'] = C.pop('a', 1.0) + 1; C['0'] = 1.0",
    ]),
    "deque": ("collections.deque([1.0, 2.0], 3)", "(sum(i * v for i, v in enumerate(C)) + len(C))", [
        "C.append(3.0)", "C.appendleft(3.0)", "C.rotate(1)", "C.popleft() if C else None",
    ]),
    "set": ("{1}", "(sum(C) + len(C))", ["C.add(2)", "C.add(len(C) + 1)", "C.discard(1)", "C.clear()"]),
    "Counter": ("collections.Counter()", "sum(C.values())", ["C['a'] += 1", "C.update('ab')"]),
    "defaultdict": ("collections.defaultdict(float)", "(sum(C.values()) + len(C))", ["C['a'] += 1", "C[len(C)] += 1"]),
    "OrderedDict": ("collections.OrderedDict(a=1.0, b=2.0)", "(sum(i * v for i, v in enumerate(C.values())) + len(C))", [
        "C.move_to_end('a')", "C['c'] = 3.0", "C.popitem(last=False) if C else None",
    ]),
    "bytearray": ("bytearray(b'ab')", "(sum(C) + len(C))", ["C.append(1)", "C[0] += 1"]),
    "arrays": ("[]", "(sum([a.sum() for a in C]) + len(C))", [
        "C.append(x * 2)", "C.append(x)", "C.insert(0, x + len(C))", "C.append(x * 2) if len(C) < 2 else C.pop(0)",
    ]),
}


def told(x: Any) -> Any:
    """The content of a container, with its class and the order of its items."""
    if isinstance(x, wf.Array):
        return x.tolist()
    if isinstance(x, dict):
        return type(x).__name__, [(k, told(v)) for k, v in x.items()]
    if isinstance(x, list | tuple | collections.deque):
        return type(x).__name__, [told(v) for v in x], [[a is b for b in x] for a in x if isinstance(a, list)]
    return repr(sorted(x) if isinstance(x, set) else x)


def run(jit: Callable, kind: str, operations: list[str], place: str, raising: set[int], name: str) -> list[Any]:
    init, value, _ = KINDS[kind]
    inside = place in ("closure", "default")

    def at(text: str) -> str:
        return re.sub(r"\bC\b", PLACES[place], text)

    lines = [*map(at, operations), "if calls[0] in raising: raise ValueError", f"return x * {at(value)}"]
    body = lines if inside else ["pass"]
    text = re.sub(r"( *)BODY", lambda found: "\n".join([found[1] + line for line in body]), SETUP)
    text = text.replace("INIT", init) + ("" if inside else "\n@jit\ndef f(x):\n    " + "\n    ".join(lines) + "\n")
    other, module = types.ModuleType("other"), types.ModuleType(name)
    linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(True), f"<{name}>")
    space = module.__dict__
    space.update(jit=jit, other=other, wf=wf, calls=[0], raising=raising)
    sys.modules[name] = module
    other.c = eval(init)
    exec(compile(text, f"<{name}>", "exec"), space)
    if place == "closure":
        f, read = space["closed"]()
    elif place == "default":
        f, read = space["by_default"], lambda: space["helper"].__defaults__[0]
    else:
        f, read = space["f"], lambda: eval(PLACES[place], space)
    first, seen = read(), []
    for k in range(5):
        space["calls"][0], before = k, told(read())
        try:
            seen.append(float(f(wf.ones(2))[0]))
        except (ValueError, LookupError) as error:
            seen.append(type(error))
            if jit is wf.jit:
                assert told(read()) == before
            return seen
        seen.append((told(read()), read() is first))
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_operations_in_all_places(kind: str) -> None:
    operations = KINDS[kind][2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place in PLACES:
            for _ in range(3):
                drawn = random.choices(operations, k=random.choice((1, 1, 2)))
                raising = {random.randrange(5)} if random.random() < 0.3 else set()
                want = run(lambda f: f, kind, drawn, place, raising, "plain_program")
                assert run(wf.jit, kind, drawn, place, raising, "jitted_program") == want, (place, drawn, raising)


LAST, COUNTS, HISTORY, SPARE = None, collections.Counter(), {}, []


def test_what_settles_is_traced_once_or_twice() -> None:
    @wf.jit
    def stored(x: Any) -> Any:
        global LAST
        LAST = x * 2
        return x

    @wf.jit
    def noted(x: Any) -> Any:
        HISTORY["loss"] = x.sum()
        return x

    @wf.jit
    def kept(x: Any, n: int) -> Any:
        if n not in COUNTS:
            COUNTS[n] = n * 2
        return x * COUNTS[n]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(6):
            x = wf.full(2, float(k))
            stored(x), noted(x)
            assert LAST.tolist() == [2.0 * k] * 2 and float(HISTORY["loss"]) == 2 * k
            assert kept(x, 3).tolist() == [6.0 * k] * 2
    assert stored.traces == noted.traces == kept.traces == 2


def test_returned_floats_are_floats_when_a_function_is_traced_at_each_call() -> None:
    rows: list[Any] = []

    @wf.jit
    def f(x: Any, s: float, d: Any) -> Any:
        rows.append(x * s)
        return s, d, s > 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(6):
            s, d, large = f(wf.ones(2), 0.5 + k, {"rate": 0.1})
            assert type(s) is type(d["rate"]) is float and json.dumps([s, d]) and bool(large) == (k > 0)


def test_a_call_that_raises_leaves_names_as_they_were() -> None:
    module = types.ModuleType("module_of_a_raising_call")
    space = {"LAST": None, "module": module, "wf": wf}
    sys.modules[module.__name__] = module
    exec(
        "@wf.jit\ndef f(x, fails):\n    global LAST, NEW\n    LAST = x * 2\n    NEW = x\n    module.made = x\n"
        "    if fails: raise ValueError\n    return x\n", space,
    )
    for _ in range(2):
        with pytest.raises(ValueError):
            space["f"](wf.ones(2), True)
        assert space["LAST"] is None and "NEW" not in space and not hasattr(module, "made")
    for k in range(3):
        x = wf.full(2, float(k))
        assert space["f"](x, False) is x
        assert space["LAST"].tolist() == [2.0 * k] * 2 and space["NEW"] is x and module.made is x


@pytest.mark.parametrize(("frozen", "slots"), [*itertools.product((False, True), repeat=2)])
def test_dataclass_arguments_keep_what_is_set(frozen: bool, slots: bool) -> None:
    def program(jit: Callable) -> list[Any]:
        @dataclasses.dataclass
        class Part:
            n: int = 0

        @dataclasses.dataclass(frozen=frozen, slots=slots)
        class Model:
            w: Any
            n: int = 0
            rate: float = 1.0
            log: list = dataclasses.field(default_factory=list)
            counts: dict = dataclasses.field(default_factory=dict)
            part: Any = dataclasses.field(default_factory=Part)

            @jit
            def step(self, x: Any, k: int) -> Any:
                object.__setattr__(self, "w", self.w * 0.5 + x)
                object.__setattr__(self, "n", self.n + k)
                object.__setattr__(self, "rate", self.rate * 0.5)
                self.log.append(self.rate)
                self.counts["n"] = self.counts.get("n", 0) + 1
                self.part.n += 2
                if len(self.log) > 2:
                    self.log.pop(0)
                if k == 7:
                    raise ValueError
                return x * self.w * self.n + self.rate + sum(self.log) + self.counts["n"] + self.part.n

        model, seen = Model(wf.ones(2)), []
        log, part = model.log, model.part
        for k in (1, 1, 2, 3, 1, 4):
            seen.append(model.step(wf.ones(2), k).tolist())
            seen.append([model.w.tolist(), model.n, model.rate, [*log], dict(model.counts), part.n])
            assert model.log is log and model.part is part and type(model.rate) is float and type(model.n) is int
        if jit is wf.jit:
            before = repr(model)
            with pytest.raises(ValueError):
                model.step(wf.ones(2), 7)
            assert repr(model) == before
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert program(wf.jit) == program(lambda f: f)


def test_attributes_of_a_dataclass_that_are_no_fields() -> None:
    @dataclasses.dataclass
    class Model:
        n: int = 1

        @wf.jit
        def step(self, x: Any) -> Any:
            self.extra = getattr(self, "extra", 0) + self.n
            return x * self.extra

    model = Model()
    assert [float(model.step(wf.ones(1))[0]) for _ in range(5)] == [1, 2, 3, 4, 5] and model.extra == 5


def test_the_class_of_a_number_is_its_own() -> None:
    holder = types.SimpleNamespace(n=1, d={"q": 1})

    def helper(x: Any, k: Any) -> Any:
        return x * (2 if type(k) is int else 3)

    programs: list[Callable] = [
        helper, lambda x, k: helper(x, k), lambda x, k: x * {int: 2, float: 3}[type(k)],
        lambda x, k: x * (2 if type(holder.n) is int else 3) * (5 if type(holder.d["q"]) is int else 7),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in programs:
            jitted = wf.jit(f)
            for k in (1, 2, 3, 0.5, 1.5, 4):
                holder.n = holder.d["q"] = k
                assert jitted(wf.ones(2), k).tolist() == f(wf.ones(2), k).tolist()
        plain = wf.jit(lambda x, k: x * k if type(x) is not float else x)
        for k in range(5):
            plain(wf.ones(2), k)
        assert plain.traces == 2


def test_iterators_proxies_and_deleted_names() -> None:
    numbers, table = itertools.count(1), {"a": 1.0}
    proxy = types.MappingProxyType(table)
    generator = (float(k) for k in range(1, 10))
    holder = types.SimpleNamespace(rows=iter([1.0, 2.0, 3.0, 4.0]))
    read = wf.jit(lambda x: x * proxy["a"])
    space: dict[str, Any] = {"wf": wf}
    exec("@wf.jit\ndef f(x):\n    try: return x * V\n    except NameError: return x * 9", space)
    for f in (lambda x: x * next(numbers), lambda x: x * next(generator), lambda x: x * next(holder.rows)):
        jitted = wf.jit(f)
        with pytest.warns(RuntimeWarning, match="is traced again each time since it reads an iterator"):
            assert [float(jitted(wf.ones(1))[0]) for _ in range(4)] == [1, 2, 3, 4]
    for k in range(1, 7):
        table["a"] = float(k)
        assert float(read(wf.ones(1))[0]) == k
        space.pop("V", None)
        space[f"other{k}"] = k
        if k % 2:
            space["V"] = float(k)
        for _ in range(3):
            assert float(space["f"](wf.ones(1))[0]) == (k if k % 2 else 9)
    assert read.traces == 2


def test_a_dataclass_in_a_variable_is_replaced() -> None:
    @dataclasses.dataclass
    class Settings:
        rate: float = 1.0

    settings, seen = Settings(), []

    @wf.jit
    def f(x: Any) -> Any:
        nonlocal settings
        settings = dataclasses.replace(settings, rate=settings.rate * 0.5)
        return x * settings.rate

    for _ in range(4):
        seen.append((float(f(wf.ones(1))[0]), settings.rate))
    assert seen == [(0.5, 0.5), (0.25, 0.25), (0.125, 0.125), (0.0625, 0.0625)]
    assert f.traces == 2


def test_a_loop_may_append_to_a_list_that_it_does_not_read() -> None:
    rows: list[Any] = []
    holder = types.SimpleNamespace(log=[], long=[0.0] * 150)

    def appends(c: Any, x: Any) -> Any:
        rows.append(1)
        holder.log.extend([1.0, 2.0])
        holder.long.append(3)
        return c + x, None

    assert float(wf.scan(appends, 0.0, wf.ones(4))[0]) == 4
    assert rows == [1] * 4 and holder.log == [1.0, 2.0] * 4 and len(holder.long) == 154
    bodies: dict[str, Callable] = {
        "`rows`": lambda i, c: rows.append(1) or c + len(rows),
        "`holder.log`": lambda i, c: holder.log.append(1.0) or c + sum(holder.log),
        "`holder.long`": lambda i, c: holder.long.append(1.0) or c + holder.long[-1],
    }
    for name, body in bodies.items():
        with pytest.raises(wf.errors.TraceError, match=rf"the body of wf.fori_loop adds to {name}, which it also reads"):
            wf.fori_loop(0, 4, body, 0.0)
    assert rows == [1] * 4 and len(holder.log) == 8 and len(holder.long) == 154


def test_a_numpy_array_that_a_call_writes() -> None:
    holder = types.SimpleNamespace(table=np.zeros(3))
    table = holder.table

    @wf.jit
    def f(x: Any) -> Any:
        holder.table[0] += 1
        return x * float(holder.table[0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [float(f(wf.ones(1))[0]) for _ in range(4)] == [1, 2, 3, 4]
    assert holder.table is table and table[0] == 4


def test_stored_methods_of_containers() -> None:
    """``pop = items.pop`` reaches the list, too."""
    items: list[int] = [1, 2, 3]
    pop = items.pop
    f = wf.jit(lambda x: x + pop())
    assert [float(f(0.0)) for _ in range(3)] == [3, 2, 1] and items == []
    push = items.append

    @wf.jit
    def keep(x: Any, k: int) -> Any:
        push(k)
        return x * k

    for k in (2, 1, 1, 3, 3):
        keep(wf.ones(1), k)
    assert items == [2, 1, 1, 3, 3] and {type(k) for k in items} == {int}
