"""Bad input: the error names the argument, shapes, dtypes and the fix, and the traceback has the user's line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.errors import AxisError, DataError, DTypeError, ShapeError

A = wf.ones((3, 4))
IMAGES = wf.ones((2, 3, 8, 8))
X, Y = np.ones((5, 4), np.float32), np.array([0, 1, 2, 1, 0])


def linear(inputs: int = 4, outputs: int = 3):
    return wf.nn.Linear(inputs, outputs)


def fit(x=X, y=Y, model=None, **more):
    return wf.train.fit(model or linear(), x, y, show=False, epochs=more.pop("epochs", 1), **more)


KEEP = r"{}: shapes do not broadcast: x1 \(3, 4\), x2 \(3,\)\. x2 is a reduction over axis 1: write keepdims=True there"

CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    # shapes
    "add": (lambda: A + wf.ones(5), ShapeError, r"add: shapes do not broadcast: x1 \(3, 4\), x2 \(5,\).*reshape or transpose"),
    "subtract a mean": (lambda: A - A.mean(axis=1), ShapeError, KEEP.format("subtract")),
    "divide by a sum": (lambda: A / wf.sum(A, axis=1), ShapeError, KEEP.format("divide")),
    "subtract a maximum": (lambda: wf.subtract(A, A.max(axis=1)), ShapeError, KEEP.format("subtract")),
    "divide by a root of a variance": (lambda: A / wf.sqrt(A.var(axis=1) + 1e-5), ShapeError, KEEP.format("divide")),
    "in place dtype": (lambda: wf.arange(3).__iadd__(1.5), DTypeError, r"float32.*cannot be written into int64.*\.astype"),
    "in place": (lambda: A.copy().__isub__(A.mean(axis=1)), ShapeError, KEEP.format("subtract")),
    "under jit": (lambda: wf.jit(lambda a: a - a.mean(axis=1))(A), ShapeError, KEEP.format("subtract")),
    "under grad": (lambda: wf.grad(lambda a: (a - a.mean(axis=1)).sum())(A), ShapeError, KEEP.format("subtract")),
    "product": (
        lambda: A @ A,
        ShapeError, r"matmul: shapes \(3, 4\) and \(3, 4\) do not fit: the last extent of the first \(4\)",
    ),
    "where": (lambda: wf.where(A > 0, A, wf.ones(2)), ShapeError, r"where: .*condition \(3, 4\), x1 \(3, 4\), x2 \(2,\)"),
    "reshape": (
        lambda: A.reshape((5, 3)),
        ShapeError, r"reshape: an array of shape \(3, 4\) \(12 elements\) cannot take shape \(5, 3\)",
    ),
    "concat": (
        lambda: wf.concat([A, wf.ones((2, 5))]),
        ShapeError, r"concat: arrays\[0\] has shape \(3, 4\) and arrays\[1\] \(2, 5\)",
    ),
    "einsum": (lambda: wf.einsum("ij,jk->ik", A, A), ShapeError, r"einsum: 'j' has extent 4 .* 3"),
    "maximum of nothing": (lambda: wf.ones((0, 3)).max(axis=0), ShapeError, r"max: an array of shape \(0, 3\) has no element"),
    "written": (lambda: A.copy().__setitem__(0, np.ones(7)), ShapeError, r"shape \(7,\) does not fit .*\(4,\)"),
    "mse": (lambda: wf.losses.mse(A, wf.ones(3)), ShapeError, r"mse: prediction \(3, 4\) and target \(3,\)"),
    "gradient of many": (lambda: wf.grad(lambda x: x)(A), ShapeError, r"grad of .*shape \(3, 4\).*take \.sum\(\) or \.mean\(\)"),
    "vmap": (
        lambda: wf.vmap(lambda x, y: x + y)(A, wf.ones(5)),
        ShapeError, r"different extents: 3 \(argument 0\), 5 \(argument 1\)",
    ),
    # what the user called, not what it is made of
    "clip": (lambda: wf.clip(A, wf.ones(3), 1), ShapeError, r"^clip: shapes do not broadcast: a \(3, 4\), min \(3,\)"),
    "clip above": (lambda: wf.clip(A, 0, wf.ones((2, 5))), ShapeError, r"^clip: .* a \(3, 4\), max \(2, 5\)"),
    "isclose": (lambda: wf.isclose(A, wf.ones(3)), ShapeError, r"^isclose: .*a \(3, 4\), b \(3,\)"),
    "allclose": (lambda: wf.allclose(A, wf.ones(3)), ShapeError, r"^allclose: .*a \(3, 4\), b \(3,\)"),
    "vstack": (lambda: wf.vstack([A, wf.ones(3)]), ShapeError, r"^vstack: arrays\[0\]"),
    "ptp": (lambda: wf.ptp(A, axis=2), AxisError, r"^ptp: axis=2"),
    "pooling": (lambda: wf.nn.max_pool2d(IMAGES, 9), ShapeError, r"^max_pool2d: the window \(9, 9\) is larger than x \(8, 8\)"),
    "pooling of bools": (lambda: wf.nn.max_pool2d(IMAGES > 0, 2), DTypeError, r"^max_pool2d: x is bool, .*astype"),
    "pooling's stride": (lambda: wf.nn.avg_pool2d(IMAGES, 2, 0), ShapeError, r"^avg_pool2d: stride must be at least 1, not 0"),
    "convolution": (
        lambda: wf.nn.conv2d(IMAGES, wf.ones((4, 3, 9, 9))),
        ShapeError, r"^conv2d: the window of w \(4, 3, 9, 9\).* larger than x \(2, 3, 8, 8\)",
    ),
    "convolution's stride": (
        lambda: wf.nn.conv2d(IMAGES, wf.ones((4, 3, 3, 3)), stride=-1),
        ShapeError, r"^conv2d: stride must be at least 1, not -1",
    ),
    # dtypes
    "long double": (lambda: wf.ones(3, dtype="longdouble"), DTypeError, "no dtype '.*'; it has bool, .*float64, complex64"),
    "complex": (lambda: wf.floor(wf.array([1j])), DTypeError, "floor: x is complex64, but floor takes no complex numbers"),
    "square": (lambda: wf.linalg.det(A), ShapeError, r"det: a has shape \(3, 4\); .*a square matrix"),
    "transform": (lambda: wf.fft.fft(A, axis=2), AxisError, "fft: axes=2, but the array has axes -2 to 1"),
    "unknown dtype": (lambda: A.astype("float31"), DTypeError, "'float31' is not a dtype. Did you mean 'float32'"),
    "objects": (lambda: wf.array([1], dtype=object), DTypeError, "no dtype 'object'"),
    "strings": (lambda: wf.array(["a"]), DTypeError, "array: strings cannot be held: map them to integers"),
    "float shift": (lambda: A << 1, DTypeError, "bitwise_left_shift: integers are needed.*float32.*astype"),
    "float position": (lambda: wf.take(A, wf.array([0.5])), DTypeError, "take: indices must hold integers.*float32.*astype"),
    "gradient of integers": (
        lambda: wf.grad(lambda x: x.sum())(wf.array([1, 2])),
        DTypeError, r"argument 0 is int64.*astype\('float32'\)",
    ),
    # axes and positions
    "axis": (lambda: A.sum(axis=5), AxisError, "sum: axis=5, but the array has axes -2 to 1"),
    "axis twice": (lambda: A.sum(axis=(0, 0)), AxisError, r"sum: axis=\(0, 0\) names an axis twice"),
    "position": (lambda: A[7], IndexError, r"index 7 is out of bounds for axis 0 with size 3 \(array of shape \(3, 4\)\)"),
    "positions": (lambda: A[np.array([9])], IndexError, "index 9 is out of bounds for axis 0 with size 3"),
    "too many": (lambda: A[0, 0, 0], IndexError, r"too many indices: the array has 2 dimensions \(shape \(3, 4\)\), 3"),
    # layers
    "width": (lambda: linear()(wf.ones((3, 5))), ShapeError, r"linear: x has shape \(3, 5\).*in_features = 4"),
    "images into a dense layer": (lambda: linear()(wf.ones((2, 1, 4, 5))), ShapeError, "flatten images first"),
    "second layer": (lambda: wf.nn.Sequential(linear(4, 3), wf.nn.ReLU(), linear(4, 2))(A), ShapeError, "in_features = 4"),
    "channels": (
        lambda: wf.nn.Conv2d(3, 4, 3)(wf.ones((2, 1, 8, 8))),
        ShapeError, r"conv2d: x \(2, 1, 8, 8\) has 1 channels, w .* takes 3",
    ),
    "image without batch": (lambda: wf.nn.Conv2d(3, 4, 3)(wf.ones((3, 8, 8))), ShapeError, r"x must be \(N, C, H, W\)"),
    "window": (
        lambda: wf.nn.Conv2d(1, 4, 5)(wf.ones((1, 1, 3, 3))),
        ShapeError, r"window .*\(4, 1, 5, 5\).* is larger than x \(1, 1, 3, 3\)",
    ),
    "pool": (lambda: wf.nn.max_pool2d(wf.ones((1, 1, 2, 2)), 3), ShapeError, r"window \(3, 3\) is larger than"),
    "generator": (lambda: wf.array(x for x in [1]), wf.errors.DTypeError, "list of numbers, such as list"),
    "set": (lambda: wf.array({1, 2}), wf.errors.DTypeError, "list of numbers, such as list"),
    "no features": (lambda: linear(0, 3), ShapeError, "Linear: in_features must be a positive int, not 0"),
    "no channels": (lambda: wf.nn.Conv2d(1, 0, 3), ShapeError, "Conv2d: out_channels must be a positive int, not 0"),
    "probability": (lambda: wf.nn.Dropout(2.0), ValueError, "Dropout: p must lie between 0 and 1, not 2.0"),
    "rate": (lambda: wf.optim.Adam(lr=-1), ValueError, "Adam: lr must not be negative, not -1"),
    # labels and data
    "label": (
        lambda: wf.losses.cross_entropy(wf.ones((2, 3)), np.array([0, 3])),
        ValueError, r"label 3 at position 1.*3 classes \(0 to 2\)",
    ),
    "label in an Array": (
        lambda: wf.losses.cross_entropy(wf.ones((2, 3)), wf.array([-1, 2])),
        ValueError, "label -1 at position 0",
    ),
    "label in fit": (lambda: fit(y=np.array([0, 1, 2, 3, 0])), ValueError, "label 3 at position 3, but there are 3 classes"),
    "label in validation": (lambda: fit(validation=(X, Y + 2)), ValueError, "label 3 at position 1"),
    "float labels": (
        lambda: wf.losses.cross_entropy(wf.ones((2, 3)), np.array([0.0, 1.0])),
        DTypeError, "labels must be integers, not float64",
    ),
    "count of labels": (
        lambda: wf.losses.cross_entropy(wf.ones((2, 3)), Y),
        ShapeError, r"\(2,\) labels or \(2, 3\) one-hot rows, not \(5,\)",
    ),
    "empty data": (lambda: fit(X[:0], Y[:0]), ShapeError, r"x is empty: shape \(0, 4\)"),
    "fewer labels": (lambda: fit(y=Y[:4]), ShapeError, r"x has 5 samples \(shape \(5, 4\)\), y has 4"),
    "data too wide": (lambda: fit(model=linear(7)), ShapeError, "in_features = 7"),
    "words": (lambda: fit(np.array([["a"] * 4] * 5)), DTypeError, "fit: x must hold real numbers, not texts: wf.data"),
    "no epochs": (lambda: fit(epochs=0), ValueError, "epochs must be at least 1, not 0"),
    "no batch": (lambda: fit(batch_size=0), ValueError, "batch_size must be at least 1, not 0"),
    "all for validation": (lambda: fit(validation=1.0), ValueError, r"validation must be a fraction in \[0, 1\)"),
    "threads": (lambda: wf.set_num_threads(0), ValueError, "from 1 to 256, got 0"),
    "shape": (lambda: wf.random.normal(size=(-1,)), ShapeError, r"normal: size=\(-1,\) has a negative extent"),
}


def call_lines(call: Callable[[], object]) -> set[int]:
    return {line for _, _, line in call.__code__.co_lines() if line is not None}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CASES)
def test_message_and_line(name: str) -> None:
    call, error, pattern = CASES[name]
    with pytest.raises(error, match=pattern) as caught:
        call()
    assert isinstance(caught.value, ValueError | TypeError | IndexError)
    package = Path(wf.__file__).parent
    own = [f for f in traceback.extract_tb(caught.value.__traceback__) if package not in Path(f.filename).parents]
    assert own[-1].filename == __file__, "the last frame outside weft is the user's"
    assert any(f.lineno in call_lines(call) for f in own), "and its line is shown"
    assert not re.search(r"0x[0-9a-f]{6}", str(caught.value)), "no addresses"
    assert wf.ones(2).sum() == 2, "and weft goes on"


def test_an_error_in_a_function_that_was_traced_names_its_line() -> None:
    def model(a):
        b = a * 2
        return b - b.mean(axis=1)  # wrong

    for call in (wf.jit(model), lambda a: wf.vmap(model)(a[None]), lambda a: wf.explain(model, a)):
        with pytest.raises(ShapeError) as caught:
            call(A)
        lines = [f.line or "" for f in traceback.extract_tb(caught.value.__traceback__)]
        assert any("# wrong" in line for line in lines)


def test_weight_files(tmp_path: Path) -> None:
    net, path = linear(), tmp_path / "net.safetensors"
    with pytest.raises(DataError, match=r"no weight file at .*net\.safetensors"):
        wf.io.load(path)
    with pytest.raises(DataError, match="no weight file"):
        wf.io.load(tmp_path)
    wf.io.save(path, net)
    content = path.read_bytes()
    before = net.weight.numpy().copy()
    damaged = [b"", content[:4], content[: len(content) // 2], content[:-1], b"\xff" * 8 + content[8:], b"PK\3\4" * 30]
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"net\.safetensors is (damaged or no safetensors|a damaged \.npz) file"):
            wf.io.load_into(net, path)
    wf.io.save(path, linear(5, 3))
    with pytest.raises(DataError, match=r"'weight' has shape \(3, 5\), the model's has \(3, 4\)"):
        wf.io.load_into(net, path)
    wf.io.save(path, {"weight": wf.ones((3, 4)), "other": wf.ones(1)})
    with pytest.raises(DataError, match=r"does not fit the model: missing .*'bias' \(3,\); not in the model: 'other' \(1,\)"):
        wf.io.load_into(net, path)
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert list(tmp_path.iterdir()) == [path], "nothing temporary is left"


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    net, path = linear(), tmp_path / "net.safetensors"
    wf.io.save(path, net)
    content = path.read_bytes()

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        wf.io.save(path, linear())
    assert path.read_bytes() == content and list(tmp_path.iterdir()) == [path]


def test_missing_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    monkeypatch.setattr(wf.data.sets, "user_cache_folder", lambda: tmp_path / "cache")
    fix = r"set WEFT_DATA to a folder that holds mnist/train-images-idx3-ubyte\.gz"
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=fix + r", or pip install 'weft-array\[data\]' to download it$"):
        wf.data.load_mnist()

    def retrieve(*args: object, **options: object) -> str:
        raise ConnectionError("no route: " + 300 * "!")

    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=retrieve))
    with pytest.raises(DataError, match=rf"^MNIST could not be downloaded \(ConnectionError\): {fix}$"):
        wf.data.load_mnist()


def test_damaged_mnist_is_downloaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib
    import sys
    import types

    head = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28])
    files = {
        name: (head + bytes(784) if "images" in name else bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])) for name in wf.data.sets.MNIST_FILES
    }
    asked, cache = [], tmp_path / "cache" / "mnist"
    good = True

    def retrieve(url: str, known_hash: None, fname: str, path: Path) -> str:  # leaves a file alone that is there, as pooch does
        asked.append(fname)
        path.mkdir(parents=True, exist_ok=True)
        if not (path / fname).exists():
            (path / fname).write_bytes(files[fname.removesuffix(".gz")] if good else b"<html>")
        return str(path / fname)

    monkeypatch.delenv("WEFT_DATA", raising=False)
    monkeypatch.setattr(wf.data.sets, "user_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(wf.data.sets, "MNIST_FILES", {
        name: hashlib.md5(content, usedforsecurity=False).hexdigest() for name, content in files.items()})
    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=retrieve))
    good = False
    with pytest.raises(DataError, match="it does not begin with the bytes"):
        wf.data.load_mnist()
    good = True
    assert wf.data.load_mnist().y_test == [7]
    asked.clear()
    wf.data.load_mnist()
    assert not asked
    for junk in (b"", b"<html>", files["t10k-labels-idx1-ubyte"][:-1] + b"\x08"):
        (cache / "t10k-labels-idx1-ubyte.gz").write_bytes(junk)
        assert wf.data.load_mnist().y_test == [7] and asked == ["t10k-labels-idx1-ubyte.gz"]
        asked.clear()
    own = tmp_path / "mnist" / "t10k-labels-idx1-ubyte"
    own.parent.mkdir()
    own.write_bytes(b"<html>")
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="it does not begin with the bytes"):  # a user's file is left to the user
        wf.data.load_mnist()
    assert own.exists() and not asked


H = wf.ones(3, dtype="float16")


@pytest.mark.parametrize("ask", [
    lambda: H + 1e6, lambda: H * -100_000, lambda: wf.where(H < 0, H, 1e6), lambda: wf.full(3, 1e6, dtype="float16"),
    lambda: wf.pad(H, 1, constant_values=1e6), lambda: wf.jit(lambda h: h * 1e6)(H), lambda: wf.ones(3) * 1e39,
])
def test_a_number_that_overflows_is_warned_of_at_the_users_line(ask) -> None:
    with pytest.warns(RuntimeWarning, match=r"overflows float\d\d, whose largest is .*: it becomes infinite") as found:
        result = ask().numpy()
    assert np.isinf(result).any()
    assert {Path(w.filename).name for w in found} == {"test_errors.py"} and len(found) == 1


def test_numbers_that_fit_are_not_warned_of() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in (65504, 65519.0, -65504.0, np.inf, np.nan):
            (H * number).numpy()
        (wf.ones(3) * 1e38).numpy()
        (wf.arange(3) + 100_000).numpy()


BESIDE = """
import weft as wf
def refused():
    return wf.add(wf.ones(3), wf.ones(4))
