"""Sparse parameters: only touched rows change, by the optimizer's rule over the steps that touched them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import references as ref

import weft as wf
from weft import optim
from weft.dtypes.formats import FLOAT32
from weft.graph.primitives import TABLE, bind
from weft.graph.table_gradients import find_scatters

V, D, STEPS = 23, 5, 6
rng = np.random.default_rng()

# the rule in float64 over all steps; gradients of steps that did not touch a row are left out: it did not see them
CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "sgd": (lambda: optim.SGD(0.1), lambda p, g: ref.sgd(p, g, 0.1)),
    "momentum": (lambda: optim.SGD(0.1, 0.9), lambda p, g: ref.sgd(p, g, 0.1, 0.9)),
    "nesterov": (lambda: optim.SGD(0.1, 0.9, True), lambda p, g: ref.sgd(p, g, 0.1, 0.9, nesterov=True)),
    "adagrad": (lambda: optim.AdaGrad(0.1), lambda p, g: ref.adagrad(p, g, 0.1, 1e-10)),
    "rmsprop": (lambda: optim.RMSprop(0.1), lambda p, g: ref.rmsprop(p, g, 0.1, 0.99, 1e-8)),
    "adadelta": (lambda: optim.AdaDelta(0.8, 0.95, 1e-2), lambda p, g: ref.adadelta(p, g, 0.8, 0.95, 1e-2)),
}


class Lookup(wf.nn.Module):
    def __init__(self, table: np.ndarray, **options: Any) -> None:
        super().__init__()
        self.table = wf.nn.Embedding(*table.shape, sparse=True, **options)
        self.table.weight = table
        self.scale = wf.ones(table.shape[1])

    def forward(self, index: Any, factor: Any) -> Any:
        return ((self.table(index) + self.scale) * factor).sum()


def batches(steps: int = STEPS, rows: int = V) -> list[tuple[np.ndarray, np.ndarray]]:
    """Indices with repetitions, some counted from the end, and what the looked up rows are multiplied with."""
    return [(rng.integers(-rows, rows // 2, (3, 4)), rng.normal(size=(3, 4, D)).astype("f")) for _ in range(steps)]


def gradients(steps: list[tuple[np.ndarray, np.ndarray]], rows: int = V) -> list[np.ndarray]:
    out = []
    for index, factor in steps:
        g = np.zeros((rows, D))
        np.add.at(g, index % rows, factor.astype(np.float64))
        out.append(g)
    return out


def trained(optimizer: Any, table: np.ndarray, steps: list, jitted: bool = True, **options: Any) -> Lookup:
    model = Lookup(table, **options)
    optimizer.init(model)

    def step(index: Any, factor: Any) -> Any:
        value, slope = wf.value_and_grad(lambda m: m(index, factor))(model)
        optimizer.update(model, slope)
        return value

    step = wf.jit(step) if jitted else step
    for index, factor in steps:
        step(wf.array(index), wf.array(factor))
    return model


def adam(table: np.ndarray, steps: list, lr: float, b1=0.9, b2=0.999, eps=1e-8, wd=0.0) -> np.ndarray:
    """Lazy Adam in float64: means decay when a row is touched, the bias is corrected by the number of all steps."""
    p, m, v = table.astype(np.float64), np.zeros((V, D)), np.zeros((V, D))
    for t, ((index, _), g) in enumerate(zip(steps, gradients(steps), strict=True), 1):
        k = np.unique(index % V)
        g = g[k] + wd * p[k]
        m[k] = b1 * m[k] + (1 - b1) * g
        v[k] = b2 * v[k] + (1 - b2) * g**2
        p[k] -= lr * (m[k] / (1 - b1**t)) / (np.sqrt(v[k] / (1 - b2**t)) + eps)
    return p


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_rules_that_do_not_count_steps(name: str, jitted: bool) -> None:
    make, reference = CASES[name]
    table, steps = rng.normal(size=(V, D)).astype("f"), batches()
    found = trained(make(), table, steps, jitted).table.weight.numpy()
    for row in range(V):
        seen = [g[row] for (index, _), g in zip(steps, gradients(steps), strict=True) if row in index % V]
        wanted = [*reference(table[row].astype(np.float64), seen)][-1] if seen else table[row]
        assert np.abs(found[row] - wanted).max() < 1e-5 * max(1, np.abs(wanted).max()), (name, row)


@pytest.mark.parametrize("decay", [0.0, 0.2])
@pytest.mark.parametrize("jitted", [True, False])
def test_adam_is_lazy(jitted: bool, decay: float) -> None:
    table, steps = rng.normal(size=(V, D)).astype("f"), batches()
    found = trained(optim.Adam(0.1, weight_decay=decay), table, steps, jitted).table.weight.numpy()
    assert np.abs(found - adam(table, steps, 0.1, wd=decay)).max() < 2e-5


def test_every_optimizer_leaves_other_rows_alone() -> None:
    table = rng.normal(size=(V, D)).astype("f")
    steps = [(index % 7, np.abs(factor)) for index, factor in batches(3)]  # one sign: steps of one length would undo each other
    touched = np.unique(np.concatenate([index.reshape(-1) for index, _ in steps]))
    for make in (optim.AdamW, optim.AMSGrad, optim.AdaMax, optim.Nadam, optim.AdaBelief, optim.RMSpropGraves, optim.SMORMS3,
                 optim.Lion, optim.AdaBound, optim.SantaSSS):
        found = trained(make(), table, steps).table.weight.numpy()
        assert np.array_equal(found[7:], table[7:]), make.__name__
        assert (found[touched] != table[touched]).any(1).all() and np.isfinite(found).all(), make.__name__


def test_clipping_sees_the_whole_gradient() -> None:
    table, steps = rng.normal(size=(V, D)).astype("f"), batches(1)
    (g,) = gradients(steps)
    other = steps[0][1].astype(np.float64).sum((0, 1))
    factor = 0.5 / np.sqrt((g**2).sum() + (other**2).sum())
    model = trained(optim.SGD(1.0, clip_norm=0.5), table, steps)
    assert np.abs(model.table.weight.numpy() - (table - factor * g)).max() < 1e-5
    assert np.abs(model.scale.numpy() - (1 - factor * other)).max() < 1e-5
    model = trained(optim.SGD(1.0, clip_value=0.25), table, steps)
    assert np.abs(model.table.weight.numpy() - (table - np.clip(g, -0.25, 0.25))).max() < 1e-5


def test_sums_and_multiples_of_gradients_are_rows_still() -> None:
    table, steps = rng.normal(size=(V, D)).astype("f"), batches(2)
    model, optimizer = Lookup(table), optim.SGD(0.5, 0.9)
    (i, f), (j, h) = [tuple(map(wf.array, pair)) for pair in steps]
    slope = wf.grad(lambda m: m(i, f) + 3.0 * m(j, h) - m(i, f) / 4.0)(model)
    scaled = {"table": {"weight": -(slope.table.weight * 2.0)}, "scale": slope.scale}
    assert [p.indices.shape for p in find_scatters(scaled["table"]["weight"].node, FLOAT32)] == [(3, 4)] * 3
    optimizer.update(model, scaled)
    a, b = gradients(steps)
    assert np.abs(model.table.weight.numpy() - (table + (1.5 * a + 6.0 * b) * 0.5)).max() < 1e-5


def test_long_sums_are_rows_too() -> None:
    """A loop over time steps adds one lookup's gradient after another, each sum inside the next."""
    table, index = wf.array(rng.normal(size=(V, D))), wf.array([1, 2])
    one = wf.grad(lambda t: t[index].sum())(table)._node
    total = one
    for _ in range(3000):
        total = bind(TABLE["add"], total, one)
    parts = find_scatters(total, total.dtype)
    assert parts is not None and len(parts) == 3001


