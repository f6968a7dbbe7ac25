"""``examples/formats.py`` on one format: a net learns with gradients of 4 bits, and not with sums of 4 bits."""

from __future__ import annotations

from seeds import load


def test_formats(capsys, tmp_path) -> None:
    picture = tmp_path / "formats.png"
    module = load("formats", ".")
    arguments = ["--data", "digits", "--epochs", "8", "--formats", "float4_e2m1fn", "--plot", str(picture)]
    errors = module.main(arguments)
    assert errors["float4_e2m1fn", "stochastic", "gradients"] < 40 < errors["float4_e2m1fn", "nearest", "sums"]
    assert "float4_e2m1fn" in capsys.readouterr().out and picture.read_bytes()[:4] == b"\x89PNG"
