"""State of each thread, mutable cells, pending work, and running a graph on a device."""
