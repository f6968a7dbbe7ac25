"""What a user chooses for the whole process."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Choice(Generic[T]):
    """Something that holds for what is written from now on: ``value``. One for the process, as the default dtype is."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value
