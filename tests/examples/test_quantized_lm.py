"""``examples/quantized_lm.py`` on a short text: 8 bits lose almost nothing, and files have the bytes of the codes."""

from __future__ import annotations

from seeds import load


def test_quantized_language_model(capsys, tmp_path) -> None:
    (tmp_path / "text.md").write_text("the quick brown fox jumps over the lazy dog, and the dog sleeps. " * 300)
    module = load("quantized_lm", ".")
    found = module.main(["--folder", str(tmp_path), "--width", "128", "--context", "8", "--tokens", "5"])
    perplexity, size, speed = found["float32"]
    assert perplexity < 3 and speed > 0
    for name, (its, bytes_, _) in found.items():
        assert its < perplexity * (1.02 if "int8" in name.split(",")[0] else 1.3), name
        assert bytes_ < size / {"f": 0.9, "i": 2.5, "m": 2.5}[name[0]], name
    assert "mxfp4" in capsys.readouterr().out