def test_a_gradient_that_was_looked_at_gives_the_same() -> None:
    table, steps = rng.normal(size=(V, D)).astype("f"), batches(4)
    model, optimizer = Lookup(table), optim.Adam(0.1)
    for index, factor in steps:
        slope = wf.grad(lambda m, i=index, f=factor: m(wf.array(i), wf.array(f)))(model)
        slope.table.weight.numpy()
        optimizer.update(model, slope)
    assert np.abs(model.table.weight.numpy() - adam(table, steps, 0.1)).max() < 2e-5


def test_dicts_name_sparse_parameters_as_a_group() -> None:
    table, (index, factor) = rng.normal(size=(V, D)).astype("f"), batches(1)[0]
    p = {"table": wf.array(table), "bias": wf.zeros(D)}
    optimizer = optim.Adam(0.1, groups={"table": {"sparse": True}})

    @wf.jit
    def step(index: Any, factor: Any) -> None:
        optimizer.update(p, wf.grad(lambda p: ((wf.nn.embedding(index, p["table"]) + p["bias"]) * factor).sum())(p))

    optimizer.init(p)
    kernels = wf.explain(step, wf.array(index), wf.array(factor)).kernels
    assert sum("last_equal" in k.name for k in kernels) == 1
    step(wf.array(index), wf.array(factor))
    assert np.abs(p["table"].numpy() - adam(table, [(index, factor)], 0.1)).max() < 2e-5


