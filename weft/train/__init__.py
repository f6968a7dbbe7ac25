"""Training."""

from weft.train.fit import accuracy, fit, predict, training_step
from weft.train.history import Epoch, History

__all__ = ["Epoch", "History", "accuracy", "fit", "predict", "training_step"]
