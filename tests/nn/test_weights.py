"""Weight files: what was saved comes back, what was damaged or does not fit is refused, and nothing is half-loaded."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import weft as wf
from weft.errors import DataError, DTypeError
from weft.nn.weights import pack, unpack

rng = np.random.default_rng()


def net() -> wf.nn.Sequential:
    return wf.nn.Sequential(wf.nn.Linear(5, 7), wf.nn.BatchNorm1d(7), wf.nn.Linear(7, 3))


def contents(model) -> dict:
    return {k: v.numpy().copy() for k, v in model.arrays().items()}


def parts(content: bytes) -> tuple[dict, bytes]:
    n = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + n]), content[8 + n :]


def joined(header, data: bytes) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def test_every_dtype_comes_back_and_others_read_it(tmp_path: Path) -> None:
    kinds = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ml_dtypes.bfloat16)
    arrays = {f"a{k}": (rng.normal(size=(3, k)) * 5).astype(d) for k, d in enumerate(kinds)} | {"one": np.float32(rng.normal())}
    wf.io.save(tmp_path / "w", arrays)
    found, theirs = wf.io.load(tmp_path / "w"), safetensors.numpy.load_file(tmp_path / "w")
    assert found.keys() == theirs.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].numpy().tobytes() == array.tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("name, code", [("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")])
def test_8_bit_floats_are_written_as_others_name_them(tmp_path: Path, name: str, code: str) -> None:
    """NumPy's part of safetensors does not read them; its names of dtypes are PyTorch's."""
    array = (rng.normal(size=(3, 5)) * 5).astype(getattr(ml_dtypes, name))
    wf.io.save(tmp_path / "w", {"a": array})
    header, data = parts((tmp_path / "w").read_bytes())
    begin, end = header["a"]["data_offsets"]
    assert header["a"]["dtype"] == code and header["a"]["shape"] == [3, 5] and data[begin:end] == array.tobytes()
    found = wf.io.load(tmp_path / "w")["a"]
    assert found.dtype == array.dtype and found.numpy().tobytes() == array.tobytes()
    with safetensors.safe_open(tmp_path / "w", "np") as theirs:
        assert theirs.get_slice("a").get_dtype() == code and theirs.get_slice("a").get_shape() == [3, 5]


def test_a_model_round_trip_in_float16(tmp_path: Path) -> None:
    a, b = net(), net()
    a.save(tmp_path / "w", dtype="float16")
    assert b.load(tmp_path / "w") is b
    for name, value in contents(a).items():
        assert b.arrays()[name].dtype == value.dtype
        np.testing.assert_array_equal(b.arrays()[name].numpy(), value.astype(np.float16).astype(value.dtype))
    with pytest.raises(DTypeError, match="float dtype"):
        a.save(tmp_path / "w", dtype="int8")


def test_overflow_names_the_tensor(tmp_path: Path) -> None:
    a, small = net(), net()
    a[2].weight[1, 2] = 7e4
    for p in small.parameters().values():
        p._set(p.astype("float16").node)
    wf.io.save(tmp_path / "wide", a)
    for what, call in {
        "save": lambda: a.save(tmp_path / "w", dtype="float16"), "save:": lambda: wf.io.save(tmp_path / "w", a, "float16"),
        "load": lambda: small.load(tmp_path / "wide"), "load:": lambda: wf.io.load_into(small, tmp_path / "wide"),
    }.items():
        text = what + r".* '2\.weight': 1 of 21 numbers are too large for float16.*70000"
        with pytest.warns(RuntimeWarning, match=text) as caught:
            call()
        assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a.save(tmp_path / "w", dtype="bfloat16")


def test_any_flipped_bit_is_refused() -> None:
    content = pack({"layer.weight": rng.normal(size=(4, 5)).astype("f4"), "b": rng.normal(size=3), "n": np.arange(2)})
    bits = {*range(64), *rng.integers(64, 8 * len(content), 1500).tolist()}
    for bit in bits:
        bad = bytearray(content)
        bad[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(DataError, match="a file is damaged"):
            unpack(bytes(bad), "a file")


def test_every_bit_of_a_small_header() -> None:
    content = pack({"w": rng.normal(size=2).astype("f4")})
    for bit in range(8 * len(content)):
        bad = bytearray(content)
        bad[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(DataError):
            unpack(bytes(bad), "a file")


def test_every_truncation_is_refused() -> None:
    content = pack({"w": rng.normal(size=9).astype("f4")})
    for size in range(len(content)):
        with pytest.raises(DataError, match="damaged or no safetensors file"):
            unpack(content[:size], "a file")


def test_damage_names_the_place_and_loads_nothing(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "w"
    model.save(path)
    content, other = bytearray(path.read_bytes()), net()
    header, data = parts(bytes(content))
    begin, end = (len(content) - len(data) + o for o in header["2.weight"]["data_offsets"])
    content[begin] ^= 4
    path.write_bytes(content)
    before = contents(other)
    with pytest.raises(DataError, match=rf"tensor '2\.weight' \(bytes {begin} to {end}\) does not match its checksum"):
        other.load(path)
    assert all((other.arrays()[k].numpy() == v).all() for k, v in before.items())


@pytest.mark.parametrize("change, why", [
    (lambda h, d: joined(h, d + d), "tensors take 24 bytes, but 48 follow"),
    (lambda h, d: joined(json.dumps(h)[:-1].encode() + b', "v": ' + json.dumps(h["v"]).encode() + b"}", d), "'v' is there twice"),
    (lambda h, d: joined(h | {"x": h["v"]}, d), "begins at byte"),
    (lambda h, d: joined(h | {"v": h["v"] | {"dtype": "F8"}}, d), "dtype 'F8'"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [7]}}, d), r"shape \(7,\) needs 56 bytes"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [-2]}}, d), r"shape \[-2\]"),
    (lambda h, d: joined(h, d[:-1]), "cut off"),
    (lambda h, d: joined([1], d), "no table of tensors"),
    (lambda h, d: joined(h | {"v": 3}, d), "is not described by"),
    (lambda h, d: joined(b"[" * 100000, d), "cannot be read"),
    (lambda h, d: b"\x93NUMPY" + d, "it is no weight file: it is NumPy's .npy"),
    (lambda h, d: b"PK\3\4" + bytes(4) + d, "torch.save"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [1] * 65}}, d), "'v' has 65 dimensions, an array has 64 at most"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [2, 1 << 63]}}, d), r"shape \[2, 9223372036854775808\]"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [1 << 62] * 9}}, d), r"shape \(4611686018427387904, .* needs \d+ bytes"),
    (lambda h, d: joined(h | {"x": {"dtype": "I8", "shape": [0, 1 << 62, 4], "data_offsets": [0, 0]}}, d), "needs 0 bytes"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [10**21]}}, d), "a number has 22 digits"),
    (lambda h, d: joined(h | {"v": h["v"] | {"shape": [2.0]}}, d), r"shape \[2.0\]"),
    (lambda h, d: joined(h | {"v": h["v"] | {"data_offsets": [24, 8]}}, d), "is given -16"),
    (lambda h, d: joined(h | {"v": h["v"] | {"dtype": "\ud800"}}, d), "cannot be read: .*surrogates"),
    (lambda h, d: joined(h | {"\udfff": h["v"]}, d), "cannot be read: .*surrogates"),
    (lambda h, d: joined(h | {"__metadata__": {"weft.sha256": "\ud800" * 64}}, d), "cannot be read: .*surrogates"),
    (lambda h, d: joined(h | {"__metadata__": {"weft.sha256": "ü" * 64}}, d), "damaged: its header .* does not match"),
    (lambda h, d: joined(h | {"__metadata__": {"a": 1}}, d), "metadata is no table of texts"),
    (lambda h, d: joined(h | {"n" * 100_000: 3}, d), "tensor 'nnn.{0,200}nnn' is not described"),
])
def test_files_of_others_are_checked_too(change, why: str) -> None:
    foreign = safetensors.numpy.save({"v": rng.normal(size=2), "w": rng.normal(size=2).astype("f4")})
    assert set(unpack(foreign, "it")) == {"v", "w"}
    with pytest.raises(DataError, match=why):
        unpack(change(*parts(foreign)), "it")


def test_models_that_do_not_fit(tmp_path: Path) -> None:
    path, model = tmp_path / "w", wf.nn.Linear(3, 2)
    before = contents(model)
    given = {"weight": rng.normal(size=(2, 3)).astype("f4"), "bias": rng.normal(size=2).astype("f4")}
    safetensors.numpy.save_file(given, path)
    np.testing.assert_array_equal(wf.nn.Linear(3, 2).load(path).bias.numpy(), given["bias"])
    with pytest.raises(DataError, match=r"call it once on a batch first"):
        wf.nn.Linear(None, 2).load(path)
    for bad, why in ((given | {"bias": np.arange(2)}, "'bias' has dtype int64"), (given | {"bias": np.ones(3)}, "has shape"),
                     ({"weight": given["weight"]}, "missing"), (given | {"c": np.ones(1)}, r"not in the model: 'c' \(1,\)")):
        wf.io.save(path, bad)
        with pytest.raises(DataError, match=why):
            model.load(path)
    assert all((model.arrays()[k].numpy() == v).all() for k, v in before.items())


def test_counters_of_pytorch_are_passed_over(tmp_path: Path) -> None:
    path, model = tmp_path / "w", net()
    given = {n: rng.normal(size=a.shape).astype("f4") for n, a in model.arrays().items()}
    safetensors.numpy.save_file(given | {"1.num_batches_tracked": np.array(rng.integers(1, 99))}, path)
    model.load(path)
    assert all((a.numpy() == given[n]).all() for n, a in model.arrays().items())
    for name, value in (("1.num_batches", np.array(3)), ("1.num_batches_tracked", np.ones(2)), ("num_batches", np.array(3))):
        safetensors.numpy.save_file(given | {name: value}, path)
        with pytest.raises(DataError, match=f"not in the model: .{name}"):
            model.load(path)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_the_state_between_batches_is_no_weight(tmp_path: Path, kind: str) -> None:
    path, x = tmp_path / "w", wf.array(rng.normal(size=(2, 4, 3)).astype("f4"))
    model, fresh = (wf.nn.Sequential(getattr(wf.nn, kind)(3, 5, batch_first=True, stateful=True)) for _ in range(2))
    first = model[0](x)[0].numpy()
    kept = model[0].hidden.numpy().copy()
    model.save(path)
    assert np.allclose(fresh.load(path)[0](x)[0].numpy(), first, atol=1e-6) and kept.any()
    assert (model.load(path)[0].hidden.numpy() == kept).all()  # loading weights does not touch it
    wf.io.save(path, model.arrays())  # a file that has it is read all the same
    assert wf.io.load(path)["0.hidden"].shape == (1, 2, 5)
    fresh.load(path)


def test_a_header_of_any_length_and_many_names(tmp_path: Path) -> None:
    """Data need not begin at a multiple of their element's size."""
    value = rng.normal(size=5)
    content = safetensors.numpy.save({"v": value})
    header, data = parts(content)
    for blanks in range(9):
        (tmp_path / "w").write_bytes(joined(json.dumps(header).encode() + b" " * blanks, data))
        assert wf.io.load(tmp_path / "w")["v"].numpy().tobytes() == value.tobytes()
    wf.io.save(tmp_path / "w", {f"layer{k}": wf.ones(1) for k in range(50)})
    with pytest.raises(DataError, match=r"missing .*'weight' \(2, 3\), .*; not in the model: .*'layer12' \(1,\), and 45 more"):
        wf.nn.Linear(3, 2).load(tmp_path / "w")


