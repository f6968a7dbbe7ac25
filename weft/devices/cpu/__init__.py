"""The CPU device.

``generate`` gives a kernel to ``convolution``, ``product`` or ``nest``, which write LLVM text with the words of ``emit``;
``native`` makes code of it and runs it: compiler, allocator, thread pool, the walker of a Program's steps. ``device`` is what
others see.
"""

from weft.devices.cpu.device import DEVICE, CPUDevice

__all__ = ["DEVICE", "CPUDevice"]
