"""ModuleTree: nested modules whose Array attributes are parameters and buffers.

A parameter that several layers share is one variable: it has one gradient and one place in the optimizer, under its first name.
Patterns match any of its names.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Iterator
from inspect import getattr_static
from itertools import pairwise
from typing import Any, Self

import numpy as np

from weft.array import Array, Scalar, wrap_array
from weft.dtypes.api import can_cast, is_inexact
from weft.dtypes.parse import parse_dtype
from weft.eager.materialise import compute_fallible
from weft.errors import AxisError, DTypeError, LabelError, ShapeError, TraceError, short, warn
from weft.nn.kept_results import MODULE_CALLS, is_result, keep_result
from weft.process.completion import CALLERS, complete_message
from weft.process.foreign_names import ARRAY, FLAGS, MODULE, PARAMETERS
from weft.process.keyword_checks import KeywordCheck
from weft.process.name_errors import ParameterName, add_foreign_names, join_names, own_names, suggest
from weft.runtime.context import CONTEXT
from weft.transforms.tree import holds_arrays, matches, register_module, structure_changed

_PARAMETERS: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()  # arrays of modules, by id


def is_parameter(value: Any) -> bool:
    """Return whether an array was assigned to an attribute of a module."""
    return _PARAMETERS.get(id(value)) is value and value is not None


class _CallHook(threading.local):
    watch_call: Any = None  # replaces forward in this thread: watch_call(module, args, kwargs)
    enter: Any = None  # returns the context manager in which forward runs: enter(module)


CALL_HOOK = _CallHook()


class ModuleTree(KeywordCheck):
    """Base of Module: a callable with arrays and modules as attributes, also in lists and dicts."""

    buffers: tuple[str, ...] = ()
    _results: tuple[str, ...] = ()  # attributes that hold arrays of the last call: neither trained nor saved
    frozen: tuple[str, ...] = ()  # arrays that are not trained, by their names inside the module: set by ``freeze``
    keeps_dtype = False  # whether ``astype`` leaves the arrays of this module as they are
    stored_text: str | None = None  # what a weight file keeps of this module beside its arrays, for ``take_text(parse_text(it))``
    stored_form = ""  # what the numbers of this module's arrays mean; a weight file that says otherwise is not loaded

    def __init__(self) -> None:
        self.training = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_module(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch_call, enter = CALL_HOOK.watch_call, CALL_HOOK.enter
        try:  # costs nothing unless an error passes
            if enter is not None:
                with enter(self):
                    return self.forward(*args, **kwargs) if watch_call is None else watch_call(self, args, kwargs)
            return self.forward(*args, **kwargs) if watch_call is None else watch_call(self, args, kwargs)
        except Exception as error:
            if isinstance(error, ShapeError | DTypeError) and any(isinstance(x, tuple) for x in args):
                explain_tuple(error, args)
            name_layer(error, self)
            explain_setup(error, self)
            complete_message(error)
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        other = "; in weft: rename call to forward" if inspect.isfunction(getattr_static(type(self), "call", None)) else ""
        raise TypeError(f"{type(self).__name__} has no forward method: define forward(self, x){other}")

    def __getitem__(self, index: Any) -> Any:
        parts = self._list_parts()
        text = f"{type(self).__name__} has no positions and cannot be iterated over: model.children() yields (name, layer)"
        raise TypeError(text + (f"; it has {join_names(parts)}" if parts else ""))

    def _list_parts(self) -> list[str]:
        """Return the names of the attributes that hold layers and arrays."""
        names = [name for name, _ in [*self.children(), *arrays_in(self)]]
        return [*dict.fromkeys(name.partition(".")[0] for name in names)]

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if isinstance(value, Array | list | tuple | dict) and not isinstance(old, Array):
            if name not in (*self._results, *self.buffers) and is_result(name) and holds_arrays(value):
                object.__setattr__(self, "_results", (*self._results, name))
        if name in self._results:
            keep_result(self, name, value)
            structure_changed()
            return
        if isinstance(old, Array) and isinstance(value, Array | np.ndarray):
            if tuple(value.shape) != old.shape:
                given = tuple(value.shape)
                raise ShapeError(f"{type(self).__name__}.{name} has shape {old.shape}; an array of shape {given} does not fit")
            if not can_cast(value.dtype, old.dtype):
                dtype = parse_dtype(value.dtype).name
                raise DTypeError(
                    f"{type(self).__name__}.{name} is {old.dtype.name}; an array of {dtype} would be rounded: cast it with "
                    f".astype('{old.dtype.name}'), or keep the module in {dtype} with .astype('{dtype}')"
                )
            if value is old:
                return
            if name not in self.buffers and is_inexact(value.dtype) and isinstance(value, Array) and is_parameter(value):
                self._tie(name, old, value)
                return
            old[...] = value
            return
        if isinstance(value, Array):
            compute_fallible((value.node,))  # raises now what would raise in every call
            if old is None and value.dtype.kind in "iu" and name not in self.buffers:
                own, kind = f"{type(self).__name__}.{name}", value.dtype.name
                warn(
                    f"{own} is {kind}: integers are not trained. Cast it with .astype('float32') if it is a parameter, or write "
                    f"buffers = ({name!r},) in the class if it is not"
                )
        value = wrap_array(value.node) if isinstance(value, Scalar) else value
        object.__setattr__(self, name, value)
        if isinstance(value, Array):
            _PARAMETERS[id(value)] = value
        structure_changed()

    def _tie(self, name: str, old: Array, shared: Array) -> None:
        """Replace a parameter by one of another module, which both then share."""
        own = f"{type(self).__name__}.{name}"
        copies = f"to copy it, write {name}[...] = array, or assign array.copy()"
        if CONTEXT.trace is not None or CONTEXT.transform_depth:
            raise TraceError(f"{own}: parameters are tied outside of jit and grad, before training; {copies}")
        if shared.dtype != old.dtype:
            dtypes = f"{own} is {old.dtype.name}, the parameter assigned to it {shared.dtype.name}"
            raise DTypeError(f"{dtypes}: both must have one dtype to be one parameter; {copies}")
        object.__setattr__(self, name, shared)
        structure_changed()

    def __dir__(self) -> list[str]:
        return own_names(type(self), object.__dir__(self))

    def children(self) -> Iterator[tuple[str, ModuleTree]]:
        """Yield (name, module) of the direct children, including those in lists and dicts."""
        for name, value in self.__dict__.items():
            yield from find_modules(name, value)

    def modules(self) -> Iterator[tuple[str, ModuleTree]]:
        """Yield (dotted name, module) of this module (name "") and all inside it; a shared one once, by its first name."""
        return _walk("", self, set())

    def _walk_arrays(self) -> Iterator[tuple[str, str, ModuleTree, Array]]:
        """Yield (dotted name, its last part inside the module, module, Array) of every Array, each once."""
        seen: set[int] = set()
        for prefix, module in self.modules():
            for name, array in arrays_in(module):
                if id(array) not in seen:
                    seen.add(id(array))
                    yield (f"{prefix}.{name}" if prefix else name), name, module, array

    def arrays(self) -> dict[str, Array]:
        """Return every Array by dotted name, parameters and buffers; a shared one once, by its first name."""
        return {name: value for name, _, _, value in self._walk_arrays()}

    def parameters(self) -> dict[str, Array]:
        """Return the trainable Arrays by dotted name; a shared one once, by its first name. Frozen ones are left out.

        Examples
        --------
        >>> import weft as wf
        >>> sorted(wf.nn.Linear(3, 2).parameters())
        ['bias', 'weight']
        """
        return {
            ParameterName(name): value for name, local, module, value in self._walk_arrays()
            if _is_trained(local, module) and local not in module.frozen and is_inexact(value.dtype)
        }

    def named_parameters(self) -> Iterator[tuple[str, Array]]:
        """Yield (dotted name, Array) of every parameter, frozen ones too; a shared one once, by its first name."""
        return ((name, value) for name, _, _, value in self._walk_parameters())

    def _walk_parameters(self) -> Iterator[tuple[str, str, ModuleTree, Array]]:
        """Yield the items of :meth:`_walk_arrays` that are parameters."""
        for item in self._walk_arrays():
            _, local, module, value = item
            if _is_trained(local, module) and is_inexact(value.dtype):
                yield item

    def freeze(self, *patterns: str) -> Self:
        """Exclude parameters from training: :meth:`parameters`, gradients by it and optimizers leave them out.

        Running statistics of normalisation layers are no parameters: a layer updates them while its ``training`` is set.

        Parameters
        ----------
        patterns : str
            Layers ("0", "encoder") or names with wildcards ("0.*", "*.bias"), as in an optimizer's ``groups``; all without one.

        Returns
        -------
        Module : itself

        Raises
        ------
        ValueError
            A pattern matches no parameter.

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.ReLU(), wf.nn.Linear(4, 2)).freeze("0")
        >>> list(net.parameters())
        ['2.weight', '2.bias']
        >>> len(net.unfreeze().parameters())
        4
        """
        return self._set_frozen("freeze", patterns, True)

    def unfreeze(self, *patterns: str) -> Self:
        """Train parameters again that :meth:`freeze` excluded; all without a pattern."""
        return self._set_frozen("unfreeze", patterns, False)

    def _set_frozen(self, function: str, patterns: tuple[str, ...], frozen: bool) -> Self:
        names = {name: [name] for name, _ in self.named_parameters()}
        for other, first in find_aliases(self).items():
            names.get(first, []).append(other)
        known = [name for shared in names.values() for name in shared]
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"{function}: a pattern must be a str such as '0' or '*.bias', not {short(pattern)}")
            if not any(matches(name, pattern) for name in known):
                close = suggest(pattern, {part for name in known for part in (name, name.rpartition(".")[0])})
                raise ValueError(
                    f"{function}: {pattern!r} matches no parameter"
                    + (f". Did you mean {close!r}?" if close else f"; there are {', '.join(known)}")
                )
        for name, local, module, _ in [*self._walk_parameters()]:
            if not patterns or any(matches(n, pattern) for n in names[name] for pattern in patterns):
                kept = tuple(n for n in module.frozen if n != local)
                object.__setattr__(module, "frozen", (*kept, local) if frozen else kept)
        structure_changed()
        return self

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of this module and all inside it (dropout is active in training); return the module."""
        for _, module in self.modules():
            object.__setattr__(module, "training", mode)
        structure_changed()
        return self

    def eval(self) -> Self:
        """Set the evaluation mode, the opposite of :meth:`train`."""
        return self.train(False)


