"""Generators under NumPy's names. Each has its own sequence, which its draws advance."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import INT64
from weft.functions.random import distributions, state
from weft.functions.random.distributions import exponential, integers, normal, standard_normal, uniform
from weft.functions.support.arguments import axis_index, node, op, rename_function, wrap_result
from weft.process.docstrings import complete_module

__all__ = [
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState", "SFC64", "SeedSequence", "default_rng",
]

Function = Callable[..., Any]


def _draw_method(function: Function, name: str) -> Function:
    """Return a method of :class:`Generator` that calls ``function`` with the generator's sequence as key."""
    def draw(self: Generator, *args: Any, **kwargs: Any) -> Any:
        return function(*args, key=self._stream, **kwargs)

    rename_function(draw, name)
    draw.__qualname__ = f"Generator.{name}"
    draw.__doc__ = f"Draw like ``wf.random.{name}``, from this generator."
    return draw


class SeedSequence(np.random.SeedSequence):
    """NumPy's seed sequence, from which further seeds are spawned; accepted by :func:`default_rng` and the bit generators.

    Parameters
    ----------
    entropy : int or sequence of int, optional
        None chooses a new one each time.
    spawn_key : tuple of int
    pool_size : int
    n_children_spawned : int

    Examples
    --------
    >>> import weft as wf
    >>> children = wf.random.SeedSequence(7).spawn(2)
    >>> [wf.random.default_rng(child).random(3).shape for child in children]
    [(3,), (3,)]
    """


