"""What every optimizer shares: state beside each parameter, kept in Cells, so that a jitted step updates it."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation import zeros
from weft.nn.module import Module


class Optimizer:
    """Base of the optimizers: subclasses give ``slots`` (names of the state) and ``rule``.

    ``update(model, gradients)`` writes the parameters; the first call, or ``init(model)``, makes the state.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, lr: float) -> None:
        if not lr > 0:
            raise ValueError(f"{type(self).__name__}: lr must be positive, not {lr}")
        self.lr = lr
        self.state: dict[str, dict[str, Array]] = {}
        self.step_count: Array | None = None

    def init(self, model: Any) -> Optimizer:
        """Make the state for ``model`` (a Module, or a dict of Arrays); returns itself."""
        self.step_count = zeros((), dtype=np.dtype(np.float32))
        self.state = {
            name: {slot: zeros(p.shape, dtype=_state_dtype(p.dtype)) for slot in self.slots}
            for name, p in named_arrays(model).items()
        }
        return self

    def update(self, model: Any, gradients: Any, lr: float | Array | None = None) -> None:
        """Write every parameter of ``model`` by this optimizer's rule.

        Parameters
        ----------
        model : Module or dict of Arrays
        gradients : what ``wf.grad`` of a function of ``model`` gave: same names, same shapes
        lr : overrides the learning rate for this step; a Python float compiles nothing new

        Raises
        ------
        ShapeError
            when a gradient is missing or has another shape than its parameter.
        """
        if self.step_count is None:
            self.init(model)
        assert self.step_count is not None
        parameters, slopes = named_arrays(model), named_arrays(gradients)
        self.step_count[...] = self.step_count + 1
        rate = self.lr if lr is None else lr
        for name, p in parameters.items():
            if name not in slopes or slopes[name].shape != p.shape:
                found = slopes[name].shape if name in slopes else "none"
                raise ShapeError(f"update: parameter {name!r} has shape {p.shape}, its gradient {found}")
            fresh, state = self.rule(p, slopes[name], self.state[name], rate, self.step_count)
            for slot, value in state.items():
                self.state[name][slot][...] = value
            p[...] = fresh

    def rule(
        self, p: Array, g: Array, state: dict[str, Array], lr: float | Array, t: Array,
    ) -> tuple[Array, dict[str, Array]]:
        """New parameter and new state; ``t`` counts from 1."""
        raise TypeError(f"{type(self).__name__} has no rule method")

    def arrays(self) -> dict[str, Array]:
        """The state by name, for saving."""
        flat = {f"{name}/{slot}": value for name, slots in self.state.items() for slot, value in slots.items()}
        return flat if self.step_count is None else {"step_count": self.step_count, **flat}


def named_arrays(tree: Any) -> dict[str, Array]:
    """Parameters by name of a Module or a dict of Arrays (dicts, lists and tuples may nest)."""
    if isinstance(tree, Module):
        return tree.parameters()
    out: dict[str, Array] = {}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if isinstance(value, Array):
            out[str(key)] = value
        else:
            out.update({f"{key}.{inner}": v for inner, v in named_arrays(value).items()})
    return out


def _state_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
