"""Optimizers, schedules and gradient clipping.

``Optimizer`` manages the state; a subclass defines the update rule of one parameter. Rules are array code, so that a jitted step
compiles them.
"""

from weft.graph import source_lines
from weft.optim import schedules
from weft.optim.clipping import clip_by_norm, clip_by_value, global_norm
from weft.optim.least_squares import GaussNewton, LevenbergMarquardt
from weft.optim.minimize import MinimizeResult, minimize
from weft.optim.optimizer import Optimizer
from weft.optim.quasi_newton import BFGS, LBFGS
from weft.optim.sam import SAM
from weft.optim.santa import SantaE, SantaSSS
from weft.optim.update_rules import (
    LAMB,
    SGD,
    SMORMS3,
    AdaBelief,
    AdaBound,
    AdaDelta,
    AdaGrad,
    Adam,
    AdaMax,
    AdamW,
    AMSBound,
    AMSGrad,
    Eve,
    Lion,
    Nadam,
    RMSprop,
    RMSpropGraves,
)

source_lines.part(__file__, "update")

__all__ = [
    "AMSBound", "AMSGrad", "AdaBelief", "AdaBound", "AdaDelta", "AdaGrad", "AdaMax", "Adam", "AdamW", "BFGS", "Eve",
    "GaussNewton", "LAMB", "LBFGS", "LevenbergMarquardt", "Lion", "MinimizeResult", "Nadam", "Optimizer", "RMSprop",
    "RMSpropGraves", "SAM", "SGD", "SMORMS3", "SantaE", "SantaSSS", "clip_by_norm", "clip_by_value", "global_norm",
    "minimize", "schedules",
]
