"""Random numbers: a hidden seedable state, functions of a key, and generators under NumPy's names."""

from __future__ import annotations

from weft.functions.random.basic_draws import (
    bernoulli,
    exponential,
    integers,
    normal,
    rand,
    randint,
    randn,
    random,
    standard_normal,
    uniform,
)
from weft.functions.random.distributions import (
    beta,
    binomial,
    bytes,
    chisquare,
    dirichlet,
    f,
    gamma,
    geometric,
    gumbel,
    hypergeometric,
    laplace,
    logistic,
    lognormal,
    logseries,
    multinomial,
    multivariate_hypergeometric,
    multivariate_normal,
    negative_binomial,
    noncentral_chisquare,
    noncentral_f,
    pareto,
    poisson,
    power,
    rayleigh,
    standard_cauchy,
    standard_exponential,
    standard_gamma,
    standard_t,
    triangular,
    vonmises,
    wald,
    weibull,
    zipf,
)
from weft.functions.random.generators import (
    MT19937,
    PCG64,
    PCG64DXSM,
    SFC64,
    BitGenerator,
    Generator,
    Philox,
    RandomState,
    SeedSequence,
    default_rng,
)
from weft.functions.random.permute_choose import choice, permutation, shuffle
from weft.functions.random.state import get_state, key, seed, set_state, split
from weft.functions.support.unbound import unbind

__all__ = [
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState", "SFC64", "SeedSequence",
    "bernoulli", "beta", "binomial", "bytes", "chisquare", "choice", "default_rng", "dirichlet", "exponential", "f", "gamma",
    "geometric", "get_state", "gumbel", "hypergeometric", "integers", "key", "laplace", "logistic", "lognormal", "logseries",
    "multinomial", "multivariate_hypergeometric", "multivariate_normal", "negative_binomial", "noncentral_chisquare",
    "noncentral_f", "normal", "pareto", "permutation", "poisson", "power", "rand", "randint", "randn", "random",
    "random_sample", "ranf", "rayleigh", "sample", "seed", "set_state", "shuffle", "split", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "triangular", "uniform", "vonmises", "wald",
    "weibull", "zipf",
]

unbind(globals(), __all__)  # like NumPy's, they do not become methods when assigned to a class attribute
random_sample = ranf = sample = random
