"""Arguments of an update: parameters and gradients by name, with errors that name the parameter."""

from __future__ import annotations

from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from weft.array import Array, Scalar
from weft.dtypes.api import is_inexact
from weft.errors import DTypeError, ShapeError, short
from weft.transforms.tree import is_module


def named_arrays(tree: Any) -> dict[str, Array]:
    """Return the float parameters by name of a Module or a dict of Arrays (dicts, lists and tuples may nest)."""
    if is_module(tree):
        return tree.parameters()
    if isinstance(tree, Array):
        raise TypeError(f"the model is {short(tree)}, but must be a Module or a dict of Arrays: give {{'x': x}}")
    leaves = _leaves(tree)
    for name, value in leaves.items():
        if not isinstance(value, Array):
            subject = f"parameter {name!r}" if name else "the model"
            requirement = "must be an Array" if name else "must be a Module or a dict of Arrays"
            raise TypeError(f"{subject} is {short(value)} ({type(value).__name__}), but {requirement}")
    return {name: value for name, value in leaves.items() if is_inexact(value.dtype)}


def name_aliases(tree: Any) -> dict[str, list[str]]:
    """Return the further names of the parameters that several layers share, by their names in :func:`named_arrays`."""
    found: dict[str, list[str]] = {}
    if is_module(tree):
        from weft.nn.module_tree import find_aliases  # loads all layers, which a module has done

        for other, first in find_aliases(tree).items():
            found.setdefault(first, []).append(other)
    elif isinstance(tree, dict | list | tuple):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            found |= {f"{key}.{first}": [f"{key}.{n}" for n in others] for first, others in name_aliases(value).items()}
    return found


def match_gradients(model: Any, gradients: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the parameters of a model and their gradients, by name; raise for a gradient that does not fit."""
    parameters = named_arrays(model)
    if isinstance(gradients, tuple) and any(is_module(part) or isinstance(part, dict) for part in gradients):
        problem = f"gradients is a tuple of {len(gradients)}; wf.value_and_grad returns (value, gradients)"
        raise TypeError(f"update(model, gradients): {problem}: take it apart")
    if is_module(model) and isinstance(gradients, list):
        raise TypeError(
            f"update(model, gradients): gradients is a list of {len(gradients)}, but must be the result of wf.grad of a function "
            f"of the model: a dict with {', '.join(map(repr, parameters))}"
        )
    slopes = _leaves(gradients)
    if is_module(model) and is_module(gradients) and _are_swapped(parameters, slopes):
        raise TypeError("update(model, gradients): the model is the first argument, its gradients the second; they are swapped")
    if "" in slopes and "" not in parameters:
        raise TypeError(
            f"update(model, gradients): gradients is {short(gradients)} ({type(gradients).__name__}), but must be the result of "
            f"wf.grad of a function of the model: a dict with {', '.join(map(repr, parameters))}"
            + ("; wf.value_and_grad returns (value, gradients)" if isinstance(slopes[""], Array) else "")
        )
    for name, p in parameters.items():
        if isinstance(p, Scalar):
            raise TypeError(f"update: parameter {name!r} is a Scalar, a value that cannot change: make it wf.array({name})")
        slope = slopes[name] if name in slopes else _at_path(gradients, name)
        if not isinstance(slope, Array) and (name in slopes or slope is not None):
            raise TypeError(
                f"update: the gradient of parameter {name!r} is {short(slope)} ({type(slope).__name__}), but must be a float "
                f"Array of shape {p.shape}" + (": wf.asarray makes one" if isinstance(slope, np.ndarray) else "")
            )
        if slope is None or slope.shape != p.shape:
            problem = f"the gradients have {', '.join(slopes) or 'nothing'}" if slope is None else f"its gradient {slope.shape}"
            raise ShapeError(f"update: parameter {name!r} has shape {p.shape}, {problem}")
        if not is_inexact(slope.dtype):
            fix = f"must be float: cast it with .astype('{p.dtype.name}')"
            raise DTypeError(f"update: the gradient of parameter {name!r} is {slope.dtype.name}, but {fix}")
    return parameters, slopes


def _are_swapped(parameters: dict[str, Array], slopes: dict[str, Any]) -> bool:
    """Return whether the arrays of the second argument belong to a module's attributes, and those of the first do not."""
    from weft.nn.module_tree import is_parameter  # loads all layers, which a module has done

    return any(not is_parameter(p) and is_parameter(slopes.get(name)) for name, p in islice(parameters.items(), 1))


def check_learning_rate(lr: Any) -> None:
    """Raise if ``lr`` is neither None nor one number."""
    if not (lr is None or isinstance(lr, Real | Array | np.ndarray)):
        raise DTypeError(f"update: lr must be a number, not {short(lr)} ({type(lr).__name__})")
    if isinstance(lr, Array | np.ndarray) and lr.shape != ():
        raise ShapeError(f"update: lr has shape {lr.shape}, but must be one number; groups= gives some parameters another")


def _at_path(tree: Any, name: str) -> Any:
    """Return what a Module stores under a parameter's dotted name, None if nothing."""
    value: Any = tree if is_module(tree) else None
    for part in name.split("."):
        try:
            value = getattr(value, part) if hasattr(value, part) else value[int(part) if part.isdigit() else part]
        except (TypeError, LookupError):
            return None
    return value


def _leaves(tree: Any) -> dict[str, Any]:
    """Return all leaves of Modules, dicts, lists and tuples by name; a value that is none of these has the name ""."""
    if is_module(tree):
        return dict(tree.parameters())
    if not isinstance(tree, dict | list | tuple) and not (isinstance(tree, Array) and tree.ndim):
        return {"": tree}
    leaves: dict[str, Any] = {}
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, Array) or not (is_module(value) or isinstance(value, dict | list | tuple)):
            leaves[str(key)] = value
        else:
            leaves.update({f"{key}.{inner}": leaf for inner, leaf in _leaves(value).items()})
    return leaves
