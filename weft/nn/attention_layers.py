"""The MultiHeadAttention layer."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray, zeros
from weft.nn.attention import compute_attention, compute_attention_and_weights
from weft.nn.init import xavier_uniform
from weft.nn.linear import Linear, linear
from weft.nn.module import Module
from weft.nn.size_arguments import extents


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
    ShapeError, ValueError, DTypeError
        A width is not positive or not a multiple; arrays or masks do not fit; ``dropout`` is outside [0, 1]; a mask has a
        wrong dtype.

    Examples
    --------
    >>> import weft as wf
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
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"MultiHeadAttention: dropout must lie between 0 and 1, not {dropout}")
        self.embed_dim, self.num_heads, self.dropout, self.kdim, self.vdim = embed_dim, num_heads, dropout, kdim, vdim
        self.packed = kdim == vdim == embed_dim
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

        Returns
        -------
        (N, L, embed_dim), without N if ``query`` has no batch

        Raises
        ------
        ShapeError, DTypeError
        """
        is_self = key is None and value is None
        query = asarray(query)
        key = query if key is None else asarray(key)
        value = key if value is None else asarray(value)
        self._check(query, key, value)
        if query.ndim == 2:
            query, key, value = (a.reshape((1, *a.shape)) for a in (query, key, value))
            masks = self._masks(1, query.shape[1], key.shape[1], _add_batch(key_padding_mask), attn_mask)
            out, weights = self._attend(query, key, value, masks, is_causal, is_self, need_weights)
            out = out.reshape(out.shape[1:])
            weights = None if weights is None else weights.reshape(weights.shape[1:])
        else:
            masks = self._masks(len(query), query.shape[1], key.shape[1], key_padding_mask, attn_mask)
            out, weights = self._attend(query, key, value, masks, is_causal, is_self, need_weights)
        if weights is None:
            return out
        return out, weights.mean(axis=-3) if average_attn_weights else weights

    def _attend(
        self, query: Array, key: Array, value: Array, masks: list[Array], is_causal: bool, is_self: bool, need_weights: bool,
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

    def extra_repr(self) -> str:
        other = "" if self.packed else f", kdim={self.kdim}, vdim={self.vdim}"
        return f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout}, bias={self.in_proj_bias is not None}{other}"


def _invert(mask: Any) -> Array:
    mask = mask if isinstance(mask, Array) else asarray(mask)
    return ~mask if mask.dtype.kind == "b" else mask


def _add_batch(mask: Any) -> Any:
    if mask is None:
        return None
    mask = mask if isinstance(mask, Array) else asarray(mask)
    return mask.reshape((1, *mask.shape)) if mask.ndim == 1 else mask
