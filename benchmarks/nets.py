"""AlexNet, VGG-A, Overfeat and GoogLeNet as nervanagpu's benchmark script has them: their layers, shapes and operations.

The nets are that script's: its dense layers are 3072 wide, there are no biases and no normalisation, and a ReLU follows every
convolution and dense layer but the last. Published tables with 4096 wide layers are of other nets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Layer:
    """One layer of a net: what it is called, what it computes, and what it is given (without the batch)."""

    name: str
    kind: str  # conv, pool, mean or dense
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    kernel: int = 0
    stride: int = 1
    padding: int = 0
    relu: bool = True

    @property
    def weight(self) -> tuple[int, ...] | None:
        """The shape of its weight."""
        if self.kind in ("pool", "mean"):
            return None
        return (self.outside[0], self.inside[0]) + (self.kernel, self.kernel) * (self.kind == "conv")

    @property
    def flops(self) -> int:
        """Operations of the forward pass for one image: two a multiply-add."""
        if self.weight is None:
            return 0
        return 2 * prod(self.outside) * (self.inside[0] * self.kernel**2 if self.kind == "conv" else self.inside[0])


Block = tuple[tuple[Layer, ...], ...]  # branches side by side, each a row of layers; their results become one's channels

_ALEXNET = "conv 64 11 4 2|pool 3 2|conv 192 5 1 2|pool 3 2|conv 384 3 1 1|conv 256 3 1 1|conv 256 3 1 1|pool 3 2"
_OVERFEAT = "conv 96 11 4 0|pool 2 2|conv 256 5 1 0|pool 2 2|conv 512 3 1 1|conv 1024 3 1 1|conv 1024 3 1 1|pool 2 2"
_VGG = "|".join(
    f"conv {channels} 3 1 1" if channels else "pool 2 2" for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
)
_DENSE = "|dense 3072|dense 3072|dense 1000"
# an inception: 1x1 | 1x1, then 3x3 | 1x1, then 5x5 | pool, then 1x1
_GOOGLENET = (
    "conv 64 7 2 3|pool 3 2 1|conv 64 1 1 0|conv 192 3 1 1|pool 3 2 1"
    "|inception 64 96 128 16 32 32|inception 128 128 192 32 96 64|pool 3 2 1"
    "|inception 192 96 208 16 48 64|inception 160 112 224 24 64 64|inception 128 128 256 24 64 64"
    "|inception 112 144 288 32 64 64|inception 256 160 320 32 128 128|pool 3 2 1"
    "|inception 256 160 320 32 128 128|inception 384 192 384 48 128 128|mean 7 1|dense 1000"
)
Net = tuple[int, int, str]  # side of the images, batch, layers
NETS: dict[str, Net] = {
    "alexnet": (224, 128, _ALEXNET + _DENSE),
    "vgg": (224, 64, _VGG + _DENSE),
    "overfeat": (231, 128, _OVERFEAT + _DENSE),
    "googlenet": (224, 128, _GOOGLENET),
}


def blocks(net: str | Net) -> list[Block]:
    """A net, by its name or as it is written above, in the order in which it computes."""
    side, _, text = NETS[net] if isinstance(net, str) else net
    shape: tuple[int, ...] = (3, side, side)
    count: dict[str, int] = {}
    found: list[Block] = []
    words = text.split("|")
    for position, word in enumerate(words):
        kind = word.split()[0]
        numbers = [int(number) for number in word.split()[1:]]
        count[kind] = count.get(kind, 0) + 1
        name = f"{kind}{count[kind]}"
        branches = _inception(name, shape, numbers) if kind == "inception" else (
            (_layer(name, kind, shape, numbers, position < len(words) - 1),),
        )
        last = [branch[-1].outside for branch in branches]
        shape = (sum([outside[0] for outside in last]), *last[0][1:])
        found.append(branches)
    return found


def _inception(name: str, shape: tuple[int, ...], numbers: Sequence[int]) -> Block:
    one, three_before, three, five_before, five, after_pool = numbers
    rows: tuple[tuple[tuple[str, str, list[int]], ...], ...] = (
        (("1x1", "conv", [one, 1, 1, 0]),),
        (("before3", "conv", [three_before, 1, 1, 0]), ("3x3", "conv", [three, 3, 1, 1])),
        (("before5", "conv", [five_before, 1, 1, 0]), ("5x5", "conv", [five, 5, 1, 2])),
        (("pool", "pool", [3, 1, 1]), ("after", "conv", [after_pool, 1, 1, 0])),
    )
    branches = []
    for row in rows:
        inside, branch = shape, []
        for part, kind, given in row:
            branch.append(_layer(f"{name.replace('inception', 'inc')}.{part}", kind, inside, given))
            inside = branch[-1].outside
        branches.append(tuple(branch))
    return tuple(branches)


def _layer(name: str, kind: str, shape: tuple[int, ...], numbers: Sequence[int], relu: bool = True) -> Layer:
    if kind == "dense":
        return Layer(name, kind, (prod(shape),), (numbers[0],), relu=relu)
    channels = numbers[0] if kind == "conv" else shape[0]
    kernel, stride, padding = (*numbers[kind == "conv" :], 0)[:3]
    side = (shape[1] + 2 * padding - kernel) // stride + 1
    return Layer(name, kind, shape, (channels, side, side), kernel, stride, padding, relu)


def layers(net: str | Net) -> list[Layer]:
    """The layers of a net, with their shapes; of an inception branch by branch.

    Examples
    --------
    >>> from benchmarks.nets import layers
    >>> print(layers("alexnet")[0].outside, f"{128 * sum(layer.flops for layer in layers('alexnet')) / 1e9:.3f} GFLOP")
    (64, 55, 55) 178.275 GFLOP
    """
    return [layer for block in blocks(net) for branch in block for layer in branch]


def executed(net: str | Net) -> int:
    """Operations of forward and backward pass for one image that are really done: nobody computes the images' gradient."""
    found = layers(net)
    return 3 * sum([layer.flops for layer in found]) - found[0].flops


