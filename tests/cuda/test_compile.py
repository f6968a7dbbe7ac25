"""Texts compiled for cards that are not there: compute capability 8.0, 9.0, 10.0. What is interpreted is what is compiled."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.on_device import graph_of_program
from tests.cuda.resources import usage
from tests.cuda.samples import PRIMITIVES, derivatives, values
from tests.fuzz import paths
from tests.fuzz.families import grown
from tests.fuzz.levels import COMPILED, tier
from weft.devices.cuda import adapter, emission
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.generate import generate
from weft.devices.cuda.target import GPU
from weft.graph.node import Graph
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import calls
from weft.transforms.jit import jit

pytest.importorskip("triton")

CARDS = (80, 90, 100)
PARTS, DRAWN = 4, 40  # besides the cover so many tests compile so many texts, which are drawn; with --every-case all
SHARED = {80: 99 << 10, 90: 227 << 10, 100: 227 << 10}  # bytes that a block may have; code of 8.0 runs on 8.6 and 8.9, too


def launches(graph: Graph) -> Iterator[Launch]:
    for call in calls(build(execute.copy_structure(graph), GPU)):
        yield from generate(call.kernel).launches


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Triton keeps what it compiles; these tests begin with nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@cache
def texts() -> list[tuple[Launch, tuple[int, ...]]]:
    """Each different text of the primitives' samples, of the matrix of ways, and of some random programs, for all kinds of cards;
    what the samples' derivatives have besides, for one kind each, since it takes long."""
    found: dict[str, Launch] = {}
    rng = np.random.default_rng(0)
    graphs = [case.graph for op in PRIMITIVES for case in values(op, rng)]
    programs = [paths.program(*case, seed=0) for k, case in enumerate(paths.cases()) if k % 7 == 0]
    programs += [grown(seed, family) for family in ("expression", "derivative") for seed in range(20)]
    with tier(*COMPILED):
        graphs += [made[0] for made in map(graph_of_program, programs) if made is not None]
    for graph in graphs:
        found.update({launch.text: launch for launch in launches(graph)})
    more = {x.text: x for op in PRIMITIVES for case in derivatives(op, rng) for x in launches(case.graph) if x.text not in found}
    once = [(x, CARDS[k % 3:][:1]) for k, x in enumerate(more.values())]
    return [*[(launch, CARDS) for launch in found.values()], *once]


def words(text: str) -> set[str]:
    """Return the names of Triton's language and library that a text uses, and its keywords."""
    return set(re.findall(r"\b(?:tl|ld)\.\w+(?:\.\w+)*", text)) | set(re.findall(r"\b\w+=(?!=)", text))


def forms(text: str) -> set[str]:
    """Return the statements of a text without the variables and numbers in them, sums of these as one."""
    bare = re.sub(r"(?<![.\w])(?!tl\b|ld\b)[A-Za-z_]\w*(?![(=\w])|\b\d[\w.]*", "_", text)
    return {line.strip() for line in re.sub(r"_(?:\s*[-+*,]\s*(?:_|\(_\)))+", "_", bare).splitlines()}


@cache
def cover() -> dict[str, tuple[Launch, tuple[int, ...]]]:
    """Choose texts that have every word, for all kinds of cards, and texts that have every form of statement, for one kind each.

    An older Triton is run on these alone: they are a twentieth of all.
    """
    chosen: dict[str, tuple[Launch, tuple[int, ...]]] = {}
    for features, every in ((words, True), (forms, False)):
        once = sorted(texts(), key=lambda found: len(features(found[0].text)), reverse=True)
        for _ in range(2):  # the second time backwards: what later texts have, too, goes
            seen: set[str] = set()
            kept = []
            for launch, cards in once:
                if not features(launch.text) <= seen:
                    seen |= features(launch.text)
                    kept.append((launch, cards))
            once = kept[::-1]
        for k, (launch, _) in enumerate(once):
            chosen.setdefault(launch.text, (launch, CARDS if every else CARDS[k % 3:][:1]))
    return chosen


def test_all_words_are_in_texts() -> None:
    """What writes texts has no word of Triton's that no text has, and so none that no test compiles."""
    written = [p.read_text() for p in Path(emission.__file__).parent.glob("*.py") if p.stem not in ("adapter", "emission")]
    named = set(re.findall(r"\b(?:tl|ld)\.\w+(?:\.\w+)*(?!\w|\{)", "".join(written)))
    assert len(named) > 30 and named <= set().union(*[words(launch.text) for launch, _ in cover().values()])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", ["cover", *range(PARTS)])
