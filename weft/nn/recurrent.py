"""Recurrent layers: each layer and direction is one native loop (wf.scan); the inputs' products are made for all steps at once.

Names and layouts of the parameters are PyTorch's, so its weights can be copied in. Inside, each gate has its part of the
weights and memory of its own: what is put together at every step would have to be taken apart again by the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray, zeros
from weft.functions.elementwise.ufuncs import maximum, stop_gradient, tanh
from weft.functions.shape.join_split import concatenate, stack
from weft.nn.dropout import dropout
from weft.nn.linear import linear
from weft.nn.module import Module, uniform_parameter
from weft.nn.size_arguments import extents, first_batch
from weft.runtime.cell import place_of, seen_from, traces
from weft.runtime.context import LOCAL
from weft.transforms.control import scan

State = tuple[Array, ...]
Gates = tuple[Any, ...]
GateStep = Callable[[State, Gates, Gates, Gates], State]  # state, input part, weights and biases of the gates -> state


def _sigmoid(x: Array) -> Array:
    """For gates: as exact as a number near 1 can be, and half the work of the one that is exact near 0."""
    return tanh(x * 0.5) * 0.5 + 0.5


def _simple(nonlinearity: str) -> GateStep:
    act = tanh if nonlinearity == "tanh" else lambda x: maximum(x, 0)

    def step(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
        return (act(x[0] + linear(state[0], weights[0])),)

    return step


def _lstm(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
    h, c = state
    i, f, g, o = (a + linear(h, w) for a, w in zip(x, weights, strict=True))
    c = _sigmoid(f) * c + _sigmoid(i) * tanh(g)
    return _sigmoid(o) * tanh(c), c


def _gru(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
    (h,) = state
    r, z = (_sigmoid(a + linear(h, w)) for a, w in zip(x[:2], weights[:2], strict=True))
    n = tanh(x[2] + r * linear(h, weights[2], biases[2]))
    return ((1 - z) * n + z * h,)


class _Recurrent(Module):
    """What the three have in common: parameters, layers, directions, the state."""

    buffers = ("hidden", "cell")
    gates = 1
    states = 1
    late = 0  # gates, the last ones, whose bias_hh is added inside the loop

    def __init__(
        self, input_size: int | None = None, hidden_size: int | None = None, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, stateful: bool = False,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_layers = extents(type(self).__name__, hidden_size=hidden_size, num_layers=num_layers)
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"{type(self).__name__}: dropout must lie between 0 and 1, not {dropout}")
        self.input_size: int | None = None
        self.has_bias = bool(bias)
        self.batch_first, self.dropout = bool(batch_first), float(dropout)
        self.bidirectional, self.stateful = bool(bidirectional), bool(stateful)
        self.hidden: Array | None = None
        self.cell: Array | None = None
        if input_size is not None:
            self._make(input_size)

    def _make(self, width: int) -> None:
        (input_size,) = extents(type(self).__name__, input_size=width)
        self.input_size = input_size
        wide, limit = self.gates * self.hidden_size, self.hidden_size**-0.5
        for layer in range(self.num_layers):
            width = input_size if layer == 0 else self.hidden_size * len(self._ends)
            for end in self._ends:
                setattr(self, f"weight_ih_l{layer}{end}", uniform_parameter((wide, width), limit))
                setattr(self, f"weight_hh_l{layer}{end}", uniform_parameter((wide, self.hidden_size), limit))
                for which in ("ih", "hh"):
                    name = f"bias_{which}_l{layer}{end}"
                    setattr(self, name, uniform_parameter((wide,), limit) if self.has_bias else None)

    @property
    def _ends(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _step(self) -> GateStep:
        raise TypeError(f"{type(self).__name__} has no step")

    def reset_state(self) -> None:
        """Forget the state that a stateful layer kept: the next batch starts from zeros."""
        if LOCAL.trace is not None:
            LOCAL.trace.forgetful.add(id(self))
        self.hidden = self.cell = None

    def _forward(self, x: Any, given: State | None) -> tuple[Array, State]:
        name = type(self).__name__
        x = asarray(x)
        single = x.ndim == 2
        if x.ndim not in (2, 3):
            layout = "(batch, steps, features)" if self.batch_first else "(steps, batch, features)"
            raise ShapeError(f"{name}: x must be {layout} or (steps, features), not {x.shape}")
        if self.input_size is None:
            first_batch(self, "input_size")
            self._make(x.shape[-1])
        if x.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: x has shape {x.shape}, its last dimension must be input_size = {self.input_size}")
        if single:
            x = x[:, None]
        elif self.batch_first:
            x = x.swapaxes(0, 1)
        start = self._start(given, x.shape[1], single)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = dropout(x, self.dropout, self.training)
            parts = []
            for end in self._ends:
                k = len(last)
                y, state = self._layer(x, f"l{layer}{end}", None if start is None else tuple([s[k] for s in start]), end != "")
                parts.append(y)
                last.append(state)
            x = parts[0] if len(parts) == 1 else concatenate(parts, axis=2)
        states = tuple([stack(s) for s in zip(*last, strict=True)])
        if self.stateful:
            self._keep(tuple([stop_gradient(s) for s in states]))
        if single:
            return x[:, 0], tuple([s[:, 0] for s in states])
        return x.swapaxes(0, 1) if self.batch_first else x, states

    def _keep(self, states: State) -> None:
        """Keep the states for the next batch.

        The first arrays that hold them belong where the weights do, not to a trace that this is in: should it fail, zeros are
        left, and should it be a loop, they go from step to step. Unless the trace itself begins by forgetting them.
        """
        if self.hidden is None and LOCAL.inside and not any(id(self) in trace.forgetful for trace in traces()):
            with seen_from(place_of(vars(self)["weight_hh_l0"]._trace)):
                for name, state in zip(("hidden", "cell"), states, strict=False):
                    setattr(self, name, zeros(state.shape, dtype=state.dtype))
            for trace in traces():
                trace.once = True  # when the state has been forgotten, there will be other arrays
        for name, state in zip(("hidden", "cell"), states, strict=False):
            setattr(self, name, state)

    def _start(self, given: State | None, batch: int, single: bool) -> State | None:
        """The states of all layers and directions before the first step; None for zeros."""
        if given is None and self.stateful and self.hidden is not None:
            given, single = (self.hidden,) if self.cell is None else (self.hidden, self.cell), False
        if given is None:
            return None
        given = tuple([asarray(s)[:, None] if single else asarray(s) for s in given])
        wanted = (self.num_layers * len(self._ends), batch, self.hidden_size)
        for s in given:
            if tuple(s.shape) != wanted:
                raise ShapeError(
                    f"{type(self).__name__}: a state has shape {tuple(s.shape)}, but must be (layers * directions, batch, "
                    f"hidden_size) = {wanted}" + ("; reset_state() forgets the one that was kept" if self.stateful else "")
                )
        return given

    def _layer(self, x: Array, name: str, start: State | None, reverse: bool) -> tuple[Array, State]:
        w_ih, w_hh, b_ih, b_hh = (self._gates(f"{part}_{name}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        early = self.gates - self.late
        if self.has_bias:
            b_ih = tuple([a + b if k < early else a for k, (a, b) in enumerate(zip(b_ih, b_hh, strict=True))])
        gates = tuple([linear(x, w, b) for w, b in zip(w_ih, b_ih, strict=True)])
        step = self._step()
        if start is None:
            start = tuple([zeros((x.shape[1], self.hidden_size), dtype=gates[0].dtype)] * self.states)
        start = tuple([s if s.dtype == gates[0].dtype else s.astype(gates[0].dtype) for s in start])

        def one(state: State, g: Gates) -> tuple[State, Array]:
            state = step(state, g, w_hh, b_hh)
            return state, state[0]

        state, y = scan(one, start, gates, reverse=reverse)
        return y, state

    def _gates(self, name: str) -> Gates:
        """A parameter's part for each gate."""
        whole, n = self.__dict__[name], self.hidden_size
        return (None,) * self.gates if whole is None else tuple([whole[k * n : k * n + n] for k in range(self.gates)])

    def extra_repr(self) -> str:
        said = [str(self.input_size), str(self.hidden_size)]
        said += [f"num_layers={self.num_layers}"] if self.num_layers > 1 else []
        said += [f"{k}=True" for k in ("batch_first", "bidirectional", "stateful") if getattr(self, k)]
        return ", ".join(said)


