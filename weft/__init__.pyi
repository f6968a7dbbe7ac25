"""The names of ``wf.*`` for type checkers and editors; ``__init__.py`` loads them when they are first used.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.array import Array as Array, Scalar as Scalar, ndarray as ndarray
from weft.dtypes.api import (
    bool as bool, int2 as int2, int4 as int4, int8 as int8, int16 as int16, int32 as int32, int64 as int64,
    uint2 as uint2, uint4 as uint4, uint8 as uint8, uint16 as uint16, uint32 as uint32, uint64 as uint64,
    float4_e2m1fn as float4_e2m1fn, float6_e2m3fn as float6_e2m3fn, float6_e3m2fn as float6_e3m2fn,
    float8_e8m0fnu as float8_e8m0fnu, float8_e5m2 as float8_e5m2, float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e4m3 as float8_e4m3, float8_e4m3fn as float8_e4m3fn, float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz, float8_e3m4 as float8_e3m4, float16 as float16, bfloat16 as bfloat16,
    float32 as float32, float64 as float64, complex64 as complex64, complex128 as complex128, csingle as csingle,
    cdouble as cdouble, bool_ as bool_, byte as byte, double as double, half as half, int_ as int_, intc as intc,
    intp as intp, long as long, longlong as longlong, short as short, single as single, ubyte as ubyte, uint as uint,
    uintc as uintc, uintp as uintp, ulong as ulong, ulonglong as ulonglong, ushort as ushort, dtype as dtype,
    can_cast as can_cast, finfo as finfo, fixed_dtype as fixed_dtype, float_dtype as float_dtype, iinfo as iinfo,
    isdtype as isdtype, result_type as result_type,
)
from weft.dtypes.block_formats import (
    BlockFormat as BlockFormat, block_format as block_format, mxfp4 as mxfp4, mxfp6_e2m3 as mxfp6_e2m3,
    mxfp6_e3m2 as mxfp6_e3m2, mxfp8_e4m3 as mxfp8_e4m3, mxfp8_e5m2 as mxfp8_e5m2, nvfp4 as nvfp4,
)
from weft.functions.elementwise.ufuncs import (
    abs as abs, absolute as absolute, acos as acos, acosh as acosh, add as add, arccos as arccos, arccosh as arccosh,
    arcsin as arcsin, arcsinh as arcsinh, arctan as arctan, arctan2 as arctan2, arctanh as arctanh, around as around,
    asin as asin, asinh as asinh, atan as atan, atan2 as atan2, atanh as atanh, bitwise_and as bitwise_and,
    bitwise_count as bitwise_count, bitwise_invert as bitwise_invert, bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor, cbrt as cbrt, ceil as ceil, conj as conj, conjugate as conjugate, copysign as copysign,
    cos as cos, cosh as cosh, deg2rad as deg2rad, degrees as degrees, divide as divide, equal as equal, erf as erf,
    exp as exp, exp2 as exp2, expm1 as expm1, fabs as fabs, float_power as float_power, floor as floor,
    floor_divide as floor_divide, fmax as fmax, fmin as fmin, fmod as fmod, gcd as gcd, greater as greater,
    greater_equal as greater_equal, heaviside as heaviside, hypot as hypot, invert as invert, isfinite as isfinite,
    isinf as isinf, isnan as isnan, lcm as lcm, ldexp as ldexp, left_shift as left_shift, less as less,
    less_equal as less_equal, log as log, log10 as log10, log1p as log1p, log2 as log2, logaddexp as logaddexp,
    logaddexp2 as logaddexp2, logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, maximum as maximum, minimum as minimum, mod as mod, multiply as multiply,
    negative as negative, nextafter as nextafter, not_equal as not_equal, positive as positive, pow as pow,
    power as power, rad2deg as rad2deg, radians as radians, reciprocal as reciprocal, remainder as remainder,
    right_shift as right_shift, rint as rint, round as round, sign as sign, signbit as signbit, sin as sin,
    sinh as sinh, spacing as spacing, sqrt as sqrt, square as square, stop_gradient as stop_gradient,
    subtract as subtract, tan as tan, tanh as tanh, true_divide as true_divide, trunc as trunc, erfc as erfc,
    erfcx as erfcx,
)
from weft.functions.elementwise.compositions import (
    angle as angle, imag as imag, iscomplex as iscomplex, iscomplexobj as iscomplexobj, isreal as isreal,
    isrealobj as isrealobj, real as real, real_if_close as real_if_close, sort_complex as sort_complex,
    divmod as divmod, fix as fix, frexp as frexp, isneginf as isneginf, isposinf as isposinf, modf as modf,
    allclose as allclose, array_equal as array_equal, array_equiv as array_equiv, clip as clip, isclose as isclose,
    nan_to_num as nan_to_num, packbits as packbits, unpackbits as unpackbits,
)
from weft.functions.polynomials.polynomials import (
    bartlett as bartlett, blackman as blackman, convolve as convolve, correlate as correlate, hamming as hamming,
    hanning as hanning, i0 as i0, kaiser as kaiser, sinc as sinc, poly as poly, polyadd as polyadd, polyder as polyder,
    polydiv as polydiv, polyfit as polyfit, polyint as polyint, polymul as polymul, polysub as polysub,
    polyval as polyval, vander as vander, poly1d as poly1d, roots as roots,
)
from weft.functions.statistics.samples import (
    diff as diff, ediff1d as ediff1d, gradient as gradient, interp as interp, trapezoid as trapezoid, unwrap as unwrap,
    median as median, nanmedian as nanmedian, nanpercentile as nanpercentile, nanquantile as nanquantile,
    percentile as percentile, quantile as quantile, bincount as bincount, digitize as digitize, histogram as histogram,
    histogram2d as histogram2d, histogram_bin_edges as histogram_bin_edges, histogramdd as histogramdd,
)
from weft.functions.reductions.folds import (
    all as all, amax as amax, amin as amin, any as any, argmax as argmax, argmin as argmin,
    count_nonzero as count_nonzero, max as max, min as min, prod as prod, ptp as ptp, sum as sum, cumprod as cumprod,
    cumsum as cumsum, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum, average as average,
    logsumexp as logsumexp, mean as mean, std as std, var as var,
)
from weft.functions.indexing.where import where as where
from weft.functions.statistics.moments import (
    nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod, nancumsum as nancumsum, nanmax as nanmax,
    nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as nansum, nanvar as nanvar,
    corrcoef as corrcoef, cov as cov,
)
from weft.functions.shape.axes import (
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, array_split as array_split,
    concat as concat, concatenate as concatenate, hstack as hstack, repeat as repeat, split as split, stack as stack,
    tile as tile, unstack as unstack, vstack as vstack, block as block, column_stack as column_stack, dsplit as dsplit,
    dstack as dstack, hsplit as hsplit, row_stack as row_stack, vsplit as vsplit, expand_dims as expand_dims,
    flip as flip, fliplr as fliplr, flipud as flipud, matrix_transpose as matrix_transpose, moveaxis as moveaxis,
    permute_dims as permute_dims, ravel as ravel, reshape as reshape, roll as roll, squeeze as squeeze,
    swapaxes as swapaxes, transpose as transpose, rollaxis as rollaxis, rot90 as rot90,
    broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes, broadcast_to as broadcast_to,
)
from weft.functions.statistics.pad import pad as pad
from weft.functions.indexing.edit import (
    append as append, copyto as copyto, delete as delete, fill_diagonal as fill_diagonal, insert as insert,
    place as place, put as put, putmask as putmask, resize as resize, trim_zeros as trim_zeros, choose as choose,
    compress as compress, piecewise as piecewise, select as select,
)
from weft.functions.numpy_compat.objects import (
    apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes, frompyfunc as frompyfunc,
    vectorize as vectorize, ndenumerate as ndenumerate, ndindex as ndindex, nditer as nditer, broadcast as broadcast,
    flatiter as flatiter, ufunc as ufunc, c_ as c_, index_exp as index_exp, mgrid as mgrid, ogrid as ogrid, r_ as r_,
    s_ as s_, asanyarray as asanyarray, asarray_chkfinite as asarray_chkfinite, ascontiguousarray as ascontiguousarray,
    asfortranarray as asfortranarray, asnumpy as asnumpy, isfortran as isfortran, isscalar as isscalar,
    iterable as iterable, may_share_memory as may_share_memory, ndim as ndim, require as require, shape as shape,
    shares_memory as shares_memory, size as size,
)
from weft.functions.indexing.take_scatter import (
    argwhere as argwhere, extract as extract, flatnonzero as flatnonzero, gather as gather, nonzero as nonzero,
    one_hot as one_hot, put_along_axis as put_along_axis, scatter_add as scatter_add, scatter_set as scatter_set,
    take as take, take_along_axis as take_along_axis, diag_indices as diag_indices,
    diag_indices_from as diag_indices_from, fromfunction as fromfunction, indices as indices, ix_ as ix_,
    mask_indices as mask_indices, ravel_multi_index as ravel_multi_index, tril_indices as tril_indices,
    tril_indices_from as tril_indices_from, triu_indices as triu_indices, triu_indices_from as triu_indices_from,
    unravel_index as unravel_index,
)
from weft.functions.linalg.products import (
    einsum as einsum, einsum_path as einsum_path, dot as dot, inner as inner, matmul as matmul, outer as outer,
    tensordot as tensordot, vdot as vdot, vecdot as vecdot, cross as cross, kron as kron, matvec as matvec,
    vecmat as vecmat, diag as diag, diagflat as diagflat, diagonal as diagonal, trace as trace,
)
from weft.functions.dtype_info.dtype_info import (
    astype as astype, copy as copy, complexfloating as complexfloating, floating as floating, generic as generic,
    inexact as inexact, integer as integer, issubdtype as issubdtype, min_scalar_type as min_scalar_type,
    number as number, promote_types as promote_types, signedinteger as signedinteger,
    unsignedinteger as unsignedinteger, False_ as False_, ScalarType as ScalarType, True_ as True_,
    common_type as common_type, little_endian as little_endian, mintypecode as mintypecode, sctypeDict as sctypeDict,
    typecodes as typecodes, typename as typename, __array_namespace_info__ as __array_namespace_info__,
)
from weft.functions.creation.fill import (
    array as array, asarray as asarray, empty as empty, empty_like as empty_like, from_dlpack as from_dlpack,
    full as full, full_like as full_like, ones as ones, ones_like as ones_like, zeros as zeros,
    zeros_like as zeros_like, arange as arange, geomspace as geomspace, linspace as linspace, logspace as logspace,
    meshgrid as meshgrid, eye as eye, identity as identity, tri as tri, tril as tril, triu as triu,
)
from weft.functions.text_files.files import (
    frombuffer as frombuffer, fromfile as fromfile, fromiter as fromiter, fromstring as fromstring,
    genfromtxt as genfromtxt, load as load, loadtxt as loadtxt, save as save, savetxt as savetxt, savez as savez,
    savez_compressed as savez_compressed, array2string as array2string, array_repr as array_repr,
    array_str as array_str, base_repr as base_repr, binary_repr as binary_repr, errstate as errstate,
    format_float_positional as format_float_positional, format_float_scientific as format_float_scientific,
    get_printoptions as get_printoptions, geterr as geterr, printoptions as printoptions,
    set_printoptions as set_printoptions, seterr as seterr,
)
from weft.functions.sorting.sort_search import (
    argsort as argsort, isin as isin, searchsorted as searchsorted, sort as sort, top_k as top_k, unique as unique,
    unique_all as unique_all, unique_counts as unique_counts, unique_inverse as unique_inverse,
    unique_values as unique_values, argpartition as argpartition, lexsort as lexsort, partition as partition,
    intersect1d as intersect1d, setdiff1d as setdiff1d, setxor1d as setxor1d, union1d as union1d,
)
from weft.transforms.jit import jit as jit
from weft.transforms.grad import grad as grad, value_and_grad as value_and_grad, vjp as vjp
from weft.transforms.jvp import jvp as jvp, linearize as linearize
from weft.transforms.jacobians import jacfwd as jacfwd, jacrev as jacrev, hessian as hessian
from weft.transforms.custom import custom_vjp as custom_vjp, custom_jvp as custom_jvp, remat as remat
from weft.transforms.vmap import vmap as vmap
from weft.transforms.control import fori_loop as fori_loop, scan as scan, while_loop as while_loop
from weft.transforms.conditions import cond as cond, switch as switch
from weft.transforms.mapped_loops import associative_scan as associative_scan, map as map
from weft.transforms.settings import (
    flush_denormals as flush_denormals, default_dtype as default_dtype, get_default_dtype as get_default_dtype,
    set_default_dtype as set_default_dtype, deterministic as deterministic, get_deterministic as get_deterministic,
    set_deterministic as set_deterministic, get_matmul_precision as get_matmul_precision,
    matmul_precision as matmul_precision, set_matmul_precision as set_matmul_precision,
    get_conv_algorithm as get_conv_algorithm, conv_algorithm as conv_algorithm,
    set_conv_algorithm as set_conv_algorithm, device as device, set_device as set_device,
)
from weft.nn.precision import Precision as Precision, precision as precision
from weft.nn.watch import watch as watch
from weft.transforms.tree import tree_leaves as tree_leaves, tree_map as tree_map
from weft.eager.materialise import evaluate as _evaluate
from weft.tools.bench import bench as bench
from weft.tools.explain import explain as explain
from weft.tools.profile import profile as profile
from weft.devices import counters as counters, get_num_threads as get_num_threads, set_num_threads as set_num_threads
from weft import (
    data as data, devices as devices, dist as dist, dtypes as dtypes, errors as errors, io as io, losses as losses,
    nn as nn, ode as ode, optim as optim, tools as tools, train as train, tree as tree,
)
from weft.functions import fft as fft, linalg as linalg, random as random
from weft.functions.numpy_compat import lib as lib, testing as testing
from weft.functions.elementwise import emath as emath
from numpy import exceptions as exceptions, polynomial as polynomial, typing as typing

__array_api_version__: str
__version__: str
e: float
euler_gamma: float
inf: float
nan: float
newaxis: None
pi: float
eval = _evaluate  # the module calls it otherwise
