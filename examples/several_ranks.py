"""Train a net on several ranks, to the same bits as on one: ``weft launch -n 2 examples/several_ranks.py``.

The line that begins with ``bits`` is the same for 1, 2, 3, ... ranks, apart from their number. With ``--checkpoint FILE`` a run
that was stopped goes on, also on another number of ranks.
"""

from __future__ import annotations

import argparse
import hashlib

import weft as wf
from weft import nn


def make_net() -> nn.Sequential:
    wf.random.seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--shards", type=int, default=8, help="the most ranks that can share the work; the result depends on it")
    parser.add_argument("--checkpoint", metavar="FILE")
    arguments = parser.parse_args()
    digits = wf.data.load_digits()
    net = make_net()
    history = wf.train.fit(
        net, digits.x_train, digits.y_train, epochs=arguments.epochs, batch_size=128, shards=arguments.shards,
        optimizer=wf.optim.Adam(2e-3, clip_norm=1.0), validation=(digits.x_test, digits.y_test), metrics=["accuracy"],
        checkpoint=arguments.checkpoint, resume=True if arguments.checkpoint else None,
    )
    if wf.dist.rank() == 0:
        bits = hashlib.sha256(b"".join(a.numpy().tobytes() for a in net.arrays().values())).hexdigest()[:16]
        accuracy = 100 * history["val_accuracy"][-1]
        print(f"bits {bits}, test accuracy {accuracy:.2f} %, after {len(history.epochs)} epochs; {wf.dist.size()} ranks")


if __name__ == "__main__":
    main()
