"""What a method of ``minimize`` works with: parameters as one vector, the loss as a function of it, and the state of a run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap, wrap_array
from weft.array.convert import as_node
from weft.dtypes.formats import COMPLEX, INEXACT
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum, minimum
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import all as every
from weft.functions.reductions.folds import max as largest
from weft.functions.shape.axes import broadcast_to, concatenate
from weft.transforms.tree import flatten, is_container, tree_paths, unflatten
from weft.transforms.tree_functions import ravel


class Status:
    """The values of :attr:`State.status`: the run goes on, or why it has ended."""

    RUNNING, SMALL_GRADIENT, SMALL_CHANGE, NO_LOWER_LOSS, NOT_FINITE = range(5)


@dataclass(frozen=True)
class Objective:
    """A loss as a function of one vector, with one batch of data.

    value_and_grad : (vector) -> (loss, gradient)
    residuals : (vector) -> vector, for the methods of least squares
    lower, upper : vectors, None without bounds
    tol : the tolerance of the gradient
    """

    value_and_grad: Callable[[Array], tuple[Array, Array]]
    residuals: Callable[[Array], Array]
    lower: Array | None
    upper: Array | None
    tol: float

    def project(self, x: Array) -> Array:
        """Return the nearest point within the bounds."""
        return x if self.lower is None or self.upper is None else minimum(maximum(x, self.lower), self.upper)


@dataclass(frozen=True)
class State:
    """The state of a run after a number of steps. It is the carry of a loop.

    x, gradient, best_x : vectors, or lists of arrays for an optimizer
    memory : what the method keeps beside, such as pairs of steps and changes of the gradient
    """

    x: Any
    loss: Array
    gradient: Any
    best_x: Any
    best_loss: Array
    steps: Array
    evaluations: Array
    status: Array
    memory: dict[str, Array]


def first_state(objective: Objective, x: Array, loss: Array, gradient: Array, memory: dict[str, Array]) -> State:
    """Return the state before the first step."""
    count = zeros((), dtype="int64")
    state = State(x, loss, gradient, x, loss, count, count + 1, count, memory)
    return replace(state, status=where(_is_finite(loss, gradient), stationary(objective, x, gradient), Status.NOT_FINITE))


def next_state(
    state: State, x: Array, loss: Array, gradient: Array, evaluations: Array, status: Array, memory: dict[str, Array],
) -> State:
    """Return the state after a step."""
    is_best = (loss < state.best_loss) | ~isfinite(state.best_loss)
    best_x, best_loss = where(is_best, x, state.best_x), where(is_best, loss, state.best_loss)
    steps, evaluations = state.steps + 1, state.evaluations + evaluations
    status = where(_is_finite(loss, gradient), status, Status.NOT_FINITE)
    return State(x, loss, gradient, best_x, best_loss, steps, evaluations, status, memory)


def _is_finite(loss: Array, gradient: Array) -> Array:
    return isfinite(loss) & every(isfinite(gradient))


def stationary(objective: Objective, x: Array, gradient: Array) -> Array:
    """Return ``SMALL_GRADIENT`` if the gradient, projected on the bounds, is within the tolerance, else ``RUNNING``."""
    return where(gradient_size(objective, x, gradient) <= objective.tol, Status.SMALL_GRADIENT, Status.RUNNING).astype("int64")


def gradient_size(objective: Objective, x: Array, gradient: Array) -> Array:
    """Return the largest element of the gradient, projected on the bounds: how far a step of length 1 would go."""
    reach = gradient if objective.lower is None else x - objective.project(x - gradient)
    return largest(absolute(reach)) if reach.size else zeros((), dtype=x.dtype)


class Loss:
    """The user's loss."""

    def __init__(self, function: Callable[..., Any], has_aux: bool) -> None:
        self.function, self.has_aux = function, has_aux

    def loss_and_aux(self, params: Any, *batch: Any) -> tuple[Any, Any]:
        """Return (loss, aux)."""
        out = self.function(params, *batch)
        if not self.has_aux:
            return out, None
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(f"minimize: with has_aux=True the loss must return (loss, aux), not {type(out).__name__}")
        return out

    def value(self, params: Any, *batch: Any) -> Array:
        """Return the loss as an array of shape ()."""
        out, _ = self.loss_and_aux(params, *batch)
        if not isinstance(out, Array | float | int | np.ndarray | np.number):
            kind = type(out).__name__
            raise TypeError(f"minimize: the loss returns {kind}, but must return one number; has_aux=True allows more")
        node = as_node(out)
        if node.size != 1:
            raise ShapeError(
                f"minimize: the loss has shape {node.shape}, but must be one number: take .sum() or .mean(), or a method of "
                "least squares for residuals"
            )
        if node.dtype in COMPLEX:
            raise DTypeError(f"minimize: the loss is {node.dtype.name}, but must be real: take wf.real(y) or wf.abs(y)")
        return wrap(node).reshape(())

    def residuals(self, params: Any, *batch: Any) -> Array:
        """Return all residuals as one vector."""
        out, _ = self.loss_and_aux(params, *batch)
        vector = out if out is None else ravel(out)[0]
        if vector is None or not vector.size:
            found = "None" if out is None else "no elements"
            raise ShapeError(f"minimize: the loss returns {found}, but must return the residuals")
        return vector


