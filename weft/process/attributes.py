"""Attributes that have another value inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def change_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Context manager: set an attribute, and restore it at the end."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
