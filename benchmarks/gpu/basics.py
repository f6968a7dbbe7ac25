"""The first minute on a card: tests of the parts that all other steps need, each reported in a sentence.

Each row has the sentence as ``says``. A row that raises, or whose process dies, is broken; the next rows run nevertheless.
"""

from __future__ import annotations

import math
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.about import versions
from benchmarks.gpu.attention import force_chained
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, normal
from weft.devices import get_device
from weft.devices.cuda.adapter import compile_launch, toolchain
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.card_allocator import CardMemory
from weft.devices.cuda.cards import cards
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.devices.faults import OutOfDeviceMemory
from weft.dtypes.formats import FLOAT32, UINT8
from weft.graph.node import Graph
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.schedule.build import build
from weft.schedule.program import calls

CAPABILITY = 90  # compute capability for which code is compiled if there is no card
LENGTH = 64  # kernels in the chain that is replayed


def rows(setting: Setting) -> Rows:
    """Yield a row for each part, in the order of their dependence; then for the results of some kernels; then the speed."""
    parts = {
        "packages": _packages, "driver": _driver, "compiler": _compiler, "loading": _loading, "copies": _copies,
        "launch": _launch, "events": _events, "graphs": _graphs, "memory": _memory, "wrong index": _wrong_index,
        "threads": _threads, "two streams": _two_streams, "PyTorch's stream": _torch_stream, "two cards": _two_cards,
    }
    for name, part in parts.items():
        yield name, lambda part=part: part(setting)  # type: ignore[misc]
    for name, kernel in kernels(setting.quick or setting.device == "gpu-sim").items():
        yield f"numbers: {name}", lambda kernel=kernel: _numbers(setting, kernel)  # type: ignore[misc]
    yield "numbers: steps of training", lambda: _training(setting)
    yield "speed", lambda: _measure_speed(setting)


# ---- parts


def _packages(setting: Setting) -> dict[str, Any]:
    installed = versions()
    text = ", ".join([f"{name} {version}" for name, version in installed.items()])
    return {"says": f"Python {platform.python_version()} on {platform.machine()}, {text}", "right": True, "path": sys.path[:3]}


def _driver(setting: Setting) -> dict[str, Any]:
    if setting.device == "gpu-sim":
        return {"says": "gpu-sim has none: kernels are interpreted", "right": True}
    names, card = cards(), setting.card  # opens it
    name = names[card.number] if card.number < len(names) else card.driver.name
    assembler = toolchain()[1]
    remark = f"; Triton assembles by {assembler}, since the driver is older than CUDA 13" if assembler else ""
    return {"says": f"{name}{remark}", "right": True}


def _first_launch(setting: Setting) -> Launch:
    """Return the launch of a small kernel."""
    x = input_leaf((3, 1000), FLOAT32)
    (call,) = calls(build(Graph([x], [bind(TABLE["exp"], x)]), setting.card.target))
    return setting.card.print_kernel(call.kernel).launches[0]


def _compiler(setting: Setting) -> dict[str, Any]:
    driver = getattr(setting.card, "driver", None)
    begin = time.perf_counter()
    code = compile_launch(_first_launch(setting), CAPABILITY if driver is None else driver.capability)
    seconds = time.perf_counter() - begin
    says = f"Triton {toolchain()[0]} made {len(code.binary)} bytes of machine code in {seconds:.2f} s, ABI {code.binary[8]}"
    return {"says": says, "right": code.binary[:4] == b"\x7fELF"}


def _loading(setting: Setting) -> dict[str, Any]:
    if not hasattr(setting.card, "codes"):
        return {"says": "nothing is loaded by an interpreter", "right": True}
    setting.card.codes.load(_first_launch(setting), 16)
    return {"says": "the driver takes the machine code", "right": True}


def _copies(setting: Setting) -> dict[str, Any]:
    """Copy bytes to the card and back, in sizes around that of a piece of the staging buffer."""
    piece = 1 << 12 if setting.quick else 4 << 20
    sizes, wrong = [1, 255, piece - 1, piece, piece + 1, 3 * piece + 5], []
    rng = np.random.default_rng(1)
    for size in sizes:
        content = rng.integers(0, 256, size).astype(np.uint8)
        buffer = setting.card.upload(content)
        if not np.array_equal(setting.card.download(buffer, (size,), UINT8), content):
            wrong.append(size)
    if wrong:
        return {"says": f"copies of {', '.join(map(str, wrong))} bytes come back changed", "right": False}
    return {"says": f"{len(sizes)} copies of up to {sizes[-1]} bytes came back as they went", "right": True}


