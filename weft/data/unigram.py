"""Sampling of words by their frequency in constant time per draw, as for negative samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.api import is_integer, is_real
from weft.dtypes.formats import INT64, UINT64
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import minimum
from weft.functions.indexing.where import where
from weft.functions.random.state import open_words
from weft.functions.support.arguments import broadcast_shapes, cast, shape_tuple

LOW_BITS = 2**32 - 1
MAX_FAILURE_RATE = 2.0**-24  # share of draws that may hit the excluded word in every round: these return the most frequent word


class UnigramSampler:
    """Draw numbers 0 to n - 1 with probabilities proportional to ``counts ** power``, by Walker's alias method.

    Each draw takes one random word of 32 bits and one table lookup, for any n; inside ``wf.jit`` it becomes part of the step's
    kernels. Probabilities are exact to 2**-32.

    A. J. Walker, An efficient method for generating discrete random variables with general distributions, 1977; the table is
    built as in M. D. Vose, A linear algorithm for generating random numbers with a given distribution, 1991. The power 3/4 is
    that of T. Mikolov et al., Distributed representations of words and phrases and their compositionality, 2013.

    Parameters
    ----------
    counts : (N,) array
        The frequency of each word: not negative, not all zero.
    power : float
        A value below 1 increases the share of rare words.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``counts`` is no vector; it holds no numbers; a count is negative or not finite, or all are zero.

    Examples
    --------
    >>> import weft as wf
    >>> sampler = wf.data.UnigramSampler([5, 1, 1, 0])
    >>> target = wf.array([0, 2])
    >>> negatives = sampler.sample((2, 5), without=target.reshape(2, 1))
    >>> negatives.shape, bool((negatives == target.reshape(2, 1)).any())
    ((2, 5), False)
    """

    def __init__(self, counts: Any, power: float = 0.75) -> None:
        frequencies = counts.numpy() if isinstance(counts, Array) else np.asarray(counts)
        if frequencies.ndim != 1 or not frequencies.size or frequencies.size >= 2**31:
            raise ShapeError(f"UnigramSampler: counts has shape {frequencies.shape}, but must be a vector of one count per word")
        if not is_real(frequencies.dtype):
            raise DTypeError(f"UnigramSampler: counts must be numbers, not {frequencies.dtype}")
        frequencies = frequencies.astype(np.float64)
        if not np.isfinite(frequencies).all() or frequencies.min() < 0 or not frequencies.any():
            raise ValueError("UnigramSampler: counts must be finite, not negative and not all zero")
        share = np.where(frequencies > 0, frequencies, 1.0) ** power * (frequencies > 0)
        self.size, self.power, self.p = frequencies.size, float(power), share / share.sum()
        self._top = int(self.p.argmax())
        rest = self.p.copy()
        rest[self._top] = 0.0
        second = rest.max()
        self._has_others = second > 0
        # The second table excludes the most frequent word. Any other excluded word is drawn again, for a fixed number of rounds.
        tables = [_alias_table(self.p), _alias_table(rest / rest.sum() if self._has_others else self.p)]
        self._table = asarray(np.concatenate(tables))
        self._rounds = math.ceil(math.log(MAX_FAILURE_RATE) / math.log(second)) if self._has_others else 0

    def sample(self, size: Any = None, *, without: Any = None, key: Any = None) -> Array:
        """Draw words with replacement.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape of the result; by default that of ``without``.
        without : array of integers, optional
            The word that is excluded at each element; broadcasts to ``size``.
        key : Array, optional
            A key to draw from instead of the hidden state of ``wf.random``.

        Returns
        -------
        int64 Array of shape ``size``

        Raises
        ------
        ShapeError, DTypeError
            ``without`` does not broadcast to ``size``; it holds no integers.
        ValueError
            ``without`` is given, but only one word has a count.
        """
        words = open_words(key, "sample")
        if without is None:
            return self._draw(words.take(() if size is None else shape_tuple(size, "sample", "size")), None)
        if not self._has_others:
            raise ValueError("sample: only one word has a count, so there is no other word to draw")
        excluded = without if isinstance(without, Array) else asarray(without)
        if not is_integer(excluded.dtype):
            raise DTypeError(f"sample: without must hold integers, not {excluded.dtype}")
        shape = excluded.shape if size is None else shape_tuple(size, "sample", "size")
        if broadcast_shapes("sample", excluded.shape, shape) != shape:
            raise ShapeError(f"sample: without has shape {excluded.shape}, which does not broadcast to size={shape}")
        excluded = excluded.astype(INT64)
        is_top: Any = excluded == self._top
        words_drawn: Any = self._top
        for k in range(self._rounds):
            drawn = self._draw(words.take(shape), is_top)
            words_drawn = drawn if k == 0 else where(words_drawn == excluded, drawn, words_drawn)
        return where(words_drawn == excluded, where(is_top, words_drawn, self._top), words_drawn)

    def _draw(self, bits: Any, is_top: Array | None) -> Array:
        """Draw words: the high half of word * size selects a column, the low half is compared with the column's threshold."""
        place: Any = wrap(cast(bits, UINT64)) * self.size
        column = (place >> 32).astype(INT64)
        row = column if is_top is None else column + is_top.astype(INT64) * self.size
        entry: Any = self._table[row]
        # the bound tells the compiler that words are in range, so that later reads by word need no check
        alias = minimum((entry & LOW_BITS).astype(INT64), self.size - 1)
        return where((place & LOW_BITS) < (entry >> 32), column, alias)

    def __repr__(self) -> str:
        return f"UnigramSampler({self.size} words, power={self.power})"


def _alias_table(p: np.ndarray) -> np.ndarray:
    """Return ``threshold << 32 | alias`` of each column: a draw below the threshold (of 2**32) is the column, else the alias."""
    n = p.size
    height = (p * n).tolist()
    alias = list(range(n))
    small = [i for i, h in enumerate(height) if h < 1.0]
    large = [i for i, h in enumerate(height) if h >= 1.0]
    threshold = [2**32 - 1] * n
    while small and large:
        low, high = small.pop(), large[-1]
        threshold[low], alias[low] = min(round(height[low] * 2**32), 2**32 - 1), high
        height[high] -= 1.0 - height[low]
        if height[high] < 1.0:
            small.append(large.pop())
    for i in small:  # left over by rounding: full columns, except for words of probability 0
        if p[i] == 0:
            threshold[i], alias[i] = 0, int(p.argmax())
    return np.array(threshold, np.uint64) << np.uint64(32) | np.array(alias, np.uint64)
