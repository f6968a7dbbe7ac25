"""Quantization of a trained model: its layers are replaced, and ranges of their inputs calibrated."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from weft.dtypes.block_formats import BlockFormat, block_format
from weft.dtypes.formats import INT8, Format
from weft.errors import DTypeError, warn
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import absolute
from weft.functions.statistics.samples import percentile as percentile_of
from weft.nn.convolution import Conv1d, Conv2d, Conv3d
from weft.nn.embedding import Embedding
from weft.nn.linear import Linear
from weft.nn.module import Module
from weft.nn.module_tree import CALL_HOOK, ModuleTree
from weft.nn.quantized.array import QuantizedArray, quantize
from weft.nn.quantized.inputs import input_format
from weft.nn.quantized.layers import QuantizedConv2d, QuantizedEmbedding
from weft.nn.quantized.linear import QuantizedLinear
from weft.process.attributes import change_attribute
from weft.process.docstrings import complete_module
from weft.transforms.tree import matches

_CONVOLUTIONS = (Conv1d, Conv2d, Conv3d)
_LAYERS = (Linear, Embedding, *_CONVOLUTIONS)
Model = TypeVar("Model", bound=Module)


def quantize_model(
    model: Model, weights: Any = "int8", activations: Any = None, *, only: str | Sequence[str] = "*", block: int | None = None,
    data: Iterable[Any] | None = None, percentile: float = 100.0,
) -> Model:
    """Return a copy of a trained model whose Linear, convolution and Embedding layers have quantized weights.

    A warning names the large parameters that are left as they are, for example those of attention and recurrent layers.

    Parameters
    ----------
    model : Module
        It does not change.
    weights : dtype or block format
        "int8", a float dtype of 8 bits or fewer, "int4", or a block format such as :data:`weft.mxfp4`. Dtypes have one scale for
        each row or channel of the result; int4 one for 128 weights, if a row has more.
    activations : dtype, optional
        int8, or a float dtype of 8 bits or fewer, to which the inputs of Linear and convolutions are rounded. int8 inputs are
        multiplied by integer weights with int32 sums.
    only : pattern of layers, or a list of them
        As in ``groups`` of an optimizer: ``"encoder.*"``.
    block : int, optional
        The number of weights with one scale.
    data : iterable of batches, optional
        Each is an input of the model, or a tuple or list whose first element is one. The inputs of a layer then have one scale,
        for the largest magnitude over all batches. Without it each row has its own, computed when it is read. An empty list gives
        scales of 1, for a model whose weights will be loaded.
    percentile : float
        The percentile of magnitudes of each batch that counts as its largest. Larger inputs saturate.

    Returns
    -------
    Module

    Raises
    ------
    DTypeError, ValueError, TypeError
        A format is not possible; ``model`` is not a Module; ``only`` matches no layer that can be quantized; ``data`` or
        ``percentile`` without ``activations``; a batch of ``data`` gives a layer infinities or NaN.

    Notes
    -----
    Jacob et al.: Quantization and training of neural networks for efficient integer-arithmetic-only inference. CVPR 2018.

    Examples
    --------
    >>> net = wf.nn.Sequential(wf.nn.Linear(256, 64), wf.nn.ReLU(), wf.nn.Linear(64, 10))
    >>> small = wf.nn.quantize_model(net, "int4", only="0")
    >>> small
    Sequential(
      (0): QuantizedLinear(256, 64, weights=block_format('int4', 128, scale='float32')
        (weight): QuantizedArray(shape=(64, 256), format=block_format('int4', 128, scale='float32'), axis=1, 8704 bytes)
      )
      (1): ReLU()
      (2): Linear(64, 10)
    )
    """
    if not isinstance(model, Module):
        raise TypeError(f"quantize_model: model must be a Module, not {type(model).__name__}")
    patterns = [only] if isinstance(only, str) else list(only)
    form = input_format("quantize_model", activations)
    if form is None and (data is not None or percentile != 100.0):
        raise ValueError("quantize_model: data= and percentile= are for activations=, which is None")
    if not 0 < percentile <= 100:
        raise ValueError(f"quantize_model: percentile={percentile!r} must be above 0 and at most 100")
    of_weights = _weight_formats(weights, block)
    layers: dict[str, Any] = {
        name: m for name, m in model.modules()
        if type(m) in _LAYERS and getattr(m, "weight", None) is not None and _is_chosen(name, patterns)
    }
    if not layers:
        kinds = "Linear, convolution or Embedding of the model with float weights"
        done = "; some are quantized already" if any(isinstance(m, QuantizedArray) for _, m in model.modules()) else ""
        start = "there is no" if only == "*" else f"only={only!r} matches no"
        raise ValueError(f"quantize_model: {start} {kinds}{done}")
    tops = None if data is None else _calibrate(model, layers, data, percentile)
    memo: dict[int, Any] = {}
    for layer in layers.values():
        scale = None
        if tops is not None and form is not None and not isinstance(layer, Embedding):
            top = tops.get(id(layer))
            scale = 1.0 if not top else top / float(127 if form is INT8 else form.largest)
        memo[id(layer)] = _quantize_layer(layer, of_weights, form, scale)
    _tell_left_out(model, layers, patterns)
    return copy.deepcopy(model, memo).eval()


def _weight_formats(weights: Any, block: int | None) -> Any:
    """Return a function from the length of a row to the format of its weights."""
    if isinstance(weights, BlockFormat):
        if block is not None:
            raise ValueError(f"quantize_model: {weights} has its own blocks: leave out block=")
        return lambda extent: weights
    if isinstance(weights, int):
        raise DTypeError(f"quantize_model: weights is {weights}, but must be a format, such as 'int8' or 'int4'")
    name = weights if isinstance(weights, str) else getattr(weights, "name", None)
    given = 128 if block is None and name == "int4" else block
    block_format(weights, given)  # raises if the format does not exist

    def of_row(extent: int) -> BlockFormat:
        return block_format(weights, None if given is None or extent <= given and block is None else given)

    return of_row


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return any(pattern == "*" or matches(f"{name}.weight" if name else "weight", pattern) for pattern in patterns)


def _quantize_layer(layer: Any, of_weights: Any, form: Format | None, scale: float | None) -> Module:
    weight = layer.weight
    rows = weight.reshape((weight.shape[0], math.prod(weight.shape[1:])))
    q = quantize(rows, of_weights(rows.shape[1]))
    activations = None if form is None else form.name
    if isinstance(layer, Embedding):
        return QuantizedEmbedding(q)
    if isinstance(layer, Linear):
        bias = None if layer.bias is None else layer.bias.copy()
        return QuantizedLinear(q, bias, activations, scale)
    return QuantizedConv2d(layer, q, activations, scale)


def _calibrate(model: Module, layers: dict[str, Any], data: Iterable[Any], percentile: float) -> dict[int, float]:
    """Return the largest magnitude of the inputs of each layer, by its id."""
    tops: dict[int, float] = {}
    wanted = {id(layer): name for name, layer in layers.items()}

    def watch(module: ModuleTree, args: Any, kwargs: Any) -> Any:
        if id(module) in wanted:
            size = absolute(asarray(args[0] if args else next(iter(kwargs.values())))).astype("float32")
            top = float(size.max() if percentile == 100 else percentile_of(size, percentile))
            tops[id(module)] = float(np.maximum(top, tops.get(id(module), 0.0)))
        return module.forward(*args, **kwargs)

    was_training = [(m, m.training) for _, m in model.modules()]
    model.eval()
    try:
        with change_attribute(CALL_HOOK, "watch_call", watch):
            for number, batch in enumerate(data):
                model(batch[0] if isinstance(batch, list | tuple) else batch)
                odd = [wanted[key] for key, top in tops.items() if not math.isfinite(top)]
                if odd:
                    raise ValueError(
                        f"quantize_model: batch {number} of data= (from 0) gives layer {odd[0]!r} inputs with infinities or "
                        "NaN, which have no scale"
                    )
    finally:
        for m, mode in was_training:
            m.__dict__["training"] = mode
    return tops


def _tell_left_out(model: Module, layers: dict[str, Any], patterns: Sequence[str]) -> None:
    """Warn of large parameters that the patterns choose and no quantized layer holds."""
    done, named = {id(layer.weight) for layer in layers.values()}, dict(model.named_parameters())
    left = [
        f"{name} ({type(module).__name__})" for name, _, module, a in model._walk_arrays()
        if a.ndim > 1 and id(a) not in done and name in named and _is_chosen(name.rpartition(".")[0], patterns)
        and not isinstance(module, QuantizedArray)
    ]
    if left:
        shown = ", ".join(left[:6]) + (f" and {len(left) - 6} more" if len(left) > 6 else "")
        warn(f"quantize_model: left as they are: {shown}. Only Linear, convolution and Embedding layers are quantized")


complete_module(globals())
