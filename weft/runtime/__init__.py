"""Buffers, threads, compiled code: how a Program runs. Backends are found by name, the CPU's is always there."""

from __future__ import annotations

from typing import Any


def get_backend(name: str = "cpu") -> Any:
    """The backend of a device.

    Parameters
    ----------
    name : ``"cpu"``

    Raises
    ------
    ValueError : no such backend
    """
    if name != "cpu":
        raise ValueError(f"no backend {name!r}; this build has 'cpu'")
    from weft.runtime.cpu import BACKEND

    return BACKEND


def counters() -> dict[str, int]:
    """Kernel entries (counted in the emitted code), native entries, compilations, cache hits, allocator misses."""
    return get_backend().counters()


def set_num_threads(count: int) -> None:
    """Use this many threads, the calling one included. Results do not depend on it.

    Raises
    ------
    TypeError, ValueError : not an int from 1 to 256
    """
    get_backend().pool.set_threads(count)


def get_num_threads() -> int:
    """The number of threads a kernel may use: ``$WEFT_THREADS``, else the CPUs this process may run on."""
    return get_backend().pool.threads
