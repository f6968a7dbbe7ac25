"""LLVM text of one expression at one iteration, or at neighbouring ones in vectors.

``text`` writes functions, blocks and loops; ``types`` and ``isa`` say what registers there are. ``machine`` turns one operation
into instructions, with ``math``, ``libm`` and ``philox`` for those that no instruction does. An ``env`` names what an iteration
has at hand, ``emit`` turns a Value into registers in it, and ``access``, ``address``, ``masks`` and ``store`` reach memory.

Loops are not made here: nest, product and convolution call this room, never the other way round.
"""
