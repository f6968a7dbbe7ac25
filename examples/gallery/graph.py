"""
Graph network
=============

Three hundred people belong to three groups, and most of their friends to the same one. The group of nine people is known. Whose
are the others? A graph network learns it from the friendships alone.

Kipf and Welling: Semi-supervised classification with graph convolutional networks. 2017.
"""

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

STEPS, PEOPLE, GROUPS, KNOWN = 200, 300, 3, 3

# %%
# Two people of one group are friends with probability 0.1, others with 0.01. The graph is two lists: the ends of each friendship,
# in both directions.

wf.random.seed(0)
group = wf.arange(PEOPLE) % GROUPS
chance = wf.where(group[:, None] == group, 0.1, 0.01)
friends = wf.triu(wf.random.uniform(size=(PEOPLE, PEOPLE)) < chance, 1)
one, other = wf.nonzero(friends | friends.T)
degree = wf.bincount(one, minlength=PEOPLE)[:, None]
print(f"{len(one) // 2} friendships, of a person {int(degree.min())} to {int(degree.max())}")

# %%
# A layer maps the mean of the features of a person and of their friends. The first features are random: they say nothing but who
# is who.


class GraphLayer(nn.Linear):
    def forward(self, x):
        mean = wf.scatter_add(x, one, x[other]) / (1 + degree)
        return super().forward(mean)


people = wf.random.normal(size=(PEOPLE, 64))
body = nn.Sequential(GraphLayer(64, 32), nn.Tanh(), GraphLayer(32, 32), nn.Tanh(), GraphLayer(32, 2))
net = nn.Sequential(("body", body), ("head", nn.Linear(2, GROUPS)))
known = GROUPS * KNOWN


def loss(net):
    return wf.losses.cross_entropy(net(people)[:known], group[:known])


net = wf.optim.minimize(loss, net, wf.optim.AdamW(0.01, weight_decay=0.1), steps=STEPS).params
right = float((net(people).argmax(axis=1) == group).mean())
print(f"{100 * right:.1f} % of the people in the right group")

# %%
# The last hidden layer places the people on a plane. The known ones are stars.

x, y = net.body(people).numpy().T
plt.figure(figsize=(5, 4.5), layout="constrained")
plt.plot(x[wf.stack([one, other])], y[wf.stack([one, other])], color="gray", linewidth=0.1)
plt.scatter(x, y, c=group, cmap="brg", s=12, zorder=2)
plt.scatter(x[: known], y[: known], c=group[: known], cmap="brg", marker="*", s=250, zorder=3)
plt.axis("off")
plt.show()
