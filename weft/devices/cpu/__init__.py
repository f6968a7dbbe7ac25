"""The CPU backend."""

from weft.devices.cpu.backend import BACKEND, CPUBackend

__all__ = ["BACKEND", "CPUBackend"]
