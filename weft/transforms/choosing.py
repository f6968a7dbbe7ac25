"""A choice for the whole process is made, or holds for what is written inside a ``with``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from weft.transforms.tree import Structure

T = TypeVar("T")


class Changeable(Protocol[T]):
    value: T


def choose(choice: Changeable[T], value: T) -> None:
    if value != choice.value:
        choice.value = value
        Structure.count += 1  # jitted functions look again at what they are called in


@contextmanager
def chosen(choice: Changeable[T], value: T) -> Iterator[None]:
    before = choice.value
    choose(choice, value)
    try:
        yield
    finally:
        choose(choice, before)
