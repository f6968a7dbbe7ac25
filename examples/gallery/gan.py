"""
Generative adversarial net
==========================

Two nets play against each other: one draws digits, the other tells drawn from real ones. In the end the drawn ones look real.

Goodfellow et al.: Generative adversarial nets. 2014.
"""

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

STEPS, BATCH, CODE = 8000, 64, 16

digits = wf.data.load_digits()
images = wf.asarray(digits.x_train.reshape(-1, 64)) * 2 - 1

wf.random.seed(0)
artist = nn.Sequential(
    nn.Linear(CODE, 128), nn.BatchNorm1d(128), nn.ReLU(),
    nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(),
    nn.Linear(128, 64), nn.Tanh(),
)
critic = nn.Sequential(
    nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3),
    nn.Linear(128, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3),
    nn.Linear(128, 1),
)
artists_adam = wf.optim.Adam(lr=1e-3, betas=(0.5, 0.99)).init(artist)
critics_adam = wf.optim.Adam(lr=1e-3, betas=(0.5, 0.99)).init(critic)

# %%
# The critic's score is high for real digits. Each net has its own loss, its own gradient and its own optimizer.


def draw(artist):
    return artist(wf.random.normal(size=(BATCH, CODE)))


def critics_loss(critic, real, drawn):
    return nn.softplus(-critic(real)).mean() + nn.softplus(critic(drawn)).mean()


def artists_loss(artist):
    return nn.softplus(-critic(draw(artist))).mean()


def step(_, rows):
    one, slope = wf.value_and_grad(critics_loss)(critic, images[rows], draw(artist))
    critics_adam.update(critic, slope)
    other, slope = wf.value_and_grad(artists_loss)(artist)
    artists_adam.update(artist, slope)
    return None, wf.stack([one, other])


# %%
# Thousands of steps are one native call. Between four of them, the artist draws from the same forty codes.

codes, done = wf.random.normal(size=(40, CODE)), 0
figure, axes = plt.subplots(4, 1, figsize=(7, 4), layout="constrained")
for axis, until in zip(axes, (STEPS // 40, STEPS // 10, STEPS // 2, STEPS), strict=True):
    _, losses = wf.scan(step, None, wf.random.integers(0, len(images), size=(until - done, BATCH)))
    critics, artists = losses[-100:].mean(axis=0).tolist()
    print(f"{until:5d} steps: critic's loss {critics:.2f}, artist's {artists:.2f}")
    drawn, done = artist.eval()(codes), until
    artist.train()
    tiles = wf.pad(drawn.reshape(2, 20, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-1)
    axis.imshow(tiles.swapaxes(1, 2).reshape(20, 200), cmap="gray_r", vmin=-1, vmax=1)
    axis.set_title(f"{until} steps", fontsize=9)
    axis.axis("off")
plt.show()
