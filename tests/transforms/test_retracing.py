"""What jit takes for unchanged: programs with changes between and within their calls give what they give without jit."""

from __future__ import annotations

import gc
import itertools
import random
import warnings
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import weft as wf


class Slotted:
    __slots__ = ("k", "w")

    def __init__(self) -> None:
        self.k = 3
        self.w = wf.ones(2)


@dataclass(frozen=True)
class Frozen:
    k: float
    names: list


class Net(wf.nn.Module):
    def __init__(self, inner: bool = True) -> None:
        super().__init__()
        self.w = wf.array([1.0, 2.0])
        self.opts = {"p": 1.0, "q": 2}
        self.sizes = [1, 2]
        self.chosen = {1, 5}
        self.table = np.array([1.0, -1.0], np.float32)
        self.plain = Plain() if inner else None
        self.blocks = [Net(False), Net(False)] if inner else []

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * self.w * self.opts["p"] + sum((k + 1) * v for k, v in enumerate(self.opts.values())) + self.table

    def holds(self, x):
        return x * sum(self.sizes) + sum(self.chosen) + (self.plain.k if self.plain else 0)


class Plain:
    def __init__(self, depth: int = 1) -> None:
        self.k, self.f, self.name, self.flag = 2, 0.0, "a", False
        self.w = wf.array([1.0, -1.0])
        self.things = [1, {"a": 2.0}, (3,)]
        self.ring = deque([1, 2])
        self.table = np.array([1.0, 2.0], np.float32)
        self.frozen = Frozen(2.0, [1])
        self.slotted = Slotted()
        self.sub = Plain(depth - 1) if depth else None
        self.me = self  # a cycle

    def numbers(self, x):
        out = x * self.k + (1 if self.flag else 2) + len(self.name) + self.things[0] + self.things[1]["a"] + self.things[2][0]
        return out + sum((k + 1) * v for k, v in enumerate(self.ring)) + self.frozen.names[0] + self.slotted.k

    def arrays(self, x):
        return x * self.w + self.table + self.slotted.w + (self.sub.w if self.sub else 0)

    def sign(self, x):
        return x + np.copysign(1.0, self.f)


class World:
    """What a program reads and changes; two of one kind are alike."""

    def __init__(self) -> None:
        self.plain, self.net = Plain(), Net()
        self.tree = {"b": wf.array([1.0, 2.0]), "a": wf.array([3.0, 4.0])}
        self.kept = {"c": wf.zeros(2), "last": wf.zeros(2), "hist": [], "total": wf.zeros(())}


READS = {
    "plain numbers": lambda w, x: w["plain"].numbers(x),
    "plain arrays": lambda w, x: w["plain"].arrays(x),
    "sign": lambda w, x: w["plain"].sign(x),
    "module": lambda w, x: w["net"](x),
    "module holds": lambda w, x: w["net"].holds(x),
    "order": lambda w, x: sum((k + 1) * v for k, v in enumerate(w["tree"].values())) + x,
}


def _set(at, **values):
    for name, value in values.items():
        setattr(at, name, value)


