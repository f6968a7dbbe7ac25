"""One program for every public function with array semantics, so that a fixed set of seeds leaves none out."""

from __future__ import annotations

import inspect
import random
import re
from typing import Any

import weft as wf
from tests.fuzz.elementwise import PLAIN, REDUCE
from tests.fuzz.expressions import MIXTURES, shape
from tests.fuzz.grow import FLOATS, Growth, Table
from tests.fuzz.layers import LOOPS, MODULES, NETS
from tests.fuzz.library import LIBRARY
from tests.fuzz.moving import INDEX, SHAPES, unknown
from tests.fuzz.program import Program
from weft.array import operations
from weft.functions.random import distributions

ROOMS = ("nn", "losses", "linalg", "random")
COMPOSED = """
    False_ ScalarType True_ append apply_along_axis apply_over_axes argpartition array2string array_repr array_str
    asanyarray asarray_chkfinite ascontiguousarray asfortranarray asnumpy bartlett base_repr binary_repr bincount
    blackman block broadcast c_ choose common_type complexfloating compress copyto cumsum cumulative_prod cumulative_sum
    delete diag_indices diag_indices_from digitize divmod dsplit errstate fill_diagonal fix flatiter floating
    format_float_positional format_float_scientific frexp frombuffer fromfile fromfunction fromiter frompyfunc
    fromstring generic genfromtxt get_printoptions geterr hamming hanning histogram histogram2d histogram_bin_edges
    histogramdd hsplit i0 index_exp indices inexact insert integer intersect1d isfortran isneginf isposinf isscalar
    issubdtype iterable ix_ kaiser lexsort little_endian load loadtxt mask_indices matvec may_share_memory mgrid
    min_scalar_type mintypecode modf nanargmax nanargmin ndenumerate ndim ndindex nditer number ogrid packbits partition
    piecewise place poly poly1d polydiv polyfit polymul printoptions promote_types put putmask r_ ravel_multi_index
    require resize roots row_stack s_ save savetxt savez savez_compressed sctypeDict select set_printoptions setdiff1d
    seterr setxor1d shape shares_memory signedinteger size tril_indices tril_indices_from trim_zeros triu_indices
    triu_indices_from typecodes typename ufunc union1d unpackbits unravel_index unsignedinteger vecmat vectorize vsplit
""".split()
NO_ARRAYS = {  # public names that programs need not call, and why
    **dict.fromkeys(("can_cast", "finfo", "iinfo", "isdtype", "result_type"), "about dtypes, not arrays"),
    **dict.fromkeys(("broadcast_shapes", "einsum_path"), "about shapes, not arrays"),
    **dict.fromkeys(("allclose", "array_equal", "array_equiv"), "give a Python bool: a look; they are isclose or equal, and all"),
    **dict.fromkeys(
        ("grad", "value_and_grad", "vjp", "jvp", "jacfwd", "custom_vjp", "custom_jvp", "remat"),
        "the family of derivatives is made of them",
    ),
    **dict.fromkeys(("linearize", "jacrev", "hessian"), "tests/transforms/test_nested_derivatives.py nests them at random"),
    **dict.fromkeys(("jit", "eval", "counters", "get_num_threads", "set_num_threads"), "every program is run by them"),
    **dict.fromkeys(("bench", "explain", "profile"), "they print, and compute nothing of their own"),
    "watch": "it measures numbers, and changes none",
    **dict.fromkeys(("tree_leaves", "tree_map"), "about trees; jit and grad flatten by the same functions"),
    "nn.NeuralODE": "tests/ode draws equations; its steps are decided by rounding",
    **dict.fromkeys(
        ("nn.QuantizedArray", "nn.QuantizedConv2d", "nn.QuantizedEmbedding", "nn.QuantizedLinear", "nn.quantize_model"),
        "records of codes, and layers made of them: tests/nn/test_quantized_models.py draws their sizes",
    ),
    **dict.fromkeys(
        ("nn.ColumnParallelLinear", "nn.RowParallelLinear", "nn.VocabParallelEmbedding"),
        "for several ranks: tests/dist/programs.py draws their sizes",
    ),
    "nn.SyncBatchNorm": "batch norm but for several ranks: tests/dist/test_statistics.py",
    "from_dlpack": "imports memory that is not weft's",
    "flush_denormals": "a context: other bits by design",
    **dict.fromkeys(("default_dtype", "get_default_dtype", "set_default_dtype"), "say what dtypes are"),
    **dict.fromkeys(
        ("matmul_precision", "get_matmul_precision", "set_matmul_precision"),
        "a permission that the CPU leaves unused: tests/cuda/test_tf32.py uses it",
    ),
    **dict.fromkeys(
        ("conv_algorithm", "get_conv_algorithm", "set_conv_algorithm"), "a permission for other bits: tests/cpu/test_winograd.py",
    ),
    **dict.fromkeys(
        ("deterministic", "get_deterministic", "set_deterministic"),
        "a permission that the CPU leaves unused: tests/cuda/test_any_order.py uses it",
    ),
    **dict.fromkeys(("device", "set_device"), "say where programs run; tests/cuda runs them elsewhere"),
    **dict.fromkeys(
        ("random.seed", "random.get_state", "random.set_state"), "the hidden state; modules and draws without a key use it",
    ),
    **dict.fromkeys(("iscomplexobj", "isrealobj", "__array_namespace_info__"), "about dtypes and the library, not arrays"),
    **dict.fromkeys(
        ("real", "imag", "conj", "conjugate", "angle", "isreal", "iscomplex", "real_if_close", "sort_complex"),
        "programs have no complex numbers, of which no kernels are made: tests/functions/test_complex.py",
    ),
    **dict.fromkeys(
        (f"linalg.{n}" for n in ("LinAlgError", *wf.linalg._HOME)),
        "LAPACK's, run by NumPy, and products by other names: no kernels are made for them; tests/functions/test_lapack.py",
    ),
    **dict.fromkeys(
        COMPOSED,
        "made of functions that programs call, or computed by NumPy: tests/functions/test_as_numpy.py runs it beside NumPy",
    ),
    **dict.fromkeys(
        (n for o in operations.RECORDS for n in (o.name, *o.aliases)),
        "made of functions that programs call: tests/functions/test_operations_agree.py runs it beside NumPy",
    ),
    **dict.fromkeys(("around", "diagflat", "geomspace", "logspace"), "other names and forms of what programs call"),
    **dict.fromkeys(
        (f"random.{n}" for n in (*distributions.DISTRIBUTIONS, "Generator", "RandomState", "default_rng", "random_sample", "ranf",
        "sample", "SeedSequence", "BitGenerator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")),
        "the same words by other formulas, or NumPy's: tests/functions/test_generators.py compares distributions",
    ),
    "random.shuffle": "writes; the same order as permutation",
    "losses.check_labels": "raises or not; computes nothing",
    **dict.fromkeys(
        ("nn.init", "nn.Module", "nn.Sequential", "nn.Residual", "nn.Lambda"),
        "hold other layers, and compute nothing of their own",
    ),
}


