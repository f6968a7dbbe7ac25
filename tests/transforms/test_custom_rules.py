"""custom_vjp, custom_jvp and remat: rules under every transform, orders of derivatives, memory, traces and errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError, ShapeError, TraceError
from weft.graph.interpret import interpret
from weft.graph.node import Graph, topological_order
from weft.graph.primitives.table import SCALAR
from weft.schedule.build import build


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return wf.array(np.random.default_rng().normal(size=shape).astype(dtype))


@wf.custom_vjp
def scaled(x: Any) -> Any:
    """Sine, with a derivative that no analysis would find: the cosine, times 10."""
    return wf.sin(x)


scaled.defvjp(lambda x: (wf.sin(x), x), lambda x, g: (10 * wf.cos(x) * g,))


@wf.custom_jvp
def pushed(x: Any) -> Any:
    return wf.sin(x)


@pushed.defjvp
def _pushed_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return pushed(x), 10 * wf.cos(x) * t


def in_scan(f: Any) -> Any:
    return lambda x: wf.scan(lambda c, _: (c, f(c)), x, length=2)[1].sum(axis=0) / 2


@pytest.mark.parametrize("f", [scaled, pushed])
def test_the_rule_counts_under_every_transform(f: Any) -> None:
    x = normal(3)
    want = 10 * np.cos(x.numpy())
    total = lambda f: lambda x: f(x).sum()  # noqa: E731
    found = [
        wf.grad(total(f))(x), wf.jit(wf.grad(total(f)))(x), wf.grad(wf.jit(total(f)))(x), wf.vjp(f, x)[1](wf.ones_like(x))[0],
        wf.jvp(f, (x,), (wf.ones_like(x),))[1], wf.linearize(f, x)[1](wf.ones_like(x)), wf.jacfwd(f)(x).diagonal(),
        wf.jacrev(f)(x).diagonal(), wf.vmap(wf.grad(f))(x), wf.grad(total(wf.vmap(f)))(x), wf.grad(total(in_scan(f)))(x),
        wf.jacfwd(in_scan(f))(x).diagonal(), wf.grad(total(wf.remat(f)))(x), wf.grad(total(wf.vmap(in_scan(f))))(x),
        wf.grad(total(in_scan(wf.vmap(f))))(x), wf.jit(wf.vmap(wf.grad(in_scan(f))))(x),
        wf.jvp(lambda x: wf.remat(f)(x), (x,), (wf.ones_like(x),))[1],
    ]
    for k, value in enumerate(found):
        np.testing.assert_allclose(value.numpy(), want, rtol=1e-10, err_msg=str(k))
    np.testing.assert_array_equal(f(x).numpy(), wf.sin(x).numpy())


def straight_through(calls_itself: bool) -> Any:
    """Rounding with the derivative 1; the result is computed by the function itself or by plain code."""
    f = wf.custom_vjp(lambda x: wf.round(x))
    f.defvjp(lambda x: ((f if calls_itself else wf.round)(x), None), lambda _, g: (g,))
    return f


@pytest.mark.parametrize("place", [lambda f: f, in_scan, wf.vmap, wf.jit])
def test_outer_derivatives_see_what_the_rule_computed_the_result_with(place: Any) -> None:
    """As in JAX: the derivative of the rule's own code."""
    for calls_itself, second in ((True, 2), (False, 0)):
        f = place(straight_through(calls_itself))
        square = lambda x, f=f: (f(x) ** 2).sum()  # noqa: E731
        x = wf.array([1.6, 2.4])
        assert wf.grad(square)(x).tolist() == [4, 4]
        slope = wf.grad(square)
        for value in (wf.jacrev(slope)(x).diagonal(), wf.hessian(square)(x).diagonal(), wf.jvp(slope, (x,), (wf.ones(2),))[1]):
            assert value.tolist() == [second, second]


def test_higher_orders_of_a_stable_rule() -> None:
    @wf.custom_jvp
    def softplus(x: Any) -> Any:
        return wf.log1p(wf.exp(x))

    softplus.defjvps(lambda t, out, x: t * wf.exp(x - out))
    for order in range(1, 4):
        f = softplus
        for _ in range(order):
            f = wf.grad(f)
        assert np.isfinite(float(f(80.0))) and float(f(80.0)) == (order == 1)
    share = 1 / (1 + np.exp(-0.3))
    third = float(wf.grad(wf.grad(wf.grad(softplus)))(wf.float64(0.3)))
    np.testing.assert_allclose(third, share * (1 - share) * (1 - 2 * share), rtol=1e-10)


