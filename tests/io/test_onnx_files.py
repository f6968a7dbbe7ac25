"""What load_onnx reads, keeps and refuses: parameters, constants, subgraphs under jit, damaged files, unknown operators."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import weft as wf
from weft.errors import AxisError, DataError, DTypeError, ShapeError, TraceError

nn = wf.nn


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Any, Path]:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))
    path = tmp_path / "net.onnx"
    wf.io.save_onnx(net, (None, 1, 6, 6), path)
    return net, path


def load_text(text: str, tmp_path: Path) -> Any:
    """Load a model written in ONNX's text form."""
    path = tmp_path / "text.onnx"
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return wf.io.load_onnx(path)


def test_a_loaded_model_is_trained_saved_copied_and_written_again(
    saved: tuple[Any, Path], rng: np.random.Generator, tmp_path: Path,
) -> None:
    net, path = saved
    model = wf.io.load_onnx(path)
    x, y = rng.normal(size=(12, 1, 6, 6)).astype(np.float32), rng.integers(0, 3, 12)
    wanted = {f"weights.{name}": a.shape for name, a in net.parameters().items()}
    assert {name: a.shape for name, a in model.parameters().items()} == wanted
    loss = wf.losses.cross_entropy
    first = float(loss(model(x), y))
    wf.train.fit(model, x, y, loss=loss, optimizer=wf.optim.Adam(1e-2), epochs=3, batch_size=12, show=False)
    assert float(loss(model(x), y)) < first
    wf.io.save(tmp_path / "net.safetensors", model)
    fresh = wf.io.load_onnx(path).load(tmp_path / "net.safetensors")
    wf.io.save_onnx(copy.deepcopy(model), (None, 1, 6, 6), tmp_path / "again.onnx")
    for other in (fresh, wf.io.load_onnx(tmp_path / "again.onnx"), wf.jit(model), wf.vmap(lambda a: model(a[None])[0])):
        np.testing.assert_allclose(other(wf.array(x)).numpy(), model(x).numpy(), rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_the_model(saved: tuple[Any, Path], rng: np.random.Generator) -> None:
    net, path = saved
    model = wf.io.load_onnx(path)
    x = wf.array(rng.normal(size=(2, 1, 6, 6)).astype(np.float32))
    one, two = (wf.grad(lambda a, f=f: (f(a) ** 2).sum())(x).numpy() for f in (net, wf.jit(model)))
    np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)


def test_shapes_computed_in_the_file_are_static_under_jit(tmp_path: Path, rng: np.random.Generator) -> None:
    model = load_text("""<ir_version: 8, opset_import: ["" : 18]>
        f (float[n, m] x) => (float[k, n] y) <int64[1] last = {-1}, int64[1] two = {2}> {
            s = Shape (x)
            i = Constant <value = int64[1] {0}> ()
            n = Gather (s, i)
            shape = Concat <axis = 0> (last, n)
            t = Reshape (x, shape)
            wide = Mul (n, two)
            r = ConstantOfShape (wide)
            c = ReduceSum (r)
            y = Add (t, c)
        }""", tmp_path)
    x = wf.array(rng.normal(size=(3, 4)).astype(np.float32))
    want = x.numpy().reshape(4, 3)
    for f in (model, wf.jit(model), wf.jit(wf.grad(lambda a: model(a).sum()))):
        np.testing.assert_allclose(f(x).numpy(), want if f(x).shape == (4, 3) else np.ones((3, 4)))
    assert not model.parameters()


