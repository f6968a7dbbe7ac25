"""How few bits does a small net need? Its error with weights, activations and gradients in several number formats.

    python examples/formats.py --plot formats.png  # the picture needs matplotlib

A net of 64-64-32-10 learns the digits of ``wf.data.load_digits``. One role is rounded at a time, then all three, to nearest and
stochastically; sums and updates stay in float32. Stochastic rounding was shown to train nets in 16 bits by Gupta et al.: Deep
learning with limited numerical precision. 2015.
"""

from __future__ import annotations

import argparse

import numpy as np

import weft as wf

FORMATS = ("float8_e5m2", "float8_e4m3fn", "float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn")
ROLES = ("weights", "activations", "gradients")


def make_net() -> wf.nn.Sequential:
    return wf.nn.Sequential(
        wf.nn.Flatten(), wf.nn.Linear(64, 64), wf.nn.ReLU(), wf.nn.Linear(64, 32), wf.nn.ReLU(), wf.nn.Linear(32, 10),
    )


def error(precision: wf.Precision | None, epochs: int, seeds: int) -> float:
    """Return the share of wrong digits in percent, after training, as a mean over seeds."""
    data, wrong = wf.data.load_digits(), []
    for seed in range(seeds):
        wf.random.seed(seed)
        net = make_net()
        scale = "dynamic" if precision is not None and any(layer.gradients for _, layer in precision.layers) else None
        wf.train.fit(
            net, data.x_train, data.y_train, epochs=epochs, batch_size=64, optimizer=wf.optim.Adam(lr=2e-3),
            precision=precision, loss_scale=scale, seed=seed, show=False,
        )
        with wf.precision(precision or wf.Precision()):
            wrong.append(100 * (1 - wf.train.accuracy(net, data.x_test, data.y_test)))
    return float(np.mean(wrong))


def main(argv: list[str] | None = None) -> dict[tuple[str, str, str], float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=2, help="nets for each row; the table has their mean")
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    base = error(None, arguments.epochs, arguments.seeds)
    print(f"wrong digits in percent; float32: {base:.1f}")
    print(f"{'':25}" + "".join(f"{role:>13}" for role in (*ROLES, "all")))
    errors = {}
    for form in arguments.formats:
        for rounding in ("nearest", "stochastic"):
            for role in (*ROLES, "all"):
                formats = dict.fromkeys(ROLES, form) if role == "all" else {role: form}
                chosen = wf.Precision(**formats, rounding=rounding)
                errors[form, rounding, role] = error(chosen, arguments.epochs, arguments.seeds)
            row = "".join(f"{errors[form, rounding, role]:13.1f}" for role in (*ROLES, "all"))
            print(f"{form:14}{rounding:>11}{row}", flush=True)

    if arguments.plot:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 4, figsize=(10, 3), sharey=True, layout="constrained")
        places = np.arange(len(arguments.formats))
        for axis, role in zip(axes, (*ROLES, "all"), strict=True):
            for k, rounding in enumerate(("nearest", "stochastic")):
                heights = [errors[form, rounding, role] for form in arguments.formats]
                axis.bar(places + 0.4 * (k - 0.5), heights, 0.4, label=rounding)
            axis.axhline(base, color="black", linewidth=0.8, label="float32")
            axis.set_title(role if role != "all" else "all three")
            axis.set_xticks(places, arguments.formats, rotation=60, ha="right", fontsize=8)
            axis.set_yscale("log")
        axes[0].set_ylabel("wrong digits, %")
        axes[0].legend(fontsize=8)
        figure.savefig(arguments.plot, dpi=100)
    return errors


if __name__ == "__main__":
    main()
