"""Types of the methods that ``methods.py`` looks up when they are first used, for type checkers and editors."""

from typing import Any

from weft.functions.dtype_info import dtype_info
from weft.functions.elementwise import compositions, ufuncs
from weft.functions.indexing import edit, take_scatter
from weft.functions.linalg import products
from weft.functions.reductions import folds
from weft.functions.shape import axes
from weft.functions.sorting import sort_search

NAMES: tuple[str, ...]

class Methods:
    all = folds.all
    any = folds.any
    argmax = folds.argmax
    argmin = folds.argmin
    max = folds.max
    min = folds.min
    prod = folds.prod
    sum = folds.sum
    mean = folds.mean
    std = folds.std
    var = folds.var
    clip = compositions.clip
    round = ufuncs.round
    astype = dtype_info.astype
    copy = dtype_info.copy
    nonzero = take_scatter.nonzero
    take = take_scatter.take
    cumprod = folds.cumprod
    cumsum = folds.cumsum
    choose = edit.choose
    argpartition = sort_search.argpartition
    repeat = axes.repeat
    diagonal = products.diagonal
    dot = products.dot
    trace = products.trace
    ravel = axes.ravel
    squeeze = axes.squeeze
    swapaxes = axes.swapaxes
    argsort = sort_search.argsort
    searchsorted = sort_search.searchsorted
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any: ...
    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def _set_write(self, write: bool) -> None: ...