LOOPS = {
    "counted": ("""<ir_version: 8, opset_import: ["" : 16]>
        f (float[3] x) => (float[3] y, float[4, 3] rows) <int64 most = {4}> {
            y, rows = Loop (most, , x) <body = step (int64 i, bool more, float[3] a) => (bool again, float[3] b, float[3] row) {
                again = Identity (more)
                b = Sin (a)
                row = Neg (b)
            }>
        }""", lambda x: np.sin(np.sin(np.sin(np.sin(x))))),
    "conditional": ("""<ir_version: 8, opset_import: ["" : 16]>
        f (float[3] x) => (float[3] y) <float zero = {0.0}> {
            t = ReduceSum <keepdims = 0> (x)
            positive = Greater (t, zero)
            y = If (positive) <
                then_branch = a () => (float[3] p) { p = Neg (x) },
                else_branch = b () => (float[3] q) { q = Abs (x) }
            >
        }""", lambda x: -x if x.sum() > 0 else abs(x)),
    "until": ("""<ir_version: 8, opset_import: ["" : 16]>
        f (float[3] x) => (float[3] y) <float limit = {100.0}, float two = {2.0}> {
            s = ReduceSumSquare <keepdims = 0> (x)
            go = Less (s, limit)
            y = Loop ( , go, x) <body = step (int64 i, bool more, float[3] a) => (bool again, float[3] b) {
                b = Mul (a, two)
                r = ReduceSumSquare <keepdims = 0> (b)
                again = Less (r, limit)
            }>
        }""", lambda x: x * 2.0 ** max(0, int(np.ceil(np.log2(10 / np.sqrt((x.astype(float) ** 2).sum())))))),
}


@pytest.mark.parametrize("case", LOOPS)
def test_control_flow_runs_inside_of_jit(case: str, tmp_path: Path, rng: np.random.Generator) -> None:
    text, want = LOOPS[case]
    model = load_text(text, tmp_path)
    for _ in range(3):
        x = rng.normal(size=3).astype(np.float32)
        for f in (model, wf.jit(model)):
            y = f(wf.array(x))
            np.testing.assert_allclose((y[0] if isinstance(y, tuple) else y).numpy(), want(x), rtol=1e-5)


def test_functions_of_the_file_and_their_attributes(tmp_path: Path) -> None:
    model = load_text("""<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
        f (float[n] x) => (float[n] y) { y = own.scaled <alpha = 3.0> (x) }
        <domain: "own", opset_import: ["" : 18]>
        scaled <alpha> (a) => (b) { b = ThresholdedRelu <alpha: float = @alpha> (a) }""", tmp_path)
    assert model(wf.array([1.0, 4.0])).tolist() == [0.0, 4.0]


def test_inputs_are_checked(saved: tuple[Any, Path]) -> None:
    model = wf.io.load_onnx(saved[1])
    x = wf.ones((2, 1, 6, 6))
    for call, kind, message in (
        (lambda: model(), TypeError, "needs the input 'input'|needs the input 'x'"),
        (lambda: model(x, x), TypeError, "takes 1 inputs"),
        (lambda: model(x, wrong=x), TypeError, "'wrong' is given twice or is none of"),
        (lambda: model(x.astype("float64")), DTypeError, r"is float64, and the model takes float32: cast"),
        (lambda: model(wf.ones((2, 1, 5, 6))), ShapeError, r"has shape \(2, 1, 5, 6\), and the model takes \(batch, 1, 6, 6\)"),
    ):
        with pytest.raises(kind, match=message):
            call()


def node_model(op_type: str, domain: str = "", version: int = 18, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x"], ["y"], name="odd_one", domain=domain)
    infos = [helper.make_tensor_value_info(name, dtype, [3]) for name in "xy"]
    opsets = [helper.make_opsetid(domain, version)] + ([helper.make_opsetid("", 18)] if domain else [])
    return helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:]), opset_imports=opsets)


