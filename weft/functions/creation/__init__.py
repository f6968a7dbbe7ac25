"""New arrays: filled, ranges, identity and triangular matrices."""
