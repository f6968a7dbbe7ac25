"""A profile's time line in the Trace Event Format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from typing import Any

from weft.tools.profile_figures import Figures
from weft.tools.profile_report import places
from weft.tools.profile_words import UNKNOWN, short

_TRACKS = {1: "kernels (measured)", 2: "layers (~ shares of kernels)", 3: "lines (~ shares of kernels)"}


def chrome_trace(profile: Figures) -> dict[str, Any]:
    """The measured kernels of one call, and below them the layers and the lines that share them; times in microseconds."""
    process = {"pid": os.getpid()}
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "args": {"name": f"weft: {profile.name}"}, **process}]
    for number, name in _TRACKS.items():
        events.append({"ph": "M", "name": "thread_name", "tid": number, "args": {"name": name}, **process})
        events.append({"ph": "M", "name": "thread_sort_index", "tid": number, "args": {"sort_index": number}, **process})
    known = {k.name: k for k in reversed(profile.kernels)}
    for e in profile.events:
        begin, length = e.begin / 1e3, e.length / 1e3
        found = known.get(e.name)
        detail = {"kind": e.category, "flops": e.detail["flops"], "bytes": e.detail["bytes"]}
        if e.length:
            detail["GFLOP/s"] = round(e.detail["flops"] / e.length, 2)
            detail["GB/s"] = round(e.detail["bytes"] / e.length, 2)
        if found is not None:
            detail["reason"], detail["where"] = found.why, places(found.parts)
        own = {"name": e.name, "cat": e.category, "ts": begin, "dur": length, "tid": 1, "args": detail}
        events.append({"ph": "X", **own, **process})
        at = begin
        for place, share in e.detail["parts"]:
            args = {"phase": place.phase, "layer": place.layer, "line": place.line, "source": place.source,
                    "estimated": len(e.detail["parts"]) > 1}
            for number, name in ((2, place.layer or "(outside layers)"), (3, short(place.line) or UNKNOWN)):
                events.append({
                    "ph": "X", "name": f"{name} {place.phase}", "cat": place.phase, "ts": at, "dur": share * length,
                    "tid": number, "args": args, **process,
                })
            at += share * length
    about = {"function": profile.name, "culprit": profile.culprit.sentence}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def trace_text(profile: Figures) -> str:
    return json.dumps(chrome_trace(profile))
