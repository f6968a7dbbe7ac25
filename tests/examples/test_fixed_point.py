"""``examples/fixed_point.py``: parameters in fixed point change only if they are rounded stochastically."""

from __future__ import annotations

from seeds import load


def test_fixed_point(capsys, tmp_path) -> None:
    picture = tmp_path / "fixed_point.png"
    errors = load("fixed_point", ".").main(["--data", "digits", "--epochs", "8", "--lr", "0.03", "--plot", str(picture)])
    stochastic, nearest = (errors[f"8 of 16 bits are fraction, {r}"][-1] for r in ("stochastic", "nearest"))
    assert stochastic < errors["float32"][-1] + 10 and nearest > 60
    assert "stochastic" in capsys.readouterr().out and picture.read_bytes()[:4] == b"\x89PNG"