def _launch(setting: Setting) -> dict[str, Any]:
    x = normal((3, 1000), 1)
    with wf.device(setting.device):
        result = wf.jit(lambda x: x * 2 + 1)(wf.array(x)).numpy()
    wrong = int((result != x * 2 + 1).sum())
    says = "a kernel computed 2 x + 1 exactly" if not wrong else f"2 x + 1 is wrong at {wrong} of {x.size} places"
    return {"says": says, "right": not wrong}


def _chain(setting: Setting) -> tuple[Callable[[], Any], np.ndarray]:
    """Return a function that runs a chain of kernels, always on the same memory, and the expected result."""
    device = setting.card
    start, turn = normal((16, 16), 2), np.linalg.qr(normal((16, 16), 1, "float64"))[0].astype(np.float32)
    length = 4 if setting.quick else LENGTH
    x, w = (input_leaf((16, 16), FLOAT32) for _ in range(2))
    node, want = x, start.astype(np.float64)
    for _ in range(length):
        node, want = bind(TABLE["dot_general"], node, w, contract=((1,), (0,)), batch=((), ())), want @ turn
    run = device.compile(build(Graph([x, w], [node]), device.target))
    buffers = [device.upload(start), device.upload(turn)]
    return lambda: run(list(buffers))[0], want


def _events(setting: Setting) -> dict[str, Any]:
    device = setting.card
    if not hasattr(getattr(device, "driver", None), "stamp"):
        return {"says": "an interpreter has no events", "right": True}
    run, _ = _chain(setting)
    run()
    device.synchronise()
    begin = time.perf_counter()
    first = device.driver.stamp()
    results = [run()]
    last = device.driver.stamp()
    device.synchronise()
    clock, by_events = time.perf_counter() - begin, device.driver.take_seconds(first, last)
    del results
    right = 0 < by_events <= clock
    says = f"a chain of kernels took {1e6 * by_events:.0f} us by the driver's events and {1e6 * clock:.0f} us by the clock"
    return {"says": says, "right": right or not isinstance(device.driver, NvidiaDriver)}


def _graphs(setting: Setting) -> dict[str, Any]:
    """Repeat a run: from the third time on it is replayed, with the same bits."""
    device = setting.card
    run, want = _chain(setting)
    before = device.counters().get("replays", 0)
    results = [device.download(run(), (16, 16), FLOAT32).copy() for _ in range(6)]
    replays = device.counters().get("replays", 0) - before
    same = all(r.tobytes() == results[0].tobytes() for r in results)
    right = told(apart(results[0], want, terms=16 * LENGTH))["right"] and same
    if not hasattr(device, "driver"):
        return {"says": "an interpreter has no graphs", "right": right}
    says = f"{replays} of 6 runs were replayed, with {'the same' if same else 'OTHER'} bits"
    return {"says": says, "right": right and replays > 0}


def _memory(setting: Setting) -> dict[str, Any]:
    """Check that buffers of random sizes, freed in any order, keep their content, and that too large ones are refused."""
    device, rng = setting.card, np.random.default_rng(3)
    live: list[tuple[Any, int, int]] = []
    most = 1 << 12 if setting.quick else 1 << 22
    wrong = count = 0
    for k in range(60 if setting.quick else 300):
        if live and rng.random() < 0.45:
            buffer, size, value = live.pop(int(rng.integers(len(live))))
            wrong += int((device.download(buffer, (size,), UINT8) != value).any())
            count += 1
        else:
            size = int(rng.integers(1, most))
            live.append((device.upload(np.full(size, k % 251, np.uint8)), size, k % 251))
    live.clear()
    refused = "a device without a limit"
    if hasattr(device, "memories"):
        device.synchronise()
        device.memories.give_back()
        try:
            device.allocate(2 * device.driver.total)
            return {"says": "twice the card's memory was given out", "right": False}
        except OutOfDeviceMemory as error:
            refused = str(error).split(":")[0]
    with wf.device(setting.device):
        again = float(wf.jit(lambda x: x.sum())(wf.array(np.ones(100, np.float32))))
    says = f"{count} pieces kept their content" if not wrong else f"{wrong} of {count} pieces lost their content"
    return {"says": f"{says}; what is too much is refused ({refused})", "right": not wrong and again == 100}


