"""Options of an optimizer's groups as dicts; changes apply from the next step on."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any


class GroupOptions(MutableMapping):
    """The options that one group sets itself; ``groups["*.bias"]["lr"] = 0.1`` sets one.

    ``holder`` is the group's optimizer, whose attributes are the values. ``change`` is called with an option's name and its new
    value, or ``DELETED_MARK``.
    """

    def __init__(self, holder: Any, names: tuple[str, ...], change: Callable[[GroupOptions, str, Any], None]) -> None:
        self.holder, self.names, self.change = holder, names, change

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return getattr(self.holder, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.change(self, name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self.names:
            raise KeyError(name)
        self.change(self, name, DELETED_MARK)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return repr(dict(self))


class Groups(UserDict):
    """The groups of an optimizer by pattern. The patterns are fixed when the optimizer is made, the options are not."""

    def __setitem__(self, pattern: str, options: Any) -> None:
        raise self._fixed_error(pattern)

    def __delitem__(self, pattern: str) -> None:
        raise self._fixed_error(pattern)

    def _fixed_error(self, pattern: str) -> ValueError:
        return ValueError(
            f"groups are fixed when the optimizer is made, but their options are not: write groups['pattern']['lr'] = 0.1, "
            f"or make another optimizer with a group {pattern!r}"
        )


DELETED_MARK = object()
