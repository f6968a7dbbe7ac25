"""Record values and gradients of PyTorch in tests/nn/torch_values.npz, for tests without PyTorch: run where that is installed.

    python tools/torch_values.py

Shapes and options are drawn anew at each run. The file has all numbers in one float64 array, and a text: a JSON list of cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

FILE = Path(__file__).parent.parent / "tests" / "nn" / "torch_values.npz"
DRAWS = 4  # of each maker of cases
rng = np.random.default_rng()


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers that are multiples of 1/64, which the file stores in few bytes."""
    return np.round(rng.normal(size=shape) * scale * 64) / 64


def between(low: float, high: float, *shape: int) -> np.ndarray:
    """Multiples of 1/64 inside of an interval."""
    return np.ceil(rng.uniform(low * 64, high * 64 - 1, shape)) / 64


def size(low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def pick(*values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


class Writer:
    """The cases that are written, and the arrays that they name by (offset, shape, dtype)."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []
        self.numbers: list[np.ndarray] = []
        self.count = 0

    def store(self, value: Any) -> Any:
        """Return what JSON can say of a value; arrays go to the numbers."""
        if isinstance(value, torch.Tensor):
            value = value.detach().numpy()
        if isinstance(value, np.ndarray):
            self.numbers.append(np.asarray(value, float).ravel())
            self.count += value.size
            return {"array": [self.count - value.size, list(value.shape), value.dtype.name]}
        if isinstance(value, list | tuple):
            return [self.store(v) for v in value]
        return {k: self.store(v) for k, v in value.items()} if isinstance(value, dict) else value

    def add(
        self, call: str, theirs: Callable[..., Any], *arguments: Any, layer: Any = None, parameters: Any = None,
        buffers: Any = None, training: bool = True, **options: Any,
    ) -> None:
        """Record a call of weft's ``call`` with ``arguments`` and ``options``, whose result is ``theirs(*arguments)``.

        Gradients are those of the float arguments and of ``parameters``, of the sum of all results with the weights cos(0),
        cos(1), ... With ``layer`` the call is that of a layer, made with these settings, and filled with ``parameters`` and
        ``buffers``.
        """
        tensors = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
        floats = [t.requires_grad_() for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point()]
        names = dict(parameters or {})
        results = theirs(*tensors)
        results = list(results) if isinstance(results, tuple | list) else [results]
        total = sum((r * torch.cos(torch.arange(r.numel(), dtype=r.dtype)).reshape(r.shape)).sum()
                    for r in results if r.is_floating_point())
        slopes = torch.autograd.grad(total, [*floats, *names.values()], allow_unused=True)
        slopes = [torch.zeros_like(a) if g is None else g for g, a in zip(slopes, [*floats, *names.values()], strict=True)]
        self.cases.append(self.store({
            "call": call, "arguments": list(arguments), "options": options, "layer": layer, "parameters": names,
            "buffers": buffers or {}, "training": training, "results": results, "slopes": slopes[: len(floats)],
            "parameter_slopes": dict(zip(names, slopes[len(floats):], strict=True)),
        }))

    def write(self) -> None:
        text = np.frombuffer(json.dumps(self.cases).encode(), np.uint8)
        np.savez_compressed(FILE, text=text, numbers=np.concatenate(self.numbers), torch=np.array(torch.__version__))


def functions(w: Writer) -> None:
    x = normal(*(size(1, 5) for _ in range(size(1, 3))), scale=4)
    axis = size(-x.ndim, x.ndim - 1)
    kept = pick(True, False)
    w.add("logsumexp", lambda x: torch.logsumexp(x, axis, keepdim=kept), x, axis=axis, keepdims=kept)
    k, largest = size(1, x.shape[axis]), pick(True, False)
    x = x + np.arange(x.size).reshape(x.shape) / 1024  # no two are equal
    w.add("top_k", lambda x: torch.topk(x, k, axis, largest), x, k=k, axis=axis, largest=largest)


def class_losses(w: Writer) -> None:
    n, c, more = size(1, 5), size(2, 6), pick((), (), (3,), (2, 2))
    x, y = normal(n, c, *more), rng.integers(0, c, (n, *more))
    weight = pick(None, between(0.2, 2, c))
    ignored = pick(None, None, int(rng.integers(c)))
    if ignored is not None and (y == ignored).all():
        ignored = None
    how = pick("mean", "sum", "none")
    options = {"reduction": how} | ({} if ignored is None else {"ignore_index": ignored})
    theirs = None if weight is None else torch.tensor(weight)  # PyTorch has no gradient of weights
    w.add("losses.nll_loss", lambda x, y: F.nll_loss(x, y, theirs, **options), x, y, weight=weight, **options)


def probability_losses(w: Writer) -> None:
    shape, how = tuple(size(1, 5) for _ in range(size(1, 3))), pick("mean", "sum", "none")
    p, z, weight = between(0.05, 0.95, *shape), between(0, 1, *shape), between(0.2, 2, *shape)
    w.add("losses.binary_cross_entropy", lambda p, z: F.binary_cross_entropy(p, z, torch.tensor(weight), reduction=how), p, z,
          weight=weight, reduction=how)
    x, t, full = normal(*shape), normal(*shape), pick(True, False)
    var = between(0.1, 3, *shape)
    w.add("losses.gaussian_nll", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=full, reduction=how), x, t, var,
          full=full, reduction=how)
    alpha, gamma = pick(None, 0.25, 0.6), pick(0.0, 1.0, 2.0, 2.5)

    def focal(x: Any, z: Any) -> Any:  # torchvision.ops.sigmoid_focal_loss
        p = torch.sigmoid(x)
        loss = F.binary_cross_entropy_with_logits(x, z, reduction="none") * (1 - (p * z + (1 - p) * (1 - z))) ** gamma
        loss = loss if alpha is None else loss * (alpha * z + (1 - alpha) * (1 - z))
        return loss if how == "none" else loss.mean() if how == "mean" else loss.sum()

    w.add("losses.focal", focal, normal(*shape, scale=2), rng.integers(0, 2, shape).astype(float), alpha=alpha, gamma=gamma,
          reduction=how)


def distance_losses(w: Writer) -> None:
    shape, how = (*(size(1, 4) for _ in range(size(1, 2))), size(2, 5)), pick("mean", "sum", "none")
    a, b, c = (normal(*shape) for _ in range(3))
    margin, swap, p = pick(0.5, 1.0, 2.0), pick(True, False), pick(1.0, 2.0, 3.0)
    w.add("losses.triplet", lambda a, b, c: F.triplet_margin_loss(a, b, c, margin, p, swap=swap, reduction=how), a, b, c,
          margin=margin, p=p, swap=swap, reduction=how)
    y = rng.integers(0, 2, shape[:-1])

    def contrastive(a: Any, b: Any, y: Any) -> Any:
        d = F.pairwise_distance(a, b, eps=0)
        loss = (y * d**2 + (1 - y) * torch.clamp(margin - d, min=0) ** 2) / 2
        return loss if how == "none" else loss.mean() if how == "mean" else loss.sum()

    w.add("losses.contrastive", contrastive, a, b, y, margin=margin, reduction=how)


def alignments(w: Writer) -> None:
    t, n, c, s = size(4, 7), size(1, 3), size(3, 5), size(1, 3)
    blank, how = size(0, c - 1), pick("mean", "sum", "none")
    y = rng.integers(0, c - 1, (n, s))
    y = y + (y >= blank)
    ends, lengths = rng.integers(2 * s - 1, t + 1, n) if 2 * s <= t else np.full(n, t), rng.integers(0, s + 1, n)

    def ctc(x: Any, y: Any, ends: Any, lengths: Any) -> Any:
        return F.ctc_loss(x, y, ends, lengths, blank, how, zero_infinity=True)

    def log_probs(x: Any) -> Any:  # PyTorch's gradient is that of the scores before the log-softmax
        return ctc(torch.log_softmax(x, 2), torch.tensor(y), torch.tensor(ends), torch.tensor(lengths))

    w.add("scored_ctc", log_probs, normal(t, n, c), targets=y, input_lengths=ends, target_lengths=lengths, blank=blank,
          reduction=how, zero_infinity=True)


def resizing(w: Writer) -> None:
    spatial = size(1, 3)
    x = normal(size(1, 2), size(1, 2), *(size(2, 6) for _ in range(spatial)))
    mode = pick("nearest", "nearest-exact", "area", "linear", "linear", "cubic")
    theirs = {"linear": ("linear", "bilinear", "trilinear"), "cubic": (None, "bicubic", None)}.get(mode, (mode,) * 3)[spatial - 1]
    if theirs is None:
        return resizing(w)
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["size"] = [size(1, 9) for _ in range(spatial)]
    else:
        options["scale_factor"] = [float(between(0.5, 3)) for _ in range(spatial)]
    if mode in ("linear", "cubic"):
        options["align_corners"] = pick(True, False)
        options["antialias"] = spatial == 2 and pick(True, False)
    w.add("nn.interpolate", lambda x: F.interpolate(x, mode=theirs, **options), x, mode=mode, **options)
    return None


def sampling(w: Writer) -> None:
    spatial = size(2, 3)
    x = normal(2, size(1, 2), *(size(1, 5) for _ in range(spatial)))
    grid = between(-1.6, 1.6, 2, *(size(1, 3) for _ in range(spatial)), spatial) + 1 / 512  # off the pixels, where slopes jump
    mode = pick("bilinear", "nearest", "bicubic") if spatial == 2 else pick("bilinear", "nearest")
    outside, corners = pick("zeros", "border", "reflection"), pick(True, False)
    w.add("nn.grid_sample", lambda x, grid: F.grid_sample(x, grid, mode, outside, corners), x, grid, mode=mode,
          padding_mode=outside, align_corners=corners)
    shape = [2, 1, *(size(1, 4) for _ in range(spatial))]
    w.add("nn.affine_grid", lambda theta: F.affine_grid(theta, shape, corners), normal(2, spatial, spatial + 1), size=shape,
          align_corners=corners)


def pooling(w: Writer) -> None:
    spatial = size(1, 3)
    window = [size(1, 3) for _ in range(spatial)]
    options = {
        "kernel_size": window, "stride": [size(1, 3) for _ in window], "padding": [size(0, k // 2) for k in window],
    }
    x = normal(2, 1, *(size(3, 6) for _ in range(spatial)))
    pool = getattr(F, f"max_pool{spatial}d")
    w.add(f"nn.max_pool{spatial}d", lambda x: pool(x, **options, return_indices=True), x, **options, return_indices=True)
    y, places = pool(torch.tensor(x), 2, return_indices=True)
    unpool = getattr(F, f"max_unpool{spatial}d")
    w.add(f"nn.max_unpool{spatial}d", lambda y, places: unpool(y, places, 2, output_size=x.shape), y.numpy(), places.numpy(),
          kernel_size=2, output_size=list(x.shape))


def shuffling(w: Writer) -> None:
    r = size(1, 3)
    w.add("nn.pixel_shuffle", lambda x: F.pixel_shuffle(x, r), normal(2, 2 * r * r, 2, 3), upscale_factor=r)
    w.add("nn.pixel_unshuffle", lambda x: F.pixel_unshuffle(x, r), normal(2, 2, 2 * r, 3 * r), downscale_factor=r)
    spatial = size(1, 3)
    kind = pick("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad", "ConstantPad") + f"{spatial}d"
    options = {"padding": [size(0, 2) for _ in range(2 * spatial)]} | ({"value": 1.5} if kind.startswith("Constant") else {})
    w.add(f"nn.{kind}", getattr(torch.nn, kind)(**options), normal(2, 1, *(size(3, 5) for _ in range(spatial))), layer=options)


def attention(w: Writer) -> None:
    n, heads, length, keys, width = size(1, 2), size(1, 2), size(1, 4), size(1, 5), 2 * size(1, 2)
    q, k, v = normal(n, heads, length, width), normal(n, heads, keys, width), normal(n, heads, keys, width)
    mask = rng.random((n, 1, length, keys)) < 0.7
    mask[..., 0] = True  # position 0 may always be attended to
    mask, causal = pick(mask, normal(length, keys)), pick(True, False)
    allowed = torch.ones(length, keys, dtype=torch.bool).tril() if causal else torch.ones(length, keys, dtype=torch.bool)

    def theirs(q: Any, k: Any, v: Any) -> Any:  # PyTorch takes one of the two, so that its mask has both
        both = torch.tensor(mask) & allowed if mask.dtype == bool else torch.tensor(mask).masked_fill(~allowed, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, both)

    w.add("nn.scaled_dot_product_attention", theirs, q, k, v, attn_mask=mask, is_causal=causal)


def rotation(w: Writer) -> None:
    x, interleaved = normal(size(1, 2), size(1, 5), 2 * size(1, 3)), pick(True, False)
    positions, base = rng.integers(0, 50, x.shape[1]), pick(10000.0, 100.0)

    def theirs(x: Any) -> Any:
        half = x.shape[-1] // 2
        pairs = x.unflatten(-1, (half, 2)) if interleaved else x.unflatten(-1, (2, half)).transpose(-1, -2)
        angles = torch.tensor(positions)[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles))
        return turned.flatten(-2) if interleaved else turned.transpose(-1, -2).flatten(-2)

    w.add("nn.rotary_embedding", theirs, x, positions=positions, base=base, interleaved=interleaved)


def transformers(w: Writer) -> None:
    heads, n, length, keys = size(1, 2), size(1, 2), size(2, 4), size(1, 3)
    settings = {
        "d_model": 2 * heads, "nhead": heads, "dim_feedforward": 3, "dropout": 0.0, "activation": pick("relu", "gelu"),
        "norm_first": pick(True, False), "bias": pick(True, False),
    }
    x, memory = normal(n, length, 2 * heads), normal(n, keys, 2 * heads)
    later, padding = np.triu(np.ones((length, length), bool), 1), rng.random((n, length)) < 0.3
    padding[:, 0] = False
    causal = pick(True, False)
    masks = {"mask": torch.tensor(later)} if causal else {}
    layer = filled(torch.nn.TransformerEncoderLayer(**settings, batch_first=True, dtype=torch.float64))
    w.add("nn.TransformerEncoderLayer", lambda x: layer(x, masks.get("mask"), torch.tensor(padding)), x, layer=settings,
          parameters=layer.named_parameters(), src_key_padding_mask=padding, is_causal=causal)
    other = filled(torch.nn.TransformerDecoderLayer(**settings, batch_first=True, dtype=torch.float64))
    w.add("nn.TransformerDecoderLayer",
          lambda x, m: other(x, m, masks.get("mask"), tgt_key_padding_mask=torch.tensor(padding)), x, memory, layer=settings,
          parameters=other.named_parameters(), tgt_key_padding_mask=padding, tgt_is_causal=causal)


def recurrent(w: Writer) -> None:
    kind, steps, batch, width, hidden = pick("RNN", "LSTM", "LSTM", "GRU"), size(2, 4), size(1, 3), size(1, 3), size(2, 3)
    settings: dict[str, Any] = {
        "input_size": width, "hidden_size": hidden, "num_layers": size(1, 2), "bias": pick(True, False),
        "bidirectional": pick(True, False), "batch_first": pick(True, False),
    }
    if kind == "LSTM":
        settings["proj_size"] = pick(0, 1)
    layer = filled(getattr(torch.nn, kind)(**settings, dtype=torch.float64))
    shape, first = (steps, batch, width), settings["batch_first"]
    x = normal(*(shape[1], shape[0], width) if first else shape)
    lengths = rng.integers(1, steps + 1, batch)
    count = settings["num_layers"] * (2 if settings["bidirectional"] else 1)
    start = normal(count, batch, settings.get("proj_size") or hidden), normal(count, batch, hidden)

    def theirs(x: Any, *start: Any) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), first, False)
        y, state = layer(packed, start if kind == "LSTM" else start[0])
        y = torch.nn.utils.rnn.pad_packed_sequence(y, first, total_length=steps)[0]
        return (y, *state) if kind == "LSTM" else (y, state)

    w.add(f"run_{kind}", theirs, x, *start[: 2 if kind == "LSTM" else 1], layer=settings, parameters=layer.named_parameters(),
          lengths=lengths)
    cell = {"input_size": width, "hidden_size": hidden, "bias": settings["bias"]}
    one = filled(getattr(torch.nn, f"{kind}Cell")(**cell, dtype=torch.float64))
    states = normal(batch, hidden), normal(batch, hidden)
    w.add(f"run_{kind}Cell", lambda x, *s: one(x, s if kind == "LSTM" else s[0]), normal(batch, width),
          *states[: 2 if kind == "LSTM" else 1], layer=cell, parameters=one.named_parameters())


def weight_norms(w: Writer) -> None:
    norms = torch.nn.utils.parametrizations
    kind, settings = pick(("Linear", (3, 4)), ("Conv2d", (2, 3, 2)), ("ConvTranspose2d", (2, 3, 2)))
    x = normal(2, 3) if kind == "Linear" else normal(2, 2, 4, 3)
    dim = pick(0, 1, None)
    layer = norms.weight_norm(getattr(torch.nn, kind)(*settings, dtype=torch.float64), dim=dim)
    g, v = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1
    w.add("make_weight_norm", filled(layer), x, layer={"kind": kind, "sizes": list(settings), "axis": dim},
          parameters={"weight_g": g, "weight_v": v, "inner.bias": layer.bias})
    layer = filled(getattr(torch.nn, kind)(*settings, dtype=torch.float64))
    count = size(1, 3)
    layer = norms.spectral_norm(layer, n_power_iterations=count).train(pick(True, False))
    own = layer.parametrizations.weight
    buffers = {"u": own[0]._u.clone(), "v": own[0]._v.clone()}
    w.add("make_spectral_norm", layer, x, buffers=buffers, training=layer.training,
          layer={"kind": kind, "sizes": list(settings), "n_power_iterations": count},
          parameters={"weight": own.original, "inner.bias": layer.bias})


def filled(layer: Any) -> Any:
    """Give a layer parameters that the file stores in few bytes."""
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.tensor(normal(*p.shape, scale=0.5)))
    return layer


MAKERS: list[Callable[[Writer], None]] = [
    functions, class_losses, probability_losses, distance_losses, alignments, resizing, resizing, sampling, pooling, shuffling,
    attention, rotation, transformers, recurrent, recurrent,
    weight_norms, weight_norms,
]


def drawn() -> Iterator[Callable[[Writer], None]]:
    for maker in MAKERS:
        for _ in range(DRAWS):
            yield maker


if __name__ == "__main__":
    writer = Writer()
    for make in drawn():
        make(writer)
    writer.write()
    print(f"{len(writer.cases)} cases, {writer.count} numbers, {FILE.stat().st_size / 1000:.0f} kB")
