"""The programs of ``examples/ode`` find their unknowns, with fewer steps than by default."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from seeds import EXAMPLES, load


def losses(out: str) -> list[float]:
    """Return the losses that a program printed."""
    return [float(x) for x in re.findall(r"^step .*(?:loss|squares) (\S+)", out, re.MULTILINE)]


def is_picture(path: Path) -> bool:
    return path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size < 60_000


def test_predator_prey_finds_the_rates(capsys, tmp_path) -> None:
    module, picture = load("predator_prey", "ode"), tmp_path / "prey.png"
    p = module.main(["--iterations", "120", "--plot", str(picture)])
    out = capsys.readouterr().out
    for name, true in module.TRUE.items():
        assert float(p[name]) == pytest.approx(true, rel=0.1), out
    far = np.linspace(0, 12, 25)
    error = np.abs(np.asarray(module.solve(module.model, p, far)) - np.asarray(module.solve(module.true, module.TRUE, far))).max()
    assert error < 1 and losses(out)[-1] < 0.05 * losses(out)[0] and is_picture(picture)


def test_pendulum_finds_the_friction_within_its_error(capsys, tmp_path) -> None:
    module, picture = load("pendulum", "ode"), tmp_path / "pendulum.png"
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    found, errors = module.main(["--seed", str(seed), "--plot", str(picture)])
    deviations = (found - module.TRUE.numpy()) / errors
    assert found[0] == pytest.approx(0.15, rel=0.2) and np.abs(deviations).max() < 5, f"seed {seed}"
    shown = losses(capsys.readouterr().out)
    assert shown[-1] < 0.05 * shown[0] and is_picture(picture)


def test_robertson_finds_the_rates(capsys, tmp_path) -> None:
    module, picture = load("robertson", "ode"), tmp_path / "robertson.png"
    found = module.main(["--iterations", "6", "--plot", str(picture)])
    np.testing.assert_allclose(found, [0.04, 3e7, 1e4], rtol=0.02)
    shown = losses(capsys.readouterr().out)
    assert shown[-1] < 0.02 * shown[0] and is_picture(picture)


def test_all_programs_are_tested() -> None:
    assert {p.stem for p in (EXAMPLES / "ode").glob("*.py")} == {"predator_prey", "pendulum", "robertson"}
