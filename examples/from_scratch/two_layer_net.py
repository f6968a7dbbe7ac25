"""A net of two layers for classification, and a check of its gradients by differences."""
import random

import numpy as np


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def cross_entropy(y, t):
    batch_size = y.shape[0]
    return -np.sum(np.log(y[np.arange(batch_size), t] + 1e-7)) / batch_size


def numerical_gradient(f, x, h=1e-4):
    grad = np.zeros_like(x)
    it = np.nditer(x, flags=["multi_index"], op_flags=["readwrite"])
    while not it.finished:
        idx = it.multi_index
        tmp = x[idx]
        x[idx] = tmp + h
        fxh1 = f()
        x[idx] = tmp - h
        fxh2 = f()
        grad[idx] = (fxh1 - fxh2) / (2 * h)
        x[idx] = tmp
        it.iternext()
    return grad


class TwoLayerNet:
    def __init__(self, input_size, hidden_size, output_size, weight_init_std=0.5):
        def randn(*shape):
            return np.array([[random.gauss(0, 1) for _ in range(shape[1])] for _ in range(shape[0])])

        self.params = {}
        self.params["W1"] = weight_init_std * randn(input_size, hidden_size)
        self.params["b1"] = np.zeros(hidden_size)
        self.params["W2"] = weight_init_std * randn(hidden_size, output_size)
        self.params["b2"] = np.zeros(output_size)

    def predict(self, x):
        h = np.tanh(np.dot(x, self.params["W1"]) + self.params["b1"])
        return softmax(np.dot(h, self.params["W2"]) + self.params["b2"])

    def loss(self, x, t):
        return cross_entropy(self.predict(x), t)

    def accuracy(self, x, t):
        return np.sum(np.argmax(self.predict(x), axis=1) == t) / float(x.shape[0])

    def gradient(self, x, t):
        W2 = self.params["W2"]
        z1 = np.tanh(np.dot(x, self.params["W1"]) + self.params["b1"])
        y = softmax(np.dot(z1, W2) + self.params["b2"])

        dy = y.copy()
        dy[np.arange(len(t)), t] -= 1
        dy /= len(t)
        grads = {}
        grads["W2"] = np.dot(z1.T, dy)
        grads["b2"] = np.sum(dy, axis=0)
        da1 = np.dot(dy, W2.T) * (1 - z1**2)
        grads["W1"] = np.dot(x.T, da1)
        grads["b1"] = np.sum(da1, axis=0)
        return grads

    def numerical_gradient(self, x, t):
        return {key: numerical_gradient(lambda: self.loss(x, t), p) for key, p in self.params.items()}


def make_spirals(n, classes=3):
    x = np.zeros((n * classes, 2))
    t = np.zeros(n * classes, dtype=int)
    for c in range(classes):
        for i in range(n):
            r = i / n
            theta = 4.0 * c + 4.0 * r + random.gauss(0, 0.1)
            x[n * c + i] = [r * np.sin(theta), r * np.cos(theta)]
            t[n * c + i] = c
    return x, t


def main(n=60, hidden=16, epochs=120, lr=1.0):
    random.seed(1)
    x, t = make_spirals(n)
    net = TwoLayerNet(2, hidden, 3)

    backprop = net.gradient(x[5::20], t[5::20])
    numerical = net.numerical_gradient(x[5::20], t[5::20])
    for key in backprop:
        print(f"{key}: average difference of the gradients {np.average(np.abs(backprop[key] - numerical[key])):.1e}")

    losses = []
    for epoch in range(epochs):
        grads = net.gradient(x, t)
        for key in net.params:
            net.params[key] -= lr * grads[key]
        losses.append(net.loss(x, t))
        if (epoch + 1) % 40 == 0:
            print("epoch %d, loss %.3f, accuracy %.2f" % (epoch + 1, losses[-1], net.accuracy(x, t)))
    return {
        "x": x, "backprop W1": backprop["W1"], "backprop b2": backprop["b2"], "numerical W1": numerical["W1"],
        "numerical b2": numerical["b2"], "losses": np.array(losses), "W2": net.params["W2"], "accuracy": net.accuracy(x, t),
    }


if __name__ == "__main__":
    main()
