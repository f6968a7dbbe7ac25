"""Looks inside gradients: what depends on what is differentiated by is not told, since its derivative would be lost."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from making import array, normal, slope

import weft as wf
from weft.errors import TraceError
from weft.transforms.grad import grad, value_and_grad, vjp
from weft.transforms.jit import jit

LOOKS = {
    "float": lambda v: float(v.sum()), "int": lambda v: int(v.sum()), "complex": lambda v: complex(v.sum()).real,
    "item": lambda v: v.sum().item(), "tolist": lambda v: v.tolist()[0], "numpy": lambda v: v.numpy().sum(),
    "asarray": lambda v: np.asarray(v).sum(), "array": lambda v: np.array(v, dtype=np.float64).sum(),
    "dlpack": lambda v: np.from_dlpack(v).sum(), "math": lambda v: math.exp(v.sum() * 0.01),
    "left to NumPy": lambda v: np.polynomial.polynomial.polyvander(v, 2).sum(),
    "out": lambda v: np.add(np.zeros(3), v, out=np.zeros(3)).sum(), "pickle": lambda v: pickle.loads(pickle.dumps(v)).sum(),
    "unique": lambda v: wf.unique(v).sum(), "round": lambda v: round(float(v.sum())),
}
DEPEND = {
    "itself": lambda x: x, "through operations": lambda x: wf.tanh(x) * 2 + 1, "a view": lambda x: x[1:],
    "a transpose": lambda x: x.reshape(3, 1).T, "a copy": lambda x: x.copy(), "a write": lambda x: _written(x),
    "a gather": lambda x: x[[2, 0]], "a sort": lambda x: wf.sort(x),
    "a loop": lambda x: wf.fori_loop(0, 2, lambda i, c: c * 2, x),
    "another gradient": lambda x: grad(lambda y: (y**3).sum())(x), "a cast": lambda x: x.astype("float64"),
    "scaled by a stopped one": lambda x: x * wf.stop_gradient(x), "where": lambda x: wf.where(x > 0, x, 0.0),
}
FREE = {
    "stopped": lambda x: wf.stop_gradient(x) * 2, "outside": lambda x: OUTSIDE + 1, "floor": lambda x: wf.floor(x * 3),
    "integers": lambda x: x.astype("int64"), "positions": lambda x: wf.argsort(x), "signs": lambda x: wf.sign(x) * 2.0,
    "a comparison": lambda x: (x > 0).astype("float32"), "shape only": lambda x: wf.ones(x.shape),
    "an old gradient": lambda x: OLD * 2.0,
}
OUTSIDE = array([1.0, 2.0, 3.0])
OLD = grad(lambda y: (y * y).sum())(OUTSIDE)


def _written(x):
    out = wf.zeros(3)
    out[1:] = x[1:] * 2
    return out


@pytest.mark.parametrize("look", LOOKS)
def test_every_way_to_look_is_refused(look):
    def f(x):
        LOOKS[look](wf.stop_gradient(x))
        LOOKS[look](x * 2)
        return x.sum()

    with pytest.raises(TraceError, match=r"test_reads_in_grad\.py:\d+: the value of this array depends on what"):
        grad(f)(array(normal(3)))
    assert float(array([1.0]).sum()) == 1.0  # and nothing is left behind


@pytest.mark.parametrize("value", DEPEND)
def test_what_depends_is_not_told(value):
    x = array(normal(3))

    def f(x):
        float(DEPEND[value](x).sum())
        return x.sum()

    for run in (grad(f), value_and_grad(f), lambda x: vjp(f, x), grad(lambda x: grad(f)(x).sum()), grad(lambda x: f(x * 1))):
        with pytest.raises(TraceError, match="wf.stop_gradient"):
            run(x)
    assert math.isfinite(float(DEPEND[value](x).sum()))


@pytest.mark.parametrize("value", FREE)
def test_what_does_not_depend_may_be_looked_at(value):
    x = normal(3).astype(np.float64)

    def f(x):
        return (x * x).sum() * float(FREE[value](x).sum())

    want = 2 * x * float(FREE[value](array(x)).sum())
    np.testing.assert_allclose(grad(f)(array(x)).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(grad(lambda x: (grad(f)(x) * x).sum())(array(x)).numpy(), 2 * want, rtol=1e-12)


def test_branches_masks_and_positions_are_right_piece_by_piece():
    def f(x):
        total = x.sum()
        if total > 0 and x[0] < x[1] and bool(x.any()) and total:
            total = total * 2
        while total > 1.0:
            total = total / 3
        best = x[int(x.argmax())]
        positive = x[x > 0].sum() + wf.extract(x > 0.1, x).sum() + x[wf.nonzero(x)].sum() + x[wf.flatnonzero(x)].sum()
        return total * best + positive * positive + x[wf.argwhere(x)[0, 0]]

    for x in (np.array([0.3, 0.7, -0.2, 0.05]), np.array([-1.0, 0.5, 0.2, 0.15]), np.array([2.0, 3.0, 5.0, 7.0])):
        np.testing.assert_allclose(grad(f)(array(x)).numpy(), slope(f, x), rtol=1e-6, atol=1e-8)


def test_text_is_told(capsys):
    def f(x):
        print(x, f"{x.sum():.2f} {x[1:]}", repr(x))
        return (x * x).sum()

    assert grad(f)(array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert capsys.readouterr().out == "[1. 2.] 3.00 [2.] array([1., 2.], dtype=float32)\n"


def test_inside_jit_nothing_is_known():
    with pytest.raises(TraceError, match="traced by wf.jit"):
        jit(grad(lambda x: x.sum() * float(x.sum())))(array(normal(3)))
    with pytest.raises(TraceError, match="differentiated"):  # a constant of jit, differentiated
        jit(lambda y: grad(lambda x: x.sum() * float(x.sum()))(array([1.0, 2.0])) * y)(array([1.0]))


def test_module_parameters_and_floats():
    net = wf.nn.Linear(3, 2)
    x = array(normal(4, 3))
    for f in (lambda net: net(x).sum() * float(net.weight.sum()), lambda net: float(net(x).sum())):
        with pytest.raises(TraceError, match="differentiated"):
            grad(f)(net)
    assert grad(lambda net: net(x).sum() * float(x.sum()))(net).weight.shape == net.weight.shape
    with pytest.raises(TraceError, match="differentiated"):
        grad(lambda lr: math.sin(lr))(2.0)
    (value, seen), _ = value_and_grad(lambda x: (x.sum(), x * 2), has_aux=True)(x)
    assert float(seen.sum()) == pytest.approx(2 * float(value), rel=1e-4)
    assert copy.deepcopy(x).shape == x.shape


def test_looks_of_other_threads_and_later_ones_are_free():
    import threading

    x, seen = array([2.0]), []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(float(OUTSIDE.sum())))
        thread.start()
        thread.join()
        kept.append(x * 3)
        return (x * x).sum()

    kept: list = []
    assert grad(f)(x).tolist() == [4.0] and seen == [6.0] and kept[0].tolist() == [6.0]
