"""Models written as ONNX files compute the same in onnxruntime and in load_onnx: every layer, random nets, every primitive."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import weft as wf
from tests.kernel.samples.table import draw_samples, has_samples
from weft.array import wrap
from weft.array.convert import as_node
from weft.eager.apply import bind
from weft.errors import TraceError
from weft.graph.primitives import TABLE
from weft.io.onnx.primitives import EXPORTS

nn = wf.nn
onnxruntime.set_default_logger_severity(4)
SESSION = onnxruntime.SessionOptions()
SESSION.intra_op_num_threads = 1
DTYPES = {"float32", "float64", "int32", "int64", "bool", "uint8", "int8"}
SPECIAL = {  # NaN, infinities and signed zeros follow the runtime's rules
    "argmax", "argmin", "atan2", "copysign", "floor_divide", "hypot", "maximum", "minimum", "pow", "reduce_max", "reduce_min",
    "reduce_window", "remainder", "signbit",
}
PRIMITIVES = [name for name in TABLE if name in EXPORTS and name not in ("iota", "in_bounds") and has_samples(TABLE[name])]


def outputs(path: Path, *inputs: Any) -> list[np.ndarray]:
    """Run a file in onnxruntime."""
    session = onnxruntime.InferenceSession(path, SESSION, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, {name: wf.asnumpy(x) for name, x in zip(names, inputs, strict=True)})


def flat(result: Any) -> list[np.ndarray]:
    return [part for r in result for part in flat(r)] if isinstance(result, tuple | list) else [result.numpy()]


def check(model: Callable[..., Any], sample: Any, *inputs: Any, path: Path, dtype: str = "float32", tol: float = 1e-4) -> Any:
    """Save a model, and compare it with onnxruntime and with what load_onnx reads. Return the loaded model."""
    wf.io.save_onnx(model, sample, path, dtype=dtype)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    if isinstance(model, nn.Module):
        model.eval()
    want, again = flat(model(*inputs)), wf.io.load_onnx(path)
    for found in (outputs(path, *inputs), flat(again(*inputs))):
        for a, b in zip(found, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
    return again


def random_dense(rng: np.random.Generator) -> tuple[Any, tuple[int, ...]]:
    widths = rng.integers(1, 9, rng.integers(2, 5)).tolist()
    names = ["ReLU", "Tanh", "GELU", "SiLU", "ELU", "Softplus", "Mish", "LeakyReLU", "Softmax", "LogSoftmax", "Hardsigmoid"]
    layers: list[Any] = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers.append(nn.Linear(a, b, bias=bool(rng.integers(2))))
        norm = rng.integers(3)
        layers += [nn.LayerNorm(b)] if norm == 0 else [nn.RMSNorm(b)] if norm == 1 else []
        layers += [getattr(nn, str(rng.choice(names)))(), nn.Dropout(0.3)]
    return nn.Sequential(*layers), (widths[0],)


def random_images(rng: np.random.Generator) -> tuple[Any, tuple[int, ...]]:
    spatial = int(rng.integers(1, 4))
    channels = int(rng.choice([2, 4]))
    sides = tuple(rng.integers(14, 17, spatial).tolist())  # two windows of 5 with stride 2 fit
    layers: list[Any] = []
    wide = channels
    for _ in range(rng.integers(1, 3)):
        more = int(rng.choice([2, 4, 6]))
        options = {"stride": int(rng.integers(1, 3)), "padding": int(rng.integers(0, 2)), "groups": int(rng.choice([1, 2]))}
        kind = rng.integers(3)
        if kind == 2:
            layers.append(getattr(nn, f"ConvTranspose{spatial}d")(wide, more, 3, **options))
        else:
            layers.append(getattr(nn, f"Conv{spatial}d")(wide, more, 3, dilation=int(rng.integers(1, 3)), **options))
        wide = more
        norms = [getattr(nn, f"BatchNorm{spatial}d")(wide), nn.GroupNorm(2, wide), getattr(nn, f"InstanceNorm{spatial}d")(wide)]
        layers += [norms[rng.integers(3)], nn.ReLU()]
    layers.append(getattr(nn, str(rng.choice(["GlobalAvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool"])) + f"{spatial}d"))
    layers[-1] = layers[-1]() if "Global" in layers[-1].__name__ else layers[-1](2)
    layers += [nn.Flatten()]
    return nn.Sequential(*layers), (channels, *sides)


def random_recurrent(rng: np.random.Generator) -> tuple[Any, tuple[int, ...]]:
    kind = [nn.RNN, nn.LSTM, nn.GRU][rng.integers(3)]
    width = int(rng.integers(1, 5))
    options = {"num_layers": int(rng.integers(1, 3)), "bidirectional": bool(rng.integers(2)), "bias": bool(rng.integers(2))}
    return kind(width, int(rng.integers(1, 5)), batch_first=True, **options), (int(rng.integers(1, 6)), width)


class Block(nn.Module):
    """A transformer's block over token indices, with a mask of the future."""

    def __init__(self, heads: int, width: int, length: int, causal: bool) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, width), nn.LayerNorm(width)
        self.place = wf.random.normal(0, 1, (length, width))
        self.attention = nn.MultiHeadAttention(width, heads)
        self.causal = causal
        self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 11))

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens) + self.place[: tokens.shape[1]]
        x = x + self.attention(self.norm(x), is_causal=self.causal)
        return self.head(x), x.mean(axis=1)


