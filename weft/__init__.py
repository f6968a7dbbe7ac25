"""weft: NumPy programs compiled to a few fused native kernels.

The array API's functions under its names and NumPy's, ``wf.jit``, ``wf.grad``, ``wf.nn`` and training. Every module is loaded
when it is first used, so importing weft takes almost no time.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any

from weft.process import tracebacks
from weft.process.import_hook import install
from weft.process.platform_check import refuse_platform
from weft.process.signals import defer_signals

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

e = 2.718281828459045
euler_gamma = 0.5772156649015329
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

_NAMES: dict[str, str] = {
    "weft.array": "Array Scalar ndarray",
    "weft.dtypes.api": """
        bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float4_e2m1fn float6_e2m3fn float6_e3m2fn
        float8_e8m0fnu float8_e5m2 float8_e5m2fnuz float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz
        float8_e3m4 float16 bfloat16 float32 float64 complex64 complex128
        csingle cdouble bool_ byte double half int_ intc intp long longlong short single
        ubyte uint uintc uintp ulong ulonglong ushort dtype can_cast finfo fixed_dtype float_dtype iinfo isdtype
        result_type""",
    "weft.dtypes.block_formats": """
        BlockFormat block_format mxfp4 mxfp6_e2m3 mxfp6_e3m2 mxfp8_e4m3 mxfp8_e5m2 nvfp4""",
    "weft.functions.elementwise.ufuncs": """
        abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh around asin asinh atan atan2
        atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide equal erf exp exp2 expm1 fabs
        float_power floor floor_divide fmax fmin fmod gcd greater greater_equal heaviside hypot invert isfinite isinf
        isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
        logical_or logical_xor maximum minimum mod multiply negative nextafter not_equal positive pow power rad2deg
        radians reciprocal remainder right_shift rint round sign signbit sin sinh spacing sqrt square stop_gradient
        subtract tan tanh true_divide trunc erfc erfcx""",
    "weft.functions.elementwise.compositions": """
        angle imag iscomplex iscomplexobj isreal isrealobj real real_if_close sort_complex divmod fix frexp isneginf
        isposinf modf allclose array_equal array_equiv clip isclose nan_to_num packbits unpackbits""",
    "weft.functions.polynomials.polynomials": """
        bartlett blackman convolve correlate hamming hanning i0 kaiser sinc poly polyadd polyder polydiv polyfit
        polyint polymul polysub polyval vander poly1d roots""",
    "weft.functions.statistics.samples": """
        diff ediff1d gradient interp trapezoid unwrap median nanmedian nanpercentile nanquantile percentile quantile
        bincount digitize histogram histogram2d histogram_bin_edges histogramdd""",
    "weft.functions.reductions.folds": """
        all amax amin any argmax argmin count_nonzero max min prod ptp sum cumprod cumsum cumulative_prod
        cumulative_sum average logsumexp mean std var""",
    "weft.functions.indexing.where": "where",
    "weft.functions.statistics.moments": """
        nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar corrcoef cov""",
    "weft.functions.shape.axes": """
        atleast_1d atleast_2d atleast_3d array_split concat concatenate hstack repeat split stack tile unstack vstack
        block column_stack dsplit dstack hsplit row_stack vsplit expand_dims flip fliplr flipud matrix_transpose
        moveaxis permute_dims ravel reshape roll squeeze swapaxes transpose rollaxis rot90 broadcast_arrays
        broadcast_shapes broadcast_to""",
    "weft.functions.statistics.pad": "pad",
    "weft.functions.indexing.edit": """
        append copyto delete fill_diagonal insert place put putmask resize trim_zeros choose compress piecewise select""",
    "weft.functions.numpy_compat.objects": """
        apply_along_axis apply_over_axes frompyfunc vectorize ndenumerate ndindex nditer broadcast flatiter ufunc c_
        index_exp mgrid ogrid r_ s_ asanyarray asarray_chkfinite ascontiguousarray asfortranarray asnumpy isfortran
        isscalar iterable may_share_memory ndim require shape shares_memory size""",
    "weft.functions.indexing.take_scatter": """
        argwhere extract flatnonzero gather nonzero one_hot put_along_axis scatter_add scatter_set take
        take_along_axis diag_indices diag_indices_from fromfunction indices ix_ mask_indices ravel_multi_index
        tril_indices tril_indices_from triu_indices triu_indices_from unravel_index""",
    "weft.functions.linalg.products": """
        einsum einsum_path dot inner matmul outer tensordot vdot vecdot cross kron matvec vecmat diag diagflat
        diagonal trace""",
    "weft.functions.dtype_info.dtype_info": """
        astype copy complexfloating floating generic inexact integer issubdtype min_scalar_type number promote_types
        signedinteger unsignedinteger False_ ScalarType True_ common_type little_endian mintypecode sctypeDict
        typecodes typename __array_namespace_info__""",
    "weft.functions.creation.fill": """
        array asarray empty empty_like from_dlpack full full_like ones ones_like zeros zeros_like arange geomspace
        linspace logspace meshgrid eye identity tri tril triu""",
    "weft.functions.text_files.files": """
        frombuffer fromfile fromiter fromstring genfromtxt load loadtxt save savetxt savez savez_compressed
        array2string array_repr array_str base_repr binary_repr errstate format_float_positional
        format_float_scientific get_printoptions geterr printoptions set_printoptions seterr""",
    "weft.functions.sorting.sort_search": """
        argsort isin searchsorted sort top_k unique unique_all unique_counts unique_inverse unique_values argpartition
        lexsort partition intersect1d setdiff1d setxor1d union1d""",
    "weft.transforms.jit": "jit",
    "weft.transforms.grad": "grad value_and_grad vjp",
    "weft.transforms.jvp": "jvp linearize",
    "weft.transforms.jacobians": "jacfwd jacrev hessian",
    "weft.transforms.custom": "custom_vjp custom_jvp remat",
    "weft.transforms.vmap": "vmap",
    "weft.transforms.control": "fori_loop scan while_loop",
    "weft.transforms.conditions": "cond switch",
    "weft.transforms.mapped_loops": "associative_scan map",
    "weft.transforms.settings": """
        flush_denormals default_dtype get_default_dtype set_default_dtype deterministic get_deterministic
        set_deterministic get_matmul_precision matmul_precision set_matmul_precision get_conv_algorithm
        conv_algorithm set_conv_algorithm device set_device""",
    "weft.nn.precision": "Precision precision",
    "weft.nn.watch": "watch",
    "weft.transforms.tree": "tree_leaves tree_map",
    "weft.eager.materialise": "eval",
    "weft.tools.bench": "bench",
    "weft.tools.explain": "explain",
    "weft.tools.profile": "profile",
    "weft.devices": "counters get_num_threads set_num_threads",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULE_NAMES = {"eval": "evaluate"}  # another name in its module, which keeps Python's own visible
_MODULES = {
    **{
        name: f"weft.{name}"
        for name in (
            "data", "devices", "dist", "dtypes", "errors", "io", "losses", "nn", "ode", "optim", "tools", "train", "tree",
        )
    },
    **{name: f"weft.functions.{name}" for name in ("fft", "linalg", "random")},
    **{name: f"weft.functions.numpy_compat.{name}" for name in ("lib", "testing")},
    "emath": "weft.functions.elementwise.emath",
    # NumPy's modules, whose functions accept weft's arrays
    **{name: f"numpy.{name}" for name in ("exceptions", "polynomial", "typing")},
}

__all__ = sorted([
    "__array_api_version__", "__version__", "e", "euler_gamma", "inf", "nan", "newaxis", "pi", *_HOME, *_MODULES,
])


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None and name not in _MODULES:
        raise importlib.import_module("weft.process.name_errors").missing_name("weft", name, __all__)
    with defer_signals():
        value = importlib.import_module(_MODULES[name] if home is None else home)
        if home is not None:
            value = getattr(value, _MODULE_NAMES.get(name, name))
        elif value.__name__.startswith("weft."):
            _suggest_names(value)
        globals()[name] = value
    return value


def _suggest_names(module: types.ModuleType) -> None:
    importlib.import_module("weft.process.name_errors").explain_missing_names(module)


def __dir__() -> list[str]:
    return __all__


class _Package(types.ModuleType):
    """The class of this module, which keeps ``weft.array`` the function: an import of the submodule would rebind the name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        elif name not in _HOME:
            super().__setattr__(name, value)
            if name in _MODULES:
                _suggest_names(value)


refuse_platform()
sys.modules[__name__].__class__ = _Package
install()
tracebacks.install()
if os.environ.get("WEFT_DEVICE") == "auto":  # reads the devices' figures, which the first program needs
    __getattr__("set_device")("auto")
