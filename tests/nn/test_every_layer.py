"""Every layer of wf.nn under jit, in training and in evaluation: value and gradient against NumPy in float64, then with
parameters and inputs kept in float16 and bfloat16. A layer that is exported and has no case here fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import layer_formulas as F
import numpy as np
import pytest

import weft as wf

nn = wf.nn
rng = np.random.default_rng()
BOUNDS = {"float16": 4e-3, "bfloat16": 3e-2}
SIDES = (7, 6, 5)


@dataclass(frozen=True)
class Case:
    """``formula(training, arrays by name, *inputs)`` is the layer in NumPy; ``part`` what of its results is looked at."""

    make: Callable[[], Any]
    formula: Callable[..., np.ndarray]
    inputs: tuple[np.ndarray, ...]
    part: Callable[[Any], Any] = lambda out: out


def plain(make: Callable[[], Any], formula: Callable[..., np.ndarray], *inputs: np.ndarray) -> Case:
    """A layer without parameters that does the same in training and in evaluation."""
    return Case(make, lambda training, p, *xs: formula(*xs), inputs)


def images(spatial: int, channels: int = 4) -> np.ndarray:
    return rng.normal(size=(2, channels, *SIDES[:spatial]))


def away_from_corners(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of all sizes from 0.01 to 10, at none of which an activation has a corner."""
    x = rng.normal(size=shape) * np.exp(rng.uniform(-4, 2, shape))
    for corner in (0.0, 0.25, 0.75, -0.75, 1.5, -2.0, 3.0, -3.0):
        x = np.where(np.abs(x - corner) < 1e-3, x + 5e-3, x)
    return x


def activations() -> dict[str, Case]:
    x = away_from_corners((3, 4, 5))
    found = {layer: plain(lambda a=layer, s=s: getattr(nn, a)(*s), f, x) for f, s, layer in F.ACTIVATIONS.values()}

    def acon(training, p, x):
        given = p["beta"], p.get("p1", 1.0), p.get("p2", p.get("p", 0.0))
        beta, p1, p2 = (np.reshape(v, (1, -1, 1)) for v in given)
        return (p1 - p2) * x * F.sig(beta * (p1 - p2) * x) + p2 * x

    found["PReLU"] = Case(lambda: nn.PReLU(4), lambda training, p, x: np.where(x > 0, x, x * p["weight"][:, None]), (x,))
    return found | {n: Case(lambda n=n: getattr(nn, n)(4), acon, (x,)) for n in ("AconA", "AconB", "AconC")}


def linear_maps() -> dict[str, Case]:
    linear, rows = (lambda training, p, x: x @ p["weight"].T + p["bias"]), (rng.normal(size=(2, 4, 5)),)
    embedding, indices = (lambda training, p, i: p["weight"][i]), (rng.integers(0, 7, (4, 5)),)
    return {
        "Linear": Case(lambda: nn.Linear(5, 3), linear, rows),
        "ColumnParallelLinear": Case(lambda: nn.ColumnParallelLinear(5, 3), linear, rows),
        "RowParallelLinear": Case(lambda: nn.RowParallelLinear(5, 3), linear, rows),
        "Bilinear": Case(
            lambda: nn.Bilinear(5, 4, 3), lambda training, p, x, y: np.einsum("ni,oij,nj->no", x, p["weight"], y) + p["bias"],
            (rng.normal(size=(6, 5)), rng.normal(size=(6, 4))),
        ),
        "Embedding": Case(lambda: nn.Embedding(7, 3), embedding, indices),
        "VocabParallelEmbedding": Case(lambda: nn.VocabParallelEmbedding(7, 3), embedding, indices),
    }


def convolutions() -> dict[str, Case]:
    found = {}
    for n in (1, 2, 3):
        at = {"stride": 2, "padding": 1, "groups": 2}
        found[f"Conv{n}d"] = Case(
            lambda n=n, at=at: getattr(nn, f"Conv{n}d")(4, 6, 3, **at),
            lambda training, p, x, at=at: F.conv(x, p["weight"], p["bias"], **at), (images(n),),
        )
        found[f"ConvTranspose{n}d"] = Case(
            lambda n=n, at=at: getattr(nn, f"ConvTranspose{n}d")(4, 6, 3, **at),
            lambda training, p, x, at=at: F.conv_transpose(x, p["weight"], p["bias"], **at), (images(n)[..., :4],),
        )
    return found


