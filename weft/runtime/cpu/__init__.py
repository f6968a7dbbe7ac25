"""The CPU backend."""

from weft.runtime.cpu.backend import BACKEND, CPUBackend

__all__ = ["BACKEND", "CPUBackend"]
