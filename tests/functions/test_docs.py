"""Every exported name is there, documented, and its example runs."""

import doctest
import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest

import weft as wf

NAMES = sorted(wf._HOME)
DATA = (bool, np.bool_, tuple, dict)  # constants say what they are by what they hold
FUNCTIONS = [n for n in NAMES if wf._HOME[n].startswith("weft.functions.") and not isinstance(getattr(wf, n), DATA)]
OWN = {
    f"{m}.{n}": getattr(wf, m).__name__
    for m in ("emath", "random", "linalg", "fft")
    for n in getattr(wf, m).__all__ if not inspect.isclass(getattr(getattr(wf, m), n))
}


@pytest.mark.parametrize("name", FUNCTIONS + sorted(OWN))
def test_example_runs(name: str) -> None:
    function = wf
    for part in name.split("."):
        function = getattr(function, part)
    assert callable(function) or hasattr(function, "__getitem__")  # as wf.r_[...] is
    document = inspect.getdoc(function)
    assert document and ">>> " in document, f"{name} has no example"
    test = doctest.DocTestParser().get_doctest(document, {}, name, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("module", sorted(m for m in wf._NAMES if m.startswith("weft.functions.")))
def test_public_functions_are_exported(module: str) -> None:
    found = importlib.import_module(module)
    public = [
        n
        for n, f in vars(found).items()
        if inspect.isroutine(f) and not n.startswith("_") and f.__module__ == module and n not in HELPERS
    ]
    listed = {*getattr(found, "__all__", ()), *getattr(importlib.import_module(module.rpartition(".")[0]), "__all__", ())}
    missing = [n for n in public if wf._HOME.get(n) != module and n not in listed]
    assert not missing, f"name them at {module!r} in _NAMES of weft/__init__.py, then run: python tools/stub.py"


HELPERS = {
    "accumulate", "asked", "at", "binary", "describe", "diagonal_number", "equip", "line_of", "lower_mask", "outer", "reduce",
    "reduceat", "running", "scalar_of", "special", "sum_of", "unary", "weighted_quantiles", "weights_along",
}


def test_array_is_the_function_whatever_is_imported() -> None:
    import weft.array  # noqa: F401

    assert callable(wf.array) and inspect.isclass(wf.Array)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'nothing'"):
        _ = wf.nothing
    assert "einsum" in dir(wf) and "random" in dir(wf)


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, weft; print([m for m in sys.modules if m.split('.')[0] in "
        "('numpy', 'llvmlite', 'optree', 'rich', 'ml_dtypes', 'opt_einsum') "
        "or m.startswith('weft.process.') and m.split('.')[-1] not in ('import_hook', 'platform_check', 'signals', 'tracebacks') "
        "or m.startswith('weft.') and not m.startswith('weft.process')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", wf.__all__)
def test_every_name_is_there(name: str) -> None:
    getattr(wf, name)
