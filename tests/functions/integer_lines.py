"""Calls with integers at the edges of machine words, run by NumPy or by weft in a process of their own.

``python integer_lines.py numpy SECONDS`` reads a list of calls in JSON and prints a JSON line for each: the call and what it
gave or raised, or the status with which it ended its process: that of a signal, also when it ran longer than SECONDS.
A process that runs calls is a fork of one that has imported everything.
"""

from __future__ import annotations

import ast
import inspect
import json
import mmap
import os
import random
import resource
import signal
import sys
import warnings
from typing import Any

import numpy as np

EDGES = (
    -(2**31), 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**64), 10**30, -(2**31) - 1, -(2**63) + 1,
    2**62, -(2**62), 2**53 + 1,
)
ROOM = 1 << 30  # bytes that a call may take
# x, y: matrices of floats; i: of integers; m: of bools; t: three dimensions; v, w: vectors; s: square; o, l: to write into;
# e: empty; o1, o2: (5, 1) and (1, 5). An array of integers stands where the text has a list.
TEXTS = """
    x[1]|x[1, 2]|x[1:2]|x[:, 1]|x[[1, 0]]|x[[0], 1]|x[::2]|v[1]|v[0:2]|v[::1]|x.flat[2]|x.take(1)|x.take([1, 0], 0)|x.repeat(2)
    x.repeat([1, 2], 0)|x.sum(0)|x.argmax(0)|x.diagonal(1)|x.trace(1)|x.swapaxes(0, 1)|x.transpose(0, 1)|x.item(2)|x.item(0, 1)
    x.reshape(3, 2)|x.reshape(6)|x.cumsum(0)|x.argpartition(1, 1)|x.round(1)|x.clip(1, 2)|x.max(0)|np.expand_dims(x, 1)
    np.diag(v, 1)|np.diag(x, 1)|np.diag(e, 1)|np.diag(o1, 1)|np.diag(o2, 1)|np.diagonal(x, 1, 0, 1)|np.diagonal(t, 1, 0, 2)
    np.trace(x, 1, 0, 1)|np.tri(3, 4, 1)|np.eye(3, 4, 1)|np.tril(x, 1)|np.triu(x, 1)|np.tril(t, 1)|np.triu(v, 1)
    np.diagflat(v, 1)
    np.tril_indices(3, 1, 4)|np.triu_indices(3, 1, 4)|np.tril_indices_from(x, 1)|np.mask_indices(3, np.triu, 1)|np.roll(x, 1)
    np.roll(x, 1, 0)|np.roll(x, (1, 2), (0, 1))|np.roll(e, 1)|np.rot90(x, 1)|np.rot90(x, 1, (0, 1))|np.repeat(x, 2)
    np.repeat(x, 2, 0)|np.repeat(x, [1, 2], 0)|np.repeat(e, 2)|np.tile(x, 2)|np.tile(x, (2, 1))|np.tile(e, 2)|np.take(x, 1)
    np.take(x, 1, 0)|np.take(x, [1, 2])|np.take(x, [1, 2], mode='wrap')|np.take(x, [1, 2], mode='clip')
    np.take(x, [[0, 1]], 1, mode='wrap')|np.delete(v, 1)|np.delete(v, [1, 0])|np.delete(v, slice(0, 2, 1))|np.delete(x, 1, 1)
    np.insert(v, 1, 5)|np.insert(v, [1, 0], 5)|np.insert(x, 1, 5, 0)|np.insert(v, slice(0, 2, 1), 5)|np.partition(v, 1)
    np.partition(v, [0, 1])|np.argpartition(v, 1)|np.partition(x, 1, 0)|np.partition(e, 0)|np.pad(v, 1)|np.pad(v, (1, 2))
    np.pad(x, ((1, 1), (0, 1)), 'edge')|np.pad(v, 1, 'reflect')|np.pad(v, 1, 'symmetric')|np.pad(v, 1, 'wrap')|np.pad(e, 1)
    np.pad(v, 1, 'linear_ramp')|np.pad(v, 1, 'mean', stat_length=1)|np.pad(v, 1, constant_values=3)|np.split(x, 2)
    np.split(x, [1])
    np.array_split(v, 2)|np.array_split(v, [1, 2])|np.hsplit(x, 3)|np.vsplit(x, 2)|np.split(x, 3, 1)|np.array_split(e, 2)
    np.linspace(0, 1, 3)|np.linspace(0, 5, 3)|np.arange(3)|np.arange(1, 5)|np.arange(1, 9, 2)|np.arange(5, 1, -1)
    np.arange(0.0, 3)
    np.arange(3, dtype='int32')|np.arange(3, dtype='uint8')|np.logspace(0, 2, 3)|np.geomspace(1, 8, 4)|np.zeros(3)
    np.zeros((2, 3))
    np.ones(3)|np.full(3, 2)|np.full((2, 3), 2)|np.full(3, 2, 'int8')|np.full(3, 2, 'float32')|np.full_like(x, 2)|np.empty(0)
    np.eye(3)|np.identity(3)|np.zeros_like(x, shape=(2, 3))|np.full_like(x, 2, shape=3)|np.ones_like(x, shape=3)
    np.frombuffer(b'abcdefgh', 'uint8', 3, 2)|np.frombuffer(b'abcdefgh', 'int32', 1, 4)|np.frombuffer(b'', 'uint8', 0, 0)
    np.fromiter(range(3), 'int64', 3)|np.fromstring('1 2 3', 'int64', 2, sep=' ')|np.fromstring('1 2 3', 'int32', sep=' ')
    np.unravel_index(5, (2, 3))|np.unravel_index([5, 1], (2, 3))|np.ravel_multi_index((1, 2), (2, 3))|np.unravel_index(0, (3,))
    np.ravel_multi_index(([1, 0], [2, 1]), (2, 3))|np.ravel_multi_index((1, 2), (2, 3), mode='wrap')
    np.ravel_multi_index((1, 2), (2, 3), mode='clip')|np.bincount([0, 1, 2], minlength=3)|np.bincount([0, 1, 2], [1, 2, 3])
    np.histogram(v, 3)|np.histogram(v, 3, (0, 5))|np.histogram(v, [0, 1, 5])|np.digitize(v, [0, 1, 3])|np.digitize(1, [0, 1, 3])
    np.searchsorted([0, 1, 2], 1)|np.searchsorted([0, 1, 2], [1, 2])|np.searchsorted(v, 1, sorter=[2, 1, 0])
    np.choose([1, 0], [[1, 2], [3, 4]])|np.choose([1, 0], [[1, 2], [3, 4]], mode='wrap')|np.lexsort((v, w), 0)
    np.choose([1, 0], [[1, 2], [3, 4]], mode='clip')|np.diff(x, 1, 1)|np.diff(v, 2)|np.diff(v, prepend=1, append=2)
    np.ediff1d(v, 1, 2)|np.gradient(v, 2)|np.gradient(x, 2, axis=0)|np.gradient(v, edge_order=1)|np.moveaxis(x, 0, 1)
    np.moveaxis(x, [0, 1], [1, 0])|np.rollaxis(x, 1, 0)|np.swapaxes(x, 0, 1)|np.transpose(x, (1, 0))|np.squeeze(t[:, :, :1], 2)
    np.stack([x, x], 1)|np.concatenate([x, x], 1)|np.flip(x, 0)|np.flip(x, (0, 1))|np.sum(x, 0)|np.sum(x, (0, 1))
    np.sum(x, initial=3)|np.max(x, initial=3)|np.prod(x, 0)|np.mean(x, 0)|np.var(x, 0, ddof=1)|np.argmax(x, 0)
    np.count_nonzero(x, 0)|np.cumsum(x, 0)|np.cumprod(x, 0)|np.ptp(x, 0)|np.median(x, 0)|np.quantile(x, 0.5, 0)|np.sort(x, 0)
    np.argsort(x, 0)|np.unique(x, axis=0)|np.average(x, 0)|np.nansum(x, 0)|np.any(x, 0)|np.cross([1, 2, 3], v, axis=0)
    np.cross([1, 2, 3], v, 0, 0, 0)|np.tensordot(x, y, 2)|np.tensordot(x, y, ([0, 1], [0, 1]))|np.vander(v, 3)|np.polyder(v, 1)
    np.polyint(v, 1)|np.polyint(v, 1, 3)|np.polyfit([0, 1, 2], v, 1)|np.polyval([1, 2], 3)|np.polyval([1, 2], v)
    np.roots([1, 2])
    np.poly([1, 2])|np.polymul([1, 2], [3])|np.polyadd([1, 2], [3])|np.take_along_axis(x, np.array([[0, 1]]), 1)
    np.put_along_axis(l, np.array([[0, 1]]), 5, 1)|np.put(l, [0, 1], 5)|np.put(l, 1, 5)|np.put(l, [0, 1], 5, mode='clip')
    np.place(l, m, [5])|np.putmask(l, m, 5)|np.fill_diagonal(l, 5)|np.copyto(l, 5)|np.resize(x, (2, 2))|np.resize(x, 3)
    np.packbits(m, 0)|np.unpackbits(np.array([3, 130], 'uint8'), 0, 5)|np.unpackbits(np.array([3, 130], 'uint8'), count=-3)
    np.binary_repr(5, 4)|np.base_repr(5, 2, 1)|np.round(x, 1)|np.round(i, 1)|np.ldexp(x, 1)|np.left_shift(i, 1)
    np.right_shift(i, 1)|np.bitwise_and(i, 1)|np.gcd(i, 2)|np.lcm(i, 2)|np.power(i, 2)|np.float_power(x, 2)|np.power(x, 2)
    np.clip(i, 1, 2)|np.clip(x, 1, 2)|np.where(m, i, 2)|np.where(m, x, 2)|np.add(i, 1)|np.add(x, 1)|np.multiply(i, 2)
    np.floor_divide(i, 2)|np.remainder(i, 2)|np.fmod(i, 2)|np.maximum(i, 2)|np.equal(i, 2)|np.less(i, 2)|np.divmod(i, 2)
    np.heaviside(x, 1)|np.isin(i, [1, 2])|np.isin(i, 2)|np.hanning(3)|np.hamming(3)|np.bartlett(3)|np.blackman(3)
    np.kaiser(3, 2)
    np.indices((2, 3))|np.diag_indices(3, 2)|np.ix_([0, 1], [1])|next(np.ndindex(2, 3))|np.array([1, 2])
    np.array([1, 2], 'int32')
    np.array([1, 2], ndmin=3)|np.asarray(5)|np.array([1, 2], 'float32')|np.broadcast_to(v, (2, 3))
    np.broadcast_shapes((1, 3), (2, 1))
    np.fft.fft(v, 3)|np.fft.fft(x, 3, 0)|np.fft.rfft(v, 4)|np.fft.irfft(v, 4)|np.fft.hfft(v, 4)|np.fft.ihfft(v, 4)
    np.fft.fft2(x, (2, 3))|np.fft.fftn(x, (2, 3), (0, 1))|np.fft.irfftn(x, (2, 4))|np.fft.fftfreq(3, 2)|np.fft.rfftfreq(3, 2)
    np.fft.fftshift(x, 0)|np.linalg.matrix_power(s, 2)|np.linalg.matrix_power(s, -2)|np.linalg.norm(x, 1, 0)
    np.linalg.norm(x, 2)
    np.linalg.norm(v, 3)|np.linalg.tensorinv(s, 1)|np.linalg.vector_norm(x, axis=0, ord=3)|np.linalg.diagonal(s, offset=1)
    np.linalg.trace(s, offset=1)|np.linalg.cond(s, 1)|np.lib.stride_tricks.sliding_window_view(x, 2, 0)
    np.lib.stride_tricks.sliding_window_view(x, (1, 2))|np.lib.stride_tricks.as_strided(x)
    np.ndarray((2, 3), 'float32').shape|np.ndarray((2,), 'uint8', b'abcdefgh', 1)
    np.ndarray((2,), 'uint8', b'abcdefgh', 1, (2,))
    np.ndarray((2, 2), 'float32', b'abcdefghabcdefghabcdefghabcdefgh', 4, (8, 4))|np.nan_to_num(x, nan=1)|np.unwrap(x, period=6)
    np.interp(v, [0, 1, 3], [1, 2, 3], 1, 2)|np.interp(v, [0, 1, 3], [1, 2, 3], period=4)|np.trapezoid(x, dx=2)
    np.apply_along_axis(np.sum, 0, x)|np.apply_over_axes(np.sum, x, 0)|np.piecewise(x, [x > 0], [1, 2])
    np.select([x > 1], [x], 2)
    np.einsum(x, [0, 1], [1, 0])|np.einsum(x, [0, 1], y, [1, 2], [0, 2])|np.add.reduce(x, 0)|np.add.accumulate(x, 0)
    np.add.reduceat(x, [0, 1])|np.add.reduceat(x, [0, 1], 1)|np.add.at(l, 1, 5)|np.add.at(l, [1, 0], 5)|np.add.at(l, (1, 0), 5)
    np.add.outer(i, 5)|np.add.reduce(x, initial=3)|np.inner(i, 5)|np.outer(i, 5)|np.dot(i, 5)|np.kron(i, 5)|np.convolve(v, 5)
    np.vdot(5, 5)|np.append(i, 5)|np.union1d(i, 5)|np.intersect1d(i, 5)|np.setdiff1d(i, 5)|np.array_equal(i, 2)|np.isclose(i, 2)
    np.uint8(5)|np.int32(5)|np.int64(5)|np.float32(5)|np.bool_(5)|np.float64(5)|np.array(5, 'uint8')|np.asarray([5], 'int16')
    np.r_[1:5]|np.r_[1:5:2]|np.r_[1, 2]|np.mgrid[0:3]|np.ogrid[0:3, 0:2]|np.c_[1, 2]|np.random.default_rng(3).normal(size=2)
    np.random.default_rng(3).integers(0, 5, 2)|np.random.normal(0, 1, 3)|np.random.randint(0, 5, 3)|np.random.choice(5, 3)
    np.random.randint(0, 5, 3, 'uint8')|np.random.permutation(5)|np.random.rand(2, 3)|np.random.binomial(5, 0.5, 3)
    np.random.poisson(5, 3)|np.random.seed(3)|np.random.hypergeometric(5, 5, 3, 2)|np.random.multinomial(5, [0.5, 0.5], 2)
    np.random.negative_binomial(5, 0.5, 2)|np.random.zipf(3, 2)|np.random.bytes(3)|np.random.default_rng(3).choice(5, 3)
    np.random.default_rng(3).permuted(x, axis=0)|np.random.default_rng(3).shuffle(l, 0)|np.random.gamma(2, 1, 3)
    np.random.default_rng(3).multivariate_hypergeometric([3, 4], 2)|np.random.standard_gamma(2, 3)
    np.random.dirichlet([1, 2], 3)
"""
WHOLE = {"n", "N", "M", "axis", "shape", "deg", "k", "dims", "beta", "num", "start", "stop", "low", "high", "ndim"}
NOT_CALLED = {"eval", "load", "loadtxt", "genfromtxt", "fromfile", "save", "savetxt", "savez", "savez_compressed"} | {
    "frombuffer", "vectorize"}  # about files; of memory, which an array is not before Python 3.12; of a function
