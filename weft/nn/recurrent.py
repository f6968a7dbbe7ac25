"""Recurrent layers: each layer and direction is one native loop (wf.scan); products with the inputs are computed before the loop.

Names and layouts of the parameters are PyTorch's, so that its weights can be copied. In the loop each gate has separate weights
and values: concatenating them at every step would require the derivative to split them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.dtypes.api import is_integer
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import arange, asarray, zeros
from weft.functions.elementwise.ufuncs import maximum, stop_gradient, tanh
from weft.functions.indexing.where import where
from weft.functions.shape.axes import concatenate, stack
from weft.functions.support.arguments import check_range
from weft.nn.dropout import check_probability, dropout
from weft.nn.linear import linear, multiply
from weft.nn.module import Module, uniform_parameter
from weft.nn.precision import current_precision
from weft.nn.size_arguments import check_can_infer, extents, int_or_none
from weft.process.docstrings import complete_docs
from weft.runtime.cell import inside_trace, owning_trace, traces
from weft.runtime.context import CONTEXT
from weft.transforms.control import scan

State = tuple[Array, ...]
Gates = tuple[Any, ...]
GateStep = Callable[[State, Gates, Gates, Gates], State]  # state, input part, weights and biases of the gates -> state


def _sigmoid(x: Array) -> Array:
    """Return the sigmoid for gates: accurate to the spacing of numbers near 1, at half the work of the one accurate near 0."""
    return tanh(x * 0.5) * 0.5 + 0.5


def _recur(h: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return the product of the state; the weight has been rounded before the loop."""
    return multiply(h, weight, bias, False)