add_foreign_names(ModuleTree, MODULE | FLAGS, FLAGS)
_of_arrays = [name for name in [*ARRAY, *own_names(Array, dir(Array))] if not name.startswith("_")]
add_foreign_names(ParameterName, dict.fromkeys(_of_arrays, PARAMETERS))
CALLERS.add(ModuleTree.__call__.__code__)
MODULE_CALLS.add(ModuleTree.__call__.__code__)


def _is_trained(local: str, module: ModuleTree) -> bool:
    """Return whether an array is none of the module's buffers. ``local`` : its name inside the module"""
    return not module.buffers or local.partition(".")[0] not in module.buffers


def _walk(name: str, module: ModuleTree, seen: set[int]) -> Iterator[tuple[str, ModuleTree]]:
    if id(module) not in seen:
        seen.add(id(module))
        yield name, module
        for inner, child in module.children():
            yield from _walk(f"{name}.{inner}" if name else inner, child, seen)


def name_layer(error: Exception, module: ModuleTree) -> None:
    """Add the path of the layer in which an error about shapes, dtypes or values was raised to its message.

    Each call around that layer's adds its module, and so the path becomes one from the outermost module.
    """
    if not isinstance(error, ShapeError | DTypeError | AxisError | LabelError | TraceError):
        return
    text, chain = error.__dict__.setdefault("_layers", (str(error), []))
    chain.append(module)
    if len(chain) > 1:
        error.args = (f"{text}; in layer {describe_layer(*reversed(chain))}",)


