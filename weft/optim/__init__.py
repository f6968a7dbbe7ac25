"""Optimizers, schedules and gradient clipping.

``Optimizer`` manages the state; a subclass defines the update rule of one parameter. Rules are array code, so that a jitted step
compiles them.
"""

from weft.graph import source_lines
from weft.process.lazy_names import load_on_use

_NAMES = {  # file -> its public names; ``tools/stub.py`` writes them into ``__init__.pyi``
    "clipping": "clip_by_norm clip_by_value global_norm",
    "least_squares": "GaussNewton LevenbergMarquardt",
    "minimize": "MinimizeResult minimize",
    "optimizer": "Optimizer",
    "quasi_newton": "BFGS LBFGS",
    "sam": "SAM",
    "schedules": "schedules",
    "update_rules": """
        AMSBound AMSGrad AdaBelief AdaBound AdaDelta AdaGrad AdaMax Adam AdamW Eve LAMB Lion Nadam RMSprop
        RMSpropGraves SGD SMORMS3 SantaE SantaSSS""",
}

source_lines.part(__file__, "update")

__all__ = sorted(load_on_use(__name__, _NAMES))
