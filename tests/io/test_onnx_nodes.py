"""weft runs ONNX's own tests. Those listed in ``onnx_unsupported.txt``, each with a reason, must fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_cases import OPERATORS, cases_of, is_random, run_case, run_stored, stored_models, unsupported

MODELS = [*stored_models()]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator: str) -> None:
    failed = {}
    for case in cases_of(operator):
        try:
            run_case(case)
        except Exception as error:
            failed[case.name] = f"{type(error).__name__}: {error}"
    names = {case.name for case in cases_of(operator)}
    listed = {name for name in unsupported().keys() & names if not is_random(name)}
    assert not {name: text for name, text in failed.items() if name not in listed}
    assert not listed - failed.keys(), "these cases pass: remove them from onnx_unsupported.txt"


@pytest.mark.parametrize("folder", MODELS, ids=lambda f: f.name)
def test_stored_model(folder: Path) -> None:
    if folder.name not in unsupported():
        run_stored(folder)
        return
    with pytest.raises(Exception, match="weft ha|does not have"):
        run_stored(folder)


def test_each_listed_case_exists_and_has_a_reason() -> None:
    names = {case.name for operator in OPERATORS for case in cases_of(operator)} | {folder.name for folder in MODELS}
    assert unsupported().keys() <= names
    assert all(unsupported().values())
