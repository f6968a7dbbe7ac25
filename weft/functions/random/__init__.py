"""Random numbers: a hidden seedable state, functions of a key, and generators under NumPy's names."""

from __future__ import annotations

from weft.functions.random import distributions, generators
from weft.functions.random.distributions import *  # noqa: F403
from weft.functions.random.distributions import choice, permutation, shuffle
from weft.functions.random.generators import *  # noqa: F403
from weft.functions.random.state import get_state, key, seed, set_state, split
from weft.functions.support.arguments import unbind

__all__ = [
    "choice", "get_state", "key", "permutation", "random_sample", "ranf", "sample", "seed", "set_state", "shuffle", "split",
]
__all__ += distributions.__all__
__all__ += generators.__all__

unbind(globals(), __all__)  # like NumPy's, they do not become methods when assigned to a class attribute
random_sample = ranf = sample = random  # noqa: F405
