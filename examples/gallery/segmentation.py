"""
Segmentation with a U-Net
=========================

Which pixels of a noisy picture belong to a disc, which to a square? A U-Net looks at the picture in three sizes. The pictures are
drawn by the training step itself.

Ronneberger, Fischer and Brox: U-Net. 2015.
"""

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

STEPS, BATCH, SIZE, SHAPES = 300, 16, 32, 3

# %%
# Later shapes lie over earlier ones. All have one grey.

column, row = wf.meshgrid(wf.arange(SIZE), wf.arange(SIZE))


def draw():
    labels = wf.zeros((BATCH, SIZE, SIZE), dtype="int32")
    for k in range(SHAPES):
        kind = 1 + k % 2  # discs and squares in turns
        x, y = wf.random.uniform(0, SIZE, size=(2, BATCH, 1, 1))
        radius = wf.random.uniform(5, 9, size=(BATCH, 1, 1))
        across, down = abs(column - x), abs(row - y)
        inside = wf.hypot(across, down) < radius if kind == 1 else wf.maximum(across, down) < 0.9 * radius
        labels = wf.where(inside, kind, labels)
    return ((labels > 0) + 0.4 * wf.random.normal(size=labels.shape))[:, None], labels


# %%
# On the way down the pictures become smaller and deeper; on the way up each size also sees what its sister saw on the way down.


def convolve(before, after):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.down = [convolve(1, width), convolve(width, 2 * width)]
        self.bottom = convolve(2 * width, 4 * width)
        self.up = [nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2), nn.ConvTranspose2d(2 * width, width, 2, stride=2)]
        self.join = [convolve(4 * width, 2 * width), convolve(2 * width, width)]
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        seen = []
        for layer in self.down:
            seen.append(layer(x))
            x = nn.max_pool2d(seen[-1], 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(wf.concat([up(x), seen.pop()], axis=1))
        return self.out(x)


wf.random.seed(0)
model = UNet()
optimizer = wf.optim.Adam(lr=3e-3, schedule=wf.optim.schedules.cosine(STEPS))


@wf.jit
def step():
    x, labels = draw()
    loss, slope = wf.value_and_grad(lambda model: wf.losses.cross_entropy(model(x), labels))(model)
    optimizer.update(model, slope)
    return loss


losses = [float(step()) for _ in range(STEPS)]
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} in the end")

# %%
# New pictures, what was found, and the truth:

model.eval()
pictures, truth = draw()
found = model(pictures).argmax(axis=1)
right = float((found == truth).mean())
print(f"{100 * right:.1f} % of the pixels are right, {100 * float((truth == 0).mean()):.1f} % are background")

figure, axes = plt.subplots(3, 8, figsize=(9, 3.5), layout="constrained")
for images, cmap, line in zip((pictures[:, 0], found, truth), ("gray", "viridis", "viridis"), axes, strict=True):
    for image, axis in zip(images.numpy(), line, strict=False):
        axis.imshow(image, cmap=cmap)
        axis.axis("off")
plt.show()
