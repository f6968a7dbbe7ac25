"""Lines that move elements: shapes, joins, pads, writes into slices, gathers and scatters, sorts."""

from __future__ import annotations

from tests.fuzz.grow import INTEGERS, Growth


def _slice(g: Growth, n: int) -> str:
    """A slice of an extent, as text: steps, negative ones, ends beyond the end."""
    r = g.r
    roll = r.random()
    if roll < 0.3 or n == 0:
        return ":"
    if roll < 0.6:
        lo = r.randint(0, n - 1)
        return f"{lo}:{r.randint(lo + 1, n)}"
    if roll < 0.75:
        return f"{r.randint(0, n - 1)}::{r.choice((1, 2, 3))}"
    if roll < 0.85:
        return r.choice(("::-1", "::2", "1::2", "::-2", ":-1", "1:"))
    return f"{-r.randint(1, n)}:{r.choice(('', str(n + 3)))}"


def index(g: Growth, x: str, whole: bool = True) -> str:
    """A basic index of an array, as text; without ``whole`` no dimension is dropped."""
    r, parts = g.r, []
    for n in g.shape(x):
        parts.append(str(r.randrange(-n, n)) if n and whole and r.random() < 0.2 else _slice(g, n))
    if whole and r.random() < 0.1:
        parts.insert(r.randint(0, len(parts)), "None")
    if len(parts) > 1 and r.random() < 0.15:
        parts = [*parts[: r.randint(0, 1)], "..."]
    return ", ".join(parts) or "..."


def sliced(g: Growth) -> str:
    x = g.any(1)
    return f"{x}[{index(g, x)}]"


def factors(g: Growth, total: int, ndim: int) -> tuple[int, ...]:
    """A random shape of so many elements."""
    shape, rest = [], total
    for _ in range(ndim - 1):
        found = [d for d in range(1, rest + 1) if rest % d == 0] if 0 < rest <= 5000 else [1]
        shape.append(g.r.choice(found))
        rest = rest // shape[-1] if shape[-1] else 0
    return (*shape, rest)


def reshaped(g: Growth) -> str:
    x, r = g.any(), g.r
    total = g.values[x].size
    shape = factors(g, total, r.randint(1, 4))
    if total and r.random() < 0.3:
        k = r.randrange(len(shape))
        shape = (*shape[:k], -1, *shape[k + 1:])
    return r.choice((f"wf.reshape({x}, {shape})", f"{x}.reshape({shape})", f"wf.ravel({x})", f"{x}.flatten()"))


def turned(g: Growth) -> str:
    x, r = g.any(2), g.r
    axes = list(range(len(g.shape(x))))
    r.shuffle(axes)
    return r.choice((
        f"wf.permute_dims({x}, {tuple(axes)})", f"{x}.transpose({tuple(axes)})", f"{x}.T", f"wf.swapaxes({x}, 0, -1)",
        f"wf.moveaxis({x}, 0, -1)", f"wf.matrix_transpose({x})", f"{x}.mT", f"wf.transpose({x})",
    ))


def flipped(g: Growth) -> str:
    x, r = g.any(1), g.r
    axis = g.axes(x)
    return r.choice((
        f"wf.flip({x}, axis={axis})", f"wf.roll({x}, {r.choice((1, -2, 5))}, axis={g.axis(x)})", f"wf.flipud({x})",
        f"wf.fliplr({x})", f"wf.roll({x}, 3)",
    ))


def dimensions(g: Growth) -> str:
    x, r = g.any(), g.r
    return r.choice((
        f"wf.expand_dims({x}, {r.randint(0, len(g.shape(x)))})", f"wf.squeeze({x})", f"wf.atleast_1d({x})", f"wf.atleast_2d({x})",
        f"wf.atleast_3d({x})", f"{x}[None]", f"wf.broadcast_to({x}, {(r.choice((1, 2, 3)), *g.shape(x))})",
        f"wf.broadcast_arrays({x}, {g.like(x)})[0]",
    ))


