"""NeuralODE: a net as the right side of a differential equation."""

from __future__ import annotations

from typing import Any

from weft.nn.module import Module


class NeuralODE(Module):
    """Solve ``dy/dt = net(y)`` from a first state, see :func:`weft.ode.solve`.

    A batch of first states has one step size; :func:`weft.vmap` gives each example its own.

    Parameters
    ----------
    net : module from a state to an array like it
    solver : a method of ``wf.ode``; None is ``Tsit5()``
    ts : times; the first is that of the first state. With two times, the result is the state at the second. With more, it is the
        states at all of them, along a first axis
    rtol, atol, control, adjoint, max_steps, dt0 : as in :func:`weft.ode.solve`
    takes_time : whether the net is called with ``(t, y)``

    Examples
    --------
    >>> import weft as wf
    >>> net = wf.nn.Sequential(wf.nn.Linear(2, 16), wf.nn.Tanh(), wf.nn.Linear(16, 2))
    >>> wf.nn.NeuralODE(net)(wf.ones((5, 2))).shape
    (5, 2)
    >>> wf.nn.NeuralODE(net, ts=[0.0, 0.5, 1.0])(wf.ones(2)).shape
    (3, 2)
    """

    def __init__(
        self, net: Module, solver: Any = None, ts: Any = (0.0, 1.0), rtol: float = 1e-3, atol: float = 1e-6,
        control: Any = None, adjoint: Any = None, max_steps: int = 4096, dt0: float | None = None, takes_time: bool = False,
    ) -> None:
        super().__init__()
        self.net, self.solver, self.ts, self.rtol, self.atol = net, solver, ts, rtol, atol
        self.control, self.adjoint, self.max_steps, self.dt0, self.takes_time = control, adjoint, max_steps, dt0, takes_time

    def forward(self, y: Any) -> Any:
        """Return the state at the last of two times, or the states at all times."""
        from weft.ode import Tsit5, solve  # a net without differential equations does not need them

        takes_time = self.takes_time
        out = solve(
            lambda t, y, net: net(t, y) if takes_time else net(y), y, self.ts, args=self.net, solver=self.solver or Tsit5(),
            rtol=self.rtol, atol=self.atol, control=self.control, adjoint=self.adjoint, max_steps=self.max_steps, dt0=self.dt0,
        )
        return out.ys[-1] if len(self.ts) == 2 else out.ys
