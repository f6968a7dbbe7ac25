"""Where random numbers come from: the hidden state, keys, and the words, uniforms and normals made of them."""

from __future__ import annotations

import math
import operator
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array, own, wrap
from weft.cell import LOCAL, WRITING
from weft.convert import numpy_node
from weft.errors import DTypeError, as_called
from weft.formats import FLOAT64, UINT32, UINT64, Format
from weft.functions.common import Node, Shape, cast, node, number, op, shape_tuple

_MASK = 2**64 - 1
_SPLIT = 1 << 63  # where the words that keys are split into begin: no draw comes so far


@dataclass(frozen=True)
class Stream:
    """A sequence of words that goes on: a draw moves ``base``."""

    key: Array
    base: Array


def stream_of(seed: int, function: str) -> Stream:
    """The sequence that begins with a seed."""
    return Stream(_outside(_mixed(seed, function)), _outside(0))


def _outside(value: int) -> Array:
    """A Cell that no trace takes for its own, whenever this module is loaded."""
    trace, LOCAL.trace = LOCAL.trace, None
    try:
        return own(numpy_node(np.asarray(value, np.uint64)))
    finally:
        LOCAL.trace = trace


def _mixed(seed: Any, function: str) -> int:
    """64 bits that differ much for seeds that differ little (splitmix64)."""
    try:
        number = operator.index(seed)
    except TypeError:
        raise DTypeError(f"{function}: the seed must be an integer, not {seed!r}") from None
    if number < 0:
        raise ValueError(as_called(f"{function}: the seed {number} must not be negative"))
    x = ((number & _MASK) + 0x9E3779B97F4A7C15 + (number >> 64)) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


_STATE = Stream(_outside(secrets.randbits(64)), _outside(0))


def seed(seed: int) -> None:
    """Begin the hidden sequence anew; equal seeds give equal numbers.

    That is so on every machine and with any number of threads. Between devices ("cpu", "gpu") bits, integers and uniform numbers
    are equal, too; what is made by logarithms, as normal and exponential numbers are, may differ in the last digits.

    Parameters
    ----------
    seed : int
        Not negative.

    Raises
    ------
    DTypeError, ValueError
        No integer; a negative one.

    Examples
    --------
    >>> import weft as wf
    >>> wf.random.seed(0)
    >>> a = wf.random.uniform(size=3).tolist()
    >>> wf.random.seed(0)
    >>> a == wf.random.uniform(size=3).tolist()
    True
    """
    mixed = _mixed(seed, "seed")
    _STATE.key[...] = wrap(numpy_node(np.asarray(mixed, np.uint64)))
    _STATE.base[...] = wrap(numpy_node(np.asarray(0, np.uint64)))


def get_state() -> tuple[int, int]:
    """What the hidden sequence stands at, for :func:`set_state`.

    Returns
    -------
    (key, position) : two ints

    Examples
    --------
    >>> import weft as wf
    >>> state = wf.random.get_state()
    >>> a = wf.random.uniform(size=3).tolist()
    >>> wf.random.set_state(state)
    >>> a == wf.random.uniform(size=3).tolist()
    True
    """
    return int(_STATE.key.numpy()), int(_STATE.base.numpy())


def set_state(state: tuple[int, int], /) -> None:
    """Go on from what :func:`get_state` gave.

    Parameters
    ----------
    state : (int, int)

    Raises
    ------
    ValueError
        No pair of ints of 64 bits.

    Examples
    --------
    >>> import weft as wf
    >>> wf.random.seed(3)
    >>> state = wf.random.get_state()
    >>> wf.random.seed(4)
    >>> wf.random.set_state(state)
    >>> wf.random.get_state() == state
    True
    """
    try:
        held, position = (operator.index(n) for n in state)
    except (TypeError, ValueError):
        raise ValueError(f"set_state: the state must be what get_state gave, a pair of ints, not {state!r}") from None
    if not (0 <= held <= _MASK and 0 <= position <= _MASK):
        raise ValueError(f"set_state: {state!r} does not fit 64 bits")
    _STATE.key[...] = wrap(numpy_node(np.asarray(held, np.uint64)))
    _STATE.base[...] = wrap(numpy_node(np.asarray(position, np.uint64)))


def key(seed: int, /) -> Array:
    """A key made of a seed, for ``key=`` of the draws.

    Parameters
    ----------
    seed : int
        Not negative.

    Returns
    -------
    () Array of uint64

    Raises
    ------
    DTypeError, ValueError
        No integer; a negative one.

    Examples
    --------
    >>> import weft as wf
    >>> wf.random.key(1).dtype
    dtype('uint64')
    """
    return wrap(numpy_node(np.asarray(_mixed(seed, "key"), np.uint64)))


