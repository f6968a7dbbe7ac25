"""Averaged weights: a running mean of the weights after each step, less noisy than the last weights."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array
from weft.functions.creation.fill import array, asarray
from weft.optim.optimizer import state_dtype
from weft.train.history import State
from weft.transforms.jit import jit


class AverageWeights:
    """Keep an exponential moving average of the weights, and write it into the model when the run ends.

    After step t the average moves by ``1 - min(decay, (1 + t) / (10 + t))`` of the way to the weights, so that the influence of
    the first weights fades soon. Training itself is not changed, and the figures of the history are those of the trained
    weights. Buffers, such as the running statistics of batch norm, are not averaged. If ``callbacks`` also has a
    :class:`BestWeights`, the later of the two determines the final weights.

    B. T. Polyak, A. B. Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30 (1992).

    Parameters
    ----------
    decay : in (0, 1); 0.999 is a mean over about the last 1,000 steps

    Attributes
    ----------
    average : dict from names to Arrays of float32 or float64; empty before the first step

    Raises
    ------
    ValueError
        ``decay`` is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> mean, net = wf.train.AverageWeights(0.9), wf.nn.Linear(3, 1)
    >>> history = wf.train.fit(net, x, x[:, :1], loss=wf.losses.mse, epochs=3, callbacks=[mean], show=False)
    >>> bool((net.weight.numpy() == mean.average["weight"].numpy()).all())
    True
    """

    def __init__(self, decay: float = 0.999) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"AverageWeights: decay must lie between 0 and 1, not {decay}")
        self.decay, self.steps = decay, 0
        self.average: dict[str, Array] = {}
        self._move: Callable[[float], None] | None = None

    def on_begin(self, state: State) -> None:
        self.steps, self.average, self._move = 0, {}, None

    def on_batch(self, state: State) -> None:
        if not self.average:
            self.average = {n: array(p, dtype=state_dtype(p.dtype)) for n, p in state.model.parameters().items()}
        if self._move is None:
            pairs = [(self.average[name], p) for name, p in state.model.parameters().items()]

            @jit
            def move(share: float) -> None:
                for a, p in pairs:
                    a[...] = a + share * (p.astype(a.dtype) - a)

            self._move = move
        self.steps += 1
        self._move(1.0 - min(self.decay, (1 + self.steps) / (10 + self.steps)))

    def on_end(self, state: State) -> None:
        for name, p in state.model.parameters().items():
            if name in self.average:
                p[...] = self.average[name].astype(p.dtype)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, **{f"average/{name}": a.numpy().copy() for name, a in self.average.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = operator.index(state["steps"])
        self.average = {n.removeprefix("average/"): asarray(a) for n, a in state.items() if isinstance(a, np.ndarray)}
