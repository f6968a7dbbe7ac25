"""Training of models.

``fit`` checks its arguments, ``loop`` runs epochs of steps, ``step`` is forward, backward and update as one native call.
``shards`` is the step of a batch that several processes share, and ``ranks`` what they tell each other.
``batches`` supplies the batches, ``checkpoint`` and ``snapshot`` save the state, ``callbacks`` and ``progress`` observe the run,
and ``diagnose`` finds the first value that is not finite.
"""

from weft.train.callbacks import AverageWeights, BestWeights, CSVLog, EarlyStopping, ReduceLROnPlateau
from weft.train.diagnose import NonFinite, Range
from weft.train.find_lr import LearningRates, find_lr
from weft.train.fit import accuracy, evaluate, fit, predict, training_step
from weft.train.history import Epoch, History, State
from weft.train.progress import TensorBoard

__all__ = [
    "AverageWeights", "BestWeights", "CSVLog", "EarlyStopping", "Epoch", "History", "LearningRates", "NonFinite", "Range",
    "ReduceLROnPlateau", "State", "TensorBoard", "accuracy", "evaluate", "find_lr", "fit", "predict", "training_step",
]