def split(key: Any, num: int = 2, /) -> Array:
    """New keys from one. Do not use the old one for draws that must differ from these.

    Parameters
    ----------
    key : Array
        Made by :func:`key` or :func:`split`.
    num : int

    Returns
    -------
    (num,) Array of uint64

    Raises
    ------
    DTypeError, ShapeError
        No key; a negative number.

    Examples
    --------
    >>> import weft as wf
    >>> one, two = wf.random.split(wf.random.key(1))
    >>> bool(one == two)
    False
    """
    (count,) = shape_tuple(num, "split", "num")
    return wrap(wide(Words(_key_node(key, "split"), number(_SPLIT, UINT64), None), (count,)))


def _key_node(key: Any, function: str) -> Node:
    found = node(key, function, "key")
    if found.dtype != UINT64 or found.shape:
        raise DTypeError(
            f"{function}: key has dtype {found.dtype} and shape {found.shape}; a key made by wf.random.key(seed) or one of "
            "wf.random.split is needed (uint64, no dimensions); use wf.vmap for several"
        )
    return found


class Words:
    """The words of one draw: each call takes the next blocks."""

    def __init__(self, key: Node, base: Node, state: Array | None) -> None:
        self.key, self.base, self.state = key, base, state

    def take(self, shape: Shape) -> Node:
        return op("random_bits", *self.places(math.prod(shape)), shape=shape)

    def places(self, count: int) -> tuple[Node, Node]:
        """Key and base of so many words, which are taken: for operations that make them where they need them."""
        if self.state is None or LOCAL.trace is not None:
            return self._taken(count)
        with WRITING:  # no other thread gets the same words
            self.base = self.state.node
            return self._taken(count)

    def _taken(self, count: int) -> tuple[Node, Node]:
        bits = self.key, self.base
        blocks = (count + 3) // 4
        if not blocks:
            return bits
        if self.state is not None and LOCAL.trace is None:  # a number at once: a chain of additions would grow without end
            self.base = numpy_node(np.asarray((int(self.state.numpy()) + blocks) & _MASK, np.uint64))
        else:
            self.base = op("add", self.base, number(blocks, UINT64))
        if self.state is not None:
            self.state._set(self.base)
        return bits


def words_of(key: Any, function: str) -> Words:
    if isinstance(key, Stream):
        return Words(key.key.node, key.base.node, key.base)
    if key is None:
        return Words(_STATE.key.node, _STATE.base.node, _STATE.base)
    return Words(_key_node(key, function), number(0, UINT64), None)


def wide(words: Words, shape: Shape) -> Node:
    """64 bits an element, from two words."""
    high, low = (cast(words.take(shape), UINT64) for _ in range(2))
    return op("bitwise_or", op("bitwise_left_shift", high, number(32, UINT64)), low)


def high_product(bits: Node, width: Node, narrow: bool) -> Node:
    """The upper 64 of the 128 bits of ``bits * width``; ``narrow`` promises a width of at most 32 bits."""
    half, mask = number(32, UINT64), number(0xFFFFFFFF, UINT64)

    def upper(x: Node) -> Node:
        return op("bitwise_right_shift", x, half)

    def lower(x: Node) -> Node:
        return op("bitwise_and", x, mask)

    low = lower(width)
    middle = op("add", op("multiply", upper(bits), low), upper(op("multiply", lower(bits), low)))
    if narrow:
        return upper(middle)
    cross = op("add", op("multiply", lower(bits), upper(width)), lower(middle))
    return op("add", op("add", op("multiply", upper(bits), upper(width)), upper(middle)), upper(cross))


def unit_interval(words: Words, shape: Shape, dtype: Format) -> Node:
    """Uniform in [0, 1): as many of the top bits as the dtype holds exactly."""
    if dtype == FLOAT64:
        bits = op("bitwise_right_shift", wide(words, shape), number(11, UINT64))
        return op("multiply", cast(bits, FLOAT64), number(2.0**-53, FLOAT64))
    keep = dtype.mantissa + 1
    bits = op("bitwise_right_shift", words.take(shape), number(32 - keep, UINT32))
    return cast(op("multiply", cast(bits, dtype.computed), number(2.0**-keep, dtype.computed)), dtype)


def gauss(words: Words, shape: Shape, dtype: Format) -> Node:
    """Box and Muller: radius from one word (two for float64), angle from another."""
    within = dtype.computed
    if within == FLOAT64:
        first = op("subtract", number(1.0, within), unit_interval(words, shape, within))
    else:  # all 32 bits, so that tails reach 6.7 standard deviations
        first = op("multiply", op("add", cast(words.take(shape), within), number(0.5, within)), number(2.0**-32, within))
    angle = op("multiply", unit_interval(words, shape, within), number(2 * math.pi, within))
    radius = op("sqrt", op("multiply", op("log", first), number(-2.0, within)))
    return cast(op("multiply", radius, op("cos", angle)), dtype)
