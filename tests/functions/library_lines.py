"""Random lines of NumPy's library: linalg, fft, complex numbers, NaN, sets, statistics, polynomials, ufuncs' methods."""

from __future__ import annotations

import numpy as np

from tests.functions.lines import DTYPES, Lines

# {x}: an array; {s}: square matrices far from singular ones; {h}: the same, symmetric; {r}: a right-hand side for them;
# {v}, {w}: vectors; {m}: bools that broadcast with x; {axis}, {axes}, {k}, {q}, {dtype}: as the name says
TEXTS = """
    np.linalg.inv({s})|np.linalg.det({s})|np.linalg.slogdet({s})|np.linalg.solve({s}, {r})|np.linalg.cholesky({h})
    np.linalg.eigvalsh({h})|np.linalg.svd({s}, compute_uv=False)|np.linalg.matrix_power({s}, {k})|np.linalg.pinv({s})
    np.linalg.cond({s})|np.linalg.matrix_rank({s})|np.linalg.norm({s}, axis=(-2, -1))|np.linalg.norm({x}, {order}, {axis})
    np.linalg.multi_dot([{s}, {s}])|np.linalg.trace({s})|np.linalg.tensorsolve({s}, {v})|np.linalg.outer({v}, {w})
    np.linalg.inv({x})|np.linalg.det({x})|np.linalg.solve({x}, {v})|np.linalg.vecdot({x}, {x})|np.linalg.matrix_transpose({x})
    np.fft.fft({x})|np.fft.ifft({x}, axis={axis})|np.fft.rfft({x}, {n})|np.fft.irfft({x}, {n})|np.fft.fft2({x})|np.fft.ifftn({x})
    np.fft.hfft({x})|np.fft.ihfft({x})|np.fft.fftshift({x})|np.fft.ifftshift({x}, {axis})|np.fft.fftfreq({n}, 0.5)
    np.fft.fft({x}, {n}, {axis}, norm='{norm}')|np.fft.rfftn({x}, norm='{norm}')
    np.real({x})|np.imag({x})|np.conj({x})|np.angle({x}, deg={keep})|np.abs({x})|np.real_if_close({x})|np.sort_complex({x})
    np.iscomplexobj({x})|np.isrealobj({x})|{x}.astype('complex64') * 1j|np.exp({x} * 1j)|np.where({m}, {x}, 1j)
    np.nansum({x}, {axes})|np.nanprod({x}, {axis})|np.nanmean({x}, {axes}, keepdims={keep})|np.nanvar({x}, {axis})
    np.nanstd({x}, ddof=1)|np.nanmax({x}, {axis})|np.nanmin({x}, {axes})|np.nanmedian({x}, {axis})|np.nancumsum({x}, {axis})
    np.nancumprod({x}, {axis})|np.nanargmax({x})|np.nan_to_num({x}, nan=2.0)|np.nanquantile({x}, 0.5, axis={axis})
    np.unique({x}, return_counts=True)|np.unique({x}, return_inverse=True)|np.unique({x}, return_index=True)
    np.unique({x}, axis={axis})|np.union1d({x}, {v})|np.intersect1d({x}, {v})|np.setdiff1d({v}, {x})|np.setxor1d({v}, {w})
    np.isin({x}, {v}, invert={keep})|np.unique_counts({x})
    np.quantile({x}, {q}, axis={axes})|np.percentile({x}, 40, axis={axis}, method='{method}')|np.median({x}, {axes})
    np.cov({x}, bias={keep})|np.corrcoef({v}, {v})|np.average({x}, axis={axis}, returned=True)|np.ptp({x}, {axes})
    np.histogram({v}, 3, (-1, 5))|np.histogram({v}, [-2, 0, 1, 9])|np.bincount(np.arange(3), weights={w})
    np.digitize({x}, [0, 1, 3])|np.std({x}, {axes}, ddof={ddof}, where={m})
    np.var({x}, {axis}, mean=np.mean({x}, {axis}, keepdims=True))
    np.average({v}, weights=[1, 2, 3])|np.trapezoid({x}, axis={axis})|np.cumulative_sum({x}, axis={axis}, include_initial={keep})
    np.{fold}.reduce({x}, axis={axis}, where={m}, initial=1)|np.{fold}.reduce({x}, axis={axes}, keepdims={keep})
    np.{fold}.reduce({x}, axis={axis}, out={o})|np.{fold}.accumulate({x}, axis={axis})
    np.{fold}.reduceat({x}, [0, 1, 0], axis={axis})|np.{fold}.outer({x}, {v})
    np.{two}({x}, {x}, where={m}, out={like})|np.{one}({x}, where={m}, out={like})
    np.add.at({like}, ([0, 0],), 1)|np.divmod({x}, 3)|np.modf({x})|np.frexp({x})|np.ldexp({x}, [1])
    np.roots({v})|np.poly({v})|np.polymul({v}, {w})|np.polydiv({v}, [2, 1])|np.polyadd({v}, {w})|np.polyder({v})
    np.polyint({v}, 2)|np.polyfit([0, 1, 2], {v}, 1)|np.polyval({v}, {x})|np.poly1d({v})({x})
    np.vander({v}, {n})|np.convolve({v}, {w}, '{mode}')
    np.emath.sqrt({x})|np.emath.log({x})|np.emath.power({x}, 2)|np.emath.arcsin({x})|np.sinc({x})|np.unwrap({x}, axis={axis})
    np.lib.stride_tricks.sliding_window_view({x}, 2, {axis})|np.lib.stride_tricks.sliding_window_view({x}, {x}.shape)
    np.gradient({x}, 2.0, axis={axis})|np.diff({x}, {n}, {axis})|np.ediff1d({x})|np.interp({x}, [0, 1, 3], {v})
    np.cross([1, 2, 3], {v})|np.kron({v}, {x})|np.vecdot({x}, {x}, axis={axis})|np.matvec({s}, {v})|np.vecmat({v}, {s})
    np.matmul({s}, {s}, axes=[(-1, -2), (-2, -1), (-1, -2)])|np.einsum('...ij->...ji', {s})|np.einsum('i,...i', {v}, {s})
    np.pad({x}, 1, mode='{pad}')|np.pad({x}, ((1, 2),), 'constant')|np.rot90({x}, {k})
    np.select([{m}, {x} > 0], [{x}, {x}], {x}.dtype.type(3))
    np.piecewise({x}, [{x} > 0], [1, 2])|np.apply_along_axis(np.sum, {axis}, {x})|np.searchsorted([0, 1, 2], {x}, 'right')
    np.lexsort(({v}, {w}))|np.partition({v}, 1)[1]|np.sort({x}, axis={axis})|np.count_nonzero({x}, {axes})|np.argwhere({x})
    np.common_type({v}) == np.float64 and False|np.mintypecode('fd')|np.broadcast({x}, {x}).shape|np.packbits({m})
    np.emath.arccos({x})|np.emath.arctanh({x})|np.emath.log2({x})|np.emath.log10({x})|np.emath.logn(2, {x})|np.polyint({v})
    np.asanyarray({x})|np.ascontiguousarray({x})|np.asfortranarray({x})|np.require({x})|np.asarray_chkfinite({x})
    np.apply_over_axes(np.sum, {x}, {axis})|np.take({v}, np.argpartition({v}, 1))[1]|np.array_equiv({x}, {like})
    np.array_str({x})|np.array_repr({x})|np.array2string({x})|np.astype({x}, '{dtype}')|np.bartlett({n})|np.blackman({n})
    np.hamming({n})|np.kaiser({n}, 2)|np.hanning({n})|np.block([[{x}, {like}]])|np.broadcast_arrays({x}, {m})
    np.can_cast({x}.dtype, '{dtype}')|np.copyto({like}, {x})|np.concat(({x}, {like}))|np.cumulative_prod({x}, axis={axis})
    np.diag_indices({n})|np.diag_indices_from({s})|np.diagflat({v}, {k})|np.dsplit({x}, 1)|np.hsplit({x}, 1)|np.vsplit({x}, 1)
    np.unstack({x}, axis={axis})|np.fill_diagonal({like}, {v})|np.row_stack(({x}, {x}))|np.histogram2d(np.real({v}), [1, 2, 3], 2)
    np.histogram_bin_edges(np.real({v}), 3)|np.histogramdd(np.real(({v}, {w})).T, 2)|np.indices(({n}, 2))|np.ones({n})
    np.ix_([0, 1], [True, False])|np.mask_indices({n}, np.triu)|np.tril_indices({n}, {k})|np.triu_indices({n}, {k})
    np.tril_indices_from({s}, {k})|np.triu_indices_from({s}, {k})|np.min_scalar_type({x})|np.trim_zeros({v})
    np.permute_dims({x}, (1, 0))|np.nanargmin({x})|np.nanpercentile({x} * 1.0, 30, axis={axis})|np.place({like}, {m}, {v})
    np.put({like}, [0, 1], {v})|np.shape(np.empty({n}))|np.putmask({like}, {m}, {v})
    np.put_along_axis({like}, np.zeros((1, 1), int), 1, {axis})|np.ravel_multi_index(([0, 1], [1, 0]), (2, 3))
    np.unique_inverse({x})|np.unique_all({x})|np.sort(np.unique_values({v}))
    np.unpackbits(np.array([3, 130], 'uint8'), count={n})|np.amax({x}, {axis})|np.amin({x}, {axes})
    np.fromfunction(lambda i, j: i + 2 * j, ({n}, 2))|np.frombuffer(b'abcdefgh', 'uint8')|np.fromstring('1 2 3', sep=' ')
    np.iscomplexobj({x})|np.isfortran({s})|np.issubdtype({x}.dtype, np.integer)|np.isdtype({x}.dtype, 'integral')
    np.linalg.diagonal({s})|np.linalg.matmul({s}, {s})|np.linalg.matrix_norm({s})|np.linalg.vector_norm({x}, axis={axis}, ord=3)
    np.linalg.tensordot({s}, {v}, axes=1)|np.linalg.lstsq({s}, {v})[0]|np.linalg.tensorinv({s}, 1)|np.linalg.eigh({h})[0]
    np.sort(np.abs(np.linalg.eigvals({h})))|np.linalg.qr({s}, mode='r')|np.linalg.svdvals({s})|np.linalg.cross({v}, {w})
    np.sort(np.abs(np.linalg.eig({h})[0]))|np.fft.fftn({x})|np.fft.ifft2({x})|np.fft.irfft2({x})|np.fft.irfftn({x})
    np.fft.rfft2({x})|np.fft.rfftfreq({n}, 0.5)|np.lib.stride_tricks.as_strided(np.arange(4), (2, 2), (8, 8))
    np.ldexp(2, [{k}, 1])|np.asarray({x}, order='F', like=np.ones(2))|np.zeros({n}, like=np.ones(2))
    np.broadcast_to({v}, (2, 3), subok=True)|np.tri({k})|np.interp({v}, [0, 1, 3], {w})|np.polyval({v}, 2)|np.polymul([], {v})
    np.digitize({v}, [0, 1, 3], right={keep})|np.base_repr(5, 2)|np.binary_repr(-{n}, 8)|np.format_float_positional(0.5)
    np.format_float_scientific(0.5)|np.typename('d')
""".strip()
LIBRARY = [text.strip() for row in TEXTS.splitlines() for text in row.split("|") if text.strip()]
WORDS = {
    "fold": ("add", "multiply", "maximum", "minimum", "logical_or", "fmax"), "two": ("add", "subtract", "multiply", "maximum"),
    "one": ("negative", "square", "exp", "sqrt", "abs"), "norm": ("ortho", "forward", "backward"), "n": ("1", "2", "3", "4"),
    "method": ("linear", "lower", "higher", "midpoint", "hazen", "inverted_cdf"), "q": ("0.5", "[0.0, 0.3]", "1.0"),
    "mode": ("full", "same", "valid"), "pad": ("edge", "reflect", "wrap", "mean", "maximum", "linear_ramp"), "ddof": ("0", "1"),
    "order": ("None", "1", "np.inf", "3"), "keep": ("True", "False"), "k": ("0", "1", "2", "-1"),
}