class RNN(_Recurrent):
    """``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` for each step, each layer and direction one native loop.

    Parameters
    ----------
    input_size : int, or None (or left out) to take it from the first batch
    hidden_size : int
    num_layers : int, each reads what the one before gives
    nonlinearity : "tanh" or "relu"
    bias : bool
    batch_first : whether x is (batch, steps, features) instead of (steps, batch, features)
    dropout : probability, between layers, while training
    bidirectional : a second direction from the last step to the first; outputs are put side by side
    stateful : start each batch from the state that the one before ended in, without a gradient through it

    Raises
    ------
    ShapeError, ValueError
        Sizes that are not positive, or x and state that do not fit; ``dropout`` or ``nonlinearity`` out of range.
    TraceError
        The first batch comes inside jit or grad, and ``input_size`` was left out.

    Examples
    --------
    >>> import weft as wf
    >>> y, h = wf.nn.RNN(3, 5)(wf.ones((7, 2, 3)))
    >>> y.shape, h.shape
    ((7, 2, 5), (1, 2, 5))
    """

    def __init__(
        self, input_size: int | None = None, hidden_size: int | None = None, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, stateful: bool = False,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, stateful)
        self.nonlinearity = nonlinearity

    def _step(self) -> GateStep:
        return _simple(self.nonlinearity)

    def forward(self, x: Any, h0: Array | None = None) -> tuple[Array, Array]:
        """(output of every step, last state of every layer and direction)."""
        y, (h,) = self._forward(x, None if h0 is None else (h0,))
        return y, h


