"""
Transfer learning
=================

A net that can read digits learns another question from a few examples: does the digit have a hole, as 0, 6, 8 and 9? Its body is
loaded from a file and frozen; only a new head is trained.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

EPOCHS, STEPS = 20, 400

digits = wf.data.load_digits()


def make_net(classes):
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(512, 64), nn.ReLU(),
    )
    return nn.Sequential(("body", body), ("head", nn.Linear(64, classes)))


# %%
# The first question: which digit is it?

wf.random.seed(0)
net = make_net(10)
wf.train.fit(net, digits.x_train, digits.y_train, epochs=EPOCHS, show=False)
file = os.path.join(tempfile.mkdtemp(), "digits.safetensors")
net.save(file)
print(f"{100 * wf.train.accuracy(net, digits.x_test, digits.y_test):.0f} % of the unseen digits read")

# %%
# The second question has at most 160 examples, none of which the first net has seen, and 200 tests. A new net learns the same
# examples.

hole = np.isin(digits.y_test, (0, 6, 8, 9)).astype("int32")
x, y, x_test, y_test = digits.x_test[:160], hole[:160], digits.x_test[160:], hole[160:]
counts = (10, 20, 40, 80, 160)
accuracy = {"body that reads digits": [], "new body": []}
for count in counts:
    for name, found in accuracy.items():
        net = make_net(10)
        if name != "new body":
            net.load(file).freeze("body")
        net.head = nn.Linear(64, 2)
        wf.train.fit(net, x[:count], y[:count], epochs=10 * STEPS // count, batch_size=10, show=False)
        found.append(wf.train.accuracy(net, x_test, y_test))
        print(f"{count:4d} examples, {name:22}  {100 * found[-1]:.0f} %")

plt.figure(figsize=(5, 3), layout="constrained")
for name, found in accuracy.items():
    plt.semilogx(counts, [100 * a for a in found], "o-", label=name)
plt.xticks(counts, counts)
plt.minorticks_off()
plt.xlabel("examples with the answer")
plt.ylabel("right answers, %")
plt.legend()
plt.show()
