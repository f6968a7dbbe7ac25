"""The disk cache: what is damaged, foreign or open to others is rebuilt; a folder that fails never stops a run."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from handmade import F32, device, executable, scale_ir

from weft.devices import cache as cache_module
from weft.devices.cache import MAGIC, Cache, Entry, decode, encode
from weft.devices.cpu.emit.text import Generated
from weft.schedule.program import Call, Program, Slot

CODE = bytes(range(256)) * 40


def test_an_entry_comes_back_as_it_was(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c")
    assert cache.read("ab") is None
    assert cache.write("ab", {"scratch": 7}, CODE)
    entry = Cache(tmp_path / "c").read("ab")
    assert entry is not None and entry.code == CODE and entry.meta["scratch"] == 7
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
    assert next((tmp_path / "c").glob("*.weft")).stat().st_mode & 0o777 == 0o600
    assert not list((tmp_path / "c").glob(".new-*"))


@pytest.mark.parametrize("where", [0, 20, 50, 60, 3000, -1])
def test_one_changed_byte_is_a_miss(where: int) -> None:
    data = bytearray(encode(Entry({"name": "x"}, CODE)))
    assert decode(bytes(data)) is not None
    data[where] ^= 1
    assert decode(bytes(data)) is None


@pytest.mark.parametrize("size", [0, 5, 30, 47, 100, 5000])
def test_a_cut_file_is_a_miss(tmp_path: Path, size: int) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    path = tmp_path / "ab.weft"
    path.write_bytes(path.read_bytes()[:size])
    assert cache.read("ab") is None


def test_an_entry_under_another_name_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    os.rename(tmp_path / "ab.weft", tmp_path / "cd.weft")
    assert cache.read("cd") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_a_miss(tmp_path: Path, mode: int) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    (tmp_path / "ab.weft").chmod(mode)
    assert cache.read("ab") is None
    assert cache.write("ab", {}, CODE) and cache.read("ab") is not None  # rebuilt


def test_a_foreign_owner_or_a_link_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    os.rename(tmp_path / "ab.weft", tmp_path / "real")
    os.symlink(tmp_path / "real", tmp_path / "ab.weft")
    assert cache.read("ab") is None
    os.unlink(tmp_path / "ab.weft")
    os.rename(tmp_path / "real", tmp_path / "ab.weft")
    assert cache.read("ab") is not None
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache.read("ab") is None  # the folder was found private before; the file is asked each time


def test_what_is_no_file_is_a_miss_and_nothing_waits_for_it(tmp_path: Path) -> None:
    """A pipe, a directory, a socket, a link to each, and a link into nothing."""
    cache, made = Cache(tmp_path), []
    os.mkfifo(tmp_path / "pipe.weft")
    (tmp_path / "folder.weft").mkdir()
    (tmp_path / "full.weft").mkdir()
    (tmp_path / "full.weft" / "x").write_text("mine")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket.weft"))
        for name in ("pipe", "folder", "full", "socket"):
            os.symlink(tmp_path / f"{name}.weft", tmp_path / f"to_{name}.weft")
        os.symlink(tmp_path / "nowhere", tmp_path / "to_nothing.weft")
        for path in sorted(tmp_path.glob("*.weft")):
            assert cache.read(path.stem) is None
            if cache.write(path.stem, {}, CODE):
                made.append(path.stem)
                found = cache.read(path.stem)
                assert found is not None and found.code == CODE
    assert made == ["pipe", "socket", "to_folder", "to_full", "to_nothing", "to_pipe", "to_socket"]
    assert (tmp_path / "full.weft" / "x").read_text() == "mine" and not (tmp_path / "nowhere").exists()


METAS = [
    b"", b"{", b"[]", b"3", b"null", b"[" * 100_000, b'{"a": 1' + b"0" * 10_000 + b"}", b"\xff\xfe", b'"name"', b"{}",
    b'{"name": 5}', b'{"name": "ab", "name": "cd"}',
]


@pytest.mark.parametrize("size", ["right", 0, 1 << 63, (1 << 64) - 1])
def test_a_meaningless_entry_with_a_good_checksum_is_a_miss(tmp_path: Path, size: str | int) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    for meta in METAS:
        body = (len(meta) if isinstance(size, str) else size).to_bytes(8, "little") + meta
        (tmp_path / "ab.weft").write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
        assert cache.read("ab") is None
    (tmp_path / "ab.weft").write_bytes(encode(Entry({"name": "ab"}, CODE)))
    assert cache.read("ab") is not None


def test_an_entry_of_any_size_is_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    os.truncate(tmp_path / "ab.weft", 1 << 40)  # it has holes: a terabyte to read, nothing on the disk
    assert cache.read("ab") is None


def test_reading_an_entry_takes_memory_by_its_own_size(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write("ab", {}, CODE)
    tracemalloc.start()
    try:
        assert cache.read("ab") is not None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("umask", [0, 0o22, 0o77])
def test_the_folder_and_the_parents_it_needs_are_closed(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert Cache(tmp_path / "a" / "b" / "c").write("ab", {}, CODE)
    finally:
        os.umask(before)
    for made in ("a", "a/b", "a/b/c"):
        assert (tmp_path / made).stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_none_is_not_used(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for name in ("pipe", "file"):
        cache = Cache(tmp_path / name)
        with pytest.warns(RuntimeWarning, match="WEFT_CACHE"):
            assert cache.read("ab") is None and not cache.write("ab", {}, CODE)


def test_a_folder_open_to_others_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    cache = Cache(folder)
    with pytest.warns(RuntimeWarning, match="other users may write"):
        assert not cache.write("ab", {}, CODE)
    assert cache.read("ab") is None and not list(folder.iterdir())


def test_a_folder_that_cannot_be_made_warns_once_and_the_run_goes_on() -> None:
    be = device(Path("/proc/weft-cache"), threads=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert be.native["weft_run"]
        assert be.compiler.module(scale_ir("k1", 4, 1))["k1"]
    assert len([w for w in caught if issubclass(w.category, RuntimeWarning)]) == 1
    assert "WEFT_CACHE" in str(caught[0].message)


def test_a_full_disk_warns_once_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "c")

    def full(source: str, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module.os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert not cache.write("ab", {}, CODE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not cache.write("cd", {}, CODE)
    assert not list((tmp_path / "c").iterdir())


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=10 * len(CODE))
    for i in range(20):
        cache.write(f"e{i:02}", {}, CODE)
        os.utime(tmp_path / f"e{i:02}.weft", (time.time() - 1000 + i,) * 2)
    assert cache.prune() > 0
    assert cache.size()[1] <= cache.limit
    assert cache.read("e19") is not None and cache.read("e00") is None


def _fill(folder: str, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    be = device(Path(folder), threads=1)
    for i in range(5):
        be.compiler.kernels.clear()
        assert be.native["weft_run"]
        be.compiler.module(scale_ir(f"k{i}", 4, 1))


def test_two_processes_fill_one_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    workers = [context.Process(target=_fill, args=(str(tmp_path / "c"), start)) for _ in range(2)]
    for w in workers:
        w.start()
    start.set()
    for w in workers:
        w.join(60)
        assert w.exitcode == 0
    names = [p.name for p in (tmp_path / "c").iterdir()]
    assert len(names) == 8 and all(n.endswith(".weft") for n in names)


def _forged(meta: dict[str, object], code: bytes) -> list[tuple[dict[str, object], bytes]]:
    """Entries that say something else than what was compiled, or hold other code."""
    out: list[tuple[dict[str, object], bytes]] = [
        ({**meta, key: value}, code)
        for key in ("exports", "llvm", "symbol", "scratch", "worker_scratch", "parallel") if key in meta
        for value in (None, -1, 1.5, "no such thing", [], [3], {}, 1 << 70)
    ]
    out += [({k: v for k, v in meta.items() if k != key}, code) for key in meta if key != "name"]
    out.append(({**meta, "symbol": "other", "exports": [*meta["exports"], "other"]}, code))  # type: ignore[misc]
    out += [(meta, part) for part in (b"", code[:100], code[:-1], b"\x7fELF" + bytes(len(code)), bytes(64) + code)]
    for at in (0x28, 0x3A, 0x3C, 0x3E):  # where the sections are, how large, how many, which one holds their names
        out.append((meta, code[:at] + b"\xff\xff" + code[at + 2 :]))
    return out


def test_an_entry_that_cannot_be_loaded_is_built_again(tmp_path: Path) -> None:
    """Each with a good checksum; what is compiled then takes its place."""
    be = device(tmp_path, threads=1)
    assert be.native
    text = Generated("k", scale_ir("k", 4, 1), 0, 64, ("parallel",))
    be.compiler.kernel("k", lambda: text)
    path = next(p for p in tmp_path.glob("*.weft") if b'"symbol": "k"' in p.read_bytes())
    whole = path.read_bytes()
    good = decode(whole)
    assert good is not None
    cases = _forged(good.meta, good.code)
    assert len(cases) > 50
    for meta, code in cases:
        path.write_bytes(encode(Entry(meta, code)))
        be.compiler.kernels.clear()
        compiles = be.compiler.counts.compiles
        kernel = be.compiler.kernel("k", lambda: text)
        assert kernel.worker_scratch == 64 and kernel.scratch == 0 and kernel.parallel
        assert be.compiler.counts.compiles == compiles + 1 and path.read_bytes() == whole, meta
    program = Program(
        (((4,), F32), ((), F32)), (((4,), F32),), (Slot(0, "input", (4,), F32, 0), Slot(1, "output", (4,), F32, 0)),
        (Call(None, (0, 1), (1,)),), 0,  # type: ignore[arg-type]
    )
    out = executable(be, program, kernel)([be.upload(np.arange(4, dtype="f4")), 2.0])[0]
    assert be.download(out, (4,), F32).tolist() == [0, 2, 4, 6]


_SECOND = """
import sys
from pathlib import Path
from handmade import F32, device, executable, scale_kernel, scale_twice
if sys.argv[2] == "forbidden":
    import llvmlite.binding as llvm
    def refuse(*a, **k):
        raise AssertionError("LLVM was entered")
    llvm.parse_assembly = llvm.parse_bitcode = refuse
    llvm.TargetMachine.emit_object = refuse
    llvm.create_pass_builder = refuse
import numpy as np
be = device(Path(sys.argv[1]))
ex = executable(be, scale_twice(4096), scale_kernel(be))
x = np.random.default_rng(5).normal(size=4096).astype("f4")
out = be.download(ex([be.upload(x), 3.0, 0.5])[0], (4096,), F32)
assert np.array_equal(out, x * np.float32(3) * np.float32(0.5))
print(be.counters()["compiles"], be.counters()["cache_hits"], "llvmlite.binding" in sys.modules)
"""


def _second(folder: Path, mode: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SECOND, str(folder), mode], capture_output=True, text=True, timeout=120,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_second_process_compiles_nothing_and_needs_no_llvm(tmp_path: Path) -> None:
    assert _second(tmp_path, "free")[:2] == ["4", "0"]
    assert _second(tmp_path, "forbidden")[:2] == ["0", "4"]
    assert _second(tmp_path, "free") == ["0", "4", "False"]


def test_damaged_entries_are_rebuilt_not_executed(tmp_path: Path) -> None:
    _second(tmp_path, "free")
    for path in tmp_path.glob("*.weft"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    assert _second(tmp_path, "free")[:2] == ["4", "0"]
    assert _second(tmp_path, "free")[:2] == ["0", "4"]
