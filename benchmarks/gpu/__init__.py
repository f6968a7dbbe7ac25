"""``weft bench gpu``: what a graphics card shows in eight minutes, each step in a process of its own that writes JSON.

``command`` gives each step its share of the time and starts ``__main__``, which runs the rows of one step and notes each in the
step's file (``record``). ``steps`` lists the steps; what they measure stands in a file each. ``timing`` takes times in turns,
``peers`` is PyTorch where it is installed, ``closeness`` says whether numbers are right, and ``samples`` are the programs of
single primitives, which the tests of the device use as well.
"""
