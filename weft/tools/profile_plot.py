"""A profile as a picture: phases by layer, or by line where there are no layers, and the roofline."""

from __future__ import annotations

import io

from weft.tools.profile_figures import Figures
from weft.tools.profile_html import COLOURS
from weft.tools.profile_text import head, unit_of
from weft.tools.profile_words import short

_MOST = 14


def picture(profile: Figures) -> bytes:
    """A PNG file's bytes.

    Raises
    ------
    ImportError
        where matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Profile.save: a .png needs matplotlib: pip install weft[plot]") from None
    import textwrap

    layers = [r for r in profile.layers if r.name != "(outside layers)"]
    rows = (profile.layers if layers else profile.lines)[:_MOST]
    figure = Figure(figsize=(12, 1.8 + 0.33 * max(8, len(rows))), layout="constrained")
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
    _roofline(right, profile)
    figure.suptitle(head(profile) + "\n" + "\n".join(textwrap.wrap(profile.culprit.sentence, 150)), fontsize=9, ha="left", x=0.01)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130)
    return out.getvalue()


def _roofline(axes, profile: Figures) -> None:
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
