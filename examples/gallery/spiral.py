"""
Neural differential equation
============================

A net learns the right side of `du/dt = f(u)` from 30 points of one trajectory, a spiral. The gradient goes through an adaptive
solver.

Chen et al.: Neural ordinary differential equations. 2018. Rackauckas et al.: DiffEqFlux. 2019.
"""

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

STEPS, FINE_STEPS = 300, 300

times = np.linspace(0, 1.5, 30)
start = wf.array([2.0, 0.0])
matrix = wf.array([[-0.1, 2.0], [-2.0, -0.1]])
data = wf.ode.solve(lambda t, u, p: matrix @ u**3, start, times, rtol=1e-6).ys

# %%
# The net sees the cubes of the state. `NeuralODE` is a layer: it maps a start to the states at the times.

wf.random.seed(0)
net = nn.Sequential(lambda u: u**3, nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
model = nn.NeuralODE(net, ts=times, rtol=1e-5)


def loss(model):
    return ((model(start) - data) ** 2).mean()


rough = wf.optim.minimize(loss, model, wf.optim.Adam(0.05), steps=STEPS)
fine = wf.optim.minimize(loss, rough.best_params, "L-BFGS", steps=FINE_STEPS)
print(f"loss {float(loss(model)):.1f} at first, {rough.best_loss:.1e} after Adam, {fine.loss:.1e} after L-BFGS")

# %%
# The arrows are the directions of the net's right side, which it knows near the data only.

plt.figure(figsize=(5, 4.5), layout="constrained")
places = np.stack(np.meshgrid(*2 * [np.linspace(-2.4, 2.4, 17, dtype="float32")]), axis=-1)
arrows = fine.params.net(places).numpy()
plt.quiver(*places.T, *(arrows / np.linalg.norm(arrows, axis=-1, keepdims=True)).T, color="lightgray")
dense = np.linspace(0, 1.5, 301)
for name, trained in (("before", model), ("fitted", fine.params)):
    plt.plot(*nn.NeuralODE(trained.net, ts=dense, rtol=1e-5)(start).T, label=name)
plt.plot(*data.T, "o", markersize=4, label="data")
plt.axis((-2.4, 2.4, -2.4, 2.4))
plt.legend()
plt.show()