def pools() -> dict[str, Case]:
    found = {"MaxOut": plain(lambda: nn.MaxOut(2), lambda x: x.reshape(2, 2, 2, *x.shape[2:]).max(2), images(1))}
    for n in (1, 2, 3):
        x, out = images(n), (4, 3, 2)[:n]
        everywhere = tuple(range(2, 2 + n))
        formulas = {
            f"MaxPool{n}d": ((3, 2, 1), lambda x: F.windows(x, 3, 2, 1, -np.inf).max(-1)),
            f"AvgPool{n}d": ((3, 2, 1), lambda x: F.windows(x, 3, 2, 1, 0).mean(-1)),
            f"LPPool{n}d": ((3, 3, 2, 1), lambda x: (np.abs(F.windows(x, 3, 2, 1, 0)) ** 3).sum(-1) ** (1 / 3)),
            f"AdaptiveAvgPool{n}d": ((out,), lambda x, out=out: F.adaptive(x, out, np.mean)),
            f"AdaptiveMaxPool{n}d": ((out,), lambda x, out=out: F.adaptive(x, out, np.max)),
            f"GlobalAvgPool{n}d": ((), lambda x, axes=everywhere: x.mean(axes)),
            f"GlobalMaxPool{n}d": ((), lambda x, axes=everywhere: x.max(axes)),
        }
        for name, (settings, formula) in formulas.items():
            found[name] = plain(lambda name=name, settings=settings: getattr(nn, name)(*settings), formula, x)
    return found