def _wrong_index(setting: Setting) -> dict[str, Any]:
    """Check that an index out of range raises IndexError, and that the call changes nothing."""
    state = wf.array(np.arange(6, dtype=np.float32))

    @wf.jit
    def step(table: Any, at: Any) -> Any:
        state[...] = state + table[at].sum()
        return state.sum()

    with wf.device(setting.device):
        table = wf.array(np.ones(5, np.float32))
        for _ in range(3):
            step(table, wf.array(np.array([0, 4])))
        before = state.numpy().copy()
        try:
            float(step(table, wf.array(np.array([0, 5]))))
            return {"says": "an index out of range was not noticed", "right": False}
        except IndexError as error:
            message = str(error)
        same = np.array_equal(state.numpy(), before)
    says = f"told ({message.split(' (')[0]}), and the arrays {'kept their content' if same else 'CHANGED'}"
    return {"says": says, "right": same and "index 5" in message}


def _threads(setting: Setting) -> dict[str, Any]:
    """Check the results of Python threads that share the card."""
    f = wf.jit(lambda x, k: wf.tanh(x * k).sum(axis=1))
    x = normal((8, 50), 5)
    wrong: list[str] = []

    def work(k: int) -> None:
        with wf.device(setting.device):
            for turn in range(3 if setting.quick else 40):
                factor = float(k + turn % 3)
                off = apart(f(wf.array(x), factor).numpy(), np.tanh(x.astype(np.float64) * factor).sum(axis=1), terms=50)
                if off > 1:
                    wrong.append(f"thread {k}: {off:.3g} times the bound")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"says": "; ".join(wrong[:2]) or "4 threads ran at once, with right results", "right": not wrong}


