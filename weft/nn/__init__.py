"""Neural network layers, as functions and as modules with parameters.

Each file has the functions of its subject first, then their layers. All of it is array code and independent of kernels and
optimizers.
"""

import importlib

from weft.graph import source_lines
from weft.nn import init as init
from weft.process.name_errors import explain_missing_names

_NAMES = {  # file -> its public names; ``tools/stub.py`` writes them into ``__init__.pyi``
    "activations": """
        CELU ELU GELU SELU AconA AconB AconC BentIdentity Hardshrink Hardsigmoid Hardtanh Identity LeakyReLU LogSigmoid
        LogSoftmax Mish PReLU ReLU ReLU6 Sigmoid SiLU Softmax Softmin Softplus Softshrink Softsign Step Swish Tanh
        TanhExp Tanhshrink Threshold acon_a acon_b acon_c bent_identity celu elu gelu hardshrink hardsigmoid hardtanh
        identity leaky_relu log_softmax logsigmoid mish prelu relu relu6 selu sigmoid silu softmax softmin softplus
        softshrink softsign step swish tanh tanhexp tanhshrink threshold""",
    "attention": "MultiHeadAttention scaled_dot_product_attention",
    "containers": "Lambda Residual Sequential",
    "convolution": """
        Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d conv1d conv2d conv3d conv_transpose1d
        conv_transpose2d conv_transpose3d""",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d dropout",
    "embedding": "Embedding embedding",
    "grid_sample": "affine_grid grid_sample",
    "key_value_cache": "KeyValueCache",
    "linear": "Bilinear Linear bilinear linear",
    "module": "Module",
    "neural_ode": "NeuralODE",
    "normalization": """
        BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm
        LocalResponseNorm RMSNorm SyncBatchNorm batch_norm group_norm instance_norm layer_norm local_response_norm
        rms_norm""",
    "padding": """
        CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d
        ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d""",
    "pixel_shuffle": "PixelShuffle PixelUnshuffle pixel_shuffle pixel_unshuffle",
    "pooling": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
        AvgPool1d AvgPool2d AvgPool3d GlobalAvgPool1d GlobalAvgPool2d GlobalAvgPool3d GlobalMaxPool1d GlobalMaxPool2d
        GlobalMaxPool3d LPPool1d LPPool2d LPPool3d MaxOut MaxPool1d MaxPool2d MaxPool3d avg_pool1d avg_pool2d avg_pool3d
        lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d maxout""",
    "quantize": "fake_quantize",
    "quantized.array": "QuantizedArray dequantize quantize",
    "quantized.layers": "QuantizedConv2d QuantizedEmbedding",
    "quantized.linear": "QuantizedLinear",
    "quantized.model": "quantize_model",
    "recurrent": "GRU LSTM RNN",
    "recurrent_cells": "GRUCell LSTMCell RNNCell",
    "reshape": "Flatten Reshape flatten",
    "resize": "Upsample interpolate",
    "rotary": "RotaryEmbedding rotary_embedding",
    "tensor_parallel": "ColumnParallelLinear RowParallelLinear VocabParallelEmbedding",
    "transformer": "TransformerDecoderLayer TransformerEncoderLayer",
    "unpooling": "MaxUnpool1d MaxUnpool2d MaxUnpool3d max_unpool1d max_unpool2d max_unpool3d",
    "weight_norms": "SpectralNorm WeightNorm",
}

source_lines.part(__file__, "function")

for _file, _names in _NAMES.items():  # now, not at first use: some functions have the names of their files
    _module = importlib.import_module(f"weft.nn.{_file}")
    globals().update({name: getattr(_module, name) for name in _names.split()})

explain_missing_names(init)

__all__ = sorted(["init", *" ".join(_NAMES.values()).split()])
