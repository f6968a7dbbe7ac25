"""The names of ``wf.*`` for type checkers and editors; ``__init__.py`` loads them when they are first used.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.array import Array as Array, Scalar as Scalar
from weft.dtypes import (
    bool as bool, int8 as int8, int16 as int16, int32 as int32, int64 as int64, uint8 as uint8, uint16 as uint16,
    uint32 as uint32, uint64 as uint64, float16 as float16, bfloat16 as bfloat16, float32 as float32,
    float64 as float64, can_cast as can_cast, finfo as finfo, iinfo as iinfo, isdtype as isdtype,
    result_type as result_type,
)
from weft.functions.elementwise import (
    abs as abs, absolute as absolute, acos as acos, acosh as acosh, add as add, arccos as arccos, arccosh as arccosh,
    arcsin as arcsin, arcsinh as arcsinh, arctan as arctan, arctan2 as arctan2, arctanh as arctanh, asin as asin,
    asinh as asinh, atan as atan, atan2 as atan2, atanh as atanh, bitwise_and as bitwise_and,
    bitwise_invert as bitwise_invert, bitwise_left_shift as bitwise_left_shift, bitwise_not as bitwise_not,
    bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift, bitwise_xor as bitwise_xor, ceil as ceil,
    copysign as copysign, cos as cos, cosh as cosh, divide as divide, equal as equal, erf as erf, exp as exp,
    exp2 as exp2, expm1 as expm1, fabs as fabs, floor as floor, floor_divide as floor_divide, greater as greater,
    greater_equal as greater_equal, hypot as hypot, invert as invert, isfinite as isfinite, isinf as isinf,
    isnan as isnan, left_shift as left_shift, less as less, less_equal as less_equal, log as log, log10 as log10,
    log1p as log1p, log2 as log2, logaddexp as logaddexp, logical_and as logical_and, logical_not as logical_not,
    logical_or as logical_or, logical_xor as logical_xor, maximum as maximum, minimum as minimum, mod as mod,
    multiply as multiply, negative as negative, nextafter as nextafter, not_equal as not_equal, positive as positive,
    pow as pow, power as power, reciprocal as reciprocal, remainder as remainder, right_shift as right_shift,
    rint as rint, round as round, sign as sign, signbit as signbit, sin as sin, sinh as sinh, sqrt as sqrt,
    square as square, stop_gradient as stop_gradient, subtract as subtract, tan as tan, tanh as tanh,
    true_divide as true_divide, trunc as trunc,
)
from weft.functions.special import erfc as erfc
from weft.functions.choosing import (
    allclose as allclose, array_equal as array_equal, clip as clip, isclose as isclose, nan_to_num as nan_to_num,
    where as where,
)
from weft.functions.statistics import (
    all as all, amax as amax, amin as amin, any as any, argmax as argmax, argmin as argmin,
    count_nonzero as count_nonzero, cumsum as cumsum, cumulative_sum as cumulative_sum, max as max, min as min,
    prod as prod, ptp as ptp, sum as sum,
)
from weft.functions.averages import average as average, mean as mean, std as std, var as var
from weft.functions.manipulation import (
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, expand_dims as expand_dims,
    flip as flip, fliplr as fliplr, flipud as flipud, matrix_transpose as matrix_transpose, moveaxis as moveaxis,
    permute_dims as permute_dims, ravel as ravel, reshape as reshape, roll as roll, squeeze as squeeze,
    swapaxes as swapaxes, transpose as transpose,
)
from weft.functions.broadcasting import (
    broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes, broadcast_to as broadcast_to,
)
from weft.functions.joining import (
    array_split as array_split, concat as concat, concatenate as concatenate, hstack as hstack, pad as pad,
    repeat as repeat, split as split, stack as stack, tile as tile, unstack as unstack, vstack as vstack,
)
from weft.functions.indexing import (
    argwhere as argwhere, extract as extract, flatnonzero as flatnonzero, gather as gather, nonzero as nonzero,
    one_hot as one_hot, put_along_axis as put_along_axis, scatter_add as scatter_add, scatter_set as scatter_set,
    take as take, take_along_axis as take_along_axis, tril as tril, triu as triu,
)
from weft.functions.linalg import (
    dot as dot, einsum as einsum, inner as inner, matmul as matmul, outer as outer, tensordot as tensordot,
    vdot as vdot, vecdot as vecdot,
)
from weft.functions.diagonals import diag as diag, diagonal as diagonal, trace as trace
from weft.functions.creation import (
    array as array, asarray as asarray, astype as astype, copy as copy, empty as empty, empty_like as empty_like,
    from_dlpack as from_dlpack, full as full, full_like as full_like, ones as ones, ones_like as ones_like,
    zeros as zeros, zeros_like as zeros_like,
)
from weft.functions.ranges import arange as arange, linspace as linspace, meshgrid as meshgrid
from weft.functions.matrices import eye as eye, identity as identity, tri as tri
from weft.functions.sorting import (
    argsort as argsort, isin as isin, searchsorted as searchsorted, sort as sort, unique as unique,
    unique_all as unique_all, unique_counts as unique_counts, unique_inverse as unique_inverse,
    unique_values as unique_values,
)
from weft.transforms.jit import jit as jit
from weft.transforms.grad import grad as grad, value_and_grad as value_and_grad, vjp as vjp
from weft.transforms.vmap import vmap as vmap
from weft.transforms.control import fori_loop as fori_loop, scan as scan
from weft.transforms.denormals import flush_denormals as flush_denormals
from weft.transforms.device import device as device, set_device as set_device
from weft.transforms.tree import tree_leaves as tree_leaves, tree_map as tree_map
from weft.look import evaluate as _evaluate
from weft.tools.explain import explain as explain
from weft.tools.profile import profile as profile
from weft.devices import counters as counters, get_num_threads as get_num_threads, set_num_threads as set_num_threads
from weft import (
    data as data, devices as devices, dtypes as dtypes, errors as errors, io as io, losses as losses, nn as nn,
    optim as optim, tools as tools, train as train,
)
from weft.functions import linalg as linalg, random as random

__version__: str
e: float
inf: float
nan: float
newaxis: None
pi: float
eval = _evaluate  # the module calls it otherwise
