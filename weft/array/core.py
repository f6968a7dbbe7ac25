"""Array, the object that users hold: an ndarray, or a Scalar where NumPy returns a scalar. Nothing runs until a value is read.

An Array is the Cell of its own content, or a view: it refers to another Array (``_base``) and reads and writes it through the
steps in ``_path``. A Scalar is an Array without dimensions whose content never changes.

``wrap`` returns a Scalar for a node without dimensions, else an ndarray. ``wrap_array`` always returns an ndarray, since only an
ndarray
can be written to. Every computed result without dimensions is a Scalar; NumPy's ``where``, ``roll``, ``pad``, ``isin`` and
``tensordot`` return arrays without dimensions.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array import indexing
from weft.array.convert import as_node, cast, convert_assigned, convert_checked
from weft.array.indexing import Selection, broadcast_value, check_pending_indices, resolve_scalar_indices, select, select_basic
from weft.array.numpy_methods import NumpyMethods, refuse_assignment
from weft.array.operators import install
from weft.array.views import (
    IMAG,
    REAL,
    RESHAPED,
    TRANSPOSES,
    ZERO_IMAG,
    ViewLayout,
    ViewPath,
    compose_views,
    reshape_step,
    view_layout,
    view_memory,
    view_node,
    view_shape,
    write_along_path,
)
from weft.dtypes.formats import COMPLEX, FLOAT64, Format, same_kind
from weft.dtypes.scalar_types import CLASSES, public_dtype
from weft.eager import materialise
from weft.eager.apply import bind, compute_if_small
from weft.eager.materialise import add_pending
from weft.eager.native import NATIVE_ELEMENTS, introduce, not_available, start
from weft.eager.peek import memory_of
from weft.errors import DTypeError, ShapeError, TraceError
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import INPUT, NODES_THAT_MAY_RAISE, TABLE, input_leaf
from weft.interop import buffer_protocol
from weft.runtime import execute
from weft.runtime.cell import VIEW_READS, WRITE_LOCK, WRITE_LOGS, read, write
from weft.runtime.context import CONTEXT


class NumberMethods:
    """Base class of Scalar: the methods that Python's and NumPy's numbers have.

    Scalars of all dtypes share one class, so native code creates a Scalar without looking at its dtype. ``__class__`` returns the
    class of the dtype, such as ``wf.float32``, whose hash is that of NumPy's ``x.dtype.type``.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # for mypy, Scalar is one class

        @property
        def __class__(self) -> type:
            """The class of its dtype, such as ``wf.float32``, so that ``isinstance`` works for kinds of numbers."""
            return CLASSES[self._node.dtype]

    @property
    def numerator(self: Any) -> int:
        """The integer itself, as a Python int."""
        return self.item().numerator

    @property
    def denominator(self: Any) -> int:
        """1, for an integer."""
        return self.item().denominator

    def is_integer(self: Any) -> bool:
        """Return whether a real number is integral."""
        number = self.item()
        return isinstance(number, int) or number.is_integer()

    def as_integer_ratio(self: Any) -> tuple[int, int]:
        """Return two ints whose quotient is exactly the number."""
        return self.item().as_integer_ratio()

    def hex(self: Any) -> str:
        """Return a float as hexadecimal text."""
        return self.item().hex()

    def bit_count(self: Any) -> int:
        """Return the number of 1 bits in an integer's absolute value."""
        return self.item().bit_count()

    def __round__(self: Any, digits: int | None = None) -> Any:
        return round(self.item()) if digits is None else self.round(digits)

    def __trunc__(self: Any) -> int:
        return math.trunc(self.item())

    def __floor__(self: Any) -> int:
        return math.floor(self.item())

    def __ceil__(self: Any) -> int:
        return math.ceil(self.item())

    def __hash__(self: Any) -> int:
        return hash(self.item())

    def __copy__(self: Any) -> Any:
        return self

    def __deepcopy__(self: Any, memo: Any) -> Any:
        return self

    def __repr__(self: Any) -> str:
        name = self.dtype.name
        return f"{name}({self.numpy()!s})" if materialise.can_compute(self.node) else f"{name}(<not known while tracing>)"


