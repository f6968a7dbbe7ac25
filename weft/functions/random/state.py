"""Where random numbers come from: the hidden state, keys, and the words, uniforms and normals made of them."""

from __future__ import annotations

import math
import operator
import secrets
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from weft.array import Array, own, wrap
from weft.array.convert import numpy_node
from weft.dtypes.formats import FLOAT64, UINT64, Format
from weft.eager.peek import at_hand, leaf
from weft.errors import DTypeError, as_called
from weft.functions.random.stream import Stream
from weft.functions.support.arguments import Node, Shape, cast, node, number, op, shape_tuple
from weft.runtime.cell import WRITING, seen_from
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import GIVEN, computed

_MASK = 2**64 - 1
_SPLIT = 1 << 63  # where the words that keys are split into begin: no draw comes so far


def stream_of(seed: int, function: str) -> Stream:
    """The sequence that begins with a seed."""
    return Stream(_outside(_mixed(seed, function)), _outside(0))


def _outside(value: int) -> Array:
    """A Cell that no trace takes for its own, whenever this module is loaded."""
    with seen_from(None):
        return own(numpy_node(np.asarray(value, np.uint64)))


def _mixed(seed: Any, function: str) -> int:
    """64 bits that differ much for seeds that differ little (splitmix64); a run-time number of one that is such."""
    return computed(_mixed_now, seed, function) if type(seed) in GIVEN else _mixed_now(seed, function)


def _mixed_now(seed: Any, function: str) -> int:
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


def plain_seed(seed: Any, function: str) -> Any:
    """The integer of what NumPy takes for a seed: None (another one each time), several integers, a SeedSequence."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, Array) and seed.ndim:
        seed = seed.numpy()
    if isinstance(seed, list | tuple | range | np.ndarray):
        try:
            seed = np.random.SeedSequence(seed)
        except TypeError:
            raise DTypeError(f"{function}: the seed must be an integer, not {seed!r}") from None
    return int(seed.generate_state(1, np.uint64)[0]) if isinstance(seed, np.random.SeedSequence) else seed


def seed(seed: Any = None) -> None:
    """Begin the hidden sequence anew; equal seeds give equal numbers.

    That is so on every machine and with any number of threads. Between devices ("cpu", "gpu") bits, integers and uniform numbers
    are equal, too; what is made by logarithms, as normal and exponential numbers are, may differ in the last digits.

    Parameters
    ----------
    seed : int or sequence of int, optional
        Not negative; None: another one each time.

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
    mixed = _mixed(plain_seed(seed, "seed"), "seed")
    _STATE.key[...] = wrap(_key_of(mixed))
    _STATE.base[...] = wrap(numpy_node(np.asarray(0, np.uint64)))


def _key_of(mixed: Any) -> Node:
    return mixed.node(UINT64) if type(mixed) in GIVEN else numpy_node(np.asarray(mixed, np.uint64))


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
    return wrap(_key_of(_mixed(seed, "key")))


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

    def __init__(self, key: Node, base: Node, state: Stream | None) -> None:
        self.key, self.base, self.state = key, base, state

    def take(self, shape: Shape) -> Node:
        return op("random_bits", *self.places(math.prod(shape)), shape=shape)

    def places(self, count: int) -> tuple[Node, Node]:
        """Key and base of so many words, which are taken: for operations that make them where they need them."""
        blocks = (count + 3) // 4
        if self.state is None or LOCAL.trace is not None:
            return self._taken(blocks)
        with WRITING:  # no other thread gets the same words
            bits = self.key, self.state.base.node
            if blocks:
                self.state.move(blocks)
        return bits

    def _taken(self, blocks: int) -> tuple[Node, Node]:
        bits = self.key, self.base
        if blocks:
            self.base = op("add", self.base, number(blocks, UINT64))
            if self.state is not None:
                self.state.base._set(self.base)
        return bits


