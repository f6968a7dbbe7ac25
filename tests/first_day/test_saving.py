"""Weights that are saved, renamed, loaded in part, frozen and shared, and checkpoints of own loops."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DataError, DTypeError


def net(classes: int = 2) -> wf.nn.Sequential:
    return wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.BatchNorm1d(4), wf.nn.Linear(4, classes))


def equal(a: Any, b: Any) -> bool:
    return all(bool((x == y).all()) for x, y in zip(a.arrays().values(), b.arrays().values(), strict=True))


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_round_trip(tmp_path: Path, ending: str) -> None:
    model, path = net(), tmp_path / f"net.{ending}"
    model.save(path)
    assert equal(net().load(path), model)
    content = {"model": model, "more": {"steps": 7, "deep": {"rate": 0.5}}, "a.b": wf.ones(2)}
    wf.io.save(path, content)
    loaded = wf.io.load(path)
    if ending == "npz":
        assert np.load(path)["more.deep.rate"] == 0.5 and loaded["more.deep.rate"] == 0.5
    else:
        assert loaded["more"]["deep"]["rate"] == 0.5 and (loaded["a.b"] == 1).all()
        assert (loaded["model"]["0.weight"] == model[0].weight).all()


def test_load_in_part(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "net.safetensors"
    model.save(path)
    other = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.BatchNorm1d(4), wf.nn.Linear(4, 7), wf.nn.Linear(7, 7))
    with pytest.raises(DataError, match=r"missing from the file: '3.weight' \(7, 7\), '3.bias' \(7,\)\. strict=False leaves"):
        other.load(path)
    with pytest.raises(DataError, match=r"has \(7, 4\), and so for '2.bias'; rename={'2.weight': None} leaves it out"):
        other.load(path, strict=False)
    with pytest.warns(RuntimeWarning, match=r"6 of the model's 10 arrays were read .*missing from the file: '2.weight'"):
        other.load(path, strict=False, rename={"2": None})
    assert (other[0].weight == model[0].weight).all() and (other[1].running_var == model[1].running_var).all()
    with pytest.raises(DataError, match="does not fit the model"):
        wf.nn.Sequential(("other", wf.nn.Linear(3, 4))).load(path, strict=False)  # nothing would be read


def test_rename(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "net.safetensors"
    wf.io.save(path, {"model": model})
    with pytest.raises(DataError, match="rename={'model.': ''} removes the prefix"):
        net().load(path)
    assert equal(net().load(path, rename={"model.": ""}), model)
    assert equal(net().load(path, rename=lambda name: name.removeprefix("model.")), model)
    with pytest.raises(DataError, match=r"rename has 'head', with which no name in the file begins; the file has 'model.0.bias'"):
        net().load(path, rename={"model.": "", "head": None})
    with pytest.raises(DataError, match=r"rename gives two arrays the name 'x': 'model.0.bias' \(4,\), 'model.0.weight'"):
        net().load(path, rename=lambda name: "x")
    with pytest.raises(TypeError, match="rename must be a dict or a function"):
        net().load(path, rename=3)


def test_bad_values(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for value in ("text", None, object()):
        with pytest.raises((DTypeError, TypeError), match="'name'|cannot"):
            wf.io.save(path, {"name": value})
    with pytest.raises(DTypeError, match="must be a Module, an optimizer or a dict"):
        wf.io.save(path, wf.ones(3))
    with pytest.raises(DataError, match="two values would be called 'a.b'"):
        wf.io.save(path, {"a": {"b": 1}, "a.b": 2})
    with pytest.raises(DataError, match="'a' is bfloat16, which .npz cannot hold"):
        wf.io.save(tmp_path / "x.npz", {"a": wf.ones(2, dtype="bfloat16")})
    assert not path.exists()


def test_npz_of_nothing_and_of_strings(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    wf.io.save(path, {})
    assert wf.io.load(path) == {}
    np.savez(path, a=np.ones(3, ">f4"))
    assert wf.io.load(path)["a"].tolist() == [1, 1, 1]
    np.savez(path, a=np.ones(3), b=np.array("text"))
    with pytest.raises(DataError, match=r"x.npz: 'b' is of dtype <U4, which weft does not have"):
        wf.io.load(path)


def test_numbers_that_become_nan_are_told(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="1 of 2 numbers are too large for float8_e4m3fn and become NaN"):
        wf.io.save(tmp_path / "x.safetensors", {"a": wf.array([1.0, 1000.0])}, dtype="float8_e4m3fn")


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    wf.io.save(path, {"a": wf.ones(100)})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="damaged"):
        wf.io.load(path)
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(DataError, match="damaged|pickle"):
        wf.io.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    with pytest.raises(DataError, match="as torch.save writes: in PyTorch, safetensors.torch.save_file"):
        wf.io.load(path)


def step(model: Any, optimizer: Any, x: Any) -> None:
    value, gradient = wf.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, gradient)


def test_checkpoint_of_an_own_loop(tmp_path: Path) -> None:
    x, path = wf.random.normal(size=(5, 3)), tmp_path / "run.safetensors"
    model, optimizer = net(), wf.optim.Adam(lr=0.01)
    for _ in range(3):
        step(model, optimizer, x)
    optimizer.lr = 0.003
    wf.io.save(path, {"model": model, "optimizer": optimizer, "step": 3})
    state = {"model": net(), "optimizer": wf.optim.Adam(), "step": 0}
    wf.io.load_into(state, path)
    assert state["step"] == 3 and type(state["step"]) is int and float(state["optimizer"].lr) == 0.003
    for _ in range(2):
        step(model, optimizer, x)
        step(state["model"], state["optimizer"], x)
    assert equal(model, state["model"]) and equal(optimizer, state["optimizer"])
    optimizer.save(path)
    assert equal(wf.optim.Adam().init(model).load(path), optimizer)
    with pytest.raises(DataError, match=r"call optimizer.init\(model\) first"):
        wf.optim.Adam().load(path)
    with pytest.raises(DataError, match="does not fit the optimizer: .* of another optimizer"):
        wf.optim.SGD(0.1).init(model).load(path)


def test_freeze() -> None:
    x, model = wf.random.normal(size=(5, 3)), net()
    assert model.freeze("0", "*.bias") is model
    assert [*model.parameters()] == ["1.weight", "2.weight"] and len([*model.named_parameters()]) == 6
    before = {name: a.numpy().copy() for name, a in model.arrays().items()}
    optimizer = wf.optim.Adam(lr=0.1)
    jitted = wf.jit(lambda x: step(model, optimizer, x))
    jitted(x)
    changed = {name for name, a in model.named_parameters() if (a.numpy() != before[name]).any()}
    assert changed == {"1.weight", "2.weight"}
    model.unfreeze("0.weight")
    jitted(x)
    assert (model[0].weight.numpy() != before["0.weight"]).any() and (model[0].bias.numpy() == before["0.bias"]).all()
    with pytest.raises(ValueError, match=r"freeze: '0.wieght' matches no parameter. Did you mean '0.weight'\?"):
        model.freeze("0.wieght")
    with pytest.raises(TypeError, match="a pattern must be a str"):
        model.freeze(0)
    model.freeze()
    with pytest.raises(ValueError, match="fit: every parameter of the model is frozen"):
        wf.train.fit(model, np.ones((4, 3), "float32"), np.zeros(4, int), show=False)
    assert len(model.unfreeze().parameters()) == 6


class Tied(wf.nn.Module):
    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.a, self.c = wf.nn.Linear(4, 4), wf.nn.Linear(4, 4)
        self.b = self.a if shared else wf.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x))


def test_tied_weights(tmp_path: Path) -> None:
    tied, path = Tied(True), tmp_path / "tied.safetensors"
    assert [*tied.parameters()] == ["a.weight", "a.bias", "c.weight", "c.bias"]
    tied.save(path)
    loaded = wf.io.load(path)
    for name in ("weight", "bias"):
        loaded[f"b.{name}"] = loaded[f"a.{name}"] if name == "weight" else loaded.pop(f"a.{name}")
    wf.io.save(path, loaded)  # both names of one weight, and the second name only, as other programs write them
    assert equal(Tied(True).load(path), tied)


def rewrite(path: Path, change: Any) -> None:
    path.write_bytes(change(path.read_bytes()))


DIFFERENCES: dict[str, tuple[Any, str]] = {  # how a file of net() is read, and the message after its path
    "two names": (lambda p: net().load(p, rename={"0.": "2."}), "rename gives two arrays the name '2.bias': '0.bias' (4,), "
                  "'2.bias' (2,). Give them two names; rename={..., '2.bias': None} leaves one out"),
    "no name": (lambda p: net().load(p, rename=lambda name: 3), "rename returned 3 for '0.bias': return its new name, or None"),
    "a number": (lambda p: net().load(p, rename={"0.": 3}), "rename has '0.': 3; a key is a name in the file or its beginning"),
    "reversed": (
        lambda p: wf.nn.Sequential(("fc", wf.nn.Linear(3, 4))).load(p, rename={"fc": "0"}),
        ". Keys are the file's names, values the model's: rename={'0': 'fc'}"),
    "other names": (
        lambda p: wf.nn.Sequential(("a", wf.nn.Linear(3, 4)), wf.nn.BatchNorm1d(4), ("b", wf.nn.Linear(4, 2))).load(p),
        "By their shapes, rename={'0': 'a', '2': 'b'} fits"),
    "unlike shapes": (lambda p: wf.nn.Sequential(("a", wf.nn.Linear(3, 5))).load(p), "strict=False reads the names that both"),
    "no common name": (lambda p: wf.nn.Linear(9, 9).load(p, strict=False), "rename={'name in the file': 'name in the model'}"),
    "a model's file": (lambda p: wf.optim.Adam().init(net()).load(p), "The file holds no state of an optimizer"),
    "arguments": (lambda p: wf.io.load_into(p, net()), "path must be a str or a path, not a Sequential: the arguments are model"),
    "arguments of save": (lambda p: wf.io.save(net(), p), "path must be a str or a path, not a Sequential: the arguments are"),
    "an open file": (lambda p: net().load(open(p, "rb")), "not a BufferedReader: give the path, not the open file"),  # noqa: SIM115
    "a list of arrays": (lambda p: wf.io.save(p, {"a": [wf.ones(2), wf.ones(3)]}), "'a' is a list of 2 arrays or models"),
    "a ragged list": (lambda p: wf.io.save(p, {"a": [[1], [1, 2]]}), "'a' is a list whose items have several lengths"),
    "a text": (lambda p: wf.io.save(p, {"a": "adam"}), "'a' is a str, and a weight file holds arrays of numbers: leave it out"),
    "complex": (lambda p: wf.io.save(p, {"a": np.ones(2, "c8")}), "'a' has dtype complex64, .*: save its .real and .imag"),
    "another file": (lambda p: wf.io.load(p.with_suffix(".npy")), "no weight file at .*. Did you mean 'net.safetensors'?"),
    "no folder": (lambda p: wf.io.load(p / "x" / "y"), "no weight file at .*: there is no folder '.*'"),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_files_that_do_not_fit(tmp_path: Path, case: str) -> None:
    path, (read, message) = tmp_path / "net.safetensors", DIFFERENCES[case]
    net().save(path)
    before = path.read_bytes()
    with pytest.raises((DataError, DTypeError, TypeError), match=re.escape(message).replace(r"\.\*", ".*")):
        read(path)
    assert path.read_bytes() == before


def test_names_of_files(tmp_path: Path) -> None:
    for name in ("net.txt", "net.safetensors", "network.bin"):
        net().save(tmp_path / name)
    for given, close in (("net.safetensor", "net.safetensors"), ("net.pt", "net\\..*"), ("network.safetensors", "network.bin")):
        with pytest.raises(DataError, match=f"no weight file at .*{given}. Did you mean '{close}'"):
            net().load(tmp_path / given)
    bad = (("", ValueError, "is empty"), ("a\0b", ValueError, "has a null"), (b"a", TypeError, "must be a str"))
    for path, error, why in bad:
        with pytest.raises(error, match=f"save: the path .*{why}"):
            net().save(path)


def test_kinds_of_files(tmp_path: Path) -> None:
    path, model = tmp_path / "net.safetensors", net()
    wf.optim.Adam().init(model).save(path)
    with pytest.raises(DataError, match=r"holds an optimizer's state: optimizer.load\(path\) reads it"):
        model.load(path)
    for count, order in ((2, "T"), (4, r"transpose\(3, 2, 1, 0\)")):
        shape = tuple(np.random.default_rng().permutation(9)[:count] + 1)
        wf.io.save(path, {"a": wf.ones(shape[::-1])})
        with pytest.raises(DataError, match=f"its axes have another order, as in Keras and JAX: .* write array.{order}"):
            wf.io.load_into({"a": wf.ones(shape)}, path)
    for begin, kind in ((b"version https://git-lfs", "git lfs pull"), (b"<!DOCTYPE html>", "a web page"),
                        (b"\x80\4\x95", "a Python pickle"), (b"\x89HDF\r\n", "HDF5, as Keras writes"), (b'{"a": 1}', "JSON")):
        path.write_bytes(begin + bytes(20))
        with pytest.raises(DataError, match=f"net.safetensors is no weight file: it is .*{kind}"):
            wf.io.load(path)
    path = tmp_path / "net.npz"
    wf.io.save(path, {"weight": wf.random.normal(size=50)})
    at = path.read_bytes().index(b"NUMPY") + 200  # in the array's numbers
    rewrite(path, lambda content: content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
    with pytest.raises(DataError, match="net.npz is a damaged .npz file: array 'weight': its bytes do not match their checksum"):
        wf.io.load(path)
    rewrite(path, lambda content: content[:-40])
    with pytest.raises(DataError, match="is a damaged .npz file: its end is missing. Copy, download or save it again"):
        wf.io.load(path)
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(DataError, match="net.npz: 'a' holds Python objects, which are not read"):
        wf.io.load(path)
