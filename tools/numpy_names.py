"""Write docs/guide/numpy_names.md: every public name of NumPy, weft, CuPy and JAX side by side, and why weft leaves some out.

    python tools/numpy_names.py

What CuPy and JAX have stands in tools/peer_names.json (tools/peer_names.py records it). A name that weft neither has nor gives a
reason for fails tests/tools/test_numpy_names.py.
"""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "numpy_names.md"
PEERS: dict[str, Any] = json.loads(Path(__file__).with_name("peer_names.json").read_text())
TITLES = {"cupy": "CuPy", "jax": "JAX"}
REASONS: dict[str, dict[str, str]] = {
    "numpy": {
        "dates and times": """
            busday_count busday_offset busdaycalendar datetime64 datetime_as_string datetime_data is_busday isnat
            timedelta64""",
        "strings, objects and fields: arrays of weft hold numbers": """
            bytes_ char character flexible format_parser fromregex object_ rec recarray record str_ strings void""",
        "masked arrays: a mask beside the array, and `where=` or the `nan` functions": """
            ma""",
        "matrices, which NumPy itself advises against: arrays and `@`": """
            asmatrix bmat matrix""",
        "wider than the CPU's registers": """
            clongdouble complex256 float128 longdouble""",
        "the memory of a file: weft's arrays have their own; `wf.asarray(numpy.memmap(...))` copies": """
            memmap""",
        "for loops within loops over buffers; `nditer` walks, whole arrays are faster by far": """
            nested_iters""",
        "functions of elements have no buffers": """
            getbufsize setbufsize""",
        "there are no warnings of division and overflow that could be handed on": """
            geterrcall seterrcall""",
        "about the installation of NumPy": """
            core ctypeslib f2py get_include info show_config show_runtime test""",
        "old names, which NumPy itself has no more": """
            Inf Infinity NAN NINF NZERO NaN PINF PZERO alltrue asfarray byte_bounds cfloat complex_ cumproduct disp
            find_common_type float_ in1d infty issctype issubclass_ issubsctype msort obj2sctype product round_ safe_eval
            sctype2char set_string_function singlecomplex sometrue trapz who DataSource""",
        "exceptions: they stand in `wf.exceptions`, as in NumPy": """
            AxisError ComplexWarning ModuleDeprecationWarning RankWarning TooHardError VisibleDeprecationWarning""",
        "kernels in CUDA's C, and what runs them: expressions become kernels by themselves, and `wf.jit` fuses more": """
            ElementwiseKernel RawKernel RawModule ReductionKernel clear_memo cuda fuse memoize""",
        "about CUDA's memory and devices: `wf.device`, `wf.set_device`, `wf.counters`": """
            disable_experimental_feature_warning get_default_memory_pool get_default_pinned_memory_pool is_available
            make_aligned_dtype""",
        "ask the array: `x.__array_namespace__()`": """
            get_array_module get_array_wrap""",
        "`from_dlpack`": """
            fromDlpack""",
        "narrower than what weft's kernels compute with": """
            int1 uint1""",
    },
    "numpy.linalg": {
        "about the installation of NumPy": """
            test""",
    },
    "numpy.fft": {
        "about the installation of NumPy": """
            test""",
        "plans of cuFFT": """
            config""",
    },
    "numpy.random": {
        "weft's one generator is Philox; `get_state` and `set_state` keep and bring back where it stands": """
            bit_generator get_bit_generator get_random_state mtrand reset_states set_bit_generator set_random_state""",
        "deprecated: `integers`": """
            random_integers""",
        "about the installation of NumPy": """
            test""",
        "generators of cuRAND": """
            MRG32k3a Philox4x3210 XORWOW""",
        "`key`, `split`: keys of weft are arrays of two integers": """
            PRNGKey bits clone fold_in key_data key_dtype key_impl wrap_key_data""",
        "by another name: `standard_cauchy`, `standard_t`, `weibull`": """
            cauchy t weibull_min""",
        "a line of array code: `choice(n, p=...)`, `sign(uniform() - 0.5)`, `linalg.qr(normal(...))`, `log(gamma(...))`, ...": """
            ball double_sided_maxwell generalized_normal loggamma maxwell orthogonal rademacher truncated_normal""",
        "JAX's own derivative of a draw": """
            random_gamma_p""",
    },
    "numpy.ndarray": {
        "arrays keep their memory to themselves: `x.numpy()` shows it, and cannot be written to": """
            ctypes""",
        "fields of records": """
            getfield setfield""",
        "NumPy has it no more: `wf.ptp`": """
            ptp""",
        "`wf.scatter_set`, `wf.scatter_add`, and `np.add.at`, `np.maximum.at`": """
            at scatter_add scatter_max scatter_min""",
        "`x[...] = y`": """
            set""",
        "`__dlpack__`": """
            toDlpack""",
        "CUDA's own": """
            cstruct mdspan reduced_view""",
        "arrays spread over several machines": """
            addressable_data addressable_shards committed global_shards is_fully_addressable is_fully_replicated sharding""",
        "`wf.eval(x)`, and `x.numpy()`": """
            copy_to_host_async""",
    },
}
ROOMS: dict[str, tuple[Any, Any]] = {
    "numpy": (np, wf), "numpy.linalg": (np.linalg, wf.linalg), "numpy.fft": (np.fft, wf.fft),
    "numpy.random": (np.random, wf.random), "numpy.ndarray": (np.ndarray, wf.Array),
}
_INSIDE = {"as_dtype_node", "cell", "node", "weak"}  # of Array, for weft's own use


