"""Computing nodes: at once where the work is small, else when they are read."""
