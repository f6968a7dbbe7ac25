"""Array creation: filled arrays, ranges, identity and triangular matrices."""
