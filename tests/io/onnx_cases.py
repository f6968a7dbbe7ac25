"""ONNX's own test cases (``onnx.backend.test``), run with weft as the backend."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx import numpy_helper

import weft as wf
from weft.io.onnx.load import build

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("pytorch-converted", "pytorch-operator", "simple")
UNSUPPORTED = Path(__file__).with_name("onnx_unsupported.txt")
RELATIVE = {"float16": 2.0**-8, "bfloat16": 2.0**-6}  # the last bits of a format, where ONNX's reference adds up in the format
_PREFIX = f"{node_cases.__name__}."
_MODULES = [m.name.removeprefix(_PREFIX) for m in pkgutil.walk_packages(node_cases.__path__, _PREFIX) if not m.ispkg]
OPERATORS = [name for name in _MODULES if not name.startswith("_")]


@cache
def unsupported() -> dict[str, str]:
    """Return the reason for each case that weft does not support."""
    reasons, reason = {}, ""
    for line in UNSUPPORTED.read_text().splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line.strip():
            reasons[line.strip()] = reason
    return reasons


def is_random(name: str) -> bool:
    """Return whether a case draws random numbers: others than ONNX's reference."""
    return unsupported().get(name, "").startswith("random")


@cache
def cases_of(operator: str) -> tuple[Any, ...]:
    """Return the node tests of one file of onnx's: importing it makes them, which takes 20 s for all files."""
    before = len(node_cases._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows of the expected values
        importlib.import_module(f"{node_cases.__name__}.{operator}")
    return tuple(node_cases._NodeTestCases[before:])


def _numpy(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def compare(got: Any, want: Any, rtol: float, atol: float, values: bool = True) -> None:
    """Raise unless an output of weft is the expected one, in dtype, shape and (if asked) values."""
    if isinstance(want, list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            compare(a, b, rtol, atol, values)
    elif want is None:
        assert got is None
    else:
        want, found = np.asarray(_numpy(want)), got.numpy()
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        if not values:
            return
        rtol = max(rtol, RELATIVE.get(want.dtype.name, 0))
        if found.dtype.kind not in "biufc":
            found, want = found.astype(np.float32), want.astype(np.float32)
        np.testing.assert_allclose(found, want, rtol=rtol, atol=atol)


def run_case(case: Any) -> None:
    """Run one node test; raise where the result differs."""
    net = build(case.model, case.name)
    for inputs, outputs in case.data_sets:
        results = net(*[_numpy(x) for x in inputs])
        for got, want in zip(results if isinstance(results, tuple) else (results,), outputs, strict=True):
            compare(got, want, case.rtol, case.atol, not is_random(case.name))


def stored_models() -> Iterator[Path]:
    """Yield the folders of the models that the onnx package contains."""
    for kind in KINDS:
        yield from sorted(path.parent for path in (FOLDER / kind).glob("*/model.onnx"))


def run_stored(folder: Path) -> None:
    """Run a stored model on its data."""
    net = wf.io.load_onnx(folder / "model.onnx")
    for data in folder.glob("test_data_set_*"):
        def read(kind: str, k: int, data: Path = data) -> Any:
            tensor = onnx.TensorProto()
            tensor.ParseFromString((data / f"{kind}_{k}.pb").read_bytes())
            return tensor

        results = net(*[_numpy(read("input", k)) for k in range(len(net.input_names))])
        for k, got in enumerate(results if isinstance(results, tuple) else (results,)):
            compare(got, read("output", k), 1e-3, 1e-6)
