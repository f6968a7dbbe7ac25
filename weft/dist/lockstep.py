"""Shards that meet: one of a rank's shards runs at a time, until all wait for a sum over the shards of the job.

Each shard runs in a thread of its own, so the programs of all ranks are those of one shard, whatever the number of ranks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.functions.creation.fill import asarray
from weft.graph.effects import add_effect
from weft.graph.node import Node, Primitive
from weft.graph.primitives.call import call
from weft.graph.primitives.common import moving
from weft.graph.primitives.table import bind
from weft.process.attributes import change_attribute
from weft.runtime.context import CONTEXT
from weft.transforms.effect_order import run_effect

_COPIED_SETTINGS = ("placement", "device", "flush_denormals", "compile_threshold")


class _Shard(threading.local):
    """The shard that this thread traces or runs."""

    weight: float | None = None  # while it is traced: the factor of its gradient in the job's
    meet: Callable[[np.ndarray], np.ndarray] | None = None  # while it runs: waits for the others, returns the sum


_SHARD = _Shard()


def trace_shard(weight: float) -> AbstractContextManager[None]:
    """Let layers ask for sums over the shards inside a ``with`` block.

    weight : the factor of this shard's gradient in the job's
    """
    return change_attribute(_SHARD, "weight", weight)


def is_shard() -> bool:
    """Return whether a shard is traced that can ask for sums over all shards."""
    return _SHARD.weight is not None


def sum_over_shards(x: Array) -> Array:
    """Return the sum of ``x`` over the shards of the job, inside of :func:`trace_shard`.

    The gradient of the job is the sum of the shards' gradients by their weights, so the cotangents are added up by these
    weights, and the sum is divided by the weight of each shard.
    """
    assert _SHARD.weight is not None, "is_shard() is True"
    node = as_node(x)
    return wrap(run_effect(SHARD_SUM, node, as_node(asarray(_SHARD.weight, dtype=x.dtype))))


def _meet(x: np.ndarray, weight: np.ndarray, turn: Any) -> np.ndarray:
    return x if _SHARD.meet is None else _SHARD.meet(x)


def _vjp(g: Node, out: Node, x: Node, weight: Node, turn: Node) -> tuple[Node, None, None]:
    return call.divide(add_effect(SHARD_SUM, call.multiply(g, weight), weight), weight), None, None


def _batch(inputs: Sequence[Node], dims: Sequence[int | None]) -> tuple[Node, int | None]:
    return bind(SHARD_SUM, *inputs), dims[0]


def _refuse_tangent(*arguments: Any, **params: Any) -> Node:
    raise TypeError("jvp: statistics over all shards of fit have no forward derivative: use grad")


SHARD_SUM: Primitive = Primitive(
    "dist_shard_sum", "host", lambda x, weight, turn: (x.shape, x.dtype), _meet, None, _vjp,
    _batch, moving, raises=True, effect=True, jvp=_refuse_tangent,
)


class _Cancelled(BaseException):
    """Ends the thread of a shard after another one has failed."""


class _Task:
    """The thread of a shard. It runs only while :meth:`proceed` waits for it."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.operand: np.ndarray | None = None  # of the sum that the shard waits for; None at the end
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_cancelled = False
        self._total: np.ndarray
        self._may_run, self._has_stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._run, self._settings = run, {name: getattr(CONTEXT, name) for name in _COPIED_SETTINGS}
        self._thread = threading.Thread(target=self._work, name="weft shard", daemon=True)
        self._thread.start()

    def proceed(self, total: np.ndarray | None = None) -> None:
        """Let the shard run until its next sum, or to its end. total : the sum that it waits for"""
        if total is not None:
            self._total = total
        self.operand = None
        self._may_run.release()
        self._has_stopped.acquire()
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        """End the thread."""
        self.is_cancelled = True
        self._may_run.release()
        self._thread.join()

    def _work(self) -> None:
        try:
            for name, value in self._settings.items():
                setattr(CONTEXT, name, value)
            self._may_run.acquire()
            if not self.is_cancelled:
                _SHARD.meet = self._meet
                self.result = self._run()
        except _Cancelled:
            pass
        except BaseException as error:  # raised by ``proceed``
            self.error = error
        self._has_stopped.release()

    def _meet(self, x: np.ndarray) -> np.ndarray:
        self.operand = x.copy()
        self._has_stopped.release()
        self._may_run.acquire()
        if self.is_cancelled:
            raise _Cancelled
        return self._total


def run_in_lockstep(
    shards: Mapping[int, Callable[[], Any]], add_up: Callable[[Mapping[int, np.ndarray]], np.ndarray],
) -> dict[int, Any]:
    """Return the result of each shard's function. The functions run in turns, in threads, one at a time.

    add_up : function that returns the sum over the job for the operands of the shards, when all wait for one
    """
    tasks = {shard: _Task(run) for shard, run in shards.items()}
    try:
        total: np.ndarray | None = None
        while True:
            for task in tasks.values():
                task.proceed(total)
            operands = {shard: task.operand for shard, task in tasks.items() if task.operand is not None}
            if not operands:
                return {shard: task.result for shard, task in tasks.items()}
            assert len(operands) == len(tasks), "all shards run one program"
            total = add_up(operands)
    finally:
        for task in tasks.values():
            task.cancel()