NOT_ASKED = {"out", "dtype", "device", "like", "copy", "key", "keepdims", "max_header_size"}  # parameters that take no integer


def arrays(xp: Any) -> dict[str, Any]:
    """Arrays of a library, by the names in the texts."""
    made = {
        "x": np.array([[1, 2, 3], [4, 0, 2]], "float32"), "y": np.array([[0, 1, 1], [1, 0, 1]], "float32"),
        "i": np.array([[1, 2, 3], [4, 0, 2]]), "t": np.arange(12, dtype="int32").reshape(2, 2, 3),
        "v": np.array([1, 3, 2], "float32"), "w": np.array([2, 0, 1], "float32"), "o": np.zeros(3, "float32"),
        "m": np.array([[True, False, True], [False, True, False]]), "l": np.zeros((2, 3), "float32"), "e": np.zeros(0, "float32"),
        "s": np.array([[5, 1, 0], [1, 6, 1], [0, 1, 7]], "float32"), "o1": np.ones((5, 1), "float32"),
        "o2": np.ones((1, 5), "float32"),
    }
    return {"np": xp, **{name: a if xp is np else xp.array(a) for name, a in made.items()}}


def texts() -> list[str]:
    return [text.strip() for line in TEXTS.splitlines() for text in line.split("|") if text.strip()]


