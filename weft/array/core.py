"""Array: what the user holds, an ndarray or a Scalar, which NumPy gives as a scalar. Nothing runs until a result is looked at.

An Array is the Cell of its own content, or a view: a path into another Array's content (``_base``, ``_path``),
through which it reads and writes. A Scalar is an Array without dimensions whose content never changes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import eager_indexing, element_access
from weft.array.assignment import assigned, stored
from weft.array.construction import not_set
from weft.array.convert import as_node, cast
from weft.array.habits import Habits
from weft.array.indexing import (
    Selection,
    as_ints,
    fitted,
    gathered,
    mask_of,
    plain,
    refuse_at_once,
    refuse_rows,
    scattered,
    select,
)
from weft.array.operators import install
from weft.array.values import Value
from weft.array.views import IMAG, NONE, REAL, Path, follow, onward, put, shown
from weft.dtypes.formats import COMPLEX, FLOAT64, Format, same_kind
from weft.eager import compute_now
from weft.eager import materialise as looking
from weft.eager.apply import bind
from weft.eager.limit_pending import cut, enlist
from weft.eager.native import ELEMENTS, introduce, start
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import INPUT, MAY_FAIL, TABLE, input_leaf
from weft.interop import buffer_protocol
from weft.runtime import execute
from weft.runtime.cell import FOLLOWED, UNDO, WRITING, read, write
from weft.runtime.context import LOCAL

_new = object.__new__
_NOTHING: dict[str, Any] = {}
_ASK = object()
_ref = weakref.ref


def wrap(node: Node, trace: Any = _ASK, kind: type[Array] | None = None) -> Array:
    """What an operation gives the user: an Array of its own that holds ``node``, a Scalar where there are no dimensions.

    trace : the trace this thread is in, where that is known
    kind : ndarray, where it is to be one whatever its dimensions
    """
    if trace is _ASK:
        trace = LOCAL.trace
    out = _new(kind or (ndarray if node.shape else Scalar))
    out._node = node
    out._base = None
    out._trace = trace
    if trace is not None:
        node.holder = held = _ref(out)
        trace.made.append(held)
    elif node.value is None and not compute_now.computed(node):
        node.holder = held = _ref(out)
        handles = LOCAL.handles
        handles.append(held)
        if len(handles) >= handles.limit:
            cut(node)
    return out


def own(node: Node) -> Array:
    """As :func:`wrap`, but always an ndarray: something to write into, such as what ``wf.zeros(())`` makes."""
    return wrap(node, LOCAL.trace, ndarray)


def standing_for(x: Any, node: Node, strides: tuple[int, ...] | None) -> Array:
    """A placeholder for ``x``. Its elements lie as those of ``x`` do (see :func:`lies`), for that decides what is a view."""
    out = wrap(node) if isinstance(x, Scalar | float) else own(node)
    if getattr(x, "read_only", False):
        out.__class__ = type(x)
    if strides is not None:
        out._lies = strides
    return out


def like(x: Any, node: Node) -> Array:
    """``node``, which holds what ``x`` does in another form, as what ``x`` is: a Scalar of a Scalar, else an ndarray."""
    return wrap(node) if isinstance(x, Scalar) else own(node)


class Array(Habits):
    """An n-dimensional array (a ``wf.ndarray``) or one number (a ``wf.Scalar``). Made by ``wf.array``, ``wf.zeros`` and the like.

    Examples
    --------
    >>> import weft as wf
    >>> a = wf.array([[1.0, 2.0], [3.0, 4.0]])
    >>> (a + 1).sum(axis=0)
    array([6., 8.], dtype=float32)
    """

    __slots__ = ("_base", "_lies", "_path", "_source")

    _base: Array | None
    _path: Path
    _source: weakref.ref[Node] | None  # what a view was followed from
    _lies: tuple[int, ...]  # of a placeholder: the strides of what it stands for, where that is a view
    weak = is_value = read_only = False  # a run-time number; a Scalar; see ``read_only.py``

    def __hash__(self) -> int:
        raise TypeError("an Array is not hashable, its content may change; its elements are, and x.tolist() made a tuple")

    # ---- content

    @property
    def node(self) -> Node:
        """The content as it is now, as a Node."""
        base = self._base
        if base is None:
            trace = LOCAL.trace
            return self._node if trace is None or self._trace is trace else trace.read(self)
        source = read(base)
        followed = _ref(source)  # there is one of each object; it does not hold it: what nobody else holds is written in place
        if self._source is followed:
            return self._node
        self._node = node = follow(source, self._path)
        self._source = followed
        FOLLOWED[0] += 1
        node.holder = _ref(self)
        return node

    @property
    def cell(self) -> Array:
        """The Cell whose content this shows: itself, or what it is a view of."""
        return self if self._base is None else self._base

    def _set(self, node: Node) -> None:
        """Replace the content (of the same shape and dtype); a view writes through."""
        base = self._base
        if base is None:
            if UNDO:
                looking.noted(self)
            if node.value is None and MAY_FAIL:
                looking.proven((node,))
            write(self, node)
            if node.value is None and not (LOCAL.trace is None and compute_now.computed(node)):
                node.holder = held = _ref(self)
                if LOCAL.trace is None:
                    enlist(held, node)
        else:
            with WRITING:
                if not element_access.written(base, self._path, node):
                    base._set(put(read(base), self._path, node))

    def _view(self, path: Path) -> Array:
        out = _new(ndarray)
        base = self._base
        out._base = self if base is None else base
        out._path = path if base is None else onward(self._path, path)
        out._trace = LOCAL.trace
        out._source = None
        return out

    _new: Callable[..., Array] = staticmethod(wrap)
    _own = staticmethod(own)

    @property
    def shape(self) -> Shape:
        """The extents."""
        return self.node.shape

    @shape.setter
    def shape(self, value: Any) -> None:
        not_set(value)

    @property
    def dtype(self) -> np.dtype:
        """The dtype, a ``numpy.dtype``."""
        return self.node.dtype.numpy

    @dtype.setter
    def dtype(self, value: Any) -> None:
        not_set(value)

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
        """Bytes an element."""
        return self.node.dtype.bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.node.nbytes

    @property
    def device(self) -> str:
        """The name of the device on which the content lies, or, where it is not computed yet, of the one in use."""
        value = self.cell._node.value
        return (execute.device() if value is None else execute.owner(value)).name

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """An array with this content on a device, this very one where it lies there. Programs move what they read to where they
        run by themselves (see ``wf.set_device``); this chooses the moment. In jit and gradients nothing is moved."""
        there = execute.get_device(device)
        if LOCAL.trace is not None or LOCAL.keep:
            return self
        if self.cell._node.value is None:
            with execute.on(there.name):  # what is computed for this is computed there
                looking.materialise((self.cell._node,))
        if self.device == there.name:
            return self
        content = self.numpy()
        leaf = input_leaf(content.shape, self.node.dtype, there.upload(content))
        return wrap(leaf) if isinstance(self, Scalar) else own(leaf)

    @property
    def real(self) -> Array:
        """The real parts: a view of them, itself where the dtype is real. What is assigned to it is written."""
        return self._view(REAL) if self.node.dtype in COMPLEX else self

    @real.setter
    def real(self, value: Any) -> None:
        self[...] = wrap(_joined(value, self.imag)) if self.node.dtype in COMPLEX else value

    @property
    def imag(self) -> Array:
        """The imaginary parts: a view of them, zeros where the dtype is real. What is assigned to it is written."""
        return self._view(IMAG if self.node.dtype in COMPLEX else NONE)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.node.dtype not in COMPLEX:
            raise TypeError(f"a {self.dtype.name} array has no imaginary part to be set; cast it with .astype('complex64')")
        self[...] = wrap(_joined(self.real, value))

    # ---- indexing

    def __getitem__(self, index: Any) -> Array:
        native = ELEMENTS.element
        value = native(self, index)
        if value is not None:
            return value
        if type(index) is Scalar and (ints := as_ints(index)) is not index:
            return self[ints]
        chosen = plain(index, self._node.shape if self._base is None else self.node.shape)
        if chosen is None:
            index = as_ints(index)
            found = eager_indexing.read(self, index)
            if found is not None:
                return _maker(index)(found)
            chosen = select(index, self.node.shape)
        if not chosen.axes:
            return self._element(index, chosen) if chosen.element else self._view(chosen.path)
        node = self.node
        found = gathered(follow(node, chosen.path), chosen)
        if not found.size:
            refuse_at_once(chosen.indices)
        return _maker(index)(found)

    def _element(self, index: Any, chosen: Selection) -> Array:
        found = element_access.element(self, as_ints(index))
        if found is None:
            return wrap(follow(self.node, chosen.path))
        start()
        return wrap(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        native = ELEMENTS.store
        if native(self, index, value):
            return
        with WRITING:
            if index is Ellipsis:
                return self._fill(value)
            chosen = plain(index, self._node.shape if self._base is None else self.node.shape)
            index = as_ints(index)
            if chosen is not None and chosen.element:
                if native(self, index, value):
                    return
                if self._base is None and element_access.number_written(self, index, value):
                    return start()
            if chosen is not None or not eager_indexing.written(self, index, value):
                self._write(index, chosen, value)

    def _shown(self, memory: np.ndarray) -> np.ndarray | None:
        """What this shows of its cell's memory; None where no view of NumPy's does."""
        return memory if self._base is None else shown(memory, self._path)

    def _onward(self, path: Path) -> Path:
        """A path from here, as one from the cell."""
        return path if self._base is None else onward(self._path, path)

    def _fill(self, value: Any) -> None:
        if type(value) is ndarray and value._base is self.cell and value._path == self._onward(()):
            return  # the second half of a[...] += b
        if type(value) in (float, int) and LOCAL.trace is None and element_access.part_written(self, ..., value):
            return
        node = self.node
        self._set(fitted(stored(value, node.dtype), node.shape))

    def _write(self, index: Any, chosen: Selection | None, value: Any) -> None:
        if chosen is not None:
            if chosen.element:
                refuse_rows(value)
            if type(value) is ndarray and value._base is self.cell and value._path == self._onward(chosen.path):
                return  # the second half of a[i] += b: the view has been written
            if LOCAL.trace is None and element_access.part_written(self, index, value):
                return
        node = self.node
        mask = mask_of(index, node.shape) if chosen is None else None
        if chosen is None and mask is None:
            chosen = select(index, node.shape)  # a wrong index is told before a wrong value
        given = (assigned if mask is not None or (chosen is not None and chosen.axes) else stored)(value, node.dtype)
        if mask is not None and given.size == 1:
            one = bind(TABLE["reshape"], given, shape=()) if given.shape else given
            self._set(bind(TABLE["where"], fitted(mask, node.shape), one, node))
            return
        chosen = chosen or select(index, node.shape)
        if chosen.axes:
            refuse_at_once(chosen.indices)
            self._set(scattered(node, chosen, given))
            return
        view = follow(node, chosen.path)
        fresh = fitted(given, view.shape)
        del node, view  # nobody but the cell holds its content
        if element_access.written(self.cell, self._onward(chosen.path), fresh):
            return
        node = self.node
        self._set(put(node, chosen.path, fresh) if chosen.path else fresh)

    # ---- copies

    def __reduce__(self) -> Any:
        return _unpickle, (np.array(self.numpy()),)

    def __copy__(self) -> Array:
        return own(self.node)

    def __deepcopy__(self, memo: Any) -> Array:
        return own(self.node)

    def as_dtype_node(self, dtype: Format) -> Node:
        """The content in ``dtype``."""
        return cast(self.node, dtype)

    def _in_place(self, node: Node, name: str) -> Array:
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

    __len__: Callable[..., int]  # of ndarray
    __lt__: Callable[..., Array]
    __add__: Callable[..., Array]
    __mul__: Callable[..., Array]
    __sub__: Callable[..., Array]
    __truediv__: Callable[..., Array]
    __pow__: Callable[..., Array]
    __le__: Callable[..., Array]
    __gt__: Callable[..., Array]
    __ge__: Callable[..., Array]
    __and__: Callable[..., Array]
    __or__: Callable[..., Array]
    __neg__: Callable[..., Array]
    __invert__: Callable[..., Array]
    __radd__: Callable[..., Array]
    __rmul__: Callable[..., Array]
    __rsub__: Callable[..., Array]
    __rtruediv__: Callable[..., Array]
    __rpow__: Callable[..., Array]
    __matmul__: Callable[..., Array]
    __rmatmul__: Callable[..., Array]


class ndarray(Array):  # noqa: N801  NumPy's name
    """What holds numbers and can be written to: the class of arrays, under NumPy's name. A Scalar is none.

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


