"""``wf.linalg``: products of matrices, norms, and functions that need LAPACK; these are imported at their first use."""

from __future__ import annotations

import importlib
from typing import Any

from numpy.linalg import LinAlgError

from weft.functions.linalg.norms import diagonal, matrix_norm, norm, trace, vector_norm
from weft.functions.linalg.products import diag, dot, einsum, inner, matmul, outer, tensordot, vdot, vecdot

_LAZY = {
    "weft.functions.linalg.decompositions": """
        det expm inv lstsq pinv slogdet solve tensorinv tensorsolve cholesky cond eig eigh eigvals eigvalsh
        matrix_rank qr svd svdvals""",
    "weft.functions.linalg.norms": "cross matrix_power multi_dot",
    "weft.functions.shape.axes": "matrix_transpose",
}
_HOME = {name: module for module, names in _LAZY.items() for name in names.split()}

__all__ = [
    "LinAlgError", "diag", "diagonal", "dot", "einsum", "inner", "matmul", "matrix_norm", "norm", "outer", "tensordot", "trace",
    "vdot", "vecdot", "vector_norm",
]
__all__ += _HOME


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return function
