"""Graphics processors by way of Triton: each part of a kernel is printed as Triton text, which is one launch.

``generate`` prints kernels: ``text``, ``arguments``, ``values`` and ``machine`` are words and expressions, ``tiles``, ``maps``,
``rows``, ``partial``, ``scatter`` and ``product`` the shapes of launches. ``adapter`` is the only file that knows what is inside
Triton: it compiles a text for a card, without one, or interprets it over host memory. ``simulated`` is the device ``gpu-sim``,
which does the latter. Nothing of Triton is imported before a kernel is to be compiled or run.
"""