def test_trees_residuals_and_fixed_arguments() -> None:
    @partial(wf.custom_vjp, nondiff_argnums=(1, 3))
    def f(p: Any, power: int, x: Any, word: str) -> Any:
        return {"y": p["w"] ** power * x, "n": 7, "i": wf.arange(2)}

    seen = []

    def fwd(p: Any, power: int, x: Any, word: str) -> Any:
        return f(p, power, x, word), {"w": p["w"], "x": x}

    def bwd(power: int, word: str, kept: Any, g: Any) -> Any:
        seen.append((power, word, sorted(g), g["n"], g["i"].tolist()))
        return {"w": g["y"] * power * kept["w"] ** (power - 1) * kept["x"], "name": None or 0}, None

    f.defvjp(fwd, bwd)
    p, x = {"w": normal(2), "name": "p"}, normal(2)
    by_p, by_x = wf.grad(lambda p, x: f(p, 3, x=x, word="w")["y"].sum(), argnums=(0, 1))(p, x)
    np.testing.assert_allclose(by_p["w"].numpy(), (3 * p["w"] ** 2 * x).numpy(), rtol=1e-12)
    assert by_x.tolist() == [0, 0] and by_p["name"] == "p"
    assert seen == [(3, "w", ["i", "n", "y"], 7, [0, 0])]


def test_modules_as_arguments() -> None:
    layer, x = wf.nn.Linear(3, 2), wf.ones(3)
    f = wf.custom_vjp(lambda m, x: m(x))
    f.defvjp(lambda m, x: (m(x), m), lambda m, g: (wf.tree_map(lambda p: p * 0 + 2, m), None))
    slope = wf.grad(lambda m: f(m, x).sum())(layer)
    assert isinstance(slope, wf.nn.Linear) and slope.weight.tolist() == [[2] * 3] * 2
    again = wf.grad(lambda m: wf.remat(lambda m, x: m(x))(m, x).sum())(layer)
    assert again.weight.tolist() == [[1] * 3] * 2 and again.bias.tolist() == [1, 1]


def test_unmapped_arguments_collect_the_gradients_of_all_examples() -> None:
    f = wf.custom_vjp(lambda w, x: w * x)
    f.defvjp(lambda w, x: (w * x, (w, x)), lambda r, g: (g * r[1], g * r[0]))
    g = wf.custom_jvp(lambda w, x: w * x)
    g.defjvp(lambda p, t: (g(*p), p[1] * t[0] + p[0] * t[1]))
    w, xs = normal(3), normal(5, 3)
    for h in (f, g):
        slope = wf.grad(lambda w, h=h: wf.vmap(lambda x: h(w, x))(xs).sum())(w)
        np.testing.assert_allclose(slope.numpy(), xs.sum(axis=0).numpy(), rtol=1e-10)
        mapped = wf.vmap(wf.grad(lambda w, x, h=h: h(w, x).sum()), in_axes=(None, 1), out_axes=1)(normal(5), xs)
        np.testing.assert_allclose(mapped.numpy(), xs.numpy(), rtol=1e-10)


def test_calls_leave_no_trace_in_programs() -> None:
    """The kernels are those of the function and of its derivative as if written in one."""
    x = normal(50, dtype=np.float32)

    def kernels(f: Any) -> list[str]:
        return [repr(s.kernel) for s in build(wf.jit(f).trace(x).graph).steps]

    def by_hand(x: Any) -> Any:
        return wf.sin(x).sum(), wf.ones_like(x) * 10 * wf.cos(x)

    got = kernels(wf.value_and_grad(lambda x: scaled(x).sum()))
    assert len(got) == len(kernels(by_hand))
    assert kernels(scaled) == kernels(wf.sin) == kernels(wf.remat(wf.sin))
    graph = wf.jit(lambda x: wf.value_and_grad(lambda x: (scaled(x).sum(), pushed(x)), has_aux=True)(x)).trace(x).graph
    assert not any(n.op.kind in ("loop", "result") for n in graph.order)
    out = wf.grad(lambda x: (scaled(x).sum(), [pushed(x)]), has_aux=True)(x)[1][0]
    np.testing.assert_allclose(out.numpy(), wf.sin(x).numpy(), rtol=1e-6)


