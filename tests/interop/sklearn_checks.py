"""scikit-learn's own checks of array libraries, on weft, in a process of their own: ``python sklearn_checks.py estimators``.

SciPy has to be told before it is imported. Prints one JSON object: what was checked, and what went wrong with it ("" where
nothing did). With ``all`` behind it every instance and check that scikit-learn has, otherwise one of each estimator and metric.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import SkipTest

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np  # noqa: E402
import sklearn  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.preprocessing import LabelEncoder  # noqa: E402
from sklearn.utils import get_tags  # noqa: E402
from sklearn.utils._test_common.instance_generator import _construct_instances, _tested_estimators  # noqa: E402
from sklearn.utils.discovery import all_estimators  # noqa: E402
from sklearn.utils.estimator_checks import check_array_api_input  # noqa: E402

import weft as wf  # noqa: E402

READS_WRITABLE_MEMORY = ("additive_chi2_kernel", "chi2_kernel")  # their Cython refuses NumPy's own read-only arrays, too


def labels(estimator: LabelEncoder) -> None:
    """Its fit takes labels alone, which the common check does not know."""
    y = np.array([3, 1, 3, 2])
    with sklearn.config_context(array_api_dispatch=True):
        found = estimator.fit(wf.asarray(y))
        codes = found.transform(wf.asarray(y))
        back = found.inverse_transform(codes)
    assert all(isinstance(x, wf.Array) for x in (codes, back, found.classes_))
    assert codes.tolist() == [2, 0, 2, 1] and back.tolist() == y.tolist()


def estimators(every: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    met = set()
    for k, found in enumerate(_tested_estimators()):
        name = type(found).__name__
        if not get_tags(found).array_api_support or (name in met and not every):
            continue
        met.add(name)
        if isinstance(found, LabelEncoder):
            yield name, lambda e=found: labels(e)
            continue
        estimator = PCA(n_components=2, svd_solver="full") if isinstance(found, PCA) else found  # of all ten, some are noise
        yield (
            f"{name} {k}" if every else name,
            lambda e=estimator, n=name: check_array_api_input(n, e, "weft", "cpu", "float32", check_values=True),
        )


def plain(estimator: Any) -> None:
    """Fit an estimator that knows no array libraries with weft's arrays: it finds what it finds with NumPy's."""
    rng = np.random.default_rng(0)
    x = rng.random((40, 4))
    y = x @ [1.0, 2, 3, 4] if get_tags(estimator).estimator_type == "regressor" else (x[:, 0] > 0.5).astype(int)

    def answers(x: Any, y: Any) -> list[np.ndarray]:
        found = clone(estimator)
        if hasattr(found, "random_state"):
            found.set_params(random_state=0)
        found.fit(x, y)
        return [np.asarray(getattr(found, m)(x)) for m in ("predict", "transform", "decision_function") if hasattr(found, m)]

    try:
        wanted = answers(x, y)
    except (ValueError, TypeError, IndexError, AttributeError):
        return  # it takes other data
    for got, want in zip(answers(wf.array(x), wf.array(y)), wanted, strict=True):
        assert got.shape == want.shape and got.dtype.kind == want.dtype.kind
        if want.dtype.kind not in "OUS":
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def plain_estimators(every: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, kind in all_estimators():
        try:
            found = list(_construct_instances(kind))
        except SkipTest:
            continue  # a library that is not installed
        for k, estimator in enumerate(found if every else found[:1]):
            yield f"{name} {k}" if every else name, lambda e=estimator: plain(e)


def kernels(metric: Any) -> None:
    x, y = np.random.default_rng(0).uniform(0.1, 1, (2, 4, 3)).astype("float32")
    frozen = x.copy()
    frozen.setflags(write=False)
    try:
        metric(frozen, y)
    except ValueError as error:
        assert "read-only" in str(error)
    else:
        raise AssertionError("it reads what is read-only: leave it to scikit-learn's own check")
    with sklearn.config_context(array_api_dispatch=True):
        found = metric(wf.asarray(x), wf.asarray(y))
    assert isinstance(found, wf.Array)
    np.testing.assert_allclose(found, metric(x, y), rtol=1e-5)


def metrics(every: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    from sklearn.metrics.tests.test_common import array_api_metric_checkers

    for k, (metric, checks) in enumerate(array_api_metric_checkers.items()):  # some are another with arguments
        name = metric.__name__ if hasattr(metric, "__name__") else f"{metric.func.__name__} {k}"
        if name in READS_WRITABLE_MEMORY:
            yield name, lambda m=metric: kernels(m)
            continue
        for check in checks if every else checks[:1]:
            yield (
                f"{name} {check.__name__}" if every else name, lambda m=metric, c=check: c(m, "weft", "cpu", "float32"),
            )


def main(kind: str, every: bool) -> None:
    warnings.simplefilter("ignore")
    found = {}
    for name, check in {"estimators": estimators, "plain": plain_estimators, "metrics": metrics}[kind](every):
        try:
            check()
            found[name] = ""
        except Exception as error:  # reported: the caller says what must not be there
            found[name] = f"{type(error).__name__}: {error}"[:500]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], "all" in sys.argv)
