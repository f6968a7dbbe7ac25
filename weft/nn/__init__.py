"""Layers, as modules and as functions."""

from weft.nn.functional import avg_pool2d, conv2d, dropout, flatten, linear, max_pool2d, relu, sigmoid, tanh
from weft.nn.layers import (
    AvgPool2d,
    Conv2d,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    Sigmoid,
    Tanh,
)
from weft.nn.module import Module

__all__ = [
    "AvgPool2d", "Conv2d", "Dropout", "Flatten", "Linear", "MaxPool2d", "Module", "ReLU", "Sequential", "Sigmoid", "Tanh",
    "avg_pool2d", "conv2d", "dropout", "flatten", "linear", "max_pool2d", "relu", "sigmoid", "tanh",
]