class _Integers(ast.NodeTransformer):
    """Counts the integers of an expression, and replaces one."""

    def __init__(self, place: int = -1, value: int = 0) -> None:
        self.count, self.place, self.value = 0, place, value

    def _next(self, node: Any) -> Any:
        self.count += 1
        return ast.Constant(self.value) if self.count - 1 == self.place else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:  # noqa: N802
        is_number = isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) is int
        return self._next(node) if is_number else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:  # noqa: N802
        return self._next(node) if type(node.value) is int else node


def with_edge(text: str, place: int, value: int) -> str:
    tree = _Integers(place, value).visit(ast.parse(text, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree))


def with_keyword(text: str, name: str, value: int) -> str:
    tree: Any = ast.parse(text, mode="eval")
    tree.body.keywords.append(ast.keyword(name, ast.Constant(value)))
    return ast.unparse(ast.fix_missing_locations(tree))


def unused_parameters(text: str, space: dict[str, Any]) -> list[str]:
    """The parameters of the function that a text calls which may be integers, and which the text leaves out."""
    call: Any = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        return []
    try:
        parameters = list(inspect.signature(eval(ast.unparse(call.func), space)).parameters.values())  # noqa: S307
    except (TypeError, ValueError):
        return []
    given = {p.name for p, _ in zip(parameters, call.args, strict=False)} | {k.arg for k in call.keywords} | NOT_ASKED
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    asked = [p for p in parameters if p.name not in given and p.kind in kinds]
    return [p.name for p in asked if p.default is None or type(p.default) in (int, float)]


