"""Per-thread state, mutable cells, pending work, and running a graph on a device."""