SIZE = (1 << 20) + 7
ENTRY = b'{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}' % (SIZE, SIZE)
LONG = {  # headers of a megabyte that once took minutes, gigabytes, or both
    "a name twice, at the end": lambda: b"{" + b"".join(b'"%d":1,' % i for i in range(SIZE // 9)) + b'"7":1}',
    "numbers of many digits": lambda: b'{"v":{"dtype":"F4","shape":[' + b",".join([b"9" * 4000] * 260) + b"]}}",
    "one number": lambda: b'{"v":{"dtype":"F4","shape":[' + b"9" * SIZE + b"]}}",
    "many extents": lambda: b'{"v":{"dtype":"F4","data_offsets":[0,4],"shape":[' + b",".join([b"9" * 18] * (SIZE // 18)) + b"]}}",
    "one span a thousand times": lambda: b'{"__metadata__":{"format":"weft","weft.sha256":"' + b"0" * 64 + b'"},' + b",".join(
        b'"k%d":%s' % (i, ENTRY) for i in range(SIZE // 60)) + b"}",
    "empty lists": lambda: b'{"v":[' + b"[]," * (SIZE // 3) + b"[]]}",
    "brackets": lambda: b"[" * SIZE, "braces": lambda: b'{"a":' * (SIZE // 5), "quotes": lambda: b'"' * SIZE,
    "an endless name": lambda: b'{"' + b"\\u0041" * (SIZE // 6), "commas": lambda: b"{" + b"," * SIZE + b"}",
}


@pytest.mark.parametrize("what", LONG)
def test_long_headers_are_refused_in_bounded_time_and_memory(what: str) -> None:
    header = LONG[what]()
    signed = header.replace(b"0" * 64, hashlib.sha256(header).hexdigest().encode(), 1)
    content = joined(signed, bytes(SIZE if b"sha256" in header else 4))
    tracemalloc.start()
    with pytest.raises(DataError, match="it is damaged") as caught:
        unpack(content, "it")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(content) and len(str(caught.value)) < 3000


def test_a_long_header_may_be_right() -> None:
    entries = {f'k"\\{k}[': {"dtype": "F32", "shape": [], "data_offsets": [4 * k, 4 * k + 4]} for k in range(20_000)}
    values = np.arange(20_000, dtype="f4")
    for blanks in (None, 1):
        header = json.dumps({"__metadata__": {"config": '{"a": [1, {}], "b": "\\"}'}, **entries}, indent=blanks).encode()
        assert len(header) > 1 << 20
        found = unpack(joined(header, values.tobytes()), "it")
        assert len(found) == 20_000 and found['k"\\17['] == 17


def test_names_that_cannot_be_written(tmp_path: Path) -> None:
    for name, why in ((3, "must be a str"), ("\ud800", "UTF-8"), ("__metadata__", "cannot be called")):
        with pytest.raises(DataError, match=why):
            wf.io.save(tmp_path / "w", {name: wf.ones(2)})
    wf.io.save(tmp_path / "w", {"Gewichte für 重み 😀": wf.ones(2)})
    assert list(wf.io.load(tmp_path / "w")) == ["Gewichte für 重み 😀"]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 5), (), (1,) * 40])
def test_empty_arrays_and_many_dimensions(tmp_path: Path, shape: tuple[int, ...]) -> None:
    wf.io.save(tmp_path / "w", {"v": np.ones(shape, "f8"), "w": wf.ones(2)})
    assert wf.io.load(tmp_path / "w")["v"].shape == shape


def test_what_has_no_names_cannot_be_saved(tmp_path) -> None:
    for arrays in ([wf.ones(3)], wf.ones(3), None):
        with pytest.raises(DTypeError, match=f"save: arrays must be .* or a dict.*not a {type(arrays).__name__}"):
            wf.io.save(tmp_path / "w.safetensors", arrays)
    assert not list(tmp_path.iterdir())
