"""The CPU device.

``generate`` passes a kernel to ``attention``, ``convolution``, ``product`` or ``nest``, which write LLVM text with the helpers of
``emit``. ``native`` compiles and runs it: compiler, allocator, thread pool, native execution of a Program's steps. ``device``
implements the interface of ``weft.devices.base``.
"""

from weft.devices.cpu.device import DEVICE, CPUDevice

__all__ = ["DEVICE", "CPUDevice"]
