"""How inputs reach a model: a tuple as positional arguments, a dict as keywords, anything else as the one argument."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from weft.data.members import describe_tree
from weft.nn.module import Module


def split_inputs(x: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a model's call, positional ones and keywords."""
    if isinstance(x, tuple):
        return x, {}
    return ((), dict(x)) if isinstance(x, Mapping) else ((x,), {})


def call_model(model: Any, x: Any) -> Any:
    """Return the model's result for inputs: ``model(*x)`` of a tuple, ``model(**x)`` of a dict, else ``model(x)``.

    Examples
    --------
    >>> import weft as wf
    >>> from weft.train.inputs import call_model
    >>> call_model(wf.nn.Bilinear(2, 3, 4), (wf.ones((5, 2)), wf.ones((5, 3)))).shape
    (5, 4)
    """
    if isinstance(x, tuple):
        return model(*x)
    return model(**x) if isinstance(x, dict) else model(x)


def check_inputs(model: Module, x: Any, function: str = "fit") -> None:
    """Raise TypeError if ``forward`` does not take the inputs: too few, too many, or keys that are no argument."""
    args, kwargs = split_inputs(x)
    other = next((key for key in kwargs if not isinstance(key, str)), None)
    if other is not None:
        raise TypeError(f"{function}: x has the key {other!r}, but keys are names of arguments of the model: write a str")
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*args, **kwargs)
        return
    except TypeError:
        pass
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = {name: p for name, p in signature.parameters.items() if p.kind not in kinds}
    required = [name for name, p in parameters.items() if p.default is p.empty]
    takes = f"{type(model).__name__}.forward takes {', '.join(parameters) or 'no input'}"
    if isinstance(x, Mapping):
        missing, unknown = [n for n in required if n not in kwargs], [n for n in kwargs if n not in parameters]
        given = f"x has no {missing[0]!r}" if missing else f"x has {unknown[0]!r}, which it does not take"
        raise TypeError(f"{function}: {takes}, but {given}: the keys of a dict are the names of arguments")
    if isinstance(x, tuple):
        raise TypeError(f"{function}: {takes}, but x is {describe_tree(x)}: a tuple's members are the arguments in this order")
    fix = f"give x=({', '.join(required)}), a tuple of arrays, or a dict of them by these names"
    raise TypeError(f"{function}: {takes}, but x is one array: {fix}")
