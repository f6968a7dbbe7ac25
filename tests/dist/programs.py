"""The program of a test's ranks: random collectives in every way of execution, against NumPy on data of all ranks.

``programs.py SEED VALUES GRADIENTS``: the numbers of random cases. Every rank can compute the data of all, so it
knows what to expect. Prints a hash of what must not depend on the number of ranks.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.dist import primitives
from weft.dist.world import world

SEED = int(sys.argv[1])
RANK, SIZE = wf.dist.rank(), wf.dist.size()
EVERYBODY = range(SIZE)
COLLECTIVES = ("all_sum", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
HAS_ROWS = ("reduce_scatter", "all_to_all")


def tree(parts: list[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    half = 1 << ((len(parts) - 1).bit_length() - 1)
    return tree(parts[:half]) + tree(parts[half:])


def expected(name: str, data: list[np.ndarray], me: int, root: int) -> np.ndarray:
    """What the collective gives to the member ``me`` of those whose data these are."""
    if name == "all_gather":
        return np.stack(data)
    if name == "reduce_scatter":
        return tree([x[me] for x in data])
    if name == "all_to_all":
        return np.stack([x[me] for x in data])
    return tree(data) if name == "all_sum" else data[root]


def function(name: str, root: int, group: Any) -> Callable[[Any], Any]:
    f = getattr(wf.dist, name)
    return (lambda x: f(x, root=root, group=group)) if name == "broadcast" else lambda x: f(x, group=group)


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def pick_shape(rng: np.random.Generator) -> tuple[int, ...]:
    shapes = [(), (0,), (1,), (3,), (SIZE,), (2, 3), (3, 0, 2), (7, 5), (4097,), (130, 70)]
    return shapes[rng.integers(len(shapes))]


def same(a: Any, b: np.ndarray, what: object) -> None:
    """Equal bits, shape and dtype."""
    a = a.numpy()
    assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, a.dtype, b.shape, b.dtype)
    assert a.tobytes() == np.ascontiguousarray(b).tobytes(), (what, SEED, a, b)


def check_values(rng: np.random.Generator, case: int) -> None:
    """One collective on random data, eagerly, in jit, vmap, jit of vmap and scan."""
    name = str(rng.choice(COLLECTIVES))
    dtypes = ["float32", "float64", "int32", "uint8", "complex64", "float16", "bool"]
    dtype = str(rng.choice(dtypes if name not in ("all_sum", "reduce_scatter") else dtypes[:6]))
    members = list(EVERYBODY) if rng.random() < 0.7 else [int(k) for k in rng.permutation(SIZE)[: rng.integers(1, SIZE + 1)]]
    n, root, shape = len(members), int(rng.integers(len(members))), pick_shape(rng)
    group = None if members == list(EVERYBODY) else wf.dist.group(members)
    whole = (n, *shape) if name in HAS_ROWS else shape
    data = [draw(rng, (3, *whole), dtype) for _ in EVERYBODY]  # three examples
    axis = int(rng.integers(1 + len(whole)))
    if RANK not in members:
        return
    me, own = members.index(RANK), data[RANK]
    wide = np.float32 if dtype == "float16" else dtype  # sums are rounded once

    def answer(k: int) -> np.ndarray:
        return expected(name, [data[r][k].astype(wide) for r in members], me, root).astype(dtype)

    f, what = function(name, root, group), (case, name, dtype, whole, members, root)
    x = wf.asarray(own)
    same(f(x[0]), answer(0), (what, "eager"))
    if whole and whole[-1] > 1:
        same(f(wf.asarray(np.repeat(own[1], 2, axis=-1))[..., ::2]), answer(1), (what, "a view"))
        same(f(wf.concat([x[2], x[2]], axis=-1)[..., : whole[-1]]), answer(2), (what, "pending"))
    jitted = wf.jit(f)
    for k in (0, 1, 2, 0):
        same(jitted(x[k]), answer(k), (what, "jit"))
    assert jitted.traces == 1, (what, "traces", jitted.traces)
    all_three = np.stack([answer(k) for k in range(3)])
    same(wf.vmap(f)(x), all_three, (what, "vmap"))
    same(wf.jit(wf.vmap(f))(x), all_three, (what, "jit of vmap"))
    same(wf.vmap(f, in_axes=axis)(wf.moveaxis(x, 0, axis)), all_three, (what, "vmap over an inner axis"))
    same(wf.scan(lambda c, row: (c, f(row)), None, x)[1], all_three, (what, "scan"))
    same(wf.jit(lambda x: wf.scan(lambda c, row: (c, f(row)), None, x)[1])(x), all_three, (what, "jit of scan"))


def check_gradients(rng: np.random.Generator, case: int) -> None:
    """The derivative of what all ranks differentiate, in sum, against central differences in NumPy."""
    name = str(rng.choice(COLLECTIVES))
    root, shape = int(rng.integers(SIZE)), [(), (3,), (2, 3), (SIZE, 2)][rng.integers(4)]
    whole = (SIZE, *shape) if name in HAS_ROWS else shape
    data = [rng.normal(size=whole) for _ in EVERYBODY]
    result = expected(name, data, 0, root).shape
    weights = [rng.normal(size=result) for _ in EVERYBODY]
    if name == "all_sum":  # its result is one number of the job: all ranks differentiate the same, counted once
        weights = weights[:1] * SIZE
    directions = [rng.normal(size=whole) for _ in EVERYBODY]

    def total(step: float) -> float:
        moved = [np.sin(x + step * v) for x, v in zip(data, directions, strict=True)]
        terms = [(np.tanh(expected(name, moved, r, root)) * weights[r]).sum() for r in EVERYBODY]
        return terms[0] if name == "all_sum" else sum(terms)

    f, w = function(name, root, None), wf.asarray(weights[RANK])
    def loss(x: Any) -> Any:
        return (wf.tanh(f(wf.sin(x))) * w).sum()

    x, v = wf.asarray(data[RANK]), wf.asarray(directions[RANK])
    slope = (total(1e-5) - total(-1e-5)) / 2e-5
    step = wf.stack([x, x])

    def in_a_loop(x: Any) -> Any:
        return wf.scan(lambda c, _: (c + loss(x), None), wf.array(0.0, "float64"), step)[0] / 2

    ways = {
        "grad": lambda: wf.grad(loss)(x), "jit of grad": lambda: wf.jit(wf.grad(loss))(x),
        "vjp": lambda: wf.vjp(loss, x)[1](wf.array(1.0, "float64"))[0], "remat": lambda: wf.grad(wf.remat(loss))(x),
        "grad of jit": lambda: wf.grad(wf.jit(loss))(x), "grad of scan": lambda: wf.grad(in_a_loop)(x),
        "jit of grad of scan": lambda: wf.jit(wf.grad(in_a_loop))(x), "vmap": lambda: wf.vmap(wf.grad(loss))(step)[1],
    }
    for way in rng.permutation(list(ways))[:4]:
        found = float(wf.dist.all_sum((ways[way]() * v).sum()))
        assert abs(found - slope) <= 1e-6 * (1 + abs(slope)), (case, name, way, whole, found, slope, SEED)
    for g in (loss, in_a_loop):
        _, tangent = wf.jvp(g, (x,), (v,))
        found = float(tangent) if name == "all_sum" else float(wf.dist.all_sum(tangent))
        assert abs(found - slope) <= 1e-6 * (1 + abs(slope)), (case, name, "jvp", g.__name__, found, slope, SEED)


def check_second_derivatives() -> None:
    x = wf.asarray(np.linspace(0.1, 1, 3) + RANK)
    g = wf.grad(lambda x: (wf.grad(lambda x: (wf.dist.all_gather(x) ** 3).sum())(x) ** 2).sum())(x)
    ours = np.linspace(0.1, 1, 3) + RANK  # the inner gradient is 3 x^2 of each of the ranks' losses
    assert np.allclose(g.numpy(), 2 * (3 * SIZE * ours**2) * 6 * SIZE * ours), (g, ours)

    def loss(x: Any) -> Any:
        return (wf.dist.all_sum(x) ** 4).sum()

    def in_a_loop(x: Any) -> Any:
        return wf.scan(lambda c, _: (c + loss(x) / 2, None), wf.array(0.0, "float64"), length=2)[0]

    total = sum(np.linspace(0.1, 1, 3) + r for r in EVERYBODY)
    want, third = np.diag(12 * SIZE * total**2), 24 * SIZE**2 * total
    for f in (loss, in_a_loop):
        slope = wf.grad(f)
        for outer in (wf.jacfwd, wf.jacrev):
            for way in (outer(slope), wf.jit(outer(slope)), outer(wf.jit(slope))):
                assert np.allclose(way(x).numpy(), want), (outer.__name__, way(x), want)
        assert np.allclose(wf.vmap(wf.hessian(f))(wf.stack([x, x])).numpy(), want), f
        curvature = wf.grad(lambda x, slope=slope: slope(x).sum())
        for outer in (wf.grad(lambda x, c=curvature: c(x).sum()), lambda x, c=curvature: wf.jvp(c, (x,), (wf.ones_like(x),))[1]):
            assert np.allclose(outer(x).numpy(), third), (outer(x), third)
    z = wf.asarray(np.array([1 + 2j, 3 - 1j]))
    slopes = [wf.grad(lambda z, k=k: (wf.abs(wf.dist.all_sum(z) if k else z) ** 2).sum())(z).numpy() for k in (0, 1)]
    assert np.allclose(slopes[1], SIZE * slopes[0]), slopes


def check_rules_of_users() -> None:
    """A copy of an array for all ranks, whose derivative is the sum of theirs: the first half of a layer that is split."""
    @wf.custom_vjp
    def copy(x: Any) -> Any:
        return x

    copy.defvjp(lambda x: (x, None), lambda _, g: (wf.dist.all_sum(g),))
    x = wf.arange(4.0)

    def loss(x: Any) -> Any:
        return (copy(wf.sin(x)) * (1.0 + RANK)).sum() + (copy(x) * RANK).sum()

    want = np.cos(np.arange(4.0)) * sum(1.0 + r for r in EVERYBODY) + sum(EVERYBODY)
    for f in (wf.grad(loss), wf.jit(wf.grad(loss)), wf.jit(lambda x: wf.vmap(wf.grad(loss))(x[None])[0])):
        y = f(x)
        if RANK == 0:
            assert np.allclose(y.numpy(), want), (y, want)


def check_training() -> None:
    """Steps of gradient descent on each rank's rows: equal weights on all ranks, in jit and in a scan of the same steps."""
    wf.random.seed(SEED)
    start = wf.nn.Linear(3, 2)
    rows = wf.asarray(np.random.default_rng([SEED, RANK]).normal(size=(4, 8, 3)).astype(np.float32))
    results = []
    for loop in (False, True):
        net = wf.nn.Linear(3, 2)
        net.weight[...], net.bias[...] = start.weight, start.bias
        optimizer = wf.optim.Adam(lr=0.1).init(net)

        def step(x: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            loss, slope = wf.value_and_grad(lambda net: (net(x) ** 2).mean())(net)
            optimizer.update(net, wf.tree_map(lambda g: wf.dist.all_sum(g) / SIZE, slope))
            return loss

        if loop:
            wf.scan(lambda c, x, step=step: (c, step(x)), None, rows)
        else:
            jitted = wf.jit(step)
            for x in rows:
                jitted(x)
            assert jitted.traces == 1
        results.append(np.concatenate([net.weight.numpy().ravel(), net.bias.numpy()]))
    assert results[0].tobytes() == results[1].tobytes()
    gathered = wf.dist.all_gather(wf.asarray(results[0])).numpy()
    assert all(row.tobytes() == results[0].tobytes() for row in gathered)


def check_divided_layers(rng: np.random.Generator) -> None:
    """Layers whose weights are divided among ranks, beside the whole layers of one rank: values, gradients, training, errors."""
    vocabulary, width, hidden, out, rows = (int(n) for n in rng.integers(SIZE, 12, 5))
    between = bool(rng.integers(2))  # whether the hidden features are whole between both layers
    wf.random.seed(SEED)
    divided = [
        wf.nn.VocabParallelEmbedding(vocabulary, width), wf.nn.ColumnParallelLinear(width, hidden, gather_output=between),
        wf.nn.RowParallelLinear(hidden, out, input_is_parallel=not between),
    ]
    wf.random.seed(SEED)
    whole = [wf.nn.Embedding(vocabulary, width), wf.nn.Linear(width, hidden), wf.nn.Linear(hidden, out)]
    for part, layer in zip(divided, whole, strict=True):
        for name, a in layer.parameters().items():
            same(part.whole().parameters()[name], a.numpy(), ("whole", part, name))
    nets = [wf.nn.Sequential(*layers).astype("float64") for layers in (divided, whole)]
    index = wf.asarray(rng.integers(-vocabulary, vocabulary, (rows, 2)))
    target = wf.asarray(rng.normal(size=(rows, 2, out)))
    losses: list[list[float]] = []
    for net in nets:
        optimizer = wf.optim.Adam(lr=0.01).init(net)

        def loss(net: Any) -> Any:
            return ((wf.tanh(net(index)) - target) ** 2).mean()

        def step(net: Any = net, optimizer: Any = optimizer) -> Any:
            value, slopes = wf.value_and_grad(loss)(net)
            optimizer.update(net, slopes)
            return value

        jitted = wf.jit(step)
        losses.append([float(f()) for f in (step, jitted, jitted, jitted)])
        assert jitted.traces == 1, jitted.traces
    assert np.allclose(*losses, rtol=1e-12), (losses, SEED)
    for part, layer in zip(divided, whole, strict=True):
        for name, a in layer.parameters().items():
            assert np.allclose(part.whole().parameters()[name].numpy(), a.numpy(), rtol=1e-8, atol=1e-10), (part, name, SEED)
    x = wf.asarray(rng.normal(size=(3, width)))
    slopes = [wf.vmap(wf.grad(lambda x, net=net: (wf.tanh(net[2](wf.sin(net[1](x)))) ** 2).sum()))(x).numpy() for net in nets]
    assert np.allclose(*slopes, rtol=1e-8, atol=1e-10), (slopes, SEED)
    for wrong in (lambda: wf.nn.ColumnParallelLinear(3, SIZE - 1), lambda: divided[0](wf.asarray([vocabulary]))):
        try:
            wrong()
        except (wf.errors.ShapeError, IndexError):
            continue
        raise AssertionError("no error")


def check_effects() -> None:
    """Collectives run once, in order, although one rank reads nothing and another one looks at everything."""
    x = wf.arange(4.0) + RANK

    @wf.jit
    def unread(x: Any) -> Any:
        y = wf.dist.all_sum(x)
        wf.dist.all_gather(x * 2)
        return y if RANK == 0 else x

    for _ in range(3):
        unread(x)
    held = wf.zeros(4)

    @wf.jit
    def writes(x: Any) -> None:
        held[...] = held + wf.dist.all_sum(x)

    for _ in range(3):
        writes(x)
    assert np.allclose(held.numpy(), 3 * sum(np.arange(4.0) + r for r in EVERYBODY))

    def loss(x: Any) -> Any:
        return (wf.dist.all_gather(x) * wf.dist.all_sum(x)).sum()

    for f in (wf.grad(loss), wf.jit(wf.grad(loss)), wf.vmap(wf.dist.all_sum)):
        y = f(x)
        if RANK == 0:
            assert y.numpy().shape == (4,)  # a look that the others do not take
    _, pull = wf.vjp(lambda x: wf.dist.all_gather(x), x)
    z = pull(wf.ones((SIZE, 4)))[0]
    if RANK == SIZE - 1:
        print("seen", z.numpy().tolist(), file=sys.stderr)
    _, push = wf.linearize(lambda x: wf.dist.all_gather(wf.sin(x)), x)
    z = push(wf.ones(4))
    if RANK == 0:
        assert np.allclose(z.numpy(), [np.cos(np.arange(4.0) + r) for r in EVERYBODY]), z
    ys = wf.scan(lambda c, _: (c, wf.dist.all_sum(c)), x, length=3)[1]
    if RANK == 0:
        ys.numpy()
    chosen = wf.cond(x.sum() > -1, lambda x: wf.dist.all_sum(x), lambda x: x, x)
    if RANK == 0:
        chosen.numpy()
    wf.dist.barrier()
    if SIZE > 1:
        try:
            wf.grad(lambda x: wf.dist.all_sum(x).sum() if wf.dist.all_sum(x).sum() > 0 else x.sum())(x)
            raise AssertionError("a look inside of a gradient")
        except wf.errors.TraceError as error:
            assert "all_sum" in str(error) and "programs.py" in str(error), error


def check_messages() -> None:
    """A chain of layers, one a rank: gradients as of all layers on one rank. Then messages in jit, more than one under way."""
    if SIZE == 1:
        return
    weights = [np.random.default_rng([SEED, r]).normal(size=(3, 3)) for r in EVERYBODY]
    start = np.random.default_rng([SEED, 99]).normal(size=(2, 3))

    def stage(w: Any) -> Any:
        loss = wf.array(0.0, "float64")
        for example in start:
            h = wf.asarray(example) if RANK == 0 else wf.dist.recv(wf.zeros(3, "float64"), source=RANK - 1)
            h = wf.tanh(h @ w)
            loss = loss + (wf.dist.send(h, to=RANK + 1) if RANK < SIZE - 1 else (h**2).sum())
        return loss

    def whole(ws: list[Any]) -> Any:
        h = wf.asarray(start)
        for w in ws:
            h = wf.tanh(h @ w)
        return (h**2).sum()

    own = wf.asarray(weights[RANK])
    reference = wf.grad(whole)([wf.asarray(w) for w in weights])[RANK].numpy()
    for way, f in (("grad", wf.grad(stage)), ("jit", wf.jit(wf.grad(stage)))):
        for _ in range(2):
            assert np.allclose(f(own).numpy(), reference, rtol=1e-12), (way, SEED)

    try:
        wf.grad(lambda x: wf.scan(lambda c, _: (c + wf.dist.recv(c, (RANK + 1) % SIZE), None), x, length=2)[0].sum())(own)
        raise AssertionError("the derivative of a message in a loop")
    except TypeError as error:
        assert "is not possible inside of a loop" in str(error), error

    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE

    def shifted(x: Any) -> Any:  # the received array has a derivative although ``like`` has none
        sent = wf.dist.send(wf.sin(x), to=right)
        return (wf.dist.recv(wf.stop_gradient(x), source=left) ** 2).sum() + sent

    x = wf.asarray(np.random.default_rng([SEED, RANK]).normal(size=(4, 3)))
    for axis in (0, 1):
        examples = wf.vmap(lambda a: (wf.dist.send(a, to=right), wf.dist.recv(a, source=left))[1], in_axes=axis)
        for f in (examples, wf.jit(examples)):
            want = np.random.default_rng([SEED, left]).normal(size=(4, 3))
            same(f(x), want.T if axis else want, "messages in vmap")
    want = np.sin(2 * x.numpy())
    many = wf.grad(lambda x: wf.vmap(shifted)(x).sum())
    for f in (wf.grad(shifted), wf.vmap(wf.grad(shifted)), many, wf.grad(wf.jit(shifted))):
        assert np.allclose(f(x).numpy(), want), (f, SEED)

    @wf.jit
    def around(x: Any) -> Any:
        wf.dist.send(x, to=right)
        wf.dist.send(x * 2, to=right)
        return wf.dist.recv(x, source=left) + 10 * wf.dist.recv(x, source=left)

    for size in (0, 1, 5, 100_000):
        x = wf.full(size, float(RANK), dtype="float32")
        same(around(x), np.full(size, 21.0 * left, np.float32), "a ring")


def check_average() -> None:
    """Gradients of means over each rank's rows become those of the mean over all rows."""
    rng = np.random.default_rng([SEED, 7])
    rows = [int(n) for n in rng.integers(0, 4, SIZE)]
    rows[int(rng.integers(SIZE))] += 1
    x = rng.normal(size=(sum(rows), 3)).astype(np.float32)
    first = sum(rows[:RANK])
    own = wf.asarray(x[first : first + rows[RANK]]) if rows[RANK] else wf.full((1, 3), np.nan, dtype="float32")
    wf.random.seed(SEED)
    net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Linear(4, 2))
    slopes = wf.grad(lambda net, x: (net(x) ** 2).mean())
    want = slopes(net, wf.asarray(x)).parameters()
    within = wf.jit(lambda net, x, count: wf.dist.average(slopes(net, x), count))
    for count in (rows[RANK], wf.asarray(rows[RANK])):
        for means in (wf.dist.average(slopes(net, own), count), within(net, own, count)):
            for name, a in means.parameters().items():
                assert np.allclose(a.numpy(), want[name].numpy(), rtol=1e-5, atol=1e-7), (SEED, name)
    tree = {"a": wf.full(2, RANK, dtype="float16"), "b": [wf.full((), 1j * RANK, dtype="complex64"), wf.zeros((0, 2))]}
    means = wf.dist.average(tree, 2)
    middle = (SIZE - 1) / 2
    assert means["a"].dtype == np.float16 and np.allclose(means["a"].numpy(), middle, atol=1e-3)
    assert np.allclose(means["b"][0].numpy(), 1j * middle) and means["b"][1].shape == (0, 2)
    assert wf.dist.average(wf.full(3, np.inf), 0).tolist() == [0, 0, 0], "no rank has rows"


