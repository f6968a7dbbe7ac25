"""Gradients that leave a jitted program before its end, so that their exchange overlaps with the rest of the program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.convert import as_node
from weft.dtypes.formats import INT32
from weft.graph.node import Primitive
from weft.graph.primitives.common import moving
from weft.process.attributes import change_attribute
from weft.transforms.effect_order import run_effect

Take = Callable[[int, Sequence[np.ndarray]], None]


class _Receiver(threading.local):
    """The function that takes the arrays that the running program of this thread hands over. Without one they are dropped."""

    take: Take | None = None


_RECEIVER = _Receiver()


def receive_by(take: Take) -> AbstractContextManager[None]:
    """Call ``take(number, arrays)`` when programs hand arrays over inside a ``with`` block. They are valid during the call."""
    return change_attribute(_RECEIVER, "take", take)


def hand_over(number: int, arrays: Sequence[Array]) -> None:
    """Hand arrays over as soon as all of them are computed, after those that were handed over before."""
    run_effect(_HAND_OVER, *map(as_node, arrays), number=number)


def _call_receiver(*arrays: Any, number: int) -> np.ndarray:
    if _RECEIVER.take is not None:
        _RECEIVER.take(number, arrays[:-1])  # the last one is the turn
    return np.zeros((), np.int32)


_HAND_OVER = Primitive(
    "dist_hand_over", "host", lambda *inputs, number: ((), INT32), _call_receiver, cost=moving, raises=True, effect=True,
    timing="early",
)
