"""Scaled dot-product attention: one kernel that does not store the scores, or array code if there are few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.api import is_inexact, is_integer
from weft.dtypes.formats import FLOATS
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import arange, asarray, zeros
from weft.functions.dtype_info.half_precision import to_compute_dtype
from weft.functions.elementwise.ufuncs import exp, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.random.state import open_words
from weft.functions.shape.axes import broadcast_to
from weft.functions.support.arguments import op
from weft.nn.dropout import check_probability, dropout
from weft.nn.init import xavier_uniform
from weft.nn.key_value_cache import KeyValueCache
from weft.nn.linear import Linear, linear
from weft.nn.module import Module
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_module

FLOAT32 = np.dtype(np.float32)
MAX_STORED_SCORES = 1 << 21  # scores of all heads, up to which they are stored (8 MB of float32) for the derivatives to reuse
CAUSAL_DIVISOR = 16  # divides MAX_STORED_SCORES if causal: the zero half is skipped only if scores are not stored


def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Array:
    """Compute ``softmax(query @ key.T * scale + mask) @ value``, with PyTorch's signature and meaning.

    Vaswani et al.: Attention is all you need. 2017.

    Parameters
    ----------
    query : (..., L, E), float
    key : (..., S, E)
    value : (..., S, Ev)
    attn_mask : broadcasts to (..., L, S), optional. bool: True takes part in attention; float: added to the scores
    dropout_p : float, weights are dropped with this probability; pass 0 when not training
    is_causal : bool, position i attends to positions up to i, in addition to ``attn_mask`` (PyTorch refuses both)
    scale : float, 1 / sqrt(E) by default
    enable_gqa : bool, ``query`` (..., H, L, E) may have several heads for each of ``key`` and ``value`` (..., H / n, S, E)

    Returns
    -------
    Array
        Of shape (..., L, Ev) and the dtype of ``query``; float16 and bfloat16 are computed in float32. A position that may
        not attend to any position gets zeros. Above 2**21 scores (of all heads together; 2**17 with ``is_causal``) the scores
        are not stored, neither here nor for the gradient: memory grows with L + S. The gradient of a float mask, and
        derivatives of the gradient, store them.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Shapes or dtypes do not fit; ``dropout_p`` is outside [0, 1].

    >>> x = wf.random.normal(size=(2, 4, 7, 8))
    >>> wf.nn.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    (2, 4, 7, 8)
    """
    name = "scaled_dot_product_attention"
    query, key, value = (a if isinstance(a, Array) else asarray(a) for a in (query, key, value))
    _check(name, query, key, value)
    masks = [] if attn_mask is None else [attn_mask]
    if not enable_gqa:
        return compute_attention(name, query, key, value, masks, dropout_p, is_causal, scale)
    times, value_times = (_heads(name, query, a) for a in (key, value))
    *batch, heads, length, _ = query.shape
    query_of = query.reshape((*batch, heads // times, times, *query.shape[-2:]))
    key_of, value_of = (a.reshape((*a.shape[:-2], 1, *a.shape[-2:])) for a in (key, value))
    if times != value_times or not _skips_scores(name, is_causal, query_of, key_of, value_of):
        key, value = _repeat_heads(key, times), _repeat_heads(value, value_times)
        return compute_attention(name, query, key, value, masks, dropout_p, is_causal, scale)
    lead = (*_leading_shape(name, query_of, key_of, value_of)[:-2], heads)
    for k, mask in enumerate(masks):
        masks[k] = mask = _check_mask(name, mask, (*lead, length, key.shape[-2]))
        if mask.ndim > 2:
            masks[k] = mask.reshape((*mask.shape[:-3], *((1, 1) if mask.shape[-3] == 1 else (-1, times)), *mask.shape[-2:]))
    out = compute_attention(name, query_of, key_of, value_of, masks, dropout_p, is_causal, scale)
    return out.reshape((*out.shape[:-4], heads, *out.shape[-2:]))


def compute_attention(
    name: str, query: Array, key: Array, value: Array, masks: list[Any], dropout_p: float, is_causal: bool,
    scale: float | None = None,
) -> Array:
    """Return the result of attention. ``masks`` are like ``attn_mask`` of :func:`scaled_dot_product_attention`; all apply."""
    if not _skips_scores(name, is_causal, query, key, value):
        return compute_attention_and_weights(name, query, key, value, masks, dropout_p, is_causal, scale)[0]
    check_probability(name, dropout_p, "dropout_p")
    lead = _leading_shape(name, query, key, value)
    rank = len(lead) + 2
    shape = (*lead, query.shape[-2], key.shape[-2])
    factor: float = 1.0 / math.sqrt(query.shape[-1])
    if type(scale) in (int, float) or isinstance(scale, np.number):
        factor = float(scale)  # type: ignore[arg-type]
    elif scale is not None:  # a run-time value
        query, factor = query * scale, 1.0
    query = broadcast_to(query, (*lead, *query.shape[-2:]))
    key, value = (a.reshape((*(1,) * (rank - a.ndim), *a.shape)) for a in (key, value))
    if key.shape[:-2] != value.shape[:-2]:
        key, value = (broadcast_to(a, (*lead, *a.shape[-2:])) for a in (key, value))
    arguments = []
    for mask in masks:
        mask = _check_mask(name, mask, shape)
        arguments.append(mask.reshape((*(1,) * (rank - mask.ndim), *mask.shape)).node)
    keep = None
    if dropout_p:
        keep = 1.0 - dropout_p
        arguments += open_words(None, name).places(math.prod(shape))
    return wrap(op(
        "attention", query.node, key.node, value.node, *arguments, result="out", scale=factor, causal=bool(is_causal), keep=keep
    ))


def _skips_scores(name: str, is_causal: bool, query: Array, key: Array, value: Array) -> bool:
    """Return whether attention is computed without storing the scores."""
    scores = math.prod(_leading_shape(name, query, key, value)) * query.shape[-2] * key.shape[-2]
    return scores > (MAX_STORED_SCORES // CAUSAL_DIVISOR if is_causal else MAX_STORED_SCORES) and query.node.dtype in FLOATS


def _leading_shape(name: str, *arrays: Array) -> tuple[int, ...]:
    """Return the leading dimensions of the result."""
    try:
        return np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    except ValueError:
        shapes = [a.shape[:-2] for a in arrays]
        raise ShapeError(f"{name}: the leading dimensions of query, key and value, {shapes}, do not broadcast") from None


def compute_attention_and_weights(
    name: str, query: Array, key: Array, value: Array, masks: list[Any], dropout_p: float, is_causal: bool,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """Return (result, weights), computed with all scores stored; masks as in :func:`compute_attention`."""
    check_probability(name, dropout_p, "dropout_p")
    dtype, (query, key, value) = query.dtype, map(to_compute_dtype, (query, key, value))
    scores = query @ key.mT * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    allowed: Any = None
    if is_causal:
        length, keys = scores.shape[-2:]
        allowed = arange(length).reshape((length, 1)) >= arange(keys)
    for mask in masks:
        mask = _check_mask(name, mask, scores.shape)
        if mask.dtype.kind == "b":
            allowed = mask if allowed is None else allowed & mask
        else:
            scores = scores + mask.astype(scores.dtype)
    if allowed is not None:
        scores = where(allowed, scores, -math.inf)
    weights = dropout(_softmax(scores), dropout_p)
    out = weights @ value
    return out if out.dtype == dtype else out.astype(dtype), weights


def _softmax(scores: Array) -> Array:
    """Return the softmax along the last axis; zeros where every score is -inf."""
    if not scores.shape[-1]:
        return scores
    top = stop_gradient(scores.max(axis=-1, keepdims=True))
    e = exp(scores - where(top == -math.inf, 0.0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / where(total == 0, 1.0, total)


def _check(name: str, query: Array, key: Array, value: Array) -> None:
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(f"{name}: {shapes} must have two dimensions at least, (..., L, E), (..., S, E), (..., S, Ev)")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2] or not query.shape[-1]:
        raise ShapeError(f"{name}: {shapes} must be (..., L, E), (..., S, E) and (..., S, Ev), with E at least 1")
    if not query.dtype == key.dtype == value.dtype or not is_inexact(query.dtype):
        dtypes = f"{query.dtype}, {key.dtype}, {value.dtype}"
        raise DTypeError(f"{name}: query, key and value must have one float dtype, not {dtypes}")


def _check_mask(name: str, mask: Any, shape: tuple[int, ...]) -> Array:
    """Return the mask as an Array; raise if it does not fit scores of ``shape``."""
    mask = mask if isinstance(mask, Array) else asarray(mask)
    if is_integer(mask.dtype):
        raise DTypeError(f"{name}: a mask must be bool or float, not {mask.dtype}: compare it with 0")
    pairs = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.ndim > len(shape) or any(m not in (1, n) for m, n in pairs):
        raise ShapeError(f"{name}: a mask of shape {mask.shape} does not broadcast to the scores, {shape}")
    return mask


def _heads(name: str, query: Array, a: Array) -> int:
    """Return the number of query heads for each head of ``a``, the keys or values."""
    if query.ndim < 3 or a.ndim < 3 or not a.shape[-3] or query.shape[-3] % a.shape[-3]:
        raise ShapeError(f"{name}: with enable_gqa query {query.shape} must have a multiple of the heads of {a.shape} (axis -3)")
    return query.shape[-3] // a.shape[-3]


def _repeat_heads(a: Array, times: int) -> Array:
    """Return ``a`` (..., H / n, S, E) with each head repeated ``times`` times."""
    *batch, heads, length, width = a.shape
    many = broadcast_to(a.reshape((*batch, heads, 1, length, width)), (*batch, heads, times, length, width))
    return many.reshape((*batch, heads * times, length, width))


class MultiHeadAttention(Module):
    """Attention in several heads, each with its own projections, combined by an output projection.

    Names, masks, layout and initial values of the weights are those of ``torch.nn.MultiheadAttention`` with two differences:
    the batch always comes first, and the result is the array alone unless ``need_weights=True``, so that the layer can be
    used in a :class:`Sequential`. ``key`` and ``value`` default to ``query`` (self-attention).

    Vaswani et al.: Attention is all you need. 2017.

    Parameters
    ----------
    embed_dim : int, width of queries and of the result
    num_heads : int, a divisor of ``embed_dim``
    dropout : float, weights are dropped with this probability while training
    bias : bool, of the projections
    kdim, vdim : int, widths of keys and values; ``embed_dim`` by default

    Raises
    ------
    ShapeError, ValueError, DTypeError, TypeError
        A width is not positive or not a multiple; arrays or masks do not fit; ``dropout`` is outside [0, 1]; a mask has a
        wrong dtype; called with ``key`` or ``value`` together with ``cache``.

    >>> layer = wf.nn.MultiHeadAttention(16, 4)
    >>> layer(wf.ones((2, 5, 16)), is_causal=True).shape
    (2, 5, 16)
    >>> out, weights = layer(wf.ones((2, 5, 16)), wf.ones((2, 3, 16)), need_weights=True)
    >>> weights.shape
    (2, 5, 3)
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: int | None = None,
        vdim: int | None = None,
    ) -> None:
        super().__init__()
        kdim, vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        embed_dim, num_heads, kdim, vdim = extents(
            "MultiHeadAttention", embed_dim=embed_dim, num_heads=num_heads, kdim=kdim, vdim=vdim
        )
        if embed_dim % num_heads:
            raise ShapeError(f"MultiHeadAttention: embed_dim={embed_dim} must be a multiple of num_heads={num_heads}")
        check_probability("MultiHeadAttention", dropout, "dropout")
        self.embed_dim, self.num_heads, self.dropout, self.kdim, self.vdim = embed_dim, num_heads, dropout, kdim, vdim
        self.packed, self.has_bias = kdim == vdim == embed_dim, bool(bias)
        if self.packed:
            self.in_proj_weight = xavier_uniform((3 * embed_dim, embed_dim))
        else:
            self.q_proj_weight = xavier_uniform((embed_dim, embed_dim))
            self.k_proj_weight = xavier_uniform((embed_dim, kdim))
            self.v_proj_weight = xavier_uniform((embed_dim, vdim))
        self.in_proj_bias = zeros((3 * embed_dim,)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = zeros((embed_dim,))

    def forward(
        self, query: Array, key: Array | None = None, value: Array | None = None, key_padding_mask: Any = None,
        need_weights: bool = False, attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Any:
        """Attend from ``query`` to ``key`` and ``value``.

        Parameters
        ----------
        query : (N, L, embed_dim), or (L, embed_dim) without a batch
        key, value : (N, S, kdim) and (N, S, vdim); ``query`` by default, ``value`` as ``key``
        key_padding_mask : (N, S), optional. bool: True is ignored; float: added to the scores
        need_weights : bool, return (result, weights); weights (N, L, S), or (N, num_heads, L, S) if not averaged
        attn_mask : (L, S), (N * num_heads, L, S) or (N, num_heads, L, S), optional. bool: True is ignored (in
            :func:`scaled_dot_product_attention` it takes part: both as in PyTorch); float: added to the scores
        average_attn_weights : bool, weights are the mean over the heads
        is_causal : bool, position i attends to positions up to i, in addition to the masks
        cache : KeyValueCache, optional
            Past keys and values, for self-attention: ``query`` has the next positions, which attend to all positions up to
            themselves. S is then ``cache.max_length``.

        Returns
        -------
        (N, L, embed_dim), without N if ``query`` has no batch

        Raises
        ------
        ShapeError, DTypeError
        TypeError
            ``key`` or ``value`` together with ``cache``.
        """
        is_self = key is None and value is None
        if cache is not None and not is_self:
            raise TypeError("MultiHeadAttention: cache is for self-attention; leave out key and value")
        query = asarray(query)
        key = query if key is None else asarray(key)
        value = key if value is None else asarray(value)
        self._check(query, key, value)
        is_single = query.ndim == 2
        if is_single:
            query, key, value = (a.reshape((1, *a.shape)) for a in (query, key, value))
            mask = None if key_padding_mask is None else asarray(key_padding_mask)
            key_padding_mask = mask.reshape((1, *mask.shape)) if mask is not None and mask.ndim == 1 else mask
        keys = key.shape[1] if cache is None else cache.max_length
        masks = self._masks(len(query), query.shape[1], keys, key_padding_mask, attn_mask)
        out, weights = self._attend(query, key, value, masks, is_causal, is_self, need_weights, cache)
        if is_single:
            out = out.reshape(out.shape[1:])
            weights = None if weights is None else weights.reshape(weights.shape[1:])
        if weights is None:
            return out
        return out, weights.mean(axis=-3) if average_attn_weights else weights

    def _attend(
        self, query: Array, key: Array, value: Array, masks: list[Array], is_causal: bool, is_self: bool, need_weights: bool,
        cache: KeyValueCache | None,
    ) -> tuple[Array, Array | None]:
        heads, width = self.num_heads, self.embed_dim // self.num_heads
        if is_self and self.packed:  # one product for all three projections
            n, length = query.shape[:2]
            all_three = linear(query, self.in_proj_weight, self.in_proj_bias).reshape((n, length, 3, heads, width))
            q, k, v = (all_three[:, :, i].swapaxes(1, 2) for i in range(3))
        else:
            q, k, v = (
                self._project(i, a).reshape((*a.shape[:2], heads, width)).swapaxes(1, 2)
                for i, a in enumerate((query, key, value))
            )
        if cache is not None:
            k, v, earlier = cache.update(k, v)
            k, v, masks, is_causal = k.astype(q.dtype), v.astype(q.dtype), [*masks, earlier], False
        drop = self.dropout if self.training else 0.0
        name, weights = "MultiHeadAttention", None
        if need_weights:
            out, weights = compute_attention_and_weights(name, q, k, v, masks, drop, is_causal)
        else:
            out = compute_attention(name, q, k, v, masks, drop, is_causal)
        return self.out_proj(out.swapaxes(1, 2).reshape((*query.shape[:2], self.embed_dim))), weights

    def _project(self, index: int, x: Array) -> Array:
        rows = slice(index * self.embed_dim, (index + 1) * self.embed_dim)
        weight = self.in_proj_weight[rows] if self.packed else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[index]
        return linear(x, weight, None if self.in_proj_bias is None else self.in_proj_bias[rows])

    def _masks(self, n: int, length: int, keys: int, padding: Any, attention: Any) -> list[Array]:
        """Return the masks as :func:`compute_attention_and_weights` expects them: 4-d, True where attention takes place."""
        masks = []
        if padding is not None:
            padding = _invert(padding)
            if padding.shape != (n, keys):
                raise ShapeError(f"MultiHeadAttention: key_padding_mask has shape {padding.shape}, but must be {(n, keys)}")
            masks.append(padding.reshape((n, 1, 1, keys)))
        if attention is not None:
            attention = _invert(attention)
            if attention.ndim == 3 and attention.shape[0] == n * self.num_heads:
                attention = attention.reshape((n, self.num_heads, *attention.shape[1:]))
            if attention.ndim == 3 or attention.shape[-2:] != (length, keys):
                raise ShapeError(
                    f"MultiHeadAttention: attn_mask has shape {attention.shape}, but must be {(length, keys)}, "
                    f"{(n * self.num_heads, length, keys)} or {(n, self.num_heads, length, keys)}"
                )
            masks.append(attention)
        return masks

    def _check(self, query: Array, key: Array, value: Array) -> None:
        shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
        if not query.ndim == key.ndim == value.ndim or query.ndim not in (2, 3):
            raise ShapeError(f"MultiHeadAttention: {shapes} must be (N, L, width) each, or (L, width) each")
        widths = (self.embed_dim, self.kdim, self.vdim)
        if tuple(a.shape[-1] for a in (query, key, value)) != widths:
            raise ShapeError(f"MultiHeadAttention: {shapes} must end in embed_dim, kdim, vdim = {widths}")
        if key.shape[:-1] != value.shape[:-1] or query.shape[:-2] != key.shape[:-2]:
            raise ShapeError(f"MultiHeadAttention: {shapes} must agree in the batch, key and value in the length too")


def _invert(mask: Any) -> Array:
    mask = asarray(mask)
    return ~mask if mask.dtype.kind == "b" else mask


complete_module(globals())