def test_a_rule_is_traced_once() -> None:
    f = wf.custom_vjp(wf.sin)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (wf.cos(x) * g,))
    jitted = wf.jit(wf.grad(lambda x: f(x).sum()))
    for k in range(3):
        jitted(wf.ones(4) * k)
    assert jitted.traces == 1


def test_values_may_be_read_as_in_grad() -> None:
    @wf.custom_vjp
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x * 3

    f.defvjp(lambda x: (f(x), x.sum() > 0), lambda positive, g: (wf.where(positive, 20.0, 30.0) * g,))
    assert wf.grad(lambda x: f(x).sum())(wf.ones(2)).tolist() == [20, 20]
    assert wf.grad(lambda x: f(x).sum())(-wf.ones(2)).tolist() == [30, 30]


@pytest.mark.parametrize(("rule", "error", "match"), [
    (None, TypeError, r"custom_vjp of f: it has no rule: call .defvjp\(fwd, bwd\)"),
    ((lambda x: x, None), TypeError, r"fwd must return \(result, residuals\), not ndarray"),
    ((lambda x: (x, None), lambda r, g: g), TypeError, r"bwd must return a tuple with one cotangent an argument, not ndarray"),
    ((lambda x: (x, None), lambda r, g: (g, g)), ValueError, r"bwd returned 2 cotangents for 1 arguments; None is zero"),
    ((lambda x: (x, None), lambda r, g: (g.sum(),)), ShapeError,
     r"the cotangent of argument 0 that bwd returned has shape \(\), but the argument has \(2,\)"),
    ((lambda x: (x, None), lambda r, g: (g.astype("float64"),)), DTypeError, r"is float64, but the argument is float32: cast it"),
    ((lambda x: (x, None), lambda r, g: (g * float(g.sum()),)), TraceError, r"not known inside a derivative rule"),
    ((lambda x: (x, None), lambda r, g: (g * wf.random.normal(size=2),)), TraceError, r"bwd writes an array from outside"),
])
def test_errors_of_reverse_rules(rule: Any, error: type[Exception], match: str) -> None:
    f = wf.custom_vjp(lambda x: x)
    f.__name__ = "f"
    f = wf.custom_vjp(f)
    if rule is not None:
        f.defvjp(*rule)
    assert f(wf.ones(2)).tolist() == [1, 1], "outside of derivatives, the function is called as it is"
    with pytest.raises(error, match=match):
        wf.grad(lambda x: f(x).sum())(wf.ones(2))


@pytest.mark.parametrize(("rule", "error", "match"), [
    (None, TypeError, r"it has no rule: call .defjvp\(rule\)"),
    (lambda p, t: p[0], TypeError, r"the rule must return \(result, tangent\), not ndarray"),
    (lambda p, t: (t[0], t[0]), ValueError, "the rule's result depends on the tangents"),
    (lambda p, t: (p[0], t[0][:1]), ShapeError, r"the tangent has shape \(1,\), but the result has \(2,\)"),
    (lambda p, t: (p[0], [t[0]]), ValueError, r"as_node|shape|structure|array"),
    (lambda p, t: (p[0], t[0] * t[0]), TypeError, "is not linear in the tangents"),
])
def test_errors_of_forward_rules(rule: Any, error: type[Exception], match: str) -> None:
    f = wf.custom_jvp(lambda x: x)
    if rule is not None:
        f.defjvp(rule)
    with pytest.raises(error, match=match):
        wf.grad(lambda x: f(x).sum())(wf.ones(2))


