"""flush_denormals: numbers too small to be normal count as zero, which keeps the processor fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.runtime.context import LOCAL
from weft.transforms.tree import Structure


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Programs that run inside flush denormal numbers to zero, in this Python thread and in the workers.

    Adam's moments of silent units decay into denormals, and arithmetic on those is many times slower;
    ``wf.train.fit`` uses this by itself.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import weft as wf
    >>> with wf.flush_denormals():
    ...     print(float(wf.array(1e-30) * wf.array(1e-10)))
    0.0
    """
    before = LOCAL.flush
    LOCAL.flush = True
    Structure.count += 1  # jitted functions look again at what they are called in
    try:
        yield
    finally:
        LOCAL.flush = before
        Structure.count += 1