def weights(net: str | Net, rng: np.random.Generator) -> list[np.ndarray]:
    """Random weights, of a size at which activations neither grow nor vanish: float32, in the order of :func:`layers`."""
    shapes = [layer.weight for layer in layers(net) if layer.weight is not None]
    return [rng.normal(0.0, sqrt(2.0 / prod(shape[1:])), shape).astype(np.float32) for shape in shapes]


class Words(Protocol):
    """How a library says what nets are made of."""

    def conv(self, x: Any, w: Any, stride: int, padding: int) -> Any: ...
    def pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any: ...
    def mean(self, x: Any, kernel: int, stride: int) -> Any: ...
    def dense(self, x: Any, w: Any) -> Any: ...
    def relu(self, x: Any) -> Any: ...
    def join(self, parts: Sequence[Any]) -> Any: ...


def forward(net: str | Net, words: Words) -> Callable[[Any, Sequence[Any]], Any]:
    """The net as a function of images and weights."""
    made = blocks(net)

    def run(images: Any, given: Sequence[Any]) -> Any:
        x, left = images, iter(given)
        for block in made:
            ends = [_branch(branch, x, left, words) for branch in block]
            x = ends[0] if len(ends) == 1 else words.join(ends)
        return x

    return run


def _branch(branch: Sequence[Layer], x: Any, left: Iterator[Any], words: Words) -> Any:
    for layer in branch:
        if layer.kind == "pool":
            x = words.pool(x, layer.kernel, layer.stride, layer.padding)
        elif layer.kind == "mean":
            x = words.mean(x, layer.kernel, layer.stride)
        else:
            w = next(left)
            x = words.conv(x, w, layer.stride, layer.padding) if layer.kind == "conv" else words.dense(x, w)
            x = words.relu(x) if layer.relu else x
    return x


class Weft:
    """See :class:`Words`."""

    def conv(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        import weft as wf

        return wf.nn.conv2d(x, w, None, stride, padding)

    def pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any:
        import weft as wf

        return wf.nn.max_pool2d(x, kernel, stride, padding)

    def mean(self, x: Any, kernel: int, stride: int) -> Any:
        import weft as wf

        return wf.nn.avg_pool2d(x, kernel, stride)

    def dense(self, x: Any, w: Any) -> Any:
        import weft as wf

        return wf.nn.linear(x.reshape((x.shape[0], -1)), w)

    def relu(self, x: Any) -> Any:
        import weft as wf

        return wf.nn.relu(x)

    def join(self, parts: Sequence[Any]) -> Any:
        import weft as wf

        return wf.concatenate(list(parts), axis=1)
