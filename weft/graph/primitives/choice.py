"""Settings that a user chooses for the whole process."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Choice(Generic[T]):
    """A process-wide setting. Its ``value`` applies to operations that are created afterwards."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value