def describe_layer(*chain: ModuleTree) -> str:
    """Return the path and the arguments of the innermost layer of nested calls, the outermost of which comes first."""
    inner = chain[-1]
    layer = f"{type(inner).__name__}({inner.extra_repr()})" if hasattr(inner, "extra_repr") else type(inner).__name__
    names = [_name_in(outer, module) for outer, module in pairwise(chain)]
    return f"{'.'.join(names)} of {type(chain[0]).__name__}: {layer}" if names else layer


def explain_tuple(error: Exception, args: tuple[Any, ...]) -> None:
    """Replace the error of a layer whose input is a tuple by one that says how to take it apart; a state may be a tuple."""
    found = next((x for x in args[:1] if isinstance(x, tuple) and any(isinstance(a, Array) for a in x)), None)
    if found is not None and "_layers" not in error.__dict__:
        error.args = (f"the input is a tuple of {len(found)}, as a recurrent layer returns: take it apart, y, state = layer(x)",)


def explain_setup(error: Exception, module: ModuleTree) -> None:
    """Add to an AttributeError that layers are made in ``__init__``, if they are in a method that other libraries call."""
    if not isinstance(error, AttributeError) or error.obj is not module or "; in weft" in str(error):
        return
    for name in ("setup", "build"):
        if inspect.isfunction(getattr_static(type(module), name, None)):
            error.args = (f"{error}; in weft: make layers in __init__, {name} is not called",)


def _name_in(outer: ModuleTree, inner: ModuleTree) -> str:
    return next((name for name, module in outer.modules() if module is inner), type(inner).__name__)


def arrays_in(module: ModuleTree) -> Iterator[tuple[str, Array]]:
    """Yield (name, Array) of a module's own arrays, including those in lists and dicts."""
    for attribute, value in module.__dict__.items():
        if attribute not in module._results:
            yield from _find(Array, attribute, value)


def find_aliases(model: ModuleTree) -> dict[str, str]:
    """Return the further names of arrays that several layers share, with the first name of each."""
    first = {id(array): name for name, array in model.arrays().items()}
    found: dict[str, str] = {}

    def walk(prefix: str, module: ModuleTree, inside: tuple[int, ...]) -> None:
        for name, array in arrays_in(module):
            if (full := prefix + name) != first.get(id(array), full):
                found[full] = first[id(array)]
        for name, child in module.children():
            if id(child) not in inside:
                walk(f"{prefix}{name}.", child, (*inside, id(child)))

    walk("", model, (id(model),))
    return found


def find_modules(name: str, value: Any) -> Iterator[tuple[str, ModuleTree]]:
    """Yield (name, module) of an attribute's value: a module, or lists and dicts of modules."""
    return _find(ModuleTree, name, value)


def _find(kind: type, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _find(kind, f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find(kind, f"{name}.{key}", item)
