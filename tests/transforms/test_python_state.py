"""State that Python holds: programs that read, set and replace it, in jitted functions and between their calls, give and leave
what they give and leave without jit."""

from __future__ import annotations

import copy
import random
import types
import warnings
from collections import deque, namedtuple
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import weft as wf

Pair = namedtuple("Pair", "a b")


class Slotted:
    __slots__ = ("n", "w")

    def __init__(self, n, w):
        self.n, self.w = n, w


@dataclass(frozen=True)
class Settings:
    rate: float
    steps: int


class Defaults:
    """A class without ``__init__``: objects have what it has until they set it."""

    n, rate, text, pair = 1, 0.5, "a", (1, 0.5)
    w = None


SETTINGS = types.ModuleType("settings_of_a_program")


class Net(wf.nn.Module):
    calls = 1

    def __init__(self, k):
        super().__init__()
        self.w = wf.full(3, float(k))
        self.gain, self.count = 1.5, k
        self.kinds = ["a", k]

    def forward(self, x):
        return x * self.w * self.gain + self.count + self.kinds[1]


class Part:
    shared = 2.0
    late, late_rate, late_array = 1, 0.5, None

    def __init__(self, k):
        self.n, self.rate, self.flag, self.name = k, 0.5 * k, False, "a"
        self.pair, self.named, self.nested = (k, 0.25), Pair(k, 2.0), (1, (k, 2.5))
        self.h, self.buffer = wf.full(3, float(k)), wf.ones(3)
        self.view = wf.full(6, float(k))[::2]
        self.none = None
        self.list, self.dict = [k, 2.0, wf.full(3, 0.5)], {"n": k, "w": wf.full(3, 2.0), "rate": 0.5}
        self.ring = deque([1, k])
        self.slotted, self.settings = Slotted(k, wf.full(3, 1.5)), Settings(0.5, k)
        self.net, self.nets = Net(k), [Net(1), Net(2)]
        self.inner = types.SimpleNamespace(n=k, w=wf.full(3, 1.0))
        self.defaults, self.library = Defaults(), SETTINGS


class World(Part):
    def __init__(self):
        super().__init__(3)
        self.part = Part(1)
        self.me = self  # a cycle


# ---- places: how a value is read and set

def attribute(*path):
    def get(w):
        for name in path:
            w = getattr(w, name) if isinstance(name, str) else w[name[0]]
        return w

    def put(w, value):
        owner = w
        for name in path[:-1]:
            owner = getattr(owner, name) if isinstance(name, str) else owner[name[0]]
        if isinstance(path[-1], str):
            setattr(owner, path[-1], value)
        else:
            owner[path[-1][0]] = value

    return get, put


def frozen(name):
    def put(w, value):
        w.settings = replace(w.settings, **{name: value})

    return lambda w: getattr(w.settings, name), put


def in_tuple(name, k):
    def put(w, value):
        old = getattr(w, name)
        items = [value if at == k else x for at, x in enumerate(old)]
        setattr(w, name, type(old)(*items) if hasattr(old, "_fields") else tuple(items))

    return lambda w: getattr(w, name)[k], put


def variable(name):
    def put(w, value):
        globals()[name] = value

    return lambda w: globals()[name], put


GLOBAL_NUMBER, GLOBAL_RATE, GLOBAL_ARRAY, GLOBAL_OBJECT = 1, 0.5, None, None


def named(name):
    """So that functions which come here name the global variables."""
    return {"GLOBAL_NUMBER": GLOBAL_NUMBER, "GLOBAL_RATE": GLOBAL_RATE, "GLOBAL_ARRAY": GLOBAL_ARRAY, "O": GLOBAL_OBJECT.n}[name]


