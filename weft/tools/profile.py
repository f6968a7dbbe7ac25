"""profile: measure where the time of a function goes, and report why: as text, HTML, a picture, or a trace for Perfetto."""

from __future__ import annotations

import functools
import io
import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.errors import amount, seconds
from weft.kernel.ir import Kernel
from weft.nn.watch import Watch
from weft.placement.device_figures import Machine, machine
from weft.process.figures import make_figure
from weft.schedule.program import Program
from weft.tools import profile_report as report
from weft.tools import profile_session as sessions
from weft.tools.profile_gains import BATCH, LEAST_GAIN, SETTINGS, Gain, find_gains, pair_kernels, plan_larger_batch
from weft.tools.profile_report import OUTSIDE_LAYERS, UNKNOWN, Culprit, Event, KernelTime, Row, percent, places, short


@dataclass(frozen=True, repr=False)
class Profile:
    """The result of :func:`profile`, to be printed, displayed in a notebook, or saved by :meth:`save`. All times are seconds of
    one call.

    Attributes
    ----------
    name : name of the function
    calls : number of measured calls; all times are minima over the calls, since other programs can only add time
    measured : the shortest whole call
    seconds : duration of a call as the sum of the minima of its parts; on a busy machine less than ``measured``
    inside : the sum of the kernels' times
    outside : the rest
    phases : seconds of "forward", "backward" and "update"
    layers, lines : one Row each, the slowest first
    kernels : one KernelTime each, the worst first, by the time above the minimum on this machine
    culprit : the place to optimise first
    machine : the measured limits of this machine
    batch_known : whether the gain of a larger batch could be estimated
    watch : the argument ``watch``, whose statistics the HTML page shows
    """

    name: str
    calls: int
    measured: float
    seconds: float
    inside: float
    phases: dict[str, float]
    layers: tuple[Row, ...]
    lines: tuple[Row, ...]
    kernels: tuple[KernelTime, ...]
    culprit: Culprit
    machine: Machine
    events: tuple[Event, ...] = field(repr=False)
    batch_known: bool = False
    watch: Watch | None = None

    @property
    def advice(self) -> tuple[Gain, ...]:
        """The gain of the whole call from each setting, the best first: of its kernels, by the cost model.

        A larger batch also shares the measured time outside kernels among more examples.
        """
        saved: dict[str, float] = {BATCH: self.outside / 2} if self.batch_known else {}
        for kernel in self.kernels:
            for gain in kernel.gains:
                saved[gain.setting] = saved.get(gain.setting, 0.0) + kernel.seconds * (1 - 1 / gain.factor)
        gains = [Gain(setting, self.seconds / (self.seconds - s)) for setting, s in saved.items() if s < self.seconds]
        return tuple(sorted([g for g in gains if g.factor >= LEAST_GAIN], key=lambda gain: -gain.factor))

    @property
    def outside(self) -> float:
        """Seconds of a call outside kernels: Python, and the calls of programs."""
        return max(0.0, self.seconds - self.inside)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"Profile({head(self)})"

    def _repr_html_(self) -> str:
        return fragment(self)

    def chrome_trace(self) -> dict[str, Any]:
        """Return one call as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing, as a dict for ``json.dump``."""
        return chrome_trace(self)

    def save(self, path: str | os.PathLike) -> None:
        """Write the profile to a file, in the format of its extension.

        Parameters
        ----------
        path : ``.html`` a page that needs no network, ``.png`` a picture (matplotlib, ``pip install 'weft-array[plot]'``),
            ``.json`` a trace of one call for Perfetto and chrome://tracing, ``.txt`` the printed text

        Raises
        ------
        ValueError
            The file has another extension.
        """
        check_ending(path)
        content = _WRITERS[Path(path).suffix](self)
        Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())


def check_ending(path: str | os.PathLike) -> None:
    """Raise ValueError if :meth:`Profile.save` does not support the extension of the file name."""
    end = Path(path).suffix
    if end not in _WRITERS:
        raise ValueError(f"profile: the name of its file must end in .html, .png, .json or .txt, not in {end!r}: {path}")


