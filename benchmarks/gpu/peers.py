"""PyTorch for comparison, if it is installed and sees the card; else a sentence that explains its empty columns."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.gpu.timing import Clock, Watch


class Events:
    """Watch that reads the driver's time between two events through PyTorch."""

    by = "events"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def begin(self) -> None:
        self._torch.cuda.synchronize()
        self._first.record()

    def end(self) -> float:
        self._last.record()
        self._torch.cuda.synchronize()
        return 1e-3 * self._first.elapsed_time(self._last)


class Torch:
    """PyTorch on one of its devices. name : "cuda:0" for the device "gpu", "cpu" for gpu-sim, only to show that this code runs"""

    def __init__(self, module: Any, name: str) -> None:
        self.torch, self.name = module, name
        self.clock = Clock((lambda: None) if name == "cpu" else module.cuda.synchronize)
        self.watch: Watch = self.clock if name == "cpu" else Events(module)
        module.backends.cudnn.benchmark = True
        self.tf32(False)

    def tf32(self, allowed: bool) -> None:
        """Allow or forbid TF32 in float32 products, as ``wf.matmul_precision`` does in weft."""
        self.torch.backends.cuda.matmul.allow_tf32 = allowed
        self.torch.backends.cudnn.allow_tf32 = allowed

    def dtype(self, name: str) -> Any:
        return getattr(self.torch, name)

    def array(self, x: np.ndarray, dtype: str | None = None, channels_last: bool = False) -> Any:
        """Return a tensor on the device. NumPy's narrow formats are converted through float32."""
        name = dtype or x.dtype.name
        wide = x if x.dtype.name in ("float32", "float64", "float16") or x.dtype.kind in "iub" else x.astype(np.float32)
        tensor = self.torch.from_numpy(np.ascontiguousarray(wide)).to(self.name).to(self.dtype(name))
        return tensor.contiguous(memory_format=self.torch.channels_last) if channels_last else tensor

    def numpy(self, x: Any) -> np.ndarray:
        return x.detach().to(self.torch.float64).cpu().numpy()

    def compiled(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return self.torch.compile(f)


class TorchWords:
    """Operations of nets in PyTorch, see :class:`benchmarks.nets.Words`."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._f = torch, torch.nn.functional

    def conv(self, x: Any, w: Any, bias: Any, stride: int, padding: int) -> Any:
        return self._f.conv2d(x, w, bias, stride, padding)

    def norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return self._f.batch_norm(x, None, None, scale, shift, training=True)

    def pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any:
        return self._f.max_pool2d(x, kernel, stride, padding)

    def mean(self, x: Any, kernel: int, stride: int) -> Any:
        return self._f.avg_pool2d(x, kernel, stride)

    def dense(self, x: Any, w: Any, bias: Any) -> Any:
        return self._f.linear(x.flatten(1), w, bias)

    def relu(self, x: Any) -> Any:
        return self._f.relu(x)

    def join(self, parts: Sequence[Any]) -> Any:
        return self._torch.cat(list(parts), 1)


def torch_beside(device: str) -> tuple[Torch | None, str]:
    """Return PyTorch on the same card or None, and a remark: why it is None, or what its times mean."""
    if importlib.util.find_spec("torch") is None:
        return None, "PyTorch is not installed: its columns are empty"
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # a broken install fails in any way
        return None, f"PyTorch cannot be imported ({type(error).__name__}: {error}): its columns are empty"
    if device == "gpu-sim":
        return Torch(torch, "cpu"), "PyTorch runs on the CPU, beside an interpreter: its times mean nothing"
    number = int(device.partition(":")[2] or 0)
    if not torch.cuda.is_available() or torch.cuda.device_count() <= number:
        return None, "PyTorch sees no such card: its columns are empty"
    torch.cuda.set_device(number)
    return Torch(torch, f"cuda:{number}"), ""
