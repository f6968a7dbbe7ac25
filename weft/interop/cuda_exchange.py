"""Arrays on CUDA devices shared with other libraries without a copy: DLPack and the CUDA array interface, both ways.

Nothing is copied and the host never waits: each side tells the other on which stream the memory is written or read. weft never
writes again to memory that it has exported, and never to memory that it has imported. NumPy creates the capsules, over memory
that it never reads, because its capsules are released safely at interpreter exit; the device is patched in afterwards.

Memory of others may begin at any address; then code for any address runs. A piece that was shown to others is reused when
everything on the card is done.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from weft.devices import get_device
from weft.devices.base import DEVICE_OF_BUFFER_TYPE, SharesMemory
from weft.devices.names import why_not
from weft.dtypes.formats import EVERY, INT64, Format
from weft.dtypes.parse import parse_any_byte_order
from weft.errors import DTypeError
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import TABLE, bind, constant, input_leaf
from weft.interop.dlpack import CPU, OWN_CODES, open_capsule, reads_flags
from weft.runtime import execute

CUDA = 2  # DLPack's device type
_TYPE_CODES = {"signed": 0, "unsigned": 1, "float": 2, "complex": 5, "bool": 6}  # DLPack's type codes
_COPY_FLAG = 2  # flag of a copy
_DEFAULT, _NO_SYNCHRONISATION = 1, -1  # streams: CUDA's default stream; no synchronisation


def _card(buffer: Any) -> SharesMemory | None:
    """Return the CUDA device that owns a buffer, or None."""
    name = DEVICE_OF_BUFFER_TYPE.get(type(buffer))
    device = None if name is None else get_device(name)
    return device if isinstance(device, SharesMemory) else None


def _code(form: Format) -> int:
    if form.alone and form not in OWN_CODES:
        raise BufferError(f"DLPack has no type for {form} with one element a byte; use .astype('float32')")
    return OWN_CODES.get(form, _TYPE_CODES[form.kind])


_FORMATS = {(_code(form), form.bits): form for form in EVERY.values() if form in OWN_CODES or not form.alone}


def dlpack_device(buffer: Any) -> tuple[int, int]:
    """Return the result of ``__dlpack_device__``. Memory that only weft can reach is exported as a copy on the CPU."""
    card = _card(buffer)
    return (CPU, 0) if card is None else (CUDA, card.number)


def capsule(node: Node, buffer: Any, stream: Any, version: Any, requested: Any, copy: bool | None) -> Any:
    """Return the result of ``__dlpack__`` for content on another device; None if a copy on the CPU is requested.

    Raises
    ------
    BufferError
        The content cannot be exported as requested.
    """
    card = _card(buffer)
    location = dlpack_device(buffer)
    if requested is not None and tuple(requested) not in (location, (CPU, 0)):
        raise BufferError(
            f"__dlpack__: an array on DLPack's device {location} goes there or, copied, to (1, 0), not to {requested}"
        )
    if card is None or requested is not None and tuple(requested) == (CPU, 0):
        if copy is False and type(buffer) in DEVICE_OF_BUFFER_TYPE:
            raise BufferError("__dlpack__: with copy=False the memory is shared, and this array does not lie in the CPU's")
        return None if card is None else _cpu_capsule(node, card, buffer, version)
    versioned = reads_flags(version, copy)
    order = _waiting_stream(stream)
    copied = bool(copy) or not versioned
    if copied:
        buffer = card.copy_buffer(buffer)
    view = _array_over(card.lend(buffer, order), node, buffer, copied)
    return _patched_capsule(view, version if versioned else None, location, node.dtype, copied)


def _cpu_capsule(node: Node, card: SharesMemory, buffer: Any, version: Any) -> Any:
    """Return a capsule with a copy on the CPU."""
    content = np.array(execute.to_numpy(buffer, node.shape, node.dtype))
    view = content if content.dtype.isbuiltin == 1 else content.view(f"u{content.itemsize}")
    return _patched_capsule(view, version if reads_flags(version) else None, (CPU, 0), node.dtype, True)


def _waiting_stream(stream: Any) -> int | None:
    """Return the stream that has to wait for the content, or None."""
    if stream is None:
        return _DEFAULT
    if isinstance(stream, bool) or not isinstance(stream, int | np.integer):
        raise TypeError(f"__dlpack__: stream must be None or an integer, as CUDA's streams are, not {stream!r}")
    if stream < _NO_SYNCHRONISATION or not stream:
        raise ValueError(
            f"__dlpack__: stream={stream} names none of CUDA's streams: 1 is the default stream, 2 the per-thread stream, -1 "
            "means no synchronisation, and 0 is ambiguous"
        )
    return None if stream == _NO_SYNCHRONISATION else int(stream)


class _MemoryOwner:
    """The owner of memory that a NumPy array is made over."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner, self.__array_interface__ = owner, interface


