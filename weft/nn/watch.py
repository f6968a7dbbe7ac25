"""watch: statistics of a model's numbers, a layer and a tensor: magnitudes, counts relative to a format, and a histogram.

A watched call of a layer measures the layer's parameters and output, and their gradients if it is differentiated. What it
measures goes into cells, one of 64-bit floats for each tensor, so it works in jitted functions and loops. An active watch is
part of the key of jitted functions: they are traced once with it and once without, and a call without it costs nothing.

Counts and the largest magnitude are of all elements, and may be computed in any order, so they need no pass of their own. The
mean and the histogram are of at most ``MAX_SAMPLE`` elements: a float sum over all would be a pass of its own, and a full
histogram costs several times as much as a cast.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np

from weft.array import Array
from weft.dtypes.check import parse_number_format
from weft.dtypes.formats import FLOAT64, FLOATS, FORMATS, Format
from weft.dtypes.parse import parse_dtype
from weft.errors import short
from weft.functions.creation.fill import zeros
from weft.functions.elementwise.ufuncs import absolute, equal, isfinite, isnan, maximum, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.shape.axes import concatenate, stack
from weft.functions.support.arguments import integer_from
from weft.graph.source_lines import user_frame, user_line
from weft.nn.embedding import Embedding
from weft.nn.module_tree import CALL_HOOK, ModuleTree
from weft.nn.normalization import LayerNorm, RMSNorm
from weft.nn.precision import Rounding, current_precision
from weft.process.docstrings import complete_docs
from weft.process.figures import make_figure
from weft.runtime.context import CONTEXT
from weft.transforms.custom import custom_vjp
from weft.transforms.settings import apply_setting
from weft.transforms.taps import add_tap, observe_gradient
from weft.transforms.trace import VmapTrace
from weft.transforms.tree import matches

BINS = 64  # of the histogram, each a power of two
LOWEST = -48  # exponent of the first bin, which also counts smaller numbers
MAX_SAMPLE = 1 << 16  # elements of the sample, from which mean and histogram are computed
BLOCK = 64  # elements that are next to each other in a sample
_SUMS = ("calls", "n", "zeros", "underflow", "overflow", "nan", "finite", "magnitude")  # what a cell has before the largest
_LARGEST = len(_SUMS)
_SIZE = _LARGEST + 1 + BINS
_UNROUNDED = (Embedding, LayerNorm, RMSNorm)  # whose parameters of several axes wf.precision leaves as they are
_WIDER = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64")  # that a table recommends, in this order


@dataclass(frozen=True)
class Statistics:
    """What a watch knows of one tensor.

    Attributes
    ----------
    name : of the tensor: ``"encoder.0.weight"``, ``"encoder.0"`` for the output of a layer, either with ``".gradient"``
    format : name of the format to which the counts relate
    n : number of elements
    largest : the largest magnitude, NaN aside
    mean : the mean magnitude of the finite numbers of the sample
    zeros, nan : counts
    underflow : number of elements that are not 0, but become 0 in the format
    overflow : number of elements that a cast to nearest takes beyond the largest number of the format, infinities included
    histogram : (64,) counts of the sample's magnitudes by powers of two, from 2**-48 on; the first and the last bin also count
        what is beyond them, and no bin counts zeros and what is not finite
    sampled : number of elements in the sample: all, or one block of 64 in several
    line : ``file:line`` of the user's code that computes the tensor, or calls the layer that it belongs to
    """

    name: str
    format: str
    n: int
    largest: float
    mean: float
    zeros: int
    underflow: int
    overflow: int
    nan: int
    histogram: np.ndarray
    sampled: int
    line: str

    @property
    def fits(self) -> str:
        """Name of the narrowest common format, of at least as many bits, that the largest magnitude fits; "" if there is none."""
        bits = FORMATS[self.format].bits if self.format in FORMATS else 0
        for name in _WIDER:
            if FORMATS[name].bits >= bits and self.largest < _overflow_limit(FORMATS[name], "float64"):
                return name
        return ""


class Watch:
    """The result of :func:`watch`: a context manager, a callback of ``fit``, and the statistics by name.

    Attributes
    ----------
    records : list of (step, dict of Statistics by name), of :meth:`record` and, as a callback, of every watched update
    """

    def __init__(self, model: ModuleTree, only: Any = None, every: int = 1, format: Any = None) -> None:
        if not isinstance(model, ModuleTree):
            raise TypeError(f"watch: model must be a Module, not {type(model).__name__}")
        self.every = integer_from(1, every, "watch", "every")
        self.form = None if format is None else parse_number_format("watch: format", format)
        self.records: list[tuple[int, dict[str, Statistics]]] = []
        self._model = model
        self._names = {id(m): n for n, m in model.modules()}
        given = only
        if not (only is None or isinstance(only, str)):
            only = tuple(only) if isinstance(only, Iterable) else (only,)
            if not all(isinstance(pattern, str) for pattern in only):
                raise TypeError(f"watch: only must be a pattern such as 'encoder.*', or a list of them, not {short(given)}")
        parameters = model.parameters()
        layers = [n for n in self._names.values() if n]
        self._parameters = {id(p): n for n, p in parameters.items()}
        names = [*layers, "output", *parameters]
        chosen = [n for n in names if _is_chosen(n, only)]
        if not chosen:
            some = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise ValueError(f"watch: {only!r} matches no layer and no parameter of {type(model).__name__}; there are {some}")
        self._cells = {name: zeros((_SIZE,), dtype="float64") for n in chosen for name in (n, f"{n}.gradient")}
        self._forms: dict[str, Format] = {}
        self._lines: dict[str, str] = {}
        self._key = object()
        self._measures = False

    # ---- switching on and off

    def __enter__(self) -> Self:
        if self in _ACTIVE.watches:
            raise ValueError("watch: this watch is active already")
        if not _ACTIVE.watches:
            _ACTIVE.before = CALL_HOOK.watch_call
        _ACTIVE.watches += (self,)
        self._switch(True)
        return self

    def __exit__(self, *exception: object) -> None:
        if self not in _ACTIVE.watches:
            raise ValueError("watch: this watch is not active")
        self._switch(False)
        _ACTIVE.watches = tuple(w for w in _ACTIVE.watches if w is not self)

    def _switch(self, on: bool) -> None:
        self._measures = on
        measuring, call = [w for w in _ACTIVE.watches if w._measures], _ACTIVE.before
        for watch in measuring:
            call = functools.partial(watch._call, call)
        CALL_HOOK.watch_call = call
        apply_setting(CONTEXT, tuple([w._key for w in measuring]) or None, "watch")

    def on_begin(self, state: Any) -> None:
        """Called by ``fit``. Raises ValueError outside of the ``with`` block of this watch."""
        if self not in _ACTIVE.watches:
            raise ValueError("watch: as a callback of fit it must be active: with wf.watch(model) as watch: fit(..., [watch])")
        self._switch(state.step % self.every == 0)

    def on_batch(self, state: Any) -> None:
        if self._measures:
            self.record(state.step)
        self._switch(state.step % self.every == 0)

    def on_end(self, state: Any) -> None:
        self._switch(True)

    # ---- measuring

    def _call(self, inner: Any, module: ModuleTree, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the forward function of a module, and measure. inner : the hook of the watch outside of this one, or None"""
        name = self._names.get(id(module))
        is_watched, line = name is not None and not _is_mapped(), user_frame()
        with self._watch_parameters(module, line) if is_watched else nullcontext():
            out = module.forward(*args, **kwargs) if inner is None else inner(module, args, kwargs)
        if not is_watched:
            return out
        return self._watch_array(name or "output", out, "activations", line)

    @contextmanager
    def _watch_parameters(self, module: ModuleTree, line: Any) -> Iterator[None]:
        """Context manager: measure a module's own parameters; those that are differentiated pass through taps.

        line : from which the module is called, a result of :func:`user_frame`
        """
        tapped = []
        for value in module.__dict__.values():
            for p in value if isinstance(value, list | tuple) else (value,):
                name = self._parameters.get(id(p)) if isinstance(p, Array) else None
                if name is not None:
                    role = "weights" if p.ndim > 1 and not isinstance(module, _UNROUNDED) else ""  # others are not rounded
                    before, after = p.node, self._watch_array(name, p, role, line).node
                    if after is not before:
                        p._set(after)
                        tapped.append((p, before, after))
        try:
            yield
        finally:
            for p, before, after in tapped:
                if p.node is after:
                    p._set(before)

    def _watch_array(self, name: str, x: Any, role: str, line: Any) -> Any:
        """Measure an array, or the first of a tuple, and return what takes its place.

        role : one of ``wf.precision``, or "" for parameters that it does not round; line : of the layer's call
        """
        if isinstance(x, tuple) and x:
            first = self._watch_array(name, x[0], role, line)
            return x if first is x[0] else (first, *x[1:])
        if name not in self._cells or not isinstance(x, Array) or parse_dtype(x.dtype) not in FLOATS or x.size == 0:
            return x
        form = self._forms[name] = self._format(role, x)
        self._cells[name][...] = measure(stop_gradient(x), form)
        gradient = f"{name}.gradient"
        is_parameter = role != "activations"
        computed_at = None if is_parameter else x.node.source_line
        self._lines[name] = self._lines[gradient] = user_line(computed_at or line)
        received = self._forms[gradient] = self._format("" if is_parameter else "gradients", x)
        if is_parameter and x.node in CONTEXT.variables:
            observe_gradient((self, name), x.node, lambda g: self._receive(gradient, [measure(stop_gradient(g), received)]))
            return x
        tap = add_tap((self, name), zeros((_SIZE,), dtype="float64"), lambda parts: self._receive(gradient, parts))
        return x if tap is None else _make_measuring_identity(received)(x, tap)

    def _receive(self, name: str, parts: list[Array]) -> None:
        """Write the statistics of the gradients that arrive from all uses of a tensor."""
        cell = self._cells[name]
        cell[...] = functools.reduce(operator.add, parts)
        if len(parts) > 1:
            cell[_LARGEST] = functools.reduce(maximum, [part[_LARGEST] for part in parts])

    def _format(self, role: str, x: Array) -> Format:
        layer = current_precision()
        rounding = getattr(layer, role) if layer is not None and role else None
        if self.form is not None:
            return self.form
        return rounding.form if isinstance(rounding, Rounding) else parse_dtype(x.dtype)  # blocks have a range each

    # ---- results

    def _read(self) -> dict[str, Statistics]:
        found = {}
        for name, cell in self._cells.items():
            numbers = cell.numpy()
            calls, n, none, under, over, nan, finite, magnitude, largest = numbers[: _LARGEST + 1].tolist()
            if calls:
                found[name] = Statistics(
                    name, self._forms[name].name, int(n), largest,
                    magnitude / finite if finite else 0.0, int(none), int(under), int(over), int(nan),
                    numbers[_LARGEST + 1 :].astype(np.int64), int(finite), self._lines[name],
                )
        return found

    @property
    def statistics(self) -> dict[str, Statistics]:
        """The statistics by name: those of the last record, or, without records, of the last call."""
        return self.records[-1][1] if self.records else self._read()

    def record(self, step: int | None = None) -> dict[str, Statistics]:
        """Append the statistics of the last call to ``records`` and return them. step : by default, one more than the last"""
        if step is None:
            step = self.records[-1][0] + 1 if self.records else 1
        self.records.append((step, self._read()))
        return self.records[-1][1]

    def __getitem__(self, name: str) -> Statistics:
        known = self.statistics
        if name not in known:
            if name in self._cells:
                raise KeyError(f"watch: {name} has not been measured: call the model, or differentiate it, inside the with block")
            raise KeyError(f"watch: no tensor {name!r}; there are {', '.join(known) or 'none yet'}")
        return known[name]

    def __repr__(self) -> str:
        return f"<watch of {type(self._model).__name__}: {len(self.statistics)} tensors, {len(self.records)} records>"

    def __str__(self) -> str:
        """Return a table, and a line for each tensor that overflows."""
        rows = self.table()
        if len(rows) == 1:
            return "watch: nothing has been measured"
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
                 for row in rows]
        return "\n".join([*lines, *self.notes()])

    def table(self) -> list[tuple[str, ...]]:
        """Return the statistics as rows of text, the heads first."""
        return [("tensor", "format", "n", "largest", "mean", "overflow", "underflow", "zeros", "nan"), *((
            s.name, s.format, f"{s.n:,}", f"{s.largest:.3g}", f"{s.mean:.3g}", f"{s.overflow:,}", f"{s.underflow:,}",
            f"{s.zeros:,}", f"{s.nan:,}",
        ) for s in self.statistics.values())]

    def notes(self) -> list[str]:
        """Return a sentence for each tensor that overflows, with its line, and one on the sample if there is one."""
        known, notes = self.statistics, []
        for s in known.values():
            if s.overflow:
                fit = f"{s.fits} holds its largest number" if s.fits else "no format holds its largest number"
                line = f" ({os.path.basename(s.line)})"
                notes.append(f"{s.name}{line}: {s.overflow} of {s.n:,} numbers overflow {s.format}; {fit}")
        if any(s.sampled + s.nan + s.overflow < s.n for s in known.values()):
            notes.append(f"mean: of at most {MAX_SAMPLE:,} elements of a tensor")
        return notes

    def plot(self, path: str | os.PathLike | None = None) -> Any:
        """Plot the last histograms, and the largest magnitudes over the records; save the plot if ``path`` is given.

        Needs matplotlib (``pip install 'weft-array[plot]'``).

        Returns
        -------
        matplotlib.figure.Figure
        """
        known = self.statistics
        figure = make_figure((11, 1.5 + 0.22 * max(len(known), 6)))
        left, right = figure.subplots(1, 2)
        shares = np.array([s.histogram / max(s.histogram.sum(), 1) for s in known.values()]).reshape(-1, BINS)
        left.imshow(shares, aspect="auto", interpolation="nearest", extent=(LOWEST, LOWEST + BINS, len(known), 0), cmap="viridis")
        left.set_yticks(np.arange(len(known)) + 0.5, list(known), fontsize=7)
        left.set_xlabel("log2 of the magnitude")
        for name in known:
            points = [(step, of[name].largest) for step, of in self.records if name in of and of[name].largest > 0]
            right.plot(*zip(*points, strict=True), label=name) if points else None
        if self.records:
            right.set_yscale("log")
        right.set_xlabel("step")
        right.set_ylabel("largest magnitude")
        right.grid(alpha=0.3)
        if path is not None:
            figure.savefig(path, dpi=130)
        return figure