class LSTM(_Recurrent):
    """Long short-term memory; gates in the order input, forget, cell, output. Hochreiter and Schmidhuber, 1997.

    Parameters
    ----------
    input_size : int, or None (or left out) to take it from the first batch
    hidden_size : int
    num_layers, bias, batch_first, dropout, bidirectional, stateful : as for :class:`RNN`

    Raises
    ------
    ShapeError, ValueError, TraceError, TypeError
        As :class:`RNN`; called with a state that is no pair.

    Examples
    --------
    >>> import weft as wf
    >>> y, (h, c) = wf.nn.LSTM(3, 5, batch_first=True, bidirectional=True)(wf.ones((2, 7, 3)))
    >>> y.shape, h.shape, c.shape
    ((2, 7, 10), (2, 2, 5), (2, 2, 5))
    """

    gates = 4
    states = 2

    def _step(self) -> GateStep:
        return _lstm

    def forward(self, x: Any, state: tuple[Array, Array] | None = None) -> tuple[Array, tuple[Array, Array]]:
        """(output of every step, (last hidden state, last cell state) of every layer and direction)."""
        if state is not None and not (isinstance(state, tuple | list) and len(state) == 2):
            raise TypeError(f"LSTM: state must be a pair (hidden, cell), not {type(state).__name__}")
        y, (h, c) = self._forward(x, None if state is None else tuple(state))
        return y, (h, c)


class GRU(_Recurrent):
    """Gated recurrent unit, PyTorch's form: ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``; gates r, z, n. Cho et al., 2014.

    Parameters
    ----------
    input_size : int, or None (or left out) to take it from the first batch
    hidden_size : int
    num_layers, bias, batch_first, dropout, bidirectional, stateful : as for :class:`RNN`

    Raises
    ------
    ShapeError, ValueError, TraceError
        As :class:`RNN`.

    Examples
    --------
    >>> import weft as wf
    >>> y, h = wf.nn.GRU(None, 5, num_layers=2)(wf.ones((7, 2, 3)))
    >>> y.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    gates = 3
    late = 1

    def _step(self) -> GateStep:
        return _gru

    def forward(self, x: Any, h0: Array | None = None) -> tuple[Array, Array]:
        """(output of every step, last state of every layer and direction)."""
        y, (h,) = self._forward(x, None if h0 is None else (h0,))
        return y, h
