"""Arrays on cards, shared with other libraries where they lie: DLPack and the CUDA array interface, both ways.

Nothing is copied and nobody waits: each side tells the other which stream its memory is written or read on. What others were
shown is never written by weft from then on, and what weft was shown never at all. NumPy makes the capsules, over memory that it
never touches, since its own end well at the end of a program: the device is written into them afterwards.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from weft.devices import get_device
from weft.devices.base import ELSEWHERE, Exchanging
from weft.devices.names import why_not
from weft.dtypes.formats import EVERY, INT64, Format
from weft.dtypes.parse import of_any_order
from weft.errors import DTypeError
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import TABLE, bind, constant, input_leaf
from weft.runtime import execute

CPU, CUDA = 1, 2  # DLPack's kinds of devices
_KINDS = {"signed": 0, "unsigned": 1, "float": 2, "complex": 5, "bool": 6}  # its codes of types
_OWN = {"bfloat16": 4}  # of formats that have a code of their own
_VERSIONED, _PLAIN = b"dltensor_versioned", b"dltensor"
_FLAGS, _COPIED = 24, 2  # where the flags stand; that the memory is a copy of the array's
_DEFAULT, _UNORDERED = 1, -1  # streams: CUDA's default stream; nobody has to wait


class _Tensor(ctypes.Structure):
    """DLTensor, as dlpack.h has it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )


def _card(buffer: Any) -> Exchanging | None:
    """The card that a buffer lies on."""
    name = ELSEWHERE.get(type(buffer))
    found = None if name is None else get_device(name)
    return found if isinstance(found, Exchanging) else None


def _code(form: Format) -> int:
    return _OWN.get(form.name, _KINDS[form.kind])


_FORMATS = {(_code(form), form.bits): form for form in EVERY.values()}


# ---- shown to others


def dlpack_device(buffer: Any) -> tuple[int, int]:
    """What ``__dlpack_device__`` says: memory that only weft can reach is handed out as a copy, on the CPU."""
    card = _card(buffer)
    return (CPU, 0) if card is None else (CUDA, card.number)


def capsule(node: Node, buffer: Any, stream: Any, version: Any, wanted: Any, copy: bool | None) -> Any:
    """What ``__dlpack__`` gives for content on another device; None where a copy of it on the CPU is asked for.

    Raises
    ------
    BufferError
        It cannot be handed out so.
    """
    card = _card(buffer)
    here = dlpack_device(buffer)
    if wanted is not None and tuple(wanted) not in (here, (CPU, 0)):
        raise BufferError(f"__dlpack__: an array on DLPack's device {here} goes there or, copied, to (1, 0), not to {wanted}")
    if card is None or wanted is not None and tuple(wanted) == (CPU, 0):
        if copy is False and type(buffer) in ELSEWHERE:
            raise BufferError("__dlpack__: with copy=False the memory is shared, and this array does not lie in the CPU's")
        return None if card is None else _on_the_cpu(node, card, buffer, version)
    told = version is not None and tuple(version) >= (1, 0)
    if copy is False and not told:
        raise BufferError(
            "__dlpack__: with copy=False the memory is shared, and must not be written; this consumer is too old (DLPack before "
            "1.0) to be told. Let it have a copy"
        )
    order = _ordered(stream)
    copied = bool(copy) or not told
    if copied:
        buffer = card.copied(buffer)
    seen = _over(card.lend(buffer, order), node, buffer, copied)
    return _patched(seen.__dlpack__(max_version=version) if told else seen.__dlpack__(), here, node.dtype, copied and told)


def _on_the_cpu(node: Node, card: Exchanging, buffer: Any, version: Any) -> Any:
    """A capsule with a copy that the CPU can read."""
    found = np.array(execute.to_numpy(buffer, node.shape, node.dtype))
    told = version is not None and tuple(version) >= (1, 0)
    plain = found if found.dtype.isbuiltin == 1 else found.view(f"u{found.itemsize}")
    return _patched(plain.__dlpack__(max_version=version) if told else plain.__dlpack__(), (CPU, 0), node.dtype, told)


