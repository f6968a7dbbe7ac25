"""AlexNet, Overfeat, VGG-A, VGG-E, GoogLeNet and ResNet-50: their layers, shapes and operations, in two published definitions.

``nervanagpu``, its benchmark script: dense layers 3072 wide, no biases. ``convnet-benchmarks``, its Torch files: dense layers
4096 wide (the first one of Overfeat 3072), biases, and a ReLU behind the last layer of GoogLeNet. Neither has dropout, local
response normalisation, a softmax or a loss, and a ReLU follows every convolution and dense layer but the last. Their figures
cannot be compared with one another. ResNet-50 is in neither and has one definition: He et al., Deep residual learning, 2015, with
the stride in the 3x3 convolution, and with batch normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Layer:
    """One layer of a net: what it is called, what it computes, and what it is given (without the batch)."""

    name: str
    kind: str  # conv, norm, pool, mean or dense
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    kernel: int = 0
    stride: int = 1
    padding: int = 0
    relu: bool = True
    bias: bool = False

    @property
    def weight(self) -> tuple[int, ...] | None:
        """The shape of the weight of a convolution or dense layer."""
        if self.kind not in ("conv", "dense"):
            return None
        return (self.outside[0], self.inside[0]) + (self.kernel, self.kernel) * (self.kind == "conv")

    @property
    def parameters(self) -> list[tuple[int, ...]]:
        """The shapes of all parameters: weight and bias, or the scale and shift of a normalisation."""
        if self.kind == "norm":
            return [self.outside[:1]] * 2
        return [] if self.weight is None else [self.weight] + [self.weight[:1]] * self.bias

    @property
    def flops(self) -> int:
        """Operations of the forward pass for one image: two a multiply-add, those of convolutions and dense layers alone."""
        return 2 * prod(self.outside) * prod(self.weight[1:]) if self.weight is not None else 0


@dataclass(frozen=True)
class Block:
    """Branches side by side, each a row of layers; their results become one's channels, or are added before a ReLU."""

    branches: tuple[tuple[Layer, ...], ...]
    adds: bool = False

    @property
    def outside(self) -> tuple[int, ...]:
        last = [branch[-1].outside for branch in self.branches if branch]
        return last[0] if self.adds else (sum([outside[0] for outside in last]), *last[0][1:])


@dataclass(frozen=True)
class Net:
    """A net as text. side : of the images. batch : of the published tables. last_relu : whether one follows the last layer"""

    side: int
    batch: int
    text: str
    biases: bool = False
    last_relu: bool = False


_ALEXNET = "conv 64 11 4 2|pool 3 2|conv 192 5 1 2|pool 3 2|conv 384 3 1 1|conv 256 3 1 1|conv 256 3 1 1|pool 3 2"
_OVERFEAT = "conv 96 11 4 0|pool 2 2|conv 256 5 1 0|pool 2 2|conv 512 3 1 1|conv 1024 3 1 1|conv 1024 3 1 1|pool 2 2"


def _vgg(*counts: int) -> str:
    """The five groups of convolutions of a VGG net."""
    groups = zip((64, 128, 256, 512, 512), counts, strict=True)
    return "|".join([f"conv {channels} 3 1 1|" * count + "pool 2 2" for channels, count in groups])


# an inception: 1x1 | 1x1, then 3x3 | 1x1, then 5x5 | pool, then 1x1
_GOOGLENET = (
    "conv 64 7 2 3|pool 3 2 1|conv 64 1 1 0|conv 192 3 1 1|pool 3 2 1"
    "|inception 64 96 128 16 32 32|inception 128 128 192 32 96 64|pool 3 2 1"
    "|inception 192 96 208 16 48 64|inception 160 112 224 24 64 64|inception 128 128 256 24 64 64"
    "|inception 112 144 288 32 64 64|inception 256 160 320 32 128 128|pool 3 2 1"
    "|inception 256 160 320 32 128 128|inception 384 192 384 48 128 128|mean 7 1|dense 1000"
)
# a bottleneck: 1x1, 3x3 with the stride, 1x1, each normalised | nothing, or a normalised 1x1 where the shapes differ
_RESNET = "normed 64 7 2 3|pool 3 2 1|" + "".join([
    f"bottleneck {width} {4 * width} {stride if k == 0 else 1}|"
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)) for k in range(count)
]) + "mean 7 1|dense 1000"
_RESNET_50 = Net(224, 64, _RESNET, biases=True)


def _dense(*widths: int) -> str:
    return "".join([f"|dense {width}" for width in (*widths, 1000)])


