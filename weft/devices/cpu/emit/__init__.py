"""LLVM text of one expression, at one iteration or at neighbouring iterations in vectors.

``text`` builds functions, blocks and loops; ``types`` and ``isa`` describe the registers. ``machine_operations`` turns one
operation into instructions, with ``math`` and ``philox`` for functions that have no instruction. An Env (``emitter``) names the
axes, buffers and accumulators of an iteration, ``emit`` turns a Value into registers, and ``load``, ``affine`` and
``store`` access memory.

Loops are built in nest, product and convolution, which call this package; it never imports them.
"""
