"""One step of a recurrent layer, for loops of one's own: the layers of recurrent.py are faster for whole sequences."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray, zeros
from weft.functions.elementwise.ufuncs import maximum, tanh
from weft.nn.activations import sigmoid
from weft.nn.linear import linear
from weft.nn.module import Module, uniform_parameter
from weft.nn.size_arguments import check_can_infer, extents
from weft.process.docstrings import complete_docs


class _Cell(Module):
    gates = 1
    states = 1

    def __init__(self, input_size: int | None = None, hidden_size: int | None = None, bias: bool = True) -> None:
        super().__init__()
        (self.hidden_size,) = extents(type(self).__name__, hidden_size=hidden_size)
        self.input_size: int | None = None
        self.has_bias = bool(bias)
        if input_size is not None:
            self._make(input_size)

    def _make(self, width: int) -> None:
        (self.input_size,) = extents(type(self).__name__, input_size=width)
        wide, limit = self.gates * self.hidden_size, self.hidden_size**-0.5
        self.weight_ih = uniform_parameter((wide, width), limit)
        self.weight_hh = uniform_parameter((wide, self.hidden_size), limit)
        self.bias_ih = uniform_parameter((wide,), limit) if self.has_bias else None
        self.bias_hh = uniform_parameter((wide,), limit) if self.has_bias else None

    def _read(self, x: Any, states: tuple[Any, ...] | None) -> tuple[Array, tuple[Array, ...]]:
        """Return the input and the states; zeros for None."""
        name, x = type(self).__name__, asarray(x)
        if x.ndim not in (1, 2):
            raise ShapeError(f"{name}: x must be (batch, input_size) or (input_size,), not {x.shape}")
        if self.input_size is None:
            check_can_infer(self, "input_size")
            self._make(x.shape[-1])
        if x.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: x has shape {x.shape}, its last dimension must be input_size = {self.input_size}")
        expected = (*x.shape[:-1], self.hidden_size)
        if states is None:
            return x, (zeros(expected, dtype=x.dtype),) * self.states
        found = tuple(asarray(s) for s in states)
        for s in found:
            if s.shape != expected:
                needed = f"(batch, hidden_size) = {expected}"
                raise ShapeError(f"{name}: a state has shape {s.shape}, but must be {needed} for x {x.shape}")
        return x, found

    def _products(self, x: Array, h: Array) -> tuple[list[Array], list[Array]]:
        """Return the products with the input and with the hidden state, a part for each gate."""
        n = self.hidden_size
        both = linear(x, self.weight_ih, self.bias_ih), linear(h, self.weight_hh, self.bias_hh)
        from_x, from_h = ([y[..., k * n : (k + 1) * n] for k in range(self.gates)] for y in both)
        return from_x, from_h


class RNNCell(_Cell):
    """Compute ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, one step of :class:`weft.nn.RNN`.

    Names and layouts of the parameters are PyTorch's.

    Parameters
    ----------
    input_size : int, or None (the default) to infer it from the first batch
    hidden_size : int
    bias : bool
    nonlinearity : "tanh" or "relu"

    Raises
    ------
    ShapeError, ValueError
        A size is not positive; x or the state does not fit; ``nonlinearity`` is unknown.
    TraceError
        The first batch is inside jit or grad, and ``input_size`` was left out.

    >>> cell = wf.nn.RNNCell(3, 5)
    >>> h = cell(wf.ones((2, 3)))
    >>> cell(wf.ones((2, 3)), h).shape
    (2, 5)
    """

    def __init__(
        self, input_size: int | None = None, hidden_size: int | None = None, bias: bool = True, nonlinearity: str = "tanh",
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def forward(self, x: Any, h: Any = None) -> Array:
        """Return the next state (batch, hidden_size); ``h`` is zeros by default."""
        x, (h,) = self._read(x, None if h is None else (h,))
        (from_x,), (from_h,) = self._products(x, h)
        total = from_x + from_h
        return tanh(total) if self.nonlinearity == "tanh" else maximum(total, 0)


class LSTMCell(_Cell):
    """One step of :class:`weft.nn.LSTM`; gates in the order input, forget, cell, output. Hochreiter and Schmidhuber, 1997.

    Raises
    ------
    ShapeError
        A size is not positive; x or the state does not fit.
    TypeError
        Called: the state is not a pair.
    TraceError
        The first batch is inside jit or grad, and ``input_size`` was left out.

    >>> cell = wf.nn.LSTMCell(3, 5)
    >>> h, c = cell(wf.ones((2, 3)))
    >>> h, c = cell(wf.ones((2, 3)), (h, c))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates = 4
    states = 2

    def forward(self, x: Any, state: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        """Return the next (hidden state, cell state), of shape (batch, hidden_size) each; ``state`` is zeros by default."""
        if state is not None and not (isinstance(state, tuple | list) and len(state) == 2):
            raise TypeError(f"LSTMCell: state must be a pair (hidden, cell), not {type(state).__name__}")
        x, (h, c) = self._read(x, None if state is None else tuple(state))
        i, f, g, o = (a + b for a, b in zip(*self._products(x, h), strict=True))
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c


class GRUCell(_Cell):
    """One step of :class:`weft.nn.GRU`, PyTorch's form; gates r, z, n. Cho et al., 2014.

    >>> cell = wf.nn.GRUCell(3, 5)
    >>> h = cell(wf.ones((2, 3)))
    >>> cell(wf.ones((2, 3)), h).shape
    (2, 5)
    """

    gates = 3

    def forward(self, x: Any, h: Any = None) -> Array:
        """Return the next state (batch, hidden_size); ``h`` is zeros by default."""
        x, (h,) = self._read(x, None if h is None else (h,))
        (xr, xz, xn), (hr, hz, hn) = self._products(x, h)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = tanh(xn + r * hn)
        return (1 - z) * n + z * h


complete_docs(RNNCell, LSTMCell, GRUCell)
