"""A profile as HTML: tables and drawings in one text, without scripts and without a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from weft.errors import seconds
from weft.tools.profile_figures import Figures
from weft.tools.profile_text import foot, head, kernel_table, layer_table, line_table
from weft.tools.profile_words import amount, percent

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
_TEXT = {"layer", "kind", "line", "kernel", "reason", "where"}


def page(profile: Figures) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(profile.name)}: profile</title>"
        "<style>body{margin:2em auto;max-width:1100px;padding:0 1em}</style></head>"
        f"<body>{fragment(profile)}</body></html>\n"
    )


def fragment(profile: Figures) -> str:
    """What a notebook shows."""
    key = "".join(f'<span style="background:{c}"></span>{n}' for n, c in COLOURS.items())
    return (
        f'<style>{_STYLE}</style><div class="weft-profile"><div class="name">{escape(head(profile))}</div>'
        f'<div class="culprit">{escape(profile.culprit.sentence)}</div>{_bar(profile)}<div class="key quiet">{key}</div>'
        f"<div class='title'>Layers</div>{_table(layer_table(profile))}"
        f"<div class='title'>Lines</div>{_table(line_table(profile))}"
        f"<div class='title'>Kernels, worst first</div>{_table(kernel_table(profile))}"
        f"<div class='title'>Against what this machine can do</div>{_roofline(profile)}"
        f'<p class="quiet">{escape(foot(profile))}</p></div>'
    )


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    heads = rows[0]

    def cells(row: tuple[str, ...], tag: str) -> str:
        out = []
        for name, cell in zip(heads, row, strict=True):
            kind = ' class="code"' if name == "source" else ' class="t"' if name in _TEXT else ""
            out.append(f"<{tag}{kind}>{escape(cell)}</{tag}>")
        return "<tr>" + "".join(out) + "</tr>"

    body = "".join(cells(r, "td") for r in rows[1:])
    return f'<div class="wide"><table><thead>{cells(heads, "th")}</thead><tbody>{body}</tbody></table></div>'


def _bar(profile: Figures) -> str:
    """Phases as one bar."""
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


def _roofline(profile: Figures) -> str:
    """Kernels by arithmetic per byte and by what they attain, below the roof; the area of a circle is its time."""
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
