"""Runs of ``minimize`` with an optimizer, which writes a copy of the parameters in place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.array import Array, wrap_array
from weft.functions.creation.fill import full, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import max as largest
from weft.optim.objective import NOT_FINITE, RUNNING, SMALL_GRADIENT, Loss, State, Variables
from weft.optim.optimizer import Optimizer
from weft.optim.sam import SAM
from weft.transforms.control import while_loop
from weft.transforms.grad import value_and_grad
from weft.transforms.jit import jit
from weft.transforms.tree import is_module


class FirstOrder:
    """A run with an optimizer. In its ``State``, ``x``, ``gradient`` and ``best_x`` are lists of one array for each variable.

    The gradient is computed after the update and kept for the next step, so that a state's loss is that of its parameters.
    """

    def __init__(self, loss: Loss, variables: Variables, method: Optimizer, tol: float | None) -> None:
        self.variables, self.method, self.tol = variables, method, tol
        self.arrays = [wrap_array(x.node) for x in variables.unravel(variables.vector)]
        tree = variables.fill(self.arrays)
        self.model: Any
        if is_module(tree):
            names = {id(array): name for name, array in tree.parameters().items()}
            self.names, self.model = [names[id(x)] for x in self.arrays], tree
            self.loss = loss.value
        else:
            self.names = variables.names()
            self.model = dict(zip(self.names, self.arrays, strict=True))
            self.loss = lambda named, *batch: loss.value(variables.fill([named[n] for n in self.names]), *batch)
        if method.step_count is None:
            method.init(self.model)
        self._start, self._advance = jit(self._trace_start), jit(self._trace_advance)

    def rebuild(self, x: list[Array]) -> Any:
        """Return the tree of parameters with these variables."""
        return self.variables.fill(x)

    def start(self, batch: tuple[Any, ...]) -> State:
        return self._with_arrays(self._start(batch))

    def advance(self, state: State, until: Array, batch: tuple[Any, ...]) -> State:
        return self._with_arrays(self._advance(replace(state, x=[]), until, batch))

    def gradient_size(self, state: State) -> Array:
        """Return the largest element of the gradient."""
        return _size(state.gradient)

    def _with_arrays(self, state: State) -> State:
        return replace(state, x=self._snapshot())

    def _snapshot(self) -> list[Array]:
        return [wrap_array(x.node) for x in self.arrays]

    def _evaluate(self, batch: tuple[Any, ...]) -> tuple[Array, dict[str, Array]]:
        value, gradient = value_and_grad(self.loss)(self.model, *batch)
        named = gradient.parameters() if is_module(gradient) else gradient
        return value, {name: named[name] for name in self.names}

    def _status(self, loss: Array, gradient: list[Array]) -> Array:
        status = full((), RUNNING, dtype="int64")
        if self.tol is not None:
            status = where(_size(gradient) <= self.tol, SMALL_GRADIENT, RUNNING).astype("int64")
        return where(isfinite(loss), status, NOT_FINITE)

    def _trace_start(self, batch: tuple[Any, ...]) -> State:
        loss, named = self._evaluate(batch)
        gradient, count = list(named.values()), zeros((), dtype="int64")
        return State([], loss, gradient, self._snapshot(), loss, count, count + 1, self._status(loss, gradient), {})

    def _trace_advance(self, state: State, until: Array, batch: tuple[Any, ...]) -> State:
        each = 2 if isinstance(self.method, SAM) else 1

        def step(s: State) -> State:
            slopes = dict(zip(self.names, s.gradient, strict=True))
            self.method.update(self.model, slopes, loss=s.loss, gradient_at=lambda: self._evaluate(batch)[1])
            loss, named = self._evaluate(batch)
            gradient = list(named.values())
            is_best = (loss < s.best_loss) | ~isfinite(s.best_loss)
            best = [where(is_best, x, b) for x, b in zip(self.arrays, s.best_x, strict=True)]
            status = self._status(loss, gradient)
            best_loss = where(is_best, loss, s.best_loss)
            return State([], loss, gradient, best, best_loss, s.steps + 1, s.evaluations + each, status, {})

        return while_loop(lambda s: (s.steps < until) & (s.status == RUNNING), step, state)


def _size(gradient: list[Array]) -> Array:
    size = zeros((), dtype="float32")
    for g in gradient:
        size = maximum(size, largest(absolute(g))) if g.size else size
    return size
