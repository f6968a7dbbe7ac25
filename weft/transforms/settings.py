"""Settings: the default dtype, determinism, precision of products, algorithm of convolutions, denormals, and the device.

Each has a function that sets it for the process (``set_device``) and a context manager (``device``). Jitted functions are traced
again when one changes.

A program runs on the device that its thread uses when it is called or read. Inputs on another device are moved first; the array
then holds only the new copy, so weights move once, with the first step that uses them, and a write has only one copy to change.
With "auto" each program runs where its estimated time is shortest: see ``weft/runtime/auto_device.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.devices import get_device
from weft.dtypes.formats import DEFAULT, FLOAT32, FLOAT64, Format
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.graph.primitives.settings import CONV_ALGORITHM, CONV_ALGORITHMS, DETERMINISM, MATMUL_PRECISION, PRECISIONS
from weft.placement.all_figures import figures
from weft.process.docstrings import complete_docs, complete_each
from weft.runtime.context import CONTEXT
from weft.transforms.tree import Structure


def apply_setting(owner: Any, value: Any, name: str = "value") -> None:
    """Change the setting that the attribute ``name`` of ``owner`` holds."""
    if value != getattr(owner, name):
        setattr(owner, name, value)
        Structure.count += 1  # jitted functions compare the settings again


@contextmanager
def change_setting(owner: Any, value: Any, name: str = "value") -> Iterator[None]:
    """Context manager: change a setting of this thread, and restore it at the end."""
    before = getattr(owner, name)
    apply_setting(owner, value, name)
    try:
        yield
    finally:
        apply_setting(owner, before, name)


@dataclass(eq=False, slots=True)
class _Block:
    """A ``with`` block that has changed a setting of all threads. before: the value to restore"""

    owner: Any
    before: Any


_BLOCKS: list[_Block] = []  # those that have not ended, in the order in which they began
_BLOCKS_LOCK = threading.RLock()  # the collector may end a block of a generator inside of it


@contextmanager
def change_process_setting(owner: Any, value: Any) -> Iterator[None]:
    """Context manager: change a setting of all threads. The value before is restored at the end, in any order of threads.

    A block that ends before a later one of another thread passes the value that it would have restored on to that block.
    """
    with _BLOCKS_LOCK:
        block = _Block(owner, owner.value)
        _BLOCKS.append(block)
        apply_setting(owner, value)
    try:
        yield
    finally:
        with _BLOCKS_LOCK:
            later = [b for b in _BLOCKS[_BLOCKS.index(block) + 1 :] if b.owner is owner]
            _BLOCKS.remove(block)
            if later:
                later[0].before = block.before
            else:
                apply_setting(owner, block.before)


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of floats created without a dtype: float32, weft's default, or float64, NumPy's.

    With float64 all dtypes are NumPy's: Python's floats, ``zeros``, ``linspace`` and random numbers are float64, so are means
    and quotients of integers, complex numbers are complex128, and ``int64 + float32`` is float64. Existing arrays keep their
    dtypes, and jitted functions are traced again. The setting applies to all threads.

    Parameters
    ----------
    dtype : dtype
        float32 or float64.

    Raises
    ------
    DTypeError
        Another dtype.

    Examples
    --------
    >>> wf.set_default_dtype("float64")
    >>> (wf.arange(3) / 2).dtype, wf.array([0.1]).dtype
    (dtype('float64'), dtype('float64'))
    >>> wf.set_default_dtype("float32")
    """
    apply_setting(DEFAULT, _check_dtype("set_default_dtype", dtype))


def get_default_dtype() -> np.dtype:
    """Return the dtype of floats created without a dtype.

    Examples
    --------
    >>> wf.get_default_dtype()
    dtype('float32')
    """
    return DEFAULT.real.numpy


def default_dtype(dtype: Any) -> AbstractContextManager[None]:
    """Set the default dtype inside a ``with`` block, for all threads; see :func:`set_default_dtype`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with wf.default_dtype("float64"):
    ...     x = wf.ones(3)
    >>> x.dtype, wf.ones(3).dtype
    (dtype('float64'), dtype('float32'))
    """
    return change_process_setting(DEFAULT, _check_dtype("default_dtype", dtype))


def _check_dtype(function: str, dtype: Any) -> Format:
    chosen_format = None if dtype is None else parse_dtype(dtype)  # None is float64 to NumPy
    if chosen_format is not FLOAT32 and chosen_format is not FLOAT64:
        raise DTypeError(f"{function}: dtype={chosen_format} must be float32 or float64")
    return chosen_format


