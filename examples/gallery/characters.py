"""
A transformer that writes
=========================

Two transformer layers learn to predict the next character of a text, and then write on by themselves. The text is one that every
Python has: the topics of its own `help()`.
"""

from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

STEPS, BATCH, CONTEXT, WIDTH, HEADS = 2000, 16, 48, 96, 4

text = "\n".join(topics.values())
alphabet = sorted(set(text))
codes = wf.array(np.searchsorted(alphabet, list(text)), dtype="int32")
print(f"{len(text):,} characters, {len(alphabet)} different ones")

# %%
# A character and its place become a vector each. `TransformerEncoderLayer` is attention and a small net; `is_causal` hides
# what comes later.


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.characters = nn.Embedding(len(alphabet), WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.layers = [nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, norm_first=True) for _ in range(2)]
        self.out = nn.Linear(WIDTH, len(alphabet))

    def forward(self, x):
        x = self.characters(x) + self.places.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, is_causal=True)
        return self.out(x)


# %%
# A step draws pieces of the text at random places, and predicts each of their characters from those before it.

wf.random.seed(0)
model = Writer()
optimizer = wf.optim.Adam(lr=3e-3, schedule=wf.optim.schedules.cosine(STEPS))


def error(model, piece):
    scores = model(piece[:, :-1])
    return wf.losses.cross_entropy(scores.reshape(-1, len(alphabet)), piece[:, 1:].ravel())


@wf.jit
def step():
    start = wf.random.integers(0, len(codes) - CONTEXT, size=(BATCH, 1))
    piece = codes[start + wf.arange(CONTEXT + 1)]
    loss, slope = wf.value_and_grad(error)(model, piece)
    optimizer.update(model, slope)
    return loss


losses = [float(step()) for _ in range(STEPS)]
print(f"{losses[0]:.2f} nats a character at first, {np.mean(losses[-100:]):.2f} in the end")

# %%
# To write, draw the next character from the predicted probabilities, append it, and predict again. Adding Gumbel noise to scores
# and taking the largest draws from their softmax.


@wf.jit
def write(last):
    scores = model(last)[:, -1]
    following = (scores / 0.7 + wf.random.gumbel(size=scores.shape)).argmax(axis=1)
    return wf.concat([last[:, 1:], following[:, None]], axis=1)


last = codes[:CONTEXT][None]
written = []
for _ in range(400):
    last = write(last)
    written.append(int(last[0, -1]))
print("".join(alphabet[k] for k in written))

# %%
# What does it know? Each character is as blue as it was probable after those before it in its row.

rows = codes[1000 : 1000 + 8 * CONTEXT].reshape(8, CONTEXT)
probable = wf.take_along_axis(nn.softmax(model(rows)[:, :-1], dim=2), rows[:, 1:, None], axis=2)[..., 0]
plt.figure(figsize=(9, 2.6), layout="constrained")
plt.imshow(probable, cmap="Blues", vmin=0, vmax=1.5, aspect="auto")
for (row, column), k in np.ndenumerate(rows[:, 1:].numpy()):
    plt.text(column, row, alphabet[k].replace("\n", "\u00b6"), ha="center", va="center", family="monospace")
plt.axis("off")
plt.show()