def joined(g: Growth) -> str:
    """Concatenations and stacks, often of different pieces of what there is."""
    x, r = g.any(1), g.r
    axis = g.axis(x)
    same = [n for n, a in g.values.items() if a.dtype == g.values[x].dtype and a.shape == g.shape(x)]
    y, z = r.choice(same), r.choice(same)
    piece = ", ".join(
        ":" if d != axis % len(g.shape(x)) else f"{r.choice((':3', '1:', '::2', '::-1'))}" for d in range(len(g.shape(x)))
    )
    if r.random() < 0.05 and g.values[x].size <= 64:
        many = f"[{x}, {y}] * {r.choice((8, 16, 31, 32, 33, 50, 130))}"
        return r.choice((f"wf.concat({many}, axis={axis})", f"wf.stack({many})", f"wf.asarray({many})"))
    return r.choice((
        f"wf.concat([{x}, {y}], axis={axis})", f"wf.concat([{x}, {y}[{piece}], {z}], axis={axis})",
        f"wf.stack([{x}, {y}], axis={axis})",
        f"wf.stack([{x}, {y}, {z}])", f"wf.vstack([{x}, {y}])", f"wf.hstack([{x}, {y}])",
        f"wf.concatenate([{y}, {x}], axis=None)",
        f"wf.concat([{x}[{piece}], {y}], axis={axis}, dtype='{g.values[x].dtype.name}')",
    ))


def parted(g: Growth) -> str:
    x, r = g.any(1), g.r
    axis = g.axis(x)
    n = g.shape(x)[axis]
    return r.choice((
        f"wf.split({x}, [{n // 3}, {n // 2}], axis={axis})[{r.choice((0, 1, 2))}]", f"wf.array_split({x}, 3, axis={axis})[1]",
        f"wf.unstack({x}, axis={axis})[0]" if n else f"wf.flip({x}, axis={axis})",
        f"wf.tile({x}, {r.choice(('2', '(2, 1)', '(1, 3)'))})",
        f"wf.repeat({x}, {r.choice((2, 3))}, axis={axis})",
    ))


def padded(g: Growth) -> str:
    x, r = g.any(1), g.r
    widths = tuple((r.choice((0, 1, 2)), r.choice((0, 1, 3))) for _ in g.shape(x))
    mode = r.choice(("constant", "constant", "edge", "reflect", "symmetric", "wrap"))
    value = r.choice(("", ", constant_values=1")) if mode == "constant" else ""
    return f"wf.pad({x}, {widths}, mode='{mode}'{value})" if value == "" else f"wf.pad({x}, {widths}{value})"


def triangle(g: Growth) -> str:
    x, k = g.any(2), g.r.choice((-1, 0, 1))
    return g.r.choice((
        f"wf.tril({x}, k={k})", f"wf.triu({x}, k={k})", f"wf.diag({g.any(1, 2)}, {k})", f"wf.diagonal({g.any(2, 2)}, {k})",
        f"wf.linalg.diagonal({g.any(2, 2)})",
    ))


def written(g: Growth) -> str | None:
    """A write into a slice of a fresh array: ``y = x * 1; y[...] = z``; two of them may overlap."""
    x, r = g.any(1), g.r
    name = g.fresh()
    start = r.choice((
        f"wf.copy({x})", f"{x} + {x}" if g.values[x].dtype != bool else f"~{x}",
        f"wf.zeros({g.shape(x)}, '{g.values[x].dtype.name}')",
    ))
    lines = [f"{name} = {start}"]
    for _ in range(r.choice((1, 1, 2, 3))):
        at = index(g, x)
        y = g.like(x)
        plain = g.values[x].dtype != bool
        lines.append(r.choice((
            f"{name}[{at}] = 1", f"{name}[{at}] {'+=' if plain else '|='} {'2' if plain else 'True'}", f"{name}[...] = {x}",
            f"{name}[{at}] = {y}[{at}]" if g.shape(y) == g.shape(x) else f"{name}[{at}] = 0",
            f"{name}[{at}] *= 2" if plain else f"{name}[{at}] = False",
            f"{name}[{x} > 0] = 1" if plain else f"{name}[{x}] = False",
        )))
    return g.line("; ".join(lines), name)


