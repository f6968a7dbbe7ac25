"""Loop nests for all kernels but products and convolutions, and for the parts around those.

``loop_plan`` chooses for each part of a kernel the vector axis, the chunks for threads and the loop shape; ``kernel`` emits the
parts one after another. ``tiles``: vectors along a shared axis; ``row_reductions``: vectors along the stages' own innermost axis;
``column_reductions``: sums down columns; ``row_scratch``: values that a row computes once and keeps.
"""