@pytest.mark.parametrize("make", [random_dense, random_images, random_recurrent], ids=lambda f: f.__name__)
@pytest.mark.parametrize("is_open", [True, False])
def test_random_nets(make: Callable[..., Any], is_open: bool, rng: np.random.Generator, tmp_path: Path) -> None:
    for _ in range(5):
        net, shape = make(rng)
        batch = int(rng.integers(1, 5))
        x = wf.array(rng.normal(size=(batch, *shape)).astype(np.float32))
        again = check(net, (None, *shape) if is_open else x, x, path=tmp_path / "net.onnx")
        names = {name for name in again.weights if not name.startswith("array")}
        assert names <= net.arrays().keys()


@pytest.mark.parametrize("causal", [True, False])
def test_transformers_over_tokens(causal: bool, rng: np.random.Generator, tmp_path: Path) -> None:
    heads = int(rng.integers(1, 4))
    length = int(rng.integers(2, 7))
    net = Block(heads, heads * int(rng.integers(1, 4)), length, causal)
    tokens = wf.array(rng.integers(0, 11, (3, length)))
    again = check(net, (None, length), tokens, path=tmp_path / "net.onnx", dtype="int64")
    assert {"embed.weight", "place", "attention.in_proj_weight"} <= again.parameters().keys() | {
        name.removeprefix("weights.") for name in again.parameters()
    }


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives(name: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """Each sample of each primitive that the table has, unless weft says that it does not write it, or the runtime refuses it."""
    op, compared, path = TABLE[name], 0, tmp_path / "sample.onnx"
    for sample in draw_samples(op, rng):
        arrays = sample.arrays
        if not arrays or any(a.dtype.name not in DTYPES or not a.size for a in arrays):
            continue
        if sample.tag == "special" and name in SPECIAL:
            continue
        if name == "pow" and arrays[1].dtype.kind == "i":  # ONNX defines no integers to negative powers
            arrays = (arrays[0], np.abs(arrays[1]))

        def call(*xs: Any, params: dict[str, Any] = sample.params) -> Any:
            return wrap(bind(op, *(as_node(x) for x in xs), **params))

        try:
            wf.io.save_onnx(call, tuple(wf.asarray(a) for a in arrays), path)
            found = outputs(path, *arrays)[0]
        except TraceError as error:
            assert "does not write to ONNX files" in str(error)
            continue
        except Exception as error:  # onnxruntime's classes
            text = str(error)
            allowed = ("NOT_IMPLEMENTED", "No corresponding Numpy type", "modulo by zero", "out of data bounds", "invalid indice")
            assert any(part in text for part in allowed), text
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = op.reference(*arrays, **sample.params)
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=3e-5, atol=1e-5, err_msg=f"{sample}")
        compared += 1
    assert compared or name.endswith("_shift")  # onnxruntime shifts no signed integers


def test_attention_before_a_loop(rng: np.random.Generator, tmp_path: Path) -> None:
    """Attention without stored scores is replaced by its parts, and with it everything that reads it."""
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.GRU(3, 4)

        def forward(self, x: Any) -> Any:
            node = as_node(x)
            scores = bind(TABLE["attention"], node, node, node, result="out", scale=0.5, causal=True, keep=None)
            return self.recurrent(wrap(scores))

    x = wf.array(rng.normal(size=(5, 2, 3)).astype(np.float32))
    check(Both(), (5, None, 3), x, path=tmp_path / "both.onnx")