class _Active(threading.local):
    watches: tuple[Watch, ...] = ()  # in whose with blocks this thread is, the innermost last
    before: Any = None  # the call hook outside of them


_ACTIVE = _Active()


def watch(model: ModuleTree, only: Any = None, *, every: int = 1, format: Any = None) -> Watch:
    """Collect statistics of the numbers of a model inside a ``with`` block.

    Of each layer the output and the parameters are measured, and the gradients of both if a derivative is taken by
    ``value_and_grad`` or ``grad``: the largest and the mean magnitude, the counts of zeros, NaNs, overflows and underflows
    relative to a number format, and a histogram of magnitudes. Results and weights do not change by a bit. Jitted functions are
    traced once more for each watch object; in eager code each watched tensor costs some milliseconds a call.

    A parameter's gradient is the one that ``value_and_grad`` returns, or, if the function is not differentiated by the parameter,
    what arrives from the calls of its layer: counts are sums over the calls, and the largest magnitude is that of a part. If a
    layer is called several times, its output is that of the last call, and the gradients of all calls count. Watches inside of
    one another all measure. In bodies of loops (``wf.scan``) gradients are not measured, inside of ``wf.vmap`` nothing is.

    As a callback, ``fit(..., callbacks=[watch])`` inside of the block, it keeps a record of every ``every``-th update, and the
    other updates cost what they cost without it. Updates then run one by one.

    Parameters
    ----------
    model : Module
    only : a pattern of names, or a list of them: ``"encoder.*"``, ``"0.weight"``. The names are those of ``model.parameters()``,
        those of layers for their outputs, and ``"output"`` for the model's
    every : updates of ``fit`` from one record to the next
    format : the dtype to which counts relate. By default, of outputs, their gradients and weights (not biases and tables), the
        format to which :func:`weft.precision` rounds the layer's activations, gradients or weights, or else the array's own

    Returns
    -------
    Watch
        a context manager. ``watch["0.weight"]`` and ``watch["0.weight.gradient"]`` are statistics with the attributes
        ``largest``, ``mean``, ``n``, ``zeros``, ``underflow``, ``overflow``, ``nan``, ``histogram`` (64 powers of two from 2**-48
        on), ``sampled`` and ``line``; mean and histogram are of a sample of at most 65,536 elements. ``print(watch)`` is a table
        that names each tensor that overflows, its line, and a format that would hold it; ``watch.records`` and ``watch.plot()``
        show it over time, and so does the page of ``wf.profile(..., watch=watch)``; ``watch.record()`` appends a record

    Raises
    ------
    TypeError, ValueError, DTypeError
        ``model`` is not a Module; ``every`` is not positive; ``only`` is no pattern or matches nothing; ``format`` is not a
        float format, or one of scales.

    Examples
    --------
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.ReLU(), wf.nn.Linear(4, 2))
    >>> with wf.watch(net, format="float8_e4m3fn") as watch:
    ...     gradient = wf.grad(lambda net, x: (net(x) * 1e4).sum())(net, wf.ones((5, 3)))
    >>> watch["2.bias.gradient"].overflow, watch["2.bias.gradient"].fits
    (2, 'float8_e5m2')
    """
    return Watch(model, only, every, format)