CHANGES = {
    "k": lambda w, r: _set(w.plain, k=r.choice([2, 10, 3.0, True])),
    "sign of 0": lambda w, r: _set(w.plain, f=r.choice([0.0, -0.0])),
    "flag": lambda w, r: _set(w.plain, flag=not w.plain.flag, name=r.choice(["a", "bcd"])),
    "rebound": lambda w, r: _set(w.plain, w=wf.full(2, r.random())),
    "written": lambda w, r: w.plain.w.__setitem__(0, r.random()),
    "nested": lambda w, r: w.plain.things[1].update(a=float(r.randrange(5))),
    "item": lambda w, r: w.plain.things.__setitem__(0, r.randrange(5)),
    "ring": lambda w, r: w.plain.ring.rotate(1),
    "table": lambda w, r: w.plain.table.__setitem__(1, r.random()),
    "frozen holds": lambda w, r: w.plain.frozen.names.__setitem__(0, r.randrange(5)),
    "slot": lambda w, r: _set(w.plain.slotted, k=r.randrange(5)),
    "slot rebound": lambda w, r: _set(w.plain.slotted, w=wf.full(2, r.random())),
    "inner": lambda w, r: _set(w.plain.sub, w=wf.full(2, r.random())),
    "another": lambda w, r: _set(w, plain=Plain()),
    "option": lambda w, r: w.net.opts.update(p=float(r.randrange(1, 4))),
    "order of options": lambda w, r: w.net.opts.update(q=w.net.opts.pop("q"), p=w.net.opts.pop("p")),
    "sizes": lambda w, r: w.net.sizes.append(r.randrange(3)),
    "set": lambda w, r: w.net.chosen.symmetric_difference_update({r.randrange(6)}),
    "table of a module": lambda w, r: w.net.table.__setitem__(0, r.random()),
    "object of a module": lambda w, r: _set(w.net.plain, k=r.randrange(5)),
    "block appended": lambda w, r: w.net.blocks.append(Net(False)),
    "block exchanged": lambda w, r: w.net.blocks.__setitem__(0, Net(False)),
    "block's option": lambda w, r: w.net.blocks[1].opts.update(p=float(r.randrange(1, 4))),
    "parameter": lambda w, r: _set(w.net, w=wf.full(2, r.random())),
    "keys": lambda w, r: _set(w, tree=dict(reversed(w.tree.items()))),
    "nothing": lambda w, r: None,
}


def _append(w, x, lr):
    w.kept["hist"].append(x.sum() * lr)


def _total(w, x, lr):
    w.kept["total"] = w.kept["total"] + x.sum()


def _attribute(w, x, lr):
    w.plain.w = 0.9 * w.plain.w + x


def _keep(w, x, lr):
    w.kept["last"], w.kept["view"], w.kept["lr"] = x, x[1:], lr * 2


def _counter(w, x, lr):
    w.plain.k += 1


def _counted(w, x, lr):
    w.kept["c"] = w.kept["c"] + lr


REBINDS = {f.__name__: f for f in (_append, _total, _attribute, _keep, _counter, _counted)}
WAYS = ["arguments", "closure", "method", "tree"]
FORMS = {
    "computed": lambda a: wf.array(a), "pending": lambda a: wf.array(a) * 1, "view": lambda a: wf.array([9, *a])[1:],
    "numpy": lambda a: np.array(a, np.float32),
}


def program(seed: int, way: str, jitted: bool) -> list:
    """What a program of some calls gives and leaves."""
    r, w = random.Random(seed), World()
    reads = r.sample(list(READS), 2)
    inside = [REBINDS[n] for n in r.sample(list(REBINDS), r.randrange(3))]
    changes = r.sample(list(CHANGES), 5)
    jit = wf.jit if jitted else lambda f: f

    def body(parts, x, lr):
        out = [READS[name](parts, x) for name in reads]
        for change in inside:
            change(w, x, lr)
        return out[0] * lr + out[1]

    def bound(self, tree, x, lr):
        return body({"plain": self.plain, "net": self.net, "tree": tree}, x, lr)

    arguments, step = {
        "method": (lambda: (w, w.tree), jit(bound)),
        "closure": (lambda: (w.tree,), jit(lambda tree, x, lr: body({"plain": w.plain, "net": w.net, "tree": tree}, x, lr))),
        "tree": (lambda: ({"plain": w.plain, "net": w.net, "tree": w.tree},), jit(lambda parts, x, lr: body(parts, x, lr))),
        "arguments": (
            lambda: (w.plain, w.net, w.tree),
            jit(lambda plain, net, tree, x, lr: body({"plain": plain, "net": net, "tree": tree}, x, lr)),
        ),
    }[way]
    seen = []
    for k in range(10):
        if k % 3 == 2 or k > 6:  # twice unchanged in a row, so that warm calls come to pass
            CHANGES[r.choice(changes)](w, r)
        x = FORMS[r.choice(list(FORMS))]([r.randrange(4), r.randrange(4)]) if k % 2 else FORMS["computed"]([1.0, 2.0])
        seen.append(step(*arguments(), x, float(r.randrange(1, 3))))
        seen.append(sum(v.sum() for v in w.kept["hist"]) if w.kept["hist"] else 0)
        seen += [v for n, v in w.kept.items() if n != "hist"] + [w.plain.w, w.plain.k]
        seen = [np.array(v) for v in seen]
    return seen


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*leaves arrays behind")
def test_programs_with_changes_give_what_they_give_without_jit(way):
    for seed in range(8):
        for got, want in zip(program(seed, way, True), program(seed, way, False), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"seed {seed}")


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("closure", [False, True])
def test_every_change_shows_in_a_warm_function(read, closure):
    r, w, x = random.Random(7), World(), wf.array([1.0, 2.0])
    f = wf.jit(lambda plain, net, tree, x: READS[read]({"plain": plain, "net": net, "tree": tree}, x))
    g = wf.jit(lambda tree, x: READS[read]({"plain": w.plain, "net": w.net, "tree": tree}, x))
    for name in CHANGES:
        CHANGES[name](w, r)
        want = READS[read](vars(w), x).numpy()
        for _ in range(2):
            got = g(w.tree, x) if closure else f(w.plain, w.net, w.tree, x)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, err_msg=name)
    traces = (f.traces, g.traces)
    for _ in range(3):
        g(w.tree, x) if closure else f(w.plain, w.net, w.tree, x)
    assert (f.traces, g.traces) == traces  # what did not change is not traced again


