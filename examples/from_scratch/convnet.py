"""A convolutional net by im2col: convolution, max pooling, affine layer, all derivatives by hand."""
import random

import numpy as np


def im2col(input_data, filter_h, filter_w, stride=1, pad=0):
    N, C, H, W = input_data.shape
    out_h = (H + 2 * pad - filter_h) // stride + 1
    out_w = (W + 2 * pad - filter_w) // stride + 1

    img = np.pad(input_data, [(0, 0), (0, 0), (pad, pad), (pad, pad)], "constant")
    col = np.zeros((N, C, filter_h, filter_w, out_h, out_w))
    for y in range(filter_h):
        y_max = y + stride * out_h
        for x in range(filter_w):
            x_max = x + stride * out_w
            col[:, :, y, x, :, :] = img[:, :, y:y_max:stride, x:x_max:stride]
    return col.transpose(0, 4, 5, 1, 2, 3).reshape(N * out_h * out_w, -1)


def col2im(col, input_shape, filter_h, filter_w, stride=1, pad=0):
    N, C, H, W = input_shape
    out_h = (H + 2 * pad - filter_h) // stride + 1
    out_w = (W + 2 * pad - filter_w) // stride + 1
    col = col.reshape(N, out_h, out_w, C, filter_h, filter_w).transpose(0, 3, 4, 5, 1, 2)

    img = np.zeros((N, C, H + 2 * pad + stride - 1, W + 2 * pad + stride - 1))
    for y in range(filter_h):
        y_max = y + stride * out_h
        for x in range(filter_w):
            x_max = x + stride * out_w
            img[:, :, y:y_max:stride, x:x_max:stride] += col[:, :, y, x, :, :]
    return img[:, :, pad:H + pad, pad:W + pad]


class Convolution:
    def __init__(self, W, b, stride=1, pad=0):
        self.W, self.b, self.stride, self.pad = W, b, stride, pad

    def forward(self, x):
        FN, C, FH, FW = self.W.shape
        N, C, H, W = x.shape
        out_h = 1 + int((H + 2 * self.pad - FH) / self.stride)
        out_w = 1 + int((W + 2 * self.pad - FW) / self.stride)
        self.x_shape = x.shape
        self.col = im2col(x, FH, FW, self.stride, self.pad)
        self.col_W = self.W.reshape(FN, -1).T
        out = np.dot(self.col, self.col_W) + self.b
        return out.reshape(N, out_h, out_w, -1).transpose(0, 3, 1, 2)

    def backward(self, dout):
        FN, C, FH, FW = self.W.shape
        dout = dout.transpose(0, 2, 3, 1).reshape(-1, FN)
        self.db = np.sum(dout, axis=0)
        self.dW = np.dot(self.col.T, dout).transpose(1, 0).reshape(FN, C, FH, FW)
        return col2im(np.dot(dout, self.col_W.T), self.x_shape, FH, FW, self.stride, self.pad)


class Pooling:
    def __init__(self, pool_h, pool_w, stride):
        self.pool_h, self.pool_w, self.stride = pool_h, pool_w, stride

    def forward(self, x):
        N, C, H, W = x.shape
        out_h = int(1 + (H - self.pool_h) / self.stride)
        out_w = int(1 + (W - self.pool_w) / self.stride)
        col = im2col(x, self.pool_h, self.pool_w, self.stride)
        col = col.reshape(-1, self.pool_h * self.pool_w)
        self.x_shape = x.shape
        self.arg_max = np.argmax(col, axis=1)
        return np.max(col, axis=1).reshape(N, out_h, out_w, C).transpose(0, 3, 1, 2)

    def backward(self, dout):
        dout = dout.transpose(0, 2, 3, 1)
        pool_size = self.pool_h * self.pool_w
        dmax = np.zeros((dout.size, pool_size))
        dmax[np.arange(self.arg_max.size), self.arg_max.flatten()] = dout.flatten()
        dmax = dmax.reshape(dout.shape + (pool_size,))
        dcol = dmax.reshape(dmax.shape[0] * dmax.shape[1] * dmax.shape[2], -1)
        return col2im(dcol, self.x_shape, self.pool_h, self.pool_w, self.stride)


class Relu:
    def forward(self, x):
        self.mask = x <= 0
        out = x.copy()
        out[self.mask] = 0
        return out

    def backward(self, dout):
        dout[self.mask] = 0
        return dout


class Affine:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def forward(self, x):
        self.shape = x.shape
        self.x = x.reshape(x.shape[0], -1)
        return self.x @ self.W + self.b

    def backward(self, dout):
        self.dW = self.x.T @ dout
        self.db = dout.sum(axis=0)
        return (dout @ self.W.T).reshape(*self.shape)


def softmax_loss(x, t):
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    n = len(t)
    loss = -np.log(p[range(n), t]).mean()
    p[range(n), t] -= 1
    return loss, p / n


def make_images(n, size):
    """Lines across, down, and from corner to corner, in noise."""
    x = np.array([random.gauss(0, 0.2) for _ in range(n * size * size)]).reshape(n, 1, size, size)
    t = np.array([random.randrange(3) for _ in range(n)])
    for i in range(n):
        k = random.randrange(size)
        if t[i] == 0:
            x[i, 0, k] += 1
        elif t[i] == 1:
            x[i, 0, :, k] += 1
        else:
            x[i, 0, np.arange(size), np.roll(np.arange(size), k)] += 1
    return x, t


def main(n=96, size=8, filters=4, epochs=4, batch_size=16, lr=0.2):
    random.seed(2)
    x, t = make_images(n, size)

    def randn(std, *shape):
        return std * np.array([random.gauss(0, 1) for _ in range(int(np.prod(shape)))]).reshape(shape)

    conv = Convolution(randn(0.3, filters, 1, 3, 3), np.zeros(filters), pad=1)
    affine = Affine(randn(0.1, filters * (size // 2) ** 2, 3), np.zeros(3))
    layers = [conv, Relu(), Pooling(2, 2, 2), affine]

    losses = []
    for epoch in range(epochs):
        for i in range(0, n, batch_size):
            out = x[i:i + batch_size]
            for layer in layers:
                out = layer.forward(out)
            loss, dout = softmax_loss(out, t[i:i + batch_size])
            losses.append(loss)
            for layer in layers[::-1]:
                dout = layer.backward(dout)
            for layer in (conv, affine):
                layer.W -= lr * layer.dW
                layer.b -= lr * layer.db
        print(f"epoch {epoch + 1}: loss {np.mean(losses[-n // batch_size:]):.4f}")

    out = x
    for layer in layers:
        out = layer.forward(out)
    accuracy = np.mean(out.argmax(axis=1) == t)
    print("accuracy", round(float(accuracy), 2))
    return {"losses": np.array(losses), "filters": conv.W, "dx": dout, "scores": out, "accuracy": accuracy}


if __name__ == "__main__":
    main()
