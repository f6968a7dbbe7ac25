"""Optimizers, schedules and gradient clipping.

``Optimizer`` manages the state; a subclass defines the update rule of one parameter. Rules are array code, so that a jitted step
compiles them.
"""

from weft.graph import source_lines
from weft.optim import schedules, update_rules
from weft.optim.clipping import clip_by_norm, clip_by_value, global_norm
from weft.optim.least_squares import GaussNewton, LevenbergMarquardt
from weft.optim.minimize import MinimizeResult, minimize
from weft.optim.optimizer import Optimizer
from weft.optim.quasi_newton import BFGS, LBFGS
from weft.optim.sam import SAM
from weft.optim.update_rules import *  # noqa: F403

source_lines.part(__file__, "update")

__all__ = [
    "BFGS", "GaussNewton", "LBFGS", "LevenbergMarquardt", "MinimizeResult", "Optimizer", "SAM", "clip_by_norm", "clip_by_value",
    "global_norm", "minimize", "schedules",
]
__all__ += update_rules.__all__
