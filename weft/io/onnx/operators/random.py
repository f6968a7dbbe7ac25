"""ONNX operators that draw random numbers. An attribute ``seed`` makes every call draw the same."""

from __future__ import annotations

from typing import Any

import weft as wf
from weft.io.onnx.operators.table import Attributes, operator
from weft.io.onnx.tensors import dtype_of_code


def _make_key(at: Attributes) -> Any:
    return None if at.seed is None else wf.random.key(int(at.seed))


def _uniform(at: Attributes, shape: Any, dtype: Any) -> Any:
    return wf.random.uniform(at.low, at.high, shape, key=_make_key(at)).astype(dtype)


def _normal(at: Attributes, shape: Any, dtype: Any) -> Any:
    return wf.random.normal(at.mean, at.scale, shape, key=_make_key(at)).astype(dtype)


for _name, _draw in (("RandomUniform", _uniform), ("RandomNormal", _normal)):
    operator(_name, pure=False)(lambda at, draw=_draw: draw(at, tuple(at.shape), dtype_of_code(at.dtype)))
    operator(f"{_name}Like", pure=False)(
        lambda at, x, draw=_draw: draw(at, wf.shape(x), x.dtype if at.dtype is None else dtype_of_code(at.dtype))
    )


@operator("Bernoulli", pure=False)
def _bernoulli(at: Attributes, x: Any) -> Any:
    dtype = x.dtype if at.dtype is None else dtype_of_code(at.dtype)
    return (wf.random.uniform(0, 1, wf.shape(x), key=_make_key(at)) < x).astype(dtype)


@operator("Multinomial", pure=False)
def _multinomial(at: Attributes, x: Any) -> Any:
    drawn = wf.random.categorical(wf.asarray(x)[:, None], size=(wf.shape(x)[0], at.sample_size), key=_make_key(at))
    return drawn.astype(dtype_of_code(at.dtype))
