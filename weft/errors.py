"""weft's errors: subclasses of Python's own, raised at the user's line, naming argument, shapes, dtypes and the fix."""


class ShapeError(ValueError):
    """Shapes that do not fit together."""


class DTypeError(TypeError):
    """A dtype that is unknown or does not fit."""


class AxisError(IndexError, ValueError):
    """An axis that the array does not have."""


class DataError(ValueError):
    """Data or weight files that are missing, damaged or do not fit."""


class TraceError(TypeError):
    """The content of an array was needed where only its shape and dtype are known."""
