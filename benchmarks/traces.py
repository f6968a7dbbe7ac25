"""How often everyday training loops are traced, and how many programs are compiled for them: counts, no times.

    python benchmarks/traces.py [--only warm-up EMA] [--steps 12]

Each loop is written as its users write it. ``LOOPS`` says what is necessary: one trace where only arrays and learning rates
change; two where a number changes that was a constant at first; one for each shape, mode or outcome of a condition. Fewer
programs than traces are compiled where two traces come to the same operations. ``tests/test_traces.py`` asserts the counts.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import weft as wf
from weft.runtime import execute, program_files
from weft.schedule import build

jitting = importlib.import_module("weft.transforms.jit")  # under this name the package has the function

STEPS = 12
X, Y = wf.random.normal(size=(48, 6)), wf.random.normal(size=(48, 3))
BATCH = 4


class Loop(NamedTuple):
    """A loop: ``run(steps)`` runs it and gives its jitted functions."""

    name: str
    run: Callable[[int], list[Any]]
    traces: int
    programs: int


class Counts(NamedTuple):
    traces: int
    programs: int


def batch(k: int) -> tuple[Any, Any]:
    """The batch of a step, sliced outside of the step."""
    k %= len(X) // BATCH
    return X[k * BATCH : (k + 1) * BATCH], Y[k * BATCH : (k + 1) * BATCH]


def net(dropout: float = 0.0) -> wf.nn.Sequential:
    layers = [wf.nn.Linear(6, 8), wf.nn.Tanh()] + ([wf.nn.Dropout(dropout)] if dropout else []) + [wf.nn.Linear(8, 3)]
    return wf.nn.Sequential(*layers)


def loss(model: Any, x: Any, y: Any) -> Any:
    return ((model(x) - y) ** 2).mean()


def plain(model: Any, optimizer: Any) -> Any:
    @wf.jit
    def step(x: Any, y: Any) -> Any:
        value, slopes = wf.value_and_grad(loss)(model, x, y)
        optimizer.update(model, slopes)
        return value

    return step


LOOPS: list[Loop] = []


Run = Callable[[int], list[Any]]


def loop(name: str, traces: int, programs: int | None = None) -> Callable[[Run], Run]:
    """Note a loop, with how often it has to be traced and compiled."""

    def note(run: Run) -> Run:
        LOOPS.append(Loop(name, run, traces, traces if programs is None else programs))
        return run

    return note


# ---- where model and optimizer are


@loop("model and optimizer closed over", 1)
def closed_over(steps: int) -> list[Any]:
    model = net()
    step = plain(model, wf.optim.Adam(1e-2).init(model))
    for k in range(steps):
        step(*batch(k))
    return [step]


@loop("module in, module out", 1)
def module_in_module_out(steps: int) -> list[Any]:
    @wf.jit
    def step(model: Any, x: Any, y: Any) -> Any:
        value, slopes = wf.value_and_grad(loss)(model, x, y)
        return wf.tree_map(lambda p, s: p - 0.1 * s, model, slopes), value

    model = net()
    for k in range(steps):
        model, _ = step(model, *batch(k))
    return [step]


@loop("model and optimizer in and out", 1)
def model_and_optimizer_in_and_out(steps: int) -> list[Any]:
    @wf.jit
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        value, slopes = wf.value_and_grad(loss)(model, x, y)
        optimizer.update(model, slopes)
        return model, optimizer, value

    model = net()
    optimizer = wf.optim.Adam(1e-2).init(model)
    for k in range(steps):
        model, optimizer, _ = step(model, optimizer, *batch(k))
    return [step]


@loop("gradient of a module, update outside", 1)
def gradient_of_a_module(steps: int) -> list[Any]:
    slope = wf.jit(wf.value_and_grad(loss))
    model = net()
    optimizer = wf.optim.SGD(0.1).init(model)
    for k in range(steps):
        _, slopes = slope(model, *batch(k))
        optimizer.update(model, slopes)
    return [slope]


@loop("dict of parameters in and out", 1)
def dict_of_parameters(steps: int) -> list[Any]:
    @wf.jit
    def step(p: Any, x: Any, y: Any) -> Any:
        slopes = wf.grad(lambda p: ((wf.tanh(x @ p["w"]) @ p["v"] - y) ** 2).mean())(p)
        return {name: p[name] - 0.1 * slopes[name] for name in p}

    p = {"w": wf.random.normal(size=(6, 8)), "v": wf.random.normal(size=(8, 3))}
    for k in range(steps):
        p = step(p, *batch(k))
    return [step]


@loop("dict of parameters that is a variable", 1)
def dict_that_is_a_variable(steps: int) -> list[Any]:
    p = {"w": wf.random.normal(size=(6, 3))}

    @wf.jit
    def step(x: Any, y: Any) -> None:
        nonlocal p
        slopes = wf.grad(lambda p: ((x @ p["w"] - y) ** 2).mean())(p)
        p = {name: p[name] - 0.1 * slopes[name] for name in p}

    for k in range(steps):
        step(*batch(k))
    return [step]


@loop("list of modules, one exchanged", 1)
def list_of_modules(steps: int) -> list[Any]:
    layers = [wf.nn.Linear(6, 8), wf.nn.Linear(8, 8), wf.nn.Linear(8, 3)]

    @wf.jit
    def forward(x: Any) -> Any:
        for layer in layers:
            x = wf.tanh(layer(x))
        return x

    for k in range(steps):
        forward(batch(k)[0])
        if k == steps // 2:
            layers[1] = wf.nn.Linear(8, 8)
    return [forward]


@loop("two models in turns, one function", 1)
def two_models(steps: int) -> list[Any]:
    @wf.jit
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        slopes = wf.grad(loss)(model, x, y)
        return wf.tree_map(lambda p, s: p - optimizer.lr * s, model, slopes)

    models, optimizer = [net(), net()], wf.optim.SGD(0.1)
    for k in range(steps):
        models[k % 2] = step(models[k % 2], optimizer, *batch(k))
    return [step]


# ---- rates and schedules


@loop("warm-up from 0", 1)
def warm_up(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.Adam(1e-2).init(model)
    step = plain(model, optimizer)
    for k in range(steps):
        optimizer.lr = 1e-2 * min(1.0, k / 5)
        step(*batch(k))
    return [step]


@loop("schedule computed outside", 1)
def schedule_outside(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.Adam(1e-2).init(model)
    step = plain(model, optimizer)
    for k in range(steps):
        step(*batch(k))
        optimizer.lr = 1e-2 * 0.5 * (1 + math.cos(math.pi * k / steps))
    return [step]


@loop("schedule of weft", 1)
def schedule_of_weft(steps: int) -> list[Any]:
    model = net()
    step = plain(model, wf.optim.Adam(1e-2, schedule=wf.optim.schedules.cosine(100)).init(model))
    for k in range(steps):
        step(*batch(k))
    return [step]


@loop("rate as an argument", 1)
def rate_as_an_argument(steps: int) -> list[Any]:
    model = net()
    step = wf.train.training_step(model, lambda out, y: ((out - y) ** 2).mean(), wf.optim.Adam(1e-2).init(model))
    for k in range(steps):
        step(*batch(k), 1e-2 * 0.9**k)
    return [step]


@loop("rate set inside the step", 1)
def rate_inside(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.SGD(0.1).init(model)

    @wf.jit
    def step(x: Any, y: Any) -> None:
        optimizer.update(model, wf.grad(loss)(model, x, y))
        optimizer.lr = optimizer.lr * 0.9

    for k in range(steps):
        step(*batch(k))
    return [step]


@loop("scheduler object called inside", 2)
def scheduler_object(steps: int) -> list[Any]:
    class Scheduler:
        def __init__(self) -> None:
            self.turn = 0

        def rate(self) -> Any:
            self.turn += 1
            return 0.1 / (1 + 0.5 * self.turn)

    model, scheduler = net(), Scheduler()
    optimizer = wf.optim.SGD(0.1).init(model)

    @wf.jit
    def step(x: Any, y: Any) -> None:
        optimizer.update(model, wf.grad(loss)(model, x, y), scheduler.rate())

    for k in range(steps):
        step(*batch(k))
    return [step]


@loop("weight decay and betas annealed", 2)
def annealed(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.AdamW(1e-2).init(model)
    step = plain(model, optimizer)
    for k in range(steps):
        step(*batch(k))
        optimizer.weight_decay, optimizer.betas = 0.01 + 1e-3 * k, (0.9 - 0.01 * k, 0.999)
    return [step]


@loop("rate as a global number", 2)
def global_number(steps: int) -> list[Any]:
    p = wf.ones(3)
    for k in range(steps):
        move(p, wf.ones(3))
        globals()["RATE"] = 0.5 / (k + 1)
    return [move]


RATE = 1.0


@wf.jit
def move(p: Any, slope: Any) -> None:
    p[...] = p - RATE * slope


@loop("optimizer exchanged for another kind", 2)
def optimizer_exchanged(steps: int) -> list[Any]:
    model = net()
    optimizer: Any = wf.optim.Adam(1e-2).init(model)

    @wf.jit
    def step(x: Any, y: Any) -> None:
        optimizer.update(model, wf.grad(loss)(model, x, y))

    for k in range(steps):
        if k == steps // 2:
            optimizer = wf.optim.SGD(0.1).init(model)
        step(*batch(k))
    return [step]


@loop("optimizer made anew", 2, 1)
def optimizer_made_anew(steps: int) -> list[Any]:
    model = net()
    optimizer: Any = wf.optim.Adam(1e-2).init(model)

    @wf.jit
    def step(x: Any, y: Any) -> None:
        optimizer.update(model, wf.grad(loss)(model, x, y))

    for k in range(steps):
        if k == steps // 2:
            optimizer = wf.optim.Adam(1e-2).init(model)
        step(*batch(k))
    return [step]


# ---- counters, conditions, settings


@loop("counter on self", 2)
def counter_on_self(steps: int) -> list[Any]:
    class Trainer:
        def __init__(self) -> None:
            self.model, self.turn = net(), 0

        @wf.jit
        def step(self, x: Any, y: Any) -> Any:
            self.turn += 1
            return loss(self.model, x, y) / self.turn

    trainer = Trainer()
    for k in range(steps):
        trainer.step(*batch(k))
    assert trainer.turn == steps
    return [Trainer.step]


@loop("counter beside the step", 1)
def counter_beside(steps: int) -> list[Any]:
    class Trainer:
        def __init__(self) -> None:
            self.model, self.turn, self.best = net(), 0, math.inf

        def fit(self) -> None:
            for k in range(steps):
                value = float(self.step(self.model, *batch(k)))
                self.turn, self.best = self.turn + 1, min(self.best, value)

        step = staticmethod(wf.jit(lambda model, x, y: loss(model, x, y)))

    Trainer().fit()
    return [Trainer.step]


@loop("step number as an argument", 2)
def step_number(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.SGD(0.1).init(model)

    @wf.jit
    def step(x: Any, y: Any, k: int) -> None:
        optimizer.update(model, wf.grad(loss)(model, x, y), 0.1 * 0.99**k)

    for k in range(steps):
        step(*batch(k), k)
    return [step]


@loop("print every n steps, outside", 1)
def print_outside(steps: int) -> list[Any]:
    model = net()
    step = plain(model, wf.optim.Adam(1e-2).init(model))
    lines = []
    for k in range(steps):
        value = step(*batch(k))
        if k % 5 == 0:
            lines.append(f"{k} {float(value):.3f}")
    return [step]


@loop("every n steps inside, by the step's number", 3, 2)
def every_n_steps_inside(steps: int) -> list[Any]:
    model = net()
    slow = copy.deepcopy(model)

    @wf.jit
    def step(x: Any, y: Any, k: int) -> Any:
        if k % 5 == 4:  # Lookahead: one program with these copies, one without, and the first, in which k is a constant
            for p, q in zip(slow.parameters().values(), model.parameters().values(), strict=True):
                p[...] = p + 0.5 * (q - p)
        return loss(model, x, y)

    for k in range(steps):
        step(*batch(k), k)
    return [step]


@loop("loss scale that is doubled and halved", 2)
def loss_scale(steps: int) -> list[Any]:
    class Scale:
        def __init__(self) -> None:
            self.value = 1024.0

    model, scale = net(), Scale()

    @wf.jit
    def step(x: Any, y: Any) -> Any:
        return wf.grad(lambda m: loss(m, x, y) * scale.value)(model)

    for k in range(steps):
        step(*batch(k))
        scale.value *= 2.0 if k % 3 else 0.5
    return [step]


@loop("closure over a config object", 2)
def config_object(steps: int) -> list[Any]:
    class Config:
        def __init__(self) -> None:
            self.smoothing, self.noise, self.name = 0.2, 1.0, "run"

    model, config = net(), Config()

    @wf.jit
    def step(x: Any, y: Any) -> Any:
        return loss(model, x + config.noise, y * (1 - config.smoothing))

    for k in range(steps):
        step(*batch(k))
        config.noise, config.smoothing = 0.5 / (k + 1), 0.1 * k
    return [step]


@dataclass(frozen=True)
class Settings:
    noise: float = 0.5
    name: str = "run"


@loop("config object replaced at each step", 2)
def config_replaced(steps: int) -> list[Any]:
    model, settings = net(), Settings()

    @wf.jit
    def step(x: Any, y: Any) -> Any:
        return loss(model, x + settings.noise, y)

    for k in range(steps):
        step(*batch(k))
        settings = replace(settings, noise=0.5 / (k + 1))
    return [step]


@loop("config in a dict", 2)
def config_in_a_dict(steps: int) -> list[Any]:
    model, config = net(), {"noise": 0.5, "loss": "mse"}

    @wf.jit
    def step(x: Any, y: Any) -> Any:
        return loss(model, x + config["noise"], y)

    for k in range(steps):
        step(*batch(k))
        config["noise"] = 0.5 / (k + 1)
    return [step]


# ---- modes and shapes


@loop("evaluation between, a function each", 2)
def evaluation_between(steps: int) -> list[Any]:
    model = net(0.5)
    step = plain(model, wf.optim.Adam(1e-2).init(model))
    evaluate = wf.jit(lambda x, y: loss(model, x, y))
    for k in range(steps):
        model.train()
        step(*batch(k))
        if k % 4 == 0:
            model.eval()
            evaluate(X, Y)
    return [step, evaluate]


@loop("dropout on and off, one function", 2)
def dropout_on_and_off(steps: int) -> list[Any]:
    model = net(0.5)
    forward = wf.jit(lambda x: model(x))
    for k in range(steps):
        model.train(k % 2 == 0)
        forward(batch(k)[0])
    return [forward]


@loop("last batch smaller", 2)
def last_batch_smaller(steps: int) -> list[Any]:
    model = net()
    step = plain(model, wf.optim.Adam(1e-2).init(model))
    for k in range(steps):
        x, y = batch(k)
        step(*(x[:3], y[:3]) if k % 4 == 3 else (x, y))
    return [step]


@loop("curriculum: longer slices, four lengths", 4)
def curriculum(steps: int) -> list[Any]:
    model = net()

    @wf.jit
    def step(n: int) -> Any:
        return loss(model, X[:n], Y[:n])

    for k in range(steps):
        step(8 * (1 + 4 * k // steps))
    return [step]


# ---- data, state and copies


@loop("batch by the step's number", 2)
def batch_by_number(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.Adam(1e-2).init(model)

    @wf.jit
    def step(k: int) -> Any:
        x, y = X[k * BATCH : (k + 1) * BATCH], Y[k * BATCH : (k + 1) * BATCH]
        value, slopes = wf.value_and_grad(loss)(model, x, y)
        optimizer.update(model, slopes)
        return value

    for k in range(steps):
        step(k % 12)
    return [step]


@loop("row by the step's number", 2)
def row_by_number(steps: int) -> list[Any]:
    seen = wf.zeros(48)

    @wf.jit
    def step(x: Any, k: int) -> Any:
        seen[k] += 1
        return x[k].sum() * seen[k]

    for k in range(steps):
        step(X, k)
    return [step]


@loop("recurrent state in and out", 1)
def recurrent_in_and_out(steps: int) -> list[Any]:
    cell = wf.nn.Linear(9, 3)
    step = wf.jit(lambda h, x: wf.tanh(cell(wf.concatenate([h, x], axis=1))))
    h = wf.zeros((4, 3))
    for k in range(steps):
        h = step(h, batch(k)[0])
    return [step]


@loop("recurrent state on an object", 1)
def recurrent_on_an_object(steps: int) -> list[Any]:
    class Recurrent:
        def __init__(self) -> None:
            self.cell, self.h = wf.nn.Linear(9, 3), wf.zeros((4, 3))

        @wf.jit
        def step(self, x: Any) -> Any:
            self.h = wf.tanh(self.cell(wf.concatenate([self.h, x], axis=1)))
            return self.h.sum()

    recurrent = Recurrent()
    for k in range(steps):
        recurrent.step(batch(k)[0])
    return [Recurrent.step]


@loop("gradient accumulation", 2)
def accumulation(steps: int) -> list[Any]:
    model = net()
    optimizer = wf.optim.Adam(1e-2).init(model)
    sums = {name: wf.zeros(p.shape) for name, p in model.parameters().items()}

    @wf.jit
    def add(x: Any, y: Any) -> None:
        for name, slope in wf.grad(loss)(model, x, y).parameters().items():
            sums[name] = sums[name] + slope

    @wf.jit
    def apply() -> None:
        optimizer.update(model, sums)
        for name in sums:
            sums[name] = wf.zeros_like(sums[name])

    for k in range(steps):
        add(*batch(k))
        if k % 4 == 3:
            apply()
    return [add, apply]


@loop("EMA weights, a dict that is bound anew", 2)
def ema_of_a_dict(steps: int) -> list[Any]:
    model = net()
    step = plain(model, wf.optim.Adam(1e-2).init(model))
    ema = {name: p.copy() for name, p in model.parameters().items()}

    @wf.jit
    def average() -> None:
        nonlocal ema
        ema = {name: 0.9 * ema[name] + 0.1 * p for name, p in model.parameters().items()}

    for k in range(steps):
        step(*batch(k))
        average()
    return [step, average]


@loop("EMA weights, a second module", 1)
def ema_of_a_module(steps: int) -> list[Any]:
    model = net()
    mean = copy.deepcopy(model)
    average = wf.jit(lambda mean, model: wf.tree_map(lambda a, b: 0.9 * a + 0.1 * b, mean, model))
    for _ in range(steps):
        mean = average(mean, model)
    return [average]


@loop("early stopping with the best weights", 1)
def early_stopping(steps: int) -> list[Any]:
    model = net()
    step = plain(model, wf.optim.Adam(1e-2).init(model))
    best, kept, patience = math.inf, None, 0
    for k in range(steps):
        value = float(step(*batch(k)))
        if value < best:
            best, kept, patience = value, copy.deepcopy(model), 0
        else:
            patience += 1
    assert kept is not None
    for name, p in model.parameters().items():
        p[...] = kept.parameters()[name]
    step(*batch(0))
    return [step]


@loop("metrics summed in attributes", 2, 1)  # the first sums are Scalars, where there were arrays without dimensions
def metrics(steps: int) -> list[Any]:
    class Metrics:
        def __init__(self) -> None:
            self.total, self.worst = wf.array(0.0), wf.array(0.0)

    model, seen = net(), Metrics()

    @wf.jit
    def evaluate(x: Any, y: Any) -> None:
        value = loss(model, x, y)
        seen.total = seen.total + value
        seen.worst = wf.maximum(seen.worst, value)

    for k in range(steps):
        evaluate(*batch(k))
    return [evaluate]


# ---- counting


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """While it lasts: how many programs are compiled for jitted functions. Programs on disk are left aside."""
    made, inside = 0, False
    build_, run_of, name_of = build.build, jitting._run_of, program_files.name_of

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        made += inside
        return build_(*args, **kwargs)

    def noted(traced: Any) -> Any:
        nonlocal inside
        inside = True
        try:
            return run_of(traced)
        finally:
            inside = False

    build.build, jitting._run_of = counted, noted  # type: ignore[assignment]
    program_files.name_of = lambda graph, key, device: None  # type: ignore[assignment]
    try:
        yield lambda: made
    finally:
        build.build, jitting._run_of = build_, run_of  # type: ignore[assignment]
        program_files.name_of = name_of  # type: ignore[assignment]


def counts(loop_: Loop, steps: int = STEPS) -> Counts:
    """Run a loop, and count, as if the process had compiled nothing before."""
    execute.PROGRAMS.newest.clear()
    execute.PROGRAMS.older.clear()
    with counting() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        functions = loop_.run(steps)
        return Counts(sum([f.traces for f in functions]), made())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="words of names")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    print(f"{'loop':46} {'traces':>8} {'needed':>8} {'programs':>10} {'needed':>8}")
    for each in LOOPS:
        if not given.only or any([word in each.name for word in given.only]):
            found = counts(each, given.steps)
            print(f"{each.name:46} {found.traces:8} {each.traces:8} {found.programs:10} {each.programs:8}", flush=True)


if __name__ == "__main__":
    main()