def test_half_precision_tables_sum_their_gradients_in_float32() -> None:
    table = rng.normal(size=(V, D)).astype(np.float16)
    index, factor = wf.full((3, 4), 2), wf.full((3, 4, D), 1 / 3)
    for dtype in ("float16", "bfloat16"):
        model = Lookup(table.astype("f"))
        object.__setattr__(model.table, "weight", wf.array(table).astype(dtype))
        optim.SGD(0.25).update(model, wf.grad(lambda m: (m.table(index).astype("float32") * factor).sum())(model))
        wanted = table.astype(np.float64)
        wanted[2] -= 0.25 * 12 / 3
        assert model.table.weight.dtype == dtype
        assert np.abs(model.table.weight.astype("float32").numpy() - wanted).max() < (2e-2 if dtype == "bfloat16" else 2e-3)


def test_padding_is_not_trained() -> None:
    table, steps = rng.normal(size=(V, D)).astype("f"), batches()
    model = trained(optim.Adam(0.1), table, steps, padding_idx=3)
    assert np.array_equal(model.table.weight.numpy()[3], table[3])


def test_same_bits_for_any_number_of_threads() -> None:
    before = wf.get_num_threads()
    rows, width = 700, 96
    table = rng.normal(size=(rows, width)).astype("f")
    steps = [(rng.integers(0, rows, (40, 50)), rng.normal(size=(40, 50, width)).astype("f")) for _ in range(3)]
    found = []
    try:
        for threads in (1, 2, 3):
            wf.set_num_threads(threads)
            found.append(trained(optim.Adam(0.1), table, steps).table.weight.numpy().tobytes())
    finally:
        wf.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.parametrize("make", [lambda: optim.SGD(0.1, 0.9), lambda: optim.AdaGrad(0.1), lambda: optim.Adam(0.1)])
def test_a_step_moves_no_more_of_a_larger_table(make: Callable[[], Any]) -> None:
    """Bytes of every kernel, and who writes in whose memory, are the same whatever the number of rows."""
    traffic = []
    for rows in (50, 5000):
        model, optimizer = Lookup(rng.normal(size=(rows, D)).astype("f")), make()
        index, factor = wf.array(rng.integers(0, 50, (3, 4))), wf.ones((3, 4, D))
        optimizer.init(model)

        @wf.jit
        def step(index: Any, factor: Any, model: Any = model, optimizer: Any = optimizer) -> None:
            optimizer.update(model, wf.grad(lambda m: m(index, factor))(model))

        step(index, factor)
        seen = wf.explain(step, index, factor)
        traffic.append([k.bytes for k in seen.kernels])
        large = [k for k, (shape, _) in enumerate(seen.program.outputs) if shape == (rows, D)]
        assert sorted(o for _, o in seen.program.donate if o in large) == large
        weight = model.table.weight
        address = weight.node.value.address
        step(index, factor)
        assert weight.node.value.address == address, "the table was copied"
    assert traffic[0] == traffic[1]
