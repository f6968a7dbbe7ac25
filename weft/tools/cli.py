"""The command line: ``weft train digits|mnist|lorenz``, ``weft launch``, ``weft run``, ``weft bench`` and ``weft info``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import statistics
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import weft
from weft.errors import DeviceError
from weft.process.distribution import install_command

WATCH_EVERY = 50  # updates from one record of --watch to the next


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status. Errors of data and arguments are printed as one line without a traceback."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    arguments.argv = list(sys.argv[1:] if argv is None else argv)
    if not hasattr(arguments, "run"):  # no command
        parser.print_help()
        return 0
    try:
        return arguments.run(arguments)
    except (ValueError, TypeError, IndexError, OSError, ImportError, DeviceError) as error:
        print(f"weft: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft", description="NumPy code becomes a few fused native kernels.")
    parser.add_argument("--version", action="version", version=f"weft {weft.__version__}")
    commands = parser.add_subparsers(metavar="command")
    data = commands.add_parser("train", help="train a net: on images of digits, or on a differential equation").add_subparsers(
        required=True, metavar="digits|mnist|lorenz", dest="data",
    )
    for name, images in (("digits", "scikit-learn's 8x8 digits"), ("mnist", "MNIST's 28x28 digits")):
        train = data.add_parser(name, help=f"the convolutional net, on {images}")
        train.add_argument("--epochs", type=int, default=30 if name == "digits" else 5, help="default %(default)s")
        train.add_argument("--batch-size", type=int, default=8)
        _add_common(train, lr=1e-3)
        train.add_argument("--ranks", type=int, metavar="N", help="share each batch among N processes, over MPI; needs --shards")
        train.add_argument("--shards", type=int, metavar="S", help="parts of each batch; the result depends on S, not on N")
        train.add_argument("--checkpoint", metavar="FILE", help="save the state of the run there, after each epoch and at Ctrl-C")
        train.add_argument("--resume", action="store_true", help="continue from the checkpoint, if there is one")
        train.add_argument("--plot", metavar="FILE", help="write a picture of the error curve")
        train.add_argument(
            "--watch", metavar="FILE", nargs="?", const="",
            help="print statistics of the net's numbers, a layer and a tensor; with FILE also write a picture of them",
        )
        train.add_argument(
            "--profile", metavar="FILE", nargs="?", const="",
            help="profile a step after the training; with FILE also write the profile as .html, .png, .json (Perfetto) or .txt",
        )
        train.set_defaults(run=_train)
    lorenz = data.add_parser("lorenz", help="a neural differential equation, on the Lorenz system")
    lorenz.add_argument("--steps", type=int, default=1000, help="steps of Adam; default %(default)s")
    lorenz.add_argument("--bfgs-steps", type=int, default=1000, help="the most steps of BFGS after it; default %(default)s")
    _add_common(lorenz, lr=0.01)
    lorenz.add_argument(
        "--plot", metavar="FILE", default="lorenz.png" if importlib.util.find_spec("matplotlib") else None,
        help="the picture of the fitted trajectory; default lorenz.png, if matplotlib is installed",
    )
    lorenz.set_defaults(run=_train_lorenz)
    bench = commands.add_parser("bench", help="time well-known nets, a GPU, or the ranks of a job", add_help=False)
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    bench.set_defaults(run=_bench)
    launch = commands.add_parser("launch", help="run a script on several ranks over MPI")
    launch.add_argument("-n", type=int, required=True, metavar="RANKS", help="number of ranks, which share a machine's cores")
    launch.add_argument("--hosts", metavar="A,B", help="machines that share the ranks evenly; default: this one")
    launch.add_argument("--patience", type=float, metavar="SECONDS", help="how long a rank waits for the others; default 60")
    launch.add_argument("--retries", type=int, default=0, metavar="R", help="how often a job that fails is started again")
    launch.add_argument("--least", type=int, metavar="M", help="start it again with fewer ranks, down to M, if one is killed")
    launch.add_argument("--mpiexec", metavar="PROGRAM", help="the MPI's launcher; default: the installed one")
    launch.set_defaults(run=_launch)
    rank = commands.add_parser("run", help="run a script as one rank of a job that srun or mpiexec starts")
    rank.set_defaults(run=_run_rank)
    for command in (launch, rank):
        command.add_argument("script")
        rest = command.add_argument("arguments", nargs=argparse.REMAINDER, help="passed to the script")
        rest.required = False  # Python 3.11 to 3.13 list it among missing arguments otherwise
    commands.add_parser("info", help="show this machine's devices and caches").set_defaults(run=_info)
    return parser


def _add_common(train: argparse.ArgumentParser, lr: float) -> None:
    train.add_argument("--lr", type=float, default=lr, help="Adam's learning rate; default %(default)s")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--threads", type=int, default=None, help="default: the CPUs this process may use")
    train.add_argument("--device", metavar="NAME", help="where it runs: cpu, gpu, gpu-sim or auto; default $WEFT_DEVICE, or cpu")
    train.add_argument("--save", metavar="FILE", help="write the weights as safetensors")


def _set_up(arguments: argparse.Namespace) -> None:
    """Apply ``--threads`` and ``--device``, and raise if a file could not be written later."""
    import weft as wf

    if arguments.threads is not None:
        wf.set_num_threads(arguments.threads)
    if arguments.device is not None:
        wf.set_device(arguments.device)
    _check_files(arguments)


def _launch(arguments: argparse.Namespace) -> int:
    from weft.dist.launch import launch

    hosts = [] if arguments.hosts is None else arguments.hosts.split(",")
    return launch(
        arguments.n, arguments.script, arguments.arguments, arguments.patience, hosts, arguments.retries, arguments.least,
        arguments.mpiexec,
    )


def _run_rank(arguments: argparse.Namespace) -> int:
    from weft.dist.run_rank import main as run_rank

    run_rank([arguments.script, *arguments.arguments])
    return 0


def _train_lorenz(arguments: argparse.Namespace) -> int:
    from weft.tools.lorenz import train_lorenz

    _set_up(arguments)
    return train_lorenz(arguments)


def _train(arguments: argparse.Namespace) -> int:
    if arguments.ranks is not None and (code := _train_on_ranks(arguments)) is not None:
        return code
    import weft as wf
    from weft.runtime.context import CONTEXT
    from weft.tools.digit_net import digit_net

    _set_up(arguments)
    if CONTEXT.device == "gpu-sim":
        print("gpu-sim interprets GPU code, which is slow: an epoch takes minutes; Ctrl-C ends the run", flush=True)
    split = wf.data.load_digits() if arguments.data == "digits" else wf.data.load_mnist()
    wf.random.seed(arguments.seed)
    net = digit_net(split.x_train.shape[-1])
    watch = None if arguments.watch is None else wf.watch(net, every=WATCH_EVERY)
    with nullcontext() if watch is None else watch:
        history = wf.train.fit(
            net, split.x_train, split.y_train, epochs=arguments.epochs, batch_size=arguments.batch_size,
            optimizer=wf.optim.Adam(lr=arguments.lr), seed=arguments.seed, callbacks=[] if watch is None else [watch],
            checkpoint=arguments.checkpoint, resume=arguments.resume or None, shards=arguments.shards,
        )
    if arguments.ranks is not None and wf.dist.rank():
        return 130 if history.interrupted else 0
    if history.interrupted:
        print(f"interrupted; kept the weights of epoch {history.best}" if history.best else "interrupted in the first epoch")
    if arguments.save:
        wf.io.save(arguments.save, net)
        print(f"weights: {arguments.save}")
    if arguments.plot and history.epochs:
        history.plot(arguments.plot)
        print(f"error curve: {arguments.plot}")
    if watch is not None and watch.records:
        print(f"update {watch.records[-1][0]:,}, one of {len(watch.records)} that were watched:\n{watch}")
        if arguments.watch:
            watch.plot(arguments.watch)
            print(f"statistics: {arguments.watch}")
    guesses = wf.train.predict(net, split.x_test).argmax(1)
    right = int((guesses == split.y_test).sum())
    print("labels     ", *split.y_test[:16])
    print("predictions", *guesses[:16])
    if history.seconds:
        print(f"seconds an epoch: {statistics.median(history.seconds):.3f} (median of {len(history.seconds)})")
    print(f"test accuracy: {100 * right / len(guesses):.2f} % ({right} of {len(guesses)})")
    if arguments.profile is not None and not history.interrupted:
        _profile(arguments, net, split, history, watch)
    return 130 if history.interrupted else 0


def _train_on_ranks(arguments: argparse.Namespace) -> int | None:
    """Start the ranks of ``--ranks`` and return their exit code. None in a process that is one of them."""
    from weft.dist.launch import launch
    from weft.dist.mpi import launched_rank

    if launched_rank() is not None:
        return None
    if arguments.ranks < 1:
        raise ValueError(f"train: --ranks is {arguments.ranks}, but a job has at least one rank")
    if arguments.shards is None:
        raise ValueError(f"train: --ranks needs --shards S, at least {arguments.ranks}: the result depends on it")
    if arguments.shards < arguments.ranks:
        raise ValueError(f"train: --shards is {arguments.shards}, but each of {arguments.ranks} ranks needs a shard")
    for option in ("watch", "profile"):
        if getattr(arguments, option) is not None:
            raise ValueError(f"train: --{option} is for one process; leave out --ranks")
    _check_files(arguments)
    return launch(arguments.ranks, str(Path(__file__).with_name("__main__.py")), arguments.argv)


def _check_files(arguments: argparse.Namespace) -> None:
    """Raise before training if a file could not be written afterwards."""
    options = vars(arguments)
    if options.get("resume") and not arguments.checkpoint:
        raise ValueError("train: --resume needs --checkpoint FILE, the file to go on from")
    profile = options.get("profile")
    if profile is not None:
        from weft.tools.profile import check_ending
        from weft.tools.profile_session import timing_device

        timing_device()
        if profile:
            check_ending(profile)
    drawn = (arguments.plot, options.get("watch"))
    pictures = [f for f in (*drawn, profile) if f and (f in drawn or f.endswith(".png"))]
    if pictures and importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"train: {pictures[0]} needs matplotlib: {install_command('plot')}")
    option_of_path: dict[str, str] = {}
    for option in ("save", "checkpoint", "plot", "watch", "profile"):
        file = options.get(option)
        if file:
            path = Path(file)
            earlier = option_of_path.setdefault(os.path.realpath(path), option)
            if earlier != option:
                raise ValueError(f"train: --{earlier} and --{option} would both write {path}: give two files")
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise OSError(f"train: {path} is a folder, not a file")
            if not os.access(path.parent, os.W_OK):
                raise OSError(f"train: {path} cannot be written: its folder is read-only")


def _bench(arguments: argparse.Namespace) -> int:
    """Run ``weft bench dist``, or ``benchmarks/command.py``, which is beside the package in a checkout."""
    if arguments.rest[:1] == ["dist"]:
        from weft.tools.bench_dist import bench_dist

        return bench_dist(arguments.rest[1:])
    root = Path(__file__).parents[2]
    if not (root / "benchmarks" / "command.py").is_file():
        raise ImportError(
            "bench: all benchmarks but `weft bench dist` are not part of the installed package. Clone weft's repository, run "
            "`make setup` there, and then `.venv/bin/weft bench`; wf.bench times your own functions."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module("benchmarks.command").run(arguments.rest)


def _profile(arguments: argparse.Namespace, net, split, history, watch) -> None:
    """Profile one training step of ``fit`` at the run's batch size and print the result. The net is not changed."""
    import weft as wf

    size = min(arguments.batch_size, len(split.x_train))
    optimizer = wf.optim.Adam(lr=arguments.lr).init(net)
    step = wf.train.training_step(net.train(), wf.losses.cross_entropy, optimizer)
    x, y = wf.asarray(split.x_train[:size]), wf.asarray(split.y_train[:size])
    try:
        with wf.flush_denormals():
            result = wf.profile(step, x, y, arguments.lr, show=False, watch=watch)
    finally:
        net.eval()
    print(f"\nOne step of {size} images\n\n{result}")
    count = -(-len(split.x_train) // arguments.batch_size)
    if history.seconds:
        compiled = ", compiling among it" if len(history.seconds) == 1 else ""
        steps, measured = count * result.seconds, min(history.seconds)
        if steps < measured:
            rest = "the rest is the loop around them: drawing batches, reading the loss, and other programs on this machine"
        else:
            rest = "fit makes many short steps in one native call, without Python between them"
        print(f"An epoch: {count:,} steps, {steps:.3g} s one by one; measured were {measured:.3g} s{compiled}: {rest}.")
    if arguments.profile:
        result.save(arguments.profile)
        print(f"profile: {arguments.profile}")


def _info(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from weft.devices import get_device
    from weft.devices.cuda.cards import cards
    from weft.devices.names import why_not

    cpu = get_device("cpu").describe(measure=True)
    rows = {
        "processor": f"{cpu['model']} ({cpu['machine']})",
        "vectors": f"{cpu['vector_bits']} bits, {cpu['vector_registers']} registers, fma {'yes' if cpu['fma'] else 'no'}",
        "caches": f"L1 {cpu['l1_bytes'] >> 10} kB, L2 {cpu['l2_bytes'] >> 10} kB a core",
        "features": " ".join(cpu["features"]),
        "threads": str(cpu["threads"]),
        "measured peak": f"{cpu['fma_peak_flops'] / 1e9:.0f} GFLOP/s float32, one thread",
        "measured copy": f"{cpu['copy_bytes_per_second'] / 1e9:.1f} GB/s, one thread",
        "kernel cache": f"{cpu['cache_folder']}: {cpu['cache_entries']} kernels, {cpu['cache_bytes'] / 1e6:.1f} MB",
        "versions": ", ".join(f"{name} {version}" for name, version in cpu["versions"].items()),
        "device in use": _describe_device_in_use(),
        "gpu": why_not("gpu") or "ready",
        **{f"gpu:{k}": card for k, card in enumerate(cards())},
        "gpu-sim": why_not("gpu-sim") or "ready: the code for a GPU, interpreted",
    }
    table = Table(show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, escape(value))
    Console().print(table)
    return 0


def _describe_device_in_use() -> str:
    """Return the name of the device in use, whether $WEFT_DEVICE chose it, and why it cannot be used."""
    from weft.devices.names import NAMES, why_not
    from weft.runtime.context import CONTEXT

    variable = os.environ.get("WEFT_DEVICE")
    origin = " (from $WEFT_DEVICE)" if variable else ""
    if CONTEXT.placement is not CONTEXT.device:
        return f"auto{origin}: for each program one of {', '.join(CONTEXT.placement.machines)}"
    if variable == "auto":
        return f"auto{origin}: cpu for all programs, since there is nothing else"
    name = CONTEXT.device or "cpu"
    try:
        missing = why_not(name)
    except ValueError:
        missing = f"no such device; there are {', '.join(NAMES)} and auto"
    return f"{name}{origin}{f': {missing}' if missing else ''}"


if __name__ == "__main__":
    sys.exit(main())
