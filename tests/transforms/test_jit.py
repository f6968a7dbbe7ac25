"""jit: one trace for each kind of arguments; cells, writes, static values; clear errors."""

from __future__ import annotations

import dataclasses
import threading
from queue import SimpleQueue

import numpy as np
import pytest
from making import array, normal

from weft.array import Array, ndarray, wrap
from weft.devices import counters
from weft.errors import DTypeError, TraceError
from weft.graph.primitives.table import TABLE, bind
from weft.transforms.control import scan
from weft.transforms.grad import grad, value_and_grad
from weft.transforms.jit import jit
from weft.transforms.tree import register_module, structure_changed
from weft.transforms.vmap import vmap


def test_values_and_trace_counts():
    @jit
    def f(x, y):
        return (x * y).sum(axis=0) + 1

    for shape in ((3, 4), (3, 4), (2, 4), (3, 4)):
        x, y = normal(*shape), normal(*shape)
        np.testing.assert_allclose(f(array(x), array(y)).numpy(), (x * y).sum(0) + 1, rtol=1e-5, atol=1e-6)
    assert f.traces == 2
    assert len(f.trace(x, y).graph.inputs) == 2
    f(array(normal(3, 4, dtype=np.float64)), array(normal(3, 4, dtype=np.float64)))
    assert f.traces == 3
    f(normal(3, 4), array(normal(3, 4)))
    assert f.traces == 3


def test_one_native_entry_a_call():
    f = jit(lambda x: (x - x.mean()) / x.std())
    x = array(normal(50, 7))
    f(x)
    before = counters()
    f(x)
    after = counters()
    assert after["entries"] - before["entries"] == 1 and after["kernels"] - before["kernels"] == 1
    assert after["compiles"] == before["compiles"]


def test_float_arguments_are_run_time_numbers():
    f = jit(lambda x, lr: x * lr + (1 - lr) ** 2)
    x = normal(4)
    for lr in (0.5, 0.25, 0.1):
        np.testing.assert_allclose(f(array(x), lr).numpy(), x * lr + (1 - lr) ** 2, rtol=1e-6)
    assert f.traces == 1
    wide = normal(4, dtype=np.float64)
    np.testing.assert_allclose(f(array(wide), 0.1).numpy(), wide * 0.1 + 0.9**2, rtol=1e-15)
    assert f(array(x.astype(np.float16)), 0.1).dtype == np.float16
    assert float(jit(lambda lr: lr)(0.125)) == 0.125
    assert float(jit(lambda a, b: a * b + 1)(0.5, 3.0)) == 2.5


def test_static_values_trace_again():
    f = jit(lambda x, n, how=None: x.sum() * n if how is None else x.max() * n)
    x = array(normal(5))
    f(x, 2), f(x, 2), f(x, 3), f(x, 3, how="max"), f(x, 3, how="max")
    assert f.traces == 3
    np.testing.assert_allclose(float(f(x, 3, how="max")), x.numpy().max() * 3, rtol=1e-6)
    g = jit(lambda x, c: x * c[0], static_argnums=1)
    assert g(x, (2.0, "a")).shape == (5,) and g(x, (2.0, "a")).shape == (5,) and g.traces == 1
    with pytest.raises(DTypeError, match="static argument cannot be an array"):
        g(x, x)
    with pytest.raises(DTypeError, match="must be hashable"):
        f(x, {1, 2})


@dataclasses.dataclass
class Pair:
    w: Array
    n: int = 2


def test_trees():
    @jit
    def f(p, q, *, k):
        return {"a": p["x"][0] * q.n, "b": (q.w.sum(), k, None), "p": dataclasses.replace(q, w=q.w + 1)}

    x, w = normal(3), normal(4)
    for _ in range(2):
        out = f({"x": [array(x), 5]}, Pair(array(w)), k="s")
    assert f.traces == 1
    np.testing.assert_allclose(out["a"].numpy(), x * 2)
    np.testing.assert_allclose(out["b"][0].numpy(), w.sum(), rtol=1e-5)
    assert out["b"][1:] == ("s", None) and isinstance(out["p"], Pair) and out["p"].n == 2
    np.testing.assert_allclose(out["p"].w.numpy(), w + 1)


