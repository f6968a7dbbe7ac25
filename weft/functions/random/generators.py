"""Generators under NumPy's names: each has a sequence of its own, which its draws move on."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import INT64
from weft.functions.random import distributions, state
from weft.functions.random import permute_choose as order
from weft.functions.random.basic_draws import exponential, integers, normal, standard_normal, uniform
from weft.functions.support.arguments import axis_index, finish, named, node, op

Function = Callable[..., Any]


def _method(function: Function, name: str) -> Function:
    def draw(self: Generator, *args: Any, **kwargs: Any) -> Any:
        return function(*args, key=self._stream, **kwargs)

    named(draw, name)
    draw.__qualname__ = f"Generator.{name}"
    draw.__doc__ = f"As ``wf.random.{name}``, from this generator."
    return draw


class SeedSequence(np.random.SeedSequence):
    """A seed that others can be drawn of, as in NumPy: what :func:`default_rng` and the bit generators take.

    Parameters
    ----------
    entropy : int or sequence of int, optional
        None: another one each time.
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
    """A seed under the name of a bit generator of NumPy: ``Generator(PCG64(7))`` runs, and draws weft's numbers, which are
    Philox's whatever it is called: other ones than NumPy's for the same seed, as everywhere in ``wf.random``.

    Parameters
    ----------
    seed : int, sequence of int or SeedSequence, optional
        None: another one each time.

    Raises
    ------
    TypeError, ValueError
        No integer; a negative one.

    Examples
    --------
    >>> import weft as wf
    >>> wf.random.Generator(wf.random.Philox(7)).random(2).shape
    (2,)
    """

    def __init__(self, seed: Any = None) -> None:
        self.seed_seq = seed if isinstance(seed, np.random.SeedSequence) else SeedSequence(seed)

    def spawn(self, n_children: int) -> list[Any]:
        """Others, whose numbers have nothing to do with each other's."""
        return [type(self)(child) for child in self.seed_seq.spawn(n_children)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(entropy={self.seed_seq.entropy!r})"


class Philox(BitGenerator):
    __doc__ = BitGenerator.__doc__


class PCG64(BitGenerator):
    __doc__ = BitGenerator.__doc__


class PCG64DXSM(BitGenerator):
    __doc__ = BitGenerator.__doc__


class MT19937(BitGenerator):
    __doc__ = BitGenerator.__doc__


class SFC64(BitGenerator):
    __doc__ = BitGenerator.__doc__


class Generator:
    """Random numbers from a sequence of one's own, under the names of NumPy's ``Generator``: what :func:`default_rng` makes.

    Equal seeds give equal numbers, which are weft's (Philox) and not NumPy's. The draws are lazy, and fine inside ``wf.jit``.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence or BitGenerator, optional
        Not negative; None: another one each time.

    Raises
    ------
    DTypeError, ValueError
        No integer; a negative one.

    Examples
    --------
    >>> import weft as wf
    >>> rng = wf.random.Generator(0)
    >>> rng.normal(0.0, 1.0, (2, 3)).shape, rng.integers(5, size=2).shape
    ((2, 3), (2,))
    """

    def __init__(self, seed: Any = None) -> None:
        if isinstance(seed, np.random.BitGenerator | BitGenerator):
            seed = seed.seed_seq
        self._stream = state.stream_of(state.plain_seed(seed, type(self).__name__), type(self).__name__)

    uniform, normal = _method(uniform, "uniform"), _method(normal, "normal")
    exponential, integers = _method(exponential, "exponential"), _method(integers, "integers")
    permutation, shuffle = _method(order.permutation, "permutation"), _method(order.shuffle, "shuffle")

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Uniform numbers in [0, 1)."""
        return finish(uniform(0.0, 1.0, _size(size, out), key=self._stream, dtype=dtype).node, out, "random")

    def standard_normal(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Normal numbers of mean 0 and standard deviation 1."""
        return finish(standard_normal(_size(size, out), key=self._stream, dtype=dtype).node, out, "standard_normal")

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """As ``wf.random.choice``, from this generator; of an array with more dimensions slices. ``shuffle`` changes nothing."""
        return order.choice(a, size, replace, p, axis, key=self._stream)

    def permuted(self, x: Any, axis: int | None = None, out: Any = None) -> Array:
        """Each row along an axis in an order of its own; without an axis all elements change places."""
        value = node(x, "permuted")
        bits = state.wide(state.words_of(self._stream, "permuted"), value.shape if axis is not None else (value.size,))
        if axis is None:
            line = op("reshape", value, shape=(value.size,))
            found = op("reshape", op("gather", line, op("argsort", bits, axis=0), axes=(0,)), shape=value.shape)
            return finish(found, out, "permuted")
        axis = axis_index(axis, len(value.shape), "permuted")
        places = [
            op("argsort", bits, axis=axis) if a == axis
            else op("iota", shape=tuple(n if d == a else 1 for d in range(len(value.shape))), dtype=INT64, axis=a)
            for a, n in enumerate(value.shape)
        ]
        return finish(op("gather", value, *places, axes=tuple(range(len(value.shape)))), out, "permuted")

    def spawn(self, n_children: int) -> list[Any]:
        """Generators of their own, whose numbers have nothing to do with each other's."""
        seeds = wrap(state.wide(state.words_of(self._stream, "spawn"), (operator.index(n_children),)))
        return [type(self)(int(seed)) for seed in seeds.numpy()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(Philox)"

    def __reduce__(self) -> Any:
        return _restored, (type(self), int(self._stream.key), int(self._stream.base))


def _restored(kind: Any, key: int, base: int) -> Any:
    made = kind(0)
    made._stream.key[...] = wrap(node(np.uint64(key), "Generator"))
    made._stream.base[...] = wrap(node(np.uint64(base), "Generator"))
    return made


def _size(size: Any, out: Any) -> Any:
    return out.shape if size is None and out is not None else size


for _name in distributions.__all__:
    setattr(Generator, _name, _method(getattr(distributions, _name), _name))


class RandomState(Generator):
    """A generator under the names of NumPy's older class.

    Parameters
    ----------
    seed : int, optional
        Not negative; None: another one each time.

    Raises
    ------
    DTypeError, ValueError
        No integer; a negative one.

    Examples
    --------
    >>> import weft as wf
    >>> rng = wf.random.RandomState(0)
    >>> rng.randn(2, 3).shape, rng.randint(0, 5, size=2).shape
    ((2, 3), (2,))
    """

    def seed(self, seed: Any = None) -> None:
        """Begin anew."""
        self._stream = Generator(seed)._stream

    choice = _method(order.choice, "choice")

    def rand(self, *shape: int) -> Any:
        """Uniform numbers in [0, 1), the extents as arguments."""
        return self.random(shape or None)

    def randn(self, *shape: int) -> Any:
        """Normal numbers, the extents as arguments."""
        return self.standard_normal(shape or None)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = None) -> Any:
        """Whole numbers from ``low`` up to and without ``high``."""
        return self.integers(low, high, size, dtype=dtype)

    def random_sample(self, size: Any = None) -> Any:
        """Uniform numbers in [0, 1)."""
        return self.random(size)

    def get_state(self) -> tuple[int, int]:
        """What the sequence stands at, for :meth:`set_state`."""
        return int(self._stream.key), int(self._stream.base)

    def set_state(self, given: tuple[int, int]) -> None:
        """Go on from what :meth:`get_state` gave."""
        self._stream = _restored(Generator, *given)._stream


def default_rng(seed: Any = None) -> Generator:
    """A generator with a sequence of its own.

    Parameters
    ----------
    seed : int, SeedSequence, BitGenerator or Generator, optional
        Equal seeds give equal numbers; None: another one each time; a Generator is handed back.

    Returns
    -------
    Generator

    Raises
    ------
    DTypeError, ValueError
        No integer; a negative one.

    Examples
    --------
    >>> import weft as wf
    >>> a, b = wf.random.default_rng(7), wf.random.default_rng(7)
    >>> bool((a.random(3) == b.random(3)).all())
    True
    """
    return seed if isinstance(seed, Generator) else Generator(seed)