def public(room: str) -> tuple[set[str], set[str]]:
    """The public names of NumPy's room and of weft's."""
    theirs, ours = ROOMS[room]
    if isinstance(ours, types.ModuleType):
        held = set(getattr(ours, "__all__", ()))
    else:
        held = {n for n in dir(ours) if hasattr(ours, n)} - _INSIDE
    return {n for n in dir(theirs) if not n.startswith("_")}, {n for n in held if not n.startswith("_")}


def peers(room: str) -> dict[str, set[str]]:
    """The same of CuPy and of JAX."""
    return {peer: set(kept["rooms"][room]) for peer, kept in PEERS.items()}


def names(room: str) -> tuple[list[str], list[str]]:
    """(what weft has, what it lacks) of the names that any of them has."""
    theirs, ours = public(room)
    known = theirs | ours | set().union(*peers(room).values())
    return sorted(n for n in known if n in ours), sorted(n for n in known if n not in ours)


def reasons(room: str) -> dict[str, str]:
    """Name -> why weft leaves it out."""
    return {name: reason for reason, listed in REASONS[room].items() for name in listed.split()}


def table(room: str) -> list[str]:
    """The rows of a room: NumPy's names, then those that only others have."""
    theirs, ours = public(room)
    others, why = peers(room), reasons(room)
    rows = []
    for name in sorted(theirs) + sorted((ours | set().union(*others.values())) - theirs):
        marks = ["x" if name in held else "" for held in (theirs, ours, *others.values())]
        rows.append(f"| `{name}` | {' | '.join(marks)} | {'' if name in ours else why.get(name, '?')} |")
    head = " | ".join(("NumPy", "weft", *(TITLES[p] for p in others)))
    return [f"| | {head} | left out of weft because |", "| --- |" + " :-: |" * (2 + len(others)) + " --- |", *rows]


def page() -> str:
    """The page as text."""
    versions = ", ".join(f"{TITLES[p]} {kept['version']}" for p, kept in PEERS.items())
    out = [
        "# Every name of NumPy", "",
        f"NumPy {'.'.join(np.__version__.split('.')[:2])} beside weft, {versions}. Functions of the same name take NumPy's",
        "arguments; [coming from another library](coming.md) says what differs. How many of NumPy's names each has:", "",
    ]
    heads = ("weft", *(TITLES[p] for p in PEERS))
    out += [f"| | NumPy | {' | '.join(heads)} |", "| --- |" + " --: |" * (1 + len(heads))]
    for room in ROOMS:
        theirs, ours = public(room)
        counts = [len(theirs & held) for held in (theirs, ours, *peers(room).values())]
        out.append(f"| {room} | {' | '.join(map(str, counts))} |")
    out.append("")
    for room in ROOMS:
        out += [f"## {room}", "", *table(room), ""]
    return "\n".join(out)


if __name__ == "__main__":
    PAGE.write_text(page())
