"""How exactly products of float32 are computed: ``set_matmul_precision`` and ``with matmul_precision(...)``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from weft.graph.primitives.precision import MATMUL, PRECISIONS
from weft.transforms.choosing import choose, chosen

_ELSEWHERE = {  # what PyTorch and JAX call them
    "highest": "float32", "high": "tf32x3", "medium": "tf32", "default": "float32", "tensorfloat32": "tf32",
    "bfloat16": "tf32, or cast the operands", "ieee": "float32",
}


def set_matmul_precision(precision: str) -> None:
    """Choose how exactly products and convolutions of float32 have to be computed from here on; float32 is the default.

    It is a permission: a device that gains nothing by it computes as ever. The CPU does; GPUs compute on their tensor cores.
    Sums are float32 in any case, and so are arrays. Operations have the precision that holds where they are written, their
    derivatives have the same, and a jitted function is traced once for each. It holds for all threads.

    Parameters
    ----------
    precision : str
        ``"float32"``: each product as IEEE 754 has it. ``"tf32"``: operands are rounded to 11 significant bits, as float16's,
        which is the quickest. ``"tf32x3"``: three such products, of upper and lower bits, nearly as exact as float32.

    Raises
    ------
    ValueError
        Another precision.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_matmul_precision("tf32")
    >>> wf.get_matmul_precision()
    'tf32'
    >>> wf.set_matmul_precision("float32")
    """
    choose(MATMUL, _checked("set_matmul_precision", precision))


def get_matmul_precision() -> str:
    """How exactly products of float32 have to be computed that are written now.

    Returns
    -------
    str : ``"float32"``, ``"tf32"`` or ``"tf32x3"``

    Examples
    --------
    >>> import weft as wf
    >>> wf.get_matmul_precision()
    'float32'
    """
    return MATMUL.value


def matmul_precision(precision: str) -> AbstractContextManager[None]:
    """Choose it for what is written inside; as :func:`set_matmul_precision`, it holds for all threads.

    Parameters
    ----------
    precision : str
        ``"float32"``, ``"tf32"`` or ``"tf32x3"``.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        Another precision.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.matmul_precision("tf32"):
    ...     y = wf.ones((64, 32)) @ wf.ones((32, 16))
    >>> float(y[0, 0]), wf.get_matmul_precision()
    (32.0, 'float32')
    """
    return chosen(MATMUL, _checked("matmul_precision", precision))


def _checked(function: str, precision: Any) -> str:
    if precision not in PRECISIONS:
        known = _ELSEWHERE.get(str(precision).lower())
        here = f"; what others call {precision} is {known} here" if known else ""
        raise ValueError(f'{function}: precision={precision!r} must be "float32", "tf32" or "tf32x3"{here}')
    return precision
