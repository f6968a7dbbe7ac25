"""What type checkers and editors know of the methods that ``methods.py`` finds when they are first used."""

from typing import Any

from weft.array.shapes import Shapes
from weft.functions import (
    averages,
    casting,
    choosing,
    diagonals,
    elementwise,
    indexing,
    joining,
    linalg,
    manipulation,
    ordering,
    products,
    selecting,
    sorting,
    statistics,
)

NAMES: tuple[str, ...]

class Methods(Shapes):
    all = statistics.all
    any = statistics.any
    argmax = statistics.argmax
    argmin = statistics.argmin
    max = statistics.max
    min = statistics.min
    prod = statistics.prod
    sum = statistics.sum
    mean = averages.mean
    std = averages.std
    var = averages.var
    clip = choosing.clip
    round = elementwise.round
    astype = casting.astype
    copy = casting.copy
    nonzero = indexing.nonzero
    take = indexing.take
    cumprod = products.cumprod
    cumsum = products.cumsum
    choose = selecting.choose
    argpartition = ordering.argpartition
    repeat = joining.repeat
    diagonal = diagonals.diagonal
    dot = linalg.dot
    trace = diagonals.trace
    ravel = manipulation.ravel
    squeeze = manipulation.squeeze
    swapaxes = manipulation.swapaxes
    argsort = sorting.argsort
    searchsorted = sorting.searchsorted
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any: ...
    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def _set_write(self, write: bool) -> None: ...
