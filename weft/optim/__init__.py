"""Optimizers: gradients in, parameters written."""

from weft.optim.adam import Adam
from weft.optim.optimizer import Optimizer
from weft.optim.sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer"]