NUMBERS = {
    "n": attribute("n"), "rate": attribute("rate"), "part": attribute("part", "n"), "item": attribute("list", [0]),
    "float item": attribute("list", [1]), "value": attribute("dict", ["n"]), "ring": attribute("ring", [1]),
    "slot": attribute("slotted", "n"), "frozen": frozen("steps"), "frozen float": frozen("rate"), "tuple": in_tuple("pair", 0),
    "named tuple": in_tuple("named", 1), "module": attribute("net", "count"), "module float": attribute("net", "gain"),
    "module in a list": attribute("nets", [1], "count"), "list of a module": attribute("net", "kinds", [1]),
    "namespace": attribute("inner", "n"), "global": variable("GLOBAL_NUMBER"), "global float": variable("GLOBAL_RATE"),
    "object of a global": (lambda w: GLOBAL_OBJECT.n, lambda w, value: setattr(GLOBAL_OBJECT, "n", value)),
    "part of a part": attribute("part", "slotted", "n"), "through a cycle": attribute("me", "me", "n"),
    "default": attribute("late"), "default of a part": attribute("part", "late"), "float default": attribute("part", "late_rate"),
    "all defaults": attribute("defaults", "n"), "defaults of a part": attribute("part", "defaults", "rate"),
    "default of a module": attribute("net", "calls"), "in a list": attribute("nets", [1], "calls"),
    "Python module": attribute("library", "n"), "float of a Python module": attribute("part", "library", "rate"),
}
ARRAYS = {
    "h": attribute("h"), "buffer": attribute("buffer"), "part": attribute("part", "h"), "item": attribute("list", [2]),
    "value": attribute("dict", ["w"]), "slot": attribute("slotted", "w"), "namespace": attribute("inner", "w"),
    "parameter": attribute("net", "w"), "parameter in a list": attribute("nets", [0], "w"), "global": variable("GLOBAL_ARRAY"),
    "view": attribute("view"),
}

# ---- what is done inside the function, and between its calls

INSIDE = {
    "read a number": lambda w, x, k, r: x * r.number(w) + r.number(w),
    "read an array": lambda w, x, k, r: x + r.array(w) * r.array(w),
    "read both": lambda w, x, k, r: x * r.number(w) - r.array(w) / (1 + abs(r.number(w))),
    "call modules": lambda w, x, k, r: sum([net(x) for net in (w.net, *w.nets)]),
    "count": lambda w, x, k, r: r.set_number(w, lambda n: n + 1) or x,
    "scale": lambda w, x, k, r: r.set_number(w, lambda n: n * 2 if isinstance(n, int) else n * 0.5) or x,
    "count argument": lambda w, x, k, r: r.set_number(w, lambda n: k if isinstance(n, int) else n + k / 4) or x,
    "reset": lambda w, x, k, r: r.set_number(w, lambda n: (1 if isinstance(n, int) else 1.0) if n > 5 else n + 1) or x,
    "condition": lambda w, x, k, r: x * 2 if r.number(w) > 2 else x - 1,
    "flag": lambda w, x, k, r: setattr(w, "flag", not w.flag) or (x if w.flag else x + 1),
    "text": lambda w, x, k, r: setattr(w, "name", "ab" if w.name == "a" else "a") or x * len(w.name),
    "index": lambda w, x, k, r: x + x[r.integer(w) % 3] + x[k % 3],
    "slice": lambda w, x, k, r: x + wf.concatenate([x, x])[k % 4 : k % 4 + 3],
    "write an index": lambda w, x, k, r: r.write(w, lambda a: a.__setitem__(k % 3, x[0])) or x,
    "rebind": lambda w, x, k, r: r.set_array(w, lambda a: 0.5 * a + x * 0.1) or x,
    "rebind to the argument": lambda w, x, k, r: r.set_array(w, lambda a: x) or x,
    "write": lambda w, x, k, r: r.write(w, lambda a: a.__setitem__(..., 0.5 * a + 0.1 * x)) or x,
    "add": lambda w, x, k, r: r.write(w, lambda a: a.__iadd__(0.25)) or x,
    "exchange": lambda w, x, k, r: r.exchange(w) or x,
    "share": lambda w, x, k, r: r.share(w) or x,
    "tuple": lambda w, x, k, r: setattr(w, "nested", (w.nested[0] + 1, (1, w.nested[1][1] * 0.5))) or x * w.nested[1][1],
    "state in a tuple": lambda w, x, k, r: setattr(w, "none", (x * 0.5, k)) or x,
    "object made": lambda w, x, k, r: setattr(w, "inner", types.SimpleNamespace(n=w.inner.n + 1, w=w.inner.w * 0.5)) or x,
    "module made": lambda w, x, k, r: setattr(w, "net", made(w.net, x)) or x,
    "dict made": lambda w, x, k, r: setattr(w, "dict", {**w.dict, "w": w.dict["w"] + x}) or x,
    "class": lambda w, x, k, r: x * Part.shared,
    "class counts": lambda w, x, k, r: setattr(Part, "counted", getattr(Part, "counted", 0) + 1) or x * Part.counted,
    "class replaced": lambda w, x, k, r: count_of_class() or x * Part.total,
    "first set": lambda w, x, k, r: setattr(w.part, "first", getattr(w.part, "first", 0) + 1) or x * w.part.first,
    "first array": lambda w, x, k, r: first_array(w.part, x),
    "text of a default": lambda w, x, k, r: setattr(w.defaults, "text", w.defaults.text[-1] + "b") or x * len(w.defaults.text),
    "tuple of a default": lambda w, x, k, r: setattr(w.defaults, "pair", (w.defaults.pair[0] + 1, 0.5)) or x * w.defaults.pair[0],
    "new part": lambda w, x, k, r: setattr(w.part, "extra", Slotted(k, x)) or x + w.part.extra.w,
    "globals": lambda w, x, k, r: x + named("GLOBAL_NUMBER") * named("GLOBAL_RATE") + named("GLOBAL_ARRAY") + named("O"),
}