class Scalar(Value, Array):
    """One number with a dtype: what NumPy gives as a scalar. A full index, a sum of everything and ``x + y`` of two of them are.

    ``wf.Scalar(x)`` of a Python number holds it whole, in float64 or int64; ``wf.float32(x)`` in the dtype that is named.
    It is a value: no operator changes it, ``s += 1`` binds the name to another one. So it hashes, and it may be a key of a
    dict or, where it holds an integer, an index. It is as lazy as any Array.

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
    __iter__ = None  # type: ignore[assignment]  # for Python would iterate over whatever has an index
    is_value = True

    def __new__(cls, x: Any = 0.0) -> Scalar:
        given = x if isinstance(x, int | complex | Array | np.generic) else float(x)
        return wrap(as_node(given, FLOAT64 if type(given) in (float, complex) else None))  # type: ignore[return-value]

    def __init__(self, x: Any = 0.0) -> None:
        """It has been made."""

    def _set(self, node: Node) -> None:
        raise TypeError(f"a scalar ({self.dtype.name}) cannot be written to: it is a value; make an array of it with wf.array(x)")

    def __setitem__(self, index: Any, value: Any) -> None:
        what = f"a scalar ({self.dtype.name}) does not support item assignment"
        raise TypeError(f"{what}: it is a value; make an array of it with wf.array(x)")

    def _view(self, path: Path) -> Array:
        """Nothing looks into a value: other shapes of it are arrays of their own."""
        have = self.node
        node = follow(have, path)
        if node.shape:
            return own(node)
        return self if node.dtype is have.dtype and path is not NONE else wrap(node)

    def __getitem__(self, index: Any) -> Array:
        found = super().__getitem__(index)
        return own(found.node) if found is self else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """As NumPy makes of its scalars: an array of its own, which may be written to."""
        return super().__array__(dtype, True if copy is None else copy)

    def _exported(self, flags: int) -> np.ndarray:
        return super()._exported(flags).copy()

    def __reduce__(self) -> Any:
        return _unpickle_scalar, (np.array(self.numpy()),)


def _maker(index: Any) -> Callable[[Node], Array]:
    """What makes an array of what is chosen: with "..." in the index it is one without dimensions, too, and no value."""
    return own if type(index) is tuple and any([part is Ellipsis for part in index]) else wrap


def _joined(real: Any, imag: Any) -> Node:
    """Complex numbers of two parts, of which one is an Array that a complex one was taken apart into."""
    dtype = (real if isinstance(real, Array) else imag).node.dtype
    return bind(TABLE["complex"], *[assigned(x, dtype) for x in (real, imag)])


def _unpickle(content: np.ndarray) -> Array:
    return own(as_node(content))


def _unpickle_scalar(content: np.ndarray) -> Array:
    return wrap(as_node(content))


def holding(value: Any, shape: Shape, dtype: Format, kind: type[Array]) -> Array:
    """An ndarray or a Scalar of a buffer that exists: what a run has computed."""
    out = _new(kind)
    out._node = node = _new(Node)  # by hand: this is part of every warm call, and __init__ costs more than all of it
    node.op = INPUT
    node.inputs = ()
    node.params = _NOTHING
    node.shape = shape
    node.dtype = dtype
    node.where = node.holder = None
    node.value = value
    out._base = out._trace = None
    return out


install(Array, ndarray, Scalar, wrap)
introduce(ndarray, Scalar)
buffer_protocol.install(Array, ndarray, Scalar)
