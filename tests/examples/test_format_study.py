"""``examples/formats.py`` on one format: 8 bits learn, and so do gradients of 4 bits if they are rounded stochastically."""

from __future__ import annotations

from seeds import load


def test_formats(capsys, tmp_path) -> None:
    picture = tmp_path / "formats.png"
    module = load("formats", ".")
    errors = module.main(["--epochs", "4", "--seeds", "1", "--formats", "float4_e2m1fn", "--plot", str(picture)])
    assert errors["float4_e2m1fn", "stochastic", "gradients"] < 25 < errors["float4_e2m1fn", "nearest", "all"]
    assert "float4_e2m1fn" in capsys.readouterr().out and picture.read_bytes()[:4] == b"\x89PNG"
