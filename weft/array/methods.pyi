"""Types of the methods that ``methods.py`` looks up when they are first used, for type checkers and editors."""

from typing import Any

from weft.array.shapes import Shapes
from weft.functions.dtype_info import cast
from weft.functions.elementwise import clip_compare, ufuncs
from weft.functions.indexing import select, take_scatter
from weft.functions.linalg import diagonals, products
from weft.functions.reductions import averages, folds
from weft.functions.shape import axes, join_split
from weft.functions.sorting import sort_search

NAMES: tuple[str, ...]

class Methods(Shapes):
    all = folds.all
    any = folds.any
    argmax = folds.argmax
    argmin = folds.argmin
    max = folds.max
    min = folds.min
    prod = folds.prod
    sum = folds.sum
    mean = averages.mean
    std = averages.std
    var = averages.var
    clip = clip_compare.clip
    round = ufuncs.round
    astype = cast.astype
    copy = cast.copy
    nonzero = take_scatter.nonzero
    take = take_scatter.take
    cumprod = folds.cumprod
    cumsum = folds.cumsum
    choose = select.choose
    argpartition = sort_search.argpartition
    repeat = join_split.repeat
    diagonal = diagonals.diagonal
    dot = products.dot
    trace = diagonals.trace
    ravel = axes.ravel
    squeeze = axes.squeeze
    swapaxes = axes.swapaxes
    argsort = sort_search.argsort
    searchsorted = sort_search.searchsorted
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any: ...
    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def _set_write(self, write: bool) -> None: ...
