"""The names of ``wf.nn.*`` for type checkers and editors; ``__init__.py`` loads them from its files.

Written by ``python tools/stub.py`` from the lists there.
"""

# ruff: noqa: I001  one name a line would be 300 lines

from weft.nn import init as init
from weft.nn.activations import (
    CELU as CELU, ELU as ELU, GELU as GELU, SELU as SELU, AconA as AconA, AconB as AconB, AconC as AconC,
    BentIdentity as BentIdentity, Hardshrink as Hardshrink, Hardsigmoid as Hardsigmoid, Hardtanh as Hardtanh,
    Identity as Identity, LeakyReLU as LeakyReLU, LogSigmoid as LogSigmoid, LogSoftmax as LogSoftmax, Mish as Mish,
    PReLU as PReLU, ReLU as ReLU, ReLU6 as ReLU6, Sigmoid as Sigmoid, SiLU as SiLU, Softmax as Softmax,
    Softmin as Softmin, Softplus as Softplus, Softshrink as Softshrink, Softsign as Softsign, Step as Step,
    Swish as Swish, Tanh as Tanh, TanhExp as TanhExp, Tanhshrink as Tanhshrink, Threshold as Threshold,
    acon_a as acon_a, acon_b as acon_b, acon_c as acon_c, bent_identity as bent_identity, celu as celu, elu as elu,
    gelu as gelu, hardshrink as hardshrink, hardsigmoid as hardsigmoid, hardtanh as hardtanh, identity as identity,
    leaky_relu as leaky_relu, log_softmax as log_softmax, logsigmoid as logsigmoid, mish as mish, prelu as prelu,
    relu as relu, relu6 as relu6, selu as selu, sigmoid as sigmoid, silu as silu, softmax as softmax,
    softmin as softmin, softplus as softplus, softshrink as softshrink, softsign as softsign, step as step,
    swish as swish, tanh as tanh, tanhexp as tanhexp, tanhshrink as tanhshrink, threshold as threshold,
)
from weft.nn.attention import (
    MultiHeadAttention as MultiHeadAttention, scaled_dot_product_attention as scaled_dot_product_attention,
)
from weft.nn.containers import Lambda as Lambda, Residual as Residual, Sequential as Sequential
from weft.nn.convolution import (
    Conv1d as Conv1d, Conv2d as Conv2d, Conv3d as Conv3d, ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d, ConvTranspose3d as ConvTranspose3d, conv1d as conv1d, conv2d as conv2d,
    conv3d as conv3d, conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
)
from weft.nn.dropout import (
    Dropout as Dropout, Dropout1d as Dropout1d, Dropout2d as Dropout2d, Dropout3d as Dropout3d, dropout as dropout,
)
from weft.nn.embedding import Embedding as Embedding, embedding as embedding
from weft.nn.grid_sample import affine_grid as affine_grid, grid_sample as grid_sample
from weft.nn.key_value_cache import KeyValueCache as KeyValueCache
from weft.nn.linear import Bilinear as Bilinear, Linear as Linear, bilinear as bilinear, linear as linear
from weft.nn.module import Module as Module
from weft.nn.neural_ode import NeuralODE as NeuralODE
from weft.nn.normalization import (
    BatchNorm1d as BatchNorm1d, BatchNorm2d as BatchNorm2d, BatchNorm3d as BatchNorm3d, GroupNorm as GroupNorm,
    InstanceNorm1d as InstanceNorm1d, InstanceNorm2d as InstanceNorm2d, InstanceNorm3d as InstanceNorm3d,
    LayerNorm as LayerNorm, LocalResponseNorm as LocalResponseNorm, RMSNorm as RMSNorm, SyncBatchNorm as SyncBatchNorm,
    batch_norm as batch_norm, group_norm as group_norm, instance_norm as instance_norm, layer_norm as layer_norm,
    local_response_norm as local_response_norm, rms_norm as rms_norm,
)
from weft.nn.padding import (
    CircularPad1d as CircularPad1d, CircularPad2d as CircularPad2d, CircularPad3d as CircularPad3d,
    ConstantPad1d as ConstantPad1d, ConstantPad2d as ConstantPad2d, ConstantPad3d as ConstantPad3d,
    ReflectionPad1d as ReflectionPad1d, ReflectionPad2d as ReflectionPad2d, ReflectionPad3d as ReflectionPad3d,
    ReplicationPad1d as ReplicationPad1d, ReplicationPad2d as ReplicationPad2d, ReplicationPad3d as ReplicationPad3d,
    ZeroPad1d as ZeroPad1d, ZeroPad2d as ZeroPad2d, ZeroPad3d as ZeroPad3d,
)
from weft.nn.pixel_shuffle import (
    PixelShuffle as PixelShuffle, PixelUnshuffle as PixelUnshuffle, pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)
