"""``weft bench convnets`` and ``weft bench gpu``: their options. ``weft bench dist`` is in ``weft/tools``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.nets import DEFINITIONS


def run(argv: Sequence[str]) -> int:
    """Run a benchmark; returns the exit status. Raises what ``weft``'s command line prints in one line."""
    about = "Time well-known nets on the CPU, or all that matters on a GPU."
    parser = argparse.ArgumentParser(prog="weft bench", description=about)
    kinds = parser.add_subparsers(required=True, metavar="what")
    nets = kinds.add_parser("convnets", help="the layers of well-known convolutional nets, one by one")
    nets.add_argument("--quick", action="store_true", help="alexnet alone, a small batch, three repeats")
    nets.add_argument("--nets", metavar="A,B", help="of alexnet, overfeat, vgg-a, vgg-e, googlenet and resnet50; default all")
    nets.add_argument(
        "--definition", choices=list(DEFINITIONS), default="nervanagpu",
        help="nervanagpu's nets (dense layers of 3072, no biases) or convnet-benchmarks' (4096, biases); default %(default)s",
    )
    nets.add_argument("--layers", metavar="A,B", help="some of the layers, by name; without the whole net and its memory")
    nets.add_argument("--batch", type=int, default=None, help="default 128, for vgg and resnet50 64; with --quick 4")
    nets.add_argument("--image", type=int, metavar="SIDE", help="smaller images; default 224, for overfeat 231")
    nets.add_argument("--narrow", type=int, metavar="N", default=1, help="divide the numbers of channels by N")
    nets.add_argument("--repeats", type=int, default=None, help="calls of each pass; default 10, with --quick 3")
    nets.add_argument("--threads", type=int, default=None, help="default: the CPUs this process may use")
    nets.add_argument("--cpu-time", action="store_true", help="processor time, for a busy machine; needs --threads 1")
    nets.add_argument(
        "--algorithm", choices=["direct", "winograd"], default="direct",
        help="of weft's convolutions, as wf.conv_algorithm; default %(default)s",
    )
    nets.add_argument(
        "--precision", choices=["float32", "bfloat16"], default="float32",
        help="of products, as wf.matmul_precision; all arrays of PyTorch are then bfloat16; default %(default)s",
    )
    nets.add_argument("--peers", action="store_true", help="PyTorch beside weft, in turns, each in a process of its own")
    nets.add_argument("--json", metavar="FILE", help="write the record of the run")
    nets.add_argument("--picture", metavar="FILE", help="write a picture (PNG), a bar a layer; needs matplotlib")
    nets.set_defaults(run=_convnets)
    gpu = kinds.add_parser("gpu", help="eight minutes on a GPU: is it right, and how fast; JSON for each step")
    gpu.add_argument("--device", metavar="NAME", help="gpu, gpu:1 or gpu-sim; default gpu")
    gpu.add_argument("--minutes", type=float, default=8.0, help="for all steps; what does not fit is cut; default 8")
    gpu.add_argument("--only", metavar="A,B", help="some of the steps, by name")
    gpu.add_argument("--out", metavar="DIR", help="where the results go; default weft-bench-gpu")
    gpu.add_argument("--resume", action="store_true", help="go on with the results that are in DIR: what is done is not repeated")
    gpu.add_argument("--quick", action="store_true", help="tiny sizes and few runs: it shows that the steps run, no more")
    gpu.add_argument("--zip", metavar="FILE", help="keep all results in this one file, too, written anew while steps run")
    gpu.set_defaults(run=_gpu)
    kinds.add_parser("dist", help="sums between ranks and a training step, and the efficiency on more nodes")
    arguments = parser.parse_args(argv)
    return arguments.run(arguments)


def _convnets(arguments: argparse.Namespace) -> int:
    from benchmarks.convnets import convnets

    return convnets(arguments)


def _gpu(arguments: argparse.Namespace) -> int:
    from benchmarks.gpu.command import gpu

    return gpu(arguments)
