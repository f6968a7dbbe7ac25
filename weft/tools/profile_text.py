"""A profile as text, for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.graph.origin import file_name

if TYPE_CHECKING:
    from weft.tools.profile import Profile
    from weft.tools.profile_report import Row

Rows = list[tuple[str, ...]]
MOST = 12  # rows of a table
WIDEST = 150
UNKNOWN = "(unknown line)"


def seconds(s: float) -> str:
    """``1.32 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if s >= size:
            return f"{s / size:.3g} {unit}" if s < 999.5 * size else f"{s / size:.0f} {unit}"
    return f"{s * 1e9:.2g} ns" if s < 1e-8 else f"{s * 1e9:.0f} ns"


def amount(n: float) -> str:
    """``1.3 G``: a unit is to follow."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 999.5 * size else f"{n / size:.0f} {unit}"
    return f"{n:.0f} "


def short(line: str) -> str:
    """``net.py:12``."""
    file, colon, number = line.rpartition(":")
    return f"{file_name(file)}:{number}" if colon else line


def percent(share: float, estimated: bool = False) -> str:
    return "<0.1 %" if 0 < share < 0.0005 else f"{'~' if estimated else ''}{100 * share:.1f} %"


def layer_table(profile: Profile) -> list[tuple[str, ...]]:
    """Layers and their milliseconds; the last rows are what is outside kernels, and the sum."""
    out: Rows = [("layer", "kind", "forward", "backward", "update", unit_of(profile)[0], "share")]
    for row in profile.layers:
        out.append((row.name, row.detail, *_times(profile, row)))
    out.append(("(calls and Python)", "", "", "", "", _in(profile, profile.outside), percent(profile.outside / profile.seconds)))
    phases = (_in(profile, profile.phases[p]) for p in ("forward", "backward", "update"))
    out.append(("sum", "", *phases, _in(profile, profile.seconds), percent(1.0)))
    return out


def line_table(profile: Profile) -> list[tuple[str, ...]]:
    out: Rows = [("line", "forward", "backward", "update", unit_of(profile)[0], "share", "source")]
    for row in profile.lines:
        out.append((short(row.name), *_times(profile, row), row.detail))
    return out


def _times(profile: Profile, row: Row) -> list[str]:
    found = [_in(profile, x, row.estimated) for x in (row.forward, row.backward, row.update, row.seconds)]
    return [*found, percent(row.seconds / profile.seconds, row.estimated)]


def kernel_table(profile: Profile) -> list[tuple[str, ...]]:
    """Worst first: by the time lost above the floor."""
    out: Rows = [("kernel", "runs", unit_of(profile)[0], "share", "GFLOP/s", "GB/s", "of floor", "reason", "where")]
    for k in profile.kernels:
        out.append((
            k.name, f"{k.runs:g}", _in(profile, k.seconds), percent(k.seconds / profile.seconds),
            f"{k.flops_per_second / 1e9:.1f}", f"{k.bytes_per_second / 1e9:.1f}", f"{100 * k.of_floor:.0f} %", k.reason,
            places(k.parts),
        ))
    return out


def places(parts: Sequence) -> str:
    """Where a kernel comes from, the largest share first: layers and phases, or lines outside of layers."""
    names: dict[str, float] = {}
    for part in parts:
        p = part.place
        name = f"{p.layer} {p.phase}" if p.layer else short(p.line)
        names[name] = names.get(name, 0.0) + part.seconds
    return ", ".join([n for n in sorted(names, key=lambda n: -names[n]) if n][:4])


def text(profile: Profile) -> str:
    """All of a profile, worst first."""
    out = [head(profile), "", profile.culprit.sentence, ""]
    for rows, left, last in ((layer_table(profile), 2, 2), (line_table(profile), 1, 0), (kernel_table(profile), 1, 0)):
        if len(rows) > 1 and {r[0] for r in rows[1:]} != {UNKNOWN}:
            out += [*_table(rows, left, last), ""]
    out.append(foot(profile))
    return "\n".join(out)


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
        f"of floor: 100 % is as fast as this machine goes: {amount(m.flops)}FLOP/s in float32, "
        f"{amount(m.bandwidth[0][1])}B/s in cache, {amount(m.memory)}B/s in memory, as measured"
    )


def unit_of(profile: Profile) -> tuple[str, float]:
    """The unit of a profile's tables and its seconds."""
    return ("ms", 1e-3) if profile.seconds >= 1e-3 else ("us", 1e-6)


def _in(profile: Profile, s: float, estimated: bool = False) -> str:
    value = s / unit_of(profile)[1]
    if not value:
        return ""
    digits = 0 if value >= 999.5 else 1 if value >= 99.95 else 2
    return "<0.01" if value < 0.005 else f"{'~' if estimated else ''}{value:.{digits}f}"


def _table(rows: list[tuple[str, ...]], left: int, last: int) -> list[str]:
    """Columns: the first ``left`` and texts to the left, numbers to the right; of a long table the ``last`` rows stay."""
    shown, hidden = rows, len(rows) - MOST - 1 - last
    if hidden > 1:
        shown = [*rows[: MOST + 1], *rows[len(rows) - last:]]
    words = {"reason", "where", "source", "kind"}
    width = [max(len(r[c]) for r in shown) for c in range(len(rows[0]))]
    out = []
    for k, row in enumerate(shown):
        if hidden > 1 and k == len(shown) - last:
            out.append(f"  ... and {hidden} more")
        cells = [
            cell.ljust(width[c]) if c < left or rows[0][c] in words else cell.rjust(width[c]) for c, cell in enumerate(row)
        ]
        out.append(("  " + "  ".join(cells)).rstrip()[:WIDEST])
    if hidden > 1 and not last:
        out.append(f"  ... and {hidden} more")
    return out
