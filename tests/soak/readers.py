"""Damaged and forged files against every reader: each gives what it should or one of weft's own errors that names the file.

    python tests/soak/readers.py 20000        # mutants a reader; --seed N repeats a run

A mutant is a good file with bits, bytes, numbers or whole pieces changed. Half of the weight files and checkpoints then get
checksums that are right, so that what stands in them is believed; a header or state.json is also changed as JSON.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
NUMBERS = [0, -1, 1, 2, 7, 64, 65, 1 << 31, 1 << 32, 1 << 62, 1 << 63, 1 << 64, 10**30, 1.5, float("nan"), float("inf"), 1e308]
VALUES = [
    *NUMBERS, None, True, "", "x", "\ud800", "F32", "weft", [], {}, [0], [1, 2, 3], {"a": 1}, [[]], {"": {}}, ["x"] * 3, "0" * 64,
]


def bytes_of(r: random.Random, good: bytes) -> bytes:
    """A good file with some of its bytes changed."""
    bad = bytearray(good)
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        at, what = r.randrange(len(bad) + 1), r.randrange(8)
        if what == 0 and bad:
            bad[at % len(bad)] ^= 1 << r.randrange(8)
        elif what == 1 and bad:
            bad[at % len(bad)] = r.choice((0, 1, 34, 44, 48, 57, 91, 92, 93, 123, 125, 127, 128, 255))
        elif what == 2:
            del bad[at : at + r.choice((1, 2, 8, 100))]
        elif what == 3:
            bad[at:at] = r.choice((b"0", b"9" * 30, b"[", b"{", b'"', b"\\", b"\0" * 8, b"\xff" * 4, r.randbytes(5)))
        elif what == 4:
            bad = bad[:at]
        elif what == 5:
            start = r.randrange(len(bad) + 1)
            bad[at:at] = bad[start : start + r.randrange(60)]
        elif what == 6:
            size = r.choice((1, 2, 4, 8))
            bad[at : at + size] = r.choice((0, 1, 255, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)).to_bytes(8, "little")[:size]
        else:
            bad += r.randbytes(r.randrange(20))
    return bytes(bad)


def json_of(r: random.Random, good: Any) -> Any:
    """A value with some of what is in it changed, taken away or doubled."""
    bad = json.loads(json.dumps(good))
    for _ in range(r.choice((1, 1, 2, 4))):
        holder, key = _place(r, bad)
        if holder is None:
            bad = _value(r)
        elif r.random() < 0.2:
            del holder[key]
        elif isinstance(holder, dict) and r.random() < 0.15:
            holder[r.choice(["x", "", "\ud800", "__metadata__", "weft.sha256", key * 2])] = _value(r)
        elif type(holder[key]) in (int, float) and r.random() < 0.6:
            holder[key] = r.choice([holder[key] + 1, holder[key] - 1, -holder[key], holder[key] * 2, *NUMBERS])
        else:
            holder[key] = _value(r)
    return bad


def _place(r: random.Random, value: Any) -> tuple[Any, Any]:
    """A table or list somewhere inside, and one of its keys."""
    holder, key = None, None
    while isinstance(value, dict | list) and value and (holder is None or r.random() < 0.75):
        holder, key = value, r.choice(list(value)) if isinstance(value, dict) else r.randrange(len(value))
        value = holder[key]
    return holder, key


def _value(r: random.Random) -> Any:
    return copy.deepcopy(r.choice(VALUES))


def header_of(r: random.Random, good: bytes) -> bytes:
    """A weight file whose header is changed as JSON, with a right checksum."""
    n = int.from_bytes(good[:8], "little")
    header = json_of(r, json.loads(good[8 : 8 + n]))
    return signed(header, good[8 + n :])


def signed(header: Any, data: bytes) -> bytes:
    """A weight file with right checksums, as far as the header lets them be right."""
    meta = header.get("__metadata__") if isinstance(header, dict) else None
    if isinstance(meta, dict) and "weft.sha256" in meta:
        meta["weft.sha256"] = "0" * 64
        for name, entry in header.items():
            offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
            if isinstance(offsets, list) and len(offsets) == 2 and all(type(o) is int and abs(o) < 1 << 40 for o in offsets):
                meta["sha256:" + name] = hashlib.sha256(data[offsets[0] : offsets[1]]).hexdigest()
    raw = json.dumps(header).encode()
    raw = raw.replace(b"0" * 64, hashlib.sha256(raw).hexdigest().encode(), 1)
    return len(raw).to_bytes(8, "little") + raw + data


def state_of(r: random.Random, good: bytes) -> bytes:
    """A checkpoint whose state.json is changed, as JSON or as bytes, with right checksums."""
    from weft.nn.weights import pack, unpack

    arrays = unpack(good, "it")
    state = arrays["state.json"].tobytes()
    state = json.dumps(json_of(r, json.loads(state))).encode() if r.random() < 0.8 else bytes_of(r, state)
    if r.random() < 0.2:
        name = r.choice(list(arrays))
        arrays[r.choice([name, "model/x", "x", "callback0/best/0.weight", "callback9/x", "optimizer/"])] = r.choice(
            [arrays.pop(name), np.zeros((2, 3), "f4"), np.zeros(0, "i8")]
        )
    arrays["state.json"] = np.frombuffer(state, np.uint8)
    return pack(arrays)


class Outcome:
    """What became of the mutants of one reader: how many were read, how many refused."""

    def __init__(self) -> None:
        self.read = self.refused = 0
        self.slowest = 0.0

    def __repr__(self) -> str:
        return f"{self.read} read, {self.refused} refused, the slowest in {self.slowest:.3f} s"


def attack(r: random.Random, times: int, make: Callable[[], bytes], path: Path, read: Callable[[], Any]) -> Outcome:
    """Write mutants to ``path`` and read them. Raises where anything but a DataError that names the file comes of it."""
    from weft.errors import DataError

    out = Outcome()
    for _ in range(times):
        content = make()
        path.write_bytes(content)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read()
            out.read += 1
        except DataError as error:
            out.refused += 1
            assert path.name in str(error) and len(str(error)) < 4000, (error, content[:300])
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error} came of {content[:2000]!r}") from error
        out.slowest = max(out.slowest, time.perf_counter() - start)
    return out


def weights(r: random.Random, times: int, folder: Path) -> Outcome:
    import weft as wf
    from weft.errors import DataError
    from weft.nn.weights import pack

    net, path = wf.nn.Sequential(wf.nn.Linear(3, 2), wf.nn.BatchNorm1d(2)), folder / "net.safetensors"
    ours = pack({n: a.numpy() for n, a in net.arrays().items()} | {"flag": np.array([True]), "none": np.zeros((0, 4), "f8")})
    n = int.from_bytes(ours[:8], "little")
    header = json.loads(ours[8 : 8 + n])
    del header["__metadata__"]
    theirs = signed(header, ours[8 + n :])

    def make() -> bytes:
        good = r.choice((ours, theirs))
        return header_of(r, good) if r.random() < 0.6 else bytes_of(r, good)

    def read() -> None:
        found = wf.io.load(path)
        assert all(a.size <= 1000 for a in found.values())
        try:
            net.load(path)
        except DataError as error:
            assert path.name in str(error)

    return attack(r, times, make, path, read)


def checkpoints(r: random.Random, times: int, folder: Path) -> Outcome:
    import weft as wf

    path = folder / "run.ckpt"
    x = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    y = (x[:, 0] > 0).astype("int32")

    class Stop(Exception):
        pass

    class End:
        def __init__(self, step: int) -> None:
            self.step = step

        def on_batch(self, state: Any) -> None:
            if state.step >= self.step:
                raise Stop

    def fit(at: int) -> None:
        net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Dropout(0.2), wf.nn.Linear(4, 2))
        callbacks = [wf.train.BestWeights(restore=False), wf.train.AverageWeights(0.9), End(at)]
        try:
            wf.train.fit(
                net, x, y, epochs=2, batch_size=8, checkpoint=path, checkpoint_every=2, resume=True, show=False,
                callbacks=callbacks, optimizer=wf.optim.Adam(lr=0.01),
            )
        except Stop:
            pass

    path.unlink(missing_ok=True)
    fit(5)
    good = path.read_bytes()
    return attack(r, times, lambda: state_of(r, good) if r.random() < 0.8 else bytes_of(r, good), path, lambda: fit(0))


def idx(r: random.Random, times: int, folder: Path) -> Outcome:
    from weft.data.sets import read_idx

    array = r.randbytes(60)
    plain = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (3, 4, 5)) + array
    packed, path = gzip.compress(plain), folder / "images"

    def make() -> bytes:
        good = bytes_of(r, plain) if r.random() < 0.5 else plain
        return r.choice((good, gzip.compress(good), bytes_of(r, packed), packed + packed))

    def read() -> None:
        found = read_idx(path)
        assert found.size <= 10_000

    return attack(r, times, make, path, read)


def cache(r: random.Random, times: int, folder: Path) -> Outcome:
    """Entries, half of them with right checksums: every one is a miss or loads."""
    from weft.devices.cache import MAGIC, Cache, Entry, encode
    from weft.devices.cpu.native.compile import Compiler, name_of
    from weft.devices.cpu.native.emission import emit_object

    class Miss(Exception):
        """Raised where the compiler would build the kernel anew."""

    def miss() -> None:
        raise Miss

    code, exports = emit_object("define i64 @k(i64 %x) nounwind {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}")
    meta: dict[str, Any] = {
        "exports": exports, "llvm": False, "symbol": "k", "scratch": 0, "worker_scratch": 64, "parallel": False,
    }
    compiler = Compiler(Cache(folder / "cache"))
    name = name_of("kernel\nk")
    compiler.cache.write(name, meta, code)
    entry = compiler.cache.read(name)
    assert entry is not None
    meta, good, out = entry.meta, encode(entry), Outcome()
    for _ in range(times):
        what = r.random()
        if what < 0.3:
            content = bytes_of(r, good)
        elif what < 0.6:
            body = bytes_of(r, good[len(MAGIC) + 32 :])
            content = MAGIC + hashlib.sha256(body).digest() + body
        else:
            forged = json_of(r, meta) if what < 0.8 else meta
            if forged.get("llvm") is True:  # LLVM's own loader aborts on damaged objects; it serves other systems only
                forged["llvm"] = False
            content = encode(Entry(forged, bytes_of(r, code)))
        (folder / "cache" / (name + ".weft")).write_bytes(content)
        try:
            compiler.kernel("k", miss)
        except Miss:
            out.refused += 1
        else:
            out.read += 1
        compiler.sweep()
    assert compiler.memory.used_bytes() == 0
    return out


READERS = {"weights": weights, "checkpoints": checkpoints, "idx": idx, "cache": cache}


def main() -> None:
    times = int(sys.argv[1])
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    for name, reader in READERS.items():
        with tempfile.TemporaryDirectory() as folder:
            count = times // 20 if name == "checkpoints" else times  # each is resumed
            print(f"{name}: {count} mutants, {reader(random.Random(seed), count, Path(folder))}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
