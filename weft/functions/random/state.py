"""Seeds, keys, and streams of random words; numbers made of them, and stochastic rounding.

Element i of a draw is word ``i & 3`` of Philox4x32-10(key, base + (i >> 2)). Without ``key=`` the pair (key, base) comes from the
hidden state, and a draw advances ``base``; a jitted function therefore draws new numbers at every call, the same as without jit.
With ``key=`` the numbers depend on the key alone.

A draw takes blocks of four words, as many as its numbers need, once or several times. The numbers of all draws of one kind and
length, at any position, are therefore one formula over the words of the next blocks: a few operations compute hundreds of draws,
with the bits that each would have alone, and a draw then reads a slice.
"""

from __future__ import annotations

import copy
import math
import operator
import secrets
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from weft.array import Array, wrap, wrap_array
from weft.array.convert import numpy_node
from weft.dtypes.formats import DEFAULT, FLOAT64, UINT64, Format
from weft.eager import policy
from weft.eager.native import NATIVE_ELEMENTS
from weft.eager.peek import leaf, peek
from weft.errors import DTypeError, name_called_function
from weft.functions.support.arguments import Node, Shape, cast, node, number, op, shape_tuple
from weft.graph.primitives.random import count_blocks
from weft.process.docstrings import complete_module
from weft.runtime.cell import WRITE_LOCK, inside_trace
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TRACED_TYPES, compute_traced

PREPARED_BLOCKS = 1024  # positions (blocks) prepared at a time
MAX_PREPARED_ELEMENTS = 128  # largest number of elements of a prepared draw
MAX_DRAW_BLOCKS = 2 * MAX_PREPARED_ELEMENTS  # of a prepared draw: its formula takes words, four a block, at most eight times

_POSITIONS: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()  # of all sequences, by id
_PositionFormula = Callable[[Any, Shape], Node]  # (source of words, shape) -> numbers


