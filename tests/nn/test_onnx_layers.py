"""Every layer of wf.nn becomes an ONNX file that computes the same in onnxruntime, and in the module that is read from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from test_every_layer import CASES, filled

import weft as wf


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    layer = filled(case).eval().astype("float32")
    inputs = tuple(wf.array(x if x.dtype.kind in "iu" else x.astype(np.float32)) for x in case.inputs)
    path = tmp_path / "layer.onnx"
    wf.io.save_onnx(layer, inputs, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)})
    again = wf.io.load_onnx(path)(*inputs)
    want = [a.numpy() for a in wf.tree_leaves(layer(*inputs))]
    for results in (found, [a.numpy() for a in wf.tree_leaves(again)]):
        for a, b in zip(results, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