def epsilon(x: Array) -> float:
    """Return the distance from 1 to the next number in the dtype of ``x``, float32 or float64."""
    return float(np.finfo(x.dtype).eps)


class Variables:
    """The float arrays and numbers of a tree of parameters. Everything else in the tree is constant.

    An array with two places in the tree is one variable. Modules are copied: their parameters are new arrays, and what a loss
    writes into their buffers does not reach the modules that were given.
    """

    def __init__(self, params: Any) -> None:
        self.is_tree = is_container(params)
        self.tree = copy.deepcopy(params) if self.is_tree else params
        leaves, self.structure = flatten(self.tree)
        self.leaves = leaves
        places: dict[int, int] = {}
        self.values: list[Any] = []
        self.at: list[int | None] = []  # of each leaf: the number of its variable
        for leaf in leaves:
            if not _is_float(leaf):
                self.at.append(None)
                continue
            if id(leaf) not in places or not isinstance(leaf, Array):
                places[id(leaf)] = len(self.values)
                self.values.append(leaf)
            self.at.append(places[id(leaf)])
        if not self.values:
            raise DTypeError("minimize: params hold no float array or number, so there is nothing to change")
        self.is_writable = [isinstance(x, Array) and not isinstance(x, Scalar) for x in self.values]
        vector, unravel = ravel(self.values)
        self.unravel: Callable[[Array], list[Array]] = unravel
        narrow = vector.dtype.name not in ("float32", "float64")
        self.vector = vector.astype("float32") if narrow else vector

    def rebuild(self, vector: Array) -> Any:
        """Return the tree with the elements of ``vector`` as its variables."""
        return self.fill(self.unravel(vector))

    def fill(self, values: list[Array]) -> Any:
        """Return the tree with these arrays as its variables."""
        arrays = []
        for v, writable in zip(values, self.is_writable, strict=True):
            fits = writable is not isinstance(v, Scalar) or v.shape
            arrays.append(v if fits else wrap_array(v.node) if writable else wrap(v.node))
        new = [leaf if k is None else arrays[k] for leaf, k in zip(self.leaves, self.at, strict=True)]
        return unflatten(self.structure, new)

    def names(self) -> list[str]:
        """Return a name for each variable: its path in the tree."""
        paths = [".".join(map(str, path)) for path in tree_paths(self.tree)]
        first: dict[int, str] = {}
        for k, path in zip(self.at, paths, strict=True):
            if k is not None:
                first.setdefault(k, path or "params")
        return [first[k] for k in range(len(self.values))]

    def bounds_vector(self, value: Any, side: str) -> Array:
        """Return the bounds of one side as a vector. ``value``: None, a number, or a tree like the parameters"""
        infinite = float("-inf") if side == "lower" else float("inf")
        what = f"minimize: the {side} bound"
        if value is None:
            value = infinite
        if isinstance(value, int | float | np.number) or not self.is_tree:
            rows = [value] * len(self.values)
        else:
            leaves, structure = flatten(value)
            if structure != self.structure:
                raise ValueError(
                    f"{what} has the structure {structure}, but must be a number, None, or a tree like params, {self.structure}; "
                    f"{infinite} stands for no bound"
                )
            rows = [leaf for leaf, k in zip(leaves, self.at, strict=True) if k is not None]
            rows = [rows[[j for j in self.at if j is not None].index(k)] for k in range(len(self.values))]
        parts = []
        for row, variable in zip(rows, self.values, strict=True):
            shape = np.shape(variable)
            try:
                parts.append(broadcast_to(asarray(row, dtype=self.vector.dtype), shape).reshape(-1))
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"{what} {short(row)} must be a number or an array that broadcasts to the parameter's shape {shape}"
                ) from None
        return concatenate(parts)


def _is_float(leaf: Any) -> bool:
    if not isinstance(leaf, Array | np.ndarray | np.generic | float | complex):
        return False
    format_ = as_node(leaf).dtype
    if format_ in COMPLEX:
        raise DTypeError(
            f"minimize: a parameter is {format_.name}, but must be real: give its real and its imaginary part as two parameters"
        )
    return format_ in INEXACT
