"""The gallery's programs run at a small size, and learn something."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from seeds import EXAMPLES

import weft as wf

FOLDER = EXAMPLES / "gallery"


def replace_sizes(program: ast.Module, sizes: dict[str, Any]) -> None:
    """Replace the numbers that a program assigns to these names."""
    missing = set(sizes)
    for statement in program.body:
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            for name, number in zip(target.elts, value.elts, strict=True) if both else [(target, value)]:
                if isinstance(name, ast.Name) and name.id in sizes:
                    number.value = sizes[name.id]
                    missing.discard(name.id)
    assert not missing, f"the program has no {missing}"


@pytest.fixture
def run(monkeypatch) -> Iterator[Callable[..., dict[str, Any]]]:
    """A function that runs a program with other sizes and a random seed, and returns its variables."""
    monkeypatch.setenv("MPLBACKEND", "agg")

    def run_program(name: str, seed: int | None = None, **sizes: Any) -> dict[str, Any]:
        path = FOLDER / f"{name}.py"
        monkeypatch.setattr("sys.argv", [str(path)])
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        print(f"seed {seed}")  # in a failure's report
        text, count = re.subn(r"wf\.random\.(seed|key)\(0\)", rf"wf.random.\1({seed})", path.read_text())
        assert count > 0
        program = ast.parse(text)
        replace_sizes(program, sizes)
        variables: dict[str, Any] = {"__name__": f"gallery_{name}"}
        exec(compile(program, str(path), "exec"), variables)
        return variables

    yield run_program
    import matplotlib.pyplot as plt

    plt.close("all")


def mean(losses: Any) -> float:
    return float(np.mean(np.asarray(losses)))


def test_digits(run) -> None:
    assert run("digits", EPOCHS=4)["accuracy"] > 0.85


def test_characters(run) -> None:
    found = run("characters", STEPS=60, BATCH=8, WIDTH=48)
    assert found["losses"][0] > 4 and mean(found["losses"][-10:]) < 3.5
    assert len(found["written"]) == 400 and found["probable"].shape == (8, 47)


def test_gpt(run) -> None:
    found = run("gpt", STEPS=45, LAYERS=2, WIDTH=32, BLOCK=32)
    assert found["losses"][0] > 4 and mean(found["losses"][-10:]) < 3.7 and found["unseen"] < 3.7
    assert len(found["written"]) == 600 and found["model"].wte.weight is found["model"].lm_head.weight


def test_vae(run) -> None:
    found = run("vae", STEPS=300)
    assert mean(found["losses"][-50:]) < 28.5 < mean(found["losses"][:20])
    assert found["codes"].shape == (1437, 2) and found["drawn"].shape == (16, 16, 10, 10)


def test_diffusion(run) -> None:
    found = run("diffusion", STEPS=1000, WIDTH=96)
    assert mean(found["losses"][-100:]) < 0.6
    assert found["drawn"].shape == (100, 64) and bool(wf.isfinite(found["drawn"]).all())


def test_physics(run) -> None:
    found = run("physics", STEPS=1000, FINE_STEPS=100, POINTS=300)
    assert found["fine"].loss < found["rough"].loss < 0.1
    assert np.abs(found["wave"] - found["exact"]).max() < 0.5


def test_spiral(run) -> None:
    found = run("spiral", STEPS=200, FINE_STEPS=100)
    first = float(found["loss"](found["model"]))
    assert found["fine"].loss <= found["rough"].best_loss < 0.5 * first and found["fine"].loss < 0.02 * first


def test_clusters(run) -> None:
    found = run("clusters", STARTS=10)
    assert float(found["errors"].min()) < 2.6 and found["right"] > 0.6
    np.testing.assert_allclose(found["flat"].var(axis=0), found["variances"][:-3:-1], rtol=1e-3)


def test_cart_pole(run) -> None:
    found = run("cart_pole", ROUNDS=15, CARTS=500, STEPS=100)
    assert found["stood"][0] < 40 and found["stood"][-1] > 60


def test_transfer(run) -> None:
    found = run("transfer", EPOCHS=10, STEPS=150)["accuracy"]
    assert mean(found["body that reads digits"][2:]) > 0.65


def test_gan(run) -> None:
    found = run("gan", STEPS=400)
    assert found["drawn"].shape == (40, 64)
    assert abs(mean(found["drawn"]) - mean(found["images"])) < 0.2  # untrained, it draws grey, 0.37 to 0.4 away


def test_segmentation(run) -> None:
    found = run("segmentation", STEPS=40, SIZE=16, SHAPES=2)
    assert mean(found["losses"][-5:]) < 0.8 * found["losses"][0] and found["right"] > 0.5


def test_graph(run) -> None:
    assert run("graph", STEPS=150, KNOWN=8)["right"] > 0.6


def test_words(run) -> None:
    found = run("words", EPOCHS=3)
    assert mean(found["losses"]) < 3.2 < 6 * np.log(2)  # the loss of vectors that say nothing
    norms = (found["vectors"] ** 2).sum(axis=1)
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    assert len(found["find_nearest"]("class")) == 6


def test_formats(run) -> None:
    found = run("formats", EPOCHS=2, WIDTH=32)
    assert found["exact"] < 50 and len(found["errors"]) == 32
    assert abs(found["errors"]["activations", "nearest", "8 bits (e4m3)"] - found["exact"]) < 10
    assert found["errors"]["gradients", "nearest", "4 bits (e2m1)"] > 60


def test_ranks(run, capfd, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("LOSSES_FOLDER", str(tmp_path))
    found = run("ranks", seed=0, STEPS=100)  # the ranks read the file
    assert found["losses"][-1] < 0.5 * found["losses"][0] and found["accuracy"] > 0.8
    for ranks in (2, 3):
        others = np.load(tmp_path / f"{ranks}.npy")
        np.testing.assert_allclose(others, found["losses"], rtol=1e-2)
    assert re.search(r"^\[0\] 3 rank", capfd.readouterr().out, re.M)


def test_every_program_is_tested() -> None:
    assert {f"test_{path.stem}" for path in FOLDER.glob("*.py")} <= globals().keys()
