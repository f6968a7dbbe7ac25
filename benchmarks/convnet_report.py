"""Tables and the picture of ``weft bench convnets``, from its record."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.nets import Net, layers

COLUMNS = ("forward ms", "backward", "total", "GFLOP/s", "GMAC/s", "of peak")
WIDTHS = (11, 10, 10, 9, 8, 9)


def times(seconds: Mapping[str, float]) -> tuple[float, float]:
    """Return the seconds of forward and backward pass: of a whole net, whose step has both, or the sum of a layer's gradients."""
    forward = seconds["forward"]
    return forward, seconds["step"] - forward if "step" in seconds else sum(seconds.values()) - forward


def computed(layer: Mapping[str, Any], seconds: Mapping[str, float], batch: int) -> int:
    """Return the multiply-adds of all passes that were timed: each gradient of a product takes as many as the product."""
    return batch * layer["multiply_adds"] * len(seconds)


def cells(forward: float, backward: float, multiply_adds: float, peak: float) -> list[str]:
    """Return the columns of a library."""
    total = forward + backward
    out = [f"{1e3 * t:.3f}" if t < 1 else f"{1e3 * t:.1f}" for t in (forward, backward, total)]
    if not multiply_adds:
        return [*out, "", "", ""]
    rate = multiply_adds / total
    return [*out, f"{2 * rate / 1e9:.0f}", f"{rate / 1e9:.0f}", f"{200 * rate / peak:.0f} %"]


def _print_row(name: str, shape: str, parts: Sequence[Sequence[str]], ratio: str, limit: str = "") -> None:
    body = "".join(cell.rjust(width) for part in parts for cell, width in zip(part, WIDTHS, strict=True))
    print(f"{name:14}{shape:>13}{body}{ratio:>{12 if ratio else 0}}  {limit}".rstrip(), flush=True)


def _ratio(totals: Mapping[str, float]) -> str:
    return f"{totals['torch'] / totals['weft']:.2f}" if "torch" in totals else ""


def print_head(record: Mapping[str, Any], name: str, net: Net) -> None:
    libraries, threads, peak = record["versions"], record["threads"], record["peak_flops"]
    found = layers(net)
    clock = "processor time" if record["clock"] == "cpu" else "time"
    versions = ", ".join([f"{library} {version}" for library, version in libraries.items()])
    print(
        f"\n{name} of {record['definition']}, batch {net.batch}, images of {net.side} x {net.side}, {record['precision']}: "
        f"{net.batch * sum([layer.flops for layer in found]) / 1e9:.3f} GFLOP forward (a multiply-add is two, or one MAC)\n"
        f"{versions}; {record['algorithm']} convolutions, {threads} thread{'s' * (threads > 1)}\n"
        f"measured peak {peak / 1e9:.0f} GFLOP/s, "
        f"{record['memory_bytes_per_second'] / 1e9:.0f} GB/s of memory; "
        f"least {clock} of {record['repeats']} calls"
    )
    if len(libraries) > 1:
        print(f"{'':27}" + "".join(f"{library:>{sum(WIDTHS)}}" for library in libraries))
    _print_row("layer", "result", [COLUMNS] * len(libraries), "torch/weft" if len(libraries) > 1 else "", "limit")


def print_layer(record: Mapping[str, Any], name: str, layer: Mapping[str, Any]) -> None:
    batch, peak = record["nets"][name]["batch"], record["peak_flops"]
    parts, totals = [], {}
    for library, seconds in layer["seconds"].items():
        parts.append(cells(*times(seconds), computed(layer, seconds, batch), peak))
        totals[library] = sum(times(seconds))
    _print_row(layer["name"], "x".join(map(str, layer["outside"])), parts, _ratio(totals), layer["limit"])


def sums(record: Mapping[str, Any], name: str, library: str) -> tuple[float, float, int]:
    """Return the seconds of all layers forward and backward, and the multiply-adds of both."""
    found = record["nets"][name]
    each = [times(layer["seconds"][library]) for layer in found["layers"]]
    count = sum([computed(layer, layer["seconds"][library], found["batch"]) for layer in found["layers"]])
    return sum([f for f, _ in each]), sum([b for _, b in each]), count


def print_sums(record: Mapping[str, Any], name: str) -> None:
    parts, totals = [], {}
    for library in record["versions"]:
        forward, backward, count = sums(record, name, library)
        parts.append(cells(forward, backward, count, record["peak_flops"]))
        totals[library] = forward + backward
    _print_row("sum of layers", "", parts, _ratio(totals))


def print_foot(record: Mapping[str, Any], name: str) -> None:
    """Print the whole net, computed as one function with its update, and what memory its training took."""
    found, parts, totals = record["nets"][name], [], {}
    for library, seconds in found["whole"].items():
        _, _, count = sums(record, name, library)
        parts.append(cells(*times(seconds), count, record["peak_flops"]))
        totals[library] = sum(times(seconds))
    _print_row("whole net", "", parts, _ratio(totals))
    forward = found["batch"] * sum([layer["multiply_adds"] for layer in found["layers"]])
    published = ", ".join([f"{library} {6 * forward / t / 1e9:.0f}" for library, t in totals.items()])
    images = ", ".join([f"{library} {found['batch'] / t:.1f}" for library, t in totals.items()])
    print(f"images/s of a training step: {images}")
    print(f"GFLOP/s as published tables count, with the images' gradient, which nobody computes: {published}")
    used = {library: (m["peak"] - m["baseline"]) / 1e6 for library, m in found["memory"].items() if m is not None}
    if used:
        text = ", ".join([f"{library} {size:.0f} MB" for library, size in used.items()])
        print(f"memory of a training step, the peak of a process above what it had before: {text}")


COLOURS = {"weft": ("#3b82c4", "#9cc3e6"), "torch": ("#d9822b", "#f0c08f")}


def draw(record: Mapping[str, Any]) -> bytes:
    """Return a picture as PNG: for each net a bar a layer and library, forward and backward pass."""
    from weft.process.figures import make_figure

    nets, libraries = record["nets"], list(record["versions"])
    heights = [max(1.0, 0.14 * len(libraries) * len(found["layers"])) for found in nets.values()]
    figure = make_figure((10, 0.8 * len(nets) + sum(heights)), "weft bench convnets --picture")
    plots = figure.subplots(len(nets), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, found) in zip(plots, nets.items(), strict=True):
        thick = 0.8 / len(libraries)
        for k, library in enumerate(libraries):
            each = [times(layer["seconds"][library]) for layer in found["layers"]]
            at = [i + (k - (len(libraries) - 1) / 2) * thick for i in range(len(each))]
            forward, backward = ([1e3 * t for t in column] for column in zip(*each, strict=True))
            dark, light = COLOURS[library]
            axes.barh(at, forward, thick, color=dark, label=f"{library} forward")
            axes.barh(at, backward, thick, left=forward, color=light, label=f"{library} backward")
        axes.set_yticks(range(len(found["layers"])), [layer["name"] for layer in found["layers"]], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        axes.set_title(f"{name} of {record['definition']}, batch {found['batch']}, {record['threads']} threads", fontsize=9)
        axes.legend(frameon=False, fontsize=7)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()