_new = object.__new__
_NO_PARAMS: dict[str, Any] = {}
_CURRENT_TRACE = object()
_ref = weakref.ref


def wrap(node: Node, trace: Any = _CURRENT_TRACE, kind: type[Array] | None = None) -> Array:
    """Return a new Array that holds ``node``: a Scalar if it has no dimensions, else an ndarray.

    trace : the current trace, if the caller has it
    kind : the class, to override the choice
    """
    if trace is _CURRENT_TRACE:
        trace = CONTEXT.trace
    out = _new(kind or (ndarray if node.shape else Scalar))
    out._node = node
    out._base = None
    out._trace = trace
    if trace is not None:
        node.holder = ref = _ref(out)
        trace.made_arrays.append(ref)
    elif node.value is None and not compute_if_small(node):
        node.holder = ref = _ref(out)
        add_pending(ref, node)
    return out


def wrap_array(node: Node) -> Array:
    """Return a new ndarray that holds ``node``, also for a node without dimensions: unlike a Scalar, it can be written to."""
    return wrap(node, CONTEXT.trace, ndarray)


def make_placeholder(x: Any, node: Node, strides: tuple[int, ...] | None) -> Array:
    """Return a placeholder for ``x``. It has the strides of ``x`` (see :func:`element_strides`), since these decide which
    results are
    views."""
    out = wrap(node) if isinstance(x, Scalar | float) else wrap_array(node)
    if getattr(x, "read_only", False):
        out.__class__ = type(x)
    if strides is not None:
        out._placeholder_strides = strides
    return out


def wrap_like(x: Any, node: Node) -> Array:
    """Return a new array that holds ``node``: a Scalar if ``x`` is a Scalar, else an ndarray."""
    return wrap(node) if isinstance(x, Scalar) else wrap_array(node)


