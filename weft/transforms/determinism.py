"""Whether every run gives the same bits: ``set_deterministic`` and ``with deterministic(...)``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from weft.graph.primitives.meeting import DETERMINISM
from weft.transforms.choosing import choose, chosen


def set_deterministic(on: bool) -> None:
    """Choose whether a program has to give the same bits in every run, as it does unless this says otherwise.

    ``False`` permits to add numbers in any order where indices repeat: in ``scatter_add``, ``np.add.at``, ``bincount`` with
    weights, and in the derivatives of ``x[indices]`` and of embeddings. GPUs then add all at once, by atomic additions, where
    otherwise those that meet are added one after the other; the last bits of sums of floats differ from run to run. The CPU
    adds in order in any case. Operations have the order that is asked for where they are written, derivatives where they are
    taken, and a jitted function is traced once for each. It holds for all threads.

    Parameters
    ----------
    on : bool

    Raises
    ------
    TypeError
        Anything but True and False.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_deterministic(False)
    >>> wf.scatter_add(wf.zeros(3), [0, 2, 2], 1.0).tolist()
    [1.0, 0.0, 2.0]
    >>> wf.set_deterministic(True)
    """
    choose(DETERMINISM, _checked("set_deterministic", on))


def get_deterministic() -> bool:
    """Whether what is written now has to give the same bits in every run.

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.get_deterministic()
    True
    """
    return DETERMINISM.value


def deterministic(on: bool) -> AbstractContextManager[None]:
    """Choose it for what is written inside; as :func:`set_deterministic`, it holds for all threads.

    Parameters
    ----------
    on : bool

    Returns
    -------
    context manager

    Raises
    ------
    TypeError
        Anything but True and False.

    Examples
    --------
    >>> import weft as wf
    >>> table, words = wf.ones((5, 2)), wf.array([1, 3, 3])
    >>> with wf.deterministic(False):
    ...     change = wf.grad(lambda table: table[words].sum())(table)
    >>> change[:, 0].tolist(), wf.get_deterministic()
    ([0.0, 1.0, 0.0, 2.0, 0.0], True)
    """
    return chosen(DETERMINISM, _checked("deterministic", on))


def _checked(function: str, on: Any) -> bool:
    if type(on) is not bool:
        raise TypeError(f"{function}: on={on!r} must be True (the same bits in every run) or False (additions in any order)")
    return on