class Mean:
    def __init__(self):
        self.v = wf.zeros(2)
        self.all = []

    @wf.jit
    def step(self, x):
        self.v = 0.9 * self.v + x
        return self.v.sum()

    @wf.jit
    def noted(self, x):
        self.all.append(x * 2)
        return self.all[-1].sum()


def test_state_that_is_rebound_inside_is_set_at_every_call():
    m, want = Mean(), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            want, before = 0.9 * want + 1, m.v
            assert float(m.step(wf.ones(2))) == pytest.approx(2 * want, rel=1e-6)
            assert m.v is not before and m.v.tolist() == pytest.approx([want, want])
    assert Mean.step.traces == 1


def test_a_list_that_grows_is_right_at_every_call_and_warned_of_once():
    m = Mean()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in range(6):
            assert float(m.noted(wf.full(2, float(k)))) == 4 * k
    assert [a.tolist() for a in m.all] == [[2.0 * k] * 2 for k in range(6)]
    assert [w.category for w in seen] == [RuntimeWarning]
    assert seen[0].filename == __file__ and "leaves arrays behind" in str(seen[0].message)
    assert "in `self.all`, which grows" in str(seen[0].message)


def test_what_is_made_once_and_kept_and_cycles_of_garbage_are_no_state():
    made = {}

    @wf.jit
    def f(x):
        n = x.shape[0]
        if n not in made:
            made[n] = wf.arange(n) + 1.0
        cycle = [x * 2]
        cycle.append(cycle)
        return x * made[n]

    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*leaves arrays behind")
            for n, _ in itertools.product((1, 2, 3, 4), range(4)):
                assert f(wf.ones(n)).tolist() == list(range(1, n + 1))
    finally:
        gc.enable()
    assert f.traces == 8  # for each length once to make, once to use


def test_objects_of_another_content_are_not_taken_for_one_that_had_the_number():
    f = wf.jit(lambda p, x: x * p.w + p.k)
    x = wf.ones(2)
    for k in range(30):
        p = Plain(0)
        p.me, p.k, p.w = None, k % 3, wf.full(2, float(k))
        assert f(p, x).tolist() == [k + k % 3] * 2
        del p


def test_objects_that_are_rebound_at_each_call_keep_few_old_arrays_alive():
    p, f, x, old = Plain(0), wf.jit(lambda p, x: x * p.w), wf.ones(2), []
    for k in range(150):
        p.w = wf.full(2, float(k))
        old.append(weakref.ref(p.w))
        assert f(p, x).tolist() == [k, k]
    assert sum(ref() is not None for ref in old) <= 70


def test_an_object_beside_a_captured_cell_that_is_an_argument_too_is_found_again():
    p, state = Plain(0), wf.zeros(2)

    @wf.jit
    def f(p, x):
        state[...] = state + p.k
        return x * p.k

    for k in range(1, 6):
        assert f(p, state).tolist() == [2 * 2 * k] * 2
    assert f.traces <= 2