def plain_calls() -> list[str]:
    """A call of every public function, with something for each argument that it asks for."""
    import weft as wf

    found = []
    for room, held in (("", wf), ("linalg.", wf.linalg), ("fft.", wf.fft), ("random.", wf.random), ("emath.", wf.emath)):
        for name in held.__all__:
            if wf._HOME.get(name, "weft.functions").startswith("weft.functions") and name not in NOT_CALLED:
                found.append(f"np.{room}{name}({', '.join(asked(getattr(held, name)))})")
    return found


def asked(function: Any) -> list[str]:
    """Something for each argument that a function asks for, as text."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return ["2" if p.name in WHOLE else "i" for p in parameters if p.default is p.empty and p.kind in kinds]


def lines(space: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every place of a text at which an integer may stand: the text, and the number of an integer or the name of a parameter."""
    found: list[tuple[str, Any]] = []
    for text in [*texts(), *plain_calls()]:
        count = _Integers()
        count.visit(ast.parse(text, mode="eval"))
        found += [(text, k) for k in range(count.count)] + [(text, name) for name in unused_parameters(text, space)]
    return found


def sample(seed: int, count: int) -> list[str]:
    """Calls drawn at random: first each place once, then places again."""
    import weft as wf

    r, places = random.Random(seed), lines(arrays(wf))
    drawn = [*r.sample(places, len(places)), *r.choices(places, k=max(0, count - len(places)))][:count]
    calls = [(with_keyword if isinstance(k, str) else with_edge)(text, k, r.choice(EDGES)) for text, k in drawn]
    return list(dict.fromkeys(calls))