def _ordered(stream: Any) -> int | None:
    """The stream that is to wait for the content; None where none is."""
    if stream is None:
        return _DEFAULT
    if isinstance(stream, bool) or not isinstance(stream, int | np.integer):
        raise TypeError(f"__dlpack__: stream must be None or an integer, as CUDA's streams are, not {stream!r}")
    if stream < _UNORDERED or not stream:
        raise ValueError(
            f"__dlpack__: stream={stream} names none of CUDA's streams: 1 is the default stream, 2 that of a thread, with -1 "
            "nobody waits, and 0 may mean several"
        )
    return None if stream == _UNORDERED else int(stream)


class _Seen:
    """What NumPy keeps as the owner of memory that it is shown."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner, self.__array_interface__ = owner, interface


def _over(address: int, node: Node, owner: Any, writable: bool) -> np.ndarray:
    """A NumPy array over a card's memory, of which only shape and address may be asked."""
    form = node.dtype
    typestr = form.numpy.str if form.numpy.isbuiltin == 1 else f"<u{form.bytes}"
    return np.asarray(_Seen(owner, {"shape": node.shape, "typestr": typestr, "data": (address, not writable), "version": 3}))


def _patched(made: Any, device: tuple[int, int], form: Format, copied: bool) -> Any:
    """A capsule that NumPy made, with another device and, where NumPy has no word for the type, its code."""
    tensor, flags = _opened(made)
    tensor.kind, tensor.number = device
    if form.numpy.isbuiltin != 1:
        tensor.code = _code(form)
    if copied and flags is not None:
        flags.value |= _COPIED
    return made


_SHOWN: dict[int, list[Any]] = {}  # by the identity of an array: buffers whose addresses were told, as long as it lives


def interface(array: Any, node: Node, buffer: Any) -> dict[str, Any]:
    """``__cuda_array_interface__`` of an array. Who reads by it holds the array, so that has to keep the memory, whatever is
    written into it meanwhile."""
    card = _card(buffer)
    if card is None:
        raise AttributeError("__cuda_array_interface__ is for arrays on a card, and this one does not lie there")
    if node.dtype.numpy.isbuiltin != 1:
        raise AttributeError(f"the CUDA array interface has no word for {node.dtype}; .astype('float32') has one")
    key = id(array)
    if key not in _SHOWN:
        _SHOWN[key] = []
        weakref.finalize(array, _SHOWN.pop, key, None).atexit = False
    if all([kept is not buffer for kept in _SHOWN[key]]):
        _SHOWN[key].append(buffer)
    address = card.lend(buffer, None)  # who reads it waits for the stream that is told
    return {
        "version": 3, "shape": node.shape, "typestr": node.dtype.numpy.str, "data": (address if node.size else 0, True),
        "strides": None, "stream": card.stream,
    }


# ---- shown by others


class Shown(NamedTuple):
    """Memory on a card that another library shows. strides : in elements; stream : what has to be waited for"""

    address: int
    number: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    form: Format
    owner: Any
    stream: int | None


def lies_on_a_card(x: Any) -> bool:
    """Whether another library's array says that it lies on a card of CUDA's."""
    kind = _kind(x)
    return kind == CUDA or kind is None and hasattr(x, "__cuda_array_interface__")


def _kind(x: Any) -> int | None:
    try:
        return x.__dlpack_device__()[0]
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError):
        return None


