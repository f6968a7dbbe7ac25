"""A profile as text, for terminals."""

from __future__ import annotations

from weft.errors import seconds
from weft.tools.profile_figures import Figures
from weft.tools.profile_report import Row, places
from weft.tools.profile_words import UNKNOWN, amount, percent, short

Rows = list[tuple[str, ...]]
MOST = 12  # rows of a table
WIDEST = 150


def layer_table(profile: Figures) -> list[tuple[str, ...]]:
    """Return the table of layers and their times. The last rows are the time outside kernels and the sum."""
    out: Rows = [("layer", "kind", "forward", "backward", "update", unit_of(profile)[0], "share")]
    for row in profile.layers:
        out.append((row.name, row.detail, *_times(profile, row)))
    out.append(("(calls and Python)", "", "", "", "", _in(profile, profile.outside), percent(profile.outside / profile.seconds)))
    phases = (_in(profile, profile.phases[p]) for p in ("forward", "backward", "update"))
    out.append(("sum", "", *phases, _in(profile, profile.seconds), percent(1.0)))
    return out


def line_table(profile: Figures) -> list[tuple[str, ...]]:
    out: Rows = [("line", "forward", "backward", "update", unit_of(profile)[0], "share", "source")]
    for row in profile.lines:
        out.append((short(row.name), *_times(profile, row), row.detail))
    return out


def _times(profile: Figures, row: Row) -> list[str]:
    times = [_in(profile, x, row.estimated) for x in (row.forward, row.backward, row.update, row.seconds)]
    return [*times, percent(row.seconds / profile.seconds, row.estimated)]


def kernel_table(profile: Figures) -> list[tuple[str, ...]]:
    """Return the table of kernels, those with the most time above the floor first."""
    out: Rows = [("kernel", "runs", unit_of(profile)[0], "share", "GFLOP/s", "GB/s", "of floor", "reason", "where")]
    for k in profile.kernels:
        out.append((
            k.name, f"{k.runs:g}", _in(profile, k.seconds), percent(k.seconds / profile.seconds),
            f"{k.flops_per_second / 1e9:.1f}", f"{k.bytes_per_second / 1e9:.1f}", f"{100 * k.of_floor:.0f} %", k.reason,
            places(k.parts),
        ))
    return out


def text(profile: Figures) -> str:
    """Return the profile as text."""
    out = [head(profile), "", profile.culprit.sentence, ""]
    for rows, left, last in ((layer_table(profile), 2, 2), (line_table(profile), 1, 0), (kernel_table(profile), 1, 0)):
        if len(rows) > 1 and {r[0] for r in rows[1:]} != {UNKNOWN}:
            out += [*_table(rows, left, last), ""]
    out.append(foot(profile))
    return "\n".join(out)


def head(profile: Figures) -> str:
    m, count = profile.machine, len(profile.kernels)
    busy = f", as a whole {seconds(profile.measured)}: the machine is busy" if profile.measured > 1.2 * profile.seconds else ""
    return (
        f"{profile.name}: {seconds(profile.seconds)} a call (the least of {profile.calls}{busy}), "
        f"{seconds(profile.inside)} of it in {count} kernel{'' if count == 1 else 's'}, "
        f"{m.threads} thread{'' if m.threads == 1 else 's'}"
    )


def foot(profile: Figures) -> str:
    m = profile.machine
    return (
        "~ a share of a fused kernel, estimated from its arithmetic and memory traffic\n"
        f"of floor: 100 % is as fast as this machine goes: {amount(m.flops)}FLOP/s in float32, "
        f"{amount(m.bandwidth[0][1])}B/s in cache, {amount(m.memory)}B/s in memory, as measured"
    )


def unit_of(profile: Figures) -> tuple[str, float]:
    """Return the unit of time in a profile's tables, as text and in seconds."""
    return ("ms", 1e-3) if profile.seconds >= 1e-3 else ("us", 1e-6)


def _in(profile: Figures, s: float, estimated: bool = False) -> str:
    value = s / unit_of(profile)[1]
    if not value:
        return ""
    digits = 0 if value >= 999.5 else 1 if value >= 99.95 else 2
    return "<0.01" if value < 0.005 else f"{'~' if estimated else ''}{value:.{digits}f}"


def _table(rows: list[tuple[str, ...]], left: int, last: int) -> list[str]:
    """Return the lines of a table. Align the first ``left`` columns and text to the left, numbers to the right. Of a long table
    omit rows before the ``last`` ones."""
    visible, n_hidden = rows, len(rows) - MOST - 1 - last
    if n_hidden > 1:
        visible = [*rows[: MOST + 1], *rows[len(rows) - last:]]
    text_columns = {"reason", "where", "source", "kind"}
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
