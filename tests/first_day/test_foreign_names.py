"""Names and keywords of PyTorch, Keras and JAX, and misspelled ones: the error has weft's spelling."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from typing import Any

import pytest

import weft as wf
from weft.process import foreign_names, keyword_checks
from weft.process.completion import complete_message

OWNERS: dict[str, tuple[Any, dict[str, str]]] = {
    "array": (wf.ones(2), foreign_names.ARRAY), "scalar": (wf.ones(2).sum(), foreign_names.ARRAY),
    "module": (wf.nn.Linear(2, 2), foreign_names.MODULE | foreign_names.FLAGS),
    "sequential": (wf.nn.Sequential(), foreign_names.SEQUENTIAL), "optimizer": (wf.optim.SGD(0.1), foreign_names.OPTIMIZER),
}


def find(path: str) -> Any:
    """Return what a dotted name such as wf.nn.Linear means."""
    value: Any = wf
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("module", foreign_names.MODULES)
def test_names_of_modules(module: str) -> None:
    owner = find("wf" + module.removeprefix("weft"))
    for name, spelling in foreign_names.MODULES[module].items():
        with pytest.raises(AttributeError, match=re.escape(f"{name!r}; in weft: {spelling}")):
            getattr(owner, name)
        assert not hasattr(owner, name)
        with pytest.raises(ImportError, match=re.escape(f"cannot import name {name!r} from {module!r}; in weft: {spelling}")):
            exec(f"from {module} import {name}")
    assert not {*dir(owner)} & foreign_names.MODULES[module].keys()


@pytest.mark.parametrize("kind", OWNERS)
def test_names_of_objects(kind: str) -> None:
    owner, names = OWNERS[kind]
    for name, spelling in names.items():
        with pytest.raises(AttributeError, match=re.escape(f"{name!r}; in weft: {spelling}")):
            getattr(owner, name)
        assert not hasattr(owner, name)
    assert not {*dir(owner)} & names.keys()


def test_spellings_exist() -> None:
    tables = [*foreign_names.MODULES.values(), *(names for _, names in OWNERS.values()), foreign_names.REFUSED]
    for text in (spelling for names in tables for spelling in names.values()):
        for path in re.findall(r"\bwf(?:\.\w+)+", text):
            find(path)
        for name in re.findall(r"\bmodel\.(\w+)\(", text):
            assert hasattr(wf.nn.Sequential, name), name
        for name in re.findall(r"\boptimizer\.(\w+)\(", text):
            assert hasattr(wf.optim.Adam, name), name
        for name in re.findall(r"\bx\.(\w+)\(", text):
            assert hasattr(wf.ndarray, name), name


@pytest.mark.parametrize("code, advice", [
    ("wf.matmull", "wf.matmul"), ("wf.random.norml", "wf.random.normal"), ("wf.nn.Linaer", "wf.nn.Linear"),
    ("wf.optim.adam", "wf.optim.Adam"), ("wf.losses.cross_entropi", "wf.losses.cross_entropy"),
    ("wf.train.fitt", "wf.train.fit"), ("wf.linalg.solv", "wf.linalg.solve"),
])
def test_misspelled_names(code: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"Did you mean {advice}?")):
        find(code)


@pytest.mark.parametrize("statement, message", [
    ("import weft.nn.functional as F", "No module named 'weft.nn.functional'; in weft: wf.nn and wf.losses"),
    ("import weft.numpy as jnp", "No module named 'weft.numpy'; in weft: wf itself"),
    ("from weft.utils.data import DataLoader", "No module named 'weft.utils'; in weft: wf.data for loaders"),
    ("from weft.optim.lr_scheduler import StepLR", "'weft.optim.lr_scheduler'; in weft: schedule="),
    ("import weft.distributed", "No module named 'weft.distributed'; in weft: wf.dist"),
    ("from weft.nn import ReLU, Linaer", "cannot import name 'Linaer' from 'weft.nn'. Did you mean wf.nn.Linear?"),
    ("from weft import jit, nothing_like_it", "cannot import name 'nothing_like_it' from 'weft'"),
    ("import weft.nothing", "No module named 'weft.nothing'"),
])
def test_imports(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=re.escape(message)):
        exec(statement)


def test_names_that_load_on_use_are_listed() -> None:
    for package in (wf.dist, wf.ode, wf.optim):
        names = [name for name in dir(package) if not name.startswith("__")]
        assert sorted(names) == sorted(package.__all__) and all(hasattr(package, name) for name in names)
    assert importlib.util.find_spec("weft.nothing") is None


def test_assignments_that_would_do_nothing() -> None:
    net, optimizer = wf.nn.Sequential(wf.nn.Linear(2, 2)), wf.optim.Adam()
    weight = net[0].weight
    for owner, name in ((net, "trainable"), (net[0], "requires_grad"), (weight, "requires_grad"), (optimizer, "learning_rate")):
        with pytest.raises(AttributeError, match=f"{name!r}; in weft: "):
            setattr(owner, name, 0.0)


def test_a_class_may_use_the_names() -> None:
    class Net(wf.nn.Module):
        def fit(self) -> int:
            return 1

        def __init__(self, units: int) -> None:
            super().__init__()
            self.params, self.weights = units, 2

    assert (Net(units=3).params, Net(3).weights, Net(3).fit()) == (3, 2, 1)

    class Passes(wf.nn.Module):
        def __init__(self, **options: Any) -> None:
            super().__init__()
            self.inner = wf.nn.Linear(2, 2, **options)

    assert Passes(bias=False).inner.bias is None
    with pytest.raises(TypeError, match="Linear: unexpected keyword argument 'use_bias'; in weft: bias="):
        Passes(use_bias=False)


def test_constructors_take_the_keywords_of_their_signatures() -> None:
    for owner in (wf.nn, wf.optim, wf.train, wf.data):
        for name in owner.__all__:
            cls = getattr(owner, name)
            accepted = keyword_checks.accepted_keywords(cls) if isinstance(cls, type) else None
            if accepted is not None:
                parameters = inspect.signature(cls).parameters.values()
                assert {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)} <= {*accepted}, name


CONSTRUCTED = {  # at the call
    "wf.optim.Adam(learning_rate=1e-3)": "Adam.*'learning_rate'; in weft: lr=",
    "wf.optim.AdamW(weight_dcay=1)": "AdamW.*Did you mean weight_decay=",
    "wf.optim.SGD(lr=1, params=[])": "'params'; in weft: optimizer.update takes the model",
    "wf.nn.Linear(3, 4, use_bias=False)": "Linear.*in weft: bias=",
    "wf.nn.Dropout(rate=0.5)": "Dropout.*in weft: p=",
    "wf.nn.Linear(3, 4, activation='relu')": "'activation'; in weft: add a layer",
    "wf.nn.Linear(3, 4, nonsense=1)": "'nonsense'; it takes in_features",
    "wf.train.fit(net, x, y, validation_split=0.1)": "fit.*in weft: validation=",
    "wf.train.fit(net, x, y, verbose=1)": "in weft: show=",
    "wf.train.fit(net, x, y, epoch=3)": "Did you mean epochs=",
}
DISPLAYED = {  # by Python or IPython, and inside of jit and of modules
    "x.sum(dim=1)": "'dim'; in weft: axis=", "wf.sum(x, keepdim=True)": "in weft: keepdims=",
    "wf.mean(x, axs=0)": "Did you mean axis=", "wf.concat([x, x], dim=1)": "in weft: axis=",
    "(x + x).max(dim=0)": "in weft: axis=", "wf.vmap(wf.sum, in_dims=0)": "in weft: in_axes=",
    "wf.nn.relu(x, inplace=True)": "in weft: leave it out",
    "wf.zeros((2, 3), requires_grad=True)": "in weft: wf.grad", "wf.linspace(0, 1, num_points=3)": "in weft: num=",
}


@pytest.mark.parametrize("code", CONSTRUCTED)
def test_keywords_at_the_call(code: str) -> None:
    names = {"wf": wf, "net": wf.nn.Linear(2, 2), "x": wf.ones((2, 2)), "y": wf.zeros(2, dtype="int32")}
    with pytest.raises(TypeError, match=CONSTRUCTED[code]):
        eval(code, names)


def run(code: str, function: Any = lambda f: f, **names: Any) -> None:
    """Run a line in a file of its own, so that its source can be found."""
    import linecache

    linecache.cache["first_day"] = (len(code), None, [code + "\n"], "first_day")
    compiled = compile(code, "first_day", "eval")
    function(lambda x: eval(compiled, {"wf": wf, "x": x, **names}))(wf.ones((2, 2)))


@pytest.mark.parametrize("code", DISPLAYED)
def test_keywords_when_displayed_or_traced(code: str) -> None:
    with pytest.raises(TypeError) as caught:
        run(code)
    if sys.version_info < (3, 12):
        complete_message(caught.value)
    complete_message(caught.value)  # a second time adds nothing
    assert re.search(DISPLAYED[code], str(caught.value)) and str(caught.value).count("in weft") < 2
    for transform in (wf.jit, wf.nn.Lambda, wf.grad, wf.vmap, lambda f: lambda x: wf.fori_loop(0, 2, lambda k, x: f(x), x)):
        with pytest.raises(TypeError, match=DISPLAYED[code]):
            run(code, transform)


def test_keywords_of_other_functions_are_left_alone() -> None:
    def sum(x: Any) -> None:  # noqa: A001
        raise AssertionError

    for code, names in (("sum(x, dim=1)", {"sum": sum}), ("f.sum(x, dim=1)", {"f": type("f", (), {"sum": staticmethod(sum)})})):
        with pytest.raises(TypeError) as caught:
            run(code, **names)
        complete_message(caught.value)
        assert "weft" not in str(caught.value)
