"""Programs written for NumPy from scratch: with another import line, and nothing else changed, they give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

FOLDER = Path(__file__).parents[1] / "examples" / "from_scratch"
IMPORT = "import numpy as np\n"
SMALL: dict[str, dict[str, int]] = {
    "attention": dict(length=7, d_model=16, n_head=2, blocks=1, tokens=4, steps=12),
    "convnet": dict(n=24, size=6, filters=2, epochs=2, batch_size=8),
    "fft_filter": dict(rate=400, size=16),
    "game_of_life": dict(size=20, generations=24, gun_generations=12),
    "kmeans": dict(points=60, clusters=3),
    "least_squares": dict(n=40, steps=60),
    "lstm": dict(n=3, steps=5, hidden=4, epochs=6),
    "mandelbrot": dict(width=40, height=30, max_iter=12),
    "min_char_rnn": dict(hidden_size=8, seq_length=6, iterations=24, n_sample=5),
    "n_body": dict(steps=30, n_planets=3),
    "pca": dict(n=40, features=4),
    "two_layer_net": dict(n=20, hidden=5, epochs=15),
    "word2vec": dict(copies=1, hidden_size=5, epochs=3),
}
# float32 against NumPy's float64: a share of each result's largest number, or so much where digits are lost by nature: difference
# quotients with h = 1e-4, decibels of what is nearly nothing, what is zero in exact numbers.
RTOL = 2e-5
ABSOLUTE = {
    ("attention", "future"): 0.0, ("two_layer_net", "numerical W1"): 3e-3, ("two_layer_net", "numerical b2"): 3e-3,
    ("fft_filter", "spectrogram"): 0.2, ("fft_filter", "after"): 2e-5, ("n_body", "angular"): 2e-7,
}



def results(name: str, library: str) -> dict[str, np.ndarray]:
    """What the program gives under ``library``; its arrays must be that library's."""
    path = FOLDER / f"{name}.py"
    text = path.read_text()
    assert text.count(IMPORT) == 1 and "weft" not in text
    space: dict[str, Any] = {"__name__": name}
    exec(compile(text.replace(IMPORT, f"import {library} as np\n"), str(path), "exec"), space)  # noqa: S102
    found = space["main"](**SMALL[name])
    kinds = {type(x).__module__.split(".")[0] for x in found.values()}
    assert library in kinds and kinds <= {library, "builtins"}, kinds
    return {key: np.asarray(x) for key, x in found.items()}


def test_every_program_is_run() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_the_import_line_is_all_that_changes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = results(name, "numpy")
    said = capsys.readouterr().out
    found = results(name, "weft")
    assert len(capsys.readouterr().out.splitlines()) == len(said.splitlines()) > 0
    assert list(found) == list(wanted)
    for key, want in wanted.items():
        got = found[key]
        assert (got.shape, got.dtype.kind) == (want.shape, want.dtype.kind), key
        if want.dtype.kind not in "fc":
            np.testing.assert_array_equal(got, want, key)
            continue
        scale = np.abs(want).max(initial=0)
        assert scale > 1e-4 or (name, key) in ABSOLUTE, key
        np.testing.assert_allclose(got, want, rtol=0, atol=ABSOLUTE.get((name, key), RTOL * scale), err_msg=key)


@pytest.mark.parametrize("name", SMALL)
def test_with_float64_as_the_default_digits_are_numpys_too(name: str) -> None:
    wanted = results(name, "numpy")
    with wf.default_dtype("float64"):
        found = results(name, "weft")
    for key, want in wanted.items():
        got = found[key]
        assert got.dtype == want.dtype or want.dtype.kind == "i" == got.dtype.kind, key
        scale = np.abs(want).max(initial=0)
        bound = 0 if want.dtype.kind != "f" else RTOL if name == "lstm" else 1e-9  # that one asks for float32 by name
        np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(scale, 1e-3), err_msg=key)
