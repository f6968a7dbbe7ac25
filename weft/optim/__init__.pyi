"""The names of ``wf.optim.*`` for type checkers and editors; ``__init__.py`` loads them from its files.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.optim.clipping import clip_by_norm as clip_by_norm, clip_by_value as clip_by_value, global_norm as global_norm
from weft.optim.least_squares import GaussNewton as GaussNewton, LevenbergMarquardt as LevenbergMarquardt
from weft.optim.minimize import MinimizeResult as MinimizeResult, minimize as minimize
from weft.optim.optimizer import Optimizer as Optimizer
from weft.optim.quasi_newton import BFGS as BFGS, LBFGS as LBFGS
from weft.optim.sam import SAM as SAM
from weft.optim import schedules as schedules
from weft.optim.update_rules import (
    AMSBound as AMSBound, AMSGrad as AMSGrad, AdaBelief as AdaBelief, AdaBound as AdaBound, AdaDelta as AdaDelta,
    AdaGrad as AdaGrad, AdaMax as AdaMax, Adam as Adam, AdamW as AdamW, Eve as Eve, LAMB as LAMB, Lion as Lion,
    Nadam as Nadam, RMSprop as RMSprop, RMSpropGraves as RMSpropGraves, SGD as SGD, SMORMS3 as SMORMS3,
    SantaE as SantaE, SantaSSS as SantaSSS,
)
