"""
Diffusion
=========

A net learns to tell the noise in a noisy digit. To draw a digit, start with nothing but noise and remove it step by step. The
net is told which digit to draw.

Ho, Jain and Abbeel: Denoising diffusion probabilistic models. 2020.
"""

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

STEPS, BATCH, LEVELS, WIDTH = 6000, 64, 100, 192

digits = wf.data.load_digits()
images = wf.asarray(digits.x_train.reshape(-1, 64)) * 2 - 1
labels = wf.asarray(digits.y_train)

# %%
# At level `t`, an image is `sqrt(kept[t])` of the digit and `sqrt(1 - kept[t])` of noise.

beta = wf.linspace(1e-3, 0.12, LEVELS)
kept = wf.cumprod(1 - beta)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.level, self.label = nn.Embedding(LEVELS, WIDTH), nn.Embedding(10, WIDTH)
        self.first, self.last = nn.Linear(64, WIDTH), nn.Linear(WIDTH, 64)
        self.blocks = [
            nn.Residual(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH)) for _ in range(3)
        ]

    def forward(self, x, t, label):
        h = self.first(x) + self.level(t) + self.label(label)
        for block in self.blocks:
            h = block(h)
        return self.last(nn.silu(h))


def loss(model, x, label):
    t = wf.random.integers(0, LEVELS, size=len(x))
    noise = wf.random.normal(size=x.shape)
    noisy = wf.sqrt(kept[t])[:, None] * x + wf.sqrt(1 - kept[t])[:, None] * noise
    return wf.losses.mse(model(noisy, t, label), noise)


# %%
# All steps of the training are one native call.

wf.random.seed(0)
model = Denoiser()
optimizer = wf.optim.Adam(lr=1e-3, schedule=wf.optim.schedules.cosine(STEPS)).init(model)


def step(_, rows):
    value, slope = wf.value_and_grad(loss)(model, images[rows], labels[rows])
    optimizer.update(model, slope)
    return None, value


_, losses = wf.scan(step, None, wf.random.integers(0, len(images), size=(STEPS, BATCH)))
print(f"loss {float(losses[:100].mean()):.3f} at first, {float(losses[-100:].mean()):.3f} in the end")

# %%
# So is the drawing of a hundred digits, ten of each kind. The last row of pictures shows one of them at ten levels.

label = wf.arange(100) // 10


def denoise(x, t):
    noise = model(x, wf.full(len(x), t), label)
    x = (x - beta[t] / wf.sqrt(1 - kept[t]) * noise) / wf.sqrt(1 - beta[t])
    return wf.where(t > 0, x + wf.sqrt(beta[t]) * wf.random.normal(size=x.shape), x), x


drawn, path = wf.scan(denoise, wf.random.normal(size=(100, 64)), wf.arange(LEVELS)[::-1])


def mosaic(images):
    images = wf.pad(images.reshape(-1, 10, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-1)
    return images.swapaxes(1, 2).reshape(-1, 100)


figure, (top, bottom) = plt.subplots(2, 1, figsize=(5, 5.6), height_ratios=(10, 1), layout="constrained")
top.imshow(mosaic(drawn), cmap="gray_r", vmin=-1, vmax=1)
bottom.imshow(mosaic(path[LEVELS // 10 - 1 :: LEVELS // 10, 35]), cmap="gray_r", vmin=-1, vmax=1)
for axis in (top, bottom):
    axis.axis("off")
plt.show()