def public() -> list[str]:
    """Public functions and layers with array semantics, as programs name them: ``sum``, ``nn.relu``, ``random.uniform``."""
    homes = ("weft.functions.", "weft.transforms.", "weft.eager.materialise", "weft.tools", "weft.devices")
    found = [n for n in wf.__all__ if wf._HOME.get(n, "").startswith(homes)]
    for room in ROOMS:
        found += [f"{room}.{n}" for n in getattr(wf, room).__all__ if not (room == "linalg" and n in found)]
    return [n for n in found if n not in NO_ARRAYS]


TABLES: list[Table] = [PLAIN, REDUCE, SHAPES, INDEX, NETS, LOOPS, MODULES, LIBRARY, [(1.0, unknown)]]


def called(program: Program) -> set[str]:
    """The public functions that a program names."""
    return set(re.findall(r"wf\.([\w.]+)\(", " ".join(program.lines)))


def makers(name: str) -> list[Any]:
    """The makers of lines whose text, or a table they use, names a function; all where none does."""
    short = name.split(".")[-1]
    forms = {
        f"{short}(", f"'{short}'", f'"{short}"', re.sub(r"\dd$", "{d}d", short) + "(",
        "_pool{d}d(" if "_pool" in short else f"{short}(",
    }
    found = []
    for maker in (m for table in TABLES for _, m in table):
        tables = [v for n in maker.__code__.co_names if isinstance(v := maker.__globals__.get(n), tuple | dict)]
        if any(short in t for t in tables) or any(f in inspect.getsource(maker) for f in forms):
            found.append(maker)
    return found or [m for table in TABLES for _, m in table]


def grown(name: str, seed: int) -> Program:
    """A program with a call of ``name`` in the middle of others.

    Raises
    ------
    LookupError
        if no line names it.
    """
    for turn in range(8):
        r = random.Random(f"{name} {seed} {turn}")
        g = Growth(r, r.choice(("float32", *FLOATS)))
        g.input(shape(r))
        g.step(MIXTURES[0][1])
        made = g.wish(name, makers(name))
        if made is None:
            continue
        g.step(MIXTURES[0][1])
        program = g.program("expression")
        program = program.with_(
            outputs=tuple(dict.fromkeys([*program.outputs, made])), inputs=tuple(g.inputs), lines=tuple(g.lines),
        )
        return program
    raise LookupError(f"no line of the fuzzer names wf.{name}: give it one, or a reason in NO_ARRAYS")
