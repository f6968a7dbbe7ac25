"""The array libraries as one namespace each: what a program written for NumPy needs of them, and where their names differ."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

ALL = ("numpy", "weft", "torch", "jax")


@dataclass(frozen=True)
class Library:
    """A library as the programs see it."""

    name: str
    version: str
    xp: Any  # the namespace under NumPy's names
    array: Callable[[np.ndarray], Any]  # one of its arrays, with the content and dtype of a NumPy array
    look: Callable[..., object]  # waits until the arrays (or lists of them) have values
    add_at: Callable[[Any, Any, Any], Any]  # (table, rows, values) -> table with values added, rows may repeat
    functional: bool = False  # arrays cannot be written to


def put(lib: Library, a: Any, where: Any, value: Any) -> Any:
    """``a[where] = value``, as far as the library can write."""
    if lib.functional:
        return a.at[where].set(value)
    a[where] = value
    return a


def load(name: str) -> Library:
    """The library on one thread, after its first addition, so that no program pays for loading."""
    lib = {"numpy": _numpy, "weft": _weft, "torch": _torch, "torch.compile": _torch, "jax": _jax}[name]()
    lib = replace(lib, name=name)
    three = lib.array(np.ones(3, np.float32))
    lib.look(three + three)
    return lib


def _nothing(*arrays: Any) -> None:
    pass


def _numpy() -> Library:
    def add_at(table: Any, rows: Any, values: Any) -> Any:
        np.add.at(table, rows, values)
        return table

    return Library("numpy", np.__version__, np, np.array, _nothing, add_at)


def _weft() -> Library:
    wf = importlib.import_module("weft")
    wf.set_num_threads(1)
    return Library("weft", wf.__version__, wf, wf.array, wf.eval, wf.scatter_add)


_TORCH = """
    arange argmin bool clip concatenate dot exp float32 hstack int32 linalg log ones roll sqrt stack sum tanh where zeros
    zeros_like""".split()


def _torch() -> Library:
    """Eager, without gradients; names and arguments that PyTorch has otherwise are given NumPy's."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    xp = SimpleNamespace(
        **{name: getattr(torch, name) for name in _TORCH}, copy=torch.clone, max=torch.amax,
        maximum=lambda low, x: torch.clamp(x, min=low),
    )
    return Library(
        "torch", torch.__version__, xp, lambda a: torch.from_numpy(a.copy()), _nothing,
        lambda table, rows, values: table.index_add_(0, rows, values),
    )


def _jax() -> Library:
    """jax.numpy as it is, not jitted: each operation is compiled when it is first met."""
    jax = importlib.import_module("jax")
    xp = importlib.import_module("jax.numpy")
    return Library(
        "jax", jax.__version__, xp, xp.asarray, lambda *arrays: jax.block_until_ready(arrays),
        lambda table, rows, values: table.at[rows].add(values), functional=True,
    )