def test_objects_without_a_hash_are_what_they_hold():
    f = wf.jit(lambda options, x: x * options.k)
    options = SimpleNamespace(k=2)
    assert f(options, wf.ones(1)).item() == 2
    options.k = 3
    assert f(options, wf.ones(1)).item() == 3


def test_a_dict_comes_as_the_caller_ordered_it():
    seen = []
    f = wf.jit(lambda d, **names: seen.append((list(d), list(names))) or d["a"])
    x = wf.ones(1)
    for d in ({"a": x, "b": x}, {"b": x, "a": x}, {"a": x, "b": x}):
        f(d, p=x, q=x)
        f(d, q=x, p=x)
    assert seen == [(list(d), list(n)) for d, n in itertools.product(("ab", "ba", "ab"), ("pq", "qp"))]
    assert wf.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 20, "a": 10}) == {"a": 11, "b": 22}


def test_layers_of_weft_hold_nothing_that_changes_unseen():
    from weft.transforms.content import StaticKey

    for layer in (
        wf.nn.Sequential(wf.nn.Linear(2, 3), wf.nn.Tanh()), wf.nn.Conv2d(1, 2, 3), wf.nn.LSTM(2, 3), wf.nn.BatchNorm2d(2),
        wf.nn.MaxPool2d(2), wf.nn.Embedding(3, 2), wf.nn.LayerNorm(2), wf.nn.MultiHeadAttention(4, 2), wf.optim.Adam(1e-3),
    ):
        content = StaticKey()
        content.of(layer)
        content.close()
        assert all(record.raises_count for record in content.records), layer


class _Pair:
    def __init__(self):
        self.a, self.b = 1.0, 2.0


@pytest.mark.parametrize("make, read, change", [
    (lambda: {"a": 1.0, "b": 2.0}, lambda h: h["a"], lambda h: h.update(a=5.0)),
    (lambda: {"a": 1.0, "b": 2.0}, lambda h: next(iter(h.values())), lambda h: h.update(a=h.pop("a"))),
    (lambda: OrderedDict(a=1.0, b=2.0), lambda h: next(iter(h.values())), lambda h: h.move_to_end("a")),
    (lambda: [1.0, 2.0], lambda h: h[0], lambda h: h.insert(0, 5.0)),
    (lambda: [1.0, 2.0], lambda h: h[-1], lambda h: h.pop()),
    (lambda: deque([1.0, 2.0]), lambda h: h[0], lambda h: h.rotate(1)),
    (lambda: {1.0, 2.0}, lambda h: max(h), lambda h: h.add(3.0)),
    (_Pair, lambda h: h.a, lambda h: setattr(h, "a", 5.0)),
    (_Pair, lambda h: getattr(h, "c", 1.0), lambda h: setattr(h, "c", 5.0)),
])
def test_every_change_shows_in_a_step_with_state_after_many_calls(make, read, change):
    held, x, state = make(), wf.ones(2), wf.zeros(2)

    @wf.jit
    def step(x):
        state[...] = state + 1
        return x * read(held)

    for k in range(1, 4):
        for _ in range(4):
            assert step(x).tolist() == [read(held)] * 2
        assert state.tolist() == [4 * k] * 2
        if k == 1:
            change(held)
        else:
            held = make()


@pytest.mark.parametrize("kind", [lambda f: lambda self, x: f(x), staticmethod, lambda f: classmethod(lambda cls, x: f(x)),
                                  lambda f: property(lambda self: f)])
def test_methods_of_a_class_are_compared_by_their_code(kind):
    class Owner:
        pass

    def run(owner, x):
        return owner.apply(x) + x

    owner, warm, held = Owner(), wf.jit(run), wf.jit(lambda x: run(owner, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(12):
            Owner.apply = kind(lambda x: x * k)  # noqa: B023  the closure variable is a run-time number
            assert warm(owner, wf.ones(2)).tolist() == held(wf.ones(2)).tolist() == [k + 1.0] * 2
    assert warm.traces <= 3 and held.traces <= 3
    Owner.apply = kind(lambda x: x - 5.0)
    assert warm(owner, wf.ones(2)).tolist() == held(wf.ones(2)).tolist() == [-3.0] * 2