class LibraryLines(Lines):
    """Draws lines of the library, and others between them."""

    def line(self) -> str:
        if self.chance(30):
            return super().line()
        x = self.name()
        shape = np.shape(self.arrays[x])
        text = self.pick(LIBRARY)
        for word, options in WORDS.items():
            while "{" + word + "}" in text:
                text = text.replace("{" + word + "}", self.pick(options), 1)
        for word in ("axis", "axes", "s", "h", "r", "v", "w", "m", "o", "like", "dtype"):
            while "{" + word + "}" in text:
                text = text.replace("{" + word + "}", self.made(word, x, shape), 1)
        return text.replace("{x}", x)

    def made(self, word: str, x: str, shape: tuple[int, ...]) -> str:
        """An operand of a kind, as text."""
        if word == "axis":
            return self.axis(len(shape))
        if word == "axes":
            return self.axes(len(shape))
        if word == "dtype":
            return self.pick(DTYPES)
        if word == "m":
            return self.fresh(self.leaf(self.like(shape), "bool"))
        if word == "like":
            return self.fresh(self.leaf(shape, np.asarray(self.arrays[x]).dtype.name))
        if word == "o":
            return self.fresh(self.leaf(shape[1:], np.asarray(self.arrays[x]).dtype.name))
        dtype = self.pick(("float32", "float64", "int64", "complex64", "uint8", "complex128"))
        if word in ("v", "w", "r"):
            return self.fresh(finite(self.leaf((3,), dtype)))
        a = finite(self.leaf(self.pick(((3, 3), (3, 3), (2, 3, 3))), dtype))
        if word == "h":
            a = a + np.conj(np.swapaxes(a, -1, -2))
        return self.fresh((a + 40 * np.eye(3)).astype(a.dtype))


def finite(a: np.ndarray) -> np.ndarray:
    return np.nan_to_num(a, nan=1, posinf=2, neginf=-2).astype(a.dtype)
