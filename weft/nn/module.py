"""Module: the base class of layers and models, with files and a summary."""

from __future__ import annotations

import inspect
import os
import re
from typing import Any, Self

from weft.array import Array
from weft.array.convert import cast
from weft.dtypes.api import is_float
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import parse_dtype
from weft.eager.materialise import compute_fallible
from weft.errors import DTypeError
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.nn import weights
from weft.nn.module_tree import ModuleTree
from weft.nn.size_arguments import IMAGE_LAYOUTS
from weft.nn.summary import Summary, summarise
from weft.process.docstrings import complete_docs


class Module(ModuleTree):
    """Base class of layers and models: define ``__init__`` and ``forward``.

    Arrays assigned as attributes are parameters if they are floating-point and not named in ``buffers``. Assigning to an
    existing Array attribute writes its contents, so that a jitted step keeps working: the attribute keeps its dtype, and a value
    that would be rounded is an error. Assigning a parameter of another layer, ``self.out.weight = self.embed.weight``, ties both:
    they are one parameter, which is trained and saved once, and patterns of names match either name. To share a parameter of
    another shape, use its Array in ``forward``: ``x @ self.embed.weight.T``.

    An array that ``forward`` assigns to a new attribute, ``self.hidden = x``, is a result of the call: it is neither trained nor
    saved, and the next call replaces it. Under ``if self.scale is None:``, or another test of the attribute, it is a parameter
    that the first call makes.

    Raises
    ------
    TypeError, ShapeError, DTypeError
        The module is called without a ``forward``; an array is assigned to an attribute of another shape, or of a dtype that
        cannot represent it (float64 to a float32 parameter); parameters of two dtypes are tied.
    TraceError
        Parameters are tied inside of ``jit`` or ``grad``.

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
        """Convert the floating-point parameters to another dtype; return the module.

        Layers with float16 or bfloat16 parameters compute in float32, and their buffers, such as running statistics, are float32.

        Parameters
        ----------
        dtype : float dtype

        Returns
        -------
        Module : itself

        Raises
        ------
        DTypeError
            ``dtype`` is not a float dtype.

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Linear(3, 2).astype("bfloat16")
        >>> net(wf.ones((5, 3), dtype="bfloat16")).dtype
        dtype(bfloat16)
        """
        target = parse_dtype(dtype)
        if target not in FLOATS:
            raise DTypeError(f"astype: dtype must be a float dtype, not {target}")
        trained = dict(self.named_parameters())
        arrays = {name: a for name, _, module, a in self._walk_arrays() if is_float(a.dtype) and not module.keeps_dtype}
        compute_fallible([a.node for a in arrays.values()])
        for name, a in arrays.items():
            a._set(cast(a.node, target if name in trained else target.computed))
        return self

    def save(self, path: str | os.PathLike, dtype: Any = None) -> None:
        """Write every array of this module to a safetensors file with checksums, or to ``.npz``; the file is replaced as a whole.

        Parameters
        ----------
        path : str or path
        dtype : float dtype in which floats are stored, such as "float16"; a warning names arrays with numbers too large for it

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

    def load(self, path: str | os.PathLike, *, strict: bool = True, rename: Any = None) -> Self:
        """Read a file written by :meth:`save`, or another program's safetensors or ``.npz`` file; return the module.

        Parameters
        ----------
        path : str or path
        strict : bool
            False reads the names that are both in the file and in the model; a warning lists the others.
        rename : dict or function, optional
            From the file's names to the model's, see :func:`weft.io.load_into`.

        Raises
        ------
        DataError
            The file is missing, damaged (even one bit), or does not fit the model; the model is then unchanged.
        """
        return weights.load_into(self, path, strict=strict, rename=rename)

    def summary(self, *inputs: Any, dtype: Any = "float32") -> Summary:
        """Print a table of the layers: output shapes, parameters, flops and bytes; nothing is computed.

        Parameters
        ----------
        inputs : the model's inputs: arrays, or shapes with the batch, such as (32, 3, 28, 28)
        dtype : of inputs specified as shapes

        Returns
        -------
        Summary : with ``rows``, one per layer called, and ``total``; displayed as HTML in notebooks

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
        >>> summary = net.summary((5, 3))  # doctest: +ELLIPSIS
        Sequential...
        >>> [(row.name, row.type, row.output_shape, row.parameters) for row in summary.rows]
        [('0', 'Linear', (5, 8), 32), ('1', 'Tanh', (5, 8), 0), ('2', 'Linear', (5, 1), 9)]
        >>> summary.total.parameters
        41
        """
        return summarise(self, inputs, dtype)

    def __repr__(self) -> str:
        children = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n" + "\n".join(children) + "\n)" if children else ")")

    def extra_repr(self) -> str:
        """Return the text between the parentheses of ``repr``: the constructor's arguments, except options at their default."""
        required, options, stored, is_required = [], [], vars(self), True
        for name, p in inspect.signature(type(self)).parameters.items():
            value = stored.get(f"has_{name}", stored.get(name, p.default))
            if isinstance(p.default, bool) and not isinstance(value, bool):
                value = value is not None  # an Array or None, as the option said
            is_required = is_required and p.default in (p.empty, None)
            if p.kind is not p.POSITIONAL_OR_KEYWORD or not isinstance(value, bool | int | float | str | tuple | None):
                continue
            if is_required:
                required.append(repr(value))
            elif value != p.default and set(value if isinstance(value, tuple) else ()) != {p.default}:
                options.append(f"{name}={value!r}")
        while required and required[-1] == "None":
            required.pop()
        return ", ".join([*required, *options])


def uniform_parameter(shape: tuple[int, ...], limit: float) -> Array:
    """Draw a float32 Array with elements uniform in [-limit, limit)."""
    return asarray(random.uniform(-limit, limit, shape))


def derive_variants(head: Any, settings: str, shape: str, inputs: str = "wf.ones((1, 2, {4}))") -> list[Any]:
    """Return the layers for 1 and for 3 dimensions of a layer ``head`` for 2.

    ``settings``, ``inputs``, ``shape`` : the layer's arguments in its example, those of the call, and the shape of the result, as
    in :func:`describe_variants`
    """
    names = {n: head.__name__.replace("2d", f"{n}d") for n in (1, 3)}
    common = {"__module__": head.__module__}
    layers = [type(name, (head,), {**common, "spatial": n, "__qualname__": name}) for n, name in names.items()]
    describe_variants(head, *layers, example=f"({settings})({inputs})", shape=shape)
    return layers


def describe_variants(head: Any, *variants: Any, example: str, shape: str) -> None:
    """Document the variants of a layer or function ``head`` for 1 and 3 dimensions.

    ``example``, ``shape`` : an expression and the shape of its value, in which ``{4}`` is a 4 for each dimension
    """
    for variant in variants:
        spatial = int(variant.__name__[-2])
        code, value = (re.sub(r"\{(\d)\}", ", ".join([r"\1"] * spatial), text) for text in (example, shape))
        role = "class" if isinstance(head, type) else "func"
        variant.__doc__ = f"""Variant of :{role}:`{head.__name__}` for x of shape {IMAGE_LAYOUTS[spatial]}.

>>> wf.nn.{variant.__name__}{code}.shape
{value}
"""
        complete_docs(head, variant)