def set_deterministic(on: bool) -> None:
    """Set whether a program must return the same bits in every run. The default is True.

    ``False`` permits additions in any order where indices repeat: in ``scatter_add``, ``np.add.at``, ``bincount`` with
    weights, and in the derivatives of ``x[indices]`` and of embeddings. GPUs then use atomic additions instead of adding the
    values of equal indices one after the other, and the last bits of float sums differ from run to run. The CPU always adds in
    order. An operation uses the setting in force when it is written, a derivative the one when it is taken, and a jitted
    function is traced once for each setting. The setting applies to all threads.

    Parameters
    ----------
    on : bool

    Raises
    ------
    TypeError
        Anything but True and False.

    Examples
    --------
    >>> wf.set_deterministic(False)
    >>> wf.scatter_add(wf.zeros(3), [0, 2, 2], 1.0).tolist()
    [1.0, 0.0, 2.0]
    >>> wf.set_deterministic(True)
    """
    apply_setting(DETERMINISM, _check_bool("set_deterministic", on))


def get_deterministic() -> bool:
    """Return whether programs must return the same bits in every run.

    Examples
    --------
    >>> wf.get_deterministic()
    True
    """
    return DETERMINISM.value


def deterministic(on: bool) -> AbstractContextManager[None]:
    """Set determinism inside a ``with`` block, for all threads; see :func:`set_deterministic`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> table, words = wf.ones((5, 2)), wf.array([1, 3, 3])
    >>> with wf.deterministic(False):
    ...     change = wf.grad(lambda table: table[words].sum())(table)
    >>> change[:, 0].tolist(), wf.get_deterministic()
    ([0.0, 1.0, 0.0, 2.0, 0.0], True)
    """
    return change_process_setting(DETERMINISM, _check_bool("deterministic", on))


def _check_bool(function: str, on: Any) -> bool:
    if type(on) is not bool:
        raise TypeError(f"{function}: on={on!r} must be True (the same bits in every run) or False (additions in any order)")
    return on


_NAMES_ELSEWHERE = {  # the names in PyTorch and JAX
    "highest": "float32", "high": "tf32x3", "medium": "bfloat16", "default": "float32", "tensorfloat32": "tf32",
    "bf16": "bfloat16", "ieee": "float32",
}


def set_matmul_precision(precision: str) -> None:
    """Set the minimum precision of products and convolutions of float32. The default is float32.

    A lower precision is a permission: GPUs then use their tensor cores, and processors with AVX512-BF16 its instruction, for
    products of matrices and convolutions of more than two million operations; all else is computed as before. Convolutions need
    two input channels, their weight gradients two images. ``"bfloat16"`` also applies to convolutions of bfloat16 arrays.
    Sums are always float32, and arrays keep their dtypes. An operation uses the precision in force when it is written, its
    derivatives use the same, and a jitted function is traced once for each setting. The setting applies to all threads.

    Parameters
    ----------
    precision : str
        ``"float32"``: IEEE 754 products. ``"tf32"``: operands are rounded to 11 significant bits, as many as float16 has, which
        is the fastest on GPUs. ``"tf32x3"``: three such products, of upper and lower bits, nearly as exact as float32.
        ``"bfloat16"``: operands are rounded to 8 significant bits, on CPUs. GPUs take tf32 for it.

    Raises
    ------
    ValueError
        Another precision.

    Examples
    --------
    >>> wf.set_matmul_precision("tf32")
    >>> wf.get_matmul_precision()
    'tf32'
    >>> wf.set_matmul_precision("float32")
    """
    apply_setting(MATMUL_PRECISION, _check_precision("set_matmul_precision", precision))


def get_matmul_precision() -> str:
    """Return the minimum precision of products of float32.

    Returns
    -------
    str : ``"float32"``, ``"tf32"``, ``"tf32x3"`` or ``"bfloat16"``

    Examples
    --------
    >>> wf.get_matmul_precision()
    'float32'
    """
    return MATMUL_PRECISION.value


def matmul_precision(precision: str) -> AbstractContextManager[None]:
    """Set the precision of products inside a ``with`` block, for all threads; see :func:`set_matmul_precision`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with wf.matmul_precision("tf32"):
    ...     y = wf.ones((64, 32)) @ wf.ones((32, 16))
    >>> float(y[0, 0]), wf.get_matmul_precision()
    (32.0, 'float32')
    """
    return change_process_setting(MATMUL_PRECISION, _check_precision("matmul_precision", precision))


def _check_precision(function: str, precision: Any) -> str:
    if precision not in PRECISIONS:
        equivalent = _NAMES_ELSEWHERE.get(str(precision).lower())
        hint = f"; what others call {precision} is {equivalent} here" if equivalent else ""
        raise ValueError(f'{function}: precision={precision!r} must be "float32", "tf32", "tf32x3" or "bfloat16"{hint}')
    return precision


