"""
GPT
===

The model of nanoGPT in forty lines: attention, layers and optimizer have its shape and its names, at a size for two cores. It
learns the topics of Python's `help()`, character by character.

Radford et al.: Language models are unsupervised multitask learners. 2019. Karpathy: nanoGPT. 2022.
"""

from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

STEPS, BATCH, BLOCK, LAYERS, HEADS, WIDTH = 1500, 12, 64, 4, 4, 128

text = "\n".join(topics.values())
alphabet = sorted(set(text))
codes = wf.array(np.searchsorted(alphabet, list(text)), dtype="int32")
train, test = codes[: -len(codes) // 10], codes[-len(codes) // 10 :]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        qkv = self.c_attn(x).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)  # (batch, heads, places, features)
        y = nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.swapaxes(1, 2).reshape(x.shape))


def make_block():
    return nn.Sequential(
        nn.Residual(nn.LayerNorm(WIDTH), Attention()),
        nn.Residual(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)),
    )


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(alphabet), WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.h = [make_block() for _ in range(LAYERS)]
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(alphabet), bias=False)
        for weight in self.parameters().values():
            if weight.ndim == 2:
                weight[...] = wf.random.normal(0, 0.02, size=weight.shape)
        self.wte.weight = self.lm_head.weight  # one array with two names

    def forward(self, codes):
        x = self.wte(codes) + self.wpe.weight[: codes.shape[1]]
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


# %%
# The optimizer is nanoGPT's too: matrices decay, the rate rises and then falls with a cosine, and gradients are clipped.

wf.random.seed(0)
model = GPT()
print(f"{sum(p.size for p in model.parameters().values()):,} parameters")
optimizer = wf.optim.AdamW(
    lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1, clip_norm=1.0,
    groups={name: {"weight_decay": 0.0} for name, p in model.parameters().items() if p.ndim < 2},
    schedule=wf.optim.schedules.warmup(STEPS // 15, wf.optim.schedules.cosine(STEPS, least=0.1)),
)


def draw(text):
    start = wf.random.integers(0, len(text) - BLOCK, size=(BATCH, 1))
    return text[start + wf.arange(BLOCK + 1)]


def error(model, piece):
    scores = model(piece[:, :-1])
    return wf.losses.cross_entropy(scores.reshape(-1, len(alphabet)), piece[:, 1:].ravel())


@wf.jit
def step():
    loss, slope = wf.value_and_grad(error)(model, draw(train))
    optimizer.update(model, slope)
    return loss


losses = [float(step()) for _ in range(STEPS)]
unseen = float(wf.map(lambda _: error(model, draw(test)), wf.arange(50)).mean())
print(f"{unseen:.2f} nats a character of the unseen text")

plt.figure(figsize=(5, 3), layout="constrained")
plt.plot(losses, linewidth=0.5, label="training")
plt.axhline(unseen, color="black", linewidth=1, label="unseen text, in the end")
plt.xlabel("step")
plt.ylabel("nats a character")
plt.legend()
plt.show()

# %%
# What it writes. Gumbel noise draws from the softmax of the scores.


@wf.jit
def write(last):
    scores = model(last)[:, -1]
    following = (scores / 0.6 + wf.random.gumbel(size=scores.shape)).argmax(axis=1)
    return wf.concat([last[:, 1:], following[:, None]], axis=1)


last, written = test[None, :BLOCK], []
for _ in range(600):
    last = write(last)
    written.append(int(last[0, -1]))
print("".join(alphabet[k] for k in written))
