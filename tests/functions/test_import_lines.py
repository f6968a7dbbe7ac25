"""NumPy's import lines with weft's name in the place of NumPy's: each names what ``wf`` has, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

LINES = [
    "from weft.linalg import norm, LinAlgError; assert norm is wf.linalg.norm",
    "import weft.linalg as la; assert la is wf.linalg and la.inv",
    "import weft.linalg; assert weft.linalg.inv(weft.eye(2)).tolist() == [[1, 0], [0, 1]]",
    "from weft.random import default_rng, RandomState; assert default_rng is wf.random.default_rng",
    "import weft.random; weft.random.seed(3); a = wf.random.rand(); weft.random.seed(3); assert a == wf.random.rand()",
    "from weft.fft import fft, ifft; assert fft is wf.fft.fft",
    "from weft.testing import assert_allclose; assert_allclose(wf.ones(3), 1)",
    "from weft.emath import sqrt; assert sqrt is wf.emath.sqrt",
    "from weft.lib.stride_tricks import sliding_window_view; assert sliding_window_view(wf.ones(4), 2).shape == (3, 2)",
    "import weft.lib.stride_tricks as s; assert s is wf.lib.stride_tricks",
    "from weft.polynomial import Polynomial; assert Polynomial([1, 2])(2) == 5",
    "from weft.polynomial.polynomial import polyval; assert polyval(2, [1, 2]) == 5",
    "from weft.polynomial.chebyshev import chebval; import numpy; assert chebval is numpy.polynomial.chebyshev.chebval",
    "from weft.exceptions import AxisError; import numpy; assert AxisError is numpy.exceptions.AxisError",
    "import weft.typing as npt; assert npt.NDArray",
]


@pytest.mark.parametrize("first", ["import weft as wf", ""])  # "": the line is the first that knows of weft
def test_each_names_what_wf_has(first: str) -> None:
    for line in LINES:
        imported, *rest = line.split("; ")
        code = "\n".join([first, imported, "import weft as wf", *rest])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (line, done.stderr)