DEFINITIONS: dict[str, dict[str, Net]] = {
    "nervanagpu": {
        "alexnet": Net(224, 128, _ALEXNET + _dense(3072, 3072)),
        "overfeat": Net(231, 128, _OVERFEAT + _dense(3072, 3072)),
        "vgg-a": Net(224, 64, _vgg(1, 1, 2, 2, 2) + _dense(3072, 3072)),
        "vgg-e": Net(224, 64, _vgg(2, 2, 4, 4, 4) + _dense(3072, 3072)),
        "googlenet": Net(224, 128, _GOOGLENET),
        "resnet50": _RESNET_50,
    },
    "convnet-benchmarks": {
        "alexnet": Net(224, 128, _ALEXNET + _dense(4096, 4096), biases=True),
        "overfeat": Net(231, 128, _OVERFEAT + _dense(3072, 4096), biases=True),
        "vgg-a": Net(224, 64, _vgg(1, 1, 2, 2, 2) + _dense(4096, 4096), biases=True),
        "vgg-e": Net(224, 64, _vgg(2, 2, 4, 4, 4) + _dense(4096, 4096), biases=True),
        "googlenet": Net(224, 128, _GOOGLENET, biases=True, last_relu=True),
        "resnet50": _RESNET_50,
    },
}
NETS = DEFINITIONS["nervanagpu"]


