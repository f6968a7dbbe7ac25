"""
Number formats
==============

How few bits does a net need? A small one learns the digits again and again, each time with its products rounded to another number
format: weights, activations, gradients, or all three.
"""

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

EPOCHS, WIDTH = 10, 64

digits = wf.data.load_digits()


def train(precision):
    """Return the share of wrong digits in percent."""
    wf.random.seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    adam = wf.optim.Adam(lr=3e-3)
    wf.train.fit(net, digits.x_train, digits.y_train, epochs=EPOCHS, optimizer=adam, precision=precision, show=False)
    with wf.precision(precision):
        return 100 * (1 - wf.train.accuracy(net, digits.x_test, digits.y_test))


exact = train(wf.Precision())
print(f"float32: {exact:.1f} % of the unseen digits are wrong")

# %%
# A format may have any number of bits. The third one has five: a sign, two for the exponent and two digits. Stochastic rounding
# goes up or down at random, and is right on average.

formats = {
    "8 bits (e4m3)": wf.float8_e4m3fn,
    "6 bits (e2m3)": wf.float6_e2m3fn,
    "5 bits (e2m2)": wf.float_dtype(2, 2, infinities=False, nans=False),
    "4 bits (e2m1)": wf.float4_e2m1fn,
}
roles = ("weights", "activations", "gradients")
errors = {}
for rounding in ("nearest", "stochastic"):
    for role in (*roles, "all three"):
        chosen = roles if role == "all three" else (role,)
        for name, form in formats.items():
            precision = wf.Precision(**dict.fromkeys(chosen, form), rounding=rounding)
            errors[role, rounding, name] = train(precision)
        print(f"{role:12}{rounding:11}", *(f"{errors[role, rounding, name]:5.1f} %" for name in formats))

# %%
# Gradients are small, and below the smallest number of most of these formats, to nearest they become zero.

figure, axes = plt.subplots(1, 4, figsize=(9, 3), sharey=True, layout="constrained")
for axis, role in zip(axes, (*roles, "all three"), strict=True):
    for rounding in ("nearest", "stochastic"):
        axis.plot([errors[role, rounding, name] for name in formats], "o-", label=rounding)
    axis.axhline(exact, color="black", linewidth=0.8, label="float32")
    axis.set_xticks(range(len(formats)), formats, rotation=60, ha="right", fontsize=8)
    axis.set_title(role)
axes[0].set_ylabel("wrong digits, %")
axes[0].legend()
plt.show()