def resized() -> dict[str, Case]:
    def linear(x: np.ndarray) -> np.ndarray:
        for axis, out in ((2, 5), (3, 9)):
            at = (np.arange(out) + 0.5) * x.shape[axis] / out - 0.5
            x = np.apply_along_axis(lambda row, at=at: np.interp(at, np.arange(row.size), row), axis, x)
        return x

    def shuffled(x: np.ndarray) -> np.ndarray:
        y = np.zeros((x.shape[0], x.shape[1] // 4, 2 * x.shape[2], 2 * x.shape[3]))
        for i, j in np.ndindex(2, 2):
            y[:, :, i::2, j::2] = x[:, 2 * i + j :: 4]
        return y

    def unpooled(x: np.ndarray, places: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
        y = np.zeros((*x.shape[:2], np.prod(sides)))
        np.put_along_axis(y, places.reshape((*x.shape[:2], -1)), x.reshape((*x.shape[:2], -1)), axis=2)
        return y.reshape((*x.shape[:2], *sides))

    x = images(2)
    found = {
        "Upsample": plain(lambda: nn.Upsample((5, 9), mode="linear"), linear, x),
        "PixelShuffle": plain(lambda: nn.PixelShuffle(2), shuffled, images(2, 8)),
        "PixelUnshuffle": plain(
            lambda: nn.PixelUnshuffle(2),
            lambda x: np.stack([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], 2).reshape(2, 16, 3, 3),
            rng.normal(size=(2, 4, 6, 6))),
    }
    modes = {"ZeroPad": "constant", "ReflectionPad": "reflect", "ReplicationPad": "edge", "CircularPad": "wrap"}
    for n in (1, 2, 3):
        x, widths = images(n), (1, 2, 0, 3, 2, 1)[: 2 * n]
        pairs = [(0, 0), (0, 0), *((widths[k], widths[k + 1]) for k in range(2 * n - 2, -1, -2))]
        for name, mode in modes.items():
            found[f"{name}{n}d"] = plain(
                lambda name=f"{name}{n}d", widths=widths: getattr(nn, name)(widths),
                lambda x, pairs=pairs, mode=mode: np.pad(x, pairs, mode), x)
        found[f"ConstantPad{n}d"] = plain(
            lambda name=f"ConstantPad{n}d", widths=widths: getattr(nn, name)(widths, 0.5),
            lambda x, pairs=pairs: np.pad(x, pairs, constant_values=0.5), x)
        sides, some = tuple(2 * m for m in (3, 2, 2)[:n]), (3, 2, 2)[:n]
        places = np.argsort(rng.random((2, 4, np.prod(sides))))[..., : np.prod(some)].reshape(2, 4, *some)
        found[f"MaxUnpool{n}d"] = plain(
            lambda n=n: getattr(nn, f"MaxUnpool{n}d")(2), lambda x, p, sides=sides: unpooled(x, p, sides),
            rng.normal(size=places.shape), places)
    return found


def norms() -> dict[str, Case]:
    def batch_norm(training, p, x):
        axes, column = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        known = (x - p["running_mean"].reshape(column)) / np.sqrt(p["running_var"].reshape(column) + 1e-5)
        return F.affine(F.standard(x, axes) if training else known, p["weight"], p["bias"])

    def instance_norm(training, p, x):
        return F.affine(F.standard(x, tuple(range(2, x.ndim))), p["weight"], p["bias"])

    def group_norm(training, p, x):
        groups = F.standard(x.reshape(2, 2, -1), (2,)).reshape(x.shape)
        return F.affine(groups, p["weight"], p["bias"])

    def response(x):
        square = np.pad(x * x, ((0, 0), (1, 1), (0, 0)))
        return x / (2.0 + 0.5 / 3 * sum(square[:, i : i + 4] for i in range(3))) ** 0.75

    rows = (rng.normal(size=(3, 4, 6)) + 0.5,)
    found = {
        "LayerNorm": Case(
            lambda: nn.LayerNorm((4, 6)), lambda training, p, x: F.standard(x, (1, 2)) * p["weight"] + p["bias"], rows),
        "RMSNorm": Case(
            lambda: nn.RMSNorm(6), lambda training, p, x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["weight"],
            rows,
        ),
        "GroupNorm": Case(lambda: nn.GroupNorm(2, 4), group_norm, (images(2),)),
        "SyncBatchNorm": Case(lambda: nn.SyncBatchNorm(4), batch_norm, (images(2) + 0.5,)),
        "LocalResponseNorm": plain(lambda: nn.LocalResponseNorm(3, 0.5, 0.75, 2.0), response, images(1)),
    }
    for n in (1, 2, 3):
        x = (images(n) + 0.5,)
        found[f"BatchNorm{n}d"] = Case(lambda n=n: getattr(nn, f"BatchNorm{n}d")(4), batch_norm, x)
        found[f"InstanceNorm{n}d"] = Case(lambda n=n: getattr(nn, f"InstanceNorm{n}d")(4, affine=True), instance_norm, x)
    return found


def dropouts() -> dict[str, Case]:
    def formula(whole):
        def dropped(training, p, x):
            if not training:
                return x
            wf.random.seed(7)
            keep = wf.random.bernoulli(0.75, (*x.shape[:2], *(1,) * (x.ndim - 2)) if whole else x.shape).numpy()
            return np.where(keep, x / 0.75, 0)

        return dropped

    found = {"Dropout": Case(lambda: nn.Dropout(0.25), formula(False), (images(1),))}
    for n in (1, 2, 3):
        found[f"Dropout{n}d"] = Case(lambda n=n: getattr(nn, f"Dropout{n}d")(0.25), formula(True), (images(n, 9),))
    return found


def sequences() -> dict[str, Case]:
    def loop(kind, states):
        return lambda training, p, x: F.recurrent(kind, x, [np.zeros((2, 2, 3))] * states, p, 1, True)[0]

    x = (rng.normal(size=(4, 2, 4)),)
    found = {
        kind: Case(lambda kind=kind: getattr(nn, kind)(4, 3, bidirectional=True), loop(kind, states), x, lambda out: out[0])
        for kind, states in (("RNN", 1), ("LSTM", 2), ("GRU", 1))
    }
    rows = rng.normal(size=(5, 4))

    def cell(kind, states):
        return lambda training, p, x: F.cell(
            kind, x, [np.zeros((5, 3))] * states, {f"{name}_": a for name, a in p.items()}, "")[0]

    for kind, states in (("RNN", 1), ("LSTM", 2), ("GRU", 1)):
        found[f"{kind}Cell"] = Case(
            lambda kind=kind: getattr(nn, f"{kind}Cell")(4, 3), cell(kind, states), (rows,),
            lambda out: out[0] if isinstance(out, tuple) else out)
    attention = nn.MultiHeadAttention(6, 2)
    words = rng.normal(size=(2, 5, 6))

    def part(p, name):
        return {k.removeprefix(f"{name}."): a for k, a in p.items() if k.startswith(f"{name}.")}

    def normal(p, name, x):
        return F.standard(x, (-1,)) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def forward(p, x):
        return np.maximum(x @ p["linear1.weight"].T + p["linear1.bias"], 0) @ p["linear2.weight"].T + p["linear2.bias"]

    def encoder(training, p, x):
        x = normal(p, "norm1", x + F.heads(attention, x, x, x, part(p, "self_attn"))[0])
        return normal(p, "norm2", x + forward(p, x))

    def decoder(training, p, x, memory):
        y = normal(p, "norm1", x)
        x = x + F.heads(attention, y, y, y, part(p, "self_attn"))[0]
        x = x + F.heads(attention, normal(p, "norm2", x), memory, memory, part(p, "multihead_attn"))[0]
        return x + forward(p, normal(p, "norm3", x))

    def rotated(x):
        turned = (x[..., :3] + 1j * x[..., 3:]) * np.exp(1j * np.arange(5)[:, None] * 100 ** (-np.arange(3) / 3))
        return np.concatenate([turned.real, turned.imag], -1)

    return found | {
        "MultiHeadAttention": Case(
            lambda: nn.MultiHeadAttention(6, 2), lambda training, p, x: F.heads(attention, x, x, x, p)[0], (words,)),
        "TransformerEncoderLayer": Case(lambda: nn.TransformerEncoderLayer(6, 2, 5, dropout=0.0), encoder, (words,)),
        "TransformerDecoderLayer": Case(
            lambda: nn.TransformerDecoderLayer(6, 2, 5, dropout=0.0, norm_first=True), decoder,
            (words, rng.normal(size=(2, 3, 6)))),
        "RotaryEmbedding": plain(lambda: nn.RotaryEmbedding(6, 100.0), rotated, words),
    }


def containers() -> dict[str, Case]:
    x = rng.normal(size=(3, 4))
    return {
        "Flatten": plain(nn.Flatten, lambda x: x.reshape(2, -1), images(2)),
        "Reshape": plain(lambda: nn.Reshape(2, -1), lambda x: x.reshape(2, 2, -1), images(2)),
        "Lambda": plain(lambda: nn.Lambda(wf.square), np.square, x),
        "Sequential": Case(
            lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()),
            lambda training, p, x: np.tanh(x @ p["0.weight"].T + p["0.bias"]), (x,),
        ),
        "WeightNorm": Case(
            lambda: nn.WeightNorm(nn.Linear(4, 3)),
            lambda training, p, x: x @ (p["weight_g"] * p["weight_v"] / np.linalg.norm(p["weight_v"], axis=1, keepdims=True)).T
            + p["inner.bias"], (x,)),
        "Residual": Case(
            lambda: nn.Residual(nn.Linear(4, 4)), lambda training, p, x: x + x @ p["inner.weight"].T + p["inner.bias"], (x,)),
    }


CASES: dict[str, Case] = {
    **activations(), **linear_maps(), **convolutions(), **pools(), **resized(), **norms(), **dropouts(), **sequences(),
    **containers(),
}


def wide(a: Any) -> np.ndarray:
    """What an Array holds: integers as they are, floats in float64."""
    return a.numpy() if a.dtype.kind in "iu" else a.astype("float64").numpy()


def filled(case: Case) -> Any:
    """The layer with random parameters and running statistics."""
    layer = case.make()
    for name, a in layer.arrays().items():
        a[...] = rng.random(a.shape) + 0.5 if name.endswith("running_var") else rng.normal(size=a.shape) * 0.5
    return layer


def outcome(case: Case, layer: Any, inputs: list[Any], toward: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray], Any]:
    """(value, gradients of its sum with weights ``toward``, result) of the layer under jit."""
    places = [k for k, x in enumerate(inputs) if x.dtype.kind not in "iu"]
    trained = bool(layer.parameters())

    @wf.jit
    def run(*xs: Any) -> Any:
        def loss(layer: Any, *xs: Any) -> Any:
            out = case.part(layer(*xs))
            return (out * wf.array(toward).astype(out.dtype)).sum(), out

        return wf.grad(loss, argnums=(*[0] * trained, *(k + 1 for k in places)), has_aux=True)(layer, *xs)

    wf.random.seed(7)
    slopes, out = run(*inputs)
    found = {f"input {k}": wide(slopes[i + trained]) for i, k in enumerate(places)}
    found |= {name: wide(a) for name, a in slopes[0].parameters().items()} if trained else {}
    return wide(out), found, out


def check_slopes(case: Case, training: bool, arrays: dict, inputs: list, toward: np.ndarray, found: dict) -> None:
    """Gradients against central differences along random directions."""
    for name, slope in found.items():
        step = rng.normal(size=slope.shape)

        def total(s: float, name=name, step=step) -> float:
            moved = [x + s * step if name == f"input {k}" else x for k, x in enumerate(inputs)]
            held = {n: a + s * step if n == name else a for n, a in arrays.items()}
            return float((case.formula(training, held, *moved) * toward).sum())

        numeric = (total(1e-6) - total(-1e-6)) / 2e-6
        assert abs((slope * step).sum() - numeric) <= 2e-6 * (np.abs(slope * step).sum() + 1e-2), name


@pytest.mark.drawn(60)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, training: bool) -> None:
    case = CASES[name]
    layer, twin = filled(case).train(training), case.make().train(training).astype("float64")
    toward = None
    for dtype in ("float64", "float16", "bfloat16"):
        layer.astype(dtype)
        xs = [wf.array(x) if x.dtype.kind in "iu" else wf.array(x).astype(dtype) for x in case.inputs]
        arrays, inputs = {n: wide(a) for n, a in layer.arrays().items()}, [wide(x) for x in xs]
        want = np.asarray(case.formula(training, arrays, *inputs))
        toward = rng.integers(1, 9, want.shape) * rng.choice([-0.125, 0.125], want.shape) if toward is None else toward
        value, slopes, out = outcome(case, layer, xs, toward)
        assert out.dtype.name == dtype and value.shape == want.shape
        if dtype == "float64":
            np.testing.assert_allclose(value, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
            check_slopes(case, training, arrays, inputs, toward, slopes)
            continue
        bound = BOUNDS[dtype]
        np.testing.assert_allclose(value, want, rtol=bound, atol=bound * np.abs(want).max())
        for n, a in twin.arrays().items():
            a[...] = arrays[n]
        _, exact, _ = outcome(case, twin, [wf.array(x) for x in inputs], toward)
        assert slopes.keys() == exact.keys()
        for n, slope in slopes.items():
            np.testing.assert_allclose(slope, exact[n], rtol=2 * bound, atol=2 * bound * np.abs(exact[n]).max(), err_msg=n)


@pytest.mark.parametrize("name", CASES)
def test_numpy_arrays_and_lists_are_taken(name: str) -> None:
    case = CASES[name]
    layer = case.make()
    want = case.part(layer(*(wf.array(x) for x in case.inputs))).shape
    assert case.part(layer(*case.inputs)).shape == want
    assert case.part(layer(*(x.tolist() for x in case.inputs))).shape == want


def test_every_layer_has_a_case() -> None:
    made = {n for n in nn.__all__ if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)}
    made = {n for n in made if not n.startswith("Quantized")}  # in test_quantized_models.py
    elsewhere = {"NeuralODE", "KeyValueCache", "SpectralNorm"}  # in tests/ode, test_attention.py, test_weight_norms.py
    assert made - {"Module"} - elsewhere == CASES.keys()


def test_every_function_is_that_of_a_layer() -> None:
    layers = [n.lower() for n in CASES]
    functions = {n for n in nn.__all__ if not isinstance(getattr(nn, n), type) and callable(getattr(nn, n))}
    alone = {n for n in functions if not any(layer.startswith(n.replace("_", "")) for layer in layers)}
    alone -= {"quantize", "dequantize", "quantize_model"}  # in test_block_formats.py and test_quantized_models.py
    alone -= {"interpolate", "grid_sample", "affine_grid"}  # in test_torch_values.py
    assert alone == {"scaled_dot_product_attention", "fake_quantize"}  # in test_attention.py and test_product_formats.py
