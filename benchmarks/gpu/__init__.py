"""``weft bench gpu``: tests and measures a graphics card in eight minutes, each step in a process of its own that writes JSON.

``command`` gives each step its share of the time and starts ``__main__``, which runs the rows of one step and writes each to the
step's file (``record``). ``steps`` lists the steps, each implemented in a file of its own. ``timing`` measures sides in turns,
``peers`` runs PyTorch if it is installed, ``closeness`` checks numbers, and ``samples`` has the programs of single primitives,
which the tests of the device use as well.

Each step is a process, and its file is complete after every row: an illegal address ends everything that a process can do on a
card.
"""