def _is_mapped() -> bool:
    """Return whether the call is inside of ``vmap``, where one cell cannot contain the statistics of every example."""
    trace = CONTEXT.trace
    while trace is not None and not isinstance(trace, VmapTrace):
        trace = trace.parent
    return trace is not None


def _is_chosen(name: str, only: Any) -> bool:
    if only is None:
        return True
    return any(name == p or matches(name, p) for p in ((only,) if isinstance(only, str) else only))


def measure(x: Array, form: Format) -> Array:
    """Return the contents of a cell for an array of floats with at least one element."""
    wide = "float64" if parse_dtype(x.dtype) is FLOAT64 else "float32"
    a = absolute(x).astype(wide)
    is_nan, integer = isnan(a), "int64"
    sample = absolute(_sample(stop_gradient(x))).astype("float32")
    finite = isfinite(sample)
    bins = (sample.view("int32") >> 23) - 127 - LOWEST
    bins = where(finite & (sample != 0), bins.clip(0, BINS - 1), -1)
    histogram = (bins.reshape(-1, 1) == np.arange(BINS, dtype=np.int32)).sum(0, dtype=integer)
    limit, least = _overflow_limit(form, wide), 0.0 if form is parse_dtype(x.dtype) else _underflow_limit(form)
    over = a >= limit
    if form.special == "fixed":  # which has one more number below zero than above
        over = where(x < 0, a > 3 * limit - 2 * form.largest, over)
    sums: list[Any] = [
        1.0, float(x.size), equal(a, 0).sum(dtype=integer),
        ((a < least) & (a != 0)).sum(dtype=integer) if least else 0.0,
        over.sum(dtype=integer), is_nan.sum(dtype=integer), finite.sum(dtype=integer),
        where(finite, sample, 0).sum(dtype="float64"), where(is_nan, 0, a).max(),
    ]
    first = stack([zeros((), dtype="float64") + s if isinstance(s, float) else s.astype("float64") for s in sums])
    return concatenate([first, histogram.astype("float64")])


