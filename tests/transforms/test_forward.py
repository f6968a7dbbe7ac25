"""jvp, linearize, jacfwd, jacrev, hessian: trees, modules, aux, dtypes, traces, cost and errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError, ShapeError, TraceError
from weft.schedule.build import build


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return wf.array(np.random.default_rng().normal(size=shape).astype(dtype))


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


def model(p: Any, s: Any) -> dict[str, Any]:
    return {"y": wf.sin(p["w"] @ s) * p["pair"].a, "z": [p["w"].sum() * p["pair"].b, s]}


def tree() -> tuple[Any, Any]:
    return {"w": normal(2, 3), "pair": Pair(normal(), 3)}, normal(3)


def test_jvp_of_trees() -> None:
    primals, tangents = tree(), tree()
    out, tangent = wf.jvp(model, primals, tangents)
    p, t = primals[0], tangents[0]
    inner = p["w"] @ primals[1]
    want = wf.cos(inner) * (t["w"] @ primals[1] + p["w"] @ tangents[1]) * p["pair"].a + wf.sin(inner) * t["pair"].a
    np.testing.assert_allclose(tangent["y"].numpy(), want.numpy(), rtol=1e-10)
    np.testing.assert_allclose(float(tangent["z"][0]), float(t["w"].sum() * 3), rtol=1e-10)
    np.testing.assert_array_equal(tangent["z"][1].numpy(), tangents[1].numpy())
    np.testing.assert_array_equal(out["y"].numpy(), model(*primals)["y"].numpy())
    assert out["z"][1] is primals[1], "a result that is an argument stays the caller's array"


def test_linearize_equals_jvp_and_keeps_what_it_needs() -> None:
    primals = tree()
    out, push = wf.linearize(model, *primals)
    for _ in range(2):
        tangents = tree()
        got, want = wf.tree_leaves(push(*tangents)), wf.tree_leaves(wf.jvp(model, primals, tangents)[1])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    x = normal(400, 500)
    calls = []

    def costly(x: Any) -> Any:
        calls.append(1)
        return wf.exp(x @ x.T)

    y, push = wf.linearize(costly, x)
    wf.eval(y)
    tangent = push(wf.ones_like(x))
    assert len(calls) == 1
    names = {n.op.name for n in _pending(tangent)}
    assert "exp" not in names, "the exponential was computed with the result"


def _pending(array: Any) -> list[Any]:
    from weft.graph.node import topological_order

    return [n for n in topological_order([array.node]) if n.value is None]


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,), -1])
def test_jacobians_of_trees(argnums: Any) -> None:
    primals = tree()
    forward, reverse = (j(model, argnums=argnums)(*primals) for j in (wf.jacfwd, wf.jacrev))
    jitted = wf.jit(wf.jacfwd(model, argnums=argnums))(*primals)
    for other in (reverse, jitted):
        for a, b in zip(wf.tree_leaves(forward), wf.tree_leaves(other), strict=True):
            if isinstance(a, wf.Array):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
    if argnums == (0, 1):
        by_p, by_s = forward["y"]
        assert by_p["w"].shape == (2, 2, 3) and by_s.shape == (2, 3) and isinstance(by_p["pair"], Pair) and by_p["pair"].b == 3
        assert forward["z"][0][0]["w"].shape == (2, 3)
        np.testing.assert_array_equal(forward["z"][1][1].numpy(), np.eye(3))


def test_modules() -> None:
    layer, x = wf.nn.Linear(3, 2), normal(3, dtype=np.float32)
    jacobian = wf.jacrev(lambda m, x: m(x))(layer, x)
    assert isinstance(jacobian, wf.nn.Linear) and jacobian.weight.shape == (2, 2, 3)
    np.testing.assert_allclose(jacobian.bias.numpy(), np.eye(2))
    _, tangent = wf.jvp(lambda m, x: m(x), (layer, x), (wf.tree_map(wf.ones_like, layer), wf.zeros(3)))
    np.testing.assert_allclose(tangent.numpy(), [float(x.sum()) + 1] * 2, rtol=1e-4)
    layer.twin = layer.bias  # a parameter that occurs twice is one variable
    _, tangent = wf.jvp(lambda m: m.bias + m.twin, (layer,), (wf.tree_map(wf.ones_like, layer),))
    assert tangent.tolist() == [2, 2]


def test_aux() -> None:
    f = lambda x: ((x * x).sum(), {"twice": 2 * x, "word": "aux"})  # noqa: E731
    x = wf.array([1.0, 2.0])
    found = [
        wf.jvp(f, (x,), (x,), has_aux=True), wf.vjp(f, x, has_aux=True), wf.linearize(f, x, has_aux=True),
        wf.jacfwd(f, has_aux=True)(x), wf.jacrev(f, has_aux=True)(x), wf.hessian(f, has_aux=True)(x), wf.grad(f, has_aux=True)(x),
    ]
    for *first, aux in found:
        assert aux["word"] == "aux" and aux["twice"].tolist() == [2, 4], first
    assert found[0][1] == 10
    assert found[1][1](1.0)[0].tolist() == [2, 4]
    assert found[2][1](x) == 10
    assert found[5][0].tolist() == [[2, 0], [0, 2]]
    for transform in (wf.jacfwd, wf.jacrev, wf.hessian):
        with pytest.raises(TypeError, match=r"of <lambda>: with has_aux=True it must return \(value, aux\), not Scalar"):
            transform(lambda x: x.sum(), has_aux=True)(x)


def test_results_that_are_not_float_and_arguments_that_do_not_matter() -> None:
    x = wf.array([3.0, 1.0])
    _, tangent = wf.jvp(lambda x: (x.argmax(), wf.ones(2), x > 1, 4.0), (x,), (x,))
    assert [t.tolist() for t in tangent] == [0, [0, 0], [0, 0], 0]
    out, tangent = wf.jvp(lambda p: p["x"] * p["n"], ({"x": x, "n": 2},), ({"x": x, "n": None or 0},))
    assert tangent.tolist() == [6, 2] and out.tolist() == [6, 2]
    assert wf.jacfwd(lambda x: wf.stop_gradient(x) * 2)(x).tolist() == [[0, 0], [0, 0]]
    assert wf.jacrev(lambda x: wf.ones(3))(x).shape == (3, 2)
    assert wf.jacfwd(lambda x: x[:0])(x).shape == (0, 2)
    assert wf.jacrev(lambda x: x * 2)(x[:0]).shape == (0, 0)


def test_dtypes() -> None:
    for dtype in (wf.float16, wf.bfloat16, wf.float32, wf.float64):
        x = wf.array([1.0, 2.0], dtype=dtype)
        out, tangent = wf.jvp(lambda x: x * x, (x,), (np.array([1.0, 0.5]),))
        assert out.dtype == tangent.dtype == dtype
        assert wf.jacfwd(lambda x: x * x)(x).dtype == wf.hessian(lambda x: (x * x).sum())(x).dtype == dtype
    _, tangent = wf.jvp(lambda a, b: a.astype("float64") * b, (wf.float32(2), wf.float64(3)), (1.0, 1))
    assert tangent.dtype == wf.float64 and tangent == 5


def test_holomorphic() -> None:
    z = wf.array([1 + 2j, 3 - 1j])
    for transform in (wf.jacfwd, wf.jacrev):
        np.testing.assert_allclose(transform(lambda z: z**3, holomorphic=True)(z).numpy(), np.diag(3 * z.numpy() ** 2), rtol=1e-5)
        with pytest.raises(DTypeError, match=r"an argument is complex64\[2\], but must be a real float; holomorphic=True allows"):
            transform(lambda z: z**3)(z)
    with pytest.raises(DTypeError, match="must be complex, since holomorphic=True"):
        wf.jacfwd(lambda x: x, holomorphic=True)(wf.ones(2))
    # the tangent of a real function of complex numbers, against differences
    f = lambda z: wf.abs(z) * wf.real(z * z) + wf.imag(wf.conj(z) * z[::-1])  # noqa: E731
    z, t = (np.random.default_rng().normal(size=(2, 3)) @ np.array([1, 1j, 0]) for _ in range(2))
    want = (f(wf.array(z + 1e-6 * t)) - f(wf.array(z - 1e-6 * t))).numpy() / 2e-6
    np.testing.assert_allclose(wf.jvp(f, (wf.array(z),), (wf.array(t),))[1].numpy(), want, rtol=1e-6, atol=1e-8)


def test_a_reduction_joined_to_others() -> None:
    """Part of a joined array is a sum with one row: its position in the joined array is no index of the sum."""
    def sums(t: Any) -> Any:
        s = wf.stack([wf.sin(t), wf.sin(2 * t)])
        return wf.concatenate([s[:, :1], s[:, :1] + s[:, 1:]], axis=1).sum(0)

    def f(x: Any) -> Any:
        return wf.map(sums, wf.stack([x, 2 * x, 3 * x]), batch_size=2)

    x, t = np.random.default_rng().normal(size=(2, 3))
    want = (f(wf.array(x + 1e-6 * t)) - f(wf.array(x - 1e-6 * t))).numpy() / 2e-6
    np.testing.assert_allclose(wf.jvp(f, (wf.array(x),), (wf.array(t),))[1].numpy(), want, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wf.jacfwd(f)(wf.array(x)).numpy() @ t, want, rtol=1e-6, atol=1e-7)


def test_one_trace() -> None:
    def f(x: Any) -> Any:
        return (wf.sin(x) * x).sum()

    for transform in (wf.jacfwd(f), wf.jacrev(f), wf.hessian(f), lambda x: wf.jvp(f, (x,), (x,))[1]):
        jitted = wf.jit(transform)
        for k in range(3):
            jitted(wf.ones(4) * k)
        assert jitted.traces == 1


def test_cost_is_that_of_the_formula() -> None:
    """Kernels and operations of a forward derivative are those of one written by hand."""
    x, w = normal(64, 80, dtype=np.float32), normal(80, 96, dtype=np.float32)

    def cost(f: Any, *args: Any) -> tuple[int, int]:
        program = build(wf.jit(f).trace(*args).graph)
        return len(program.steps), sum(i.flops for i in program.info)

    pairs = [
        (lambda x, t: wf.sin(x) * x, lambda x, t: t * wf.sin(x) + t * wf.cos(x) * x, x, x),
        (lambda x, t: x @ w, lambda x, t: t @ w, x, x),
        (lambda x, t: wf.cumsum(x, axis=1), lambda x, t: wf.cumsum(t, axis=1), x, x),
        (lambda x, t: x[3:40:2].T.reshape(-1), lambda x, t: t[3:40:2].T.reshape(-1), x, x),
        (lambda x, t: wf.nn.conv2d(x, k), lambda x, t: wf.nn.conv2d(t, k), *(normal(2, 3, 9, 9, dtype=np.float32),) * 2),
    ]
    k = normal(4, 3, 3, 3, dtype=np.float32)
    for f, by_hand, *args in pairs:
        assert cost(lambda x, t, f=f: wf.jvp(lambda x: f(x, t), (x,), (t,))[1], *args) == cost(by_hand, *args)


def test_loops_compute_values_and_tangents_together() -> None:
    x = normal(4)
    f = lambda x: wf.fori_loop(0, 5, lambda i, c: wf.sin(c) + x, x)  # noqa: E731
    graph = wf.jit(lambda x, t: wf.jvp(f, (x,), (t,))).trace(x, x).graph
    assert sum(n.op.name == "scan" for n in graph.order) == 1


def test_state_that_a_function_writes_is_written_once() -> None:
    seen = wf.zeros(2)

    def f(x: Any) -> Any:
        seen[...] = seen + x
        return x * seen

    out, tangent = wf.jvp(f, (wf.array([1.0, 2.0]),), (wf.ones(2),))
    assert seen.tolist() == [1, 2] and out.tolist() == [1, 4] and tangent.tolist() == [2, 4]
    with pytest.raises(ValueError, match="tangent 0 has shape"):
        wf.jvp(f, (wf.array([1.0, 2.0]),), (wf.ones(3),))
    assert seen.tolist() == [1, 2], "a failing call changes nothing"


@pytest.mark.parametrize(("call", "error", "match"), [
    (lambda f, x: wf.jvp(f, x, x), TypeError, r"jvp of f: primals is ndarray, but must be a tuple or list"),
    (lambda f, x: wf.jvp(f, (x,), x), TypeError, r"jvp of f: tangents is ndarray"),
    (lambda f, x: wf.jvp(f, (x,), (x, x)), ValueError, r"jvp of f: 2 tangents for 1 arguments"),
    (lambda f, x: wf.jvp(f, (x,), (x[:1],)), ShapeError,
     r"jvp of f: tangent 0 has shape \(1,\), but its argument has \(2,\): they must be equal"),
    (lambda f, x: wf.jvp(f, ({"a": x},), ({"b": x},)), ValueError, r"jvp of f: tangent 0 has structure .*, but must have"),
    (lambda f, x: wf.jvp(f, (x,), (x * 1j,)), DTypeError, r"tangent 0 is complex64, but its argument is float32"),
    (lambda f, x: wf.jvp(f, (wf.array([1, 2]),), (x,)), DTypeError, r"jvp of f: argument 0 is int64\[2\], but must be float"),
    (lambda f, x: wf.linearize(f, x)[1](x, x), ValueError, r"linearize of f: 2 tangents for 1 arguments"),
    (lambda f, x: wf.jacfwd(f, argnums=1)(x), ValueError, r"argnums 1, but the function was called with 1 positional"),
    (lambda f, x: wf.jacrev(lambda x: x > 1)(x), DTypeError, r"of <lambda>: a result is bool\[2\], but must be a real float"),
    (lambda f, x: wf.hessian(lambda x: float(x.sum()) * x)(x), TraceError, "its derivative would be lost"),
    (lambda f, x: wf.vjp(f, x)[1](x[:1]), ShapeError, r"vjp of f: a cotangent has shape \(1,\), but its result has \(2,\)"),
])
def test_errors(call: Any, error: type[Exception], match: str) -> None:
    def f(x: Any) -> Any:
        return x * 2 if not isinstance(x, dict) else x["a"]

    with pytest.raises(error, match=match):
        call(f, wf.array([1.0, 2.0]))
