"""Module: a thing with parameters. Attributes that are Arrays are its parameters and buffers; Modules nest."""

from __future__ import annotations

import os
from typing import Any, Self

from weft.array import Array
from weft.array.convert import cast
from weft.dtypes.api import is_float
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import spelled
from weft.eager.materialise import proven
from weft.errors import DTypeError
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.nn import weights
from weft.nn.module_tree import ModuleTree
from weft.nn.summary import Summary, summarise


class Module(ModuleTree):
    """A layer or a model: write ``__init__`` and ``forward``.

    Arrays assigned as attributes are parameters when they hold floating-point numbers and are not named in
    ``buffers``. Assigning to an existing Array attribute writes its contents, so a jitted step keeps working: the attribute
    keeps its dtype, and what that would round is refused. To share a parameter, use the layer that holds it in both places,
    or its Array: ``wf.nn.linear(x, self.embed.weight)``.

    Raises
    ------
    TypeError, ShapeError, DTypeError
        Called without a ``forward``; an array assigned to an attribute that holds one of another shape, or of a dtype that
        cannot hold it (float64 to a float32 parameter).

    Examples
    --------
    >>> import weft as wf
    >>> class Scale(wf.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = wf.ones(3)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(wf.ones((2, 3))).shape
    (2, 3)
    """

    def astype(self, dtype: Any) -> Self:
        """Keep the floating-point parameters in another dtype; returns itself.

        Layers compute in float32 where they are kept in float16 or bfloat16. Buffers, such as running statistics, then
        are float32.

        Parameters
        ----------
        dtype : float dtype

        Returns
        -------
        Module : itself

        Raises
        ------
        DTypeError
            ``dtype`` is no float dtype.

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Linear(3, 2).astype("bfloat16")
        >>> net(wf.ones((5, 3), dtype="bfloat16")).dtype
        dtype(bfloat16)
        """
        kept = spelled(dtype)
        if kept not in FLOATS:
            raise DTypeError(f"astype: dtype must be a float dtype, not {kept}")
        trained = self.parameters()
        arrays = {name: a for name, a in self.arrays().items() if is_float(a.dtype)}
        proven([a.node for a in arrays.values()])
        for name, a in arrays.items():
            a._set(cast(a.node, kept if name in trained else kept.computed))
        return self

    def save(self, path: str | os.PathLike, dtype: Any = None) -> None:
        """Write every array of this module to a safetensors file, with checksums; never half a file.

        Parameters
        ----------
        path : where to
        dtype : float dtype that floats are stored as, "float16" say; numbers too large for it are warned of, by name

        Examples
        --------
        >>> import weft as wf, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
        >>> net, other = wf.nn.Linear(3, 2), wf.nn.Linear(3, 2)
        >>> net.save(path)
        >>> bool((other.load(path).weight == net.weight).all())
        True
        """
        weights.save(path, self, dtype)

    def load(self, path: str | os.PathLike) -> Self:
        """Read what :meth:`save` wrote, or another program's safetensors file; returns itself.

        Raises
        ------
        DataError
            when the file is missing, damaged (even one bit) or another model's; then nothing has changed.
        """
        weights.load_into(self, path)
        return self

    def summary(self, *inputs: Any, dtype: Any = "float32") -> Summary:
        """Print a table of the layers: output shapes, parameters, flops and bytes; nothing is computed.

        Parameters
        ----------
        inputs : what the model is called with: arrays, or shapes with the batch, such as (32, 3, 28, 28)
        dtype : of inputs given as shapes

        Returns
        -------
        Summary : with ``rows``, one a layer called, and ``total``; it shows itself as HTML in notebooks

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
        >>> found = net.summary((5, 3))  # doctest: +ELLIPSIS
        Sequential...
        >>> [(row.name, row.type, row.output_shape, row.parameters) for row in found.rows]
        [('0', 'Linear', (5, 8), 32), ('1', 'Tanh', (5, 8), 0), ('2', 'Linear', (5, 1), 9)]
        >>> found.total.parameters
        41
        """
        return summarise(self, inputs, dtype)

    def __repr__(self) -> str:
        inside = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n" + "\n".join(inside) + "\n)" if inside else ")")

    def extra_repr(self) -> str:
        """What stands between the parentheses of ``repr``."""
        return ""


def uniform_parameter(shape: tuple[int, ...], limit: float) -> Array:
    """A fresh float32 Array with elements uniform in [-limit, limit), from the library's random state."""
    return asarray(random.uniform(-limit, limit, shape))