class Stream:
    """Key and base of a sequence; a draw advances ``base``.

    Prepared draws are valid while both arrays still have the nodes that the draws were computed from.
    """

    __slots__ = ("_base", "_key", "_position", "_prepared_draws", "_seen_kinds", "_words", "base", "key")

    def __init__(self, key: Array, base: Array) -> None:
        self.key, self.base = key, base
        _POSITIONS[id(base)] = base
        self._key: Node | None = None
        self._base: Node | None = None
        self._position = PREPARED_BLOCKS
        self._words: Node | None = None
        self._prepared_draws: dict[Hashable, tuple[Any, int]] = {}  # four numbers per position, blocks per draw
        self._seen_kinds: set[Hashable] = set()  # kinds drawn since the sequence was last moved from outside

    def move(self, blocks: int) -> None:
        """Advance by ``blocks``. To be called outside of traces, with ``WRITE_LOCK`` held."""
        in_step = self.base._node is self._base
        if policy.is_enabled():
            self.base += _step(blocks)
        else:  # a computed number: pending additions would form an endless chain
            self.base._set(numpy_node(np.asarray((int(self.base.numpy()) + blocks) % 2**64, np.uint64)))
        if in_step:
            self._base = self.base._node
            self._position += blocks

    def next_draw(self, kind: Hashable, formula: _PositionFormula, shape: Shape) -> Array | None:
        """Return the next small draw, or None if it has to be computed alone.

        None is returned inside traces, gradients and the like, and for the first draw of a kind after the sequence was moved or
        restarted from outside, since that may happen before every draw.
        """
        count = math.prod(shape)
        if not 0 < count <= MAX_PREPARED_ELEMENTS:
            return None
        blocks = (count + 3) // 4
        if shape and (prepared := self._take_seen((kind, blocks))) is not None:
            (numbers, memory), place = prepared
            return _copy_draw(numbers, memory, place, count, shape)
        prepared = self._take_prepared((kind, blocks), blocks, lambda words: _as_arrays(formula(words, (4 * PREPARED_BLOCKS,))))
        if prepared is None:
            return None
        (numbers, memory), place = prepared
        return _copy_draw(numbers, memory, place, count, shape) if shape else numbers[4 * place]

    def next_word(self, formula: _PositionFormula) -> int | None:
        """Return the next draw of one integer as a Python int; None as in :meth:`next_draw`."""
        prepared = self._take_prepared(formula, 1, lambda words: _as_ints(formula(words, (4 * PREPARED_BLOCKS,))))
        return None if prepared is None else prepared[0][prepared[1]]

    def next_plain_draw(self, formula: Formula, shape: Any) -> Array | None:
        """Return the next small draw of a formula without parameters in the default dtype, if it is already prepared; else None.

        ``shape`` is what the user wrote: anything but a tuple of ints gives None.
        """
        count = 1
        for extent in shape:
            if type(extent) is not int or extent < 1:
                return None
            count *= extent
        if not shape or (prepared := self._take_seen(((formula, DEFAULT.real), (count + 3) // 4))) is None:
            return None
        (numbers, memory), place = prepared
        return _copy_draw(numbers, memory, place, count, shape)

    def _take_seen(self, kind: Hashable) -> tuple[Any, int] | None:
        """Return the prepared draws of a kind and the position of the next one, and advance the sequence past it; None if a call
        of :meth:`_take_prepared` has to prepare them."""
        prepared = self._prepared_draws.get(kind)
        if prepared is None or not CONTEXT.eager_limit:
            return None
        with WRITE_LOCK:  # no other thread may take the same words
            place = self._position
            if self.base._node is not self._base or self.key._node is not self._key or place + prepared[1] > PREPARED_BLOCKS:
                return None
            if self._prepared_draws.get(kind) is not prepared:  # another thread has prepared new ones
                return None
            self.move(prepared[1])
            return prepared[0], place

    def _take_prepared(self, kind: Hashable, blocks: int, make: Callable[[_PreparedWords], Any]) -> tuple[Any, int] | None:
        """Return the prepared draws of a kind and the position of the next one, and advance the sequence past it."""
        if not policy.is_enabled():
            return None
        with WRITE_LOCK:  # no other thread may take the same words
            if self.base._node is not self._base or self.key._node is not self._key:
                self._base, self._key, self._position = self.base._node, self.key._node, PREPARED_BLOCKS
                self._seen_kinds.clear()
            prepared = self._prepared_draws.get(kind)
            if prepared is None or self._position + prepared[1] > PREPARED_BLOCKS:
                if kind not in self._seen_kinds:
                    self._seen_kinds.add(kind)
                    return None
                if (prepared := self._fill(kind, blocks, make)) is None:
                    return None
            place = self._position
            self.move(prepared[1])
            return prepared[0], place

    def _fill(self, kind: Hashable, blocks: int, make: Callable[[_PreparedWords], Any]) -> tuple[Any, int] | None:
        """Compute the draws of a kind for all positions, on new words if the present ones are nearly used up."""
        if self._words is None or self._position + MAX_DRAW_BLOCKS > PREPARED_BLOCKS:
            self._prepared_draws.clear()
            self._words = op("random_bits", self.key._node, self.base._node, shape=(4 * (PREPARED_BLOCKS + MAX_DRAW_BLOCKS),))
            self._position = 0
        words = _PreparedWords(self._words, blocks)
        if (numbers := make(words)) is None:
            return None
        prepared = self._prepared_draws[kind] = numbers, blocks * words.taken_blocks
        return prepared


class _PreparedWords:
    """The words of the draws at all positions: each ``take`` reads the next ``blocks`` blocks of every draw."""

    def __init__(self, words: Node, blocks: int) -> None:
        self.words, self.blocks, self.taken_blocks = words, blocks, 0

    def take(self, shape: Shape) -> Node:
        start, self.taken_blocks = 4 * self.blocks * self.taken_blocks, self.taken_blocks + 1
        return op("slice", self.words, start=(start,), step=(1,), shape=shape)


def _copy_draw(numbers: Array, memory: np.ndarray, place: int, count: int, shape: Shape) -> Array:
    """Return the draw at a position of prepared numbers, ``memory`` being their content."""
    content, native = memory[4 * place : 4 * place + count].reshape(shape), NATIVE_ELEMENTS.take
    dtype = numbers._node.dtype
    result = native(content, dtype)
    return wrap(leaf(content, dtype)) if result is None else result


def _as_arrays(node: Node) -> tuple[Array, np.ndarray] | None:
    if node.value is None:
        return None
    array = wrap(node)
    return array, array.numpy()


def _as_ints(node: Node) -> list[int] | None:
    return None if node.value is None else wrap(node).numpy()[::4].tolist()


@lru_cache(maxsize=256)
def _step(blocks: int) -> Array:
    return wrap(numpy_node(np.asarray(blocks, np.uint64)))


_MASK = 2**64 - 1
_SPLIT = 1 << 63  # first word used for split keys; draws never get that far


def is_position(array: Array) -> bool:
    """Return whether an array is the position of a sequence of random numbers, which each draw advances."""
    return _POSITIONS.get(id(array)) is array


def make_stream(seed: int, function: str) -> Stream:
    """Return the sequence of a seed."""
    return Stream(_make_untraced(_hash_seed(seed, function)), _make_untraced(0))


def _make_untraced(value: int) -> Array:
    """Return an array that belongs to no trace, even if this module is imported inside one."""
    with inside_trace(None):
        return wrap_array(numpy_node(np.asarray(value, np.uint64)))


def _hash_seed(seed: Any, function: str) -> int:
    """Hash a seed to 64 bits (splitmix64): similar seeds give unrelated keys. A traced seed gives a traced key."""
    return compute_traced(_hash_int, seed, function) if type(seed) in TRACED_TYPES else _hash_int(seed, function)


def _hash_int(seed: Any, function: str) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        raise DTypeError(f"{function}: the seed must be an integer, not {seed!r}") from None
    if number < 0:
        raise ValueError(name_called_function(f"{function}: the seed {number} must not be negative"))
    x = ((number & _MASK) + 0x9E3779B97F4A7C15 + (number >> 64)) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


_HIDDEN_STREAM = Stream(_make_untraced(secrets.randbits(64)), _make_untraced(0))


def parse_seed(seed: Any, function: str) -> Any:
    """Return the integer of a seed in any form that NumPy takes: None (a new one each time), several integers, a SeedSequence."""
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
    """Restart the hidden sequence; equal seeds give equal numbers.

    The numbers do not depend on the machine or the number of threads. Between devices ("cpu", "gpu") bits, integers and uniform
    numbers are equal as well; numbers computed with logarithms (normal, exponential) may differ in the last digits.

    Parameters
    ----------
    seed : int or sequence of int, optional
        Not negative; None chooses a new seed each time.

    Raises
    ------
    DTypeError, ValueError
        ``seed`` is not an integer; it is negative.

    >>> wf.random.seed(0)
    >>> a = wf.random.uniform(size=3).tolist()
    >>> wf.random.seed(0)
    >>> a == wf.random.uniform(size=3).tolist()
    True
    """
    mixed = _hash_seed(parse_seed(seed, "seed"), "seed")
    _HIDDEN_STREAM.key[...] = wrap(_key_of(mixed))
    _HIDDEN_STREAM.base[...] = wrap(numpy_node(np.asarray(0, np.uint64)))


def _key_of(mixed: Any) -> Node:
    return mixed.node(UINT64) if type(mixed) in TRACED_TYPES else numpy_node(np.asarray(mixed, np.uint64))


def get_state() -> tuple[int, int]:
    """Return the position of the hidden sequence, for :func:`set_state`.

    Returns
    -------
    (key, position) : two ints

    >>> state = wf.random.get_state()
    >>> a = wf.random.uniform(size=3).tolist()
    >>> wf.random.set_state(state)
    >>> a == wf.random.uniform(size=3).tolist()
    True
    """
    return int(_HIDDEN_STREAM.key.numpy()), int(_HIDDEN_STREAM.base.numpy())


def set_state(state: tuple[int, int], /) -> None:
    """Continue the hidden sequence from a position that :func:`get_state` returned.

    Parameters
    ----------
    state : (int, int)

    Raises
    ------
    ValueError
        ``state`` is not a pair of 64-bit ints.

    >>> wf.random.seed(3)
    >>> state = wf.random.get_state()
    >>> wf.random.seed(4)
    >>> wf.random.set_state(state)
    >>> wf.random.get_state() == state
    True
    """
    try:
        key_value, position = (operator.index(n) for n in state)
    except (TypeError, ValueError):
        raise ValueError(f"set_state: the state must be what get_state gave, a pair of ints, not {state!r}") from None
    if not (0 <= key_value <= _MASK and 0 <= position <= _MASK):
        raise ValueError(f"set_state: {state!r} does not fit 64 bits")
    _HIDDEN_STREAM.key[...] = wrap(numpy_node(np.asarray(key_value, np.uint64)))
    _HIDDEN_STREAM.base[...] = wrap(numpy_node(np.asarray(position, np.uint64)))


@contextmanager
def draw_from(key_value: Array) -> Iterator[None]:
    """Let the hidden sequence begin anew with a key inside a ``with`` block, and go on behind it as if nothing had been drawn."""
    before = [(a, copy.copy(a)) for a in (_HIDDEN_STREAM.key, _HIDDEN_STREAM.base)]
    _HIDDEN_STREAM.key[...] = key_value
    _HIDDEN_STREAM.base[...] = wrap(number(0, UINT64))
    try:
        yield
    finally:
        for a, old in before:
            a[...] = old


def state_of_part(state: tuple[int, int], part: int) -> tuple[int, int]:
    """Return the start of a sequence of its own for part ``part`` of a work that begins at a position of the hidden sequence."""
    key_value, position = state
    mixed = _hash_int(key_value ^ _hash_int(position, "key"), "key")
    return _hash_int(mixed ^ _hash_int(part, "key"), "key"), 0


def state_after_parts(state: tuple[int, int]) -> tuple[int, int]:
    """Return the position of the hidden sequence after a work in parts, however much they have drawn."""
    return state[0], (state[1] + 1) & _MASK


def key(seed: int, /) -> Array:
    """Make a key from a seed, for the ``key=`` argument of the draws.

    Parameters
    ----------
    seed : int
        Not negative.

    Returns
    -------
    () Array of uint64

    >>> wf.random.key(1).dtype
    dtype('uint64')
    """
    return wrap(_key_of(_hash_seed(seed, "key")))


def split(key: Any, num: int = 2, /) -> Array:
    """Make new keys from one. Draws from the old key are not independent of draws from the new ones.

    Parameters
    ----------
    key : Array
        Made by :func:`key` or :func:`split`.
    num : int
        The number of new keys.

    Returns
    -------
    (num,) Array of uint64

    Raises
    ------
    DTypeError, ShapeError
        ``key`` is not a key; ``num`` is negative.

    >>> one, two = wf.random.split(wf.random.key(1))
    >>> bool(one == two)
    False
    """
    (count,) = shape_tuple(num, "split", "num")
    return wrap(wide(Words(key_node(key, "split"), number(_SPLIT, UINT64), None), (count,)))


def key_node(key: Any, function: str) -> Node:
    """Return the node of a key that ``function`` was given; raise DTypeError for anything else."""
    value = node(key, function, "key")
    if value.dtype != UINT64 or value.shape:
        raise DTypeError(
            f"{function}: key has dtype {value.dtype} and shape {value.shape}; a key made by wf.random.key(seed) or one of "
            "wf.random.split is needed (uint64, no dimensions); use wf.vmap for several"
        )
    return value


class Words:
    """The random words of one draw: each :meth:`take` reads the next blocks of four."""

    def __init__(self, key: Node, base: Node, state: Stream | None) -> None:
        self.key, self.base, self.state = key, base, state

    def take(self, shape: Shape, bits: int = 32) -> Node:
        """Return the next random words as a node of the given shape. bits 16: half a word each, see ``random_bits``"""
        return op("random_bits", *self.places(math.prod(shape), bits), shape=shape, **({} if bits == 32 else {"bits": bits}))

    def places(self, count: int, bits: int = 32) -> tuple[Node, Node]:
        """Reserve ``count`` words; return their key and base, for operations that generate the words themselves."""
        blocks = count_blocks(count, bits)
        if self.state is None or CONTEXT.trace is not None:  # keys, and traces: ``base`` moves as a node
            source = self.key, self.base
            if blocks:
                self.base = op("add", self.base, number(blocks, UINT64))
                if self.state is not None:
                    self.state.base._set(self.base)
            return source
        with WRITE_LOCK:  # no other thread may take the same words
            source = self.key, self.state.base.node
            if blocks:
                self.state.move(blocks)
        return source


def open_words(key: Any, function: str) -> Words:
    """Return the words of a key, a generator's sequence or, for None, the hidden sequence. Words are returned as they are."""
    if isinstance(key, Words):
        return key
    stream = _HIDDEN_STREAM if key is None else key
    if isinstance(stream, Stream):
        return Words(stream.key.node, stream.base.node, stream)
    return Words(key_node(key, function), number(0, UINT64), None)


Formula = Callable[[Any, Shape, Format], Node]  # (source of words, shape, dtype) -> numbers


def draw(formula: Formula, key: Any, function: str, shape: Shape, dtype: Format, kind: Hashable = ()) -> Array:
    """Draw an array by a formula, from a key, a generator's sequence or the hidden one.

    ``kind`` identifies a formula with parameters, so that its draws can be made ahead; None disables that.
    """
    stream = _HIDDEN_STREAM if key is None else key
    if kind is not None and isinstance(stream, Stream):
        prepared = stream.next_draw((kind or formula, dtype), lambda words, shape: formula(words, shape, dtype), shape)
        if prepared is not None:
            return prepared
    return wrap(formula(open_words(key, function), shape, dtype))


def draw_plain(formula: Formula, shape: Any) -> Array | None:
    """Return the next draw of the hidden sequence by a formula without parameters, if it is prepared; else None. The shortest way
    of a few numbers."""
    return _HIDDEN_STREAM.next_plain_draw(formula, shape) if type(shape) is tuple else None


def draw_wide(key: Any, function: str, shape: Shape) -> Node:
    """Draw 64 bits an element."""
    return draw(_wide_numbers, key, function, shape, UINT64).node


def _wide_numbers(words: Words, shape: Shape, dtype: Format) -> Node:
    return wide(words, shape)


def draw_int(key: Any, function: str) -> int | None:
    """Draw 64 bits from a sequence as an int; return None if they cannot be computed now."""
    stream = _HIDDEN_STREAM if key is None else key
    return stream.next_word(wide) if isinstance(stream, Stream) else None


@lru_cache(maxsize=4096)
def integer(value: int, dtype: Format) -> Node:
    """Return a drawn integer as a leaf. Nodes are immutable, so equal values share one."""
    return leaf(np.asarray(value, dtype.numpy), dtype)


def wide(words: Words, shape: Shape) -> Node:
    """Return 64 random bits per element, from two words."""
    high, low = words.take(shape), words.take(shape)
    if (halves := peek(high, low)) is not None:
        return leaf(np.asarray(halves[0].astype(np.uint64) << np.uint64(32) | halves[1]), UINT64)
    return op("bitwise_or", op("bitwise_left_shift", cast(high, UINT64), number(32, UINT64)), cast(low, UINT64))


def scale_to_range(bits: Node, width: int, first: int, dtype: Format) -> Node:
    """Return ``first`` plus integers below ``width``: the upper half of ``bits * width``."""
    if (values := peek(bits)) is None:
        offset = bits if width == 2**64 else high_product(wrap(bits), wrap(number(width, UINT64)), width < 2**32).node
        return cast(op("add", offset, number(first & _MASK, UINT64)) if first else offset, dtype)
    x = values[0] if width == 2**64 else high_product(values[0], np.uint64(width), width < 2**32)
    with np.errstate(over="ignore"):
        return leaf(np.asarray(x + np.uint64(first & _MASK)).astype(dtype.numpy), dtype)


def high_product(bits: Any, width: Any, narrow: bool) -> Any:
    """Return the upper 64 of the 128 bits of ``bits * width``, arrays of weft or NumPy. ``narrow``: ``width`` fits 32 bits."""
    mask = 0xFFFFFFFF
    low = width & mask
    middle = (bits >> 32) * low + ((bits & mask) * low >> 32)
    if narrow:
        return middle >> 32
    cross = (bits & mask) * (width >> 32) + (middle & mask)
    return (bits >> 32) * (width >> 32) + (middle >> 32) + (cross >> 32)


def uniform_node(words: Words, shape: Shape, dtype: Format) -> Node:
    """Return uniform numbers in [0, 1), from as many of the top bits as the dtype holds exactly."""
    bits = wide(words, shape) if dtype == FLOAT64 else words.take(shape)
    kept_bits, word_bits = dtype.mantissa + 1, 8 * bits.dtype.bytes
    if (values := None if dtype.narrow else peek(bits)) is not None:
        unit = (values[0] >> (word_bits - kept_bits)).astype(dtype.numpy) * dtype.numpy.type(2.0**-kept_bits)
        return leaf(np.asarray(unit), dtype)
    bits = op("bitwise_right_shift", bits, number(word_bits - kept_bits, bits.dtype))
    return cast(op("multiply", cast(bits, dtype.computed), number(2.0**-kept_bits, dtype.computed)), dtype)


def decay(words: Words, shape: Shape, dtype: Format) -> Node:
    """Return exponentially distributed numbers of mean 1."""
    return op("negative", op("log1p", op("negative", uniform_node(words, shape, dtype))))


def normal_node(words: Words, shape: Shape, dtype: Format) -> Node:
    """Return normal numbers (Box and Muller): the radius from one word (two for float64), the angle from another."""
    form = dtype.computed
    if form == FLOAT64:
        unit = op("subtract", number(1.0, form), uniform_node(words, shape, form))
    else:  # all 32 bits, so that tails reach 6.7 standard deviations
        unit = op("multiply", op("add", cast(words.take(shape), form), number(0.5, form)), number(2.0**-32, form))
    angle = op("multiply", uniform_node(words, shape, form), number(2 * math.pi, form))
    radius = op("sqrt", op("multiply", op("log", unit), number(-2.0, form)))
    return cast(op("multiply", radius, op("cos", angle)), dtype)


complete_module(globals(), (seed, key))
