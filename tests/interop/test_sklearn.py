"""scikit-learn with ``array_api_dispatch``: its estimators and metrics, by its own checks; and every estimator without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# what scikit-learn 1.9 has for array libraries; a later one may have more, and no fewer
ESTIMATORS = {
    "Binarizer", "FeatureUnion", "GaussianNB", "GridSearchCV", "KernelCenterer", "LabelEncoder", "LinearDiscriminantAnalysis",
    "LogisticRegression", "MinMaxScaler", "Normalizer", "Nystroem", "PCA", "PoissonRegressor", "PolynomialFeatures",
    "RandomizedSearchCV", "Ridge", "RidgeCV", "RidgeClassifierCV", "StandardScaler",
}
METRICS = 58
PLAIN = 190  # estimators at all; those without array libraries read weft's arrays as NumPy's


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", ["estimators", "plain", "metrics"])
def test_every_one(kind: str) -> None:
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("sklearn_checks.py")), kind], capture_output=True, text=True, timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    wrong = {name: said for name, said in found.items() if said}
    assert not wrong
    assert found.keys() >= ESTIMATORS if kind == "estimators" else len(found) >= {"plain": PLAIN, "metrics": METRICS}[kind]
