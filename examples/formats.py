"""How few bits does a small net need? Its error with weights, activations, gradients and sums in several number formats.

    python examples/formats.py --plot formats.png  # two minutes; the picture needs matplotlib

A net of 784-64-10 learns 10,000 images of MNIST. One role is rounded at a time, to nearest and stochastically: the weights, the
activations or the gradients of each product, or all three. The last column rounds the sum in a product at every addition, to
nearest. Updates stay in float32.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

import weft as wf

FORMATS = ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn")
OPERANDS = ("weights", "activations", "gradients")
ROLES = (*OPERANDS, "all three", "sums")


def error(data: Any, precision: wf.Precision | None, epochs: int, images: int) -> float:
    """Return the share of wrong digits in percent, after training."""
    wf.random.seed(0)
    net = wf.nn.Sequential(wf.nn.Flatten(), wf.nn.Linear(data.x_train[0].size, 64), wf.nn.ReLU(), wf.nn.Linear(64, 10))
    scale = "dynamic" if precision is not None and any(layer.gradients for _, layer in precision.layers) else None
    wf.train.fit(
        net, data.x_train[:images], data.y_train[:images], epochs=epochs, batch_size=50, optimizer=wf.optim.Adam(lr=2e-3),
        precision=precision, loss_scale=scale, seed=0, show=False,
    )
    with wf.precision(precision or wf.Precision()):
        return float(100 * (1 - wf.train.accuracy(net, data.x_test, data.y_test)))


def make_precision(form: str, rounding: str, role: str) -> wf.Precision | None:
    """Return the precision of one run, None if it does not exist: sums are rounded to nearest only."""
    if role == "sums":
        return wf.Precision(accumulate=form) if rounding == "nearest" else None
    return wf.Precision(**dict.fromkeys(OPERANDS if role == "all three" else (role,), form), rounding=rounding)


def main(argv: list[str] | None = None) -> dict[tuple[str, str, str], float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("mnist", "digits"), default="mnist")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    data = wf.data.load_mnist() if arguments.data == "mnist" else wf.data.load_digits()
    base = error(data, None, arguments.epochs, arguments.images)
    print(f"wrong digits in percent; float32: {base:.1f}")
    print(f"{'':25}" + "".join(f"{role:>13}" for role in ROLES))
    errors = {}
    for form in arguments.formats:
        for rounding in ("nearest", "stochastic"):
            for role in ROLES:
                precision = make_precision(form, rounding, role)
                wrong = math.nan if precision is None else error(data, precision, arguments.epochs, arguments.images)
                errors[form, rounding, role] = wrong
            row = [errors[form, rounding, role] for role in ROLES]
            print(f"{form:14}{rounding:>11}" + "".join(f"{'-':>13}" if math.isnan(e) else f"{e:13.1f}" for e in row), flush=True)

    if arguments.plot:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, len(ROLES), figsize=(11, 3), sharey=True, layout="constrained")
        places = np.arange(len(arguments.formats))
        for axis, role in zip(axes, ROLES, strict=True):
            for k, rounding in enumerate(("nearest", "stochastic")):
                heights = [errors[form, rounding, role] for form in arguments.formats]
                axis.bar(places + 0.4 * (k - 0.5), heights, 0.4, label=rounding)
            axis.axhline(base, color="black", linewidth=0.8, label="float32")
            axis.set_title(role)
            axis.set_xticks(places, arguments.formats, rotation=60, ha="right", fontsize=8)
            axis.set_yscale("log")
        axes[0].set_ylabel("wrong digits, %")
        axes[0].legend(fontsize=8)
        figure.savefig(arguments.plot, dpi=100)
    return errors


if __name__ == "__main__":
    main()
