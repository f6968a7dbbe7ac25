"""Loop nests: whatever is no product and no convolution, and what stands around them.

``plan`` chooses for each part of a kernel the axis for vectors, the chunks for threads and one of the shapes below; ``kernel``
puts the parts one after another. ``tiles``: vectors along a shared axis; ``rows``: vectors along the stages' own innermost axis;
``sheet`` and ``blocks``: sums down columns; ``early`` and ``staged``: what a row computes once and keeps.
"""
