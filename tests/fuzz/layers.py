"""Lines with products, convolutions, pooling, normalisations, losses, loops and transforms."""

from __future__ import annotations

from tests.fuzz.grow import Growth, size
from tests.fuzz.moving import factors

ACTIVATIONS = (
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "sigmoid", "logsigmoid", "softplus", "softsign", "tanh", "tanhshrink",
    "bent_identity", "gelu", "silu", "swish", "mish", "tanhexp", "acon_a", "acon_b", "acon_c", "hardshrink", "softshrink",
    "hardsigmoid", "hardtanh", "step", "identity", "softmax", "softmin", "log_softmax",
)
SMOOTH_ACTIVATIONS = tuple(n for n in ACTIVATIONS if n not in ("step", "hardshrink", "softshrink", "hardsigmoid"))


def product(g: Growth) -> str:
    """Matrices and vectors in every order, with transposed, sliced and broadcast operands, and something that reads the sum."""
    r, x = g.r, g.float(1)
    dtype, shape = g.values[x].dtype.name, g.shape(x)
    k, n = shape[-1], size(r, 33)
    w = g.input(r.choice(((k, n), (k, n), (k,), (n, k))), dtype)
    b = f"{w}.T" if len(g.shape(w)) == 2 and g.shape(w)[0] != k else w
    a = x
    if len(shape) == 2 and r.random() < 0.3:
        a, b = r.choice(((f"{x}.T", g.input((shape[0], n), dtype)), (f"{x}[::-1]", b), (f"wf.flip({x}, axis=0)", b)))
    text = r.choice((f"{a} @ {b}", f"{a} @ {b}", f"wf.matmul({a}, {b})", f"wf.dot({a}, {b})" if len(shape) < 3 else f"{a} @ {b}"))
    if formats := _formats(g, dtype):
        text = f"wf.matmul({a}, {b}{formats})"
    return r.choice((text, f"wf.tanh({text})", f"wf.maximum({text} * 0.5 + 0.25, 0)", f"({text}) * 0.3", f"({text}) - 0.5"))


def _formats(g: Growth, dtype: str) -> str:
    """Formats of a product's operands and sums, as arguments; often none."""
    r, text = g.r, ""
    if dtype in ("float32", "float16") and r.random() < 0.2:
        text = f", operands='{r.choice(('float8_e4m3fn', 'float8_e5m2', 'float16', 'float4_e2m1fn'))}'"
    if dtype != "float64" and r.random() < 0.2:
        text += f", accumulate='{r.choice(('float16', 'bfloat16', 'float8_e5m2', 'float8_e4m3fn', 'float6_e2m3fn'))}'"
        text += f", every={r.choice((1, 2, 3, 16, 33))}" if r.random() < 0.6 else ""
    return text


def batched(g: Growth) -> str:
    r, x = g.r, g.float(3, 4)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    lead = tuple(1 if r.random() < 0.3 else n for n in shape[:-2])
    w = g.input((*lead, shape[-1], r.choice((1, 2, 8, 9, 17))), dtype)
    formats = _formats(g, dtype)
    return r.choice((f"{x} @ {w}", f"wf.matmul(wf.abs({x}), {w}{formats})", f"wf.matmul({x}, {w}{formats}).sum(axis=-1)"))


def contraction(g: Growth) -> str:
    r, x = g.r, g.float(1, 3)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    n = r.choice((1, 3, 8, 17))
    if len(shape) == 1:
        y = g.input(shape, dtype)
        z = g.input((n,), dtype)
        return r.choice((
            f"wf.vdot({x}, {y})", f"wf.inner({x}, {y})", f"wf.outer({x}, {z})", f"wf.vecdot({x}, {y})",
            f"wf.einsum('i,j->ij', {x}, {z})",
            f"wf.einsum('i,i->', {x}, {y})", f"wf.linalg.vector_norm({x})",
        ))
    if len(shape) == 2:
        y, same = g.input((shape[1], n), dtype), g.input(shape, dtype)
        return r.choice((
            f"wf.einsum('ij,jk->ki', {x}, {y})", f"wf.einsum('ij,ij->i', {x}, {same})", f"wf.einsum('ij->j', {x})",
            f"wf.tensordot({x}, {y}, axes=1)", f"wf.tensordot({x}, {same}, axes=([0], [0]))", f"wf.trace({x})",
            f"wf.vecdot({x}, {same}, axis=0)", f"wf.inner({x}, {same})", f"wf.linalg.norm({x})", f"wf.linalg.matrix_norm({x})",
            f"wf.einsum('ij,kj->ik', {x}, {same})", f"wf.linalg.vector_norm({x}, axis=1)",
            f"wf.einsum('ij,jk,kl->il', {x}, {y}, {y}.T)",
        ))
    y = g.input((shape[2], n), dtype)
    return r.choice((
        f"wf.einsum('bij,jk->bik', {x}, {y})", f"wf.einsum('bij,bij->b', {x}, {x})", f"wf.tensordot({x}, {y}, axes=1)",
    ))