def _array_over(address: int, node: Node, owner: Any, writable: bool) -> np.ndarray:
    """Return a NumPy array over device memory. Only its shape and address may be used."""
    form = node.dtype
    typestr = form.numpy.str if form.numpy.isbuiltin == 1 else f"<u{form.bytes}"
    interface = {"shape": node.shape, "typestr": typestr, "data": (address, not writable), "version": 3}
    return np.asarray(_MemoryOwner(owner, interface))


def _patched_capsule(view: np.ndarray, version: Any, device: tuple[int, int], form: Format, copied: bool) -> Any:
    """Return NumPy's capsule of a view with this device and, if NumPy lacks the type, its type code. version: None before 1.0."""
    capsule = view.__dlpack__() if version is None else view.__dlpack__(max_version=version)
    tensor, flags = open_capsule(capsule)
    tensor.kind, tensor.number = device
    if form.numpy.isbuiltin != 1:
        tensor.code = _code(form)
    if copied and flags is not None:
        flags.value |= _COPY_FLAG
    return capsule


_EXPORTED_BUFFERS: dict[int, list[Any]] = {}  # id of an array -> its exported buffers, kept while the array lives


def interface(array: Any, node: Node, buffer: Any) -> dict[str, Any]:
    """Return ``__cuda_array_interface__`` of an array. A consumer references only the array, so the array keeps the exported
    buffer alive, even after it is written."""
    card = _card(buffer)
    if card is None:
        raise AttributeError("__cuda_array_interface__ is for arrays on a card, and this one does not lie there")
    if node.dtype.numpy.isbuiltin != 1:
        raise AttributeError(f"the CUDA array interface has no type for {node.dtype}; use .astype('float32')")
    key = id(array)
    if key not in _EXPORTED_BUFFERS:
        _EXPORTED_BUFFERS[key] = []
        weakref.finalize(array, _EXPORTED_BUFFERS.pop, key, None).atexit = False
    if all([kept is not buffer for kept in _EXPORTED_BUFFERS[key]]):
        _EXPORTED_BUFFERS[key].append(buffer)
    address = card.lend(buffer, None)  # the consumer waits for the stream in the interface
    return {
        "version": 3, "shape": node.shape, "typestr": node.dtype.numpy.str, "data": (address if node.size else 0, True),
        "strides": None, "stream": card.stream,
    }


class ImportedMemory(NamedTuple):
    """Device memory of another library's array. strides : in elements; stream : the stream to wait for"""

    address: int
    number: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    form: Format
    owner: Any
    stream: int | None


def is_on_cuda(x: Any) -> bool:
    """Return whether another library's array is on a CUDA device."""
    kind = _kind(x)
    return kind == CUDA or kind is None and hasattr(x, "__cuda_array_interface__")


def _kind(x: Any) -> int | None:
    try:
        return x.__dlpack_device__()[0]
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError):
        return None


def import_node(x: Any, function: str, copy: bool | None = None) -> Node:
    """Return a leaf over the memory of another library's array on a CUDA device. A non-contiguous array is copied.

    copy : True: always copy; False: never copy

    Raises
    ------
    BufferError
        The device cannot be used here; a copy is needed but ``copy=False``; or the array's description of itself is invalid.
    DTypeError
        weft does not have the dtype.
    """
    if _kind(x) == CUDA:
        number = int(x.__dlpack_device__()[1])
        card = _get_card(number, function)
        shown = _import_dlpack(x, card, function)
    else:
        described = _check_interface(x.__cuda_array_interface__, function)
        address = described["data"][0]
        owner = _get_card(0, function).gpu_of_address(address) if address else 0
        if owner is None:
            raise BufferError(f"{function}: __cuda_array_interface__ tells the address {address:#x}, which lies on no card")
        number = owner
        card = _get_card(number, function)
        shown = _import_interface(x, described, number, function)
    count = int(np.prod(shown.shape, dtype=object))
    if count and card.gpu_of_address(shown.address) != number:
        raise BufferError(f"{function}: the memory at {shown.address:#x} does not lie on CUDA's card {number}, as the array says")
    if shown.address % shown.form.bytes:
        raise BufferError(f"{function}: the memory at {shown.address:#x} is not aligned for {shown.form}")
    if shown.strides == _contiguous_strides(shown.shape) or not count:
        buffer = card.borrow(shown.address, count * shown.form.bytes, shown.owner, shown.stream)
        return input_leaf(shown.shape, shown.form, card.copy_buffer(buffer) if copy else buffer)
    if copy is False:
        raise BufferError(
            f"{function}: with copy=False the memory must lie row by row; an array of shape {shown.shape} with strides "
            f"{tuple([s * shown.form.bytes for s in shown.strides])} does not. Leave copy=False out to get a copy"
        )
    return _copy_contiguous(card, shown)


