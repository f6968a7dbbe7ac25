"""Arrays made read-only refuse every way to write, and nothing else; what flags, constructors and class arguments say."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import TraceError

WRITES: dict[str, Callable[[Any], Any]] = {
    "element": lambda x: x.__setitem__((0, 0), 1), "row": lambda x: x.__setitem__(0, 1.0), "all": lambda x: x.__setitem__(..., x),
    "mask": lambda x: x.__setitem__(x > 0, 1.0), "indices": lambda x: x.__setitem__([0, 1], 1.0), "fill": lambda x: x.fill(1),
    "view": lambda x: x[1:].fill(1), "view of a view": lambda x: x.T[0].__setitem__(0, 3.0),
    "reshaped": lambda x: x.ravel().sort(), "in place": lambda x: x.__iadd__(1), "in place, array": lambda x: x.__imul__(x),
    "matmul in place": lambda x: x.__imatmul__(x),
    "row in place": lambda x: x[0].__isub__(1.0), "sort": lambda x: x.sort(), "partition": lambda x: x.partition(1),
    "put": lambda x: x.put([0], 1), "byteswap": lambda x: x.byteswap(True), "flat": lambda x: x.flat.__setitem__(0, 1),
    "real": lambda x: x.real.fill(0), "out": lambda x: wf.add(x, 1, out=x), "out of a sum": lambda x: wf.sum(x, axis=0, out=x[0]),
    "out of NumPy's": lambda x: np.multiply(x, 2, out=x), "out of a product": lambda x: wf.matmul(x, x, out=x),
    "wf.put": lambda x: wf.put(x, [0], 1), "copyto": lambda x: wf.copyto(x, 1), "place": lambda x: wf.place(x, x > 0, [1]),
    "putmask": lambda x: wf.putmask(x, x > 0, 1), "fill_diagonal": lambda x: wf.fill_diagonal(x, 1),
    "put_along_axis": lambda x: wf.put_along_axis(x, wf.zeros((2, 1), int), 1, 1), "add.at": lambda x: np.add.at(x, [0], 1),
    "wf.add.at": lambda x: wf.add.at(x, [0], 1), "multiply.at": lambda x: np.multiply.at(x, [0], 2),
    "shuffle": wf.random.shuffle, "rng.shuffle": lambda x: wf.random.default_rng(0).shuffle(x),
    "rng.random": lambda x: wf.random.default_rng(0).random(out=x), "jit": lambda x: wf.jit(lambda a: a.fill(1.0))(x),
    "jit of a view": lambda x: wf.jit(lambda a: a.fill(1.0))(x[0]), "captured": lambda x: wf.jit(lambda: x.fill(1.0))(),
    "vmap": lambda x: wf.vmap(lambda a: a.__iadd__(1.0))(x), "grad": lambda x: wf.grad(lambda a: a.__imul__(2.0).sum())(x),
    "scan": lambda x: wf.fori_loop(0, 3, lambda i, c: (x.__iadd__(1.0), c)[1], 0.0),
}


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_no_write_lands(write: str, pending: bool, request: pytest.FixtureRequest) -> None:
    if pending:
        request.getfixturevalue("lazy")
    base = wf.array([[3.0, 2.0], [1.0, 4.0]])
    for x in (base * 1, base[:], (base + 0).T[...].T):
        WRITES[write](x.copy())  # it is a way to write
        x.flags.writeable = False
        before = x.tolist()
        with pytest.raises(ValueError, match="assignment destination is read-only: this array .* write into a copy"):
            WRITES[write](x)
        assert x.tolist() == before
        x.setflags(write=True)
        WRITES[write](x)
    assert not base.flags.owndata or base.flags.writeable


def test_as_numpys(rng: np.random.Generator) -> None:
    """Who may write to what, whatever is made read-only first, a view or what it is a view of."""
    for _ in range(60):
        steps = [(int(rng.integers(4)), bool(rng.random() < 0.5), int(rng.integers(3))) for _ in range(8)]
        told = []
        for xp in (np, wf):
            made, said = [xp.zeros(6, "int64")], []
            for action, flag, which in steps:
                x = made[which % len(made)]
                try:
                    if action == 0 and len(made) < 6:
                        made.append(x[1:] if flag and len(x) > 1 else x[:])
                    elif action == 1:
                        x.flags.writeable = flag
                    elif action == 2:
                        x.setflags(write=flag)
                    else:
                        x[0] += 1
                    said.append("done")
                except ValueError:
                    said.append("refused")
            told.append((said, [(a.tolist(), a.flags.writeable) for a in made]))
        assert told[0] == told[1], steps


def test_what_reads_it_goes_on() -> None:
    x = wf.arange(3.0)
    x.flags["WRITEABLE"] = False
    double = wf.jit(lambda a: a * 2)
    assert double(x).tolist() == (x + x).tolist() == double(wf.arange(3.0)).tolist() == [0, 2, 4]
    assert wf.grad(lambda a: (a * a).sum())(x).tolist() == wf.vmap(lambda a: 2 * a)(x).tolist() == [0, 2, 4]
    assert isinstance(x, wf.ndarray) and x[1:].base is x and memoryview(x).tolist() == np.asarray(x).tolist() == [0, 1, 2]
    for other in (x.copy(), x + 0, copy.deepcopy(x), pickle.loads(pickle.dumps(x)), wf.array(x)):
        other[0] = 5.0
    assert x.tolist() == [0, 1, 2]


def test_a_jitted_function_that_wrote_others_refuses_it() -> None:
    write = wf.jit(lambda a: a.fill(7.0))
    free, fixed = wf.zeros(2), wf.zeros(2)
    write(free), write(free)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        write(fixed)
    assert free.tolist() == [7, 7] and fixed.tolist() == [0, 0]


def test_flags_that_cannot_be_set() -> None:
    x = wf.zeros(3)
    for name in ("owndata", "c_contiguous", "fnc"):
        with pytest.raises(AttributeError, match=f"flags: {name} describes the memory layout"):
            setattr(x.flags, name, True)
    with pytest.raises(ValueError, match="uic=True cannot be set"):
        x.setflags(uic=True)
    with pytest.raises(ValueError, match="flags of a Scalar cannot be set"):
        x.sum().setflags(write=True)
    with pytest.raises(KeyError, match="there is no 'warm'"):
        x.flags["warm"]
    with pytest.raises(TraceError, match="inside a traced function"):
        wf.jit(lambda a: a.setflags(write=False))(x)
    assert x.flags["C"] and x.flags["CONTIGUOUS"] and x.flags.aligned and not x.flags.fnc and "WRITEABLE : True" in repr(x.flags)


def test_the_class_is_called_as_numpys() -> None:
    raw, numbers = bytes(range(16)), wf.arange(4, dtype="int32")
    for call in (
        lambda xp: xp.ndarray((2, 2), "int32", raw), lambda xp: xp.ndarray(3, ">u2", raw, 2),
        lambda xp: xp.ndarray(shape=(2, 2), dtype="uint8", buffer=raw, strides=(1, 4)),
        lambda xp: xp.ndarray((2, 2), "uint8", raw, order="F"),
    ):
        assert call(wf).tolist() == call(np).tolist()
    made = wf.ndarray((2, 3))
    assert made.shape == (2, 3) and made.dtype == "float32" and type(made) is wf.ndarray
    seen = wf.ndarray((2, 1), "int32", numbers, offset=8)
    seen[0] = 9
    assert numbers.tolist() == [0, 1, 9, 3]
    with pytest.raises(TypeError, match="buffer is too small"):
        wf.ndarray((2, 2), "float64", raw)
    with pytest.raises(TypeError, match="make arrays with wf.array"):
        wf.Array((2, 2))


def test_classes_made_from_it_and_what_cannot_be_set() -> None:
    class Info(wf.ndarray):
        pass

    x = wf.arange(4)
    assert x.view(wf.ndarray).base is x and x.view(np.ndarray).base is x and x.view("uint8", wf.ndarray).shape == (32,)
    for make in (lambda: x.view(Info), lambda: Info((2,)), lambda: x.view(type=np.matrix)):
        with pytest.raises(TypeError, match="weft makes no arrays of the class (Info|matrix)"):
            make()
    for name, value in (("shape", (2, 2)), ("dtype", "float64")):
        with pytest.raises(AttributeError, match=r"cannot be set, here to .* x = x.reshape\(shape\).* wf.resize\(x, shape\)"):
            setattr(x, name, value)
    with pytest.raises(AttributeError, match=r"cannot be set, here to \(2, 2\).* wf.resize\(x, shape\)"):
        x.resize(2, 2)
