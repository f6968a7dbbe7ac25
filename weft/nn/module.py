"""Module: a thing with parameters. Attributes that are Arrays are its parameters and buffers; Modules nest."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array import Array, Scalar, own
from weft.convert import cast
from weft.dtypes import as_dtype, can_cast, float32, is_float
from weft.errors import DTypeError, ShapeError
from weft.functions.creation import asarray
from weft.transforms.tree import register_module, structure_changed

if TYPE_CHECKING:
    from weft.nn.summary import Summary


class _Watch(threading.local):
    watch: Any = None  # what calls of modules go through in this thread: watch(module, args, kwargs)


WATCH = _Watch()


class Module:
    """A layer or a model: write ``__init__`` and ``forward``.

    Arrays assigned as attributes are parameters when they hold floating-point numbers and are not named in
    ``buffers``. Assigning to an existing Array attribute writes its contents, so a jitted step keeps working: the attribute
    keeps its dtype, and what that would round is refused. To share a parameter, use the layer that holds it in both places,
    or its Array: ``wf.nn.linear(x, self.embed.weight)``.

    Raises
    ------
    TypeError, ShapeError, DTypeError
        Called without a ``forward``; an array assigned to an attribute that holds one of another shape, or of a dtype that
        cannot hold it (float64 to a float32 parameter).

    Examples
    --------
    >>> import weft as wf
    >>> class Scale(wf.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = wf.ones(3)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(wf.ones((2, 3))).shape
    (2, 3)
    """

    buffers: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.training = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_module(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch = WATCH.watch
        return self.forward(*args, **kwargs) if watch is None else watch(self, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no forward method: define forward(self, x)")

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if isinstance(old, Array) and isinstance(value, Array | np.ndarray):
            if tuple(value.shape) != old.shape:
                raise ShapeError(
                    f"{type(self).__name__}.{name} has shape {old.shape}; an array of shape {tuple(value.shape)} does not fit"
                )
            if not can_cast(value.dtype, old.dtype):
                given = as_dtype(value.dtype).name
                raise DTypeError(
                    f"{type(self).__name__}.{name} is {old.dtype.name}; an array of {given} would be rounded: cast it with "
                    f".astype('{old.dtype.name}'), or keep the module in {given} with .astype('{given}')"
                )
            old[...] = value
            return
        object.__setattr__(self, name, own(value.node) if isinstance(value, Scalar) else value)
        structure_changed()

    def children(self) -> Iterator[tuple[str, Module]]:
        """(name, Module) of the modules directly inside, lists and dicts of modules included."""
        for name, value in self.__dict__.items():
            yield from modules_in(name, value)

    def modules(self) -> Iterator[tuple[str, Module]]:
        """(dotted name, Module) of this module (name "") and all inside it; what is shared comes once, by its first name."""
        return _walk("", self, set())

    def _held(self) -> Iterator[tuple[str, str, Module, Array]]:
        """(dotted name, attribute, module, Array) of every Array, each once."""
        seen: set[int] = set()
        for prefix, module in self.modules():
            for attribute, value in module.__dict__.items():
                for name, array in _found(Array, attribute, value):
                    if id(array) not in seen:
                        seen.add(id(array))
                        yield (f"{prefix}.{name}" if prefix else name), attribute, module, array

    def arrays(self) -> dict[str, Array]:
        """Every Array by dotted name, parameters and buffers; what is shared comes once, by its first name."""
        return {name: value for name, _, _, value in self._held()}

    def parameters(self) -> dict[str, Array]:
        """The trainable Arrays by dotted name; what is shared comes once, by its first name.

        Examples
        --------
        >>> import weft as wf
        >>> sorted(wf.nn.Linear(3, 2).parameters())
        ['bias', 'weight']
        """
        return {
            name: value for name, attribute, module, value in self._held()
            if attribute not in module.buffers and value.dtype.kind not in "iub"
        }

    def train(self, mode: bool = True) -> Module:
        """Put this module and all inside it in training mode (dropout active); returns itself."""
        for _, module in self.modules():
            object.__setattr__(module, "training", mode)
        structure_changed()
        return self

    def eval(self) -> Module:
        """The opposite of :meth:`train`."""
        return self.train(False)

    def astype(self, dtype: Any) -> Module:
        """Keep the floating-point parameters in another dtype; returns itself.

        Layers compute in float32 where they are kept in float16 or bfloat16. Buffers, such as running statistics, then
        are float32.

        Parameters
        ----------
        dtype : float dtype

        Returns
        -------
        Module : itself

        Raises
        ------
        DTypeError
            ``dtype`` is no float dtype.

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Linear(3, 2).astype("bfloat16")
        >>> net(wf.ones((5, 3), dtype="bfloat16")).dtype
        dtype(bfloat16)
        """
        kept = as_dtype(dtype)
        if not is_float(kept):
            raise DTypeError(f"astype: dtype must be a float dtype, not {kept}")
        trained = self.parameters()
        for name, a in self.arrays().items():
            if is_float(a.dtype):
                a._set(cast(a.node, kept if name in trained or kept.itemsize >= 4 else float32))
        return self

    def save(self, path: str | os.PathLike, dtype: Any = None) -> None:
        """Write every array of this module to a safetensors file, with checksums; never half a file.

        Parameters
        ----------
        path : where to
        dtype : float dtype that floats are stored as, "float16" say; numbers too large for it are warned of, by name

        Examples
        --------
        >>> import weft as wf, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
        >>> net, other = wf.nn.Linear(3, 2), wf.nn.Linear(3, 2)
        >>> net.save(path)
        >>> bool((other.load(path).weight == net.weight).all())
        True
        """
        from weft.nn.weights import save

        save(path, self, dtype)

    def load(self, path: str | os.PathLike) -> Module:
        """Read what :meth:`save` wrote, or another program's safetensors file; returns itself.

        Raises
        ------
        DataError
            when the file is missing, damaged (even one bit) or another model's; then nothing has changed.
        """
        from weft.nn.weights import load_into

        return load_into(self, path)

    def summary(self, *inputs: Any, dtype: Any = "float32") -> Summary:
        """Print a table of the layers: output shapes, parameters, flops and bytes; nothing is computed.

        Parameters
        ----------
        inputs : what the model is called with: arrays, or shapes with the batch, such as (32, 3, 28, 28)
        dtype : of inputs given as shapes

        Returns
        -------
        Summary : with ``rows``, one a layer called, and ``total``; it shows itself as HTML in notebooks

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
        >>> found = net.summary((5, 3))  # doctest: +ELLIPSIS
        Sequential...
        >>> [(row.name, row.type, row.output_shape, row.parameters) for row in found.rows]
        [('0', 'Linear', (5, 8), 32), ('1', 'Tanh', (5, 8), 0), ('2', 'Linear', (5, 1), 9)]
        >>> found.total.parameters
        41
        """
        from weft.nn.summary import summarise

        return summarise(self, inputs, dtype)

    def __repr__(self) -> str:
        inside = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n" + "\n".join(inside) + "\n)" if inside else ")")

    def extra_repr(self) -> str:
        """What stands between the parentheses of ``repr``."""
        return ""


def _walk(name: str, module: Module, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) not in seen:
        seen.add(id(module))
        yield name, module
        for inner, child in module.children():
            yield from _walk(f"{name}.{inner}" if name else inner, child, seen)


def modules_in(name: str, value: Any) -> Iterator[tuple[str, Module]]:
    """(name, Module) of what an attribute holds: a module, or lists and dicts of modules."""
    return _found(Module, name, value)


def _found(kind: type, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _found(kind, f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _found(kind, f"{name}.{key}", item)


def uniform_parameter(shape: tuple[int, ...], limit: float) -> Array:
    """A fresh float32 Array with elements uniform in [-limit, limit), from the library's random state."""
    from weft.functions import random

    return asarray(random.uniform(-limit, limit, shape))