UNKNOWN = {
    "no such operator": (node_model("Nosuch"), DataError, r"weft has no operator for node 'odd_one' \(Nosuch, opset 18\)"),
    "another domain": (node_model("Relu", "com.example", 3), DataError, r"\(Relu of domain 'com.example', opset 3\)"),
    "text": (node_model("Identity", dtype=TensorProto.STRING), DTypeError, "STRING, which weft does not have"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_operators_are_named(case: str, tmp_path: Path) -> None:
    model, kind, message = UNKNOWN[case]
    path = tmp_path / "odd.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(kind, match=message):
        wf.io.load_onnx(path)


def test_errors_of_a_node_name_it(tmp_path: Path) -> None:
    model = load_text("""<ir_version: 8, opset_import: ["" : 18]>
        f (float[a, b] x, float[c, d] w) => (float[e, f] y) { y = MatMul (x, w) }""", tmp_path)
    with pytest.raises(ShapeError, match=r"text.onnx: node 'y' \(MatMul, opset 18\): .*matmul"):
        model(wf.ones((2, 3)), wf.ones((4, 5)))
    model = load_text("""<ir_version: 8, opset_import: ["" : 18]>
        f (float[a] x, int64[k] shape) => (float[e, f] y) { y = Reshape (x, shape) }""", tmp_path)
    assert model(wf.ones(6), wf.array([2, 3])).shape == (2, 3)
    with pytest.raises(TraceError, match="node 'y'.*the values of shape are needed"):
        wf.jit(model)(wf.ones(6), wf.array([2, 3]))


def test_damaged_files(saved: tuple[Any, Path], rng: np.random.Generator, tmp_path: Path) -> None:
    """A file that is cut or altered is refused by one of weft's errors, or loads; nothing else happens."""
    content = saved[1].read_bytes()
    path = tmp_path / "damaged.onnx"
    for name, bad in (("empty", b""), ("text", b"hello, this is no model"), ("png", b"\x89PNG\r\n\x1a\n" + bytes(40))):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="is damaged or no ONNX file"):
            wf.io.load_onnx(path)
        assert name
    refused = 0
    for _ in range(150):
        bad = bytearray(content)
        if rng.integers(2):
            del bad[rng.integers(1, len(bad)) :]
        else:
            for k in rng.integers(0, len(bad), 8):
                bad[k] = rng.integers(256)
        path.write_bytes(bytes(bad))
        try:
            wf.io.load_onnx(path)
        except (DataError, DTypeError, ShapeError, AxisError):
            refused += 1
    assert refused > 40
    with pytest.raises(DataError, match="no ONNX file at"):
        wf.io.load_onnx(tmp_path / "missing.onnx")
    with pytest.raises(DataError, match="it is a folder"):
        wf.io.load_onnx(tmp_path)


def test_values_that_no_node_computes(tmp_path: Path) -> None:
    model = node_model("Relu")
    model.graph.node[0].input[0] = "nowhere"
    path = tmp_path / "open.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(DataError, match="reads 'nowhere', which no earlier node computes"):
        wf.io.load_onnx(path)


def test_external_data(saved: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, path = saved
    x = wf.ones((2, 1, 6, 6))
    apart = tmp_path / "apart.onnx"
    onnx.save_model(onnx.load(path), str(apart), save_as_external_data=True, location="apart.bin", size_threshold=16)
    assert wf.array_equal(wf.io.load_onnx(apart)(x), net(x))
    data = (tmp_path / "apart.bin").read_bytes()
    (tmp_path / "apart.bin").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="apart.onnx: tensor .* cannot be read"):
        wf.io.load_onnx(apart)
    (tmp_path / "apart.bin").unlink()
    with pytest.raises(DataError, match="apart.onnx: tensor .* cannot be read"):
        wf.io.load_onnx(apart)
    monkeypatch.setattr("weft.io.onnx.save.MAX_FILE_BYTES", 100)
    large = tmp_path / "large.onnx"
    net = nn.Linear(36, 20)
    wf.io.save_onnx(net, (None, 36), large)
    assert (tmp_path / "large.onnx.data").stat().st_size >= 36 * 20 * 4 > large.stat().st_size
    assert wf.allclose(wf.io.load_onnx(large)(x.reshape((2, 36))), net(x.reshape((2, 36))))


def test_external_data_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    """A file must not make weft read others: onnx checks the place."""
    (tmp_path / "secret").write_bytes(bytes(12))
    folder = tmp_path / "models"
    folder.mkdir()
    model = node_model("Relu")
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    model.graph.initializer.append(tensor)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(DataError, match="tensor 'w' cannot be read"):
        wf.io.load_onnx(folder / "model.onnx")


def test_onnx_is_an_extra_that_is_loaded_on_use(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["onnx"] = None
import weft as wf
wf.io.save("w.safetensors", {"w": wf.ones(3)})
assert "weft.io.onnx.load" not in sys.modules and "weft.io.onnx.save" not in sys.modules
for call in (lambda: wf.io.load_onnx("net.onnx"), lambda: wf.io.save_onnx(wf.nn.Linear(3, 4), (2, 3), "net.onnx")):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=120)
    assert done.stdout.splitlines() == ["ONNX files need the onnx package: pip install 'weft-array[onnx]'"] * 2