from weft.nn.pooling import (
    AdaptiveAvgPool1d as AdaptiveAvgPool1d, AdaptiveAvgPool2d as AdaptiveAvgPool2d,
    AdaptiveAvgPool3d as AdaptiveAvgPool3d, AdaptiveMaxPool1d as AdaptiveMaxPool1d,
    AdaptiveMaxPool2d as AdaptiveMaxPool2d, AdaptiveMaxPool3d as AdaptiveMaxPool3d, AvgPool1d as AvgPool1d,
    AvgPool2d as AvgPool2d, AvgPool3d as AvgPool3d, GlobalAvgPool1d as GlobalAvgPool1d,
    GlobalAvgPool2d as GlobalAvgPool2d, GlobalAvgPool3d as GlobalAvgPool3d, GlobalMaxPool1d as GlobalMaxPool1d,
    GlobalMaxPool2d as GlobalMaxPool2d, GlobalMaxPool3d as GlobalMaxPool3d, LPPool1d as LPPool1d, LPPool2d as LPPool2d,
    LPPool3d as LPPool3d, MaxOut as MaxOut, MaxPool1d as MaxPool1d, MaxPool2d as MaxPool2d, MaxPool3d as MaxPool3d,
    avg_pool1d as avg_pool1d, avg_pool2d as avg_pool2d, avg_pool3d as avg_pool3d, lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d, lp_pool3d as lp_pool3d, max_pool1d as max_pool1d, max_pool2d as max_pool2d,
    max_pool3d as max_pool3d, maxout as maxout,
)
from weft.nn.quantize import fake_quantize as fake_quantize
from weft.nn.quantized.array import QuantizedArray as QuantizedArray, dequantize as dequantize, quantize as quantize
from weft.nn.quantized.layers import QuantizedConv2d as QuantizedConv2d, QuantizedEmbedding as QuantizedEmbedding
from weft.nn.quantized.linear import QuantizedLinear as QuantizedLinear
from weft.nn.quantized.model import quantize_model as quantize_model
from weft.nn.recurrent import GRU as GRU, LSTM as LSTM, RNN as RNN
from weft.nn.recurrent_cells import GRUCell as GRUCell, LSTMCell as LSTMCell, RNNCell as RNNCell
from weft.nn.reshape import Flatten as Flatten, Reshape as Reshape, flatten as flatten
from weft.nn.resize import Upsample as Upsample, interpolate as interpolate
from weft.nn.rotary import RotaryEmbedding as RotaryEmbedding, rotary_embedding as rotary_embedding
from weft.nn.tensor_parallel import (
    ColumnParallelLinear as ColumnParallelLinear, RowParallelLinear as RowParallelLinear,
    VocabParallelEmbedding as VocabParallelEmbedding,
)
from weft.nn.transformer import (
    TransformerDecoderLayer as TransformerDecoderLayer, TransformerEncoderLayer as TransformerEncoderLayer,
)
from weft.nn.unpooling import (
    MaxUnpool1d as MaxUnpool1d, MaxUnpool2d as MaxUnpool2d, MaxUnpool3d as MaxUnpool3d, max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d, max_unpool3d as max_unpool3d,
)
from weft.nn.weight_norms import SpectralNorm as SpectralNorm, WeightNorm as WeightNorm
