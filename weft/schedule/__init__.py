"""How a graph is computed: in how few kernels, in which order, in which memory.

``view`` knows who reads whom, ``groups`` joins nodes into kernels while ``structure`` finds loops for them, ``lower`` and
``expand`` write a group down as a kernel, ``forms`` remembers both for groups that are alike, ``build`` makes the Program:
steps, slots, one arena. ``reasons`` says why two kernels are two.

Of a device it knows its ``Target`` only; code, threads and addresses come later (``weft.devices``).
"""