def first_array(part, x):
    if part.late_array is None:
        part.late_array = x * 0
    part.late_array = part.late_array * 0.5 + x
    return x + part.late_array


def count_of_class():
    Part.total = getattr(Part, "total", 0) + 1


def made(net, x):
    out = Net(2)
    out.gain = net.gain * 0.5 + 0.5
    out.w = net.w * 0.5 + x * 0.1
    return out


BETWEEN = {
    "nothing": lambda w, r: None,
    "number": lambda w, r: r.set_number(w, lambda n: type(n)(r.r.randrange(8))),
    "numbers": lambda w, r: [r.set_number(w, lambda n: type(n)(r.r.randrange(4))) for _ in range(3)] and None,
    "another type": lambda w, r: setattr(w, "n", r.r.choice([2, 2.5, True, -0.0, 0.0])),
    "array": lambda w, r: r.set_array(w, lambda a: wf.full(3, r.r.random())),
    "array written": lambda w, r: r.write(w, lambda a: a.__setitem__(0, r.r.random())),
    "arrays shared": lambda w, r: r.share(w),
    "part": lambda w, r: setattr(w, "part", Part(r.r.randrange(1, 3))),
    "defaults": lambda w, r: setattr(w, "defaults", Defaults()),
    "deleted": lambda w, r: vars(w.part).pop(r.r.choice(["first", "late", "late_rate", "late_array"]), None) is None and None,
    "class default": lambda w, r: setattr(Part, "late", r.r.randrange(4)),
    "module": lambda w, r: setattr(w, "net", Net(r.r.randrange(1, 3))),
    "module in a list": lambda w, r: w.nets.__setitem__(0, Net(r.r.randrange(1, 3))),
    "a list that grows": lambda w, r: w.nets.append(Net(1)) if len(w.nets) < 4 else w.nets.pop(),
    "copied": lambda w, r: setattr(w, "net", copy.deepcopy(w.net)),
    "flag": lambda w, r: setattr(w, "flag", not w.flag),
    "mode": lambda w, r: w.net.train(r.r.random() < 0.5) and None,
    "class": lambda w, r: setattr(Part, "shared", float(r.r.randrange(3))),
    "object": lambda w, r: variable("GLOBAL_OBJECT")[1](w, Part(r.r.randrange(3))),
    "none": lambda w, r: setattr(w, "none", None),
}


