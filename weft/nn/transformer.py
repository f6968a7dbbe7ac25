"""Transformer layers: attention and a feed-forward network, each with a residual connection and a normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.errors import short
from weft.functions.creation.fill import asarray
from weft.nn.activations import gelu, relu
from weft.nn.attention import MultiHeadAttention
from weft.nn.dropout import Dropout
from weft.nn.key_value_cache import KeyValueCache
from weft.nn.linear import Linear
from weft.nn.module import Module
from weft.nn.normalization import LayerNorm
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_docs

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": relu, "gelu": gelu}


class _TransformerLayer(Module):
    parts = 2  # attentions, and the feed-forward network

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu",
        layer_norm_eps: float = 1e-5, norm_first: bool = False, bias: bool = True,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.d_model, self.nhead, self.dim_feedforward = extents(
            name, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward
        )
        if activation not in _ACTIVATIONS and not callable(activation):
            raise ValueError(f"{name}: activation must be 'relu', 'gelu' or a function, not {short(activation)}")
        self.activation, self.norm_first, self.has_bias = activation, bool(norm_first), bool(bias)
        self.self_attn = MultiHeadAttention(self.d_model, self.nhead, dropout, bias)
        self._add_attention(dropout)
        self.linear1 = Linear(self.d_model, self.dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(self.dim_feedforward, self.d_model, bias)
        for k in range(1, self.parts + 1):
            setattr(self, f"norm{k}", LayerNorm(self.d_model, layer_norm_eps, bias=bias))
        for k in range(1, self.parts + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))

    def _add_attention(self, dropout: float) -> None:
        """Create the attention to another sequence."""

    def _run(self, x: Array, parts: list[Callable[[Array], Array]]) -> Array:
        """Apply each part with its residual connection and its normalisation."""
        for k, part in enumerate(parts, 1):
            norm, drop = getattr(self, f"norm{k}"), getattr(self, f"dropout{k}")
            x = x + drop(part(norm(x))) if self.norm_first else norm(x + drop(part(x)))
        return x

    def _feed_forward(self, x: Array) -> Array:
        act = _ACTIVATIONS[self.activation] if isinstance(self.activation, str) else self.activation
        return self.linear2(self.dropout(act(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network; with ``is_causal`` a block of a language model.

    Names, masks, layout and initial values of the weights are those of ``torch.nn.TransformerEncoderLayer``. The batch always
    comes first.

    Vaswani et al.: Attention is all you need. 2017. ``norm_first``: Xiong et al.: On layer normalization in the transformer
    architecture. 2020.

    Parameters
    ----------
    d_model : int, the number of features of a position
    nhead : int, heads of the attention, a divisor of ``d_model``
    dim_feedforward : int, the width of the feed-forward network
    dropout : float, the probability, in training
    activation : "relu", "gelu" or a function of arrays
    layer_norm_eps : float
    norm_first : bool, normalise the input of each part instead of the sum after it
    bias : bool, of linear maps and normalisations

    Raises
    ------
    ShapeError, ValueError, DTypeError
        A size is not positive or not a multiple; ``activation`` or ``dropout`` is out of range; called: arrays or masks do not
        fit.

    >>> layer = wf.nn.TransformerEncoderLayer(16, 4, 32)
    >>> layer(wf.ones((2, 5, 16)), is_causal=True).shape
    (2, 5, 16)
    """

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Array:
        """Return the next features of each position.

        Parameters
        ----------
        src : (N, L, d_model), or (L, d_model)
        src_mask, src_key_padding_mask : optional
            Masks like ``attn_mask`` and ``key_padding_mask`` of :class:`weft.nn.MultiHeadAttention`; True is ignored.
        is_causal : bool, position i attends to positions up to i, in addition to the masks
        cache : KeyValueCache, optional
            Past positions, as in :class:`weft.nn.MultiHeadAttention`.

        Returns
        -------
        Array of the shape of ``src``
        """
        def attend(x: Array) -> Array:
            return self.self_attn(
                x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask, is_causal=is_causal, cache=cache
            )

        return self._run(asarray(src), [attend, self._feed_forward])


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to another sequence, and a feed-forward network.

    Names, masks, layout and initial values of the weights are those of ``torch.nn.TransformerDecoderLayer``. The batch always
    comes first.

    >>> layer = wf.nn.TransformerDecoderLayer(16, 4, 32)
    >>> layer(wf.ones((2, 5, 16)), wf.ones((2, 7, 16)), tgt_is_causal=True).shape
    (2, 5, 16)
    """

    parts = 3

    def _add_attention(self, dropout: float) -> None:
        self.multihead_attn = MultiHeadAttention(self.d_model, self.nhead, dropout, self.has_bias)

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None, tgt_is_causal: bool = False, memory_is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Array:
        """Return the next features of each position of ``tgt``.

        Parameters
        ----------
        tgt : (N, L, d_model), or (L, d_model)
        memory : (N, S, d_model), or (S, d_model); the sequence that ``tgt`` attends to
        tgt_mask, tgt_key_padding_mask, memory_mask, memory_key_padding_mask : optional
            Masks like ``attn_mask`` and ``key_padding_mask`` of :class:`weft.nn.MultiHeadAttention`; True is ignored.
        tgt_is_causal, memory_is_causal : bool, position i attends to positions up to i, in addition to the masks
        cache : KeyValueCache, optional
            Past positions of ``tgt``.

        Returns
        -------
        Array of the shape of ``tgt``
        """
        memory = asarray(memory)

        def attend(x: Array) -> Array:
            return self.self_attn(
                x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, is_causal=tgt_is_causal, cache=cache
            )

        def attend_to_memory(x: Array) -> Array:
            return self.multihead_attn(
                x, memory, attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask, is_causal=memory_is_causal
            )

        return self._run(asarray(tgt), [attend, attend_to_memory, self._feed_forward])


complete_docs(TransformerEncoderLayer, TransformerDecoderLayer)