def _get_card(number: int, function: str) -> SharesMemory:
    name = "gpu" if not number else f"gpu:{number}"
    reason = why_not(name)
    if reason:
        raise BufferError(
            f"{function}: the array lies on another device, CUDA's card {number}, which cannot be used here as {name!r}: "
            f"{reason}. Bring it to the CPU first"
        )
    device = get_device(name)
    assert isinstance(device, SharesMemory)
    return device


def _contiguous_strides(shape: Sequence[int], given: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the contiguous strides of a shape, in elements, or ``given`` ones where the extent is not 1."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    strides.reverse()
    return tuple(strides if given is None else [t if n == 1 else s for n, s, t in zip(shape, given, strides, strict=True)])


def _import_dlpack(x: Any, card: SharesMemory, function: str) -> ImportedMemory:
    """Import through DLPack. The unconsumed capsule is the owner and releases the memory when it is deleted."""
    try:
        capsule = x.__dlpack__(stream=card.stream, max_version=(1, 1))
    except TypeError:  # before version 1.0
        capsule = x.__dlpack__(stream=card.stream)
    tensor, _ = open_capsule(capsule)
    if (tensor.kind, tensor.number) != (CUDA, card.number):
        raise BufferError(
            f"{function}: the array says that it lies on DLPack's device {(CUDA, card.number)}, and its capsule says "
            f"{(tensor.kind, tensor.number)}"
        )
    form = _FORMATS.get((tensor.code, tensor.bits))
    if form is None or tensor.lanes != 1:
        raise DTypeError(f"{function}: weft has no dtype of DLPack's code {tensor.code} with {tensor.lanes} x {tensor.bits} bits")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = _contiguous_strides(shape, tensor.strides[: tensor.ndim] if tensor.ndim and tensor.strides else None)
    return ImportedMemory((tensor.data or 0) + tensor.offset, card.number, shape, strides, form, capsule, None)


def _check_interface(interface: Any, function: str) -> dict[str, Any]:
    """Return a checked ``__cuda_array_interface__`` with defaults filled in."""
    what = f"{function}: __cuda_array_interface__"
    if not isinstance(interface, dict):
        raise BufferError(f"{what} must be a dict with shape, typestr and data, not {interface!r}")
    parts = {"strides": None, "version": 0, **interface}
    for key, (expected, read) in _PARTS.items():
        if key not in parts:
            raise BufferError(f"{what} says nothing about {key!r}")
        try:
            parts[key] = read(parts[key])
        except (LookupError, TypeError, ValueError):
            raise BufferError(f"{what} tells {key}={parts[key]!r}, and it must be {expected}") from None
    shape, strides = parts["shape"], parts["strides"]
    if strides is not None and len(strides) != len(shape):
        raise BufferError(f"{what} tells shape={shape} and strides={strides}, and there must be as many of both")
    return parts


def _natural(value: Any) -> int:
    if index(value) < 0:
        raise ValueError
    return index(value)


_PARTS: dict[str, tuple[str, Callable[[Any], Any]]] = {  # key -> a description of valid values, and a function that parses one
    "shape": ("a tuple of integers that are not negative", lambda value: tuple(map(_natural, value))),
    "typestr": ("a string such as '<f4'", lambda value: "" + value),
    "data": ("a pair of an address and whether it is read-only", lambda value: (_natural(value[0]), bool(value[1]))),
    "version": ("an integer", index),
    "strides": ("None or a tuple of integers, in bytes", lambda value: None if value is None else tuple(map(index, value))),
}


def _import_interface(x: Any, described: dict[str, Any], number: int, function: str) -> ImportedMemory:
    if described.get("mask") is not None:
        raise BufferError(f"{function}: arrays with a mask cannot be taken")
    try:
        form = parse_any_byte_order(np.dtype(described["typestr"]))
    except TypeError as error:
        raise DTypeError(f"{function}: {error}") from None
    if not np.dtype(described["typestr"]).isnative:
        raise DTypeError(f"{function}: the bytes of {described['typestr']} are in the other order")
    shape, byte_strides = described["shape"], described["strides"]
    if byte_strides is not None and any([s % form.bytes for s in byte_strides]):
        raise BufferError(f"{function}: strides {tuple(byte_strides)} are no multiples of the {form.bytes} bytes of {form}")
    strides = _contiguous_strides(shape, None if byte_strides is None else [s // form.bytes for s in byte_strides])
    stream = described.get("stream") if described.get("version", 0) >= 3 else _DEFAULT
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < 1):
        raise ValueError(f"{function}: __cuda_array_interface__ tells stream={stream!r}, which names none of CUDA's streams")
    return ImportedMemory(described["data"][0], number, shape, strides, form, x, stream)


def _copy_contiguous(card: SharesMemory, shown: ImportedMemory) -> Node:
    """Return a contiguous copy made on the device: elements are gathered at sums of strides."""
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
