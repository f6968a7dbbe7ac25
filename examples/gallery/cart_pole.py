"""
Reinforcement learning
======================

A cart learns to balance a pole. The game is written in weft, too, so four thousand carts play two hundred steps and improve their
policy in one native call.

Barto, Sutton and Anderson: Neuronlike adaptive elements that can solve difficult learning control problems. 1983. Williams:
Simple statistical gradient-following algorithms. 1992.
"""

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

ROUNDS, CARTS, STEPS = 40, 4000, 200

# %%
# The physics of one cart, whose force is to the left (0) or to the right (1). `vmap` makes it that of many.


@wf.vmap
def move(state, action):
    x, speed, angle, turn = state
    push = (wf.where(action == 1, 10.0, -10.0) + 0.05 * turn**2 * wf.sin(angle)) / 1.1
    turn_rate = (9.8 * wf.sin(angle) - push * wf.cos(angle)) / (0.5 * (4 / 3 - 0.1 * wf.cos(angle) ** 2 / 1.1))
    acceleration = push - 0.05 * turn_rate * wf.cos(angle) / 1.1
    return state + 0.02 * wf.stack([speed, acceleration, turn, turn_rate])


def play(policy):
    def step(carry, _):
        state, alive = carry
        scores = policy(state)
        action = (scores + wf.random.gumbel(size=scores.shape)).argmax(axis=1)  # drawn from the softmax
        following = move(state, action)
        stands = (abs(following[:, 0]) < 2.4) & (abs(following[:, 2]) < 0.21)
        return (following, alive & stands), (state, action, alive)

    start = wf.random.uniform(-0.05, 0.05, size=(CARTS, 4)), wf.ones(CARTS, dtype=bool)
    return wf.scan(step, start, length=STEPS)[1]


# %%
# REINFORCE: actions become more probable if the pole then stood longer than those of the other carts.


def loss(policy, states, actions, alive, advantage):
    chosen = wf.take_along_axis(nn.log_softmax(policy(states), dim=2), actions[..., None], axis=2)[..., 0]
    return -(chosen * advantage * alive).sum() / alive.sum()


wf.random.seed(0)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = wf.optim.Adam(lr=0.02)


@wf.jit
def improve():
    states, actions, alive = play(policy)
    to_come = wf.cumsum(alive[::-1], axis=0)[::-1]  # steps that the pole will stand
    advantage = to_come - to_come.sum(axis=1, keepdims=True) / wf.maximum(alive.sum(axis=1, keepdims=True), 1)
    advantage = advantage / (advantage.std() + 1e-6)
    slope = wf.grad(loss)(policy, states, actions, alive, advantage)
    optimizer.update(policy, slope)
    return alive.sum(axis=0).mean()


before = play(policy)
stood = [float(improve()) for _ in range(ROUNDS)]
print(f"the pole stands {stood[0]:.0f} steps at first, {stood[-1]:.0f} of {STEPS} in the end")

# %%
# The angles of a hundred poles, before and after:

after = play(policy)
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
axes[0].plot(stood)
axes[0].set(xlabel="round", title="steps that the pole stands")
for axis, (states, _, alive), title in ((axes[1], before, "before"), (axes[2], after, "after")):
    angle = wf.where(alive, wf.degrees(states[..., 2]), np.nan)
    axis.plot(angle[:, :100], color="tab:blue", linewidth=0.3)
    axis.set(xlabel="step", title=f"angle in degrees, {title}", ylim=(-12, 12))
plt.show()