def draw_net(rng: np.random.Generator) -> Callable[..., Any]:
    """A function of arrays of 72 rows that computes and asks for collectives in random order, many of them long."""
    steps = [(str(rng.choice(("layer", "add", "loop", *COLLECTIVES, *COLLECTIVES, "ring", "barrier", "unread"))),
              int(rng.integers(5)), int(rng.integers(5)), int(rng.integers(SIZE))) for _ in range(int(rng.integers(3, 14)))]
    returned = [int(k) for k in rng.integers(0, 3 + len(steps), 3)]

    def net(*arrays: Any) -> Any:
        values, total = list(arrays), wf.array(0.0)
        for name, a, b, root in steps:
            x, y = values[-1 - a % len(values)], values[-1 - b % len(values)]
            if name == "layer":
                x = wf.tanh(x @ y.T @ x / 72)
            elif name == "loop":
                x = wf.scan(lambda c, _, y=y: (wf.sin(wf.dist.all_sum(c) + y), None), x, length=2)[0]
            elif name in COLLECTIVES:
                whole = wf.stack([x] * SIZE) if name in HAS_ROWS else x
                x = function(name, root, None)(whole)
                x = x if x.ndim == 2 else x.sum(axis=0)
            elif name == "ring" and SIZE > 1:
                sent = wf.dist.send(x, to=(RANK + 1) % SIZE)
                x = wf.dist.recv(x, source=(RANK - 1) % SIZE) * y
                total = total + sent
            else:
                if name == "barrier":
                    wf.dist.barrier()
                if name == "unread":
                    wf.dist.all_sum(y)
                x = x + y
            values.append(x / (1 + wf.abs(x)))
            total = total + values[-1].sum()
        return [*[values[k] for k in returned], total]

    return net