def shrink(net: Net, side: int | None = None, narrow: int = 1) -> Net:
    """Return a net for smaller images, and with its channels divided by ``narrow``: the same layers, computed in less time."""
    channels = {"conv": 1, "normed": 1, "dense": 1, "inception": 6, "bottleneck": 2, "pool": 0, "mean": 0}
    words = []
    for word in net.text.split("|"):
        kind, *numbers = word.split()
        first = channels[kind]
        words.append(" ".join([kind, *[str(max(1, int(n) // narrow)) for n in numbers[:first]], *numbers[first:]]))
    return replace(net, side=side or net.side, text="|".join(words))


def blocks(net: str | Net) -> list[Block]:
    """A net, by its name in nervanagpu's definition or as it is written above, in the order in which it computes."""
    net = NETS[net] if isinstance(net, str) else net
    shape: tuple[int, ...] = (3, net.side, net.side)
    count: dict[str, int] = {}
    found: list[Block] = []
    words = net.text.split("|")
    for position, word in enumerate(words):
        kind, *rest = word.split()
        numbers = [int(number) for number in rest]
        count[kind] = count.get(kind, 0) + 1
        name = f"{kind}{count[kind]}"
        if kind == "inception":
            block = _inception(name.replace("inception", "inc"), shape, numbers, net.biases)
        elif kind == "bottleneck":
            block = _bottleneck(name.replace("bottleneck", "res"), shape, *numbers)
        elif kind == "normed":
            block = Block((_normed(name.replace("normed", "conv"), shape, numbers),))
        else:
            relu = net.last_relu or position < len(words) - 1
            block = Block(((_layer(name, kind, shape, numbers, relu, net.biases),),))
        shape = block.outside
        found.append(block)
    return found


def _inception(name: str, shape: tuple[int, ...], numbers: Sequence[int], bias: bool) -> Block:
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
            branch.append(_layer(f"{name}.{part}", kind, inside, given, bias=bias))
            inside = branch[-1].outside
        branches.append(tuple(branch))
    return Block(tuple(branches))


def _bottleneck(name: str, shape: tuple[int, ...], middle: int, outside: int, stride: int) -> Block:
    first = _normed(f"{name}.before", shape, [middle, 1, 1, 0])
    second = _normed(f"{name}.3x3", first[-1].outside, [middle, 3, stride, 1])
    third = _normed(f"{name}.after", second[-1].outside, [outside, 1, 1, 0], relu=False)
    same = shape == third[-1].outside
    return Block((first + second + third, () if same else _normed(f"{name}.beside", shape, [outside, 1, stride, 0], False)), True)


def _normed(name: str, shape: tuple[int, ...], numbers: Sequence[int], relu: bool = True) -> tuple[Layer, ...]:
    conv = _layer(name, "conv", shape, numbers, relu=False)
    return conv, Layer(f"{name}.norm", "norm", conv.outside, conv.outside, relu=relu)


def _layer(
    name: str, kind: str, shape: tuple[int, ...], numbers: Sequence[int], relu: bool = True, bias: bool = False,
) -> Layer:
    if kind == "dense":
        return Layer(name, kind, (prod(shape),), (numbers[0],), relu=relu, bias=bias)
    channels = numbers[0] if kind == "conv" else shape[0]
    kernel, stride, padding = (*numbers[kind == "conv" :], 0)[:3]
    kernel = min(kernel, shape[1]) if kind == "mean" else kernel  # of a whole image, also of a small one
    side = (shape[1] + 2 * padding - kernel) // stride + 1
    if side < 1:
        raise ValueError(f"bench: {name} has a window of {kernel}, its images a side of {shape[1]}: give larger ones")
    return Layer(name, kind, shape, (channels, side, side), kernel, stride, padding, relu, bias and kind == "conv")


def layers(net: str | Net) -> list[Layer]:
    """The layers of a net, with their shapes; of several branches one after the other.

    Examples
    --------
    >>> from benchmarks.nets import layers
    >>> print(layers("alexnet")[0].outside, f"{128 * sum(layer.flops for layer in layers('alexnet')) / 1e9:.3f} GFLOP")
    (64, 55, 55) 178.275 GFLOP
    """
    return [layer for block in blocks(net) for branch in block.branches for layer in branch]


def executed(net: str | Net) -> int:
    """Operations of forward and backward pass for one image that are really done: nobody computes the images' gradient."""
    found = layers(net)
    return 3 * sum([layer.flops for layer in found]) - found[0].flops


def weights(net: str | Net, rng: np.random.Generator) -> list[np.ndarray]:
    """Random parameters, of a size at which activations neither grow nor vanish: float32, in the order of :func:`layers`."""
    return [parameter for layer in layers(net) for parameter in layer_weights(layer, rng)]


def layer_weights(layer: Layer, rng: np.random.Generator) -> list[np.ndarray]:
    """The random parameters of a layer: a weight and a bias, or a scale around 1 and a shift."""
    scales = [sqrt(2.0 / prod(layer.weight[1:])), 0.1] if layer.weight is not None else [0.1, 0.1]
    means = [1.0 if layer.kind == "norm" else 0.0, 0.0]
    given = zip(means, scales, layer.parameters, strict=False)
    return [np.float32(mean) + np.float32(scale) * rng.standard_normal(shape, np.float32) for mean, scale, shape in given]


class Words(Protocol):
    """How a library says what nets are made of. A bias may be None."""

    def conv(self, x: Any, w: Any, bias: Any, stride: int, padding: int) -> Any: ...
    def norm(self, x: Any, scale: Any, shift: Any) -> Any: ...
    def pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any: ...
    def mean(self, x: Any, kernel: int, stride: int) -> Any: ...
    def dense(self, x: Any, w: Any, bias: Any) -> Any: ...
    def relu(self, x: Any) -> Any: ...
    def join(self, parts: Sequence[Any]) -> Any: ...


def forward(net: str | Net, words: Words) -> Callable[[Any, Sequence[Any]], Any]:
    """The net as a function of images and parameters."""
    made = blocks(net)

    def run(images: Any, given: Sequence[Any]) -> Any:
        x, left = images, iter(given)
        for block in made:
            ends = [_branch(branch, x, left, words) for branch in block.branches]
            x = words.relu(ends[0] + ends[1]) if block.adds else ends[0] if len(ends) == 1 else words.join(ends)
        return x

    return run


def _branch(branch: Sequence[Layer], x: Any, left: Iterator[Any], words: Words) -> Any:
    for layer in branch:
        x = compute(layer, x, [next(left) for _ in layer.parameters], words)
    return x


def compute(layer: Layer, x: Any, parameters: Sequence[Any], words: Words) -> Any:
    """One layer of ``x``, with its ReLU."""
    if layer.kind == "pool":
        return words.pool(x, layer.kernel, layer.stride, layer.padding)
    if layer.kind == "mean":
        return words.mean(x, layer.kernel, layer.stride)
    if layer.kind == "norm":
        x = words.norm(x, *parameters)
    else:
        w, bias = (*parameters, None)[:2]
        x = words.conv(x, w, bias, layer.stride, layer.padding) if layer.kind == "conv" else words.dense(x, w, bias)
    return words.relu(x) if layer.relu else x


class Weft:
    """See :class:`Words`."""

    def conv(self, x: Any, w: Any, bias: Any, stride: int, padding: int) -> Any:
        import weft as wf

        return wf.nn.conv2d(x, w, bias, stride, padding)

    def norm(self, x: Any, scale: Any, shift: Any) -> Any:
        import weft as wf

        return wf.nn.batch_norm(x, None, None, scale, shift, training=True)

    def pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any:
        import weft as wf

        return wf.nn.max_pool2d(x, kernel, stride, padding)

    def mean(self, x: Any, kernel: int, stride: int) -> Any:
        import weft as wf

        return wf.nn.avg_pool2d(x, kernel, stride)

    def dense(self, x: Any, w: Any, bias: Any) -> Any:
        import weft as wf

        return wf.nn.linear(x.reshape((x.shape[0], -1)), w, bias)

    def relu(self, x: Any) -> Any:
        import weft as wf

        return wf.nn.relu(x)

    def join(self, parts: Sequence[Any]) -> Any:
        import weft as wf

        return wf.concatenate(list(parts), axis=1)


def weft_functions(net: Net) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a function for weft's forward pass, and one for a step, which writes the parameters and returns the result."""
    import weft as wf

    run = forward(net, Weft())

    def step(images: Any, parameters: list[Any], share: Any, rate: float) -> Any:
        out, back = wf.vjp(lambda *ws: run(images, ws), *parameters)
        for w, slope in zip(parameters, back(out * share), strict=True):
            w -= slope * rate
        return out

    return wf.jit(run), wf.jit(step)