MAX_ROWS = 12  # rows of a table
WIDEST = 150


def layer_table(profile: Profile) -> list[tuple[str, ...]]:
    """Return the table of layers and their times. The last rows are the time outside kernels and the sum."""
    phases = (_in(profile, profile.phases[p]) for p in ("forward", "backward", "update"))
    return [
        ("layer", "kind", "forward", "backward", "update", unit_of(profile)[0], "share"),
        *((row.name, row.detail, *_times(profile, row)) for row in profile.layers),
        ("(calls and Python)", "", "", "", "", _in(profile, profile.outside), percent(profile.outside / profile.seconds)),
        ("sum", "", *phases, _in(profile, profile.seconds), percent(1.0)),
    ]


def line_table(profile: Profile) -> list[tuple[str, ...]]:
    titles = ("line", "forward", "backward", "update", unit_of(profile)[0], "share", "source")
    return [titles, *((short(row.name), *_times(profile, row), row.detail) for row in profile.lines)]


def _times(profile: Profile, row: Row) -> list[str]:
    times = [_in(profile, x, row.estimated) for x in (row.forward, row.backward, row.update, row.seconds)]
    return [*times, percent(row.seconds / profile.seconds, row.estimated)]


def kernel_table(profile: Profile) -> list[tuple[str, ...]]:
    """Return the table of kernels, those with the most time above the floor first."""
    titles = ("kernel", "runs", unit_of(profile)[0], "share", "GFLOP/s", "GB/s", "of floor", "bound", "gains", "reason", "where")
    out: list[tuple[str, ...]] = [titles]
    for k in profile.kernels:
        out.append((
            k.name, f"{k.runs:g}", _in(profile, k.seconds), percent(k.seconds / profile.seconds),
            f"{k.flops_per_second / 1e9:.1f}", f"{k.bytes_per_second / 1e9:.1f}", f"{100 * k.of_floor:.0f} %", k.bound,
            ", ".join(map(str, k.gains)), k.reason, places(k.parts),
        ))
    return out


def text(profile: Profile) -> str:
    """Return the profile as text."""
    out = [head(profile), "", profile.culprit.sentence, ""]
    for rows, left, last in ((layer_table(profile), 2, 2), (line_table(profile), 1, 0), (kernel_table(profile), 1, 0)):
        if len(rows) > 1 and {r[0] for r in rows[1:]} != {UNKNOWN}:
            out += [*_text_table(rows, left, last), ""]
    out += [*advise(profile), foot(profile)]
    return "\n".join(out)


def advise(profile: Profile) -> list[str]:
    """Return a line for each setting from which the whole call would gain."""
    return [f"estimated gain {gain.factor:.2g}x: {SETTINGS[gain.setting]}" for gain in profile.advice]


def head(profile: Profile) -> str:
    m, count = profile.machine, len(profile.kernels)
    busy = f", as a whole {seconds(profile.measured)}: the machine is busy" if profile.measured > 1.2 * profile.seconds else ""
    return (
        f"{profile.name}: {seconds(profile.seconds)} a call (the least of {profile.calls}{busy}), "
        f"{seconds(profile.inside)} of it in {count} kernel{'' if count == 1 else 's'}, "
        f"{m.threads} thread{'' if m.threads == 1 else 's'}"
    )


def foot(profile: Profile) -> str:
    m = profile.machine
    return (
        "~ a share of a fused kernel, estimated from its arithmetic and memory traffic\n"
        "bound: the limit that its floor meets; gains: by the cost model, with the figures of this machine\n"
        f"of floor: 100 % is as fast as this machine goes: {amount(m.flops)}FLOP/s in float32, "
        f"{amount(m.bandwidth[0][1])}B/s in cache, {amount(m.memory)}B/s in memory, as measured"
    )


def unit_of(profile: Profile) -> tuple[str, float]:
    """Return the unit of time in a profile's tables, as text and in seconds."""
    return ("ms", 1e-3) if profile.seconds >= 1e-3 else ("us", 1e-6)