def places(g: Growth, count: int, n: int, dtype: str = "int64") -> str:
    """So many indices below n: an array, or what a kernel knows without reading one."""
    r = g.r
    if r.random() < 0.6:
        return g.input((count,), dtype, f"index:{n}")
    return r.choice((
        f"wf.full({count}, {r.randrange(n)})", f"wf.arange({count}) % {n}", f"wf.zeros({count}, dtype='int64')",
        f"wf.broadcast_to(wf.array({r.randrange(n)}), ({count},))", f"wf.repeat(wf.arange({n}), {count})[:{count}]",
    ))


def gathered(g: Growth) -> str:
    x, r = g.any(1), g.r
    axis = g.axis(x, False)
    n = g.shape(x)[axis]
    count = r.choice((0, 1, 2, 5, 8, 17, 33)) if n else 0
    i = g.input(
        r.choice(((count,), (count, 2))), r.choice(INTEGERS[:3] + ("int8",)) if n < 100 else "int64", f"index:{max(n, 1)}",
    )
    if n and r.random() < 0.3:
        i = g.input((count,), r.choice(("int32", "int64")), f"signed:{n}")
    head = ":, " * axis
    return r.choice((
        f"wf.take({x}, {i}, axis={axis})", f"{x}[{head}{i}]", f"wf.gather({x}, {i}, axes=({axis},))",
        f"wf.take({x}, {i} // 2)" if g.values[x].size else f"wf.take({x}, {i}, axis={axis}, mode='clip')",
        f"{x}.take({i}, axis={axis})",
    ))


def along(g: Growth) -> str | None:
    x, r = g.any(1), g.r
    axis = g.axis(x, False)
    n = g.shape(x)[axis]
    if not n:
        return None
    shape = tuple(r.choice((1, 3, n)) if d == axis else m for d, m in enumerate(g.shape(x)))
    i = g.input(shape, r.choice(("int32", "int64")), f"index:{max(n, 1)}")
    if r.random() < 0.4:
        name, y = g.fresh(), g.input(shape, g.values[x].dtype.name)
        return g.line(f"{name} = wf.copy({x}); wf.put_along_axis({name}, {i}, {y}, axis={axis})", name)
    return f"wf.take_along_axis({x}, {i}, axis={axis})"


def scattered(g: Growth) -> str | None:
    x, r = g.any(1), g.r
    axis = g.axis(x, False)
    shape = g.shape(x)
    n, count = shape[axis], r.choice((1, 2, 5, 9, 17))
    if not n:
        return None
    i = places(g, count, min(n, 255), r.choice(("int32", "int64", "uint8")))
    rest, kept = tuple(m for d, m in enumerate(shape) if d != axis), g.values[x].dtype.name
    updates = r.choice((g.input((count, *rest), kept), g.input(rest, kept), "1" if kept != "bool" else "True"))
    name = "scatter_set" if g.values[x].dtype == bool or r.random() < 0.5 else "scatter_add"
    return f"wf.{name}({x}, {i}, {updates}, axes=({axis},))"


def fancy(g: Growth) -> str | None:
    """Writes at index arrays (of repeated ones the last counts) and reads at several of them."""
    x, r = g.any(1), g.r
    shape = g.shape(x)
    if 0 in shape:
        return None
    count = r.choice((1, 2, 5, 9))
    many = [places(g, count, n) for n in shape[: r.randint(1, len(shape))]]
    at = ", ".join(many)
    if r.random() < 0.5:
        return f"{x}[{at}]"
    name, y = g.fresh(), g.input((count, *shape[len(many):]), g.values[x].dtype.name)
    return g.line(f"{name} = wf.copy({x}); {name}[{at}] = {r.choice((y, '1'))}", name)


def hot(g: Growth) -> str:
    i = g.input((g.r.choice((1, 5, 17)),), "int64", "index:5")
    return f"wf.one_hot({i}, 5, dtype='{g.dtype}')"