def card_node(x: Any, function: str, copy: bool | None = None) -> Node:
    """A leaf on a card over the memory of another library's array that lies there. What does not lie row by row is copied.

    copy : True: always a copy; False: never one

    Raises
    ------
    BufferError
        The card cannot be used here; with ``copy=False``, where a copy is needed; what the array tells of itself is none of what
        it should be.
    DTypeError
        A dtype that weft does not have.
    """
    if _kind(x) == CUDA:
        number = int(x.__dlpack_device__()[1])
        card = _usable(number, function)
        shown = _by_dlpack(x, card, function)
    else:
        described = _described(x.__cuda_array_interface__, function)
        address = described["data"][0]
        found = _usable(0, function).lies(address) if address else 0
        if found is None:
            raise BufferError(f"{function}: __cuda_array_interface__ tells the address {address:#x}, which lies on no card")
        number = found
        card = _usable(number, function)
        shown = _by_interface(x, described, number, function)
    count = int(np.prod(shown.shape, dtype=object))
    if count and card.lies(shown.address) != number:
        raise BufferError(f"{function}: the memory at {shown.address:#x} does not lie on CUDA's card {number}, as the array says")
    if shown.address % shown.form.bytes:
        raise BufferError(f"{function}: the memory at {shown.address:#x} is not aligned for {shown.form}")
    if shown.strides == _row_by_row(shown.shape) or not count:
        buffer = card.borrow(shown.address, count * shown.form.bytes, shown.owner, shown.stream)
        return input_leaf(shown.shape, shown.form, card.copied(buffer) if copy else buffer)
    if copy is False:
        raise BufferError(
            f"{function}: with copy=False the memory must lie row by row; an array of shape {shown.shape} with strides "
            f"{tuple([s * shown.form.bytes for s in shown.strides])} does not. Let it be copied"
        )
    return _gathered(card, shown)


def _usable(number: int, function: str) -> Exchanging:
    name = "gpu" if not number else f"gpu:{number}"
    missing = why_not(name)
    if missing:
        raise BufferError(
            f"{function}: the array lies on another device, CUDA's card {number}, which cannot be used here as {name!r}: "
            f"{missing}. Bring it to the CPU first"
        )
    found = get_device(name)
    assert isinstance(found, Exchanging)
    return found