class Array(NumpyMethods):
    """An n-dimensional array (a ``wf.ndarray``) or one number (a ``wf.Scalar``). Made by ``wf.array``, ``wf.zeros`` and the like.

    Examples
    --------
    >>> import weft as wf
    >>> a = wf.array([[1.0, 2.0], [3.0, 4.0]])
    >>> (a + 1).sum(axis=0)
    array([6., 8.], dtype=float32)
    """

    __slots__ = ("_base", "_before", "_index", "_layout", "_placeholder_strides", "_source", "_steps")

    _base: Array | None
    _steps: ViewPath | None  # of a view: its path from the base; None while it is not known
    _before: ViewPath  # of a view that native code made: the path of the array that was indexed
    _index: Any  # of such a view: the index, or RESHAPED
    _layout: ViewLayout | None  # of a view: where its elements lie; None if NumPy has no such view, or it was not needed yet
    _source: weakref.ref[Node] | None  # of a view: the node of its base from which ``_node`` was computed
    _placeholder_strides: tuple[int, ...]  # of a placeholder for a view: the strides of the view, in elements
    weak = False  # whether it stands for a float argument of a traced function
    is_value = False  # whether it is a Scalar
    read_only = False  # whether it is a ReadOnly

    def __hash__(self) -> int:
        raise TypeError("an Array is not hashable, because its content may change; use an element, x[i], or tuple(x.tolist())")

    # ---- content

    @property
    def node(self) -> Node:
        """The current content, as a Node."""
        if (base := self._base) is None:
            trace = CONTEXT.trace
            return self._node if trace is None or self._trace is trace else trace.read(self)
        source = read(base)
        # CPython returns the same weak reference while the node lives. A strong reference would prevent writes in place.
        current = _ref(source)
        if self._source is current:
            return self._node
        self._node = node = self._read_view(source)
        self._source = current
        VIEW_READS[0] += 1
        node.holder = _ref(self)
        return node

    def _read_view(self, source: Node) -> Node:
        """Return what this view shows of a node of its base: natively if that is small and materialised."""
        native = NATIVE_ELEMENTS.take
        part = native(self)
        if part is None and self._layout is None and source.value is not None:
            self._layout = view_layout(source.shape, source.dtype, self._path)
            part = native(self)
        if part is None:
            return view_node(source, self._path)
        if "reduced" in source.params and not self._path:  # for messages about shapes that do not broadcast
            part._node.params = source.params
        return part._node

    @property
    def cell(self) -> Array:
        """The Cell that holds the content: the array itself, or the base of a view."""
        return self if self._base is None else self._base

    @property
    def _path(self) -> ViewPath:
        """The steps of a view from its base."""
        if (path := self._steps) is None:
            assert self._base is not None
            assert self._layout is not None  # native code made the view
            if self._index is RESHAPED:
                path = () if self._layout[0] == self._base._node.shape else (reshape_step(self._layout[0]),)
            else:
                shape = view_shape(self._base._node.shape, self._before)
                selection = select_basic(self._index, shape)
                assert selection is not None
                path = compose_views(self._before, selection.path)
            self._steps = path
        return path

    def _set(self, node: Node) -> None:
        """Replace the content by one of the same shape and dtype; a view writes through."""
        if (base := self._base) is None:
            if WRITE_LOGS:
                materialise.log_write(self)
            if node.value is None and NODES_THAT_MAY_RAISE:
                materialise.compute_fallible((node,))
            write(self, node)
            if node.value is None and not (CONTEXT.trace is None and compute_if_small(node)):
                node.holder = ref = _ref(self)
                if CONTEXT.trace is None:
                    add_pending(ref, node)
        else:
            with WRITE_LOCK:
                if not indexing.write_view(base, self._path, node):
                    base._set(write_along_path(read(base), self._path, node))

    def _view(self, path: ViewPath, layout: ViewLayout | None = None) -> Array:
        """Return a view along a path from this array. layout : of the path from an array that is no view, if it is known"""
        out = _new(ndarray)
        base = self._base
        if base is None:
            out._base, out._steps, out._layout = self, path, layout
        else:
            out._base, out._steps, out._layout = base, compose_views(self._path, path), None
        out._trace = CONTEXT.trace
        out._source = None
        return out

    _wrap: Callable[..., Array] = staticmethod(wrap)
    _wrap_array = staticmethod(wrap_array)

    @property
    def shape(self) -> Shape:
        """The extents."""
        return self.node.shape

    @shape.setter
    def shape(self, value: Any) -> None:
        refuse_assignment(value)

    @property
    def dtype(self) -> np.dtype:
        """The dtype, a ``numpy.dtype``."""
        form = self.node.dtype
        return form.numpy if form.numpy.names is None else public_dtype(form)

    @dtype.setter
    def dtype(self, value: Any) -> None:
        refuse_assignment(value)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.node.size

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element."""
        return self.node.dtype.bytes

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return self.node.nbytes

    @property
    def device(self) -> str:
        """The name of the device that holds the content; of the device in use if the content is pending."""
        value = self.cell._node.value
        return (execute.device() if value is None else execute.owner(value)).name

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """Return an array with this content on a device; the array itself if it is there already. Programs move their inputs by
        themselves (see ``wf.set_device``); call this to choose when. Inside jit and gradients it returns the array itself."""
        target = execute.get_device(device)
        if CONTEXT.trace is not None or CONTEXT.retain_graph:
            return self
        if self.cell._node.value is None:
            with execute.on(target.name):  # the pending content is computed there
                materialise.materialise((self.cell._node,))
        if self.device == target.name:
            return self
        content = self.numpy()
        leaf = input_leaf(content.shape, self.node.dtype, target.upload(content))
        return wrap(leaf) if isinstance(self, Scalar) else wrap_array(leaf)

    @property
    def real(self) -> Array:
        """The real parts as a view; the array itself if the dtype is real. Assignment writes them."""
        return self._view(REAL) if self.node.dtype in COMPLEX else self

    @real.setter
    def real(self, value: Any) -> None:
        self[...] = wrap(_join_parts(value, self.imag)) if self.node.dtype in COMPLEX else value

    @property
    def imag(self) -> Array:
        """The imaginary parts as a view; zeros if the dtype is real. Assignment writes them."""
        return self._view(IMAG if self.node.dtype in COMPLEX else ZERO_IMAG)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.node.dtype not in COMPLEX:
            raise TypeError(f"a {self.dtype.name} array has no imaginary part to be set; cast it with .astype('complex64')")
        self[...] = wrap(_join_parts(self.real, value))

    # ---- indexing

    def __getitem__(self, index: Any) -> Array:
        native = NATIVE_ELEMENTS.element
        if (value := native(self, index)) is not None:
            return value
        if type(index) is Scalar and (ints := resolve_scalar_indices(index)) is not index:
            return self[ints]
        if (selection := select_basic(index, self._node.shape if self._base is None else self.node.shape)) is None:
            if (value := indexing.read_natively(self, index)) is not None:
                return value
            index = resolve_scalar_indices(index)
            if (result := indexing.read_eagerly(self, index)) is not None:
                return _choose_wrapper(index)(result)
            selection = select(index, self.node.shape)
        if selection.is_copy:
            return wrap(view_node(self.node, selection.path))
        if not selection.axes:
            if selection.is_element:
                return self._element(index, selection)
            not_available()  # counts the view: after many, native code makes them
            return self._view(selection.path, None if self._base is not None else selection.find_layout(self._node))
        node = self.node
        result = indexing.gather_selection(view_node(node, selection.path), selection)
        if not result.size:
            check_pending_indices(selection.indices)
        return _choose_wrapper(index)(result)

    def _element(self, index: Any, selection: Selection) -> Array:
        if (leaf := indexing.read_element(self, resolve_scalar_indices(index))) is None:
            return wrap(view_node(self.node, selection.path))
        start()
        return wrap(leaf)

    def __setitem__(self, index: Any, value: Any) -> None:
        native = NATIVE_ELEMENTS.store
        if native(self, index, value):
            return
        if self._base is None:
            put = NATIVE_ELEMENTS.put
            if put(self, index, value):
                return
            if select_basic(index, self._node.shape) is None and indexing.write_natively(self, index, value):
                return
        with WRITE_LOCK:
            if index is Ellipsis:
                return self._fill(value)
            selection = select_basic(index, self._node.shape if self._base is None else self.node.shape)
            index = resolve_scalar_indices(index)
            if selection is not None and selection.is_element:
                if native(self, index, value):
                    return
                if type(value) in (float, int, bool) and indexing.write_part(self, index, value):
                    return start()
            if selection is not None or not indexing.write_eagerly(self, index, value):
                self._write(index, selection, value)

    def _view_memory(self, memory: np.ndarray) -> np.ndarray | None:
        """Return the part of the cell's memory that this array shows, or None if NumPy has no view of that part."""
        return memory if self._base is None else view_memory(memory, self._path)

    def _peek(self) -> np.ndarray | None:
        """Return a NumPy view of the elements, for immediate use; None if the content is pending, if NumPy has no view of
        them, or if eager execution is off."""
        base = self._base
        memory = memory_of((self if base is None else base)._node)
        return memory if base is None or memory is None else view_memory(memory, self._path)

    def _path_from_cell(self, path: ViewPath) -> ViewPath:
        """Return ``path``, which starts at this array, as a path that starts at its cell."""
        return path if self._base is None else compose_views(self._path, path)

    def _fill(self, value: Any) -> None:
        if type(value) is ndarray and value._base is self.cell and value._path == self._path_from_cell(()):
            return  # a[...] += b: __iadd__ has written the view, which Python now assigns to itself
        if type(value) in (float, int) and CONTEXT.trace is None and indexing.write_part(self, ..., value):
            return
        node = self.node
        self._set(broadcast_value(convert_checked(value, node.dtype), node.shape))

    def _write(self, index: Any, selection: Selection | None, value: Any) -> None:
        if selection is not None:
            if selection.is_element:
                value = indexing.read_element_value(value, self)
            if type(value) is ndarray and value._base is self.cell and value._path == self._path_from_cell(selection.path):
                return  # a[i] += b: __iadd__ has written the view, which Python now assigns to itself
            if CONTEXT.trace is None and indexing.write_part(self, index, value):
                return
        node = self.node
        mask = indexing.single_mask(index, node.shape) if selection is None else None
        if selection is None and mask is None:
            selection = select(index, node.shape)  # report a wrong index before a wrong value
        convert = convert_assigned if mask is not None or (selection is not None and selection.axes) else convert_checked
        converted = convert(value, node.dtype)
        if mask is not None and converted.size == 1:
            one = bind(TABLE["reshape"], converted, shape=()) if converted.shape else converted
            self._set(bind(TABLE["where"], broadcast_value(mask, node.shape), one, node))
            return
        selection = selection or select(index, node.shape)
        if selection.axes:
            check_pending_indices(selection.indices)
            self._set(indexing.scatter_selection(node, selection, converted))
            return
        view = view_node(node, selection.path)
        fresh = broadcast_value(converted, view.shape)
        del node, view  # the cell's node must have no other reference, to be written in place
        if not selection.is_copy and indexing.write_view(self.cell, self._path_from_cell(selection.path), fresh):
            return
        node = self.node
        self._set(write_along_path(node, selection.path, fresh) if selection.path else fresh)

    # ---- copies

    def __reduce__(self) -> Any:
        return _unpickle, (np.array(materialise.read_array(self.node)),)

    def __copy__(self) -> Array:
        return wrap_array(self.node)

    def __deepcopy__(self, memo: Any) -> Array:
        return wrap_array(self.node)

    def as_dtype_node(self, dtype: Format) -> Node:
        """Return the content in ``dtype``, as a node."""
        return cast(self.node, dtype)

    def _in_place(self, node: Node, name: str) -> Array:
        """Write the result of the operation ``name``, as in ``a += b``, and return the array."""
        have = self.node
        if node.shape != have.shape:
            raise ShapeError(f"{name}: the result has shape {node.shape}, it cannot be written into shape {have.shape}")
        if not same_kind(node.dtype, have.dtype):
            raise DTypeError(
                f"{name}: the result is {node.dtype.name}, it cannot be written into {have.dtype.name}: "
                "make a new array of it (a = a + b in place of a += b), or cast with .astype"
            )
        self._set(cast(node, have.dtype))
        return self

    if TYPE_CHECKING:
        __len__: Callable[..., int]  # of ndarray
        _operator: Callable[..., Array] = NotImplemented
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __neg__ = __invert__ = __matmul__ = __rmatmul__ = _operator
        __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = _operator
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = _operator


