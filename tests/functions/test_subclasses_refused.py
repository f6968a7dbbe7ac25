"""Arrays of classes that weft would strip (masks, units, another ``*``) are refused with advice, wherever they come in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError


class Metres(np.ndarray):
    """An array with a unit."""


def refused() -> dict[str, np.ndarray]:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0, 3.0]])
    return {
        "masked": np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), "matrix": matrix, "units": np.ones(3).view(Metres),
        "records": np.ones(3).view(np.recarray),
    }


def written(write: Callable[[Any], Any]) -> None:
    write(wf.zeros(3))


USES: dict[str, Callable[[Any], Any]] = {
    "asarray": wf.asarray, "array": lambda v: wf.array(v, "float64"), "asanyarray": wf.asanyarray, "from_dlpack": wf.from_dlpack,
    "list": lambda v: wf.array([v, v]), "typed list": lambda v: wf.array([v, v], "float64"), "full": lambda v: wf.full(3, v),
    "+": lambda v: wf.ones(3) + v, "*": lambda v: wf.ones(3) * v, "@": lambda v: wf.ones(3) @ v, "==": lambda v: wf.ones(3) == v,
    "<": lambda v: wf.ones(3) < v, "+=": lambda v: written(lambda a: a.__iadd__(v)),
    "x[:] =": lambda v: written(lambda a: a.__setitem__(slice(None), v)),
    "x[[0, 1, 2]] =": lambda v: written(lambda a: a.__setitem__([0, 1, 2], v)),
    "x[...] = list": lambda v: written(lambda a: a.__setitem__(..., [v, v])),
    "x[v]": lambda v: wf.ones(3)[v > 1], "x[v] =": lambda v: written(lambda a: a.__setitem__(v > 1, 2)),
    "x[places]": lambda v: wf.ones(3)[v.astype(int) * 0], "copyto": lambda v: written(lambda a: wf.copyto(a, v)),
    "put": lambda v: written(lambda a: a.put([0, 1, 2], v)), "add": lambda v: wf.add(1, v), "sum": wf.sum,
    "where": lambda v: wf.where(v > 1, v, 0), "take": lambda v: wf.take(wf.ones(3), v.astype(int) * 0),
    "out": lambda v: wf.add(wf.ones(3), 1, out=v),
    "numpy.add": lambda v: np.add(wf.ones(3), v), "numpy.add(out=)": lambda v: np.add(wf.ones(3), 1, out=v),
    "numpy.concatenate": lambda v: np.concatenate([wf.ones(3), v]), "numpy.where": lambda v: np.where(wf.ones(3) > 1, v, 0),
    "concatenate": lambda v: wf.concatenate([wf.ones(3), v]), "solve": lambda v: wf.linalg.solve(wf.eye(3), v),
    "fft": wf.fft.fft, "histogram": lambda v: wf.histogram(v, 2), "choice": lambda v: wf.random.choice(v, 2),
    "permutation": wf.random.permutation, "jit": lambda v: wf.jit(lambda a: a * 2)(v),
    "grad": lambda v: wf.grad(lambda a: a.sum())(v), "relu": wf.nn.relu, "Linear": lambda v: wf.nn.Linear(3, 2)(v),
    "Loader": wf.data.Loader, "cross_entropy": lambda v: wf.losses.cross_entropy(wf.ones((3, 4)), v.astype(int)),
    "vectorize": lambda v: wf.vectorize(lambda t: t)(v), "polyval": lambda v: wf.polyval(v, 2),
}


@pytest.mark.parametrize("name", USES)
def test_refused_with_advice(name: str) -> None:
    for kind, array in refused().items():
        before = np.array(array, subok=False)
        with pytest.raises(DTypeError, match="would lose its mask.*filled" if kind == "masked" else "would lose.*numpy.asarray"):
            USES[name](array)
        assert np.array_equal(np.array(array, subok=False), before), kind


def test_files(tmp_path: Path) -> None:
    for array in refused().values():
        for save in (lambda a: wf.save(tmp_path / "x.npy", a), lambda a: wf.io.save(tmp_path / "x.safetensors", {"a": a})):
            with pytest.raises(DTypeError, match="would lose"):
                save(array)


def test_elements_and_memory_maps_are_plain(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3.0))
    assert wf.asarray(np.load(tmp_path / "x.npy", mmap_mode="r")).tolist() == [0, 1, 2]
    masked = refused()["masked"]
    assert (wf.ones(3) + masked[0]).tolist() == [2, 2, 2]  # a number
    with pytest.raises(DTypeError, match="would lose its mask"):
        wf.ones(3) + masked[1]  # numpy.ma.masked
