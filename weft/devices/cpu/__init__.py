"""The CPU device."""

from weft.devices.cpu.device import DEVICE, CPUDevice

__all__ = ["DEVICE", "CPUDevice"]
