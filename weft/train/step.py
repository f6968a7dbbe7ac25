"""The training step: forward, backward and update as one native call, with metrics, 16-bit activations and accumulation.

Metrics are further results of the step. Accumulation adds gradients times their share of the rows, so an update is the mean for
any size of the last batch. A dynamic scale of the loss skips an update whose gradients overflow, by ``where`` on every array.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.convert import cast
from weft.data.members import map_members
from weft.dtypes.api import as_dtype, bfloat16, float16, float32, is_float
from weft.dtypes.parse import parse_dtype
from weft.errors import is_own_file, warn
from weft.functions.creation.fill import full, zeros
from weft.functions.elementwise.ufuncs import isfinite, maximum
from weft.functions.indexing.where import where
from weft.graph.simplify import splat
from weft.nn.module import Module
from weft.nn.precision import Precision, count_overflows, parse_precision, precision
from weft.optim import SAM, Optimizer
from weft.optim.optimizer import state_dtype
from weft.optim.update_arguments import named_arrays
from weft.train.batches import Feed, count_rows
from weft.train.inputs import call_model
from weft.train.metrics import Metric, check_metric
from weft.transforms.control import scan
from weft.transforms.grad import value_and_grad
from weft.transforms.jit import jit

GROW_AFTER = 2000  # consecutive steps without overflow after which the scale of the loss is doubled
FIRST_SCALE = 65536.0
OVERFLOWS = "overflows of gradients"  # a sum of ``accumulate``, beside those named as parameters


def training_step(model: Module, loss: Callable, optimizer: Optimizer) -> Callable[[Array, Array, float], Array]:
    """Return a jitted training step: forward, backward and update in one native call that returns the loss before the update.

    Parameters
    ----------
    model : Module
    loss : function of outputs and targets
    optimizer : Optimizer, after ``init(model)``

    Returns
    -------
    function of x, y and the learning rate that returns the loss as an Array of shape (). Of a tuple ``x`` the members are the
        model's positional arguments, of a dict its keywords

    Raises
    ------
    ShapeError, DTypeError, TypeError
        When called: the loss is not one float number, or batch and model do not fit.

    Examples
    --------
    >>> import weft as wf
    >>> net, opt = wf.nn.Linear(2, 1), wf.optim.SGD(lr=0.1)
    >>> step = wf.train.training_step(net, wf.losses.mse, opt.init(net))
    >>> step(wf.ones((4, 2)), wf.zeros((4, 1)), 0.1).shape
    ()
    """
    value_and_gradient = value_and_grad(lambda net, x, y: loss(call_model(net, x), y))

    @jit
    def step(x: Array, y: Array, lr: float) -> Array:
        value, gradient = value_and_gradient(model, x, y)
        optimizer.update(model, gradient, lr, loss=value, gradient_at=lambda: value_and_gradient(model, x, y)[1])
        return value

    return step


def training_steps(step: Callable) -> Callable[[Array, Array, float], tuple[Array, ...]]:
    """Return a function that runs many steps as one native loop. The first axis of ``x``, ``y`` and the results is the steps."""

    @jit
    def steps(x: Array, y: Array, lr: float) -> tuple[Array, ...]:
        def one(_: None, batch: tuple[Array, Array]) -> tuple[None, tuple[Any, ...]]:
            return None, step(*batch, lr)

        return scan(one, None, (x, y))[1]

    return steps


class Stepper:
    """Updates the weights: :meth:`advance` takes the batches of one update and a rate, and returns (loss, *metrics) as floats.

    run_many : function of stacked x and y and the rate that does many updates and returns (losses, *metrics) as Arrays; None with
        accumulation
    dtype, formats : the 16 bits of activations, and the formats of products; None for float32
    scaling : "dynamic", a constant scale of the loss, or None
    gradients_dtype : in which gradients of shards are added up; None for that of the optimizer's state
    arrays : state beside model and optimizer: the dynamic scale of the loss, and the updates since it last changed
    """

    def __init__(
        self, model: Module, loss: Callable, optimizer: Optimizer, metrics: Mapping[str, Metric] | None = None,
        accumulate: int = 1, precision: Any = None, loss_scale: Any = "auto",
    ) -> None:
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.metrics = dict(metrics or {})
        self.accumulate = accumulate
        self.dtype, self.formats = _parse_precision(precision)
        self.scaling = _parse_loss_scale(loss_scale, self.dtype)
        self.arrays: dict[str, Array] = {}
        self._sums: dict[str, Array] = {}
        if self.scaling == "dynamic":
            self.arrays["scale"] = full((), FIRST_SCALE, dtype=float32)
            self.arrays["good"] = zeros((), dtype=float32)
        self.gradients_dtype: np.dtype | None = None
        self._has_warned = False  # of a loss without a gradient
        self.run_many: Callable[[Array, Array, float], tuple[Array, ...]] | None = None
        if accumulate > 1:
            if isinstance(optimizer, SAM):
                raise ValueError("fit: SAM computes each gradient twice, which accumulate= cannot do; leave one of them out")
            self._sums = {n: zeros(p.shape, dtype=state_dtype(p.dtype)) for n, p in named_arrays(model).items()}
            self._sums |= {"loss": zeros((), dtype=float32), OVERFLOWS: zeros((), dtype=float32)}
            self._add, self._jitted_last = jit(self._add_batch), jit(self._last_batch)
        else:
            self._jitted_batch = jit(self._one_batch)
            self.run_many = training_steps(self._jitted_batch)

    def advance(self, batches: Sequence[tuple[Array, Array]], lr: float) -> tuple[float, ...]:
        """Do one update from ``batches``. Return loss and metrics as means over all their rows."""
        if self.accumulate == 1:
            ((x, y),) = batches
            return tuple(map(float, self._jitted_batch(x, y, lr)))
        total = sum(count_rows(x) for x, _ in batches)
        parts = []
        for k, (x, y) in enumerate(batches):
            share = count_rows(x) / total
            last = k == len(batches) - 1
            parts.append((share, self._jitted_last(x, y, share, lr) if last else self._add(x, y, share)))
        return tuple(sum(share * float(values[k]) for share, values in parts) for k in range(1 + len(self.metrics)))

    def open_feed(self, feed: Feed) -> Callable[[Any], Any]:
        """Return a function from the key of a batch to the batch in the form that :meth:`advance` takes."""
        return feed.batch

    def pieces(self, keys: Sequence[Any], batches: Sequence[Any]) -> Iterator[tuple[Any, Array, Array]]:
        """Yield the parts of an update that are differentiated apart, as (key, x, y), each at the state that it begins with."""
        for key, (x, y) in zip(keys, batches, strict=True):
            yield key, x, y
            if len(batches) > 1:
                self._add(x, y, 0.0)

    def first_rows(self, batches: Sequence[Any]) -> tuple[Array, Array]:
        """Return the rows of the first batch."""
        return batches[0]

    @property
    def stuck(self) -> bool:
        """Whether the last update was skipped although the scale of the loss is 1, its minimum."""
        return self.scaling == "dynamic" and float(self.arrays["good"]) == 0 and float(self.arrays["scale"]) == 1

    def divide_state(self) -> None:
        """Let the optimizer keep only what this rank needs."""

    def describe_optimizer(self) -> dict[str, Any]:
        """Return the arrays of the optimizer, as a checkpoint has them, for their shapes and dtypes."""
        return self.optimizer.arrays()

    def gather_optimizer(self) -> dict[str, np.ndarray] | None:
        """Return the optimizer's arrays for a checkpoint on rank 0, if this rank has parts of them. All ranks must call this."""
        return None

    def divide_optimizer(self, content: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what this rank needs of the optimizer's arrays of a checkpoint."""
        return content

    def gradient(self, x: Array, y: Array) -> tuple[Array, dict[str, Array]]:
        """Return the loss and the gradients by name at the present weights, as the step computes them."""
        results, slopes, _ = self._results_and_gradient(x, y)
        return results[0], slopes

    # ---- called inside jit

    def _forward(self, net: Module, x: Array, y: Array, overflows: Array | None) -> tuple[Array, tuple[Array, ...]]:
        with nullcontext() if self.formats is None else precision(self.formats), count_overflows(overflows):
            if self.dtype is None:
                out = call_model(net, x)
            else:
                with cast_parameters(net, self.dtype):
                    out = _cast_floats(call_model(net, _cast_floats(x, self.dtype)), float32.dtype)
            if out is None:
                raise TypeError(f"fit: the model returns {describe_result(out)}; the loss needs one array")
            value = self.loss(out, y)
        aux = (value, *(check_metric(name, metric(out, y)) for name, metric in self.metrics.items()))
        return (value if self.scaling is None else value * self._scale), aux

    @property
    def _scale(self) -> Any:
        return self.arrays["scale"] if self.scaling == "dynamic" else self.scaling

    def _results_and_gradient(self, x: Array, y: Array) -> tuple[tuple[Array, ...], dict[str, Array], Array]:
        """Return (results, gradients by name, number of roundings of gradients that overflow, if the scale is dynamic)."""
        zero = zeros((), dtype=float32)
        if self.scaling == "dynamic":
            value, (gradient, overflows) = value_and_grad(self._forward, (0, 3), has_aux=True)(self.model, x, y, zero)
        else:
            value, gradient = value_and_grad(self._forward, has_aux=True)(self.model, x, y, None)
            overflows = zero
        slopes = named_arrays(gradient)
        self._warn_without_gradient(slopes)
        if self.scaling is not None:
            shrink = 1.0 / self._scale
            slopes = {name: g * shrink for name, g in slopes.items()}
        return value[1], slopes, overflows

    def _warn_without_gradient(self, slopes: dict[str, Array]) -> None:
        """Warn once if the derivative of the loss is the constant zero for each parameter."""
        if not slopes or self._has_warned or any(splat(g.node) != 0 for g in slopes.values()):
            return
        self._has_warned = True
        warn(
            "fit: the loss has no gradient, so the model learns nothing: it does not depend on the parameters, or only by "
            "comparisons, argmax, rounding, integers or stop_gradient; wf.losses has losses that have one"
        )

    def _one_batch(self, x: Array, y: Array, lr: float) -> tuple[Array, ...]:
        results, slopes, overflows = self._results_and_gradient(x, y)
        found = [overflows]

        def again() -> dict[str, Array]:
            _, slopes, overflows = self._results_and_gradient(x, y)
            found.append(overflows)
            return slopes

        self._update(slopes, lr, results[0], again, found)
        return results

    def _add_batch(self, x: Array, y: Array, share: float) -> tuple[Array, ...]:
        results, slopes, overflows = self._results_and_gradient(x, y)
        parts = {**slopes, "loss": results[0], OVERFLOWS: overflows}
        for name, s in self._sums.items():
            s[...] = s + parts[name].astype(s.dtype) * share
        return results

    def _last_batch(self, x: Array, y: Array, share: float, lr: float) -> tuple[Array, ...]:
        results = self._add_batch(x, y, share)
        sums = {name: copy.copy(s) for name, s in self._sums.items()}
        total, overflows = sums.pop("loss"), sums.pop(OVERFLOWS)
        for s in self._sums.values():
            s[...] = 0
        self._update(sums, lr, total, None, [overflows])
        return results

    def _update(
        self, slopes: dict[str, Array], lr: float, value: Array, again: Callable[[], Any] | None, overflows: list[Array],
    ) -> None:
        """Update the weights. overflows : the counts of overflows, to which ``again`` may add one"""
        if self.scaling != "dynamic":
            self.optimizer.update(self.model, slopes, lr, loss=value, gradient_at=again)
            return
        before = [(a, copy.copy(a)) for a in (*named_arrays(self.model).values(), *self.optimizer.arrays().values())]
        self.optimizer.update(self.model, slopes, lr, loss=value, gradient_at=again)
        is_finite: Any = sum(overflows[1:], overflows[0]) == 0
        for g in slopes.values():
            is_finite = is_finite & isfinite(g).all()
        self._keep_if(is_finite, before)

    def _keep_if(self, is_finite: Array, before: Sequence[tuple[Array, Array]]) -> None:
        """Undo an update unless its gradients are finite, and change the scale. before : arrays, and what they were"""
        for array, old in before:
            array[...] = where(is_finite, array, old)
        scale, good = self.arrays["scale"], self.arrays["good"]
        count = where(is_finite, good + 1, 0)
        grown = count >= GROW_AFTER
        scale[...] = where(is_finite, where(grown, scale * 2, scale), maximum(scale * 0.5, 1))
        good[...] = where(grown, 0, count)


def describe_result(out: Any) -> str:
    """Return what a model has returned instead of an array, for a message."""
    if out is None:
        return "None: end its forward with `return`"
    return f"a {type(out).__name__}" + (f" of {len(out)}" if isinstance(out, tuple | list | dict) else "")


def is_own_function(function: Any) -> bool:
    return is_own_file(getattr(getattr(function, "__code__", None), "co_filename", ""))


@contextmanager
def cast_parameters(model: Module, dtype: np.dtype) -> Iterator[None]:
    """Context manager: replace the model's float32 parameters by casts to ``dtype``; gradients flow to the float32 ones."""
    saved = [(p, p.node) for p in dict(model.named_parameters()).values() if p.dtype == float32]
    for p, node in saved:
        p._set(cast(node, parse_dtype(dtype)))
    try:
        yield
    finally:
        for p, node in saved:
            p._set(node)


def _cast_floats(x: Any, dtype: np.dtype) -> Any:
    """Cast float arrays of 16 or 32 bits, also inside tuples and dicts, to ``dtype``."""
    def cast_floats(a: Any) -> Any:
        return a.astype(dtype) if isinstance(a, Array) and is_float(a.dtype) and a.dtype.itemsize <= 4 else a

    return map_members(cast_floats, x)


def _parse_precision(precision: Any) -> tuple[np.dtype | None, Precision | None]:
    """Return the dtype of activations and the formats of products."""
    if isinstance(precision, Precision | Mapping):
        return None, parse_precision(precision)
    if precision is None or precision in ("float32", np.float32):
        return None, None
    dtype = as_dtype(precision)
    if dtype not in (float16, bfloat16):
        raise ValueError(
            f"fit: precision must be 'float32', 'float16', 'bfloat16', or a wf.Precision with the formats of products, such as "
            f"dict(weights='float8_e4m3fn'), not {precision!r}"
        )
    return dtype, None


def _parse_loss_scale(loss_scale: Any, dtype: np.dtype | None) -> Any:
    if isinstance(loss_scale, str) and loss_scale == "auto":
        return "dynamic" if dtype == float16 else None
    if loss_scale is None or isinstance(loss_scale, str) and loss_scale == "dynamic":
        return loss_scale
    if isinstance(loss_scale, int | float | np.number) and not isinstance(loss_scale, bool) and 0 < loss_scale < math.inf:
        return float(loss_scale)
    raise ValueError(f"fit: loss_scale={loss_scale!r} must be 'auto', 'dynamic', a positive number, or None")
