"""Formats: one object each, whatever happens to it; what they say of themselves, against NumPy; and NumPy only at the edges."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.dtypes import api
from weft.dtypes.formats import FLOAT32, FLOATS, FORMATS, FROM_NUMPY, INT8, INTEGERS, UINT8, Format
from weft.dtypes.parse import parse_any_byte_order, parse_dtype, stored
from weft.graph.node import Node

everyone = pytest.mark.parametrize("form", FORMATS.values(), ids=str)


@everyone
def test_there_is_one_object_a_format(form: Format) -> None:
    assert copy.deepcopy(form) is copy.copy(form) is pickle.loads(pickle.dumps(form)) is form
    for spelling in (form, form.name, form.numpy, form.numpy.type):
        assert parse_dtype(spelling) is parse_any_byte_order(spelling) is form and stored(spelling) == form.numpy
    turned = form.numpy.newbyteorder("S")
    assert parse_any_byte_order(turned) is form and stored(turned) == turned
    assert FROM_NUMPY[form.numpy] is form and repr(form) == str(form) == form.name == form.numpy.name
    with pytest.raises(AttributeError):
        form.bits = 3  # type: ignore[misc]


@everyone
def test_what_a_format_says_of_itself(form: Format) -> None:
    assert form.bytes == form.numpy.itemsize and form.integer.numpy == np.dtype(f"i{form.bytes}")
    below_a_byte = form in INTEGERS and form.bits < 8
    assert form.computed.computed is form.computed and form.narrow == (form in FLOATS and form.bits < 32 or below_a_byte)
    assert form.computed is (form if not form.narrow else FLOAT32 if form in FLOATS else INT8 if form.kind == "signed" else UINT8)
    if form in INTEGERS:
        info = ml_dtypes.iinfo(form.numpy)
        assert (form.least, form.greatest) == (info.min, info.max)
    if form in FLOATS:
        info = ml_dtypes.finfo(form.numpy)
        infinite = float(np.asarray(np.inf).astype(form.numpy))  # NaN or the largest number where there is none
        assert form.finite == (infinite != np.inf) and form.largest == float(info.max)
        assert (form.least, form.greatest) == ((-form.largest, form.largest) if form.finite else (-np.inf, np.inf))
        assert (form.mantissa, form.exponent) == (info.nmant, info.nexp) and form.smallest_normal == float(info.smallest_normal)
        assert (form.special != "scale") + form.exponent + form.mantissa == form.bits


def _all(node: Node) -> Iterator[Node]:
    yield node
    for i in node.inputs:
        yield from _all(i)


@everyone
def test_nodes_carry_formats_and_arrays_answer_in_numpys_dtypes(form: Format) -> None:
    a = wf.zeros((3,), dtype=form.numpy)
    mixed = [a.astype("float16") * 2, wf.arange(3, dtype="int8") + a, a.mean(), a.sum(), a.astype("float8_e5m2") * 2]
    for x in (a, wf.where(a == a[::-1], a, a), *mixed):
        assert all(type(n.dtype) is Format for n in _all(x.node))
        assert type(x.dtype) is type(x.numpy().dtype) and x.dtype is x.node.dtype.numpy and x.dtype == x.numpy().dtype
    assert a.dtype is form.numpy and getattr(wf, form.name) == form.numpy and a.itemsize == form.bytes
    assert api.as_dtype(form.name) is form.numpy