class _SecondStream:
    """Another stream on a driver's card, such as another library has; it fills memory. number: CUDA's handle."""

    def __init__(self, driver: NvidiaDriver) -> None:
        self._driver, api = driver, driver._api
        driver.enter()
        self._stream = driver._call("cuStreamCreate", int(api.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.number = int(self._stream)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        self._driver.enter()
        self._driver._call("cuMemsetD8Async", address, value, nbytes, self._stream)


def _two_streams(setting: Setting) -> dict[str, Any]:
    """Check that weft and another stream, which writes between two runs, wait for each other by events, without the host."""
    device = setting.card
    driver = getattr(device, "driver", None)
    if not isinstance(driver, NvidiaDriver):
        return {"says": "not tested: this device has one stream", "right": True}
    other, n = _SecondStream(driver), 1 << 24
    wrong = 0
    run, _ = _chain(setting)
    for turn in range(5):
        buffer = device.upload(np.zeros(n, np.uint8))
        results = [run() for _ in range(20)]  # the card is busy when the other stream starts to write
        address = device.lend(buffer, other.number)
        other.fill(address, turn + 1, n)
        borrowed: CardMemory = device.borrow(address, n, buffer, other.number)
        wrong += int((device.download(borrowed, (n,), UINT8) != turn + 1).any())
        del results
    says = f"{wrong} of 5 reads did not wait for the other stream" if wrong else "what another stream wrote was read behind it"
    return {"says": says, "right": not wrong}


def _torch_stream(setting: Setting) -> dict[str, Any]:
    """Check that weft reads in place what PyTorch writes on a stream of its own, and that PyTorch reads weft's result."""
    if setting.torch is None or setting.torch.name == "cpu":
        return {"says": f"not tested: {setting.no_torch or 'PyTorch is on the CPU'}", "right": True}
    torch, n = setting.torch.torch, 1 << 20
    worst = 0.0
    stream = torch.cuda.Stream()
    f = wf.jit(lambda x: x * 2 + 1)
    with torch.cuda.stream(stream), wf.device(setting.device):
        for turn in range(4):
            x = torch.full((n,), float(turn), device=setting.torch.name)
            for _ in range(20):
                x = x + 1
            y = torch.from_dlpack(f(wf.from_dlpack(x)))
            worst = max(worst, float((y - (2 * (turn + 20) + 1)).abs().max()))
    says = "weft read what PyTorch wrote, and PyTorch what weft wrote" if not worst else f"values are off by up to {worst:.3g}"
    return {"says": says, "right": worst == 0}


def _two_cards(setting: Setting) -> dict[str, Any]:
    count = len(cards())
    if setting.device == "gpu-sim" or count < 2:
        return {"says": f"not tested: there is {'one card' if count == 1 else 'no card'}", "right": True}
    f = wf.jit(lambda x: wf.tanh(x @ x.T).sum(axis=1))
    x = normal((64, 40), 6)
    want = np.tanh(x.astype(np.float64) @ x.T).sum(axis=1)
    worst = 0.0
    for _ in range(4):
        for name in ("gpu", "gpu:1"):
            with wf.device(name):
                worst = max(worst, apart(f(wf.array(x)).numpy(), want, terms=64 * 40))
    return {"says": f"two of {count} cards took turns", **told(worst)}


# ---- numbers


@dataclass(frozen=True)
class Kernel:
    """A function of arrays, its arguments, and how many numbers an element of its result adds up."""

    function: Callable[..., Any]
    given: Sequence[np.ndarray]
    terms: int = 4
    chained: bool = False


def kernels(small: bool) -> dict[str, Kernel]:
    """Return one kernel of each kind of generated code. small: for an interpreter"""
    n = 24 if small else 512
    rows, long = (6, 300) if small else (4096, 4096), 9_000 if small else 1 << 22
    image, weight = ((2, 4, 6, 6), (8, 4, 3, 3)) if small else ((16, 64, 28, 28), (64, 64, 3, 3))
    heads = (1, 1, 20, 8) if small else (2, 8, 512, 64)

    def product(dtype: str, more: Callable[[Any], Any] = lambda x: x) -> Kernel:
        return Kernel(lambda a, b: more(a @ b), [normal((n, n), k, dtype) for k in (1, 2)], n)

    def attention(q: Any, k: Any, v: Any, dy: Any) -> Any:
        out, slopes = wf.vjp(lambda q, k, v: wf.nn.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
        return [out, *slopes(dy)]

    def convolution(x: Any, w: Any) -> Any:
        out, slopes = wf.vjp(lambda x, w: wf.nn.conv2d(x, w, padding=1), x, w)
        return [out, *slopes(out)]

    index = np.random.default_rng(8).integers(0, 50, 40 if small else 4000)
    return {
        "maps": Kernel(lambda x, y: wf.tanh(x * 2 + y) * wf.exp(-x * x), [normal(rows, k) for k in (1, 2)]),
        "softmax of rows": Kernel(lambda x: wf.nn.softmax(x, -1), [normal(rows, 3)], rows[1]),
        "sums of columns": Kernel(lambda x: x.sum(axis=0), [normal(rows, 3)], rows[0]),
        "sum of everything": Kernel(lambda x: (x * x).sum(), [normal((long,), 4)], long),
        "running sum": Kernel(lambda x: (x * x).cumsum(), [normal((long // 8,), 4)], long),
        "product, float32": product("float32"), "product, float64": product("float64"),
        "product, bfloat16": product("bfloat16"),
        "product, float16 with GELU": product("float16", lambda x: wf.nn.gelu(x * 0.05 + 1)),
        "convolution with gradients": Kernel(convolution, [normal(s, 5, "float16") / 8 for s in (image, weight)], 4096),
        "attention with gradients": Kernel(attention, [normal(heads, k, "float16") for k in range(4)], heads[2], True),
        "rows of a table": Kernel(_add_rows, [normal((50, 24), 7), index], 200),
        "last of several writes": Kernel(_put, [normal((50, 24), 7), index, normal((len(index), 24), 9)]),
        "random numbers": Kernel(_random, [np.arange(1000, dtype=np.float32)]),
        "a sort, by NumPy": Kernel(lambda x: wf.sort(x * 2), [normal((1000,), 3)]),
    }


def _add_rows(table: Any, at: Any) -> Any:
    """Return the gradient of ``table[at]``, in which rows of equal indices are summed."""
    return wf.vjp(lambda t: t[at], table)[1](wf.sin(table[at]))[0]


def _put(table: Any, at: Any, values: Any) -> Any:
    table = table.copy()
    table[at] = values
    return table


def _random(x: Any) -> Any:
    wf.random.seed(5)
    return x + wf.random.uniform(size=x.shape)


def _numbers(setting: Setting, kernel: Kernel) -> dict[str, Any]:
    """Compare a kernel's results with the CPU's."""
    f, pairs = kernel.function, []
    with force_chained(kernel.chained and (setting.quick or setting.device == "gpu-sim")):
        for name in (setting.device, "cpu"):
            with wf.device(name):
                outputs = wf.jit(lambda *x: f(*x))(*map(wf.array, kernel.given))
                pairs.append([x.numpy().copy() for x in (outputs if isinstance(outputs, list) else [outputs])])
    worst = max([apart(a, b.astype(np.float64) if b.dtype.kind != "i" else b, kernel.terms) for a, b in zip(*pairs, strict=True)])
    right = worst <= 1
    return {"says": f"{worst:.2g} times the error that is allowed, beside the CPU", "right": right, "worst": worst}


def _training(setting: Setting) -> dict[str, Any]:
    """Compare the losses of steps of Adam on a small net with the CPU's."""
    losses: dict[str, list[float]] = {}
    x, y = normal((32, 7), 1), normal((32, 3), 2)
    for name in (setting.device, "cpu"):
        wf.random.seed(3)
        with wf.device(name):
            net = wf.nn.Sequential(wf.nn.Linear(7, 20), wf.nn.GELU(), wf.nn.Linear(20, 3))
            optimizer = wf.optim.Adam(1e-2).init(net)

            @wf.jit
            def step(x: Any, y: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
                value, slopes = wf.value_and_grad(lambda net: ((net(x) - y) ** 2).mean())(net)
                optimizer.update(net, slopes)
                return value

            a, b = wf.array(x), wf.array(y)
            losses[name] = [float(step(a, b)) for _ in range(6)]
    off = max(abs(a - b) / abs(b) for a, b in zip(losses[setting.device], losses["cpu"], strict=True))
    says = f"losses of 6 steps, {losses[setting.device][0]:.4f} to {losses[setting.device][-1]:.4f}, are off by {off:.1g}"
    return {"says": says, "right": off < 1e-3 and losses["cpu"][-1] < losses["cpu"][0]}


# ---- how fast


def _measure_speed(setting: Setting) -> dict[str, Any]:
    """Measure rough figures, which show whether something is far too slow. The other steps measure exactly."""
    if setting.quick or setting.device == "gpu-sim":
        return {"says": "not tested in a quick run", "right": True}
    n, m = 1 << 26, 4096
    with wf.device(setting.device):
        x, a = wf.array(normal((n,), 1)), wf.array(normal((m, m), 2, "bfloat16"))
        copy, product = wf.jit(lambda x: -x), wf.jit(lambda a: a @ a)
        times = setting.timed({"copy": lambda: copy(x), "product": lambda: product(a)})
        chain = setting.timed({"chain": _chain(setting)[0]})["chain"]["median"]
        content = normal((1 << 24,), 1)
        uploads = setting.timed({"upload": lambda: get_device(setting.device).upload(content)}, host=True)["upload"]["median"]
    copied, multiplied = 8 * n / times["copy"]["median"], 2.0 * m**3 / times["product"]["median"]
    kernel, uploaded = chain / LENGTH, content.nbytes / uploads
    says = (
        f"copies {copied / 1e12:.2f} TB/s, bfloat16 products {multiplied / 1e12:.0f} TFLOP/s, a kernel of a graph "
        f"{1e6 * kernel:.1f} us, uploads {uploaded / 1e9:.1f} GB/s"
    )
    figures = {"copy B/s": copied, "product FLOP/s": multiplied, "kernel s": kernel, "upload B/s": uploaded}
    return {"says": says, "right": all(math.isfinite(v) and v > 0 for v in figures.values()), **figures}
