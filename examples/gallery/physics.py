"""
Physics-informed net
====================

A net finds the solution of Burgers' equation, `u_t + u u_x = 0.03 u_xx`. It sees no data: its loss is how badly it fulfils
the equation, the wave at the start, and the ends.

Raissi, Perdikaris and Karniadakis: Physics-informed neural networks. 2019.
"""

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

STEPS, FINE_STEPS, POINTS, VISCOSITY = 3000, 1000, 1000, 0.03

wf.random.seed(0)
net = nn.Sequential(
    nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1),
)


def u(net, t, x):
    return net(wf.stack([t, x], axis=-1))[..., 0]


# %%
# Derivatives of the net are functions like the net: along `t` and, twice, along `x`.


def derivative(f, x):
    return wf.jvp(f, (x,), (wf.ones_like(x),))[1]


def residual(net, t, x):
    u_t = derivative(lambda t: u(net, t, x), t)
    u_x = derivative(lambda x: u(net, t, x), x)
    u_xx = derivative(lambda x: derivative(lambda x: u(net, t, x), x), x)
    return u_t + u(net, t, x) * u_x - VISCOSITY * u_xx


t, x = wf.random.uniform(0, 1, size=POINTS), wf.random.uniform(-1, 1, size=POINTS)
t_end = wf.linspace(0, 1, 100)
x_start = wf.linspace(-1, 1, 200)


def loss(net):
    equation = (residual(net, t, x) ** 2).mean()
    start = ((u(net, 0 * x_start, x_start) + wf.sin(np.pi * x_start)) ** 2).mean()
    ends = (u(net, t_end, wf.ones(100)) ** 2 + u(net, t_end, -wf.ones(100)) ** 2).mean()
    return equation + start + ends


# %%
# Adam comes near, L-BFGS goes on.

rough = wf.optim.minimize(loss, net, wf.optim.Adam(5e-3, schedule=wf.optim.schedules.cosine(STEPS)), steps=STEPS)
fine = wf.optim.minimize(loss, rough.params, "L-BFGS", steps=FINE_STEPS)
print(f"loss {float(loss(net)):.1e} at first, {rough.loss:.1e} after Adam, {fine.loss:.1e} after L-BFGS")

# %%
# The wave becomes steep where it meets itself. This equation also has an exact solution, the integral of Cole and Hopf.


def solve(t, x):
    nodes, weights = np.polynomial.hermite.hermgauss(80)
    y = x[..., None] - np.sqrt(4 * VISCOSITY * t)[..., None] * nodes
    density = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -(np.sin(np.pi * y) * density).sum(axis=-1) / density.sum(axis=-1)


times, places = np.meshgrid(np.linspace(0, 1, 101), np.linspace(-1, 1, 401), indexing="ij")
wave, exact = u(fine.params, wf.float32(times), wf.float32(places)).numpy(), solve(times, places)
print(f"largest error {np.abs(wave - exact).max():.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
picture = left.imshow(wave.T, extent=(0, 1, -1, 1), aspect="auto", cmap="RdBu", origin="lower")
left.set(xlabel="t", ylabel="x", title="u(t, x)")
figure.colorbar(picture, ax=left)
for k in (0, 25, 50, 100):
    right.plot(places[k], wave[k], label=f"t = {times[k, 0]:.2f}")
    right.plot(places[k], exact[k], "k:", linewidth=1)
right.set(xlabel="x", title="net, and exact solution (dotted)")
right.legend()
plt.show()
