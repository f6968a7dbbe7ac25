"""Optimizers step by step against their papers in float64, as they are called and under jit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import references as ref
from stepping import SHAPES, STEPS, arrays, as_weft, compare, rng, run

import weft as wf
from weft import optim

CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "sgd": (lambda: optim.SGD(0.1), lambda p, g: ref.sgd(p, g, 0.1)),
    "momentum": (lambda: optim.SGD(0.1, 0.9), lambda p, g: ref.sgd(p, g, 0.1, 0.9)),
    "dampening": (lambda: optim.SGD(0.1, 0.9, dampening=0.4), lambda p, g: ref.sgd(p, g, 0.1, 0.9, 0.4)),
    "nesterov": (lambda: optim.SGD(0.1, 0.9, True), lambda p, g: ref.sgd(p, g, 0.1, 0.9, nesterov=True)),
    "adagrad": (lambda: optim.AdaGrad(0.1), lambda p, g: ref.adagrad(p, g, 0.1, 1e-10)),
    "adagrad, first sum": (
        lambda: optim.AdaGrad(0.1, initial_accumulator_value=0.4), lambda p, g: ref.adagrad(p, g, 0.1, 1e-10, 0.4),
    ),
    "rmsprop": (lambda: optim.RMSprop(0.1), lambda p, g: ref.rmsprop(p, g, 0.1, 0.99, 1e-8)),
    "rmsprop, momentum": (lambda: optim.RMSprop(0.1, 0.9, 0.01, 0.5), lambda p, g: ref.rmsprop(p, g, 0.1, 0.9, 0.01, 0.5)),
    "rmsprop, centered": (
        lambda: optim.RMSprop(0.1, 0.9, 0.01, 0.5, True), lambda p, g: ref.rmsprop(p, g, 0.1, 0.9, 0.01, 0.5, True),
    ),
    "rmsprop of graves": (lambda: optim.RMSpropGraves(0.1), lambda p, g: ref.graves(p, g, 0.1, 0.95, 0.9, 1e-4)),
    "adadelta": (lambda: optim.AdaDelta(0.8, 0.95, 1e-2), lambda p, g: ref.adadelta(p, g, 0.8, 0.95, 1e-2)),
    "adadelta, defaults": (lambda: optim.AdaDelta(), lambda p, g: ref.adadelta(p, g, 1.0, 0.9, 1e-6)),
    "smorms3": (lambda: optim.SMORMS3(0.1), lambda p, g: ref.smorms3(p, g, 0.1)),
    "adam": (lambda: optim.Adam(0.1), lambda p, g: ref.adam(p, g, 0.1)),
    "adam, large eps": (lambda: optim.Adam(0.1, (0.7, 0.8), 0.1), lambda p, g: ref.adam(p, g, 0.1, 0.7, 0.8, 0.1)),
    "adam, weight decay": (lambda: optim.Adam(0.1, weight_decay=0.3), lambda p, g: ref.adam(p, g, 0.1, wd=0.3)),
    "adamw": (lambda: optim.AdamW(0.1, weight_decay=0.3), lambda p, g: ref.adam(p, g, 0.1, decoupled=0.3)),
    "amsgrad": (lambda: optim.AMSGrad(0.1, (0.9, 0.6)), lambda p, g: ref.adam(p, g, 0.1, b2=0.6, amsgrad=True)),
    "adamax": (lambda: optim.AdaMax(0.1, (0.9, 0.8)), lambda p, g: ref.adamax(p, g, 0.1, 0.9, 0.8)),
    "nadam": (
        lambda: optim.Nadam(0.1, momentum_decay=0.5), lambda p, g: ref.nadam(p, g, 0.1, 0.9, 0.999, 1e-8, 0.5),
    ),
    "adabelief": (lambda: optim.AdaBelief(0.1), lambda p, g: ref.adabelief(p, g, 0.1, 0.9, 0.999, 1e-16)),
    "adabelief, large eps": (
        lambda: optim.AdaBelief(0.1, (0.8, 0.9), 0.01), lambda p, g: ref.adabelief(p, g, 0.1, 0.8, 0.9, 0.01),
    ),
    "adabound": (
        lambda: optim.AdaBound(0.1, final_lr=0.08, gamma=0.3), lambda p, g: ref.adabound(p, g, 0.1, 0.08, 0.3),
    ),
    "amsbound": (
        lambda: optim.AMSBound(0.1, (0.9, 0.6), final_lr=0.08, gamma=0.1),
        lambda p, g: ref.adabound(p, g, 0.1, 0.08, 0.1, b2=0.6, ams=True),
    ),
    "lion": (
        lambda: optim.Lion(0.1, (0.9, 0.95), weight_decay=0.2), lambda p, g: ref.lion(p, g, 0.1, 0.9, 0.95, 0.2),
    ),
    "lamb": (lambda: optim.LAMB(0.1, weight_decay=0.2), lambda p, g: ref.lamb(p, g, 0.1, 0.9, 0.999, 1e-6, 0.2)),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_follows_the_paper(case: str, jitted: bool) -> None:
    make, reference = CASES[case]
    start, grads = arrays(), [arrays() for _ in range(STEPS)]
    compare(run(make(), start, grads, jitted), start, grads, reference, 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_follows_the_paper_in_float64(case: str) -> None:
    make, reference = CASES[case]
    start, grads = arrays("float64"), [arrays("float64") for _ in range(STEPS)]
    compare(run(make(), start, grads, True), start, grads, reference, 1e-9 if case != "adamax" else 1e-6)


@pytest.mark.parametrize("jitted", [False, True])
def test_eve_follows_the_loss(jitted: bool) -> None:
    start, grads, losses = arrays(), [arrays() for _ in range(STEPS)], rng.uniform(1, 9, STEPS).astype("float32")
    found = run(optim.Eve(0.1, (0.9, 0.99, 0.8), c=5.0, least=0.5), start, grads, jitted, losses)
    compare(found, start, grads, lambda p, g: ref.eve(p, g, losses.astype(float), 0.1, 0.9, 0.99, 0.8, 1e-8, 5.0, 0.5), 1e-5)
    with pytest.raises(ValueError, match="needs loss="):
        optim.Eve().update(as_weft(start), as_weft(grads[0]))


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("kind", ["SantaE", "SantaSSS"])
def test_santa_walks_and_refines(kind: str, jitted: bool) -> None:
    start, grads = arrays("float64"), [arrays("float64") for _ in range(STEPS)]
    wf.random.seed(7)
    found = run(getattr(optim, kind)(0.01, eps=1e-8, burnin=6), start, grads, jitted)
    wf.random.seed(7)
    first = {name: wf.random.normal(0.0, 0.1, s, dtype="float64").numpy() for name, s in SHAPES.items()}
    noise = [{name: wf.random.normal(0.0, 1.0, s, dtype="float64").numpy() for name, s in SHAPES.items()} for _ in grads]
    for name in SHAPES:
        compare_one = ref.santa(
            start[name], [g[name] for g in grads], [z[name] for z in noise], first[name],
            0.01, 0.95, 1e-8, 0.5, 6, 5.0, 16.0, kind == "SantaSSS",
        )
        for k, want in enumerate(compare_one):
            np.testing.assert_allclose(found[k][name], want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
def test_sam_steps_from_where_it_was(adaptive: bool, jitted: bool) -> None:
    a, start = rng.normal(size=(5, 5)), rng.normal(size=5)
    p, m = {"w": wf.array(start.astype("float32"))}, wf.array(a.astype("float32"))
    slope = lambda: wf.grad(lambda p: wf.sin(m @ p["w"]).sum())(p)  # noqa: E731
    optimizer = optim.SAM(optim.SGD(0.05), rho=0.3, adaptive=adaptive).init(p)
    step = lambda: optimizer.update(p, slope(), gradient_at=slope)  # noqa: E731
    step = wf.jit(step) if jitted else step
    a32, start = a.astype("float32").astype(float), start.astype("float32").astype(float)
    for want in ref.sam(start, lambda w: a32.T @ np.cos(a32 @ w), STEPS, 0.05, 0.3, adaptive):
        step()
        np.testing.assert_allclose(p["w"].numpy(), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="gradient_at="):
        optimizer.update(p, slope())


def test_clipping() -> None:
    grads = {"a": rng.normal(size=(4, 5)), "b": [rng.normal(size=5)]}
    norm = np.sqrt((grads["a"] ** 2).sum() + (grads["b"][0] ** 2).sum())
    given = {"a": wf.array(grads["a"].astype("float32")), "b": [wf.array(grads["b"][0].astype("float32"))]}
    np.testing.assert_allclose(float(optim.global_norm(given)), norm, rtol=1e-5)
    for limit in (0.5, 2 * norm):
        out = optim.clip_by_norm(given, limit)
        np.testing.assert_allclose(out["b"][0].numpy(), grads["b"][0] * min(1, limit / norm), rtol=1e-5)
        np.testing.assert_allclose(out["a"].numpy(), grads["a"] * min(1, limit / norm), rtol=1e-5)
    assert (optim.clip_by_norm(given, 2 * norm)["a"].numpy() == given["a"].numpy()).all()
    np.testing.assert_allclose(optim.clip_by_value(given, 0.3)["a"].numpy(), np.clip(grads["a"], -0.3, 0.3), rtol=1e-6)
    assert float(optim.global_norm(wf.full(4, 300.0, dtype="float16"))) == 600.0, "squares may not overflow"
    net = wf.nn.Linear(3, 2)
    gradient = optim.clip_by_norm(wf.grad(lambda net: net(wf.ones((9, 3))).sum())(net), 0.25)
    assert isinstance(gradient, wf.nn.Linear) and abs(float(optim.global_norm(gradient)) - 0.25) < 1e-5


def test_clipping_inside_the_step() -> None:
    start, grads = arrays(), [arrays() for _ in range(3)]
    found = run(optim.SGD(0.1, clip_value=0.9, clip_norm=1.5), start, grads, True)
    p = {name: a.astype(float) for name, a in start.items()}
    for k, g in enumerate(grads):
        cut = {name: np.clip(a.astype(float), -0.9, 0.9) for name, a in g.items()}
        norm = np.sqrt(sum((a**2).sum() for a in cut.values()))
        for name in SHAPES:
            p[name] = p[name] - 0.1 * cut[name] * min(1, 1.5 / norm)
            np.testing.assert_allclose(found[k][name], p[name], rtol=1e-5, atol=1e-6)


SCHEDULES = {
    "constant": (optim.schedules.constant(0.5), lambda k: 0.5),
    "step": (optim.schedules.step(3, 0.2), lambda k: 0.2 ** (k // 3)),
    "exponential": (optim.schedules.exponential(0.7), lambda k: 0.7**k),
    "cosine": (optim.schedules.cosine(6, 0.1), lambda k: 0.1 + 0.9 * (1 + np.cos(np.pi * min(k, 6) / 6)) / 2),
    "warmup": (optim.schedules.warmup(4), lambda k: min(1, (k + 1) / 4)),
    "warmup, then cosine": (
        optim.schedules.warmup(3, optim.schedules.cosine(4)),
        lambda k: (k + 1) / 3 if k < 3 else (1 + np.cos(np.pi * min(k - 3, 4) / 4)) / 2,
    ),
    "linear": (optim.schedules.linear(5, 0.2), lambda k: 1 - 0.8 * min(k / 5, 1)),
    "multistep": (optim.schedules.multistep([2, 5], 0.3), lambda k: 0.3 ** ((k >= 2) + (k >= 5))),
    "of the user": (lambda count: 1 / (1 + count), lambda k: 1 / (1 + k)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_compile_nothing_new(name: str) -> None:
    schedule, factor = SCHEDULES[name]
    start, ones = arrays(), [{n: np.ones(s, "float32") for n, s in SHAPES.items()}] * STEPS
    found = run(optim.SGD(0.1, schedule=schedule), start, ones, True)
    want = start["b"] - 0.1 * np.cumsum([factor(k) for k in range(STEPS)])[:, None]
    np.testing.assert_allclose([f["b"] for f in found], want, rtol=1e-5, atol=1e-6)


def test_schedules_say_what_they_are() -> None:
    shown = repr(optim.Adam(schedule=optim.schedules.warmup(10, optim.schedules.cosine(100, 0.1))))
    assert "schedule=warmup(steps=10, then=cosine(steps=100, least=0.1))" in shown
    for name, (schedule, _) in SCHEDULES.items():
        if name != "of the user":
            for same in (eval(repr(schedule), vars(optim.schedules)), pickle.loads(pickle.dumps(schedule))):
                assert float(same(wf.array(2.0))) == float(schedule(wf.array(2.0)))


def test_the_final_rate_of_adabound_follows_the_schedule() -> None:
    start, grads = arrays(), [arrays() for _ in range(2)]
    found = run(optim.AdaBound(0.1, final_lr=0.08, gamma=0.3, schedule=optim.schedules.constant(0.5)), start, grads, True)
    compare(found, start, grads, lambda p, g: ref.adabound(p, g, 0.05, 0.04, 0.3), 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_half_parameters_keep_state_in_float32(case: str, dtype: str) -> None:
    make, reference = CASES[case]
    start, grads = ([{name: half(a, dtype) for name, a in arrays().items()} for _ in range(n)] for n in (1, STEPS))
    p, optimizer = dict(start[0]), make()
    p = {name: a.copy() for name, a in p.items()}
    optimizer.init(p)
    step = wf.jit(lambda g: optimizer.update(p, g))
    for g in grads:
        step(g)
    for name in p:
        assert p[name].dtype.name == dtype and all(a.dtype == np.float32 for a in optimizer.state[name].values())
        want = list(reference(exact(start[0][name]), [exact(g[name]) for g in grads]))[-1]
        assert np.abs(exact(p[name]) - want).max() < STEPS * (4e-3 if dtype == "float16" else 3e-2)


ON_THEIR_OWN: dict[str, Callable[[], Any]] = {  # those that need more than gradients
    "Eve": lambda: optim.Eve(0.05), "SantaE": lambda: optim.SantaE(1e-3, burnin=3), "SantaSSS": lambda: optim.SantaSSS(1e-3),
    "SAM": lambda: optim.SAM(optim.SGD(0.05), rho=0.1),
}


@pytest.mark.parametrize("name", ON_THEIR_OWN)
def test_half_parameters_of_those_that_need_more(name: str) -> None:
    first = rng.normal(size=(4, 5))
    for dtype, bound in (("float16", 4e-3), ("bfloat16", 3e-2)):
        ends = []
        for kept in (dtype, "float32"):
            wf.random.seed(5)
            p, optimizer = {"w": half(first, dtype).astype(kept)}, ON_THEIR_OWN[name]()
            both = wf.value_and_grad(lambda p: (p["w"].astype("float32") ** 2).sum())
            optimizer.init(p)

            def step(p=p, optimizer=optimizer, both=both) -> None:
                value, slope = both(p)
                optimizer.update(p, slope, loss=value, gradient_at=lambda: both(p)[1])

            for _ in range(4):  # Santa divides by its momentum: single elements may part
                wf.jit(step)()
            assert p["w"].dtype.name == kept
            ends.append(exact(p["w"]))
        assert 0 < np.abs(ends[1] - first).max()
        assert np.median(np.abs(ends[0] - ends[1])) < bound


def test_every_optimizer_is_here() -> None:
    made = {n for n in optim.__all__ if isinstance(getattr(optim, n), type) and issubclass(getattr(optim, n), optim.Optimizer)}
    assert made == {type(make()).__name__ for make, _ in CASES.values()} | ON_THEIR_OWN.keys() | {"Optimizer"}
    schedules = {n for n, f in vars(optim.schedules).items() if callable(f) and f.__module__ == optim.schedules.__name__}
    assert {n for n in schedules if n[0] != "_"} - {"Schedule"} <= SCHEDULES.keys()


def half(a: np.ndarray, dtype: str) -> Any:
    return wf.array(a).astype(dtype)


def exact(a: Any) -> np.ndarray:
    return a.astype("float64").numpy()


def test_a_shared_layer_moves_once() -> None:
    """Its gradient is that of both uses, and it stands in the model under one name."""
    one, two = wf.nn.Linear(3, 3), wf.nn.Linear(3, 3)
    two.weight, two.bias = one.weight.copy(), one.bias.copy()
    shared, x = wf.nn.Sequential(one, wf.nn.Tanh(), one), wf.array(rng.normal(size=(4, 3)).astype("float32"))
    assert list(shared.parameters()) == list(shared.arrays()) == ["0.weight", "0.bias"]
    apart = wf.nn.Sequential(one, wf.nn.Tanh(), two)
    slopes = wf.grad(lambda net: net(x).sum())(apart).parameters()
    found = wf.grad(lambda net: net(x).sum())(shared)
    np.testing.assert_allclose(
        found.parameters()["0.weight"].numpy(), slopes["0.weight"].numpy() + slopes["2.weight"].numpy(), rtol=1e-5, atol=1e-6)
    norm = np.sqrt(sum((g.numpy() ** 2).sum() for g in found.parameters().values()))
    np.testing.assert_allclose(float(optim.global_norm(found)), norm, rtol=1e-5)
    before, g = one.weight.numpy().copy(), found.parameters()["0.weight"].numpy()
    optim.SGD(0.1, weight_decay=0.5).update(shared, found)
    np.testing.assert_allclose(one.weight.numpy(), before - 0.1 * (g + 0.5 * before), rtol=1e-5, atol=1e-6)


FUSED = {
    "AdamW": dict(weight_decay=0.1, clip_value=1.0, schedule=optim.schedules.warmup(10, optim.schedules.cosine(100))),
    "AMSBound": {}, "AdaDelta": {}, "Eve": {}, "LAMB": {}, "Lion": dict(weight_decay=0.1), "Nadam": {}, "RMSpropGraves": {},
    "SMORMS3": {}, "SantaSSS": {},
}


@pytest.mark.parametrize("name", FUSED)
def test_the_update_of_a_parameter_is_one_kernel(name: str, capsys) -> None:
    optimizer = getattr(optim, name)(**FUSED[name])
    p = {"w": wf.array(rng.normal(size=(23, 17)).astype("float32"))}
    g, loss = wf.array(rng.normal(size=(23, 17)).astype("float32")), wf.array(2.0)
    optimizer.init(p)
    wf.eval(p, g, loss, optimizer.state, optimizer.shared, optimizer.step_count)
    found = wf.explain(wf.jit(lambda g, loss: optimizer.update(p, {"w": g}, loss=loss)), g, loss)
    assert sum(k.bytes > 100 for k in found.kernels) == 1, str(found)


@pytest.mark.parametrize("make", [
    lambda: optim.Eve(0.05), lambda: optim.SAM(optim.Adam(0.05)), lambda: optim.SantaE(1e-3, burnin=5),
    lambda: optim.Lion(0.01, schedule=optim.schedules.cosine(60), groups={"0": {"lr": 0.02}}),
])
def test_fit_gives_what_they_need(make) -> None:
    x = np.random.default_rng(1).normal(size=(64, 3)).astype("float32")
    y = (x.sum(1) > 0).astype("int32")
    wf.random.seed(3)
    net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
    history = wf.train.fit(net, x, y, epochs=15, batch_size=16, optimizer=make(), show=False)
    assert history.loss[-1] < history.loss[0] and np.isfinite(history.loss).all()
