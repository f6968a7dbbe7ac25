"""
Several machines
================

A loop of one's own, on several ranks: each computes the gradient of its part of a batch, and `wf.dist.average` replaces it by the
mean of all. Without `weft launch` the program is a job of one rank.
"""

import os
import subprocess
import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

STEPS, BATCH = 100, 128

rank, size = wf.dist.rank(), wf.dist.size()
digits = wf.data.load_digits()
images, labels = wf.asarray(digits.x_train), wf.asarray(digits.y_train)

# %%
# The seed gives all ranks the same weights and the same batches. Each takes every `size`-th row of a batch.

wf.random.seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10),
)
optimizer = wf.optim.Adam(lr=2e-3).init(net)


def error(net, rows):
    return wf.losses.cross_entropy(net(images[rows]), labels[rows])


@wf.jit
def step():
    rows = wf.random.permutation(len(images))[rank:BATCH:size]
    loss, slope = wf.value_and_grad(error)(net, rows)
    loss, slope = wf.dist.average([loss, slope], rows=len(rows))
    optimizer.update(net, slope)
    return loss


losses = [float(step()) for _ in range(STEPS)]
accuracy = wf.train.accuracy(net, digits.x_test, digits.y_test)
folder = os.environ.setdefault("LOSSES_FOLDER", tempfile.mkdtemp())  # the other jobs' folder, too
if rank == 0:
    print(f"{size} rank(s): loss {losses[-1]:.6f}, {100 * accuracy:.1f} % of the unseen digits read")
    np.save(f"{folder}/{size}.npy", losses)

# %%
# The same file as jobs of two and three ranks, on this machine. In a shell this is `weft launch -n 3 ranks.py`. The losses differ
# by the rounding of sums in another order; `fit(shards=)` has equal bits.

if size == 1:
    plt.figure(figsize=(5, 3), layout="constrained")
    for ranks in (2, 3):
        command = [sys.executable, "-m", "weft.tools.cli", "launch", "-n", str(ranks), sys.argv[0]]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")
        plt.semilogy(abs(np.load(f"{folder}/{ranks}.npy") - losses), label=f"{ranks} ranks")
    plt.semilogy(losses, "k", label="loss of one rank")
    plt.xlabel("step")
    plt.ylabel("difference from one rank")
    plt.legend()
    plt.show()
