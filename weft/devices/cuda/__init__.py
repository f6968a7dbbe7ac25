"""NVIDIA GPUs, programmed through Triton: each part of a kernel is printed as Triton source text, which is one launch.

``generate`` prints kernels. ``arguments``, ``formats``, ``machine_operations``, ``tile_expressions`` and ``library``
write expressions; ``tiles``, ``row_reductions``, ``split_work``, ``scatter``, ``product``, ``tile_choices`` and ``attention``
write launches. Only ``adapter`` and ``emission`` use Triton: they compile a text, with or without a card, or interpret it over
host memory. ``simulator`` is the device ``gpu-sim``, which interprets; ``device`` is ``gpu``, which launches through ``nvidia``.
Triton is imported when the first kernel is compiled or run.
"""