def test_several_inputs_outputs_and_names(rng: np.random.Generator, tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(5, 4)

        def forward(self, left: Any, right: Any) -> Any:
            return self.a(left) + self.b(right), (left.shape[0] * right.mean(), left.sum(axis=0) / left.shape[0])

    net, path = Two(), tmp_path / "two.onnx"
    left, right = (wf.array(rng.normal(size=(6, n)).astype(np.float32)) for n in (3, 5))
    again = check(net, ((None, 3), (None, 5)), left, right, path=path)
    assert again.input_names == ("left", "right") and again.output_names == ("output_0", "output_1", "output_2")
    assert wf.allclose(again(right=right, left=left)[0], net(left, right)[0])
    wf.io.save_onnx(net, {"right": right, "left": left}, path)
    assert wf.io.load_onnx(path).input_names == ("right", "left")
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 6


def test_modes_and_weights_stay(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
    before = {name: a.numpy() for name, a in net.arrays().items()}
    wf.io.save_onnx(net, (None, 3), tmp_path / "net.onnx")
    assert all(m.training for _, m in net.modules())
    assert all((a.numpy() == before[name]).all() for name, a in net.arrays().items())


def test_shapes_from_the_batch(rng: np.random.Generator, tmp_path: Path) -> None:
    def pairs(x: Any) -> Any:
        n = x.shape[0]
        flat = x.reshape((2 * n, -1))
        return flat[1:], wf.arange(n)[:, None] * x, wf.concatenate([x, wf.zeros((n, 1))], axis=1), wf.pad(x, ((0, 0), (1, 0)))

    x = wf.array(rng.normal(size=(7, 4)).astype(np.float32))
    check(pairs, (None, 4), x, path=tmp_path / "pairs.onnx")


REFUSED = {
    "random": (lambda x: x + wf.random.normal(0, 1, x.shape), (2, 3), TraceError, r"onnx_export.py:\d+.*random_bits.*an input"),
    "inverse": (lambda x: wf.linalg.inv(x), (3, 3), TraceError, "'inv', which weft does not write"),
    "square": (lambda x: x.reshape((-1,))[: x.shape[0] ** 2], (None, 9), TraceError, "depends on the batch size"),
    "branch": (lambda x: x + 1 if x.shape[0] > 4 else wf.sin(x), (None, 3), TraceError, "other operations for other batch"),
    "two open": (lambda x: x, (None, None), wf.errors.ShapeError, "at most one None"),
    "no array": (lambda x: "text", (2, 3), wf.errors.DTypeError, "returns a str"),
    "while": (lambda x: wf.while_loop(lambda v: v.sum() < 9, lambda v: v * 2 + 1, x), (2,), TraceError, "number of steps"),
}


WIDE = nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 2))
REFUSED |= {
    "None": (None, (3,), TypeError, "save_onnx: model is None, but must be a function: give a Module"),
    "list": ([WIDE], (3,), TypeError, "save_onnx: model is .Sequential.*must be a function"),
    "array": (wf.ones(3), (3,), TypeError, "save_onnx: model is array.*must be a function"),
    "class": (nn.Linear, (3,), TypeError, "save_onnx: model is the class Linear.*make an instance"),
    "sample None": (WIDE, None, wf.errors.DTypeError, "sample has None as an input: give an array, or a shape"),
    "sample text": (WIDE, ("x", (3,)), wf.errors.DTypeError, "sample has 'x' as an input: give an array, or a shape"),
    "inside": (WIDE, (None, 3), wf.errors.ShapeError, r"in layer 1 of .*None in the sample's shape \(None, 3\) was tried as 3"),
    "second size": (lambda x: x + wf.ones((3, 2)), (None, 2), wf.errors.ShapeError, r"\(5, 2\).*\(None, 2\) was tried as 5"),
    "dict": (lambda a, b: a + b, {"a": wf.ones(4), "b": [2, None]}, wf.errors.ShapeError, r"\(4,\).*\(2, None\) was tried as 3"),
    "key": (lambda x: x + wf.random.normal(size=3, key=wf.random.key(1)), (3,), TraceError, "computes random numbers"),
    "fixed": (WIDE, (2, 4), wf.errors.ShapeError, r"x has shape \(2, 4\)(?!.*tried)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path) -> None:
    model, sample, kind, message = REFUSED[case]
    path = tmp_path / "net.onnx"
    with pytest.raises(kind, match=message):
        wf.io.save_onnx(model, sample, path)
    assert not path.exists()