class Chooser:
    """Chooses places: the same ones in the same order for a world with jit and one without."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = []

    def _chosen(self, table):
        return table[self.r.choice(list(table))]

    def number(self, w):
        return self._chosen(NUMBERS)[0](w)

    def integer(self, w):
        n = self.number(w)
        return n if isinstance(n, int) else 1

    def array(self, w):
        return self._chosen(ARRAYS)[0](w)

    def set_number(self, w, f):
        get, put = self._chosen(NUMBERS)
        put(w, f(get(w)))

    def set_array(self, w, f):
        get, put = self._chosen({n: p for n, p in ARRAYS.items() if "parameter" not in n})
        put(w, f(get(w)))

    def write(self, w, f):
        f(self.array(w))

    def exchange(self, w):
        (get, put), (get2, put2) = [self._chosen({n: p for n, p in ARRAYS.items() if "parameter" not in n}) for _ in range(2)]
        a, b = get(w), get2(w)
        put(w, b)
        put2(w, a)

    def share(self, w):
        (get, _), (_, put) = [self._chosen({n: p for n, p in ARRAYS.items() if "parameter" not in n}) for _ in range(2)]
        put(w, get(w))


def told(w):
    """All that a world holds, to be compared."""
    seen, out = {}, []

    def walk(x):
        if isinstance(x, wf.Array):
            out.append(np.array(x))
            return
        if isinstance(x, int | float | str | None):
            out.append((type(x).__name__, x))
            return
        if id(x) in seen:
            out.append(seen[id(x)])
            return
        seen[id(x)] = len(seen)
        if isinstance(x, types.ModuleType):
            [walk(v) for v in (x.n, x.rate)]
        elif isinstance(x, dict):
            [walk(v) for item in x.items() for v in item]
        elif isinstance(x, list | tuple | deque):
            out.append(type(x).__name__)
            [walk(v) for v in x]
        elif hasattr(x, "__slots__"):
            [walk(getattr(x, n)) for n in x.__slots__]
        else:
            walk(vars(x))

    walk(w)
    classes = [Part.shared, Part.late, getattr(Part, "counted", -1), getattr(Part, "total", -1)]
    walk([GLOBAL_NUMBER, GLOBAL_RATE, GLOBAL_ARRAY, GLOBAL_OBJECT, *classes])
    return out


def shared_arrays(w):
    """Which of the places hold one array."""
    arrays = [get(w) for get, _ in ARRAYS.values()]
    return [[a is b for b in arrays] for a in arrays]


def run(seed, way, jitted, calls=9):
    global GLOBAL_NUMBER, GLOBAL_RATE, GLOBAL_ARRAY, GLOBAL_OBJECT
    GLOBAL_NUMBER, GLOBAL_RATE, GLOBAL_ARRAY, GLOBAL_OBJECT, Part.shared = 1, 0.5, wf.full(3, 0.5), Part(2), 2.0
    Part.late, SETTINGS.n, SETTINGS.rate = 1, 1, 0.5
    for name in ("counted", "total"):
        if hasattr(Part, name):
            delattr(Part, name)
    r, w = random.Random(seed), World()
    inside = r.sample(list(INSIDE), r.randrange(1, 5))
    between = r.sample(list(BETWEEN), 4)

    def body(w, x, k):
        chooser = Chooser(seed)
        for name in inside:
            x = INSIDE[name](w, x, k, chooser)
        return x * 1.0

    jit = wf.jit if jitted else lambda f: f
    if way == "argument":
        step = jit(body)
        call = lambda x, k: step(w, x, k)  # noqa: E731
    elif way == "closure":
        step = jit(lambda x, k: body(w, x, k))
        call = step
    else:
        step = jit(types.MethodType(lambda self, x, k: body(self, x, k), w))
        call = step
    seen = []
    for turn in range(calls):
        if turn % 3 == 2 or turn > 6:
            BETWEEN[r.choice(between)](w, Chooser(f"{seed} {turn}"))
        x = wf.array(np.array([r.randrange(3), r.randrange(3), 1], np.float32))
        seen.append(np.array(call(x, r.randrange(5) if turn else 1)))
        seen.append(told(w))
        seen.append(shared_arrays(w))
    return seen, getattr(step, "traces", 0), inside, between


def compare(got, want, where):
    assert len(got) == len(want)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if isinstance(b, list):
            assert len(a) == len(b), (where, k)
            for one, other in zip(a, b, strict=True):
                if isinstance(other, np.ndarray):
                    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=str((where, k)))
                elif isinstance(other, tuple) and isinstance(other[1], float):
                    assert one[0] == other[0] and one[1] == pytest.approx(other[1], rel=1e-9, nan_ok=True), (where, k, one, other)
                else:
                    assert one == other, (where, k, one, other)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=str((where, k)))


def both(seed, way, calls=9):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        want, _, *how = run(seed, way, False, calls)
        got, traces, *_ = run(seed, way, True, calls)
    compare(got, want, (seed, way, how))
    return traces


@pytest.mark.parametrize("way", ["argument", "closure", "method"])
def test_programs_give_and_leave_what_they_do_without_jit(way):
    for _ in range(12):
        both(random.randrange(10**9), way)


def test_what_is_replaced_on_a_class_is_noticed():
    class Base:
        scale = 1.0

        def run(self, x):
            return x * 2

        @property
        def rate(self):
            return 2.0

        @staticmethod
        def shift(x):
            return x + 1

        @classmethod
        def scaled(cls, x):
            return x * cls.scale

    class Part2(Base):
        pass

    class Layer(wf.nn.Module):
        def forward(self, x):
            return x * 2

    part, layer, x = Part2(), Layer(), wf.ones(2)

    def plain(x):
        return [part.run(x), part.rate * x, part.shift(x), part.scaled(x), layer(x)]

    changes = [
        (Base, "run", lambda self, x: x * 5), (Part2, "run", lambda self, x: x * 7),
        (Part2, "run", staticmethod(lambda x: x * 9)),
        (Base, "rate", property(lambda self: 3.0)), (Base, "shift", staticmethod(lambda x: x + 5)), (Part2, "rate", 4.5),
        (Base, "scaled", classmethod(lambda cls, x: x * 11)), (Layer, "forward", lambda self, x: x * 13),
    ]
    jitted = wf.jit(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for count, (owner, name, value) in enumerate([(Base, "scale", 1.0), *changes], 1):
            setattr(owner, name, value)
            for _ in range(3):
                assert [a.tolist() for a in jitted(x)] == [a.tolist() for a in plain(x)], (owner, name)
            assert jitted.traces == count
        del Part2.run
        assert [a.tolist() for a in jitted(x)] == [a.tolist() for a in plain(x)]


@pytest.mark.parametrize("body", [
    "kept.append(c)", "o.new = c", "o.h = o.h[:1]", "o.none = c", "o.flag = True", "o.buffer[0] = 2.0; o.buffer = o.buffer * 2",
    "c = c + 1 if o.n < 5 else c", "o.dict['x'] = c", "o.slotted = Slotted(1, c)",
])
@pytest.mark.parametrize("loop", ["scan", "vmap"])
def test_what_a_loop_cannot_carry_is_refused_and_leaves_everything(body, loop):
    o, kept = Part(2), []
    space = {"o": o, "kept": kept, "Slotted": Slotted}
    exec(f"def f(c, x):\n    o.n += 1; o.h = o.h + x\n    {body}\n    return c, None" if "if" not in body else
         f"def f(c, x):\n    o.n += 1\n    {body}\n    return c, None", space)
    before, arrays = vars(o).copy(), (o.h.tolist(), o.dict.copy(), o.slotted.n)
    with pytest.raises(wf.errors.TraceError, match=rf"test_python_state\.py:\d+: the body of (a loop|wf\.{loop}) "):
        if loop == "scan":
            wf.scan(space["f"], wf.zeros(3), wf.ones((5, 3)))
        else:
            wf.vmap(lambda x: space["f"](x, x)[0])(wf.ones((5, 3)))
    assert vars(o).keys() == before.keys() and all(vars(o)[name] is before[name] for name in before)
    assert not kept and (o.h.tolist(), o.dict, o.slotted.n) == arrays


def test_an_object_whose_attributes_are_no_dict() -> None:
    """As protobuf's messages: ``vars`` gives a mappingproxy, which native code cannot watch."""
    class Message:
        __slots__ = ()

        @property
        def __dict__(self) -> Any:
            return types.MappingProxyType({"factor": 3.0})

        @property
        def factor(self) -> float:
            return 3.0

    message = Message()
    f = wf.jit(lambda x: x * message.factor)
    for _ in range(5):
        assert f(wf.ones(2)).tolist() == [3.0, 3.0]