def told(found: Any, text: str) -> Any:
    """What a call gave, for JSON: of numbers drawn at random, and of large arrays, the shape alone."""
    if isinstance(found, tuple | list):
        return [told(part, text) for part in found[:50]]
    if not isinstance(found, np.ndarray | np.generic) and not hasattr(found, "numpy"):
        return repr(found)
    if found.size > 10**6 or "random" in text or "empty" in text:
        return [list(found.shape)]
    a = np.asarray(found)
    return [list(a.shape), a.dtype.kind, [str(n) for n in a.ravel().tolist()]]


def answer_calls(library: str, calls: list[str], start: int, place: mmap.mmap, seconds: float) -> None:
    """Print the answer to each call from number ``start`` on; ``place`` holds the number of the call that runs."""
    import weft as wf

    xp = np if library == "numpy" else wf
    with open("/proc/self/statm") as file:
        have = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (have + ROOM, resource.RLIM_INFINITY))
    for k in range(start, len(calls)):
        place[:8] = k.to_bytes(8, "little")
        signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process even in C code that runs no thread
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                space = arrays(xp)
                found = eval(calls[k], space)  # noqa: S307
                answer = ["gave", told(space["l"] if found is None else found, calls[k])]
            except Exception as error:
                answer = ["raised", [kind.__name__ for kind in type(error).__mro__], str(error)[:300]]
        signal.setitimer(signal.ITIMER_REAL, 0)  # an answer is printed as a whole
        print(json.dumps([calls[k], *answer]), flush=True)


def run(library: str, calls: list[str], seconds: float) -> None:
    """Print the answers to calls: a process that ends before its last call is followed by another one behind the call."""
    import weft as wf

    if library == "weft":
        (wf.ones((3, 3)) @ wf.ones((3, 3)) + 1).numpy()
    place, start = mmap.mmap(-1, 8), 0
    while start < len(calls):
        sys.stdout.flush()
        if not (child := os.fork()):
            answer_calls(library, calls, start, place, seconds)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not code:
            return
        start = int.from_bytes(place[:8], "little")
        print(json.dumps([calls[start], "ended", code]), flush=True)
        start += 1


if __name__ == "__main__":
    run(sys.argv[1], json.load(sys.stdin), float(sys.argv[2]))
