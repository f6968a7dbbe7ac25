"""
Read digits
===========

A small convolutional net learns to read 1,437 handwritten digits of 8 x 8 pixels, and is tested on 360 others. One step, that
is forward pass, gradient and update, is one native call.
"""

import matplotlib.pyplot as plt

import weft as wf
from weft import nn

EPOCHS = 30

digits = wf.data.load_digits()
print(digits.x_train.shape, digits.y_train.shape)

# %%
# A net is a list of layers. Those whose input width is `None` find it in their first batch.

wf.random.seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(None, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10),
)
history = wf.train.fit(
    net, digits.x_train, digits.y_train, epochs=EPOCHS, batch_size=32, optimizer=wf.optim.Adam(lr=2e-3),
    validation=(digits.x_test, digits.y_test), show=False,
)
accuracy = wf.train.accuracy(net, digits.x_test, digits.y_test)
print(f"{100 * accuracy:.1f} % of the unseen digits")

# %%
# The first twenty digits of the test, and what the net reads. Wrong ones are red.

guesses = wf.train.predict(net, digits.x_test).argmax(axis=1)
figure, axes = plt.subplots(2, 10, figsize=(8, 2), layout="constrained")
for axis, image, guess, label in zip(axes.flat, digits.x_test, guesses, digits.y_test, strict=False):
    axis.imshow(image[0], cmap="gray_r")
    axis.set_title(int(guess), color="black" if guess == label else "red", fontsize=10)
    axis.axis("off")

# %%
# The errors of training and test, epoch by epoch:

plt.figure(figsize=(5, 3), layout="constrained")
plt.semilogy(history.loss, label="training")
plt.semilogy(history["val_loss"], label="test")
plt.xlabel("epoch")
plt.ylabel("loss")
plt.legend()
plt.show()
