"""Words drawn by how often they occur: negative samples, in constant time a draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import INT64, UINT64
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import minimum
from weft.functions.indexing.where import where
from weft.functions.random.state import words_of
from weft.functions.support.arguments import broadcast_shapes, cast, shape_tuple

LOW = 2**32 - 1
LEFT = 2.0**-24  # how often all draws of a word may hit the excluded one; the most frequent other word is given then


class UnigramSampler:
    """Draws numbers 0 to n - 1 with probabilities proportional to ``counts ** power``, by Walker's alias method.

    Each draw is one random word of 32 bits and one look into a table, whatever n is; inside ``wf.jit`` it becomes part of
    the step's kernels. Probabilities are right to 2**-32.

    A. J. Walker, An efficient method for generating discrete random variables with general distributions, 1977; the table
    is made as M. D. Vose, A linear algorithm for generating random numbers with a given distribution, 1991. The power
    3/4 is that of T. Mikolov et al., Distributed representations of words and phrases and their compositionality, 2013.

    Parameters
    ----------
    counts : 1-D array, how often each word occurs: not negative, not all zero
    power : float, below 1 gives rare words a larger share

    Raises
    ------
    ShapeError, DTypeError, ValueError

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
        known = counts.numpy() if isinstance(counts, Array) else np.asarray(counts)
        if known.ndim != 1 or not known.size or known.size >= 2**31:
            raise ShapeError(f"UnigramSampler: counts has shape {known.shape}, but must be a vector with an element a word")
        if known.dtype.kind not in "fiub":
            raise DTypeError(f"UnigramSampler: counts must be numbers, not {known.dtype}")
        known = known.astype(np.float64)
        if not np.isfinite(known).all() or known.min() < 0 or not known.any():
            raise ValueError("UnigramSampler: counts must be finite, not negative and not all zero")
        share = np.where(known > 0, known, 1.0) ** power * (known > 0)
        self.size, self.power, self.p = known.size, float(power), share / share.sum()
        self._top = int(self.p.argmax())
        rest = self.p.copy()
        rest[self._top] = 0.0
        second = rest.max()
        self._others = second > 0
        # without the top word there is a table of its own; any other word is drawn anew, so often that it is seldom left
        tables = [_alias_table(self.p), _alias_table(rest / rest.sum() if self._others else self.p)]
        self._table = asarray(np.concatenate(tables))
        self._rounds = math.ceil(math.log(LEFT) / math.log(second)) if self._others else 0

    def sample(self, size: Any = None, *, without: Any = None, key: Any = None) -> Array:
        """Draw with replacement.

        Parameters
        ----------
        size : int or tuple of int; by default the shape of ``without``
        without : integer array that broadcasts to ``size``, optional: the word that is not drawn at each place
        key : Array, optional; draw from this key and not from the hidden state of ``wf.random``

        Returns
        -------
        int64 array of shape ``size``

        Raises
        ------
        ShapeError, DTypeError
        ValueError
            when ``without`` is given and only one word has a count.
        """
        words = words_of(key, "sample")
        if without is None:
            return self._draw(words.take(() if size is None else shape_tuple(size, "sample", "size")), None)
        if not self._others:
            raise ValueError("sample: only one word has a count, so nothing can be drawn without it")
        barred = without if isinstance(without, Array) else asarray(without)
        if barred.dtype.kind not in "iu":
            raise DTypeError(f"sample: without must hold integers, not {barred.dtype}")
        shape = barred.shape if size is None else shape_tuple(size, "sample", "size")
        if broadcast_shapes("sample", barred.shape, shape) != shape:
            raise ShapeError(f"sample: without has shape {barred.shape}, which does not broadcast to size={shape}")
        barred = barred.astype(INT64)
        is_top: Any = barred == self._top
        found: Any = self._top
        for k in range(self._rounds):
            drawn = self._draw(words.take(shape), is_top)
            found = drawn if k == 0 else where(found == barred, drawn, found)
        return where(found == barred, where(is_top, found, self._top), found)

    def _draw(self, bits: Any, is_top: Array | None) -> Array:
        """Column and threshold from the high and low half of word * size; one look at (threshold, alias) of the column."""
        place: Any = wrap(cast(bits, UINT64)) * self.size
        column = (place >> 32).astype(INT64)
        row = column if is_top is None else column + is_top.astype(INT64) * self.size
        entry: Any = self._table[row]
        alias = minimum((entry & LOW).astype(INT64), self.size - 1)  # said of the table, so that looks at words are not checked
        return where((place & LOW) < (entry >> 32), column, alias)

    def __repr__(self) -> str:
        return f"UnigramSampler({self.size} words, power={self.power})"


def _alias_table(p: np.ndarray) -> np.ndarray:
    """threshold << 32 | alias of each column: below the threshold (of 2**32) a draw is the column, else its alias."""
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
    for i in small:  # only rounding leaves any; they are whole, unless nothing of them may be drawn
        if p[i] == 0:
            threshold[i], alias[i] = 0, int(p.argmax())
    return np.array(threshold, np.uint64) << np.uint64(32) | np.array(alias, np.uint64)