def _rnn_step(nonlinearity: str) -> GateStep:
    act = tanh if nonlinearity == "tanh" else lambda x: maximum(x, 0)

    def step(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
        return (act(x[0] + _recur(state[0], weights[0])),)

    return step


def _lstm_step(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
    h, c = state
    i, f, g, o = (a + _recur(h, w) for a, w in zip(x, weights, strict=True))
    c = _sigmoid(f) * c + _sigmoid(i) * tanh(g)
    return _sigmoid(o) * tanh(c), c


def _project_hidden(step: GateStep, weight: Array) -> GateStep:
    """Return an LSTM step whose hidden state is multiplied by a matrix."""
    def projected(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
        h, c = step(state, x, weights, biases)
        return _recur(h, weight), c

    return projected


def _gru_step(state: State, x: Gates, weights: Gates, biases: Gates) -> State:
    (h,) = state
    r, z = (_sigmoid(a + linear(h, w)) for a, w in zip(x[:2], weights[:2], strict=True))
    n = tanh(x[2] + r * _recur(h, weights[2], biases[2]))
    return ((1 - z) * n + z * h,)


class _Recurrent(Module):
    """Base class: parameters, layers, directions and the state."""

    buffers = ("hidden", "cell")
    gates = 1
    states = 1
    late_gates = 0  # number of last gates whose bias_hh is added inside the loop
    proj_size = 0  # width of the hidden state if it is projected

    def __init__(
        self, input_size: int | None = None, hidden_size: int | None = None, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, stateful: bool = False,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_layers = extents(type(self).__name__, hidden_size=hidden_size, num_layers=num_layers)
        check_probability(type(self).__name__, dropout, "dropout")
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
        hidden = self._widths[0]
        for layer in range(self.num_layers):
            width = input_size if layer == 0 else hidden * len(self._directions)
            for direction in self._directions:
                setattr(self, f"weight_ih_l{layer}{direction}", uniform_parameter((wide, width), limit))
                setattr(self, f"weight_hh_l{layer}{direction}", uniform_parameter((wide, hidden), limit))
                for which in ("ih", "hh"):
                    name = f"bias_{which}_l{layer}{direction}"
                    setattr(self, name, uniform_parameter((wide,), limit) if self.has_bias else None)
                if self.proj_size:
                    projection = uniform_parameter((self.proj_size, self.hidden_size), limit)
                    setattr(self, f"weight_hr_l{layer}{direction}", projection)

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def _widths(self) -> tuple[int, ...]:
        """The width of each state."""
        return (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]

    def _step(self, name: str) -> GateStep:
        raise TypeError(f"{type(self).__name__} has no step")

    def forward(self, x: Any, h0: Any = None, lengths: Any = None) -> tuple[Array, Any]:
        """Return (output of every step, final state of every layer and direction).

        Parameters
        ----------
        x : (steps, batch, input_size), (batch, steps, input_size) with ``batch_first``, or (steps, input_size)
        h0 : (layers * directions, batch, hidden_size), optional; zeros by default
        lengths : (batch,) integers, optional
            The number of steps of each sequence. Outputs after them are 0, the final state is that of the last step, and the
            second direction begins there: as with PyTorch's packed sequences, in any order.
        """
        y, (h,) = self._forward(x, None if h0 is None else (h0,), lengths)
        return y, h

    def reset_state(self) -> None:
        """Drop the state that a stateful layer keeps: the next batch starts from zeros."""
        if CONTEXT.trace is not None:
            CONTEXT.trace.forgetful.add(id(self))
        self.hidden = self.cell = None

    def _forward(self, x: Any, initial: State | None, lengths: Any = None) -> tuple[Array, State]:
        name = type(self).__name__
        x = asarray(x)
        is_single = x.ndim == 2
        if x.ndim not in (2, 3):
            layout = "(batch, steps, features)" if self.batch_first else "(steps, batch, features)"
            raise ShapeError(f"{name}: x must be {layout} or (steps, features), not {x.shape}")
        if self.input_size is None:
            check_can_infer(self, "input_size")
            self._make(x.shape[-1])
        if x.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: x has shape {x.shape}, its last dimension must be input_size = {self.input_size}")
        if is_single:
            x = x[:, None]
        elif self.batch_first:
            x = x.swapaxes(0, 1)
        start = self._initial_states(initial, x.shape[1], is_single)
        inside = None if lengths is None else self._find_steps(lengths, x.shape[0], x.shape[1], is_single)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = dropout(x, self.dropout, self.training)
            parts = []
            for direction in self._directions:
                k = len(last)
                own_start = None if start is None else tuple([s[k] for s in start])
                y, state = self._layer(x, f"l{layer}{direction}", own_start, direction != "", inside)
                parts.append(y)
                last.append(state)
            x = parts[0] if len(parts) == 1 else concatenate(parts, axis=2)
        states = tuple([stack(s) for s in zip(*last, strict=True)])
        if self.stateful:
            self._keep_states(tuple([stop_gradient(s) for s in states]))
        if is_single:
            return x[:, 0], tuple([s[:, 0] for s in states])
        return x.swapaxes(0, 1) if self.batch_first else x, states

    def _find_steps(self, lengths: Any, steps: int, batch: int, is_single: bool) -> Array:
        """Return whether each step is one of its sequence: bools of shape (steps, batch, 1)."""
        name, counts = type(self).__name__, asarray(lengths)
        if not is_integer(counts.dtype):
            raise DTypeError(f"{name}: lengths must be integers, not {counts.dtype}")
        if counts.shape != (batch,) and not (is_single and counts.shape == ()):
            raise ShapeError(f"{name}: lengths has shape {counts.shape}, but must be ({batch},), one per sequence")
        if counts.node.value is not None and counts.size and not (0 <= int(counts.min()) and int(counts.max()) <= steps):
            raise ValueError(f"{name}: lengths must be from 0 to {steps}, the steps of x, not {counts.tolist()}")
        if counts.node.value is None:
            counts = check_range(counts, steps + 1, f"{name}: lengths")
        return (arange(steps)[:, None] < counts.reshape((1, batch)))[..., None]

    def _keep_states(self, states: State) -> None:
        """Store the states for the next batch.

        New arrays for them belong to the trace of the weights, not to the current one: if the current trace fails, zeros remain,
        and if it is a loop, they are part of its carry. Arrays of a trace that resets the state first belong to that trace.
        """
        if self.hidden is None and CONTEXT.transform_depth and not any(id(self) in trace.forgetful for trace in traces()):
            with inside_trace(owning_trace(vars(self)["weight_hh_l0"]._trace)):
                for name, state in zip(("hidden", "cell"), states, strict=False):
                    setattr(self, name, zeros(state.shape, dtype=state.dtype))
            for trace in traces():
                trace.one_call_only = True  # after reset_state() other arrays hold the state, which needs a new trace
        for name, state in zip(("hidden", "cell"), states, strict=False):
            setattr(self, name, state)

    def _initial_states(self, states: State | None, batch: int, is_single: bool) -> State | None:
        """Return the initial states of all layers and directions; None for zeros."""
        if states is None and self.stateful and self.hidden is not None:
            states, is_single = (self.hidden,) if self.cell is None else (self.hidden, self.cell), False
        if states is None:
            return None
        states = tuple([asarray(s)[:, None] if is_single else asarray(s) for s in states])
        for s, width in zip(states, self._widths, strict=True):
            expected = (self.num_layers * len(self._directions), batch, width)
            if tuple(s.shape) != expected:
                kind = "proj_size" if width == self.proj_size and s is states[0] else "hidden_size"
                raise ShapeError(
                    f"{type(self).__name__}: a state has shape {tuple(s.shape)}, but must be (layers * directions, batch, "
                    f"{kind}) = {expected}" + ("; reset_state() drops the stored state" if self.stateful else "")
                )
        return states

    def _layer(
        self, x: Array, name: str, start: State | None, reverse: bool, inside: Array | None = None,
    ) -> tuple[Array, State]:
        w_ih, w_hh, b_ih, b_hh = (self._gates(f"{part}_{name}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        early_gates = self.gates - self.late_gates
        if self.has_bias:
            b_ih = tuple([a + b if k < early_gates else a for k, (a, b) in enumerate(zip(b_ih, b_hh, strict=True))])
        if (chosen := current_precision()) is not None:
            w_hh = tuple([chosen.round_weight(w) for w in w_hh])
        gates = tuple([linear(x, w, b) for w, b in zip(w_ih, b_ih, strict=True)])
        step = self._step(name)
        if start is None:
            start = tuple([zeros((x.shape[1], width), dtype=gates[0].dtype) for width in self._widths])
        start = tuple([s if s.dtype == gates[0].dtype else s.astype(gates[0].dtype) for s in start])

        def one(state: State, g: Gates) -> tuple[State, Array]:
            state = step(state, g, w_hh, b_hh)
            return state, state[0]

        def one_if_inside(state: State, at: tuple[Gates, Array]) -> tuple[State, Array]:
            moved, is_inside = step(state, at[0], w_hh, b_hh), at[1]
            return tuple([where(is_inside, a, b) for a, b in zip(moved, state, strict=True)]), where(is_inside, moved[0], 0)

        if inside is None:
            state, y = scan(one, start, gates, reverse=reverse)
        else:
            state, y = scan(one_if_inside, start, (gates, inside), reverse=reverse)
        return y, state

    def _gates(self, name: str) -> Gates:
        """Return each gate's part of a parameter."""
        parameter, n = self.__dict__[name], self.hidden_size
        return (None,) * self.gates if parameter is None else tuple([parameter[k * n : k * n + n] for k in range(self.gates)])


class RNN(_Recurrent):
    """Compute ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` for each step; each layer and direction is one native loop.

    Called with x, and optionally a state and ``lengths`` (batch,), the number of steps of each sequence. Outputs after them are
    0, the final state is that of the last step, and the second direction begins there, as with PyTorch's packed sequences.

    Parameters
    ----------
    input_size : int, or None (the default) to infer it from the first batch
    hidden_size : int
    num_layers : int, each reads the outputs of the previous one
    nonlinearity : "tanh" or "relu"
    bias : bool
    batch_first : whether x is (batch, steps, features) instead of (steps, batch, features)
    dropout : probability, between layers, while training
    bidirectional : add a second direction from the last step to the first; the outputs are concatenated
    stateful : start each batch from the final state of the previous one, without a gradient through it

    Raises
    ------
    ShapeError, ValueError, DTypeError
        A size is not positive; x, the state or ``lengths`` do not fit; ``dropout`` or ``nonlinearity`` is out of range.
    IndexError
        A pending length, or one inside a jitted function, is not from 0 to the steps of x: raised when outputs are computed.
    TraceError
        The first batch is inside jit or grad, and ``input_size`` was left out.

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

    def _step(self, name: str) -> GateStep:
        return _rnn_step(self.nonlinearity)


class LSTM(_Recurrent):
    """Long short-term memory; gates in the order input, forget, cell, output. Hochreiter and Schmidhuber, 1997.

    Parameters
    ----------
    proj_size : int
        0, or the width, below ``hidden_size``, to which a matrix ``weight_hr`` reduces the hidden state. Sak et al., 2014.

    Raises
    ------
    ShapeError, ValueError, DTypeError
        A size is not positive; x, the state or ``lengths`` do not fit; ``dropout`` or ``proj_size`` is out of range.
    TypeError
        Called: the state is not a pair.
    IndexError
        A pending length, or one inside a jitted function, is not from 0 to the steps of x: raised when outputs are computed.
    TraceError
        The first batch is inside jit or grad, and ``input_size`` was left out.

    >>> y, (h, c) = wf.nn.LSTM(3, 5, batch_first=True, bidirectional=True)(wf.ones((2, 7, 3)))
    >>> y.shape, h.shape, c.shape
    ((2, 7, 10), (2, 2, 5), (2, 2, 5))
    """

    gates = 4
    states = 2

    def __init__(
        self, input_size: int | None = None, hidden_size: int | None = None, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, stateful: bool = False, proj_size: int = 0,
    ) -> None:
        if (width := int_or_none(proj_size)) is None or width < 0 or (width and width >= (int_or_none(hidden_size) or 0)):
            raise ShapeError(f"LSTM: proj_size must be an int from 0 to hidden_size - 1, not {short(proj_size)}")
        self.proj_size = width
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, stateful)

    def _step(self, name: str) -> GateStep:
        if not self.proj_size:
            return _lstm_step
        weight, chosen = self.__dict__[f"weight_hr_{name}"], current_precision()
        return _project_hidden(_lstm_step, weight if chosen is None else chosen.round_weight(weight))

    def forward(
        self, x: Any, state: tuple[Array, Array] | None = None, lengths: Any = None,
    ) -> tuple[Array, tuple[Array, Array]]:
        """Return (output of every step, (final hidden state, final cell state) of every layer and direction).

        Parameters
        ----------
        x : (steps, batch, input_size), (batch, steps, input_size) with ``batch_first``, or (steps, input_size)
        state : pair of (layers * directions, batch, width of the hidden state) and (layers * directions, batch, hidden_size),
            optional; zeros by default
        lengths : (batch,) integers, optional; as in :class:`RNN`
        """
        if state is not None and not (isinstance(state, tuple | list) and len(state) == 2):
            raise TypeError(f"LSTM: state must be a pair (hidden, cell), not {type(state).__name__}")
        y, (h, c) = self._forward(x, None if state is None else tuple(state), lengths)
        return y, (h, c)


class GRU(_Recurrent):
    """Gated recurrent unit, PyTorch's form: ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``; gates r, z, n. Cho et al., 2014.

    >>> y, h = wf.nn.GRU(None, 5, num_layers=2)(wf.ones((7, 2, 3)))
    >>> y.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    gates = 3
    late_gates = 1

    def _step(self, name: str) -> GateStep:
        return _gru_step


complete_docs(RNN, LSTM, GRU)