def warned():
    return wf.ones(3, dtype="float16") * 1e6
def position():
    return wf.jit(lambda a, i: a[i])(wf.ones(3), wf.array(9)).numpy()
def place():
    traced = []
    def f(a):
        traced.extend(((a + 1).node, wf.sum(a).node))
        return a
    wf.jit(f)(wf.ones(3))
    return [node.source_line[0].co_filename for node in traced]
def operand():
    return wf.clip(wf.ones((3, 4)), wf.ones(3), 1)
"""


@pytest.mark.parametrize("name", ["_demo.py", "/../demo.py", "er/weft.py", ".py", "-demo/weft/weft/demo.py", "/../weft demo.py"])
def test_only_files_in_the_packages_own_folder_are_its_own(name: str) -> None:
    """A user's file beside the package, in a folder of the same beginning, or of the same name elsewhere, is the user's."""
    file = str(Path(wf.__file__).parent) + name
    user: dict[str, Callable[[], object]] = {}
    exec(compile(BESIDE, file, "exec"), user)
    with pytest.raises(ShapeError, match="^add: shapes do not broadcast"):
        user["refused"]()
    with pytest.raises(ShapeError, match=r"^clip: shapes do not broadcast: a \(3, 4\), min \(3,\)"):
        user["operand"]()
    with pytest.warns(RuntimeWarning, match="overflows float16") as found:
        user["warned"]()
    assert [w.filename for w in found] == [file]
    with pytest.raises(IndexError, match=rf"\({re.escape(file)}:8\)$"):
        user["position"]()
    assert user["place"]() == [file, file]