def integer_product(g: Growth) -> str:
    x = g.whole()
    shape, dtype = g.shape(x), g.values[x].dtype.name
    if not shape:
        return f"{x} * {x}"
    return f"{x} @ {g.input((shape[-1], 3), dtype)}"


def tallied(g: Growth) -> str:
    """What a product's kernel reduces of its result: see ``weft/kernel/tallies.py``."""
    y = g.add(g.r.choice((product, batched, integer_product, convolution))(g))
    if y is None:
        return product(g)
    return g.r.choice((
        f"wf.abs({y}).max()", f"{y}.max()", f"{y}.min()", f"wf.isnan({y}).any()", f"wf.isfinite({y}).sum()",
        f"wf.abs({y}).max() * 2", f"wf.maximum({y}, 0).max(keepdims=True)", f"({y} == {y}).all()",
    ))


def as_images(g: Growth, x: str, spatial: int) -> str:
    """A value seen as a batch of images, or a new input."""
    shape = g.shape(x)
    if len(shape) == spatial + 2:
        return x
    total = g.values[x].size
    if 8 <= total <= 2048:
        for _ in range(6):
            found = factors(g, total, spatial + 2)
            if max(found[0], found[1]) <= 6 and min(found[2:]) >= 2:
                return f"{x}.reshape({found})"
    r = g.r
    sizes = (5, 7, 8, 9, 12, 16, 17) if spatial == 1 else (3, 4, 5, 7, 8, 9) if spatial == 2 else (2, 3, 4)
    return g.input(
        (r.choice((1, 2, 3)), r.choice((1, 2, 3, 4)), *(r.choice(sizes) for _ in range(spatial))), g.values[x].dtype.name
    )


def _images(g: Growth) -> tuple[str, int, tuple[int, ...]]:
    r = g.r
    spatial = r.choice((1, 1, 2, 2, 2, 3))
    text = as_images(g, g.float(0), spatial)
    if text not in g.values:
        name = g.add(text)
        text = name or g.input((2, 2, *(5,) * spatial))
    return text, spatial, g.shape(text)


