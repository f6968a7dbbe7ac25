"""Functions whose sizes are arguments: products, sums and element-wise functions that need no compilation for a new shape.

Each has the bits of the kernels that are compiled for one shape: sums in the same ``Order``, the same instructions an element.
They are called as kernels are, with an array of 8-byte words: addresses, extents, strides.
"""

# of products: room that copies of an operand need, in bytes a step of the sum (two of the widest registers); up to so many steps
# they lie on the stack, for more the caller gives memory
SCRATCH, NEAR = 128, 512