def test_every_text_compiles(part: str | int, some: Any) -> None:
    if part == "cover":
        mine = list(cover().values())
        assert len(mine) < len(texts()) / 10
    else:
        mine = [(launch, cards) for launch, cards in texts() if _number(launch.text) % PARTS == part]
        done = {text: cards for text, (_, cards) in cover().items()}
        mine = [(launch, tuple([c for c in cards if c not in done.get(launch.text, ())])) for launch, cards in mine]
        mine = [(launch, some(cards, 1)) for launch, cards in some(mine, DRAWN)]
    assert len(mine) >= DRAWN
    for launch, cards in mine:
        for card in cards:
            code = adapter.compile_launch(launch, card)
            assert code.binary[:4] == b"\x7fELF" and code.entry in code.assembly
            assert code.shared <= SHARED[card] and code.scratch == 0 and code.warps == launch.warps, (card, launch.text)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _traced(f: Any, *arguments: Any) -> list[Launch]:
    return list(launches(jit(f).trace(*arguments).graph))


def _softmax(x: wf.Array) -> wf.Array:
    e = wf.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _narrow(f: Any) -> Any:
    return lambda *xs: f(*[wf.astype(x, "bfloat16") for x in xs])


TEMPLATES: dict[str, tuple[Any, tuple[tuple[int, ...], ...], str, str]] = {  # function, shapes, dtype, what stands in the code
    "map": (lambda x, y: wf.sqrt(x * 2 + y), ((4096, 4096),) * 2, "float32", "ld.global.v4"),
    "turned": (lambda x: x.T * 2, ((4096, 4096),), "float32", ""),
    "softmax": (_softmax, ((4096, 4096),), "float32", "ld.global.v4"),
    "columns": (lambda x: x.sum(axis=0), ((4096, 4096),), "float32", ""),
    "long row": (lambda x: x.sum(axis=1), ((2, 1 << 20),), "float32", "ld.global.v4"),
    "argmax": (lambda x: x.argmax(axis=1), ((64, 100_000),), "float32", ""),
    "running": (lambda x: wf.cumsum(x, axis=1), ((64, 4096),), "float32", ""),
    "product float32": (lambda x, y: wf.tanh(x @ y), ((512, 512),) * 2, "float32", "fma.rn.f32"),
    "product bfloat16": (lambda x, y: x @ y, ((1024, 1024),) * 2, "bfloat16", "mma"),
    "product float16": (lambda x, y: x @ y, ((256, 256),) * 2, "float16", "mma"),
    "product float8_e4m3fn": (lambda x, y: x @ y, ((256, 256),) * 2, "float8_e4m3fn", "mma"),
    "product float8_e5m2": (lambda x, y: x @ y, ((1024, 1024),) * 2, "float8_e5m2", "mma"),
    "product int8": (lambda x, y: wf.matmul(x, y, dtype="int32"), ((1024, 1024),) * 2, "int8", "mma"),
    "product int8, small": (lambda x, y: wf.matmul(x, y, dtype="int32"), ((40, 24), (24, 50)), "int8", "mma"),
    "product, rounded operands": (lambda x, y: wf.matmul(x, y, operands="float8_e5m2"), ((256, 256),) * 2, "float32", "mma"),
    "product, rounded sums": (lambda x, y: wf.matmul(x, y, accumulate="float16"), ((256, 256),) * 2, "float32", "fma.rn.f32"),
    "product, sums rounded in blocks": (
        lambda x, y: wf.matmul(x, y, accumulate="float8_e4m3fn", every=32), ((96, 256), (256, 40)), "float32", "fma.rn.f32",
    ),
    "rounded by chance": (lambda x: x.astype("float8_e4m3fn", rounding="stochastic"), ((4096, 4096),), "float32", "ld.global"),
    "map float8": (lambda x, y: wf.sqrt(x * 2 + y), ((4096, 4096),) * 2, "float8_e4m3fn", "ld.global"),
    "product float64": (lambda x, y: x @ y, ((256, 256),) * 2, "float64", ""),
    "convolution": (lambda x, w: wf.nn.conv2d(x, w), ((8, 16, 32, 32), (32, 16, 3, 3)), "float32", "fma.rn.f32"),
}


