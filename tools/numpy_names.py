"""Write docs/guide/numpy_names.md: every public name of NumPy beside weft, with the reason for each that weft leaves out.

    python tools/numpy_names.py

A name that is in neither list fails tests/tools/test_numpy_names.py.
"""

from __future__ import annotations

import textwrap
import types
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "numpy_names.md"
REASONS: dict[str, dict[str, str]] = {
    "numpy": {
        "dates and times": """
            busday_count busday_offset busdaycalendar datetime64 datetime_as_string datetime_data is_busday isnat
            timedelta64""",
        "strings, objects and fields: arrays of weft hold numbers": """
            bytes_ char character flexible object_ rec recarray record str_ strings void fromregex""",
        "masked arrays": """
            ma""",
        "matrices, which NumPy itself advises against: arrays and `@`": """
            asmatrix bmat matrix""",
        "of complex numbers these are not there yet": """
            common_type complexfloating emath real_if_close roots sort_complex""",
        "wider than the CPU's registers": """
            clongdouble complex256 float128 longdouble""",
        "the older class of polynomials: `wf.polyval`, `wf.polymul`, ...": """
            poly1d""",
        "classes of NumPy's own polynomials: `numpy.polynomial` takes weft's arrays": """
            polynomial""",
        "about NumPy's memory and buffers, which arrays of weft do not have": """
            broadcast flatiter getbufsize memmap nested_iters setbufsize""",
        "about NumPy itself": """
            core ctypeslib exceptions f2py get_include info lib little_endian mintypecode sctypeDict show_config
            show_runtime test testing typecodes typename typing ScalarType False_ True_ geterrcall seterrcall""",
        "functions of elements are plain functions with a ufunc's methods": """
            ufunc""",
        "`wf.einsum` finds the order by itself": """
            einsum_path""",
    },
    "numpy.random": {
        "the one generator of weft is Philox": """
            BitGenerator MT19937 PCG64 PCG64DXSM Philox SFC64 SeedSequence bit_generator get_bit_generator mtrand
            set_bit_generator""",
        "deprecated: `integers`": """
            random_integers""",
        "about NumPy itself": """
            test""",
    },
    "numpy.ndarray": {
        "arrays keep their memory to themselves: `x.numpy()` shows it": """
            ctypes data getfield setfield setflags byteswap""",
        "pickle does it": """
            dump dumps""",
        "an array keeps its size: `wf.resize`": """
            resize""",
    },
}
ROOMS: dict[str, tuple[Any, Any]] = {
    "numpy": (np, wf), "numpy.random": (np.random, wf.random), "numpy.ndarray": (np.ndarray, wf.Array),
}


def names(room: str) -> tuple[list[str], list[str]]:
    """(what weft has, what it lacks) of NumPy's public names in a room."""
    theirs, ours = ROOMS[room]
    public = [n for n in dir(theirs) if not n.startswith("_")]
    held = set(getattr(ours, "__all__", ())) if isinstance(ours, types.ModuleType) else set(dir(ours))
    return [n for n in public if n in held], [n for n in public if n not in held]


def reasons(room: str) -> dict[str, str]:
    """Name -> why weft leaves it out."""
    return {name: reason for reason, listed in REASONS[room].items() for name in listed.split()}


def page() -> str:
    """The page as text."""
    out = [
        "# Every name of NumPy", "",
        f"NumPy {'.'.join(np.__version__.split('.')[:2])} beside weft. Functions of the same name take NumPy's arguments;",
        "[coming from another library](coming.md) says what differs.", "",
    ]
    for room in ROOMS:
        have, lack = names(room)
        why = reasons(room)
        out += [f"## {room}", "", f"weft has {len(have)} of {len(have) + len(lack)}:", ""]
        out += [*textwrap.wrap(" ".join(f"`{n}`" for n in have), 125, break_long_words=False, break_on_hyphens=False), ""]
        if lack:
            out += ["| Left out | because |", "| --- | --- |"]
            for reason in dict.fromkeys(why[n] for n in lack):
                out.append(f"| {', '.join(f'`{n}`' for n in lack if why[n] == reason)} | {reason} |")
            out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    PAGE.write_text(page())
