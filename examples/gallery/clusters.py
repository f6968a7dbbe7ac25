"""
k-means and PCA
===============

Two classics, each a few lines: the principal components of the digits, and ten clusters of them that know no label.
"""

import matplotlib.pyplot as plt
import numpy as np

import weft as wf

CLUSTERS, STARTS, STEPS = 10, 50, 30

digits = wf.data.load_digits()
x = wf.asarray(digits.x_train.reshape(-1, 64))

# %%
# PCA: the eigenvectors of the covariance with the largest eigenvalues.

centered = x - x.mean(axis=0)
variances, components = wf.linalg.eigh(centered.T @ centered / len(x))
flat = centered @ components[:, :-3:-1]
print(f"two of 64 directions have {100 * float(variances[-2:].sum() / variances.sum()):.0f} % of the variance")

# %%
# k-means: assign each digit to the nearest center, move each center to the mean of its digits, repeat. `scan` makes one native
# loop of it, and `vmap` runs it from fifty starts at once.


def distances(centers):
    return (x**2).sum(axis=1)[:, None] - 2 * x @ centers.T + (centers**2).sum(axis=1)


def improve(centers, _):
    member = wf.one_hot(distances(centers).argmin(axis=1), CLUSTERS)
    count = member.sum(axis=0)[:, None]
    return wf.where(count > 0, member.T @ x / wf.maximum(count, 1), centers), None


@wf.jit
@wf.vmap
def find_clusters(key):
    start = x[wf.random.permutation(len(x), key=key)[:CLUSTERS]]
    centers, _ = wf.scan(improve, start, length=STEPS)
    return centers, distances(centers).min(axis=1).mean()


all_centers, errors = find_clusters(wf.random.split(wf.random.key(0), STARTS))
centers = all_centers[errors.argmin()]
print(f"mean squared distance from {float(errors.min()):.3f} to {float(errors.max()):.3f}")

# %%
# A cluster is named after its most frequent label.

cluster = distances(centers).argmin(axis=1).numpy()
names = np.array([np.bincount(digits.y_train[cluster == k]).argmax() for k in range(CLUSTERS)])
right = (names[cluster] == digits.y_train).mean()
print(f"{100 * right:.0f} % of the digits lie in a cluster of their name")

figure, axes = plt.subplots(2, 5, figsize=(5, 2.4), layout="constrained")
for axis, center, name in zip(axes.flat, centers.numpy(), names, strict=True):
    axis.imshow(center.reshape(8, 8), cmap="gray_r")
    axis.set_title(name, fontsize=10)
    axis.axis("off")

figure, both = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for axis, colour, title in zip(both, (digits.y_train, names[cluster]), ("labels", "clusters"), strict=True):
    axis.scatter(*flat.numpy().T, c=colour, cmap="tab10", s=5)
    axis.set_title(title)
plt.show()