def convolution(g: Growth) -> str:
    r = g.r
    x, d, shape = _images(g)
    dtype, channels = g.values[x].dtype.name, shape[1]
    kernel = tuple(r.choice((1, 2, 3)) for _ in range(d))
    groups = channels if channels > 1 and r.random() < 0.15 else 1
    out = groups * r.choice((1, 2, 4, 8))
    stride, padding, dilation = r.choice((1, 1, 2)), r.choice((0, 1, 2)), r.choice((1, 1, 1, 2))
    extra = f", stride={stride}, padding={padding}, dilation={dilation}" + (f", groups={groups}" if groups > 1 else "")
    extra += _formats(g, dtype)
    if r.random() < 0.25:
        w = g.input((channels, out // groups, *kernel), dtype)
        return f"wf.nn.conv_transpose{d}d({x}, {w}{extra})"
    w = g.input((out, channels // groups, *kernel), dtype)
    bias = g.input((out,), dtype) if r.random() < 0.5 else "None"
    text = f"wf.nn.conv{d}d({x}, {w}, {bias}{extra})"
    return r.choice((text, f"wf.nn.relu({text})", f"wf.tanh({text})"))


def integer_convolution(g: Growth) -> str:
    """Summed in int32, of integers of at most 16 bits."""
    r, x, d = g.r, g.whole(), g.r.choice((1, 2))
    if g.values[x].dtype.itemsize > 2:
        return f"{x} + 1"
    text = as_images(g, x, d)
    x = text if text in g.values else g.add(text) or g.input((2, 2, *(5,) * d), "int8")
    w = g.input((r.choice((1, 4)), g.shape(x)[1], *(r.choice((1, 2)),) * d), r.choice(("int8", "uint8", "int16")))
    return f"wf.nn.conv{d}d({x}, {w}, padding={r.choice((0, 1))}, stride={r.choice((1, 2))}, accumulate='int32')"


def pooling(g: Growth) -> str:
    r = g.r
    x, d, _ = _images(g)
    k, s = r.choice((2, 2, 3)), r.choice((1, 2, 2, 3))
    p, ceil = r.choice((0, 0, 1)), r.choice(("", ", ceil_mode=True"))
    kind = r.choice(("max", "max", "avg", "lp"))
    if r.random() < 0.3:  # over channels, too
        k = (r.choice((1, 2, 3)), *(k,) * d)
    if kind == "lp":
        return f"wf.nn.lp_pool{d}d({x}, {r.choice((1, 2, 3))}, {k}, {s}, {p}{ceil})"
    return r.choice((f"wf.nn.{kind}_pool{d}d({x}, {k}, {s}, padding={p}{ceil})", f"wf.nn.GlobalAvgPool{d}d()({x})",
                     f"wf.nn.AdaptiveAvgPool{d}d(2)({x})", f"wf.nn.AdaptiveMaxPool{d}d(2)({x})",
                     f"wf.nn.GlobalMaxPool{d}d()({x})",
                     f"wf.nn.{kind}_pool{d}d({x}, {k}, {s}, padding={p}{ceil})"))


def pooled_norm(g: Growth) -> str:
    """The gradient of windows over what is normalised: of whole groups, which reductions of other axes read."""
    r = g.r
    x, d, _ = _images(g)
    norm = r.choice(("wf.nn.group_norm(t, 1)", "wf.nn.instance_norm(t)", "wf.nn.batch_norm(t, None, None)", "t * wf.sin(t)",
                     "wf.nn.local_response_norm(t, 3)"))
    inner = r.choice((f"wf.nn.relu({norm})", norm, f"wf.nn.relu({norm}) + t"))
    k, s = r.choice(((2, 2), (2, 2), (3, 2), (3, 3), (2, 1)))
    pool = r.choice((f"wf.nn.max_pool{d}d({inner}, {k}, {s})", f"wf.nn.avg_pool{d}d({inner}, {k}, {s})",
                     f"wf.nn.lp_pool{d}d({inner}, 2, {k}, {s})", f"wf.nn.max_pool{d}d({inner}, {k}, {s}, 1)"))
    end = r.choice((".mean()", ".sum(axis=0).max()", " ** 2).sum()"))
    body = f"({pool}{end}" if end.endswith("2).sum()") else pool + end
    return f"wf.grad(lambda t: {body})({x})"


def normalised(g: Growth) -> str:
    r = g.r
    x = g.float(2, 4)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    c, last = shape[1], shape[-1]
    weight, bias = (g.input((n,), dtype, "unit") for n in ((c, c)))
    found = [
        f"wf.nn.layer_norm({x}, {last})", f"wf.nn.rms_norm({x}, {last})", f"wf.nn.layer_norm({x}, {shape[1:]})",
        f"wf.nn.layer_norm({x}, {last}, {g.input((last,), dtype)}, {g.input((last,), dtype)})",
        f"wf.nn.batch_norm({x}, None, None, {weight}, {bias})", f"wf.nn.batch_norm({x}, {weight}, {bias})",
        f"wf.nn.group_norm({x}, {r.choice([d for d in (1, 2, 3, c) if d and c % d == 0])})",
        f"wf.nn.local_response_norm({x}, 3)", f"wf.nn.prelu({x}, {weight})",
    ]
    if len(shape) > 2:
        found.append(f"wf.nn.instance_norm({x}, {weight}, {bias})")
    return r.choice(found)


def activation(g: Growth) -> str:
    r, x = g.r, g.float(1)
    name = r.choice(ACTIVATIONS)
    extra = f", {g.axis(x)}" if name in ("softmax", "softmin", "log_softmax") else ""
    return r.choice((f"wf.nn.{name}({x}{extra})",) * 9 + (f"wf.nn.threshold({x}, 0.1, -1.0)",))


def smooth_activation(g: Growth) -> str:
    x, name = g.float(1), g.r.choice(SMOOTH_ACTIVATIONS)
    return f"wf.nn.{name}({x}" + (f", {g.axis(x)})" if name in ("softmax", "softmin", "log_softmax") else ")")


def layer(g: Growth) -> str:
    r, x = g.r, g.float(2, 3)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    n = r.choice((1, 3, 8, 17))
    w, b = g.input((n, shape[-1]), dtype), g.input((n,), dtype)
    other = g.input((*shape[:-1], 5), dtype)
    return r.choice((
        f"wf.nn.linear({x}, {w}, {b})", f"wf.nn.relu(wf.nn.linear({x}, {w}))", f"wf.nn.flatten({x})",
        f"wf.nn.bilinear({x}, {other}, {g.input((n, shape[-1], 5), dtype)}, {b})", f"wf.nn.maxout({x}, {r.choice((1, 2, 4))})",
        f"wf.nn.scaled_dot_product_attention({x}, {x}, {x}, is_causal={r.random() < 0.5})",
        f"wf.nn.dropout({x}, 0.5, training=False)",
        f"wf.nn.scaled_dot_product_attention({x}, {x}, {x}, attn_mask={g.mask((shape[-2], shape[-2]))})",
        f"wf.nn.embedding({g.input((5,), 'int64', f'index:{shape[0]}')}, {x})" if len(shape) == 2 and shape[0]
        else f"wf.nn.flatten({x})",
    ))


def resampled(g: Growth) -> str:
    r = g.r
    x, d, shape = _images(g)
    mode = r.choice(("nearest", "nearest-exact", "linear", "cubic", "area"))
    sizes = tuple(r.choice((1, 2, 3, 5, 8)) for _ in range(d))
    found = [
        f"wf.nn.interpolate({x}, {sizes}, mode='{mode}')",
        f"wf.nn.interpolate({x}, scale_factor={r.choice((2, 1.5, 0.5))}, mode='{r.choice(('nearest', 'linear'))}')",
        f"wf.nn.max_unpool{d}d(*wf.nn.max_pool{d}d({x}, 2, return_indices=True), 2, output_size={x}.shape)",
    ]
    if d > 1:
        grid = g.input((shape[0], *(r.choice((1, 3, 4)) for _ in range(d)), d), g.values[x].dtype.name)
        found.append(f"wf.nn.grid_sample({x}, {grid}, padding_mode='{r.choice(('zeros', 'border', 'reflection'))}')")
        theta = g.input((shape[0], d, d + 1), g.values[x].dtype.name)
        found.append(f"wf.nn.grid_sample({x}, wf.nn.affine_grid({theta}, (1, 1, *{sizes})), 'nearest', 'border')")
    if d == 2:
        found.append(f"wf.nn.pixel_shuffle(wf.concat([{x}] * 4, axis=1), 2)")
        found.append(f"wf.nn.pixel_unshuffle(wf.nn.interpolate({x}, scale_factor=2), 2)")
    return r.choice(found)


def loss(g: Growth) -> str:
    r, x = g.r, g.float(2, 2)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    y, labels = g.input(shape, dtype), g.input((shape[0],), "int64", f"index:{max(shape[1], 1)}")
    u = g.input(shape, dtype, "unit")
    how = r.choice(("mean", "sum", "none"))
    if shape[1] == 0:  # no label is one of no classes
        labels = f"{labels}[:0]"
        x, y, u = (f"{a}[:0]" for a in (x, y, u))
    return r.choice((
        f"wf.losses.cross_entropy({x}, {labels}, reduction='{how}')", f"wf.losses.mse({x}, {y}, '{how}')",
        f"wf.losses.l1({x}, {y}, '{how}')",
        f"wf.losses.huber({x}, {y}, 0.5, '{how}')", f"wf.losses.binary_cross_entropy_with_logits({x}, {u}, reduction='{how}')",
        f"wf.losses.hinge({x}, wf.sign({y}), reduction='{how}')", f"wf.losses.cosine({x}, {y}, reduction='{how}')",
        f"wf.losses.kl_div(wf.nn.log_softmax({x}), wf.nn.softmax({y}), reduction='{how}')",
        f"wf.losses.cross_entropy({x}, {labels}, label_smoothing=0.1)",
        f"wf.losses.nll_loss(wf.nn.log_softmax({x}), {labels}, reduction='{how}')",
        f"wf.losses.binary_cross_entropy(wf.nn.sigmoid({x}), {u}, reduction='{how}')",
        f"wf.losses.gaussian_nll({x}, {y}, wf.abs({y}) + 0.5, reduction='{how}')",
        f"wf.losses.focal({x}, {u}, reduction='{how}')", f"wf.losses.triplet({x}, {y}, {u}, reduction='{how}')",
        f"wf.losses.contrastive({x}, {y}, {labels} % 2, reduction='{how}')",
        f"wf.losses.ctc(wf.nn.log_softmax(wf.stack([{x}] * 5)), {labels}[:, None] * 0, blank={shape[1] - 1}, reduction='{how}', "
        "zero_infinity=True)" if shape[1] > 1 else f"wf.losses.mse({x}, {y})",
    ))


# loops and transforms

BODIES = (
    "wf.tanh({h} + {t})", "{h} * 0.5 + {t}", "wf.maximum({h}, {t})", "{h} + {t} * {t}", "wf.sin({h}) * {t}",
    "{h} * 0.9 - {t}.mean()",
)


def loop(g: Growth) -> str:
    """scan or fori_loop over the rows of a value, with groups of steps or without."""
    r, x = g.r, g.float(1)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    h = g.input(shape[1:], dtype)
    body = r.choice(BODIES).format(h="h", t="t")
    reverse = ", reverse=True" if r.random() < 0.3 else ""
    out = r.choice(("h", "h * t", "h.sum()", "t - h", "(h, t)"))
    if r.random() < 0.25:
        return f"wf.fori_loop(0, {r.choice((1, 2, 5))}, lambda i, h: {body.replace('t)', 'h)').replace(' t', ' h')}, {h})"
    if len(shape) == 2 and shape[1] and r.random() < 0.3:
        w = g.input((shape[1], shape[1]), dtype)
        body = f"wf.tanh(h @ {w} + t)"
    end = "[1][0]" if out == "(h, t)" else r.choice(("[0]", "[1]"))
    groups = r.choice(("", "", "", ", unroll=2", ", remat=True", ", remat=2"))
    return f"wf.scan(lambda h, t: ({body}, {out}), {h}, {x}{reverse}{groups}){end}"


def branches(g: Growth) -> str:
    """while_loop, cond and switch on a value. No condition is decided by rounding: integers are counted, or NaN decides."""
    r, x = g.r, g.float(1, 2)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    h = g.input(shape, dtype)
    body = r.choice(BODIES).format(h="h", t="t")
    if r.random() < 0.5:
        most = r.choice((1, 2, 3, 8))
        step = f"lambda s: (s[0] + {r.choice((1, 2))}, (lambda h, t: {body})(s[1], {x}))"
        text = f"wf.while_loop(lambda s: s[0] < {r.choice((0, 1, 4, 5))}, {step}, (0, {h}), max_steps={most})[1]"
        return text if r.random() < 0.7 else f"wf.grad(lambda h: wf.sin({text.replace(f'(0, {h})', '(0, h)')}).sum())({h})"
    chosen = r.choice((f"wf.isnan({x}).any()", f"wf.isfinite({x}).all()", f"wf.array({r.choice(('True', 'False'))})"))
    parts = [f"lambda h: {r.choice(BODIES).format(h='h', t=x)}" for _ in range(3)]
    if r.random() < 0.3:
        return f"wf.switch({chosen}.astype('int32') * {r.choice((1, 2, -1, 5))}, [{', '.join(parts)}], {h})"
    text = f"wf.cond({chosen}, {parts[0]}, {parts[1]}, {h})"
    return text if r.random() < 0.7 else f"wf.grad(lambda h: wf.sin(wf.cond({chosen}, {parts[0]}, {parts[1]}, h)).sum())({h})"


def state(g: Growth) -> str | None:
    """A loop that writes into an array from outside."""
    r, x = g.r, g.float(1, 2)
    shape = g.shape(x)
    if 0 in shape:
        return None
    name, y = g.fresh(), g.fresh()
    at = r.choice(("0", "-1", "slice(None)"))
    text = (
        f"{name} = {x} * 1; {y} = wf.fori_loop(0, {r.choice((2, 3, 7))}, lambda i, h: ({name}.__setitem__({at}, "
        f"{name}[{r.choice(('0', '-1'))}] * 0.5 + h.sum()), h + {name})[1], {x}); {name} = {name} + {y}"
    )
    return g.line(text, name)


def table(g: Growth) -> str | None:
    """A loop that reads and writes parts of one array, at places that its counter says."""
    r, x = g.r, g.float(1, 2)
    shape = g.shape(x)
    if 0 in shape or shape[0] < 4:
        return None
    name, y, n = g.fresh(), g.fresh(), shape[0]
    one = ("i", "i - 1", "i + 1", f"i * 3 % {n}", "0", "-1", f"wf.maximum(i - 2, 0) - {n}")
    two = ("wf.stack([i, i - 1])", "i + wf.arange(2)", f"wf.arange(2) * 2 - {n}", "slice(1, 3)")
    if len(shape) == 2:
        wide = [f"({at}, slice({part}))" for at in one[:4] for part in ("1, None", "None, -1", "None, None, -1")]
        columns = [f"({at}, {c})" for at in one for c in (0, -1)]
    written = []
    for _ in range(r.choice((1, 1, 2, 3))):
        kinds = [(one, one), (two, (*two, "0"))]
        if len(shape) == 2:
            kinds += [(columns, columns), ([p for p in wide if "None, None" not in p], columns), (one, [*columns, *one])]
            kinds += [([p for p in wide if "1, None" in p], [p for p in wide if "None, -1" in p and "None, None" not in p])]
        places, read = r.choice(kinds)
        other = f" + {name}[{r.choice(read)}]" if r.random() < 0.4 else ""
        written.append(f"{name}.__setitem__({r.choice(places)}, {name}[{r.choice(read)}] * 0.5{other} + 1)")
    body = f"({', '.join(written)}, h * 0.5 + {name}[i].sum())[-1]"
    text = f"{name} = {x} * 1; {y} = wf.fori_loop(1, {n - 1}, lambda i, h: {body}, {x}.sum() * 0); {name} = {name} + {y}"
    return g.line(text, name)


def mapped(g: Growth) -> str:
    """vmap of a small function over the rows of a value."""
    r, x = g.r, g.float(2, 3)
    shape, dtype = g.shape(x), g.values[x].dtype.name
    w = g.input((shape[-1], 3), dtype)
    body = r.choice((
        "wf.tanh(t)", "t - t.mean()", "t @ {w}", "t * t.max(axis=-1, keepdims=True)", "wf.cumsum(t, axis=-1)",
        "wf.sort(t, axis=-1)",
        "wf.concat([t, t], axis=-1)", "wf.flip(t, axis=-1)", "t.argmax(axis=-1)", "wf.where(t > 0, t, -t)", "wf.pad(t, 1)",
        "t.sum()",
        "wf.take(t, wf.argmax(t, axis=-1), axis=-1)", "wf.nn.softmax(t)", "wf.grad(lambda s: (s * wf.sin(s)).sum())(t)",
        "t[::-1]",
        "wf.scan(lambda h, s: (h + s, h * s), t.sum(axis=0) * 0, t)[1]", "wf.map(lambda s: wf.tanh(s), t)",
        "wf.cond(wf.isnan(t).any(), lambda s: s * 2, lambda s: wf.sin(s), t)", "wf.associative_scan(wf.maximum, t)",
        "wf.while_loop(lambda s: s[0] < 3 - 2 * wf.isnan(t).any(), lambda s: (s[0] + 1, s[1] * 0.5 + t), (0, t), max_steps=4)[1]",
    )).format(w=w)
    axis = r.choice(("", ", in_axes=-1", ", out_axes=-1", ", in_axes=1"))
    if r.random() < 0.25:
        y = g.input(shape, dtype)
        return f"wf.vmap(lambda t, s: {r.choice(('t * s', 't - s.mean()', 't + s.sum(axis=-1, keepdims=True)'))})({x}, {y})"
    return f"wf.vmap(lambda t: {body}{axis})({x})"


def slope(g: Growth) -> str:
    """A derivative in the middle of a program."""
    r, x = g.r, g.float(1)
    y = g.like(x)
    body = r.choice((
        "(t * t * t).sum()", "wf.sin(t).sum()", "(t * {y}).sum()", "wf.nn.softmax(t).max(axis=-1).sum()",
        "wf.max(t, axis=0).sum()",
        "(wf.cumsum(t, axis=-1) ** 2).sum()", "(wf.concat([t, t], axis=-1) ** 2).mean()", "wf.prod(1 + 0.1 * t)", "t.std()",
        "(t[::2] * t[::2]).sum()", "wf.nn.layer_norm(t, t.shape[-1]).max()", "wf.logaddexp(t, {y}).sum()",
    )).format(y=y)
    if r.random() < 0.25:
        return f"wf.vjp(lambda t: wf.tanh(t) * t, {x})[1]({x})[0]"
    if r.random() < 0.25:
        pushed = r.choice(("lambda t: wf.tanh(t) * t", f"wf.grad(lambda t: {body})"))
        return f"wf.jvp({pushed}, ({x},), ({x},))[1]"
    return r.choice((f"wf.grad(lambda t: {body})({x})", f"wf.value_and_grad(lambda t: {body})({x})[1]"))


def with_rule(g: Growth) -> str:
    """A function with a derivative rule, or one that its gradient computes again; the rule is the function's own derivative."""
    r, x = g.r, g.float(1)
    body = r.choice((
        "wf.sin(t)", "t * t.sum()", "wf.nn.softmax(t)", "wf.cumsum(t, axis=-1) * t", "wf.concat([t, t], axis=-1)",
        "wf.tanh(t)[::2]",
        "wf.exp(0.1 * t).mean(axis=0)", "wf.scan(lambda h, s: (wf.sin(h + s), h * s), wf.zeros_like(t.sum(axis=0)), t)[1]",
        "wf.jvp(wf.sin, (t,), (t,))[1]", "wf.vmap(lambda s: wf.tanh(s) * t.sum())(t)",
    ))
    kind = r.choice(("wf.remat(lambda t: {})", "ruled(lambda t: {})", "ruled(lambda t: {}, forward=True)"))
    f = kind.format(body)
    if r.random() < 0.3:
        return f"wf.vmap({f})({x}[None])[0]"
    if r.random() < 0.3:
        return f"wf.scan(lambda h, _: (h, {f}(h)), {x}, length=2)[1][1]"
    return f"{f}({x})"


NETS = [
    (4.0, product), (1.5, batched), (2.0, contraction), (0.7, integer_product), (0.7, integer_convolution), (1.0, tallied),
    (2.5, convolution),
    (2.0, pooling), (0.8, resampled), (2.5, normalised), (1.0, pooled_norm),
    (2.5, activation), (1.5, layer), (1.0, loss),
]
LOOPS = [(2.0, loop), (1.0, branches), (0.7, state), (1.0, table), (2.0, mapped), (1.5, slope)]


# layers with parameters drawn from the hidden random state, which a line seeds before


def module(g: Growth) -> str:
    r, d = g.r, g.r.choice((1, 2, 3))
    x, n = g.float(2, 3), g.r.choice((1, 3, 8))
    last, channels = g.shape(x)[-1], g.shape(x)[1]
    images = as_images(g, g.float(0), d)
    if images not in g.values:
        images = g.add(images) or g.input((2, 2, *(5,) * d))
    c = g.shape(images)[1]
    s = g.input((r.choice((1, 2)), r.choice((1, 3, 5)), r.choice((1, 4))), g.dtype)
    q = g.input((2, 3, 4), g.dtype)
    e = g.shape(s)[-1]
    simple = tuple(f"wf.nn.{name}()({x})" for name in SIMPLE)
    text = r.choice((
        *simple, f"wf.nn.Threshold(0.1, -1.0)({x})", f"wf.nn.PReLU({channels})({x})", f"wf.nn.AconA({channels})({x})",
        f"wf.nn.AconB({channels})({x})", f"wf.nn.AconC({channels})({x})", f"wf.nn.Linear({last}, {n})({x})",
        f"wf.nn.LayerNorm({last})({x})",
        f"wf.nn.RMSNorm({last})({x})", f"wf.nn.Flatten()({x})", f"wf.nn.Reshape(-1)({x})", f"wf.nn.MaxOut(1)({x})",
        f"wf.nn.Bilinear({last}, {last}, {n})({x}, {x})", f"wf.nn.LocalResponseNorm(3)({x})",
        f"wf.nn.GroupNorm(1, {channels})({x})",
        f"wf.nn.Dropout(0.5)({x})", f"wf.nn.dropout({x}, 0.5)", f"wf.nn.Dropout{d}d(0.5)({images})",
        f"wf.nn.Embedding(7, {n})({g.input((5,), 'int64', 'index:7')})", f"wf.nn.BatchNorm{d}d({c})({images})",
        f"wf.nn.InstanceNorm{d}d({c})({images})", f"wf.nn.Conv{d}d({c}, {n}, 2)({images})",
        f"wf.nn.ConvTranspose{d}d({c}, {n}, 2)({images})",
        f"wf.nn.AvgPool{d}d(2)({images})", f"wf.nn.MaxPool{d}d(2)({images})", f"wf.nn.LPPool{d}d(2, 2)({images})",
        f"wf.nn.GlobalAvgPool{d}d()({images})", f"wf.nn.GlobalMaxPool{d}d()({images})", f"wf.nn.AdaptiveAvgPool{d}d(2)({images})",
        f"wf.nn.AdaptiveMaxPool{d}d(2)({images})",
        f"wf.nn.ConstantPad{d}d(1, 0.5)({images})", f"wf.nn.ZeroPad{d}d(1)({images})",
        f"wf.nn.ReflectionPad{d}d(1)({images})", f"wf.nn.ReplicationPad{d}d(1)({images})", f"wf.nn.CircularPad{d}d(1)({images})",
        f"wf.nn.Upsample(scale_factor=2)({images})",
        f"wf.nn.MaxUnpool{d}d(2)(*wf.nn.MaxPool{d}d(2, return_indices=True)({images}), {images}.shape)",
        f"wf.nn.PixelShuffle(1)({images})" if d == 2 else f"wf.nn.Flatten()({images})",
        f"wf.nn.PixelUnshuffle(1)({images})" if d == 2 else f"wf.nn.Flatten()({images})",
        f"wf.nn.GRU({e}, {n}, batch_first=True)({s})[0]",
        f"wf.nn.LSTM({e}, {n}, batch_first=True)({s})[0]", f"wf.nn.RNN({e}, {n}, batch_first=True, bidirectional=True)({s})[0]",
        f"wf.nn.WeightNorm(wf.nn.Linear({last}, {n}))({x})", f"wf.nn.SpectralNorm(wf.nn.Linear({last}, {n}))({x})",
        f"wf.nn.GRUCell({e}, {n})({s}[0])", f"wf.nn.LSTMCell({e}, {n})({s}[0])[1]", f"wf.nn.RNNCell({e}, {n})({s}[0])",
        f"wf.nn.LSTM({e}, 3, batch_first=True, proj_size=2)({s}, lengths={g.input(g.shape(s)[:1], 'int64', 'index:2')})[0]",
        f"wf.nn.MultiHeadAttention(4, 2)({q}, {q}, {q})", f"wf.nn.RotaryEmbedding(4)({q})", f"wf.nn.rotary_embedding({q})",
        f"wf.nn.TransformerEncoderLayer(4, 2, 3)({q}, is_causal=True)", f"wf.nn.TransformerDecoderLayer(4, 2, 3)({q}, {q})",
        f"wf.nn.MultiHeadAttention(4, 2)({q}, cache=wf.nn.KeyValueCache(2, 2, 5, 2, '{g.dtype}'))",
        f"wf.random.normal(size={g.shape(x)})",
        "wf.random.choice(9, 4, replace=False)",
    ))
    return f"(wf.random.seed({r.randrange(99)}), {text})[1]"


SIMPLE = (
    "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "Sigmoid", "LogSigmoid", "Softplus", "Softsign", "Tanh", "Tanhshrink",
    "BentIdentity",
    "GELU", "SiLU", "Swish", "Mish", "TanhExp", "Hardshrink", "Softshrink", "Hardsigmoid", "Hardtanh", "Step", "Identity",
    "Softmax", "Softmin",
    "LogSoftmax",
)
MODULES = [(1.0, module)]
