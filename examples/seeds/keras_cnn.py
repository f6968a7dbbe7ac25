"""The convolutional net of Keras' MNIST example, which the learner's article compares itself with, in weft.

    python examples/seeds/keras_cnn.py                    # MNIST, 12 epochs; the example's header says 99.25 %
    python examples/seeds/keras_cnn.py --data digits      # the digits that come with weft, seconds
    python examples/seeds/keras_cnn.py --plain            # the last weights, not the mean of the last steps

Adadelta runs at rate 1.0 with eps 1e-6, as early versions of Keras had it; newer Keras takes 0.001 unless told, and then
learns slowly. At this rate the last steps still jump about by a tenth of a percent, which a moving average of
the weights smoothes.
"""

from __future__ import annotations

import argparse
import time

import weft as wf


def build(num_classes: int = 10) -> wf.nn.Sequential:
    """Conv 32 and 64 of 3x3, pool 2, dropout, dense 128, dropout, dense; weights as Keras starts them."""
    model = wf.nn.Sequential()
    model.append(wf.nn.Conv2d(None, 32, kernel_size=(3, 3))).append(wf.nn.ReLU())
    model.append(wf.nn.Conv2d(None, 64, (3, 3))).append(wf.nn.ReLU())
    model.append(wf.nn.MaxPool2d((2, 2)))
    model.append(wf.nn.Dropout(0.25))
    model.append(wf.nn.Flatten())
    model.append(wf.nn.Linear(None, 128)).append(wf.nn.ReLU())
    model.append(wf.nn.Dropout(0.5))
    model.append(wf.nn.Linear(None, num_classes))
    return model


def start(model: wf.nn.Sequential, sample) -> wf.nn.Sequential:
    """Make the weights for images like ``sample``: Glorot's uniform numbers, biases zero."""
    model.eval()(wf.asarray(sample))
    for name, p in model.parameters().items():
        p[...] = wf.nn.init.zeros(p) if name.endswith("bias") else wf.nn.init.glorot_uniform(p)
    return model


def train(data: wf.data.Split, epochs: int, batch_size: int = 128, seed: int = 0, show: bool = True, average: bool = True):
    """Returns the model and (loss, accuracy) on the test data."""
    wf.random.seed(seed)
    model = start(build(), data.x_train[:1])
    wf.train.fit(
        model, data.x_train, data.y_train,
        batch_size=batch_size,
        epochs=epochs,
        loss=wf.losses.cross_entropy,
        optimizer=wf.optim.AdaDelta(lr=1.0, rho=0.95, eps=1e-6),
        validation=(data.x_test, data.y_test),
        callbacks=[wf.train.AverageWeights(0.999)] if average else [],
        seed=seed,
        show=show,
    )
    scores = wf.train.predict(model, data.x_test)
    loss = float(wf.losses.cross_entropy(wf.asarray(scores), data.y_test))
    return model, (loss, float((scores.argmax(1) == data.y_test).mean()))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("mnist", "digits"), default="mnist")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="no moving average of the weights")
    arguments = parser.parse_args(argv)
    data = wf.data.load_mnist() if arguments.data == "mnist" else wf.data.load_digits()
    print(len(data.x_train), "train samples")
    print(len(data.x_test), "test samples")
    begin = time.perf_counter()
    _, score = train(data, arguments.epochs, arguments.batch_size, arguments.seed, average=not arguments.plain)
    print(f"Test loss: {score[0]:.4f}")
    print(f"Test accuracy: {score[1]:.4f}")
    print(f"seconds: {time.perf_counter() - begin:.1f}")


if __name__ == "__main__":
    main()
