"""Scheduling: how many kernels compute a graph, in which order, and in which memory.

``fusion_graph`` finds the readers and sources of each node. ``groups`` merges nodes into kernels; ``group_structure`` finds the
loops of a group. ``lower`` and ``expand`` build the kernel of a group. ``group_cache`` caches verdicts and kernels of groups
with equal structure. ``build`` makes the Program: steps, slots and one arena. ``reasons`` holds the sentences that explain a
boundary.

The package depends on a device only through its ``Target``. Code, threads and addresses come later (``weft.devices``).
"""
