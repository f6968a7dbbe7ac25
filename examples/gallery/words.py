"""
Word vectors
============

Words that stand in the same places get similar vectors. They learn to tell the words around a place from words drawn at random;
the text is that of Python's `help()`.

Mikolov et al.: Distributed representations of words and phrases and their compositionality. 2013.
"""

import re
from collections import Counter
from pydoc_data.topics import topics

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

EPOCHS, BATCH, WIDTH, WINDOW, NEGATIVES = 15, 200, 50, 4, 5

text = re.findall("[a-z]+", " ".join(topics.values()).lower())
count = Counter(text)
vocabulary = [word for word, n in count.most_common() if n >= 10]
number = {word: k for k, word in enumerate(vocabulary)}
codes = wf.array([number[word] for word in text if word in number], dtype="int32")
print(f"{len(codes):,} words, {len(vocabulary):,} different ones")

# %%
# Each word has one vector as the middle of a window, and another one as a neighbour. `sparse=True` updates only rows that a step
# has read.


class WordVectors(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = nn.Embedding(len(vocabulary), WIDTH, sparse=True)
        self.around = nn.Embedding(len(vocabulary), WIDTH, sparse=True)
        for table in (self.middle, self.around):
            table.weight = wf.random.normal(0, 0.1, size=table.weight.shape)

    def forward(self, place):
        near = codes[place[:, None] + wf.array([k for k in range(-WINDOW, WINDOW + 1) if k])]
        wrong = sampler.sample((len(place), NEGATIVES))
        mean = self.around(near).mean(axis=1)[:, :, None]
        right_score = self.middle(codes[place])[:, None] @ mean
        wrong_score = self.middle(wrong) @ mean
        return nn.softplus(-right_score).mean() + NEGATIVES * nn.softplus(wrong_score).mean()


wf.random.seed(0)
sampler = wf.data.UnigramSampler([count[word] for word in vocabulary], power=0.75)
model = WordVectors()
optimizer = wf.optim.Adam(lr=3e-3).init(model)


def step(_, place):
    loss, slope = wf.value_and_grad(lambda model: model(place))(model)
    optimizer.update(model, slope)
    return None, loss


steps = (len(codes) - 2 * WINDOW) // BATCH
for epoch in range(EPOCHS):
    places = WINDOW + wf.random.permutation(len(codes) - 2 * WINDOW)[: steps * BATCH].reshape(steps, BATCH)
    _, losses = wf.scan(step, None, places)
    if epoch % 3 == 0:
        print(f"epoch {epoch:2d}  loss {float(losses.mean()):.3f}")

# %%
# The nearest words of some, by the angle between vectors:

vectors = model.middle.weight / wf.linalg.norm(model.middle.weight, axis=1, keepdims=True)


def find_nearest(word, n=6):
    _, rows = wf.top_k(vectors @ vectors[number[word]], n + 1)
    return [vocabulary[k] for k in rows.tolist()[1:]]


for word in ("class", "integer", "loop", "import", "true", "left"):
    print(f"{word:8}", *find_nearest(word))

# %%
# The eighty most frequent words of five letters and more, on the plane of their two principal components:

shown = [number[word] for word in vocabulary if len(word) > 4][:80]
chosen = vectors[shown] - vectors[shown].mean(axis=0)
_, _, directions = wf.linalg.svd(chosen, full_matrices=False)
plt.figure(figsize=(8, 5), layout="constrained")
for k, (x, y) in zip(shown, (chosen @ directions[:2].T).tolist(), strict=True):
    plt.text(x, y, vocabulary[k], ha="center", fontsize=8)
plt.axis((-0.65, 0.65, -0.65, 0.65))
plt.axis("off")
plt.show()
