"""
Variational autoencoder
=======================

An encoder maps each digit to a normal distribution over two numbers, and a decoder maps two numbers back to a digit. The plane
between them becomes a map of all digits, from which new ones are drawn.

Kingma and Welling: Auto-encoding variational Bayes. 2013.
"""

import matplotlib.pyplot as plt
import numpy as np

import weft as wf
from weft import nn

STEPS, BATCH = 6000, 128

digits = wf.data.load_digits()
images = wf.asarray(digits.x_train.reshape(-1, 64))

# %%
# The loss is the error of the reconstruction, plus what the code tells: the divergence of its distribution from a standard
# normal one.


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 4))
        self.decoder = nn.Sequential(nn.Linear(2, 64), nn.GELU(), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def encode(self, x):
        mean, log_variance = wf.split(self.encoder(x), 2, axis=1)
        return mean, log_variance

    def forward(self, x):
        mean, log_variance = self.encode(x)
        z = mean + wf.exp(log_variance / 2) * wf.random.normal(size=mean.shape)
        error = wf.losses.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").sum(axis=1)
        divergence = 0.5 * (mean**2 + wf.exp(log_variance) - log_variance - 1).sum(axis=1)
        return (error + divergence).mean()


# %%
# All steps are one native call: `wf.scan` repeats one, and keeps the losses.

wf.random.seed(0)
model = VAE()
optimizer = wf.optim.Adam(lr=2e-3, schedule=wf.optim.schedules.cosine(STEPS)).init(model)


def step(_, rows):
    loss, slope = wf.value_and_grad(lambda model: model(images[rows]))(model)
    optimizer.update(model, slope)
    return None, loss


_, losses = wf.scan(step, None, wf.random.integers(0, len(images), size=(STEPS, BATCH)))
print(f"loss {float(losses[:100].mean()):.2f} at first, {float(losses[-100:].mean()):.2f} in the end")

# %%
# Where the digits lie on the plane, and what the decoder draws at the places of a grid:

codes, _ = model.encode(images)
grid = np.linspace(-2.2, 2.2, 16, dtype="float32")
places = np.stack(np.meshgrid(grid, grid[::-1]), axis=-1).reshape(-1, 2)
drawn = nn.sigmoid(model.decoder(places)).reshape(16, 16, 8, 8)
drawn = wf.pad(drawn, ((0, 0), (0, 0), (1, 1), (1, 1)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
dots = left.scatter(*codes.numpy().T, c=digits.y_train, cmap="tab10", s=6)
left.set_aspect("equal")
figure.colorbar(dots, ax=left, ticks=range(10))
right.imshow(drawn.swapaxes(1, 2).reshape(160, 160), cmap="gray_r", extent=(-2.2, 2.2, -2.2, 2.2))
plt.show()