def words_of(key: Any, function: str) -> Words:
    stream = _STATE if key is None else key
    if isinstance(stream, Stream):
        return Words(stream.key.node, stream.base.node, stream)
    return Words(_key_node(key, function), number(0, UINT64), None)


Formula = Callable[[Any, Shape, Format], Node]  # what gives words, shape and dtype of the numbers


def drawn(formula: Formula, key: Any, function: str, shape: Shape, dtype: Format, kind: Hashable = ()) -> Array:
    """Numbers of a formula, from a key, a generator's sequence or the hidden one.

    kind : by what a formula with parameters is known; None: by nothing
    """
    stream = _STATE if key is None else key
    if kind is not None and isinstance(stream, Stream):
        few = stream.next((kind or formula, dtype), lambda words, shape: formula(words, shape, dtype), shape)
        if few is not None:
            return few
    return wrap(formula(words_of(key, function), shape, dtype))


def drawn_word(key: Any, function: str) -> int | None:
    """64 bits from a sequence; None where they are not known now."""
    stream = _STATE if key is None else key
    return stream.next_word(wide) if isinstance(stream, Stream) else None


@lru_cache(maxsize=4096)
def integer(value: int, dtype: Format) -> Node:
    """An integer that was drawn. Nodes are never written to, so equal ones may be one."""
    return leaf(np.asarray(value, dtype.numpy), dtype)


def wide(words: Words, shape: Shape) -> Node:
    """64 bits an element, from two words."""
    high, low = words.take(shape), words.take(shape)
    known = at_hand(high, low)
    if known is not None:
        return leaf(np.asarray(known[0].astype(np.uint64) << np.uint64(32) | known[1]), UINT64)
    return op("bitwise_or", op("bitwise_left_shift", cast(high, UINT64), number(32, UINT64)), cast(low, UINT64))


def integers_of(bits: Node, width: int, first: int, dtype: Format) -> Node:
    """``first`` and numbers below ``width``: the upper half of ``bits * width``."""
    known = at_hand(bits)
    if known is None:
        offset = bits if width == 2**64 else high_product(wrap(bits), wrap(number(width, UINT64)), width < 2**32).node
        return cast(op("add", offset, number(first & _MASK, UINT64)) if first else offset, dtype)
    x = known[0] if width == 2**64 else high_product(known[0], np.uint64(width), width < 2**32)
    with np.errstate(over="ignore"):
        return leaf(np.asarray(x + np.uint64(first & _MASK)).astype(dtype.numpy), dtype)


def high_product(bits: Any, width: Any, narrow: bool) -> Any:
    """The upper 64 of the 128 bits of ``bits * width``, of Arrays or NumPy's; ``narrow`` promises a width of at most 32 bits."""
    mask = 0xFFFFFFFF
    low = width & mask
    middle = (bits >> 32) * low + ((bits & mask) * low >> 32)
    if narrow:
        return middle >> 32
    cross = (bits & mask) * (width >> 32) + (middle & mask)
    return (bits >> 32) * (width >> 32) + (middle >> 32) + (cross >> 32)


def unit_interval(words: Words, shape: Shape, dtype: Format) -> Node:
    """Uniform in [0, 1): as many of the top bits as the dtype holds exactly."""
    bits = wide(words, shape) if dtype == FLOAT64 else words.take(shape)
    keep, all_ = dtype.mantissa + 1, 8 * bits.dtype.bytes
    known = None if dtype.narrow else at_hand(bits)
    if known is not None:
        unit = (known[0] >> (all_ - keep)).astype(dtype.numpy) * dtype.numpy.type(2.0**-keep)
        return leaf(np.asarray(unit), dtype)
    bits = op("bitwise_right_shift", bits, number(all_ - keep, bits.dtype))
    return cast(op("multiply", cast(bits, dtype.computed), number(2.0**-keep, dtype.computed)), dtype)


def decay(words: Words, shape: Shape, dtype: Format) -> Node:
    """Exponentially distributed, of mean 1."""
    return op("negative", op("log1p", op("negative", unit_interval(words, shape, dtype))))


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
