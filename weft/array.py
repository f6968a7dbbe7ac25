"""Array: what the user holds. It follows NumPy; nothing runs until a result is looked at.

An Array is the Cell of its own content, or a view: a path into another Array's content (``_base``, ``_path``),
through which it reads and writes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft import look as looking
from weft.array_methods import Methods
from weft.array_operators import foreign, install
from weft.cell import LOCAL, read, write
from weft.convert import as_node, cast, operands
from weft.dtypes import is_float
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import INPUT, TABLE, bind
from weft.held import cut, enlist
from weft.indexing import fitted, gathered, mask_of, scattered, select
from weft.operators import matmul
from weft.views import Path, follow, put

_new = object.__new__
_NOTHING: dict[str, Any] = {}
_ref = weakref.ref


def wrap(node: Node) -> Array:
    """An Array of its own that holds ``node``."""
    out = _new(Array)
    out._node = node
    out._base = None
    out._trace = trace = LOCAL.trace
    if trace is not None:
        node.holder = held = _ref(out)
        trace.made.append(held)
    elif node.value is None:
        node.holder = held = _ref(out)
        handles = LOCAL.handles
        handles.append(held)
        if len(handles) >= handles.limit:
            cut(node)
    return out


class Array(Methods):
    """An n-dimensional array. Made by ``wf.array``, ``wf.zeros`` and the like.

    Examples
    --------
    >>> import weft as wf
    >>> a = wf.array([[1.0, 2.0], [3.0, 4.0]])
    >>> (a + 1).sum(axis=0)
    array([6., 8.], dtype=float32)
    """

    __slots__ = ("_base", "_path", "_source")

    _base: Array | None
    _path: Path
    _source: Node
    __hash__ = None  # type: ignore[assignment]
    weak = False

    def __init__(self, *args: Any) -> None:
        raise TypeError("make arrays with wf.array(...), wf.asarray(...) or wf.zeros(shape), not with Array(...)")

    # ---- content

    @property
    def node(self) -> Node:
        """The content as it is now, as a Node."""
        base = self._base
        if base is None:
            trace = LOCAL.trace
            return self._node if trace is None or self._trace is trace else trace.read(self)
        source = read(base)
        try:
            if self._source is source:
                return self._node
        except AttributeError:
            pass
        self._node = node = follow(source, self._path)
        self._source = source
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
            write(self, node)
            if node.value is None:
                node.holder = held = _ref(self)
                if LOCAL.trace is None:
                    enlist(held, node)
        else:
            base._set(put(read(base), self._path, node))

    def _view(self, path: Path) -> Array:
        out = _new(Array)
        base = self._base
        out._base = self if base is None else base
        out._path = path if base is None else self._path + path
        out._trace = LOCAL.trace
        return out

    @staticmethod
    def _new(node: Node) -> Array:
        return wrap(node)

    @property
    def shape(self) -> Shape:
        """The extents."""
        return self.node.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype, a ``numpy.dtype``."""
        return self.node.dtype

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
        return self.node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.node.nbytes

    @property
    def device(self) -> str:
        """Where the array lives."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """The array on ``device``; there is only "cpu"."""
        if device != "cpu":
            raise ValueError(f"to_device: there is no device {device!r}, only 'cpu'")
        return self

    @property
    def T(self) -> Array:  # noqa: N802
        """The axes reversed: a view."""
        return self.transpose()

    @property
    def mT(self) -> Array:  # noqa: N802
        """The last two axes exchanged: a view."""
        if self.ndim < 2:
            raise AxisError(f"mT: an array of {self.ndim} dimensions has no matrix to transpose")
        return self.swapaxes(-1, -2)

    # ---- indexing

    def __getitem__(self, index: Any) -> Array:
        chosen = select(index, self.node.shape)
        if not chosen.axes:
            return self._view(chosen.path)
        return wrap(gathered(follow(self.node, chosen.path), chosen))

    def __setitem__(self, index: Any, value: Any) -> None:
        node = self.node
        if type(value) is Array and value._base is self.cell and self._shows(value, index, node.shape):
            return  # the second half of a[i] += b: the view has been written
        given = cast(as_node(value, node.dtype), node.dtype)
        if index is Ellipsis:
            self._set(fitted(given, node.shape))
            return
        mask = mask_of(index, node.shape)
        if mask is not None and given.size == 1:
            one = bind(TABLE["reshape"], given, shape=()) if given.shape else given
            self._set(bind(TABLE["where"], _spread(mask, node.shape), one, node))
            return
        chosen = select(index, node.shape)
        view = follow(node, chosen.path)
        if chosen.axes:
            fresh = scattered(view, chosen, given)
        else:
            fresh = fitted(given, view.shape)
        self._set(put(node, chosen.path, fresh) if chosen.path else fresh)

    def _shows(self, view: Array, index: Any, shape: Shape) -> bool:
        """Whether a view of the same content is what ``self[index]`` is."""
        chosen = select(index, shape)
        return not chosen.axes and view._path == (chosen.path if self._base is None else self._path + chosen.path)

    def __len__(self) -> int:
        shape = self.node.shape
        if not shape:
            raise TypeError("len() of an array without dimensions")
        return shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.node.shape:
            raise TypeError("an array without dimensions cannot be iterated over")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # ---- looks

    def numpy(self) -> np.ndarray:
        """The content as a NumPy array: computed now, a read-only view of it without a copy.

        Examples
        --------
        >>> import weft as wf
        >>> (wf.arange(3) * 2).numpy()
        array([0, 2, 4])
        """
        return looking.look(self.node)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        if dtype is not None and np.dtype(dtype) != found.dtype:
            if copy is False:
                raise ValueError(f"an array of dtype {found.dtype} cannot become {np.dtype(dtype)} without a copy")
            return found.astype(dtype)
        return found.copy() if copy else found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from weft.array_numpy import ufunc_call

        return ufunc_call(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from weft.array_numpy import function_call

        return function_call(func, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        import weft

        return weft

    def __dlpack__(self, **kwargs: Any) -> Any:
        from weft.dlpack import exported

        return exported(self.numpy(), kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _one(self, kind: str, free: bool = False) -> Any:
        node = self.node
        if node.size != 1:
            raise TypeError(f"only an array of one element can become {kind}, this one has shape {node.shape}")
        return looking.one(node, free)

    def __float__(self) -> float:
        return float(self._one("a float"))

    def __int__(self) -> int:
        return int(self._one("an int"))

    def __complex__(self) -> complex:
        return complex(self._one("a complex number"))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of an array of shape {self.shape} is ambiguous: use .any() or .all()")
        return bool(self._one("a bool", free=True))

    def __index__(self) -> int:
        if is_float(self.dtype) or self.ndim:
            raise TypeError(f"only integer arrays without dimensions are an index, not {self.dtype.name} of shape {self.shape}")
        return int(self._one("an index"))

    def __repr__(self) -> str:
        node = self.node
        if not looking.known(node):
            return f"array(<not known while tracing>, shape={node.shape}, dtype={node.dtype.name})"
        content = looking.look(node, free=True)
        text = np.array2string(content, separator=", ", prefix="array(")
        shape = f", shape={node.shape}" if 0 in node.shape and node.shape != (0,) else ""
        return f"array({text}{shape}, dtype={node.dtype.name})"

    def __str__(self) -> str:
        return str(looking.look(self.node, free=True)) if looking.known(self.node) else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self._one("text in this format", free=True).item(), spec) if spec else str(self)

    def __reduce__(self) -> Any:
        return _unpickle, (np.array(self.numpy()),)

    def __copy__(self) -> Array:
        return wrap(self.node)

    def __deepcopy__(self, memo: Any) -> Array:
        return wrap(self.node)

    def as_dtype_node(self, dtype: np.dtype) -> Node:
        """The content in ``dtype``."""
        return cast(self.node, dtype)

    # ---- operators

    def __matmul__(self, other: Any) -> Array:
        return NotImplemented if foreign(other) else wrap(matmul(*operands(self, other)))

    def __rmatmul__(self, other: Any) -> Array:
        return wrap(matmul(*operands(other, self)))

    def __imatmul__(self, other: Any) -> Array:
        return self._in_place(matmul(*operands(self, other)), "@=")

    def __pos__(self) -> Array:
        return wrap(self.node)

    def _in_place(self, node: Node, name: str) -> Array:
        have = self.node
        if node.shape != have.shape:
            raise ShapeError(f"{name}: the result has shape {node.shape}, it cannot be written into shape {have.shape}")
        if node.dtype != have.dtype:
            if _rank(node.dtype) > _rank(have.dtype):
                raise DTypeError(
                    f"{name}: the result is {node.dtype.name}, it cannot be written into {have.dtype.name}: "
                    "make a new array of it (a = a + b in place of a += b), or cast with .astype"
                )
            node = cast(node, have.dtype)
        self._set(node)
        return self

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


def _rank(dtype: np.dtype) -> int:
    return 3 if is_float(dtype) else {"b": 0, "u": 1, "i": 2}[dtype.kind]


def _spread(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else bind(TABLE["broadcast_to"], node, shape=shape)


def _unpickle(content: np.ndarray) -> Array:
    return wrap(as_node(content))


def holding(value: Any, shape: Shape, dtype: np.dtype) -> Array:
    """An Array of a buffer that exists: what a run has computed."""
    out = _new(Array)
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


install(Array, wrap)

__all__ = ["Array", "as_node", "cast", "holding", "operands", "wrap"]
