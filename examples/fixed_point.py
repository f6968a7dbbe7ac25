"""Training in 16-bit fixed point fails if numbers are rounded to nearest, and works if they are rounded stochastically.

    python examples/fixed_point.py --plot fixed_point.png  # the picture needs matplotlib

This repeats the experiment of Gupta et al.: Deep learning with limited numerical precision, 2015, figure 1, with a net of
784-128-10 on handwritten digits. Parameters, activations and gradients are numbers of ``wf.fixed_dtype(16, fraction)``.
Updates are smaller than half a step of the format, so parameters that are rounded to nearest do not change.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import weft as wf

SERIES = ((8, "nearest"), (8, "stochastic"), (10, "nearest"), (10, "stochastic"), (12, "nearest"), (12, "stochastic"))


def errors(data: Any, images: int, fraction: int | None, rounding: str, epochs: int, lr: float) -> list[float]:
    """Return the share of wrong digits in percent after each epoch. fraction None : in float32"""
    wf.random.seed(0)
    pixels = data.x_train[0].size
    net = wf.nn.Sequential(wf.nn.Flatten(), wf.nn.Linear(pixels, 128), wf.nn.ReLU(), wf.nn.Linear(128, 10))
    dtype = None if fraction is None else wf.fixed_dtype(16, fraction)
    optimizer = wf.optim.SGD(lr=lr, parameter_dtype=dtype, rounding=rounding)
    formats = {} if dtype is None else dict(activations=dtype, gradients=dtype, rounding=rounding)
    wrong = []
    wf.train.fit(
        net, data.x_train[:images], data.y_train[:images], epochs=epochs, batch_size=100, optimizer=optimizer,
        precision=formats, seed=0, show=False,
        callbacks=[lambda state: wrong.append(100 * (1 - wf.train.accuracy(net, data.x_test, data.y_test)))],
    )
    return wrong


def main(argv: list[str] | None = None) -> dict[str, list[float]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("mnist", "digits"), default="mnist")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    data = wf.data.load_mnist() if arguments.data == "mnist" else wf.data.load_digits()
    series = {"float32": errors(data, arguments.images, None, "nearest", arguments.epochs, arguments.lr)}
    print(f"{'wrong digits, %, after each epoch':34}" + " ".join(f"{e:6.1f}" for e in series["float32"]), " float32")
    for fraction, rounding in SERIES:
        start = time.perf_counter()
        name = f"{fraction} of 16 bits are fraction, {rounding}"
        series[name] = errors(data, arguments.images, fraction, rounding, arguments.epochs, arguments.lr)
        took = time.perf_counter() - start
        print(f"{name:44}" + " ".join(f"{e:6.1f}" for e in series[name]), f" ({took:.0f} s)", flush=True)

    if arguments.plot:
        import matplotlib.pyplot as plt

        figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
        for name, values in series.items():
            style = "-" if name == "float32" or "stochastic" in name else "--"
            color = "black" if name == "float32" else f"C{(int(name.split()[0]) - 8) // 2}"
            axis.plot(range(1, len(values) + 1), values, style, color=color, marker="o", markersize=3, label=name)
        axis.set_xlabel("epochs")
        axis.set_ylabel("wrong digits, %")
        axis.set_xticks(range(1, arguments.epochs + 1))
        axis.set_yscale("log")
        axis.legend(fontsize=8)
        figure.savefig(arguments.plot, dpi=100)
    return series


if __name__ == "__main__":
    main()