@pytest.mark.drawn(24)
@pytest.mark.parametrize("capability", CARDS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str, capability: int) -> None:
    """Nothing is spilled, a thread's registers are its own, and wide loads and tensor cores are used where they should be."""
    f, shapes, dtype, wanted = TEMPLATES[name]
    found = _traced(f, *[wf.zeros(s, dtype=dtype) for s in shapes])
    codes = [adapter.compile_launch(launch, capability) for launch in found]
    for code in codes:
        used = usage(code)
        assert used.stack == 0 and used.registers <= 255, (name, used)
        assert used.registers * 32 * code.warps <= 65536 and code.shared <= SHARED[capability]
    if wanted == "mma":
        assert any(word in code.assembly for code in codes for word in ("mma.sync", "wgmma", "tcgen05.mma"))
    else:
        assert any(wanted in code.assembly for code in codes), codes[0].assembly


FOLLOWED: dict[str, Any] = {
    "alone": lambda x, y, b: x @ y, "bias, gelu": lambda x, y, b: wf.nn.gelu(x @ y + b),
    "turned, bias, relu": lambda x, y, b: wf.nn.relu(x @ y.T + b), "tanh": lambda x, y, b: wf.tanh(x.T @ y),
    "scaled": lambda x, y, b: wf.nn.silu(x @ y) * 2 + b,
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("side", [512, 2048])
def test_wgmma_of_a_product_is_not_serialised(side: int, dtype: str, tmp_path: Path) -> None:
    """ptxas says where it waits for each wgmma before it begins the next (C7514, C7515)."""
    tools = Path(pytest.importorskip("triton").__file__).parent / "backends" / "nvidia" / "bin"
    for name, f in FOLLOWED.items():
        found = _traced(f, wf.zeros((side, side), dtype=dtype), wf.zeros((side, side), dtype=dtype), wf.zeros(side, dtype=dtype))
        (launch,) = [x for x in found if "tl.dot" in x.text]
        code = adapter.compile_launch(launch, 90)
        (tmp_path / "code.ptx").write_text(code.assembly)
        tool = tools / ("ptxas-blackwell" if (tools / "ptxas-blackwell").exists() else "ptxas")
        command = [tool, "-v", "--gpu-name=sm_90a", "code.ptx", "-o", "code.cubin"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "wgmma" in code.assembly and "registers" in said.stderr + said.stdout
        assert "C75" not in said.stderr + said.stdout, (name, said)


def test_what_is_interpreted_is_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hash, where either way takes a text."""
    taken: dict[str, list[str]] = {"interpreted": [], "compiled": []}
    way = "interpreted"
    original = emission.functions

    def functions(text: str, names: dict[str, Any]) -> Any:
        taken[way].append(hashlib.sha256(text.encode()).hexdigest())
        return original(text, names)

    for module in (adapter, emission):
        monkeypatch.setattr(module, "functions", functions)
    fresh = adapter._Interpreter()  # one that has seen no text
    monkeypatch.setattr(adapter, "_tools", lambda: fresh)
    x, y = np.ones((33, 40), np.float32), np.ones((40, 20), np.float32)
    long = np.ones(100_000, np.float32)
    for f, arrays in ((_softmax, (x,)), (lambda x, y: wf.tanh(x @ y + 1), (x, y)), (lambda x: x.sum(), (long,))):
        way = "interpreted"
        with wf.device("gpu-sim"):
            wf.eval(jit(f)(*map(wf.array, arrays)))
        way = "compiled"
        for launch in _traced(f, *map(wf.array, arrays)):
            adapter.compile_launch(launch, 90)
    assert taken["interpreted"] == taken["compiled"] and len(taken["compiled"]) >= 4


def test_large_buffers_are_indexed_with_64_bits() -> None:
    """Beyond 2**31 elements: only compiled, since no test has the memory."""
    from weft.dtypes.formats import FLOAT32
    from weft.graph.primitives import bind
    from weft.graph.primitives.table import TABLE, input_leaf

    x = input_leaf((3, 1 << 30), FLOAT32)
    (launch,) = launches(Graph([x], [bind(TABLE["tanh"], x)]))
    assert ".to(tl.int64)" in launch.text
    assert adapter.compile_launch(launch, 90).binary
