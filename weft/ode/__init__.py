"""Ordinary differential equations: solvers whose steps are one native loop, with events and gradients.

``solve`` runs a solver, which is a tableau of coefficients or a few lines, under a control of the step size.
"""

from weft.process.lazy_names import load_on_use

_NAMES = {  # file -> its public names; ``tools/stub.py`` writes them into ``__init__.pyi``
    "adjoint": "Backsolve",
    "control": "PI ConstantSteps",
    "events": "Event",
    "implicit": "ImplicitEuler Kvaerno3 Kvaerno5",
    "runge_kutta": "RK4 Bosh3 Dopri5 Dopri8 Euler Heun Midpoint Ralston Tsit5",
    "solve": "Solution solve",
    "symplectic": "Leapfrog SymplecticEuler",
}

__all__ = sorted(load_on_use(__name__, _NAMES))