def _row_by_row(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements; an extent of 1 has the stride that it would have."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _plain(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides with those that nobody uses, of extents of 1, as :func:`_row_by_row` has them."""
    return tuple([t if n == 1 else s for n, s, t in zip(shape, strides, _row_by_row(shape), strict=True)])


def _by_dlpack(x: Any, card: Exchanging, function: str) -> Shown:
    """The capsule stays as it is, and is the owner: when it goes, it gives the memory back."""
    try:
        made = x.__dlpack__(stream=card.stream, max_version=(1, 1))
    except TypeError:  # before version 1.0
        made = x.__dlpack__(stream=card.stream)
    tensor, _ = _opened(made)
    if (tensor.kind, tensor.number) != (CUDA, card.number):
        raise BufferError(
            f"{function}: the array says that it lies on DLPack's device {(CUDA, card.number)}, and its capsule says "
            f"{(tensor.kind, tensor.number)}"
        )
    form = _FORMATS.get((tensor.code, tensor.bits))
    if form is None or tensor.lanes != 1:
        raise DTypeError(f"{function}: weft has no dtype of DLPack's code {tensor.code} with {tensor.lanes} x {tensor.bits} bits")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else _row_by_row(shape)
    return Shown((tensor.data or 0) + tensor.offset, card.number, shape, _plain(shape, strides), form, made, None)


def _described(given: Any, function: str) -> dict[str, Any]:
    """What another library tells by ``__cuda_array_interface__``, of the kinds that its specification has."""
    if not isinstance(given, dict):
        raise BufferError(f"{function}: __cuda_array_interface__ must be a dict with shape, typestr and data, not {given!r}")
    found = {"strides": None, "version": 0, **given}
    for key, read in _PARTS.items():
        if key not in found:
            raise BufferError(f"{function}: __cuda_array_interface__ says nothing about {key!r}")
        try:
            found[key] = read(found[key])
        except (TypeError, ValueError):
            raise BufferError(f"{function}: __cuda_array_interface__ tells {key}={found[key]!r}, and {_MEANT[key]}") from None
    if found["strides"] is not None and len(found["strides"]) != len(found["shape"]):
        raise BufferError(
            f"{function}: __cuda_array_interface__ tells shape={found['shape']} and strides={found['strides']}, and there must "
            "be as many of both"
        )
    return found


def _extents(given: Any) -> tuple[int, ...]:
    found = tuple(map(index, given))
    if any([n < 0 for n in found]):
        raise ValueError
    return found


def _words(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given


def _address(given: Any) -> tuple[int, bool]:
    address, readonly = given
    if index(address) < 0:
        raise ValueError
    return index(address), bool(readonly)


_PARTS: dict[str, Callable[[Any], Any]] = {
    "shape": _extents, "typestr": _words, "data": _address, "version": index,
    "strides": lambda given: None if given is None else tuple(map(index, given)),
}
_MEANT = {
    "shape": "it must be a tuple of integers that are not negative", "typestr": "it must be a string such as '<f4'",
    "data": "it must be a pair of an address and whether it is read-only", "version": "it must be an integer",
    "strides": "it must be None or a tuple of integers, in bytes",
}


def _by_interface(x: Any, described: dict[str, Any], number: int, function: str) -> Shown:
    if described.get("mask") is not None:
        raise BufferError(f"{function}: arrays with a mask cannot be taken")
    try:
        form = of_any_order(np.dtype(described["typestr"]))
    except TypeError as error:
        raise DTypeError(f"{function}: {error}") from None
    if not np.dtype(described["typestr"]).isnative:
        raise DTypeError(f"{function}: the bytes of {described['typestr']} are in the other order")
    shape, told = described["shape"], described["strides"]
    if told is not None and any([s % form.bytes for s in told]):
        raise BufferError(f"{function}: strides {tuple(told)} are no multiples of the {form.bytes} bytes of {form}")
    strides = _row_by_row(shape) if told is None else tuple([s // form.bytes for s in told])
    stream = described.get("stream") if described.get("version", 0) >= 3 else _DEFAULT
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < 1):
        raise ValueError(f"{function}: __cuda_array_interface__ tells stream={stream!r}, which names none of CUDA's streams")
    return Shown(described["data"][0], number, shape, _plain(shape, strides), form, x, stream)


def _gathered(card: Exchanging, shown: Shown) -> Node:
    """A copy, row by row, made on the card: elements are read at sums of strides."""
    steps = [(n - 1) * s for n, s in zip(shown.shape, shown.strides, strict=True)]
    low, high = sum([s for s in steps if s < 0]), sum([s for s in steps if s > 0])
    span, first = high - low + 1, shown.address + low * shown.form.bytes
    flat = input_leaf((span,), shown.form, card.borrow(first, span * shown.form.bytes, shown.owner, shown.stream))
    place = constant(-low, INT64)
    for d, (n, stride) in enumerate(zip(shown.shape, shown.strides, strict=True)):
        line = bind(TABLE["iota"], shape=(n,) + (1,) * (len(shown.shape) - d - 1), dtype=INT64, axis=0)
        place = bind(TABLE["add"], place, bind(TABLE["multiply"], line, constant(stride, INT64)))
    out = bind(TABLE["gather"], flat, place, axes=(0,))
    with execute.on(card.name):
        (buffer,) = execute.run(Graph([flat], [out]), [flat.value])
    return input_leaf(shown.shape, shown.form, buffer)


def _opened(made: Any) -> tuple[_Tensor, Any]:
    """What a capsule holds, in place, and its flags, where it has some."""
    api = ctypes.pythonapi
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    if not valid(made, _VERSIONED):
        return _Tensor.from_address(pointer(made, _PLAIN)), None
    at = pointer(made, _VERSIONED)
    major = ctypes.c_uint32.from_address(at).value
    if major != 1:
        raise BufferError(f"a DLPack capsule of version {major} cannot be read: version 1 can")
    return _Tensor.from_address(at + 32), ctypes.c_uint64.from_address(at + _FLAGS)