def check_overlap(rng: np.random.Generator) -> None:
    """Random programs, and their gradients, ask for the same and give the same bits, beside computing or one after the other."""
    job, asked, run_together = world(), [], primitives.run_together

    def note(algorithm: Any, request: str, *arguments: Any, **options: Any) -> Any:
        def run(*rest: Any, **more: Any) -> Any:
            asked.append(request)
            return algorithm(*rest, **more)

        return run_together(run, request, *arguments, **options)

    net = draw_net(rng)
    arrays = [wf.asarray(draw(np.random.default_rng([SEED, RANK, k]), (72, 72), "float32")) for k in range(3)]
    slope = wf.grad(lambda *arrays: net(*arrays)[-1], (0, 1, 2))  # a message needs both derivatives
    primitives.run_together, overlaps = note, job.overlaps
    try:
        for f in (net, wf.jit(net), wf.jit(slope)):
            found = []
            for job.overlaps in (True, False, True):
                asked.clear()
                bits = [a.numpy().tobytes() for a in f(*arrays)]
                found.append((bits, list(asked)))
            assert found[0] == found[1] == found[2], (SEED, [row[1] for row in found])
    finally:
        primitives.run_together, job.overlaps = run_together, overlaps


def print_hashes() -> None:
    """The sum of 8 shards, added up by ranks that hold neighbours, has the bits of one rank's tree for 1, 2 and 4 ranks."""
    out = hashlib.sha256()
    for size in (1, 1000, 50_001):
        shards = [np.random.default_rng([SEED, size, s]).normal(size=size).astype(np.float32) for s in range(8)]
        mine = shards[RANK * 8 // SIZE : (RANK + 1) * 8 // SIZE]
        out.update(wf.dist.all_sum(wf.asarray(tree(mine))).numpy().tobytes())
    if RANK == 0:
        print(f"hash {out.hexdigest()}")


def main() -> None:
    rng = np.random.default_rng(SEED)  # the same draws on all ranks
    for case in range(int(sys.argv[2])):
        check_values(rng, case)
    for case in range(int(sys.argv[3])):
        check_gradients(rng, case)
    check_second_derivatives()
    check_rules_of_users()
    check_training()
    check_divided_layers(np.random.default_rng(SEED))
    check_effects()
    check_messages()
    check_average()
    for case in range(int(sys.argv[3]) * 3):
        check_overlap(np.random.default_rng([SEED, case]))
    print_hashes()
    if RANK == 0:
        print("all checked")


if __name__ == "__main__":
    main()
