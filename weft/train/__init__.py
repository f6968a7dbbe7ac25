"""Training."""

from weft.train.averaging import AverageWeights
from weft.train.callbacks import BestWeights, CSVLog, EarlyStopping, ReduceLROnPlateau
from weft.train.diagnose import NonFinite, Range
from weft.train.fit import accuracy, fit, predict, training_step
from weft.train.history import Epoch, History
from weft.train.state import State
from weft.train.tensorboard import TensorBoard

__all__ = [
    "AverageWeights", "BestWeights", "CSVLog", "EarlyStopping", "Epoch", "History", "NonFinite", "Range", "ReduceLROnPlateau",
    "State", "TensorBoard", "accuracy", "fit", "predict", "training_step",
]
