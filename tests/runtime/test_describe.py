"""The figures of `weft info` are measured and of the right size."""

from __future__ import annotations

from pathlib import Path

from handmade import device


def test_describe(tmp_path: Path) -> None:
    be = device(tmp_path, threads=2)
    plain = be.describe()
    assert plain["threads"] == 2 and plain["cache_folder"] == str(tmp_path)
    assert plain["versions"]["llvmlite"] and plain["vector_bits"] in (128, 256, 512)
    assert "fma_peak_flops" not in plain
    measured = be.describe(measure=True)
    assert 1e9 < measured["fma_peak_flops"] < 1e12
    assert 1e8 < measured["copy_bytes_per_second"] < 1e12
