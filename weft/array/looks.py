"""Methods that read an Array's content: conversions to Python and NumPy, export to other libraries, text. All of them compute and
wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import COMPLEX, DEFAULT, INTEGERS, converted
from weft.eager import materialise as looking
from weft.eager.native import NATIVE_ELEMENTS
from weft.graph.node import Node, Shape
from weft.graph.source_lines import user_frame
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT

_WRITABLE, _FORMAT = 0x1, 0x4  # cpython/pybuffer.h: PyBUF_WRITABLE, PyBUF_FORMAT


class ReadMethods(Cell):
    """Base of Array."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def node(self) -> Node: ...
        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> np.dtype: ...

    def numpy(self) -> np.ndarray:
        """Return the content, computed now, as a read-only NumPy view without a copy.

        Examples
        --------
        >>> import weft as wf
        >>> (wf.arange(3) * 2).numpy()
        array([0, 2, 4])
        """
        return looking.look(self.node)

    def to_numpy(self, dtype: Any = None, copy: bool = False) -> np.ndarray:
        """Return the result of :meth:`numpy`, in ``dtype`` or as a copy if requested: the name that matplotlib and pandas use."""
        return self.__array__(dtype, copy or None)

    def item(self, *index: int) -> Any:
        """Return the one element (or the one at ``index``) as a Python number."""
        if not index:
            native = NATIVE_ELEMENTS.number
            number = native(self)
            if number is not None:
                return number
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        content = self.numpy()
        if dtype is not None and np.dtype(dtype) != content.dtype:
            if copy is False:
                raise ValueError(f"an array of dtype {content.dtype} cannot become {np.dtype(dtype)} without a copy")
            return converted(content, np.dtype(dtype))
        return content.copy() if copy else content

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from weft.interop.dlpack import exported

        if DEVICE_OF_BUFFER_TYPE:
            from weft.interop.cuda_exchange import capsule

            exported_capsule = capsule(self.node, looking.buffer(self.node), stream, max_version, dl_device, copy)
            if exported_capsule is not None:
                return exported_capsule
        if stream is not None:
            raise RuntimeError(f"__dlpack__: the CPU has no streams, so stream must be None, not {stream!r}")
        options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        return exported(self.numpy(), {name: value for name, value in options.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        if not DEVICE_OF_BUFFER_TYPE:
            return (1, 0)
        from weft.interop.cuda_exchange import dlpack_device

        return dlpack_device(looking.buffer(self.node))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The content on a CUDA device, as version 3 of the interface: read-only, kept alive by this array."""
        if not DEVICE_OF_BUFFER_TYPE or not looking.known(self.node):
            raise AttributeError("__cuda_array_interface__ is for arrays on a card, and this one does not lie there")
        from weft.interop.cuda_exchange import interface

        return interface(self, self.node, looking.buffer(self.node))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The content as version 3 of NumPy's array interface: read-only, kept alive by ``data``."""
        if self.node.dtype.numpy.isbuiltin != 1:
            raise AttributeError(f"NumPy's array interface has no type for {self.node.dtype}; use .astype('float32')")
        content: Any = self._exported(_FORMAT)
        data = memoryview(content)
        return {"version": 3, "shape": content.shape, "typestr": content.dtype.str, "strides": content.strides, "data": data}

    def __buffer__(self, flags: int) -> memoryview:
        """Return a read-only memoryview for ``memoryview(x)``."""
        content: Any = self._exported(flags)
        return memoryview(content)

    def __release_buffer__(self, view: memoryview) -> None:
        """End an export. ``numpy.frombuffer`` uses a memoryview if a class has this method."""
        view.release()

    def _exported(self, flags: int) -> np.ndarray:
        """Return the memory that others may read. The buffer protocol lacks ml_dtypes' formats, which are exported as plain bytes
        only.

        ``torch.asarray`` requests writable bytes without their format, then read-only ones, and takes them for float32 whatever
        they are. A second request from the same place is therefore refused too.
        """
        if not flags & _FORMAT:
            request = id(self), user_frame()
            previous, CONTEXT.refused_export = CONTEXT.refused_export, request if flags & _WRITABLE else None
            if flags & _WRITABLE or previous == request:
                raise BufferError("bytes of an Array are read-only: hand over memoryview(x), x.numpy() or x.tobytes()")
            return np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8)
        content = self.numpy()
        if content.dtype.isbuiltin != 1:
            raise BufferError(f"the buffer protocol has no type for {content.dtype}; use .astype('float32')")
        return content

    def _repr_html_(self) -> str:
        """Return the text that a notebook shows, followed by shape and dtype."""
        node = self.node
        shape = " x ".join(map(str, node.shape)) or "no dimensions"
        from html import escape  # only notebooks need it

        return f"<pre>{escape(repr(self))}</pre><small>Array: {shape}, {node.dtype.name}</small>"

    def _one(self, kind: str, free: bool = False) -> Any:
        node = self.node
        if node.size != 1:
            raise TypeError(f"only an array of one element can become {kind}, this one has shape {node.shape}")
        return looking.one(node, free)

    def _real(self, kind: str) -> Any:
        if self.node.dtype in COMPLEX:
            raise TypeError(f"a complex number cannot become {kind}: take its .real, its .imag or its abs")
        return self._one(kind)

    def __float__(self) -> float:
        native = NATIVE_ELEMENTS.number
        number = native(self)
        if number is not None:
            return float(number)
        return float(self._real("a float"))

    def __int__(self) -> int:
        native = NATIVE_ELEMENTS.number
        number = native(self)
        if number is not None:
            return int(number)
        return int(self._real("an int"))

    def __complex__(self) -> complex:
        return complex(self._one("a complex number"))

    def __bool__(self) -> bool:
        native = NATIVE_ELEMENTS.number
        number = native(self)
        if number is not None:
            return bool(number)
        if self.node.size != 1:
            raise ValueError(f"the truth of an array of shape {self.shape} is ambiguous: use .any() or .all()")
        return bool(self._one("a bool", free=True))

    def __index__(self) -> int:
        if self.node.dtype not in INTEGERS or self.shape:
            raise TypeError(f"only integer arrays without dimensions are an index, not {self.dtype.name} of shape {self.shape}")
        return int(self._one("an index"))

    def __repr__(self) -> str:
        node = self.node
        if not looking.known(node):
            return f"array(<not known while tracing>, shape={node.shape}, dtype={node.dtype.name})"
        content = looking.look(node, free=True)
        if DEFAULT.wide:  # NumPy omits the dtypes that are the defaults then
            return np.array_repr(content)
        text = np.array2string(content, separator=", ", prefix="array(")
        shape = f", shape={node.shape}" if 0 in node.shape and node.shape != (0,) else ""
        return f"array({text}{shape}, dtype={node.dtype.name})"

    def __str__(self) -> str:
        return str(looking.look(self.node, free=True)) if looking.known(self.node) else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self._one("text in this format", free=True).item(), spec) if spec else str(self)
