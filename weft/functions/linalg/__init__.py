"""``wf.linalg``: products of matrices, norms, and functions that need LAPACK, all imported at their first use."""

from __future__ import annotations

import importlib
from typing import Any

from numpy.linalg import LinAlgError

from weft.process.name_errors import missing_name

_LAZY = {
    "weft.functions.linalg.decompositions": """
        cholesky cond cross det diagonal eig eigh eigvals eigvalsh expm inv lstsq matrix_norm matrix_power matrix_rank multi_dot
        norm pinv qr slogdet solve svd svdvals tensorinv tensorsolve trace vector_norm""",
    "weft.functions.linalg.products": "diag dot einsum inner matmul outer tensordot vdot vecdot",
    "weft.functions.shape.axes": "matrix_transpose",
}
_HOME = {name: module for module, names in _LAZY.items() for name in names.split()}

__all__ = ["LinAlgError"]
__all__ += _HOME


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise missing_name(__name__, name, __all__)
    function = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return function
