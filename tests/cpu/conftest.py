"""Fresh random data for every run; the seed is printed when a test fails."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng(request) -> np.random.Generator:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    request.node.add_report_section("call", "seed", f"seed {seed}")
    return np.random.default_rng(seed)