class ndarray(Array):  # noqa: N801  NumPy's name
    """A mutable array of numbers, under NumPy's name. A Scalar is not an ndarray.

    Examples
    --------
    >>> import weft as wf
    >>> a = wf.ones(3)
    >>> type(a) is wf.ndarray, isinstance(a.sum(), wf.ndarray), isinstance(a.sum(), wf.Array)
    (True, False, True)
    """

    __slots__ = ()

    def __len__(self) -> int:
        shape = self.node.shape
        if not shape:
            raise TypeError("len() of an array without dimensions")
        return shape[0]


class Scalar(NumberMethods, Array):
    """One number with a dtype, where NumPy returns a scalar: a full index, a sum over all axes, ``x + y`` of two Scalars.

    ``wf.Scalar(x)`` of a Python number keeps it exactly, in float64 or int64; ``wf.float32(x)`` converts it to the named dtype. A
    Scalar is immutable: ``s += 1`` binds the name to a new one. So it hashes, and it can be a key of a dict or, if it holds an
    integer, an index. It is lazy like any Array.

    Examples
    --------
    >>> import weft as wf
    >>> a = wf.array([1.0, 2.0])
    >>> first = a[0]
    >>> a[0] = 5.0
    >>> first, float(a.sum())
    (float32(1.0), 7.0)
    """

    __slots__ = ()
    __iter__ = None  # type: ignore[assignment]  # else Python would iterate through __getitem__
    is_value = True

    def __new__(cls, x: Any = 0.0) -> Scalar:
        number = x if isinstance(x, int | complex | Array | np.generic) else float(x)
        return wrap(as_node(number, FLOAT64 if type(number) in (float, complex) else None))  # type: ignore[return-value]

    def __init__(self, x: Any = 0.0) -> None:
        """Do nothing: ``__new__`` has created the Scalar."""

    def _set(self, node: Node) -> None:
        raise TypeError(f"a scalar ({self.dtype.name}) cannot be written to: it is a value; make an array of it with wf.array(x)")

    def __setitem__(self, index: Any, value: Any) -> None:
        message = f"a scalar ({self.dtype.name}) does not support item assignment"
        raise TypeError(f"{message}: it is a value; make an array of it with wf.array(x)")

    def _view(self, path: ViewPath, layout: ViewLayout | None = None) -> Array:
        """Return a new array: a Scalar has no views."""
        have = self.node
        node = view_node(have, path)
        if node.shape:
            return wrap_array(node)
        return self if node.dtype is have.dtype and path is not ZERO_IMAG else wrap(node)

    def __getitem__(self, index: Any) -> Array:
        result = super().__getitem__(index)
        return wrap_array(result.node) if result is self else result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a writable copy, as NumPy does for its scalars."""
        return super().__array__(dtype, True if copy is None else copy)

    def _export_memory(self, flags: int) -> np.ndarray:
        return super()._export_memory(flags).copy()

    def __reduce__(self) -> Any:
        return _unpickle_scalar, (np.array(materialise.read_array(self.node)),)


def _choose_wrapper(index: Any) -> Callable[[Node], Array]:
    """Return the function that wraps the result of an index. With "..." in the index it always makes an ndarray."""
    return wrap_array if type(index) is tuple and any([part is Ellipsis for part in index]) else wrap


def _join_parts(real: Any, imag: Any) -> Node:
    """Return complex numbers from real and imaginary parts, one of which is an Array."""
    dtype = (real if isinstance(real, Array) else imag).node.dtype
    return bind(TABLE["complex"], *[convert_assigned(x, dtype) for x in (real, imag)])


def _unpickle(content: np.ndarray) -> Array:
    return wrap_array(as_node(content))


def _unpickle_scalar(content: np.ndarray) -> Array:
    return wrap(as_node(content))


def wrap_buffer(value: Any, shape: Shape, dtype: Format, kind: type[Array]) -> Array:
    """Return an ndarray or a Scalar that holds a computed buffer."""
    out = _new(kind)
    out._node = node = _new(Node)  # __init__ would take more time than all other lines, at every warm call
    node.op = INPUT
    node.inputs = ()
    node.params = _NO_PARAMS
    node.shape = shape
    node.dtype = dtype
    node.source_line = node.holder = None
    node.value = value
    out._base = out._trace = None
    return out


install(Array, ndarray, Scalar, wrap)
introduce(ndarray, Scalar, TRANSPOSES, RESHAPED, Array.__getitem__)
buffer_protocol.install(Array, ndarray, Scalar)


class ReadOnly(ndarray):
    """An Array, or a view, that refuses writes: ``x.flags.writeable = False`` changes the class, so that writes of other arrays
    need no check. Native code handles plain Arrays only and leaves these to Python."""

    __slots__ = ()
    read_only = True

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _write_error(self)

    def _in_place(self, node: Node, name: str) -> Array:
        raise _write_error(self, f"{name}: ")

    def _view(self, path: ViewPath, layout: ViewLayout | None = None) -> Array:
        out = super()._view(path)
        out.__class__ = ReadOnly
        return out


def _write_error(array: Array, prefix: str = "") -> ValueError:
    description = f"{array.dtype.name}{list(array.shape)}"
    return ValueError(
        f"{prefix}assignment destination is read-only: this array ({description}), or the array it is a view of, has "
        "flags.writeable = False; write into a copy, x.copy()"
    )


def _set_write(array: Any, write: bool) -> None:
    """Let an array accept or refuse writes, for ``setflags(write=...)``."""
    if array.is_value:
        raise ValueError("setflags: flags of a Scalar cannot be set: it is a value; make an array of it with wf.array(x)")
    if write and array._base is not None and array._base.read_only:
        raise ValueError("setflags: cannot set WRITEABLE flag to True of this array: it is a view of one that is read-only")
    if write is not array.read_only:
        return
    if CONTEXT.trace is not None:
        raise TraceError("setflags: WRITEABLE cannot be changed inside a traced function; call setflags outside")
    array.__class__ = ndarray if write else ReadOnly
