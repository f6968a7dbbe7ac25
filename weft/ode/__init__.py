"""Ordinary differential equations: solvers whose steps are one native loop, with events and gradients.

``solve`` runs a solver, which is a tableau of coefficients or a few lines, under a control of the step size.
"""

from weft.ode.adjoint import Backsolve
from weft.ode.control import PI, ConstantSteps
from weft.ode.events import Event
from weft.ode.implicit import ImplicitEuler, Kvaerno3, Kvaerno5
from weft.ode.runge_kutta import RK4, Bosh3, Dopri5, Dopri8, Euler, Heun, Midpoint, Ralston, Tsit5
from weft.ode.solve import Solution, solve
from weft.ode.symplectic import Leapfrog, SymplecticEuler

__all__ = [
    "PI", "RK4", "Backsolve", "Bosh3", "ConstantSteps", "Dopri5", "Dopri8", "Euler", "Event", "Heun", "ImplicitEuler",
    "Kvaerno3", "Kvaerno5", "Leapfrog", "Midpoint", "Ralston", "Solution", "SymplecticEuler", "Tsit5", "solve",
]
