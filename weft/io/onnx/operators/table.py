"""The table of ONNX operators: name -> a function of weft's arrays, with the attributes' defaults from ``onnx.defs``.

An operator is a function of its attributes and inputs. An input that is left out is None. Inputs are Arrays, or NumPy arrays if
their values are known without the model's inputs: constants and what is computed from shapes. Operators without an entry are
computed by the function body of their definition, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array
from weft.errors import TraceError


class Operator(NamedTuple):
    """An entry of the table.

    call : ``call(attributes, *inputs)`` returns an array, or a tuple for several outputs
    static : numbers of the inputs whose values are needed (shapes, axes)
    pure : whether equal inputs give equal results
    """

    call: Callable[..., Any]
    static: tuple[int, ...] = ()
    pure: bool = True


OPERATORS: dict[str, Operator] = {}


class Attributes:
    """Attributes of a node as Python values: ``attributes.axis``; None for one without a value and without a default.

    opset : the version of the operator set
    outputs : the number of outputs, with those that are left out
    """

    def __init__(self, values: dict[str, Any], opset: int, outputs: int = 1) -> None:
        self.values, self.opset, self.outputs = values, opset, outputs

    def __getattr__(self, name: str) -> Any:
        return self.values.get(name)


def operator(*names: str, static: tuple[int, ...] = (), pure: bool = True) -> Callable[[Any], Any]:
    """Return a decorator that adds a function to the table under these names. The other arguments are those of an Operator."""

    def add(call: Any) -> Any:
        OPERATORS.update({name: Operator(call, static, pure) for name in names})
        return call

    return add


def add_elementwise(names: dict[str, Callable[..., Any]]) -> None:
    """Add functions of arrays without attributes to the table."""
    for name, function in names.items():
        operator(name)(lambda at, *inputs, function=function: function(*inputs))


def read_static(value: Any, what: str) -> np.ndarray:
    """Return the values of an input. Raise TraceError if they depend on arguments of a traced function."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Array):
        try:
            return value.numpy()
        except TraceError:
            raise TraceError(
                f"the values of {what} are needed, and they depend on an argument of a traced function: call the model outside "
                "of jit and grad"
            ) from None
    return np.asarray(value)


def read_ints(value: Any, what: str) -> tuple[int, ...] | None:
    """Return an input or attribute of integers as a tuple; None if it is left out."""
    if value is None:
        return None
    return tuple(int(n) for n in (value if isinstance(value, list | tuple) else read_static(value, what).reshape(-1)))


def read_axes(at: Attributes, given: Any) -> tuple[int, ...] | None:
    """Return the axes of a node: its attribute in older versions, an input in newer ones; None if they are left out."""
    return read_ints(at.axes if given is None else given, "axes")