def _in(profile: Profile, s: float, estimated: bool = False) -> str:
    value = s / unit_of(profile)[1]
    if not value:
        return ""
    digits = 0 if value >= 999.5 else 1 if value >= 99.95 else 2
    return "<0.01" if value < 0.005 else f"{'~' if estimated else ''}{value:.{digits}f}"


def _text_table(rows: list[tuple[str, ...]], left: int, last: int) -> list[str]:
    """Return the lines of a table. Align the first ``left`` columns and text to the left, numbers to the right. Of a long table
    omit rows before the ``last`` ones."""
    visible, n_hidden = rows, len(rows) - MAX_ROWS - 1 - last
    if n_hidden > 1:
        visible = [*rows[: MAX_ROWS + 1], *rows[len(rows) - last:]]
    text_columns = {"bound", "gains", "reason", "where", "source", "kind"}
    width = [max(len(r[c]) for r in visible) for c in range(len(rows[0]))]
    out = []
    for k, row in enumerate(visible):
        if n_hidden > 1 and k == len(visible) - last:
            out.append(f"  ... and {n_hidden} more")
        cells = [
            cell.ljust(width[c]) if c < left or rows[0][c] in text_columns else cell.rjust(width[c]) for c, cell in enumerate(row)
        ]
        out.append(("  " + "  ".join(cells)).rstrip()[:WIDEST])
    if n_hidden > 1 and not last:
        out.append(f"  ... and {n_hidden} more")
    return out


COLOURS = {"forward": "#3b82c4", "backward": "#d9822b", "update": "#4c9f70", "outside": "#9aa3ad"}
_STYLE = """
.weft-profile{font:14px/1.45 system-ui,sans-serif;max-width:1100px;color:inherit}
.weft-profile .name{font-size:1.3em;font-weight:600}
.weft-profile .title{font-size:1.1em;font-weight:600;margin:1.3em 0 .4em}
.weft-profile table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
.weft-profile td,.weft-profile th{padding:3px 10px;border-bottom:1px solid #8883;text-align:right;white-space:nowrap}
.weft-profile td.t,.weft-profile th.t{text-align:left}
.weft-profile td.code{font-family:ui-monospace,monospace;max-width:520px;overflow:hidden;text-overflow:ellipsis;text-align:left}
.weft-profile .culprit{border-left:4px solid #d9822b;padding:.5em .9em;background:#d9822b18;margin:.8em 0}
.weft-profile .key span{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .35em 0 1em}
.weft-profile .quiet{opacity:.7;font-size:12px}
.weft-profile .wide{overflow-x:auto}
.weft-profile svg text{font:11px system-ui,sans-serif;fill:currentColor}
"""
_TEXT = {"layer", "kind", "line", "kernel", "bound", "gains", "reason", "where", "tensor", "format"}