def sorted_(g: Growth) -> str:
    x, r = g.any(1, 3), g.r
    axis = g.axis(x)
    down = r.choice(("", ", descending=True"))
    count = r.randint(0, g.shape(x)[axis])
    return r.choice((
        f"wf.top_k({x}, {count}, axis={axis}, largest={r.random() < 0.5})[{r.randrange(2)}]",
        f"wf.sort({x}, axis={axis}{down})", f"wf.argsort({x}, axis={axis}{down})", f"wf.sort({x}, axis=None)",
        f"wf.searchsorted(wf.sort({g.float(1, 1)}), {g.float(1, 1)})", f"wf.isin({g.whole()}, {g.whole()})",
    ))


def drawn(g: Growth) -> str:
    """Random numbers of a key: a function like any other."""
    r = g.r
    shape = r.choice([a.shape for a in g.values.values()])
    key = f"key=wf.random.key({r.randrange(99)})"
    some = g.pick(lambda a: a.ndim == 1 and a.size > 0) or "wf.arange(5)"  # from nothing nothing is chosen
    return r.choice((
        f"wf.random.uniform(size={shape}, {key})",
        f"wf.random.normal(size={shape}, {key}, dtype='{r.choice(('float32', 'float64'))}')",
        f"wf.random.integers(0, 9, {shape}, {key})", f"wf.random.bernoulli(0.4, {shape}, {key})",
        f"wf.random.permutation({g.any(1)}, {key})", f"wf.random.exponential(size={shape}, {key})",
        f"wf.random.standard_normal({shape}, {key})", f"wf.random.choice({some}, 5, {key})",
        f"wf.random.rand(3, 5, {key})", f"wf.random.randn(7, {key})", f"wf.random.randint(0, 5, {shape}, {key})",
        f"wf.random.categorical(wf.arange(6).reshape(2, 3), size=(4, 2), {key})", f"wf.random.categorical(wf.ones(3), {key})",
        f"wf.random.random({shape}, {key})", f"wf.random.uniform(size={shape}, key=wf.random.split(wf.random.key(3), 3)[1])",
    ))


def rare(g: Growth) -> str | None:
    """Primitives that no public function is alone."""
    x, r = g.float(1), g.r
    shape = g.shape(x)
    if 0 in shape:
        return None
    n = shape[0]
    i = g.input((r.choice((1, 5, 9, 33)),), r.choice(("int32", "int64")), f"index:{n}")
    own = g.input((3,), "int64", f"index:{3 * n}")  # written once, out of range not at all
    updates = g.input((3, *shape[1:]), g.values[x].dtype.name)
    return r.choice((  # the sign of a NaN is the machine's
        f"primitive('bitcast', wf.where(wf.isnan({x}), 0, {x}).astype('float32'), dtype=np.dtype('int32'))",
        f"primitive('bitcast', wf.where(wf.isnan({x}), 0, {x}).astype('float64'), dtype=np.dtype('uint64'))",
        f"primitive('bitcast', wf.abs({g.whole()}).astype('int32'), dtype=np.dtype('float32'))",
        f"primitive('last_equal', {i}, extent={n})",
        f"primitive('scatter', {x}, {updates}, wf.cumsum({own} + 1), axes=(0,), mode='own')",
    ))


def unknown(g: Growth) -> str:
    """What has as many elements as its content says: not under jit."""
    x, r = g.any(1), g.r
    return r.choice((
        f"wf.nonzero({x})[0]", f"wf.argwhere({x})", f"wf.flatnonzero({x})", f"wf.extract({x} != 0, {x})", f"wf.unique({x})",
        f"wf.unique_values({x})", f"wf.unique_counts({x}).counts", f"wf.unique_inverse({x}).inverse_indices", f"{x}[{x} != 0]",
        f"wf.unique_all({x}).indices",
    ))


SHAPES = [
    (3.0, sliced), (2.5, reshaped), (2.5, turned), (2.0, flipped), (1.5, dimensions), (4.0, joined), (1.5, parted), (2.5, padded),
    (1.0, triangle),
]
INDEX = [
    (3.0, written), (2.0, gathered), (1.0, along), (1.5, scattered), (1.5, fancy), (0.3, hot), (0.8, sorted_), (0.5, drawn),
    (0.4, rare),
]
