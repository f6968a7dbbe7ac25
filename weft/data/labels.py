"""LabelEncoder: numbers for labels that are texts or any integers; saved with the model that has it as an attribute."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np

from weft.array import Array
from weft.errors import DataError, DTypeError, ShapeError, short
from weft.nn.module import Module


class LabelEncoder(Module):
    """Turn labels into the integers 0, 1, ... that losses take, and back. The names are scikit-learn's.

    ``model.labels = encoder`` saves the classes with the model: ``model.save`` writes them into the file, and ``model.load``
    reads them into the encoder of the model, which may be new.

    Attributes
    ----------
    classes_ : (C,) NumPy array of str or int64, sorted; a label's number is its position

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        By the methods: labels are not (N,) texts or integers, or none of the classes; there are no classes yet.

    Examples
    --------
    >>> import weft as wf
    >>> encoder = wf.data.LabelEncoder()
    >>> encoder.fit_transform(["dog", "cat", "dog"])
    array([1, 0, 1])
    >>> encoder.inverse_transform([0, 0]).tolist()
    ['cat', 'cat']
    """

    def __init__(self) -> None:
        super().__init__()
        self._classes: tuple[Any, ...] = ()

    def fit(self, y: Any) -> Self:
        """Take the different labels in ``y`` as the classes, and return the encoder.

        Parameters
        ----------
        y : (N,) array or list of str or of integers

        Raises
        ------
        ShapeError, DTypeError
            ``y`` is empty or has another number of dimensions; a label is no str and no integer, or both occur.
        """
        self._classes = tuple(np.unique(_read_labels("fit", y)).tolist())
        return self

    def fit_transform(self, y: Any) -> np.ndarray:
        """Return the result of :meth:`transform` after :meth:`fit`."""
        return self.fit(y).transform(y)

    def transform(self, y: Any) -> np.ndarray:
        """Return the number of each label, (N,) int64.

        Raises
        ------
        ShapeError, DTypeError, ValueError
            As :meth:`fit`; a label is none of the classes, or there are no classes yet.
        """
        if not np.size(y) and np.ndim(y) == 1 and self._classes:
            return np.zeros(0, np.int64)
        labels, classes = _read_labels("transform", y), self.classes_
        if labels.dtype.kind != classes.dtype.kind:
            raise DTypeError(f"LabelEncoder.transform: y holds {_kind(labels)}, the classes are {_kind(classes)}")
        numbers = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        if (wrong := classes[numbers] != labels).any():
            unknown = labels[wrong][0].item()
            known = short(classes.tolist())
            raise ValueError(f"LabelEncoder.transform: {unknown!r} (at {int(wrong.argmax())}) is none of the classes {known}")
        return numbers.astype(np.int64)

    def inverse_transform(self, y: Any) -> np.ndarray:
        """Return the label of each number: (N,) array of str or int64.

        Parameters
        ----------
        y : (N,) integers, such as ``wf.train.predict(model, x).argmax(axis=1)``

        Raises
        ------
        ShapeError, DTypeError, ValueError
            ``y`` are no integers of one dimension; a number is no class; there are no classes yet.
        """
        numbers = np.asarray(y.numpy() if isinstance(y, Array) else y)
        if numbers.ndim != 1:
            fix = ": give scores.argmax(axis=1)" if numbers.ndim == 2 else ""
            raise ShapeError(f"LabelEncoder.inverse_transform: y must be (N,) integers, not of shape {numbers.shape}{fix}")
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise DTypeError(f"LabelEncoder.inverse_transform: y must be integers, not {numbers.dtype}")
        classes = self.classes_
        if (wrong := (numbers < 0) | (numbers >= len(classes))).any():
            raise ValueError(f"LabelEncoder.inverse_transform: {numbers[wrong][0]} is no class: there are {len(classes)}")
        return classes[numbers.astype(np.int64)]

    @property
    def classes_(self) -> np.ndarray:
        """The classes, (C,) str or int64; ValueError before there are any."""
        if not self._classes:
            raise ValueError("LabelEncoder: there are no classes before fit(y), or before a file is loaded")
        return np.array(self._classes)

    def extra_repr(self) -> str:
        return f"{len(self._classes)} classes" if self._classes else ""

    @property
    def stored_text(self) -> str:  # type: ignore[override]
        """The classes as JSON, which weight files keep."""
        return json.dumps({"classes": self._classes})

    def parse_text(self, text: str) -> Any:
        """Return the classes in a text of a file; raise DataError if it holds none."""
        try:
            classes = json.loads(text)["classes"]
            is_sorted = all(a < b for a, b in zip(classes, classes[1:], strict=False))
        except (ValueError, TypeError, KeyError, RecursionError):
            is_sorted = False
        kinds = {type(c) for c in classes} if is_sorted and isinstance(classes, list) else {None}
        if len(kinds) > 1 or not kinds <= {str, int}:
            raise DataError(f"classes of labels must be sorted texts or integers, not {short(text)}")
        return tuple(classes)

    def take_text(self, content: Any) -> None:
        """Take the classes that :meth:`parse_text` returned."""
        self._classes = content


def _read_labels(method: str, y: Any) -> np.ndarray:
    """Return labels as a NumPy array of str or int64."""
    name = f"LabelEncoder.{method}"
    labels = np.asarray(y.numpy() if isinstance(y, Array) else y)
    if labels.ndim != 1 or not labels.size:
        raise ShapeError(f"{name}: y must be (N,) labels, not of shape {labels.shape}")
    if labels.dtype == np.uint64 or labels.dtype.kind == "O" and all(isinstance(label, int | np.integer) for label in labels):
        large = next((k for k, label in enumerate(labels.tolist()) if label >> 63 not in (0, -1)), None)
        if large is not None:
            raise DTypeError(f"{name}: label {large} is {labels[large]}, which int64 does not hold: give it as text")
        labels = labels.astype(np.int64)
    if labels.dtype.kind in "OT" or labels.dtype.kind == "U" and not isinstance(y, np.ndarray):
        items = list(y)  # np.asarray makes texts of the numbers beside texts
        other = next((k for k, label in enumerate(items) if not isinstance(label, str)), None)
        if other is not None:
            raise DTypeError(f"{name}: labels must all be texts or all integers; label {other} is {short(items[other])}")
        labels = np.array(items, dtype=str)
    if labels.dtype.kind not in "Uiub":
        raise DTypeError(f"{name}: labels must be texts or integers, not {labels.dtype}")
    return labels if labels.dtype.kind == "U" else labels.astype(np.int64)


def _kind(labels: np.ndarray) -> str:
    return "texts" if labels.dtype.kind == "U" else "integers"
