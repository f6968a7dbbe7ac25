"""The cases of ``eager.py`` and the rows of its table: which steps of which program a row is about, and what is asked of weft."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from eager_libraries import ALL

TRAINED = ("weft", "torch")
PLAIN = ("numpy", "weft")


@dataclass(frozen=True)
class Row:
    """A line of the table: a figure of the steps from ``start`` to ``stop``, each counted as ``parts`` pieces of work."""

    called: str
    start: int = 0
    stop: int = 1
    how: str = "median"  # median, mean or sum of the steps; behind: the sum, and what went on in the background after them
    asked: str = ""  # of weft, by the issue: a time, or a multiple of NumPy's
    parts: int = 1


@dataclass(frozen=True)
class Case:
    """A program, how many of its steps are run (None: calls are repeated until the clock can be trusted), and its rows."""

    program: str  # module.function
    steps: int | None
    rows: tuple[Row, ...]
    libraries: tuple[str, ...] = ALL
    again: bool = False  # weft runs once more, in another process with the first one's disk cache
    settles: bool = False  # after the first step the background is given time, and is counted


def _first(called: str, asked: str) -> tuple[Row, ...]:
    return (
        Row(f"{called}: first call", asked=asked), Row(f"{called}: with what follows behind", how="behind"),
        Row(f"{called}: a call then", 1, 6),
    )


def _pace(program: str, called: str, asked: str, steps: int, settled: int) -> Case:
    """A program of so many steps, and its pace once it has run ``settled`` ones, which take NumPy a second."""
    return Case(program, settled + steps, (
        Row(f"{called}: {steps} steps, from cold", 0, steps, "sum"),
        Row(f"{called}: a step then", steps // 2, steps, asked=asked),
        Row(f"{called}: a step after {settled}", settled, settled + steps, asked=asked),
    ))


def _line(program: str, called: str) -> Case:
    """A line that a step runs a thousand times: in the first step, and in those after it."""
    return Case(f"eager_lines.{program}", 6, (
        Row(f"{called}: each of the first 1,000", 0, 1, "mean", parts=1000),
        Row(f"{called}: each then", 1, 6, asked="4x", parts=1000),
    ), PLAIN)


def _loop(program: str, called: str) -> Case:
    """A loop of a textbook: its first turn, and the turns after ten."""
    return Case(f"eager_loops.{program}", 20, (
        Row(f"{called}: first", 0, 1), Row(f"{called}: then", 10, 20, asked="3x"),
    ), PLAIN)


_LINES = {
    "randn": ("randn", "random.randn(3, 4)"),
    "rand": ("rand", "random.rand(3)"),
    "randint": ("randint", "random.randint(0, 60000, 10)"),
    "choice": ("choice", "random.choice(1000, 10)"),
    "normal": ("normal", "random.normal(0.0, 0.1, (2, 3))"),
    "uniform": ("uniform", "random.uniform()"),
    "copy only": ("copy", "y.copy()"),
    "subtract pairs": ("subtract_pairs", "d[rows, labels] -= 1"),
    "copy": ("copy_and_subtract", "d = y.copy(); d[rows, labels] -= 1"),
    "empty": ("empty", "empty((10, 5, 100))"),
    "zeros": ("zeros", "zeros((3, 4))"),
    "lists": ("array_of_lists", "array of 3 lists of 4 floats"),
    "list of ints": ("array_of_ints", "array of a list of 10 ints"),
    "write slice": ("write_slice", "hs[:, 2, :] = hh"),
    "concatenate": ("concatenate", "concatenate([y, y])"),
    "hstack": ("hstack", "hstack((y, y))"),
    "append": ("append", "append(history, 0.5)"),
    "iterate": ("iterate", "for x in corpus: total += int(x)"),
    "iterate rows": ("iterate_rows", "for row in table: total += float(row[1])"),
    "element": ("element_of_table", "y[3, 5]"),
    "row": ("row_of_table", "row = y[3]; row + row"),
    "column": ("column_slice", "gate = y[:, 3:6]; gate * gate"),
    "argmax": ("argmax", "t.argmax()"),
    "argmax rows": ("argmax_rows", "t.argmax(axis=1)"),
    "max": ("maximum_of_all", "y.max()"),
    "sum rows": ("sum_rows", "y.sum(axis=1, keepdims=True)"),
    "pairs": ("read_pairs", "y[rows, labels]"),
    "read mask": ("read_mask", "y[y > 0.5]"),
    "mask": ("write_mask", "o[mask] = 0"),
    "add element": ("add_element", "table[3, 5] += 1"),
    "add at": ("add_at", "add.at(table, rows, values)"),
    "reshape": ("reshape", "y.reshape(12, 10)"),
    "transpose": ("transpose", "y.T"),
    "kept": ("kept_scalars", "kept.append(corpus[i])"),
}
_LOOPS = {
    "RNN step": ("rnn_step", "RNN step, 20 x 100"),
    "LSTM step": ("lstm_step", "LSTM step, 20 x 100"),
    "co-occurrence": ("co_occurrence", "neighbours of 10,000 words"),
    "windows of one": ("im2col_of_one", "im2col by slices, 1 image"),
    "windows": ("im2col", "im2col by slices, 10 images"),
}
CASES = {
    "add": Case("eager_small.add_ten", None, (Row("add of 10 floats and a look", 0, 3, asked="3 us"),)),
    "sum": Case("eager_small.sum_ten", None, (Row("float((a + 1).sum()) of 10", 0, 3, asked="12 us"),)),
    "slices": Case("eager_small.slices", 300, (
        Row("150 fresh slices and products: each", 0, 150, "mean", "100 us"),
        Row("the same slices once more: each", 150, 300, "mean"),
    )),
    "shapes": Case("eager_small.shapes", 100, (Row("100 fresh shapes: each", 0, 100, "mean", "150 us"),)),
    "ints": Case("eager_small.ints", 100, (Row("100 fresh Python ints: each", 0, 100, "mean", "150 us"),)),
    "fill": Case("eager_small.fill", 2, (
        Row("filling 1,000 elements: each", 0, 1, "mean", "3 us", parts=1000),
        Row("filling them once more: each", 1, 2, "mean", parts=1000),
    )),
    "read": Case("eager_small.read", 2, (
        Row("reading 1,000 elements: each", 0, 1, "mean", parts=1000),
        Row("reading them once more: each", 1, 2, "mean", parts=1000),
    )),
    **{name: _line(*line) for name, line in _LINES.items()},
    **{name: _loop(*loop) for name, loop in _LOOPS.items()},
    "character RNN": Case("eager_nets.character_rnn", 20, (
        Row("character RNN: step 1", asked="8x"), Row("character RNN: step 10", 9, 10, asked="8x"),
        Row("character RNN: steady", 10, 20, asked="8x"),
    )),
    "LSTM": Case("eager_nets.lstm_language_model", 10, (
        Row("LSTM language model: iteration 1", asked="0.6 s"), Row("LSTM language model: iterations 2 to 9, each", 1, 9, "mean"),
        Row("LSTM language model: iteration 10", 9, 10, asked="0.26 s"),
    )),
    "two layers": Case("eager_nets.two_layers", 3000, (
        Row("two-layer net: 3,000 steps, whole", 0, 3000, "sum", "5x"),
        Row("two-layer net: each of the last 500", 2500, 3000, "mean"),
    )),
    "one-hot": Case("eager_nets.two_layers_one_hot", 3000, (
        Row("two-layer net, labels one-hot: whole", 0, 3000, "sum", "5x"),
        Row("two-layer net, labels one-hot: last 500", 2500, 3000, "mean"),
    )),
    "life by roll": _pace("eager_arrays.life_roll", "life 256^2 by roll", "1.5x", 100, 2000),
    "life by slices": _pace("eager_arrays.life_slices", "life 256^2 by slices", "1.5x", 100, 4000),
    "mandelbrot": _pace("eager_arrays.mandelbrot", "mandelbrot with masks", "1.5x", 30, 5000),
    "k-means": _pace("eager_arrays.k_means", "k-means", "1.5x", 20, 500),
    "power iteration": _pace("eager_arrays.power_iteration", "power iteration", "1.5x", 100, 20000),
    "chain": Case("eager_small.chain", 40, (
        Row("1,000 operations on 1e5 floats: first", asked="1x"), Row("1,000 operations on 1e5 floats: then", 1, 5, asked="1x"),
        Row("1,000 operations on 1e5 floats: after 30 steps", 30, 40, asked="1x"),
    )),
    "MLP": Case("eager_first.mlp", 6, _first("MLP training step", "0.35 s"), TRAINED, again=True, settles=True),
    "GPT": Case("eager_first.gpt", 6, _first("GPT training step, 4 layers", "1.8 s"), TRAINED, again=True, settles=True),
    "AlexNet": Case("eager_first.alexnet", 6, _first("AlexNet step of 16", "half"), TRAINED, again=True, settles=True),
}
MEMORY = "memory"  # the case whose memory is told; its steps are an option


def cases(shapes: int) -> dict[str, Case]:
    return {**CASES, MEMORY: Case("eager_small.many_shapes", shapes, (Row(f"{shapes} fresh shapes: each", 0, shapes, "mean"),))}


def program(case: Case) -> Callable:
    module, name = case.program.split(".")
    return getattr(importlib.import_module(module), name)


def figure(row: Row, measured: dict) -> tuple[float | None, bool]:
    """Seconds, None if no step came so far; and whether all of the row's steps were run."""
    seconds = measured["seconds"][row.start : row.stop]
    whole = len(seconds) == row.stop - row.start
    if not seconds or (row.how in ("sum", "behind") and not whole):
        return None, False
    kind = {"median": statistics.median, "mean": statistics.fmean}.get(row.how, sum)
    return (kind(seconds) + (measured["behind"] if row.how == "behind" else 0.0)) / row.parts, whole