class BitGenerator:
    """A seed under the name of one of NumPy's bit generators, so that ``Generator(PCG64(7))`` runs.

    Whatever its name, the numbers are weft's Philox numbers. They differ from NumPy's for the same seed, as everywhere in
    ``wf.random``.

    Parameters
    ----------
    seed : int, sequence of int or SeedSequence, optional
        None chooses a new one each time.

    Raises
    ------
    TypeError, ValueError
        ``seed`` is not an integer; it is negative.

    >>> wf.random.Generator(wf.random.Philox(7)).random(2).shape
    (2,)
    """

    def __init__(self, seed: Any = None) -> None:
        self.seed_seq = seed if isinstance(seed, np.random.SeedSequence) else SeedSequence(seed)

    def spawn(self, n_children: int) -> list[Any]:
        """Return independent bit generators."""
        return [type(self)(child) for child in self.seed_seq.spawn(n_children)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(entropy={self.seed_seq.entropy!r})"


Philox, PCG64, PCG64DXSM, MT19937, SFC64 = (
    type(name, (BitGenerator,), {"__doc__": BitGenerator.__doc__, "__module__": __name__})
    for name in ("Philox", "PCG64", "PCG64DXSM", "MT19937", "SFC64")
)


class Generator:
    """Random numbers from a sequence of its own, with the methods of NumPy's ``Generator``; made by :func:`default_rng`.

    Equal seeds give equal numbers, which are weft's (Philox) and not NumPy's. The draws are lazy and work inside ``wf.jit``.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence or BitGenerator, optional
        Not negative; None chooses a new one each time.

    Raises
    ------
    DTypeError, ValueError
        ``seed`` is not an integer; it is negative.

    >>> rng = wf.random.Generator(0)
    >>> rng.normal(0.0, 1.0, (2, 3)).shape, rng.integers(5, size=2).shape
    ((2, 3), (2,))
    """

    def __init__(self, seed: Any = None) -> None:
        if isinstance(seed, np.random.BitGenerator | BitGenerator):
            seed = seed.seed_seq
        self._stream = state.make_stream(state.parse_seed(seed, type(self).__name__), type(self).__name__)

    uniform, normal = _draw_method(uniform, "uniform"), _draw_method(normal, "normal")
    exponential, integers = _draw_method(exponential, "exponential"), _draw_method(integers, "integers")
    permutation, shuffle = _draw_method(distributions.permutation, "permutation"), _draw_method(distributions.shuffle, "shuffle")

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Draw uniform numbers in [0, 1)."""
        return wrap_result(uniform(0.0, 1.0, _size_of_out(size, out), key=self._stream, dtype=dtype).node, out, "random")

    def standard_normal(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Draw normal numbers of mean 0 and standard deviation 1."""
        return wrap_result(standard_normal(_size_of_out(size, out), key=self._stream, dtype=dtype).node, out, "standard_normal")

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """Draw like ``wf.random.choice``; from an array of several dimensions choose slices. ``shuffle`` has no effect."""
        return distributions.choice(a, size, replace, p, axis, key=self._stream)

    def permuted(self, x: Any, axis: int | None = None, out: Any = None) -> Array:
        """Permute each row along an axis independently; without an axis, all elements."""
        value = node(x, "permuted")
        bits = state.wide(state.open_words(self._stream, "permuted"), value.shape if axis is not None else (value.size,))
        if axis is None:
            line = op("reshape", value, shape=(value.size,))
            result = op("reshape", op("gather", line, op("argsort", bits, axis=0), axes=(0,)), shape=value.shape)
            return wrap_result(result, out, "permuted")
        axis = axis_index(axis, len(value.shape), "permuted")
        places = [
            op("argsort", bits, axis=axis) if a == axis
            else op("iota", shape=tuple(n if d == a else 1 for d in range(len(value.shape))), dtype=INT64, axis=a)
            for a, n in enumerate(value.shape)
        ]
        return wrap_result(op("gather", value, *places, axes=tuple(range(len(value.shape)))), out, "permuted")

    def spawn(self, n_children: int) -> list[Any]:
        """Return independent generators."""
        seeds = wrap(state.wide(state.open_words(self._stream, "spawn"), (operator.index(n_children),)))
        return [type(self)(int(seed)) for seed in seeds.numpy()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(Philox)"

    def __reduce__(self) -> Any:
        return _restore, (type(self), int(self._stream.key), int(self._stream.base))


def _restore(kind: Any, key: int, base: int) -> Any:
    generator = kind(0)
    generator._stream.key[...] = wrap(node(np.uint64(key), "Generator"))
    generator._stream.base[...] = wrap(node(np.uint64(base), "Generator"))
    return generator


def _size_of_out(size: Any, out: Any) -> Any:
    return out.shape if size is None and out is not None else size


for _name in distributions.DISTRIBUTIONS:
    setattr(Generator, _name, _draw_method(getattr(distributions, _name), _name))


class RandomState(Generator):
    """A generator with the methods of NumPy's older class.

    >>> rng = wf.random.RandomState(0)
    >>> rng.randn(2, 3).shape, rng.randint(0, 5, size=2).shape
    ((2, 3), (2,))
    """

    def seed(self, seed: Any = None) -> None:
        """Restart the sequence."""
        self._stream = Generator(seed)._stream

    choice = _draw_method(distributions.choice, "choice")

    def rand(self, *shape: int) -> Any:
        """Draw uniform numbers in [0, 1), with the extents as arguments."""
        return self.random(shape or None)

    def randn(self, *shape: int) -> Any:
        """Draw normal numbers, with the extents as arguments."""
        return self.standard_normal(shape or None)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = None) -> Any:
        """Draw integers from ``low`` up to but not including ``high``."""
        return self.integers(low, high, size, dtype=dtype)

    def random_sample(self, size: Any = None) -> Any:
        """Draw uniform numbers in [0, 1)."""
        return self.random(size)

    def get_state(self) -> tuple[int, int]:
        """Return the position of the sequence, for :meth:`set_state`."""
        return int(self._stream.key), int(self._stream.base)

    def set_state(self, state: tuple[int, int]) -> None:
        """Continue from a position that :meth:`get_state` returned."""
        self._stream = _restore(Generator, *state)._stream


def default_rng(seed: Any = None) -> Generator:
    """Return a generator with a sequence of its own.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
        Equal seeds give equal numbers; None chooses a new one each time; a Generator is returned as it is.

    Returns
    -------
    Generator

    >>> a, b = wf.random.default_rng(7), wf.random.default_rng(7)
    >>> bool((a.random(3) == b.random(3)).all())
    True
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


complete_module(globals(), (Generator, RandomState, default_rng))
