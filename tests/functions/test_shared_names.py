"""Every function that weft shares with NumPy is called beside it by some generator, or told here why not."""

from __future__ import annotations

import re

import numpy as np

from tests.functions import lines, test_calls_as_numpy
from tests.functions.library_lines import LIBRARY
from tests.functions.test_refused_by_name import FUNCTIONS, ROOMS

ELSEWHERE = {  # not in a line, and why
    **dict.fromkeys(("load", "save", "savetxt", "savez", "savez_compressed", "loadtxt", "genfromtxt", "fromfile"), "files"),
    **dict.fromkeys(("errstate", "geterr", "seterr", "get_printoptions", "printoptions", "set_printoptions"), "a setting"),
    **dict.fromkeys(("finfo", "iinfo", "iterable", "may_share_memory", "shares_memory"), "no array"),
    "__array_namespace_info__": "weft's own", "einsum_path": "a text", "from_dlpack": "another library's",
    "frompyfunc": "of Python",
}
ALIASES = """acos acosh asin asinh atan atan2 atanh bitwise_invert bitwise_left_shift bitwise_not bitwise_right_shift pow
    matrix_transpose""".split()


def test_every_shared_name_has_a_line() -> None:
    text = "\n".join((*LIBRARY, *lines.MOVE))
    words = (*lines.UNARY, *lines.BINARY, *lines.REDUCE, *lines.ELEMENTS)
    tables = (*test_calls_as_numpy.ONE, *test_calls_as_numpy.TWO, *test_calls_as_numpy.VECTORS)
    called = {*words, *tables, *ALIASES, *(found[3:] for found in re.findall(r"np\.[a-z_0-9.]+", text))}
    shared = []
    for name, f in FUNCTIONS.items():
        room, _, short = name.rpartition(".")
        if not isinstance(f, type) and room != "random" and hasattr(ROOMS[room and room + "."][1], short):  # other numbers there
            shared.append(name)
    missing = [n for n in shared if n not in called and n not in ELSEWHERE]
    assert not missing, "give them a line in library_lines.py, or a reason in ELSEWHERE"
    assert {*ELSEWHERE} <= {*shared} and {*ALIASES} <= {*dir(np)}