def test_arrays_from_outside_that_are_differentiated_by_are_refused() -> None:
    def made(kind: Any, w: Any) -> Any:
        f = kind(lambda x: x * w)
        if kind is wf.custom_vjp:
            f.defvjp(lambda x: (x * w, None), lambda _, g: (g * w,))
        else:
            f.defjvp(lambda p, t: (p[0] * w, t[0] * w))
        return f

    for kind in (wf.custom_vjp, wf.custom_jvp):
        use = lambda w, kind=kind: made(kind, w)(w * 2)  # noqa: E731
        for derivative in (wf.grad(use), lambda w, use=use: wf.jvp(use, (w,), (w,))):
            with pytest.raises(TraceError, match=r"reads an array from outside, float32\[\], that is differentiated by"):
                derivative(wf.float32(2))
        assert wf.grad(lambda x, kind=kind: made(kind, wf.float32(3))(x))(wf.float32(1)) == 3
        assert wf.grad(lambda w, kind=kind: made(kind, wf.stop_gradient(w))(w))(wf.float32(3)) == 3


# ---- remat


def layers(x: Any, ws: Any, block: Any) -> Any:
    for w in ws:
        x = block(x, w)
    return (x * x).sum()


def block(x: Any, w: Any) -> Any:
    return x + wf.tanh(wf.tanh(x @ w[0]) @ w[1])


def test_remat_saves_memory_and_changes_no_bit() -> None:
    ws = [(normal(32, 128, dtype=np.float32), normal(128, 32, dtype=np.float32)) for _ in range(10)]
    x = normal(64, 32, dtype=np.float32)
    programs, values = [], []
    for b in (block, wf.remat(block)):
        step = wf.jit(lambda ws, x, b=b: wf.value_and_grad(lambda ws: layers(x, ws, b))(ws))
        programs.append(build(step.trace(ws, x).graph))
        values.append(wf.tree_leaves(step(ws, x)))
        values.append(wf.tree_leaves(wf.value_and_grad(lambda ws, b=b: layers(x, ws, b))(ws)))
    plain, again = programs
    assert again.arena < plain.arena / 3, (plain.arena, again.arena)
    products = [sum("dot" in s.kernel.name for s in p.steps) for p in programs]
    assert products[1] == products[0] + 20, "each block is computed once more"
    for other in values[1:]:
        for a, b in zip(values[0], other, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_remat_of_a_scan_keeps_the_carries_only() -> None:
    x, ws = normal(64, 32, dtype=np.float32), (normal(10, 32, 128, dtype=np.float32), normal(10, 128, 32, dtype=np.float32))

    def loss(ws: Any, b: Any) -> Any:
        return (wf.scan(lambda x, w: (b(x, w), None), x, ws)[0] ** 2).sum()

    slopes = [wf.jit(lambda ws, b=b: wf.grad(loss)(ws, b))(ws) for b in (block, wf.remat(block))]
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_remat_draws_the_same_random_numbers_again() -> None:
    x = normal(200)

    def noisy(x: Any) -> Any:
        return wf.sin(x * wf.random.normal(size=200))

    def slope(b: Any) -> Any:
        wf.random.seed(3)
        return wf.grad(lambda x: b(b(x)).sum())(x).numpy()

    np.testing.assert_allclose(slope(wf.remat(noisy)), slope(noisy), rtol=1e-5, atol=1e-6)


def test_remat_reads_arrays_from_outside_and_keywords() -> None:
    w, x = normal(3), normal(3)
    f = lambda w, x: wf.remat(lambda x, k: wf.sin(x * w) * k)(x, k=x).sum()  # noqa: E731
    plain = lambda w, x: (wf.sin(x * w) * x).sum()  # noqa: E731
    for a, b in zip(wf.grad(f, argnums=(0, 1))(w, x), wf.grad(plain, argnums=(0, 1))(w, x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    nested = wf.remat(lambda x: wf.remat(wf.sin)(wf.remat(wf.exp)(x)))
    np.testing.assert_allclose(wf.hessian(lambda x: nested(x).sum())(x).numpy(),
                               wf.hessian(lambda x: wf.sin(wf.exp(x)).sum())(x).numpy(), rtol=1e-10, atol=1e-12)


def test_graphs_with_calls_are_interpreted() -> None:
    """The oracle of the tests evaluates calls, too."""
    x = normal(3)
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = scaled(x) + pushed(x)
        seen.append(y.node)
        return y.sum()

    wf.grad(f)(x)
    leaves = [n for n in topological_order(seen) if n.value is not None]
    (got,) = interpret(Graph(leaves, seen), [n.value if n.op is SCALAR else x.numpy() for n in leaves])
    np.testing.assert_allclose(got, 2 * np.sin(x.numpy()), rtol=1e-12)
