"""Options of optimizers: set, refused, of groups of parameters, kept with the state."""

from __future__ import annotations

import numpy as np
import pytest
import references as ref
from stepping import SHAPES, STEPS, arrays, as_weft, rng, run

import weft as wf
from weft import optim


def test_groups_change_options_of_some_parameters() -> None:
    start, grads = arrays(), [arrays() for _ in range(STEPS)]
    groups = {"*": {"weight_decay": 0.2}, "b": {"lr": 0.02, "weight_decay": 0, "betas": (0.5, 0.9)}}
    found = run(optim.Adam(0.1, weight_decay=0.7, groups=groups), start, grads, True)
    both = {"w": lambda p, g: ref.adam(p, g, 0.1, wd=0.2), "b": lambda p, g: ref.adam(p, g, 0.02, 0.5, 0.9)}
    for name, reference in both.items():
        for k, want in enumerate(reference(start[name].astype(float), [g[name].astype(float) for g in grads])):
            np.testing.assert_allclose(found[k][name], want, rtol=1e-5, atol=1e-5)


def test_groups_by_layer_freeze_and_keep_their_rate() -> None:
    net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Linear(4, 2))
    optimizer = optim.SGD(0.5, groups={"0": {"lr": 0}, "2.bias": {"lr": 0.25}, "*.weight": {"momentum": 0.9}}).init(net)
    before = {name: p.numpy().copy() for name, p in net.parameters().items()}
    gradient = wf.grad(lambda net: net(wf.ones((2, 3))).sum())(net)
    slopes = {name: g.numpy() for name, g in gradient.parameters().items()}
    optimizer.update(net, gradient, 1.0)
    moved = {name: before[name] - p.numpy() for name, p in net.parameters().items()}
    assert not moved["0.weight"].any() and not moved["0.bias"].any()
    np.testing.assert_allclose(moved["2.weight"], slopes["2.weight"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved["2.bias"], 0.25 * slopes["2.bias"], rtol=1e-5, atol=1e-6)
    assert sorted(optimizer.arrays()) == ["2.weight/velocity", "step_count"]


def test_nadam_keeps_its_product_for_each_group() -> None:
    start, grads = arrays(), [arrays() for _ in range(STEPS)]
    optimizer = optim.Nadam(0.1, momentum_decay=0.5, groups={"b": {"momentum_decay": 0.1}})
    found = run(optimizer, start, grads, True)
    for name, decay in (("w", 0.5), ("b", 0.1)):
        want = list(ref.nadam(start[name].astype(float), [g[name].astype(float) for g in grads], 0.1, 0.9, 0.999, 1e-8, decay))
        np.testing.assert_allclose(found[-1][name], want[-1], rtol=1e-5, atol=1e-5)
    assert {"//product", "b//product"} <= optimizer.arrays().keys()


@pytest.mark.parametrize("jitted", [False, True])
def test_a_rate_that_is_set_counts_from_the_next_step(jitted: bool) -> None:
    """Also for groups without a rate of their own; nothing is traced again."""
    start, grads = arrays(), [arrays() for _ in range(4)]
    p = as_weft(start)
    optimizer = optim.SGD(0.1, groups={"b": {"weight_decay": 0.0}}).init(p)
    step = wf.jit(lambda g: optimizer.update(p, g)) if jitted else lambda g: optimizer.update(p, g)
    rates = (0.1, 0.05, 0.0, 0.2)
    for rate, g in zip(rates, grads, strict=True):
        optimizer.lr = rate
        step(as_weft(g))
    for name in p:
        want = start[name] - sum(rate * g[name] for rate, g in zip(rates, grads, strict=True))
        np.testing.assert_allclose(p[name].numpy(), want, rtol=1e-5, atol=1e-6)
    assert optimizer.lr == 0.2 and (not jitted or step.traces == 1)
    with pytest.raises(ValueError, match="lr must not be negative"):
        optimizer.lr = -1.0
    assert optimizer.lr == 0.2


def test_what_is_no_number_is_refused_by_name() -> None:
    for name, make in (
        ("Adam: lr", lambda: optim.Adam(lr="x")), ("SGD: lr", lambda: optim.SGD(None)),
        ("SGD: momentum", lambda: optim.SGD(0.1, momentum="x")),
        ("AdamW: weight_decay", lambda: optim.AdamW(1, weight_decay="x")),
        ("Adam: clip_norm", lambda: optim.Adam(1, clip_norm="x")), ("Adam: clip_value", lambda: optim.Adam(1, clip_value=[1])),
        ("SGD: lr", lambda: optim.SGD(0.1, groups={"a": {"lr": "x"}})),
    ):
        with pytest.raises(wf.errors.DTypeError, match=f"{name} must be a number, not"):
            make()
    for optimizer in (optim.SGD(0.5), optim.SGD(0.5).init(as_weft(arrays()))):
        for option in ("lr", "weight_decay"):
            before = getattr(optimizer, option)
            with pytest.raises(wf.errors.DTypeError, match=f"SGD: {option} must be a number, not 'x'"):
                setattr(optimizer, option, "x")
            assert getattr(optimizer, option) == before
    assert optim.SGD(np.float32(0.5)).lr == optim.SGD(wf.array(0.5)).lr == optim.SGD(1).lr / 2


def test_options_that_are_set_are_seen_by_groups_and_jitted_steps() -> None:
    start, grads = arrays(), [arrays() for _ in range(6)]
    p = as_weft(start)
    optimizer = optim.SGD(0.1, weight_decay=0.5, groups={"b": {"weight_decay": 0.0}}).init(p)
    step = wf.jit(lambda g: optimizer.update(p, g))
    for k, g in enumerate(grads):
        if k == 2:
            optimizer.weight_decay = 0.0
        if k == 3:
            optimizer.momentum = 0.9
        step(as_weft(g))
    for name, decay in (("w", 0.5), ("b", 0.0)):
        q, v = start[name].astype(float), 0.0
        for k, g in enumerate(grads):
            v = (0.9 * v if k >= 3 else 0.0) + g[name] + (decay * q if k < 2 else 0.0)
            q = q - 0.1 * v
            v = v if k >= 3 else 0.0
        np.testing.assert_allclose(p[name].numpy(), q, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="momentum must lie in"):
        optimizer.momentum = 1.5
    assert optimizer.momentum == 0.9
    with pytest.raises(ValueError, match="groups are fixed"):
        optimizer.groups = {}
    for write in (lambda: optimizer.groups.__setitem__("w", {}), lambda: optimizer.groups.__delitem__("b")):
        with pytest.raises(ValueError, match="groups are fixed .*groups\\['pattern'\\]\\['lr'\\] = 0.1"):
            write()


@pytest.mark.filterwarnings("ignore:.*is traced again each time")
@pytest.mark.parametrize("jitted", [False, True])
def test_options_written_into_groups_hold_from_the_next_step(jitted: bool) -> None:
    """In any order: set, set anew, deleted, of patterns that overlap; new rates are not traced again."""
    patterns = {"*": ("lr", "weight_decay"), "b": ("lr", "momentum"), "?": ("weight_decay",)}
    groups = {"*": {"lr": 0.3}, "b": {"lr": 0.1}, "?": {}}
    start = arrays()
    p, q = as_weft(start), {name: x.astype(float) for name, x in start.items()}
    velocity = {name: np.zeros_like(x) for name, x in q.items()}
    optimizer = optim.SGD(0.2, momentum=0.5, groups=groups).init(p)
    step = wf.jit(lambda g: optimizer.update(p, g)) if jitted else lambda g: optimizer.update(p, g)
    of_all = {"lr": 0.2, "weight_decay": 0.0, "momentum": 0.5}
    for k in range(24):
        pattern = str(rng.choice(list(patterns)))
        option = str(rng.choice(patterns[pattern]))
        if k % 4 == 3 and option in groups[pattern]:
            del groups[pattern][option], optimizer.groups[pattern][option]
        else:
            value = float(rng.uniform(0.1, 0.9)) * (rng.random() < 0.8 or option == "momentum")
            groups[pattern][option] = optimizer.groups[pattern][option] = value
        assert optimizer.groups == groups
        g = arrays()
        step(as_weft(g))
        for name in p:
            own = {k: v for pattern, options in groups.items() if pattern in ("*", "?", name) for k, v in options.items()}
            lr, decay, momentum = ({**of_all, **own}[option] for option in ("lr", "weight_decay", "momentum"))
            if lr or "lr" not in own:
                velocity[name] = momentum * velocity[name] + g[name] + decay * q[name]
                q[name] = q[name] - lr * velocity[name]
            np.testing.assert_allclose(p[name].numpy(), q[name], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="lr must not be negative"):
        optimizer.groups["b"]["lr"] = -1.0
    with pytest.raises(ValueError, match="group 'b': no option 'rate'"):
        optimizer.groups["b"].update(rate=1.0)
    assert optimizer.groups == groups
    if jitted:
        traces = []
        for rate in (0.1, 0.3, 0.2):
            for options in optimizer.groups.values():
                options["lr"] = rate
            step(as_weft(arrays()))
            traces.append(step.traces)
        assert len(set(traces)) == 1


def test_a_rate_may_begin_at_zero() -> None:
    """Where nothing is in proportion to it."""
    for make in (optim.SGD, optim.Adam, optim.RMSprop, lambda lr: optim.Adam(0.1, groups={"*": {"lr": lr}})):
        start, g = arrays(), as_weft(arrays())
        p, optimizer = as_weft(start), make(0.0)
        step = wf.jit(lambda g: optimizer.update(p, g))  # noqa: B023  called at once
        step(g)
        assert all((p[name].numpy() == x).all() for name, x in start.items())
        for options in optimizer.groups.values():
            options["lr"] = 0.1
        optimizer.lr = 0.1
        step(g)
        assert all((p[name].numpy() != x).any() for name, x in start.items())


def test_what_is_no_rate_or_gradient_is_refused_by_name() -> None:
    net = wf.nn.Sequential(wf.nn.Linear(4, 8), wf.nn.Linear(8, 1))
    g = wf.grad(lambda net: (net(wf.ones((3, 4))) ** 2).mean())(net)
    optimizer = optim.SGD(0.1)
    with pytest.raises(wf.errors.DTypeError, match=r"update: lr must be a number, not 'a' \(str\)"):
        optimizer.update(net, g, "a")
    with pytest.raises(wf.errors.ShapeError, match=r"update: lr has shape \(2,\), but must be one number"):
        optimizer.update(net, g, wf.ones(2))
    for tree in (wf.tree_map(np.asarray, g), {name: x.numpy() for name, x in g.parameters().items()}):
        with pytest.raises(TypeError, match=r"parameter '0.weight' is array.* \(ndarray\), .* \(8, 4\): wf.asarray"):
            optimizer.update(net, tree)
    with pytest.raises(wf.errors.ShapeError, match=r"'0.weight' has shape \(8, 4\), the gradients have other"):
        optimizer.update(net, {"other": wf.ones(1)})


def test_state_is_made_for_parameters_that_come_later() -> None:
    p = {"w": wf.ones(3)}
    optimizer = optim.Adam(0.1)
    optimizer.update(p, {"w": wf.ones(3)})
    p["late"] = wf.ones(2)
    optimizer.update(p, {"w": wf.ones(3), "late": wf.ones(2)})
    assert sorted(optimizer.state) == ["late", "w"] and p["late"].numpy()[0] < 1 and float(optimizer.step_count) == 2


@pytest.mark.parametrize("make,message", [
    (lambda: optim.AdaBound(lr=0.0), "lr must be positive"),
    (lambda: optim.SantaE(lr=0.0), "lr must be positive"),
    (lambda: optim.Adam(lr=-1.0), "lr must not be negative"),
    (lambda: optim.Adam(betas=(0.9, 1.0)), "betas"),
    (lambda: optim.Eve(betas=(0.9, 0.9)), "3 numbers"),
    (lambda: optim.Eve(c=1.0), "c must be above 1"),
    (lambda: optim.SGD(momentum=1.0), "momentum"),
    (lambda: optim.SGD(nesterov=True), "nesterov needs"),
    (lambda: optim.SGD(momentum=0.9, nesterov=True, dampening=0.1), "no dampening"),
    (lambda: optim.RMSprop(rho=-0.1), "rho"),
    (lambda: optim.AdaDelta(eps=0.0), "eps"),
    (lambda: optim.AdaBound(gamma=0.0), "gamma"),
    (lambda: optim.SantaE(n=0), "n must be positive"),
    (lambda: optim.Adam(weight_decay=-1.0), "weight_decay"),
    (lambda: optim.Adam(clip_norm=0.0), "clip_norm"),
    (lambda: optim.Adam(groups={"*": {"rate": 1.0}}), "no option 'rate'; it takes .*betas"),
    (lambda: optim.Adam(groups={"*": {"clip_norm": 1.0}}), "no option 'clip_norm'"),
    (lambda: optim.Adam(groups={"*": {"betas": (2.0, 0.0)}}), "betas"),
    (lambda: optim.Adam(groups={"*": {"lr": -1.0}}), "negative"),
    (lambda: optim.Adam(groups={"x.*": {"lr": 1.0}}).init({"w": wf.ones(2)}), "'x.\\*' matches no parameter; there are w"),
    (lambda: optim.SAM(optim.SGD(), rho=0.0), "rho"),
    (lambda: optim.clip_by_norm([wf.ones(2)], 0.0), "max_norm"),
    (lambda: optim.clip_by_value([wf.ones(2)], -1.0), "limit"),
    (lambda: optim.schedules.cosine(0), "steps"),
    (lambda: optim.schedules.exponential(0.0), "factor"),
])
def test_options_that_make_no_sense(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("jitted", [False, True])
def test_state_of_parameters_of_another_shape(jitted: bool) -> None:
    first, other = {"w": wf.ones(3), "b": wf.ones(())}, {"w": wf.ones((4, 3)), "b": wf.ones(())}
    for make in (optim.Adam, optim.Lion, lambda: optim.SGD(momentum=0.9)):
        optimizer = make().init(first)
        step = wf.jit(optimizer.update) if jitted else optimizer.update
        for more in ({}, {"new": wf.ones(2)}):
            with pytest.raises(ValueError, match=r"update: parameter 'w' has shape \(4, 3\), but the state .* shape \(3,\)"):
                step({**other, **more}, {**other, **more})
            step(first, first)
        optimizer.init(other).update(other, other)
    for model in (wf.ones(3), wf.ones(()), wf.ones(3)[0]):
        with pytest.raises(TypeError, match="the model is .* must be a Module or a dict of Arrays"):
            optim.Adam().init(model)


def test_gradients_that_do_not_fit() -> None:
    for gradients in ({}, {"w": wf.ones(4)}):
        with pytest.raises(wf.errors.ShapeError, match="parameter 'w'"):
            optim.Adam().update({"w": wf.ones(3)}, gradients)
    with pytest.raises(TypeError, match="must be an Optimizer"):
        optim.SAM(0.1)


@pytest.mark.parametrize("make", [
    lambda: optim.Nadam(0.1, groups={"b": {"momentum_decay": 0.1}}), lambda: optim.Eve(0.1), lambda: optim.SMORMS3(0.1),
])
def test_arrays_hold_all_there_is_to_resume(make) -> None:
    start, grads = arrays(), [as_weft(arrays()) for _ in range(4)]
    losses = [wf.array(float(v)) for v in rng.uniform(1, 2, 4)]
    ends = []
    for stop in (False, True):
        p, optimizer = as_weft(start), make()
        for k, g in enumerate(grads):
            if stop and k == 2:
                kept = {name: a.numpy().copy() for name, a in optimizer.arrays().items()}
                p, optimizer = {name: wf.array(a.numpy()) for name, a in p.items()}, make()
                optimizer.init(p)
                assert kept.keys() == optimizer.arrays().keys()
                for name, a in optimizer.arrays().items():
                    a[...] = kept[name]
            optimizer.update(p, g, loss=losses[k])
            wf.eval(p, optimizer.arrays())
        ends.append({name: a.numpy() for name, a in p.items()})
    assert all((ends[0][name] == ends[1][name]).all() for name in SHAPES)


def test_a_new_rate_compiles_nothing_new() -> None:
    start, grads = arrays(), [arrays() for _ in range(3)]
    p = as_weft(start)
    optimizer = optim.AdamW(1.0, weight_decay=0.3, groups={"b": {"lr": 0.01}}, schedule=optim.schedules.constant()).init(p)
    step = wf.jit(lambda g, lr: optimizer.update(p, g, lr))
    for g in grads:
        step(as_weft(g), 0.1)
    step(as_weft({name: np.zeros(s, "float32") for name, s in SHAPES.items()}), 1e-30)
    assert step.traces == 1
    for name, rate in (("w", 0.1), ("b", 0.01)):
        given = [g[name].astype(float) for g in grads] + [np.zeros(SHAPES[name])] * (name == "b")
        want = list(ref.adam(start[name].astype(float), given, rate, decoupled=0.3))[-1]
        np.testing.assert_allclose(p[name].numpy(), want, rtol=1e-5, atol=1e-5)