def _sample(x: Array) -> Array:
    """Return at most MAX_SAMPLE elements: all, or blocks at equal distances."""
    flat, step = x.reshape(-1), -(-x.size // MAX_SAMPLE)
    if step == 1:
        return flat
    rows = x.size // (BLOCK * step)
    return flat[: rows * BLOCK * step].reshape(rows, BLOCK * step)[:, :BLOCK].reshape(-1)


def _overflow_limit(form: Format, wide: str) -> float:
    """Return the smallest number of a wide format that is rounded beyond the largest number, or infinity.

    Half a step above the largest number is a tie. It goes beyond if the largest number's last bit is odd.
    """
    field = max(form.top >> form.mantissa, 1 if form.special != "scale" else 0)
    half = 2.0 ** (field - form.bias - form.mantissa - 1)
    with np.errstate(over="ignore"):
        tie = np.dtype(wide).type(form.largest + half)
        return float(tie if form.top & 1 or form.special == "scale" else np.nextafter(tie, np.inf, dtype=wide))


def _underflow_limit(form: Format) -> float:
    """Return the magnitude below which numbers are rounded to 0. Half of the smallest number is a tie, which becomes 0 too."""
    step = form.smallest_normal * 2.0**-form.mantissa
    if form.subnormals:
        return float(np.nextafter(step / 2, 1.0) if form.computed is form else np.nextafter(np.float32(step / 2), np.float32(1)))
    return form.smallest_normal - step / 2


@cache
def _make_measuring_identity(form: Format) -> Callable[[Array, Array], Array]:
    """Return the function ``(x, tap) -> x``; the gradient by ``tap`` is what was measured of the gradient by ``x``."""

    @custom_vjp
    def watch(x: Array, tap: Array) -> Array:
        return x

    watch.defvjp(lambda x, tap: (x, None), lambda _, g: (g, measure(g, form)))
    return watch


complete_docs(watch)
