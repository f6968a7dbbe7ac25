"""Computation of nodes: immediately if the work is small, else when they are read."""
