"""The names of ``wf.ode.*`` for type checkers and editors; ``__init__.py`` loads them from its files.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.ode.adjoint import Backsolve as Backsolve
from weft.ode.control import PI as PI, ConstantSteps as ConstantSteps
from weft.ode.events import Event as Event
from weft.ode.implicit import ImplicitEuler as ImplicitEuler, Kvaerno3 as Kvaerno3, Kvaerno5 as Kvaerno5
from weft.ode.runge_kutta import (
    RK4 as RK4, Bosh3 as Bosh3, Dopri5 as Dopri5, Dopri8 as Dopri8, Euler as Euler, Heun as Heun, Midpoint as Midpoint,
    Ralston as Ralston, Tsit5 as Tsit5,
)
from weft.ode.solve import Solution as Solution, solve as solve
from weft.ode.symplectic import Leapfrog as Leapfrog, SymplecticEuler as SymplecticEuler