def set_conv_algorithm(algorithm: str) -> None:
    """Set the algorithm of convolutions of float32 and of narrower floats. The default is ``"direct"``.

    ``"winograd"`` is a permission: a CPU then computes convolutions with windows of 3 x 3 or 5 x 5, stride 1, no dilation and one
    group by Winograd's transforms wherever it expects them to be faster, with a quarter of the multiplications. So are gradients.
    All else is computed as before, also on GPUs. Results do not depend on threads or runs, but differ from direct ones in the
    last bits, and errors are 2 to 6 times larger: see :doc:`/guide/performance`. An infinity or NaN in an image
    spreads to neighbouring results. An operation uses the algorithm in force when it is written, its derivatives use the same,
    and a jitted function is traced once for each setting. The setting applies to all threads.

    Parameters
    ----------
    algorithm : str
        ``"direct"`` or ``"winograd"``.

    Raises
    ------
    ValueError
        Another algorithm.

    Examples
    --------
    >>> wf.set_conv_algorithm("winograd")
    >>> wf.get_conv_algorithm()
    'winograd'
    >>> wf.set_conv_algorithm("direct")
    """
    apply_setting(CONV_ALGORITHM, _check_algorithm("set_conv_algorithm", algorithm))


def get_conv_algorithm() -> str:
    """Return the algorithm of convolutions.

    Returns
    -------
    str : ``"direct"`` or ``"winograd"``

    Examples
    --------
    >>> wf.get_conv_algorithm()
    'direct'
    """
    return CONV_ALGORITHM.value


def conv_algorithm(algorithm: str) -> AbstractContextManager[None]:
    """Set the algorithm of convolutions inside a ``with`` block, for all threads; see :func:`set_conv_algorithm`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> x, w = wf.ones((2, 64, 12, 12)), wf.ones((64, 64, 3, 3))
    >>> with wf.conv_algorithm("winograd"):
    ...     y = wf.nn.conv2d(x, w, padding=1)
    >>> round(float(y[0, 0, 5, 5])), wf.get_conv_algorithm()
    (576, 'direct')
    """
    return change_process_setting(CONV_ALGORITHM, _check_algorithm("conv_algorithm", algorithm))


def _check_algorithm(function: str, algorithm: Any) -> str:
    if algorithm not in CONV_ALGORITHMS:
        raise ValueError(f'{function}: algorithm={algorithm!r} must be "direct" or "winograd"')
    return algorithm


def flush_denormals() -> AbstractContextManager[None]:
    """Flush denormal numbers to zero in programs that run inside the ``with`` block, in this Python thread and in the workers.

    Adam's moments of inactive units decay into denormals, and arithmetic on denormals is many times slower. ``wf.train.fit``
    uses this context manager.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with wf.flush_denormals():
    ...     print(float(wf.array(1e-30) * wf.array(1e-10)))
    0.0
    """
    return change_setting(CONTEXT, True, "flush_denormals")


def set_device(name: str) -> None:
    """Set the device on which programs run in this thread and in threads started later.

    The default is ``$WEFT_DEVICE``, or the CPU if that is not set. The arrays that a program reads are moved to its device and
    stay there until a program on another device reads them; ``x.numpy()`` and ``float(x)`` move nothing.

    Parameters
    ----------
    name : str
        "cpu"; "gpu", "gpu:1" for the second card; "gpu-sim", which interprets GPU code in the memory of the host, slowly, and
        checks every access (the last three need ``pip install 'weft-array[gpu]'``); or "auto": each program runs where its
        estimated time, including copies of its arrays, is shortest. The estimate uses the figures of this machine
        (``$WEFT_PROFILE``, or measured once). Without a GPU "auto" is the CPU.

    Raises
    ------
    ValueError
        No such device.
    DeviceError
        The device cannot be used; the message names what is missing.
    DataError
        With "auto": ``$WEFT_PROFILE`` names a file that holds something else.

    Examples
    --------
    >>> wf.set_device("cpu")
    >>> wf.ones(3).device
    'cpu'
    """
    type(CONTEXT).default_placement = _parse_device(name)
    _set_place(type(CONTEXT).default_placement)


@contextmanager
def device(name: str) -> Iterator[None]:
    """Run programs inside the ``with`` block on a device, in this thread.

    A pending array created before the block is computed on the device in use when it is read.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with wf.device("cpu"):
    ...     print(float(wf.ones(3).sum()))
    3.0
    """
    before = CONTEXT.placement
    _set_place(_parse_device(name))
    try:
        yield
    finally:
        _set_place(before)


def _parse_device(name: str) -> Any:
    """Return the value of ``CONTEXT.placement`` for the device, or raise an error if it cannot be used."""
    if name == "auto":
        return figures()
    device_name = get_device(name).name
    return None if device_name == "cpu" else device_name


def _set_place(place: Any) -> None:
    CONTEXT.placement = place
    CONTEXT.device = place if isinstance(place, str) else None
    Structure.count += 1  # jitted functions compare the settings again


complete_docs(set_default_dtype, default_dtype)
complete_docs(set_deterministic, deterministic)
complete_docs(set_matmul_precision, matmul_precision)
complete_docs(set_conv_algorithm, conv_algorithm)
complete_docs(set_device, device)
complete_each(get_default_dtype, get_deterministic, get_matmul_precision, get_conv_algorithm, flush_denormals)
