"""Neural network layers, as functions and as modules with parameters.

The ``*_layers`` files define modules for the functions of the files without that suffix. All of it is array code and independent
of kernels and optimizers.
"""

from weft.graph import source_lines
from weft.nn import init
from weft.nn.activation_layers import (
    CELU,
    ELU,
    GELU,
    SELU,
    AconA,
    AconB,
    AconC,
    BentIdentity,
    Hardshrink,
    Hardsigmoid,
    Hardtanh,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Step,
    Swish,
    Tanh,
    TanhExp,
    Tanhshrink,
    Threshold,
)
from weft.nn.activations import (
    acon_a,
    acon_b,
    acon_c,
    bent_identity,
    celu,
    elu,
    gelu,
    hardshrink,
    hardsigmoid,
    hardtanh,
    identity,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    step,
    swish,
    tanh,
    tanhexp,
    tanhshrink,
    threshold,
)
from weft.nn.attention import scaled_dot_product_attention
from weft.nn.attention_layers import MultiHeadAttention
from weft.nn.containers import Lambda, Residual, Sequential
from weft.nn.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from weft.nn.convolution_layers import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from weft.nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d, dropout
from weft.nn.embedding import Embedding, embedding
from weft.nn.linear import Bilinear, Linear, bilinear, linear
from weft.nn.module import Module
from weft.nn.normalization import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm
from weft.nn.normalization_layers import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from weft.nn.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    maxout,
)
from weft.nn.pooling_layers import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool1d,
    GlobalAvgPool2d,
    GlobalAvgPool3d,
    GlobalMaxPool1d,
    GlobalMaxPool2d,
    GlobalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxOut,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from weft.nn.recurrent import GRU, LSTM, RNN
from weft.nn.reshape_layers import Flatten, Reshape, flatten

source_lines.part(__file__, "function")

__all__ = [
    "AconA", "AconB", "AconC", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm1d", "BatchNorm2d",
    "BatchNorm3d", "BentIdentity", "Bilinear", "CELU", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU", "Embedding",
    "Flatten", "GELU", "GRU", "GlobalAvgPool1d", "GlobalAvgPool2d", "GlobalAvgPool3d", "GlobalMaxPool1d",
    "GlobalMaxPool2d", "GlobalMaxPool3d", "GroupNorm", "Hardshrink", "Hardsigmoid", "Hardtanh", "Identity",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LPPool1d", "LPPool2d", "LPPool3d", "LSTM", "Lambda",
    "LayerNorm", "LeakyReLU", "Linear", "LocalResponseNorm", "LogSigmoid", "LogSoftmax", "MaxOut", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "Mish", "Module", "MultiHeadAttention", "PReLU", "RMSNorm", "RNN", "ReLU", "ReLU6",
    "Reshape", "Residual", "SELU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Softmin", "Softplus", "Softshrink",
    "Softsign", "Step", "Swish", "Tanh", "TanhExp", "Tanhshrink", "Threshold", "acon_a", "acon_b", "acon_c",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bent_identity", "bilinear", "celu", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "dropout", "elu", "embedding", "flatten",
    "gelu", "group_norm", "hardshrink", "hardsigmoid", "hardtanh", "identity", "init", "instance_norm", "layer_norm",
    "leaky_relu", "linear", "local_response_norm", "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "maxout", "mish", "prelu", "relu", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "step", "swish", "tanh", "tanhexp", "tanhshrink", "threshold",
]
