"""Settings: the default dtype, determinism, precision of products, flushing of denormals, and the device.

Each has a function that sets it for the process (``set_device``) and a context manager (``device``). Jitted functions are traced
again when one changes.

A program runs on the device that its thread uses when it is called or read. Inputs that lie elsewhere are moved there first; the
array then holds the new copy alone, so weights follow the first step that uses them and every write has one place. With "auto"
each program is placed by its estimated time on each device: see ``weft/runtime/auto_device.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

from weft.devices import get_device
from weft.dtypes.formats import DEFAULT, FLOAT32, FLOAT64, Format
from weft.dtypes.parse import spelled
from weft.errors import DTypeError
from weft.graph.primitives.meeting import DETERMINISM
from weft.graph.primitives.precision import MATMUL, PRECISIONS
from weft.placement.all_figures import figures
from weft.runtime.context import LOCAL
from weft.transforms.tree import Structure

T = TypeVar("T")


class Changeable(Protocol[T]):
    value: T


def choose(choice: Changeable[T], value: T) -> None:
    if value != choice.value:
        choice.value = value
        Structure.count += 1  # jitted functions look again at what they are called in


@contextmanager
def chosen(choice: Changeable[T], value: T) -> Iterator[None]:
    before = choice.value
    choose(choice, value)
    try:
        yield
    finally:
        choose(choice, before)


def set_default_dtype(dtype: Any) -> None:
    """Choose what floats are from here on that nobody gave a dtype: float32, as weft has it, or float64, as NumPy has it.

    With float64 all dtypes are NumPy's: Python's floats, ``zeros``, ``linspace`` and random numbers are float64, so are means
    and quotients of integers, complex numbers are complex128, and ``int64 + float32`` is float64. What is there already stays as
    it is, and a jitted function is traced again. It holds for all threads.

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
    >>> import weft as wf
    >>> wf.set_default_dtype("float64")
    >>> (wf.arange(3) / 2).dtype, wf.array([0.1]).dtype
    (dtype('float64'), dtype('float64'))
    >>> wf.set_default_dtype("float32")
    """
    choose(DEFAULT, _check_dtype("set_default_dtype", dtype))


def get_default_dtype() -> np.dtype:
    """The dtype that floats have of which nobody said one.

    Returns
    -------
    numpy.dtype

    Examples
    --------
    >>> import weft as wf
    >>> wf.get_default_dtype()
    dtype('float32')
    """
    return DEFAULT.real.numpy


def default_dtype(dtype: Any) -> AbstractContextManager[None]:
    """Choose it for what is written inside; as :func:`set_default_dtype`, it holds for all threads.

    Parameters
    ----------
    dtype : dtype
        float32 or float64.

    Returns
    -------
    context manager

    Raises
    ------
    DTypeError
        Another dtype.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.default_dtype("float64"):
    ...     x = wf.ones(3)
    >>> x.dtype, wf.ones(3).dtype
    (dtype('float64'), dtype('float32'))
    """
    return chosen(DEFAULT, _check_dtype("default_dtype", dtype))


def _check_dtype(function: str, dtype: Any) -> Format:
    found = None if dtype is None else spelled(dtype)  # None is float64 to NumPy
    if found is not FLOAT32 and found is not FLOAT64:
        raise DTypeError(f"{function}: dtype={found} must be float32 or float64")
    return found


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
    choose(DETERMINISM, _check_bool("set_deterministic", on))


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
    return chosen(DETERMINISM, _check_bool("deterministic", on))


def _check_bool(function: str, on: Any) -> bool:
    if type(on) is not bool:
        raise TypeError(f"{function}: on={on!r} must be True (the same bits in every run) or False (additions in any order)")
    return on

_ELSEWHERE = {  # what PyTorch and JAX call them
    "highest": "float32", "high": "tf32x3", "medium": "tf32", "default": "float32", "tensorfloat32": "tf32",
    "bfloat16": "tf32, or cast the operands", "ieee": "float32",
}


def set_matmul_precision(precision: str) -> None:
    """Choose how exactly products and convolutions of float32 have to be computed from here on; float32 is the default.

    It is a permission: a device that gains nothing by it computes as ever. The CPU does; GPUs compute on their tensor cores.
    Sums are float32 in any case, and so are arrays. Operations have the precision that holds where they are written, their
    derivatives have the same, and a jitted function is traced once for each. It holds for all threads.

    Parameters
    ----------
    precision : str
        ``"float32"``: each product as IEEE 754 has it. ``"tf32"``: operands are rounded to 11 significant bits, as float16's,
        which is the quickest. ``"tf32x3"``: three such products, of upper and lower bits, nearly as exact as float32.

    Raises
    ------
    ValueError
        Another precision.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_matmul_precision("tf32")
    >>> wf.get_matmul_precision()
    'tf32'
    >>> wf.set_matmul_precision("float32")
    """
    choose(MATMUL, _check_precision("set_matmul_precision", precision))


def get_matmul_precision() -> str:
    """How exactly products of float32 have to be computed that are written now.

    Returns
    -------
    str : ``"float32"``, ``"tf32"`` or ``"tf32x3"``

    Examples
    --------
    >>> import weft as wf
    >>> wf.get_matmul_precision()
    'float32'
    """
    return MATMUL.value


def matmul_precision(precision: str) -> AbstractContextManager[None]:
    """Choose it for what is written inside; as :func:`set_matmul_precision`, it holds for all threads.

    Parameters
    ----------
    precision : str
        ``"float32"``, ``"tf32"`` or ``"tf32x3"``.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        Another precision.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.matmul_precision("tf32"):
    ...     y = wf.ones((64, 32)) @ wf.ones((32, 16))
    >>> float(y[0, 0]), wf.get_matmul_precision()
    (32.0, 'float32')
    """
    return chosen(MATMUL, _check_precision("matmul_precision", precision))


def _check_precision(function: str, precision: Any) -> str:
    if precision not in PRECISIONS:
        known = _ELSEWHERE.get(str(precision).lower())
        here = f"; what others call {precision} is {known} here" if known else ""
        raise ValueError(f'{function}: precision={precision!r} must be "float32", "tf32" or "tf32x3"{here}')
    return precision


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


def set_device(name: str) -> None:
    """Run everything on a device from here on: in this thread, and in threads that are made later.

    Without it programs run on ``$WEFT_DEVICE``, and without that on the CPU. Arrays that a program reads are moved to where it
    runs, and stay there until a program on another device reads them; ``x.numpy()`` and ``float(x)`` move nothing.

    Parameters
    ----------
    name : str
        "cpu"; "gpu", of several cards the next is "gpu:1"; "gpu-sim", which interprets the code for a GPU over the memory of the
        host, slowly, and checks every access (these need ``pip install weft[gpu]``); or "auto": each program runs where it takes
        least, by the figures of what is here (``$WEFT_PROFILE``, or measured once), copies of its arrays included. Where nothing
        but a CPU is, that is the CPU.

    Raises
    ------
    ValueError
        No such device.
    DeviceError
        It cannot be used here: the sentence says what is missing.
    DataError
        With "auto": ``$WEFT_PROFILE`` names a file that holds something else.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_device("cpu")
    >>> wf.ones(3).device
    'cpu'
    """
    type(LOCAL).chosen = _found(name)
    _use(type(LOCAL).chosen)
    Structure.count += 1  # jitted functions look again at what they are called in


@contextmanager
def device(name: str) -> Iterator[None]:
    """Run what is looked at or called inside on a device, in this thread.

    What was asked for before and not looked at yet runs where it is looked at.

    Parameters
    ----------
    name : str
        As :func:`set_device` takes it.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        No such device.
    DeviceError
        It cannot be used here: the sentence says what is missing.
    DataError
        With "auto": as :func:`set_device`.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.device("cpu"):
    ...     print(float(wf.ones(3).sum()))
    3.0
    """
    before = LOCAL.place
    _use(_found(name))
    Structure.count += 1
    try:
        yield
    finally:
        _use(before)
        Structure.count += 1


def _found(name: str) -> Any:
    """How ``LOCAL`` says it; an error where the device cannot be used."""
    if name == "auto":
        return figures()
    found = get_device(name).name
    return None if found == "cpu" else found


def _use(place: Any) -> None:
    LOCAL.place = place
    LOCAL.device = place if isinstance(place, str) else None
