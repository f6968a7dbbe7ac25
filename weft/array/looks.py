"""What Python and other libraries see of an Array's content. All of it computes, and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import COMPLEX, DEFAULT, INTEGERS, converted
from weft.eager import materialise as looking
from weft.eager.native import ELEMENTS
from weft.graph.node import Node, Shape
from weft.graph.source_lines import user_frame
from weft.runtime.cell import Cell
from weft.runtime.context import LOCAL

_WRITABLE, _FORMAT = 0x1, 0x4  # cpython/pybuffer.h: PyBUF_WRITABLE, PyBUF_FORMAT


class Looks(Cell):
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
        """The content as a NumPy array: computed now, a read-only view of it without a copy.

        Examples
        --------
        >>> import weft as wf
        >>> (wf.arange(3) * 2).numpy()
        array([0, 2, 4])
        """
        return looking.look(self.node)

    def to_numpy(self, dtype: Any = None, copy: bool = False) -> np.ndarray:
        """As :meth:`numpy`, by the name that matplotlib and pandas ask for; in ``dtype``, and a copy, where that is asked for."""
        return self.__array__(dtype, copy or None)

    def item(self, *index: int) -> Any:
        """The one element (or the one at ``index``) as a Python number."""
        if not index:
            native = ELEMENTS.number
            found = native(self)
            if found is not None:
                return found
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        if dtype is not None and np.dtype(dtype) != found.dtype:
            if copy is False:
                raise ValueError(f"an array of dtype {found.dtype} cannot become {np.dtype(dtype)} without a copy")
            return converted(found, np.dtype(dtype))
        return found.copy() if copy else found

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from weft.interop.dlpack import exported

        if ELSEWHERE:
            from weft.interop.cuda_exchange import capsule

            found = capsule(self.node, looking.buffer(self.node), stream, max_version, dl_device, copy)
            if found is not None:
                return found
        if stream is not None:
            raise RuntimeError(f"__dlpack__: the CPU has no streams, so stream must be None, not {stream!r}")
        asked = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        return exported(self.numpy(), {name: value for name, value in asked.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        if not ELSEWHERE:
            return (1, 0)
        from weft.interop.cuda_exchange import dlpack_device

        return dlpack_device(looking.buffer(self.node))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The content on a card as CUDA's libraries describe memory, version 3: read-only, kept as long as this array lives."""
        if not ELSEWHERE or not looking.known(self.node):
            raise AttributeError("__cuda_array_interface__ is for arrays on a card, and this one does not lie there")
        from weft.interop.cuda_exchange import interface

        return interface(self, self.node, looking.buffer(self.node))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The content as NumPy describes memory, version 3: read-only, and kept by ``data``, for as long as that lives."""
        if self.node.dtype.numpy.isbuiltin != 1:
            raise AttributeError(f"NumPy's array interface has no word for {self.node.dtype}; .astype('float32') has one")
        found: Any = self._exported(_FORMAT)
        data = memoryview(found)
        return {"version": 3, "shape": found.shape, "typestr": found.dtype.str, "strides": found.strides, "data": data}

    def __buffer__(self, flags: int) -> memoryview:
        """What ``memoryview(x)`` sees, read-only."""
        found: Any = self._exported(flags)
        return memoryview(found)

    def __release_buffer__(self, view: memoryview) -> None:
        """End an export. ``numpy.frombuffer`` asks through a memoryview where a class has this."""
        view.release()

    def _exported(self, flags: int) -> np.ndarray:
        """What others see of the memory; ml_dtypes' formats, which the buffer protocol lacks, are seen as bytes alone.

        Who asks for bytes without their format to write there, and when that is refused to read them, takes them for numbers:
        ``torch.asarray`` for float32, whatever they are. He gets none.
        """
        if not flags & _FORMAT:
            asked = id(self), user_frame()
            before, LOCAL.refused = LOCAL.refused, asked if flags & _WRITABLE else None
            if flags & _WRITABLE or before == asked:
                raise BufferError("bytes of an Array are read-only: hand over memoryview(x), x.numpy() or x.tobytes()")
            return np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8)
        found = self.numpy()
        if found.dtype.isbuiltin != 1:
            raise BufferError(f"the buffer protocol has no word for {found.dtype}; .astype('float32') has one")
        return found

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, and below it shape and dtype."""
        node = self.node
        shape = " x ".join(map(str, node.shape)) or "no dimensions"
        from html import escape  # only notebooks ask

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
        native = ELEMENTS.number
        found = native(self)
        if found is not None:
            return float(found)
        return float(self._real("a float"))

    def __int__(self) -> int:
        native = ELEMENTS.number
        found = native(self)
        if found is not None:
            return int(found)
        return int(self._real("an int"))

    def __complex__(self) -> complex:
        return complex(self._one("a complex number"))

    def __bool__(self) -> bool:
        native = ELEMENTS.number
        found = native(self)
        if found is not None:
            return bool(found)
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
        if DEFAULT.wide:  # the dtypes that NumPy leaves out are the ones that numbers have by themselves
            return np.array_repr(content)
        text = np.array2string(content, separator=", ", prefix="array(")
        shape = f", shape={node.shape}" if 0 in node.shape and node.shape != (0,) else ""
        return f"array({text}{shape}, dtype={node.dtype.name})"

    def __str__(self) -> str:
        return str(looking.look(self.node, free=True)) if looking.known(self.node) else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self._one("text in this format", free=True).item(), spec) if spec else str(self)