def test_no_arrays_at_all():
    c = array(np.arange(4))
    f = jit(lambda: c * 2)
    assert f().tolist() == [0, 2, 4, 6] and f().tolist() == [0, 2, 4, 6] and f.traces == 1


def test_captured_cells_are_inputs():
    w = array(normal(3))
    f = jit(lambda x: x * w)
    x = array(normal(3))
    f(x)
    w[...] = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() * np.float32([1, 2, 3]))
    w += 1
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() * np.float32([2, 3, 4]))
    assert f.traces == 1


def test_writes_land_after_the_call():
    state = array(np.zeros(3, np.float32))

    @jit
    def step(x, lr):
        nonlocal state
        state += lr * x
        return state.sum()

    x = normal(3)
    total = np.zeros(3, np.float32)
    for lr in (0.5, 0.25, 0.125, 1.0):
        total = total + np.float32(lr) * x
        np.testing.assert_allclose(float(step(array(x), lr)), total.sum(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state.numpy(), total, rtol=1e-6)
    assert step.traces == 1


def test_a_failed_trace_writes_nothing():
    state = array([1.0])

    @jit
    def f(x):
        state[...] = 5
        raise KeyError("stop")

    with pytest.raises(KeyError):
        f(array([1.0]))
    assert state.tolist() == [1.0]
    assert (array([1.0]) + 1).tolist() == [2.0]


def test_a_write_leaves_what_was_computed_from_the_old_content():
    w = array([1.0, 2.0])

    @jit
    def step():
        w[...] = w * 10

    step()
    pending, seen, same = w + 1, w.numpy(), w.copy()
    step()
    assert w.tolist() == [100.0, 200.0]
    assert pending.tolist() == [11.0, 21.0] and seen.tolist() == [10.0, 20.0] and same.tolist() == [10.0, 20.0]
    step()
    assert w.tolist() == [1000.0, 2000.0]


def test_a_state_is_updated_in_place():
    w = array(normal(1000))

    @jit
    def step():
        w[...] = w * 0.5 + 1

    step(), step()
    address = w._node.value.address
    misses = counters()["allocator_misses"]
    for _ in range(5):
        step()
    assert w._node.value.address == address and counters()["allocator_misses"] == misses
    kept = w._node
    step()
    assert w._node is not kept and w._node.value.address != kept.value.address


def test_states_that_are_shared_are_not_overwritten():
    a, b = array(normal(100)), array(normal(100))
    read = jit(lambda: (a.copy(), a * 1))

    @jit
    def step(x):
        a[...] = a * 2
        b[...] = b + 1
        return x * 3, a.copy()

    def state():
        return a.numpy().copy(), b.numpy().copy()

    for _ in range(3):
        before, other = state()
        same, _ = read()
        thrice, now = step(a)
        np.testing.assert_array_equal(same.numpy(), before)
        np.testing.assert_array_equal(thrice.numpy(), before * 6)  # x is a, as without jit
        np.testing.assert_array_equal(now.numpy(), before * 2)
        np.testing.assert_array_equal(a.numpy(), before * 2)
        np.testing.assert_array_equal(b.numpy(), other + 1)
        step(b)
        np.testing.assert_array_equal(now.numpy(), before * 2)
        now += 1
        np.testing.assert_array_equal(a.numpy(), before * 4)


def test_swapping_states_and_returning_old_ones():
    a, b = array([1.0, 2.0]), array([3.0, 4.0])

    @jit
    def swap(x):
        old, other = a.copy(), b.copy()
        a[...] = other
        b[...] = old
        x += 1
        return old, x

    x = array([0.0])
    for n in range(1, 4):
        first, second = a.tolist(), b.tolist()
        old, y = swap(x)
        assert old.tolist() == first and a.tolist() == second and b.tolist() == first and x.tolist() == y.tolist() == [n]


def test_arguments_can_be_written():
    @jit
    def f(x, y):
        x[0] = 7
        y += x
        return y

    a, b = array([1.0, 2.0]), array([3.0, 4.0])
    for _ in range(2):
        want = b.numpy() + [7, 2]
        out = f(a, b)
        assert a.tolist() == [7.0, 2.0] and b.tolist() == list(want) and out.tolist() == list(want)
    m = array(np.ones((2, 2), np.float32))
    f(m[0], m[1])
    assert m.tolist() == [[7.0, 1.0], [8.0, 2.0]]
    assert f.traces == 1


def test_one_array_given_twice():
    f = jit(lambda x, y: x - y)
    a, b = array([1.0, 2.0]), array([0.5, 0.5])
    assert f(a, a).tolist() == [0.0, 0.0]
    assert f(a, b).tolist() == [0.5, 1.5]
    assert f(a, a).tolist() == [0.0, 0.0]


def test_state_made_while_tracing():
    class Box:
        total = None

    box = Box()

    @jit
    def add(x):
        if box.total is None:
            box.total = array(np.zeros(2, np.float32))
        box.total += x
        return box.total * 1

    for n in range(1, 5):
        assert add(array([1.0, 2.0])).tolist() == [n, 2.0 * n] and box.total.tolist() == [n, 2.0 * n]
    assert add.traces == 2


def test_what_a_trace_leaves_behind_is_refused_later():
    kept = SimpleQueue()  # in which no transform looks
    vmap(lambda x: kept.put(x * 2) or x)(array([1.0]))
    scan(lambda c, x: (c, kept.put(x * 2)), 0.0, array([1.0]))
    for where in ("wf.vmap", "wf.scan"):
        with pytest.raises(TraceError, match=rf"not known inside .*{where}.*in line .*test_jit\.py:\d+.* left behind"):
            kept.get().numpy()


@pytest.mark.parametrize("look", [float, bool, int, lambda x: x.numpy(), lambda x: x.tolist(), lambda x: x[x > 0]])
def test_looks_inside_are_refused_at_the_users_line(look):
    def f(x):
        return look(x.sum() if look in (float, bool, int) else x)

    with pytest.raises(TraceError, match=r"test_jit\.py:\d+: the value of this array is not known inside .* traced by wf.jit"):
        jit(f)(array([1.0, 2.0]))
    for text in (repr, str, "{}".format, "%s".__mod__):  # as print does, which shows a placeholder while tracing
        for x in (array([1.0]), array(1.0), array([1.0])[0]):
            expected = "float32(<not known while tracing>)"
            if isinstance(x, ndarray):
                expected = f"array(<not known while tracing>, shape={x.shape}, dtype=float32)"
            assert jit(lambda x, text=text: text(x))(x) == expected
    with pytest.raises(TraceError, match=r"test_jit\.py:\d+: the value of this array is not known"):
        jit(lambda x: f"{x:.3f}")(array(1.0))


def test_constants_may_be_looked_at_inside():
    f = jit(lambda x: x * int(array([1, 2]).sum()))
    assert f(array([2.0])).tolist() == [6.0]


def test_jit_inside_jit_grad_and_vmap():
    inner = jit(lambda x: (x**2).sum())
    outer = jit(lambda x: inner(x) * 2)
    x = normal(4)
    np.testing.assert_allclose(float(outer(array(x))), 2 * (x**2).sum(), rtol=1e-5)
    assert inner.traces == 0
    np.testing.assert_allclose(grad(inner)(array(x)).numpy(), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(jit(grad(inner))(array(x)).numpy(), 2 * x, rtol=1e-6)
    rows = normal(3, 4)
    np.testing.assert_allclose(jit(vmap(grad(inner)))(array(rows)).numpy(), 2 * rows, rtol=1e-6)


def test_decorator_forms_and_methods():
    class Thing:
        def __init__(self, k):
            self.k = k

        @jit
        def scaled(self, x):
            return x * self.k

    assert Thing(3).scaled(array([1.0])).tolist() == [3.0] and Thing(4).scaled(array([1.0])).tolist() == [4.0]

    @jit(static_argnames="n")
    def f(x, n):
        """Doc."""
        return x * n

    assert f(array([1.0]), n=2.5).tolist() == [2.5] and f.__doc__ == "Doc." and f.__name__ == "f"
    with pytest.raises(TypeError, match="not a function"):
        jit(3)


def test_static_arguments_must_exist():
    def f(x, n=2, /, *, how=None):
        return x * n

    for number in (2, 5, -3):
        with pytest.raises(ValueError, match=rf"jit: static_argnums has {number}, but f\(x, n=2, how=None\) has 2 positional"):
            jit(f, static_argnums=(0, number))
    for name in ("n", "hwo"):
        with pytest.raises(ValueError, match=f"jit: static_argnames has '{name}', but f.* takes only how by name"):
            jit(static_argnames=name)(f)
    with pytest.raises(ValueError, match="has no positional arguments"):
        jit(lambda *, a: a, static_argnums=0)
    assert jit(f, static_argnums=1)(array([1.0])).tolist() == [2.0]  # a call may leave a default out
    assert jit(lambda *a, **k: a[0], static_argnums=7, static_argnames="how")(array([1.0])).tolist() == [1.0]


class Affine:
    """A module as nn's are: Arrays in attributes, told to the tree."""

    buffers = ("seen",)

    def __init__(self):
        self.w, self.b, self.seen = array(normal(3, 2)), array(normal(2)), array(0.0)
        self.twice = False

    def __call__(self, x):
        self.seen += 1
        y = x @ self.w + self.b
        return y * 2 if self.twice else y

    def __setattr__(self, name, value):
        if name in self.__dict__ and isinstance(value, Array) and value is not self.__dict__[name]:
            self.__dict__[name][...] = value
            return
        object.__setattr__(self, name, value)
        structure_changed()


register_module(Affine)


@pytest.mark.parametrize("given", [True, False])
def test_modules_train(given):
    model = Affine()
    x, y = normal(8, 3), normal(8, 2)
    loss = value_and_grad(lambda m, x, y: ((m(x) - y) ** 2).mean())

    def step(m, x, y, lr):
        value, slopes = loss(m, x, y)
        m.w -= lr * slopes.w
        m.b -= lr * slopes.b
        return value

    run = jit(step) if given else jit(lambda x, y, lr: step(model, x, y, lr))
    w, b, losses = model.w.numpy().copy(), model.b.numpy().copy(), []
    for _ in range(5):
        error = x @ w + b - y
        want = (error**2).mean()
        w, b = w - 0.1 * x.T @ error / 8, b - 0.1 * error.sum(0) / 8
        losses.append(float(run(model, array(x), array(y), 0.1) if given else run(array(x), array(y), 0.1)))
        np.testing.assert_allclose(losses[-1], want, rtol=1e-4)
    np.testing.assert_allclose(model.w.numpy(), w, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(model.b.numpy(), b, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0] and run.traces == 1 and float(model.seen) == 5


@pytest.mark.parametrize("given", [True, False])
def test_a_modules_settings_are_part_of_the_key(given):
    model = Affine()
    f = jit(lambda m, x: m(x)) if given else jit(lambda x: model(x))
    args = (model, array(normal(1, 3))) if given else (array(normal(1, 3)),)
    once = f(*args).numpy()
    model.twice = True
    np.testing.assert_allclose(f(*args).numpy(), 2 * once, rtol=1e-6)
    model.twice = False
    np.testing.assert_array_equal(f(*args).numpy(), once)
    assert f.traces == 2


def test_two_threads():
    f = jit(lambda x, k: (x * k).sum())
    x = normal(1000)
    wrong = []

    def work(k):
        for _ in range(20):
            if abs(float(f(array(x), k)) - (x * np.float32(k)).sum()) > 1e-2:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in (1, 2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_outputs_that_are_inputs():
    w = array([1.0, 2.0])
    f = jit(lambda x: (x, w, x.T, 3, wrap(bind(TABLE["identity"], x.node)), w.copy()))
    a = array([5.0, 6.0])
    for _ in range(2):
        out = f(a)
        assert out[0] is a and out[1] is w and out[3] == 3
        assert out[2].tolist() == out[4].tolist() == [5.0, 6.0] and out[5].tolist() == [1.0, 2.0]
    out[2][0] = 9
    out[4][1] = out[5][1] = 7
    assert a.tolist() == [9.0, 6.0] and w.tolist() == [1.0, 2.0]


def test_a_function_of_no_module():
    namespace = {"jit": jit}
    exec("half = 0.5\ndef f(x):\n    return x * half\n", namespace)  # without __name__ its __module__ is None
    namespace["f"].__module__ = None
    x = normal(3)
    np.testing.assert_allclose(jit(namespace["f"])(array(x)).numpy(), x * 0.5, rtol=1e-6)