def page(profile: Profile) -> str:
    """Return the profile as a complete HTML page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(profile.name)}: profile</title>"
        "<style>body{margin:2em auto;max-width:1100px;padding:0 1em}</style></head>"
        f"<body>{fragment(profile)}</body></html>\n"
    )


def fragment(profile: Profile) -> str:
    """Return the profile as an HTML fragment, for notebooks and :func:`page`."""
    key = "".join(f'<span style="background:{c}"></span>{n}' for n, c in COLOURS.items())
    return (
        f'<style>{_STYLE}</style><div class="weft-profile"><div class="name">{escape(head(profile))}</div>'
        f'<div class="culprit">{escape(profile.culprit.sentence)}</div>{_bar(profile)}<div class="key quiet">{key}</div>'
        f"<div class='title'>Layers</div>{_html_table(layer_table(profile))}"
        f"<div class='title'>Lines</div>{_html_table(line_table(profile))}"
        f"<div class='title'>Kernels, worst first</div>{_html_table(kernel_table(profile))}"
        f"{''.join(f'<p>{escape(line)}</p>' for line in advise(profile))}"
        f"<div class='title'>Against what this machine can do</div>{_roofline(profile)}{_numbers(profile.watch)}"
        f'<p class="quiet">{escape(foot(profile))}</p></div>'
    )


def _numbers(watch: Watch | None) -> str:
    """Return the statistics of a watch, over time as pictures if matplotlib is installed."""
    if watch is None or not watch.statistics:
        return ""
    picture = io.StringIO()
    if find_spec("matplotlib") is not None:
        watch.plot().savefig(picture, format="svg", bbox_inches="tight")
    notes = "".join(f'<p class="quiet">{escape(note)}</p>' for note in watch.notes())
    svg = picture.getvalue()
    return f"<div class='title'>Numbers</div>{_html_table(watch.table())}{notes}<div class='wide'>{svg[svg.find('<svg'):]}</div>"


def _html_table(rows: Sequence[tuple[str, ...]]) -> str:
    heads = rows[0]

    def cells(row: tuple[str, ...], tag: str) -> str:
        out = []
        for name, cell in zip(heads, row, strict=True):
            kind = ' class="code"' if name == "source" else ' class="t"' if name in _TEXT else ""
            out.append(f"<{tag}{kind}>{escape(cell)}</{tag}>")
        return "<tr>" + "".join(out) + "</tr>"

    body = "".join(cells(r, "td") for r in rows[1:])
    return f'<div class="wide"><table><thead>{cells(heads, "th")}</thead><tbody>{body}</tbody></table></div>'


def _bar(profile: Profile) -> str:
    """Return the phases as one horizontal bar (SVG)."""
    x, out = 0.0, []
    for name, value in (*profile.phases.items(), ("outside", profile.outside)):
        width = 1000 * value / profile.seconds
        if width > 0:
            title = f"{name}: {seconds(value)}, {percent(value / profile.seconds)}"
            out.append(
                f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="26" fill="{COLOURS[name]}">'
                f"<title>{escape(title)}</title></rect>"
            )
            if width > 110:
                out.append(f'<text x="{x + 6:.1f}" y="17" style="fill:#fff">{name} {percent(value / profile.seconds)}</text>')
        x += width
    return f'<svg viewBox="0 0 1000 26" width="100%" role="img">{"".join(out)}</svg>'


def _roofline(profile: Profile) -> str:
    """Return the roofline plot (SVG): attained FLOP/s over FLOP per byte; the area of a circle is the time of its kernel."""
    m = profile.machine
    dots = [k for k in profile.kernels if k.flops > 0 and k.bytes > 0 and k.seconds > 0]
    if not dots:
        return '<p class="quiet">no kernel with arithmetic</p>'
    at = [math.log10(k.flops / k.bytes) for k in dots]
    low, high = math.floor(min(*at, -1)), math.ceil(max(*at, math.log10(m.flops / m.memory) + 0.5))
    top = math.ceil(math.log10(m.flops) + 0.1)
    bottom = min(top - 2, math.floor(min(math.log10(k.flops_per_second) for k in dots)))
    w, h = 760, 340

    def x(intensity: float) -> float:
        return 60 + (w - 80) * (intensity - low) / (high - low)

    def y(rate: float) -> float:
        return 15 + (h - 55) * (top - rate) / (top - bottom)

    out = []
    for e in range(bottom, top + 1):
        out.append(f'<line x1="60" x2="{w - 20}" y1="{y(e):.1f}" y2="{y(e):.1f}" stroke="#8883"/>')
        out.append(f'<text x="54" y="{y(e) + 4:.1f}" text-anchor="end">{amount(10.0 ** e)}</text>')
    for e in range(low, high + 1):
        out.append(f'<text x="{x(e):.1f}" y="{h - 24}" text-anchor="middle">{10.0 ** e:g}</text>')
    out.append(f'<text x="{w / 2}" y="{h - 6}" text-anchor="middle">arithmetic a byte (FLOP/B)</text>')
    out.append('<text x="60" y="11" text-anchor="start">FLOP/s</text>')
    for rate, name in ((m.memory, "memory"), (m.bandwidth_at(1 << 15), "cache")):
        knee = math.log10(m.flops / rate)
        first = max(low, bottom - math.log10(rate))
        corners = [first, knee, high] if knee < high else [first, high]
        points = " ".join(f"{x(c):.1f},{y(min(math.log10(m.flops), c + math.log10(rate))):.1f}" for c in corners)
        dash = "" if name == "memory" else ' stroke-dasharray="5 4"'
        line = f'<polyline points="{points}" fill="none" stroke="#888" stroke-width="1.5"{dash}>'
        out.append(f"{line}<title>{name}</title></polyline>")
    for k, i in zip(dots, at, strict=True):
        phase = k.parts[0].place.phase if k.parts else "outside"
        radius = 4 + 16 * math.sqrt(k.seconds / profile.seconds)
        title = f"{k.name}: {seconds(k.seconds)}, {amount(k.flops_per_second)}FLOP/s, {percent(k.of_floor)} of floor, {k.reason}"
        out.append(
            f'<circle cx="{x(i):.1f}" cy="{y(math.log10(k.flops_per_second)):.1f}" r="{radius:.1f}" fill="{COLOURS[phase]}" '
            f'fill-opacity=".65"><title>{escape(title)}</title></circle>'
        )
    return (
        f'<svg viewBox="0 0 {w} {h}" width="100%" style="max-width:{w}px" role="img">{"".join(out)}</svg>'
        '<p class="quiet">Solid: memory; dashed: cache. The area of a circle is the time of its kernel.</p>'
    )


_MAX_PICTURE_ROWS = 14  # rows in the picture


def picture(profile: Profile) -> bytes:
    """Return the profile as the bytes of a PNG file; raise ImportError if matplotlib is not installed."""
    import textwrap

    layers = [r for r in profile.layers if r.name != OUTSIDE_LAYERS]
    rows = (profile.layers if layers else profile.lines)[:_MAX_PICTURE_ROWS]
    figure = make_figure((12, 1.8 + 0.33 * max(8, len(rows))), "Profile.save: a .png")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    unit, size = unit_of(profile)
    names = [f"{r.name} {r.detail}" if layers else short(r.name) for r in rows]
    start = [0.0] * len(rows)
    for phase in ("forward", "backward", "update"):
        values = [getattr(r, phase) / size for r in rows]
        left.barh(names, values, left=start, color=COLOURS[phase], label=phase)
        start = [a + b for a, b in zip(start, values, strict=True)]
    left.barh(["(calls and Python)"], [profile.outside / size], color=COLOURS["outside"])
    left.invert_yaxis()
    left.set_xlabel(f"{unit} a call; shares of fused kernels are estimates")
    left.legend(frameon=False)
    _roofline_figure(right, profile)
    figure.suptitle(head(profile) + "\n" + "\n".join(textwrap.wrap(profile.culprit.sentence, 150)), fontsize=9, ha="left", x=0.01)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130)
    return out.getvalue()


def _roofline_figure(axes, profile: Profile) -> None:
    m = profile.machine
    dots = [k for k in profile.kernels if k.flops > 0 and k.bytes > 0 and k.seconds > 0]
    at = [k.flops / k.bytes for k in dots]
    low, high = min([0.05, *at]), max([4 * m.flops / m.memory, *at])
    for rate, style, name in ((m.memory, "-", "memory"), (m.bandwidth_at(1 << 15), "--", "cache")):
        knee = m.flops / rate
        axes.plot([low, knee, max(high, knee)], [low * rate / 1e9, m.flops / 1e9, m.flops / 1e9], style, color="#666", label=name)
    for k, i in zip(dots, at, strict=True):
        colour = COLOURS[k.parts[0].place.phase if k.parts else "outside"]
        axes.scatter(i, k.flops_per_second / 1e9, s=20 + 600 * k.seconds / profile.seconds, color=colour, alpha=0.65)
    axes.set(xscale="log", yscale="log", xlabel="arithmetic a byte (FLOP/B)", ylabel="GFLOP/s")
    axes.legend(frameon=False, loc="lower right")


_TRACKS = {1: "kernels (measured)", 2: "layers (~ shares of kernels)", 3: "lines (~ shares of kernels)"}


def chrome_trace(profile: Profile) -> dict[str, Any]:
    """Return the trace of one call: the measured kernels, and below them their layers and lines. Times are microseconds."""
    process = {"pid": os.getpid()}
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "args": {"name": f"weft: {profile.name}"}, **process}]
    for number, name in _TRACKS.items():
        events.append({"ph": "M", "name": "thread_name", "tid": number, "args": {"name": name}, **process})
        events.append({"ph": "M", "name": "thread_sort_index", "tid": number, "args": {"sort_index": number}, **process})
    kernel_by_name = {k.name: k for k in reversed(profile.kernels)}
    for e in profile.events:
        begin, length = e.begin / 1e3, e.length / 1e3
        work, kernel = e.work, kernel_by_name.get(e.work.name)
        detail: dict[str, Any] = {"kind": work.kind, "flops": work.flops, "bytes": work.bytes}
        if e.length:
            detail |= {"GFLOP/s": round(work.flops / e.length, 2), "GB/s": round(work.bytes / e.length, 2)}
        if kernel is not None:
            detail["reason"], detail["where"] = kernel.why, places(kernel.parts)
        own = {"name": work.name, "cat": work.kind, "ts": begin, "dur": length, "tid": 1, "args": detail}
        events.append({"ph": "X", **own, **process})
        at = begin
        for place, share in e.parts:
            args: dict[str, Any] = {"phase": place.phase, "layer": place.layer, "line": place.line, "source": place.source}
            args["estimated"] = len(e.parts) > 1
            for number, name in ((2, place.layer or OUTSIDE_LAYERS), (3, short(place.line) or UNKNOWN)):
                events.append({
                    "ph": "X", "name": f"{name} {place.phase}", "cat": place.phase, "ts": at, "dur": share * length,
                    "tid": number, "args": args, **process,
                })
            at += share * length
    metadata = {"function": profile.name, "culprit": profile.culprit.sentence}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": metadata}


_WRITERS: dict[str, Callable[[Profile], str | bytes]] = {
    ".html": page, ".png": picture, ".json": lambda p: json.dumps(chrome_trace(p)), ".txt": lambda p: text(p) + "\n",
}

BUDGET = 0.6  # seconds for the timed calls, if ``repeat`` is not given


def profile(
    f: Callable, *args: Any, repeat: int | None = None, show: bool = True, watch: Watch | None = None, **kwargs: Any,
) -> Profile:
    """Measure where the time of ``f(*args, **kwargs)`` goes, by layer, line and kernel, and name the place to optimise first.

    The kernels are the same as without a profile. ``f`` is called several times. Arrays that it writes and that can be reached
    from it or its arguments (parameters, optimizer, random state) are restored; other changes to Python objects stay. State that
    the first call creates, such as an optimizer's, stays as this call left it.

    Parameters
    ----------
    f : function, jitted or not, method, or module. One that is not jitted may read contents; Python's time is then included.
    args, kwargs : arguments of ``f``
    repeat : number of measured calls; by default as many as fit into about half a second, at least 3
    show : print the tables (a notebook displays the returned object)
    watch : a result of :func:`weft.watch`, outside of its ``with`` block. The HTML page then shows its statistics and their
        pictures too; the profiled calls are not watched

    Returns
    -------
    Profile : ``print`` it or ``save("profile.html")``, also ``.png``, ``.json`` (a trace for Perfetto) and ``.txt``

    Raises
    ------
    TypeError, ValueError
        ``f`` is not a function, ``repeat`` is not positive, or ``watch`` is not a result of :func:`weft.watch`.
    TraceError
        Called inside jit, grad or another profile.
    DeviceError
        The device is a GPU or gpu-sim, whose steps are not timed: profile on the CPU, inside ``with wf.device("cpu"):``.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.random.normal(size=(1000, 100))
    >>> found = wf.profile(wf.jit(lambda x: wf.exp(x - x.max(axis=1, keepdims=True))), x, repeat=3, show=False)
    >>> len(found.kernels), found.kernels[0].runs
    (1, 1)
    >>> found.seconds >= found.inside > 0
    True
    """
    sessions.check_call("profile", f, repeat)
    if watch is not None and not isinstance(watch, Watch):
        raise TypeError(f"profile: watch must be a result of wf.watch, not {type(watch).__name__}")
    with sessions.Session() as session:  # raises now if a profile is not possible
        pass
    with sessions.restore_arrays(f, args, kwargs) as arrays:
        # behind the first call, which may make an optimizer's state, and before the others, whose arrays a function may keep
        larger = plan_larger_batch(f, args, kwargs)
        times = sessions.measure_calls(session, functools.partial(sessions.time_call, f, args, kwargs, arrays), repeat, BUDGET)
    result = replace(_evaluate(sessions.name_of(f), session, *times, larger), watch=watch)
    if show and not sessions.in_notebook():
        print(result)
    return result


def _evaluate(
    name: str, session: sessions.Session, wholes: list[int], timed: list[int], runs: list[list[sessions.Run]],
    larger: Program | None,
) -> Profile:
    limits = machine()
    works_of = functools.cache(lambda unit: sessions.list_work(unit.program, unit.groups, limits))
    steps = report.steps_of(runs, works_of)
    inside = sum(s.seconds for s in steps)
    outside = min(ns - sum(t for run in ran for _, t in run.times) for ns, ran in zip(timed, runs, strict=True)) * 1e-9
    quickest = min(wholes) * 1e-9
    whole = max(min(quickest, inside + outside), inside, 1e-9)
    best = timed.index(min(timed))
    find_place = functools.cache(functools.partial(report.find_place, session))
    node_counter, writes = report.node_counts(runs[best])
    kernels, reasons = [], {}
    # of a call that runs one program only: of several none is known to be the larger one's
    larger_kernels = pair_kernels(runs[best][0].unit.program, larger) if len(runs[best]) == 1 else {}
    for step in steps:
        reason = report.find_reason(step, limits, writes)
        kernel = _kernel(step, limits, reason, find_place, larger_kernels.get(step.number))
        kernels.append(kernel)
        reasons[id(kernel)] = reason
    kernels.sort(key=lambda k: (-k.lost, -k.seconds))
    phases = {p: sum(part.seconds for k in kernels for part in k.parts if part.place.phase == p) for p in report.PHASES}
    programs = statistics.median(map(len, runs))
    unjitted_runs = statistics.median([sum(not run.unit.function_name for run in call) for call in runs])
    traced = session.trace_count / len(runs)
    reason, line = report.overhead_reason(whole, inside, programs, unjitted_runs, traced, node_counter, writes)
    blamed_place = find_place((*line, "", "forward")) if line is not None else report.Place("", "", "", "", "", "")
    culprit = report.find_culprit(kernels, reasons, whole, whole - inside, reason, blamed_place)
    layers = report.rows(kernels, lambda place: (place.layer or OUTSIDE_LAYERS, place.kind))
    lines = report.rows(kernels, lambda place: (place.line or UNKNOWN, place.source))
    begin = min((t for run in runs[best] for t, _ in run.times), default=0)
    events = [
        Event(work, start - begin, ns, [(find_place(o), share) for o, share in sorted(work.parts.items(), key=lambda p: -p[1])])
        for run in runs[best] for (start, ns), work in zip(run.times, works_of(run.unit), strict=True)
    ]
    return Profile(
        name, len(wholes), quickest, whole, inside, phases, layers, lines, tuple(kernels), culprit, limits,
        tuple(events), bool(larger_kernels),
    )


def _kernel(
    step: report.StepTime, limits: Machine, reason: report.Reason, place: Callable, larger: tuple[Kernel, int] | None,
) -> report.KernelTime:
    work, runs = step.work, step.runs
    arithmetic, memory = work.floor(limits)
    parts = [report.Share(place(origin), share * step.seconds, len(work.parts) > 1) for origin, share in work.parts.items()]
    bound = "arithmetic" if arithmetic > memory else "memory"
    gains = () if work.kernel is None else find_gains(work.kernel, work.bytes, work.nodes, limits, larger)
    return report.KernelTime(
        work.name, work.kind, runs, step.seconds, runs * max(arithmetic, memory), bound,
        runs * work.flops, runs * work.bytes, reason.name, reason.why, tuple(sorted(parts, key=lambda p: -p.seconds)), gains,
    )
